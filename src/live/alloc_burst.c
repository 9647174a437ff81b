/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes that exist for a moment. See alloc_burst.h. */
#include "live/alloc_burst.h"

#include "base/clock.h"
#include "base/threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

struct alloc_burst {
    pthread_t thread;
    bool runs; /* the thread must be joined */
    atomic_bool over;
    fd_vec fds;    /* the thread's, until it is over */
    uint64_t ns;   /* that it takes */
    uint64_t next; /* CLOCK_MONOTONIC ns */
};

struct alloc_burst *alloc_burst_create(void)
{
    return calloc(1, sizeof(struct alloc_burst));
}

static void close_all(fd_vec *fds)
{
    vec_foreach (fd, fds)
        close(*fd);
    fds->nr = 0;
}

static void *close_apart(void *context)
{
    fd_vec *fds = context;
    close_all(fds);
    vec_free(fds);
    free(fds);
    return NULL;
}

void alloc_close_apart(fd_vec *fds)
{
    pthread_t thread;
    fd_vec *theirs = malloc(sizeof(*theirs));
    if (theirs)
        *theirs = *fds;
    if (theirs && thread_without_signals(&thread, close_apart, theirs) == 0) {
        pthread_detach(thread);
        *fds = (fd_vec){0};
        return;
    }
    free(theirs);
    close_all(fds);
    vec_free(fds);
}

/* Descriptors that one of several threads closes: each `step`th, from `at` on. */
struct share {
    const fd_vec *fds;
    size_t at, step;
    pthread_t thread;
    bool runs; /* the thread must be joined */
};

static void *close_share(void *context)
{
    const struct share *share = context;
    for (size_t i = share->at; i < share->fds->nr; i += share->step)
        close(share->fds->at[i]);
    return NULL;
}

/* Close descriptors at the same time: each close waits for the kernel, and the probes of those
 * behind it would exist for as long. */
static void close_together(fd_vec *fds)
{
    enum { THREADS = 16 };
    struct share shares[THREADS];
    const size_t nr = fds->nr < THREADS ? fds->nr : THREADS;
    for (size_t i = 0; i < nr; i++) {
        struct share *s = &shares[i];
        *s = (struct share){.fds = fds, .at = i, .step = nr};
        s->runs = i + 1 < nr && thread_without_signals(&s->thread, close_share, s) == 0;
        if (!s->runs)
            close_share(s);
    }
    for (size_t i = 0; i < nr; i++)
        if (shares[i].runs)
            pthread_join(shares[i].thread, NULL);
    fds->nr = 0;
}

static void *end_burst(void *context)
{
    struct alloc_burst *b = context;
    usleep((useconds_t)(b->ns / 1000));
    close_together(&b->fds);
    atomic_store(&b->over, true);
    return NULL;
}

static void join(struct alloc_burst *b)
{
    if (b->runs)
        pthread_join(b->thread, NULL);
    b->runs = false;
}

void alloc_burst_free(struct alloc_burst *b)
{
    if (!b)
        return;
    join(b);
    close_all(&b->fds);
    vec_free(&b->fds);
    free(b);
}

bool alloc_burst_is_due(struct alloc_burst *b)
{
    return clock_ns(CLOCK_MONOTONIC) >= b->next && (!b->runs || atomic_load(&b->over));
}

int alloc_burst_begin(struct alloc_burst *b, fd_vec *fds, uint64_t ns, struct error *err)
{
    join(b);
    vec_free(&b->fds);
    b->fds = *fds;
    *fds = (fd_vec){0};
    b->ns = ns;
    b->next = clock_ns(CLOCK_MONOTONIC) + ALLOC_BURST_EVERY_NS;
    atomic_store(&b->over, false);
    int why = thread_without_signals(&b->thread, end_burst, b);
    b->runs = !why;
    if (!why)
        return 0;
    close_all(&b->fds);
    return error_system(err, why, "--alloc: a thread cannot be created");
}
