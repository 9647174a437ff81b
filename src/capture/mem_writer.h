/* SPDX-License-Identifier: GPL-2.0-only */
/* What is read of a process on its way into a recording: entries are put into payloads
 * (perfdata/vmevent.h) as long as they fit, payloads into samples of `ljperf:mem`. */
#ifndef CAPTURE_MEM_WRITER_H
#define CAPTURE_MEM_WRITER_H

#include "base/error.h"
#include "perfdata/vmevent.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Where the log goes, and the clock of the recording. */
struct log_sink {
    /* One payload (perfdata/vmevent.h), no larger than VMEVENT_MAX. */
    int (*write)(void *context, const void *payload, size_t size, struct error *err);
    uint64_t (*now)(void *context); /* ns */
    bool (*full)(void *context);    /* takes no more contents, only marks; NULL: takes all */
    void *context;
};

/* The entries of one process. `pid` and `sink` are set by its owner, the rest is zero. */
struct mem_writer {
    pid_t pid;
    struct log_sink sink;
    struct vmevent_writer writer;
    bool writing; /* the writer has been begun */
    uint64_t sequence;
    uint64_t bytes; /* of payloads written */
    bool failed;    /* one could not be written: nothing more is */
    struct error error;
    uint8_t buffer[VMEVENT_MAX];
};

uint64_t mem_writer_now(const struct mem_writer *p);
/* Add an entry of any length: in pieces, with its times. */
void mem_writer_put(struct mem_writer *p, const struct vmevent_entry *entry);
/* Write what waits. -1: that, or something before, could not be written. */
int mem_writer_send(struct mem_writer *p, struct error *err);
/* Forget what waits. */
void mem_writer_drop(struct mem_writer *p);

/* A payload as one sample of `ljperf:mem` (copier_attr()'s fields) in `record`; its size, 0: it is
 * too large. */
enum { MEM_RECORD_MAX = 1 << 16 };
size_t mem_writer_record(const void *payload, size_t size, uint64_t id, uint64_t time,
                         uint8_t record[MEM_RECORD_MAX]);

#endif
