/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * In which of a trace's inlined functions C was called. The snapshot that covers the call is the
 * one before it, taken at the last guard. It does not have the functions that were entered since
 * without a guard. Private to unwind/luajit.
 *
 * Facts (lj_crecord.c: crec_call; lj_record.c: lj_record_ins; lj_snap.c: lj_snap_add;
 * lj_opt_loop.c; the same from 2.0.5 to August 2026): behind a call by the FFI a snapshot is taken,
 * at the next instruction, in the frame of the call. A snapshot that follows without a guard
 * between replaces it. The code of a trace's loop is made from the trace's first part, with calls
 * in the same order.
 */
#ifndef UNWIND_LUAJIT_TRACE_CALLS_H
#define UNWIND_LUAJIT_TRACE_CALLS_H

#include "unwind/luajit/trace.h"

/* A constant of a trace, or the slot of a constant's value decoded as if it were a constant. */
struct luajit_constant {
    uint64_t value; /* of an object its address */
    uint8_t type;   /* IRT_* */
    bool object;    /* it is a function or a prototype. (In a GC64 build the bytes of a pointer's
                       own slot may look like one, but do not begin with zeros.) */
};

enum { LUAJIT_CONSTANTS_MAX = 4096 }; /* constants of a trace that are looked at */

/* Read the constant at `ref`; false: it is not recorded. The provenance of the frame does not
 * change. */
bool luajit_trace_constant(struct luajit_reader *r, const struct luajit_trace *t, uint32_t ref,
                           struct luajit_constant *ret);

/* Has the trace inlined a Lua function of other prototypes than these, or does it know one
 * otherwise? */
bool luajit_trace_knows_others(struct luajit_reader *r, const struct luajit_trace *t,
                               const uint64_t *protos, unsigned nr);

/* Is the function's address among the trace's constants, as for calls by the FFI? The compiler's
 * helpers are never among them. false where a build does not keep addresses in constants (32 bit
 * references). */
bool luajit_trace_names(struct luajit_reader *r, const struct luajit_trace *t, uint64_t function);
/* Does the call that returns to `offset` of the trace's code call such a function, or a function
 * that the code does not tell? */
bool luajit_call_by_ffi(struct luajit_reader *r, const struct luajit_trace *t, uint32_t offset);

/* Find the snapshots right behind a call of C that returns to `offset` of the trace's code, without
 * another call between. The first one follows the snapshot `covering`, which covers the call's own
 * part of the code. For a call in the trace's loop, the second one is behind the same call in the
 * first part. `own`: where LuaJIT's own code is, which has the compiler's helpers. Returns the
 * number of snapshots, up to CALL_SNAPSHOTS. */
enum { CALL_SNAPSHOTS = 2 };
unsigned luajit_call_snapshots(struct luajit_reader *r, const struct luajit_trace *t,
                               uint32_t offset, uint32_t covering, uint64_t own,
                               uint32_t ret[CALL_SNAPSHOTS]);

/* Is the call that returns to `offset` the first call of C in the trace's code? In the trace's
 * loop: is it the first one there, and was it made from the first one of the first part? */
bool luajit_call_is_first(struct luajit_reader *r, const struct luajit_trace *t, uint32_t offset,
                          uint64_t own);

/* The address behind the nearest call before `pc` in a function's bytecode, in the form that frames
 * use; `pc` when there is no call near. */
uint64_t luajit_call_pc(struct luajit_reader *r, const struct luajit_function *f, uint64_t pc);

#endif
