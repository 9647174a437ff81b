/* SPDX-License-Identifier: GPL-2.0-only */
/* Compare eight bytes of text at once; copy a few bytes. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t bytes_load(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof(word));
    return word;
}

/* memcpy() without a call, for sizes of a VM's words and of the heads of its objects. */
static inline void bytes_copy(void *to, const void *from, size_t size)
{
    uint8_t *t = to;
    const uint8_t *f = from;
    /* Keep the compiler from warning about branches that smaller objects never take. */
    __asm__("" : "+r"(t));
    if (size == 8) {
        memcpy(t, f, 8);
    } else if (size == 16) {
        memcpy(t, f, 16);
    } else if (size - 16 <= 16) {
        memcpy(t, f, 16);
        memcpy(t + size - 16, f + size - 16, 16);
    } else if (size - 32 <= 32) {
        memcpy(t, f, 32);
        memcpy(t + size - 32, f + size - 32, 32);
    } else if (size - 64 <= 64) {
        memcpy(t, f, 64);
        memcpy(t + size - 64, f + size - 64, 64);
    } else if (size == 4) {
        memcpy(t, f, 4);
    } else if (size == 2) {
        memcpy(t, f, 2);
    } else {
        memcpy(t, f, size);
    }
}

static inline uint64_t bytes_all(uint8_t c)
{
    return UINT64_C(0x0101010101010101) * c;
}

/* Nonzero when any byte is below `n` (at most 128). Which bits are set has no further meaning. */
static inline uint64_t bytes_below(uint64_t word, uint8_t n)
{
    return (word - bytes_all(n)) & ~word & bytes_all(128);
}

/* Nonzero when any byte is `c`. */
static inline uint64_t bytes_equal(uint64_t word, uint8_t c)
{
    return bytes_below(word ^ bytes_all(c), 1);
}

#endif
