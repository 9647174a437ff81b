/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the report share. */
#ifndef OUTPUT_REPORT_INTERNAL_H
#define OUTPUT_REPORT_INTERNAL_H

#include "base/intern.h"
#include "output/report.h"
#include "stacks/stacks_internal.h"

enum { ROW_NONE = UINT32_MAX, FUNCTION_NONE = UINT32_MAX };

/* One node of the tree, as the report needs it. Node 0 is the root; first-level nodes are groups.
 */
struct report_node {
    uint32_t function; /* FUNCTION_NONE of a group */
    uint32_t row, group;
    uint32_t height : 31;   /* nodes on the longest way down, itself included */
    uint32_t outermost : 1; /* no node above has the same row */
    uint64_t self;          /* period of the stacks that end here */
    uint64_t samples;
    uint64_t total; /* self and everything below */
    uint64_t inner; /* of total: stacks in which no node below has the same row */
};

/* What samples are kept apart by, beside their stack. */
struct report_group {
    struct stack_group of;
    uint32_t parent; /* function + 1; 0: none matches */
    uint16_t trace;  /* 0: none */
    uint8_t state;   /* enum stack_state */
    bool passes;     /* the filters */
};

/* One line of the report: everything that shares the sort keys. */
struct report_row {
    uint32_t group_class, function_class;
    uint32_t group, function; /* for the keys' text */
    uint64_t group_weight;    /* what the whole group had */
    uint32_t open;            /* innermost node of this row on the way down; 0: none */
    uint32_t height;
    uint64_t self, samples, children;
};

/* Samples of one group that have frames which are not exact. */
struct report_doubt {
    uint64_t joined, guessed;
};

struct report {
    const struct stacks *stacks;
    const struct report_options *options;
    struct intern *strings;
    const struct stack_node *source; /* the tree: the stacks' own, or one of the next two */
    size_t nr_source;
    struct stack_tree regrouped, resolved;
    VEC(struct report_group) groups;

    /* Behind each node stands all that is below it: its first child is the next one, if it has any,
     * and the next sibling of a child stands at the child's end. Parents and ends stand apart from
     * the nodes, close together: trees are drawn by going from one to the next. */
    struct report_node *nodes;
    uint32_t *parents;
    uint32_t *ends; /* index behind the last node below */
    VEC(struct report_row) rows;
    uint32_t *row_slots; /* row + 1; 0: free */
    size_t nr_row_slots;
    uint32_t *group_class;    /* of each group: equal for equal keys */
    uint32_t *function_class; /* of each function, and behind the last: of no function */
    uint32_t *chain_class;    /* of each function: equal for those a call tree shows as one */
    bool *function_passes;    /* of each function, and behind the last: of no function */
    size_t nr_functions;
    struct report_doubt *doubts; /* of each group */

    uint32_t *row_first; /* nodes of row r: row_nodes[row_first[r]] .. [row_first[r + 1]] */
    uint32_t *row_nodes;
};

/* report_rows.c */
int report_create(const struct stacks *s, const struct report_options *options, struct report **ret,
                  struct error *err);
void report_free(struct report *r);
/* What a row counts for in the order. */
uint64_t report_row_weight(const struct report *r, const struct report_row *row);
uint16_t report_row_event(const struct report *r, const struct report_row *row);
const char *report_base_name(const char *path);
/* A function's module as rows show it: the file's name; of a managed frame the whole path, since
 * file names (init.lua) say little there. */
const char *report_module(const struct function *f);
/* The function's name as rows (`row`) or trees show it. */
void report_put_function(struct text *t, const struct function *f, bool row);
/* By name, module and address: the order of ties. */
int report_compare_functions(const struct function *a, const struct function *b);

/* report_groups.c: the groups, and a tree of its own where samples of one group are kept apart. -1:
 * memory is out. After chain_class. */
int report_make_groups(struct report *r);

/* report_keys.c */
const struct function *report_row_function(const struct report *r, const struct report_row *row);
const struct report_group *report_row_group(const struct report *r, const struct report_row *row);
const char *report_key_title(enum report_key key);
/* The key's text in its column. */
void report_put_key(struct text *t, const struct report *r, const struct report_row *row,
                    enum report_key key);
int report_compare_key(const struct report *r, const struct report_row *a,
                       const struct report_row *b, enum report_key key);
/* By everything that may differ between rows: the order of ties. */
int report_compare_rows(const struct report *r, const struct report_row *a,
                        const struct report_row *b);
/* Whether the filters let a function's (NULL: no frame's) or a group's rows through. */
bool report_function_passes(const struct report_options *o, const struct function *f);
bool report_group_passes(const struct report_options *o, const struct report_group *g);

/* report.c: one event's rows, in order, with their columns. */
struct report_section {
    struct report *report;
    const struct report_event *event;
    uint16_t index;     /* of the event */
    VEC(uint32_t) rows; /* to print, in order */
    uint64_t samples, period;
    uint64_t total; /* 100 % */
    unsigned widths[KEY_NR];
    struct text cell;
};
int report_section_init(struct report_section *s, struct report *r, uint16_t event,
                        const struct report_event *about, struct error *err);
void report_section_deinit(struct report_section *s);
double report_percent(const struct report_section *s, uint64_t weight);
/* Of its samples, those with frames that are not exact. */
struct report_doubt report_doubts(const struct report_section *s);
/* "14K": as perf rounds counts, down to a thousandth. */
void report_put_count(struct text *t, uint64_t count);
/* The columns' titles, with `dots` the line below them; ends with a line feed. */
void report_put_titles(const struct report_section *s, struct text *t, bool dots);
/* A row's columns, without a line feed. */
void report_put_row(struct report_section *s, uint32_t row, struct text *t);

/* report_chain.c */
struct chains;
struct chains *chains_create(const struct report *r);
void chains_free(struct chains *c);
/* Draw a row's call tree; `total`: what 100 % is. */
int chains_print(struct chains *c, uint32_t row, uint64_t total, struct text *out,
                 struct error *err);

/* The same tree piece by piece. A branch is a function, with its share of the row's samples; it is
 * good until the next chains_print(). */
struct chain_branch {
    uint32_t chain_class;
    uint32_t items; /* private */
    uint64_t weight;
};
typedef VEC(struct chain_branch) chain_branches;

/* Append what a row's tree begins with, what follows a branch of it: heaviest first, without those
 * too small to draw. -1: memory is out. */
int chains_begin(struct chains *c, uint32_t row, uint64_t total, chain_branches *ret);
int chains_follow(struct chains *c, uint32_t row, const struct chain_branch *of, uint64_t total,
                  chain_branches *ret);
/* Whether anything follows, if only something too small. */
bool chains_goes_on(struct chains *c, uint32_t row, const struct chain_branch *b);
const struct function *chains_function(const struct chains *c, const struct chain_branch *b);

#endif
