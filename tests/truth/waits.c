/* SPDX-License-Identifier: GPL-2.0-only */
/* Waits whose lengths are known: prints, for each kind, the ns that its thread was off the cpu (the
 * time that passed, less the time that it ran), and how many waits there were. "idle": waits until
 * it is killed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
enum { LONG, SHORT, LOCK, PREEMPTED, NR };
static const char *names[] = {"long_nap", "short_nap", "wait_lock", "competitor"};
static double off[NR];
static int count[NR];
static double now(clockid_t c)
{
    struct timespec t;
    clock_gettime(c, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
static double away(void)
{
    return now(CLOCK_MONOTONIC) - now(CLOCK_THREAD_CPUTIME_ID);
}
static void nap(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t never;
static volatile int stop;
__attribute__((noinline)) void long_nap(void)
{
    nap(20000);
    __asm__ volatile("");
}
__attribute__((noinline)) void short_nap(void)
{
    nap(200);
    __asm__ volatile("");
}
__attribute__((noinline)) void wait_lock(void)
{
    pthread_mutex_lock(&lock);
    __asm__ volatile("");
}
__attribute__((noinline)) void compete(void)
{
    double end = now(CLOCK_MONOTONIC) + 0.3;
    while (now(CLOCK_MONOTONIC) < end)
        ;
}
__attribute__((noinline)) void idle_forever(void)
{
    while (sem_wait(&never))
        ;
    __asm__ volatile("");
}
static void *idler(void *a)
{
    idle_forever();
    return a;
}
static void *owner(void *a)
{
    while (!stop) {
        pthread_mutex_lock(&lock);
        nap(3000);
        pthread_mutex_unlock(&lock);
        nap(1000);
    }
    return a;
}
static void pin(void)
{
    cpu_set_t s;
    CPU_ZERO(&s);
    CPU_SET(0, &s);
    sched_setaffinity(0, sizeof(s), &s);
}
static void *rival(void *a)
{
    pin();
    while (!stop)
        ;
    return a;
}
static void *competitor(void *a)
{
    pin();
    double t = away();
    compete();
    off[PREEMPTED] = away() - t;
    return a;
}
static void waits(int nr, int which, void (*f)(void))
{
    for (int i = 0; i < nr; i++) {
        double t = away();
        f();
        off[which] += away() - t;
    }
    count[which] = nr;
}
int main(int argc, char **argv)
{
    pthread_t t, r, c;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1 && strcmp(argv[1], "idle") == 0) {
        sem_init(&never, 0, 0);
        for (int i = 0; i < 4; i++)
            pthread_create(&t, NULL, idler, NULL);
        puts("ready");
        for (int i = 0; i < 10000; i++)
            nap(10000);
        return 0;
    }
    waits(20, LONG, long_nap);
    waits(1000, SHORT, short_nap);
    pthread_create(&t, NULL, owner, NULL);
    for (int i = 0; i < 100; i++) {
        double a = away();
        wait_lock();
        off[LOCK] += away() - a;
        pthread_mutex_unlock(&lock);
        nap(100);
    }
    pthread_create(&r, NULL, rival, NULL);
    pthread_create(&c, NULL, competitor, NULL);
    pthread_join(c, NULL);
    stop = 1;
    pthread_join(r, NULL);
    pthread_join(t, NULL);
    count[LOCK] = 100;
    for (int i = 0; i < NR; i++)
        printf("%s %.0f %d\n", names[i], off[i] * 1e9, count[i]);
    return 0;
}
