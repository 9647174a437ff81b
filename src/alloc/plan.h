/* SPDX-License-Identifier: GPL-2.0-only */
/* Plans: the calls of a trace as ljperf-replay makes them (replay_format.h). */
#ifndef ALLOC_PLAN_H
#define ALLOC_PLAN_H

#include "alloc/replay_format.h"
#include "alloc/trace.h"

struct alloc_plan {
    int fd; /* the memory file */
    struct plan_head head;
    uint32_t *samples;   /* numbers of the calls behind which memory is measured, ascending */
    uint64_t *requested; /* the bytes that live then */
};

/* Make the plan of a trace, which is read from its begin to its end; its counts are of all of it
 * then. A trace is refused if its plan, or the blocks that live at once, need more than
 * `max_memory` bytes, because the replay touches all of them. */
int alloc_plan_create(struct alloc_trace *t, uint64_t max_memory, struct alloc_plan *ret,
                      struct error *err);
void alloc_plan_free(struct alloc_plan *p);

#endif
