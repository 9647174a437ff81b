/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by builtin.c and the machines' parts of it (machine_x86_64.c, machine_aarch64.c). */
#ifndef UNWIND_V8_BUILTIN_INTERNAL_H
#define UNWIND_V8_BUILTIN_INTERNAL_H

#include "base/vec.h"
#include "unwind/v8/builtin.h"

struct v8_states {
    size_t size;
    struct v8_state at[]; /* by offset in the code */
};

/* A piece of code that is followed from its first instruction along all direct jumps. */
struct v8_follow {
    const uint8_t *code;
    struct v8_states *states;
    VEC(uint32_t) todo;
    size_t framed; /* offset behind the call that makes the frame of this code; 0: none */
    bool failed;
};

/* A path leads to `offset` with state `s`. The first state that reaches an offset is kept. */
void v8_follow_reach(struct v8_follow *f, uint64_t offset, struct v8_state s);

#endif
