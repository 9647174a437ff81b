/* SPDX-License-Identifier: GPL-2.0-only */
/* Two threads want one cpu; one of them also sleeps. Prints, for each, the ns that it waited for
 * the cpu while it could run, as the scheduler counts them, and the ns that it was in contend(). */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define FUNCTION __attribute__((noinline, noclone))
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
static unsigned long long delay(void)
{
    unsigned long long ns = 0;
    FILE *f = fopen("/proc/thread-self/schedstat", "r");
    if (!f || fscanf(f, "%*u %llu", &ns) != 1)
        ns = 0;
    if (f)
        fclose(f);
    return ns;
}
static FUNCTION void spin(double end)
{
    while (now() < end)
        ;
    __asm__ volatile("");
}
static FUNCTION void contend_busy(double end)
{
    spin(end);
    __asm__ volatile("");
}
static FUNCTION void contend_sleepy(double end)
{
    const struct timespec ms = {0, 1000000};
    while (now() < end) {
        spin(now() + 2e-3);
        nanosleep(&ms, NULL);
    }
    __asm__ volatile("");
}
static void *thread(void *sleepy)
{
    cpu_set_t s;
    CPU_ZERO(&s);
    CPU_SET(0, &s);
    sched_setaffinity(0, sizeof(s), &s);
    double from = now();
    unsigned long long before = delay();
    if (sleepy)
        contend_sleepy(from + 1.5);
    else
        contend_busy(from + 1.5);
    unsigned long long after = delay();
    printf("%s %llu %.0f\n", sleepy ? "contend_sleepy" : "contend_busy", after - before,
           (now() - from) * 1e9);
    return NULL;
}
int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, thread, NULL);
    pthread_create(&b, NULL, thread, &b);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    return 0;
}
