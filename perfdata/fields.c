/* SPDX-License-Identifier: GPL-2.0-only */
#include "perfdata/fields.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void name_put(struct fields *f, const char *name)
{
    if (!f->first)
        fputc(f->json ? ',' : ' ', f->out);
    f->first = false;
    if (name)
        fprintf(f->out, f->json ? "\"%s\":" : "%s=", name);
}

void field_dec(struct fields *f, const char *name, uint64_t value)
{
    name_put(f, name);
    fprintf(f->out, "%" PRIu64, value);
}

void field_signed(struct fields *f, const char *name, int64_t value)
{
    name_put(f, name);
    fprintf(f->out, "%" PRId64, value);
}

void field_hex(struct fields *f, const char *name, uint64_t value)
{
    name_put(f, name);
    fprintf(f->out, f->json ? "\"0x%" PRIx64 "\"" : "0x%" PRIx64, value);
}

void field_real(struct fields *f, const char *name, double value)
{
    name_put(f, name);
    if (isfinite(value))
        fprintf(f->out, "%.17g", value);
    else
        fputs(f->json ? "null" : "nan", f->out);
}

void field_flag(struct fields *f, const char *name, bool value)
{
    if (f->json) {
        name_put(f, name);
        fputs(value ? "true" : "false", f->out);
    } else if (value) {
        name_put(f, NULL);
        fputs(name, f->out);
    }
}

void field_bytes(struct fields *f, const char *name, const uint8_t *bytes, size_t size)
{
    name_put(f, name);
    if (f->json)
        fputc('"', f->out);
    for (size_t i = 0; i < size; i++)
        fprintf(f->out, "%02x", bytes[i]);
    if (f->json)
        fputc('"', f->out);
}

/* Returns the length of the UTF-8 character at p in bytes; 0: invalid. */
static size_t utf8_length(const uint8_t *p, size_t left)
{
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (n > left || p[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if (n == 3 && ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)))
        return 0;
    if (n == 4 && ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)))
        return 0;
    return n;
}

void field_string(struct fields *f, const char *name, const char *text, size_t size)
{
    const uint8_t *p = (const uint8_t *)text, *end = p + strnlen(text, size);
    name_put(f, name);
    fputc('"', f->out);
    while (p < end) {
        size_t n = utf8_length(p, (size_t)(end - p));
        if (n > 1 || (n == 1 && *p >= ' ' && *p != '"' && *p != '\\' && *p != 0x7f)) {
            fwrite(p, 1, n, f->out);
            p += n;
            continue;
        }
        if (*p == '"' || *p == '\\')
            fprintf(f->out, "\\%c", *p);
        else
            fprintf(f->out, f->json ? "\\u%04x" : "\\x%02x", *p);
        p++;
    }
    fputc('"', f->out);
}

void field_open(struct fields *f, const char *name, char bracket)
{
    name_put(f, name);
    fputc(bracket, f->out);
    f->first = true;
}

void field_close(struct fields *f, char bracket)
{
    fputc(bracket, f->out);
    f->first = false;
}
