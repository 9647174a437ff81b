/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BASE_BITS_H
#define BASE_BITS_H

#include <stdint.h>

/* Count the set bits of x, in code that reads samples by the ten thousand. The compiler's builtin
 * is a function call on a machine that need not have the instruction. */
static inline unsigned bits_count(uint64_t x)
{
    x -= x >> 1 & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (unsigned)(x * UINT64_C(0x0101010101010101) >> 56);
}

#endif
