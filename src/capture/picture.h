/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A picture of a live process's memory: what a walk reads through it is kept and told, each content
 * once. Unlike the object log (objects.h), which follows samples, it is taken in rounds: all that a
 * round keeps was read in it, and what is equal to the round before costs a mark in the end.
 */
#ifndef CAPTURE_PICTURE_H
#define CAPTURE_PICTURE_H

#include "capture/payload.h"
#include "capture/lua_scan.h"
#include "unwind/memory.h"

struct picture;

/* Takes over `memory`, also when it fails. `grain`: bytes, a power of two up to 64: what is kept
 * is rounded to it. A grain of objects' own alignment keeps neighbours out. */
int picture_create(pid_t pid, struct process_memory *memory, unsigned grain,
                   const struct object_sink *sink, struct picture **ret, struct error *err);
void picture_free(struct picture *p);

/* What stands there comes from a file, and needs not be kept. In ascending order. */
bool picture_skip(struct picture *p, uint64_t start, uint64_t end);

/* From here on memory is read anew. */
void picture_begin(struct picture *p);
/* The process's memory; what is read is kept. */
struct memory_layer picture_layer(struct picture *p);
/* The same, without keeping it. */
struct memory_layer picture_peek(struct picture *p);
bool picture_keep(struct picture *p, uint64_t address, uint64_t size);
/* A range that changes as the program runs, read now as one piece; `kind`: enum vmentry_kind.
 * False: it cannot be read. */
bool picture_range(struct picture *p, uint64_t address, uint64_t size, uint8_t kind);
/* An object that does not change while it lives, but for what `same` leaves out (NULL: nothing). */
bool picture_object(struct picture *p, uint64_t address, uint64_t size,
                    bool (*same)(const void *context, const uint8_t *a, const uint8_t *b,
                                 size_t size),
                    const void *context);
/* Two words that belong together, of no memory: VMENTRY_INDEX. Told once. */
void picture_index(struct picture *p, uint64_t from, uint64_t to);
/* The round is over: what is new or differs is told. -1: it cannot be written. */
int picture_end(struct picture *p, struct error *err);
/* Tell how long what was told has stayed as it is. */
int picture_flush(struct picture *p, struct error *err);

struct picture_stats {
    uint64_t pages;   /* that something was kept of */
    uint64_t bytes;   /* of payloads written */
    uint64_t refused; /* keeps beyond the limit */
};
struct picture_stats picture_stats(const struct picture *p);

#endif
