/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Variables of a call of a plain Lua: names and values of locals, varargs, upvalues and
 * temporaries. Private to unwind/lua.
 */
#ifndef UNWIND_LUA_VARIABLES_H
#define UNWIND_LUA_VARIABLES_H

#include "unwind/lua/names.h"
#include "unwind/variable.h"

/* What struct variable_place.word has. */
enum lua_place_word {
    LUA_PLACE_STATE,   /* address of the lua_State */
    LUA_PLACE_GLOBAL,  /* address of the global_State */
    LUA_PLACE_FUNC,    /* address of the function's slot */
    LUA_PLACE_BASE,    /* address of the first local's slot; 0: a C function */
    LUA_PLACE_TOP,     /* end of the slots that are in use */
    LUA_PLACE_CLOSURE, /* address of the closure; 0: a light C function */
    LUA_PLACE_INDEX,   /* executing instruction; UINT32_MAX: none yet */
    LUA_PLACE_EXTRA,   /* number of varargs below `func` (5.4 on) */
};

/* Add the variables of the call at a place to `ret`. What cannot be read is said. `names` names
 * functions that are values; the reader's budget bounds the reads. Returns -1 when memory is out.
 */
int lua_variables(struct lua_names *names, const struct lua_names_source *source,
                  const struct variable_place *at, struct variables *ret);

#endif
