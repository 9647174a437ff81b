/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The walker of plain Lua. Its interpreter is an ordinary C function, luaV_execute ("execute"): CFI
 * steps out of its frames. Which Lua functions run in which of them is decided when the whole
 * native stack is known (walker.h, finish):
 *
 *   step      notes each frame of execute with its registers: an activation
 *   find      finds the lua_State of each activation (activation.c), and of a coroutine that is
 *             being resumed (resumed.c)
 *   cut       deals the state's list of calls out to its activations (cut.c)
 *   emit      puts the Lua frames in the place of the frames of execute, and gives the native
 *             frames of C functions that Lua has called their names (emit.c)
 *
 * The output has, innermost first, in place of a frame of execute the Lua functions that it runs.
 * The innermost of them has the native frame's pc, CFA and flags; the pc of the others is the
 * address of their bytecode instruction. After a yield across pcall, calls of a coroutine have no
 * native frames any more: they stand behind the outermost activation of its state. A C function
 * that has no native frame (it has yielded, or ended in a tail call) is one frame without code. An
 * activation whose state or calls are not recorded is one frame of kind FRAME_LUA with function 0.
 * An activation that runs nothing (its function has just returned) remains a native frame. A
 * function that was called, but whose activation is not entered yet, has no frame.
 *
 * Private to unwind/lua.
 */
#ifndef UNWIND_LUA_WALK_H
#define UNWIND_LUA_WALK_H

#include "unwind/lua/names.h"
#include "unwind/lua/runtime.h"
#include "unwind/lua/stack.h"
#include "unwind/lua/variables.h"
#include "unwind/runtime.h"

enum { LUA_NO_STATE = -1, LUA_ACTIVATIONS_MAX = 4096 };

/* A frame of execute. */
struct lua_activation {
    size_t frame; /* index in the native frames */
    uint64_t pc;
    const struct lua_layout *layout;
    uint64_t bias;
    uint64_t value[ARCH_REGISTERS_MAX], known; /* registers */
    uint8_t flags, provenance;                 /* of the frame */
    uint64_t cfa;                              /* 0: not known */
    int state;                                 /* index in `states`; LUA_NO_STATE: not found */
    size_t first, end; /* its calls, in `calls`: from `first` up to `end`. The C functions among
                          them are newer than the Lua functions */
    bool lost;         /* not all of its calls are known */
    bool between; /* it has no frame of execute (resumed.c): its calls belong in front of the native
                     frame, and are all in the state's `rest` */
    bool doubted; /* it is not sure which calls are its own */
};

/* A lua_State that an activation runs. */
struct lua_walk_state {
    struct lua_state state;
    const struct lua_layout *layout;
    size_t first, end; /* its calls, newest first, in `calls` */
    bool sound;        /* it stood still: the state was read strictly (stack.h) */
    bool whole;        /* down to its base */
    bool is_main;      /* the VM's main thread: nothing has resumed it */
    size_t rest;       /* calls from here on have no activation */
    uint8_t provenance;
};

/* How long a function of native code is, by its CFI. */
enum { LUA_NATIVES_KEPT = 256 };
struct lua_native {
    uint32_t cfi_id; /* the code's; 0: the entry is free */
    uint64_t begin;  /* as the CFI uses it */
    uint64_t size;   /* bytes; 0: no function begins there */
};

/* The walk of one sample. */
struct lua_walk {
    const struct runtime_sample *sample;
    struct lua_names *names;
    const struct unwind_input *input;
    struct unwind_stack *out;
    struct lua_reader reader;
    VEC(struct lua_activation) activations; /* innermost first */
    bool collects; /* the garbage collector runs inside the innermost activation */
    VEC(struct lua_walk_state) states;
    lua_call_list calls;
    VEC(struct frame) frames;          /* the result while it is made */
    VEC(struct variable_place) places; /* of these frames, if somebody asks */
    struct lua_closures closures;
    struct lua_native natives[LUA_NATIVES_KEPT]; /* by a hash of `begin`; kept across walks */
};

/* Find the state of each activation, and read their calls. Returns -1 when memory is out. */
int lua_find_states(struct lua_walk *w);
/* Add an activation for a coroutine that is being resumed and runs no function (resumed.c). Returns
 * -1 when memory is out. */
int lua_find_resumed(struct lua_walk *w);
/* Returns whether a word of the activation's frame or registers has this value. */
bool lua_activation_has(const struct lua_walk *w, const struct lua_activation *a, uint64_t value);
/* Returns whether execute's frame has the call that `call`, which is of a list, made last. If
 * `call` is the newest one, the other one is returning: it has left the list already. */
bool lua_activation_has_next(struct lua_walk *w, const struct lua_activation *a,
                             const struct lua_call *call);
/* Set the executing instruction of the function that an activation runs. `call` is the newest call
 * of its state. Returns false if no pc is one of its function: the call is being made, and its
 * parts are not all written, or it has just returned. */
bool lua_set_running(struct lua_walk *w, const struct lua_activation *a, struct lua_call *call);
/* 5.1: get how many Lua functions the activation runs. Returns false if that is not known. */
bool lua_nr_calls(struct lua_walk *w, const struct lua_activation *a, uint32_t *ret);

/* Deal the calls of the states out to their activations. */
void lua_cut(struct lua_walk *w);

/* Make the frames. Returns -1 when memory is out. */
int lua_emit(struct lua_walk *w);

#endif
