/* SPDX-License-Identifier: GPL-2.0-only */
/* What a wait is called in eBPF programs and recordings. Constants only. */
#ifndef PERFDATA_OFFCPU_LAYOUT_H
#define PERFDATA_OFFCPU_LAYOUT_H

#define OFFCPU_NAME "offcpu-time" /* the event's name; perf's, too */

/* The state of a thread when it left the cpu: bits of the kernel's `__state` (TASK_... of
 * include/linux/sched.h), or: */
enum {
    OFFCPU_RUNNABLE = 0, /* it could run: it was preempted, yielded, or is new */
    OFFCPU_INTERRUPTIBLE = 1,
    OFFCPU_UNINTERRUPTIBLE = 2,
    OFFCPU_UNKNOWN = 1 << 16, /* it left the cpu before the recording began */
};

#endif
