/* SPDX-License-Identifier: GPL-2.0-only */
/* The feature sections that tell of the machine and the recording, as perf record writes them. */
#ifndef CAPTURE_HEADER_H
#define CAPTURE_HEADER_H

#include "capture/options.h"
#include "perfdata/perfdata_internal.h" /* numbers of the feature sections */

/* Everything known before the first record: machine, command line, clock. What the machine does
 * not tell is left out. */
int header_write_start(struct perfdata_writer *w, const struct record_options *o,
                       struct error *err);
/* SAMPLE_TIME: ns of the first and last sample. */
int header_write_times(struct perfdata_writer *w, uint64_t first, uint64_t last, struct error *err);
/* TRACING_DATA: the formats of the recorded tracepoints, from tracefs (tracing.c). Nothing when
 * there are none. */
int header_write_tracing(struct perfdata_writer *w, const struct record_options *o,
                         struct error *err);

#endif
