/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the browser's model share. */
#ifndef OUTPUT_BROWSER_INTERNAL_H
#define OUTPUT_BROWSER_INTERNAL_H

#include "output/browser.h"
#include "output/report_internal.h"

enum { BROWSER_FILTERS = 5 };

/* A row, or a function in its tree. Those that follow one another without branching are a run: the
 * first stands for all, and opens and closes with what follows the last. */
struct browser_entry {
    struct chain_branch branch; /* not of a row */
    uint32_t row;               /* of the report */
    uint32_t up;                /* entry; of a row: itself */
    uint32_t first, nr;         /* what opens below it: its run's others, then what follows them */
    uint16_t level;             /* 0: a row */
    bool continued;             /* not the first of its run */
    bool more;                  /* there is something to open */
    bool deeper;                /* there is more than is shown */
    bool loaded, expanded;
};

struct browser_filter_entry {
    enum browser_filter kind;
    char *text; /* own; NULL: of a thread */
    uint32_t thread;
};

struct browser {
    struct report_options base;    /* the command line's */
    struct report_options options; /* with the view and the filters */
    struct browser_data data;
    size_t view;
    bool modules;                                         /* named in trees */
    struct browser_filter_entry filters[BROWSER_FILTERS]; /* oldest first */
    size_t nr_filters;
    const char *names[2]; /* what the options' lists point to */

    uint16_t event;
    struct report *report;
    struct chains *chains;
    struct report_section section;
    bool has_section;

    VEC(struct browser_entry) entries;
    uint32_t *row_entry; /* of each row of the report: entry + 1 */
    VEC(uint32_t) lines; /* entries, as they are shown */
    size_t at, top;
};

/* browser.c: all lines anew, from the options; and only which rows there are. */
int browser_rebuild(struct browser *b, struct error *err);
int browser_choose_rows(struct browser *b, struct error *err);

/* browser_view.c: the options from the view and the filters. */
void browser_compose(struct browser *b);

#endif
