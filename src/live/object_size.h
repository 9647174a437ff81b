/* SPDX-License-Identifier: GPL-2.0-only */
/* Find the size of a LuaJIT object from its header, so that the object can be logged whole. */
#ifndef LIVE_OBJECT_SIZE_H
#define LIVE_OBJECT_SIZE_H

#include "live/lua_scan.h"
#include "unwind/luajit/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OBJECT_MAX = 1 << 20 }; /* bytes; whatever claims to be larger is not an object */

/* How to read a process; `read` returns false when the bytes cannot be read. */
struct object_reader {
    bool (*read)(void *context, uint64_t address, void *to, size_t size);
    void *context;
};

/* Returns the size in bytes of the object that begins at `address`, if its type byte names a kind
 * that does not change while it lives: string, prototype (one block with bytecode, constants and
 * line information), function, trace (one block with its snapshots and their map). Returns 0 for
 * other kinds, or if the object cannot be read. The header is trusted: the caller logs the bytes
 * and does not interpret them. */
uint64_t object_size(const struct object_reader *r, const struct luajit_layout *layout,
                     uint64_t address);

/* Whether two readings of an object have the same contents. The collector's own fields (the links
 * of lists of objects, the mark), a trace's counters and patched bytecode are ignored. Both
 * readings have `size` bytes: object_size()'s, or those of the object's head. */
bool object_same(const struct luajit_layout *layout, const uint8_t *a, const uint8_t *b,
                 size_t size);

/* Memory that belongs to an object but lies elsewhere: a trace's machine code. */
struct object_extra {
    uint64_t address;
    uint32_t length;
};
bool object_extra(const struct luajit_layout *layout, const uint8_t *bytes, size_t size,
                  struct object_extra *ret);

#endif
