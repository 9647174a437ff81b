/* SPDX-License-Identifier: GPL-2.0-only */
/* x86-64 instruction patterns and the signal frame's layout. */
#include "unwind/arch.h"

#include "base/cursor.h"

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

bool arch_is_call(const uint8_t *end, size_t size)
{
    uint64_t ignored;
    return arch_direct_call(end, size, 0, &ignored) || arch_is_indirect_call(end, size);
}

bool arch_direct_call(const uint8_t *end, size_t size, uint64_t return_address, uint64_t *to)
{
    if (size < ARCH_DIRECT_CALL || end[-ARCH_DIRECT_CALL] != 0xe8)
        return false;
    *to = return_address + (uint64_t)(int64_t)(int32_t)load_u32(end - 4, false);
    return true;
}

/* Returns the DWARF number of a register as instructions number it, with or without REX.B. */
static unsigned register_number(unsigned number, bool extended)
{
    static const uint8_t numbers[] = {0, 2, 1, DWARF_RBX, DWARF_RSP, DWARF_RBP, 4, 5};
    return extended ? 8 + number : numbers[number];
}

bool arch_register_call(const uint8_t *end, size_t size, unsigned *reg)
{
    enum { GROUP5 = 0xff, REX_B = 0x41, CALL_REGISTER = 0xd0 };
    if (size < 3 || end[-2] != GROUP5 || (end[-1] & 0xf8) != CALL_REGISTER)
        return false;
    *reg = register_number(end[-1] & 7, end[-3] == REX_B);
    return true;
}

bool arch_is_indirect_call(const uint8_t *end, size_t size)
{
    for (size_t n = 2; n <= ARCH_CALL_MAX && n <= size; n++) {
        if (indirect_call_size(end - n, n) == n)
            return true;
    }
    return false;
}

bool arch_is_sigreturn(const uint8_t code[ARCH_SIGRETURN_SIZE])
{
    static const uint8_t glibc[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    static const uint8_t shorter[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
    return !memcmp(code, glibc, sizeof(glibc)) || !memcmp(code, shorter, sizeof(shorter));
}

int arch_sigcontext_offset(unsigned reg)
{
    enum { GREGS = 40 };
    static const uint8_t slot[DWARF_NR] = {
        [0] = 13,        [1] = 12,         [2] = 14,         [DWARF_RBX] = 11, [4] = 9,
        [5] = 8,         [DWARF_RBP] = 10, [DWARF_RSP] = 15, [8] = 0,          [9] = 1,
        [10] = 2,        [11] = 3,         [DWARF_R12] = 4,  [DWARF_R13] = 5,  [DWARF_R14] = 6,
        [DWARF_R15] = 7, [DWARF_RIP] = 16,
    };
    return reg < DWARF_NR ? GREGS + 8 * slot[reg] : -1;
}

enum arch_point arch_point(const uint8_t *pc)
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

/* Returns the length of an instruction that adds a constant to rsp; 0: another instruction. */
static size_t stack_addition(const uint8_t *at, size_t left, uint32_t *ret)
{
    enum { BYTE = 4, WORD = 7 };
    if (left < BYTE || at[0] != 0x48 || (at[1] != 0x83 && at[1] != 0x81) || at[2] != 0xc4)
        return 0;
    if (at[1] == 0x83) {
        *ret = at[3];
        return at[3] < 0x80 ? BYTE : 0;
    }
    if (left < WORD)
        return 0;
    *ret = (uint32_t)at[3] | (uint32_t)at[4] << 8 | (uint32_t)at[5] << 16;
    return at[6] ? 0 : WORD;
}

/* The same for an instruction that pops a register. *ret: the register's DWARF number. */
static size_t register_pop(const uint8_t *at, size_t left, unsigned *ret)
{
    size_t prefix = left > 1 && at[0] == 0x41;
    if (left <= prefix || (at[prefix] & 0xf8) != 0x58)
        return 0;
    *ret = register_number(at[prefix] & 7, prefix);
    return *ret == DWARF_RSP ? 0 : prefix + 1;
}

bool arch_epilogue(const uint8_t *code, size_t size, struct arch_epilogue *ret)
{
    uint32_t step = 0;
    unsigned reg = 0;
    size_t length;
    ret->return_address = 0;
    for (unsigned i = 0; i < DWARF_NR; i++)
        ret->popped[i] = -1;
    for (size_t at = 0; at < size; at += length) {
        if (code[at] == 0xc3)
            return at > 0;
        if ((length = stack_addition(code + at, size - at, &step)) != 0) {
            ret->return_address += step;
        } else if ((length = register_pop(code + at, size - at, &reg)) != 0) {
            ret->popped[reg] = (int32_t)ret->return_address;
            ret->return_address += 8;
        } else {
            return false;
        }
    }
    return false;
}
