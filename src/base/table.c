/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/table.h"
#include "base/hash.h"

static uint32_t find(const struct table *t, uint64_t key)
{
    return hash_table_find(&t->numbers, hash_u64(key), i, t->at[i].key == key);
}

void table_free(struct table *t)
{
    vec_free(t);
    hash_table_free(&t->numbers);
}

void *table_get(const struct table *t, uint64_t key)
{
    uint32_t n = find(t, key);
    return n != HASH_TABLE_NONE ? t->at[n].value : NULL;
}

bool table_put(struct table *t, uint64_t key, void *value)
{
    const struct table_entry e = {key, value};
    uint32_t n = hash_table_intern(&t->numbers, hash_u64(key), t, i, t->at[i].key == key, e);
    if (n == HASH_TABLE_NONE)
        return false;
    t->at[n].value = value;
    return true;
}

void table_remove(struct table *t, uint64_t key)
{
    uint32_t n = find(t, key);
    if (n == HASH_TABLE_NONE)
        return;
    hash_table_remove(&t->numbers, hash_u64(key), n);
    uint32_t last = (uint32_t)--t->nr;
    if (n == last)
        return;
    t->at[n] = t->at[last];
    hash_table_replace(&t->numbers, hash_u64(t->at[n].key), last, n);
}
