/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Lua's part of a snapshot. The objects that do not change while they live are walked from the
 * collector's list of all objects: prototypes with the strings that give names, functions, traces
 * with their snapshots and machine code. The changing parts are read, too: the words of the VMs,
 * their states that run or wait, and the stacks of these states.
 */
#ifndef LIVE_SNAPSHOT_LUA_H
#define LIVE_SNAPSHOT_LUA_H

#include "live/page_log.h"
#include "live/lua_scan.h"

struct snapshot_lua;

/* `files` and `pages` must outlive the result. Returns NULL when memory is out. */
struct snapshot_lua *snapshot_lua_create(pid_t pid, struct runtime_files *files,
                                         struct page_log *pages);
void snapshot_lua_free(struct snapshot_lua *s);

/* Look for VMs: reads all writable memory when there is a LuaJIT. Returns -1 if memory is out, or
 * the process is gone. */
int snapshot_lua_scan(struct snapshot_lua *s, struct error *err);
size_t snapshot_lua_vms(const struct snapshot_lua *s);
const lua_scan_vm_list *snapshot_lua_list(const struct snapshot_lua *s);

/* Call both in a round of the page log. The first keeps all objects, and returns false if the
 * collector changed its list meanwhile, so that some were not seen. The second keeps the stacks,
 * the objects that these name, and new traces. */
bool snapshot_lua_objects(struct snapshot_lua *s);
void snapshot_lua_stacks(struct snapshot_lua *s);

#endif
