/* SPDX-License-Identifier: GPL-2.0-only */
/* The feature sections that describe the machine and the recording, as perf record writes them. */
#ifndef RECORD_HEADER_H
#define RECORD_HEADER_H

#include "record/options.h"
#include "perfdata/features.h"
#include "perfdata/perfdata.h"

/* Write everything that is known before the first record: machine, command line, clock. Values that
 * the machine does not provide are left out. */
int header_write_start(struct perfdata_writer *w, const struct record_options *o,
                       struct error *err);
/* Write SAMPLE_TIME: the times of the first and last sample, ns. */
int header_write_times(struct perfdata_writer *w, uint64_t first, uint64_t last, struct error *err);
/* Write TRACING_DATA: the formats of the recorded tracepoints, from tracefs (tracing.c). Writes
 * nothing when there are no tracepoints. */
int header_write_tracing(struct perfdata_writer *w, const struct record_options *o,
                         struct error *err);

#endif
