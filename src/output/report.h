/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Prints text like that of perf report, from interned stacks: overhead by any of perf's sort keys,
 * with and without callees, and call trees.
 *
 * report_groups.c keeps apart what is specific to a sample (its VM's state, its trace).
 * report_rows.c adds up the rows. report_keys.c defines their keys, report_columns.c lays them out,
 * report_hierarchy.c below each other. report_chain.c draws a row's
 * call tree, report_stacks.c lists its stacks. report.c lays out the page.
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
    KEY_STATE,   /* what the program was doing (stacks/state.h) */
    KEY_TRACE,   /* the trace that ran, or that called the code that ran */
    KEY_TIME,    /* time slices of length `quantum` */
    KEY_PARENT,  /* the innermost function that `parent` matches */
    KEY_PACKAGE, /* where a function comes from: a package, a folder, a library */
    KEY_OWN,     /* the innermost function of the user's own code (report_groups.c) */
    KEY_HANDLER, /* the outermost one of Lua or JavaScript */
    KEY_REASON,  /* why a thread waited (perfdata/offcpu.h) */
    KEY_SYSCALL, /* in which system call */
    KEY_WAKER,   /* who woke it */
    KEY_SYMOFF,  /* the function, and the offset of the address in it */
    KEY_CGROUP,  /* the thread's control group */
    KEY_NR,
};

enum { REPORT_WIDTHS = KEY_NR + 4 };

enum report_graph {
    GRAPH_NONE,
    GRAPH_ABSOLUTE, /* perf's "graph": percentages of the whole */
    GRAPH_FRACTAL,  /* percentages of the caller (or callee) */
    GRAPH_FLAT,     /* no tree: each stack with its lines below each other */
    GRAPH_FOLDED,   /* each stack in one line */
};

/* What makes two places of a tree one. */
enum report_graph_key {
    GRAPH_OF_FUNCTIONS,
    GRAPH_OF_LINES,
    GRAPH_OF_ADDRESSES,
};

/* What stands before the branches of a tree. */
enum report_value {
    VALUE_PERCENT,
    VALUE_PERIOD,
    VALUE_COUNT, /* samples: the tree is one of samples, whatever their periods */
};

struct report_options {
    enum report_key keys[KEY_NR];
    unsigned nr_keys;
    unsigned nr_before; /* this many keys order the rows before their weight does */
    uint64_t quantum;   /* ns; for KEY_TIME */
    const regex_t *parent;
    const regex_t *ignore_callees; /* leave out what functions that match have called; NULL: no */
    double graph_percent;          /* smaller branches are not drawn, percent */
    double percent_limit;          /* smaller rows are not printed, percent */
    enum report_graph graph;
    enum report_value graph_value;
    enum report_graph_key graph_key;
    unsigned graph_limit; /* so many branches of each place, or stacks, are drawn; 0: all */
    unsigned nr_widths;
    unsigned widths[REPORT_WIDTHS]; /* of the columns, from the first on; 0: as needed */
    const char *separator;          /* between columns, which are not padded then; NULL: aligned */
    name_list comms, dsos, symbols; /* print only these rows; an empty list: all */
    const char *symbol_filter;      /* print only rows whose symbol contains it; NULL: all */
    const char *weight;             /* the name of what periods count (--weight); NULL: the event */
    enum weight_unit weight_unit;   /* of periods, if there is a name */
    unsigned threads; /* number of ljperf's threads to print with; 0: one. The text is the same */
    const char *machine; /* as the recording calls it: for names of system calls; NULL: not known */
    const struct session_lists *lists; /* for names of control groups; NULL: none are known */
    uint32_t thread;
    bool one_thread;    /* only rows of `thread`; stacks must keep threads apart */
    bool exclude_other; /* no rows for samples without a function that `parent` matches */
    bool children;      /* a function's share includes its callees */
    bool callers_first; /* trees grow from callers to callees */
    bool by_samples;    /* weigh by samples, not by periods */
    bool show_samples;  /* show these columns */
    bool show_period;
    bool hide_unresolved; /* leave out functions without a name everywhere */
    bool relative;        /* 100 % is the sum of the rows that pass the filters */
    bool bare;            /* only rows and trees, no comment lines */
    bool hierarchy;       /* rows below each other, by one key after the other */
};

/* Returns the sort key of this perf name; -1: there is no such key. */
int report_key(const char *name);
const char *report_key_names(void);
bool report_has_key(const struct report_options *o, enum report_key key);
/* Returns what the stacks must keep apart for these keys. */
struct stacks_options report_needs(const struct report_options *options);

/* One event of the recording, shown in the head of its section. */
struct report_event {
    const char *name;
    bool callchain; /* its samples have call chains */
};

/* Append what threads had counted when they ended, by event. */
int report_put_threads(const struct session_lists *s, const struct report_event *events,
                       size_t nr_events, struct text *out, struct error *err);

/* Append the whole report. `lost` is the number of samples lost while recording. */
int report_print(const struct stacks *s, const struct report_options *options,
                 const struct report_event *events, size_t nr_events, uint64_t lost,
                 struct text *out, struct error *err);

#endif
