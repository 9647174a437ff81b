/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/trace.h"

void trace_tell(const struct unwind_trace *trace, enum trace_kind kind, size_t frame,
                const char *text, uint64_t value, uint64_t second)
{
    const struct trace_event e = {
        .kind = kind, .text = text, .value = value, .second = second, .frame = frame};
    trace->event(trace->context, &e);
}

void trace_tell_mark(const struct unwind_trace *trace, size_t frame, enum provenance provenance,
                     const char *text, uint64_t value)
{
    const struct trace_event e = {
        .kind = TRACE_MARK, .provenance = provenance, .text = text, .value = value, .frame = frame};
    trace->event(trace->context, &e);
}
