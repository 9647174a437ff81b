/* SPDX-License-Identifier: GPL-2.0-only */
/* The row of x86-64: its registers as perf, the kernel and DWARF have them, and its instructions.
 */
#include "unwind/arch_x86_64.h"

#include "base/cursor.h"
#include "unwind/execution.h"
#include "unwind/insn_x86_64.h"

#include <capstone/capstone.h>
#include <elf.h>
#include <string.h>

/* ---- calls --------------------------------------------------------------------------------- */

/* Returns the length of an indirect call (ff /2) with this ModRM byte and no prefix; 0: not a
 * call. */
static size_t indirect_call_size(const uint8_t *at, size_t left)
{
    if (left < 2 || at[0] != 0xff || (at[1] & 0x38) != 0x10)
        return 0;
    unsigned mod = at[1] >> 6, rm = at[1] & 7;
    if (mod == 3)
        return 2;
    size_t size = 2 + (rm == 4); /* a SIB byte follows */
    if (mod == 1)
        return size + 1;
    if (mod == 2 || rm == 5)
        return size + 4;
    if (rm == 4 && left > 2 && (at[2] & 7) == 5)
        return size + 4;
    return size;
}

static bool is_indirect_call(const uint8_t *end, size_t size)
{
    for (size_t n = 2; n <= X86_64_CALL_MAX && n <= size; n++) {
        if (indirect_call_size(end - n, n) == n)
            return true;
    }
    return false;
}

bool x86_64_is_call(const uint8_t *end, size_t size)
{
    uint64_t ignored;
    return x86_64_direct_call(end, size, 0, &ignored) || is_indirect_call(end, size);
}

bool x86_64_direct_call(const uint8_t *end, size_t size, uint64_t return_address, uint64_t *to)
{
    if (size < X86_64_DIRECT_CALL || end[-X86_64_DIRECT_CALL] != 0xe8)
        return false;
    *to = return_address + (uint64_t)(int64_t)(int32_t)load_u32(end - 4, false);
    return true;
}

/* Returns the DWARF number of a register as instructions number it, with or without REX.B. */
static unsigned register_number(unsigned number, bool extended)
{
    static const uint8_t numbers[] = {DWARF_RAX, DWARF_RCX, DWARF_RDX, DWARF_RBX,
                                      DWARF_RSP, DWARF_RBP, DWARF_RSI, DWARF_RDI};
    return extended ? DWARF_R8 + number : numbers[number];
}

bool x86_64_register_call(const uint8_t *end, size_t size, unsigned *reg)
{
    enum { GROUP5 = 0xff, REX_B = 0x41, CALL_REGISTER = 0xd0 };
    if (size < 3 || end[-2] != GROUP5 || (end[-1] & 0xf8) != CALL_REGISTER)
        return false;
    *reg = register_number(end[-1] & 7, end[-3] == REX_B);
    return true;
}

/* ---- signals, functions' first and last instructions ---------------------------------------- */

/* The system call rt_sigreturn (15). */
static bool is_sigreturn(const uint8_t *code)
{
    static const uint8_t glibc[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    static const uint8_t shorter[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
    return !memcmp(code, glibc, sizeof(glibc)) || !memcmp(code, shorter, sizeof(shorter));
}

static enum arch_point point(const uint8_t *pc)
{
    static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    bool move =
        pc[0] == 0x48 && ((pc[1] == 0x89 && pc[2] == 0xe5) || (pc[1] == 0x8b && pc[2] == 0xec));
    if (move && pc[-1] == 0x55)
        return ARCH_POINT_PUSHED;
    if (pc[0] == 0xe9 && pc[-5] == 0x68)
        return ARCH_POINT_PLT;
    bool push = pc[0] == 0x55 && pc[1] == 0x48;
    bool ret = pc[0] == 0xc3 || pc[0] == 0xc2;
    bool slot = (pc[0] == 0xff && pc[1] == 0x25) || (pc[0] == 0x68 && pc[5] == 0xe9);
    if (push || ret || slot || !memcmp(pc, endbr64, sizeof(endbr64)))
        return ARCH_POINT_ENTRY;
    return ARCH_POINT_BODY;
}

static bool is_plt_cfa(const uint8_t *expression, size_t size, uint8_t *ret)
{
    /* breg7+8 breg16+0 lit15 and litN ge lit3 shl plus */
    static const uint8_t form[] = {0x77, 8, 0x80, 0, 0x3f, 0x1a, 0, 0x2a, 0x33, 0x24, 0x22};
    enum { LIMIT = 6, OP_LIT0 = 0x30 };
    if (size != sizeof(form) || expression[LIMIT] < OP_LIT0 || expression[LIMIT] > OP_LIT0 + 15)
        return false;
    for (size_t i = 0; i < sizeof(form); i++) {
        if (i != LIMIT && expression[i] != form[i])
            return false;
    }
    *ret = expression[LIMIT] - OP_LIT0;
    return true;
}

/* Compilers begin functions at multiples of 16 with endbr64, a push, or room on the stack. */
static bool begins_function(const uint8_t *code, size_t left, uint64_t pc)
{
    enum { ALIGNED = 16 };
    static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    struct insn is;
    size_t at = 0;
    while ((pc + at) % ALIGNED && at < left && insn_decode(code + at, left - at, &is)) {
        const uint8_t *c = code + at;
        size_t small = 0;
        while (small < is.size && c[small] == 0x66)
            small++;
        bool nop = c[small] == 0x90 || c[small] == 0xcc ||
                   (is.size - small > 2 && c[small] == 0x0f && c[small + 1] == 0x1f) ||
                   (is.size - small > 3 && c[small] == 0x2e && c[small + 1] == 0x0f &&
                    c[small + 2] == 0x1f);
        if (!nop)
            return false;
        at += is.size;
    }
    if ((pc + at) % ALIGNED || at >= left || !insn_decode(code + at, left - at, &is))
        return false;
    bool room = is.op == INSN_SUB && is.immediate && is.to == INSN_RSP;
    return (left - at >= sizeof(endbr64) && !memcmp(code + at, endbr64, sizeof(endbr64))) || room ||
           (is.op == INSN_PUSH && is.from != INSN_NO_REGISTER);
}

/* call *disp(%rip) */
static bool call_by_slot(const uint8_t *end, size_t size, uint64_t return_address, uint64_t *slot)
{
    enum { SIZE = 6 };
    if (size < SIZE || end[-SIZE] != 0xff || end[-SIZE + 1] != 0x15)
        return false;
    *slot = return_address + (uint64_t)(int64_t)(int32_t)load_u32(end - 4, false);
    return true;
}

/* jmp *disp(%rip), perhaps behind endbr64, bnd or notrack: a slot of a PLT */
static bool jump_by_slot(const uint8_t *code, size_t left, uint64_t pc, uint64_t *slot)
{
    enum { SIZE = 6 };
    static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    size_t at = left >= sizeof(endbr64) && !memcmp(code, endbr64, sizeof(endbr64)) ? 4 : 0;
    at += left > at && (code[at] == 0xf2 || code[at] == 0x3e);
    if (left < at + SIZE || code[at] != 0xff || code[at + 1] != 0x25)
        return false;
    *slot = pc + at + SIZE + (uint64_t)(int64_t)(int32_t)load_u32(code + at + 2, false);
    return true;
}

/* xor ebp, ebp */
static bool clears_fp(const uint8_t *code, size_t size)
{
    for (size_t i = 0; i + 2 <= size; i++) {
        if ((code[i] == 0x31 || code[i] == 0x33) && code[i + 1] == 0xed)
            return true;
    }
    return false;
}

/* ---- the row ------------------------------------------------------------------------------- */

enum { NONE = ARCH_NO_REGISTER };

/* linux: arch/x86 asm/perf_regs.h. */
static const struct arch_perf_register perf[] = {
    {"AX", DWARF_RAX},  {"BX", DWARF_RBX},  {"CX", DWARF_RCX},  {"DX", DWARF_RDX},
    {"SI", DWARF_RSI},  {"DI", DWARF_RDI},  {"BP", DWARF_RBP},  {"SP", DWARF_RSP},
    {"IP", DWARF_RIP},  {"FLAGS", NONE},    {"CS", NONE},       {"SS", NONE},
    {"DS", NONE},       {"ES", NONE},       {"FS", NONE},       {"GS", NONE},
    {"R8", DWARF_R8},   {"R9", DWARF_R9},   {"R10", DWARF_R10}, {"R11", DWARF_R11},
    {"R12", DWARF_R12}, {"R13", DWARF_R13}, {"R14", DWARF_R14}, {"R15", DWARF_R15},
};

/* struct user_regs_struct (sys/user.h). */
static const uint8_t user_regs[] = {
    DWARF_R15, DWARF_R14, DWARF_R13, DWARF_R12, DWARF_RBP, DWARF_RBX, DWARF_R11,
    DWARF_R10, DWARF_R9,  DWARF_R8,  DWARF_RAX, DWARF_RCX, DWARF_RDX, DWARF_RSI,
    DWARF_RDI, NONE,      DWARF_RIP, NONE,      NONE,      DWARF_RSP, NONE,
    NONE,      NONE,      NONE,      NONE,      NONE,      NONE};

/* The offset of an entry in uc_mcontext.gregs of struct ucontext (asm/sigcontext.h). */
#define GREG(n) (40 + 8 * (n))

static unsigned insn_size(const uint8_t *code, size_t left)
{
    struct insn insn;
    return insn_decode(code, left, &insn) ? insn.size : 0;
}

const struct arch arch_x86_64 = {
    .reg = X86_64_REGISTERS,
    .name = "x86_64",
    .title = "x86-64",
    .elf_machine = EM_X86_64,
    .elf_relative = R_X86_64_RELATIVE,
    .capstone_arch = CS_ARCH_X86,
    .capstone_mode = CS_MODE_64,
    /* They are not canonical with page tables of four levels. With five levels, only programs that
     * ask for such addresses get them. */
    .unused_addresses = UINT64_C(0xf00000000000),
    .perf = perf,
    .nr_perf = sizeof(perf) / sizeof(*perf),
    .perf_sp = 7,
    .user_regs = user_regs,
    .nr_user_regs = sizeof(user_regs),
    .call_min = 2,
    .call_max = X86_64_CALL_MAX,
    .clears_fp = clears_fp,
    .insn_size = insn_size,
    .sigcontext_mode = GREG(18), /* cs, gs, fs */
    .user_mode_mask = 0xffff,
    .user_mode = 0x33, /* __USER_CS */
    .nop_size = 1,
    .nop = {0x90},
    .sigreturn_size = 9,
    .nr_sigreturn_into = 3,
    .sigreturn_into = {0, 7, 5},
    .point_before = 5,
    .point_after = 6,
    .start_size = 64,
    .sigcontext =
        {
            [DWARF_R8] = GREG(0),
            [DWARF_R9] = GREG(1),
            [DWARF_R10] = GREG(2),
            [DWARF_R11] = GREG(3),
            [DWARF_R12] = GREG(4),
            [DWARF_R13] = GREG(5),
            [DWARF_R14] = GREG(6),
            [DWARF_R15] = GREG(7),
            [DWARF_RDI] = GREG(8),
            [DWARF_RSI] = GREG(9),
            [DWARF_RBP] = GREG(10),
            [DWARF_RBX] = GREG(11),
            [DWARF_RDX] = GREG(12),
            [DWARF_RAX] = GREG(13),
            [DWARF_RCX] = GREG(14),
            [DWARF_RSP] = GREG(15),
            [DWARF_RIP] = GREG(16),
        },
    .is_sigreturn = is_sigreturn,
    .is_call = x86_64_is_call,
    .direct_call = x86_64_direct_call,
    .is_indirect_call = is_indirect_call,
    .point = point,
    .execute = execution_step_x86_64,
    .begins_function = begins_function,
    .call_by_slot = call_by_slot,
    .jump_by_slot = jump_by_slot,
    .is_plt_cfa = is_plt_cfa,
};
