/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Proof that a call of C by the FFI was made by the functions which the snapshot behind it tells.
 * That snapshot may have been replaced by a later one, in other frames, as long as no guard came
 * between. Private to unwind/luajit.
 *
 * What is known: in the code between the two snapshots C is called once. On its way from the first
 * one's place the program comes to the frames of the second by nothing but calls that are each the
 * first in their function, and behind such a call the innermost stands. Which function is called
 * there depends on no argument. Had that last call been of a Lua function, it would have been one
 * of those the trace knew by then; all of these are the new frames' own, and would have called each
 * other without an end. So it was the call of C.
 *
 * Facts (lj_record.c: rec_call_specialize; lj_crecord.c: crec_call; lj_ir.c: ir_nextk; the same
 * from 2.0.5 to August 2026): a trace keeps each Lua function that it has inlined as a constant,
 * made when it was called first; constants' references go down. A C function's address is one, made
 * for its first call.
 */
#ifndef UNWIND_LUAJIT_TRACE_CALLERS_H
#define UNWIND_LUAJIT_TRACE_CALLERS_H

#include "unwind/luajit/trace.h"

/* A call of C. */
struct luajit_call {
    uint64_t target;             /* the C function */
    bool is_first;               /* no other C was called before in the trace */
    uint32_t before;             /* the snapshot that covers it */
    uint32_t behind;             /* the one right behind it, with no other call of C in its code */
    struct luajit_function from; /* the innermost frame's of the former */
};

/* false: it is not proven. Only where addresses are kept in constants (64 bit references). */
bool luajit_caller_is_proven(struct luajit_reader *r, const struct luajit_trace *t,
                             const struct luajit_call *call);

#endif
