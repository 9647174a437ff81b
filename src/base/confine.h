/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Give up privileges. Whoever takes over a process by a malformed file, or by the memory of a
 * process that it reads, gets what this process has: so the processes that read what strangers own
 * have little. They can read, but not write, execute, or speak to anybody: each has a user of its
 * own, the capabilities to read, no descriptor of the recording, and a filter of system calls. What
 * they tell the recorder is checked as a stranger's.
 */
#ifndef BASE_CONFINE_H
#define BASE_CONFINE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Whether this process has privileges that it should not read strangers' files with:
 * CAP_SYS_PTRACE. (A user without it reads the own processes only, by the same right as the
 * recorder.) */
bool confine_is_wanted(void);

/* Close all descriptors but standard error and `keep` (at most 64), and lead standard input and
 * output to nowhere. */
void confine_files(const int *keep, size_t nr);

/* For a process that reads. Be a user that nobody else is, where this process may change its user;
 * give up all capabilities but those to read processes and files (`bpf`: and to use eBPF maps);
 * never get others; end when the parent ends (the caller sees by getppid() if it has ended
 * already). Returns -1 if they cannot be given up. */
int confine_reader(bool bpf, struct error *err);

/* Allow only system calls that read, and those that handle the process's own memory and itself;
 * `socket`: and sendmsg() to it (-1: none). All others fail with EPERM. Returns -1 if there is no
 * filter: no libseccomp when this program was built, or refused by the kernel. */
int confine_calls(int socket, struct error *err);

/* For the recorder itself, once all is open: give up the capabilities that it will not need
 * (`files`: it will begin further files, perhaps where others own the folder), and the system calls
 * to execute programs, change others' memory, mount, load modules, or open sockets. Returns -1 as
 * above. */
int confine_recorder(bool files, struct error *err);

#endif
