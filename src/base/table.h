/* SPDX-License-Identifier: GPL-2.0-only */
/* A table from a number (a pid, an interned pointer) to a pointer. All zeros: empty. */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include "base/hash_table.h"
#include "base/vec.h"

struct table_entry {
    uint64_t key;
    void *value;
};

/* vec_foreach visits the entries; the table must not change meanwhile. They are in the order in
 * which their keys were added, but a removal puts the last one in the place of the removed one. */
struct table {
    VEC(struct table_entry);
    struct hash_table numbers;
};

/* Free the table, but not the values. It is empty afterwards. */
void table_free(struct table *t);

/* Returns the value; NULL: the key is not there. */
void *table_get(const struct table *t, uint64_t key);
/* Add or replace a value, which is not NULL. Returns false when out of memory. */
bool table_put(struct table *t, uint64_t key, void *value);
/* Remove a key; nothing happens if it is not there. */
void table_remove(struct table *t, uint64_t key);

#endif
