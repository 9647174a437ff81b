/* SPDX-License-Identifier: GPL-2.0-only */
/* What a wait is called in eBPF programs and recordings. */
#ifndef PERFDATA_OFFCPU_LAYOUT_H
#define PERFDATA_OFFCPU_LAYOUT_H

#include <stdint.h>

#define OFFCPU_NAME "offcpu-time" /* the event's name; perf's, too */

enum { OFFCPU_COMM = 16 }; /* bytes of a thread's name, with its 0 */

/* What is known of the one that woke a thread. The numbers are in recordings. */
enum {
    OFFCPU_WAKER = 1,           /* which thread ran then */
    OFFCPU_WAKER_CONTEXT = 2,   /* whether that thread was interrupted: the next two */
    OFFCPU_WAKER_INTERRUPT = 4, /* yes: a device, or a timer, woke */
    OFFCPU_WAKER_SOFTIRQ = 8,   /* maybe: network packets, also those that the thread sent */
    OFFCPU_RUNQUEUE = 16,       /* the time on the runqueue is known */
};

/* What samples say besides (offcpu.h), if they have PERF_SAMPLE_AUX: the data of that field. Later
 * versions may have more behind it, and must not change what is there. */
struct offcpu_more {
    uint32_t flags;             /* OFFCPU_RUNQUEUE, OFFCPU_WAKER... */
    uint32_t waker_pid;         /* in the first pid namespace */
    uint32_t waker_tid;         /* likewise; 0: the idle task */
    uint32_t reserved;          /* 0 */
    uint64_t runqueue;          /* ns of the sample's period */
    uint8_t waker[OFFCPU_COMM]; /* its name, with a 0 */
};

/* The state of a thread when it left the cpu: bits of the kernel's `__state` (TASK_... of
 * include/linux/sched.h), or: */
enum {
    OFFCPU_RUNNABLE = 0, /* it could run: it was preempted, yielded, or is new */
    OFFCPU_INTERRUPTIBLE = 1,
    OFFCPU_UNINTERRUPTIBLE = 2,
    OFFCPU_UNKNOWN = 1 << 16, /* it left the cpu before the recording began */
};

#endif
