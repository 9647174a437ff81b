/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads and writes the payloads of `ljperf:vmstack` and `ljperf:mem` events, which are the raw
 * bytes of bpf-output samples. vmevent_layout.h describes the layout.
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

/* Names of the events that carry these payloads. */
#define VMEVENT_STACK_NAME "ljperf:vmstack"
#define VMEVENT_MEM_NAME "ljperf:mem"

/* ---- reading ----------------------------------------------------------------------------- */

struct vmevent_entry {
    uint64_t address;
    uint32_t length;
    uint8_t kind, flags, vm, level;
    uint64_t before, after; /* the header's times if the entry has no times of its own */
    const uint8_t *bytes;   /* `length` bytes inside the payload; NULL: UNCHANGED or FAILED */
};

struct vmevent {
    struct vmevent_header head; /* in our byte order */
    struct cursor cursor;       /* the entries not yet read */
    uint32_t taken;
};

/* Returns whether samples of an event with this attr may carry such payloads. */
bool vmevent_may_be(const struct perf_event_attr *attr);

/* Begin to read a payload of `size` bytes, which must stay valid until the last entry was used.
 * Errors: the bytes are not such a payload, the version or word size is unknown, or the size is
 * malformed. */
int vmevent_open(const void *payload, size_t size, struct vmevent *ret, struct error *err);

/* Get the next entry. Returns 1, 0 after the last entry, or -1 when the entry is malformed, which
 * ends reading. The address range of an entry never wraps. */
int vmevent_next(struct vmevent *e, struct vmevent_entry *ret, struct error *err);

/* Returns a text for people, such as "no VM of the process runs on this thread". */
const char *vmevent_reason_text(unsigned reason);

/* ---- writing ----------------------------------------------------------------------------- */

struct vmevent_writer {
    uint8_t *at;
    size_t size, cap;
};

/* Begin a payload in the caller's `buffer`. `cap` must be at least the size of a header; at most
 * VMEVENT_MAX bytes are used. Sets magic, version, order, word size, size and count; the other
 * header fields are copied from `head`. */
void vmevent_begin(struct vmevent_writer *w, void *buffer, size_t cap,
                   const struct vmevent_header *head);

/* Add an entry. `bytes` is ignored when flags has UNCHANGED or FAILED; with TIMED the times are
 * written. Returns false, and changes nothing, if there is no room for the entry. */
bool vmevent_add(struct vmevent_writer *w, const struct vmevent_entry *entry);

/* Returns the number of bytes an entry takes in a payload. */
size_t vmevent_entry_size(const struct vmevent_entry *entry);

/* Finish a payload once all entries are added. Returns its size. `after` 0 keeps the header's
 * time. */
size_t vmevent_end(struct vmevent_writer *w, uint64_t after);

#endif
