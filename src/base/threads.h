/* SPDX-License-Identifier: GPL-2.0-only */
/* Workers that share their work, each in a thread of its own. */
#ifndef BASE_THREADS_H
#define BASE_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { WORKERS_MAX = 64 };

/* Calls `run` with each of `nr` workers, at most WORKERS_MAX, which stand `size` bytes apart from
 * `first` on: the first in this thread, the others beside it. Where a thread cannot be made the
 * later workers are not run: those that are do all of the work. Returns when all have ended. */
void threads_run(void *(*run)(void *), void *first, size_t size, unsigned nr);

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
