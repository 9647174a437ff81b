/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where the caller's registers are at each instruction of a builtin, found from its machine code:
 * unwind information does not cover V8's embedded builtins. The analysis follows the instructions
 * from the start of the builtin along all direct jumps, and keeps for each instruction how the
 * stack pointer, the frame pointer and the return address have changed.
 */
#ifndef UNWIND_V8_BUILTIN_H
#define UNWIND_V8_BUILTIN_H

#include "unwind/v8/layout.h"

enum v8_state_kind {
    V8_STATE_UNKNOWN, /* not reached: code behind a jump table, landing pads */
    V8_STATE_SP,      /* CFA = sp + offset; the frame pointer is the caller's */
    V8_STATE_PUSHED,  /* CFA = sp + offset; the caller's frame pointer is at CFA - 16 */
    V8_STATE_FRAMED,  /* CFA = fp + 16; the caller's frame pointer is at fp */
};

enum { V8_RETURN_ON_STACK = 0xff }; /* at CFA - 8 */

struct v8_state {
    int16_t offset;
    uint8_t kind;
    uint8_t return_register; /* DWARF number of the register that holds the return address */
    bool doubtful;           /* paths that lead here disagree */
};

/* Returns the state at the instruction at `vaddr`. The builtin is analysed at the first call; any
 * thread may call. Kind V8_STATE_UNKNOWN also when memory is out. */
struct v8_state v8_builtin_state(const struct v8_layout *l, struct v8_builtin *b, uint64_t vaddr);
void v8_states_free(struct v8_states *s);

struct v8_machine;

/* The state at a function's first instruction. */
struct v8_state v8_frameless(const struct v8_machine *m);

/* The same for code that is no builtin, `at` bytes from its start. `code`: from its first
 * instruction on. */
struct v8_state v8_code_state(const struct v8_machine *m, const uint8_t *code, size_t size,
                              size_t at);

enum {
    V8_BYTES_LIFTOFF = 11, /* bytes that show whether code is Liftoff's */
    V8_BYTES_HEAD = 64,    /* and whether a frame stands (v8_machine.has_frame): of the beginning */
    V8_BYTES_BEFORE = 64,  /* and of what is right before */
};

/* Cache of analysed code, by the code's bytes. For one thread; NULL when memory is out. */
struct v8_code_states;
struct v8_code_states *v8_code_states_create(void);
void v8_code_states_free(struct v8_code_states *c);
/* As v8_code_state(), from the cache if the code is known. */
struct v8_state v8_code_states_get(struct v8_code_states *c, const struct v8_machine *m,
                                   const uint8_t *code, size_t size, size_t at);

#endif
