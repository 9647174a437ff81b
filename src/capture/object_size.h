/* SPDX-License-Identifier: GPL-2.0-only */
/* How large a LuaJIT object is, by its header: to log it whole. */
#ifndef CAPTURE_OBJECT_SIZE_H
#define CAPTURE_OBJECT_SIZE_H

#include "capture/lua_scan.h"
#include "unwind/luajit/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OBJECT_MAX = 1 << 20 }; /* bytes; what claims to be larger is none */

/* How a process is read; false: it cannot be. */
struct object_reader {
    bool (*read)(void *context, uint64_t address, void *to, size_t size);
    void *context;
};

/* Bytes of the object that begins at `address`, if its type byte says a kind that does not change
 * while it lives: string, prototype (with bytecode, constants, line information: one block),
 * function, trace (with its snapshots and their map: one block). 0: none of these, or it cannot be
 * read. The header is believed as it stands: the caller logs bytes, it does not interpret them. */
uint64_t object_size(const struct object_reader *r, const struct luajit_layout *layout,
                     uint64_t address);

/* Whether two readings of an object are of the same contents: the collector's own fields (the lists
 * an object hangs in, its mark), a trace's counters and what is patched in bytecode do not count.
 * Both have `size` bytes: object_size()'s, or those of its head. */
bool object_same(const struct luajit_layout *layout, const uint8_t *a, const uint8_t *b,
                 size_t size);

/* What belongs to an object and stands elsewhere: a trace's machine code. */
struct object_extra {
    uint64_t address;
    uint32_t length;
};
bool object_extra(const struct luajit_layout *layout, const uint8_t *bytes, size_t size,
                  struct object_extra *ret);

#endif
