/* SPDX-License-Identifier: GPL-2.0-only */
/* Write memory that was read from a process into a recording. Entries are put into payloads
 * (perfdata/vmevent.h) as long as they fit, and payloads into samples of `ljperf:mem`. */
#ifndef LIVE_MEM_WRITER_H
#define LIVE_MEM_WRITER_H

#include "base/error.h"
#include "perfdata/vmevent.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Where the log is written, and the clock of the recording. */
struct log_sink {
    /* Write one payload (perfdata/vmevent.h) of at most VMEVENT_MAX bytes. */
    int (*write)(void *context, const void *payload, size_t size, struct error *err);
    uint64_t (*now)(void *context); /* ns */
    bool (*full)(void *context);    /* the log takes no more contents, only marks; NULL: never */
    /* Called before something of a process is read outside of its samples; NULL: nobody asks. */
    void (*looks)(void *context, pid_t pid);
    void *context;
};

/* The entries of one process. The owner sets `pid` and `sink` and zeroes the rest. */
struct mem_writer {
    pid_t pid;
    struct log_sink sink;
    struct vmevent_writer writer;
    bool writing; /* `writer` holds a payload that is not sent yet */
    uint64_t sequence;
    uint64_t bytes; /* size of all payloads written */
    bool failed;    /* a payload could not be written: no more are written */
    struct error error;
    uint8_t buffer[VMEVENT_MAX];
};

uint64_t mem_writer_now(const struct mem_writer *p);
/* Tell the sink that something of this process will be read. */
void mem_writer_looks(const struct mem_writer *p, pid_t pid);
/* Add an entry of any length, split into pieces, each with the entry's times. */
void mem_writer_put(struct mem_writer *p, const struct vmevent_entry *entry);
/* Write the waiting payload. Returns -1 when this or an earlier payload could not be written. */
int mem_writer_send(struct mem_writer *p, struct error *err);
/* Discard the waiting payload. */
void mem_writer_drop(struct mem_writer *p);

/* Put a payload into one sample of `ljperf:mem` (copier_attr()'s fields) in `record`. Returns the
 * sample's size; 0: the payload is too large. */
enum { MEM_RECORD_MAX = 1 << 16 };
size_t mem_writer_record(const void *payload, size_t size, uint64_t id, uint64_t time,
                         uint8_t record[MEM_RECORD_MAX]);

#endif
