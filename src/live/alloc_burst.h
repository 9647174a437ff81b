/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Probes that exist for a moment. A function that is called millions of times a second cannot be
 * probed all the time. So it is probed for some ms, now and then. A breakpoint goes at once, but
 * closing its link takes 50 ms, so a thread does it.
 */
#ifndef LIVE_ALLOC_BURST_H
#define LIVE_ALLOC_BURST_H

#include "base/error.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

struct alloc_burst;

enum {
    ALLOC_BURST_NS = 1000000,         /* a burst takes, at least */
    ALLOC_BURST_NS_MOST = 50000000,   /* the same, at most */
    ALLOC_BURST_EVERY_NS = 200000000, /* from one burst to the next */
};

/* Bursts of one kind of functions. Returns NULL when memory is out. */
struct alloc_burst *alloc_burst_create(void);
/* Ends a burst, and waits until it has ended. */
void alloc_burst_free(struct alloc_burst *b);

/* Whether the next burst is due, and the last one is over. */
bool alloc_burst_is_due(struct alloc_burst *b);

typedef VEC(int) fd_vec;
/* A burst has begun: close these descriptors, of probes that exist, in `ns`. `fds` is empty
 * afterwards. */
int alloc_burst_begin(struct alloc_burst *b, fd_vec *fds, uint64_t ns, struct error *err);

/* Close descriptors of probes in a thread of its own, which nobody waits for. `fds` is empty
 * afterwards. */
void alloc_close_apart(fd_vec *fds);

#endif
