/* SPDX-License-Identifier: GPL-2.0-only */
/* What /proc says of a live process: its namespaces. */
#ifndef BASE_PROC_H
#define BASE_PROC_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the pid in the process's own namespace (the last of NSpid, proc(5)); `pid` if the process
 * is gone. */
uint32_t proc_inner_pid(uint32_t pid);

/* Returns whether the process is in another namespace than we are. `which`: "mnt", "pid". Returns
 * false if it is gone. */
bool proc_is_apart(uint32_t pid, const char *which);

/* Returns whether the process has another root directory than we have (chroot). Returns false if
 * it is gone. */
bool proc_has_own_root(uint32_t pid);

#endif
