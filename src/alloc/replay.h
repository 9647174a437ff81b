/* SPDX-License-Identifier: GPL-2.0-only */
/* Replaying a plan with an allocator, in a process of its own. */
#ifndef ALLOC_REPLAY_H
#define ALLOC_REPLAY_H

#include "alloc/plan.h"
#include "base/vec.h"

/* An allocator, as the user names it. */
struct allocator {
    const char *name;
    const char *library; /* for LD_PRELOAD: a path, or a name that the dynamic linker looks for;
                          * NULL: the C library's own */
};

/* Returns the allocator of a name: one of allocator_names(), or a library's name or path. */
struct allocator allocator_of(const char *name);
/* The names that are known, up to NULL: they stand for the libraries of Debian's packages. */
extern const char *const allocator_names[];

/* All runs with one allocator. */
struct alloc_outcome {
    struct allocator allocator;
    char path[256];                  /* the library that was used */
    VEC(struct replay_measure) free; /* free runs */
    VEC(struct replay_measure) ordered;
    VEC(uint64_t) memory; /* the last ordered run's: bytes above the base, for each sample */
};
void alloc_outcome_free(struct alloc_outcome *o);

enum alloc_pace {
    ALLOC_FREE,    /* each thread as fast as it can */
    ALLOC_ORDERED, /* the calls in their order */
    ALLOC_PACED,   /* the same, and none before its time in the trace */
};

/* Replay once more: `replayer` is the path of ljperf-replay. Fails if the process did not end well,
 * if malloc was not the allocator's, or if the blocks that lived at once were not those of the
 * trace. `requested_peak`: the trace's. */
int alloc_replay_run(const struct alloc_plan *p, const char *replayer, enum alloc_pace pace,
                     uint64_t requested_peak, struct alloc_outcome *ret, struct error *err);

/* What is told of several runs. */
struct alloc_summary {
    double best_ns, median_ns; /* free runs: time of the processors for each call */
    uint64_t cpu_ns, wall_ns;  /* of the best of them */
    uint64_t base, peak, end;  /* of ordered runs, the medians */
    uint64_t peak_least, peak_most;
    uint64_t failed;      /* calls that returned NULL, at most */
    double fragmentation; /* peak / requested peak; 0: nothing was requested */
};
struct alloc_summary alloc_outcome_sum(const struct alloc_outcome *o, uint64_t calls,
                                       uint64_t requested_peak);

#endif
