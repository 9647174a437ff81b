/* SPDX-License-Identifier: GPL-2.0-only */
/* What record.c (the run), record_file.c (its files) and record_take.c (each record) share. */
#ifndef CAPTURE_CAPTURE_H
#define CAPTURE_CAPTURE_H

#include "capture/events.h"
#include "capture/options.h"
#include "capture/record.h"
#include "capture/synthesize.h"
#include "capture/target.h"

#include <signal.h>

struct capture {
    struct record_options *o;
    const struct capture_hooks *hooks;
    record_say say;
    void *say_context;
    struct record_outcome *out;

    struct events events;
    perfdata_event_vec all; /* events', then the hooks'; those own their names and ids */
    struct capture_plan plan;
    struct child child;
    pid_vec tids, pids; /* recorded from the start; none when system_wide */
    bool system_wide, on_exec;
    pid_t self;

    struct perfdata_writer *w;
    char *path;            /* of the file being written */
    bool begun;            /* a file of ours stands at `path` */
    bool write_failed;     /* the file is full or broken: nothing more is written */
    VEC(char *) parts;     /* with --switch-max-files: those that stand, oldest first */
    pid_vec live;          /* with switch_output: processes to synthesize again */
    uint64_t file_began;   /* CLOCK_MONOTONIC ns */
    uint64_t start_bytes;  /* of what stood before the file's first sample */
    uint64_t flushed;      /* the same, of the last flush */
    uint64_t passed;       /* the same, of the last pass over the rings */
    uint64_t first, last;  /* times of the file's samples; first > last: none */
    uint64_t lost_records; /* sum of LOST records */
    uint64_t last_id;
    int last_event;

    int signals; /* signalfd */
    sigset_t old_mask;
    struct pollfd *polls;
    uint64_t enable_at; /* -D: CLOCK_MONOTONIC ns; 0: done */
    bool nobody_left;   /* everybody who was recorded is gone */
    bool done, disabled, switch_now;
};

uint64_t capture_monotonic(void);
void capture_say(struct capture *c, bool detail, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* record_file.c */

/* Begin the file: header, synthesized records; the hooks are told. */
int capture_begin_file(struct capture *c, struct error *err);
/* End it: lost samples, times, header. After a failed write, what can be is saved. */
int capture_end_file(struct capture *c, struct error *err);
/* End this one, which gets a time stamp in its name, and begin the next. */
int capture_switch_file(struct capture *c, struct error *err);
/* One more file is finished (`path` is copied): of more than --switch-max-files the oldest goes. */
int capture_keep_few(struct capture *c, const char *path, struct error *err);
int capture_put(void *capture, const void *record, size_t size, struct error *err);

/* record_take.c: one record of a ring. */
int capture_take(void *capture, int cpu, const struct perf_event_header *h, struct error *err);

#endif
