/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/cursor.h"

#include <inttypes.h>

uint64_t cursor_uleb128(struct cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = cursor_u8(c);
        if (c->failed)
            return 0;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

int64_t cursor_sleb128(struct cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
        uint8_t byte = cursor_u8(c);
        if (c->failed)
            return 0;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (byte & 0x80)
            continue;
        if (shift < 64 && (byte & 0x40))
            value |= ~UINT64_C(0) << shift;
        return (int64_t)value;
    }
}

int cursor_error(const struct cursor *c, struct error *err, const char *text)
{
    return error_set(err, c->failed ? ERROR_TRUNCATED : ERROR_FORMAT,
                     "%s: offset 0x%" PRIx64 ": %s: %s", c->source, cursor_offset(c), c->section,
                     text);
}
