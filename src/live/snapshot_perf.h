/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The eBPF copier in a running system-wide `perf record`: perf's own descriptors are duplicated
 * (pidfd_getfd), and the copier is attached to perf's sampling events. It writes through perf's
 * bpf-output event, so that perf's own file holds the copies. It is detached at the end.
 */
#ifndef LIVE_SNAPSHOT_PERF_H
#define LIVE_SNAPSHOT_PERF_H

#include "base/error.h"
#include "live/lua_scan.h"
#include "live/runtime_files.h"

#include <stdbool.h>
#include <sys/types.h>

struct snapshot_perf;

/* Errors say what perf lacks, and which command line provides it. */
int snapshot_perf_begin(pid_t perf, struct snapshot_perf **ret, struct error *err);
/* In the functions below `p` may be NULL: there is no perf. */
void snapshot_perf_end(struct snapshot_perf *p);
/* Set the VMs of a process. */
void snapshot_perf_vms(struct snapshot_perf *p, pid_t pid, const lua_scan_vm_list *vms);
/* The same for plain Lua, which is looked for in the process. */
void snapshot_perf_plain(struct snapshot_perf *p, pid_t pid, struct runtime_files *files);
/* Whether perf has ended. */
bool snapshot_perf_ended(const struct snapshot_perf *p);
/* What the copier cannot do here; NULL: nothing. */
const char *snapshot_perf_limit(const struct snapshot_perf *p);
/* Samples that got a copy of a VM, and all samples that were seen. */
void snapshot_perf_counts(const struct snapshot_perf *p, uint64_t *copies, uint64_t *of);

#endif
