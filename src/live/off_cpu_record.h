/* SPDX-License-Identifier: GPL-2.0-only */
/* The records of samples of time off the cpu, as they are written into a recording: with the wait's
 * ns as period, its kernel stack as callchain, and a short payload (perfdata/offcpu_layout.h). */
#ifndef LIVE_OFF_CPU_RECORD_H
#define LIVE_OFF_CPU_RECORD_H

#include "live/vmstack.h"
#include "perfdata/trim.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    OFF_CPU_RAW = 36, /* bytes of a written payload: with its size's 4 bytes whole words */
    /* Bytes of a record up to and including the payload: without kernel frames, and with all. */
    OFF_CPU_HEAD = 8 * 9 + 4 + OFF_CPU_RAW,
    OFF_CPU_HEAD_MAX = OFF_CPU_HEAD + 8 * OFFCPU_FRAMES,
};

struct off_cpu_form {
    struct perf_event_attr attr; /* as written into the recording */
    uint8_t head[OFF_CPU_HEAD_MAX];
    _Alignas(8) uint8_t record[1 << 16];
};

/* Give a sample its form. `record`: as the kernel wrote it, with a struct off_cpu_due as payload
 * and an empty callchain, parsed as `s`, and described by `t`, which then describes what is to be
 * written. That partly lies in `o` until the next call. Returns false for samples of other events,
 * and damaged ones: they are to be written as they are. */
bool off_cpu_form_sample(struct off_cpu_form *o, const struct perf_event_header *record,
                         const struct sample *s, struct trimmed *t);

/* What is known of a thread that waits at the end, besides what was listed. */
struct off_cpu_end {
    uint64_t id, time; /* of the sample */
    uint64_t waited;   /* ns */
    const void *stack; /* `size` bytes from the stack pointer on */
    size_t size;
};
/* Returns the record of such a thread; it lies in `o` until the next call. NULL: it does not run
 * 64-bit code, or something is not as it must be. */
const struct perf_event_header *off_cpu_form_thread(struct off_cpu_form *o,
                                                    const struct off_cpu_thread *t,
                                                    const struct off_cpu_end *end);

#endif
