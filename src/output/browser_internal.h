/* SPDX-License-Identifier: GPL-2.0-only */
/* Declarations that the files of the browser's model share. */
#ifndef OUTPUT_BROWSER_INTERNAL_H
#define OUTPUT_BROWSER_INTERNAL_H

#include "output/browser.h"
#include "output/report_internal.h"

enum { BROWSER_FILTERS = 5 };

/* A row, or a function in a row's tree. Functions that follow one another without branching form a
 * run. The first entry of a run stands for the whole run; it opens and closes together with what
 * follows the last one. */
struct browser_entry {
    struct chain_branch branch; /* unused for a row */
    uint32_t row;               /* index in the report */
    uint32_t up;                /* parent entry; for a row: itself */
    uint32_t first, nr;         /* children: the rest of its run, then what follows the run */
    uint16_t level;             /* 0: the entry is a row */
    bool continued;             /* the entry is not the first of its run */
    bool more;                  /* the entry has something to open */
    bool deeper;                /* the tree goes on below, but is not shown */
    bool loaded, expanded;
};

struct browser_filter_entry {
    enum browser_filter kind;
    char *text; /* owned; NULL: a thread filter */
    uint32_t thread;
};

/* What is remembered of the lines while the data is replaced: identities of entries, since indexes
 * and pointers become others. */
struct browser_remembered {
    VEC(uint64_t) expanded; /* ascending */
    uint64_t at, row; /* of the line with the cursor, and of its row; 0: it is the first line */
    size_t line, below_top;
};

struct browser {
    struct report_options base;    /* options of the command line */
    struct report_options options; /* `base` changed by the view and the filters */
    struct browser_data data;
    size_t view;
    bool modules;                                         /* call trees show modules */
    bool keeps_least, needs_lines;                        /* of what the data keeps apart */
    struct browser_filter_entry filters[BROWSER_FILTERS]; /* oldest first */
    size_t nr_filters;
    const char *names[2]; /* strings that the lists in `options` point to */

    uint16_t event;
    struct report *report;
    struct chains *chains;
    struct report_section section;
    bool has_section;

    VEC(struct browser_entry) entries;
    uint32_t *row_entry; /* for each row of the report: entry + 1 */
    VEC(uint32_t) lines; /* the visible entries, in order */
    size_t at, top;
    struct browser_remembered remembered;
    unsigned columns; /* of the screen; 0: not known */
};

/* browser.c: browser_rebuild() makes the report and all lines from the options again.
 * browser_choose_rows() only selects the report's rows again. */
int browser_rebuild(struct browser *b, struct error *err);
int browser_choose_rows(struct browser *b, struct error *err);

/* browser_view.c: compute the options from the view and the filters. */
void browser_compose(struct browser *b);

#endif
