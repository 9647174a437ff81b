/* SPDX-License-Identifier: GPL-2.0-only */
/* Samples without the stale part of their stack copies. */
#ifndef PERFDATA_TRIM_H
#define PERFDATA_TRIM_H

#include "perfdata/perfdata.h"

#include <sys/uio.h>

enum { TRIM_PARTS = 8 };

/* A record put together from parts of a record in a ring and a few words of its own. */
struct trimmed {
    struct perf_event_header header;
    uint64_t kept; /* bytes of the stack copy that stay */
    struct iovec parts[TRIM_PARTS];
    int nr;
};

/*
 * Describe the sample `record` (whole, in our byte order; `s`: its parse by perfdata_sample_parse)
 * without the part of its stack copy behind the dynamic size. Nothing is copied or changed, because
 * the kernel lets nobody write into a ring. `ret` points to itself and into the record.
 *
 * The part that stays is a multiple of 8 bytes, padded with zeros. It is larger than the dynamic
 * size if the copy was larger: a reader still sees whether the stack ended or the copy did.
 */
void sample_trim(const struct perf_event_header *record, const struct sample *s,
                 struct trimmed *ret);

/* Put `size` bytes of `head`, which begin with the record's header, in place of its first `bytes`
 * bytes. The header in it must tell the whole size. */
void trimmed_replace_front(struct trimmed *t, size_t bytes, void *head, size_t size);

#endif
