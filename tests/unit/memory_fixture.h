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

#endif
