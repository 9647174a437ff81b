/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What V8's code shows on AArch64: how it makes and takes down frames. A function's caller has put
 * the return address into the link register (x30). The frame is made by one or two stores of pairs
 * and one instruction that sets x29 (EnterFrame() and Prologue() of macro-assembler-arm64.cc):
 *
 *     stp x29, x30, [sp, #-16]!        stp x1, x27, [sp, #-32]!
 *     mov x29, sp                      stp x29, x30, [sp, #16]
 *                                      add x29, sp, #16
 *
 * and taken down by "mov sp, x29; ldp x29, x30, [sp], #16", or "ldp x29, x30, [x29]". Its code is
 * not signed (Node 18 to 26).
 */
#include "unwind/v8/machine.h"

#include "base/cursor.h"
#include "unwind/arch_aarch64.h"
#include "unwind/runtime.h"
#include "unwind/v8/builtin_internal.h"
#include "unwind/v8/object.h"

enum { RECORD = 16 }; /* bytes of a pair: what a frame begins with is x29 and x30 */

static uint32_t field(uint32_t insn, unsigned first, unsigned bits)
{
    return insn >> first & ((UINT32_C(1) << bits) - 1);
}

/* The same, with its sign. */
static int64_t signed_field(uint32_t insn, unsigned first, unsigned bits)
{
    return (int64_t)((uint64_t)field(insn, first, bits) << (64 - bits)) >> (64 - bits);
}

static const struct v8_state unknown = {0, V8_STATE_UNKNOWN, V8_RETURN_ON_STACK, false};

/* ---- instructions that move sp, x29 and x30 ---------------------------------------------------
 */

/* State after sp went down by `by` bytes. */
static struct v8_state moved(struct v8_state s, int64_t by)
{
    int64_t to = s.offset + by;
    if (s.kind == V8_STATE_FRAMED)
        return s;
    if (to < -64 || to > INT16_MAX)
        return unknown;
    s.offset = (int16_t)to;
    return s;
}

/* The pair was stored `at` bytes from the new sp. */
static struct v8_state after_store(struct v8_state s, uint32_t first, uint32_t second, int64_t at)
{
    if (s.kind != V8_STATE_SP || s.return_register != AARCH64_LR ||
        (first != AARCH64_LR && second != AARCH64_LR))
        return s;
    if (second != AARCH64_LR || s.offset - at != RECORD) /* it is not right below the CFA */
        return unknown;
    s.return_register = V8_RETURN_ON_STACK;
    if (first == AARCH64_FP)
        s.kind = V8_STATE_PUSHED;
    return s;
}

/* The pair was loaded from sp, which went up by `by` bytes then. */
static struct v8_state after_load(struct v8_state s, uint32_t first, uint32_t second, int64_t by)
{
    const bool whole = first == AARCH64_FP && second == AARCH64_LR;
    if (s.kind == V8_STATE_FRAMED && whole) /* sp was x29 */
        return (struct v8_state){(int16_t)(RECORD - by), V8_STATE_SP, AARCH64_LR, s.doubtful};
    if (s.kind == V8_STATE_FRAMED)
        return s;
    if (second == AARCH64_LR && s.return_register == V8_RETURN_ON_STACK && s.offset == RECORD &&
        (whole || s.kind == V8_STATE_SP)) {
        s.kind = V8_STATE_SP;
        s.return_register = AARCH64_LR;
    } else if (first == AARCH64_LR || second == AARCH64_LR || whole) {
        return unknown;
    }
    return moved(s, -by);
}

/* ldp and stp of x registers: the modes behind each other as they are encoded. */
static struct v8_state after_pair(uint32_t insn, struct v8_state s)
{
    enum { AFTER = 1, OFFSET, BEFORE };
    const uint32_t mode = field(insn, 23, 3), base = field(insn, 5, 5);
    const uint32_t first = field(insn, 0, 5), second = field(insn, 10, 5);
    const int64_t by = 8 * signed_field(insn, 15, 7);
    const bool loads = field(insn, 22, 1);
    if (loads && base == AARCH64_FP && first == AARCH64_FP && second == AARCH64_LR && by == 0)
        /* a tail call: how far up sp belongs shows later, and does not matter */
        return s.kind == V8_STATE_FRAMED ? (struct v8_state){0, V8_STATE_SP, AARCH64_LR, s.doubtful}
                                         : unknown;
    if (base != AARCH64_SP)
        return s;
    if (mode == BEFORE && !loads)
        return after_store(moved(s, -by), first, second, 0);
    if (mode == OFFSET && !loads)
        return after_store(s, first, second, by);
    if (mode == AFTER && loads)
        return after_load(s, first, second, by);
    return mode == OFFSET && loads && (first == AARCH64_LR || second == AARCH64_LR) ? unknown : s;
}

/* str and ldr of one register, of any size, that move sp. */
static bool moves_one(uint32_t insn, int64_t *by)
{
    *by = -signed_field(insn, 12, 9);
    return (insn & 0x3b200400) == 0x38000400 && field(insn, 5, 5) == AARCH64_SP;
}

/* The same of a pair of d or q registers. */
static bool moves_vectors(uint32_t insn, int64_t *by)
{
    const bool is_d = (insn & 0xfe000000) == 0x6c000000, is_q = (insn & 0xfe000000) == 0xac000000;
    *by = -(is_q ? 16 : 8) * signed_field(insn, 15, 7);
    return (is_d || is_q) && field(insn, 23, 1) && field(insn, 5, 5) == AARCH64_SP;
}

/* Is the frame, or the return address, found from sp? */
static bool is_by_sp(const struct v8_state *s)
{
    return s->kind == V8_STATE_PUSHED ||
           (s->kind == V8_STATE_SP && s->return_register == V8_RETURN_ON_STACK);
}

/* add and sub with an immediate. */
static struct v8_state after_arithmetic(uint32_t insn, struct v8_state s)
{
    const uint32_t to = field(insn, 0, 5), from = field(insn, 5, 5);
    const int64_t imm = (int64_t)field(insn, 10, 12) << (field(insn, 22, 1) ? 12 : 0);
    const bool subtracts = field(insn, 30, 1);
    if (to == AARCH64_SP && from == AARCH64_SP)
        return moved(s, subtracts ? imm : -imm);
    if (to == AARCH64_FP && from == AARCH64_SP && s.kind == V8_STATE_PUSHED && !subtracts &&
        imm == s.offset - RECORD)
        return (struct v8_state){0, V8_STATE_FRAMED, V8_RETURN_ON_STACK, s.doubtful};
    if (to == AARCH64_FP)
        return unknown;
    if (to == AARCH64_SP && is_by_sp(&s))
        return unknown; /* sp gets a value from elsewhere */
    return s;
}

static struct v8_state after(uint32_t insn, struct v8_state s)
{
    int64_t by;
    if ((insn & 0xfe000000) == 0xa8000000) /* pairs of x registers: 10 101 00m ... */
        return after_pair(insn, s);
    if ((insn & 0xbf800000) == 0x91000000)
        return after_arithmetic(insn, s);
    if (moves_vectors(insn, &by))
        return moved(s, by);
    if (moves_one(insn, &by))
        return field(insn, 0, 5) == AARCH64_LR && !(insn & 0x04000000) ? unknown : moved(s, by);
    if ((insn & 0xbfe0001f) == 0x8b20001f && is_by_sp(&s)) /* sp = ... + a register */
        return unknown;
    return s;
}

/* ---- ways ------------------------------------------------------------------------------------ */

/* Does a call follow, which overwrites x30? */
static bool is_call(uint32_t insn)
{
    return (insn & 0xfc000000) == 0x94000000 || (insn & 0xfffffc1f) == 0xd63f0000;
}

/* Get the distance of a direct jump. `goes_on`: the next instruction may come, too. */
static bool jumps(uint32_t insn, int64_t *by, bool *goes_on)
{
    *goes_on = true;
    if ((insn & 0xfc000000) == 0x14000000) { /* b */
        *goes_on = false;
        *by = 4 * signed_field(insn, 0, 26);
    } else if ((insn & 0xff000000) == 0x54000000 || (insn & 0x7e000000) == 0x34000000) {
        *by = 4 * signed_field(insn, 5, 19); /* b.cond, cbz, cbnz */
    } else if ((insn & 0x7e000000) == 0x36000000) {
        *by = 4 * signed_field(insn, 5, 14); /* tbz, tbnz */
    } else {
        return false;
    }
    return true;
}

/* br, ret, udf, brk. */
static bool ends(uint32_t insn)
{
    return (insn & 0xfffffc1f) == 0xd61f0000 || (insn & 0xfffffc1f) == 0xd65f0000 ||
           insn >> 16 == 0 || (insn & 0xffe0001f) == 0xd4200000;
}

static void follow(struct v8_follow *f, size_t at)
{
    struct v8_state s = f->states->at[at];
    int64_t by;
    bool goes_on;
    if (at % AARCH64_INSN || at + AARCH64_INSN > f->states->size)
        return;
    uint32_t insn = load_u32(f->code + at, false);
    if (ends(insn))
        return;
    if (jumps(insn, &by, &goes_on)) {
        v8_follow_reach(f, at + (uint64_t)by, s);
        if (goes_on)
            v8_follow_reach(f, at + AARCH64_INSN, s);
        return;
    }
    if (is_call(insn)) {
        if (s.kind != V8_STATE_FRAMED && s.return_register == AARCH64_LR)
            return; /* the return address is lost: nothing is known of what follows */
        v8_follow_reach(f, at + AARCH64_INSN, s);
        return;
    }
    v8_follow_reach(f, at + AARCH64_INSN, after(insn, s));
}

/* ---- other code ------------------------------------------------------------------------------ */

/* ldp x29, x30, [...]; mov sp, x29. */
static bool may_take_down(uint32_t insn)
{
    return (insn & 0xfe407c1f) == 0xa840781d || insn == 0x910003bf;
}

/* Does the instruction set x29 to a new frame: mov x29, sp; add x29, sp, #n? */
static bool sets_frame(uint32_t insn)
{
    return (insn & 0xffc003ff) == 0x910003fd;
}

static bool has_frame(const uint8_t *code, size_t size, size_t at, const uint8_t *before,
                      size_t nr_before)
{
    size_t begin = 0;
    if (at % AARCH64_INSN)
        return false;
    while (begin + AARCH64_INSN <= size && !sets_frame(load_u32(code + begin, false)))
        begin += AARCH64_INSN;
    begin += AARCH64_INSN;
    if (begin > size || at < begin)
        return false;
    size_t nr = at - begin < nr_before ? at - begin : nr_before;
    for (size_t i = nr / AARCH64_INSN; i; i--) {
        if (may_take_down(load_u32(before + nr_before - i * AARCH64_INSN, false)))
            return false;
    }
    return true;
}

/* EnterFrame() of a type: "mov x16 or x17, #marker" comes first. */
static int32_t made_type(const struct v8_layout *l, const uint8_t *code)
{
    const uint32_t insn = load_u32(code, false), second = load_u32(code + AARCH64_INSN, false);
    const uint32_t marker = field(insn, 5, 16);
    const bool moves = (insn & 0xffe0001e) == 0xd2800010;    /* movz x16 or x17 */
    const bool stores = (second & 0xffc003e0) == 0xa98003e0; /* stp ..., [sp, #-n]! */
    (void)l;
    return moves && stores && marker && !(marker & 1) && marker < 256 ? (int32_t)marker / 2 : -1;
}

/* Code of a regular expression begins with a jump to the place where it makes its frame: it stores
 * x19 to x28 by pairs, perhaps the frame's type, x29 and x30, and more; then x29 is set. At the end
 * it loads x29 and x30, then the others. (regexp-macro-assembler-arm64.cc) */
enum { MADE_MAX = 16, TAKEN_MAX = 8, LOAD_RECORD = 0xa8c17bfd /* ldp x29, x30, [sp], #16 */ };

/* Get how far a load or store of a pair at sp moves sp up. */
static bool moves_pair(uint32_t insn, int64_t *by)
{
    *by = 8 * signed_field(insn, 15, 7);
    return (insn & 0xfe0003e0) == 0xa80003e0 && field(insn, 23, 1); /* before or behind */
}

/* Get where the frame is made, and the bytes pushed there before the pc. `set`: behind the
 * instruction that sets x29. Returns false if the code is not of this kind. */
static bool regexp_entry(struct v8_reader *r, const struct v8_code *c, uint64_t pc, uint64_t *entry,
                         uint64_t *set, int64_t *pushed)
{
    uint32_t insn;
    int64_t by;
    bool goes_on;
    if (!v8_read(r, c->start, &insn, sizeof(insn)) || !jumps(insn, &by, &goes_on) || goes_on)
        return false;
    *entry = c->start + (uint64_t)by;
    *pushed = 0;
    for (uint64_t at = *entry; at - *entry < MADE_MAX * AARCH64_INSN; at += AARCH64_INSN) {
        if (at - c->start >= c->size || !v8_read(r, at, &insn, sizeof(insn)))
            return false;
        if (sets_frame(insn)) {
            *set = at + AARCH64_INSN;
            return true;
        }
        *pushed -= at < pc && moves_pair(insn, &by) ? by : 0;
    }
    return false;
}

/* Is the pc behind the load of x29 and x30, and before the return? Get the bytes popped since. */
static bool is_taken_down(struct v8_reader *r, uint64_t pc, int64_t *popped)
{
    uint32_t code[TAKEN_MAX];
    int64_t by;
    if (!v8_read(r, pc - sizeof(code), code, sizeof(code)))
        return false;
    *popped = 0;
    for (unsigned i = TAKEN_MAX; i-- > 0 && code[i] != 0xd65f03c0 /* ret */;) {
        if (code[i] == LOAD_RECORD)
            return true;
        *popped += moves_pair(code[i], &by) ? by : 0;
    }
    return false;
}

static bool begins_regexp(struct v8_reader *r, const struct v8_code *c, uint64_t pc,
                          int64_t *to_cfa)
{
    enum { SAVED = 10 * 8 };
    uint64_t entry, set;
    int64_t popped;
    if (!regexp_entry(r, c, pc, &entry, &set, to_cfa))
        return false;
    if (pc == c->start || pc - entry < set - entry)
        return true;
    if (!is_taken_down(r, pc, &popped))
        return false;
    *to_cfa = SAVED - popped;
    return true;
}

static bool stands_in_regexp(struct v8_reader *r, const struct v8_code *c, uint64_t pc)
{
    uint64_t entry, set;
    int64_t ignored;
    return regexp_entry(r, c, pc, &entry, &set, &ignored);
}

/* The value of x0 after adrp, add, ldr and movz, up to a return. */
static bool returned(const struct runtime_image *image, uint64_t address, bool load, uint64_t *ret)
{
    enum { MOST = 8, BTI_C = 0xd503245f };
    const uint8_t *code = image->bytes(image->context, address, MOST * (size_t)AARCH64_INSN);
    uint64_t value = 0;
    bool known = false;
    for (unsigned i = 0; code && i < MOST; i++) {
        const uint32_t insn = load_u32(code + i * AARCH64_INSN, false);
        const uint64_t pc = address + i * AARCH64_INSN;
        if (insn == 0xd65f03c0) { /* ret */
            *ret = value;
            return known;
        }
        if (insn == BTI_C)
            continue;
        if ((insn & 0x9f00001f) == 0x90000000) { /* adrp x0 */
            int64_t pages = signed_field(insn, 5, 19) * 4 + field(insn, 29, 2);
            value = (pc & ~UINT64_C(0xfff)) + ((uint64_t)pages << 12);
        } else if ((insn & 0xffc003ff) == 0x91000000) { /* add x0, x0, #n */
            value += field(insn, 10, 12);
        } else if ((insn & 0xffc003ff) == 0xf9400000) { /* ldr x0, [x0, #n] */
            value = image->word(image->context, value + 8 * field(insn, 10, 12));
        } else if (load && (insn & 0xffc003ff) == 0xb9400000) { /* ldr w0, [x0, #n] */
            const uint8_t *at = image->bytes(image->context, value + 4 * field(insn, 10, 12), 4);
            if (!at)
                return false;
            value = load_u32(at, false);
        } else if ((insn & 0x7fe0001f) == 0x52800000) { /* movz */
            value = (uint64_t)field(insn, 5, 16);
        } else if ((insn & 0x7fe0001f) == 0x72a00000) { /* movk, shifted by 16 */
            value |= (uint64_t)field(insn, 5, 16) << 16;
        } else {
            return false;
        }
        known = true;
    }
    return false;
}

/* Registers as register-arm64.h has them. The entry: JSEntry pushes d8 to d15, x19 to x28, x29 and
 * x30 in pairs, and sets x29 to the last one. */
const struct v8_machine v8_machine_aarch64 = {
    .arch = &arch_aarch64,
    .function = 1,
    .offset = 19,
    .array = 20,
    .instance = 7,
    .root = 26,
    .root_bias = 256,
    .return_register = AARCH64_LR,
    .frameless_offset = 0,
    .address_bits = 48,
    .entry = {.nr = 10,
              .cfa = 160,
              .saved = {{19, 16},
                        {20, 24},
                        {21, 32},
                        {22, 40},
                        {23, 48},
                        {24, 56},
                        {25, 64},
                        {26, 72},
                        {27, 80},
                        {28, 88}}},
    .regexp_cfa = 96,
    .stands_in_regexp = stands_in_regexp,
    .begins_regexp = begins_regexp,
    .follow = follow,
    .has_frame = has_frame,
    .made_type = made_type,
    .returned = returned,
};
