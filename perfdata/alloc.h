/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Samples of allocations of memory (`record --alloc`).
 *
 * Each kind is an event of its own. A sample's period is the number of bytes that it stands for,
 * its weight (PERF_SAMPLE_WEIGHT) the bytes that the call asked for, and its address a number of
 * this allocation. If the block is freed while the recording runs, an event `ljperf:vmstack` says
 * so (VMEVENT_FREED), by that number.
 */
#ifndef PERFDATA_ALLOC_H
#define PERFDATA_ALLOC_H

#include "perfdata/perfdata.h"

#include <stdbool.h>
#include <stdint.h>

/* In place of an allocation's number: from then on neither allocations nor frees are recorded. */
#define ALLOC_SERIAL_END (UINT64_MAX - 1)
/* (A number of another kind than malloc, all of whose blocks are followed, has the bit
 * VMEVENT_FOLLOWED if a free would be recorded.) */

/* The numbers are in the cookies of probes only; recordings have the names. */
enum alloc_kind {
    ALLOC_MALLOC,      /* malloc and its family; operator new; their frees are seen, too */
    ALLOC_JS,          /* V8's heap: areas that were used up by new objects, and large objects */
    ALLOC_JS_EXTERNAL, /* memory outside of V8's heap that its objects own: buffers */
    /* Only now and then, for some ms: what was seen then. Its shares tell who allocates, its sum
     * nothing. */
    ALLOC_LUA,       /* by an allocator that a LuaJIT calls */
    ALLOC_BURSTS,    /* ALLOC_MALLOC, where that would cost too much */
    ALLOC_JS_BURSTS, /* ALLOC_JS, where that would cost too much */
    ALLOC_KINDS,
};

/* Returns the name of the event; static. */
const char *alloc_event_name(enum alloc_kind kind);
/* Get the kind of an event. Returns false if it is no event of allocations. */
bool perfdata_alloc_kind(const struct perfdata_event *event, enum alloc_kind *ret);

/* Whether a free of this sample's block is recorded. */
bool alloc_is_followed(const struct sample *s, enum alloc_kind kind);

/* Returns how many bytes a sampled call stands for that asked for `size` bytes, where a byte is
 * sampled with the probability 1 / mean: the size, divided by 1 - exp(-size / mean). */
uint64_t alloc_weight(uint64_t size, uint64_t mean);

/* Returns how many calls a sample stands for. They are a whole number: which one of the two next to
 * the exact one is decided by the allocation's number, such that sums are right. 0: the sample does
 * not tell. */
uint64_t alloc_objects(const struct sample *s);

#endif
