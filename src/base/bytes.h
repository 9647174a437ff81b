/* SPDX-License-Identifier: GPL-2.0-only */
/* Eight bytes of text at once. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdint.h>
#include <string.h>

static inline uint64_t bytes_load(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof(word));
    return word;
}

static inline uint64_t bytes_all(uint8_t c)
{
    return UINT64_C(0x0101010101010101) * c;
}

/* Not 0 when any byte is below `n`, at most 128 (which bits are set tells no more than that). */
static inline uint64_t bytes_below(uint64_t word, uint8_t n)
{
    return (word - bytes_all(n)) & ~word & bytes_all(128);
}

/* Not 0 when any byte is `c`. */
static inline uint64_t bytes_equal(uint64_t word, uint8_t c)
{
    return bytes_below(word ^ bytes_all(c), 1);
}

#endif
