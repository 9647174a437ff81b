/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The row of AArch64, Linux's ABI. A call puts the return address into the link register (x30);
 * functions that call others save it, mostly beside the caller's frame pointer. It may be signed
 * (pointer authentication): the bits above the address are then a signature.
 */
#include "unwind/arch_aarch64.h"

#include "base/cursor.h"
#include "unwind/execution.h"

#include <capstone/capstone.h>
#include <elf.h>

enum { FP = AARCH64_FP, LR = AARCH64_LR, SP = AARCH64_SP, PC = AARCH64_PC, INSN = AARCH64_INSN };

static uint32_t word_before(const uint8_t *end)
{
    return load_u32(end - INSN, false);
}

/* ---- calls --------------------------------------------------------------------------------- */

/* BL: the distance of its target is in the low 26 bits, in words. */
static bool direct_call(const uint8_t *end, size_t size, uint64_t return_address, uint64_t *to)
{
    enum { BL = 0x25, UNUSED_BITS = 6 };
    if (size < INSN || word_before(end) >> 26 != BL)
        return false;
    int32_t words = (int32_t)(word_before(end) << UNUSED_BITS) >> UNUSED_BITS;
    *to = return_address - INSN + (uint64_t)((int64_t)words * INSN);
    return true;
}

/* BLR, and BLRAA, BLRAB, BLRAAZ, BLRABZ, which authenticate the address. */
static bool is_indirect_call(const uint8_t *end, size_t size)
{
    return size >= INSN && ((word_before(end) & 0xfffffc1f) == 0xd63f0000 ||
                            (word_before(end) & 0xfefff800) == 0xd63f0800);
}

static bool is_call(const uint8_t *end, size_t size)
{
    uint64_t ignored;
    return direct_call(end, size, 0, &ignored) || is_indirect_call(end, size);
}

/* ---- signals, functions' first and last instructions ---------------------------------------- */

/* mov x8, #139 (rt_sigreturn); svc #0 */
static bool is_sigreturn(const uint8_t *code)
{
    return load_u32(code, false) == 0xd2801168 && load_u32(code + INSN, false) == 0xd4000001;
}

/* An instruction with bits that are not looked at. */
struct pattern {
    uint32_t mask, value;
};

static bool matches(const uint8_t *code, const struct pattern *p)
{
    return (load_u32(code, false) & p->mask) == p->value;
}

/* Slots of a PLT: adrp x16, page; ldr x17, [x16, #n]; add x16, x16, #n; br x17. Before them there
 * may be bti c. The first one, which finds functions, is the same behind a push of x16 and lr. */
enum { SLOT_INSNS = 4, SLOT_SIZE = SLOT_INSNS * INSN, PUSHED = 16 };
static const uint32_t bti_c = 0xd503245f, push_x16_lr = 0xa9bf7bf0;
static const struct pattern slot_insns[SLOT_INSNS] = {{0x9f00001f, 0x90000010},
                                                      {0xffc003ff, 0xf9400211},
                                                      {0xff8003ff, 0x91000210},
                                                      {0xffffffff, 0xd61f0220}};

static enum arch_point point(const uint8_t *pc)
{
    static const struct pattern entries[] = {
        {0xffffffff, 0xd503233f}, /* paciasp */
        {0xffffffff, 0xd503245f}, /* bti c */
        {0xffc07fff, 0xa9807bfd}, /* stp x29, x30, [sp, #n]! */
        {0xffffffff, 0xd65f03c0}, /* ret */
    };
    bool found = false;
    for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++)
        found |= matches(pc, &entries[i]);
    for (size_t i = 0; i < SLOT_INSNS; i++)
        found |= matches(pc, &slot_insns[i]);
    return found ? ARCH_POINT_ENTRY : ARCH_POINT_BODY;
}

/* ---- imported functions --------------------------------------------------------------------- */

static bool is_slot(const uint8_t *code)
{
    for (size_t i = 0; i < SLOT_INSNS; i++)
        if (!matches(code + i * INSN, &slot_insns[i]))
            return false;
    return true;
}

static bool in_import_slot(const uint8_t *pc, size_t before, size_t after, unsigned *pushed)
{
    *pushed = 0;
    if (after >= INSN + SLOT_SIZE && is_slot(pc + INSN)) {
        uint32_t first = load_u32(pc, false);
        if (first == bti_c || first == push_x16_lr)
            return true;
        /* else it is the last instruction of the slot before */
    }
    for (size_t into = 0; into < SLOT_SIZE && into <= before; into += INSN) {
        if (after < SLOT_SIZE - into || !is_slot(pc - into))
            continue;
        bool first = before >= into + INSN && word_before(pc - into) == push_x16_lr;
        *pushed = first ? PUSHED : 0;
        return true;
    }
    return false;
}

static bool jump_by_slot(const uint8_t *code, size_t left, uint64_t pc, uint64_t *slot)
{
    enum { PAGE_BITS = 12 };
    size_t at = left >= INSN && load_u32(code, false) == bti_c ? INSN : 0;
    if (left < at + SLOT_SIZE || !is_slot(code + at))
        return false;
    uint32_t adrp = load_u32(code + at, false), ldr = load_u32(code + at + INSN, false);
    int64_t pages = (int32_t)(adrp << 8) >> 13; /* bits 5 to 23, with the sign */
    pages = (int64_t)((uint64_t)pages << 2 | (adrp >> 29 & 3));
    *slot = (((pc + at) >> PAGE_BITS) + (uint64_t)pages) << PAGE_BITS;
    *slot += (uint64_t)(ldr >> 10 & 0xfff) * 8;
    return true;
}

/* Compilers begin functions with paciasp, bti c, or a push of the frame pointer and lr. */
static bool begins_function(const uint8_t *code, size_t left, uint64_t pc)
{
    const uint32_t nop = 0xd503201f, paciasp = 0xd503233f;
    (void)pc;
    size_t at = 0;
    while (left - at >= INSN && load_u32(code + at, false) == nop)
        at += INSN;
    if (left - at < INSN)
        return false;
    uint32_t insn = load_u32(code + at, false);
    return insn == paciasp || insn == bti_c || (insn & 0xffe07fff) == 0xa9a07bfd;
}

/* mov x29, #0; mov x29, xzr */
static bool clears_fp(const uint8_t *code, size_t size)
{
    for (size_t i = size % INSN; i + INSN <= size; i += INSN) {
        uint32_t insn = load_u32(code + i, false);
        if (insn == 0xd280001d || insn == 0xaa1f03fd)
            return true;
    }
    return false;
}

static unsigned insn_size(const uint8_t *code, size_t left)
{
    (void)code;
    return left < INSN ? 0 : INSN;
}

/* ---- the row ------------------------------------------------------------------------------- */

/* linux: arch/arm64 asm/perf_regs.h. VG, the vectors' length, is bit 46. */
static const struct arch_perf_register perf[] = {
    {"x0", 0},   {"x1", 1},   {"x2", 2},   {"x3", 3},   {"x4", 4},   {"x5", 5},   {"x6", 6},
    {"x7", 7},   {"x8", 8},   {"x9", 9},   {"x10", 10}, {"x11", 11}, {"x12", 12}, {"x13", 13},
    {"x14", 14}, {"x15", 15}, {"x16", 16}, {"x17", 17}, {"x18", 18}, {"x19", 19}, {"x20", 20},
    {"x21", 21}, {"x22", 22}, {"x23", 23}, {"x24", 24}, {"x25", 25}, {"x26", 26}, {"x27", 27},
    {"x28", 28}, {"x29", FP}, {"lr", LR},  {"sp", SP},  {"pc", PC},
};

/* struct user_pt_regs (asm/ptrace.h): x0 to x30, sp, pc, pstate. */
static const uint8_t user_regs[] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
    17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, FP, LR, SP, PC, ARCH_NO_REGISTER};

/* From the stack pointer in the trampoline: siginfo has 128 bytes, and struct ucontext has x0 to
 * x30, sp and pc from its byte 184 on (asm/sigcontext.h). */
#define SAVED_AT(n) (128 + 184 + 8 * (n))

const struct arch arch_aarch64 = {
    .reg = AARCH64_REGISTERS,
    .name = "aarch64",
    .title = "AArch64",
    .elf_machine = EM_AARCH64,
    .elf_relative = R_AARCH64_RELATIVE,
    .capstone_arch = CS_ARCH_ARM64,
    .capstone_mode = CS_MODE_LITTLE_ENDIAN,
    .unused_addresses = UINT64_C(1) << AARCH64_ADDRESS_BITS,
    .perf = perf,
    .nr_perf = sizeof(perf) / sizeof(*perf),
    .perf_sp = SP,
    .perf_is_own = true,
    .user_regs = user_regs,
    .nr_user_regs = sizeof(user_regs),
    .call_min = INSN,
    .call_max = INSN,
    .clears_fp = clears_fp,
    .insn_size = insn_size,
    .sigcontext_mode = SAVED_AT(33), /* pstate */
    .user_mode_mask = 0x1f,
    .user_mode = 0, /* EL0, 64 bits */
    .nop_size = INSN,
    .nop = {0x1f, 0x20, 0x03, 0xd5},
    .sigreturn_size = 2 * INSN,
    .nr_sigreturn_into = 2,
    .sigreturn_into = {0, INSN},
    .point_before = 0,
    .point_after = INSN,
    .start_size = 20 * INSN, /* (in glibc 2.28's for fixed addresses the last call ends here) */
    .sigcontext = {SAVED_AT(0),  SAVED_AT(1),  SAVED_AT(2),  SAVED_AT(3),  SAVED_AT(4),
                   SAVED_AT(5),  SAVED_AT(6),  SAVED_AT(7),  SAVED_AT(8),  SAVED_AT(9),
                   SAVED_AT(10), SAVED_AT(11), SAVED_AT(12), SAVED_AT(13), SAVED_AT(14),
                   SAVED_AT(15), SAVED_AT(16), SAVED_AT(17), SAVED_AT(18), SAVED_AT(19),
                   SAVED_AT(20), SAVED_AT(21), SAVED_AT(22), SAVED_AT(23), SAVED_AT(24),
                   SAVED_AT(25), SAVED_AT(26), SAVED_AT(27), SAVED_AT(28), SAVED_AT(29),
                   SAVED_AT(30), SAVED_AT(31), SAVED_AT(32)},
    .is_sigreturn = is_sigreturn,
    .is_call = is_call,
    .direct_call = direct_call,
    .is_indirect_call = is_indirect_call,
    .point = point,
    .in_import_slot = in_import_slot,
    .execute = execution_step_aarch64,
    .begins_function = begins_function,
    .jump_by_slot = jump_by_slot,
};
