/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many bytes an object has, by its head. Sources: lj_obj.h and the allocating functions of each
 * type (lj_str.c, lj_tab.c, lj_func.c, lj_trace.c, lj_udata.c, lj_cdata.c). For unwind/luajit and
 * whoever keeps objects whole.
 */
#ifndef UNWIND_LUAJIT_SIZE_H
#define UNWIND_LUAJIT_SIZE_H

#include "unwind/luajit/layout.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    LUAJIT_HEAD = 128,          /* bytes of a head at most, of any kind of object */
    LUAJIT_TRACE_MAX = 1 << 20, /* bytes of a trace; whatever claims to be larger is none */
};

/* Whether the fields that these functions use are known, and in a head of LUAJIT_HEAD bytes: those
 * of strings, functions, prototypes and traces; those of tables, userdata and upvalues. */
bool luajit_sizes_known(const struct luajit_layout *l);
bool luajit_tables_known(const struct luajit_layout *l);

/* `head`: the object's first LUAJIT_HEAD bytes, as far as the type has so many. They return 0 for a
 * malformed object. */

/* A function, with its upvalues' references or values. */
uint64_t luajit_function_size(const struct luajit_layout *l, const uint8_t *head);
/* A prototype, which is one block: its constants are in it, behind the bytecode. */
uint64_t luajit_proto_size(const struct luajit_layout *l, uint64_t address, const uint8_t *head);
/* A trace, which is one block, too: head, instructions, snapshots, their map. */
uint64_t luajit_trace_size(const struct luajit_layout *l, uint64_t address, const uint8_t *head);

/* A trace's snapshots and their map, which are the last parts of it. */
struct luajit_snapshots {
    uint64_t bytes, map_bytes;
    uint32_t each; /* bytes of one snapshot; 0: malformed */
};
struct luajit_snapshots luajit_snapshots_of(const struct luajit_layout *l, const uint8_t *head);

/* A string, as it is allocated. */
uint64_t luajit_string_bytes(const struct luajit_layout *l, uint32_t length);
/* An upvalue. */
uint64_t luajit_upvalue_bytes(const struct luajit_layout *l);

/* The used fields of a table. */
struct luajit_table {
    uint64_t array, nodes, metatable;
    uint32_t asize,
        nr_nodes;  /* slots; a table without a hash part has one node, which is the VM's */
    uint64_t size; /* with its two parts */
};
/* Returns false for a malformed one. */
bool luajit_table_of(const struct luajit_layout *l, const uint8_t *head, struct luajit_table *ret);

/* Where a userdata's own data begins, and a cdata's value: offsets. */
uint64_t luajit_userdata_data(const struct luajit_layout *l);
uint64_t luajit_cdata_data(const struct luajit_layout *l);

/* A userdata. */
struct luajit_userdata {
    uint64_t metatable, environment, size;
};
struct luajit_userdata luajit_userdata_of(const struct luajit_layout *l, const uint8_t *head);

#endif
