/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * `ljperf record`: opens events, starts or attaches to what is recorded, moves the rings' records
 * into a perf.data, trimmed.
 *
 *     record_options -> events (opened by libperf: per cpu, per task, inherited)
 *                         | one ring a cpu; every event of a cpu is redirected into it
 *     rings -> trim -> perfdata_writer
 *                 \-> hooks: whoever wants to look at a sample while its process still stands
 *
 * A pass over all rings is closed by a FINISHED_ROUND, so that readers may sort with little memory.
 * Stack copies are written up to their dynamic size only (perf writes what was asked for); the rest
 * is stale ring memory.
 */
#ifndef CAPTURE_RECORD_H
#define CAPTURE_RECORD_H

#include "base/error.h"
#include "base/vec.h"
#include "perfdata/perfdata.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- hooks ------------------------------------------------------------------------------- */

/* The ring of one cpu: `fd` is the event that was mapped. Other events of the same cpu and clock
 * may be redirected into it with PERF_EVENT_IOC_SET_OUTPUT. */
struct capture_ring {
    int cpu;
    int fd;
};

typedef VEC(struct perfdata_event) perfdata_event_vec;

/* What stands when all events are open and mapped, none is enabled, and a command to be recorded
 * has not been executed yet (its process waits, and will be counted from its exec on). Valid as
 * long as the capture. Every sample_type has IDENTIFIER, TID, TIME and CPU. */
struct capture_plan {
    const struct capture_ring *rings; /* one for each recorded cpu */
    size_t nr_rings;
    const int *sampling_fds; /* of every event that samples: each cpu and task */
    size_t nr_sampling_fds;
    const struct perfdata_event *events;
    size_t nr_events;
    bool use_clockid; /* and which; else the scheduler's clock, which user space cannot read */
    int clockid;
    const pid_t *pids; /* processes recorded from the start: -p, or the waiting command */
    size_t nr_pids;
    bool system_wide; /* any process may be sampled; pids is then empty */
    bool command;     /* pids[0] is the waiting command, still the recorder's own image */
    bool wakes_early; /* samples are few: every record wakes the recorder */
};

struct capture;

/*
 * Whoever works along with the recorder. Every function may be NULL; all are called from the
 * thread that empties the rings, which must not wait in them (reader_thread.h is for that), and
 * return 0, or -1 with `err` filled, which ends the recording (what was written stays whole).
 */
struct capture_hooks {
    void *context;
    /* Read the rings at least every so many ms; 0: when they fill, or once a second. */
    unsigned interval_ms;
    /* Where every record wakes the recorder: read them again not before so many ms have passed. */
    unsigned rest_ms;
    /* Before anything runs. Events pushed to `more` (attr, name, ids; copied, the pointers need
     * live only as long as the call) are written into the recording as its own are. Ids must be
     * the kernel's (PERF_EVENT_IOC_ID), or above 2^63 for events that only capture_write feeds. */
    int (*opened)(void *context, const struct capture_plan *plan, perfdata_event_vec *more,
                  struct error *err);
    /* A file has been begun: synthesized records stand in it, no sample. Called again after each
     * --switch-output: what earlier files were told must be told again. */
    int (*started)(void *context, struct capture *c, struct error *err);
    /* This file ends and another will be begun (--switch-output): what waits is to be written. */
    int (*ending)(void *context, struct capture *c, struct error *err);
    /* A sample (of any event, the hooks' own too: s->event) has been written. It points into the
     * ring and is valid during the call; read no more than stack_dyn_size bytes of its stack. */
    int (*sample)(void *context, struct capture *c, const struct sample *s, struct error *err);
    /* Any other kernel record (MMAP2, COMM, FORK, EXIT, LOST, ...) has been written. */
    int (*record)(void *context, struct capture *c, const struct perf_event_header *record,
                  struct error *err);
    /* After each pass over the rings, before its FINISHED_ROUND. */
    int (*tick)(void *context, struct capture *c, struct error *err);
    /* The last record has been read; the file is still open for capture_write. */
    int (*finish)(void *context, struct capture *c, struct error *err);
};

/* Append one whole record (header first) to the recording, in the hooks' turn only. A sample's time
 * must be the recording's clock, now or since the last `tick`. -1: the file cannot be written. */
int capture_write(struct capture *c, const void *record, size_t size, struct error *err);

/* The clock of the samples, ns; 0 when user space cannot read it. */
uint64_t capture_now(const struct capture *c);

/* ---- the recorder ------------------------------------------------------------------------ */

struct record_options;

/* What became of a recording. Owned strings; record_outcome_free. */
struct record_outcome {
    char *path;     /* of the last file; NULL: none was begun */
    uint64_t bytes; /* of all files */
    uint64_t samples;
    uint64_t lost; /* samples, and map records (the kernel counts both), without room in a ring */
    uint64_t throttled; /* times the kernel held an event back */
    uint64_t bad;       /* samples whose fields do not fit their size: written as they came */
    uint64_t woken;     /* times the rings woke the recorder */
    uint64_t given_up;  /* bytes cut off after a failed write */
    uint64_t ring_bytes;
    int child_status; /* of the command, as waitpid tells it */
    bool has_child;
    bool child_told; /* it was sent SIGTERM, since the recording ended before it */
    int exec_errno;  /* the command could not be executed: why */
    int signal;      /* SIGINT, SIGTERM, ... that ended it; 0: none */
};

/* A line that the user should read while it runs, without a newline; `detail`: only if he asked for
 * more. May be NULL. */
typedef void (*record_say)(void *context, bool detail, const char *line);

/*
 * Record until the command or the tasks end, a limit is reached, or SIGINT, SIGTERM or SIGHUP come
 * (blocked meanwhile; SIGUSR2 begins a new file). -1: it could not be started, or the file could
 * not be written; what had been written then stands there, readable (*ret says so). The command is
 * waited for; it is sent SIGTERM when the recording ends before it, unless it is the kernel that
 * has ended the recording.
 */
int record_run(struct record_options *o, const struct capture_hooks *hooks, record_say say,
               void *say_context, struct record_outcome *ret, struct error *err);
void record_outcome_free(struct record_outcome *r);

#endif
