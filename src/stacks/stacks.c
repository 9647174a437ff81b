/* SPDX-License-Identifier: GPL-2.0-only */
/* The tree, and the tables of functions and groups that its nodes refer to. */
#include "base/hash.h"
#include "base/threads.h"
#include "base/heap.h"
#include "base/text.h"
#include "stacks/stacks_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- tree ---------------------------------------------------------------------------------- */

int stack_tree_init(struct stack_tree *t)
{
    *t = (struct stack_tree){.nr_slots = 1024};
    t->slots = calloc(t->nr_slots, sizeof(*t->slots));
    return t->slots && vec_push(&t->nodes, (struct stack_node){0}) ? 0 : -1;
}

void stack_tree_deinit(struct stack_tree *t)
{
    vec_free(&t->nodes);
    free(t->slots);
    t->slots = NULL;
}

static uint64_t make_slot(uint64_t hash, uint32_t node)
{
    return (hash & ~(uint64_t)UINT32_MAX) | node;
}

/* The upper half of the hash is in the slot, which spares most looks at nodes; each look is a cache
 * miss in a large tree. */
static size_t slot_of(const struct stack_tree *t, uint32_t parent, uint32_t function)
{
    uint64_t hash = stack_tree_hash(parent, function);
    size_t at = hash & (t->nr_slots - 1);
    for (; t->slots[at]; at = (at + 1) & (t->nr_slots - 1)) {
        if ((t->slots[at] ^ hash) >> 32)
            continue;
        const struct stack_node *n = &t->nodes.at[(uint32_t)t->slots[at]];
        if (n->parent == parent && n->function == function)
            break;
    }
    return at;
}

static bool grow_slots(struct stack_tree *t)
{
    size_t nr = t->nr_slots * 2;
    uint64_t *slots = heap_table(nr, sizeof(*slots));
    if (!slots)
        return false;
    for (uint32_t i = 1; i < t->nodes.nr; i++) { /* the root has no slot */
        const struct stack_node *n = &t->nodes.at[i];
        uint64_t hash = stack_tree_hash(n->parent, n->function);
        size_t at = hash & (nr - 1);
        while (slots[at]) /* no two slots are of one node */
            at = (at + 1) & (nr - 1);
        slots[at] = make_slot(hash, i);
    }
    free(t->slots);
    t->slots = slots;
    t->nr_slots = nr;
    return true;
}

uint32_t stack_tree_child(struct stack_tree *t, uint32_t parent, uint32_t function)
{
    size_t at = slot_of(t, parent, function);
    if (t->slots[at])
        return (uint32_t)t->slots[at];
    if (t->nodes.nr * 2 >= t->nr_slots) {
        if (t->nodes.nr >= UINT32_MAX / 2 || !grow_slots(t))
            return 0;
        at = slot_of(t, parent, function);
    }
    struct stack_node n = {
        .parent = parent, .function = function, .depth = t->nodes.at[parent].depth + 1};
    if (!vec_push(&t->nodes, n))
        return 0;
    t->slots[at] = make_slot(stack_tree_hash(parent, function), (uint32_t)(t->nodes.nr - 1));
    return (uint32_t)(t->nodes.nr - 1);
}

/* ---- functions and groups ------------------------------------------------------------------ */

bool function_equal(const struct function *a, const struct function *b)
{
    return a->symbol == b->symbol && a->module == b->module && a->file == b->file &&
           a->line == b->line && a->kind == b->kind && a->tier == b->tier &&
           a->inlined == b->inlined && a->trace == b->trace && a->address == b->address &&
           a->managed == b->managed;
}

uint64_t function_hash(const struct function *f)
{
    uint64_t h = hash_combine((uintptr_t)f->symbol, (uintptr_t)f->module);
    h = hash_combine(h, (uintptr_t)f->file ^ f->line);
    h = hash_combine(h, f->address ^ (uint64_t)f->managed << 32);
    return hash_combine(h, (uint64_t)f->trace << 32 | (uint64_t)f->kind << 16 |
                               (uint64_t)f->tier << 8 | f->inlined);
}

static size_t function_slot(const struct stacks *s, const uint32_t *slots, size_t nr_slots,
                            const struct function *f)
{
    size_t at = function_hash(f) & (nr_slots - 1);
    while (slots[at] && !function_equal(&s->functions.at[slots[at] - 1], f))
        at = (at + 1) & (nr_slots - 1);
    return at;
}

static bool grow_functions(struct stacks *s)
{
    size_t nr = s->nr_function_slots ? s->nr_function_slots * 2 : 1024;
    uint32_t *slots = heap_table(nr, sizeof(*slots));
    if (!slots)
        return false;
    for (uint32_t i = 0; i < s->functions.nr; i++)
        slots[function_slot(s, slots, nr, &s->functions.at[i])] = i + 1;
    free(s->function_slots);
    s->function_slots = slots;
    s->nr_function_slots = nr;
    return true;
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
    pthread_mutex_lock(&s->lock);
    if (!failed && (s->functions.nr * 2 < s->nr_function_slots || grow_functions(s))) {
        size_t at = function_slot(s, s->function_slots, s->nr_function_slots, &key);
        if (!s->function_slots[at] && vec_push(&s->functions, key))
            s->function_slots[at] = (uint32_t)s->functions.nr;
        ret = s->function_slots[at] - 1;
    }
    pthread_mutex_unlock(&s->lock);
    return ret;
}

static bool group_equal(const struct stack_group *a, const struct stack_group *b)
{
    return a->comm == b->comm && a->pid == b->pid && a->tid == b->tid && a->cpu == b->cpu &&
           a->block == b->block && a->event == b->event && a->vmstate == b->vmstate;
}

static size_t group_slot(const struct stacks *s, const uint32_t *slots, size_t nr_slots,
                         const struct stack_group *g)
{
    uint64_t h = hash_combine((uintptr_t)g->comm, (uint64_t)g->pid << 32 | g->tid);
    h = hash_combine(h, (uint64_t)g->cpu << 24 | (uint64_t)g->vmstate << 16 | g->event);
    size_t at = hash_combine(h, g->block) & (nr_slots - 1);
    while (slots[at] && !group_equal(&s->groups.at[slots[at] - 1], g))
        at = (at + 1) & (nr_slots - 1);
    return at;
}

static bool grow_groups(struct stacks *s)
{
    size_t nr = s->nr_group_slots ? s->nr_group_slots * 2 : 64;
    uint32_t *slots = heap_table(nr, sizeof(*slots));
    if (!slots)
        return false;
    for (uint32_t i = 0; i < s->groups.nr; i++)
        slots[group_slot(s, slots, nr, &s->groups.at[i])] = i + 1;
    free(s->group_slots);
    s->group_slots = slots;
    s->nr_group_slots = nr;
    return true;
}

uint32_t stacks_intern_group(struct stacks *s, const struct stack_group *g)
{
    struct stack_group key = *g;
    uint32_t ret = UINT32_MAX;
    key.comm = intern_string(s->strings, g->comm ? g->comm : "");
    pthread_mutex_lock(&s->lock);
    if (key.comm && (s->groups.nr * 2 < s->nr_group_slots || grow_groups(s))) {
        size_t at = group_slot(s, s->group_slots, s->nr_group_slots, &key);
        if (!s->group_slots[at] && vec_push(&s->groups, key))
            s->group_slots[at] = (uint32_t)s->groups.nr;
        ret = s->group_slots[at] - 1;
    }
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
    free(s->function_slots);
    free(s->group_slots);
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
    memset(s->function_slots, 0, s->nr_function_slots * sizeof(*s->function_slots));
    for (uint32_t i = 0; i < nr; i++) {
        size_t at = function_slot(s, s->function_slots, s->nr_function_slots, &s->functions.at[i]);
        if (!s->function_slots[at])
            s->function_slots[at] = i + 1;
        index[i] = s->function_slots[at] - 1;
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

int stacks_finish(struct stacks *s, struct error *err)
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
