/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reading and writing the payload of `ljperf:vmstack` and `ljperf:mem` events, the raw bytes of
 * bpf-output samples. vmevent_layout.h says how they stand.
 */
#ifndef PERFDATA_VMEVENT_H
#define PERFDATA_VMEVENT_H

#include "base/cursor.h"
#include "base/error.h"
#include "perfdata/vmevent_layout.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names of the events that carry such payloads. */
#define VMEVENT_STACK_NAME "ljperf:vmstack"
#define VMEVENT_MEM_NAME "ljperf:mem"

/* ---- reading ----------------------------------------------------------------------------- */

struct vmevent_entry {
    uint64_t address;
    uint32_t length;
    uint8_t kind, flags, vm, level;
    uint64_t before, after; /* the header's times where the entry has none of its own */
    const uint8_t *bytes;   /* `length` bytes in the payload; NULL: UNCHANGED or FAILED */
};

struct vmevent {
    struct vmevent_header head; /* in our byte order */
    struct cursor cursor;       /* the entries not yet taken */
    uint32_t taken;
};

/* Whether samples of such an event may be payloads. */
bool vmevent_may_be(const struct perf_event_attr *attr);

/* Begin to read a payload of `size` bytes, which must stay until the last entry was used.
 * Errors: not such a payload, a version or word size that is not known, a malformed size. */
int vmevent_open(const void *payload, size_t size, struct vmevent *ret, struct error *err);

/* The next entry: 1, 0 after the last, -1 when it is malformed (reading is then over). An entry's
 * address range never wraps. */
int vmevent_next(struct vmevent *e, struct vmevent_entry *ret, struct error *err);

/* "no VM of the process runs on this thread" and so on, for people. */
const char *vmevent_reason_text(unsigned reason);

/* ---- writing ----------------------------------------------------------------------------- */

struct vmevent_writer {
    uint8_t *at;
    size_t size, cap;
};

/* Begin a payload in `buffer` (of the caller; `cap` bytes at least that of a header, no more than
 * VMEVENT_MAX are used). Of `head`, magic, version, order, word size, size and count are set. */
void vmevent_begin(struct vmevent_writer *w, void *buffer, size_t cap,
                   const struct vmevent_header *head);

/* Add an entry; `bytes` is not looked at when flags has UNCHANGED or FAILED; TIMED writes the
 * times. False: no room for it, nothing has changed. */
bool vmevent_add(struct vmevent_writer *w, const struct vmevent_entry *entry);

/* Bytes an entry takes in a payload. */
size_t vmevent_entry_size(const struct vmevent_entry *entry);

/* The payload's size, once all entries are added; `after` 0 leaves the head's time. */
size_t vmevent_end(struct vmevent_writer *w, uint64_t after);

#endif
