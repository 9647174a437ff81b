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
    uint8_t repeat;      /* prefix f2 or f3, or what VEX has in its place; 0: none */
    bool wide, small;    /* REX.W; prefix 66 */
    bool vector;         /* VEX or EVEX: the operands differ from those of the plain opcode */
    bool segment;        /* prefix 64 or 65: the memory is relative to fs or gs */
    bool has_modrm;
    bool is_register;    /* r/m is the register `rm`; false: memory */
    bool rip_relative;   /* the memory is at `disp` from the instruction's end */
    uint8_t reg, rm;     /* of ModRM. A group's operation is reg & 7 */
    uint8_t base, index; /* of the memory; INSN_NO_REGISTER: none */
    uint8_t scale;       /* of the index: 1, 2, 4, 8 */
    uint8_t low;         /* the register that the opcode itself names (push, pop, mov) */
    uint8_t third;       /* the register that VEX or EVEX itself names (vvvv) */
    int32_t disp, value; /* displacement; immediate, or distance of a jump or call */
};

/* Get the parts of the instruction at `code`. Returns false as insn_decode(). */
bool insn_parts(const uint8_t *code, size_t left, struct insn_parts *ret);

/* ---- insn_effects_x86_64.c: what an instruction does ---------------------------------------- */

/* Where control flow goes. Of a direct branch, jump or call `value` is the distance from the
 * instruction's end to the target. */
enum insn_way {
    WAY_NEXT,
    WAY_BRANCH, /* to the target or to the next instruction */
    WAY_JUMP,
    WAY_JUMP_INDIRECT,
    WAY_CALL, /* direct (e8) or indirect */
    WAY_STOP, /* return, trap */
};
enum insn_way insn_way(const struct insn_parts *is);

/* Returns whether it returns to its caller (ret, with or without an immediate). */
bool insn_is_return(const struct insn_parts *is);
/* Returns the bits of the general registers (numbers in instructions) that an instruction may
 * write. The stack pointer of push, pop, call and return is not told, nor what a called function
 * writes. */
uint32_t insn_written(const struct insn_parts *is);
/* Returns how many bytes the operand in memory has, or the operands are. Not for vectors. */
unsigned insn_operand_size(const struct insn_parts *is);
/* Returns whether it writes to the memory that ModRM names. */
bool insn_writes_memory(const struct insn_parts *is);

#endif
