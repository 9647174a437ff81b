/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A process that stands still: a core file, or a live process whose threads are stopped while it is
 * examined. Holds what the unwinder and the namers need, in either case.
 */
#ifndef LIVE_STOPPED_PROCESS_H
#define LIVE_STOPPED_PROCESS_H

#include "base/vec.h"
#include "live/lua_scan.h"
#include "session/core_process.h"

struct stopped_process {
    uint32_t pid;
    struct dsos *dsos;
    struct session *session;
    struct thread_context thread;
    struct memory_layer layers[2]; /* memory, then files */
    size_t nr_layers;
    struct codemap code;
    VEC(struct core_thread) threads; /* of a live process: filled once it is stopped */
    /* One of these two: a core file, or a live process. */
    struct core_process core;
    struct process_memory *process;
    bool stopped;
};

/* `target`: a process id, or the path of a core file. `session`: which jitdumps and perf maps of a
 * live process are used; NULL: none. A live process goes on running, so its memory is
 * PROVENANCE_STALE. `ret` must not be moved. On failure it is already closed. Errors: no such
 * process or file, not permitted (the message says the cure). */
int stopped_process_open(const char *target, const struct dso_options *options,
                         const struct session_options *session, struct stopped_process *ret,
                         struct error *err);
void stopped_process_close(struct stopped_process *s);

/* Get the command's name of a thread. A core has only that of the process. Empty: not known. */
void stopped_process_command(const struct stopped_process *s, uint32_t tid, char *ret, size_t size);
/* Returns the thread that a signal has hit, the first of several; NULL: none, or not known. */
const struct core_thread *stopped_process_crashed(const struct stopped_process *s);

/* Find the runtimes that are mapped, and the VMs that run in them: session_vms_find(). */
int stopped_process_vms(const struct stopped_process *s, struct session_vms *ret,
                        struct error *err);

/* Stop all threads of a live process and read their registers; memory is then exact. A thread that
 * does not stop within two seconds (in an uninterruptible wait) is left out. If we die, the kernel
 * lets the threads continue. */
int stopped_process_stop(struct stopped_process *s, struct error *err);
/* Let the threads continue. */
void stopped_process_continue(struct stopped_process *s);

#endif
