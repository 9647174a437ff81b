/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Walkers of managed languages. Where code belongs to a VM, the walk loop asks the input's walker
 * before it looks at CFI. One step takes one native frame (a C frame of an interpreter, a piece of
 * generated code) and replaces it by the managed frames that run in it, innermost first.
 *
 * A walker keeps a state for each walk in progress, in memory of the unwinder. It owns no memory
 * itself. Nothing in the state survives the walk, except what depends only on bytes that stay in
 * place (memory.h).
 */
#ifndef UNWIND_WALKER_H
#define UNWIND_WALKER_H

#include "unwind/unwind.h"

enum walker_result {
    WALKER_NO,      /* not the walker's code: use native rules; nothing was changed */
    WALKER_STEPPED, /* frames were appended; the registers are the caller's */
    WALKER_BY_CFI,  /* frames were appended in place of the native frame; native rules step out of
                       it, and give the first of them its CFA */
    WALKER_UNREADABLE, /* frames were appended; the caller's registers were not recorded, at the
                          step's `unreadable`: the walk ends */
    WALKER_NO_MEMORY,
};

/* The head of a walker's state. */
struct walker_state {
    bool begun; /* false: the state is from an earlier walk; the walker starts anew and sets it */
};

/* One step. `value` and `known` are the walk's own registers, as in struct registers. */
struct walker_step {
    const struct unwind_input *input;
    struct code code; /* the code that contains the frame's pc */
    uint64_t *value;
    uint64_t *known;
    uint8_t flags;               /* of the frame; with FRAME_LEAF or FRAME_SIGNAL, pc is exact */
    enum provenance *provenance; /* of the walk so far; a step on weaker evidence raises it */
    unsigned *frames_left;       /* lower it with each frame; at 0 no more frames may be appended */
    struct unwind_stack *out;
    uint64_t unreadable; /* an address; see WALKER_UNREADABLE */
};

struct walker {
    const struct arch *arch; /* the machine whose code it reads: walks of others do not ask it.
                                NULL: any */
    /* Returns whether the code may belong to the walker. Each walk that reaches the code asks this
     * before a step from there, and perhaps again later. */
    bool (*wants)(const void *context, const struct code *code);
    enum walker_result (*step)(const void *context, struct walker_state *state,
                               struct walker_step *step);
    /* Returns whether the rest of the walk goes on as if the walker had seen nothing of it so far.
     * NULL: never. */
    bool (*is_stateless)(const void *context, const struct walker_state *state);
    /* The walk has ended: put frames in place of native ones of which step() has only taken note,
     * or between them. For runtimes whose frames are known only when all native frames are. `out`
     * has at most `input`'s max_frames frames before and after. Returns -1 when memory is out.
     * NULL: there is nothing to do. */
    int (*finish)(const void *context, const struct unwind_input *input, struct unwind_stack *out);
    size_t state_size; /* bytes of a state */
    const void *context;
};

#endif
