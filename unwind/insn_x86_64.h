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

/* An instruction's parts as they are encoded, for readers that follow values through code.
 * Registers are numbers in instructions. */
struct insn_parts {
    uint8_t size;        /* bytes */
    uint8_t map, opcode; /* map: 0 one byte, 1 behind 0f, 2 behind 0f 38, 3 behind 0f 3a */
    uint8_t rex;         /* REX; 0: none */
    uint8_t repeat;      /* prefix f2 or f3; 0: none */
    bool wide, small;    /* REX.W; prefix 66 */
    bool vector;         /* VEX or EVEX: the operands differ from those of the plain opcode */
    bool has_modrm;
    bool is_register;    /* r/m is the register `rm`; false: memory */
    bool rip_relative;   /* the memory is at `disp` from the instruction's end */
    uint8_t reg, rm;     /* of ModRM. A group's operation is reg & 7 */
    uint8_t base, index; /* of the memory; INSN_NO_REGISTER: none */
    uint8_t scale;       /* of the index: 1, 2, 4, 8 */
    uint8_t low;         /* the register that the opcode itself names (push, pop, mov) */
    int32_t disp, value; /* displacement; immediate, or distance of a jump or call */
};

/* Get the parts of the instruction at `code`. Returns false as insn_decode(). */
bool insn_parts(const uint8_t *code, size_t left, struct insn_parts *ret);

#endif
