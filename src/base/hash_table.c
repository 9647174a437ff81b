/* SPDX-License-Identifier: GPL-2.0-only */
/* See hash_table.h. A removal moves the rest of its run back, so that there are no tombstones. */
#include "base/hash_table.h"
#include "base/heap.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 64 };

static uint64_t make_slot(uint64_t hash, uint32_t number)
{
    return (hash & ~(uint64_t)UINT32_MAX) | (number + 1);
}

static void put(uint64_t *slots, size_t cap, uint64_t slot)
{
    size_t at = hash_table_home_(slot) & (cap - 1);
    while (slots[at])
        at = (at + 1) & (cap - 1);
    slots[at] = slot;
}

static bool grow(struct hash_table *t)
{
    size_t cap = t->cap ? 2 * t->cap : FIRST_SLOTS;
    uint64_t *slots = heap_table(cap, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < t->cap; i++)
        if (t->slots[i])
            put(slots, cap, t->slots[i]);
    free(t->slots);
    t->slots = slots;
    t->cap = cap;
    return true;
}

bool hash_table_add(struct hash_table *t, uint64_t hash, size_t number)
{
    if (number >= HASH_TABLE_NONE || (2 * (t->nr + 1) > t->cap && !grow(t)))
        return false;
    put(t->slots, t->cap, make_slot(hash, (uint32_t)number));
    t->nr++;
    return true;
}

/* Returns the slot of a number; SIZE_MAX: it is not there. */
static size_t slot_of(const struct hash_table *t, uint64_t hash, uint32_t number)
{
    size_t at = hash_table_home_(hash);
    uint32_t found;
    do
        found = hash_table_next_(t, hash, &at);
    while (found != number && found != HASH_TABLE_NONE);
    return found == HASH_TABLE_NONE ? SIZE_MAX : (at - 1) & (t->cap - 1);
}

void hash_table_replace(struct hash_table *t, uint64_t hash, uint32_t old, uint32_t now)
{
    size_t at = slot_of(t, hash, old);
    if (at != SIZE_MAX && now != HASH_TABLE_NONE)
        t->slots[at] = make_slot(hash, now);
}

void hash_table_remove(struct hash_table *t, uint64_t hash, uint32_t number)
{
    size_t mask = t->cap - 1, hole = slot_of(t, hash, number);
    if (hole == SIZE_MAX)
        return;
    for (size_t at = (hole + 1) & mask; t->slots[at]; at = (at + 1) & mask) {
        /* A slot may move into the hole only if its home is not after the hole. */
        if (((at - hash_table_home_(t->slots[at])) & mask) < ((at - hole) & mask))
            continue;
        t->slots[hole] = t->slots[at];
        hole = at;
    }
    t->slots[hole] = 0;
    t->nr--;
}

void hash_table_clear(struct hash_table *t)
{
    if (t->nr)
        memset(t->slots, 0, t->cap * sizeof(*t->slots));
    t->nr = 0;
}

void hash_table_free(struct hash_table *t)
{
    free(t->slots);
    *t = (struct hash_table){0};
}
