/* SPDX-License-Identifier: GPL-2.0-only */
/* What the readers of jitdump/ share: a jitcode is filled with loads, then indexed once. */
#ifndef JITDUMP_JITCODE_H
#define JITDUMP_JITCODE_H

#include "base/vec.h"
#include "jitdump/jitdump.h"

#include <stdatomic.h>

/* DEBUG_INFO of a function, as it stands in the file; its sorted rows are made when first asked
 * for, by whichever thread comes first. */
struct jit_rows;
struct jit_lines {
    const uint8_t *bytes;
    size_t size;
    uint64_t count;
    uint64_t base; /* address of the function's start in the rows' terms */
    bool swap;
    struct jit_lines *next; /* all of a jitcode's, for freeing */
    _Atomic(struct jit_rows *) rows;
};
void jit_lines_free(struct jit_lines *l);

/* A load, or a move: then the function is filled in when what stood at `old` is known. */
struct jit_load {
    uint64_t time;
    uint64_t old;
    uint32_t function;
    bool is_move;
};

/* A piece of a function's code, over [from, until), between bounds lo and hi. */
struct jit_piece {
    uint64_t from, until;
    uint32_t function, lo, hi;
};

struct jitcode {
    void *map; /* the file, mapped; NULL: not kept */
    size_t map_size;
    char *names; /* of a perf map's functions */
    VEC(struct jit_function) functions;
    VEC(struct jit_load) loads;
    struct jit_lines *lines;
    struct jit_loss loss;
    uint64_t first, last;
    uint32_t pid;
    bool tsc, timeless, swapped;

    /* The index: a segment tree over the addresses between neighbouring bounds. Node n's pieces,
     * ascending by time and never two at once, are numbered by node_pieces[first_piece[n]] up to
     * first_piece[n + 1]. */
    uint64_t *bounds;
    size_t nr_segments;
    VEC(struct jit_piece) pieces;
    uint32_t *first_piece, *node_pieces;
};

struct jitcode *jitcode_create(void);
/* A function of [start, start + size), which must not wrap; its load at `time`. NULL when memory
 * is out or there are too many. */
enum { FUNCTIONS_MAX = 1 << 24 };
struct jit_function *jitcode_add(struct jitcode *code, uint64_t start, uint64_t size, uint64_t time,
                                 struct error *err);
/* Order the loads in time, end what later ones overwrite, and build the index. Nothing may be
 * added afterwards. */
int jitcode_index_build(struct jitcode *code, struct error *err);

/* Map a regular file for reading. */
int jit_file_map(const char *path, void **bytes, size_t *size, struct error *err);

#endif
