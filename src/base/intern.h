/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interned strings: equal strings get the same pointer, valid until intern_free(). All
 * functions may be called from any thread.
 */
#ifndef BASE_INTERN_H
#define BASE_INTERN_H

#include <stddef.h>

struct intern;

/* NULL when memory is out. */
struct intern *intern_create(void);
void intern_free(struct intern *in);

/* The one copy of `size` bytes at `text` (no NUL inside needed; the copy has one after it).
 * NULL when memory is out. */
const char *intern_bytes(struct intern *in, const char *text, size_t size);
const char *intern_string(struct intern *in, const char *text);

#endif
