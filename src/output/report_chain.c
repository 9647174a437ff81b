/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A row's call tree, drawn as perf draws it. Branches are merged on the way down, and only where
 * they are drawn. An item is a place in the tree of stacks with its share of the row's samples. A
 * branch is a list of items whose functions look the same.
 *
 * Callees first: from each of the row's nodes up to its callers.
 * Callers first, without children: from the outermost caller down to the row's nodes.
 * Callers first, with children: samples that ended in the row as above; the other samples from the
 * row's outermost node down.
 */
#include "output/report_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEVELS_MAX = 100, /* levels of branching; no screen has room for more */
    RUN_MAX = 1000,   /* names in a run: a line per caller for each row is quadratic */
};

enum item_kind {
    ITEM_UP,     /* stacks of `node`, going up to the root */
    ITEM_DOWN,   /* stacks through `node` that did not end in the row, going down */
    ITEM_TO_ROW, /* stacks through `node` that ended in the row, going down */
};

struct item {
    uint32_t node;
    uint32_t next; /* next item of the same branch: index + 1; 0: the last */
    enum item_kind kind;
    uint64_t weight;
};

struct chains {
    const struct report *report;
    uint64_t *to_row; /* per node: weight below it that ended in the row; zeros between rows */
    uint32_t marked;  /* the row that `to_row` belongs to; ROW_NONE: all zeros */
    VEC(uint32_t) touched;
    uint32_t *branch_of; /* per chain class: branch + 1 while gathering; otherwise zeros */
    VEC(struct item) items;
    chain_branches branches;
    struct text *out;
    bool pipe[LEVELS_MAX + 1]; /* the line of this level goes on */
    uint64_t total;            /* weight that is 100 % in absolute mode */
    bool failed;
};

struct chains *chains_create(const struct report *r)
{
    struct chains *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->report = r;
    c->marked = ROW_NONE;
    c->to_row = calloc(r->nr_source, sizeof(*c->to_row));
    c->branch_of = calloc(r->nr_functions + 1, sizeof(*c->branch_of));
    if (c->to_row && c->branch_of)
        return c;
    chains_free(c);
    return NULL;
}

void chains_free(struct chains *c)
{
    if (!c)
        return;
    free(c->to_row);
    free(c->branch_of);
    vec_free(&c->touched);
    vec_free(&c->items);
    vec_free(&c->branches);
    free(c);
}

/* ---- gathering branches -------------------------------------------------------------------- */

static const struct function *branch_function(const struct chains *c, const struct chain_branch *b)
{
    return &c->report->stacks->functions.at[b->chain_class];
}

/* Add an item to its branch. Its branch is among those from `first` on. */
static void add_item(struct chains *c, size_t first, uint32_t node, enum item_kind kind,
                     uint64_t weight)
{
    uint32_t function = c->report->nodes[node].function;
    if (!weight || function == FUNCTION_NONE || c->failed)
        return;
    uint32_t chain_class = c->report->chain_class[function];
    uint32_t *branch = &c->branch_of[chain_class];
    if (!*branch) {
        struct chain_branch b = {.chain_class = chain_class};
        c->failed = !vec_push(&c->branches, b);
        if (c->failed)
            return;
        *branch = (uint32_t)(c->branches.nr - first);
    }
    struct chain_branch *b = &c->branches.at[first + *branch - 1];
    struct item item = {node, b->items, kind, weight};
    c->failed = !vec_push(&c->items, item);
    if (c->failed)
        return;
    b->items = (uint32_t)c->items.nr;
    b->weight += weight;
}

/* Add the items that follow an item. */
static void add_next(struct chains *c, size_t first, const struct item *item)
{
    const struct report_node *nodes = c->report->nodes;
    if (item->kind == ITEM_UP) {
        add_item(c, first, c->report->parents[item->node], ITEM_UP, item->weight);
        return;
    }
    const uint32_t *ends = c->report->ends;
    for (uint32_t n = item->node + 1; n < ends[item->node]; n = ends[n]) {
        uint64_t to_row = c->to_row[n];
        add_item(c, first, n, item->kind,
                 item->kind == ITEM_TO_ROW ? to_row : nodes[n].total - to_row);
    }
}

static void end_gathering(struct chains *c, size_t first)
{
    for (size_t i = first; i < c->branches.nr; i++)
        c->branch_of[c->branches.at[i].chain_class] = 0;
}

/* Append the branches that follow branch `of`. */
static void gather(struct chains *c, struct chain_branch of)
{
    size_t first = c->branches.nr;
    for (uint32_t i = of.items; i;) {
        struct item item = c->items.at[i - 1];
        add_next(c, first, &item);
        i = item.next;
    }
    end_gathering(c, first);
}

/* ---- where a row's tree begins ------------------------------------------------------------- */

static void touch(struct chains *c, uint32_t node, uint64_t weight)
{
    if (!c->to_row[node] && !vec_push(&c->touched, node))
        c->failed = true;
    else
        c->to_row[node] += weight;
}

static void unmark(struct chains *c)
{
    vec_foreach (node, &c->touched)
        c->to_row[*node] = 0;
    c->touched.nr = 0;
    c->marked = ROW_NONE;
}

/* Mark the path from the outermost caller to every node of the row. Trees with callers first need
 * the marks. */
static void mark_to_row(struct chains *c, uint32_t row)
{
    const struct report *r = c->report;
    if (!r->options->callers_first || c->marked == row)
        return;
    unmark(c);
    c->marked = row;
    for (uint32_t i = r->row_first[row]; i < r->row_first[row + 1] && !c->failed; i++) {
        uint32_t node = r->row_nodes[i];
        uint64_t weight = r->nodes[node].self;
        for (; weight && node && !c->failed; node = r->parents[node])
            touch(c, node, weight);
    }
}

static void start_callers_first(struct chains *c, uint32_t row)
{
    const struct report *r = c->report;
    for (size_t i = 0; i < c->touched.nr; i++) {
        uint32_t node = c->touched.at[i];
        uint32_t up = r->parents[node];
        if (up && r->nodes[up].function == FUNCTION_NONE)
            add_item(c, 0, node, ITEM_TO_ROW, c->to_row[node]);
    }
    for (uint32_t i = r->row_first[row]; r->options->children && i < r->row_first[row + 1]; i++) {
        uint32_t node = r->row_nodes[i];
        if (r->nodes[node].outermost)
            add_item(c, 0, node, ITEM_DOWN, r->nodes[node].total - c->to_row[node]);
    }
}

static void start_callees_first(struct chains *c, uint32_t row)
{
    const struct report *r = c->report;
    for (uint32_t i = r->row_first[row]; i < r->row_first[row + 1]; i++) {
        uint32_t node = r->row_nodes[i];
        const struct report_node *n = &r->nodes[node];
        add_item(c, 0, node, ITEM_UP, r->options->children ? n->inner : n->self);
    }
}

/* Gather the first branches of a row's tree. */
static void start(struct chains *c, uint32_t row)
{
    mark_to_row(c, row);
    if (c->report->options->callers_first)
        start_callers_first(c, row);
    else
        start_callees_first(c, row);
    end_gathering(c, 0);
}

static void forget_row(struct chains *c)
{
    unmark(c);
    c->items.nr = c->branches.nr = 0;
}

/* ---- drawing ------------------------------------------------------------------------------- */

static void put_margin(struct chains *c, unsigned columns)
{
    text_repeat(c->out, ' ', (size_t)12 + columns);
}

static void put_levels(struct chains *c, unsigned margin, unsigned levels)
{
    put_margin(c, margin);
    for (unsigned i = 0; i < levels; i++)
        text_string(c->out, c->pipe[i] ? "|          " : "           ");
}

static void put_separator(struct chains *c, unsigned margin, unsigned level)
{
    put_levels(c, margin, level);
    text_char(c->out, '\n');
}

static void put_name(struct chains *c, const struct chain_branch *b)
{
    report_put_branch(c->out, c->report->options, branch_function(c, b));
    text_char(c->out, '\n');
}

static void put_value(struct chains *c, unsigned margin, unsigned level, uint64_t weight,
                      uint64_t whole)
{
    put_levels(c, margin, level - 1);
    text_string(c->out, c->pipe[level - 1] ? "|--" : " --");
    report_put_value(c->out, c->report->options, weight, whole);
    text_string(c->out, "--");
}

/* If all of a branch continues in one branch, replace *b by that one and return true. Otherwise the
 * branches that it splits into stay appended. */
static bool follow(struct chains *c, struct chain_branch *b)
{
    size_t first = c->branches.nr;
    gather(c, *b);
    if (c->failed || c->branches.nr - first != 1 || c->branches.at[first].weight != b->weight)
        return false;
    *b = c->branches.at[first];
    c->branches.nr = first;
    return true;
}

/* Say that something is not drawn. */
static void put_deeper(struct chains *c, unsigned margin, unsigned level)
{
    put_levels(c, margin, level);
    text_string(c->out, "[deeper]\n");
}

/* Compare branches by their functions, so that the order does not depend on indexes. */
static int by_weight(const void *a, const void *b, void *context)
{
    const struct chains *c = context;
    const struct chain_branch *x = a;
    const struct chain_branch *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return report_compare_functions(branch_function(c, x), branch_function(c, y));
}

/* Returns the least weight that is drawn. `whole` is the weight of all current branches. */
static double least_drawn(const struct chains *c, uint64_t whole)
{
    const struct report_options *o = c->report->options;
    return o->graph == GRAPH_FRACTAL ? ceil((double)whole * o->graph_percent / 100)
                                     : report_least_drawn(o, c->total);
}

/* Drop the branches from `first` on that are too small to draw, then sort the others. Most are too
 * small, so they are dropped first. Returns the weight of all, dropped ones included. */
static uint64_t sort_branches(struct chains *c, size_t first)
{
    uint64_t sum = 0;
    for (size_t i = first; i < c->branches.nr; i++)
        sum += c->branches.at[i].weight;
    double least = least_drawn(c, sum);
    size_t kept = first;
    for (size_t i = first; i < c->branches.nr; i++)
        if (!((double)c->branches.at[i].weight < least))
            c->branches.at[kept++] = c->branches.at[i];
    c->branches.nr = kept;
    if (kept - first > 1)
        qsort_r(c->branches.at + first, kept - first, sizeof(*c->branches.at), by_weight, c);
    return sum;
}

static void draw_branches(struct chains *c, size_t first, uint64_t whole, unsigned margin,
                          unsigned level);

static void draw_branch(struct chains *c, struct chain_branch b, uint64_t whole, unsigned margin,
                        unsigned level)
{
    size_t first_item = c->items.nr;
    size_t first = c->branches.nr;
    put_value(c, margin, level, b.weight, whole);
    put_name(c, &b);
    bool more = follow(c, &b);
    for (unsigned run = 1; more && run < RUN_MAX; run++) {
        put_levels(c, margin, level);
        put_name(c, &b);
        more = follow(c, &b);
    }
    if (more)
        put_deeper(c, margin, level);
    uint64_t sum = sort_branches(c, first);
    if (level < LEVELS_MAX) {
        c->pipe[level] = true;
        uint64_t part = c->report->options->graph == GRAPH_FRACTAL ? sum : whole;
        draw_branches(c, first, part, margin, level + 1);
    } else if (c->branches.nr > first) {
        put_deeper(c, margin, level);
    }
    c->branches.nr = first;
    c->items.nr = first_item;
}

/* Draw the sorted branches from `first` on. `whole` is the weight that is 100 %. */
static void draw_branches(struct chains *c, size_t first, uint64_t whole, unsigned margin,
                          unsigned level)
{
    const unsigned limit = c->report->options->graph_limit;
    size_t end = c->branches.nr;
    if (limit && end - first > limit)
        end = first + limit;
    bool fractal = c->report->options->graph == GRAPH_FRACTAL;
    uint64_t left = whole;
    for (size_t i = first; i < end && !c->failed; i++) {
        struct chain_branch b = c->branches.at[i];
        left -= b.weight < left ? b.weight : left;
        put_separator(c, margin, level);
        /* the line of the last branch ends with it, unless a rest follows */
        if (i + 1 == end && (!fractal || !left))
            c->pipe[level - 1] = false;
        draw_branch(c, b, whole, margin, level);
    }
    if (fractal && left && left != whole) {
        c->pipe[level - 1] = false;
        put_value(c, margin, level, left, whole);
        text_string(c->out, "[...]\n");
    }
}

/* Where rows begin with the symbol, a tree that begins with the same symbol need not repeat it. */
static bool repeats_row(const struct chains *c, const struct report_row *row,
                        const struct chain_branch *b)
{
    const struct report_options *o = c->report->options;
    return o->nr_keys && o->keys[0] == KEY_SYM && row->function != FUNCTION_NONE &&
           c->report->options->graph_key == GRAPH_OF_FUNCTIONS &&
           c->report->chain_class[row->function] == b->chain_class;
}

static void put_of_trunk(struct chains *c, const struct chain_branch *b, bool first)
{
    put_margin(c, 0);
    text_string(c->out, first ? "|\n" : "   ");
    if (first) {
        put_margin(c, 0);
        text_string(c->out, "---");
    }
    put_name(c, b);
}

/* A single branch with all of the row's weight needs no percentage; its names stand in one column.
 * Returns how many columns the following branches move to the right. */
static unsigned draw_trunk(struct chains *c, const struct report_row *row, uint64_t row_weight)
{
    if (c->branches.nr != 1 || c->branches.at[0].weight != row_weight)
        return 0;
    struct chain_branch b = c->branches.at[0];
    unsigned margin = 0;
    c->branches.nr = 0;
    const unsigned limit = c->report->options->graph_limit;
    bool more = !repeats_row(c, row, &b) || follow(c, &b);
    for (unsigned run = 0; more && run < RUN_MAX; run++) {
        if (!limit || run < limit)
            put_of_trunk(c, &b, run == 0);
        margin = 3;
        more = follow(c, &b);
    }
    if (more)
        put_deeper(c, margin, 0);
    sort_branches(c, 0);
    return margin;
}

int chains_print(struct chains *c, uint32_t row, uint64_t total, struct text *out,
                 struct error *err)
{
    const struct report_options *o = c->report->options;
    const struct report_row *of = &c->report->rows.at[row];
    uint64_t weight = o->children ? of->children : of->self;
    size_t before = out->size;
    c->total = total;
    if (o->graph == GRAPH_ABSOLUTE && (double)weight < least_drawn(c, weight))
        return 0; /* true for most rows: no branch weighs more than its row */
    c->out = out;
    c->pipe[0] = true;
    start(c, row);
    sort_branches(c, 0);
    unsigned margin = draw_trunk(c, of, weight);
    draw_branches(c, 0, o->graph == GRAPH_FRACTAL ? weight : total, margin, 1);
    if (out->size > before)
        text_char(out, '\n');
    forget_row(c);
    return c->failed ? error_no_memory(err) : 0;
}

/* ---- the tree piece by piece --------------------------------------------------------------- */

/* Move the branches to `ret`. Their items stay. */
static int give_branches(struct chains *c, uint64_t total, chain_branches *ret)
{
    c->total = total;
    sort_branches(c, 0);
    vec_foreach (b, &c->branches)
        c->failed = c->failed || !vec_push(ret, *b);
    c->branches.nr = 0;
    return c->failed ? -1 : 0;
}

int chains_begin(struct chains *c, uint32_t row, uint64_t total, chain_branches *ret)
{
    start(c, row);
    return give_branches(c, total, ret);
}

int chains_follow(struct chains *c, uint32_t row, const struct chain_branch *of, uint64_t total,
                  chain_branches *ret)
{
    mark_to_row(c, row);
    gather(c, *of);
    return give_branches(c, total, ret);
}

static bool item_goes_on(const struct chains *c, const struct item *item)
{
    const struct report_node *nodes = c->report->nodes;
    if (item->kind == ITEM_UP)
        return nodes[c->report->parents[item->node]].function != FUNCTION_NONE;
    const uint32_t *ends = c->report->ends;
    for (uint32_t n = item->node + 1; n < ends[item->node]; n = ends[n])
        if (item->kind == ITEM_TO_ROW ? c->to_row[n] : nodes[n].total - c->to_row[n])
            return true;
    return false;
}

bool chains_goes_on(struct chains *c, uint32_t row, const struct chain_branch *b)
{
    mark_to_row(c, row);
    for (uint32_t i = b->items; i; i = c->items.at[i - 1].next)
        if (item_goes_on(c, &c->items.at[i - 1]))
            return true;
    return false;
}

const struct function *chains_function(const struct chains *c, const struct chain_branch *b)
{
    return branch_function(c, b);
}
