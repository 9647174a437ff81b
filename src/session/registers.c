/* SPDX-License-Identifier: GPL-2.0-only */
#include "session/registers.h"

#include "base/cursor.h"

#include <string.h>

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
    const uint8_t *from = s->user_regs;
    uint64_t mask = s->user_mask & (REG_BIT(arch->nr_perf) - 1); /* others come last */
    uint64_t known = 0;
    if (arch->perf_is_own && mask == REG_BIT(arch->nr_perf) - 1 && !s->swapped) {
        memcpy(ret->value, from, arch->nr_perf * sizeof(*ret->value));
        ret->known = mask;
        return;
    }
    for (; mask; mask &= mask - 1, from += sizeof(uint64_t)) {
        unsigned reg = arch->perf[__builtin_ctzll(mask)].reg;
        if (reg == ARCH_NO_REGISTER)
            continue;
        ret->value[reg] = load_u64(from, s->swapped);
        known |= REG_BIT(reg);
    }
    ret->known = known;
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
