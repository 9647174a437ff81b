/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The object log: what a walker reads of a live process is noted, by object and not by touch, and
 * told once per content. A string, prototype, function or trace that is touched is read and told
 * whole; other memory by lines of 64 bytes. What is known is read again in each pass; as long as
 * it is equal, that costs one mark at the end (or when it changes).
 *
 * Reading rule: what a sample's walk is given was read after the sample. An earlier reading is
 * taken only from a pass that began after it.
 */
#ifndef CAPTURE_OBJECT_LOG_H
#define CAPTURE_OBJECT_LOG_H

#include "base/error.h"
#include "capture/mem_writer.h"
#include "capture/lua_scan.h"
#include "unwind/luajit/layout.h"
#include "unwind/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Counts since the process was begun. */
struct object_log_stats {
    uint64_t objects;              /* known now */
    uint64_t cached;               /* bytes of them */
    uint64_t written;              /* contents written */
    uint64_t marks;                /* "unchanged" written */
    uint64_t bytes;                /* of payloads written */
    uint64_t reads;                /* of the process */
    uint64_t changed;              /* objects that were found to be different */
    uint64_t changed_after_stable; /* of them, those that had been equal in many readings */
    uint64_t gone;                 /* that could not be read any more */
    uint64_t refused;              /* not taken in: limits */
    uint64_t unwritten;            /* contents that were not written: the log was full */
};

/* One process image: from its start or exec to its exit or exec. */
struct object_log;

/* Takes over `memory`, also when it fails. `sink` is copied. */
int object_log_create(pid_t pid, struct process_memory *memory, const struct log_sink *sink,
                      struct object_log **ret, struct error *err);

/* Another LuaJIT of the process, by which objects are recognised; `layout` must stay. */
int object_log_layout(struct object_log *p, const struct luajit_layout *layout, struct error *err);

/* The process's memory for a walk: `time` of the struct memory is the sample's. All it yields is
 * PROVENANCE_STALE. Errors of writing are kept for the next pass. */
struct memory_layer object_log_layer(struct object_log *p);

/* Note the object that begins there, whole, read after `time`. */
void object_log_object(struct object_log *p, uint64_t address, uint64_t time);

/* Note a range as one piece (a Lua stack), read after `time`. False: it cannot be read. */
bool object_log_range(struct object_log *p, uint64_t address, size_t size, uint64_t time);

/* Begin a pass over samples; reads what is known again, up to `budget` objects (SIZE_MAX: all) and
 * for some ms (a second), those that were touched lately first. -1: the log cannot be written. */
int object_log_pass(struct object_log *p, size_t budget, struct error *err);

/* Write what waits: every content, and the marks of what was found equal. */
int object_log_flush(struct object_log *p, struct error *err);

/* Another file is begun: everything is to be told again. */
void object_log_rewrite(struct object_log *p);

/* The recording's clock after the last reading of the process. */
uint64_t object_log_read_at(const struct object_log *p);

struct object_log_stats object_log_stats(const struct object_log *p);

/* Does not write: flush first. */
void object_log_free(struct object_log *p);

#endif
