/* SPDX-License-Identifier: GPL-2.0-only */
/* What samples of `offcpu-time` say of a wait. */
#ifndef PERFDATA_OFFCPU_H
#define PERFDATA_OFFCPU_H

#include "perfdata/offcpu_layout.h"
#include "perfdata/perfdata.h"

#include <stdbool.h>

/* Whether periods of the event are ns that threads have waited, as `record --off-cpu` of ljperf or
 * perf writes them. */
bool perfdata_is_offcpu(const struct perfdata_event *event);

/* Get what a sample says of its wait, in our byte order. Returns false if it is no sample of a
 * wait, or says nothing (perf's do not). */
bool perfdata_offcpu(const struct sample *s, struct offcpu_payload *ret);

/* Why a thread is not on a cpu. */
enum wait_reason {
    WAIT_NONE,     /* it is on one */
    WAIT_RUNNABLE, /* another one has it: preempted, or just woken or created */
    WAIT_SLEEPING, /* until something happens; a signal would wake it */
    WAIT_BLOCKED,  /* the same, and signals do not wake it: disks, page faults */
    WAIT_STOPPED,  /* by a signal, or a debugger */
    WAIT_UNKNOWN,  /* it began before the recording, or the recording does not say */
    WAIT_NR_REASONS,
};
enum wait_reason perfdata_wait_reason(const struct sample *s);
/* Returns the name of a reason, as users see it; static. */
const char *wait_reason_name(enum wait_reason reason);

#endif
