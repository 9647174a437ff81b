/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The page log of a live process's memory: it keeps the bytes that a walk reads through it, and
 * writes each content once. The object log (object_log.h) follows samples. The page log works in
 * rounds instead: everything that a round keeps was read in that round, and content that is equal
 * to the content of the round before costs only a mark in the end.
 */
#ifndef LIVE_PAGE_LOG_H
#define LIVE_PAGE_LOG_H

#include "live/mem_writer.h"
#include "live/lua_scan.h"
#include "unwind/memory.h"

struct page_log;

/* Takes over `memory`, also on failure. `grain`: bytes, a power of two up to 64; kept ranges are
 * rounded to it. A grain equal to the alignment of the objects keeps their neighbours out. */
int page_log_create(pid_t pid, struct process_memory *memory, unsigned grain,
                    const struct log_sink *sink, struct page_log **ret, struct error *err);
void page_log_free(struct page_log *p);

/* Do not keep memory in [start, end), because a file provides it. Call in ascending order. */
bool page_log_skip(struct page_log *p, uint64_t start, uint64_t end);

/* Begin a round: memory is read anew from here on. */
void page_log_begin(struct page_log *p);
/* The process's memory; what is read through this layer is kept. */
struct memory_layer page_log_layer(struct page_log *p);
/* The same memory, but what is read is not kept. */
struct memory_layer page_log_peek(struct page_log *p);
bool page_log_keep(struct page_log *p, uint64_t address, uint64_t size);
/* Read a range that changes as the program runs, now and as one piece. `kind`: enum vmentry_kind.
 * Returns false if it cannot be read. */
bool page_log_range(struct page_log *p, uint64_t address, uint64_t size, uint8_t kind);
/* Keep an object that does not change while it lives, apart from the bytes that `same` ignores
 * (NULL: it ignores none). Returns false if it cannot be read. */
bool page_log_object(struct page_log *p, uint64_t address, uint64_t size,
                     bool (*same)(const void *context, const uint8_t *a, const uint8_t *b,
                                  size_t size),
                     const void *context);
/* Write two words that belong together and are no memory (VMENTRY_INDEX). Each pair is written
 * once. */
void page_log_index(struct page_log *p, uint64_t from, uint64_t to);
/* End the round: write new and changed content. Returns -1 if the log cannot be written. */
int page_log_end(struct page_log *p, struct error *err);
/* Write how long the content written so far has stayed unchanged. */
int page_log_flush(struct page_log *p, struct error *err);

struct page_log_stats {
    uint64_t pages;   /* pages of which something was kept */
    uint64_t bytes;   /* bytes of payloads written */
    uint64_t refused; /* requests to keep that exceeded the limit */
};
struct page_log_stats page_log_stats(const struct page_log *p);

#endif
