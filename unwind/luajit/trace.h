/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Traces: which one an address belongs to, which snapshot covers it, and which Lua frames that
 * snapshot says are inlined there. Private to unwind/luajit.
 *
 * GCtrace's fields from snap to nextside stand where the layout says in every version; nsnap and
 * nsnapmap have moved, and SnapShot has had three forms. Each object tells which: snapmap stands
 * right behind the nsnap snapshots.
 */
#ifndef UNWIND_LUAJIT_TRACE_H
#define UNWIND_LUAJIT_TRACE_H

#include "unwind/luajit/stack.h"

/* The IR: references below the bias are constants. Types, the same in every version (lj_ir.h). */
enum { LUAJIT_REF_BIAS = 0x8000 };
enum { IRT_STR = 4, IRT_PROTO = 7, IRT_FUNC = 8, IRT_NUM = 14, IRT_INT = 19, IRT_MASK = 0x1f };

struct luajit_trace {
    uint64_t address; /* GCtrace; 0: none */
    uint64_t mcode, ir, snap, snapmap, startpt, startpc;
    uint32_t szmcode, mcloop, nsnap, nsnapmap, nins, nk; /* mcloop: its loop's offset; 0: none */
    uint16_t number, root, spadjust;
    uint16_t snap_size; /* 8 or 12 bytes */
    bool has_mcofs;     /* snapshots say where their code begins */
    bool runs; /* a return address of the sample is behind a call in its code, so it lived */
};

enum { LUAJIT_TRACES_MAX = 1 << 16 };

/* Trace `number` of the VM at g; false: there is none, or none that holds together. */
bool luajit_trace_read(struct luajit_reader *r, uint64_t g, uint32_t number,
                       struct luajit_trace *ret);
/* Its instructions, snapshots and map in place, until the walk ends, where they are known to be the
 * sample's; NULL: they are to be read. */
enum luajit_digested { LUAJIT_DIGEST_NONE, LUAJIT_DIGEST_SAME, LUAJIT_DIGEST_OTHER };
enum luajit_digested luajit_trace_digest(struct luajit_reader *r, const struct luajit_trace *t);
static inline const uint8_t *luajit_trace_bytes(struct luajit_reader *r,
                                                const struct luajit_trace *t, uint64_t address,
                                                size_t size)
{
    uint8_t digest = r->digested == t->address ? r->digest : (uint8_t)luajit_trace_digest(r, t);
    uint64_t at = address - r->block_start;
    if (digest != LUAJIT_DIGEST_SAME || !r->block || at > r->block_size ||
        size > r->block_size - at)
        return NULL;
    return r->block + at;
}
/* The trace whose machine code `pc` is in. `hint`: a number to try first, 0: none. */
bool luajit_trace_find(struct luajit_reader *r, uint64_t g, uint64_t pc, uint32_t hint,
                       struct luajit_trace *ret);
/* The parent of a side trace; false: it is a root trace, or unknown. */
bool luajit_trace_parent(struct luajit_reader *r, const struct luajit_trace *t, uint16_t *parent,
                         uint16_t *exitno);
/* Is `pc` in an exit stub? Its exit number, and how much the stub has pushed there. */
bool luajit_exit_stub(struct luajit_reader *r, uint64_t g, uint64_t pc, uint32_t *exitno,
                      unsigned *pushes);

/* Where a jump out of the trace's code leads: an exit's stub (`exitno`; `side` 0), or the start of
 * another trace (`side`: its number; `exitno`: the exit it stands for, UINT32_MAX: none). false:
 * neither. */
bool luajit_trace_target(struct luajit_reader *r, uint64_t g, const struct luajit_trace *t,
                         uint64_t target, uint32_t *exitno, uint16_t *side);

/* The snapshot that covers an offset of the machine code; false: none can be told. `guess`: this
 * build does not say, the next guard's did. */
bool luajit_snapshot_at(struct luajit_reader *r, uint64_t g, const struct luajit_trace *t,
                        uint32_t offset, uint32_t *ret, bool *guess);

/* Where its code begins; false: this build does not say, or it is not recorded. */
bool luajit_snapshot_start(struct luajit_reader *r, const struct luajit_trace *t, uint32_t number,
                           uint32_t *ret);

/* The IR instructions that a snapshot covers: from `from` up to `to`. */
bool luajit_snapshot_refs(struct luajit_reader *r, const struct luajit_trace *t, uint32_t number,
                          uint32_t *from, uint32_t *to);
/* A snapshot's innermost frame, without what it takes to read all of them. */
struct luajit_point {
    uint64_t pc;    /* at its instruction */
    uint32_t depth; /* equal for frames that are equally far from the trace's start frame */
};
bool luajit_snapshot_point(struct luajit_reader *r, const struct luajit_trace *t, uint32_t number,
                           struct luajit_point *ret);
/* An IR instruction that leaves the trace when it does not hold. */
struct luajit_guard {
    uint16_t first, second; /* references of its operands */
    uint8_t opcode, type;   /* IRT_* of what it compares */
};
/* The first guard among the IR instructions from `from` up to `to`. false: there is none, or they
 * are not recorded; the opcode is then 0, a comparison. */
bool luajit_first_guard(struct luajit_reader *r, const struct luajit_trace *t, uint32_t from,
                        uint32_t to, struct luajit_guard *ret);
/* The value of an integer constant; false: it is no constant. */
bool luajit_integer_constant(struct luajit_reader *r, const struct luajit_trace *t, uint16_t ref,
                             int32_t *ret);

/* What a snapshot says: frames innermost first, down to the trace's start frame. */
enum { LUAJIT_INLINED_MAX = 128 };
struct luajit_inlined {
    struct {
        uint64_t func;      /* GCfunc; 0: no constant, to be found by pc */
        uint64_t pc;        /* next instruction; 0: not needed */
        uint32_t base_slot; /* of its base, from the start frame's */
    } frames[LUAJIT_INLINED_MAX];
    unsigned nr;
    uint64_t start_pc;   /* of the start frame */
    uint64_t start_func; /* which a tail call has put in its place; 0: as in the Lua stack */
    uint32_t depth;      /* slots from the start frame's base to the innermost's */
};
bool luajit_snapshot_frames(struct luajit_reader *r, const struct luajit_trace *t, uint32_t number,
                            struct luajit_inlined *ret);

/* The prototype with `pc` in its bytecode among the trace's constants; 0: none. */
uint64_t luajit_trace_proto_of(struct luajit_reader *r, const struct luajit_trace *t, uint64_t pc);

#endif
