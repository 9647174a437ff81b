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
#ifndef CAPTURE_OBJECTS_H
#define CAPTURE_OBJECTS_H

#include "base/error.h"
#include "capture/payload.h"
#include "capture/lua_scan.h"
#include "unwind/luajit/layout.h"
#include "unwind/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Counts since the process was begun. */
struct object_stats {
    uint64_t objects; /* known now */
    uint64_t cached;  /* bytes of them */
    uint64_t told;    /* contents written */
    uint64_t marks;   /* "unchanged" written */
    uint64_t bytes;   /* of payloads written */
    uint64_t reads;   /* of the process */
    uint64_t changed; /* objects that were found to be different */
    uint64_t stirred; /* of them, those that had been equal in many readings */
    uint64_t gone;    /* that could not be read any more */
    uint64_t refused; /* not taken in: limits */
    uint64_t untold;  /* contents that were not written: the log was full */
};

/* One process image: from its start or exec to its exit or exec. */
struct object_process;

/* Takes over `memory`, also when it fails. `sink` is copied. */
int object_process_create(pid_t pid, struct process_memory *memory, const struct object_sink *sink,
                          struct object_process **ret, struct error *err);

/* Another LuaJIT of the process, by which objects are recognised; `layout` must stay. */
int object_process_layout(struct object_process *p, const struct luajit_layout *layout,
                          struct error *err);

/* The process's memory for a walk: `time` of the struct memory is the sample's. All it yields is
 * PROVENANCE_IMAGE. Errors of writing are kept for the next pass. */
struct memory_layer object_process_layer(struct object_process *p);

/* Note the object that begins there, whole, read after `time`. */
void object_process_object(struct object_process *p, uint64_t address, uint64_t time);

/* Note a range as one piece (a Lua stack), read after `time`. False: it cannot be read. */
bool object_process_range(struct object_process *p, uint64_t address, size_t size, uint64_t time);

/* Begin a pass over samples; reads what is known again, up to `budget` objects (SIZE_MAX: all) and
 * for some ms (a second), those that were touched lately first. -1: the log cannot be written. */
int object_process_pass(struct object_process *p, size_t budget, struct error *err);

/* Write what waits: every content, and the marks of what was found equal. */
int object_process_flush(struct object_process *p, struct error *err);

/* Another file is begun: everything is to be told again. */
void object_process_retell(struct object_process *p);

/* The recording's clock after the last reading of the process. */
uint64_t object_process_read_at(const struct object_process *p);

struct object_stats object_process_stats(const struct object_process *p);

/* Does not write: flush first. */
void object_process_free(struct object_process *p);

#endif
