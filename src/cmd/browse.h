/* SPDX-License-Identifier: GPL-2.0-only */
/* What the browser (output/browser.h) shows: the stacks of a recording, read again when it wants
 * more kept apart. */
#ifndef CMD_BROWSE_H
#define CMD_BROWSE_H

#include "cmd/common.h"
#include "output/browser.h"

struct browsing {
    struct common common; /* a copy: what it points to stays the caller's */
    struct replay *replay;
    struct stacks *stacks;
    struct report_event *events;
    struct stacks_options kept;
    struct profile *profile; /* for annotating, with the replay it belongs to */
    struct replay *profiled;
};

/* Read the recording of `common`, and keep apart what `needs` names, besides what was kept before.
 * *ret is valid until the next call. For struct browser_screen; `context` is the struct browsing.
 */
int browsing_collect(void *context, const struct stacks_options *needs, struct browser_data *ret,
                     struct error *err);
/* Append a function's annotated source or machine code. All samples are read at the first call. */
int browsing_annotate(void *context, const char *symbol, struct text *out, struct error *err);
/* Forget what was read for annotating, because the recording is another one now. */
void browsing_forget_code(struct browsing *b);
void browsing_end(struct browsing *b);

/* Returns the events of a recording; the caller frees them. NULL: out of memory. */
struct report_event *browsing_events(const struct replay *r);

/* Fails if control groups are to be kept apart, and no event's samples have one. A pipe may
 * announce events later. */
int browsing_check_cgroups(const struct stacks_options *kept, const struct perfdata *pd,
                           struct error *err);

/* Take the value of --sort, perf's list of keys; a leading + adds to the keys that are there. */
int browsing_take_sort(struct report_options *o, const struct option_value *v, struct error *err);
/* Take the value of --percent-limit, which is of rows and of branches. */
int browsing_take_limit(struct report_options *o, const struct option_value *v, struct error *err);

#endif
