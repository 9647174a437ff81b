/* SPDX-License-Identifier: GPL-2.0-only */
/* Names as they are shown: each mangled one is demangled once, wherever it comes from. */
#ifndef SYMBOLS_SHOWN_H
#define SYMBOLS_SHOWN_H

#include "base/intern.h"

#include <stdbool.h>

struct shown;

/* Names are kept by `strings`. `demangle` false: names are shown as they are. NULL when memory is
 * out. */
struct shown *shown_create(struct intern *strings, bool demangle);
void shown_free(struct shown *s);

/* The name as shown; NULL when memory is out. A mangled `name` must live as long as `s`. Any
 * thread. */
const char *shown_name(struct shown *s, const char *name);

#endif
