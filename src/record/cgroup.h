/* SPDX-License-Identifier: GPL-2.0-only */
/* Control groups as perf events know them. */
#ifndef RECORD_CGROUP_H
#define RECORD_CGROUP_H

#include "base/error.h"

/* Returns the folder of the hierarchy whose groups events know: perf_event may have a hierarchy of
 * its own; else its groups are those of version 2. NULL: they are mounted nowhere usual. */
const char *cgroup_root(void);

/* Open the folder of a group, by its path below the root (as in /proc/PID/cgroup, with or without
 * the first slash) or by its whole path. Returns a descriptor for perf_event_open() with
 * PERF_FLAG_PID_CGROUP; -1: there is no such group, or it may not be read. */
int cgroup_open(const char *name, struct error *err);

#endif
