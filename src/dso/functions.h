/* SPDX-License-Identifier: GPL-2.0-only */
/* Where functions begin and end by a file's symbols. Private to dso/. */
#ifndef DSO_FUNCTIONS_H
#define DSO_FUNCTIONS_H

#include "dso/dso.h"

struct functions;

/* Read the functions of .symtab (`debug`: the file that has it; NULL: `image`) and .dynsym. NULL:
 * there are none, or memory is out. */
struct functions *functions_load(const struct elf_image *image, const struct elf_image *debug);
void functions_free(struct functions *f); /* may be NULL */

/* Get the function that contains `address`, with `end` 0 if its size is not known. Returns false if
 * there is none. `f` may be NULL. */
bool functions_find(const struct functions *f, uint64_t address, uint64_t *start, uint64_t *end);

#endif
