/* SPDX-License-Identifier: GPL-2.0-only */
/* Look up a file's exported symbols by name. */
#ifndef DSO_ELF_SYMBOL_H
#define DSO_ELF_SYMBOL_H

#include "dso/elf_image.h"

/* Get the virtual address of a symbol that the file defines in .dynsym. The file must be 64-bit and
 * in this machine's byte order. Uses .gnu.hash (System V gABI supplement: "GNU hash table"), or
 * walks the table when there is none. Returns false when there is no such symbol, or when the file
 * is damaged at that place. */
bool elf_exported_symbol(const struct elf_image *image, const char *name, uint64_t *address);
/* The same for a function. Not for one that chooses its code when it is loaded (STT_GNU_IFUNC). */
bool elf_exported_function(const struct elf_image *image, const char *name, uint64_t *address);

/* A function that a file defines: its virtual address, and its size in bytes (0: not known). */
struct elf_function {
    const char *name;
    uint64_t address, size;
};
/* Call `take` for each function in .symtab and in .dynsym; those that both have come twice. It
 * returns false to end this. The file must be as above. */
typedef bool (*elf_take_function)(void *context, const struct elf_function *f);
void elf_functions(const struct elf_image *image, elf_take_function take, void *context);

/* Returns the name of the symbol whose address a linker puts into the word at this virtual address,
 * for calls (.got, .got.plt; x86-64); NULL: no relocation says so. It lives as long as the image.
 */
const char *elf_imported_symbol(const struct elf_image *image, uint64_t place);

#endif
