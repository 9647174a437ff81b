/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finding a LuaJIT in an ELF image, stripped or not, and reading its layout out of the
 * interpreter's instructions. The interpreter's unwind entry is unlike any other (its CFA is rsp+80
 * and it restores rbp, rbx, r15, r14), and its code is written by LuaJIT's own assembler, not by a
 * compiler: the same encodings in every build. Each value is looked for by a few bytes of its own,
 * so that a fork that inserts instructions loses nothing.
 */
#ifndef UNWIND_LUAJIT_DISCOVER_H
#define UNWIND_LUAJIT_DISCOVER_H

#include "base/error.h"
#include "unwind/luajit/layout.h"

struct cfi;

/* What discovery sees of an image. Addresses are the module's own (vaddr). */
struct luajit_image {
    const char *name;      /* for errors */
    const struct cfi *cfi; /* NULL: then nothing is found */
    /* `size` bytes of code at `address`; NULL: not there. They need to live during the call only.
     */
    const uint8_t *(*bytes)(void *context, uint64_t address, size_t size);
    /* Address of a function by its exported name; false: not exported. NULL: nobody asks. */
    bool (*symbol)(void *context, const char *name, uint64_t *address);
    void *context;
};

/* Returns 1 and the layout, 0 when there is no LuaJIT in the image, -1 when there is one whose
 * layout cannot be read (the error says which value, and `ret` has blob and blob_size, so that it
 * can be named). */
int luajit_discover(const struct luajit_image *image, struct luajit_layout *ret, struct error *err);

#endif
