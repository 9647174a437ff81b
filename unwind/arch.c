/* SPDX-License-Identifier: GPL-2.0-only */
/* The machines that have a row. */
#include "unwind/arch.h"

#include <string.h>

static const struct arch *const rows[ARCH_NR] = {&arch_x86_64, &arch_aarch64};

const struct arch *arch_by_name(const char *name)
{
    for (size_t i = 0; i < ARCH_NR; i++)
        if (strcmp(rows[i]->name, name) == 0)
            return rows[i];
    return NULL;
}

const struct arch *arch_by_elf(uint16_t machine, bool is64)
{
    for (size_t i = 0; i < ARCH_NR; i++)
        if (is64 && rows[i]->elf_machine == machine)
            return rows[i];
    return NULL;
}

const struct arch *arch_of_host(void)
{
#if defined(__x86_64__)
    return arch_by_name("x86_64");
#elif defined(__aarch64__)
    return arch_by_name("aarch64");
#else
    return NULL;
#endif
}
