/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a recording needs beside samples to show managed code. It works along with the recorder
 * through the recorder's hooks.
 *
 *     opened   redirect the copier's events into the rings; find the VMs of running processes
 *     record   exec, fork, exit and mappings: which processes have a LuaJIT, and where its VMs are
 *     sample   do the same walk as offline over the process's memory, and log what the walk reads
 *     tick     read known objects again; write the log as `ljperf:mem` events
 *
 * All but `opened` is done by a reader beside the recorder (reader.h): a thread, or, where the
 * recorder has privileges, a process without them.
 *
 * Where the kernel refuses the copier, the recorder itself reads Lua stacks, after the samples.
 */
#ifndef LIVE_PROCESS_WATCH_H
#define LIVE_PROCESS_WATCH_H

#include "live/alloc.h"
#include "record/record.h"
#include "live/off_cpu.h"
#include "live/vmstack.h"

#include <sys/resource.h>

struct process_watch;

struct process_watch_options {
    bool no_copier;   /* do not even try eBPF */
    bool thread;      /* read in a thread, whatever the privileges */
    uint64_t max_log; /* bytes of VM memory that a file may hold; 0: no limit */
    uint32_t stack;   /* bytes of the native stack that samples have; 0: none */
    struct off_cpu_options off_cpu;
    struct alloc_options alloc; /* also record allocations; mean 0: do not */
};

/* Prints a line for the user. Each line is printed once. */
typedef void (*process_watch_say)(void *context, bool detail, const char *line);

/* Returns NULL when memory is out. */
struct process_watch *process_watch_create(const struct process_watch_options *options,
                                           process_watch_say say, void *say_context);
/* Whether no copier copies Lua stacks with the samples. Lua stacks are then read as soon as
 * possible after the samples, so each sample should wake the recorder. */
bool process_watch_reads_late(const struct process_watch *watch);
/* Do not record allocations, whatever the options were. To be called before the recording. */
void process_watch_leave_alloc(struct process_watch *watch);
/* The hooks to pass to record_run(); they live as long as the process_watch. */
const struct capture_hooks *process_watch_hooks(struct process_watch *watch);
void process_watch_free(struct process_watch *watch);
/* What the processes that read for it have used. Call after the end of the recording. */
struct rusage process_watch_used(const struct process_watch *watch);

/* Counts of a reader that is a thread; of a process they stay in that process. */
struct process_watch_stats {
    struct vmstack_counters copier; /* zeros without a copier */
    bool has_copier;
    uint64_t targets;   /* processes that are watched now */
    uint64_t processes; /* processes that have a LuaJIT */
    uint64_t vms;
    uint64_t walks; /* live walks of samples */
    uint64_t scans;
    uint64_t left_out; /* bytes of mappings that were not searched for VMs */
    uint64_t log_bytes, log_contents, log_marks;
    uint64_t refused;   /* objects beyond the log's limits */
    uint64_t unwritten; /* contents beyond max_log */
};
struct process_watch_stats process_watch_stats(const struct process_watch *watch);

#endif
