/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the report share. */
#ifndef OUTPUT_REPORT_INTERNAL_H
#define OUTPUT_REPORT_INTERNAL_H

#include "base/intern.h"
#include "output/report.h"
#include "stacks/internal.h"

enum { ROW_NONE = UINT32_MAX, FUNCTION_NONE = UINT32_MAX };

/* One node of the tree, as the report needs it. Node 0 is the root; first-level nodes are groups.
 */
struct report_node {
    uint32_t parent, function;  /* function: FUNCTION_NONE of a group */
    uint32_t first_child, next; /* 0: none */
    uint32_t row;
    uint32_t height; /* nodes on the longest way down, itself included */
    uint64_t self;   /* period of the stacks that end here */
    uint64_t samples;
    uint64_t total; /* self and everything below */
    uint64_t inner; /* of total: stacks in which no node below has the same row */
    bool outermost; /* no node above has the same row */
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
    const struct stack_node *source; /* the tree: the stacks' own, or `resolved` */
    size_t nr_source;
    struct stack_tree resolved;

    struct report_node *nodes;
    VEC(struct report_row) rows;
    uint32_t *row_slots; /* row + 1; 0: free */
    size_t nr_row_slots;
    uint32_t *group_class;    /* of each group: equal for equal keys */
    uint32_t *function_class; /* of each function, and behind the last: of no function */
    uint32_t *chain_class;    /* of each function: equal for those a call tree shows as one */
    size_t nr_functions, nr_groups;
    struct report_doubt *doubts; /* of each group */

    uint32_t *row_first; /* nodes of row r: row_nodes[row_first[r]] .. [row_first[r + 1]] */
    uint32_t *row_nodes;
};

/* report_rows.c */
int report_create(const struct stacks *s, const struct report_options *options, struct report **ret,
                  struct error *err);
void report_free(struct report *r);
uint16_t report_row_event(const struct report *r, const struct report_row *row);
bool report_has_key(const struct report_options *o, enum report_key key);
const char *report_base_name(const char *path);
/* A function's module as rows show it: the file's name; of a guest's the whole path, since file
 * names (init.lua) say little there. */
const char *report_module(const struct function *f);
/* The function's name as rows (`row`) or trees show it. */
void report_put_function(struct text *t, const struct function *f, bool row);
/* By name, module and address: the order of ties. */
int report_compare_functions(const struct function *a, const struct function *b);

/* report_chain.c */
struct chains;
struct chains *chains_create(const struct report *r);
void chains_free(struct chains *c);
/* Draw a row's call tree; `total`: what 100 % is. */
int chains_print(struct chains *c, uint32_t row, uint64_t total, struct text *out,
                 struct error *err);

#endif
