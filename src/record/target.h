/* SPDX-License-Identifier: GPL-2.0-only */
/* What a recording watches: running tasks, or a command whose process waits until it may begin. */
#ifndef RECORD_TARGET_H
#define RECORD_TARGET_H

#include "record/options.h"

#include <sys/resource.h>

/* The command's process, forked and waiting. It ends if the recorder ends. */
struct child {
    pid_t pid;  /* 0: there is no command, or it has been reaped */
    int go;     /* pipe to write to: the process then executes its command */
    int failed; /* pipe to read from: errno of an exec that failed */
    int status; /* as waitpid reports it */
    bool ended;
};

/* Let this process open as many descriptors as it may: a recording needs some for each cpu, or for
 * each task. Returns what was allowed before; zeros: not known. */
struct rlimit descriptors_allow(void);

/* Fork the process that will execute `command`; it waits for child_start(). `to_stderr`: its
 * standard output goes to standard error. `descriptors`: so many may it open (NULL, or zeros:
 * as many as we). */
int child_fork(char **command, bool to_stderr, const struct rlimit *descriptors, struct child *ret,
               struct error *err);
/* Returns the absolute path of the file that execvp() would execute, malloced; NULL: there is none.
 */
char *program_of(const char *command);
/* Let it execute. Returns 0, or the errno with which exec failed. */
int child_start(struct child *c);
/* Reap the process if it has ended (`block`: wait until it ends). */
void child_reap(struct child *c, bool block);
/* The same, but wait at most `ms` ms. For a process that is about to end: its events disappear
 * before the process does. */
void child_reap_soon(struct child *c, unsigned ms);
/* End the process and reap it. One that has not begun never executes its command. One that has
 * begun is sent SIGTERM; returns true then. */
bool child_end(struct child *c);

/* List the threads of the given processes, the given threads, or the threads of a user's processes;
 * ascending, each once. `pids`: the processes they belong to, likewise. Returns -1 if one does not
 * exist. */
int tasks_list(const struct record_options *o, pid_vec *tids, pid_vec *pids, struct error *err);
/* Append the threads of the processes. Processes that have ended are left out. Returns -1 when
 * memory is out. */
int tasks_threads(const pid_t *pids, size_t nr, pid_vec *ret, struct error *err);
/* Append the children of the processes, and theirs, that are not in `pids`. A process that ends
 * meanwhile is left out. Returns -1 when memory is out. */
int tasks_children(const pid_vec *pids, pid_vec *ret, struct error *err);
/* Whether one of the processes belongs to a user other than the effective user. */
bool tasks_of_others(const pid_vec *pids);

#endif
