/* SPDX-License-Identifier: GPL-2.0-only */
/* Whom a recording watches: tasks that run, or a command whose process waits until it may begin. */
#ifndef CAPTURE_TARGET_H
#define CAPTURE_TARGET_H

#include "capture/options.h"

/* The command's process, forked and waiting. It ends if the recorder does. */
struct child {
    pid_t pid;  /* 0: there is no command, or it has been reaped */
    int go;     /* written to: it executes its command */
    int failed; /* read from: errno of an exec that failed */
    int status; /* as waitpid tells it */
    bool ended;
};

/* The process that will execute `command` and waits for it. `to_stderr`: its standard output goes
 * to standard error. */
int child_fork(char **command, bool to_stderr, struct child *ret, struct error *err);
/* Let it execute. 0, or the errno with which exec failed. */
int child_start(struct child *c);
/* Reap it if it has ended (`block`: wait for it). */
void child_reap(struct child *c, bool block);
/* The same, but wait no longer than so many ms: of a process that is about to end, its events go
 * before it does. */
void child_reap_soon(struct child *c, unsigned ms);
/* End it: it never begins, or it is told to (SIGTERM; true) and waited for. */
bool child_end(struct child *c);

/* Threads of the given processes, threads as given, or those of a user's processes; ascending, each
 * once. `pids`: the processes they belong to, likewise. -1: one is not there. */
int tasks_list(const struct record_options *o, pid_vec *tids, pid_vec *pids, struct error *err);
/* Whether one of the processes is not the effective user's own. */
bool tasks_of_others(const pid_vec *pids);

#endif
