/* SPDX-License-Identifier: GPL-2.0-only */
#include "session/registers.h"

#include "base/cursor.h"

#include <string.h>

/* Returns the DWARF number of perf's register number on x86 (linux: arch/x86 asm/perf_regs.h); -1:
 * a register that an unwinder does not know. */
static int dwarf_register(unsigned bit)
{
    static const signed char table[24] = {0,  3,  2,  1,  4, 5, 6,  7,  16, -1, -1, -1,
                                          -1, -1, -1, -1, 8, 9, 10, 11, 12, 13, 14, 15};
    return bit < 24 ? table[bit] : -1;
}

/* On x86-64 perf asks for all registers except four segment registers: no lookups are needed
 * then. */
enum { USUAL_MASK = 0xff0fff };
static void usual_registers(const uint8_t *from, struct registers *ret)
{
    enum { BEHIND = 12 }; /* rax to rip, flags, cs, ss; then r8 to r15 */
    static const uint8_t first[9] = {0, 3, 2, 1, 4, 5, 6, 7, 16};
    for (unsigned i = 0; i < 9; i++)
        memcpy(&ret->value[first[i]], from + (size_t)8 * i, 8);
    memcpy(&ret->value[8], from + (size_t)8 * BEHIND, 8 * sizeof(uint64_t));
    ret->known = (1U << 17) - 1;
}

void sample_registers(const struct sample *s, struct registers *ret)
{
    *ret = (struct registers){0};
    uint64_t mask = s->user_mask;
    if (mask == USUAL_MASK && !s->swapped) {
        usual_registers(s->user_regs, ret);
        return;
    }
    for (unsigned i = 0; mask; mask &= mask - 1, i++) {
        int reg = dwarf_register((unsigned)__builtin_ctzll(mask));
        if (reg < 0)
            continue;
        ret->value[reg] = load_u64(s->user_regs + 8 * (size_t)i, s->swapped);
        ret->known |= 1U << reg;
    }
}

struct memory sample_memory(const struct sample *s, uint64_t sp)
{
    return (struct memory){.stack = s->stack,
                           .stack_start = sp,
                           .stack_size = s->stack_near,
                           .stack_far = s->stack_far,
                           .stack_far_size = s->stack_dyn_size - s->stack_near,
                           .time = s->time};
}
