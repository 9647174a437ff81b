/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A copy of the memory that a process has written, taken at once. The process stands still while
 * it is copied, and goes on while somebody looks at the copy.
 */
#ifndef LIVE_MEMORY_COPY_H
#define LIVE_MEMORY_COPY_H

#include "live/lua_scan.h"

struct memory_copied {
    uint64_t start, size; /* in the process */
    uint64_t at;          /* in the copy's bytes */
};

struct memory_copy {
    VEC(struct memory_copied) ranges; /* by address, without overlaps */
    uint8_t *bytes;
    uint64_t size, reserved;
};

/* Copy all private memory of a process that was ever written: what is writable, and what is of no
 * file, such as generated code and stacks. What cannot be read is left
 * out. `most`: bytes; a process that has more is refused, and the error says how many it has. The
 * memory of an earlier copy in `ret` is used again. */
int memory_copy_take(struct memory_copy *ret, pid_t pid, const struct process_memory *from,
                     uint64_t most, struct error *err);
void memory_copy_free(struct memory_copy *c);
/* The copy as a layer; its bytes are of one moment, so they count as exact. Valid as long as the
 * copy. */
struct memory_layer memory_copy_layer(struct memory_copy *c);

#endif
