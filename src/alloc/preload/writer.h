/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Writes the trace of this process (trace_format.h). A thread writes into a chunk of the file that
 * is mapped, without a lock and without a system call, until the chunk is full. Nothing here
 * allocates.
 */
#ifndef ALLOC_PRELOAD_WRITER_H
#define ALLOC_PRELOAD_WRITER_H

#include "alloc/trace_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* A writer has its place in a chunk, or none. */
struct writer {
    uint8_t *at, *end; /* where the next record goes; the last place where one may begin */
    struct trace_chunk *chunk;
    uint64_t last_ticks, last_address;
    uint32_t calls;
    uint32_t number, next_size;
    uint32_t thread;     /* number + 1 of the thread whose records it has */
    struct writer *next; /* in the list of writers without a thread */
};

/* What a thread keeps. `initial-exec`: the library is loaded at the start, and another model would
 * allocate on the first access. */
struct writer_thread {
    struct writer *writer;
    uint32_t number; /* its number + 1; 0: it has none yet */
    uint32_t skipped;
    bool busy; /* a record is being written: a signal handler must not begin another one */
};
extern __thread struct writer_thread writer_thread __attribute__((tls_model("initial-exec")));

/* A page that a fork clears in the child, so that it never writes into its parent's trace. */
struct writer_page {
    uint32_t is_on;       /* this process writes a trace */
    uint32_t is_threaded; /* several threads do */
};
extern struct writer_page *writer_page;

/* Begin this process's trace, if the environment says where. `flags`: enum trace_flags. */
void writer_start(uint32_t flags);

/* Get a place for one record of this thread; keeps errno. NULL: there is none, and the call is
 * counted as lost. For writer_begin(). */
struct writer *writer_renew(void);

/* Count a call that came while this thread was within a record. */
void writer_count_within(void);

/* The clock: the processor's counter, because clock_gettime() costs more than an allocation. Of
 * counters that are not the same on all processors the reader notices, and says, blocks that were
 * allocated twice. */
static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t t;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t)::"memory");
    return t;
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
#endif
}

/* The same, but not before what the thread has done so far. The processor reads its counter early
 * while it waits for memory: behind an atomic exchange by which a thread gets another one's block,
 * it could be read before that one has allocated the block. */
static inline uint64_t ticks_in_order(void)
{
#if defined(__x86_64__)
    unsigned ignored;
    return __rdtscp(&ignored);
#else
#if defined(__aarch64__)
    __asm__ volatile("dsb ishld\n\tisb" ::: "memory");
#endif
    return ticks_now();
#endif
}

/* Before a call that has a time before and one behind. 0: the clock is not needed. */
static inline uint64_t writer_ticks_before(void)
{
    return writer_page && writer_page->is_threaded ? ticks_in_order() : 0;
}

/* Returns how many bytes a number takes. */
static inline unsigned number_bytes(uint64_t v)
{
    return v ? (71 - (unsigned)__builtin_clzll(v)) / 8 : 0;
}

/* Store a number; the bytes behind it are overwritten by the next one. */
static inline uint8_t *number_put(uint8_t *at, uint64_t v, unsigned bytes)
{
    memcpy(at, &v, sizeof(v));
    return at + bytes;
}

static inline uint64_t rotate_address(uint64_t v)
{
    return v >> 3 | v << 61;
}

/* Code an address that is not NULL. */
static inline uint64_t code_address(struct writer *w, uint64_t address)
{
    const uint64_t rotated = rotate_address(address), d = rotated - w->last_address;
    w->last_address = rotated;
    return d << 1 ^ (uint64_t)((int64_t)d >> 63);
}

/* Code a time that the clock has shown. */
static inline uint64_t code_ticks(struct writer *w, uint64_t ticks)
{
    const uint64_t d = ticks > w->last_ticks ? ticks - w->last_ticks : 0;
    w->last_ticks += d;
    return d;
}

/* Code the time of a call. To read the clock takes longer than all else, and as long as there is
 * one thread the calls are in order without it: then it is read every TRACE_CLOCK_CALLS calls, and
 * counts on by one meanwhile. */
static inline uint64_t code_now(struct writer *w)
{
    if (!writer_page->is_threaded && ++w->calls % TRACE_CLOCK_CALLS) {
        w->last_ticks++;
        return 1;
    }
    return code_ticks(w, ticks_in_order());
}

/* Begin a record of this thread. NULL: it is not to be written. */
static inline struct writer *writer_begin(void)
{
    struct writer_thread *t = &writer_thread;
    if (__builtin_expect(t->busy, 0)) {
        writer_count_within();
        return NULL;
    }
    t->busy = true;
    __asm__ volatile("" ::: "memory");
    struct writer *w = t->writer;
    if (__builtin_expect(!writer_page->is_on || !w || w->at > w->end, 0))
        w = writer_renew();
    if (__builtin_expect(!w, 0))
        t->busy = false;
    return w;
}

/* End it: `at` is behind its bytes. */
static inline void writer_end(struct writer *w, uint8_t *at)
{
    w->at = at;
    __atomic_store_n(&w->chunk->used, (uint32_t)(at - (uint8_t *)(w->chunk + 1)), __ATOMIC_RELEASE);
    __asm__ volatile("" ::: "memory");
    writer_thread.busy = false;
}

static inline uint8_t *put_control(uint8_t *at, unsigned control)
{
    const uint16_t v = (uint16_t)control;
    memcpy(at, &v, sizeof(v));
    return at + sizeof(v);
}

/* Write a record without a second control word. `address` 0: NULL. */
static inline void writer_put(enum trace_operation operation, const void *address, uint64_t size)
{
    struct writer *w = writer_begin();
    if (!w)
        return;
    const uint64_t time = code_now(w);
    const unsigned n_time = number_bytes(time), n_size = number_bytes(size);
    const uint64_t coded = address ? code_address(w, (uintptr_t)address) : 0;
    /* (A difference of 0 takes a byte, because none means NULL.) */
    const unsigned n_address = address ? number_bytes(coded | 1) : 0;
    uint8_t *at = put_control(w->at, operation | n_time << 4 | n_address << 8 | n_size << 12);
    at = number_put(at, time, n_time);
    at = number_put(at, coded, n_address);
    writer_end(w, number_put(at, size, n_size));
}

/* The numbers of a record with a second control word. */
struct writer_long {
    enum trace_operation operation;
    uint64_t before; /* TRACE_REALLOC: writer_ticks_before(), else 0 */
    const void *address, *old;
    uint64_t size;
    unsigned alignment; /* its logarithm */
};

static inline void writer_put_long(const struct writer_long *r)
{
    struct writer *w = writer_begin();
    if (!w)
        return;
    const uint64_t time = r->before ? code_ticks(w, r->before) : code_now(w);
    const uint64_t duration = r->before ? code_ticks(w, ticks_in_order()) : 0;
    const uint64_t address = r->address ? code_address(w, (uintptr_t)r->address) : 0;
    const uint64_t old = r->old ? code_address(w, (uintptr_t)r->old) : 0;
    const unsigned n_time = number_bytes(time), n_size = number_bytes(r->size);
    const unsigned n_address = r->address ? number_bytes(address | 1) : 0;
    const unsigned n_old = r->old ? number_bytes(old | 1) : 0;
    const unsigned n_duration = number_bytes(duration);
    uint8_t *at = put_control(w->at, r->operation | n_time << 4 | n_address << 8 | n_size << 12);
    at = put_control(at, n_duration | n_old << 4 | r->alignment << 8);
    at = number_put(at, time, n_time);
    at = number_put(at, address, n_address);
    at = number_put(at, r->size, n_size);
    at = number_put(at, duration, n_duration);
    writer_end(w, number_put(at, old, n_old));
}

#endif
