/* SPDX-License-Identifier: GPL-2.0-only */
/* DWARF packages (.dwp): many .dwo files' sections put together, and an index that says which
 * part of each section is whose. */
#ifndef SYMBOLS_DWARF_PACKAGE_H
#define SYMBOLS_DWARF_PACKAGE_H

#include "base/vec.h"
#include "dso/dso.h"

/* Where the parts of one unit begin. */
struct dwarf_part {
    uint64_t info, abbrev, str_offsets, rnglists;
};

struct dwarf_package {
    VEC(struct dwarf_part) parts; /* sorted by info */
};

/* Reads .debug_cu_index; empty when there is none or it is damaged. */
void dwarf_package_read(struct dwarf_package *p, const struct elf_image *image);
/* The part whose unit begins at that offset of .debug_info.dwo; NULL: none. */
const struct dwarf_part *dwarf_package_find(const struct dwarf_package *p, uint64_t info);

#endif
