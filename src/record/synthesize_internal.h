/* SPDX-License-Identifier: GPL-2.0-only */
/* What synthesize.c (processes), synthesize_kernel.c and synthesize_cgroup.c share. */
#ifndef RECORD_SYNTHESIZE_INTERNAL_H
#define RECORD_SYNTHESIZE_INTERNAL_H

#include "record/synthesize.h"

#include <perf/event.h>

/* Bytes of sample_id_all: TID, TIME, CPU, IDENTIFIER (events.c sets no others). */
enum { SYNTH_TRAILER = 32 };

struct synth_map {
    uint32_t pid, tid;
    uint64_t start, size, offset, ino;
    uint32_t maj, min, prot, flags;
    uint16_t misc;
    struct build_id build_id;
    const char *name;
};

/* Pad the record, add the trailer (the caller leaves room for it), set the size, and put it. */
int synthesize_put(const struct synthesis *s, struct perf_event_header *h, size_t size,
                   struct error *err);
int synthesize_map(const struct synthesis *s, struct synth_map *m, struct error *err);

#endif
