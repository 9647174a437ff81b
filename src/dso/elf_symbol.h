/* SPDX-License-Identifier: GPL-2.0-only */
/* A file's exported symbols by name. */
#ifndef DSO_ELF_SYMBOL_H
#define DSO_ELF_SYMBOL_H

#include "dso/elf_image.h"

/* The virtual address of a symbol that a file of this machine's byte order and 64 bits defines in
 * .dynsym: by .gnu.hash (System V gABI supplement: "GNU hash table"), without one by a walk.
 * False: there is none, or the file is damaged where it would be. */
bool elf_exported_symbol(const struct elf_image *image, const char *name, uint64_t *address);

#endif
