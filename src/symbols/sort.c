/* SPDX-License-Identifier: GPL-2.0-only */
/* Radix sort, a byte at a time; bytes that are the same in all keys cost one look. */
#include "symbols/sort.h"

#include <stdlib.h>
#include <string.h>

static bool sorted(const struct sort_key *keys, size_t nr)
{
    for (size_t i = 1; i < nr; i++)
        if (keys[i].key < keys[i - 1].key)
            return false;
    return true;
}

static void pass(const struct sort_key *from, struct sort_key *to, size_t nr, unsigned shift,
                 const uint32_t *count)
{
    size_t at[256], sum = 0;
    for (unsigned b = 0; b < 256; b++) {
        at[b] = sum;
        sum += count[b];
    }
    for (size_t i = 0; i < nr; i++)
        to[at[from[i].key >> shift & 255]++] = from[i];
}

bool sort_keys(struct sort_key *keys, size_t nr)
{
    if (sorted(keys, nr))
        return true;
    struct sort_key *other = malloc(nr * sizeof(*other));
    uint32_t(*count)[256] = calloc(8, sizeof(*count));
    if (!other || !count) {
        free(other);
        free(count);
        return false;
    }
    for (size_t i = 0; i < nr; i++)
        for (unsigned b = 0; b < 8; b++)
            count[b][keys[i].key >> 8 * b & 255]++;
    struct sort_key *from = keys, *to = other;
    for (unsigned b = 0; b < 8; b++) {
        if (count[b][keys[0].key >> 8 * b & 255] == nr)
            continue;
        pass(from, to, nr, 8 * b, count[b]);
        struct sort_key *swap = from;
        from = to;
        to = swap;
    }
    if (from != keys)
        memcpy(keys, from, nr * sizeof(*keys));
    free(other);
    free(count);
    return true;
}
