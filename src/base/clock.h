/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* Returns what a clock shows, ns; 0: it cannot be read. */
static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t) < 0)
        return 0;
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Returns the processor time that a process has used, ns; 0: it is gone. */
static inline uint64_t process_cpu_ns(pid_t pid)
{
    clockid_t clock;
    return clock_getcpuclockid(pid, &clock) == 0 ? clock_ns(clock) : 0;
}

#endif
