/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reading allocation traces (trace_format.h): the calls of all threads in their order, with blocks
 * in the place of addresses. Memory grows with the blocks that live at once, not with the trace. A
 * file that is not what its format says is refused.
 */
#ifndef ALLOC_TRACE_H
#define ALLOC_TRACE_H

#include "alloc/trace_format.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define ALLOC_NO_BLOCK UINT32_MAX
enum { ALLOC_WRITERS_MAX = 1 << 14 };

struct alloc_trace;

/* A call that changed something. Blocks are numbered from 0 in the order of their allocation; the
 * block that realloc() returns is a new one. */
struct alloc_call {
    enum trace_operation operation; /* but for TRACE_THREAD */
    uint32_t writer;                /* below alloc_trace_info.writers */
    uint32_t block;                 /* that is allocated, or freed */
    uint32_t old;                   /* TRACE_REALLOC: that is given up; ALLOC_NO_BLOCK: none */
    uint64_t size, old_size;        /* of these blocks, bytes; of TRACE_FREE old_size is set */
    unsigned alignment;             /* TRACE_ALIGNED: its logarithm to the base 2 */
    uint64_t ticks;
};

/* What the file says of itself. */
struct alloc_trace_info {
    char program[256];
    uint32_t pid, parent, flags; /* enum trace_flags */
    uint64_t run;
    uint32_t threads, writers, children_failed;
    uint64_t lost_full, lost_within; /* calls that were not recorded (trace_format.h) */
    uint32_t full_errno;
    uint64_t ticks;     /* at the begin */
    double ns_per_tick; /* 0: unknown */
    uint64_t size;      /* of the file, bytes */
};

/* What has been read so far. */
struct alloc_counts {
    uint64_t calls[TRACE_OPERATIONS]; /* calls that were recorded, also those that failed */
    uint64_t failed;                  /* calls that returned NULL for want of memory */
    uint64_t unknown;    /* blocks that were given up, and whose allocation is not in the trace */
    uint64_t unfreed;    /* blocks whose address was given out again without a free; they count as
                          * freed at that time */
    uint64_t changes;    /* calls that alloc_trace_next() returned */
    uint64_t blocks;     /* blocks that were allocated */
    uint64_t requested;  /* their bytes, in all */
    uint64_t live, peak; /* bytes of the blocks that live; the most so far */
    uint64_t last_ticks;
};

/* Open a trace. Its structure is checked; its records are when they are read. */
int alloc_trace_open(const char *path, struct alloc_trace **ret, struct error *err);
void alloc_trace_close(struct alloc_trace *t);

const struct alloc_trace_info *alloc_trace_info(const struct alloc_trace *t);
const struct alloc_counts *alloc_trace_counts(const struct alloc_trace *t);

/* Get the next call. Returns 1; 0: there are no more; -1: the trace is malformed. */
int alloc_trace_next(struct alloc_trace *t, struct alloc_call *ret, struct error *err);
/* Begin again. */
void alloc_trace_rewind(struct alloc_trace *t);
/* Read all calls, so that the counts are of all the trace; the next call is the first one again
 * after alloc_trace_rewind(). */
int alloc_trace_count(struct alloc_trace *t, struct error *err);

/* Returns the calls that the program made, in all. */
uint64_t alloc_counts_calls(const struct alloc_counts *c);

#endif
