/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rings the kernel writes records into, one a cpu. Mapped and read here and not by libperf:
 * its reader copies no more than a few KiB of a record that wraps around the ring's end, and a
 * stack copy is larger. Layout: struct perf_event_mmap_page and what follows its page.
 */
#ifndef CAPTURE_RINGS_H
#define CAPTURE_RINGS_H

#include "base/error.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring {
    int cpu;
    int *fds; /* events that write into it; fds[0] was mapped. Not owned */
    size_t nr_fds;
    size_t alive; /* fds before this one belong to tasks that are gone */
    struct perf_event_mmap_page *page;
    uint8_t *data;
    uint64_t size;    /* bytes, a power of two */
    uint8_t *wrapped; /* where a record that wraps is put together */
};

/* Map `fds[0]` and redirect the others into it. -1: err->sys_errno says why. */
int ring_map(struct ring *r, int cpu, int *fds, size_t nr_fds, uint64_t size, struct error *err);
void ring_unmap(struct ring *r);

/* Give every record that stands in the ring now to `take`, and free the room as it goes. *any:
 * there were some. */
typedef int (*ring_take)(void *context, int cpu, const struct perf_event_header *record,
                         struct error *err);
int ring_read(struct ring *r, ring_take take, void *context, bool *any, struct error *err);

/* A descriptor to wait on; -1: every task that writes here is gone. */
int ring_poll_fd(const struct ring *r);
/* Poll has said POLLHUP of that descriptor: its task is gone, wait on another's. */
void ring_next_fd(struct ring *r);

#endif
