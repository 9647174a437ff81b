/* SPDX-License-Identifier: GPL-2.0-only */
/* Stable sorting of many 64-bit keys. */
#ifndef BASE_SORT_H
#define BASE_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sort_key {
    uint64_t key;
    uint32_t index; /* of the object that the key belongs to */
    uint32_t extra; /* moves with the key */
};

/* Sort by key; equal keys keep their order. Keys already in order cost one scan. Returns false when
 * out of memory. */
bool sort_keys(struct sort_key *keys, size_t nr);

#endif
