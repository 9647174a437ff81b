/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * V8's embedded builtins in an image that has no symbols for them (stripped, or a distribution's
 * libnode). The search looks for three things and checks each as a whole: the table of the
 * builtins' names (24 bytes each, in the order of their numbers); the table in the embedded data
 * that gives the place of each builtin's code (the places must tile the blob); and the code, which
 * has int3 in each gap between two builtins. Layouts: read from the binaries of Node 18, 20, 22, 24
 * and 26, whose symbols agree with what the search finds.
 */
#ifndef UNWIND_V8_BLOB_H
#define UNWIND_V8_BLOB_H

#include "unwind/v8/layout.h"

struct v8_found_builtin {
    const char *name;       /* without "Builtins_"; owned by the image */
    uint64_t address, size; /* vaddr */
};

/* Gives each builtin to `take`. Returns 1: found; 0: none, or of an unknown format; -1: memory is
 * out, or `take` returned false. */
int v8_blob_find(const struct v8_image *image, const struct v8_layout *l,
                 bool (*take)(void *context, const struct v8_found_builtin *b), void *context);

/* Finds V8's table of the bytecodes' sizes by its first bytes. `ret`: the number of bytecodes; the
 * table has three parts of that many one-byte numbers. NULL: not found. */
const uint8_t *v8_blob_bytecodes(const struct v8_image *image, const struct v8_layout *l,
                                 uint32_t *ret);

#endif
