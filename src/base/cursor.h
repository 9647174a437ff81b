/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one bounded cursor through which all binary input is read. A read past the end sets `failed`,
 * returns zeros and does not move the position. Every later read fails too, so a parser may read a
 * whole structure and check once. The cursor knows what it reads (source, section) and its
 * position, for cursor_error().
 *
 * The bytes are unaligned and in the producer's byte order; `swap`: that order is not ours.
 */
#ifndef BASE_CURSOR_H
#define BASE_CURSOR_H

#include "base/error.h"

#include <byteswap.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
    const uint8_t *at;    /* next byte */
    const uint8_t *end;   /* first byte that may not be read */
    const uint8_t *start; /* position from which `offset` counts */
    uint64_t offset;      /* offset of `start` in the source, bytes */
    const char *source;   /* file name, for errors */
    const char *section;  /* what is being read, for errors */
    bool swap;
    bool failed;
};

static inline struct cursor cursor_make(const void *bytes, size_t size, bool swap,
                                        const char *source, const char *section, uint64_t offset)
{
    const uint8_t *p = bytes;
    return (struct cursor){p, p + size, p, offset, source, section, swap, false};
}

static inline size_t cursor_left(const struct cursor *c)
{
    return (size_t)(c->end - c->at);
}

/* Offset of the next byte in the source. */
static inline uint64_t cursor_offset(const struct cursor *c)
{
    return c->offset + (uint64_t)(c->at - c->start);
}

/* Take `size` bytes in place; returns NULL and sets `failed` when fewer are left. */
static inline const uint8_t *cursor_bytes(struct cursor *c, uint64_t size)
{
    if (c->failed || size > cursor_left(c)) {
        c->failed = true;
        return NULL;
    }
    const uint8_t *p = c->at;
    c->at += size;
    return p;
}

static inline void cursor_skip(struct cursor *c, uint64_t size)
{
    (void)cursor_bytes(c, size);
}

static inline uint8_t cursor_u8(struct cursor *c)
{
    const uint8_t *p = cursor_bytes(c, 1);
    return p ? *p : 0;
}

#define CURSOR_READ(bits)                                               \
    static inline uint##bits##_t load_u##bits(const void *p, bool swap) \
    {                                                                   \
        uint##bits##_t v;                                               \
        memcpy(&v, p, sizeof(v));                                       \
        return swap ? bswap_##bits(v) : v;                              \
    }                                                                   \
    static inline uint##bits##_t cursor_u##bits(struct cursor *c)       \
    {                                                                   \
        const uint8_t *p = cursor_bytes(c, sizeof(uint##bits##_t));     \
        return p ? load_u##bits(p, c->swap) : 0;                        \
    }
CURSOR_READ(16)
CURSOR_READ(32)
CURSOR_READ(64)
#undef CURSOR_READ

/* Returns a NUL-terminated string in place and moves past its NUL. Without a NUL: returns NULL and
 * sets `failed`. */
static inline const char *cursor_string(struct cursor *c)
{
    const uint8_t *nul = c->failed ? NULL : memchr(c->at, 0, cursor_left(c));
    if (!nul) {
        c->failed = true;
        return NULL;
    }
    const char *s = (const char *)c->at;
    c->at = nul + 1;
    return s;
}

/* DWARF's LEB128 numbers; bits beyond the 64th are dropped. Nearly all numbers take one byte.
 * leb128_unsigned() and leb128_signed() are for loops that must keep the position in registers:
 * `at` of the result is NULL when the number is cut short. */
struct leb128 {
    const uint8_t *at; /* behind the number */
    uint64_t value;
};
struct leb128 leb128_long(const uint8_t *at, const uint8_t *end, bool is_signed);
static inline struct leb128 leb128_unsigned(const uint8_t *at, const uint8_t *end)
{
    return at < end && *at < 0x80 ? (struct leb128){at + 1, *at} : leb128_long(at, end, false);
}
static inline struct leb128 leb128_signed(const uint8_t *at, const uint8_t *end)
{
    if (at >= end || *at >= 0x80)
        return leb128_long(at, end, true);
    return (struct leb128){at + 1, *at & 0x40 ? *at | ~UINT64_C(0x7f) : *at};
}

static inline uint64_t cursor_leb128_(struct cursor *c, struct leb128 v)
{
    c->failed |= !v.at;
    if (c->failed)
        return 0;
    c->at = v.at;
    return v.value;
}
static inline uint64_t cursor_uleb128(struct cursor *c)
{
    return cursor_leb128_(c, leb128_unsigned(c->at, c->end));
}
static inline int64_t cursor_sleb128(struct cursor *c)
{
    return (int64_t)cursor_leb128_(c, leb128_signed(c->at, c->end));
}

/* Set the error "SOURCE: offset 0xN: SECTION: text" as ERROR_FORMAT (ERROR_TRUNCATED if the cursor
 * failed). Returns -1. */
int cursor_error(const struct cursor *c, struct error *err, const char *text);

#endif
