/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Proof that a call of C by the FFI was made by the functions in the snapshot behind the call. The
 * proof is needed because a later snapshot, in other frames, may have replaced that snapshot, as
 * long as no guard came between.
 *
 * Premises: the code between the two snapshots calls C once. From the place of the first snapshot
 * the program reaches the frames of the second only by calls that are each the first call in their
 * function. The innermost frame stands behind such a call. Which function is called there depends
 * on no argument. Conclusion: suppose that this last call was of a Lua function. Then it was a
 * function that the trace knew at that time. All of these are the new frames' own functions, which
 * would have called each other without an end. So the last call was the call of C.
 *
 * Facts (lj_record.c: rec_call_specialize; lj_crecord.c: crec_call; lj_ir.c: ir_nextk; the same
 * from 2.0.5 to August 2026): a trace keeps each Lua function that it has inlined as a constant,
 * which is made at the function's first call. The references of constants go down. The address of a
 * C function is a constant, too, which is made for its first call. Private to unwind/luajit.
 */
#ifndef UNWIND_LUAJIT_TRACE_CALLERS_H
#define UNWIND_LUAJIT_TRACE_CALLERS_H

#include "unwind/luajit/trace.h"

/* A call of C. */
struct luajit_call {
    uint64_t target;             /* the C function */
    bool is_first;               /* the trace has called no other C function before */
    uint32_t before;             /* number of the snapshot that covers the call */
    uint32_t behind;             /* number of the next snapshot; its code has no other call of C */
    struct luajit_function from; /* function of the innermost frame of snapshot `before` */
};

/* Is the caller proven? Always false where constants do not hold addresses (32 bit references). */
bool luajit_caller_is_proven(struct luajit_reader *r, const struct luajit_trace *t,
                             const struct luajit_call *call);

#endif
