/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interned strings: equal strings get the same pointer, valid until intern_free(). All functions
 * may be called from any thread.
 */
#ifndef BASE_INTERN_H
#define BASE_INTERN_H

#include <stddef.h>

struct intern;

/* NULL: out of memory. */
struct intern *intern_create(void);
void intern_free(struct intern *in);

/* Returns the one copy of the `size` bytes at `text`. The bytes need no NUL; the copy has one after
 * them. NULL: out of memory. */
const char *intern_bytes(struct intern *in, const char *text, size_t size);
const char *intern_string(struct intern *in, const char *text);

#endif
