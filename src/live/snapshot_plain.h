/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Plain Lua's part of a snapshot. Its VMs are found by their lua_States, anywhere in the process's
 * memory; the prototypes by the collector's list of all objects. Read are the prototypes with their
 * lines, names and sources, the closures, and the states that run or wait with their calls and
 * stacks. Tables are not read: library functions have no names.
 */
#ifndef LIVE_SNAPSHOT_PLAIN_H
#define LIVE_SNAPSHOT_PLAIN_H

#include "live/page_log.h"
#include "unwind/lua/layout.h"

struct snapshot_plain;

/* `layout` and `pages` must outlive the result. Returns NULL when memory is out. */
struct snapshot_plain *snapshot_plain_create(pid_t pid, const struct lua_layout *layout,
                                             struct page_log *pages);
void snapshot_plain_free(struct snapshot_plain *s); /* may be NULL */

/* Call both in a round of the page log. The first looks for VMs and keeps all objects; it returns
 * -1 if memory is out, or the process is gone. The second keeps the stacks. */
int snapshot_plain_objects(struct snapshot_plain *s, struct error *err);
void snapshot_plain_stacks(struct snapshot_plain *s);

size_t snapshot_plain_vms(const struct snapshot_plain *s);

#endif
