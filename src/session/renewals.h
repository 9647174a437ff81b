/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When memory without a file was mapped. Bytes that were read there afterwards say nothing about
 * the bytes before. (A VM that is closed gives its memory back; the next VM often gets the same
 * memory.)
 */
#ifndef SESSION_RENEWALS_H
#define SESSION_RENEWALS_H

#include "base/vec.h"
#include "base/table.h"

#include <stdbool.h>
#include <stdint.h>

enum renewal_kind {
    RENEWAL_DATA, /* readable and writable */
    RENEWAL_SHUT, /* not both, and not executable */
    RENEWAL_CODE,
};

struct renewal {
    uint64_t time, from, to;
    uint32_t pid;
    uint32_t kind;             /* enum renewal_kind */
    uint64_t new_from, new_to; /* the part that was not mapped before: set by renewals_seal() */
};

/* A renewal that touches a granule of memory. A granule is the upper part of an address; see
 * renewals.c. */
struct renewal_place {
    uint64_t granule;
    uint32_t pid, index; /* in `all`, which is in order of time */
};

/* Zeroed: empty. */
struct renewals {
    VEC(struct renewal) all;
    VEC(struct renewal) flips;        /* changes of data to code; emptied when sealed */
    VEC(struct renewal_place) places; /* sorted */
    /* Places that are code at times: LuaJIT changes their protection all the time. */
    struct table code;
    bool full; /* not all renewals are noted */
};

void renewals_free(struct renewals *r);
/* Add a mapping without a file. Times may come in any order. Returns false when out of memory. */
bool renewals_add(struct renewals *r, const struct renewal *n);
/*
 * To be called when all renewals are added. If memory is mapped, or its protection changes, right
 * beside mappings with the same protection, the kernel merges all of them, and one record covers
 * them together. If those neighbours are known, and the rest between or beside them is at most 1
 * MiB, only the rest is new. (LuaJIT's code, which is beside its heap, becomes writable and
 * executable again all the time.) Returns false when out of memory.
 */
bool renewals_seal(struct renewals *r);
/* Returns whether a byte of [from, to) of the process was mapped anew after `after` and up to
 * `until`, as far as is known; true if that is not known. */
bool renewals_between(const struct renewals *r, uint32_t pid, uint64_t from, uint64_t to,
                      uint64_t after, uint64_t until);

#endif
