/* SPDX-License-Identifier: GPL-2.0-only */
/* The records of samples of allocations, as they are written into a recording (perfdata/alloc.h).
 */
#ifndef LIVE_ALLOC_RECORD_H
#define LIVE_ALLOC_RECORD_H

#include "perfdata/alloc.h"
#include "perfdata/trim.h"

#include <stdint.h>

enum { ALLOC_HEAD = 8 * 9 }; /* bytes of a record up to the user's registers */

struct alloc_form {
    struct perf_event_attr ring; /* as the kernel writes records */
    struct perf_event_attr attr; /* as they are written into the recording */
    uint8_t head[ALLOC_HEAD];
    uint64_t size; /* of the last sample: what its call asked for */
};

/* Set both attributes, for samples with the stacks that samples of `first` have. */
void alloc_form_set(struct alloc_form *f, const struct perf_event_attr *first);

/* Returns the id under which samples of a kind are written, if it is not ALLOC_MALLOC: they come
 * through that event. */
uint64_t alloc_form_id(enum alloc_kind kind);

/* Give a sample its form. `record`: as the kernel wrote it, with a struct alloc_sample as payload.
 * `s` becomes its parse, of the event `event`, and `t` describes what is to be written, which
 * partly lies in `f` until the next call. Returns 1; 0: `event` is another event; -1: the record is
 * damaged. */
int alloc_form_sample(struct alloc_form *f, const struct perfdata_event *event,
                      const struct perf_event_header *record, struct sample *s, struct trimmed *t);

#endif
