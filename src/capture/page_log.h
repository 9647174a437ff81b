/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The page log of a live process's memory: what a walk reads through it is kept and told, each
 * content once. Unlike the object log (object_log.h), which follows samples, it is taken in rounds:
 * all that a round keeps was read in it, and what is equal to the round before costs a mark in the
 * end.
 */
#ifndef CAPTURE_PAGE_LOG_H
#define CAPTURE_PAGE_LOG_H

#include "capture/mem_writer.h"
#include "capture/lua_scan.h"
#include "unwind/memory.h"

struct page_log;

/* Takes over `memory`, also when it fails. `grain`: bytes, a power of two up to 64: what is kept
 * is rounded to it. A grain of objects' own alignment keeps neighbours out. */
int page_log_create(pid_t pid, struct process_memory *memory, unsigned grain,
                    const struct log_sink *sink, struct page_log **ret, struct error *err);
void page_log_free(struct page_log *p);

/* What stands there comes from a file, and needs not be kept. In ascending order. */
bool page_log_skip(struct page_log *p, uint64_t start, uint64_t end);

/* From here on memory is read anew. */
void page_log_begin(struct page_log *p);
/* The process's memory; what is read is kept. */
struct memory_layer page_log_layer(struct page_log *p);
/* The same, without keeping it. */
struct memory_layer page_log_peek(struct page_log *p);
bool page_log_keep(struct page_log *p, uint64_t address, uint64_t size);
/* A range that changes as the program runs, read now as one piece; `kind`: enum vmentry_kind.
 * False: it cannot be read. */
bool page_log_range(struct page_log *p, uint64_t address, uint64_t size, uint8_t kind);
/* An object that does not change while it lives, but for what `same` leaves out (NULL: nothing). */
bool page_log_object(struct page_log *p, uint64_t address, uint64_t size,
                     bool (*same)(const void *context, const uint8_t *a, const uint8_t *b,
                                  size_t size),
                     const void *context);
/* Two words that belong together, of no memory: VMENTRY_INDEX. Told once. */
void page_log_index(struct page_log *p, uint64_t from, uint64_t to);
/* The round is over: what is new or differs is told. -1: it cannot be written. */
int page_log_end(struct page_log *p, struct error *err);
/* Tell how long what was told has stayed as it is. */
int page_log_flush(struct page_log *p, struct error *err);

struct page_log_stats {
    uint64_t pages;   /* that something was kept of */
    uint64_t bytes;   /* of payloads written */
    uint64_t refused; /* keeps beyond the limit */
};
struct page_log_stats page_log_stats(const struct page_log *p);

#endif
