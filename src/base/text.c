/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void text_free(struct text *t)
{
    free(t->at);
    *t = (struct text){0};
}

bool text_grow(struct text *t, size_t want)
{
    if (t->failed)
        return false;
    size_t cap = t->cap * 2 > t->size + want ? t->cap * 2 : t->size + want + 4096;
    char *at = realloc(t->at, cap);
    if (!at) {
        t->failed = true;
        return false;
    }
    t->at = at;
    t->cap = cap;
    return true;
}

const char *text_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

size_t text_undeleted(const char *path)
{
    static const char mark[] = " (deleted)";
    size_t size = strlen(path), mark_size = sizeof(mark) - 1;
    bool marked = size > mark_size && strcmp(path + size - mark_size, mark) == 0;
    return marked ? size - mark_size : size;
}

static void number(struct text *t, const char *digits, size_t nr, unsigned width, char pad)
{
    size_t fill = nr < width ? width - nr : 0;
    if (!text_room(t, fill + nr))
        return;
    memset(t->at + t->size, pad, fill);
    memcpy(t->at + t->size + fill, digits, nr);
    t->size += fill + nr;
}

static void hexadecimal(struct text *t, uint64_t value, unsigned width, char pad)
{
    char digits[16];
    char *p = digits + sizeof(digits);
    do
        *--p = "0123456789abcdef"[value & 15];
    while (value >>= 4);
    number(t, p, (size_t)(digits + sizeof(digits) - p), width, pad);
}

void text_hex(struct text *t, uint64_t value, unsigned width)
{
    hexadecimal(t, value, width, ' ');
}

void text_hex_zeros(struct text *t, uint64_t value, unsigned digits)
{
    hexadecimal(t, value, digits, '0');
}

static void decimal(struct text *t, uint64_t value, unsigned width, char pad)
{
    char digits[20];
    char *p = digits + sizeof(digits);
    do
        *--p = (char)('0' + value % 10);
    while (value /= 10);
    number(t, p, (size_t)(digits + sizeof(digits) - p), width, pad);
}

void text_dec(struct text *t, uint64_t value, unsigned width)
{
    decimal(t, value, width, ' ');
}

void text_dec_zeros(struct text *t, uint64_t value, unsigned digits)
{
    decimal(t, value, digits, '0');
}

void text_hundredths(struct text *t, double value, unsigned width)
{
    double scaled = value * 100;
    uint64_t whole = scaled >= 0 && scaled < 1e15 ? (uint64_t)scaled : UINT64_MAX;
    double rest = scaled - (double)whole - 0.5;
    /* Near a tie only the exact digits decide: let printf round. */
    if (whole == UINT64_MAX || (rest > -1e-4 && rest < 1e-4)) {
        text_printf(t, "%*.2f", (int)width, value);
        return;
    }
    whole += rest > 0;
    text_dec(t, whole / 100, width > 3 ? width - 3 : 0);
    text_char(t, '.');
    text_dec_zeros(t, whole % 100, 2);
}

void text_printf(struct text *t, const char *fmt, ...)
{
    enum { USUAL = 128 };
    size_t room = text_room(t, USUAL) ? t->cap - t->size : 0;
    for (int tries = 0; room && tries < 2; tries++) {
        va_list args;
        va_start(args, fmt);
        int size = vsnprintf(t->at + t->size, room, fmt, args);
        va_end(args);
        if (size < 0)
            return;
        if ((size_t)size < room) {
            t->size += (size_t)size;
            return;
        }
        room = text_room(t, (size_t)size + 1) ? t->cap - t->size : 0;
    }
}

/* Characters that change how a terminal or a page shows others, or that nobody sees: controls (C1),
 * marks and overrides of the direction, separators of lines, characters without width, tags. */
static bool is_invisible(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0x7f, 0x9f},     {0x61c, 0x61c},   {0x200b, 0x200f}, {0x2028, 0x202e},
                  {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

unsigned text_utf8_size(const unsigned char *s)
{
    unsigned size = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
    uint32_t code = size > 1 ? *s & (0x7fU >> size) : *s;
    for (unsigned i = 1; i < size; i++) {
        if (s[i] >> 6 != 2)
            return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    static const uint32_t least[] = {0, 0x20, 0x80, 0x800, 0x10000};
    bool allowed = size && code >= least[size] && code <= 0x10ffff &&
                   (code < 0xd800 || code > 0xdfff) && code != 0xfffe && code != 0xffff &&
                   (code < 0x7f || !is_invisible(code));
    return allowed ? size : 0;
}

void text_clean(struct text *t, const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    while (*p) {
        unsigned n = text_utf8_size(p);
        if (n)
            text_bytes(t, (const char *)p, n);
        else
            text_printf(t, "%%%02X", *p);
        p += n ? n : 1;
    }
}

unsigned text_sequence_size(const char *s, size_t left)
{
    enum { LONGEST = 4 };
    unsigned char copy[LONGEST + 1] = {0};
    if ((unsigned char)*s < 0x80)
        return 1;
    memcpy(copy, s, left < LONGEST ? left : LONGEST);
    return text_utf8_size(copy);
}

void text_escaped_bytes(struct text *out, const char *s, size_t size)
{
    static const char special[] = "\n\r\t\\\"", letters[] = "nrt\\\"";
    for (size_t i = 0; i < size;) {
        const unsigned char c = (unsigned char)s[i];
        const char *at = c ? strchr(special, c) : NULL;
        unsigned n = text_sequence_size(s + i, size - i);
        if (at) {
            text_char(out, '\\');
            text_char(out, letters[at - special]);
        } else if (c >= ' ' && c != 0x7f && n) {
            text_bytes(out, s + i, n);
        } else {
            n = 1;
            text_printf(out, "\\x%02x", c);
        }
        i += n;
    }
}
