/* SPDX-License-Identifier: GPL-2.0-only */
/* Calls of malloc's family whose numbers and sizes are known: alloc_calls MODE N. What the program
 * counts itself goes to standard output, without stdio. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile sink; /* the compiler must not remove calls */

static void put_number(const char *name, size_t value)
{
    char text[64], *at = text + sizeof(text);
    *--at = '\n';
    do
        *--at = (char)('0' + value % 10);
    while (value /= 10);
    *--at = ' ';
    if (write(1, name, strlen(name)) < 0 || write(1, at, (size_t)(text + sizeof(text) - at)) < 0)
        _exit(3);
}

/* Of each kind N calls, of sizes that follow a rule. */
static void run_counts(size_t n)
{
    void *p[8];
    size_t requested = 0;
    for (size_t i = 0; i < n; i++) {
        p[0] = malloc(i);
        p[1] = calloc(3, i);
        p[2] = realloc(malloc(i), 2 * i + 1);
        p[3] = reallocarray(NULL, 5, i + 1);
        p[4] = aligned_alloc(64, 64 * (i % 9 + 1));
        p[5] = memalign(32, i);
        if (posix_memalign(&p[6], 4096, i))
            _exit(2);
        p[7] = valloc(i);
        requested += i + 3 * i + i + 2 * i + 1 + 5 * (i + 1) + 64 * (i % 9 + 1) + i + i + i;
        sink = malloc(SIZE_MAX / 2); /* fails */
        sink = reallocarray(p[0], SIZE_MAX, 2);
        free(NULL);
        for (int k = 0; k < 8; k++)
            free(p[k]);
    }
    put_number("requested", requested);
}

/* ---- producers and consumers --------------------------------------------------------------- */

enum { ROOM = 64, PAIRS = 2 };
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void *block[ROOM];
    size_t size[ROOM], nr, left;
};
static struct queue queues[PAIRS];
static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;
static size_t live, peak;

static void *produce(void *context)
{
    struct queue *q = context;
    for (size_t i = q->left; i > 0; i--) {
        const size_t size = 100 + i * 7919 % 20000;
        /* The peak is exact, for nothing is allocated or freed meanwhile. */
        pthread_mutex_lock(&count_lock);
        char *p = malloc(size);
        live += size;
        peak = live > peak ? live : peak;
        pthread_mutex_unlock(&count_lock);
        p[0] = 1;
        pthread_mutex_lock(&q->lock);
        while (q->nr == ROOM)
            pthread_cond_wait(&q->changed, &q->lock);
        q->block[q->nr] = p;
        q->size[q->nr++] = size;
        pthread_cond_signal(&q->changed);
        pthread_mutex_unlock(&q->lock);
    }
    return NULL;
}

/* Takes blocks when there are many, so that they live long. */
static void *consume(void *context)
{
    struct queue *q = context;
    for (size_t left = q->left; left > 0;) {
        pthread_mutex_lock(&q->lock);
        while (q->nr < ROOM && q->nr < left)
            pthread_cond_wait(&q->changed, &q->lock);
        while (q->nr) {
            const size_t size = q->size[--q->nr];
            pthread_mutex_lock(&count_lock);
            free(q->block[q->nr]);
            live -= size;
            pthread_mutex_unlock(&count_lock);
            left--;
        }
        pthread_cond_signal(&q->changed);
        pthread_mutex_unlock(&q->lock);
    }
    return NULL;
}

static void run_threads(size_t n)
{
    pthread_t threads[2 * PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        pthread_mutex_init(&queues[i].lock, NULL);
        pthread_cond_init(&queues[i].changed, NULL);
        queues[i].left = n;
    }
    for (int i = 0; i < 2 * PAIRS; i++)
        pthread_create(&threads[i], NULL, i % 2 ? consume : produce, &queues[i / 2]);
    for (int i = 0; i < 2 * PAIRS; i++)
        pthread_join(threads[i], NULL);
    put_number("peak", peak);
}

/* ---- threads that free each other's blocks at once ------------------------------------------ */

enum { SLOTS = 16, RACERS = 4 };
static void *slots[SLOTS];

/* Addresses go from thread to thread as fast as they can, without a lock of ours. */
static void *race(void *context)
{
    const size_t n = *(size_t *)context;
    for (size_t i = 0; i < n; i++)
        free(__atomic_exchange_n(&slots[i % SLOTS], malloc(i % 2 ? 40 : 1500), __ATOMIC_ACQ_REL));
    return NULL;
}

static void run_race(size_t n)
{
    pthread_t threads[RACERS];
    for (int i = 0; i < RACERS; i++)
        pthread_create(&threads[i], NULL, race, &n);
    for (int i = 0; i < RACERS; i++)
        pthread_join(threads[i], NULL);
}

/* ---- processes ----------------------------------------------------------------------------- */

static void allocate_some(size_t n)
{
    for (size_t i = 0; i < n; i++)
        sink = malloc(24);
}

/* The child frees half of its parent's blocks, and allocates twice as many. */
static void run_fork(size_t n)
{
    void **blocks = malloc(n * sizeof(void *));
    for (size_t i = 0; i < n; i++)
        blocks[i] = malloc(10);
    const pid_t pid = fork();
    if (pid == 0) {
        for (size_t i = 0; i < n; i += 2)
            free(blocks[i]);
        allocate_some(2 * n);
        _exit(0);
    }
    put_number("child", (size_t)pid);
    waitpid(pid, NULL, 0);
    allocate_some(5);
}

/* Close all that is open, and write another file meanwhile. */
static void run_closed(size_t n, const char *path)
{
    allocate_some(10);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    for (int fd = 3; fd < 1024; fd++)
        if (open(path, O_RDWR | O_CREAT, 0600) < 0)
            break;
    allocate_some(n);
}

/* The blocks of N KiB are there at once, and half of them at the end. */
static void run_large(size_t n)
{
    enum { SIZE = 8 << 10 };
    const size_t nr = n / 8;
    void **blocks = malloc(nr * sizeof(void *));
    for (size_t i = 0; i < nr; i++)
        blocks[i] = malloc(SIZE);
    for (size_t i = nr / 2; i < nr; i++)
        free(blocks[i]);
}

/* 16 MB are freed, and then little happens for two seconds. */
static void run_gap(size_t n)
{
    enum { BLOCKS = 2048, SIZE = 8 << 10 };
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(SIZE);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    for (size_t i = 0; i < n; i++) {
        usleep(2000000 / (unsigned)n);
        free(sink = malloc(100));
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 2 ? argv[1] : "";
    const size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    if (!strcmp(mode, "counts"))
        run_counts(n);
    else if (!strcmp(mode, "threads"))
        run_threads(n);
    else if (!strcmp(mode, "race"))
        run_race(n);
    else if (!strcmp(mode, "fork"))
        run_fork(n);
    else if (!strcmp(mode, "some") || !strcmp(mode, "crash") || !strcmp(mode, "quick"))
        allocate_some(n);
    else if (!strcmp(mode, "drop"))
        allocate_some(setgid(65534) || setuid(65534) ? 0 : n);
    else if (!strcmp(mode, "closed") && argc > 3)
        run_closed(n, argv[3]);
    else if (!strcmp(mode, "gap"))
        run_gap(n);
    else if (!strcmp(mode, "large"))
        run_large(n);
    else
        return 2;
    if (!strcmp(mode, "crash"))
        raise(SIGSEGV);
    if (!strcmp(mode, "quick"))
        _exit(7);
    return 0;
}
