/* SPDX-License-Identifier: GPL-2.0-only */
/* Names as they are shown: each mangled name is demangled only once, wherever it comes from. */
#ifndef SYMBOLS_SHOWN_H
#define SYMBOLS_SHOWN_H

#include "base/intern.h"

#include <stdbool.h>

struct shown;

/* `strings` owns the names. `demangle` false: names are shown unchanged. NULL: out of memory. */
struct shown *shown_create(struct intern *strings, bool demangle);
void shown_free(struct shown *s);

/* Returns the name as shown; NULL: out of memory. A mangled `name` must live as long as `s`. Any
 * thread may call it. */
const char *shown_name(struct shown *s, const char *name);

#endif
