/* SPDX-License-Identifier: GPL-2.0-only */
/* Names of system calls. */
#ifndef OUTPUT_SYSCALL_NAME_H
#define OUTPUT_SYSCALL_NAME_H

#include "base/text.h"

/* Append the name of a system call of a machine (as uname -m calls it; NULL: not known), or its
 * number, where libseccomp does not know it or was not there when this program was built. */
void text_syscall(struct text *t, const char *machine, unsigned number);

#endif
