/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory of an invented process, for tests. */
#ifndef MEMORY_FIXTURE_H
#define MEMORY_FIXTURE_H

#include "unwind/memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Reads from `nr` bytes that begin at address `origin`. Returns false when they do not cover the
 * whole range. */
static inline bool memory_fixture_read(const uint8_t *bytes, uint64_t origin, uint64_t nr,
                                       uint64_t address, void *to, size_t size)
{
    uint64_t at = address - origin;
    if (at >= nr || nr - at < size)
        return false;
    memcpy(to, bytes + at, size);
    return true;
}

/* Asks one layer. `provenance`: of the answer. */
static inline bool layer_read(const struct memory_layer *layer, uint64_t address, void *to,
                              size_t size, uint64_t time, enum provenance *provenance)
{
    const struct memory_query q = {.address = address, .size = size, .time = time};
    struct memory_answer a;
    memory_answer_begin(&a, &q);
    bool read = layer->read(layer->context, &q, to, &a);
    *provenance = a.provenance;
    return read;
}

/* A layer's context: reads from another layer, and changes some of the bytes. */
struct liar {
    struct memory_layer under;
    uint64_t random;
    unsigned one_in; /* about one byte in this many is changed */
};

static inline uint64_t liar_random(uint64_t *r)
{
    *r ^= *r << 13;
    *r ^= *r >> 7;
    return *r ^= *r << 17;
}

/* struct memory_layer's `read`. */
static inline bool lie(void *context, const struct memory_query *q, void *to,
                       struct memory_answer *answer)
{
    struct liar *l = context;
    if (!l->under.read(l->under.context, q, to, answer))
        return false;
    size_t lies = liar_random(&l->random) % (q->size / l->one_in + 2);
    for (size_t i = 0; i < lies; i++) {
        static const uint8_t favourite[] = {0, 1, 0x7f, 0x80, 0xff};
        uint64_t r = liar_random(&l->random);
        uint8_t *byte = (uint8_t *)to + r % q->size;
        *byte = r >> 60 < 8 ? (uint8_t)(r >> 32) : favourite[(r >> 32) % sizeof(favourite)];
    }
    return true;
}

#endif
