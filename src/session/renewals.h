/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When memory without a file was mapped: what was read there afterwards says nothing of what stood
 * there before. (A VM that is closed gives its memory back; the next one often gets the same.)
 */
#ifndef SESSION_RENEWALS_H
#define SESSION_RENEWALS_H

#include "base/vec.h"
#include "session/table.h"

#include <stdbool.h>
#include <stdint.h>

struct renewal {
    uint64_t time, from, to;
    uint32_t pid;
    uint64_t new_from, new_to; /* what of it was not mapped before: set by renewals_settle() */
};

/* Zeroed: empty. */
/* One that touches a granule of memory, which is so much of an address; see renewals.c. */
struct renewal_place {
    uint64_t granule;
    uint32_t pid, index; /* in `all`, which is in order of time */
};

struct renewals {
    VEC(struct renewal) all;
    VEC(struct renewal_place) places; /* in order */
    struct table
        code;  /* places that are code now and then: LuaJIT flips their rights all the time */
    bool full; /* not all are noted */
};

void renewals_free(struct renewals *r);
/* A mapping without a file, in any order of time; `executable`: of code. False: memory is out. */
bool renewals_add(struct renewals *r, const struct renewal *n, bool executable);
/* All are added. A mapping that grows at one end, by a MiB at most, is told whole, as the kernel
 * makes one of the two: only what it grew by is new. False: memory is out. */
bool renewals_settle(struct renewals *r);
/* Whether a byte of [from, to) of the process was mapped anew after `after` and up to `until`, as
 * far as is known; true where that is not known. */
bool renewals_between(const struct renewals *r, uint32_t pid, uint64_t from, uint64_t to,
                      uint64_t after, uint64_t until);

#endif
