/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Some kernels leave a new thread, and a thread that is woken, on the processor of the thread that
 * made or woke it, even if another processor idles. Of two workers one then waits until a timer
 * tick moves it: 4 ms, as long as 2,000 samples take. So the functions here choose the processors
 * of threads.
 */
#include "base/threads.h"

#include "base/clock.h"

#include <sched.h>
#include <stdint.h>
#include <time.h>

/* ---- processors ---------------------------------------------------------------------------- */

struct processor {
    bool known, kept;
    cpu_set_t all;      /* processors that the process may use */
    uint64_t wall, cpu; /* at the last check, ns; wall 0: no valid check */
};

static void processor_leave(struct processor *p)
{
    if (p->kept)
        sched_setaffinity(0, sizeof(p->all), &p->all);
    p->kept = false;
}

void processor_idle(struct processor *p)
{
    p->wall = 0;
}

void processor_check(struct processor *p)
{
    const uint64_t lost_max = 2000000; /* other processes' time slices are longer */
    if (!p->kept)
        return;
    uint64_t wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (p->wall && wall - p->wall > cpu - p->cpu + lost_max)
        processor_leave(p);
    p->wall = wall;
    p->cpu = cpu;
}

/* Get the processors that the process may use. Returns the processor of this thread; -1: there is
 * only one, or they cannot be determined. */
static int processors_get(cpu_set_t *all)
{
    int here = sched_getcpu();
    bool known = here >= 0 && here < CPU_SETSIZE && sched_getaffinity(0, sizeof(*all), all) == 0;
    return known && CPU_ISSET(here, all) && CPU_COUNT(all) > 1 ? here : -1;
}

static int processor_after(const cpu_set_t *all, int at)
{
    do
        at = (at + 1) % CPU_SETSIZE;
    while (!CPU_ISSET(at, all));
    return at;
}

/* ---- threads ------------------------------------------------------------------------------- */

struct worker_start {
    void (*run)(void *worker, struct processor *p);
    void *worker;
    struct processor processor;
};

static void *worker_start(void *context)
{
    struct worker_start *s = context;
    struct processor *p = &s->processor;
    if (!p->kept && p->known) /* it had to avoid the creator's processor only at its start */
        sched_setaffinity(0, sizeof(p->all), &p->all);
    s->run(s->worker, p);
    return NULL;
}

/* Create a thread on `processor`; if that is -1, on any but `here`; if `here` is -1, anywhere. */
static int create_on(pthread_t *thread, const cpu_set_t *all, int here, int processor,
                     void *(*run)(void *), void *context)
{
    int failed = -1;
#ifdef __GLIBC__
    if (here >= 0) {
        cpu_set_t on = *all;
        CPU_CLR(here, &on);
        if (processor >= 0) {
            CPU_ZERO(&on);
            CPU_SET(processor, &on);
        }
        pthread_attr_t attr;
        pthread_attr_init(&attr);
        pthread_attr_setaffinity_np(&attr, sizeof(on), &on);
        failed = pthread_create(thread, &attr, run, context);
        pthread_attr_destroy(&attr);
    }
#else
    (void)all, (void)processor;
#endif
    return failed ? pthread_create(thread, NULL, run, context) : 0;
}

void threads_run(void (*run)(void *worker, struct processor *p), void *first, size_t size,
                 unsigned nr)
{
    pthread_t threads[WORKERS_MAX];
    struct worker_start starts[WORKERS_MAX];
    struct processor own = {0};
    int here = nr > 1 ? processors_get(&own.all) : -1, on = here;
    own.known = here >= 0;
    own.kept = own.known && nr == (unsigned)CPU_COUNT(&own.all);
    unsigned started = 1; /* worker 0 is this thread */
    for (; started < nr && started < WORKERS_MAX; started++) {
        starts[started] = (struct worker_start){run, (uint8_t *)first + started * size, own};
        on = own.kept ? processor_after(&own.all, on) : -1;
        if (create_on(&threads[started], &own.all, here, on, worker_start, &starts[started]) != 0)
            break;
    }
    if (own.kept) {
        cpu_set_t only;
        CPU_ZERO(&only);
        CPU_SET(here, &only);
        sched_setaffinity(0, sizeof(only), &only);
    }
    run(first, &own);
    processor_leave(&own);
    for (unsigned i = 1; i < started; i++)
        pthread_join(threads[i], NULL);
}

int thread_beside(pthread_t *thread, void *(*run)(void *), void *context)
{
    cpu_set_t all;
    return create_on(thread, &all, processors_get(&all), -1, run, context);
}

/* ---- signals ------------------------------------------------------------------------------- */

void signals_block(sigset_t *old)
{
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, old);
}

int thread_without_signals(pthread_t *thread, void *(*run)(void *), void *context)
{
    sigset_t old;
    signals_block(&old);
    int why = pthread_create(thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return why;
}

/* ---- locks --------------------------------------------------------------------------------- */

void lock_init_short(pthread_mutex_t *lock)
{
#ifdef __GLIBC__
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(lock, &kind);
    pthread_mutexattr_destroy(&kind);
#else
    pthread_mutex_init(lock, NULL);
#endif
}

bool lock_try_again(unsigned *tries)
{
    enum { PATIENCE = 500 }; /* a call takes at least 0.3 us: as long as a sleep costs */
    if (++*tries > PATIENCE)
        return false;
    sched_yield();
    return true;
}

void lock_patiently(pthread_mutex_t *lock)
{
    unsigned tries = 0;
    while (pthread_mutex_trylock(lock) != 0)
        if (!lock_try_again(&tries)) {
            pthread_mutex_lock(lock);
            return;
        }
}
