/* SPDX-License-Identifier: GPL-2.0-only */
/* A hash table from a number (a pid, an interned pointer) to a pointer. */
#ifndef SESSION_TABLE_H
#define SESSION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_slot {
    uint64_t key;
    void *value; /* NULL: free */
};

struct table {
    struct table_slot *slots;
    size_t nr, cap; /* cap: 0 or a power of two */
};

void table_free(struct table *t);

/* Returns the value; NULL: the key is not there. */
void *table_get(const struct table *t, uint64_t key);
/* Add or replace a value, which is not NULL. Returns false when out of memory. */
bool table_put(struct table *t, uint64_t key, void *value);
void table_remove(struct table *t, uint64_t key);

#define table_foreach(s, t)                                                             \
    for (struct table_slot *s = (t)->slots; (t)->cap && s < (t)->slots + (t)->cap; s++) \
        if (s->value)

#endif
