/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the program must know about a machine: one row (struct arch) for each. Data where it is
 * data, functions where it is instructions; both are in the machine's own file (arch_x86_64.c). No
 * other file knows a register's number or an instruction's encoding, except the runtimes' readers
 * of machine code, which are for one machine and include its header (arch_x86_64.h).
 *
 * Registers have numbers of the program's own, below ARCH_REGISTERS_MAX: DWARF's, as far as it has
 * one for the register, and numbers behind them for others (AArch64's pc).
 *
 * The machine is never that of this program, but that of the data: a recording names it in its
 * header (arch_by_name), a file in its ELF header (arch_by_elf). Registers carry their machine
 * (struct registers), and a file's CFI has its own: a walk uses only CFI of its own machine.
 */
#ifndef UNWIND_ARCH_H
#define UNWIND_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REG_BIT(r) (UINT64_C(1) << (r))

enum {
    ARCH_REGISTERS_MAX = 33, /* AArch64: x0 to x30, sp, pc */
    ARCH_SAVED_MAX = 11,     /* AArch64: x19 to x29 */
    ARCH_NO_REGISTER = 0xff,
    ARCH_CALL_MAX = 7, /* bytes of the longest instruction sequence to check before a return
                          address */
    ARCH_SIGRETURN_MAX = 9,
    ARCH_POINT_MAX = 16,
    ARCH_IMPORT_SLOT_MAX = 20, /* bytes of a slot through which imported functions are called */
    /* No thread's stack is larger than this. A read behind the recorded part of a stack, but at
     * most this far behind it, is assumed to be in the part that was not recorded. */
    ARCH_STACK_MAX = 1 << 30,
    ARCH_PAGE_MIN = 4096, /* bytes of the smallest page; true of all machines that have a row */
};

/* The registers that the walk loop uses. The loop is compiled for a machine with these as
 * constants. */
struct arch_registers {
    uint8_t nr;      /* registers have the numbers below this */
    uint8_t columns; /* of these, DWARF has the numbers below this */
    uint8_t pc, sp, fp;
    uint8_t
        ra; /* CFI's column of the return address: pc, or the link register, which a call sets */
    uint8_t nr_saved;
    uint8_t saved[ARCH_SAVED_MAX]; /* the callee-saved registers, in the order in which rules list
                                      them; rising */
    uint64_t callee_saved;         /* the same as bits */
    uint64_t survives;             /* bits of the registers that are known after a step out of an
                                      ordinary frame */
    uint64_t address_mask;         /* bits of a return address that are its address. The others
                                      hold its signature (AArch64) */
};

/* Where the return address is, as a function's first or last instructions show it. For frames
 * without CFI whose pc is exact. */
enum arch_point {
    ARCH_POINT_BODY,   /* the instructions show nothing */
    ARCH_POINT_ENTRY,  /* no frame yet, or no frame any more: the return address is where the call
                          put it, at [sp] or in the link register */
    ARCH_POINT_PUSHED, /* fp was pushed, sp not yet copied to fp: return address at [sp+8] */
    ARCH_POINT_PLT,    /* like PUSHED, but a PLT slot has pushed the relocation's number, not fp */
};

/* One of perf's registers: a bit of sample_regs_user. */
struct arch_perf_register {
    const char *name; /* as perf script prints it */
    uint8_t reg;      /* ARCH_NO_REGISTER: an unwinder does not know it */
};

/* What an instruction was that `execute` did. */
enum effect {
    EFFECT_NEXT,
    EFFECT_BRANCH, /* `target` is another way to go on */
    EFFECT_JUMP,   /* to `target` */
    EFFECT_CALL,   /* of `target`; 0: it is not known */
    EFFECT_RETURN, /* registers are the caller's now, and so is the pc's */
    EFFECT_TABLE,  /* a jump to an address that the words of a table tell */
    EFFECT_JUMP_UNKNOWN,
    EFFECT_STOP, /* a trap, or bytes that are no instruction */
};

struct execution;
struct effect_of;
struct arch {
    struct arch_registers reg;
    const char *name;      /* as uname and a recording's header have it */
    const char *title;     /* as messages have it */
    uint16_t elf_machine;  /* e_machine; files are ELFCLASS64, little endian */
    uint16_t elf_relative; /* the relocation that adds the load address */
    int capstone_arch, capstone_mode;
    uint64_t unused_addresses; /* from here on for 2^40 bytes: no process has anything there */

    /* perf's registers, by their bit. */
    const struct arch_perf_register *perf;
    uint8_t nr_perf, perf_sp;
    bool perf_is_own; /* perf's bits are the registers' own numbers */
    /* The kernel's registers in core files and ptrace's NT_PRSTATUS, in their order, as words.
     * ARCH_NO_REGISTER: not one of ours. */
    const uint8_t *user_regs;
    uint8_t nr_user_regs;

    /* Sizes in bytes, for the functions below. */
    uint8_t call_min, call_max; /* sizes of call instructions */
    uint8_t nop_size;
    uint8_t nop[4];
    uint8_t sigreturn_size;
    uint8_t nr_sigreturn_into, sigreturn_into[3]; /* offsets of the trampoline's instructions */
    uint8_t point_before, point_after;
    uint8_t start_size; /* of the C library's _start, at most: from a program's entry on */

    /* Where the kernel saved each register, as an offset from the stack pointer in the trampoline
     * (asm/sigcontext.h). */
    uint16_t sigcontext[ARCH_REGISTERS_MAX];
    /* The word there that tells that user code was interrupted: these bits have this value. */
    uint16_t sigcontext_mode;
    uint32_t user_mode_mask, user_mode;

    /* Returns whether this code (sigreturn_size bytes) is the signal return trampoline. */
    bool (*is_sigreturn)(const uint8_t *code);
    /* Returns how many bytes the instruction at `code` has, of which `left` are known; 0: none is
     * there. NULL: that cannot be told. */
    unsigned (*insn_size)(const uint8_t *code, size_t left);
    /* Returns whether the `size` bytes before a return address end in a call instruction. */
    bool (*is_call)(const uint8_t *end, size_t size);
    /* Returns whether they end in a call whose target is in the instruction. `to`: the target, if
     * the call returns to `return_address`. */
    bool (*direct_call)(const uint8_t *end, size_t size, uint64_t return_address, uint64_t *to);
    /* Returns whether they end in a call through a register or memory. Code of files calls
     * generated code this way. */
    bool (*is_indirect_call)(const uint8_t *end, size_t size);
    /* `pc` points at the instruction. point_before bytes before it and point_after bytes from it on
     * must be readable. */
    enum arch_point (*point)(const uint8_t *pc);
    /* Returns whether `pc` is in a slot (of a PLT) through which imported functions are called:
     * `before` bytes before it and `after` bytes from it on are known, at most ARCH_IMPORT_SLOT_MAX
     * each. Such code changes no register that it may not, and does not return: the return address
     * is still in the link register. `pushed`: how many bytes it has pushed so far. NULL: files
     * have CFI for them. */
    bool (*in_import_slot)(const uint8_t *pc, size_t before, size_t after, unsigned *pushed);
    /* Do the instruction at x->pc, of whose code `left` bytes are at `code` (execution.h). NULL:
     * instructions are not followed. */
    enum effect (*execute)(struct execution *x, const uint8_t *code, size_t left,
                           struct effect_of *ret);
    /* Returns whether a function seems to begin at `pc`, or behind padding there. `left` bytes of
     * code are known. NULL: that cannot be told. */
    bool (*begins_function)(const uint8_t *code, size_t left, uint64_t pc);
    /* Returns whether the `size` bytes before a return address end in a call, or the bytes at `pc`
     * are a jump, through a word at a fixed address (`slot`): of a table of imported functions.
     * `call_by_slot` NULL: there is no such call. */
    bool (*call_by_slot)(const uint8_t *end, size_t size, uint64_t return_address, uint64_t *slot);
    bool (*jump_by_slot)(const uint8_t *code, size_t left, uint64_t pc, uint64_t *slot);
    /* Returns whether one of the instructions in `size` bytes of code sets the frame pointer to 0:
     * the bytes are looked through, as nobody knows where instructions begin. */
    bool (*clears_fp)(const uint8_t *code, size_t size);
    /* Returns whether a CFA's expression is the linker's for slots of a PLT: CFA = sp + 8, and 8
     * more if the pc's last four bits are at least *ret. NULL: the linker writes none. */
    bool (*is_plt_cfa)(const uint8_t *expression, size_t size, uint8_t *ret);
};

extern const struct arch arch_x86_64, arch_aarch64;
enum { ARCH_NR = 2 };                    /* rows */
#define ARCH_TITLES "x86-64 and AArch64" /* of all rows, for messages */

/* Returns the row of a machine that is called so; NULL: it has none. */
const struct arch *arch_by_name(const char *name);
/* Returns the row of the machine of an ELF file; NULL: it has none. */
const struct arch *arch_by_elf(uint16_t machine, bool is64);
/* Returns the row of the machine that this program runs on; NULL: it has none. */
const struct arch *arch_of_host(void);

/* Returns whether a call puts the return address into a register (reg.ra). */
static inline bool arch_has_link(const struct arch_registers *r)
{
    return r->ra != r->pc;
}

/* Returns the bits of all registers. */
static inline uint64_t arch_all_registers(const struct arch_registers *r)
{
    return REG_BIT(r->nr) - 1;
}

#endif
