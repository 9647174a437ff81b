/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds plain Lua in an ELF file, and what must be known of its build, by what its machine code
 * does. No symbol and no text is needed.
 *
 * What only a process can tell is left to whoever reads one:
 * - Lua 5.3.0's string header (fields.string) is longer than that of 5.3.1. The code of the
 *   interpreter does not tell them apart. They are told apart by an exported lua_tolstring, or by
 *   the release that the file's text names; if there is neither, the fields are 5.3.1's.
 * - A fork may have put fields of its own into structures that the interpreter does not touch.
 */
#ifndef UNWIND_LUA_DISCOVER_H
#define UNWIND_LUA_DISCOVER_H

#include "unwind/lua/layout.h"
#include "unwind/runtime.h"

/* Find plain Lua in a file. Returns 1 and its layout; 0: there is none; -1: there is one that is
 * not understood, and the error says what is. If a file has several, it is the one with the most
 * instruction fetches. */
int lua_discover(const struct runtime_image *image, struct lua_layout *ret, struct error *err);

/* Returns whether a function of the file has the form of the interpreter: a test of some
 * milliseconds, even for the largest files. `image->cfi` must be there. */
bool lua_may_hold(const struct runtime_image *image);

/* Returns "Luau" if the file's text says that it is in it, also of a stripped one; else NULL. Its
 * virtual machine is another one than Lua's. */
const char *lua_relative(const struct runtime_image *image);

/* Describe a layout to a person (struct runtime, `describe`). `layout` is a struct lua_layout. */
void lua_describe(const void *layout, const struct runtime_image *image, struct text *out);

#endif
