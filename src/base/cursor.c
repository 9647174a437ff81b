/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/cursor.h"

#include <inttypes.h>

struct leb128 leb128_long(const uint8_t *at, const uint8_t *end, bool is_signed)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte = 0x80;
    while (at < end && byte & 0x80) {
        byte = *at++;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift = shift < 64 ? shift + 7 : shift;
    }
    if (byte & 0x80)
        return (struct leb128){NULL, 0};
    if (is_signed && shift < 64 && byte & 0x40)
        value |= ~UINT64_C(0) << shift;
    return (struct leb128){at, value};
}

int cursor_error(const struct cursor *c, struct error *err, const char *text)
{
    return error_set(err, c->failed ? ERROR_TRUNCATED : ERROR_FORMAT,
                     "%s: offset 0x%" PRIx64 ": %s: %s", c->source, cursor_offset(c), c->section,
                     text);
}
