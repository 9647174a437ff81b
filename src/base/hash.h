/* SPDX-License-Identifier: GPL-2.0-only */
/* Hash functions. For tables see hash_table.h. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Mix one word: every input bit reaches the high bits of the result. */
static inline uint64_t hash_u64(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ (x >> 32);
}

static inline uint64_t hash_combine(uint64_t h, uint64_t x)
{
    return hash_u64(h ^ (x + UINT64_C(0x9e3779b97f4a7c15) + (h << 6) + (h >> 2)));
}

uint64_t hash_bytes(const void *bytes, size_t size);

#endif
