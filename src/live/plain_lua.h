/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Plain (PUC-Rio) Lua in processes that are recorded. Its walks are those of any runtime
 * (runtime_watch.h). The copier must know where the interpreter's code is; it finds VMs and states
 * by itself.
 */
#ifndef LIVE_PLAIN_LUA_H
#define LIVE_PLAIN_LUA_H

#include "base/error.h"
#include "live/copier.h"
#include "live/runtime_files.h"

#include <sys/types.h>

/* Tell the copier where plain Lua is mapped in a process now. A process that has none, is gone or
 * may not be read changes nothing. Errors: as copier_set_lua(); memory is out. */
int plain_lua_tell(struct copier *c, struct runtime_files *files, pid_t pid, struct error *err);

#endif
