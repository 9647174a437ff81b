/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names and lines of Lua frames: from a frame as the walker found it to a managed function and the
 * line that executes. Prototypes are kept in a cache; addresses are reused, so each use compares
 * the header and the chunk name's head with those that were read before.
 *
 * Names: where the prototype that defines a function is known (it is on the stack, or was, or was
 * told by luajit_names_learn()), the function is called as it is stored there (`M.handler`);
 * otherwise what callers call it is proposed, as debug.traceback would. managed.h chooses.
 */
#ifndef UNWIND_LUAJIT_NAMES_H
#define UNWIND_LUAJIT_NAMES_H

#include "base/error.h"
#include "unwind/managed.h"
#include "unwind/luajit/layout.h"
#include "unwind/memory.h"

/* One per thread of ours. `managed` is shared, and outlives it. NULL when memory is out. */
struct luajit_names;
struct luajit_names *luajit_names_create(struct managed_names *managed);
void luajit_names_free(struct luajit_names *n);

/* Where the frames of one stack come from. Memory of one process and one time is taken to stay as
 * it is: what was compared at that time is not compared again. */
struct luajit_names_source {
    const struct memory *memory;
    const struct luajit_vm *vm;
    uint32_t space;     /* names the process: equal addresses of another are something else */
    uint8_t provenance; /* of the frame, as far as the walk knows: callers' words for functions
                           count less when it is not exact, and not at all when it is a guess */
    uint64_t batch;     /* of the recording (managed.h) */
};

struct luajit_named {
    uint32_t function;        /* managed function; C functions are all one, [C] */
    uint32_t line;            /* executing; 0: not known */
    uint32_t definition_line; /* as in the function; 0: not known */
    const char *callname;     /* what the caller calls it; NULL: nothing. Lives with the managed */
    uint8_t callkind;         /* enum luajit_name_kind */
    enum provenance provenance; /* weakest of what was read; GUESS of what did not stand checks */
};

/* Name one frame. -1: memory is out. */
int luajit_names_frame(struct luajit_names *n, const struct luajit_names_source *source,
                       const struct luajit_frame *frame, struct luajit_named *ret,
                       struct error *err);

/* Take the names that a prototype gives to the functions defined in it, and those that these give.
 * For prototypes found otherwise than on a stack: a recording's object log, a list of all objects.
 * What is no prototype is passed over. -1: memory is out. */
int luajit_names_learn(struct luajit_names *n, const struct luajit_names_source *source,
                       uint64_t proto, struct error *err);

#endif
