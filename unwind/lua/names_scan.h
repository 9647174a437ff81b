/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names of functions, read from bytecode. At a call: by the rule of debug.traceback of the version,
 * which is reproduced and not improved, because users compare. At the definition: the instruction
 * that makes the closure is followed by the one that stores it.
 */
#ifndef UNWIND_LUA_NAMES_SCAN_H
#define UNWIND_LUA_NAMES_SCAN_H

#include "unwind/lua/names.h"
#include "unwind/lua/names_proto.h"

/* Find the caller's name for the function that its instruction at `index` called. `buffer` holds
 * LUA_NAME_SIZE bytes and receives the name. Names that Lua shows as "?" are none. */
enum lua_name_kind lua_call_name(struct lua_asker *a, const struct lua_code *caller, uint32_t index,
                                 char *buffer);

/* Returns whether the first parameter is called self: the function is a method, M:handler. */
bool lua_is_method(struct lua_asker *a, const struct lua_code *c);

/* A name of several words: M.handler. */
enum { LUA_DEFINED_SIZE = 4 * LUA_NAME_SIZE };

/* Find the name under which the closure is stored that the CLOSURE at `index` makes. Returns false
 * if it is not stored under a name, or not right there. `child`: the function that is made.
 * `budget`: number of instructions and variables that may still be looked at; it bounds the cost of
 * many calls together. */
bool lua_definition_name(struct lua_asker *a, const struct lua_code *parent, uint32_t index,
                         const struct lua_code *child, uint32_t *budget,
                         char buffer[LUA_DEFINED_SIZE]);

#endif
