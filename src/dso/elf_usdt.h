/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes that a program has of its own (USDT, as SystemTap's <sys/sdt.h> makes them): an
 * instruction that does nothing, and a note that says where it is and where its arguments are. */
#ifndef DSO_ELF_USDT_H
#define DSO_ELF_USDT_H

#include "dso/elf_image.h"

struct elf_usdt {
    const char *provider, *name;
    const char *arguments; /* as "8@%rdi -4@-12(%rbp)" */
    uint64_t address;      /* virtual, of the instruction */
    uint64_t semaphore;    /* offset in the file of the number that says who listens; 0: none */
};

/* Call `take` for each one (notes of type 3, named "stapsdt", in .note.stapsdt). It returns false
 * to end this. The file must be 64-bit and in this machine's byte order. A damaged note ends it,
 * too. */
typedef bool (*elf_take_usdt)(void *context, const struct elf_usdt *usdt);
void elf_usdts(const struct elf_image *image, elf_take_usdt take, void *context);

#endif
