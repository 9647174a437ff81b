/* SPDX-License-Identifier: GPL-2.0-only */
/* The records of samples of time off the cpu, as they are written into a recording: with the wait's
 * ns as period, its kernel stack as callchain, and more about it as address (perfdata/offcpu.h). */
#ifndef LIVE_OFF_CPU_RECORD_H
#define LIVE_OFF_CPU_RECORD_H

#include "live/vmstack.h"
#include "perfdata/trim.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    /* Bytes of a record up to the end of the callchain: without kernel frames, and with all. */
    OFF_CPU_HEAD = 8 * 10,
    OFF_CPU_HEAD_MAX = OFF_CPU_HEAD + 8 * OFF_CPU_FRAMES,
    OFF_CPU_TAIL = 8 + sizeof(struct offcpu_more), /* the data of PERF_SAMPLE_AUX */
};

struct off_cpu_form {
    struct perf_event_attr ring; /* as the kernel writes records */
    struct perf_event_attr attr; /* as they are written into the recording */
    uint8_t head[OFF_CPU_HEAD_MAX];
    uint8_t tail[OFF_CPU_TAIL];
    _Alignas(8) uint8_t record[1 << 16];
};

/* Set both attributes, for samples with the stacks that samples of `first` have. `more`: and with
 * struct offcpu_more. */
void off_cpu_form_set(struct off_cpu_form *o, const struct perf_event_attr *first, bool more);

/* Give a sample its form. `record`: as the kernel wrote it, with a struct off_cpu_due as payload
 * and an empty callchain. `s` becomes its parse, of the event `event`, and `t` describes what is to
 * be written, which partly lies in `o` until the next call. Returns 1; 0: `event` is another event;
 * -1: the record is damaged. */
int off_cpu_form_sample(struct off_cpu_form *o, const struct perfdata_event *event,
                        const struct perf_event_header *record, struct sample *s,
                        struct trimmed *t);

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
