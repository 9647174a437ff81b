/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where the caller's registers are at each instruction of a builtin, found from its machine code:
 * unwind information does not cover V8's embedded builtins. The analysis follows the instructions
 * from the start of the builtin along all direct jumps, and keeps for each instruction how rsp, rbp
 * and the return address have changed.
 */
#ifndef UNWIND_V8_BUILTIN_H
#define UNWIND_V8_BUILTIN_H

#include "unwind/v8/layout.h"

enum v8_state_kind {
    V8_STATE_UNKNOWN, /* not reached: code behind a jump table, landing pads */
    V8_STATE_RSP,     /* CFA = rsp + offset; rbp is the caller's */
    V8_STATE_PUSHED,  /* CFA = rsp + offset; the caller's rbp is at CFA - 16 */
    V8_STATE_FRAMED,  /* CFA = rbp + 16; the caller's rbp is at rbp */
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

/* The same for code that is no builtin, `at` bytes from its start. `code`: from its first
 * instruction on. */
struct v8_state v8_code_state(const uint8_t *code, size_t size, size_t at);

/* Is this Liftoff's code? Its first call is to the builtin that makes its frame, with the
 * function's number in r12 ("mov r12d, number"). `code`: its first V8_BYTES_LIFTOFF bytes. */
enum { V8_BYTES_LIFTOFF = 11 };
bool v8_code_is_liftoff(const uint8_t *code);
/* Returns the offset behind that call; 0: the code is not Liftoff's. */
size_t v8_code_liftoff_begun(const uint8_t *code);

/* Does the frame stand at `at`? Decides from a few bytes, without following all of the code: the
 * frame stands behind a function's prologue if no instruction shortly before `at` may take it down.
 * `code`: the first `size` bytes. `before`, `nr_before`: the bytes right before `at`,
 * V8_BYTES_BEFORE of them or all that there are. false: these bytes do not decide it. */
enum { V8_BYTES_HEAD = 64, V8_BYTES_BEFORE = 64 };
bool v8_code_has_frame(const uint8_t *code, size_t size, size_t at, const uint8_t *before,
                       size_t nr_before);

/* Cache of analysed code, by the code's bytes. For one thread; NULL when memory is out. */
struct v8_code_states;
struct v8_code_states *v8_code_states_create(void);
void v8_code_states_free(struct v8_code_states *c);
/* As v8_code_state(), from the cache if the code is known. */
struct v8_state v8_code_states_get(struct v8_code_states *c, const uint8_t *code, size_t size,
                                   size_t at);

#endif
