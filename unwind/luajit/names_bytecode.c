/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/luajit/names_bytecode.h"

/* 2.0 lacks four opcodes of 2.1, so the numbers of the following opcodes are lower. */
static uint8_t from_20(uint8_t op)
{
    enum { ISTYPE = 0x10, NR_MISSING = 4 };
    if (op >= ISTYPE)
        op += 2; /* ISTYPE and ISNUM */
    if (op >= BC_TGETR)
        op++;
    if (op >= BC_TSETR)
        op++;
    return op;
}

/* July 2026 put the bit operators behind JMP. */
static uint8_t from_2607(uint8_t op)
{
    enum { FIRST = 0x59, NR = BC_BSAR - BC_BNOT + 1 };
    if (op < FIRST)
        return op;
    return op < FIRST + NR ? op - FIRST + BC_BNOT : op - NR;
}

struct bc bc_decode(uint32_t instruction, enum luajit_bytecode numbering)
{
    uint8_t op = (uint8_t)instruction;
    bool bit_operator = false;
    if (numbering == LUAJIT_BC_20 && op <= 0x5c) {
        op = from_20(op);
    } else if (numbering == LUAJIT_BC_2607) {
        bit_operator = op >= 0x59 && op <= 0x5f;
        op = from_2607(op);
    }
    if (op > BC_FUNCCW && !bit_operator)
        op = BC_NONE; /* assembler fast functions: never in a prototype */
    return (struct bc){.op = op,
                       .a = (uint8_t)(instruction >> 8),
                       .c = (uint8_t)(instruction >> 16),
                       .b = (uint8_t)(instruction >> 24),
                       .d = (uint16_t)(instruction >> 16)};
}

/* In the order of enum bc_op. */
static const char *const names[] = {
    "ISLT",   "ISGE",   "ISLE",   "ISGT",   "ISEQV",  "ISNEV", "ISEQS",  "ISNES",  "ISEQN", "ISNEN",
    "ISEQP",  "ISNEP",  "ISTC",   "ISFC",   "IST",    "ISF",   "ISTYPE", "ISNUM",  "MOV",   "NOT",
    "UNM",    "LEN",    "ADDVN",  "SUBVN",  "MULVN",  "DIVVN", "MODVN",  "ADDNV",  "SUBNV", "MULNV",
    "DIVNV",  "MODNV",  "ADDVV",  "SUBVV",  "MULVV",  "DIVVV", "MODVV",  "POW",    "CAT",   "KSTR",
    "KCDATA", "KSHORT", "KNUM",   "KPRI",   "KNIL",   "UGET",  "USETV",  "USETS",  "USETN", "USETP",
    "UCLO",   "FNEW",   "TNEW",   "TDUP",   "GGET",   "GSET",  "TGETV",  "TGETS",  "TGETB", "TGETR",
    "TSETV",  "TSETS",  "TSETB",  "TSETM",  "TSETR",  "CALLM", "CALL",   "CALLMT", "CALLT", "ITERC",
    "ITERN",  "VARG",   "ISNEXT", "RETM",   "RET",    "RET0",  "RET1",   "FORI",   "JFORI", "FORL",
    "IFORL",  "JFORL",  "ITERL",  "IITERL", "JITERL", "LOOP",  "ILOOP",  "JLOOP",  "JMP",   "FUNCF",
    "IFUNCF", "JFUNCF", "FUNCV",  "IFUNCV", "JFUNCV", "FUNCC", "FUNCCW", "BNOT",   "BAND",  "BOR",
    "BXOR",   "BSHL",   "BSHR",   "BSAR",
};
_Static_assert(sizeof(names) / sizeof(*names) == BC_BSAR + 1, "a name for each opcode");

const char *bc_name(uint8_t op)
{
    return op <= BC_BSAR ? names[op] : NULL;
}

static bool in(uint8_t op, uint8_t first, uint8_t last)
{
    return op >= first && op <= last;
}

enum bc_mode bc_mode(uint8_t op)
{
    enum { ISTC = 0x0c, ISFC = 0x0d, VARG = 0x47, JITERL = 0x54 };
    if (op == ISTC || op == ISFC || in(op, BC_MOV, BC_KPRI) || op == BC_UGET ||
        in(op, BC_FNEW, BC_GGET) || in(op, BC_TGETV, BC_TGETR) || in(op, BC_BNOT, BC_BSAR))
        return BC_MODE_DST;
    if (op == BC_KNIL || op == BC_TSETM || in(op, BC_CALLM, VARG) || op == BC_ISNEXT ||
        op == BC_RETM || in(op, BC_FORI, JITERL))
        return BC_MODE_BASE;
    return BC_MODE_NONE;
}

static const char *arithmetic(uint8_t op)
{
    static const char *const methods[] = {"__add", "__sub", "__mul", "__div", "__mod"};
    return methods[(op - BC_ADDVN) % 5];
}

const char *bc_metamethod(uint8_t op)
{
    if (in(op, BC_ADDVN, BC_MODVV))
        return arithmetic(op);
    if (in(op, BC_ISLT, BC_ISGT))
        return op < BC_ISLT + 2 ? "__lt" : "__le";
    if (in(op, BC_ISEQV, BC_ISNEP))
        return "__eq";
    if (in(op, BC_FNEW, BC_TDUP))
        return "__gc"; /* they allocate memory, which may run finalizers */
    if (op == BC_GGET || in(op, BC_TGETV, BC_TGETR))
        return "__index";
    if (op == BC_GSET || in(op, BC_TSETV, BC_TSETR))
        return "__newindex";
    if (in(op, BC_CALLM, BC_ITERN))
        return "call";
    switch (op) {
    case BC_UNM:
        return "__unm";
    case BC_LEN:
        return "__len";
    case BC_POW:
        return "__pow";
    case BC_CAT:
        return "__concat";
    default:
        return NULL;
    }
}

bool bc_is_flow(uint8_t op)
{
    return op == BC_UCLO || in(op, BC_CALLMT, BC_CALLT) || in(op, BC_RETM, BC_JMP) ||
           op == BC_ITERN || op == BC_ISNEXT;
}
