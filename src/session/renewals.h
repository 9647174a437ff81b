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

enum renewal_kind {
    RENEWAL_DATA, /* to be read and written */
    RENEWAL_SHUT, /* not both, and no code */
    RENEWAL_CODE,
};

struct renewal {
    uint64_t time, from, to;
    uint32_t pid;
    uint32_t kind;             /* enum renewal_kind */
    uint64_t new_from, new_to; /* what of it was not mapped before: set by renewals_seal() */
};

/* One that touches a granule of memory, which is so much of an address; see renewals.c. */
struct renewal_place {
    uint64_t granule;
    uint32_t pid, index; /* in `all`, which is in order of time */
};

/* Zeroed: empty. */
struct renewals {
    VEC(struct renewal) all;
    VEC(struct renewal) flips;        /* of data to code; until sealed */
    VEC(struct renewal_place) places; /* in order */
    struct table
        code;  /* places that are code now and then: LuaJIT flips their rights all the time */
    bool full; /* not all are noted */
};

void renewals_free(struct renewals *r);
/* A mapping without a file, in any order of time. False: memory is out. */
bool renewals_add(struct renewals *r, const struct renewal *n);
/*
 * All are added. What is mapped, or has its rights changed, right beside mappings with the same
 * rights is told as one with them, as the kernel makes one of them: where they are known, and what
 * is between or beside them is a MiB at most, only that is new. (LuaJIT's code, beside its heap,
 * becomes writable and executable again all the time.) False: memory is out.
 */
bool renewals_seal(struct renewals *r);
/* Whether a byte of [from, to) of the process was mapped anew after `after` and up to `until`, as
 * far as is known; true where that is not known. */
bool renewals_between(const struct renewals *r, uint32_t pid, uint64_t from, uint64_t to,
                      uint64_t after, uint64_t until);

#endif
