/* SPDX-License-Identifier: GPL-2.0-only */
/* A plain Lua heap that is being listed. Private to the census of unwind/lua. */
#ifndef UNWIND_LUA_CENSUS_INTERNAL_H
#define UNWIND_LUA_CENSUS_INTERNAL_H

#include "base/table.h"
#include "unwind/lua/census.h"
#include "unwind/lua/table.h"

struct lua_heap {
    struct lua_reader r;
    const struct lua_fields *f;
    unsigned version;
    uint64_t g, main;
    uint64_t registry; /* a table; 0: not found */
    /* The one node that all tables without nodes share, which is no memory of theirs; 0: not
     * known, because no two tables have none. */
    uint64_t no_nodes;
    struct table upvalues; /* 5.3: those that were told */
    VEC(uint64_t) fixed;   /* objects that are never collected: words of the language */
    struct census_names names;
};

/* Read bytes as they are. Returns false if they are not there. */
bool lua_heap_read(struct lua_heap *h, uint64_t address, void *to, size_t size);
/* Returns a word; 0: it is not there. */
uint64_t lua_heap_word(struct lua_heap *h, uint64_t address);
uint8_t lua_heap_byte(struct lua_heap *h, uint64_t address);
/* Read a TValue. Returns false: it is not there. */
bool lua_heap_value(struct lua_heap *h, uint64_t address, struct lua_value *ret);

/* See struct census_heap (census_text.c). */
void lua_heap_describe(void *heap, const struct census_object *o, struct text *out);
bool lua_heap_upvalue(void *heap, uint64_t closure, unsigned number, struct text *out);
bool lua_heap_string(void *heap, uint64_t address, size_t max, struct text *out);

#endif
