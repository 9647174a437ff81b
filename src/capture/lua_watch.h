/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A recorded process as the recorder looks at it while it runs: its code, its LuaJITs and VMs, and
 * the log of what walks over its memory read. One image of a program; an exec makes another.
 */
#ifndef CAPTURE_LUA_WATCH_H
#define CAPTURE_LUA_WATCH_H

#include "capture/object_log.h"
#include "capture/lua_scan.h"
#include "session/recorded_memory.h"
#include "unwind/managed.h"
#include "unwind/luajit/names.h"

/* What all targets share; outlives them. */
struct watch_tools {
    struct lua_scan *scan;
    struct dsos *dsos;
    struct unwinder *unwinder;
    struct managed_names *managed;
    struct luajit_names *names;
    struct log_sink sink;
};

struct lua_watch;

/* Nothing is read yet. `now`: CLOCK_MONOTONIC ns, as everywhere here. NULL when memory is out. */
struct lua_watch *lua_watch_create(pid_t pid, const struct watch_tools *tools);
/* Writes nothing: lua_watch_flush first. */
void lua_watch_free(struct lua_watch *t);

pid_t lua_watch_pid(const struct lua_watch *t);

/* A file was mapped with the right to execute: LuaJIT may have come. */
void lua_watch_mapped(struct lua_watch *t);

/* Look for LuaJITs and VMs if it is time to: for LuaJITs after mappings, for VMs when a sample has
 * run one that no walk could find. Returns 1 when the list of VMs or of LuaJITs changed, 0, or -1
 * (memory is out; a process that cannot be read has no VMs). */
int lua_watch_scan(struct lua_watch *t, uint64_t now, struct error *err);
/* Whether a scan is expected to find something soon. */
bool lua_watch_expects_vm(const struct lua_watch *t, uint64_t now);
/* Whether a search is under way. */
bool lua_watch_is_searched(const struct lua_watch *t);

/* The VMs, and the LuaJITs, for the copier. */
const struct lua_scan_vm *lua_watch_vms(const struct lua_watch *t, size_t *nr);
const struct luajit_blob *lua_watch_blobs(const struct lua_watch *t, size_t *nr);
/* A fork's child starts with these. */
int lua_watch_inherit(struct lua_watch *t, const struct lua_watch *parent, struct error *err);
bool lua_watch_has_lua(const struct lua_watch *t);

/* Walk a sample's stack as offline, over the process's memory as it is now; `copy` is the VM's
 * memory as copied in the interrupt, NULL: none. `copies`: the copier is at work, and has its
 * reasons; else Lua stacks are read now. 1 when a VM was met that was not known, 0, -1 when memory
 * is out. */
int lua_watch_walk(struct lua_watch *t, const struct sample *s, const struct vmstack *copy,
                   bool copies, struct error *err);

/* Why the process's memory cannot be read; NULL: it can, or nobody has tried. */
const char *lua_watch_problem(const struct lua_watch *t);

/* object_log_pass(), object_log_flush(), object_log_rewrite() of its log. */
int lua_watch_pass(struct lua_watch *t, size_t budget, struct error *err);
int lua_watch_flush(struct lua_watch *t, struct error *err);
void lua_watch_rewrite(struct lua_watch *t);

struct lua_watch_stats {
    uint64_t walks, scans;
    struct object_log_stats log;
};
struct lua_watch_stats lua_watch_stats(const struct lua_watch *t);

#endif
