/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What one compilation unit says about addresses. Each part is read when an address first needs
 * it: the unit's functions with their ranges (most of the unit is jumped over), the inlined calls
 * of one function, the rows from one mark in the line program on. Not locked: the caller lets one
 * thread at a time use an index.
 */
#ifndef SYMBOLS_DWARF_INDEX_H
#define SYMBOLS_DWARF_INDEX_H

#include "base/intern.h"
#include "symbols/dwarf_unit.h"
#include "symbols/segments.h"

enum { NO_NODE = NO_OWNER };

/* ---- lines ------------------------------------------------------------------------------- */

struct line_row {
    uint32_t line, file, column;
};

struct line_file {
    const char *name, *dir; /* dir NULL: none */
    const char *path;       /* made at first need */
};

/* A row, and where the program goes on behind it: the first one of a sequence, and one in many. */
struct line_mark {
    uint64_t address;
    uint64_t at; /* in the program, bytes */
    uint32_t line, file, column, op_index;
};

/* A run of rows in address order: mostly a function, or all code of a section. */
struct line_sequence {
    size_t first, nr; /* marks */
    bool ordered;     /* addresses ascend, as they should */
};

struct line_program {
    struct cursor c;         /* the program */
    struct dwarf_unit forms; /* the unit, with the table's own sizes, to read forms by */
    uint8_t min_length, max_ops, line_range, opcode_base;
    int8_t line_base;
    const uint8_t *opcode_lengths;
    uint8_t advance[256];   /* by special opcode: operations */
    int16_t line_step[256]; /* by special opcode: lines */
};

struct line_table {
    struct line_program program;
    VEC(struct line_sequence) sequences;
    VEC(struct line_mark) marks;
    struct segments segments; /* owned by indexes of sequences */
    VEC(struct line_file) files;
    uint64_t budget; /* bytes that may still be run through in sequences out of order */
    bool from_zero;  /* file numbers begin at 0 (DWARF 5) */
};

/* Find the sequences of the unit's line program. `low`, `high`: where code can be; what lies
 * outside is of functions the linker dropped. A damaged program gives what stands before the
 * damage. false when memory is out. */
bool line_table_read(struct line_table *t, const struct dwarf_unit *u, uint64_t low, uint64_t high);
void line_table_free(struct line_table *t);
/* The row that covers it; false: none. */
bool line_table_row(struct line_table *t, uint64_t address, struct line_row *ret);
/* The path of a file number, as addr2line writes it; NULL: unknown. */
const char *line_table_path(struct line_table *t, const struct dwarf_unit *u, uint32_t file,
                            struct intern *strings);

/* ---- functions --------------------------------------------------------------------------- */

/* A function or an inlined call of one. */
struct function_node {
    uint32_t parent; /* what it is inlined into; NO_NODE: a real function */
    uint32_t call_file, call_line, call_column; /* where it is called, when inlined */
    uint64_t die;                               /* offset in SEC_INFO */
    const char *name;                           /* as shown; made at first need */
};

/* One function with all that is inlined into it. */
struct function_tree {
    VEC(struct function_node) nodes;
    struct segments segments; /* owned by indexes of nodes */
};

struct unit_function {
    uint64_t die;
    struct function_tree *tree; /* NULL: not read yet */
};

struct unit_index {
    struct dwarf_unit *entries; /* the unit whose entries describe the code */
    const struct dwarf_unit *lines_of;
    uint64_t low, high; /* where code can be */
    struct line_table lines;
    bool has_lines; /* they have been read */
    VEC(struct unit_function) functions;
    struct segments segments;         /* owned by indexes of functions */
    bool walked;                      /* functions have been looked for */
    bool jumped;                      /* what stands inside functions has been left out */
    uint64_t budget;                  /* bytes of entries that may still be read for trees */
    VEC(struct segment_range) ranges; /* of the walk that goes on; kept for the next one */
    VEC(uint32_t) parents;            /* the node around each open entry */
};

/* Reads nothing yet. `entries`: the unit whose entries describe the code of `lines_of` (its own, or
 * a split unit's). NULL when memory is out. */
struct unit_index *unit_index_create(struct dwarf_unit *entries, const struct dwarf_unit *lines_of,
                                     uint64_t low, uint64_t high);
void unit_index_free(struct unit_index *x);

/* The unit's lines; without any where the unit has none, or memory is out. */
struct line_table *unit_index_lines(struct unit_index *x);
/* The function that has code at the address; NULL: none, or memory is out. */
struct function_tree *unit_index_tree(struct unit_index *x, uint64_t address);

#endif
