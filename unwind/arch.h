/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the walk must know about the machine: x86-64, System V ABI and Linux. Registers have DWARF
 * numbers (unwind.h).
 */
#ifndef UNWIND_ARCH_H
#define UNWIND_ARCH_H

#include "unwind/unwind.h"

#define REG_BIT(r) (UINT32_C(1) << (r))

enum {
    ARCH_CALLEE_SAVED_NR = 6,
    ARCH_CALLEE_SAVED = 1 << DWARF_RBX | 1 << DWARF_RBP | 1 << DWARF_R12 | 1 << DWARF_R13 |
                        1 << DWARF_R14 | 1 << DWARF_R15,
    /* The registers that are known after a step out of an ordinary frame. */
    ARCH_SURVIVES = ARCH_CALLEE_SAVED | 1 << DWARF_RSP | 1 << DWARF_RIP,
    /* No thread's stack is larger than this. A read behind the recorded part of a stack, but at
     * most this far behind it, is assumed to be in the part that was not recorded. */
    ARCH_STACK_MAX = 1 << 30,
};

/* The callee-saved registers, in the order in which rules list them. */
static const uint8_t arch_callee_saved[ARCH_CALLEE_SAVED_NR] = {DWARF_RBX, DWARF_RBP, DWARF_R12,
                                                                DWARF_R13, DWARF_R14, DWARF_R15};

/* Returns the place of a callee-saved register in that order. */
static inline unsigned arch_saved_index(unsigned reg)
{
    return reg >= DWARF_R12 ? reg - DWARF_R12 + 2 : reg == DWARF_RBP;
}

/* The longest instruction sequence to check before a return address. */
enum { ARCH_CALL_MAX = 7 };

/* Returns whether the `size` bytes before a return address end in a call instruction. */
bool arch_is_call(const uint8_t *end, size_t size);
/* Returns whether they end in a call whose target is in the instruction. `to`: the target, if the
 * call returns to `return_address`. */
enum { ARCH_DIRECT_CALL = 5 }; /* size of this instruction */
bool arch_direct_call(const uint8_t *end, size_t size, uint64_t return_address, uint64_t *to);
/* Returns whether they end in a call through a register. `reg`: that register. */
bool arch_register_call(const uint8_t *end, size_t size, unsigned *reg);
/* Returns whether they end in a call through a register or memory. Code of files calls generated
 * code this way. */
bool arch_is_indirect_call(const uint8_t *end, size_t size);

/* Returns whether this code is the signal return trampoline: the system call rt_sigreturn (15). */
enum { ARCH_SIGRETURN_SIZE = 9 };
bool arch_is_sigreturn(const uint8_t code[ARCH_SIGRETURN_SIZE]);

/* Returns where the kernel saved a register, as an offset from the stack pointer in the trampoline:
 * the entry in uc_mcontext.gregs of struct ucontext (asm/sigcontext.h). -1: not saved. */
int arch_sigcontext_offset(unsigned reg);

/* Where the return address is, as a function's first or last instructions show it. For frames
 * without CFI whose pc is exact. */
enum arch_point {
    ARCH_POINT_BODY,   /* the instructions show nothing */
    ARCH_POINT_ENTRY,  /* nothing pushed yet, or everything popped: return address at [rsp] */
    ARCH_POINT_PUSHED, /* rbp was pushed, rsp not yet copied to rbp: return address at [rsp+8] */
    ARCH_POINT_PLT,    /* like PUSHED, but a PLT slot has pushed the relocation's number, not rbp */
};
/* `pc` points at the instruction. ARCH_POINT_BEFORE bytes before it and ARCH_POINT_AFTER bytes from
 * it on must be readable. */
enum { ARCH_POINT_BEFORE = 5, ARCH_POINT_AFTER = 6 };
enum arch_point arch_point(const uint8_t *pc);

/* How code in an epilogue leaves its frame: the effects of all instructions up to the return. */
struct arch_epilogue {
    uint32_t return_address;  /* bytes from the stack pointer up to the return address */
    int32_t popped[DWARF_NR]; /* bytes from the stack pointer up to a register's value; -1: the
                                 register does not change */
};
/* Read an epilogue in `size` bytes of code, beginning with the instruction that executes next. Only
 * instructions that move the stack pointer up are supported (add, pop, ret). Returns false if the
 * code is something else or only a return. */
enum { ARCH_EPILOGUE_MAX = 32 };
bool arch_epilogue(const uint8_t *code, size_t size, struct arch_epilogue *ret);

#endif
