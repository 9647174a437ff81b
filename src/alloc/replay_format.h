/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What ljperf and the program that replays (src/alloc/replayer) tell each other. The program gets a
 * plan in a memory file, and writes its results to a pipe. Both are of one build.
 *
 * A plan is a struct plan_head, for each thread the number of its first call, the numbers of the
 * calls behind which memory is measured, and the calls in the order of time, from `calls_at` on.
 */
#ifndef ALLOC_REPLAY_FORMAT_H
#define ALLOC_REPLAY_FORMAT_H

#include "alloc/trace_format.h"

#include <stdint.h>

#define PLAN_NONE UINT32_MAX
enum { PLAN_SAMPLES_MAX = 2000 };

struct plan_head {
    uint32_t call_bytes, measure_bytes; /* of the structs below: is it the same build? */
    uint32_t calls, blocks, threads, samples;
    uint64_t calls_at; /* bytes from the begin */
    uint64_t size;     /* of the file */
};

struct plan_call {
    uint64_t size, old_size; /* of the new block, and of the one that is given up */
    uint64_t ns;             /* since the first call, as it was in the trace; 0: not known */
    uint32_t block;          /* that is allocated or freed */
    uint32_t old;            /* realloc()'s; PLAN_NONE: NULL */
    uint32_t next;           /* the thread's next call; PLAN_NONE: none */
    uint16_t thread;
    uint8_t operation, alignment; /* as in struct alloc_call */
};

struct replay_measure {
    uint64_t cpu_ns; /* of all threads, without the time in which they waited for each other */
    uint64_t wall_ns;
    uint64_t waits;  /* for a block that another thread had not allocated yet */
    uint64_t failed; /* calls that returned NULL */
    /* In order only. Bytes of anonymous memory that is resident: before the first call, and, above
     * that, the most behind any call of `samples`, and behind the last call. */
    uint64_t base, peak, end;
    uint64_t requested_peak, requested_end; /* bytes of blocks that lived */
    char allocator[256];                    /* the file that malloc is in */
};
/* Behind it: for each sample the memory above the base, as uint64_t. */

#endif
