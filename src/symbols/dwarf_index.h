/* SPDX-License-Identifier: GPL-2.0-only */
/* What one compilation unit says about addresses, as two sorted tables. */
#ifndef SYMBOLS_DWARF_INDEX_H
#define SYMBOLS_DWARF_INDEX_H

#include "base/intern.h"
#include "symbols/dwarf_unit.h"
#include "symbols/segments.h"

enum { NO_NODE = NO_OWNER };

/* A function or an inlined call of one. */
struct function_node {
    uint32_t parent; /* what it is inlined into; NO_NODE: a real function */
    uint32_t call_file, call_line, call_column; /* where it is called, when inlined */
    uint64_t die; /* offset in SEC_INFO: its name is read when asked for */
    _Atomic(const char *) name;
};

struct line_row {
    uint64_t address;
    uint32_t line;
    uint16_t file, column;
};

enum { ROW_END = 0xffff }; /* as file: a sequence ends here */

struct line_file {
    const char *name, *dir; /* dir NULL: none */
    _Atomic(const char *) path;
};

struct line_table {
    VEC(struct line_row) rows; /* sorted; the last of equal addresses counts */
    VEC(struct line_file) files;
    bool from_zero; /* file numbers begin at 0 (DWARF 5) */
};

struct unit_index {
    VEC(struct function_node) nodes;
    struct segments segments; /* owned by indexes of nodes */
    struct line_table lines;
};

/* `functions` false: lines alone. `low`, `high`: where code can be; what lies outside is of
 * functions the linker dropped. NULL when memory is out. */
struct unit_index *unit_index_create(struct dwarf_unit *u, const struct dwarf_unit *lines_of,
                                     bool functions, uint64_t low, uint64_t high);
void unit_index_free(struct unit_index *x);

/* The row that covers it; NULL: none. */
const struct line_row *unit_index_row(const struct unit_index *x, uint64_t address);

bool line_table_read(struct line_table *t, const struct dwarf_unit *u, uint64_t low, uint64_t high);
void line_table_free(struct line_table *t);
/* The path of a file number, as addr2line writes it; NULL: unknown. */
const char *line_table_path(struct line_table *t, const struct dwarf_unit *u, uint32_t file,
                            struct intern *strings);

#endif
