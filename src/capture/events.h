/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The events of a recording, open and mapped: libperf opens each on every cpu and task; there is
 * one ring a cpu, into which all events of that cpu write.
 *
 * libperf's public interface tells neither descriptors nor ids. Both are found beside it: the
 * descriptors an open has added to the process are, in ascending order, those of (cpu, task) pairs
 * in libperf's order, since the kernel always gives the lowest free number; ids are asked of them.
 */
#ifndef CAPTURE_EVENTS_H
#define CAPTURE_EVENTS_H

#include "capture/options.h"
#include "capture/record.h"
#include "capture/rings.h"

#include <stdint.h>

struct perf_evlist;

/* read_format of every event, as perf record's: readers want them equal. */
#define CAPTURE_READ_FORMAT (PERF_FORMAT_ID | UINT64_C(16) /* PERF_FORMAT_LOST, Linux 6.0 */)

struct open_event {
    struct perfdata_event pub; /* what is written; name and ids are owned */
    int *fds;                  /* [nr_cpus * nr_tasks], cpu by cpu */
    size_t nr_fds;
    bool samples; /* not the one that only tracks tasks and maps */
};

struct id_event {
    uint64_t id;
    uint32_t event;
};

struct events {
    struct perf_evlist *list;
    struct open_event *at;
    size_t nr;
    VEC(struct capture_ring) rings;
    struct ring *ring; /* [rings.nr] mapped */
    int *ring_fds;     /* what writes into each, cpu by cpu */
    int *sampling_fds;
    size_t nr_sampling_fds;
    VEC(struct id_event) ids; /* ascending */
    size_t nr_cpus, nr_tasks;
    uint64_t ring_bytes;  /* of each ring, without its first page */
    uint64_t ring_wanted; /* the same, if it may be locked */
    uint64_t frequency;   /* that the machine allowed; 0: by period */
    bool wakes_early;     /* every record wakes the reader, who rests after each reading */
    bool user_only;       /* the kernel is left out since it is forbidden */
    bool to_clock;        /* cycles became cpu-clock */
    bool build_ids;       /* MMAP2 records carry build ids */
    bool others;          /* some of the tasks belong to another user */
    bool tracking;        /* a dummy event tracks tasks; it counts from the start */
};

/* Whom the events watch. */
struct event_targets {
    const pid_t *tids; /* threads; NULL: everything on the cpus */
    size_t nr_tids;
    bool others;  /* some belong to another user */
    bool on_exec; /* tids[0] waits to execute the command: count from its exec on */
};

/* Enable or disable all that sample (libperf). */
void events_enable(struct events *e, bool on);

/* Open and map, disabled (but for the tracking one). Falls back as perf does: cycles to cpu-clock,
 * user code only where the kernel is forbidden, older kernels' features. Errors name the sysctl or
 * capability that would cure them; sys_errno ESRCH: a task is gone, list them anew. */
int events_open(const struct record_options *o, const struct event_targets *targets,
                struct events *ret, struct error *err);
void events_close(struct events *e);

/* Let `ids` stand for event number `index` (beyond the ones opened here), too. */
int events_add_ids(struct events *e, const uint64_t *ids, size_t nr, size_t index,
                   struct error *err);
/* Event of an id; -1: none. */
int events_by_id(const struct events *e, uint64_t id);
/* Samples the kernel dropped for want of room, of all descriptors; 0 where it does not count. */
uint64_t events_lost(const struct events *e, size_t event);

#endif
