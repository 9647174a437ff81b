/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * V8's embedded builtins in an image that has no symbols for them (stripped, or a distribution's
 * libnode). Three things are looked for, and each is recognised as a whole: the table of the
 * builtins' names (24 bytes each, in the order of their numbers), the table in the embedded data of
 * where each one's code is (which must tile the blob), and the code, by the int3 that fill each gap
 * between two builtins. Layouts: read from the binaries of Node 18, 20, 22, 24 and 26, whose
 * symbols agree with what is found.
 */
#ifndef UNWIND_V8_BLOB_H
#define UNWIND_V8_BLOB_H

#include "unwind/v8/layout.h"

struct v8_found_builtin {
    const char *name;       /* without "Builtins_"; the image's */
    uint64_t address, size; /* vaddr */
};

/* Gives each builtin to `take`. 1: found; 0: not there, or of an unknown form; -1: memory is out,
 * or `take` returned false. */
int v8_blob_find(const struct v8_image *image, const struct v8_layout *l,
                 bool (*take)(void *context, const struct v8_found_builtin *b), void *context);

/* V8's table of the bytecodes' sizes (three of `ret` numbers each, of a byte), by how it begins;
 * NULL: not found. */
const uint8_t *v8_blob_bytecodes(const struct v8_image *image, const struct v8_layout *l,
                                 uint32_t *ret);

#endif
