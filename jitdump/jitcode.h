/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the readers of jitdump/. A jitcode is filled with loads, then indexed once. */
#ifndef JITDUMP_JITCODE_H
#define JITDUMP_JITCODE_H

#include "base/vec.h"
#include "jitdump/jitdump.h"

#include <stdatomic.h>

/* DEBUG_INFO of a function, as it stands in the file. The first thread that asks for its rows makes
 * the sorted rows. */
struct jit_rows;
struct jit_lines {
    const uint8_t *bytes;
    size_t size;
    uint64_t count;
    uint64_t base; /* address of the function's start as the rows count it */
    bool swap;
    struct jit_lines *next; /* list of all of a jitcode's lines, for freeing */
    _Atomic(struct jit_rows *) rows;
};
void jit_lines_free(struct jit_lines *l);

/* What happens at a time. JIT_LOAD: a function is loaded. JIT_MOVE: a function is moved; it is
 * filled in once the function at `old` is known. JIT_FLUSH: all functions end; `function` is the
 * number that the next load will have. */
enum jit_event { JIT_LOAD, JIT_MOVE, JIT_FLUSH };
struct jit_load {
    uint64_t time;
    uint64_t old;
    uint32_t function;
    enum jit_event event;
};

/* The records of the LuaJIT agent (lua.c). */
struct jit_lua;
struct cursor;
enum { LUA_LAYOUT = 0x4c4a00, LUA_FUNCTION, LUA_TRACE, LUA_STUBS, LUA_FLUSH };

/* A piece of a function's code, over the times [from, until), between bounds lo and hi. */
struct jit_piece {
    uint64_t from, until;
    uint32_t function, lo, hi;
};

struct jitcode {
    void *map; /* the mapped file; NULL: not kept */
    size_t map_size;
    char *names; /* names of a perf map's functions */
    VEC(struct jit_function) functions;
    VEC(struct jit_load) loads;
    struct jit_lines *lines;
    struct jit_lua *lua; /* NULL: the file has no such records */
    struct jit_loss loss;
    uint64_t first, last;
    uint32_t pid, owner;
    bool tsc, timeless, swapped;
    uint32_t machine; /* e_machine; 0: the file does not say */

    /* The index: a segment tree over the addresses between neighbouring bounds. The pieces of node
     * n have the numbers node_pieces[first_piece[n]] up to first_piece[n + 1]. They are in
     * ascending time order and never overlap in time. */
    uint64_t *bounds;
    size_t nr_segments;
    VEC(struct jit_piece) pieces;
    uint32_t *first_piece, *node_pieces;
};

struct jitcode *jitcode_create(void);
/* Add a function at [start, start + size), which must not wrap, loaded at `time`. Returns NULL when
 * out of memory or there are too many functions. */
enum { FUNCTIONS_MAX = 1 << 24 };
struct jit_function *jitcode_add(struct jitcode *code, uint64_t start, uint64_t size, uint64_t time,
                                 struct error *err);
/* End all loaded functions at `time`. */
int jitcode_flush(struct jitcode *code, uint64_t time, struct error *err);
/* Sort the loads by time, end functions that later loads overwrite, and build the index. Nothing
 * may be added afterwards. */
int jitcode_index_build(struct jitcode *code, struct error *err);

/* Read one record with an id from LUA_LAYOUT to LUA_STUBS, without its prefix. *ret_good: false if
 * the record is malformed. */
int jit_lua_read(struct jitcode *code, uint32_t id, const struct cursor *record, bool *ret_good,
                 struct error *err);
/* Returns the last recorded trace if it has code `index`, else NULL. */
const void *jit_lua_take(struct jitcode *code, uint64_t index);
/* Build the index of the Lua functions. Call it when all records are read. */
int jit_lua_index(struct jitcode *code, struct error *err);
void jit_lua_free(struct jit_lua *lua);

/* Open a regular file for reading. Returns a descriptor that the caller closes, or -1. */
int jit_file_open(const char *path, struct error *err);
/* Map an open file, called `path` in messages; NULL: it is empty. Given back by file_unmap(). */
int jit_file_map(int fd, const char *path, void **bytes, size_t *size, struct error *err);

#endif
