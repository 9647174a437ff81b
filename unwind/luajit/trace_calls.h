/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * In which of the functions that a trace has inlined C was called. The snapshot that covers the
 * call is the one before it, taken where the last guard was: functions entered since, which took no
 * guard, are not in it. Private to unwind/luajit.
 *
 * Facts (lj_crecord.c: crec_call; lj_record.c: lj_record_ins; lj_snap.c: lj_snap_add;
 * lj_opt_loop.c; the same from 2.0.5 to August 2026): behind a call by the FFI a snapshot is taken,
 * at the next instruction, in the frame of the call; one that follows without a guard between
 * replaces it. The code of a trace's loop is made from its first part, calls in the same order.
 */
#ifndef UNWIND_LUAJIT_TRACE_CALLS_H
#define UNWIND_LUAJIT_TRACE_CALLS_H

#include "unwind/luajit/trace.h"

/* A constant of a trace, or what a slot of a constant's value looks like. */
struct luajit_constant {
    uint64_t value; /* its address, of an object */
    uint8_t type;   /* IRT_* */
    bool object;    /* a function or a prototype. (A pointer's own slot of a GC64 build, whose bytes
                       may look like one, begins with no zeros.) */
};

enum { LUAJIT_CONSTANTS_MAX = 4096 }; /* of a trace that are looked at */

/* The one at `ref`; false: it is not recorded. What a frame rests on does not change. */
bool luajit_trace_constant(struct luajit_reader *r, const struct luajit_trace *t, uint32_t ref,
                           struct luajit_constant *ret);

/* Whether the trace has inlined, or knows otherwise, a Lua function that is not of these
 * prototypes. */
bool luajit_trace_knows_others(struct luajit_reader *r, const struct luajit_trace *t,
                               const uint64_t *protos, unsigned nr);

/* Whether the trace has a function's address among its constants, as the FFI's calls have it; the
 * compiler's helpers are in none. false where a build does not keep addresses there (32 bit
 * references). */
bool luajit_trace_names(struct luajit_reader *r, const struct luajit_trace *t, uint64_t function);
/* Whether the call that returns to `offset` of its code is of such a function, or of one that the
 * code does not tell. */
bool luajit_call_by_ffi(struct luajit_reader *r, const struct luajit_trace *t, uint32_t offset);

/* The snapshots right behind a call of C which returns to `offset` of the trace's code, without
 * another between: first that of its own part of the code, which `covering` covers, then, for a
 * call in the trace's loop, that of the same call in the first part. `own`: where LuaJIT's own code
 * is, which the compiler's helpers are of. Returns how many: up to CALL_SNAPSHOTS. */
enum { CALL_SNAPSHOTS = 2 };
unsigned luajit_call_snapshots(struct luajit_reader *r, const struct luajit_trace *t,
                               uint32_t offset, uint32_t covering, uint64_t own,
                               uint32_t ret[CALL_SNAPSHOTS]);

/* Is the call that returns to `offset` the first one of C in the trace's code, or, in its loop, was
 * it made from that and is the first one there? */
bool luajit_call_is_first(struct luajit_reader *r, const struct luajit_trace *t, uint32_t offset,
                          uint64_t own);

/* The call nearest before `pc` in a function's bytecode, as frames have it: behind it; `pc` where
 * there is none near. */
uint64_t luajit_call_pc(struct luajit_reader *r, const struct luajit_function *f, uint64_t pc);

#endif
