/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds a LuaJIT in an ELF image, stripped or not, and reads its layout out of the interpreter's
 * instructions. The interpreter's unwind entry is unlike any other: its CFA is rsp+80, and it
 * restores rbp, rbx, r15, r14. LuaJIT's own assembler writes the interpreter's code, not a
 * compiler, so the encodings are the same in every build. Each value is searched for by a few bytes
 * of its own, so a fork that inserts instructions loses nothing.
 */
#ifndef UNWIND_LUAJIT_DISCOVER_H
#define UNWIND_LUAJIT_DISCOVER_H

#include "base/error.h"
#include "unwind/luajit/layout.h"

struct cfi;

/* The part of an image that discovery uses. Addresses are the module's own (vaddr). */
struct luajit_image {
    const char *name;      /* for error messages */
    const struct cfi *cfi; /* NULL: discovery finds nothing */
    /* Returns `size` bytes of code at `address`; NULL: not there. The bytes must live during the
     * call only. */
    const uint8_t *(*bytes)(void *context, uint64_t address, size_t size);
    /* Address of a function by its exported name; false: not exported. NULL: no symbols are looked
     * up. */
    bool (*symbol)(void *context, const char *name, uint64_t *address);
    void *context;
};

/* Returns 1 and the layout; 0 when there is no LuaJIT in the image; -1 when there is a LuaJIT whose
 * layout cannot be read. With -1 the error says which value is missing, and `ret` has blob and
 * blob_size, so that the caller can name the interpreter. */
int luajit_discover(const struct luajit_image *image, struct luajit_layout *ret, struct error *err);

#endif
