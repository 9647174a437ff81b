/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of LuaJIT's bytecode that names need: maps the three numberings to one, and tells which
 * slots an instruction writes. Numbers: lj_bc.h of 2.0.5, beta 3, March 2022, OpenResty January
 * 2023, August 2026.
 */
#ifndef UNWIND_LUAJIT_NAMES_BYTECODE_H
#define UNWIND_LUAJIT_NAMES_BYTECODE_H

#include "unwind/luajit/layout.h"

/* Opcodes in 2.1's numbering. Opcodes of 2026 that 2.1 lacks stand behind. */
enum bc_op {
    BC_ISLT = 0x00,
    BC_ISGT = 0x03,
    BC_ISEQV = 0x04,
    BC_ISNEV = 0x05,
    BC_ISNEP = 0x0b,
    BC_MOV = 0x12,
    BC_UNM = 0x14,
    BC_LEN = 0x15,
    BC_ADDVN = 0x16,
    BC_ADDVV = 0x20,
    BC_MODVV = 0x24,
    BC_POW = 0x25,
    BC_CAT = 0x26,
    BC_KSTR = 0x27,
    BC_KPRI = 0x2b,
    BC_KNIL = 0x2c,
    BC_UGET = 0x2d,
    BC_USETV = 0x2e,
    BC_UCLO = 0x32,
    BC_FNEW = 0x33,
    BC_TNEW = 0x34,
    BC_TDUP = 0x35,
    BC_GGET = 0x36,
    BC_GSET = 0x37,
    BC_TGETV = 0x38,
    BC_TGETS = 0x39,
    BC_TGETR = 0x3b,
    BC_TSETV = 0x3c,
    BC_TSETS = 0x3d,
    BC_TSETM = 0x3f,
    BC_TSETR = 0x40,
    BC_CALLM = 0x41,
    BC_CALLMT = 0x43,
    BC_CALLT = 0x44,
    BC_ITERC = 0x45,
    BC_ITERN = 0x46,
    BC_ISNEXT = 0x48,
    BC_RETM = 0x49,
    BC_RET1 = 0x4c,
    BC_FORI = 0x4d,
    BC_FORL = 0x4f,
    BC_IFORL = 0x50,
    BC_IITERL = 0x53,
    BC_LOOP = 0x55,
    BC_ILOOP = 0x56,
    BC_JLOOP = 0x57,
    BC_JMP = 0x58,
    BC_FUNCF = 0x59,
    BC_IFUNCF = 0x5a,
    BC_FUNCV = 0x5c,
    BC_IFUNCV = 0x5d,
    BC_JFUNCV = 0x5e,
    BC_FUNCCW = 0x60,
    BC_BNOT = 0x61, /* our number; LuaJIT's is 0x59 since July 2026 */
    BC_BSAR = 0x67,
    BC_NONE = 0xff,
};

/* One instruction: A is byte 1; D is the upper 16 bits, which are also C (byte 2) and B (byte
 * 3). */
struct bc {
    uint8_t op; /* enum bc_op */
    uint8_t a, b, c;
    uint16_t d;
};

struct bc bc_decode(uint32_t instruction, enum luajit_bytecode numbering);
/* Returns an opcode's name, such as "UCLO"; NULL: there is no such opcode. */
const char *bc_name(uint8_t op);
/* Does the instruction call a function that the program names, and that returns to the next
 * instruction? */
static inline bool bc_calls(uint8_t op)
{
    return op >= BC_CALLM && op < BC_CALLMT;
}

/* What an instruction does to slot A. */
enum bc_mode {
    BC_MODE_NONE,
    BC_MODE_DST,  /* writes slot A */
    BC_MODE_BASE, /* writes slot A and all slots above (KNIL: up to slot D) */
};
enum bc_mode bc_mode(uint8_t op);

/* Returns the name of the metamethod that the instruction may call ("__index"), "call" for an
 * instruction that calls a function, else NULL. */
const char *bc_metamethod(uint8_t op);

/* May control go elsewhere than to the next instruction? (The comparison of a conditional jump does
 * not jump itself: the JMP behind it does.) */
bool bc_is_flow(uint8_t op);

#endif
