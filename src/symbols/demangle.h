/* SPDX-License-Identifier: GPL-2.0-only */
/* Names of C++, Rust and OCaml functions as in their source, exactly as perf shows them: without
 * parameters. */
#ifndef SYMBOLS_DEMANGLE_H
#define SYMBOLS_DEMANGLE_H

#include "base/text.h"

#include <stdbool.h>

/* Append the demangled form of `name`. Returns false, and appends nothing, when the name is not
 * mangled or its form would be unreasonably long. Any thread may call it. */
bool demangle(const char *name, struct text *ret);

/* Can `name` be a mangled name at all? A cheap check. */
bool demangle_may(const char *name);

#endif
