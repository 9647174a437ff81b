/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a walk decides and why, told to somebody who asks (unwind_input.trace). Only unwind() tells
 * it: inputs of unwind_batch(), the ordinary walks, must have no trace, and pay nothing for it.
 *
 * A walk goes from machine frame to machine frame. For each it tells, in this order: TRACE_FRAME;
 * then what was tried, taken and marked; then TRACE_NEXT, or the walk's end. One machine frame may
 * give several frames of the output (functions inlined in it), and a search may take frames back.
 */
#ifndef UNWIND_TRACE_H
#define UNWIND_TRACE_H

#include "unwind/unwind.h"

#define TRACE_LIKELY_NULL(t) __builtin_expect((t) == NULL, 1)

enum trace_kind {
    TRACE_FRAME,   /* the walk comes to a machine frame: `code`, `registers`, `flags` */
    TRACE_RULE,    /* CFI has rules for it: `row`; `value`: the CFA, 0: not known yet */
    TRACE_WAY,     /* the way that was taken, or a part of it */
    TRACE_REFUSED, /* a way that was tried, and why it was refused */
    TRACE_MARK,    /* a frame is no better than `provenance` */
    TRACE_PROVEN,  /* marks of this machine frame count no more */
    TRACE_BACK,    /* machine frames from `frame` on were taken back */
    TRACE_UNDO,    /* frames of this machine frame were taken back, with their marks */
    TRACE_AGAIN,   /* the step is repeated for comparison; `value` 0: that ends */
    TRACE_NEXT,    /* the step is done: `registers` are the caller's */
    TRACE_END,     /* the walk ends, and why */
};

struct cfi_row;
struct trace_event {
    enum trace_kind kind;
    enum provenance provenance; /* FRAME: of the walk so far; MARK */
    /* A sentence without its end, of static lifetime. Each '#' in it stands for the next of the
     * values, in hex. NULL for FRAME, NEXT. */
    const char *text;
    uint64_t value, second;
    size_t frame;                      /* index of the next frame of the output */
    const struct code *code;           /* FRAME */
    const struct registers *registers; /* FRAME, NEXT */
    const struct cfi_row *row;         /* RULE */
    uint8_t flags;                     /* FRAME: enum frame_flags */
};

struct unwind_trace {
    /* The event and what it points to are valid during the call. */
    void (*event)(void *context, const struct trace_event *e);
    void *context;
};

/* Tell an event that is a sentence. `trace` is not NULL. */
void trace_tell(const struct unwind_trace *trace, enum trace_kind kind, size_t frame,
                const char *text, uint64_t value, uint64_t second);
/* Tell that the frame with index `frame` is no better than `provenance`. `trace` is not NULL. */
void trace_tell_mark(const struct unwind_trace *trace, size_t frame, enum provenance provenance,
                     const char *text, uint64_t value);

/* Tell a sentence about the frame that the walk of `in` writes next, if anybody asks. */
static inline void trace_say(const struct unwind_input *in, const struct unwind_stack *out,
                             enum trace_kind kind, const char *text, uint64_t value,
                             uint64_t second)
{
    if (!TRACE_LIKELY_NULL(in->trace))
        trace_tell(in->trace, kind, out->frames.nr, text, value, second);
}

static inline void trace_mark(const struct unwind_input *in, size_t frame,
                              enum provenance provenance, const char *text, uint64_t value)
{
    if (!TRACE_LIKELY_NULL(in->trace))
        trace_tell_mark(in->trace, frame, provenance, text, value);
}

#endif
