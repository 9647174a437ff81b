/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * `ljperf record`: opens events, starts the command or attaches to tasks, trims the records of the
 * rings and moves them into a perf.data.
 *
 *     record_options -> events (opened by libperf: per cpu, per task, inherited)
 *                         | one ring per cpu; every event of a cpu is redirected into it
 *     rings -> trim -> perfdata_writer
 *                 \-> hooks: for code that looks at a sample while its process still exists
 *
 * A FINISHED_ROUND closes each pass over all rings, so that readers can sort with little memory.
 * Stack copies are written only up to their dynamic size (perf writes the size that was asked for);
 * the rest is stale ring memory.
 */
#ifndef RECORD_RECORD_H
#define RECORD_RECORD_H

#include "base/error.h"
#include "base/vec.h"
#include "perfdata/perfdata.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- hooks ------------------------------------------------------------------------------- */

/* The ring of one cpu: `fd` is the event that was mapped. Other events of the same cpu and clock
 * may be redirected into the ring with PERF_EVENT_IOC_SET_OUTPUT. */
struct capture_ring {
    int cpu;
    int fd;
};

/* One sampling event, as opened for a cpu or a task. */
struct capture_sampling {
    int fd;
    const struct perf_event_attr *attr;
};

typedef VEC(struct perfdata_event) perfdata_event_vec;

/* The fields that every sample_type of a capture has. No other of its fields are in the trailer of
 * records that are no samples. */
#define CAPTURE_IDS (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)

/* The state when all events are open and mapped, none is enabled, and the command to be recorded is
 * not yet executed (its process waits, and is counted from its exec on). Valid as long as the
 * capture. */
struct capture_plan {
    const struct capture_ring *rings; /* one for each recorded cpu */
    size_t nr_rings;
    const struct capture_sampling *sampling; /* every sampling event: each cpu and task */
    size_t nr_sampling;
    const struct perfdata_event *events;
    size_t nr_events;
    /* Samples use `clockid`; false: the scheduler's clock, which user space cannot read. */
    bool use_clockid;
    int clockid;
    const pid_t *pids; /* processes recorded from the start: -p, or the waiting command */
    size_t nr_pids;
    /* Their threads that are recorded; what these create is, too, if `inherited`. */
    const pid_t *tids;
    size_t nr_tids;
    bool inherited;
    bool whole;          /* all threads of `pids` are recorded (no -t) */
    bool system_wide;    /* any process may be sampled; `pids` is then empty */
    bool command;        /* pids[0] is the waiting command, which still runs the recorder's image */
    const char *program; /* that the command will execute; NULL: not known, or no command */
    bool wakes_early;    /* samples are few: every record wakes the recorder */
};

struct capture;
struct trimmed;

/*
 * Callbacks that work along with the recorder. Every function may be NULL. All are called from the
 * thread that empties the rings, so they must not wait (live/reader.h is for work that waits).
 * They return 0, or -1 with `err` filled, which ends the recording (the part already written stays
 * valid).
 */
struct capture_hooks {
    void *context;
    /* Read the rings at least once per so many ms; 0: when they fill, or once a second. */
    unsigned interval_ms;
    /* Where every record wakes the recorder: read the rings again only after so many ms. */
    unsigned rest_ms;
    /* Set by `opened`: further events that probe programs will be opened while the recording runs.
     */
    bool opens_probes;
    /* Called before anything runs. Events pushed to `more` (attr, name, ids) are written into the
     * recording like its own events. They are copied; their pointers need to live only during the
     * call. Ids must be the kernel's (PERF_EVENT_IOC_ID), or above 2^63 for events that only
     * capture_write feeds. */
    int (*opened)(void *context, const struct capture_plan *plan, perfdata_event_vec *more,
                  struct error *err);
    /* A file was begun: it holds synthesized records, but no sample. Called again after each
     * --switch-output: what was written into earlier files must be written again. */
    int (*started)(void *context, struct capture *c, struct error *err);
    /* This file ends and another one follows (--switch-output): write what waits. */
    int (*ending)(void *context, struct capture *c, struct error *err);
    /* Recording begins or ends: the events are enabled or disabled (a command's events by its
     * exec, after this). */
    void (*enabled)(void *context, bool on);
    /* A sample of one of the hooks' own events, as the kernel wrote it. The hook returns 1: it has
     * parsed it into `s`, the record is written as `t` describes it, and it counts as a sample of
     * the recording; 0: it is written as it is; -1: it is damaged, and not written. */
    int (*rewrite)(void *context, const struct perfdata_event *event,
                   const struct perf_event_header *record, struct sample *s, struct trimmed *t);
    /* A sample (of any event, including the hooks' own: s->event) has been written. It points into
     * the ring and is valid during the call. Read no more than stack_dyn_size bytes of its
     * stack. */
    int (*sample)(void *context, struct capture *c, const struct sample *s, struct error *err);
    /* Another kernel record (MMAP2, COMM, FORK, EXIT, LOST, ...) has been written. */
    int (*record)(void *context, struct capture *c, const struct perf_event_header *record,
                  struct error *err);
    /* Called after each pass over the rings, before its FINISHED_ROUND. */
    int (*tick)(void *context, struct capture *c, struct error *err);
    /* The last record has been read; the file is still open for capture_write. */
    int (*finish)(void *context, struct capture *c, struct error *err);
};

/* Append one whole record (header first) to the recording. Call only from the hooks. A sample's
 * time must be a time of the recording's clock, either now or since the last `tick`. Returns -1 if
 * the file cannot be written. */
int capture_write(struct capture *c, const void *record, size_t size, struct error *err);

/* The same for a sample of one of the hooks' own events that counts as a sample of the recording.
 */
int capture_write_sample(struct capture *c, const struct perf_event_header *record,
                         struct error *err);

/* Whether a signal waits that will end the recording: the recorder has blocked them, and sees them
 * between two passes. For what takes long outside of a pass. */
bool capture_is_told_to_end(void);

/* A process that works for the recorder: --exclude-perf excludes its samples, too. 0: none. */
void capture_helper(struct capture *c, pid_t pid);

/* The clock of the samples, ns; 0 when user space cannot read it. */
uint64_t capture_now(const struct capture *c);

/* ---- the recorder ------------------------------------------------------------------------ */

struct record_options;

/* The result of a recording. It owns its strings; free with record_outcome_free. */
struct record_outcome {
    char *path;     /* of the last file; NULL: none was begun */
    uint64_t bytes; /* of all files */
    uint64_t samples;
    /* What found no room in a ring: of events that sample, of the others, and both as the LOST
     * records tell (kernels before 6.0 tell only these). */
    uint64_t samples_lost, records_lost, events_lost;
    uint64_t throttled; /* times the kernel throttled an event */
    uint64_t bad;       /* samples whose fields do not fit their size: written unchanged */
    uint64_t woken;     /* times the rings woke the recorder */
    uint64_t given_up;  /* bytes cut off after a failed write */
    uint64_t ring_bytes;
    int child_status; /* of the command, as waitpid reports it */
    bool has_child;
    bool child_told; /* it was sent SIGTERM, because the recording ended before it */
    int exec_errno;  /* why the command could not be executed */
    int signal;      /* SIGINT, SIGTERM, ... that ended the recording; 0: none */
};

/* Prints a line that the user should read during the recording, without a newline. `detail`: print
 * it only if the user asked for more. May be NULL. */
typedef void (*record_say)(void *context, bool detail, const char *line);

/*
 * Record until the command or the tasks end, a limit is reached, or SIGINT, SIGTERM or SIGHUP
 * arrives (these are blocked meanwhile; SIGUSR2 begins a new file). Returns -1 if the recording
 * could not be started or the file could not be written; the part written before then is readable
 * (*ret says so). Waits for the command. The command is sent SIGTERM when the recording ends before
 * it, unless the kernel ended the recording.
 */
int record_run(struct record_options *o, const struct capture_hooks *hooks, record_say say,
               void *say_context, struct record_outcome *ret, struct error *err);
void record_outcome_free(struct record_outcome *r);

#endif
