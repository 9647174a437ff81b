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

static void swap(struct offcpu_payload *p)
{
    p->version = __builtin_bswap16(p->version);
    p->nr_frames = __builtin_bswap16(p->nr_frames);
    p->nr = __builtin_bswap32(p->nr);
    p->weight = __builtin_bswap64(p->weight);
    p->waited = __builtin_bswap64(p->waited);
    p->state = __builtin_bswap32(p->state);
    p->syscall = (int32_t)__builtin_bswap32((uint32_t)p->syscall);
}

bool perfdata_offcpu(const struct sample *s, struct offcpu_payload *ret)
{
    if (!s->event || !s->raw || s->raw_size < sizeof(*ret) || !perfdata_is_offcpu(s->event))
        return false;
    memcpy(ret, s->raw, sizeof(*ret));
    if (s->swapped)
        swap(ret);
    return ret->version == OFFCPU_VERSION;
}

enum wait_reason perfdata_wait_reason(const struct sample *s)
{
    /* TASK_STOPPED, TASK_TRACED of include/linux/sched.h */
    enum { STOPPED = 4, TRACED = 8 };
    struct offcpu_payload p;
    if (!s->event || !perfdata_is_offcpu(s->event))
        return WAIT_NONE;
    if (!perfdata_offcpu(s, &p) || p.state & OFFCPU_UNKNOWN)
        return WAIT_UNKNOWN;
    if (p.state & OFFCPU_INTERRUPTIBLE)
        return WAIT_SLEEPING;
    if (p.state & OFFCPU_UNINTERRUPTIBLE)
        return WAIT_BLOCKED;
    if (p.state & (STOPPED | TRACED))
        return WAIT_STOPPED;
    return p.state == OFFCPU_RUNNABLE ? WAIT_RUNNABLE : WAIT_UNKNOWN;
}

const char *wait_reason_name(enum wait_reason reason)
{
    static const char *const names[] = {
        [WAIT_NONE] = "on cpu",     [WAIT_RUNNABLE] = "runnable", [WAIT_SLEEPING] = "sleeping",
        [WAIT_BLOCKED] = "blocked", [WAIT_STOPPED] = "stopped",   [WAIT_UNKNOWN] = "unknown"};
    return names[reason];
}
