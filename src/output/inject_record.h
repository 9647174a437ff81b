/* SPDX-License-Identifier: GPL-2.0-only */
/* Writes the records of a recording whose samples have callchains instead of registers and
 * stacks. */
#ifndef OUTPUT_INJECT_RECORD_H
#define OUTPUT_INJECT_RECORD_H

#include "base/text.h"
#include "output/inject_image.h"
#include "perfdata/perfdata.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INJECT_RECORD_MAX = UINT16_MAX & ~7 }; /* bytes; records consist of whole 8-byte words */

/* Returns whether the event belongs to ljperf's own copier: its samples are not samples of the
 * program. */
bool inject_event_is_own(const struct perfdata_event *e);
/* Returns the event's attributes as the rewritten samples need them. */
struct perf_event_attr inject_attr(const struct perf_event_attr *from);

/* Append the sample as a record of inject_attr()'s layout. Its callchain is `chain` (contexts
 * included), cut to the entries that fit. Returns the number of entries written. *ret_chain_at and
 * *ret_ip_at are the offsets of the first entry and of the sample's own address in the record; 0:
 * there is none. */
size_t inject_put_sample(struct text *t, const struct sample *s, const uint64_t *chain, size_t nr,
                         size_t *ret_chain_at, size_t *ret_ip_at);

/* Append an MMAP2 record that maps an image into a process. `when` is the process and time of the
 * sample; `event` is the sample's event as recorded. */
struct inject_moment {
    uint32_t pid, tid, cpu;
    uint64_t time;
};
void inject_put_map(struct text *t, const struct inject_image *image,
                    const struct inject_moment *when, const struct perfdata_event *event);

#endif
