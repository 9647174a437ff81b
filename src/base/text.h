/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A growing piece of output text. Adding never fails loudly: when memory is out `failed` is
 * set, further additions do nothing, and whoever writes the text out reports it.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct text {
    char *at;
    size_t size, cap;
    bool failed;
};

void text_free(struct text *t);

/* Room for `want` more bytes; false (and failed) when there is none. */
bool text_grow(struct text *t, size_t want);

static inline bool text_room(struct text *t, size_t want)
{
    return t->cap - t->size >= want || text_grow(t, want);
}

static inline void text_bytes(struct text *t, const char *bytes, size_t size)
{
    if (!size || !text_room(t, size))
        return;
    memcpy(t->at + t->size, bytes, size);
    t->size += size;
}

static inline void text_string(struct text *t, const char *s)
{
    text_bytes(t, s, strlen(s));
}

static inline void text_char(struct text *t, char c)
{
    if (text_room(t, 1))
        t->at[t->size++] = c;
}

/* The length of a path without the kernel's mark of a file that was unlinked, " (deleted)". */
size_t text_undeleted(const char *path);

/* Numbers: `width` columns at least, padded on the left with blanks (0: no padding). */
void text_hex(struct text *t, uint64_t value, unsigned width);
void text_dec(struct text *t, uint64_t value, unsigned width);

/* A number of at least `digits` digits, padded with zeros. */
void text_hex_zeros(struct text *t, uint64_t value, unsigned digits);
void text_dec_zeros(struct text *t, uint64_t value, unsigned digits);

/* With two decimals, as printf's %.2f rounds. */
void text_hundredths(struct text *t, double value, unsigned width);

/* Bytes of the UTF-8 sequence at `s` (NUL-terminated text) that XML and JSON may hold; 0: there is
 * none, or it is a control character. */
unsigned text_utf8_size(const unsigned char *s);
/* `s` as valid UTF-8 without control characters: any other byte as %XX. */
void text_clean(struct text *t, const char *s);

void text_printf(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
