/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names and lines of the calls of a plain Lua: turns a call that the walk found into a managed
 * function and the executing line. Prototypes are kept in a cache by address. Addresses are reused,
 * so at each new time of the memory a known prototype is compared with what stands there.
 *
 * Names: the prototype that defines a function may be known, because it is or was on a stack. Then
 * the function's name is the one under which it is stored there (`M.handler`). Otherwise the name
 * that its caller uses is proposed, as debug.traceback of that version would show it. managed.h
 * chooses. A C function is named by where package.loaded has it (`string.gsub`).
 */
#ifndef UNWIND_LUA_NAMES_H
#define UNWIND_LUA_NAMES_H

#include "base/error.h"
#include "unwind/lua/stack.h"
#include "unwind/managed.h"

/* Create one for each of our threads. `managed` is shared and must outlive it. Returns NULL when
 * memory is out. */
struct lua_names;
struct lua_names *lua_names_create(struct managed_names *managed);
void lua_names_free(struct lua_names *n);

/* Where the calls of one stack come from. Memory of one process and one time does not change, so
 * nothing is compared twice at the same time of the same batch. */
struct lua_names_source {
    struct lua_reader *reader; /* memory and layout; its provenance and budget are not touched */
    uint64_t global;           /* address of the state's global_State (struct lua_state) */
    uint64_t batch;            /* number of the recording's batch (managed.h) */
    uint32_t space;            /* identifies the process: equal addresses in two processes are
                                  different objects */
    uint8_t provenance; /* weakest provenance of the walk so far: names that callers use count
                           less when it is not exact, and not at all when it is a guess */
};

/* How a caller names the function that it calls. */
enum lua_name_kind {
    LUA_NAME_NONE,
    LUA_NAME_LOCAL,
    LUA_NAME_UPVALUE,
    LUA_NAME_CONSTANT,
    LUA_NAME_GLOBAL,
    LUA_NAME_METHOD,
    LUA_NAME_FIELD,
    LUA_NAME_METAMETHOD, /* of the executing instruction, of a collected object, of a closed one */
    LUA_NAME_ITERATOR,   /* "for iterator" */
    LUA_NAME_HOOK,       /* "?": the function is a hook */
};

/* Returns Lua's word for the kind ("method"); "" for LUA_NAME_NONE. */
const char *lua_name_kind_text(enum lua_name_kind kind);

struct lua_named {
    uint32_t function; /* managed function. Of a C function: the one that package.loaded names,
                          or [C]. One that cannot be read is of MANAGED_UNKNOWN */
    uint32_t line;     /* the executing line; 0: not known, or a C function */
    uint32_t definition_line; /* the line of the definition; 0: not known, or a main chunk */
    const char *callname;     /* the caller's name for the function; NULL: none. Lives as long as
                                 `managed` */
    uint8_t callkind;         /* enum lua_name_kind */
    uint8_t provenance;       /* enum provenance: weakest of all reads; GUESS if a check failed */
    bool is_named;            /* a C function that package.loaded names: print that name */
    /* The function as it was read whole, which gets the names, and the provenance of that reading:
     * `function` may only stand for its place (managed_found_at()). 0: none. */
    uint8_t whole_provenance;
    uint32_t whole;
};

/* Name one call, of a Lua or of a C function. `caller`: the next older call of the same state,
 * which the language's own rules look at; NULL: there is none, or it is not known. Returns -1 when
 * memory is out. */
int lua_names_call(struct lua_names *n, const struct lua_names_source *source,
                   const struct lua_call *call, const struct lua_call *caller,
                   struct lua_named *ret, struct error *err);

/* Returns the name of a C function as package.loaded has it ("string.gsub"), by the address of its
 * code; NULL: it is not there. The name lives as long as `managed`. */
const char *lua_names_native(struct lua_names *n, const struct lua_names_source *source,
                             uint64_t native);

/* Append a Lua function as `NAME FILE:LINE`, without the parts that are not known. Returns -1 when
 * memory is out. */
int lua_names_function(struct lua_names *n, const struct lua_names_source *source, uint64_t proto,
                       struct text *to);

/* Take the names that a prototype gives to the functions defined in it, and those that these
 * functions give. For prototypes that are not on a stack, such as a main chunk that has returned.
 * An address without a prototype is ignored. Returns -1 when memory is out. */
int lua_names_learn(struct lua_names *n, const struct lua_names_source *source, uint64_t proto,
                    struct error *err);

#endif
