/* SPDX-License-Identifier: GPL-2.0-only */
/* Names of C++, Rust and OCaml as their source writes them; exactly as perf shows them: without
 * parameters. */
#ifndef SYMBOLS_DEMANGLE_H
#define SYMBOLS_DEMANGLE_H

#include "base/text.h"

#include <stdbool.h>

/* Append the demangled form of `name`; false: it is not mangled, or its form would be
 * unreasonably long (nothing is appended then). Any thread. */
bool demangle(const char *name, struct text *ret);

/* Whether `name` can be mangled at all: cheap. */
bool demangle_may(const char *name);

#endif
