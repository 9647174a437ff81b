/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names and lines of Lua frames: turns a frame that the walker found into a managed function and
 * the executing line. Prototypes are kept in a cache. Addresses are reused, so each use compares
 * the header and the head of the chunk's name with those that were read before.
 *
 * Names: the prototype that defines a function may be known, because it is or was on the stack, or
 * because luajit_names_learn() was called for it. Then the function's name is the one under which
 * it is stored there (`M.handler`). Otherwise the name that callers use is proposed, as
 * debug.traceback would show it. managed.h chooses.
 */
#ifndef UNWIND_LUAJIT_NAMES_H
#define UNWIND_LUAJIT_NAMES_H

#include "base/error.h"
#include "unwind/managed.h"
#include "unwind/luajit/layout.h"
#include "unwind/memory.h"

/* Create one for each of our threads. `managed` is shared and must outlive it. NULL when memory is
 * out. */
struct luajit_names;
struct luajit_names *luajit_names_create(struct managed_names *managed);
void luajit_names_free(struct luajit_names *n);

/* Where the frames of one stack come from. Memory of one process and one time does not change, so
 * nothing is compared twice at the same time. */
struct luajit_names_source {
    const struct memory *memory;
    const struct luajit_vm *vm;
    uint32_t space;     /* identifies the process: equal addresses in two processes are different
                           objects */
    uint8_t provenance; /* provenance of the frame, as the walk knows it: names that callers use for
                           functions count less when it is not exact, and not at all when it is a
                           guess */
    uint64_t batch;     /* number of the recording's batch (managed.h) */
};

struct luajit_named {
    uint32_t function;        /* managed function; all C functions are one, [C] */
    uint32_t line;            /* the executing line; 0: not known */
    uint32_t definition_line; /* the function's first line; 0: not known */
    const char *callname;     /* the caller's name for the function; NULL: none. Lives as long as
                                 `managed` */
    uint8_t callkind;         /* enum luajit_name_kind */
    /* The function as it was read whole, which gets the names, and the provenance of that reading:
     * `function` may only stand for its place (managed_found_at()). 0: none. */
    uint32_t whole;
    enum provenance whole_provenance;
    enum provenance provenance; /* weakest of all reads; GUESS if a check failed */
};

/* Name one frame. Returns -1 when memory is out. */
int luajit_names_frame(struct luajit_names *n, const struct luajit_names_source *source,
                       const struct luajit_frame *frame, struct luajit_named *ret,
                       struct error *err);

/* Take the names that a prototype gives to the functions defined in it, and the names that these
 * functions give. For prototypes that were not found on a stack: those of a recording's object log,
 * or of a list of all objects. An address without a prototype is ignored. Returns -1 when memory is
 * out. */
int luajit_names_learn(struct luajit_names *n, const struct luajit_names_source *source,
                       uint64_t proto, struct error *err);

#endif
