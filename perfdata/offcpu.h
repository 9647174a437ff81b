/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Samples of `offcpu-time`: waits of threads.
 *
 * Their period is the ns that a sample stands for, in recordings of ljperf and perf. Those of
 * ljperf say more in their address (PERF_SAMPLE_ADDR): see offcpu_word(); and, since 0.2 and if it
 * was asked for, as data of PERF_SAMPLE_AUX (struct offcpu_more). They have no
 * PERF_SAMPLE_RAW: perf since 6.16 takes the payload of an event of this name for its own, which
 * holds the thread, the period and the callchain (perfdata_offcpu_unpack()).
 */
#ifndef PERFDATA_OFFCPU_H
#define PERFDATA_OFFCPU_H

#include "perfdata/offcpu_layout.h"
#include "perfdata/perfdata.h"

#include <stdbool.h>

/* Whether periods of the event are ns that threads have waited. */
bool perfdata_is_offcpu(const struct perfdata_event *event);

/* Why a thread is not on a cpu. The numbers are in recordings. */
enum wait_reason {
    WAIT_NONE = 0,     /* it is on one */
    WAIT_RUNNABLE = 1, /* another one has it: preempted, or just woken or created */
    WAIT_SLEEPING = 2, /* until something happens; a signal would wake it */
    WAIT_BLOCKED = 3,  /* the same, and signals do not wake it: disks, page faults */
    WAIT_STOPPED = 4,  /* by a signal, or a debugger */
    WAIT_UNKNOWN = 5,  /* it began before the recording, or the recording does not say */
    WAIT_NR_REASONS,
};
/* Returns the reason by a thread's state when it left the cpu (offcpu_layout.h). */
enum wait_reason wait_reason_of(uint32_t state);
/* Returns the name of a reason, as users see it; static. */
const char *wait_reason_name(enum wait_reason reason);

/* One wait, or some that followed each other before the thread returned to user code. */
struct offcpu_wait {
    uint64_t waited;         /* ns, in all */
    unsigned nr;             /* number of waits */
    enum wait_reason reason; /* of the last of them */
    int syscall; /* number of the system call that waited; -1: it was none, or not known */
};

/* Returns the word that ljperf writes as a sample's address. From bit 0 on: 1 + the system call (10
 * bits), the reason (3), the number of waits (8, 255: or more), what was waited in units of 256 ns
 * (36, rounded down), 7 bits that say which form this is. */
uint64_t offcpu_word(const struct offcpu_wait *wait);

/* What samples say if the recorder was asked for it. */
struct offcpu_wake {
    bool has_runqueue;
    uint64_t runqueue; /* ns of the sample's period in which the thread could run, and had no cpu */
    bool has_waker;    /* it was woken, and by whom was noted */
    uint32_t pid, tid; /* of the thread that ran on the cpu where it was woken */
    char comm[OFFCPU_COMM];
    /* Whether that thread was interrupted: by a device or a timer, so that it has nothing to do
     * with it; or maybe, by what handles network packets. `has_context`: this is known. */
    bool has_context, interrupt, softirq;
};

/* Get what a sample says of its wait. Returns false if it is no sample of a wait, or says nothing
 * (perf's do not). */
bool perfdata_offcpu(const struct sample *s, struct offcpu_wait *ret);
/* The weight of samples that tells for how long threads waited for a cpu
 * (perfdata_sample_number()). */
#define OFFCPU_RUNQUEUE_NAME "runqueue"
/* Get what a sample says of how its wait ended. Returns false if it says nothing. */
bool perfdata_offcpu_wake(const struct sample *s, struct offcpu_wake *ret);
/* Write a waker as users see it: "COMM:TID", "[interrupt]" and so on; empty if there is none.
 * `ret` gets a 0 at its end. */
enum { OFFCPU_WAKER_NAME = 64 };
void offcpu_waker_name(const struct offcpu_wake *wake, char ret[OFFCPU_WAKER_NAME]);
/* Returns why the thread of a sample waited; WAIT_NONE: the sample is not of a wait. */
enum wait_reason perfdata_wait_reason(const struct sample *s);

#endif
