/* SPDX-License-Identifier: GPL-2.0-only */
/* A flame graph: one self-contained SVG file, made from interned stacks. */
#ifndef OUTPUT_FLAMEGRAPH_H
#define OUTPUT_FLAMEGRAPH_H

#include "base/error.h"
#include "base/text.h"
#include "stacks/stacks.h"

#include <stdbool.h>

struct flamegraph_options {
    const char *title;  /* NULL: "Flame graph" */
    const char *unit;   /* the unit of weight, e.g. the event's name */
    unsigned width;     /* width of the picture in pixels */
    double least_width; /* narrower frames are left out, pixels; below 0: FLAMEGRAPH_LEAST_WIDTH, or
                         * more if the file would be too large for a browser */
    bool samples;       /* count samples, not periods */
    bool inverted;      /* the outermost function is at the top */
    bool reverse;       /* innermost function first: merged by where time was spent */
    bool pid, tid;      /* shown in the process's name */
    int event;          /* index; -1: the first event that was sampled */
};

#define FLAMEGRAPH_LEAST_WIDTH 0.1

/* Append the SVG. The same stacks always give the same bytes. If `base` is not NULL, colours show
 * how `s` differs from it. The stacks must have been collected with by_tier. */
int flamegraph_print(const struct stacks *s, const struct stacks *base,
                     const struct flamegraph_options *options, struct text *out, struct error *err);

/* Append text as XML character data or as an attribute value. Bytes that XML forbids or that are
 * not UTF-8 become %XX. */
void text_xml(struct text *t, const char *s);

#endif
