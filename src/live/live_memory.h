/* SPDX-License-Identifier: GPL-2.0-only */
/* The memory of a live process, as a walk of one of its samples may read it. */
#ifndef LIVE_LIVE_MEMORY_H
#define LIVE_LIVE_MEMORY_H

#include "live/object_log.h"
#include "perfdata/perfdata.h"

/* All memory except the native stack. Below the sample's stack pointer the stack is garbage, and
 * above it the sample has a copy. Walks do not ask for stack bytes that the sample has not copied,
 * because these bytes have changed: frames are not read from a live process (memory_read_frame). So
 * nothing more is left out: a thread's stack may have ended long before the end of the copy, and
 * the program's heap may be there. */
struct live_memory {
    const struct object_log *process;
    struct memory_layer objects;
    uint64_t from, to; /* the stack, which is not read */
    uint64_t limit; /* count of the log's reads at which reading ends, to bound walks that search */
    uint64_t until; /* ns of the recording's clock at which reading ends: reads may wait long */
};

/* `sp`: the sample's user stack pointer; `reads`: how many reads the walk may make, until the
 * sample is `age` ns old. `p` must live as long as the view. */
struct live_memory live_memory_of(struct object_log *p, const struct sample *s, uint64_t sp,
                                  uint64_t reads, uint64_t age);
/* Returns how many more reads the walk may make. */
uint64_t live_memory_left(const struct live_memory *view);
/* `view` must live as long as the layer is used. */
struct memory_layer live_memory_layer(const struct live_memory *view);

#endif
