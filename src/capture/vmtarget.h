/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A recorded process as the recorder looks at it while it runs: its code, its LuaJITs and VMs, and
 * the log of what walks over its memory read. One image of a program; an exec makes another.
 */
#ifndef CAPTURE_VMTARGET_H
#define CAPTURE_VMTARGET_H

#include "capture/objects.h"
#include "capture/vmscan.h"
#include "session/vmmemory.h"
#include "unwind/managed.h"
#include "unwind/luajit/names.h"

/* What all targets share; outlives them. */
struct vm_tools {
    struct vmscan *scan;
    struct dsos *dsos;
    struct unwinder *unwinder;
    struct managed_names *managed;
    struct luajit_names *names;
    struct object_sink sink;
};

struct vm_target;

/* Nothing is read yet. `now`: CLOCK_MONOTONIC ns, as everywhere here. NULL when memory is out. */
struct vm_target *vm_target_create(pid_t pid, const struct vm_tools *tools);
/* Writes nothing: vm_target_flush first. */
void vm_target_free(struct vm_target *t);

pid_t vm_target_pid(const struct vm_target *t);

/* A file was mapped with the right to execute: LuaJIT may have come. */
void vm_target_mapped(struct vm_target *t);

/* Look for LuaJITs and VMs if it is time to: for LuaJITs after mappings, for VMs when a sample has
 * run one that no walk could find. Returns 1 when the list of VMs or of LuaJITs changed, 0, or -1
 * (memory is out; a process that cannot be read has no VMs). */
int vm_target_scan(struct vm_target *t, uint64_t now, struct error *err);
/* Whether a scan is expected to find something soon. */
bool vm_target_is_young(const struct vm_target *t, uint64_t now);
/* Whether a search is under way. */
bool vm_target_is_searched(const struct vm_target *t);

/* The VMs, and the LuaJITs, for the copier. */
const struct vmscan_vm *vm_target_vms(const struct vm_target *t, size_t *nr);
const struct luajit_blob *vm_target_blobs(const struct vm_target *t, size_t *nr);
/* A fork's child starts with these. */
int vm_target_inherit(struct vm_target *t, const struct vm_target *parent, struct error *err);
bool vm_target_has_lua(const struct vm_target *t);

/* Walk a sample's stack as offline, over the process's memory as it is now; `copy` is the VM's
 * memory as copied in the interrupt, NULL: none. `copies`: the copier is at work, and has its
 * reasons; else Lua stacks are read now. 1 when a VM was met that was not known, 0, -1 when memory
 * is out. */
int vm_target_walk(struct vm_target *t, const struct sample *s, const struct vm_copy *copy,
                   bool copies, struct error *err);

/* Why the process's memory cannot be read; NULL: it can, or nobody has tried. */
const char *vm_target_problem(const struct vm_target *t);

/* object_process_pass(), object_process_flush(), object_process_retell() of its log. */
int vm_target_pass(struct vm_target *t, size_t budget, struct error *err);
int vm_target_flush(struct vm_target *t, struct error *err);
void vm_target_retell(struct vm_target *t);

struct vm_target_stats {
    uint64_t walks, scans;
    struct object_stats log;
};
struct vm_target_stats vm_target_stats(const struct vm_target *t);

#endif
