/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Makes flames from stacks. Each function gets a key. Functions that look the same have the same
 * key; in a comparison, so do functions that are the same on both sides. All stacks with the same
 * parent flame and the same key share one flame.
 */
#include "output/flamegraph_tree.h"
#include "output/diff.h"

#include <stdlib.h>
#include <string.h>

/* One recording, while its stacks are merged. */
struct merge {
    struct flame_tree *tree;
    const struct flamegraph_options *options;
    const struct stacks *stacks;
    bool base;
    bool distinct; /* no two functions or groups look the same: one flame per node */
    int event;
    uint32_t *function_keys; /* per function */
    uint32_t *group_keys;    /* per group */
    uint32_t *flames;        /* per node of the stacks */
    uint64_t *below;         /* weight of each node and everything below */
};

/* ---- keys ----------------------------------------------------------------------------------- */

static int by_text(const char *a, const char *b)
{
    return a == b ? 0 : strcmp(a ? a : "", b ? b : "");
}

/* Compare everything that users see of a function, except how it ran. */
static int compare_functions(const struct function *a, const struct function *b)
{
    int order = by_text(a->symbol, b->symbol);
    order = order ? order : by_text(a->module, b->module);
    order = order ? order : a->kind - b->kind;
    bool apart = !function_is_managed(a); /* an inlined managed function is the same function */
    return order || !apart ? order : a->inlined - b->inlined;
}

static int by_look(const void *a, const void *b, void *context)
{
    const struct stacks *s = context;
    return compare_functions(stacks_function(s, *(const uint32_t *)a),
                             stacks_function(s, *(const uint32_t *)b));
}

/* Give the functions of one recording keys from 1 on. */
static int look_keys(struct merge *m)
{
    size_t nr = stacks_nr_functions(m->stacks);
    uint32_t *order = calloc(nr + 1, sizeof(*order));
    if (!order)
        return -1;
    for (uint32_t i = 0; i < nr; i++)
        order[i] = i;
    qsort_r(order, nr, sizeof(*order), by_look, (void *)m->stacks);
    uint32_t key = 0;
    for (uint32_t i = 0; i < nr; i++) {
        if (!i || by_look(&order[i - 1], &order[i], (void *)m->stacks))
            key++;
        m->function_keys[order[i]] = key;
    }
    m->distinct = key == nr && !m->options->reverse;
    free(order);
    return 0;
}

/* Give the functions of both recordings keys: the rows that `diff` assigns to them. */
static int matched_keys(struct merge *sides[DIFF_SIDES], struct error *err)
{
    struct diff_options options = {.level = DIFF_FUNCTION};
    struct diff d;
    if (diff_init(&d, &options, err) < 0)
        return -1;
    bool failed = false;
    for (int side = 0; side < DIFF_SIDES; side++)
        for (size_t i = 0; i < stacks_nr_functions(sides[side]->stacks) && !failed; i++) {
            uint32_t name = diff_name_function(&d, stacks_function(sides[side]->stacks, i));
            sides[side]->function_keys[i] = name;
            failed = name == UINT32_MAX;
            if (!failed)
                d.names.at[name].in[side] = true;
        }
    failed = failed || diff_match(&d) == UINT32_MAX;
    for (int side = 0; side < DIFF_SIDES && !failed; side++)
        for (size_t i = 0; i < stacks_nr_functions(sides[side]->stacks); i++) {
            uint32_t *key = &sides[side]->function_keys[i];
            *key = d.names.at[*key].row[side] + 1;
        }
    diff_free(&d);
    return failed ? error_no_memory(err) : 0;
}

/* Returns the name as fold.c writes it: an unknown function is "[module]". NULL if memory is
 * out. */
static const char *function_name(const struct merge *m, const struct function *f)
{
    struct text t = {0};
    if (f->symbol || !f->module)
        return intern_string(m->tree->strings, f->symbol ? f->symbol : "[unknown]");
    text_printf(&t, "[%s]", text_base_name(f->module));
    const char *name = t.failed ? NULL : intern_bytes(m->tree->strings, t.at, t.size);
    text_free(&t);
    return name;
}

static const char *group_name(const struct merge *m, const struct stack_group *g)
{
    struct text t = {0};
    text_string(&t, g->comm);
    if (m->options->tid)
        text_printf(&t, "-%u/%u", g->pid, g->tid);
    else if (m->options->pid)
        text_printf(&t, "-%u", g->pid);
    const char *name = t.failed ? NULL : intern_bytes(m->tree->strings, t.at ? t.at : "", t.size);
    text_free(&t);
    return name;
}

/* ---- merging -------------------------------------------------------------------------------- */

/* In a comparison, a function and the copies that compilers made of it may have one key. Their
 * order depends on threads, so the least of all their names is the flame's name. The drawn
 * recording is merged before the base, which therefore never changes a name. */
static bool take_function(struct merge *m, struct flame *flame, const struct function *f)
{
    struct flame_tree *t = m->tree;
    if (function_is_managed(f) && !flame->tiers) {
        flame->tiers = (uint32_t)t->tiers.nr;
        if (!vec_push(&t->tiers, (struct flame_weights){{0}}))
            return false;
    }
    if (!flame->function || (!m->base && compare_functions(f, flame->function) < 0)) {
        flame->function = f;
        flame->name = function_name(m, f);
    }
    return flame->name;
}

/* Returns the flame of `key` below `parent`; a new flame is added. The flame is that of a function,
 * or of a command name if `f` is NULL. 0: memory is out. */
static uint32_t child(struct merge *m, uint32_t parent, uint32_t key, const struct function *f,
                      const char *name)
{
    struct flame_tree *t = m->tree;
    uint32_t at = m->distinct ? (uint32_t)t->flames.nr : stack_tree_child(&t->index, parent, key);
    bool made = at == t->flames.nr;
    if (!at || (made && !vec_push(&t->flames, (struct flame){.parent = parent, .name = name})))
        return 0;
    return !f || take_function(m, &t->flames.at[at], f) ? at : 0;
}

static uint32_t child_of_node(struct merge *m, uint32_t parent, const struct stack_node *n)
{
    if (n->depth == 1) { /* group keys are above all function keys; a command name has one key */
        const char *name = group_name(m, stacks_group(m->stacks, n->function));
        return name ? child(m, parent, m->group_keys[n->function], NULL, name) : 0;
    }
    return child(m, parent, m->function_keys[n->function], stacks_function(m->stacks, n->function),
                 NULL);
}

/* Count `weight` for the tier that a managed function ran in. */
static void count_tier(struct merge *m, uint32_t at, const struct stack_node *n, uint64_t weight)
{
    struct flame *flame = &m->tree->flames.at[at];
    if (flame->provenance < n->provenance)
        flame->provenance = n->provenance;
    if (flame->tiers && !m->base && n->depth > 1)
        m->tree->tiers.at[flame->tiers].of[stacks_function(m->stacks, n->function)->tier] += weight;
}

static void add_weight(struct merge *m, uint32_t at, const struct stack_node *n)
{
    uint64_t weight = m->options->samples || !n->period ? n->samples : n->period;
    struct flame *flame = &m->tree->flames.at[at];
    *(m->base ? &flame->base_weight : &flame->weight) += weight;
    if (!m->base && n->samples)
        flame->doubtful +=
            (uint64_t)((double)weight * (double)(n->joined + n->guessed) / (double)n->samples);
    *(m->base ? &m->tree->base_samples : &m->tree->samples) += n->samples;
}

static bool is_wanted(const struct merge *m, const struct stack_node *n)
{
    return n->depth > 1 || stacks_group(m->stacks, n->function)->event == m->event;
}

/* Merge outermost functions first, in the order of the nodes. */
static int merge_forward(struct merge *m)
{
    for (uint32_t i = 1; i < stacks_nr_nodes(m->stacks); i++) {
        const struct stack_node *n = stacks_node(m->stacks, i);
        if (!is_wanted(m, n) || (n->depth > 1 && !m->flames[n->parent]))
            continue; /* of another event */
        uint32_t at = child_of_node(m, m->flames[n->parent], n);
        if (!at)
            return -1;
        m->flames[i] = at;
        add_weight(m, at, n);
        count_tier(m, at, n, m->below[i]);
    }
    return 0;
}

/* Merge innermost functions first: follow each stack from its end. */
static int merge_reverse(struct merge *m)
{
    for (uint32_t i = 1; i < stacks_nr_nodes(m->stacks); i++) {
        const struct stack_node *end = stacks_node(m->stacks, i);
        const struct stack_node *n = end;
        uint32_t at = 0;
        while (end->samples && n->depth > 1)
            n = stacks_node(m->stacks, n->parent);
        if (!end->samples || !is_wanted(m, n))
            continue;
        for (n = end; n->depth; n = stacks_node(m->stacks, n->parent)) {
            at = child_of_node(m, at, n);
            if (!at)
                return -1;
            count_tier(m, at, n, m->options->samples || !end->period ? end->samples : end->period);
        }
        add_weight(m, at, end);
    }
    return 0;
}

static void sum_below(struct merge *m)
{
    for (size_t i = stacks_nr_nodes(m->stacks); i-- > 1;) {
        const struct stack_node *n = stacks_node(m->stacks, i);
        m->below[i] += m->options->samples || !n->period ? n->samples : n->period;
        m->below[n->parent] += m->below[i];
    }
}

/* Commands of the same name have the same key, above all keys of functions. */
static int make_group_keys(struct merge *m, const char **names, size_t *nr_names)
{
    static const uint32_t FIRST = UINT32_MAX / 2;
    for (size_t i = 0; i < stacks_nr_groups(m->stacks); i++) {
        const char *name = group_name(m, stacks_group(m->stacks, i));
        size_t at = 0;
        while (at < *nr_names && names[at] != name)
            at++;
        if (!name)
            return -1;
        if (at == *nr_names)
            names[(*nr_names)++] = name;
        m->group_keys[i] = FIRST + (uint32_t)at;
    }
    m->distinct &= *nr_names == stacks_nr_groups(m->stacks);
    return 0;
}

static int merge_create(struct merge *m, struct flame_tree *t, const struct stacks *s, bool base,
                        const struct flamegraph_options *o)
{
    *m = (struct merge){.tree = t, .stacks = s, .base = base, .options = o};
    m->event = stacks_event(s, o->event);
    m->function_keys = calloc(stacks_nr_functions(s) + 1, sizeof(*m->function_keys));
    m->group_keys = calloc(stacks_nr_groups(s) + 1, sizeof(*m->group_keys));
    m->flames = calloc(stacks_nr_nodes(s), sizeof(*m->flames));
    m->below = calloc(stacks_nr_nodes(s), sizeof(*m->below));
    return m->function_keys && m->group_keys && m->flames && m->below ? 0 : -1;
}

static void merge_free(struct merge *m)
{
    free(m->function_keys);
    free(m->group_keys);
    free(m->flames);
    free(m->below);
}

static int run_merges(struct merge *own, struct merge *base, struct error *err)
{
    struct merge *sides[DIFF_SIDES] = {base, own};
    size_t nr_names = 0;
    size_t nr_groups = stacks_nr_groups(own->stacks) + (base ? stacks_nr_groups(base->stacks) : 0);
    const char **names = calloc(nr_groups + 1, sizeof(*names));
    bool failed = !names;
    if (base && matched_keys(sides, err) < 0)
        failed = true;
    else if (!base)
        failed |= look_keys(own) < 0;
    for (int i = DIFF_SIDES; i-- > 0 && !failed;) { /* the drawn one first: it gives the names */
        struct merge *m = sides[i];
        if (!m)
            continue;
        sum_below(m);
        failed = make_group_keys(m, names, &nr_names) < 0 ||
                 (m->options->reverse ? merge_reverse(m) : merge_forward(m)) < 0;
    }
    free(names);
    return failed ? error_no_memory(err) : 0;
}

int flame_tree_init(struct flame_tree *t, const struct stacks *s, const struct stacks *base,
                    const struct flamegraph_options *options, struct error *err)
{
    struct merge own = {0};
    struct merge other = {0};
    *t = (struct flame_tree){.strings = intern_create()};
    int failed = !t->strings || stack_tree_init(&t->index) < 0 ||
                 !vec_push(&t->flames, (struct flame){.name = "all"}) ||
                 !vec_push(&t->tiers, (struct flame_weights){{0}}) ||
                 merge_create(&own, t, s, false, options) < 0 ||
                 (base && merge_create(&other, t, base, true, options) < 0);
    failed = failed ? error_no_memory(err) : run_merges(&own, base ? &other : NULL, err);
    for (size_t i = failed ? 0 : t->flames.nr; i-- > 1;) {
        struct flame *up = &t->flames.at[t->flames.at[i].parent];
        up->weight += t->flames.at[i].weight;
        up->base_weight += t->flames.at[i].base_weight;
        up->doubtful += t->flames.at[i].doubtful;
    }
    merge_free(&own);
    merge_free(&other);
    return failed;
}

void flame_tree_free(struct flame_tree *t)
{
    vec_free(&t->flames);
    vec_free(&t->tiers);
    stack_tree_deinit(&t->index);
    intern_free(t->strings);
}

/* ---- order ---------------------------------------------------------------------------------- */

static int by_parent_and_name(const void *a, const void *b, void *context)
{
    const struct flame *flames = context;
    const struct flame *x = &flames[*(const uint32_t *)a];
    const struct flame *y = &flames[*(const uint32_t *)b];
    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    int order = strcmp(x->name, y->name);
    return order || !x->function || !y->function ? order
                                                 : compare_functions(x->function, y->function);
}

int flame_tree_link(struct flame_tree *t, double least_weight)
{
    uint32_t *order = calloc(t->flames.nr + 1, sizeof(*order));
    size_t nr = 0;
    if (!order)
        return -1;
    for (uint32_t i = 1; i < t->flames.nr; i++)
        if (t->flames.at[i].weight && (double)t->flames.at[i].weight >= least_weight)
            order[nr++] = i;
    qsort_r(order, nr, sizeof(*order), by_parent_and_name, t->flames.at);
    for (size_t i = nr; i-- > 0;) {
        struct flame *up = &t->flames.at[t->flames.at[order[i]].parent];
        t->flames.at[order[i]].next = up->first_child;
        up->first_child = order[i];
    }
    free(order);
    return 0;
}
