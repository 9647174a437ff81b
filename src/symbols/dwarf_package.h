/* SPDX-License-Identifier: GPL-2.0-only */
/* DWARF packages (.dwp): the joined sections of many .dwo files, and an index that gives each
 * unit's part of each section. */
#ifndef SYMBOLS_DWARF_PACKAGE_H
#define SYMBOLS_DWARF_PACKAGE_H

#include "base/vec.h"
#include "dso/dso.h"

/* The offsets where the parts of one unit begin. */
struct dwarf_part {
    uint64_t info, abbrev, str_offsets, rnglists;
};

struct dwarf_package {
    VEC(struct dwarf_part) parts; /* sorted by info */
};

/* Read .debug_cu_index. The package stays empty when there is none or it is damaged. */
void dwarf_package_read(struct dwarf_package *p, const struct elf_image *image);
/* Returns the part whose unit begins at that offset of .debug_info.dwo; NULL: none. */
const struct dwarf_part *dwarf_package_find(const struct dwarf_package *p, uint64_t info);

#endif
