/* SPDX-License-Identifier: GPL-2.0-only */
/* What x86-64 instructions write, and where control flow goes after them. Intel's manual, volume 2.
 */
#include "unwind/insn_x86_64.h"

/* Numbers of registers in instructions. */
enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R11 = 11 };

enum insn_way insn_way(const struct insn_parts *is)
{
    uint8_t op = is->opcode, which = is->reg & 7;
    if (is->vector || is->map > 1)
        return WAY_NEXT;
    if (is->map == 1)
        return (op & 0xf0) == 0x80                      ? WAY_BRANCH
               : op == 0x0b || op == 0xb9 || op == 0xff ? WAY_STOP
                                                        : WAY_NEXT;
    if ((op & 0xf0) == 0x70 || (op >= 0xe0 && op <= 0xe3))
        return WAY_BRANCH;
    if (op == 0xe9 || op == 0xeb)
        return WAY_JUMP;
    if (op == 0xe8 || (op == 0xff && (which == 2 || which == 3)))
        return WAY_CALL;
    if (op == 0xff && (which == 4 || which == 5))
        return WAY_JUMP_INDIRECT;
    return (op & 0xf6) == 0xc2 || op == 0xcf || op == 0xcc || op == 0xf4 ? WAY_STOP : WAY_NEXT;
}

bool insn_is_return(const struct insn_parts *is)
{
    return !is->vector && is->map == 0 && (is->opcode == 0xc3 || is->opcode == 0xc2);
}

/* ---- operands ------------------------------------------------------------------------------ */

/* Opcodes of the first map whose even numbers have operands of one byte. */
static bool has_byte_form(uint8_t op)
{
    return (op < 0x40 && (op & 7) < 6) || op == 0x80 || (op >= 0x84 && op <= 0x8b) || op == 0xa8 ||
           op == 0xa9 || op == 0xc0 || op == 0xc1 || op == 0xc6 || op == 0xc7 ||
           (op >= 0xd0 && op <= 0xd3) || op == 0xf6 || op == 0xf7 || op == 0xfe || op == 0xff;
}

unsigned insn_operand_size(const struct insn_parts *is)
{
    uint8_t op = is->opcode;
    if (is->map == 0 && has_byte_form(op) && !(op & 1))
        return 1;
    if (is->map == 0 && op == 0x63)
        return 4;
    if (is->map == 1 && (op == 0xb6 || op == 0xbe || (op & 0xf0) == 0x90))
        return 1;
    if (is->map == 1 && (op == 0xb7 || op == 0xbf))
        return 2;
    return is->wide ? 8 : is->small ? 2 : 4;
}

bool insn_writes_memory(const struct insn_parts *is)
{
    uint8_t op = is->opcode, which = is->reg & 7;
    if (!is->has_modrm || is->is_register || is->vector)
        return false;
    if (is->map == 1)
        return op == 0x11 || op == 0x29 || op == 0x7f || op == 0xd6 || op == 0x13 || op == 0x17 ||
               op == 0x7e || (op & 0xf0) == 0x90;
    if (is->map)
        return false;
    return (op < 0x38 && (op & 7) < 2) || op == 0x88 || op == 0x89 || op == 0xc6 || op == 0xc7 ||
           ((op == 0x80 || op == 0x81 || op == 0x83) && which != 7) || op == 0xc0 || op == 0xc1 ||
           (op >= 0xd0 && op <= 0xd3) || ((op == 0xfe || op == 0xff) && which < 2);
}

/* ---- written registers --------------------------------------------------------------------- */

static uint32_t bit(unsigned reg)
{
    return UINT32_C(1) << (reg & 15);
}

/* A register of one byte: 4 to 7 are ah to bh without a REX prefix. */
static uint32_t byte_bits(const struct insn_parts *is, unsigned reg)
{
    return !is->rex && reg >= 4 && reg < 8 ? bit(reg - 4) : bit(reg);
}

static uint32_t written_by_group(const struct insn_parts *is, uint32_t rm)
{
    unsigned which = is->reg & 7;
    switch (is->opcode) {
    case 0x80:
    case 0x81:
    case 0x83:
        return which == 7 ? 0 : rm;
    case 0xf6:
    case 0xf7:
        return which < 2 ? 0 : which < 4 ? rm : bit(RAX) | bit(RDX);
    default: /* fe, ff */
        return which < 2 ? rm : 0;
    }
}

static uint32_t written_by_string(uint8_t op)
{
    return bit(RCX) | bit(RSI) | bit(RDI) | (op >= 0xaa ? bit(RAX) : 0);
}

static uint32_t written_one_byte(const struct insn_parts *is)
{
    uint8_t op = is->opcode;
    bool byte = insn_operand_size(is) == 1;
    uint32_t rm = !is->is_register ? 0 : byte ? byte_bits(is, is->rm) : bit(is->rm);
    uint32_t reg = byte ? byte_bits(is, is->reg) : bit(is->reg);
    if (op < 0x40)
        return op >> 3 == 7 ? 0 : (op & 7) < 2 ? rm : (op & 7) < 4 ? reg : bit(RAX);
    switch (op) {
    case 0x58 ... 0x5f:
    case 0xb0 ... 0xbf:
        return op < 0xb8 && op >= 0xb0 ? byte_bits(is, is->low) : bit(is->low);
    case 0x63:
    case 0x69:
    case 0x6b:
    case 0x8a:
    case 0x8b:
    case 0x8d:
        return reg;
    case 0x88:
    case 0x89:
    case 0x8c:
    case 0x8f:
    case 0xc0:
    case 0xc1:
    case 0xc6:
    case 0xc7:
    case 0xd0 ... 0xd3:
        return rm;
    case 0x80 ... 0x83:
    case 0xf6:
    case 0xf7:
    case 0xfe:
    case 0xff:
        return written_by_group(is, rm);
    case 0x86:
    case 0x87:
        return rm | reg;
    case 0x90 ... 0x97:
        return is->low ? bit(RAX) | bit(is->low) : 0;
    case 0x98:
    case 0x9f: /* lahf */
    case 0xd7: /* xlat */
    case 0xe4:
    case 0xe5:
    case 0xec:
    case 0xed: /* in */
        return bit(RAX);
    case 0x99:
        return bit(RDX);
    case 0xa4 ... 0xa7:
    case 0xaa ... 0xaf:
        return written_by_string(op);
    case 0xc8: /* enter */
    case 0xc9: /* leave */
        return bit(RBP) | bit(RSP);
    case 0xdf: /* fnstsw ax */
        return is->is_register ? bit(RAX) : 0;
    case 0xe0 ... 0xe2: /* loop */
        return bit(RCX);
    default:
        return 0;
    }
}

static uint32_t written_behind_0f(const struct insn_parts *is)
{
    uint32_t rm = is->is_register ? bit(is->rm) : 0, reg = bit(is->reg);
    switch (is->opcode) {
    case 0x01: /* xgetbv, rdtscp and others, whose operands are rax, rcx and rdx */
        return is->is_register ? bit(RAX) | bit(RCX) | bit(RDX) | rm : 0;
    case 0x00:
        return rm;
    case 0x05: /* syscall */
        return bit(RAX) | bit(RCX) | bit(R11);
    case 0x31:
    case 0xa2:
        return bit(RAX) | bit(RCX) | bit(RDX) | bit(RBX);
    case 0x02:
    case 0x03:
    case 0x2c:
    case 0x2d:
    case 0x40 ... 0x4f:
    case 0x50:
    case 0xaf:
    case 0xb6 ... 0xb8:
    case 0xbc ... 0xbf:
    case 0xc5:
    case 0xd7:
        return reg;
    case 0x7e:
        return is->repeat == 0xf3 ? 0 : rm;
    case 0x1e: /* rdssp; else nothing */
    case 0x90 ... 0x9f:
    case 0xa4:
    case 0xa5:
    case 0xab ... 0xad:
    case 0xae: /* rdfsbase, rdgsbase */
    case 0xb3:
    case 0xbb:
        return rm;
    case 0xba:
        return (is->reg & 7) == 4 ? 0 : rm;
    case 0xb0:
    case 0xb1:
        return rm | bit(RAX);
    case 0xc0:
    case 0xc1:
        return rm | reg;
    case 0xc7:
        return rm | bit(RAX) | bit(RDX);
    case 0xc8 ... 0xcf:
        return bit(is->low);
    default:
        return 0;
    }
}

/* VEX and EVEX, map 1: the other operands are vectors and masks. */
static uint32_t written_by_vector(const struct insn_parts *is)
{
    switch (is->opcode) {
    case 0x2c:
    case 0x2d:
    case 0x50:
    case 0x78:
    case 0x79:
    case 0x93: /* kmov */
    case 0xc5:
    case 0xd7:
        return bit(is->reg);
    case 0x7e:
        return is->is_register && is->repeat != 0xf3 ? bit(is->rm) : 0;
    default:
        return 0;
    }
}

/* Map 0f 38: crc32, movbe, and BMI's, which name a third register. */
static uint32_t written_behind_38(const struct insn_parts *is)
{
    if (is->opcode < 0xf0)
        return 0;
    if (is->vector && is->opcode == 0xf3)
        return bit(is->third);
    return bit(is->reg) | (is->vector && is->opcode == 0xf6 ? bit(is->third) : 0);
}

static uint32_t written_behind_3a(const struct insn_parts *is)
{
    uint8_t op = is->opcode;
    if (op >= 0x14 && op <= 0x17)
        return is->is_register ? bit(is->rm) : 0;
    if (op == 0x61 || op == 0x63) /* pcmpestri, pcmpistri */
        return bit(RCX);
    return op == 0xf0 ? bit(is->reg) : 0;
}

uint32_t insn_written(const struct insn_parts *is)
{
    switch (is->map) {
    case 0:
        return is->vector ? 0 : written_one_byte(is);
    case 1:
        return is->vector ? written_by_vector(is) : written_behind_0f(is);
    case 2:
        return written_behind_38(is);
    default:
        return written_behind_3a(is);
    }
}
