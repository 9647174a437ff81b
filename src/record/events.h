/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The open and mapped events of a recording. libperf opens each event on every cpu and task. There
 * is one ring per cpu, and all events of that cpu write into it.
 *
 * libperf's public interface exposes neither descriptors nor ids, so both are found without it. The
 * descriptors that an open adds to the process are, in ascending order, those of the (cpu, task)
 * pairs in libperf's order, since the kernel always returns the lowest free number. The ids are
 * read from the descriptors.
 */
#ifndef RECORD_EVENTS_H
#define RECORD_EVENTS_H

#include "record/options.h"
#include "record/record.h"
#include "record/rings.h"

#include <stdint.h>

struct perf_evlist;

/* read_format of every event, the same as perf record's: readers want it to be equal for all
 * events. */
#define CAPTURE_READ_FORMAT (PERF_FORMAT_ID | UINT64_C(16) /* PERF_FORMAT_LOST, Linux 6.0 */)

/* What --stat adds: perf reads counts of tasks only with both times. */
#define CAPTURE_TIMES ((uint64_t)PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING)

struct open_event {
    struct perfdata_event pub; /* the event as written to the file; its name and ids are owned */
    int *fds;                  /* [nr_cpus * nr_tasks], ordered by cpu */
    size_t nr_fds;
    bool samples; /* false: the event only tracks tasks and maps */
    bool own;     /* opened here and not by libperf, which cannot name a control group */
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
    struct ring *ring; /* [rings.nr], mapped */
    int *ring_fds;     /* descriptors that write into each ring, ordered by cpu */
    VEC(struct capture_sampling) sampling;
    VEC(struct id_event) ids; /* sorted by id */
    size_t nr_cpus, nr_tasks;
    uint64_t ring_bytes;     /* size of each ring, without its first page */
    uint64_t ring_wanted;    /* size before it was reduced to what may be locked */
    uint64_t frequency;      /* samples a second that the machine allows */
    uint64_t frequency_most; /* the machine allows */
    bool wakes_early;        /* every record wakes the reader, which rests after each pass */
    bool user_only;          /* the kernel is not sampled, because this is forbidden */
    bool to_clock;           /* cycles were replaced with cpu-clock */
    bool build_ids;          /* MMAP2 records carry build ids */
    bool others;             /* some of the tasks belong to another user */
    bool tracking;           /* a dummy event tracks tasks; it is enabled from the start */
    int cgroup;              /* while they are opened: the control group that is sampled; -1: all */
};

/* The tasks that the events watch. */
struct event_targets {
    const pid_t *tids; /* threads; NULL: all tasks on the cpus */
    size_t nr_tids;
    bool others;  /* some of them belong to another user */
    bool on_exec; /* tids[0] is waiting to execute the command: count from its exec on */
};

/* Enable or disable all events. */
void events_enable(struct events *e, bool on);

/* Open and map the events, disabled except for the tracking event. Falls back as perf does: from
 * cycles to cpu-clock, to user code only where the kernel may not be sampled, and to fewer features
 * on older kernels. Errors name the sysctl or capability that would cure them. sys_errno ESRCH: a
 * task is gone; list the tasks again. */
int events_open(const struct record_options *o, const struct event_targets *targets,
                struct events *ret, struct error *err);
void events_close(struct events *e);

/* Make events_by_id() return `index` for `ids`, too; `index` is beyond the events opened here. */
int events_add_ids(struct events *e, const uint64_t *ids, size_t nr, size_t index,
                   struct error *err);
/* Returns the index of the event with this id; -1: none. */
int events_by_id(const struct events *e, uint64_t id);
/* Returns how many samples of an event, over all its descriptors, the kernel dropped for lack of
 * room; 0 where the kernel does not count them. */
uint64_t events_lost(const struct events *e, size_t event);

#endif
