/* SPDX-License-Identifier: GPL-2.0-only */
/* Declarations that the files of the report share. */
#ifndef OUTPUT_REPORT_INTERNAL_H
#define OUTPUT_REPORT_INTERNAL_H

#include "base/hash_table.h"
#include "base/intern.h"
#include "output/report.h"
#include "stacks/stacks_internal.h"

enum { ROW_NONE = UINT32_MAX, FUNCTION_NONE = UINT32_MAX };

/* One node of the tree with what the report needs. Node 0 is the root. First-level nodes are
 * groups. */
struct report_node {
    uint32_t function; /* FUNCTION_NONE for a group */
    uint32_t row, group;
    uint32_t height : 31;   /* length of the longest path down, in nodes, itself included */
    uint32_t outermost : 1; /* no node above belongs to the same row */
    uint64_t self;          /* period of the stacks that end here */
    uint64_t samples;
    uint64_t total; /* of itself and everything below */
    uint64_t inner; /* part of `total` in stacks where no node below belongs to the same row */
};

/* What keeps samples apart besides their stack. */
struct report_group {
    struct stack_group of;
    uint32_t parent;       /* matching function + 1; 0: none matches */
    uint32_t own, handler; /* function + 1; 0: none, or nobody asks */
    uint16_t trace;        /* 0: none */
    uint8_t state;         /* enum stack_state */
    bool passes;           /* passes the filters */
};

/* One line of the report: everything with the same sort keys. */
struct report_row {
    uint32_t group_class, function_class;
    uint32_t group, function; /* the keys' text is made from these */
    uint64_t group_weight;    /* weight of the whole group */
    uint32_t open;            /* innermost node of this row on the path that is walked; 0: none */
    uint32_t height;
    uint64_t self, samples, children;
};

/* Samples of one group whose stacks have frames that are not exact. */
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

    /* Everything below a node stands directly after it. Its first child, if any, is the next node.
     * The next sibling of a child is at the child's end. Parents and ends are arrays of their own,
     * close together in memory, because drawing a tree goes from one of them to the next. */
    struct report_node *nodes;
    uint32_t *parents;
    uint32_t *ends; /* index after the last node below */
    VEC(struct report_row) rows;
    struct hash_table row_numbers;
    uint32_t *group_class;    /* per group: equal for equal keys */
    uint32_t *function_class; /* per function, and one after the last for "no function" */
    uint32_t *name_class;     /* per function: equal for those of one name and module */
    uint32_t *chain_class;    /* per function: equal for those that a call tree shows as one */
    const char **packages;    /* per function: interned; NULL: no key asks */
    bool *function_passes;    /* per function, and one after the last for "no function" */
    size_t nr_functions;
    struct report_doubt *doubts; /* per group */

    uint32_t *row_first; /* nodes of row r: row_nodes[row_first[r]] .. [row_first[r + 1]] */
    uint32_t *row_nodes;
};

/* report_rows.c */
int report_create(const struct stacks *s, const struct report_options *options, struct report **ret,
                  struct error *err);
void report_free(struct report *r);
/* Returns the weight that orders the rows. */
uint64_t report_row_weight(const struct report *r, const struct report_row *row);
uint16_t report_row_event(const struct report *r, const struct report_row *row);
/* Returns a function's module as rows show it: the name of the file. For managed functions it is
 * the whole path, because their file names (init.lua) say little. */
const char *report_module(const struct function *f);
/* Append the function's name as rows (`row` is true) or trees show it. */
void report_put_function(struct text *t, const struct function *f, bool row);
/* The same in a tree: with the place, if the tree tells places apart. */
void report_put_branch(struct text *t, const struct report_options *o, const struct function *f);
/* Compare by name, module and address. This decides ties. */
int report_compare_functions(const struct function *a, const struct function *b);

/* report_groups.c: make the groups. If samples of one group must be kept apart, also make a new
 * tree. Call it after chain_class is set. Returns -1 if memory is out. */
int report_make_groups(struct report *r);

/* report_keys.c */
const struct function *report_row_function(const struct report *r, const struct report_row *row);
const struct report_group *report_row_group(const struct report *r, const struct report_row *row);
const char *report_key_title(enum report_key key);
/* Append the key's text for its column. */
void report_put_key(struct text *t, const struct report *r, const struct report_row *row,
                    enum report_key key);
int report_compare_key(const struct report *r, const struct report_row *a,
                       const struct report_row *b, enum report_key key);
/* Compare everything that may differ between rows. This decides ties. */
int report_compare_rows(const struct report *r, const struct report_row *a,
                        const struct report_row *b);
/* Return whether the filters pass a function (NULL: a sample without frames) or a group. */
bool report_function_passes(const struct report_options *o, const struct function *f);
bool report_group_passes(const struct report_options *o, const struct report_group *g);

/* report.c: the rows of one event, in order, with their columns. */
struct report_section {
    struct report *report;
    const struct report
        *trees; /* whose trees are drawn: the same rows, perhaps otherwise weighed */
    const struct report_event *event;
    uint16_t index;     /* index of the event */
    VEC(uint32_t) rows; /* the rows to print, in order */
    uint64_t samples, period;
    uint64_t total;       /* weight that is 100 % */
    uint64_t trees_total; /* the same of `trees` */
    unsigned widths[KEY_NR];
    struct text cell;
    /* For a narrow screen, else 0: the function's name comes first, in a column of this width, and
     * then the module. Longer names move what follows. */
    unsigned name_width;
};
/* `trees` is `r`, or the same with other weights. */
int report_section_init(struct report_section *s, struct report *r, const struct report *trees,
                        uint16_t event, const struct report_event *about, struct error *err);
void report_section_deinit(struct report_section *s);
double report_percent(const struct report_section *s, uint64_t weight);
/* Returns how many of its samples have frames that are not exact. */
struct report_doubt report_doubts(const struct report_section *s);
/* Append a count as perf shortens it: "14K", rounded down by thousands. */
void report_put_count(struct text *t, uint64_t count);
/* Append what the section's rows add up to, as perf says it, or by its name and unit. */
void report_put_sum(const struct report_section *s, struct text *t);

/* report_columns.c. Compute the widths of the columns. */
void report_measure(struct report_section *s);
/* Sorted rows are spread over memory: fetch what the rows behind number `at` need. */
void report_fetch_ahead(const struct report_section *s, size_t at);
/* Append the titles of the columns with numbers, or as many dots. */
void report_put_number_titles(const struct report_section *s, struct text *t, bool dots);
/* What the columns with numbers tell of a row, or of several. */
struct report_sums {
    uint64_t weight, self, samples;
};
void report_put_numbers(const struct report_section *s, const struct report_sums *sums,
                        struct text *t);
/* Append the columns' titles, or with `dots` the line below them. The text ends with a line
 * feed. */
void report_put_titles(const struct report_section *s, struct text *t, bool dots);
/* Append a row's columns, without a line feed. */
void report_put_row(struct report_section *s, uint32_t row, struct text *t);

/* What draws the rows' trees; of the two, the one that the options ask for. */
struct tree_printer {
    struct chains *chains;
    struct stack_lists *stacks;
    bool none;
};
int tree_printer_init(struct tree_printer *p, const struct report_section *s, struct error *err);
void tree_printer_deinit(struct tree_printer *p);
/* Append a row's tree. */
int tree_printer_put(struct tree_printer *p, const struct report_section *s, uint32_t row,
                     struct text *t, struct error *err);

/* report_hierarchy.c: the same as report_put_titles(), and the rows below each other. */
void report_put_hierarchy_titles(const struct report_section *s, struct text *t, bool dots);
int report_put_hierarchy(struct report_section *s, struct text *t, struct error *err);

/* report_chain.c */
struct chains;
struct chains *chains_create(const struct report *r);
void chains_free(struct chains *c);
/* Draw a row's call tree. `total` is the weight that is 100 %. */
int chains_print(struct chains *c, uint32_t row, uint64_t total, struct text *out,
                 struct error *err);

/* report_stacks.c: a row's stacks instead of its tree, for GRAPH_FLAT and GRAPH_FOLDED. */
struct stack_lists;
struct stack_lists *stack_lists_create(const struct report *r);
void stack_lists_free(struct stack_lists *l);
/* Print a row's stacks. `total` is the weight that is 100 %. */
int stack_lists_print(struct stack_lists *l, uint32_t row, uint64_t total, struct text *out,
                      struct error *err);
/* Returns the least weight of a branch or stack that is drawn, where `total` is 100 %. */
double report_least_drawn(const struct report_options *o, uint64_t total);
/* Append the weight of a branch or stack as the options want it: as a share of `whole`, or itself.
 */
void report_put_value(struct text *t, const struct report_options *o, uint64_t weight,
                      uint64_t whole);

/* Get the same tree piece by piece. A branch is a function with its share of the row's samples. It
 * is valid until the next chains_print(). */
struct chain_branch {
    uint32_t chain_class;
    uint32_t items; /* private */
    uint64_t weight;
};
typedef VEC(struct chain_branch) chain_branches;

/* Append the first branches of a row's tree, or the branches that follow one: heaviest first,
 * without those that are too small to draw. Returns -1 if memory is out. */
int chains_begin(struct chains *c, uint32_t row, uint64_t total, chain_branches *ret);
int chains_follow(struct chains *c, uint32_t row, const struct chain_branch *of, uint64_t total,
                  chain_branches *ret);
/* Returns whether anything follows the branch, even if it is too small to draw. */
bool chains_goes_on(struct chains *c, uint32_t row, const struct chain_branch *b);
const struct function *chains_function(const struct chains *c, const struct chain_branch *b);

#endif
