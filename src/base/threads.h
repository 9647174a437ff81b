/* SPDX-License-Identifier: GPL-2.0-only */
/* Workers that share their work, each in a thread of its own. */
#ifndef BASE_THREADS_H
#define BASE_THREADS_H

#include <stddef.h>

enum { WORKERS_MAX = 64 };

/* Calls `run` with each of `nr` workers, at most WORKERS_MAX, which stand `size` bytes apart from
 * `first` on: the first in this thread, the others beside it. Where a thread cannot be made the
 * later workers are not run: those that are do all of the work. Returns when all have ended. */
void threads_run(void *(*run)(void *), void *first, size_t size, unsigned nr);

#endif
