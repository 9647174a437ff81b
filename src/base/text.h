/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A growing piece of output text. Adding text never reports an error: when memory runs out,
 * `failed` is set and further additions do nothing. The code that writes the text out reports the
 * error.
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

/* Make room for `want` more bytes. Returns false, with `failed` set, when out of memory. */
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

/* Append `c` `nr` times. */
static inline void text_repeat(struct text *t, char c, size_t nr)
{
    if (!nr || !text_room(t, nr))
        return;
    memset(t->at + t->size, c, nr);
    t->size += nr;
}

/* Returns the name of a path's file: what follows the last slash, if anything does. */
const char *text_base_name(const char *path);

/* Returns the length of a path without " (deleted)", the kernel's mark of an unlinked file. */
size_t text_undeleted(const char *path);

/* Add a number of at least `width` columns, padded on the left with blanks (0: no padding). */
void text_hex(struct text *t, uint64_t value, unsigned width);
void text_dec(struct text *t, uint64_t value, unsigned width);

/* Add a number of at least `digits` digits, padded with zeros. */
void text_hex_zeros(struct text *t, uint64_t value, unsigned digits);
void text_dec_zeros(struct text *t, uint64_t value, unsigned digits);

/* Add a number with two decimals, rounded as printf's %.2f does. */
void text_hundredths(struct text *t, double value, unsigned width);

/* Returns the size in bytes of the UTF-8 sequence at `s` (NUL-terminated text) if XML and JSON may
 * hold it and people see it; 0: the sequence is not valid, or is a control character, an override
 * of the direction, or another character that cannot be seen. */
unsigned text_utf8_size(const unsigned char *s);
/* Add `s` as valid UTF-8 without control characters; every other byte becomes %XX. */
void text_clean(struct text *t, const char *s);
/* Returns the size of the sequence at `s`, with `left` bytes, if it is valid UTF-8; 0: it is not.
 * Control characters count as valid. */
unsigned text_sequence_size(const char *s, size_t left);
/* Add bytes of a program, which may be anything, as a terminal may see them: all but printable
 * UTF-8 is escaped as in Lua and C. */
void text_escaped_bytes(struct text *out, const char *s, size_t size);

void text_printf(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
