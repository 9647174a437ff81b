/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The reader works beside the recorder: it looks at recorded processes while the recorder goes on
 * emptying the rings. Reading a process's memory takes its mmap lock. A program that maps and
 * protects memory all the time makes a reader wait tens of ms for this lock, each time; the rings
 * overflow sooner.
 *
 *     the recorder                                  the reader
 *     reader_sample, reader_record -> bounded queue -> work->sample, work->record
 *     reader_call                  -> the queue     -> work->call
 *     reader_kick                  ->               -> work->tick, once the queue is empty
 *     reader_take                  <- pieces        <- reader_write
 *
 * The queue keeps the order of what is put into it. It copies only the parts of a sample that walks
 * need. When the queue is full, a sample is dropped and counted, but all else waits for room.
 *
 * The reader is a thread, or a process. What it reads belongs to strangers. As a process it can run
 * without the recorder's privileges, and its death costs what it knew and no more: the recorder
 * starts another one. So the recorder trusts nothing that a process puts into the shared memory: it
 * keeps its own counts, and checks those of the reader.
 */
#ifndef LIVE_READER_H
#define LIVE_READER_H

#include "base/error.h"
#include "perfdata/perfdata.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

enum reader_form { READER_THREAD, READER_PROCESS };

/* Called in the reader, one at a time. A return of -1 ends the work: of a thread, the recorder's
 * next call reports the error; a process is lost. */
struct reader_work {
    /* In a process: called first. NULL: there is nothing to do. */
    int (*begin)(void *context, struct error *err);
    int (*sample)(void *context, const struct sample *s, struct error *err);
    int (*record)(void *context, const struct perf_event_header *record, struct error *err);
    int (*call)(void *context, unsigned which, struct error *err);
    int (*tick)(void *context, struct error *err);
    void *context;
};

struct reader;

/* Starts nothing yet. `work` is copied. Returns NULL when memory is out. */
struct reader *reader_create(const struct reader_work *work);
/* Ends the reader, as reader_end(). */
void reader_free(struct reader *r);

/* ---- the recorder's side: from one thread --------------------------------------------------- */

/* Start the reader, if it does not run. A process works with a copy of the work's context as it is
 * now. Neither form takes signals. A process ends when the recorder does. */
int reader_start(struct reader *r, enum reader_form form, struct error *err);
/* End the reader. What waits in the queue is dropped. */
void reader_end(struct reader *r);
/* The pid of a process that runs; 0: none. */
pid_t reader_pid(const struct reader *r);

/* Put a sample's registers, stack and raw payload into the queue; the sample's event must outlive
 * the entry. Drops the sample when there is no room. Returns -1 if the work has failed. */
int reader_sample(struct reader *r, const struct sample *s, struct error *err);
/* Put a whole record into the queue; waits for room. Pieces that come meanwhile are kept. */
int reader_record(struct reader *r, const struct perf_event_header *record, struct error *err);
/* The same for a call of work->call with this number. */
int reader_call(struct reader *r, unsigned which, struct error *err);
/* Wake the reader: it empties the queue, then calls work->tick. */
int reader_kick(struct reader *r, struct error *err);
/* Wait until the queue is empty and the reader idle, up to `ms` ms. Returns 0: it is, or there is
 * no reader; 1: not yet; -1: the work has failed. After 0 the caller may use the state of the work,
 * until the next call. */
int reader_wait(struct reader *r, unsigned ms, struct error *err);
/* How long, in ms, a process works at the same step (reader_look). 0 for a thread. Time counts only
 * while the recorder looks. */
unsigned reader_stands(const struct reader *r);
/* Let reader_hurried() say so, until the reader is started again. */
void reader_hurry(struct reader *r);
/* End a process that stands. */
void reader_kill(struct reader *r);

/* How a process was lost. */
struct reader_loss {
    pid_t at;      /* the process that it looked at; 0: none */
    char why[280]; /* "was ended by signal 11"; may have a stranger's words */
};
/* Returns true once for each process that ended by itself, stood for too long, or was killed. It is
 * not started again by itself. */
bool reader_lost(struct reader *r, struct reader_loss *ret);

/* Take what was written since the last call, piece by piece; `bytes` are valid until the next call.
 * Returns false when there is nothing more. */
bool reader_take(struct reader *r, unsigned *kind, const void **bytes, size_t *size);

uint64_t reader_dropped(const struct reader *r); /* samples dropped */
/* What processes that have ended have used. */
struct rusage reader_used(const struct reader *r);

/* ---- the work's side ------------------------------------------------------------------------ */

enum { READER_PIECE_MAX = 1 << 20 };
/* Keep a piece of at most READER_PIECE_MAX bytes for reader_take. Waits for room. */
int reader_write(struct reader *r, unsigned kind, const void *bytes, size_t size,
                 struct error *err);
/* Say that work at something of this process begins: a next step. 0: of no process. */
void reader_look(struct reader *r, pid_t pid);
/* Whether the recorder is about to end: long searches end. */
bool reader_hurried(const struct reader *r);

/* READER_COMMON bytes of memory that recorder and work share, zeros at first. */
enum { READER_COMMON = 64 };
void *reader_common(struct reader *r);

#endif
