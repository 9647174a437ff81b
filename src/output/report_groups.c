/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keeps apart what belongs to a sample and not to a function: the state of its VM, the trace it ran
 * in, the function that -p matches. Samples that differ in these get separate groups at the top of
 * the tree, as samples of different threads do.
 */
#include "base/hash.h"
#include "base/hash_table.h"
#include "output/report_internal.h"
#include "stacks/state.h"

#include <stdlib.h>
#include <string.h>

/* State while regrouping. */
struct regrouping {
    struct report *report;
    struct hash_table numbers; /* of groups */
    VEC(uint32_t) tops;        /* per group: the stacks' own group that it is a part of */
    bool *matches;             /* per function: -p matches it; NULL: no -p */
    VEC(uint32_t) path;
};

static bool push_group(struct report *r, struct report_group g)
{
    g.passes = report_group_passes(r->options, &g);
    return vec_push(&r->groups, g);
}

/* ---- properties of a sample ---------------------------------------------------------------- */

/* Returns the trace of the innermost Lua frame: C frames above it were called from there. */
static uint16_t trace_of(const struct report *r, const struct stack_node *n)
{
    for (; n->depth > 1; n = &r->source[n->parent]) {
        const struct function *f = &r->stacks->functions.at[n->function];
        if (function_is_managed(f))
            return f->kind == FRAME_LUA && f->tier == TIER_TRACE ? f->trace : 0;
    }
    return 0;
}

static uint32_t parent_of(const struct regrouping *g, const struct stack_node *n)
{
    for (; n->depth > 1; n = &g->report->source[n->parent])
        if (g->matches[n->function])
            return g->report->chain_class[n->function] + 1;
    return 0;
}

/* Returns the part of group `top` for samples that end at node `i`. */
static struct report_group group_of(const struct regrouping *g, uint32_t top, size_t i)
{
    const struct report *r = g->report;
    const struct stack_node *n = &r->source[i];
    return (struct report_group){
        .of = r->stacks->groups.at[top],
        .parent = g->matches ? parent_of(g, n) : 0,
        .trace = report_has_key(r->options, KEY_TRACE) ? trace_of(r, n) : 0,
        .state = report_has_key(r->options, KEY_STATE) ? (uint8_t)stack_state(r->stacks, i) : 0,
    };
}

/* ---- groups, found by their properties ------------------------------------------------------ */

static bool is_group(const struct regrouping *g, uint32_t i, uint32_t top,
                     const struct report_group *want)
{
    const struct report_group *o = &g->report->groups.at[i];
    return g->tops.at[i] == top && o->parent == want->parent && o->trace == want->trace &&
           o->state == want->state;
}

/* Returns the group's index; a new group is added. UINT32_MAX: memory is out. */
static uint32_t group_get(struct regrouping *g, uint32_t top, const struct report_group *want)
{
    uint64_t h =
        hash_combine((uint64_t)top << 32 | want->parent, (uint64_t)want->trace << 8 | want->state);
    uint32_t index = hash_table_find(&g->numbers, h, i, is_group(g, i, top, want));
    if (index != HASH_TABLE_NONE)
        return index;
    index = (uint32_t)g->tops.nr;
    return vec_push(&g->tops, top) && push_group(g->report, *want) &&
                   hash_table_add(&g->numbers, h, index)
               ? index
               : UINT32_MAX;
}

/* ---- the tree ------------------------------------------------------------------------------ */

/* Move the samples that end at node `i` to their own group, below a copy of the path to the
 * node. */
static int move_node(struct regrouping *g, size_t i)
{
    struct report *r = g->report;
    const struct stack_node *from = &r->source[i];
    const struct stack_node *n = from;
    g->path.nr = 0;
    for (; n->depth > 1; n = &r->source[n->parent])
        if (!vec_push(&g->path, n->function))
            return -1;
    struct report_group want = group_of(g, n->function, i);
    uint32_t group = group_get(g, n->function, &want);
    if (group == UINT32_MAX)
        return -1;
    uint32_t to = stack_tree_child(&r->regrouped, 0, group);
    for (size_t k = g->path.nr; to && k-- > 0;)
        to = stack_tree_child(&r->regrouped, to, g->path.at[k]);
    if (!to)
        return -1;
    struct stack_node *into = &r->regrouped.nodes.at[to];
    into->samples += from->samples;
    into->period += from->period;
    into->joined += from->joined;
    into->guessed += from->guessed;
    return 0;
}

static int find_matches(struct regrouping *g)
{
    const struct report *r = g->report;
    if (!r->options->parent)
        return 0;
    g->matches = calloc(r->nr_functions + 1, sizeof(*g->matches));
    if (!g->matches)
        return -1;
    for (size_t i = 0; i < r->nr_functions; i++) {
        const char *symbol = r->stacks->functions.at[i].symbol;
        g->matches[i] = symbol && regexec(r->options->parent, symbol, 0, NULL, 0) == 0;
    }
    return 0;
}

static int regroup(struct report *r)
{
    struct regrouping g = {.report = r};
    int failed = stack_tree_init(&r->regrouped) < 0 || find_matches(&g) < 0 ? -1 : 0;
    for (size_t i = 1; i < r->nr_source && !failed; i++)
        if (r->source[i].samples || r->source[i].period)
            failed = move_node(&g, i);
    vec_free(&g.tops);
    vec_free(&g.path);
    free(g.matches);
    hash_table_free(&g.numbers);
    r->source = r->regrouped.nodes.at;
    r->nr_source = r->regrouped.nodes.nr;
    return failed;
}

int report_make_groups(struct report *r)
{
    const struct report_options *o = r->options;
    if (report_has_key(o, KEY_STATE) || report_has_key(o, KEY_TRACE) || o->parent)
        return regroup(r);
    for (size_t i = 0; i < r->stacks->groups.nr; i++)
        if (!push_group(r, (struct report_group){.of = r->stacks->groups.at[i]}))
            return -1;
    return 0;
}
