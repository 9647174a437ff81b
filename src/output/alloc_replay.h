/* SPDX-License-Identifier: GPL-2.0-only */
/* What `ljperf alloc-replay` shows: a trace under several allocators. */
#ifndef OUTPUT_ALLOC_REPLAY_H
#define OUTPUT_ALLOC_REPLAY_H

#include "alloc/replay.h"
#include "base/text.h"
#include "output/json.h"

struct alloc_comparison {
    const char *path; /* of the trace */
    const struct alloc_trace *trace;
    const struct alloc_plan *plan;
    const struct alloc_outcome *outcomes;
    size_t nr;
    unsigned repeat;
};

/* Append what a trace has, and what it lacks: lines that begin with "#". Its calls have been read.
 */
void alloc_put_trace(const char *path, const struct alloc_trace *t, struct text *out);
/* Append that, and a table with a row for each allocator: 80 columns. */
void alloc_put_table(const struct alloc_comparison *c, struct text *out);
/* Write all numbers as one value. */
void alloc_put_json(const struct alloc_comparison *c, struct json *j);
/* Append an SVG: the memory of each allocator, and what was requested, over the calls. */
void alloc_put_plot(const struct alloc_comparison *c, struct text *out);

#endif
