/* SPDX-License-Identifier: GPL-2.0-only */
/* Linear probing. A removal moves the rest of its run back, so that there are no tombstones. */
#include "session/table.h"
#include "base/hash.h"

#include <stdlib.h>

void table_free(struct table *t)
{
    free(t->slots);
    *t = (struct table){0};
}

static size_t home(const struct table *t, uint64_t key)
{
    return hash_u64(key) >> 20 & (t->cap - 1);
}

/* Returns the slot of `key`, or the free slot for it. */
static struct table_slot *find(const struct table *t, uint64_t key)
{
    size_t at = home(t, key);
    while (t->slots[at].value && t->slots[at].key != key)
        at = (at + 1) & (t->cap - 1);
    return &t->slots[at];
}

void *table_get(const struct table *t, uint64_t key)
{
    return t->cap ? find(t, key)->value : NULL;
}

static bool grow(struct table *t)
{
    struct table to = {.nr = t->nr, .cap = t->cap ? t->cap * 2 : 64};
    to.slots = calloc(to.cap, sizeof(*to.slots));
    if (!to.slots)
        return false;
    table_foreach(s, t) * find(&to, s->key) = *s;
    free(t->slots);
    *t = to;
    return true;
}

bool table_put(struct table *t, uint64_t key, void *value)
{
    if (t->nr * 2 >= t->cap && !grow(t))
        return false;
    struct table_slot *s = find(t, key);
    t->nr += !s->value;
    *s = (struct table_slot){key, value};
    return true;
}

void table_remove(struct table *t, uint64_t key)
{
    if (!table_get(t, key))
        return;
    size_t mask = t->cap - 1;
    size_t hole = (size_t)(find(t, key) - t->slots);
    for (size_t at = (hole + 1) & mask; t->slots[at].value; at = (at + 1) & mask) {
        /* An entry may move into the hole only if its home is not after the hole. */
        if (((at - home(t, t->slots[at].key)) & mask) < ((at - hole) & mask))
            continue;
        t->slots[hole] = t->slots[at];
        hole = at;
    }
    t->slots[hole].value = NULL;
    t->nr--;
}
