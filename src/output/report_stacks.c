/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A row's stacks one by one, as perf's -g flat and -g folded list them. A stack begins and ends
 * where a row's call tree does (report_chain.c): from the row's node up to the outermost caller,
 * or, with children and callers first, from the row's outermost node down for samples that ended
 * elsewhere.
 *
 * Stacks of equal names are one. They are found by a hash of the names along the path.
 */
#include "base/hash.h"
#include "output/report_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct one_stack {
    uint32_t inner, outer; /* innermost and outermost node */
    uint64_t weight;
};

struct stack_lists {
    const struct report *report;
    uint64_t *from_root;  /* per node: hash of the names from the outermost caller to it */
    uint64_t *from_outer; /* the same from the row's node on, which is above it */
    VEC(struct one_stack) stacks;
    struct hash_table table;
    VEC(uint32_t) path;
};

static uint32_t class_of(const struct report *r, uint32_t node)
{
    return r->chain_class[r->nodes[node].function];
}

static bool is_group(const struct report *r, uint32_t node)
{
    return r->nodes[node].function == FUNCTION_NONE;
}

struct stack_lists *stack_lists_create(const struct report *r)
{
    struct stack_lists *l = calloc(1, sizeof(*l));
    if (!l)
        return NULL;
    l->report = r;
    l->from_root = calloc(r->nr_source, sizeof(*l->from_root));
    l->from_outer = calloc(r->nr_source, sizeof(*l->from_outer));
    if (!l->from_root || !l->from_outer) {
        stack_lists_free(l);
        return NULL;
    }
    for (uint32_t i = 1; i < r->nr_source; i++)
        if (!is_group(r, i))
            l->from_root[i] = hash_combine(l->from_root[r->parents[i]], class_of(r, i));
    return l;
}

void stack_lists_free(struct stack_lists *l)
{
    if (!l)
        return;
    free(l->from_root);
    free(l->from_outer);
    vec_free(&l->stacks);
    hash_table_free(&l->table);
    vec_free(&l->path);
    free(l);
}

/* ---- finding a row's stacks ----------------------------------------------------------------- */

/* The node above, if it belongs to the stack; else 0. */
static uint32_t above(const struct report *r, uint32_t node, uint32_t outer)
{
    uint32_t up = r->parents[node];
    return node == outer || is_group(r, up) ? 0 : up;
}

static bool same_names(const struct report *r, const struct one_stack *a, const struct one_stack *b)
{
    uint32_t x = a->inner, y = b->inner;
    while (x && y && x != y && class_of(r, x) == class_of(r, y)) {
        x = above(r, x, a->outer);
        y = above(r, y, b->outer);
    }
    return x == y;
}

/* `outer` is 0 for a stack that goes up to the outermost caller. */
static int add_stack(struct stack_lists *l, uint32_t inner, uint32_t outer, uint64_t weight)
{
    const struct one_stack s = {inner, outer, weight};
    if (!weight)
        return 0;
    uint64_t hash = outer ? l->from_outer[inner] : l->from_root[inner];
    uint32_t n = hash_table_find(&l->table, hash, i, same_names(l->report, &l->stacks.at[i], &s));
    if (n != HASH_TABLE_NONE) {
        l->stacks.at[n].weight += weight;
        return 0;
    }
    return vec_push(&l->stacks, s) && hash_table_add(&l->table, hash, l->stacks.nr - 1) ? 0 : -1;
}

/* Add the stacks below a node of the row that did not end in the row itself. */
static int add_below(struct stack_lists *l, uint32_t outer)
{
    const struct report *r = l->report;
    l->from_outer[outer] = hash_combine(1, class_of(r, outer));
    for (uint32_t i = outer + 1; i < r->ends[outer]; i++) {
        l->from_outer[i] = hash_combine(l->from_outer[r->parents[i]], class_of(r, i));
        if (r->nodes[i].row != r->nodes[outer].row && add_stack(l, i, outer, r->nodes[i].self) < 0)
            return -1;
    }
    return 0;
}

static int find_stacks(struct stack_lists *l, uint32_t row)
{
    const struct report *r = l->report;
    const struct report_options *o = r->options;
    for (uint32_t i = r->row_first[row]; i < r->row_first[row + 1]; i++) {
        uint32_t node = r->row_nodes[i];
        const struct report_node *n = &r->nodes[node];
        bool inner = o->children && !o->callers_first;
        if (add_stack(l, node, 0, inner ? n->inner : n->self) < 0)
            return -1;
        if (o->children && o->callers_first && n->outermost && add_below(l, node) < 0)
            return -1;
    }
    return 0;
}

/* ---- their order ---------------------------------------------------------------------------- */

static int by_weight(const void *x, const void *y, void *report)
{
    const struct one_stack *a = x, *b = y;
    const struct report *r = report;
    if (a->weight != b->weight)
        return a->weight < b->weight ? 1 : -1;
    uint32_t i = a->inner, k = b->inner;
    for (; i && k; i = above(r, i, a->outer), k = above(r, k, b->outer)) {
        const struct function *all = r->stacks->functions.at;
        int order = report_compare_functions(&all[class_of(r, i)], &all[class_of(r, k)]);
        if (order)
            return order;
    }
    return (i != 0) - (k != 0);
}

/* Leave the stacks that are drawn, in their order. */
static void choose_stacks(struct stack_lists *l, uint64_t total)
{
    const struct report_options *o = l->report->options;
    double least = report_least_drawn(o, total);
    size_t kept = 0;
    vec_foreach (s, &l->stacks)
        if (!((double)s->weight < least))
            l->stacks.at[kept++] = *s;
    l->stacks.nr = kept;
    if (kept > 1)
        qsort_r(l->stacks.at, kept, sizeof(*l->stacks.at), by_weight, (void *)l->report);
    if (o->graph_limit && l->stacks.nr > o->graph_limit)
        l->stacks.nr = o->graph_limit;
}

/* ---- printing ------------------------------------------------------------------------------- */

void report_put_value(struct text *t, const struct report_options *o, uint64_t weight,
                      uint64_t whole)
{
    if (o->graph_value != VALUE_PERCENT) {
        text_dec(t, weight, 0);
        return;
    }
    text_hundredths(t, 100.0 * (double)weight / (double)whole, 0);
    text_char(t, '%');
}

double report_least_drawn(const struct report_options *o, uint64_t total)
{
    double least = (double)total * o->graph_percent / 100;
    return o->by_samples ? least : floor(least); /* as perf rounds periods */
}

/* Append a name in which the separator cannot be mistaken for one. */
static void put_folded_name(struct text *t, const struct report_options *o,
                            const struct function *f, char separator, char other)
{
    size_t from = t->size;
    report_put_branch(t, o, f);
    for (size_t i = from; !t->failed && i < t->size; i++)
        if (t->at[i] == separator)
            t->at[i] = other;
}

static void put_folded(const struct stack_lists *l, struct text *t)
{
    const char *separator = l->report->options->separator;
    const char other = separator ? '.' : ':';
    if (!separator)
        separator = ";";
    vec_foreach (function, &l->path) {
        text_string(t, function == l->path.at ? " " : separator);
        put_folded_name(t, l->report->options, &l->report->stacks->functions.at[*function],
                        *separator, other);
    }
    text_char(t, '\n');
}

static void put_flat(const struct stack_lists *l, struct text *t)
{
    text_char(t, '\n');
    vec_foreach (function, &l->path) {
        text_string(t, "                ");
        report_put_branch(t, l->report->options, &l->report->stacks->functions.at[*function]);
        text_char(t, '\n');
    }
    text_char(t, '\n');
}

/* List the functions of a stack in the order in which they are printed. */
static int list_path(struct stack_lists *l, const struct one_stack *s)
{
    const struct report *r = l->report;
    l->path.nr = 0;
    for (uint32_t i = s->inner; i; i = above(r, i, s->outer))
        if (!vec_push(&l->path, class_of(r, i)))
            return -1;
    for (size_t i = 0, k = l->path.nr; r->options->callers_first && i + 1 < k; i++) {
        uint32_t outer = l->path.at[--k];
        l->path.at[k] = l->path.at[i];
        l->path.at[i] = outer;
    }
    return 0;
}

int stack_lists_print(struct stack_lists *l, uint32_t row, uint64_t total, struct text *out,
                      struct error *err)
{
    const struct report_options *o = l->report->options;
    const bool folded = o->graph == GRAPH_FOLDED;
    l->stacks.nr = 0;
    hash_table_clear(&l->table);
    uint64_t weight = report_row_weight(l->report, &l->report->rows.at[row]);
    if ((double)weight < report_least_drawn(o, total))
        return 0; /* true for most rows: no stack weighs more than its row */
    if (find_stacks(l, row) < 0)
        return error_no_memory(err);
    choose_stacks(l, total);
    vec_foreach (s, &l->stacks) {
        if (list_path(l, s) < 0)
            return error_no_memory(err);
        text_string(out, folded ? "" : "           ");
        report_put_value(out, o, s->weight, total);
        if (folded)
            put_folded(l, out);
        else
            put_flat(l, out);
    }
    return 0;
}
