/* SPDX-License-Identifier: GPL-2.0-only */
/* The records of a recording whose samples have callchains in place of registers and stacks. */
#ifndef OUTPUT_INJECT_RECORD_H
#define OUTPUT_INJECT_RECORD_H

#include "base/text.h"
#include "output/inject_image.h"
#include "perfdata/perfdata.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INJECT_RECORD_MAX = UINT16_MAX & ~7 }; /* bytes; records are whole words */

/* Whether the event is of ljperf's own copier, whose samples are no samples of the program. */
bool inject_event_is_own(const struct perfdata_event *e);
/* The event as its new samples are. */
struct perf_event_attr inject_attr(const struct perf_event_attr *from);

/* Append the sample as a record of inject_attr()'s layout, with `chain` (contexts included) for a
 * callchain, as many of its entries as fit. Returns how many; *ret_chain_at and *ret_ip_at: where
 * the first, and the sample's own address, stand in the record; 0: there is none. */
size_t inject_put_sample(struct text *t, const struct sample *s, const uint64_t *chain, size_t nr,
                         size_t *ret_chain_at, size_t *ret_ip_at);

/* Append an MMAP2 of an image into a process, as of the sample (its event is `event`, as recorded).
 */
struct inject_moment {
    uint32_t pid, tid, cpu;
    uint64_t time;
};
void inject_put_map(struct text *t, const struct inject_image *image,
                    const struct inject_moment *when, const struct perfdata_event *event);

#endif
