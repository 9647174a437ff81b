/* SPDX-License-Identifier: GPL-2.0-only */
/* libiberty demangles; this file bounds its output (a hostile name of a few hundred bytes can
 * expand to gigabytes) and decodes OCaml's escapes. */
#include "symbols/demangle.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

enum { MANGLED_MAX = 64 << 10, DEMANGLED_MAX = 256 << 10 };

struct sink {
    struct text *text;
    size_t start;
    jmp_buf too_long;
};

/* libiberty's callback functions keep everything on the stack, so that longjmp() out of them leaks
 * nothing. */
static void add(const char *bytes, size_t size, void *context)
{
    struct sink *s = context;
    text_bytes(s->text, bytes, size);
    if (s->text->size - s->start > DEMANGLED_MAX || s->text->failed)
        longjmp(s->too_long, 1);
}

/* Rust's older names are C++ names that end with a hash: "17h" and 16 digits. */
static bool may_be_rust(const char *name)
{
    return name[1] == 'R' || strstr(name, "17h");
}

static bool demangle_iberty(const char *name, struct text *ret)
{
    struct sink s = {.text = ret, .start = ret->size};
    if (setjmp(s.too_long) == 0) {
        if (may_be_rust(name) && rust_demangle_callback(name, DMGL_NO_OPTS, add, &s))
            return true;
        ret->size = s.start;
        if (cplus_demangle_v3_callback(name, DMGL_NO_OPTS, add, &s))
            return true;
    }
    ret->size = s.start;
    return false;
}

static int hex_digit(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* "camlModule__f_12": "__" stands for a dot, "$xx" for a byte in hexadecimal. */
static void demangle_ocaml(const char *name, struct text *ret)
{
    for (const char *p = name + 4; *p;) {
        if (p[0] == '_' && p[1] == '_') {
            text_char(ret, '.');
            p += 2;
        } else if (p[0] == '$' && isxdigit((unsigned char)p[1]) && isxdigit((unsigned char)p[2])) {
            text_char(ret, (char)(hex_digit(p[1]) << 4 | hex_digit(p[2])));
            p += 3;
        } else {
            text_char(ret, *p++);
        }
    }
}

static bool is_ocaml(const char *name)
{
    return strncmp(name, "caml", 4) == 0 && name[4] >= 'A' && name[4] <= 'Z';
}

bool demangle_may(const char *name)
{
    return (name[0] == '_' && (name[1] == 'Z' || name[1] == 'R' || name[1] == 'G')) ||
           is_ocaml(name);
}

bool demangle(const char *name, struct text *ret)
{
    if (!demangle_may(name) || strnlen(name, MANGLED_MAX) == MANGLED_MAX)
        return false;
    if (!is_ocaml(name))
        return demangle_iberty(name, ret);
    demangle_ocaml(name, ret);
    return true;
}
