/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The payload (PERF_SAMPLE_RAW) of samples of `offcpu-time`: one wait of a thread, or some that
 * followed each other before the thread returned to user code. An eBPF program fills it
 * (src/live/off_cpu.bpf.h). Only structures and constants; needs nothing but <stdint.h>. Every
 * number is in the producer's byte order.
 */
#ifndef PERFDATA_OFFCPU_LAYOUT_H
#define PERFDATA_OFFCPU_LAYOUT_H

#include <stdint.h>

#define OFFCPU_NAME "offcpu-time" /* the event's name; perf's, too */

enum {
    OFFCPU_VERSION = 1,
    OFFCPU_FRAMES = 32, /* kernel frames of a wait, innermost first */
};

/* offcpu_payload.state: what the kernel's `__state` of a task is when it leaves the cpu (TASK_...
 * of include/linux/sched.h), or: */
enum {
    OFFCPU_RUNNABLE = 0, /* it could run: it was preempted, yielded, or is new */
    OFFCPU_INTERRUPTIBLE = 1,
    OFFCPU_UNINTERRUPTIBLE = 2,
    OFFCPU_UNKNOWN = 1 << 30, /* it left the cpu before the recording began */
};

/* How a wait is told: it may stand for others. */
struct offcpu_payload {
    uint16_t version;   /* OFFCPU_VERSION */
    uint16_t nr_frames; /* number of kernel frames that follow; in a recording 0: they are in the
                           sample's callchain */
    uint32_t nr;        /* number of waits */
    uint64_t weight;    /* ns that the sample stands for: its period */
    uint64_t waited;    /* ns that it has waited */
    uint32_t state;     /* of the last of these waits */
    int32_t syscall;    /* number of the system call that waited; -1: it was none, or not known */
};

#endif
