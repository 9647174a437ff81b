/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A thread beside the recorder's thread: it reads recorded processes while the recorder goes on
 * emptying the rings. Reading a process's memory takes its mmap lock. A program that maps and
 * protects memory all the time makes a reader wait tens of ms for this lock, each time; the rings
 * overflow sooner.
 *
 *     the recorder                                                  the thread
 *     reader_thread_sample, reader_thread_record -> bounded queue -> work->sample, work->record
 *     reader_thread_kick                         ->               -> work->tick, once it is empty
 *     reader_thread_take                         <- what it wrote <- reader_thread_write
 *
 * The queue keeps the order of samples and records. It copies only the parts of a sample that walks
 * need. When the queue is full, a sample is dropped and counted, but another record waits for room.
 */
#ifndef LIVE_READER_THREAD_H
#define LIVE_READER_THREAD_H

#include "base/error.h"
#include "perfdata/perfdata.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Called from the thread, one at a time. A return of -1 ends the work, and the recorder's next call
 * reports the error. */
struct reader_thread_work {
    int (*sample)(void *context, const struct sample *s, struct error *err);
    int (*record)(void *context, const struct perf_event_header *record, struct error *err);
    int (*tick)(void *context, struct error *err);
    void *context;
};

struct reader_thread;

/* Creates no thread yet. `work` is copied. Returns NULL when memory is out. */
struct reader_thread *reader_thread_create(const struct reader_thread_work *work);
/* Ends the thread and drops what waits in the queue. */
void reader_thread_free(struct reader_thread *a);

/* ---- the recorder's side: from one thread --------------------------------------------------- */

/* Start the thread, if it does not run yet. It takes no signals. */
int reader_thread_start(struct reader_thread *a, struct error *err);

/* Put a sample's registers, stack and raw payload into the queue; the sample's event must outlive
 * the entry. Drops the sample when there is no room. Returns -1 if the work has failed. */
int reader_thread_sample(struct reader_thread *a, const struct sample *s, struct error *err);
/* Put a whole record into the queue; waits for room. What the thread writes meanwhile is kept. */
int reader_thread_record(struct reader_thread *a, const struct perf_event_header *record,
                         struct error *err);
/* Wake the thread: it empties the queue, then calls work->tick. */
int reader_thread_kick(struct reader_thread *a, struct error *err);
/* Wait until the queue is empty and the thread is idle. Until the next call the caller may use the
 * state of the work. */
int reader_thread_wait(struct reader_thread *a, struct error *err);

/* Take what was written since the last call, piece by piece; `bytes` are valid until the next call.
 * Returns false when there is nothing more. */
bool reader_thread_take(struct reader_thread *a, const void **bytes, size_t *size);

uint64_t reader_thread_dropped(struct reader_thread *a); /* samples dropped */

/* ---- the work's side ------------------------------------------------------------------------ */

/* Keep a piece for reader_thread_take. Call from the thread, or while it is idle. */
int reader_thread_write(struct reader_thread *a, const void *bytes, size_t size, struct error *err);

#endif
