/* SPDX-License-Identifier: GPL-2.0-only */
/* Threads that wait for something to do (take_job, loop_events, serve), and threads that wait for
 * something else at the same calls (ask, ask_by_epoll, sleep_under_lock, want_lock). */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, noclone))
static volatile int stop;
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
static FUNCTION void work(double us)
{
    double end = now() + us / 1e6;
    while (now() < end)
        ;
    __asm__ volatile("");
}
static FUNCTION void nap(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
    __asm__ volatile("");
}

/* A pool. */
static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER, lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int jobs;
static FUNCTION int take_job(void)
{
    pthread_mutex_lock(&jobs_lock);
    while (!jobs && !stop)
        pthread_cond_wait(&more, &jobs_lock);
    int got = jobs > 0;
    jobs -= got;
    pthread_mutex_unlock(&jobs_lock);
    return got;
}
static FUNCTION void do_job(void)
{
    work(1000);
    __asm__ volatile("");
}
static FUNCTION void *pool_worker(void *a)
{
    while (!stop)
        if (take_job())
            do_job();
    return a;
}

/* Two threads and a lock. */
static FUNCTION void sleep_under_lock(void)
{
    pthread_mutex_lock(&lock);
    nap(5000);
    pthread_mutex_unlock(&lock);
    __asm__ volatile("");
}
static FUNCTION void *holder(void *a)
{
    while (!stop) {
        sleep_under_lock();
        work(1000);
    }
    return a;
}
static FUNCTION void want_lock(void)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    __asm__ volatile("");
}
static FUNCTION void *contender(void *a)
{
    while (!stop) {
        want_lock();
        work(1000);
    }
    return a;
}

/* An event loop. */
static int wake, events;
static FUNCTION void handle_event(void)
{
    eventfd_t value;
    eventfd_read(wake, &value);
    work(1000);
    __asm__ volatile("");
}
static FUNCTION void *loop_events(void *a)
{
    while (!stop) {
        struct epoll_event got[8];
        int nr = epoll_wait(events, got, 8, -1);
        for (int i = 0; i < nr; i++)
            handle_event();
    }
    return a;
}

/* Servers, which wait for requests, and their clients, which wait for answers. */
struct pair {
    int client, server, epoll;
};
static FUNCTION void answer(int fd)
{
    nap(3000);
    work(1000);
    if (write(fd, "a", 1) != 1)
        abort();
}
static FUNCTION void *serve(void *pair)
{
    const struct pair *p = pair;
    char c;
    while (read(p->server, &c, 1) == 1)
        answer(p->server);
    return pair;
}
static FUNCTION void ask(const struct pair *p)
{
    char c;
    if (write(p->client, "q", 1) != 1 || read(p->client, &c, 1) != 1)
        abort();
    __asm__ volatile("");
}
static FUNCTION void ask_by_epoll(const struct pair *p)
{
    struct epoll_event got;
    char c;
    if (write(p->client, "q", 1) != 1 || epoll_wait(p->epoll, &got, 1, -1) != 1 ||
        read(p->client, &c, 1) != 1)
        abort();
    __asm__ volatile("");
}
static FUNCTION void request(const struct pair *p, int by_epoll)
{
    work(1000);
    if (by_epoll)
        ask_by_epoll(p);
    else
        ask(p);
    work(1000);
    __asm__ volatile("");
}
static FUNCTION void run_batch(const struct pair *p, int by_epoll)
{
    for (int i = 0; i < 5; i++) {
        request(p, by_epoll);
        work(1000);
    }
    __asm__ volatile("");
}
static void *client(void *pair)
{
    while (!stop)
        run_batch(pair, 0);
    return pair;
}
static void *client_by_epoll(void *pair)
{
    while (!stop)
        run_batch(pair, 1);
    return pair;
}

static void pair_make(struct pair *p)
{
    int fds[2];
    struct epoll_event in = {.events = EPOLLIN};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
        abort();
    *p = (struct pair){fds[0], fds[1], epoll_create1(0)};
    epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->client, &in);
}
static void start(const char *name, void *(*f)(void *), void *a)
{
    pthread_t t;
    if (pthread_create(&t, NULL, f, a) != 0)
        abort();
    pthread_setname_np(t, name);
}
int main(void)
{
    enum { POOL = 8 };
    static struct pair pairs[2];
    struct epoll_event in = {.events = EPOLLIN};
    wake = eventfd(0, 0);
    events = epoll_create1(0);
    epoll_ctl(events, EPOLL_CTL_ADD, wake, &in);
    for (int i = 0; i < POOL; i++)
        start("pool", pool_worker, NULL);
    start("holder", holder, NULL);
    start("contender", contender, NULL);
    start("loop", loop_events, NULL);
    for (int i = 0; i < 2; i++) {
        pair_make(&pairs[i]);
        start("server", serve, &pairs[i]);
        start("client", i ? client_by_epoll : client, &pairs[i]);
    }
    for (double end = now() + 2; now() < end;) {
        nap(20000);
        eventfd_write(wake, 1);
        pthread_mutex_lock(&jobs_lock);
        jobs++;
        pthread_mutex_unlock(&jobs_lock);
        pthread_cond_signal(&more);
    }
    _exit(0);
}
