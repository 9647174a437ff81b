/* SPDX-License-Identifier: GPL-2.0-only */
/* Text functions for several output formats. */
#include "base/bytes.h"
#include "output/output.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int text_write(struct text *t, int fd, bool *closed, struct error *err)
{
    if (t->failed)
        return error_no_memory(err);
    size_t done = 0;
    while (done < t->size) {
        ssize_t n = write(fd, t->at + done, t->size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EPIPE) {
            *closed = true;
            break;
        }
        if (n < 0)
            return error_system(err, errno, "cannot write the output");
        done += (size_t)n;
    }
    t->size = 0;
    return 0;
}

bool symbol_is_named(const char *symbol, bool managed, const char *name)
{
    size_t size = strlen(name);
    return strncmp(symbol, name, size) == 0 && (!symbol[size] || (managed && symbol[size] == ' '));
}

static void escaped(struct text *t, unsigned char c)
{
    const char *digits = "0123456789ABCDEF";
    const char code[3] = {'%', digits[c >> 4], digits[c & 15]};
    text_bytes(t, code, sizeof(code));
}

/* Bytes that are not escaped in a name, in a module, in a managed function's symbol. */
enum { PLAIN_NAME = 1, PLAIN_MODULE = 2, PLAIN_MANAGED = 4 };
static const uint8_t plain[256] = {
    [' '] = PLAIN_NAME | PLAIN_MANAGED,
    ['!' ... '\''] = PLAIN_NAME | PLAIN_MODULE | PLAIN_MANAGED,
    ['(' ... ')'] = PLAIN_NAME,
    ['*' ... '~'] = PLAIN_NAME | PLAIN_MODULE | PLAIN_MANAGED,
}; /* above 0x7f: what text_utf8_size() accepts */

/* Returns true if none of the eight bytes needs escaping. It may return false for such bytes,
 * too. */
static inline bool all_plain(const char *p, uint8_t how)
{
    uint64_t word = bytes_load(p);
    uint64_t special =
        bytes_below(word, ' ') | bytes_equal(word, 0x7f) | (word & UINT64_C(0x8080808080808080));
    if (how != PLAIN_NAME)
        special |= bytes_equal(word, ' ') | bytes_equal(word, '(') | bytes_equal(word, ')');
    return !special;
}

/* Append `text` with the bytes that are not plain as %XX. It is written for speed, because names of
 * templates have hundreds of bytes. */
static void text_escaped(struct text *t, const char *text, uint8_t how)
{
    const char *run = text, *p = text, *end = text + strlen(text);
    while (p < end) {
        if (end - p >= 8 && all_plain(p, how)) {
            p += 8;
            continue;
        }
        const char *until = end - p >= 8 ? p + 8 : end;
        for (; p < until; p++) {
            const unsigned char *at = (const unsigned char *)p;
            unsigned size = *at < 0x80 ? plain[*at] & how : text_utf8_size(at);
            if (size) {
                p += *at < 0x80 ? 0 : size - 1;
                continue;
            }
            text_bytes(t, run, (size_t)(p - run));
            escaped(t, (unsigned char)*p);
            run = p + 1;
        }
    }
    text_bytes(t, run, (size_t)(end - run));
}

void text_symbol(struct text *t, const char *symbol)
{
    if (*symbol == '(')
        escaped(t, (unsigned char)*symbol++);
    text_name(t, symbol);
}

void text_managed_symbol(struct text *t, const char *symbol)
{
    text_escaped(t, symbol, PLAIN_MANAGED);
}

void text_word(struct text *t, const char *word)
{
    text_escaped(t, word, PLAIN_MODULE);
}

void text_name(struct text *t, const char *name)
{
    text_escaped(t, name, PLAIN_NAME);
}

void text_module(struct text *t, const char *module)
{
    text_escaped(t, module, PLAIN_MODULE);
}

void text_amount(struct text *t, uint64_t amount, enum weight_unit unit)
{
    static const char *const times[] = {"ns", "us", "ms", "s"};
    static const char *const sizes[] = {"bytes", "KB", "MB", "GB", "TB"};
    const bool is_time = unit == UNIT_NS;
    const double step = is_time ? 1000 : 1024;
    double value = (double)amount;
    size_t at = 0;
    if (unit == UNIT_COUNT) {
        text_dec(t, amount, 0);
        return;
    }
    for (; value >= step && at < (is_time ? 3 : 4); at++)
        value /= step;
    text_printf(t, at ? "%.3f %s" : "%.0f %s", value, is_time ? times[at] : sizes[at]);
}
