/* SPDX-License-Identifier: GPL-2.0-only */
/* Samples without the stale part of their stack copies. */
#ifndef CAPTURE_TRIM_H
#define CAPTURE_TRIM_H

#include "perfdata/perfdata.h"

#include <sys/uio.h>

enum { TRIM_PARTS = 6 };

/* A record put together from what stands in a ring and a few words of its own. */
struct trimmed {
    struct perf_event_header header;
    uint64_t kept; /* bytes of the stack copy that stay */
    struct iovec parts[TRIM_PARTS];
    int nr;
};

/*
 * The sample `record` (whole, in our byte order, `s` its parse by perfdata_sample_parse) without
 * what its stack copy holds behind the dynamic size. Nothing is copied or changed: the kernel lets
 * nobody write into a ring. `ret` points to itself and into the record.
 *
 * What stays is a multiple of 8 bytes, filled up with zeros, and larger than the dynamic size where
 * the copy was: so a reader still sees whether the stack ended or the copy did.
 */
void sample_trim(const struct perf_event_header *record, const struct sample *s,
                 struct trimmed *ret);

#endif
