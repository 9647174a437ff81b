/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * `ljperf snapshot`: what a recording by perf itself lacks of LuaJIT and V8, read beside it from
 * processes while they run. The file is a perf.data with the processes' mappings and
 * `ljperf:mem` events (perfdata/vmevent.h), stamped with CLOCK_MONOTONIC.
 *
 *     objects   all that names functions and tells lines: at the start, at the end, and now and
 * then stacks    of Lua's states, at an interval
 *
 * No process is stopped, and nothing is written into one.
 */
#ifndef CAPTURE_SNAPSHOT_H
#define CAPTURE_SNAPSHOT_H

#include "capture/options.h"

struct snapshot_options {
    pid_vec pids;
    pid_t perf;         /* a `perf record` to put the copier into; 0: none */
    const char *output; /* file */
    uint64_t every_ns;  /* between readings of Lua stacks; 0: none are read */
    bool has_duration;
    uint64_t duration_ns; /* 0: everything once */
    char **command;       /* as long as it runs; NULL: none */
    int argc;             /* the whole command line, for the header */
    char **argv;
};

struct snapshot_outcome {
    uint64_t bytes;             /* of records */
    uint64_t processes;         /* with something in them */
    uint64_t vms;               /* of LuaJIT */
    uint64_t functions, code;   /* of V8, in the last round */
    uint64_t rounds, ticks;     /* of objects, of stacks */
    uint64_t refused;           /* parts of memory beyond what is kept */
    uint64_t copies, copies_of; /* with --perf: samples that got a copy, of how many */
    int child_status;           /* of the command, as waitpid tells it */
    bool has_child, begun;
    bool child_told; /* by us to end: the processes had, or we were to */
    int exec_errno;
};

/* A line for the user, without newline; `detail`: only if he asked for more. */
typedef void (*snapshot_say)(void *context, bool detail, const char *line);

/* Until the duration or the command is over, SIGINT, SIGTERM or SIGHUP come (blocked meanwhile), or
 * the last process has ended. -1: it could not begin, or the file could not be written. */
int snapshot_run(const struct snapshot_options *o, snapshot_say say, void *say_context,
                 struct snapshot_outcome *ret, struct error *err);

#endif
