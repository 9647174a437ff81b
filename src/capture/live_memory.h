/* SPDX-License-Identifier: GPL-2.0-only */
/* A live process's memory as a walk of one of its samples may see it. */
#ifndef CAPTURE_LIVE_MEMORY_H
#define CAPTURE_LIVE_MEMORY_H

#include "capture/object_log.h"
#include "perfdata/perfdata.h"

/* Everything but the native stack: below the sample's stack pointer it is garbage, and what is
 * above it the sample has. Of what the sample has not copied of a stack no walk asks, since it has
 * changed: frames are not read from a live process (memory_read_frame). So nothing more is left
 * out: where the copy ends a thread's stack may have ended long before, and the program's heap
 * stand. */
struct live_memory {
    const struct object_log *process;
    struct memory_layer objects;
    uint64_t from, to; /* the stack */
    uint64_t limit;    /* of the process's readings: a walk that searches comes to an end */
    uint64_t until;    /* the recording's clock, ns, for walks whose readings wait long */
};

/* `sp`: the sample's user stack pointer; `reads`: how many readings the walk may make, until the
 * sample is `age` ns old. `p` must stay as long as the view. */
struct live_memory live_memory_of(struct object_log *p, const struct sample *s, uint64_t sp,
                                  uint64_t reads, uint64_t age);
/* Readings that it may make yet. */
uint64_t live_memory_left(const struct live_memory *view);
/* `view` must stay as long as the layer is used. */
struct memory_layer live_memory_layer(const struct live_memory *view);

#endif
