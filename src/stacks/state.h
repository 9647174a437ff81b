/* SPDX-License-Identifier: GPL-2.0-only */
/* What a program was doing when it was sampled, as far as the frames of its stack show. */
#ifndef STACKS_STATE_H
#define STACKS_STATE_H

#include "stacks/stacks.h"

enum stack_state {
    STATE_UNKNOWN, /* no frame */
    STATE_KERNEL,
    STATE_NATIVE, /* no VM on the stack */
    STATE_LUA_INTERP,
    STATE_LUA_TRACE,
    STATE_LUA_GC,
    STATE_LUA_COMPILE,
    STATE_LUA_EXIT, /* leaving a trace */
    STATE_LUA_FFI,  /* an FFI call of the interpreter; FFI calls of traces are C that Lua called */
    STATE_LUA_C,    /* C that Lua called */
    STATE_JS_INTERP,
    STATE_JS_BASELINE,
    STATE_JS_MAGLEV,
    STATE_JS_TURBOFAN,
    STATE_JS_GC,
    STATE_JS_COMPILE,
    STATE_JS_C, /* builtins, the runtime, and C++ that JavaScript called */
    STATE_WASM,
    STATE_MANAGED,   /* code of another managed language */
    STATE_MANAGED_C, /* C that it called */
    STATE_GENERATED, /* other generated code */
    STATE_NR,
};

const char *stack_state_name(enum stack_state state);

/* Returns the state of the stack that ends at `node`. The stacks were collected with by_tier. If
 * they were collected with by_state, what a VM of Lua was found to do counts (enum
 * runtime_activity). Else garbage collection, compilation and trace exits are recognized by the
 * names of the VM's own functions, if the VM has symbols; without symbols they are C that was
 * called. */
enum stack_state stack_state(const struct stacks *s, size_t node);

#endif
