/* SPDX-License-Identifier: GPL-2.0-only */
/* A live process's memory as a walk of one of its samples may see it. */
#ifndef CAPTURE_HEAP_VIEW_H
#define CAPTURE_HEAP_VIEW_H

#include "capture/objects.h"
#include "perfdata/perfdata.h"

/* Everything but the native stack: below the sample's stack pointer it is garbage, and what the
 * sample has not copied of it is not to be had, since it has changed. */
struct heap_view {
    const struct object_process *process;
    struct memory_layer objects;
    uint64_t from, to; /* the stack */
    uint64_t limit;    /* of the process's readings: a walk that searches comes to an end */
    uint64_t until;    /* the recording's clock, ns, for walks whose readings wait long */
};

/* `sp`: the sample's user stack pointer; `reads`: how many readings the walk may make, until the
 * sample is `age` ns old. `p` must stay as long as the view. */
struct heap_view heap_view_of(struct object_process *p, const struct sample *s, uint64_t sp,
                              uint64_t reads, uint64_t age);
/* For a walk that reads the stack by slots only, which are not taken from a live process anyway: no
 * more of it is left out than the sample has. Where a thread's stack ends is not known when the
 * copy does not end before it, and the program's heap may stand right above. */
void heap_view_slots(struct heap_view *view, const struct sample *s, uint64_t sp);
/* Readings that it may make yet. */
uint64_t heap_view_left(const struct heap_view *view);
/* `view` must stay as long as the layer is used. */
struct memory_layer heap_view_layer(const struct heap_view *view);

#endif
