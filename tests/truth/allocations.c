/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Allocates in known ways, and prints on standard output, for each function: its name, the bytes
 * and the number of blocks that it asked for, and the bytes and blocks of these that are in use at
 * the end. An argument: how many rounds, of a ms or so each.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

struct site {
    const char *name;
    unsigned long bytes, blocks, bytes_left, blocks_left;
};
static struct site sites[] = {{.name = "small_malloc"},  {.name = "big_calloc"},
                              {.name = "grow_realloc"},  {.name = "aligned"},
                              {.name = "fill_cache"},    {.name = "leak_steadily"},
                              {.name = "hand_over"},     {.name = "passed_ring"},
                              {.name = "first_realloc"}, {.name = "in_child"}};
enum { SMALL, BIG, GROW, ALIGNED, CACHE, LEAK, HANDED, RING, FIRST, CHILD, NR_SITES };

static void took(int site, size_t bytes)
{
    sites[site].bytes += bytes;
    sites[site].blocks++;
}
static void left(int site, size_t bytes)
{
    sites[site].bytes_left += bytes;
    sites[site].blocks_left++;
}
static void *used(void *p)
{
    if (!p)
        abort();
    *(volatile char *)p = 1;
    return p;
}

NOINLINE void *small_malloc(void)
{
    took(SMALL, 1000);
    return used(malloc(1000));
}
NOINLINE void *big_calloc(void)
{
    took(BIG, 20 * 1000);
    return used(calloc(20, 1000));
}
NOINLINE void *grow_realloc(void *p, size_t size)
{
    took(GROW, size);
    return used(realloc(p, size));
}
NOINLINE void *first_realloc(size_t size) /* realloc of nothing calls malloc in some libraries */
{
    took(FIRST, size);
    return used(realloc(NULL, size));
}
NOINLINE void *aligned(void)
{
    void *p = NULL;
    took(ALIGNED, 3000);
    if (posix_memalign(&p, 64, 3000))
        abort();
    return used(p);
}
static void *cache[1000];
NOINLINE void fill_cache(void)
{
    for (int i = 0; i < 1000; i++) {
        took(CACHE, 8000);
        left(CACHE, 8000);
        cache[i] = used(malloc(8000));
    }
}
static void *leaked;
NOINLINE void leak_steadily(void)
{
    took(LEAK, 2000);
    left(LEAK, 2000);
    void **p = used(malloc(2000));
    *p = leaked;
    leaked = p;
}
static void *ring[64];
NOINLINE void passed_ring(unsigned i) /* freed later, by number */
{
    took(RING, 4000);
    free(ring[i % 64]);
    ring[i % 64] = used(malloc(4000));
}
static void *handed[32];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
NOINLINE void hand_over(unsigned i) /* freed by another thread */
{
    void *p = used(malloc(2500)), *old;
    took(HANDED, 2500);
    pthread_mutex_lock(&lock);
    old = handed[i % 32];
    handed[i % 32] = p;
    pthread_mutex_unlock(&lock);
    free(old);
}
static volatile int ends;
static void *free_handed(void *unused)
{
    const struct timespec ms = {0, 300000};
    (void)unused;
    for (unsigned i = 0; !ends; i++) {
        pthread_mutex_lock(&lock);
        void *p = handed[i % 32];
        handed[i % 32] = NULL;
        pthread_mutex_unlock(&lock);
        free(p);
        nanosleep(&ms, NULL);
    }
    return NULL;
}
NOINLINE void in_child(void)
{
    took(CHILD, 10000);
    free(used(malloc(10000)));
}
static void child(int rounds)
{
    const struct timespec ms = {0, 1000000};
    for (int i = 0; i < rounds; i++) {
        in_child();
        nanosleep(&ms, NULL);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    const struct timespec ms = {0, 1000000}, begin = {0, 300000000};
    pthread_t thread;
    pid_t pid = 0;
    nanosleep(&begin, NULL);
    fill_cache();
    pthread_create(&thread, NULL, free_handed, NULL);
    for (int i = 0; i < rounds; i++) {
        if (i == rounds / 4 && !(pid = fork()))
            child(rounds / 2);
        for (int k = 0; k < 4; k++) {
            free(small_malloc());
            passed_ring((unsigned)(4 * i + k));
        }
        free(big_calloc());
        void *p = first_realloc(500);
        for (size_t size = 1000; size <= 4000; size *= 2)
            p = grow_realloc(p, size);
        free(p);
        free(aligned());
        hand_over((unsigned)i);
        leak_steadily();
        nanosleep(&ms, NULL);
    }
    ends = 1;
    pthread_join(thread, NULL);
    for (int i = 0; i < 64; i++)
        free(ring[i]);
    for (int i = 0; i < 32; i++)
        free(handed[i]);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    for (int i = 0; i < rounds / 2; i++) /* what the child has counted in its own memory */
        took(CHILD, 10000);
    for (int i = 0; i < NR_SITES; i++)
        printf("%s %lu %lu %lu %lu\n", sites[i].name, sites[i].bytes, sites[i].blocks,
               sites[i].bytes_left, sites[i].blocks_left);
    return 0;
}
