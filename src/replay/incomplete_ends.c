/* SPDX-License-Identifier: GPL-2.0-only */
/* Where stacks ended that did not reach their entry point: counts by (how, module, address). */
#include "base/hash.h"
#include "replay/replay_internal.h"

#include <stdlib.h>
#include <string.h>

enum { STOPS_MAX = 1 << 16 }; /* further distinct places are counted without an address */

struct end_table {
    struct replay_incomplete_end *slots; /* count 0: free */
    size_t nr, cap;
    VEC(struct replay_incomplete_end) sorted;
};

struct end_table *end_table_create(void)
{
    struct end_table *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->cap = 256;
    t->slots = calloc(t->cap, sizeof(*t->slots));
    if (t->slots)
        return t;
    free(t);
    return NULL;
}

void end_table_free(struct end_table *t)
{
    if (!t)
        return;
    free(t->slots);
    vec_free(&t->sorted);
    free(t);
}

/* Module names are dso names, with one pointer for each dso. */
static struct replay_incomplete_end *find(struct replay_incomplete_end *slots, size_t cap,
                                          const struct replay_incomplete_end *s)
{
    uint64_t h = hash_combine(hash_combine((uint64_t)s->end, (uintptr_t)s->module), s->address);
    size_t at = h & (cap - 1);
    while (slots[at].count && (slots[at].end != s->end || slots[at].module != s->module ||
                               slots[at].address != s->address))
        at = (at + 1) & (cap - 1);
    return &slots[at];
}

static bool grow(struct end_table *t)
{
    size_t cap = t->cap * 2;
    struct replay_incomplete_end *slots = calloc(cap, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < t->cap; i++)
        if (t->slots[i].count)
            *find(slots, cap, &t->slots[i]) = t->slots[i];
    free(t->slots);
    t->slots = slots;
    t->cap = cap;
    return true;
}

int end_table_add(struct end_table *t, enum stack_end end, const struct mapping *at, uint64_t pc,
                  struct error *err)
{
    struct replay_incomplete_end key = {.end = end, .address = pc};
    if (at) {
        key.module = at->dso->name;
        key.address = pc - at->start + at->pgoff;
    }
    if (t->nr >= STOPS_MAX)
        key.address = 0;
    if (t->nr * 2 >= t->cap && !grow(t))
        return error_no_memory(err);
    struct replay_incomplete_end *s = find(t->slots, t->cap, &key);
    if (s->count == 0) {
        *s = key;
        t->nr++;
    }
    s->count++;
    return 0;
}

static int by_count(const void *a, const void *b)
{
    const struct replay_incomplete_end *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    int names = strcmp(x->module ? x->module : "", y->module ? y->module : "");
    if (names)
        return names;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return (int)x->end - (int)y->end;
}

const struct replay_incomplete_end *end_table_sorted(struct end_table *t, size_t *nr)
{
    t->sorted.nr = 0;
    for (size_t i = 0; i < t->cap; i++)
        if (t->slots[i].count && !vec_push(&t->sorted, t->slots[i]))
            break;
    if (t->sorted.nr)
        qsort(t->sorted.at, t->sorted.nr, sizeof(*t->sorted.at), by_count);
    *nr = t->sorted.nr;
    return t->sorted.at;
}
