/* SPDX-License-Identifier: GPL-2.0-only */
#include "session/registers.h"

#include "base/cursor.h"

const struct arch *recording_arch(const struct perfdata *pd)
{
    const char *name = perfdata_arch(pd);
    if (perfdata_swapped(pd))
        return NULL;
    return name ? arch_by_name(name) : arch_of_host();
}

void sample_registers(const struct sample *s, const struct arch *arch, struct registers *ret)
{
    *ret = (struct registers){.arch = arch};
    uint64_t mask = s->user_mask;
    for (unsigned i = 0; mask; mask &= mask - 1, i++) {
        unsigned bit = (unsigned)__builtin_ctzll(mask);
        unsigned reg = bit < arch->nr_perf ? arch->perf[bit].reg : ARCH_NO_REGISTER;
        if (reg == ARCH_NO_REGISTER)
            continue;
        ret->value[reg] = load_u64(s->user_regs + 8 * (size_t)i, s->swapped);
        ret->known |= REG_BIT(reg);
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
