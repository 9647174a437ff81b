/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which sampled allocations of a recording were freed, and when most of their memory was in use.
 * Private to session/ (recorded_memory.h). All zeros: there are none.
 */
#ifndef SESSION_ALLOCATIONS_H
#define SESSION_ALLOCATIONS_H

#include "base/table.h"
#include "perfdata/alloc.h"
#include "perfdata/perfdata.h"

#include <stdbool.h>
#include <stdint.h>

struct allocation {
    uint64_t serial, time, weight; /* ns, bytes */
    enum alloc_kind kind;
};

struct allocations {
    VEC(struct allocation) all;
    struct table freed; /* serial + 1 -> time + 1, in the pointer's bits */
    /* Process and thread -> last time + 1 at which its V8 knew what is in use (VMEVENT_COLLECTED).
     */
    struct table collected;
    /* Sealed: the first time at which most of a kind is in use, ns. (Kinds are not added up: what
     * V8 has beside its heap is malloc's, too.) */
    uint64_t peaks[ALLOC_KINDS];
};

/* Add a sample, if it is one of an allocation whose free is recorded, too. Returns false when
 * memory is out, as the next ones do. */
bool allocations_take(struct allocations *a, const struct sample *s);
bool allocations_freed(struct allocations *a, uint64_t serial, uint64_t time);
bool allocations_collected(struct allocations *a, uint32_t pid, uint32_t tid, uint64_t time);
bool allocations_seal(struct allocations *a);
void allocations_free(struct allocations *a);

/* Get when a block was freed. Returns false if it was not. */
bool allocations_when_freed(const struct allocations *a, uint64_t serial, uint64_t *ret);
/* Returns up to when it is known whether the blocks of a kind that a thread has allocated are in
 * use, ns. 0: it is not. */
uint64_t allocations_known(const struct allocations *a, enum alloc_kind kind, uint32_t pid,
                           uint32_t tid);

#endif
