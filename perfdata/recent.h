/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The newest part of a recording that arrives through a pipe, as a recording of its own. It keeps
 * the samples of the last seconds. It keeps all that samples need of the time before: the header,
 * the records of processes and mappings, and the memory log.
 */
#ifndef PERFDATA_RECENT_H
#define PERFDATA_RECENT_H

#include "base/error.h"
#include "perfdata/perfdata.h"

#include <stddef.h>
#include <stdint.h>

struct recent;

/* `pd` is open with the options raw, unordered and keep_whole, and is of this machine's byte order.
 * Samples are kept for `span_ns`, or for less if they would take more than `max_bytes`. Returns
 * NULL when memory is out. */
struct recent *recent_create(const struct perfdata *pd, uint64_t span_ns, size_t max_bytes);
void recent_free(struct recent *r);

/* Take the next record. Returns -1 when memory is out. */
int recent_take(struct recent *r, const struct record *rec, struct error *err);

struct recent_state {
    uint64_t newest; /* time of the newest sample, ns; 0: there was none */
    uint64_t oldest; /* samples from this time on are there, ns; 0: all that were taken */
    size_t bytes;    /* of the samples, and of what came between them */
    size_t kept;     /* of what is kept for good */
};
struct recent_state recent_state(const struct recent *r);

/* Returns how many samples and records were lost from time `from` on, as far as that was told. */
uint64_t recent_lost(const struct recent *r, uint64_t from);

/* Write the recording, in the pipe's form, with the samples from time `from` to `until`, both
 * included, to an empty file that is open for writing. Returns -1 if that fails; `err` does not
 * name the file. */
int recent_write(const struct recent *r, uint64_t from, uint64_t until, int fd, struct error *err);

#endif
