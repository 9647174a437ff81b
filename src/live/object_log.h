/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The object log records the memory that a walker reads of a live process, by object and not by
 * access, and writes each content once. A string, prototype, function or trace that is accessed is
 * read and written whole; other memory is read in lines of 64 bytes. Each pass reads the known
 * objects again. As long as an object is equal, this costs one mark at the end (or when the object
 * changes).
 *
 * Reading rule: all memory that the walk of a sample gets was read after the sample. An earlier
 * reading is used only if its pass began after the sample.
 */
#ifndef LIVE_OBJECT_LOG_H
#define LIVE_OBJECT_LOG_H

#include "base/error.h"
#include "live/mem_writer.h"
#include "live/lua_scan.h"
#include "unwind/luajit/layout.h"
#include "unwind/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Counts since the log of the process was created. */
struct object_log_stats {
    uint64_t objects;              /* objects known now */
    uint64_t cached;               /* bytes of the known objects */
    uint64_t written;              /* contents written */
    uint64_t marks;                /* "unchanged" marks written */
    uint64_t bytes;                /* size of all payloads written */
    uint64_t reads;                /* reads of the process's memory */
    uint64_t changed;              /* times that an object was found to be different */
    uint64_t changed_after_stable; /* changes of objects that had been equal in many readings */
    uint64_t gone;                 /* objects that could not be read any more */
    uint64_t refused;              /* ranges not taken in because of a limit */
    uint64_t unwritten;            /* contents not written because the log was full */
};

/* One process image: from its start or exec to its exit or exec. */
struct object_log;

/* Create the log of one process. Takes ownership of `memory`, also on failure. `sink` is copied. */
int object_log_create(pid_t pid, struct process_memory *memory, const struct log_sink *sink,
                      struct object_log **ret, struct error *err);

/* Add another LuaJIT of the process, by whose layout objects are recognised; `layout` must outlive
 * the log. */
int object_log_layout(struct object_log *p, const struct luajit_layout *layout, struct error *err);

/* Returns the process's memory for a walk. `time` of the struct memory is the sample's time. All
 * bytes are PROVENANCE_STALE. Write errors are kept for the next pass. */
struct memory_layer object_log_layer(struct object_log *p);

/* Log the object that begins at `address`, whole, read after `time`. */
void object_log_object(struct object_log *p, uint64_t address, uint64_t time);

/* Log a range as one piece (a Lua stack), read after `time`. Returns false when it cannot be
 * read. */
bool object_log_range(struct object_log *p, uint64_t address, size_t size, uint64_t time);

/* Returns the process's memory for reads that are not logged. */
struct process_memory *object_log_memory(struct object_log *p);

/* Write an entry that is no object's: what was found of the process. Nothing is written if the log
 * is full. */
void object_log_put(struct object_log *p, const struct vmevent_entry *entry);

/* Begin a pass over samples. Reads known objects again, those that were used lately first, up to
 * `budget` objects and for some ms (SIZE_MAX: all objects, for up to a second). Returns -1 when the
 * log cannot be written. */
int object_log_pass(struct object_log *p, size_t budget, struct error *err);

/* Write all that waits: every content, and the marks of objects that were found equal. */
int object_log_flush(struct object_log *p, struct error *err);

/* Another file begins: everything must be written again. */
void object_log_rewrite(struct object_log *p);

/* Returns the recording's clock. */
uint64_t object_log_now(const struct object_log *p);

/* Returns the recording's clock after the last read of the process. */
uint64_t object_log_read_at(const struct object_log *p);

struct object_log_stats object_log_stats(const struct object_log *p);

/* Does not write: call object_log_flush first. */
void object_log_free(struct object_log *p);

#endif
