/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names of C functions: where package.loaded of a VM has them. A library's functions are the fields
 * of its table (`string.gsub`), and those of the classes of its objects are in the registry
 * (`FILE*:read`). Private to unwind/lua.
 */
#ifndef UNWIND_LUA_NAMES_LIBRARY_H
#define UNWIND_LUA_NAMES_LIBRARY_H

#include "base/hash_table.h"
#include "unwind/lua/object.h"
#include "unwind/managed.h"

struct lua_library_function {
    uint64_t native;
    const char *name;  /* interned */
    uint32_t function; /* the managed function; 0: not interned yet */
    uint8_t worth;     /* of several names of a function, the one of greatest worth counts */
};

/* A Lua function. */
struct lua_stored_function {
    uint64_t proto, closure;
    const char *name; /* interned; NULL: closures of this prototype have several names */
    size_t separator; /* place of the last "." in the name; 0: there is none */
};

struct lua_library {
    VEC(struct lua_library_function) functions;
    struct hash_table by_native;
    VEC(struct lua_stored_function) stored;
    struct hash_table by_proto;
};

/* Read the libraries of the VM with this global_State. What cannot be read is missing. `deep`:
 * number of reads that may be spent on what is reached from the libraries; 0: it is not looked at.
 * Returns -1 when memory is out. */
int lua_library_read(struct lua_reader *r, uint64_t global, struct managed_names *managed,
                     uint32_t deep, struct lua_library *ret);
void lua_library_free(struct lua_library *l);

/* Returns a C function that has a name; NULL: it has none. */
struct lua_library_function *lua_library_find(struct lua_library *l, uint64_t native);
/* Returns the name that the closures of a prototype have; NULL: there is none, or there are
 * several. */
const struct lua_stored_function *lua_library_stored(const struct lua_library *l, uint64_t proto);

#endif
