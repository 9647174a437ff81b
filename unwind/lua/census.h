/* SPDX-License-Identifier: GPL-2.0-only */
/* The objects of a plain Lua VM, for the census of heaps (unwind/census.h). Private to unwind/lua.
 */
#ifndef UNWIND_LUA_CENSUS_H
#define UNWIND_LUA_CENSUS_H

#include "unwind/census.h"

extern const struct census_heap lua_census;

#endif
