/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * x86-64 instructions, as far as following a stack needs them: how long each is, and what those do
 * that move the stack or frame pointer, or go elsewhere. Code of a few thousand instructions is
 * followed in every run; a whole disassembler (the oracle in the tests) takes 3,600 instructions
 * for each, and 1.5 ms to load.
 *
 * Lengths: Intel's manual, volume 2, chapter 2 (format) and appendix A (opcode maps).
 */
#ifndef UNWIND_INSN_H
#define UNWIND_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum insn_op {
    INSN_OTHER, /* neither the stack nor the way */
    INSN_PUSH,
    INSN_POP,
    INSN_PUSHF,
    INSN_POPF,
    INSN_LEAVE,
    INSN_ADD,
    INSN_SUB,
    INSN_LEA,
    INSN_MOV,
    INSN_RET,
    INSN_TRAP, /* int3, ud2, hlt: nothing follows */
    INSN_JMP,
    INSN_JCC,
};

/* Registers by their numbers in instructions. */
enum { INSN_RSP = 4, INSN_RBP = 5, INSN_NO_REGISTER = 0xff };

struct insn {
    enum insn_op op;
    uint8_t size; /* bytes */
    /* Operands of 64 bits that are registers; else INSN_NO_REGISTER. */
    uint8_t to, from;
    uint8_t base;   /* of a source in memory without index; else INSN_NO_REGISTER */
    bool immediate; /* ADD, SUB: the source is `value`. JMP, JCC: the way is `value` */
    int32_t value;  /* immediate; displacement behind base; way from the instruction's end */
};

/* The instruction at `code`, of which `left` bytes are there. False: none, or more than are there.
 */
bool insn_decode(const uint8_t *code, size_t left, struct insn *ret);

#endif
