/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the walk must know about the machine: x86-64, System V ABI and Linux. Register numbers
 * are DWARF's (unwind.h).
 */
#ifndef UNWIND_ARCH_H
#define UNWIND_ARCH_H

#include "unwind/unwind.h"

#define REG_BIT(r) (UINT32_C(1) << (r))

enum {
    ARCH_CALLEE_SAVED_NR = 6,
    ARCH_CALLEE_SAVED = 1 << DWARF_RBX | 1 << DWARF_RBP | 1 << DWARF_R12 | 1 << DWARF_R13 |
                        1 << DWARF_R14 | 1 << DWARF_R15,
    /* What is known after a step out of an ordinary frame. */
    ARCH_SURVIVES = ARCH_CALLEE_SAVED | 1 << DWARF_RSP | 1 << DWARF_RIP,
    /* A thread's stack is not larger than this: a read at most so far behind the recorded part of
     * a stack is taken to be in the part that was not recorded. */
    ARCH_STACK_MAX = 1 << 30,
};

/* The callee-saved registers, in the order in which rules list them. */
static const uint8_t arch_callee_saved[ARCH_CALLEE_SAVED_NR] = {DWARF_RBX, DWARF_RBP, DWARF_R12,
                                                                DWARF_R13, DWARF_R14, DWARF_R15};

/* A callee-saved register's place in that order. */
static inline unsigned arch_saved_index(unsigned reg)
{
    return reg >= DWARF_R12 ? reg - DWARF_R12 + 2 : reg == DWARF_RBP;
}

/* Longest instruction sequence looked at before a return address. */
enum { ARCH_CALL_MAX = 7 };

/* Do the `size` bytes before a return address end in a call instruction? */
bool arch_is_call(const uint8_t *end, size_t size);
/* In one whose target stands in it? `to`: that, as the call returns to `return_address`. */
enum { ARCH_DIRECT_CALL = 5 }; /* its size */
bool arch_direct_call(const uint8_t *end, size_t size, uint64_t return_address, uint64_t *to);
/* In one through a register? `reg`: which. */
bool arch_register_call(const uint8_t *end, size_t size, unsigned *reg);
/* In one through a register or memory, as generated code is called by code of files? */
bool arch_is_indirect_call(const uint8_t *end, size_t size);

/* Is this code the signal return trampoline: the system call rt_sigreturn (15)? `offset` tells
 * how far into it `pc` stands (0 or at its syscall instruction). */
enum { ARCH_SIGRETURN_SIZE = 9 };
bool arch_is_sigreturn(const uint8_t code[ARCH_SIGRETURN_SIZE]);

/* Where the kernel saved a register, from the stack pointer in the trampoline: the offset of
 * struct ucontext's uc_mcontext.gregs entry (asm/sigcontext.h), or -1. */
int arch_sigcontext_offset(unsigned reg);

/* What a function's first or last instructions say about where its return address is, for a
 * frame without CFI whose pc is exact. */
enum arch_point {
    ARCH_POINT_BODY,   /* nothing can be said */
    ARCH_POINT_ENTRY,  /* nothing pushed yet, or everything popped: return address at [rsp] */
    ARCH_POINT_PUSHED, /* rbp was pushed, rsp not yet copied to rbp: return address at [rsp+8] */
    ARCH_POINT_PLT,    /* a PLT slot that pushed the relocation's number: the same, but no rbp */
};
/* `pc`: its instruction, with ARCH_POINT_BEFORE readable bytes before and ARCH_POINT_AFTER from
 * there. */
enum { ARCH_POINT_BEFORE = 5, ARCH_POINT_AFTER = 6 };
enum arch_point arch_point(const uint8_t *pc);

/* How code that stands at an epilogue will leave its frame: what it does until it returns. */
struct arch_epilogue {
    uint32_t return_address;  /* where that is, in bytes above the stack pointer */
    int32_t popped[DWARF_NR]; /* where a register's value is, likewise; -1: it stays as it is */
};
/* Of `size` bytes of code, from the instruction that executes next on. Only what moves the stack
 * pointer up is understood (add, pop, ret). False: it is something else, or a mere return. */
enum { ARCH_EPILOGUE_MAX = 32 };
bool arch_epilogue(const uint8_t *code, size_t size, struct arch_epilogue *ret);

#endif
