/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which waits are idle: the thread waits for something to do, at the top of a loop. A pool of such
 * threads would hide all other waits, so summaries fold these away.
 *
 * A wait is idle if
 * 1. the thread sleeps in a system call in which threads wait for something to do; in a futex only
 *    through a condition variable or a semaphore, never through a lock, and not in the first thread
 *    of its process, which rather waits for its workers;
 * 2. the thread is found there again and again, with the same stack and stack pointer, or for
 *    nearly as long as it is recorded;
 * 3. what else the thread does from the first of these waits to the last is called by the function
 *    that waits, or, if the call is one that loops make, by one function outside it: the loop. What
 *    is seen elsewhere is at most one sample in 20.
 *
 * By 3, who waits for an answer deep in a request is not idle: functions in between do other things
 * as well. A wait that may be for a certain answer (read, a poll of one file) or for a time needs
 * the stronger form: the function that waits has also called what else was seen, and
 * that is not only a library.
 *
 * The decisions are made from the samples that pass the replay's filters, and whose stacks are
 * complete.
 */
#ifndef REPLAY_IDLE_H
#define REPLAY_IDLE_H

#include "base/error.h"
#include "perfdata/perfdata.h"
#include "unwind/arch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a system call waits for. */
enum idle_call {
    IDLE_NO,   /* not for something to do, as far as is known */
    IDLE_ONE,  /* for a file or a time: something to do, or the answer to a request */
    IDLE_MANY, /* for the next of several events */
    IDLE_FUTEX,
};
/* Returns what the system call of this number waits for. `arch`: NULL: not known. `s`: registers at
 * the call, if it has them: a poll of several files is IDLE_MANY. */
enum idle_call idle_call_of(const struct arch *arch, unsigned syscall, const struct sample *s);
/* Whether the registers say that the thread waits in a futex as condition variables of glibc do,
 * and its mutexes do not. */
bool idle_is_bitset(const struct arch *arch, const struct sample *s);
/* Whether a function of this name waits for a condition variable or a semaphore, or is one that
 * parks threads without work; whether it takes a lock. */
bool idle_waits_for_work(const char *symbol);
bool idle_takes_lock(const char *symbol);

/* ---- judging --------------------------------------------------------------------------------- */

struct idle_frame {
    uint64_t pc;
    uint64_t function; /* equal: the same function; 0: not known */
};

/* A stack that was sampled, outermost frame first. */
struct idle_stack {
    const struct idle_frame *frames;
    size_t nr;
    size_t nr_inner; /* innermost frames that are of a library of the system: of libc, say */
};

/* The waits of a thread at one stack. */
struct idle_wait {
    struct idle_stack stack; /* the function that waits is the one outside of `nr_inner` */
    enum idle_call call;
    bool first_thread; /* of its process */
    bool whole;        /* there is one, as long as the thread, or all, is recorded */
    uint64_t samples;
};

struct idle_judge {
    const struct idle_wait *wait;
    uint64_t *left; /* samples by how many frames of the wait's stack they share */
    uint64_t work;  /* samples of what the function that waits has called, but libraries */
};
/* Returns false when out of memory. `wait` must stay valid. */
bool idle_judge_begin(struct idle_judge *j, const struct idle_wait *wait);
/* Take another stack of the thread, of a time between the first and the last of the waits. */
void idle_judge_add(struct idle_judge *j, const struct idle_stack *other, uint64_t samples);
/* Returns whether the waits are idle, and frees what the judge has. */
bool idle_judge_end(struct idle_judge *j);

/* ---- of a replay ----------------------------------------------------------------------------- */

struct replay_sample;
struct replay_stats;
struct replay_worker;
struct idle;

/* For as many workers; NULL when out of memory. */
struct idle *idle_create(unsigned nr_workers);
void idle_free(struct idle *d);
/* Take a sample. *ret is the number of its wait, if that may be idle, else 0. Workers may call it
 * side by side, each with its own number. */
int idle_note(struct idle *d, unsigned number, struct replay_worker *w,
              const struct replay_sample *s, uint64_t *ret, struct error *err);
/* To be called when all samples have been taken: decide, and count in `st`. */
int idle_decide(struct idle *d, struct replay_stats *st, struct error *err);
/* Returns whether a wait of this number is idle, after idle_decide(). */
bool idle_is(const struct idle *d, uint64_t wait);

#endif
