/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rings into which the kernel writes records, one per cpu. They are mapped and read here and
 * not by libperf: libperf's reader copies only a few KiB of a record that wraps around the ring's
 * end, and a stack copy is larger. Layout: struct perf_event_mmap_page and the data after its page.
 */
#ifndef RECORD_RINGS_H
#define RECORD_RINGS_H

#include "base/error.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring {
    int cpu;
    int *fds; /* events that write into the ring; fds[0] was mapped. Not owned */
    size_t nr_fds;
    size_t alive; /* index: fds before this one belong to tasks that have ended */
    struct perf_event_mmap_page *page;
    uint8_t *data;
    uint64_t size;    /* bytes, a power of two */
    uint8_t *wrapped; /* buffer that joins the two parts of a wrapped record */
};

/* Map `fds[0]` and redirect the others into it. Returns -1: err->sys_errno says why. */
int ring_map(struct ring *r, int cpu, int *fds, size_t nr_fds, uint64_t size, struct error *err);
void ring_unmap(struct ring *r);

/* Pass every record that is in the ring now to `take`, and give the room back to the kernel
 * meanwhile. Sets *any if there was a record. */
typedef int (*ring_take)(void *context, int cpu, const struct perf_event_header *record,
                         struct error *err);
int ring_read(struct ring *r, ring_take take, void *context, bool *any, struct error *err);

/* Returns a descriptor to poll; -1: every task that writes here has ended. */
int ring_poll_fd(const struct ring *r);
/* Call when poll reported POLLHUP for that descriptor: its task has ended, poll another's. */
void ring_next_fd(struct ring *r);

#endif
