/* SPDX-License-Identifier: GPL-2.0-only */
/* Values of a plain Lua, in the terms that all runtimes share. Private to unwind/lua. */
#ifndef UNWIND_LUA_VALUE_H
#define UNWIND_LUA_VALUE_H

#include "unwind/lua/names.h"
#include "unwind/variable.h"

struct lua_value_source {
    struct lua_names *names;
    const struct lua_names_source *from;
    struct variables *to;
    char *string; /* wanted.string_max bytes and one */
};

/* Set the last variable of the list to a value, and add the fields of a table behind it. Returns
 * false when memory is out. */
bool lua_value_set(const struct lua_value_source *s, struct lua_value v, unsigned depth);

#endif
