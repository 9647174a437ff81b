/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A recording as one HTML file, which a browser shows without a network: flame graph, table,
 * callers and callees, a strip of time for each thread.
 */
#ifndef OUTPUT_HTML_H
#define OUTPUT_HTML_H

#include "output/export.h"
#include "output/source_file.h"
#include "output/traces.h"

struct html_options {
    const char *title; /* NULL: made from the recording's name */
    bool source;       /* the page holds source files with the weights of their lines */
    struct source_place sources;
    const struct traces *traces; /* what LuaJIT and V8 compiled; NULL: the page does not tell */
};

/* Write the page of a recording, and beside it the recording `base`, with which it is compared
 * (NULL: none). Returns -1 if memory is out. The caller checks `out` for write errors. */
int html_write(const struct export *e, const struct export *base,
               const struct html_options *options, FILE *out, struct error *err);

/* ---- html_data.c: what the page draws -------------------------------------------------------- */

/* A recording in the page's form. Columns of numbers are text in base 64, as source maps have them:
 * each digit has five bits of the number, lowest first, and the sixth bit says that more digits
 * follow. */
struct html_data {
    struct string_numbers strings;
    /* Functions, five numbers each: name and module (numbers of strings), file (1 + the same, 0:
     * unknown), line of its definition (0: unknown), and enum html_class. */
    struct text functions;
    /* Nodes of the tree of functions after the root. Each begins with its function << 2. Bit 0:
     * how far back its parent is follows; else the parent is the node before. Bit 1: its look
     * follows (tier | provenance << 3 | inlined << 5); else it is that of the function's last
     * node. */
    struct text nodes;
    uint32_t nr_functions, nr_nodes, nr_slices;
    uint64_t first, last; /* ns of the recording's clock */
    VEC(struct html_rows) rows;
    VEC(uint32_t) stacks; /* where they end: nodes of the profile. Two may end alike */
};

/* The samples of an event, summed by slice of time, thread and stack. Five numbers each: slices
 * since the row before, thread, node, number of samples << 3 | tier of the innermost managed frame,
 * and 0 if each of them weighs `each`, else 1 + the sum of their weights. (A node has one look for
 * all tiers in which its function ran.) */
struct html_rows {
    unsigned event;
    uint64_t samples, weight, each;
    uint32_t nr;
    struct text rows;
    struct text stacks; /* by row: its stack's index in html_data.stacks */
};

/* What a function is, as the page colours it and hides it from "only my code". */
enum html_class {
    HTML_PROCESS,
    HTML_UNKNOWN,
    HTML_KERNEL,
    HTML_NATIVE,
    HTML_GENERATED,
    HTML_LUA,
    HTML_JS,
    HTML_WASM,
    HTML_MANAGED,
    HTML_RUNTIME, /* a managed function that comes with its VM; those of Lua have no file */
};

/* `ret` is zeros, and is freed in any case. Returns -1 if memory is out. */
int html_data_make(const struct export *e, struct html_data *ret, struct error *err);
void html_data_free(struct html_data *d);

/* ---- html_source.c: source files ------------------------------------------------------------- */

struct html_source {
    const char *name; /* the program's, interned */
    struct source_file file;
    uint64_t weight; /* of the stacks that it is in, of all events */
};
struct html_sources {
    VEC(struct html_source) files; /* greatest weight first */
    uint64_t not_found;            /* files with weight that are not there */
    /* Which lines of these files a stack goes through, as paths in a tree: a line that a stack
     * comes to again is in its path once. Nodes after the root, three numbers each: how far back
     * the parent is, index of the file, line. */
    struct text lines;
    uint32_t nr_lines; /* nodes, with the root */
    /* By html_data.stacks, two numbers each: the path's inner end (0: no such line), and 0 if the
     * innermost frame is at no such line, else 1 + how many nodes further out its line is. */
    struct text stacks;
};

/* Find the files. `ret` is zeros, and is freed in any case. Returns -1 if memory is out. */
int html_sources_find(const struct export *e, const struct html_data *d,
                      const struct source_place *place, struct html_sources *ret,
                      struct error *err);
void html_sources_free(struct html_sources *s);
/* Append a number as struct html_data has them. */
void html_number(struct text *t, uint64_t value);

#endif
