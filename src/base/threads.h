/* SPDX-License-Identifier: GPL-2.0-only */
/* Workers that share their work, each in a thread of its own. */
#ifndef BASE_THREADS_H
#define BASE_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { WORKERS_MAX = 64 };

/* What a worker runs on. */
struct processor;

/* Calls `run` with each of `nr` workers, at most WORKERS_MAX, which stand `size` bytes apart from
 * `first` on: the first in this thread, the others beside it. Where a thread cannot be made the
 * later workers are not run: those that are do all of the work. Returns when all have ended.
 *
 * With a worker for each processor that the process may use, each keeps one, until that is wanted
 * by others: see processor_check(). */
void threads_run(void (*run)(void *worker, struct processor *p), void *first, size_t size,
                 unsigned nr);

/* For a worker that has ended one piece of work and begins the next: where others used its
 * processor for long meanwhile, it stays there no longer, and goes wherever the system puts it. */
void processor_check(struct processor *p);
/* It has waited: the time until the next processor_check() says nothing. */
void processor_idle(struct processor *p);

/* pthread_create() of a thread that stays off this one's processor. */
int thread_beside(pthread_t *thread, void *(*run)(void *), void *context);

/* A lock that is held for about a microsecond. Who finds it taken looks for a while before it
 * sleeps, where the C library can: to sleep and to be woken takes far longer than the wait, above
 * all in a virtual machine. */
void lock_init_short(pthread_mutex_t *lock);

/* Something that takes some hundred microseconds at most is waited for: gives the processor to
 * whoever else wants it; false: enough of that, `*tries` times (0 at first) were in vain. */
bool lock_try_again(unsigned *tries);

/* Takes a lock that is mostly held for so long. */
void lock_patiently(pthread_mutex_t *lock);

#endif
