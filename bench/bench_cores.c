/* SPDX-License-Identifier: GPL-2.0-only */
/* Measures the time to hand a cache line from one processor to another, in ns: 40 to 100 within a
 * package; 200 and more between packages, or where a virtual machine's processors are spread over
 * two of them. There, threads that share memory gain less than programs that share nothing. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { TURNS = 200000 };

struct line {
    _Alignas(128) atomic_int turn;
};

static void stay_on(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    /* a hint: if it fails, the figure is not of this pair */
    sched_setaffinity(0, sizeof(set), &set);
}

static void hand_over(struct line *l, int from)
{
    for (int i = 0; i < TURNS; i++) {
        while (atomic_load_explicit(&l->turn, memory_order_acquire) != 2 * i + from)
            ;
        atomic_store_explicit(&l->turn, 2 * i + from + 1, memory_order_release);
    }
}

static void *other_main(void *line)
{
    stay_on(1);
    hand_over(line, 1);
    return NULL;
}

int main(void)
{
    struct line line = {0};
    struct timespec start, end;
    pthread_t other;
    stay_on(0);
    if (pthread_create(&other, NULL, other_main, &line) != 0)
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &start);
    hand_over(&line, 0);
    pthread_join(other, NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ns = (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
    printf("a cache line from processor 0 to 1: %.0f ns\n", ns / TURNS / 2);
    return 0;
}
