/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Instructions of AArch64, done on values. What is not known of an instruction makes the registers
 * that it writes unknown. Encodings: Arm Architecture Reference Manual for A-profile, C4.1 (the
 * groups) and C6.2 (the instructions).
 *
 * A signature in the upper bits of an address (pointer authentication) is no change of its value
 * here: whoever uses a return address takes only its address bits (arch_registers.address_mask).
 */
#include "base/cursor.h"
#include "unwind/arch_aarch64.h"
#include "unwind/execution.h"

enum {
    WORD = EXECUTION_WORD,
    INSN = AARCH64_INSN,
    ZERO = 31, /* a register's number: the zero register, or sp, as the instruction has it */
};

static bool is(uint32_t insn, uint32_t mask, uint32_t value)
{
    return (insn & mask) == value;
}

/* Returns `nr` bits from bit `low` on. */
static unsigned bits(uint32_t insn, unsigned low, unsigned nr)
{
    return insn >> low & ((1u << nr) - 1);
}

/* The same as a number with a sign. */
static int64_t signed_bits(uint32_t insn, unsigned low, unsigned nr)
{
    return (int32_t)(insn << (32 - low - nr)) >> (32 - nr);
}

static unsigned rd(uint32_t insn)
{
    return bits(insn, 0, 5);
}

static unsigned rn(uint32_t insn)
{
    return bits(insn, 5, 5);
}

static unsigned rm(uint32_t insn)
{
    return bits(insn, 16, 5);
}

/* ---- registers ------------------------------------------------------------------------------ */

static struct held get(const struct execution *x, unsigned reg)
{
    return reg == ZERO ? held_number(0) : x->reg[reg];
}

static void set(struct execution *x, unsigned reg, struct held v)
{
    if (reg != ZERO)
        x->reg[reg] = v;
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

static struct held combine(bool subtract, struct held a, struct held b)
{
    return subtract ? held_subtract(a, b) : held_add(a, b);
}

/* adr, adrp */
static void do_address(struct execution *x, uint32_t insn, uint64_t pc)
{
    enum { PAGE_BITS = 12 };
    uint64_t by = (uint64_t)signed_bits(insn, 5, 19) << 2 | bits(insn, 29, 2);
    bool page = insn >> 31;
    uint64_t base = page ? pc >> PAGE_BITS << PAGE_BITS : pc;
    set(x, rd(insn), held_number((int64_t)(base + (page ? by << PAGE_BITS : by))));
}

/* add, sub with an immediate. Both registers may be sp, but adds and subs have no sp to write. */
static void do_add_immediate(struct execution *x, uint32_t insn)
{
    unsigned shift = bits(insn, 22, 1) * 12;
    const struct held by = held_number((int64_t)bits(insn, 10, 12) << shift);
    bool wide = insn >> 31, flags = bits(insn, 29, 1);
    struct held v = wide ? combine(bits(insn, 30, 1), x->reg[rn(insn)], by) : held_unknown;
    if (flags)
        set(x, rd(insn), v);
    else
        x->reg[rd(insn)] = v;
}

/* movn, movz, movk */
static void do_move_wide(struct execution *x, uint32_t insn)
{
    unsigned shift = bits(insn, 21, 2) * 16, operation = bits(insn, 29, 2);
    bool wide = insn >> 31;
    const struct held old = get(x, rd(insn));
    uint64_t part = (uint64_t)bits(insn, 5, 16) << shift, v = part;
    if (operation == 0)
        v = ~part;
    else if (operation == 3)
        v = ((uint64_t)old.add & ~(UINT64_C(0xffff) << shift)) | part;
    if (operation == 3 && old.kind != HELD_NUMBER)
        set(x, rd(insn), held_unknown);
    else
        set(x, rd(insn), held_number((int64_t)(wide ? v : (uint32_t)v)));
}

static void do_immediate(struct execution *x, uint32_t insn, uint64_t pc)
{
    if (is(insn, 0x1f000000, 0x10000000))
        do_address(x, insn, pc);
    else if (is(insn, 0x1f800000, 0x11000000))
        do_add_immediate(x, insn);
    else if (is(insn, 0x1f800000, 0x12800000))
        do_move_wide(x, insn);
    else if (is(insn, 0x1f800000, 0x11800000) || /* addg, subg */
             (is(insn, 0x1f800000, 0x12000000) && bits(insn, 29, 2) != 3))
        x->reg[rd(insn)] = held_unknown; /* and, orr, eor, too, may write sp */
    else
        set(x, rd(insn), held_unknown);
}

/* add, sub of registers that are not shifted: with an extension (of 64 bits: none) sp is meant. */
static void do_add_registers(struct execution *x, uint32_t insn)
{
    bool extended = bits(insn, 21, 1), flags = bits(insn, 29, 1);
    bool whole = extended ? bits(insn, 10, 6) == 3 << 3 /* uxtx */ : bits(insn, 10, 6) == 0;
    const struct held a = extended ? x->reg[rn(insn)] : get(x, rn(insn));
    struct held v = held_unknown;
    if (insn >> 31 && whole && (extended || !bits(insn, 22, 2)))
        v = combine(bits(insn, 30, 1), a, get(x, rm(insn)));
    if (extended && !flags)
        x->reg[rd(insn)] = v;
    else
        set(x, rd(insn), v);
}

static void do_registers(struct execution *x, uint32_t insn)
{
    if (is(insn, 0x1f000000, 0x0b000000))
        do_add_registers(x, insn);
    else if (is(insn, 0xffe0ffe0, 0xaa0003e0)) /* mov: orr with the zero register */
        set(x, rd(insn), get(x, rm(insn)));
    else if (is(insn, 0xffff8000, 0xdac10000)) /* pac, aut, xpac */
        return;
    else if (!is(insn, 0x3fe00410, 0x3a400000)) /* not ccmp, ccmn */
        set(x, rd(insn), held_unknown);
}

/* Vector and floating point instructions: some write general registers. */
static void do_vector(struct execution *x, uint32_t insn)
{
    enum { FROM_SIGNED = 2, FROM_UNSIGNED = 3, FROM_GENERAL = 7 };
    unsigned opcode = bits(insn, 16, 3);
    bool convert = is(insn, 0x5f20fc00, 0x1e200000) || is(insn, 0x5f200000, 0x1e000000);
    convert &= opcode != FROM_SIGNED && opcode != FROM_UNSIGNED && opcode != FROM_GENERAL;
    bool move = is(insn, 0xbfe0fc00, 0x0e003c00) || is(insn, 0xbfe0fc00, 0x0e002c00);
    if (convert || move)
        set(x, rd(insn), held_unknown);
}

/* ---- loads and stores ------------------------------------------------------------------------ */

/* One access: `nr` registers of `size` bytes each, from `address` on. */
struct access {
    bool load, vector;
    unsigned nr, size;
    unsigned reg[2];
    struct held address;
};

static void do_access(struct execution *x, const struct access *a)
{
    for (unsigned i = 0; i < a->nr; i++) {
        const struct held at = held_plus(a->address, (int64_t)i * a->size);
        bool word = !a->vector && a->size == WORD;
        if (!a->load)
            execution_store(x, at, word ? get(x, a->reg[i]) : held_unknown, a->size);
        else if (!a->vector)
            set(x, a->reg[i], word ? execution_load(x, at) : held_unknown);
    }
}

/* How the base register takes part: with the immediate, which is added before or after. */
enum indexing { INDEX_OFFSET, INDEX_POST, INDEX_PRE };
/* By the two bits that say so. (The third of pairs has a hint; that of single registers checks
 * access.) */
static const enum indexing indexings[] = {INDEX_OFFSET, INDEX_POST, INDEX_OFFSET, INDEX_PRE};

/* Do an access at (the base register + `by`), and write the base register if it is indexed. */
static void do_indexed(struct execution *x, struct access *a, unsigned base, int64_t by,
                       enum indexing indexing)
{
    const struct held before = x->reg[base], after = held_plus(before, by);
    a->address = indexing == INDEX_POST ? before : after;
    do_access(x, a);
    if (indexing != INDEX_OFFSET)
        x->reg[base] = after;
}

/* ldp, stp, and the same with a hint */
static void do_pair(struct execution *x, uint32_t insn)
{
    unsigned opc = bits(insn, 30, 2);
    bool vector = bits(insn, 26, 1);
    unsigned shift = vector ? 2 + opc : 2 + (opc >> 1);
    struct access a = {.load = bits(insn, 22, 1),
                       .vector = vector,
                       .nr = 2,
                       .size = 1u << shift,
                       .reg = {rd(insn), bits(insn, 10, 5)}};
    do_indexed(x, &a, rn(insn), signed_bits(insn, 15, 7) * (1 << shift),
               indexings[bits(insn, 23, 2)]);
}

/* Get the access of an instruction that loads or stores one register. Returns false if it does
 * neither (prfm). */
static bool one_register(uint32_t insn, struct access *ret)
{
    unsigned size = bits(insn, 30, 2), opc = bits(insn, 22, 2);
    bool vector = bits(insn, 26, 1);
    *ret = (struct access){.load = vector ? opc & 1 : opc != 0,
                           .vector = vector,
                           .nr = 1,
                           .size = vector && opc >= 2 ? 16 : 1u << size,
                           .reg = {rd(insn)}};
    return vector || size != 3 || opc < 2;
}

/* ldr, str at a base register and an immediate: unscaled or indexed */
static void do_immediate_offset(struct execution *x, uint32_t insn)
{
    struct access a;
    if (one_register(insn, &a))
        do_indexed(x, &a, rn(insn), signed_bits(insn, 12, 9), indexings[bits(insn, 10, 2)]);
}

/* ldr, str at a base register and a register */
static void do_register_offset(struct execution *x, uint32_t insn)
{
    struct access a;
    bool whole = bits(insn, 13, 3) == 3; /* 64 bits of the register */
    const struct held by = get(x, rm(insn));
    if (!one_register(insn, &a))
        return;
    a.address = held_unknown;
    if (whole && by.kind == HELD_NUMBER)
        a.address = held_plus(x->reg[rn(insn)],
                              (int64_t)((uint64_t)by.add * (bits(insn, 12, 1) ? a.size : 1)));
    do_access(x, &a);
}

/* ldr, str at a base register and a multiple of the size */
static void do_scaled_offset(struct execution *x, uint32_t insn)
{
    struct access a;
    if (one_register(insn, &a))
        do_indexed(x, &a, rn(insn), (int64_t)bits(insn, 10, 12) * a.size, INDEX_OFFSET);
}

/* Returns how many bytes a structure of whole vectors has; 0: it is of single elements. */
static unsigned structure_size(uint32_t insn)
{
    /* vectors, by the opcode */
    static const uint8_t vectors[16] = {
        [0] = 4, [2] = 4, [4] = 3, [6] = 3, [7] = 1, [8] = 2, [10] = 2};
    unsigned size = bits(insn, 30, 1) ? 16 : 8;
    return bits(insn, 24, 1) ? 0 : vectors[bits(insn, 12, 4)] * size;
}

/* Structures of vectors: the base register may be moved by their size, or by a register. */
static void do_structure(struct execution *x, uint32_t insn)
{
    enum { LARGEST = 64 };
    struct held *base = &x->reg[rn(insn)];
    unsigned size = structure_size(insn);
    bool moved = bits(insn, 23, 1), by_size = rm(insn) == ZERO && size;
    if (!bits(insn, 22, 1))
        execution_store(x, *base, held_unknown, size ? size : LARGEST);
    if (moved)
        *base = by_size ? held_plus(*base, size) : held_unknown;
}

/* Exclusive and atomic accesses, and those that have an order: all registers in them may be
 * written. */
static void do_exclusive(struct execution *x, uint32_t insn)
{
    execution_store(x, x->reg[rn(insn)], held_unknown, 2 * WORD);
    set(x, rd(insn), held_unknown);
    set(x, bits(insn, 10, 5), held_unknown);
    set(x, rm(insn), held_unknown);
}

/* ldadd, swp and others write the register that they load; ldraa also its base register. */
static void do_atomic(struct execution *x, uint32_t insn)
{
    bool authenticated = bits(insn, 10, 1);
    execution_store(x, x->reg[rn(insn)], held_unknown, WORD);
    set(x, rd(insn), held_unknown);
    if (authenticated && bits(insn, 11, 1))
        x->reg[rn(insn)] = held_unknown;
}

static void do_memory(struct execution *x, uint32_t insn)
{
    bool vector = bits(insn, 26, 1);
    if (is(insn, 0x3a000000, 0x28000000))
        do_pair(x, insn);
    else if (is(insn, 0x3b000000, 0x39000000))
        do_scaled_offset(x, insn);
    else if (is(insn, 0x3b200000, 0x38000000))
        do_immediate_offset(x, insn);
    else if (is(insn, 0x3b200c00, 0x38200800))
        do_register_offset(x, insn);
    else if (is(insn, 0x3b200000, 0x38200000))
        do_atomic(x, insn);
    else if (is(insn, 0x3b000000, 0x18000000)) { /* ldr of a word near the code */
        if (!vector)
            set(x, rd(insn), held_unknown);
    } else if (is(insn, 0x3f000000, 0x08000000))
        do_exclusive(x, insn);
    else if (is(insn, 0xbe000000, 0x0c000000))
        do_structure(x, insn);
    else { /* copies of memory, tags, ...: what they write is not looked at */
        do_exclusive(x, insn);
        x->reg[rn(insn)] = held_unknown;
    }
}

/* ---- control flow --------------------------------------------------------------------------- */

static uint64_t relative(uint64_t pc, int64_t words)
{
    return pc + (uint64_t)(words * INSN);
}

static enum effect do_call(struct execution *x, uint64_t target, struct effect_of *ret)
{
    const struct arch_registers *r = &arch_aarch64.reg;
    ret->target = target;
    for (unsigned reg = 0; reg < r->pc; reg++) {
        if (!(r->survives & REG_BIT(reg)))
            x->reg[reg] = held_unknown;
    }
    x->unsure = true;
    return EFFECT_CALL;
}

/* b, bl and the branches on a condition */
static enum effect do_branch(struct execution *x, uint32_t insn, uint64_t pc, struct effect_of *ret)
{
    enum { ALWAYS = 14 };
    if (is(insn, 0x7c000000, 0x14000000)) {
        uint64_t target = relative(pc, signed_bits(insn, 0, 26));
        ret->target = target;
        return insn >> 31 ? do_call(x, target, ret) : EFFECT_JUMP;
    }
    if (is(insn, 0x7e000000, 0x36000000)) { /* tbz, tbnz */
        ret->target = relative(pc, signed_bits(insn, 5, 14));
        return EFFECT_BRANCH;
    }
    ret->target = relative(pc, signed_bits(insn, 5, 19));
    bool by_flags = is(insn, 0xff000000, 0x54000000);
    if (!by_flags && !is(insn, 0x7e000000, 0x34000000)) /* cbz, cbnz */
        return EFFECT_STOP;
    return by_flags && bits(insn, 0, 4) >= ALWAYS ? EFFECT_JUMP : EFFECT_BRANCH;
}

/* br, blr, ret, with and without authentication */
static enum effect do_branch_register(struct execution *x, uint32_t insn, struct effect_of *ret)
{
    enum { BR, BLR, RET };
    unsigned operation = bits(insn, 21, 2);
    bool authenticated = bits(insn, 11, 1);
    if (operation > RET)
        return EFFECT_STOP;
    const struct held to =
        operation == RET && authenticated ? x->reg[AARCH64_LR] : get(x, rn(insn));
    if (operation == RET) {
        x->reg[AARCH64_PC] = to;
        return EFFECT_RETURN;
    }
    ret->target = to.kind == HELD_NUMBER ? (uint64_t)to.add : 0;
    if (operation == BLR)
        return do_call(x, ret->target, ret);
    return to.kind == HELD_NUMBER ? EFFECT_JUMP : EFFECT_JUMP_UNKNOWN;
}

static enum effect do_system(struct execution *x, uint32_t insn, struct effect_of *ret)
{
    if (is(insn, 0xff9f0000, 0xd61f0000) || is(insn, 0xff9f0000, 0xd71f0000))
        return do_branch_register(x, insn, ret);
    if (is(insn, 0xffe0001f, 0xd4000001)) { /* svc: Linux returns a value in x0 */
        x->reg[0] = held_unknown;
        return EFFECT_NEXT;
    }
    if (!is(insn, 0xffc00000, 0xd5000000))
        return EFFECT_STOP; /* brk, hlt, eret, ... */
    if (bits(insn, 21, 1))  /* mrs, sysl; hints have a register field of 31 */
        set(x, rd(insn), held_unknown);
    return EFFECT_NEXT;
}

enum effect execution_step_aarch64(struct execution *x, const uint8_t *code, size_t left,
                                   struct effect_of *ret)
{
    if (left < INSN)
        return EFFECT_STOP;
    const uint32_t insn = load_u32(code, false);
    const uint64_t pc = x->pc;
    x->pc += INSN;
    *ret = (struct effect_of){0};
    switch (bits(insn, 25, 4)) {
    case 0x8:
    case 0x9:
        do_immediate(x, insn, pc);
        return EFFECT_NEXT;
    case 0xa:
    case 0xb:
        return is(insn, 0xfe000000, 0xd6000000) || is(insn, 0xfe000000, 0xd4000000)
                   ? do_system(x, insn, ret)
                   : do_branch(x, insn, pc, ret);
    case 0x5:
    case 0xd:
        do_registers(x, insn);
        return EFFECT_NEXT;
    case 0x7:
    case 0xf:
        do_vector(x, insn);
        return EFFECT_NEXT;
    case 0x4:
    case 0x6:
    case 0xc:
    case 0xe:
        do_memory(x, insn);
        return EFFECT_NEXT;
    case 0x2: /* SVE: some write general registers */
        set(x, rd(insn), held_unknown);
        return EFFECT_NEXT;
    default: /* udf, and what is not allocated */
        return EFFECT_STOP;
    }
}
