/* SPDX-License-Identifier: GPL-2.0-only */
/* Plain Lua's row in the table of runtimes. */
#ifndef UNWIND_LUA_RUNTIME_H
#define UNWIND_LUA_RUNTIME_H

#include "unwind/lua/layout.h"
#include "unwind/runtime.h"

extern const struct runtime lua_runtime;

#endif
