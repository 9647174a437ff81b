/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Decodes x86-64 instructions as far as following a stack needs: the length of each, and the effect
 * of those that move the stack or frame pointer or jump. Every run follows a few thousand
 * instructions of code. A whole disassembler (the tests compare with one) executes 3,600
 * instructions for each of them, and takes 1.5 ms to load.
 *
 * Lengths: Intel's manual, volume 2, chapter 2 (format) and appendix A (opcode maps).
 */
#ifndef UNWIND_INSN_X86_64_H
#define UNWIND_INSN_X86_64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum insn_op {
    INSN_OTHER, /* affects neither the stack nor the control flow */
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
    INSN_TRAP, /* int3, ud2, hlt: control flow ends */
    INSN_JMP,
    INSN_JCC,
};

/* Registers, by their numbers in instructions. */
enum { INSN_RSP = 4, INSN_RBP = 5, INSN_NO_REGISTER = 0xff };

struct insn {
    enum insn_op op;
    uint8_t size; /* bytes */
    /* 64-bit operands that are registers; else INSN_NO_REGISTER. */
    uint8_t to, from;
    uint8_t base;   /* base of a memory source that has no index; else INSN_NO_REGISTER */
    bool immediate; /* ADD, SUB: `value` is the source. JMP, JCC: `value` is the distance to the
                       target */
    int32_t value;  /* immediate, displacement from base, or distance from the instruction's end
                       to the target */
};

/* Decode the instruction at `code`, where `left` bytes are available. Returns false if there is no
 * instruction or it is longer than `left`. */
bool insn_decode(const uint8_t *code, size_t left, struct insn *ret);

#endif
