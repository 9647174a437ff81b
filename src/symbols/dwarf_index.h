/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The address tables of one compilation unit. Each part is read when an address first needs it: the
 * unit's functions with their ranges (most of the unit is skipped), the inlined calls of one
 * function, the rows from one mark in the line program on. There is no lock: the caller lets only
 * one thread at a time use an index.
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

/* A row, and where the program continues after it. Marks are kept for the first row of a sequence
 * and for one in many rows. */
struct line_mark {
    uint64_t address;
    uint64_t at; /* offset in the program, bytes */
    uint32_t line, file, column, op_index;
};

/* A run of rows in address order: mostly one function, or all code of a section. */
struct line_sequence {
    size_t first, nr; /* marks */
    bool ordered;     /* addresses ascend, as they should */
};

struct line_program {
    struct cursor c;         /* the program */
    struct dwarf_unit forms; /* the unit, with the line table's own sizes, for reading forms */
    uint8_t min_length, max_ops, line_range, opcode_base;
    int8_t line_base;
    const uint8_t *opcode_lengths;
    uint8_t advance[256];   /* operations, by special opcode */
    int16_t line_step[256]; /* lines, by special opcode */
};

struct line_table {
    struct line_program program;
    VEC(struct line_sequence) sequences;
    VEC(struct line_mark) marks;
    struct segments segments; /* the owners are indexes of sequences */
    VEC(struct line_file) files;
    uint64_t budget; /* bytes of unordered sequences that may still be scanned */
    bool from_zero;  /* file numbers begin at 0 (DWARF 5) */
};

/* Find the sequences of the unit's line program. `low`, `high`: bounds of the code; sequences
 * outside belong to functions that the linker dropped. A damaged program yields the rows before the
 * damage. Returns false when out of memory. */
bool line_table_read(struct line_table *t, const struct dwarf_unit *u, uint64_t low, uint64_t high);
void line_table_free(struct line_table *t);
/* Get the row that covers the address. Returns false when there is none. */
bool line_table_row(struct line_table *t, uint64_t address, struct line_row *ret);
/* Returns the path of a file number, in the form that addr2line writes; NULL: unknown. */
const char *line_table_path(struct line_table *t, const struct dwarf_unit *u, uint32_t file,
                            struct intern *strings);

/* ---- functions --------------------------------------------------------------------------- */

/* A function or an inlined call of a function. */
struct function_node {
    uint32_t parent; /* node it is inlined into; NO_NODE: a real function */
    uint32_t call_file, call_line, call_column; /* position of the call, when inlined */
    uint64_t die;                               /* offset in SEC_INFO */
    const char *name;                           /* as shown; made at first need */
};

/* One function with all calls that are inlined into it. */
struct function_tree {
    VEC(struct function_node) nodes;
    struct segments segments; /* the owners are indexes of nodes */
};

struct unit_function {
    uint64_t die;
    struct function_tree *tree; /* NULL: not read yet */
};

struct unit_index {
    struct dwarf_unit *entries; /* the unit whose entries describe the code */
    const struct dwarf_unit *lines_of;
    uint64_t low, high; /* bounds of the code */
    struct line_table lines;
    bool has_lines; /* `lines` has been read */
    VEC(struct unit_function) functions;
    struct segments segments;         /* the owners are indexes of functions */
    bool walked;                      /* functions have been looked for */
    bool jumped;                      /* the walk skipped the inside of functions */
    uint64_t budget;                  /* bytes of entries that may still be read for trees */
    VEC(struct segment_range) ranges; /* of the current walk; the memory is reused */
    VEC(uint32_t) parents;            /* the parent node of each open entry */
};

/* Create an index; this reads nothing yet. `entries`: the unit whose entries describe the code of
 * `lines_of` (`lines_of` itself, or its split unit). NULL: out of memory. */
struct unit_index *unit_index_create(struct dwarf_unit *entries, const struct dwarf_unit *lines_of,
                                     uint64_t low, uint64_t high);
void unit_index_free(struct unit_index *x);

/* Returns the unit's lines; the table is empty when the unit has none, or when out of memory. */
struct line_table *unit_index_lines(struct unit_index *x);
/* Returns the function that has code at the address; NULL: none, or out of memory. */
struct function_tree *unit_index_tree(struct unit_index *x, uint64_t address);

#endif
