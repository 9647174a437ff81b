/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a recording needs beside samples to show managed code: works along with the recorder through
 * its hooks.
 *
 *     opened   the copier's events, redirected into the rings; VMs of processes that run already
 *     record   exec, fork, exit and mappings: which processes have a LuaJIT, and where its VMs are
 *     sample   the same walk as offline, over the process's memory: what it reads is logged
 *     tick     what is known is read again; the log is written as `ljperf:mem` events
 *
 * All but `opened` and the end is done in a thread of its own (reader_thread.h).
 *
 * Where the copier is refused, Lua stacks are read by the recorder itself, after the samples.
 */
#ifndef CAPTURE_PROCESS_WATCH_H
#define CAPTURE_PROCESS_WATCH_H

#include "capture/record.h"
#include "capture/vmstack.h"

struct process_watch;

struct process_watch_options {
    bool no_copier;   /* do not even try eBPF */
    uint64_t max_log; /* bytes of VM memory that a file is to hold; 0: no limit */
    uint32_t stack;   /* bytes of the native stack that samples have; 0: none */
};

/* A line for the user, once each. */
typedef void (*process_watch_say)(void *context, bool detail, const char *line);

/* NULL when memory is out. */
struct process_watch *process_watch_create(const struct process_watch_options *options,
                                           process_watch_say say, void *say_context);
/* Nothing copies Lua stacks with the samples: they are read as soon after as can be, so each sample
 * should wake the recorder. */
bool process_watch_reads_late(const struct process_watch *watch);
/* To be given to record_run(); live as long as the process_watch. */
const struct capture_hooks *process_watch_hooks(struct process_watch *watch);
void process_watch_free(struct process_watch *watch);

struct process_watch_stats {
    struct vmstack_counters copier; /* zeros without it */
    bool has_copier;
    uint64_t targets;   /* processes that are looked at now */
    uint64_t processes; /* with a LuaJIT */
    uint64_t vms;
    uint64_t walks; /* of samples, live */
    uint64_t scans;
    uint64_t log_bytes, log_contents, log_marks;
    uint64_t refused;   /* objects beyond the log's limits */
    uint64_t unwritten; /* contents beyond max_log */
};
struct process_watch_stats process_watch_stats(const struct process_watch *watch);

#endif
