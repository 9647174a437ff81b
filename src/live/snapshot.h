/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * `ljperf snapshot`: reads what a recording by perf itself lacks of LuaJIT, plain Lua and V8, from
 * processes while they run beside that recording. The file is a perf.data with the processes'
 * mappings and `ljperf:mem` events (perfdata/vmevent.h), stamped with CLOCK_MONOTONIC.
 *
 *     objects   all that give names and lines of functions: at the start, at the end, now and then
 *     stacks    of lua_States, at an interval
 *
 * No process is stopped, and nothing is written into one.
 */
#ifndef LIVE_SNAPSHOT_H
#define LIVE_SNAPSHOT_H

#include "record/options.h"

struct snapshot_options {
    pid_vec pids;
    pid_t perf;         /* a `perf record` to attach the copier to; 0: none */
    const char *output; /* path of the file */
    uint64_t every_ns;  /* ns between readings of Lua stacks; 0: none are read */
    bool has_duration;
    uint64_t duration_ns; /* 0: read everything once */
    char **command;       /* run until it ends; NULL: none */
    int argc;             /* the whole command line, for the header */
    char **argv;
};

struct snapshot_outcome {
    uint64_t bytes;             /* bytes of records */
    uint64_t processes;         /* processes of which something was found */
    uint64_t vms;               /* VMs of LuaJIT */
    uint64_t functions, code;   /* of V8, in the last round */
    uint64_t kept;              /* perf maps and jitdumps */
    uint64_t rounds, ticks;     /* readings of objects, of stacks */
    uint64_t refused;           /* parts of memory beyond the limit */
    uint64_t copies, copies_of; /* with --perf: samples that got a copy, of how many */
    int child_status;           /* of the command, as waitpid reports it */
    bool has_child, begun;
    /* We told the command to end: the processes had ended, or we were told to end. */
    bool child_told;
    int exec_errno;
};

/* Prints a line for the user, without newline; `detail`: print it only if the user asked for
 * more. */
typedef void (*snapshot_say)(void *context, bool detail, const char *line);

/* Run until the duration or the command is over, SIGINT, SIGTERM or SIGHUP arrives (blocked
 * meanwhile), or the last process has ended. Returns -1 if it could not begin, or the file could
 * not be written. */
int snapshot_run(const struct snapshot_options *o, snapshot_say say, void *say_context,
                 struct snapshot_outcome *ret, struct error *err);

#endif
