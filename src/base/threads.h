/* SPDX-License-Identifier: GPL-2.0-only */
/* Workers that share their work, each in its own thread. */
#ifndef BASE_THREADS_H
#define BASE_THREADS_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

enum { WORKERS_MAX = 64 };

/* The processor that a worker runs on. */
struct processor;

/* Calls `run` with each of `nr` workers (at most WORKERS_MAX), which lie `size` bytes apart from
 * `first` on. The first worker runs in this thread, the others run beside it. If a thread cannot be
 * created, the later workers do not run, and the running workers do all of the work. Returns when
 * all have ended.
 *
 * If there is one worker for each processor that the process may use, each worker keeps one
 * processor until others want it: see processor_check(). */
void threads_run(void (*run)(void *worker, struct processor *p), void *first, size_t size,
                 unsigned nr);

/* A worker calls this between two pieces of work. If others used the worker's processor for long
 * meanwhile, the worker gives up its fixed processor and runs wherever the system puts it. */
void processor_check(struct processor *p);
/* The worker has waited: the next processor_check() ignores the time until then. */
void processor_idle(struct processor *p);

/* pthread_create() of a thread that stays off the calling thread's processor. */
int thread_beside(pthread_t *thread, void *(*run)(void *), void *context);

/* Block all signals of this thread but SIGBUS, by which base/file_map.h learns that a file was cut.
 * `old` gets the mask to restore. */
void signals_block(sigset_t *old);
/* pthread_create() of a thread that takes no signals: they are for the other threads. */
int thread_without_signals(pthread_t *thread, void *(*run)(void *), void *context);

/* Initialize a lock that is held for about a microsecond. Where the C library can, a thread that
 * finds the lock taken spins for a while before it sleeps: to sleep and to be woken takes far
 * longer than the wait, above all in a virtual machine. */
void lock_init_short(pthread_mutex_t *lock);

/* Wait for something that takes some hundred microseconds at most: gives the processor to any other
 * thread that wants it. `*tries` is 0 at first. Returns false after enough tries in vain. */
bool lock_try_again(unsigned *tries);

/* Take a lock whose holder mostly needs some hundred microseconds at most. */
void lock_patiently(pthread_mutex_t *lock);

#endif
