/* SPDX-License-Identifier: GPL-2.0-only */
/* What the readers of jitdump/ share: a jitcode is filled with loads, then indexed once. */
#ifndef JITDUMP_JITCODE_H
#define JITDUMP_JITCODE_H

#include "base/vec.h"
#include "jitdump/jitdump.h"

#include <stdatomic.h>

/* DEBUG_INFO of a function, as it stands in the file; its sorted rows are made when first asked
 * for, by whichever thread comes first. */
struct jit_rows;
struct jit_lines {
    const uint8_t *bytes;
    size_t size;
    uint64_t count;
    uint64_t base; /* address of the function's start in the rows' terms */
    bool swap;
    struct jit_lines *next; /* all of a jitcode's, for freeing */
    _Atomic(struct jit_rows *) rows;
};
void jit_lines_free(struct jit_lines *l);

/* What happens at a time: a load; a move, then the function is filled in when what stood at `old`
 * is known; or all that is there ends, then `function` is the number the next load will have. */
enum jit_event { JIT_LOAD, JIT_MOVE, JIT_FLUSH };
struct jit_load {
    uint64_t time;
    uint64_t old;
    uint32_t function;
    enum jit_event event;
};

/* The LuaJIT agent's records (lua.c). */
struct jit_lua;
struct cursor;
enum { LUA_LAYOUT = 0x4c4a00, LUA_FUNCTION, LUA_TRACE, LUA_STUBS, LUA_FLUSH };

/* A piece of a function's code, over [from, until), between bounds lo and hi. */
struct jit_piece {
    uint64_t from, until;
    uint32_t function, lo, hi;
};

struct jitcode {
    void *map; /* the file, mapped; NULL: not kept */
    size_t map_size;
    char *names; /* of a perf map's functions */
    VEC(struct jit_function) functions;
    VEC(struct jit_load) loads;
    struct jit_lines *lines;
    struct jit_lua *lua; /* NULL: there are no such records */
    struct jit_loss loss;
    uint64_t first, last;
    uint32_t pid, owner;
    bool tsc, timeless, swapped;

    /* The index: a segment tree over the addresses between neighbouring bounds. Node n's pieces,
     * ascending by time and never two at once, are numbered by node_pieces[first_piece[n]] up to
     * first_piece[n + 1]. */
    uint64_t *bounds;
    size_t nr_segments;
    VEC(struct jit_piece) pieces;
    uint32_t *first_piece, *node_pieces;
};

struct jitcode *jitcode_create(void);
/* A function of [start, start + size), which must not wrap; its load at `time`. NULL when memory
 * is out or there are too many. */
enum { FUNCTIONS_MAX = 1 << 24 };
struct jit_function *jitcode_add(struct jitcode *code, uint64_t start, uint64_t size, uint64_t time,
                                 struct error *err);
/* Everything that stands ends at `time`. */
int jitcode_flush(struct jitcode *code, uint64_t time, struct error *err);
/* Order the loads in time, end what later ones overwrite, and build the index. Nothing may be
 * added afterwards. */
int jitcode_index_build(struct jitcode *code, struct error *err);

/* One record of ids LUA_LAYOUT to LUA_STUBS, behind its prefix; false in *ret_good: it is
 * malformed. */
int jit_lua_read(struct jitcode *code, uint32_t id, const struct cursor *record, bool *ret_good,
                 struct error *err);
/* The trace that was recorded last, if it is that of code `index`; NULL: it is not. */
const void *jit_lua_take(struct jitcode *code, uint64_t index);
/* All records are read. */
int jit_lua_index(struct jitcode *code, struct error *err);
void jit_lua_free(struct jit_lua *lua);

/* Map a regular file for reading. */
int jit_file_map(const char *path, void **bytes, size_t *size, struct error *err);

#endif
