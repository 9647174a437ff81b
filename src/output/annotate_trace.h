/* SPDX-License-Identifier: GPL-2.0-only */
/* The machine code of LuaJIT's traces, with the weight of each instruction. */
#ifndef OUTPUT_ANNOTATE_TRACE_H
#define OUTPUT_ANNOTATE_TRACE_H

#include "output/annotate.h"

struct annotate_traces;
/* Annotate the traces with this number. There may be several: of several VMs, or compiled at
 * different times. */
int annotate_traces_create(struct replay *r, const struct annotate_options *options,
                           uint32_t number, struct annotate_traces **ret, struct error *err);
void annotate_traces_free(struct annotate_traces *t);
/* The run must have one thread. */
struct replay_sink annotate_traces_sink(struct annotate_traces *t);
/* Print the traces. Call it after the run. It is an error if no sample is in such a trace. */
int annotate_traces_print(struct annotate_traces *t, FILE *out, struct error *err);

#endif
