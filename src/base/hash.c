/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/hash.h"

#include <string.h>

uint64_t hash_bytes(const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    uint64_t h = hash_u64(size);
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = hash_combine(h, word);
    }
    uint64_t tail = 0;
    memcpy(&tail, p, size);
    return hash_combine(h, tail);
}
