/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Writes an ELF shared object for code that has no file: functions with their names, places and
 * lines, so that other tools can name the addresses in it. Each line of a function is one slot of
 * no-ops in .text; the slots of the functions follow each other.
 *
 * Addresses in the file equal file offsets, so a mapping of the whole file serves readers of
 * either. Tables: .symtab, .debug_info with one subprogram for each function, .debug_line (DWARF
 * 4), and a build id of all these.
 */
#ifndef DSO_ELF_WRITE_H
#define DSO_ELF_WRITE_H

#include "base/text.h"
#include "perfdata/perfdata.h"

#include <stddef.h>
#include <stdint.h>

enum {
    ELF_WRITE_TEXT = 0x1000, /* where .text starts: address and file offset */
    ELF_WRITE_SLOT = 4,      /* bytes of a slot */
    ELF_WRITE_SLOTS_MAX = 1 << 28,
};

struct elf_write_slot {
    uint32_t file; /* index of a file + 1; 0: the line is not known */
    uint32_t line;
};

struct elf_write_function {
    const char *name;
    uint32_t file, line; /* place of the definition: index of a file + 1, and line; 0: not known */
    uint32_t nr_slots;   /* its slots (at least 1) follow the previous function's */
};

struct elf_write {
    const char *name, *directory; /* of the unit; relative files are relative to the directory */
    const char *const *files;
    size_t nr_files;
    const struct elf_write_function *functions;
    size_t nr_functions;
    const struct elf_write_slot *slots;
    size_t nr_slots;
    uint16_t machine; /* e_machine */
};

/* Returns where slot `index` starts: the file offset, which is also the address. */
static inline uint64_t elf_write_address(size_t index)
{
    return ELF_WRITE_TEXT + (uint64_t)index * ELF_WRITE_SLOT;
}

/* Append the bytes of the file to the empty `out` (failed: out of memory), and get its build id. */
void elf_write(struct text *out, const struct elf_write *what, struct build_id *id);

#endif
