/* SPDX-License-Identifier: GPL-2.0-only */
/* A flame graph: one self-contained SVG file, from interned stacks. */
#ifndef OUTPUT_FLAMEGRAPH_H
#define OUTPUT_FLAMEGRAPH_H

#include "base/error.h"
#include "base/text.h"
#include "stacks/stacks.h"

#include <stdbool.h>

struct flamegraph_options {
    const char *title;  /* NULL: "Flame graph" */
    const char *unit;   /* what is counted, e.g. the event's name */
    unsigned width;     /* of the picture, pixels */
    double least_width; /* narrower frames are left out, pixels; below 0: FLAMEGRAPH_LEAST_WIDTH, or
                           more where the file would be too large for a browser */
    bool samples;       /* count samples, not periods */
    bool inverted;      /* outermost function on top */
    bool reverse;       /* innermost function first: merged by where the time was spent */
    bool pid, tid;      /* in the process's name */
    int event;          /* index; -1: the first event that was sampled */
};

#define FLAMEGRAPH_LEAST_WIDTH 0.1

/* Append the SVG. The same stacks give the same bytes. `base`: draw how `s` differs from it, by
 * colours; else NULL. The stacks were collected with by_tier. */
int flamegraph_print(const struct stacks *s, const struct stacks *base,
                     const struct flamegraph_options *options, struct text *out, struct error *err);

/* Text as XML character data or attribute value: what XML forbids, and what is not UTF-8, as %XX.
 */
void text_xml(struct text *t, const char *s);

#endif
