/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Walkers of managed languages: where code is a VM's own, the walk loop asks the input's walker
 * before it looks at CFI. One step takes one native frame (an interpreter's C frame, a piece of
 * generated code) and puts in its place what runs there: the managed frames, innermost first.
 *
 * A walker keeps a state for each walk under way, in memory of the unwinder's; it holds no memory
 * of its own, and nothing in it survives the walk but what follows from bytes that stay in place
 * (memory.h) alone.
 */
#ifndef UNWIND_WALKER_H
#define UNWIND_WALKER_H

#include "unwind/unwind.h"

enum walker_result {
    WALKER_NO,         /* not the walker's: native rules; nothing was changed */
    WALKER_STEPPED,    /* frames were appended, registers are the caller's */
    WALKER_UNREADABLE, /* frames were appended; the caller's registers are not recorded, at
                          `unreadable` of the step: the walk ends */
    WALKER_NO_MEMORY,
};

/* Head of a walker's state. */
struct walker_state {
    bool begun; /* false: of an earlier walk; the walker begins anew and sets it */
};

/* One step. `value` and `known` are the walk's own registers, as in struct registers. */
struct walker_step {
    const struct unwind_input *input;
    struct code code; /* that owns the frame's pc */
    uint64_t *value;
    uint32_t *known;
    uint8_t flags;               /* of the frame: FRAME_LEAF, FRAME_SIGNAL: pc is exact */
    enum provenance *provenance; /* of the walk so far: raised when a step rests on less */
    unsigned *frames_left;       /* to be lowered with each frame; at 0 none may be appended */
    struct unwind_stack *out;
    uint64_t unreadable; /* an address; see WALKER_UNREADABLE */
};

struct walker {
    /* Whether the code may be the walker's. Asked in each walk that comes to the code, before a
     * step from there, and perhaps again. */
    bool (*wants)(const void *context, const struct code *code);
    enum walker_result (*step)(const void *context, struct walker_state *state,
                               struct walker_step *step);
    /* Whether the rest of the walk goes on as if the walker had seen nothing of it so far. NULL: it
     * never does. */
    bool (*is_stateless)(const void *context, const struct walker_state *state);
    size_t state_size; /* bytes of a state */
    const void *context;
};

#endif
