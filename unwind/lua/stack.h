/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The calls of a lua_State: its CIs, newest first, and how they are cut into activations of the
 * interpreter's C function. Private to unwind/lua.
 */
#ifndef UNWIND_LUA_STACK_H
#define UNWIND_LUA_STACK_H

#include "base/vec.h"
#include "unwind/lua/object.h"

/* One CI. */
struct lua_call {
    uint64_t ci;       /* its address */
    uint64_t func;     /* address of the slot that holds the function */
    uint64_t base;     /* address of the first local's slot; 0: a C function */
    uint64_t top;      /* end of the slots that it may use */
    uint64_t savedpc;  /* address of the bytecode instruction after the one that called; 0: none */
    uint32_t status;   /* callstatus; 5.1: number of tail calls */
    uint32_t nr_extra; /* 5.4 on: varargs */
    bool is_lua;       /* as the status says; 5.1: as the function says */
    bool is_fresh;     /* an activation begins with it (not 5.1) */
    bool is_tail;      /* it replaced its caller */
    bool is_hooked, is_finalizer;
    struct lua_function function; /* kind NONE: not known */
    uint32_t index;     /* executing instruction of a Lua function; UINT32_MAX: not known */
    uint8_t provenance; /* weakest of all that the call rests on */
};
typedef VEC(struct lua_call) lua_call_list;

/* A lua_State. */
struct lua_state {
    uint64_t address, global, ci, stack, top, base_ci;
    uint64_t savedpc; /* 5.1: of the newest Lua function */
    uint64_t moved;   /* where the stack was, while pointers into it still say so; else 0 */
    uint8_t status;
    uint8_t hookmask;   /* 0: no hook is set */
    uint8_t provenance; /* of the reading */
};

/* Read a state. `strict`: it passes all checks that hold for a state that does not change at the
 * moment; else only those that always hold. Returns false if there is none. */
bool lua_state_read(struct lua_reader *r, uint64_t address, bool strict, struct lua_state *ret);

/* Returns whether the state has a call, besides its base: the newest one is in its array or list.
 */
bool lua_state_has_call(struct lua_reader *r, const struct lua_state *s);

/* Append the state's calls, newest first, without the base CI. Functions and `index` of calls that
 * are not the newest Lua call are filled in. Returns -1 when memory is out, 1 if the list could be
 * read down to the base, 0 if not. */
int lua_state_calls(struct lua_reader *r, const struct lua_state *s, lua_call_list *ret);

/* Set the call's executing instruction from the bytecode pc, which points behind it. Returns false
 * if the pc is not of the call's function, or the function is not known. */
bool lua_call_set_pc(struct lua_call *c, uint64_t pc);

#endif
