/* SPDX-License-Identifier: GPL-2.0-only */
/* Why one sample's stack is as it is: each frame's code, rule, reads, marks, and the end. */
#ifndef OUTPUT_EXPLAIN_H
#define OUTPUT_EXPLAIN_H

#include "output/output.h"

struct explain_options {
    uint64_t number; /* of the sample; 0: by time */
    /* The time as script prints it: cut off behind the digits that are given. ns. */
    uint64_t time, time_unit;
    const struct replay_options *filters; /* a sample that is found by its time must pass them */
    bool one_frame;
    size_t frame; /* index of this frame */
    bool show_inlined;
};

struct explain;
/* `threads` of the replay must be 1: the sink keeps what it finds. NULL: out of memory. */
struct explain *explain_create(const struct explain_options *options);
void explain_free(struct explain *e);
struct replay_sink explain_sink(struct explain *e);

/* After the run: how many samples matched, the explanation of the first, and one line for each
 * match. */
uint64_t explain_found(const struct explain *e);
struct text *explain_text(struct explain *e);
struct text *explain_matches(struct explain *e);
/* Returns whether the stack, walked again, differs from the one that was explained: a bug. */
bool explain_differs(const struct explain *e);
/* Returns how many frames the explained stack has. */
size_t explain_nr_frames(const struct explain *e);

#endif
