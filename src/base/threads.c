/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/threads.h"

#include <pthread.h>
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
