/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads tables of a plain Lua. A program changes them all the time: whoever lists one of a running
 * process may see parts of several states, and each loop is bounded. Private to unwind/lua.
 */
#ifndef UNWIND_LUA_TABLE_H
#define UNWIND_LUA_TABLE_H

#include "unwind/lua/object.h"

struct lua_table {
    uint64_t address, array, nodes, metatable;
    uint32_t nr_array, nr_nodes; /* places, of which some are empty */
    uint32_t head_size;          /* bytes of the table without its parts */
};

/* Returns false if there is no table at the address, or its memory is not recorded. */
bool lua_table_read(struct lua_reader *r, uint64_t address, struct lua_table *ret);

/* Where a listing of a table stands. */
struct lua_table_walk {
    struct lua_table table;
    uint32_t next;      /* place: first those of the array, then the nodes */
    uint32_t first, nr; /* places that are in `bytes`, of one of the two parts */
    uint8_t bytes[1024];
};

void lua_table_begin(struct lua_table_walk *w, const struct lua_table *t);
/* Get the next field that is not empty, in the order of memory. The key of the array's n-th place
 * is the number n, with the tag LUA_TAG_INDEX. Returns false at the end, or if memory is not
 * recorded. */
enum { LUA_TAG_INDEX = 0x103 };
bool lua_table_next(struct lua_reader *r, struct lua_table_walk *w, struct lua_value *key,
                    struct lua_value *value);

/* Returns whether a value is a string, and if so whether it has this text. */
bool lua_value_is_text(struct lua_reader *r, struct lua_value v, const char *text);
/* Returns whether a value is a table. */
static inline bool lua_value_is_table(struct lua_value v)
{
    return (v.tag & 0xf) == LUA_TTABLE && v.tag < LUA_TAG_INDEX;
}

/* Find a field by name, among the first `nodes_max` places. Returns false if it is not there. */
bool lua_table_find(struct lua_reader *r, uint64_t table, const char *name, uint32_t nodes_max,
                    struct lua_value *ret);
/* Returns the address of the name (a string) under which a table has another table, among the first
 * `nodes_max` places; 0: there is none. */
uint64_t lua_table_name_of(struct lua_reader *r, uint64_t table, uint64_t of, uint32_t nodes_max);

#endif
