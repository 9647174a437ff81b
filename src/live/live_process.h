/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A process that is watched while it runs: its mappings, and the log of what walks read of it. What
 * all watches have in common (lua_watch.h, v8_watch.h, runtime_watch.h).
 */
#ifndef LIVE_LIVE_PROCESS_H
#define LIVE_LIVE_PROCESS_H

#include "live/object_log.h"
#include "session/session.h"

struct live_process {
    pid_t pid;
    struct session *session; /* its mappings; NULL: must be read (again) */
    struct thread_context thread;
    struct object_log *objects; /* NULL: not opened yet */
    bool failed;                /* the process cannot be read; `problem` says why */
    struct error problem;
};

/* Read the process's mappings, unless they are known. A process that cannot be read has `failed`
 * set and no session. Returns -1 when memory is out. */
int live_process_learn(struct live_process *p, struct dsos *dsos, struct error *err);
/* Forget the mappings. */
void live_process_forget(struct live_process *p);
/* Open the log, unless it is open. Returns -1, with `failed` set, if the process cannot be read. */
int live_process_open(struct live_process *p, const struct log_sink *sink);
/* object_log_pass(), object_log_flush(), object_log_rewrite() of the log, if it is open. */
int live_process_pass(struct live_process *p, size_t budget, struct error *err);
int live_process_flush(struct live_process *p, struct error *err);
void live_process_rewrite(struct live_process *p);
/* Free what the process owns. Does not write: call live_process_flush() first. */
void live_process_free(struct live_process *p);

#endif
