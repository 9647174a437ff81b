/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Lua's part of a snapshot: the objects that do not change while they live (prototypes with the
 * strings they name things by, functions, traces with snapshots and machine code), which are walked
 * from the collector's list of all objects; and what changes: the VMs' own words, their states
 * that run or wait, and the stacks of these.
 */
#ifndef CAPTURE_SNAPSHOT_LUA_H
#define CAPTURE_SNAPSHOT_LUA_H

#include "capture/page_log.h"
#include "capture/lua_scan.h"

struct snapshot_lua;

/* `scan` and `pages` must stay. NULL when memory is out. */
struct snapshot_lua *snapshot_lua_create(pid_t pid, struct lua_scan *scan, struct page_log *pages);
void snapshot_lua_free(struct snapshot_lua *s);

/* Look for VMs: reads all writable memory when there is a LuaJIT. -1: memory is out, or the process
 * is gone. */
int snapshot_lua_scan(struct snapshot_lua *s, struct error *err);
size_t snapshot_lua_vms(const struct snapshot_lua *s);
const lua_scan_vm_list *snapshot_lua_list(const struct snapshot_lua *s);

/* In a round of the page log: all objects (false: the collector changed their list meanwhile, and
 * some were not seen); the stacks, and objects that these name or that are new among the traces. */
bool snapshot_lua_objects(struct snapshot_lua *s);
void snapshot_lua_stacks(struct snapshot_lua *s);

#endif
