/* SPDX-License-Identifier: GPL-2.0-only */
/* Instructions of x86-64, done on values. What is not known of an instruction makes the registers
 * that it writes unknown. */
#include "unwind/arch_x86_64.h"
#include "unwind/execution.h"
#include "unwind/insn_x86_64.h"

enum { WORD = EXECUTION_WORD };

/* DWARF's numbers of registers, by their numbers in instructions. */
static const uint8_t dwarf[] = {DWARF_RAX, DWARF_RCX, DWARF_RDX, DWARF_RBX, DWARF_RSP, DWARF_RBP,
                                DWARF_RSI, DWARF_RDI, DWARF_R8,  DWARF_R9,  DWARF_R10, DWARF_R11,
                                DWARF_R12, DWARF_R13, DWARF_R14, DWARF_R15};

/* ---- operands ------------------------------------------------------------------------------- */

static struct held *reg_of(struct execution *x, unsigned reg)
{
    return &x->reg[dwarf[reg & 15]];
}

/* Returns the address in the memory operand. */
static struct held address_of(struct execution *x, const struct insn_parts *is)
{
    if (is->segment)
        return held_unknown;
    if (is->rip_relative)
        return held_number((int64_t)(x->pc + (uint64_t)(int64_t)is->disp));
    struct held v = is->base == INSN_NO_REGISTER ? held_number(0) : *reg_of(x, is->base);
    if (is->index != INSN_NO_REGISTER) {
        const struct held index = *reg_of(x, is->index);
        if (index.kind != HELD_NUMBER)
            return held_unknown;
        v = held_plus(v, (int64_t)((uint64_t)index.add * is->scale));
    }
    return held_plus(v, is->disp);
}

/* A word of a table of jump targets: `size` bytes at (known address + index x size). */
static struct held table_word(struct execution *x, const struct insn_parts *is, unsigned size)
{
    struct held base = is->base == INSN_NO_REGISTER ? held_number(0) : *reg_of(x, is->base);
    if (is->segment || is->index == INSN_NO_REGISTER || is->scale != size ||
        base.kind != HELD_NUMBER)
        return held_unknown;
    return (struct held){
        .kind = HELD_TABLE_WORD, .reg = (uint8_t)size, .add = held_sum(base.add, is->disp)};
}

static void push(struct execution *x, struct held v)
{
    struct held *sp = &x->reg[DWARF_RSP];
    *sp = held_plus(*sp, -WORD);
    execution_store(x, *sp, v, WORD);
}

static struct held pop(struct execution *x)
{
    struct held *sp = &x->reg[DWARF_RSP];
    struct held v = execution_load(x, *sp);
    *sp = held_plus(*sp, WORD);
    return v;
}

/* ---- instructions -------------------------------------------------------------------------- */

/* Returns the value that an operand r/m of eight bytes has. */
static struct held operand(struct execution *x, const struct insn_parts *is)
{
    return is->is_register ? *reg_of(x, is->rm) : execution_load(x, address_of(x, is));
}

/* Write to an operand r/m. */
static void write_operand(struct execution *x, const struct insn_parts *is, struct held v)
{
    if (is->is_register)
        *reg_of(x, is->rm) = v;
    else
        execution_store(x, address_of(x, is), v, insn_operand_size(is));
}

static void forget(struct execution *x, uint32_t registers)
{
    for (unsigned i = 0; i < 16; i++) {
        if (registers >> i & 1)
            *reg_of(x, i) = held_unknown;
    }
}

/* The operations on two operands of eight bytes that values can follow: add (0), sub (5), and with
 * itself xor (6). */
static struct held combine(unsigned operation, struct held a, struct held b)
{
    if (operation == 0)
        return held_add(a, b);
    return operation == 5 ? held_subtract(a, b) : held_unknown;
}

/* 00 to 3f: operations on r/m and a register. */
static void do_arithmetic(struct execution *x, const struct insn_parts *is)
{
    unsigned operation = is->opcode >> 3, form = is->opcode & 7;
    bool same = is->has_modrm && is->is_register && is->reg == is->rm && form != 0 && form != 2;
    if ((operation == 6 || operation == 5) && same && (is->wide || !is->small)) {
        *reg_of(x, is->rm) = held_number(0);
        return;
    }
    struct held v = held_unknown;
    if (is->wide && (form == 1 || form == 3)) {
        const struct held rm = operand(x, is), reg = *reg_of(x, is->reg);
        v = form == 1 ? combine(operation, rm, reg) : combine(operation, reg, rm);
    }
    if (operation == 7)
        return; /* cmp */
    forget(x, insn_written(is));
    if (form < 2)
        write_operand(x, is, v);
    else if (form == 3)
        *reg_of(x, is->reg) = v;
}

/* 80, 81, 83: operations on r/m and an immediate. */
static void do_immediate(struct execution *x, const struct insn_parts *is)
{
    unsigned operation = is->reg & 7;
    struct held v = held_unknown;
    if (operation == 7)
        return;
    if (is->wide && is->opcode != 0x80)
        v = combine(operation, operand(x, is), held_number(is->value));
    forget(x, insn_written(is));
    write_operand(x, is, v);
}

static void do_move(struct execution *x, const struct insn_parts *is)
{
    bool load_it = is->opcode == 0x8a || is->opcode == 0x8b;
    struct held v = held_unknown;
    if (load_it && is->wide && !is->is_register)
        v = table_word(x, is, WORD);
    if (is->wide && v.kind == HELD_UNKNOWN)
        v = load_it ? operand(x, is) : *reg_of(x, is->reg);
    forget(x, insn_written(is));
    if (load_it && is->opcode == 0x8b)
        *reg_of(x, is->reg) = v;
    else if (!load_it && (is->opcode == 0x89 || !is->is_register))
        write_operand(x, is, v);
}

/* c7 and b8 to bf: an immediate, which is extended with zeros (mov r32) or its sign. */
static void do_constant(struct execution *x, const struct insn_parts *is)
{
    struct held v = held_number(is->wide ? is->value : (int64_t)(uint32_t)is->value);
    if (is->opcode == 0xc7)
        write_operand(x, is, is->wide || (is->is_register && !is->small) ? v : held_unknown);
    else /* the decoder keeps four bytes of an immediate of eight */
        *reg_of(x, is->low) = is->wide || is->small ? held_unknown : v;
}

static void do_exchange(struct execution *x, const struct insn_parts *is)
{
    unsigned other = is->opcode == 0x87 ? is->reg : 0;
    bool whole = is->wide && (is->opcode != 0x87 || is->is_register);
    unsigned one = is->opcode == 0x87 ? is->rm : is->low;
    if (!whole) {
        forget(x, insn_written(is));
        if (is->opcode == 0x87 && !is->is_register)
            write_operand(x, is, held_unknown);
        return;
    }
    const struct held held = *reg_of(x, one);
    *reg_of(x, one) = *reg_of(x, other);
    *reg_of(x, other) = held;
}

/* ff: inc, dec, calls, jumps and push. */
static void do_group5(struct execution *x, const struct insn_parts *is)
{
    unsigned which = is->reg & 7;
    if (which == 6) {
        push(x, operand(x, is));
    } else if (which < 2) {
        struct held v = is->wide ? held_plus(operand(x, is), which ? -1 : 1) : held_unknown;
        forget(x, insn_written(is));
        write_operand(x, is, v);
    }
}

static void do_leave(struct execution *x)
{
    x->reg[DWARF_RSP] = x->reg[DWARF_RBP];
    x->reg[DWARF_RBP] = pop(x);
}

/* Returns false if it is another instruction. */
static bool do_push_or_pop(struct execution *x, const struct insn_parts *is)
{
    switch (is->opcode) {
    case 0x50 ... 0x57:
        push(x, *reg_of(x, is->low));
        break;
    case 0x58 ... 0x5f:
        *reg_of(x, is->low) = pop(x);
        break;
    case 0x68:
    case 0x6a:
        push(x, held_number(is->value));
        break;
    case 0x8f: {
        struct held v = pop(x);
        write_operand(x, is, v);
        break;
    }
    case 0x9c: /* pushf */
        push(x, held_unknown);
        break;
    case 0x9d: /* popf */
        (void)pop(x);
        break;
    case 0xc9:
        do_leave(x);
        break;
    default:
        return false;
    }
    return true;
}

static void do_other(struct execution *x, const struct insn_parts *is)
{
    struct held table = held_unknown;
    if (is->map == 0 && !is->vector && is->opcode == 0x63 && is->wide && !is->is_register)
        table = table_word(x, is, 4); /* movslq */
    forget(x, insn_written(is));
    if (insn_writes_memory(is))
        execution_store(x, address_of(x, is), held_unknown, 2 * WORD);
    if (table.kind == HELD_TABLE_WORD)
        *reg_of(x, is->reg) = table;
}

static void do_one_byte(struct execution *x, const struct insn_parts *is)
{
    uint8_t op = is->opcode;
    if (do_push_or_pop(x, is))
        return;
    if (op < 0x40 && (op & 7) < 4)
        do_arithmetic(x, is);
    else if (op == 0x80 || op == 0x81 || op == 0x83)
        do_immediate(x, is);
    else if (op >= 0x88 && op <= 0x8b)
        do_move(x, is);
    else if (op == 0x8d)
        *reg_of(x, is->reg) = is->wide ? address_of(x, is) : held_unknown;
    else if (op == 0xc7 || (op >= 0xb8 && op <= 0xbf))
        do_constant(x, is);
    else if (op == 0x87 || (op > 0x90 && op < 0x98))
        do_exchange(x, is);
    else if (op == 0xff)
        do_group5(x, is);
    else
        do_other(x, is);
}

static void do_instruction(struct execution *x, const struct insn_parts *is)
{
    if (is->map == 0 && !is->vector)
        do_one_byte(x, is);
    else if (is->map == 1 && !is->vector && (is->opcode == 0xa0 || is->opcode == 0xa8))
        push(x, held_unknown); /* fs, gs */
    else if (is->map == 1 && !is->vector && (is->opcode == 0xa1 || is->opcode == 0xa9))
        (void)pop(x);
    else
        do_other(x, is);
}

/* ---- control flow -------------------------------------------------------------------------- */

static enum effect do_call(struct execution *x, const struct insn_parts *is, uint64_t target,
                           struct effect_of *ret)
{
    bool direct = is->opcode == 0xe8;
    if (direct && target == x->pc) { /* only the pc is wanted */
        push(x, held_number((int64_t)x->pc));
        return EFFECT_NEXT;
    }
    struct held to = direct ? held_number((int64_t)target) : operand(x, is);
    ret->target = to.kind == HELD_NUMBER ? (uint64_t)to.add : 0;
    for (unsigned reg = 0; reg < DWARF_RIP; reg++) {
        if (!(X86_64_SURVIVES & REG_BIT(reg)))
            x->reg[reg] = held_unknown;
    }
    x->unsure = true;
    return EFFECT_CALL;
}

static enum effect do_indirect_jump(struct execution *x, const struct insn_parts *is,
                                    struct effect_of *ret)
{
    struct held to = is->is_register ? *reg_of(x, is->rm) : table_word(x, is, WORD);
    if (to.kind == HELD_NUMBER) {
        ret->target = (uint64_t)to.add;
        return EFFECT_JUMP;
    }
    bool table = to.kind == HELD_TABLE_TARGET || (to.kind == HELD_TABLE_WORD && to.reg == WORD);
    ret->table = to;
    x->unsure |= table;
    return table ? EFFECT_TABLE : EFFECT_JUMP_UNKNOWN;
}

enum effect execution_step_x86_64(struct execution *x, const uint8_t *code, size_t left,
                                  struct effect_of *ret)
{
    struct insn_parts is;
    if (!insn_parts(code, left, &is))
        return EFFECT_STOP;
    x->pc += is.size;
    uint64_t target = x->pc + (uint64_t)(int64_t)is.value;
    ret->target = target;
    switch (insn_way(&is)) {
    case WAY_NEXT:
        do_instruction(x, &is);
        return EFFECT_NEXT;
    case WAY_BRANCH:
        forget(x, insn_written(&is));
        return EFFECT_BRANCH;
    case WAY_JUMP:
        return EFFECT_JUMP;
    case WAY_JUMP_INDIRECT:
        return do_indirect_jump(x, &is, ret);
    case WAY_CALL:
        return do_call(x, &is, target, ret);
    default:
        break;
    }
    if (!insn_is_return(&is))
        return EFFECT_STOP;
    x->reg[DWARF_RIP] = pop(x);
    if (is.opcode == 0xc2)
        x->reg[DWARF_RSP] = held_plus(x->reg[DWARF_RSP], (uint16_t)is.value);
    return EFFECT_RETURN;
}
