/* SPDX-License-Identifier: GPL-2.0-only */
/* Parse event names, as `-e` takes them, into perf_event_attr. */
#ifndef RECORD_EVENT_PARSE_H
#define RECORD_EVENT_PARSE_H

#include "base/error.h"
#include "base/vec.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>

struct event_spec {
    struct perf_event_attr attr; /* what the name sets: type, config*, exclude_* of the modifiers */
    char *name;                  /* as the user gave it, for reports; owned */
    char *group;                 /* tracepoints: the system in tracefs ("sched"); owned */
    char *member;                /* tracepoints: the name in that system ("sched_switch"); owned */
    char *filter; /* tracepoints: what passes, in the kernel's words; owned; NULL: all */
    uint64_t period, frequency; /* terms of its own; 0: those of the recording */
    bool modified;              /* modifiers say what is excluded */
    bool resident;              /* faults of pages, as memory that becomes resident */
    bool by_default;            /* the user did not ask for it: it may be replaced silently */
};

typedef VEC(struct event_spec) event_spec_vec;

/* Parse one -e value: event names separated by commas, each with perf's modifiers (u, k, h, G, H,
 * p). Names are hardware, cache and software events, rHEX, SYSTEM:NAME tracepoints (patterns
 * allowed; existing uprobes are tracepoints), and PMU/TERM=VALUE,.../. Any but tracepoints may have
 * the terms period, freq and name: cpu-clock/period=100000,name=mine/u. Appends to `specs`. Returns
 * -1 when a name is not understood, or when tracefs refuses access (`err` names the cure). */
int event_specs_parse(const char *text, event_spec_vec *specs, struct error *err);

/* Append the event that is recorded by default: cycles. */
int event_specs_default(event_spec_vec *specs, struct error *err);

/* Append the event of memory that becomes resident (perfdata/resident.h), with so many samples a
 * second at most. */
int event_specs_resident(uint64_t frequency, event_spec_vec *specs, struct error *err);

/* Turn the event into the kernel's own clock, for machines without hardware counters. */
int event_spec_to_clock(struct event_spec *spec, struct error *err);

void event_specs_free(event_spec_vec *specs);

/* Returns the path of the mounted tracefs, or NULL. */
const char *tracefs_root(void);

#endif
