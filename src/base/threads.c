/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/threads.h"

#include <sched.h>
#include <stdint.h>

void threads_run(void *(*run)(void *), void *first, size_t size, unsigned nr)
{
    pthread_t threads[WORKERS_MAX];
    unsigned started = 1; /* worker 0 is this thread */
    while (started < nr && started < WORKERS_MAX &&
           pthread_create(&threads[started], NULL, run, (uint8_t *)first + started * size) == 0)
        started++;
    run(first);
    for (unsigned i = 1; i < started; i++)
        pthread_join(threads[i], NULL);
}

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
    enum { PATIENCE = 500 }; /* a call takes 0.3 us and more: as long as sleeping would cost */
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
