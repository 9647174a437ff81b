/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where the caller's registers are at any instruction of a builtin, told by its machine code: no
 * unwind information covers V8's embedded builtins. The instructions are followed from the start
 * of the builtin along all direct jumps, and what they do to rsp, rbp and the return address is
 * kept for each.
 */
#ifndef UNWIND_V8_BUILTIN_H
#define UNWIND_V8_BUILTIN_H

#include "unwind/v8/layout.h"

enum v8_state_kind {
    V8_STATE_UNKNOWN, /* not reached: behind a jump table, a landing pad */
    V8_STATE_RSP,     /* CFA = rsp + offset; rbp is the caller's */
    V8_STATE_PUSHED,  /* CFA = rsp + offset; the caller's rbp is at CFA - 16 */
    V8_STATE_FRAMED,  /* CFA = rbp + 16; the caller's rbp is at rbp */
};

enum { V8_RETURN_ON_STACK = 0xff }; /* at CFA - 8 */

struct v8_state {
    int16_t offset;
    uint8_t kind;
    uint8_t return_register; /* DWARF number of the one that holds the return address */
    bool doubtful;           /* ways that lead here disagree */
};

/* The state at the instruction at `vaddr`. Made at the first question for a builtin; any thread.
 * Kind V8_STATE_UNKNOWN also when memory is out. */
struct v8_state v8_builtin_state(const struct v8_layout *l, struct v8_builtin *b, uint64_t vaddr);
void v8_states_free(struct v8_states *s);

/* The same for code that is no builtin: `at` bytes from its start. `code`: from its first
 * instruction on. */
struct v8_state v8_code_state(const uint8_t *code, size_t size, size_t at);

/* Is it Liftoff's? That has its frame made by the builtin that it calls first, which it tells its
 * number in r12 ("mov r12d, number"). `code`: its first V8_BYTES_LIFTOFF bytes. */
enum { V8_BYTES_LIFTOFF = 11 };
bool v8_code_is_liftoff(const uint8_t *code);
/* The offset behind that call; 0: it is not Liftoff's. */
size_t v8_code_liftoff_begun(const uint8_t *code);

/* The same without following all of it, where a few bytes tell: the frame stands behind a
 * function's prologue, if nothing near before `at` may take it down. `code`: the first `size`
 * bytes; `before`, `nr_before`: those right before `at`; as many as V8_BYTES_BEFORE, or all that
 * there are. false: not to be told so. */
enum { V8_BYTES_HEAD = 64, V8_BYTES_BEFORE = 64 };
bool v8_code_has_frame(const uint8_t *code, size_t size, size_t at, const uint8_t *before,
                       size_t nr_before);

/* Code that was followed already, by its bytes. One thread's; NULL when memory is out. */
struct v8_code_states;
struct v8_code_states *v8_code_states_create(void);
void v8_code_states_free(struct v8_code_states *c);
/* v8_code_state(), from there if it is known. */
struct v8_state v8_code_states_get(struct v8_code_states *c, const uint8_t *code, size_t size,
                                   size_t at);

#endif
