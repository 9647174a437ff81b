/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keeps apart what belongs to a sample and not to a function: the state of its VM, the trace it ran
 * in, the function that -p matches, the user's own function. Samples that differ in these get
 * separate groups at the top of the tree, as samples of different threads do.
 */
#include "base/hash.h"
#include "base/hash_table.h"
#include "base/table.h"
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
    bool *ignores;             /* per function: what it calls is left out; NULL: of none */
    uint8_t *owns;             /* per function: enum own; NULL: no key asks */
    struct table managed;      /* commands with own functions of Lua or JavaScript */
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
            return g->report->name_class[n->function] + 1;
    return 0;
}

/* Whose a function is. */
enum own {
    OWN_NOT,
    OWN_NATIVE,  /* the user's, unless the program is written in a managed language */
    OWN_MANAGED, /* the user's */
};

/* Is it a file or a library of the system, or no file at all? */
static bool is_system(const char *module)
{
    static const char *const kinds[] = {"", "32", "64", "x32", "exec"};
    const char *at = strncmp(module, "/usr", 4) == 0 ? module + 4 : module;
    if (*module == '[')
        return true;
    if (strncmp(at, "/lib", 4))
        return false;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        size_t size = strlen(kinds[i]);
        if (strncmp(at + 4, kinds[i], size) == 0 && at[4 + size] == '/')
            return true;
    }
    return false;
}

/* Functions of a VM's own libraries have a module in brackets, Node's begin with "node:". Code that
 * a program has made of a string is the program's. */
static enum own own_class(const struct function *f)
{
    if (!f->module)
        return OWN_NOT;
    if (function_is_managed(f)) {
        bool runtime = (*f->module == '[' && strncmp(f->module, "[string ", 8)) ||
                       strncmp(f->module, "node:", 5) == 0;
        return runtime ? OWN_NOT : OWN_MANAGED;
    }
    bool native = f->kind == FRAME_NATIVE || f->kind == FRAME_JIT;
    return native && f->symbol && !is_system(f->module) ? OWN_NATIVE : OWN_NOT;
}

/* The innermost function of the user's own code. Of a program in a managed language, that is Lua or
 * JavaScript, and not the C functions that are called from there. */
static uint32_t own_of(const struct regrouping *g, const struct stack_node *n, bool managed)
{
    for (; n->depth > 1; n = &g->report->source[n->parent])
        if (g->owns[n->function] == OWN_MANAGED || (g->owns[n->function] == OWN_NATIVE && !managed))
            return g->report->name_class[n->function] + 1;
    return 0;
}

/* The outermost function of the user's own Lua or JavaScript code. */
static uint32_t handler_of(const struct regrouping *g, const struct stack_node *n)
{
    uint32_t found = 0;
    for (; n->depth > 1; n = &g->report->source[n->parent])
        if (g->owns[n->function] == OWN_MANAGED)
            found = g->report->name_class[n->function] + 1;
    return found;
}

/* Returns the part of group `top` for samples that end at node `i`. */
static struct report_group group_of(const struct regrouping *g, uint32_t top, size_t i)
{
    const struct report *r = g->report;
    const struct stack_node *n = &r->source[i];
    const char *comm = r->stacks->groups.at[top].comm;
    bool managed = g->owns && table_get(&g->managed, (uintptr_t)comm);
    return (struct report_group){
        .of = r->stacks->groups.at[top],
        .parent = g->matches ? parent_of(g, n) : 0,
        .own = report_has_key(r->options, KEY_OWN) ? own_of(g, n, managed) : 0,
        .handler = report_has_key(r->options, KEY_HANDLER) ? handler_of(g, n) : 0,
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
           o->state == want->state && o->own == want->own && o->handler == want->handler;
}

/* Returns the group's index; a new group is added. UINT32_MAX: memory is out. */
static uint32_t group_get(struct regrouping *g, uint32_t top, const struct report_group *want)
{
    uint64_t h =
        hash_combine((uint64_t)top << 32 | want->parent, (uint64_t)want->trace << 8 | want->state);
    h = hash_combine(h, (uint64_t)want->own << 32 | want->handler);
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
    for (; n->depth > 1; n = &r->source[n->parent]) {
        if (g->ignores && g->ignores[n->function])
            g->path.nr = 0;
        if (!vec_push(&g->path, n->function))
            return -1;
    }
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

/* Returns for each function whether its name matches; NULL: memory is out. */
static bool *match_functions(const struct report *r, const regex_t *pattern)
{
    bool *matches = calloc(r->nr_functions + 1, sizeof(*matches));
    for (size_t i = 0; matches && i < r->nr_functions; i++) {
        const char *symbol = r->stacks->functions.at[i].symbol;
        matches[i] = symbol && regexec(pattern, symbol, 0, NULL, 0) == 0;
    }
    return matches;
}

static int find_matches(struct regrouping *g)
{
    const struct report_options *o = g->report->options;
    if (o->parent && !(g->matches = match_functions(g->report, o->parent)))
        return -1;
    if (o->ignore_callees && !(g->ignores = match_functions(g->report, o->ignore_callees)))
        return -1;
    return 0;
}

/* Find whose the functions are, and which commands have own managed code. Nodes stand behind their
 * parents. */
static int find_own(struct regrouping *g)
{
    const struct report *r = g->report;
    if (!report_has_key(r->options, KEY_OWN) && !report_has_key(r->options, KEY_HANDLER))
        return 0;
    g->owns = calloc(r->nr_functions + 1, sizeof(*g->owns));
    uint32_t *tops = calloc(r->nr_source + 1, sizeof(*tops));
    bool ok = g->owns && tops;
    for (size_t i = 0; ok && i < r->nr_functions; i++)
        g->owns[i] = (uint8_t)own_class(&r->stacks->functions.at[i]);
    for (size_t i = 1; ok && i < r->nr_source; i++) {
        const struct stack_node *n = &r->source[i];
        tops[i] = n->depth > 1 ? tops[n->parent] : n->function;
        const char *comm = r->stacks->groups.at[tops[i]].comm;
        if (n->depth > 1 && g->owns[n->function] == OWN_MANAGED &&
            !table_get(&g->managed, (uintptr_t)comm))
            ok = table_put(&g->managed, (uintptr_t)comm, g);
    }
    free(tops);
    return ok ? 0 : -1;
}

static int regroup(struct report *r)
{
    struct regrouping g = {.report = r};
    int failed =
        stack_tree_init(&r->regrouped) < 0 || find_matches(&g) < 0 || find_own(&g) < 0 ? -1 : 0;
    for (size_t i = 1; i < r->nr_source && !failed; i++)
        if (r->source[i].samples || r->source[i].period)
            failed = move_node(&g, i);
    vec_free(&g.tops);
    vec_free(&g.path);
    free(g.matches);
    free(g.ignores);
    free(g.owns);
    table_free(&g.managed);
    hash_table_free(&g.numbers);
    r->source = r->regrouped.nodes.at;
    r->nr_source = r->regrouped.nodes.nr;
    return failed;
}

int report_make_groups(struct report *r)
{
    const struct report_options *o = r->options;
    if (report_has_key(o, KEY_STATE) || report_has_key(o, KEY_TRACE) ||
        report_has_key(o, KEY_OWN) || report_has_key(o, KEY_HANDLER) || o->parent ||
        o->ignore_callees)
        return regroup(r);
    for (size_t i = 0; i < r->stacks->groups.nr; i++)
        if (!push_group(r, (struct report_group){.of = r->stacks->groups.at[i]}))
            return -1;
    return 0;
}
