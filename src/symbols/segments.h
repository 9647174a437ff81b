/* SPDX-License-Identifier: GPL-2.0-only */
/* Cuts ranges that may be nested into disjoint segments: a lookup is one binary search. */
#ifndef SYMBOLS_SEGMENTS_H
#define SYMBOLS_SEGMENTS_H

#include "base/vec.h"

#include <stdint.h>

enum { NO_OWNER = UINT32_MAX };

struct segment_range {
    uint64_t low, high; /* [low, high) */
    uint32_t owner;
};

struct segments {
    VEC(uint64_t) starts;
    VEC(uint32_t) owners; /* NO_OWNER: a gap */
};

/* Fill `s` from ranges in any order. Where ranges overlap, the one that begins last wins; of two
 * that begin at the same address, the later one in the array. Returns false when out of memory. */
bool segments_make(struct segments *s, const struct segment_range *ranges, size_t nr);
void segments_free(struct segments *s);

/* Returns the owner of the address, or NO_OWNER. */
static inline uint32_t segments_find(const struct segments *s, uint64_t address)
{
    const uint64_t *base = s->starts.at;
    size_t nr = s->starts.nr;
    if (nr == 0 || address < base[0])
        return NO_OWNER;
    while (nr > 1) {
        size_t half = nr / 2;
        base += address >= base[half] ? half : 0;
        nr -= half;
    }
    return s->owners.at[base - s->starts.at];
}

#endif
