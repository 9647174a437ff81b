/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory of a process that a test makes up. */
#ifndef MEMORY_FIXTURE_H
#define MEMORY_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Reads of `nr` bytes that stand at `origin` on; false: they are not all there. */
static inline bool memory_fixture_read(const uint8_t *bytes, uint64_t origin, uint64_t nr,
                                       uint64_t address, void *to, size_t size)
{
    uint64_t at = address - origin;
    if (at >= nr || nr - at < size)
        return false;
    memcpy(to, bytes + at, size);
    return true;
}

#endif
