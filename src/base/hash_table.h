/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A hash table of numbers. The things themselves are in an array of the caller's, mostly a VEC, and
 * the table finds a thing's number by the thing's hash. All zeros is an empty table. A table with
 * `nr` numbers has at most 4 * nr + 64 slots of 8 bytes; a caller that reads hostile input bounds
 * `nr`.
 *
 *     VEC(struct thing) things;
 *     struct hash_table table;
 *     uint32_t n = hash_table_find(&table, hash, i, same_thing(&things.at[i], &wanted));
 *
 * Open addressing, linear probing, a power of two of slots of which at most half are in use. A slot
 * holds the upper half of the hash: most things that differ need no comparison, and the table grows
 * without the caller's help.
 */
#ifndef BASE_HASH_TABLE_H
#define BASE_HASH_TABLE_H

#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_TABLE_NONE UINT32_MAX

struct hash_table {
    uint64_t *slots; /* the hash's upper half, and below it the number + 1; 0: free */
    size_t nr, cap;  /* cap: 0 or a power of two */
};

/* Returns the number of a thing with this hash for which `same` is true; HASH_TABLE_NONE: there is
 * none. `same` is an expression, in which `number` is a variable: the number to compare. */
#define hash_table_find(t, hash, number, same)                                                \
    __extension__({                                                                           \
        const struct hash_table *table_ = (t);                                                \
        const uint64_t hash_ = (hash);                                                        \
        uint32_t number;                                                                      \
        for (size_t at_ = hash_table_home_(hash_);                                            \
             (number = hash_table_next_(table_, hash_, &at_)) != HASH_TABLE_NONE && !(same);) \
            ;                                                                                 \
        number;                                                                               \
    })

/* The same with the things in the VEC `v`. If there is none, the thing that is the last argument is
 * added to both. HASH_TABLE_NONE: out of memory; both are then unchanged. */
#define hash_table_intern(t, hash, v, number, same, ...)                                      \
    __extension__({                                                                           \
        struct hash_table *table_ = (t);                                                      \
        const uint64_t hash_ = (hash);                                                        \
        uint32_t number;                                                                      \
        for (size_t at_ = hash_table_home_(hash_);                                            \
             (number = hash_table_next_(table_, hash_, &at_)) != HASH_TABLE_NONE && !(same);) \
            ;                                                                                 \
        if (number == HASH_TABLE_NONE && vec_push(v, __VA_ARGS__)) {                          \
            if (hash_table_add(table_, hash_, (v)->nr - 1))                                   \
                number = (uint32_t)((v)->nr - 1);                                             \
            else                                                                              \
                (v)->nr--;                                                                    \
        }                                                                                     \
        number;                                                                               \
    })

/* Add a number that is not in the table. Returns false, and changes nothing, when out of memory or
 * if the number is not below HASH_TABLE_NONE. */
bool hash_table_add(struct hash_table *t, uint64_t hash, size_t number);

/* Put number `now` in the place of `old`, which was added with this hash: `now` is of a thing that
 * replaces the old one. */
void hash_table_replace(struct hash_table *t, uint64_t hash, uint32_t old, uint32_t now);

/* Remove a number that was added with this hash; nothing happens if it is not there. */
void hash_table_remove(struct hash_table *t, uint64_t hash, uint32_t number);

/* Remove all numbers, and keep the memory. */
void hash_table_clear(struct hash_table *t);

/* Free the memory. The table is empty afterwards. */
void hash_table_free(struct hash_table *t);

/* ---- for the macros ------------------------------------------------------------------------- */

/* Returns the place where a search for the hash begins; it counts modulo the number of slots. */
static inline size_t hash_table_home_(uint64_t hash)
{
    return hash >> 32;
}

/* Returns the next number from place `at` on that may be of a thing with this hash, and moves `at`
 * behind it; HASH_TABLE_NONE: there is none. */
static inline uint32_t hash_table_next_(const struct hash_table *t, uint64_t hash, size_t *at)
{
    uint64_t slot;
    if (!t->cap)
        return HASH_TABLE_NONE;
    while ((slot = t->slots[(*at)++ & (t->cap - 1)]))
        if (!((slot ^ hash) >> 32))
            return (uint32_t)slot - 1;
    return HASH_TABLE_NONE;
}

#endif
