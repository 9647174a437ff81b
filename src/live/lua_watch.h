/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A recorded process while it runs, as the recorder sees it: its code, its LuaJITs and VMs, and the
 * log of the memory that walks read. A watch is for one image of a program; an exec makes another.
 */
#ifndef LIVE_LUA_WATCH_H
#define LIVE_LUA_WATCH_H

#include "live/object_log.h"
#include "live/lua_scan.h"
#include "session/recorded_memory.h"
#include "unwind/managed.h"
#include "unwind/luajit/names.h"

/* Shared by all targets; outlives them. */
struct watch_tools {
    struct runtime_files *files;
    struct dsos *dsos;
    struct unwinder *unwinder;
    struct managed_names *managed;
    struct luajit_names *names;
    struct log_sink sink;
};

struct lua_watch;

/* Returns a watch that has read nothing yet; NULL when memory is out. In all functions here, `now`
 * is CLOCK_MONOTONIC in ns. */
struct lua_watch *lua_watch_create(pid_t pid, const struct watch_tools *tools);
/* Does not write: call lua_watch_flush first. */
void lua_watch_free(struct lua_watch *t);

pid_t lua_watch_pid(const struct lua_watch *t);

/* Note that a file was mapped executable: it may contain a LuaJIT. */
void lua_watch_mapped(struct lua_watch *t);

/* Look for LuaJITs and VMs if it is time to: for LuaJITs after new mappings, for VMs after a sample
 * ran a VM that no walk could find. Returns 1 when the list of VMs or of LuaJITs changed, 0 when
 * not, or -1 (memory is out). A process that cannot be read has no VMs. */
int lua_watch_scan(struct lua_watch *t, uint64_t now, struct error *err);
/* Whether a scan is expected to find a VM soon. */
bool lua_watch_expects_vm(const struct lua_watch *t, uint64_t now);
/* Whether a search for VMs is under way. */
bool lua_watch_is_searched(const struct lua_watch *t);

/* Return the known VMs, and the LuaJITs, for the copier. */
const struct lua_scan_vm *lua_watch_vms(const struct lua_watch *t, size_t *nr);
const struct luajit_blob *lua_watch_blobs(const struct lua_watch *t, size_t *nr);
/* Copy the VMs and LuaJITs of `parent` to `t`, which is the child of its fork. */
int lua_watch_inherit(struct lua_watch *t, const struct lua_watch *parent, struct error *err);
bool lua_watch_has_lua(const struct lua_watch *t);

/* Walk a sample's stack as offline, but over the process's memory as it is now. `copy`: the VM's
 * memory as copied in the interrupt, NULL: none. `copies`: the copier is running, so a missing copy
 * has a reason; without the copier, Lua stacks are read now. Returns 1 when the walk met an unknown
 * VM, 0 when not, -1 when memory is out. */
int lua_watch_walk(struct lua_watch *t, const struct sample *s, const struct vmstack *copy,
                   bool copies, struct error *err);

/* Returns why the process's memory cannot be read; NULL: it can, or no read was tried. */
const char *lua_watch_problem(const struct lua_watch *t);

/* Call object_log_pass(), object_log_flush() and object_log_rewrite() on the process's log. */
int lua_watch_pass(struct lua_watch *t, size_t budget, struct error *err);
int lua_watch_flush(struct lua_watch *t, struct error *err);
/* The recording ends: look at the JIT compilers once more. Does not flush. */
int lua_watch_finish(struct lua_watch *t, struct error *err);
void lua_watch_rewrite(struct lua_watch *t);

struct lua_watch_stats {
    uint64_t walks, scans;
    uint64_t left_out; /* bytes of mappings that are too large to be searched */
    struct object_log_stats log;
};
struct lua_watch_stats lua_watch_stats(const struct lua_watch *t);

#endif
