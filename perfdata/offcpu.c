/* SPDX-License-Identifier: GPL-2.0-only */
/* Waits of threads. See offcpu.h. */
#include "perfdata/offcpu.h"

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
