/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/hash.h"

#include <string.h>

/* Both halves of a product depend on all bits of both factors. */
static inline uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The constants keep zeros in the input from making the product zero. */
static inline uint64_t mix(uint64_t h, uint64_t a, uint64_t b)
{
    return fold(h ^ a ^ UINT64_C(0x9e3779b97f4a7c15), b ^ UINT64_C(0xbf58476d1ce4e5b9));
}

uint64_t hash_bytes(const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    uint64_t h = hash_u64(size), word[2];
    for (; size >= 16; size -= 16, p += 16) {
        memcpy(word, p, 16);
        h = mix(h, word[0], word[1]);
    }
    word[0] = word[1] = 0;
    memcpy(word, p, size);
    return hash_u64(mix(h, word[0], word[1]));
}
