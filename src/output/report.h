/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * perf report's text, from interned stacks: overhead by any of perf's sort keys, with and without
 * callees, and call trees.
 *
 * report_groups.c keeps apart what is one sample's (its VM's state, its trace), report_rows.c adds
 * up the rows, report_keys.c says what their keys are, report_chain.c draws a row's call tree,
 * report.c lays out the page.
 */
#ifndef OUTPUT_REPORT_H
#define OUTPUT_REPORT_H

#include "base/error.h"
#include "base/text.h"
#include "stacks/stacks.h"

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum report_key {
    KEY_COMM,
    KEY_DSO,
    KEY_SYM,
    KEY_THREAD,  /* perf calls it pid */
    KEY_PROCESS, /* perf calls it tgid */
    KEY_CPU,
    KEY_SRCLINE,
    KEY_SRCFILE,
    KEY_STATE,  /* what the program was at (stacks/state.h) */
    KEY_TRACE,  /* the trace that ran, or called what ran */
    KEY_TIME,   /* slices of `quantum` */
    KEY_PARENT, /* the innermost function that `parent` matches */
    KEY_NR,
};

enum report_graph {
    GRAPH_NONE,
    GRAPH_ABSOLUTE, /* perf's "graph": percentages of the whole */
    GRAPH_FRACTAL,  /* percentages of the caller (callee) */
};

struct report_options {
    enum report_key keys[KEY_NR];
    unsigned nr_keys;
    unsigned nr_before; /* so many of them order the rows, before their weight */
    uint64_t quantum;   /* ns, for KEY_TIME */
    const regex_t *parent;
    bool exclude_other; /* no rows of samples without such a function */
    bool children;      /* a function's share includes what it called */
    enum report_graph graph;
    bool callers_first;   /* trees grow from callers to callees */
    double graph_percent; /* smaller branches are not drawn */
    double percent_limit; /* smaller rows are not printed */
    bool show_samples;    /* columns */
    bool show_period;
    bool hide_unresolved;           /* no function without a name, anywhere */
    bool relative;                  /* percentages of the rows that pass the filters */
    bool bare;                      /* rows and trees only, no comment lines */
    const char *separator;          /* between columns, which then are not padded; NULL: aligned */
    name_list comms, dsos, symbols; /* rows to print; an empty list: all */
    const char *symbol_filter;      /* rows whose symbol contains it; NULL: all */
    bool one_thread;                /* rows of this thread, of stacks that keep threads apart */
    uint32_t thread;
    unsigned threads; /* of ours, to print with; 0: one. The text is the same */
};

/* perf's name of a sort key; -1: there is no such key. */
int report_key(const char *name);
const char *report_key_names(void);
bool report_has_key(const struct report_options *o, enum report_key key);
/* What the stacks must keep apart for these keys. */
struct stacks_options report_needs(const struct report_options *options);

/* One event of the recording, for its section's head. */
struct report_event {
    const char *name;
    bool callchain; /* its samples have call chains */
};

/* Append the whole report. `lost`: samples that were lost while recording. */
int report_print(const struct stacks *s, const struct report_options *options,
                 const struct report_event *events, size_t nr_events, uint64_t lost,
                 struct text *out, struct error *err);

#endif
