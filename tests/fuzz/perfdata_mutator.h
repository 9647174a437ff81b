/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Changes a perf.data as what it is: a header, attributes, and records of a type and a size. A
 * change of random bytes mostly breaks the chain of sizes, and all behind it is never read.
 */
#ifndef FUZZ_PERFDATA_MUTATOR_H
#define FUZZ_PERFDATA_MUTATOR_H

#include "base/hash.h"

#include <linux/perf_event.h>
#include <stdint.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

/* The parts of the header that are needed here (struct perf_file_header of
 * tools/perf/util/header.h, by Documentation/perf.data-file-format.txt). */
struct mutated_header {
    uint64_t magic, size, attr_size, attrs_at, attrs_size, data_at, data_size;
};

enum { MUTATED_RECORDS = 256 };

/* Collect where records begin. Returns their number. */
static inline size_t mutated_records(const uint8_t *data, size_t size, size_t at[MUTATED_RECORDS],
                                     struct mutated_header *h)
{
    size_t nr = 0;
    if (size < sizeof(*h))
        return 0;
    memcpy(h, data, sizeof(*h));
    if (h->data_at > size || h->data_size > size - h->data_at)
        return 0;
    for (size_t i = (size_t)h->data_at;
         i + 8 <= h->data_at + h->data_size && nr < MUTATED_RECORDS;) {
        struct perf_event_header r;
        memcpy(&r, data + i, sizeof(r));
        if (r.size < 8)
            break;
        at[nr++] = i;
        i += r.size;
    }
    return nr;
}

static inline uint64_t mutated_number(uint64_t random, uint64_t old)
{
    static const uint64_t special[] = {0,          1,         7,          8,
                                       0xff,       0xffff,    0x10000,    INT32_MAX,
                                       UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX - 7};
    switch (random % 4) {
    case 0:
        return special[(random >> 8) % (sizeof(special) / sizeof(*special))];
    case 1:
        return old + (random >> 8) % 17 - 8;
    case 2:
        return old ^ UINT64_C(1) << (random >> 8) % 64;
    default:
        return random;
    }
}

/* Change one of the 8-byte words from `at` on. */
static inline void mutate_word(uint8_t *data, size_t at, size_t bytes, uint64_t random)
{
    uint64_t word;
    if (bytes < 8)
        return;
    at += 8 * ((random >> 40) % (bytes / 8));
    memcpy(&word, data + at, 8);
    word = mutated_number(random, word);
    memcpy(data + at, &word, 8);
}

/* Put a record once more, or take it out; the header follows. */
static inline size_t mutate_list(uint8_t *data, size_t size, size_t max, size_t at, size_t bytes,
                                 struct mutated_header *h, bool twice)
{
    if (bytes > size - at || (twice && bytes > max - size))
        return size;
    memmove(data + at + (twice ? bytes : 0), data + at + (twice ? 0 : bytes),
            size - at - (twice ? 0 : bytes));
    h->data_size += twice ? bytes : -bytes;
    memcpy(data, h, sizeof(*h));
    return twice ? size + bytes : size - bytes;
}

/* The first byte of the input is not the file's. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    size_t at[MUTATED_RECORDS];
    struct mutated_header h;
    struct perf_event_header r;
    uint64_t random = hash_combine(seed, size);
    size_t nr = size > 1 ? mutated_records(data + 1, size - 1, at, &h) : 0;
    if (!nr || random % 8 == 0)
        return LLVMFuzzerMutate(data, size, max);
    uint8_t *file = data + 1;
    size_t of = at[(random >> 8) % nr], other = at[(random >> 16) % nr];
    memcpy(&r, file + of, sizeof(r));
    size_t bytes = r.size < h.data_at + h.data_size - of ? r.size : h.data_at + h.data_size - of;
    uint64_t next = hash_u64(random);
    switch (random % 8) {
    case 1:
        return 1 + mutate_list(file, size - 1, max - 1, of, bytes, &h, true);
    case 2:
        return 1 + mutate_list(file, size - 1, max - 1, of, bytes, &h, false);
    case 3: /* another's type */
        memcpy(file + of, file + other, 4);
        break;
    case 4: /* the attributes */
        if (h.attrs_at < size - 1 && h.attrs_size <= size - 1 - h.attrs_at)
            mutate_word(file, (size_t)h.attrs_at, (size_t)h.attrs_size, next);
        break;
    case 5: /* the header */
        mutate_word(file, 8, sizeof(h) - 8, next);
        break;
    case 6: /* its size: the next record begins elsewhere */
        r.size = (uint16_t)mutated_number(next, r.size);
        memcpy(file + of, &r, sizeof(r));
        break;
    default:
        mutate_word(file, of + 8, bytes - 8, next);
    }
    return size;
}

#endif
