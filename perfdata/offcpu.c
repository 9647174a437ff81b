/* SPDX-License-Identifier: GPL-2.0-only */
/* Waits of threads. See offcpu.h. */
#include "perfdata/offcpu.h"

#include "base/cursor.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

bool perfdata_is_offcpu(const struct perfdata_event *event)
{
    return event->attr.type == PERF_TYPE_SOFTWARE &&
           event->attr.config == PERF_COUNT_SW_BPF_OUTPUT && event->name &&
           strcmp(event->name, OFFCPU_NAME) == 0;
}

enum {
    SYSCALL_BITS = 10,
    REASON_BITS = 3,
    NUMBER_BITS = 8,
    WAITED_BITS = 36,
    WAITED_UNIT = 256, /* ns */
    FORM = 0x4c,       /* of 7 bits: the rest */
};

/* Put a field of so many bits below what is there; a larger value becomes the largest. */
static uint64_t below(uint64_t word, unsigned bits, uint64_t value)
{
    const uint64_t most = (UINT64_C(1) << bits) - 1;
    return word << bits | (value < most ? value : most);
}

/* Take the lowest field away. */
static uint64_t lowest(uint64_t *word, unsigned bits)
{
    uint64_t value = *word & ((UINT64_C(1) << bits) - 1);
    *word >>= bits;
    return value;
}

uint64_t offcpu_word(const struct offcpu_wait *w)
{
    const int most = (1 << SYSCALL_BITS) - 1;
    uint64_t word = FORM;
    word = below(word, WAITED_BITS, w->waited / WAITED_UNIT);
    word = below(word, NUMBER_BITS, w->nr);
    word = below(word, REASON_BITS, (uint64_t)w->reason);
    return below(word, SYSCALL_BITS,
                 w->syscall >= 0 && w->syscall < most ? (uint64_t)w->syscall + 1 : 0);
}

bool perfdata_offcpu(const struct sample *s, struct offcpu_wait *ret)
{
    uint64_t word = s->addr;
    if (!s->event || !(s->event->attr.sample_type & PERF_SAMPLE_ADDR) ||
        !perfdata_is_offcpu(s->event))
        return false;
    ret->syscall = (int)lowest(&word, SYSCALL_BITS) - 1;
    ret->reason = (enum wait_reason)lowest(&word, REASON_BITS);
    ret->nr = (unsigned)lowest(&word, NUMBER_BITS);
    ret->waited = lowest(&word, WAITED_BITS) * WAITED_UNIT;
    return word == FORM && ret->reason < WAIT_NR_REASONS;
}

bool perfdata_offcpu_wake(const struct sample *s, struct offcpu_wake *ret)
{
    struct offcpu_more more;
    *ret = (struct offcpu_wake){0};
    if (!s->event || !perfdata_is_offcpu(s->event) || !s->aux || s->aux_size < sizeof(more))
        return false;
    memcpy(&more, s->aux, sizeof(more));
    const uint8_t *at = s->aux;
    const uint32_t flags = load_u32(at + offsetof(struct offcpu_more, flags), s->swapped);
    ret->has_runqueue = flags & OFFCPU_RUNQUEUE;
    ret->runqueue = load_u64(at + offsetof(struct offcpu_more, runqueue), s->swapped);
    ret->has_waker = flags & OFFCPU_WAKER;
    ret->pid = load_u32(at + offsetof(struct offcpu_more, waker_pid), s->swapped);
    ret->tid = load_u32(at + offsetof(struct offcpu_more, waker_tid), s->swapped);
    ret->has_context = flags & OFFCPU_WAKER_CONTEXT;
    ret->interrupt = flags & OFFCPU_WAKER_INTERRUPT;
    ret->softirq = flags & OFFCPU_WAKER_SOFTIRQ;
    memcpy(ret->comm, more.waker, sizeof(ret->comm));
    ret->comm[OFFCPU_COMM - 1] = 0;
    return flags & (OFFCPU_RUNQUEUE | OFFCPU_WAKER);
}

void offcpu_waker_name(const struct offcpu_wake *w, char ret[OFFCPU_WAKER_NAME])
{
    const char *how = !w->has_context ? " [?]" : w->softirq ? " [softirq]" : "";
    ret[0] = 0;
    if (w->has_waker && w->interrupt)
        snprintf(ret, OFFCPU_WAKER_NAME, "[interrupt]");
    else if (w->has_waker)
        snprintf(ret, OFFCPU_WAKER_NAME, "%s:%u%s", w->comm, w->tid, how);
}

enum wait_reason wait_reason_of(uint32_t state)
{
    /* TASK_STOPPED, TASK_TRACED of include/linux/sched.h */
    enum { STOPPED = 4, TRACED = 8 };
    if (state & OFFCPU_UNKNOWN)
        return WAIT_UNKNOWN;
    if (state & OFFCPU_INTERRUPTIBLE)
        return WAIT_SLEEPING;
    if (state & OFFCPU_UNINTERRUPTIBLE)
        return WAIT_BLOCKED;
    if (state & (STOPPED | TRACED))
        return WAIT_STOPPED;
    return state == OFFCPU_RUNNABLE ? WAIT_RUNNABLE : WAIT_UNKNOWN;
}

enum wait_reason perfdata_wait_reason(const struct sample *s)
{
    struct offcpu_wait wait;
    if (!s->event || !perfdata_is_offcpu(s->event))
        return WAIT_NONE;
    return perfdata_offcpu(s, &wait) ? wait.reason : WAIT_UNKNOWN;
}

const char *wait_reason_name(enum wait_reason reason)
{
    static const char *const names[] = {
        [WAIT_NONE] = "on cpu",     [WAIT_RUNNABLE] = "runnable", [WAIT_SLEEPING] = "sleeping",
        [WAIT_BLOCKED] = "blocked", [WAIT_STOPPED] = "stopped",   [WAIT_UNKNOWN] = "unknown"};
    return names[reason];
}
