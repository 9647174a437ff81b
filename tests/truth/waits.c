/* SPDX-License-Identifier: GPL-2.0-only */
/* Waits whose lengths are known: prints, for each kind, the ns that its thread was off the cpu (the
 * time that passed, less the time that it ran), how many waits there were, and the ns that a host
 * took from all cpus meanwhile. Time that a host takes counts as neither run nor switched off.
 * "idle": waits until it is killed. */
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
static const char *names[] = {"long_nap", "short_nap", "wait_lock", "compete"};
static double off[NR], stolen[NR];
static int count[NR];
static double now(clockid_t c)
{
    struct timespec t;
    clock_gettime(c, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
/* Both clocks are read at one moment: a switch between the readings would count for the wrong side.
 */
static double away(void)
{
    double from, ran, to;
    for (int i = 0; i < 1000; i++) {
        from = now(CLOCK_MONOTONIC);
        ran = now(CLOCK_THREAD_CPUTIME_ID);
        to = now(CLOCK_MONOTONIC);
        if (to - from < 20e-6)
            break;
    }
    return to - ran;
}
/* The seconds that a host has taken from all cpus so far. */
static double taken(void)
{
    unsigned long long ticks = 0;
    FILE *f = fopen("/proc/stat", "r");
    if (!f || fscanf(f, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks) != 1)
        ticks = 0;
    if (f)
        fclose(f);
    return (double)ticks / sysconf(_SC_CLK_TCK);
}
static void nap(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t never;
static volatile int stop;
/* Each returns what it was away since the reading T. It reads the clocks itself: a switch while it
 * does so is its own. */
__attribute__((noinline)) double long_nap(double t)
{
    nap(20000);
    return away() - t;
}
__attribute__((noinline)) double short_nap(double t)
{
    nap(200);
    return away() - t;
}
__attribute__((noinline)) double wait_lock(double t)
{
    pthread_mutex_lock(&lock);
    return away() - t;
}
__attribute__((noinline)) double compete(double t)
{
    double end = now(CLOCK_MONOTONIC) + 0.3;
    while (now(CLOCK_MONOTONIC) < end)
        ;
    return away() - t;
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
    double host = taken();
    off[PREEMPTED] = compete(away());
    stolen[PREEMPTED] = taken() - host;
    return a;
}
static void waits(int nr, int which, double (*f)(double))
{
    double host = taken();
    for (int i = 0; i < nr; i++)
        off[which] += f(away());
    stolen[which] = taken() - host;
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
    double host = taken();
    for (int i = 0; i < 100; i++) {
        off[LOCK] += wait_lock(away());
        pthread_mutex_unlock(&lock);
        nap(100);
    }
    stolen[LOCK] = taken() - host;
    pthread_create(&r, NULL, rival, NULL);
    pthread_create(&c, NULL, competitor, NULL);
    pthread_join(c, NULL);
    stop = 1;
    pthread_join(r, NULL);
    pthread_join(t, NULL);
    count[LOCK] = 100;
    for (int i = 0; i < NR; i++)
        printf("%s %.0f %d %.0f\n", names[i], off[i] * 1e9, count[i], stolen[i] * 1e9);
    return 0;
}
