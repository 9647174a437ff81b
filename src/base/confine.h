/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Give up privileges. Whoever takes over a process by a malformed file, or by the memory of a
 * process that it reads, gets what this process has: so the processes that read what strangers own
 * have little. They can read what their broker opens for them, but not open, write, execute, or
 * speak to anybody: each has a user of its own, no capability, no descriptor of the recording, and
 * a filter of system calls. What they tell the recorder is checked as a stranger's.
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

/* For a process that reads; it is called ljperf-reader then. Close all descriptors but standard
 * error and `keep`, and lead standard input and output to nowhere. Begin a broker (base/broker.h),
 * a process of its own, which keeps the capabilities to read processes and files. Be a user that
 * nobody else is, where this process may change its user; give up all capabilities (`bpf`: but that
 * to use eBPF maps); never get others; end when the parent ends (the caller sees by getppid() if it
 * has ended already). Allow only system calls to read what is open, and those that handle the
 * process's own memory and itself; and sendmsg() to `socket` (-1: none): all others fail with
 * EPERM. Call broker_end() at the end. Returns 1 if there is no filter of system calls, and `err`
 * says why: no libseccomp when this program was built, or refused by the kernel; -1 if the
 * capabilities cannot be given up. */
int confine_reader(const int *keep, size_t nr, int socket, bool bpf, struct error *err);

/* For the recorder itself, once all is open: give up the capabilities that it will not need
 * (`files`: it will begin further files, perhaps where others own the folder; `probes`: it will
 * open events that probe programs, for which the kernel wants CAP_SYS_ADMIN), and the system calls
 * to execute programs, change others' memory, mount, load modules, or open sockets. Returns -1 as
 * above. */
int confine_recorder(bool files, bool probes, struct error *err);

#endif
