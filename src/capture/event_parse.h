/* SPDX-License-Identifier: GPL-2.0-only */
/* Events by name, as `-e` takes them: from text to perf_event_attr. */
#ifndef CAPTURE_EVENT_PARSE_H
#define CAPTURE_EVENT_PARSE_H

#include "base/error.h"
#include "base/vec.h"

#include <linux/perf_event.h>
#include <stdbool.h>

struct event_spec {
    struct perf_event_attr attr; /* what names it: type, config*, exclude_* of the modifiers */
    char *name;                  /* as given, so that reports show it; owned */
    char *group;                 /* of a tracepoint: the system in tracefs ("sched"); owned */
    char *member;                /* of a tracepoint: its own name ("sched_switch"); owned */
    bool modified;               /* modifiers chose what is excluded */
    bool by_default;             /* nobody asked for it: may be replaced without a word */
};

typedef VEC(struct event_spec) event_spec_vec;

/* Parse one -e value: names separated by commas, each with perf's modifiers (u, k, h, G, H, p):
 * hardware, cache and software events, rHEX, SYSTEM:NAME tracepoints (patterns allowed; uprobes
 * that exist are tracepoints), PMU/TERM=VALUE,.../. Appends to `specs`. -1: what was not
 * understood, or what tracefs refuses and its cure. */
int event_specs_parse(const char *text, event_spec_vec *specs, struct error *err);

/* What is recorded when nothing is asked for: cycles. */
int event_specs_default(event_spec_vec *specs, struct error *err);

/* Turn into the kernel's own clock, for machines without hardware counters. */
int event_spec_to_clock(struct event_spec *spec, struct error *err);

void event_specs_free(event_spec_vec *specs);

/* The mounted tracefs, or NULL. */
const char *tracefs_root(void);

#endif
