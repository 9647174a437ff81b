/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A thread beside the recorder's: it looks at recorded processes while the recorder goes on
 * emptying the rings. Reading a process's memory takes its mmap lock, for which a program that maps
 * and protects memory all the time lets a reader wait tens of ms, each time; rings overflow sooner.
 *
 *     the recorder:  reader_thread_sample, reader_thread_record -> a bounded queue -> the thread:
 * work->sample, ... reader_thread_kick                 ->                 -> work->tick, once it is
 * empty reader_thread_take                 <- what it wrote   <- reader_thread_write
 *
 * The order of samples and records is kept. Of samples, what walks need is copied; for those that
 * find no room the queue does not wait (they are counted); for other records it does.
 */
#ifndef CAPTURE_READER_THREAD_H
#define CAPTURE_READER_THREAD_H

#include "base/error.h"
#include "perfdata/perfdata.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Called from the thread, one at a time; -1 ends the work, and is told by the recorder's next call.
 */
struct reader_thread_work {
    int (*sample)(void *context, const struct sample *s, struct error *err);
    int (*record)(void *context, const struct perf_event_header *record, struct error *err);
    int (*tick)(void *context, struct error *err);
    void *context;
};

struct reader_thread;

/* No thread runs yet; `work` is copied. NULL when memory is out. */
struct reader_thread *reader_thread_create(const struct reader_thread_work *work);
/* Ends the thread; what waits in the queue is forgotten. */
void reader_thread_free(struct reader_thread *a);

/* ---- the recorder's side: from one thread --------------------------------------------------- */

/* Begin the thread, if it does not run. It takes no signals. */
int reader_thread_start(struct reader_thread *a, struct error *err);

/* Put a sample's registers, stack and raw payload into the queue; its event must stay. When there
 * is no room it is dropped. -1: the work has failed. */
int reader_thread_sample(struct reader_thread *a, const struct sample *s, struct error *err);
/* Put a whole record into the queue; waits for room. What the thread writes meanwhile is kept. */
int reader_thread_record(struct reader_thread *a, const struct perf_event_header *record,
                         struct error *err);
/* Wake the thread: it empties the queue, then has its tick. */
int reader_thread_kick(struct reader_thread *a, struct error *err);
/* Wait until the queue is empty and nothing runs. Until the next call the state of the work is the
 * recorder's. */
int reader_thread_wait(struct reader_thread *a, struct error *err);

/* What was written since the last call, piece by piece; `bytes` are valid until the next call.
 * False: nothing more. */
bool reader_thread_take(struct reader_thread *a, const void **bytes, size_t *size);

uint64_t reader_thread_dropped(struct reader_thread *a); /* samples */

/* ---- the work's side ------------------------------------------------------------------------ */

/* Keep a piece for reader_thread_take. From the thread, or while nothing runs. */
int reader_thread_write(struct reader_thread *a, const void *bytes, size_t size, struct error *err);

#endif
