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
    AARCH64_SAVED_NR = 11,
    AARCH64_ADDRESS_BITS = 48, /* of user addresses. (Programs must ask for larger ones.) */
};

/* x19 to x29. x18 belongs to the platform. */
#define AARCH64_CALLEE_SAVED (REG_BIT(30) - REG_BIT(19))

/* An initializer, for the row and for the walk loop. */
#define AARCH64_REGISTERS                                                             \
    {                                                                                 \
        .nr = AARCH64_NR, .columns = AARCH64_PC, .pc = AARCH64_PC, .sp = AARCH64_SP,  \
        .fp = AARCH64_FP, .ra = AARCH64_LR, .nr_saved = AARCH64_SAVED_NR,             \
        .saved = {AARCH64_FP, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28},                \
        .callee_saved = AARCH64_CALLEE_SAVED,                                         \
        .survives = AARCH64_CALLEE_SAVED | REG_BIT(AARCH64_SP) | REG_BIT(AARCH64_PC), \
        .address_mask = (UINT64_C(1) << AARCH64_ADDRESS_BITS) - 1                     \
    }

#endif
