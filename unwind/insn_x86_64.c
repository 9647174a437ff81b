/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/insn_x86_64.h"

#include <string.h>

enum {
    INSN_MAX = 15,
    REX = 0x40,
    REX_W = 8,
    REX_R = 4,
    REX_X = 2,
    REX_B = 1,
    MAP_0F = 1,
    MAP_0F38 = 2,
    MAP_0F3A = 3,
};

/* What follows an opcode:
 *   .  nothing        m  ModRM          b j  one byte      w  two bytes      J  four bytes
 *   z  four bytes, or two (prefix 66)   M Z  ModRM, then as b or z           x  no instruction here
 *   v  as z, or eight bytes (REX.W)     o  an address      e  three bytes
 *   f F  as M or Z for /0 and /1, else ModRM               r  ModRM whose r/m is always a register
 * The bytes of j and J are the distance of a jump. Prefixes are read before the opcode. */
static const char one_byte[256 + 1] = "mmmmbzxxmmmmbzxx" /* 00 */
                                      "mmmmbzxxmmmmbzxx"
                                      "mmmmbzxxmmmmbzxx"
                                      "mmmmbzxxmmmmbzxx"
                                      "xxxxxxxxxxxxxxxx" /* 40 */
                                      "................"
                                      "xxxmxxxxzZbM...."
                                      "jjjjjjjjjjjjjjjj"
                                      "MZxMmmmmmmmmmmmm" /* 80 */
                                      "..........x....."
                                      "oooo....bz......"
                                      "bbbbbbbbvvvvvvvv"
                                      "MMw.xxMZe.w..bx." /* c0 */
                                      "mmmmxxx.mmmmmmmm"
                                      "jjjjbbbbJJxj...."
                                      "x.xx..fF......mm";
static const char behind_0f[256 + 1] = "mmmmx.....x.xm.M" /* 00 */
                                       "mmmmmmmmmmmmmmmm"
                                       "rrrrxxxxmmmmmmmm"
                                       "......x.xxxxxxxx"
                                       "mmmmmmmmmmmmmmmm" /* 40 */
                                       "mmmmmmmmmmmmmmmm"
                                       "mmmmmmmmmmmmmmmm"
                                       "MMMMmmm.mmxxmmmm"
                                       "JJJJJJJJJJJJJJJJ" /* 80 */
                                       "mmmmmmmmmmmmmmmm"
                                       "...mMmmm...mMmmm"
                                       "mmmmmmmmmmMmmmmm"
                                       "mmMmMMMm........" /* c0 */
                                       "mmmmmmmmmmmmmmmm"
                                       "mmmmmmmmmmmmmmmm"
                                       "mmmmmmmmmmmmmmmm";

/* The instruction being read. */
struct reading {
    const uint8_t *code;
    size_t left, at; /* `left` is at most INSN_MAX */
    uint8_t rex, map, opcode, modrm;
    bool small, small_address; /* prefixes 66 and 67 */
    bool vector;               /* VEX or EVEX: the operands differ from those of the plain opcode */
    bool segment;              /* prefix 64 or 65 */
    bool has_modrm, rip_relative;
    uint8_t repeat;             /* prefix f2 or f3, or what VEX has in its place */
    uint8_t third;              /* VEX.vvvv */
    uint8_t base, index, scale; /* of ModRM's memory operand; INSN_NO_REGISTER: none */
    int32_t disp, value;
};

static bool next_byte(struct reading *r, uint8_t *ret)
{
    if (r->at >= r->left)
        return false;
    *ret = r->code[r->at++];
    return true;
}

/* Read a signed number of 1, 2 or 4 bytes. For other sizes its last four bytes are read. */
static bool next_number(struct reading *r, size_t size, int32_t *ret)
{
    uint32_t word = 0;
    if (r->left - r->at < size)
        return false;
    r->at += size;
    const uint8_t *end = r->code + r->at;
    memcpy(&word, end - (size < 4 ? size : 4), size < 4 ? size : 4);
    *ret = size == 1 ? (int8_t)word : size == 2 ? (int16_t)word : (int32_t)word;
    return true;
}

static bool is_prefix(uint8_t b)
{
    return b == 0x66 || b == 0x67 || b == 0xf0 || b == 0xf2 || b == 0xf3 || b == 0x2e ||
           b == 0x36 || b == 0x3e || b == 0x26 || b == 0x64 || b == 0x65;
}

/* Read VEX (c4, c5) or EVEX (62), which select the opcode map. */
static bool read_vector(struct reading *r, uint8_t first)
{
    uint8_t map = MAP_0F, next = 0, last;
    if ((first != 0xc5 && !next_byte(r, &map)) || !next_byte(r, &next) ||
        (first == 0x62 && !next_byte(r, &last)))
        return false;
    /* The bits of REX are there, inverted, and those of vvvv. */
    r->third = (~next >> 3) & 15;
    r->repeat = (next & 3) == 2 ? 0xf3 : (next & 3) == 3 ? 0xf2 : 0;
    r->rex = first == 0xc5 ? (~next >> 5) & REX_R : (~map >> 5) & (REX_R | REX_X | REX_B);
    r->map = first == 0x62 ? map & 7 : map & 31;
    r->vector = true;
    return r->map >= MAP_0F && r->map <= MAP_0F3A && next_byte(r, &r->opcode);
}

/* Read the prefixes and the byte behind them. */
static bool read_prefixes(struct reading *r, uint8_t *ret)
{
    while (next_byte(r, ret)) {
        bool is_rex = (*ret & 0xf0) == REX;
        if (!is_rex && !is_prefix(*ret))
            return true;
        r->rex = is_rex ? *ret : 0; /* REX counts only directly before the opcode */
        r->repeat = (*ret | 1) == 0xf3 ? *ret : r->repeat;
        r->small |= *ret == 0x66;
        r->small_address |= *ret == 0x67;
        r->segment |= *ret == 0x64 || *ret == 0x65;
    }
    return false;
}

static bool read_opcode(struct reading *r)
{
    uint8_t b;
    if (!read_prefixes(r, &b))
        return false;
    if (b == 0xc4 || b == 0xc5 || b == 0x62)
        return read_vector(r, b);
    if (b == 0x0f) {
        if (!next_byte(r, &b))
            return false;
        r->map = b == 0x38 ? MAP_0F38 : b == 0x3a ? MAP_0F3A : MAP_0F;
        if (r->map > MAP_0F && !next_byte(r, &b))
            return false;
    }
    r->opcode = b;
    return true;
}

static char operands_of(const struct reading *r)
{
    if (r->map == MAP_0F38)
        return 'm';
    if (r->map == MAP_0F3A)
        return 'M';
    char told = r->map ? behind_0f[r->opcode] : one_byte[r->opcode];
    if (r->vector)
        return told == 'J' ? 'x' : told == 'x' ? 'm' : told;
    return told;
}

static bool is_register(const struct reading *r)
{
    return r->modrm >> 6 == 3;
}

/* rm_register(): r/m as a register. other_register(): the other operand. */
static uint8_t rm_register(const struct reading *r)
{
    return (uint8_t)((r->modrm & 7) | (r->rex & REX_B ? 8 : 0));
}

static uint8_t other_register(const struct reading *r)
{
    return (uint8_t)((r->modrm >> 3 & 7) | (r->rex & REX_R ? 8 : 0));
}

static bool read_modrm(struct reading *r)
{
    if (!next_byte(r, &r->modrm))
        return false;
    r->has_modrm = true;
    if (is_register(r))
        return true;
    uint8_t mod = r->modrm >> 6, base = r->modrm & 7, sib;
    bool none = mod == 0 && base == 5; /* relative to rip */
    r->rip_relative = none;
    if (base == 4) {
        if (!next_byte(r, &sib))
            return false;
        base = sib & 7;
        none = mod == 0 && base == 5;
        uint8_t index = (uint8_t)((sib >> 3 & 7) | (r->rex & REX_X ? 8 : 0));
        r->index = index == 4 ? INSN_NO_REGISTER : index;
        r->scale = (uint8_t)(1 << (sib >> 6));
    }
    if (!none)
        r->base = (uint8_t)(base | (r->rex & REX_B ? 8 : 0));
    size_t size = none || mod == 2 ? 4 : mod;
    return !size || next_number(r, size, &r->disp);
}

static bool read_operands(struct reading *r)
{
    char told = operands_of(r);
    size_t z = r->small && !(r->rex & REX_W) ? 2 : 4;
    if (strchr("mMZfF", told) ? !read_modrm(r) : told == 'r' && !next_byte(r, &r->modrm))
        return false;
    bool tests = (told == 'f' || told == 'F') && (r->modrm >> 3 & 7) < 2;
    switch (told) {
    case '.':
    case 'm':
    case 'r':
        return true;
    case 'b':
    case 'j':
    case 'M':
        return next_number(r, 1, &r->value);
    case 'w':
        return next_number(r, 2, &r->value);
    case 'e':
        return next_number(r, 3, &r->value);
    case 'J':
        return next_number(r, 4, &r->value);
    case 'z':
    case 'Z':
        return next_number(r, z, &r->value);
    case 'v':
        return next_number(r, r->rex & REX_W ? 8 : z, &r->value);
    case 'o':
        return next_number(r, r->small_address ? 4 : 8, &r->value);
    case 'f':
        return !tests || next_number(r, 1, &r->value);
    case 'F':
        return !tests || next_number(r, z, &r->value);
    default:
        return false;
    }
}

/* ---- what an instruction does -------------------------------------------------------------- */

/* Decode an operation on 64-bit registers with its operands in ModRM. `to_rm`: r/m is the
 * destination. */
static enum insn_op with_modrm(const struct reading *r, enum insn_op op, bool to_rm,
                               struct insn *ret)
{
    bool wide = r->rex & REX_W;
    uint8_t rm = wide && is_register(r) ? rm_register(r) : INSN_NO_REGISTER;
    uint8_t other = wide ? other_register(r) : INSN_NO_REGISTER;
    ret->to = to_rm ? rm : other;
    ret->from = to_rm ? other : rm;
    if (!to_rm && !is_register(r) && r->index == INSN_NO_REGISTER) {
        ret->base = r->base;
        ret->value = r->disp;
    }
    return op;
}

/* The same with an immediate. For 80, 81 and 83 the register field selects the operation. */
static enum insn_op with_immediate(const struct reading *r, struct insn *ret)
{
    unsigned which = r->modrm >> 3 & 7;
    if (r->opcode == 0x80 || (which != 0 && which != 5))
        return INSN_OTHER;
    if (r->rex & REX_W && is_register(r))
        ret->to = rm_register(r);
    ret->immediate = true;
    ret->value = r->value;
    return which ? INSN_SUB : INSN_ADD;
}

static enum insn_op a_way(const struct reading *r, enum insn_op op, struct insn *ret)
{
    ret->immediate = true;
    ret->value = r->value;
    return op;
}

static enum insn_op by_modrm(const struct reading *r, struct insn *ret)
{
    unsigned which = r->modrm >> 3 & 7;
    switch (r->opcode) {
    case 0x80:
    case 0x81:
    case 0x83:
        return with_immediate(r, ret);
    case 0x8f:
        ret->to = is_register(r) ? rm_register(r) : INSN_NO_REGISTER;
        return INSN_POP;
    case 0xc7:
        if (which || !(r->rex & REX_W))
            return INSN_OTHER;
        ret->to = is_register(r) ? rm_register(r) : INSN_NO_REGISTER;
        return INSN_MOV;
    case 0xff:
        if (which == 6 && is_register(r))
            ret->from = rm_register(r);
        return which == 6 ? INSN_PUSH : which == 4 || which == 5 ? INSN_JMP : INSN_OTHER;
    default:
        return INSN_OTHER;
    }
}

static enum insn_op operation(const struct reading *r, struct insn *ret)
{
    uint8_t low = (uint8_t)((r->opcode & 7) | (r->rex & REX_B ? 8 : 0));
    switch (r->opcode) {
    case 0x01:
    case 0x03:
        return with_modrm(r, INSN_ADD, r->opcode == 0x01, ret);
    case 0x29:
    case 0x2b:
        return with_modrm(r, INSN_SUB, r->opcode == 0x29, ret);
    case 0x89:
    case 0x8b:
        return with_modrm(r, INSN_MOV, r->opcode == 0x89, ret);
    case 0x8d:
        return with_modrm(r, INSN_LEA, false, ret);
    case 0x50 ... 0x57:
        ret->from = low;
        return INSN_PUSH;
    case 0x58 ... 0x5f:
        ret->to = low;
        return INSN_POP;
    case 0x68:
    case 0x6a:
        return INSN_PUSH;
    case 0x70 ... 0x7f:
    case 0xe0 ... 0xe3:
        return a_way(r, INSN_JCC, ret);
    case 0x9c:
        return INSN_PUSHF;
    case 0x9d:
        return INSN_POPF;
    case 0xc2:
    case 0xc3:
    case 0xca:
    case 0xcb:
    case 0xcf:
        return INSN_RET;
    case 0xc9:
        return INSN_LEAVE;
    case 0xcc:
    case 0xf4:
        return INSN_TRAP;
    case 0xe9:
    case 0xeb:
        return a_way(r, INSN_JMP, ret);
    default:
        return by_modrm(r, ret);
    }
}

static enum insn_op operation_0f(const struct reading *r, struct insn *ret)
{
    switch (r->opcode) {
    case 0x0b:
    case 0xb9:
    case 0xff:
        return INSN_TRAP; /* ud2, ud1, ud0 */
    case 0x80 ... 0x8f:
        return a_way(r, INSN_JCC, ret);
    case 0xa0:
    case 0xa8:
        return INSN_PUSH;
    case 0xa1:
    case 0xa9:
        return INSN_POP;
    default:
        return INSN_OTHER;
    }
}

static bool read(const uint8_t *code, size_t left, struct reading *ret)
{
    *ret = (struct reading){.code = code,
                            .left = left < INSN_MAX ? left : INSN_MAX,
                            .base = INSN_NO_REGISTER,
                            .index = INSN_NO_REGISTER};
    if (!read_opcode(ret) || !read_operands(ret))
        return false;
    return ret->map || ret->opcode != 0x8f || !(ret->modrm >> 3 & 7); /* XOP: another format */
}

bool insn_parts(const uint8_t *code, size_t left, struct insn_parts *ret)
{
    struct reading r;
    if (!read(code, left, &r))
        return false;
    *ret = (struct insn_parts){.size = (uint8_t)r.at,
                               .map = r.map,
                               .opcode = r.opcode,
                               .rex = r.rex,
                               .repeat = r.repeat,
                               .wide = r.rex & REX_W,
                               .small = r.small,
                               .vector = r.vector,
                               .segment = r.segment,
                               .third = r.third,
                               .has_modrm = r.has_modrm,
                               .is_register = is_register(&r),
                               .rip_relative = r.rip_relative,
                               .reg = other_register(&r),
                               .rm = rm_register(&r),
                               .base = r.base,
                               .index = r.index,
                               .scale = r.scale,
                               .low = (uint8_t)((r.opcode & 7) | (r.rex & REX_B ? 8 : 0)),
                               .disp = r.disp,
                               .value = r.value};
    return true;
}

bool insn_decode(const uint8_t *code, size_t left, struct insn *ret)
{
    struct reading r;
    if (!read(code, left, &r))
        return false;
    *ret = (struct insn){.size = (uint8_t)r.at,
                         .to = INSN_NO_REGISTER,
                         .from = INSN_NO_REGISTER,
                         .base = INSN_NO_REGISTER};
    if (!r.vector && r.map <= MAP_0F)
        ret->op = r.map ? operation_0f(&r, ret) : operation(&r, ret);
    return true;
}
