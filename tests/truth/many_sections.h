/* SPDX-License-Identifier: GPL-2.0-only */
/* ELF files whose headers promise much: for tests of what reading them costs. */
#ifndef TESTS_TRUTH_MANY_SECTIONS_H
#define TESTS_TRUTH_MANY_SECTIONS_H

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* Write an ELF file of `nr` section headers, all like `section` (type 0: they are a hole), and
 * `tail` zeros behind them. Returns 0, or -1 (errno says why). */
static inline int write_many_sections(const char *path, uint32_t nr, Elf64_Shdr section, off_t tail)
{
    const Elf64_Ehdr head = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_DYN,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_shoff = sizeof(head),
        .e_ehsize = sizeof(head),
        .e_shentsize = sizeof(section)};
    const Elf64_Shdr first = {.sh_size = nr};
    FILE *f = fopen(path, "w");
    if (!f)
        return -1;
    fwrite(&head, sizeof(head), 1, f);
    fwrite(&first, sizeof(first), 1, f);
    for (uint32_t i = 1; section.sh_type && i < nr; i++)
        fwrite(&section, sizeof(section), 1, f);
    fflush(f);
    int failed = ftruncate(fileno(f), (off_t)(sizeof(head) + nr * sizeof(first)) + tail);
    return fclose(f) || failed ? -1 : 0;
}

#endif
