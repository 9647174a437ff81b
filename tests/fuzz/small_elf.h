/* SPDX-License-Identifier: GPL-2.0-only */
/* Small ELF files made of sections, for targets that compare our readers with elfutils'. */
#ifndef FUZZ_SMALL_ELF_H
#define FUZZ_SMALL_ELF_H

#include "base/hash.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>

struct small_section {
    const char *name;
    const uint8_t *bytes;
    size_t size;
    uint64_t address; /* 0: not loaded */
};

enum { SMALL_ELF_MAX = 1 << 16, SMALL_SECTIONS_MAX = 8 };

/* Write a file for x86-64 with these sections to `to` (SMALL_ELF_MAX bytes). Returns its size; 0:
 * it does not fit. */
static inline size_t small_elf(uint8_t *to, const struct small_section *sections, size_t nr)
{
    Elf64_Ehdr head = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_EXEC,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_ehsize = sizeof(head),
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = (uint16_t)(nr + 2),
        .e_shstrndx = (uint16_t)(nr + 1)};
    Elf64_Shdr table[SMALL_SECTIONS_MAX + 2] = {{0}};
    char names[256] = "";
    size_t at = sizeof(head), name = 1;
    for (size_t i = 0; i < nr; i++) {
        at = (at + 7) & ~(size_t)7;
        table[i + 1] = (Elf64_Shdr){.sh_name = (uint32_t)name,
                                    .sh_type = SHT_PROGBITS,
                                    .sh_flags = sections[i].address ? SHF_ALLOC : 0,
                                    .sh_addr = sections[i].address,
                                    .sh_offset = at,
                                    .sh_size = sections[i].size,
                                    .sh_addralign = 1};
        if (at + sections[i].size + sizeof(table) + sizeof(names) + 16 > SMALL_ELF_MAX)
            return 0;
        memcpy(to + at, sections[i].bytes, sections[i].size);
        at += sections[i].size;
        strcpy(names + name, sections[i].name);
        name += strlen(sections[i].name) + 1;
    }
    table[nr + 1] = (Elf64_Shdr){.sh_name = (uint32_t)name,
                                 .sh_type = SHT_STRTAB,
                                 .sh_offset = at,
                                 .sh_size = name + sizeof(".shstrtab"),
                                 .sh_addralign = 1};
    strcpy(names + name, ".shstrtab");
    memcpy(to + at, names, name + sizeof(".shstrtab"));
    at = (at + name + sizeof(".shstrtab") + 7) & ~(size_t)7;
    head.e_shoff = at;
    memcpy(to, &head, sizeof(head));
    memcpy(to + at, table, (nr + 2) * sizeof(*table));
    return at + (nr + 2) * sizeof(*table);
}

/* Bytes that are written one after the other; what does not fit is left out. */
struct small_bytes {
    uint8_t at[4096];
    size_t nr;
};

static inline void small_put(struct small_bytes *b, uint64_t value, unsigned size)
{
    for (unsigned i = 0; i < size && b->nr < sizeof(b->at); i++)
        b->at[b->nr++] = (uint8_t)(value >> 8 * i);
}

static inline void small_uleb(struct small_bytes *b, uint64_t value)
{
    do {
        small_put(b, (value & 0x7f) | (value > 0x7f ? 0x80 : 0), 1);
        value >>= 7;
    } while (value);
}

static inline void small_sleb(struct small_bytes *b, int64_t value)
{
    for (;;) {
        uint8_t low = value & 0x7f;
        value >>= 7;
        bool last = (value == 0 && !(low & 0x40)) || (value == -1 && low & 0x40);
        small_put(b, low | (last ? 0 : 0x80), 1);
        if (last)
            return;
    }
}

/* Choices: the input's bytes, then random ones. */
struct small_choices {
    const uint8_t *at, *end;
    uint64_t seed, nr;
};

static inline uint8_t small_choice(struct small_choices *c)
{
    return c->at < c->end ? *c->at++ : (uint8_t)(hash_combine(c->seed, c->nr++) >> 24);
}

static inline uint64_t small_number(struct small_choices *c)
{
    uint64_t n = small_choice(c);
    return n < 200 ? n : n << 8 | small_choice(c);
}

#endif
