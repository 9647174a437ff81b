/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Traces: to which trace an address belongs, which snapshot covers the address, and which inlined
 * Lua frames the snapshot has. Private to unwind/luajit.
 *
 * GCtrace's fields from snap to nextside stand where the layout says in every version. But nsnap
 * and nsnapmap have moved, and SnapShot has had three forms. Each object tells its form: snapmap
 * stands right behind the nsnap snapshots.
 */
#ifndef UNWIND_LUAJIT_TRACE_H
#define UNWIND_LUAJIT_TRACE_H

#include "unwind/luajit/stack.h"

/* The IR: references below the bias are constants. The types are the same in every version
 * (lj_ir.h). */
enum { LUAJIT_REF_BIAS = 0x8000 };
enum { IRT_STR = 4, IRT_PROTO = 7, IRT_FUNC = 8, IRT_NUM = 14, IRT_INT = 19, IRT_MASK = 0x1f };

struct luajit_trace {
    uint64_t address; /* GCtrace; 0: none */
    uint64_t mcode, ir, snap, snapmap, startpt, startpc;
    uint32_t szmcode, mcloop, nsnap, nsnapmap, nins, nk; /* mcloop: offset of the loop in the code;
                                                            0: no loop */
    uint16_t number, root, spadjust;
    uint16_t snap_size; /* 8 or 12 bytes */
    bool has_mcofs;     /* snapshots hold the offset where their code begins */
    bool runs; /* the trace was alive at the sample: a return address of the sample is behind a call
                  in its code */
};

enum { LUAJIT_TRACES_MAX = 1 << 16 };

/* Read trace `number` of the VM at g; false: there is none, or the object is not consistent. */
bool luajit_trace_read(struct luajit_reader *r, uint64_t g, uint32_t number,
                       struct luajit_trace *ret);
/* luajit_trace_digest() tells if the trace's parts are those of the sample, according to the digest
 * that came with the sample. luajit_trace_bytes() returns bytes of the instructions, snapshots and
 * map in place, valid until the walk ends, if they are known to be the sample's; NULL: the caller
 * must read them. */
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
/* Find the trace whose machine code holds `pc`. `hint`: a number to try first, 0: none. */
bool luajit_trace_find(struct luajit_reader *r, uint64_t g, uint64_t pc, uint32_t hint,
                       struct luajit_trace *ret);
/* The parent of a side trace, and its exit; false: a root trace, or unknown. */
bool luajit_trace_parent(struct luajit_reader *r, const struct luajit_trace *t, uint16_t *parent,
                         uint16_t *exitno);
/* Is `pc` in an exit stub? Returns its exit number, and how many words the stub has pushed at
 * `pc`. */
bool luajit_exit_stub(struct luajit_reader *r, uint64_t g, uint64_t pc, uint32_t *exitno,
                      unsigned *pushes);

/* Where a jump out of the trace's code leads: to an exit's stub (`exitno`; `side` 0), or to the
 * start of another trace (`side`: its number; `exitno`: the exit that it replaces, UINT32_MAX:
 * none). false: neither. */
bool luajit_trace_target(struct luajit_reader *r, uint64_t g, const struct luajit_trace *t,
                         uint64_t target, uint32_t *exitno, uint16_t *side);

/* Find the snapshot that covers an offset of the machine code; false: cannot be found. `guess`:
 * this build does not store the offsets, so the result is the snapshot of the next guard. */
bool luajit_snapshot_at(struct luajit_reader *r, uint64_t g, const struct luajit_trace *t,
                        uint32_t offset, uint32_t *ret, bool *guess);

/* Offset where the snapshot's code begins; false: this build does not store it, or it is not
 * recorded. */
bool luajit_snapshot_start(struct luajit_reader *r, const struct luajit_trace *t, uint32_t number,
                           uint32_t *ret);

/* The IR instructions that a snapshot covers: [from, to). */
bool luajit_snapshot_refs(struct luajit_reader *r, const struct luajit_trace *t, uint32_t number,
                          uint32_t *from, uint32_t *to);
/* A snapshot's innermost frame. Cheaper than reading all frames. */
struct luajit_point {
    uint64_t pc;    /* address of its instruction */
    uint32_t depth; /* equal for frames at the same distance from the trace's start frame */
};
bool luajit_snapshot_point(struct luajit_reader *r, const struct luajit_trace *t, uint32_t number,
                           struct luajit_point *ret);
/* An IR instruction that leaves the trace when its condition does not hold. */
struct luajit_guard {
    uint16_t first, second; /* references of the operands */
    uint8_t opcode, type;   /* type: IRT_* of the compared values */
};
/* Find the first guard among the IR instructions [from, to). false: there is none, or the
 * instructions are not recorded; the opcode is then 0, a comparison. */
bool luajit_first_guard(struct luajit_reader *r, const struct luajit_trace *t, uint32_t from,
                        uint32_t to, struct luajit_guard *ret);
/* The value of an integer constant; false: `ref` is no constant. */
bool luajit_integer_constant(struct luajit_reader *r, const struct luajit_trace *t, uint16_t ref,
                             int32_t *ret);

/* The frames of a snapshot, innermost first, down to the trace's start frame. */
enum { LUAJIT_INLINED_MAX = 128 };
struct luajit_inlined {
    struct {
        uint64_t func;      /* GCfunc; 0: no constant, the caller must find it by pc */
        uint64_t pc;        /* next instruction; 0: not needed */
        uint32_t base_slot; /* slot of its base, counted from the start frame's base */
    } frames[LUAJIT_INLINED_MAX];
    unsigned nr;
    uint64_t start_pc;   /* pc of the start frame */
    uint64_t start_func; /* function that a tail call has put in the start frame's place; 0: as in
                            the Lua stack */
    uint32_t depth;      /* slots from the start frame's base to the innermost frame's */
};
bool luajit_snapshot_frames(struct luajit_reader *r, const struct luajit_trace *t, uint32_t number,
                            struct luajit_inlined *ret);

/* Where the value of a slot is at a snapshot. */
enum luajit_slot_place {
    LUAJIT_SLOT_UNTOLD,   /* the snapshot has no entry for it, or cannot be read */
    LUAJIT_SLOT_ON_STACK, /* on the Lua stack: the trace has not changed it */
    LUAJIT_SLOT_CONSTANT, /* it is a constant */
    LUAJIT_SLOT_IN_CODE,  /* in a register, or in the trace's C frame */
};
/* Find a slot's value. `slot` is counted from the header of the trace's start frame. `value`: of a
 * constant, as the Lua stack would hold it. */
enum luajit_slot_place luajit_snapshot_slot(struct luajit_reader *r, const struct luajit_trace *t,
                                            uint32_t number, uint32_t slot, uint64_t *value);

/* The prototype whose bytecode holds `pc`, among the trace's constants; 0: none. */
uint64_t luajit_trace_proto_of(struct luajit_reader *r, const struct luajit_trace *t, uint64_t pc);
/* The same, then among the constants of the traces of the VM at g that it is a side of: there the
 * call was specialized. */
uint64_t luajit_traces_proto_of(struct luajit_reader *r, uint64_t g, const struct luajit_trace *t,
                                uint64_t pc);

#endif
