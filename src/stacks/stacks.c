/* SPDX-License-Identifier: GPL-2.0-only */
/* The tree, and the tables of functions and groups that its nodes refer to. */
#include "base/hash.h"
#include "base/threads.h"
#include "base/text.h"
#include "stacks/stacks_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- tree ---------------------------------------------------------------------------------- */

int stack_tree_init(struct stack_tree *t)
{
    *t = (struct stack_tree){.nodes = {0}};
    return vec_push(&t->nodes, (struct stack_node){0}) ? 0 : -1;
}

void stack_tree_deinit(struct stack_tree *t)
{
    vec_free(&t->nodes);
    hash_table_free(&t->children);
}

uint32_t stack_tree_add(struct stack_tree *t, uint32_t parent, uint32_t function, uint64_t hash)
{
    const struct stack_node n = {
        .parent = parent, .function = function, .depth = t->nodes.at[parent].depth + 1};
    size_t node = t->nodes.nr;
    if (node > UINT32_MAX / 2 || !vec_push(&t->nodes, n))
        return 0;
    if (hash_table_add(&t->children, hash, node))
        return (uint32_t)node;
    t->nodes.nr--;
    return 0;
}

/* ---- functions and groups ------------------------------------------------------------------ */

bool function_equal(const struct function *a, const struct function *b)
{
    return a->symbol == b->symbol && a->module == b->module && a->file == b->file &&
           a->line == b->line && a->kind == b->kind && a->tier == b->tier &&
           a->inlined == b->inlined && a->trace == b->trace && a->address == b->address &&
           a->managed == b->managed && a->offset == b->offset;
}

uint64_t function_hash(const struct function *f)
{
    uint64_t h = hash_combine((uintptr_t)f->symbol, (uintptr_t)f->module);
    h = hash_combine(h, (uintptr_t)f->file ^ f->line);
    h = hash_combine(h, (f->address + f->offset) ^ (uint64_t)f->managed << 32);
    return hash_combine(h, (uint64_t)f->trace << 32 | (uint64_t)f->kind << 16 |
                               (uint64_t)f->tier << 8 | f->inlined);
}

static const char *intern_or_null(struct intern *in, const char *text, bool *failed)
{
    const char *ret = text ? intern_string(in, text) : NULL;
    *failed |= text && !ret;
    return ret;
}

uint32_t stacks_intern_function(struct stacks *s, const struct function *f)
{
    bool failed = false;
    struct function key = *f;
    uint32_t ret = UINT32_MAX;
    key.symbol = intern_or_null(s->strings, f->symbol, &failed);
    key.module = intern_or_null(s->strings, f->module, &failed);
    key.file = intern_or_null(s->strings, f->file, &failed);
    key.build = intern_or_null(s->strings, f->build, &failed);
    pthread_mutex_lock(&s->lock);
    if (!failed)
        ret = hash_table_intern(&s->function_table, function_hash(&key), &s->functions, i,
                                function_equal(&s->functions.at[i], &key), key);
    pthread_mutex_unlock(&s->lock);
    return ret;
}

static bool group_equal(const struct stack_group *a, const struct stack_group *b)
{
    return a->comm == b->comm && a->pid == b->pid && a->tid == b->tid && a->cpu == b->cpu &&
           a->block == b->block && a->event == b->event && a->vmstate == b->vmstate &&
           a->reason == b->reason && a->syscall == b->syscall && a->cgroup == b->cgroup &&
           a->wait == b->wait && a->waker == b->waker;
}

static uint64_t group_hash(const struct stack_group *g)
{
    uint64_t h = hash_combine((uintptr_t)g->comm, (uint64_t)g->pid << 32 | g->tid);
    h = hash_combine(h, (uint64_t)g->cpu << 24 | (uint64_t)g->vmstate << 16 | g->event);
    h = hash_combine(h, g->cgroup ^ g->wait ^ (uintptr_t)g->waker);
    return hash_combine(h, g->block + ((uint64_t)g->reason << 56 | (uint64_t)g->syscall << 40));
}

uint32_t stacks_intern_group(struct stacks *s, const struct stack_group *g)
{
    struct stack_group key = *g;
    uint32_t ret = UINT32_MAX;
    bool failed = false;
    key.comm = intern_string(s->strings, g->comm ? g->comm : "");
    key.waker = intern_or_null(s->strings, g->waker, &failed);
    pthread_mutex_lock(&s->lock);
    if (key.comm && !failed)
        ret = hash_table_intern(&s->group_table, group_hash(&key), &s->groups, i,
                                group_equal(&s->groups.at[i], &key), key);
    pthread_mutex_unlock(&s->lock);
    return ret;
}

/* ---- creating ------------------------------------------------------------------------------ */

struct stacks *stacks_create(const struct stacks_options *options)
{
    struct stacks *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->options = *options;
    lock_init_short(&s->lock);
    pthread_mutex_init(&s->tree_lock, NULL);
    s->strings = intern_create();
    if (stack_tree_init(&s->tree) < 0 || !s->strings) {
        stacks_free(s);
        return NULL;
    }
    return s;
}

void stacks_free(struct stacks *s)
{
    if (!s)
        return;
    stack_tree_deinit(&s->tree);
    intern_free(s->strings);
    vec_free(&s->functions);
    vec_free(&s->groups);
    hash_table_free(&s->function_table);
    hash_table_free(&s->group_table);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->tree_lock);
    free(s);
}

/* ---- managed functions ----------------------------------------------------------------------- */

/* Give a managed function its final name. Returns false when out of memory. */
static bool name_managed(const struct stacks *s, struct function *f)
{
    struct managed_function g;
    struct text symbol = {0};
    bool failed = false;
    if (!managed_get(s->managed, f->managed, UINT64_MAX, &g))
        managed_unrecorded(f->kind, &g);
    managed_symbol(&symbol, &g);
    text_char(&symbol, 0);
    f->managed = 0;
    f->symbol = symbol.failed ? NULL : intern_string(s->strings, symbol.at);
    f->module = intern_or_null(s->strings, managed_module(&g), &failed);
    f->file = f->line ? intern_or_null(s->strings, g.file, &failed) : NULL;
    text_free(&symbol);
    return f->symbol && !failed;
}

/* Name all managed functions. `index` gets for each function the index of the function that it is
 * now. */
static int name_all_managed(struct stacks *s, uint32_t *index)
{
    size_t nr = s->functions.nr;
    for (size_t i = 0; i < nr; i++)
        if (s->functions.at[i].managed && !name_managed(s, &s->functions.at[i]))
            return -1;
    hash_table_clear(&s->function_table);
    for (uint32_t i = 0; i < nr; i++) {
        const struct function *f = &s->functions.at[i];
        uint64_t hash = function_hash(f);
        index[i] =
            hash_table_find(&s->function_table, hash, k, function_equal(&s->functions.at[k], f));
        if (index[i] != HASH_TABLE_NONE)
            continue;
        index[i] = i;
        if (!hash_table_add(&s->function_table, hash, i))
            return -1;
    }
    return 0;
}

static bool has_managed(const struct stacks *s)
{
    for (size_t i = 0; i < s->functions.nr; i++)
        if (s->functions.at[i].managed)
            return true;
    return false;
}

static int name_functions(struct stacks *s, struct error *err)
{
    if (!s->managed || !has_managed(s))
        return 0;
    uint32_t *index = calloc(s->functions.nr, sizeof(*index));
    bool failed = !index || name_all_managed(s, index) < 0;
    vec_foreach (n, &s->tree.nodes)
        if (!failed && n->depth > 1)
            n->function = index[n->function];
    free(index);
    return failed ? error_no_memory(err) : 0;
}

/* ---- idle waits ------------------------------------------------------------------------------ */

static void add_node(struct stack_node *to, const struct stack_node *n)
{
    to->samples += n->samples;
    to->period += n->period;
    to->joined += n->joined;
    to->guessed += n->guessed;
    to->provenance = to->provenance > n->provenance ? to->provenance : n->provenance;
}

/* Whether waits that may be idle are apart. */
static bool has_waits(const struct stacks *s)
{
    for (size_t i = 0; i < s->groups.nr; i++)
        if (s->groups.at[i].wait)
            return true;
    return false;
}

/* Returns the group of the first level, of those that are kept, that a group becomes; UINT32_MAX:
 * its waits are idle, or memory is out, then *failed is set. */
static uint32_t group_without_wait(struct stacks *s, const struct stack_group *group, bool *failed)
{
    struct stack_group g = *group;
    if (replay_is_idle(s->replay, g.wait))
        return UINT32_MAX;
    g.wait = 0;
    uint32_t ret = stacks_intern_group(s, &g);
    *failed |= ret == UINT32_MAX;
    return ret;
}

/* Make the tree again without idle waits, and with the others where they belong. */
static bool copy_busy(struct stacks *s, const struct stack_group *groups,
                      const struct stack_tree *from, uint32_t *at)
{
    bool failed = false;
    for (size_t i = 1; i < from->nodes.nr && !failed; i++) {
        const struct stack_node *n = &from->nodes.at[i];
        uint32_t function = n->function;
        if (n->depth > 1 && !at[n->parent])
            continue;
        if (n->depth == 1 &&
            (function = group_without_wait(s, &groups[function], &failed)) == UINT32_MAX)
            continue;
        at[i] = stack_tree_child(&s->tree, at[n->parent], function);
        failed = !at[i];
        if (!failed)
            add_node(&s->tree.nodes.at[at[i]], n);
    }
    return !failed;
}

static int fold_idle(struct stacks *s, struct error *err)
{
    struct stack_tree all = s->tree;
    struct stack_group *groups = s->groups.at;
    uint32_t *at = calloc(all.nodes.nr, sizeof(*at)); /* its node for each; 0: left out */
    if (!at || stack_tree_init(&s->tree) < 0) {
        s->tree = all;
        free(at);
        return error_no_memory(err);
    }
    s->groups.at = NULL;
    s->groups.nr = s->groups.cap = 0;
    hash_table_clear(&s->group_table);
    bool ok = copy_busy(s, groups, &all, at);
    stack_tree_deinit(&all);
    free(groups);
    free(at);
    return ok ? 0 : error_no_memory(err);
}

int stacks_finish(struct stacks *s, struct error *err)
{
    int failed = s->replay && has_waits(s) ? fold_idle(s, err) : 0;
    s->replay = NULL;
    return failed ? failed : name_functions(s, err);
}

/* ---- adding -------------------------------------------------------------------------------- */

/* Returns the group or function in `to` that a node is of, UINT32_MAX when out of memory. */
static uint32_t counterpart(struct stacks *to, const struct stacks *from,
                            const struct stack_node *n)
{
    if (n->depth > 1)
        return stacks_intern_function(to, &from->functions.at[n->function]);
    struct stack_group g = from->groups.at[n->function];
    g.block = to->options.slice_ns ? g.block : 0;
    return stacks_intern_group(to, &g);
}

/* Whether the stacks below a node of the first level are of these slices. */
static bool is_of_slices(const struct stacks *from, const struct stack_node *n, uint64_t first,
                         uint64_t end)
{
    const uint64_t block = from->groups.at[n->function].block;
    return block >= first && block < end;
}

int stacks_add_slices(struct stacks *to, const struct stacks *from, uint64_t first, uint64_t end,
                      struct error *err)
{
    const size_t nr = from->tree.nodes.nr;
    uint32_t *at = calloc(nr, sizeof(*at)); /* its node for each; 0: left out */
    bool ok = at != NULL;
    for (size_t i = 1; i < nr && ok; i++) {
        const struct stack_node *n = &from->tree.nodes.at[i];
        if (n->depth > 1 ? !at[n->parent] : !is_of_slices(from, n, first, end))
            continue;
        uint32_t is = counterpart(to, from, n);
        at[i] = is == UINT32_MAX ? 0 : stack_tree_child(&to->tree, at[n->parent], is);
        ok = at[i] != 0;
        if (ok)
            add_node(&to->tree.nodes.at[at[i]], n);
    }
    free(at);
    return ok ? 0 : error_no_memory(err);
}

/* ---- reading ------------------------------------------------------------------------------- */

bool stacks_options_equal(const struct stacks_options *a, const struct stacks_options *b)
{
    return a->by_pid == b->by_pid && a->by_tid == b->by_tid && a->by_cpu == b->by_cpu &&
           a->by_line == b->by_line && a->by_address == b->by_address &&
           a->by_start == b->by_start && a->by_tier == b->by_tier && a->by_state == b->by_state &&
           a->by_wait == b->by_wait && a->by_waker == b->by_waker && a->by_cgroup == b->by_cgroup &&
           a->by_offset == b->by_offset && a->by_trace == b->by_trace &&
           a->slice_ns == b->slice_ns && a->all_slices == b->all_slices;
}

size_t stacks_nr_nodes(const struct stacks *s)
{
    return s->tree.nodes.nr;
}

const struct stack_node *stacks_node(const struct stacks *s, size_t index)
{
    return &s->tree.nodes.at[index];
}

size_t stacks_nr_functions(const struct stacks *s)
{
    return s->functions.nr;
}

const struct function *stacks_function(const struct stacks *s, size_t index)
{
    return &s->functions.at[index];
}

size_t stacks_nr_groups(const struct stacks *s)
{
    return s->groups.nr;
}

const struct stack_group *stacks_group(const struct stacks *s, size_t index)
{
    return &s->groups.at[index];
}

const struct stacks_options *stacks_kept(const struct stacks *s)
{
    return &s->options;
}

int stacks_event(const struct stacks *s, int event)
{
    int first = event;
    for (size_t i = 0; event < 0 && i < s->groups.nr; i++)
        if (first < 0 || s->groups.at[i].event < first)
            first = s->groups.at[i].event;
    return first;
}
