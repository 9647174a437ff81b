/* SPDX-License-Identifier: GPL-2.0-only */
/* Radix sort of the part that is out of order, using only the bits in which the keys differ. */
#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

enum { DIGIT = 11, FEW = 32 };

static void sort_few(struct sort_key *keys, size_t nr)
{
    for (size_t i = 1; i < nr; i++) {
        struct sort_key k = keys[i];
        size_t at = i;
        for (; at && keys[at - 1].key > k.key; at--)
            keys[at] = keys[at - 1];
        keys[at] = k;
    }
}

/* Count the leading keys that are in order and not above any later key. */
static size_t nr_in_order(const struct sort_key *keys, size_t nr)
{
    size_t ordered = 1;
    while (ordered < nr && keys[ordered].key >= keys[ordered - 1].key)
        ordered++;
    if (ordered >= nr)
        return nr;
    uint64_t least = UINT64_MAX;
    for (size_t i = ordered; i < nr; i++)
        least = keys[i].key < least ? keys[i].key : least;
    while (ordered && keys[ordered - 1].key > least)
        ordered--;
    return ordered;
}

static void pass(const struct sort_key *from, struct sort_key *to, size_t nr, unsigned shift)
{
    enum { MASK = (1 << DIGIT) - 1 };
    uint32_t at[1 << DIGIT] = {0}, sum = 0;
    for (size_t i = 0; i < nr; i++)
        at[from[i].key >> shift & MASK]++;
    for (unsigned d = 0; d <= MASK; d++) {
        uint32_t count = at[d];
        at[d] = sum;
        sum += count;
    }
    for (size_t i = 0; i < nr; i++)
        to[at[from[i].key >> shift & MASK]++] = from[i];
}

bool sort_keys(struct sort_key *keys, size_t nr)
{
    size_t done = nr_in_order(keys, nr);
    if (done >= nr)
        return true;
    keys += done;
    nr -= done;
    if (nr <= FEW) {
        sort_few(keys, nr);
        return true;
    }
    struct sort_key *other = nr <= UINT32_MAX ? malloc(nr * sizeof(*other)) : NULL;
    if (!other)
        return false;
    uint64_t differ = 0;
    for (size_t i = 1; i < nr; i++)
        differ |= keys[i].key ^ keys[0].key;
    struct sort_key *from = keys, *to = other;
    for (unsigned shift = (unsigned)__builtin_ctzll(differ); shift < 64 && differ >> shift;
         shift += DIGIT) {
        if (!(differ >> shift & ((1 << DIGIT) - 1)))
            continue;
        pass(from, to, nr, shift);
        struct sort_key *swap = from;
        from = to;
        to = swap;
    }
    if (from != keys)
        memcpy(keys, from, nr * sizeof(*keys));
    free(other);
    return true;
}
