/* SPDX-License-Identifier: GPL-2.0-only */
/* Names of system calls: libseccomp has a table for each machine. */
#include "output/syscall_name.h"

#include <stdlib.h>
#include <string.h>

#ifdef HAVE_SECCOMP
#include <seccomp.h>

/* Returns the name, malloced; NULL: not known. */
static char *name_of(const char *machine, unsigned number)
{
    if (machine && strcmp(machine, "x86_64") == 0)
        return seccomp_syscall_resolve_num_arch(SCMP_ARCH_X86_64, (int)number);
    if (machine && strcmp(machine, "aarch64") == 0)
        return seccomp_syscall_resolve_num_arch(SCMP_ARCH_AARCH64, (int)number);
    return NULL;
}
#else
static char *name_of(const char *machine, unsigned number)
{
    (void)machine, (void)number;
    return NULL;
}
#endif

void text_syscall(struct text *t, const char *machine, unsigned number)
{
    char *name = name_of(machine, number);
    if (name)
        text_string(t, name);
    else
        text_printf(t, "syscall %u", number);
    free(name);
}
