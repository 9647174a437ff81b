/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * x86-64, System V ABI: the names of registers and the tests of instructions, for arch_x86_64.c and
 * for the runtimes' readers of x86-64 machine code.
 */
#ifndef UNWIND_ARCH_X86_64_H
#define UNWIND_ARCH_X86_64_H

#include "unwind/arch.h"

/* Registers in the DWARF numbering of x86-64: 0 rax, 1 rdx, 2 rcx, 3 rbx, 4 rsi, 5 rdi, 6 rbp,
 * 7 rsp, 8-15 r8-r15, 16 the return address column = rip. (Names such as REG_RBX belong to
 * <signal.h>.) */
enum {
    DWARF_RAX,
    DWARF_RDX,
    DWARF_RCX,
    DWARF_RBX,
    DWARF_RSI,
    DWARF_RDI,
    DWARF_RBP,
    DWARF_RSP,
    DWARF_R8,
    DWARF_R9,
    DWARF_R10,
    DWARF_R11,
    DWARF_R12,
    DWARF_R13,
    DWARF_R14,
    DWARF_R15,
    DWARF_RIP,
    DWARF_NR
};

#define X86_64_CALLEE_SAVED                                                              \
    (REG_BIT(DWARF_RBX) | REG_BIT(DWARF_RBP) | REG_BIT(DWARF_R12) | REG_BIT(DWARF_R13) | \
     REG_BIT(DWARF_R14) | REG_BIT(DWARF_R15))
#define X86_64_SURVIVES (X86_64_CALLEE_SAVED | REG_BIT(DWARF_RSP) | REG_BIT(DWARF_RIP))

/* An initializer, for the row and for the walk loop. */
#define X86_64_REGISTERS                                                                        \
    {                                                                                           \
        .nr = DWARF_NR, .columns = DWARF_NR, .pc = DWARF_RIP, .sp = DWARF_RSP, .fp = DWARF_RBP, \
        .ra = DWARF_RIP, .nr_saved = X86_64_SAVED_NR,                                           \
        .saved = {DWARF_RBX, DWARF_RBP, DWARF_R12, DWARF_R13, DWARF_R14, DWARF_R15},            \
        .callee_saved = X86_64_CALLEE_SAVED, .survives = X86_64_SURVIVES,                       \
        .address_mask = UINT64_MAX                                                              \
    }

enum {
    X86_64_SAVED_NR = 6,    /* callee-saved registers */
    X86_64_CALL_MAX = 7,    /* bytes of the longest call instruction */
    X86_64_DIRECT_CALL = 5, /* bytes of a call whose target is in the instruction */
};

/* See struct arch. */
bool x86_64_is_call(const uint8_t *end, size_t size);
bool x86_64_direct_call(const uint8_t *end, size_t size, uint64_t return_address, uint64_t *to);
/* Returns whether the bytes end in a call through a register. `reg`: that register. */
bool x86_64_register_call(const uint8_t *end, size_t size, unsigned *reg);

#endif
