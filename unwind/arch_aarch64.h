/* SPDX-License-Identifier: GPL-2.0-only */
/* AArch64, Linux's ABI: the names of registers that have one, for arch_aarch64.c and for readers of
 * AArch64 machine code. x0 to x30 have the numbers 0 to 30. */
#ifndef UNWIND_ARCH_AARCH64_H
#define UNWIND_ARCH_AARCH64_H

#include "unwind/arch.h"

enum {
    AARCH64_FP = 29,
    AARCH64_LR = 30,
    AARCH64_SP = 31,
    AARCH64_PC = 32, /* DWARF has no number for it */
    AARCH64_NR,
    AARCH64_INSN = 4, /* bytes of an instruction */
};

#endif
