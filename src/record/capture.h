/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by record.c (the run), record_file.c (its files) and record_take.c (each record). */
#ifndef RECORD_CAPTURE_H
#define RECORD_CAPTURE_H

#include "record/events.h"
#include "record/offline.h"
#include "record/options.h"
#include "record/record.h"
#include "record/synthesize.h"
#include "record/target.h"

#include <signal.h>

struct capture {
    struct record_options *o;
    const struct capture_hooks *hooks;
    record_say say;
    void *say_context;
    struct record_outcome *out;

    struct events events;
    perfdata_event_vec all; /* of `events`, then of the hooks; the latter own names and ids */
    struct capture_plan plan;
    struct child child;
    char *program;      /* of the plan */
    pid_vec tids, pids; /* recorded from the start; empty when system_wide */
    bool system_wide, on_exec;
    pid_t self, helper; /* `helper`: 0: there is none */

    struct perfdata_writer *w;
    char *path;        /* path of the file being written */
    bool begun;        /* this recording has created a file at `path` */
    bool write_failed; /* the file is full or broken: no more is written */
    VEC(char *) parts; /* with --switch-max-files: paths of the files that are kept, oldest first */
    pid_vec live;      /* with --switch-output: processes to synthesize again for the next file */
    uint64_t file_began;   /* CLOCK_MONOTONIC ns */
    uint64_t start_bytes;  /* size of the file before its first sample */
    uint64_t flushed;      /* CLOCK_MONOTONIC ns of the last flush */
    uint64_t passed;       /* CLOCK_MONOTONIC ns of the last pass over the rings */
    uint64_t first, last;  /* times of the file's first and last sample; first > last: no sample */
    uint64_t lost_records; /* sum of the counts in LOST records */
    struct offline offline;
    uint64_t last_id;
    int last_event;

    int signals; /* signalfd */
    sigset_t old_mask;
    struct pollfd *polls;
    uint64_t enable_at; /* -D: CLOCK_MONOTONIC ns at which to enable the events; 0: done */
    uint64_t end_at;    /* -d: CLOCK_MONOTONIC ns at which to end; 0: not known, or never */
    bool nobody_left;   /* all recorded tasks are gone */
    bool done, disabled, switch_now;
};

void capture_say(struct capture *c, bool detail, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* record_file.c */

/* Begin the file: write its header and the synthesized records, then call the hooks. */
int capture_begin_file(struct capture *c, struct error *err);
/* End the file: write lost samples, sample times and the header. After a failed write, save as much
 * as possible. */
int capture_end_file(struct capture *c, struct error *err);
/* End the current file, put a time stamp into its name, and begin the next file. */
int capture_switch_file(struct capture *c, struct error *err);
/* Note that the file at `path` (copied) is finished, and delete the oldest file when there are more
 * than --switch-max-files. */
int capture_keep_few(struct capture *c, const char *path, struct error *err);
int capture_put(void *capture, const void *record, size_t size, struct error *err);

/* record_take.c: handle one record of a ring. */
int capture_take(void *capture, int cpu, const struct perf_event_header *h, struct error *err);

#endif
