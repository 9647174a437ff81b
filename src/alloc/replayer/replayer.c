/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ljperf-replay PLAN RESULT free|ordered|paced: makes the calls of a plan (replay_format.h), with
 * the allocator that the dynamic linker was told to load. PLAN and RESULT are descriptors.
 *
 * It is a program of its own, and allocates nothing itself before memory is measured for the first
 * time: what was freed before (qsort() would do it) would be used again by the replay, and would be
 * missing in its growth. (pthread_create() does allocate some hundred bytes of each thread.)
 *
 * free: each thread makes its calls as fast as it can, and waits only for a block which another
 * thread has not allocated yet. That tells the speed. It does not tell the memory, because threads
 * get ahead of each other: a consumer that keeps up keeps the peak low.
 *
 * ordered: each call waits for its turn. That tells the memory: what is allocated at once is what
 * was allocated at once in the trace.
 *
 * paced: the same, and no call before its time in the trace: for allocators that give memory back
 * after a while.
 */
#include "alloc/replay_format.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    STACK_TOUCHED = 64 << 10, /* bytes: no allocator needs more, so stacks grow before the base */
    SPINS = 4000,             /* looks for another thread's work, before sleeping */
    YIELDS = 200,
    SLEEP_NS = 50000,
    GAP_NS = 100000, /* shorter gaps between calls are not kept */
    WINDOW_CALLS = 2048,
    HUGE_PAGE = 2 << 20,
};

/* In the place of a block that was not allocated. */
#define NO_MEMORY ((void *)1)

struct replayer;

struct thread {
    struct replayer *replayer;
    uint32_t number;
    uint64_t cpu_ns, waited_ns, waits, failed;
    pthread_t handle;
    _Alignas(64) atomic_uint may_go; /* in order: it is this thread's turn */
};

struct replayer {
    const struct plan_head *head;
    const uint32_t *first, *samples;
    const struct plan_call *calls; /* free runs */
    _Atomic(void *) *blocks;
    struct thread *threads;
    pthread_barrier_t barrier;
    bool is_ordered, is_paced;
    /* In order; they belong to the thread whose turn it is: */
    int plan;
    uint32_t at;                  /* the call */
    uint64_t begin_ns, passed_ns; /* of CLOCK_MONOTONIC; since then, as was last seen */
    struct plan_call window[WINDOW_CALLS];
    uint64_t live;
    uint32_t nr_sampled;
    uint64_t *sampled; /* bytes */
    int rollup;
    struct replay_measure measure;
};

static void fail(const char *what)
{
    dprintf(STDERR_FILENO, "ljperf-replay: %s: %s\n", what, strerror(errno));
    _exit(EXIT_FAILURE);
}

static uint64_t clock_now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Get memory that is there at once, in huge pages if there are any: each measurement walks through
 * all pages. */
static void *get_pages(uint64_t size)
{
    size += HUGE_PAGE;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        fail("no memory for the plan");
    p += (HUGE_PAGE - ((uintptr_t)p & (HUGE_PAGE - 1))) & (HUGE_PAGE - 1);
    size -= HUGE_PAGE;
    if (size >= HUGE_PAGE)
        (void)madvise(p, size, MADV_HUGEPAGE);
    for (uint64_t i = 0; i < size; i += PAGE)
        ((volatile char *)p)[i] = 0;
    return p;
}

/* ---- memory -------------------------------------------------------------------------------- */

static uint64_t kib_behind(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

/* Returns the anonymous memory of the process, bytes. The kernel walks the page tables. Its
 * counters are sums of what each processor has noted so far, and VmHWM of /proc/self/status is
 * taken of them: on two processors it is wrong by up to 40 pages, and by more on more. */
static uint64_t anonymous_memory(const struct replayer *r)
{
    char text[4096];
    const ssize_t n = pread(r->rollup, text, sizeof(text) - 1, 0);
    if (n <= 0)
        fail("/proc/self/smaps_rollup");
    text[n] = 0;
    return kib_behind(text, "\nAnonymous:") + kib_behind(text, "\nSwap:");
}

static void sample_memory(struct replayer *r, uint32_t call)
{
    if (r->nr_sampled >= r->head->samples || r->samples[r->nr_sampled] != call)
        return;
    const uint64_t now = anonymous_memory(r), base = r->measure.base;
    r->sampled[r->nr_sampled] = now > base ? now - base : 0;
    if (r->sampled[r->nr_sampled] > r->measure.peak)
        r->measure.peak = r->sampled[r->nr_sampled];
    r->nr_sampled++;
}

/* Use a block as a program does: each page of it, from byte `from` on. */
static void touch(void *block, uint64_t from, uint64_t size)
{
    volatile char *p = block;
    for (uint64_t i = from; i < size; i += PAGE)
        p[i] = 1;
    if (size > from)
        p[size - 1] = 1;
}

/* ---- calls --------------------------------------------------------------------------------- */

/* Wait until another thread has allocated a block. */
static void *wait_for(struct thread *t, uint32_t block)
{
    const uint64_t begin = clock_now(CLOCK_THREAD_CPUTIME_ID);
    const struct timespec pause = {0, SLEEP_NS};
    void *p;
    for (unsigned tries = 0;
         !(p = atomic_load_explicit(&t->replayer->blocks[block], memory_order_acquire)); tries++) {
        if (tries > YIELDS)
            nanosleep(&pause, NULL);
        else
            sched_yield();
    }
    t->waits++;
    t->waited_ns += clock_now(CLOCK_THREAD_CPUTIME_ID) - begin;
    return p;
}

static void *take_block(struct thread *t, uint32_t block)
{
    void *p = atomic_load_explicit(&t->replayer->blocks[block], memory_order_acquire);
    if (__builtin_expect(!p, 0))
        p = wait_for(t, block);
    return p == NO_MEMORY ? NULL : p;
}

static void *allocate(struct thread *t, const struct plan_call *c)
{
    void *p = NULL;
    uint64_t alignment;
    switch (c->operation) {
    case TRACE_MALLOC:
        return malloc(c->size);
    case TRACE_CALLOC:
        return calloc(1, c->size);
    case TRACE_ALIGNED:
        alignment = UINT64_C(1) << (c->alignment & 63);
        return posix_memalign(&p, alignment < sizeof(p) ? sizeof(p) : alignment, c->size) ? NULL
                                                                                          : p;
    case TRACE_REALLOC:
        p = c->old == PLAN_NONE ? NULL : take_block(t, c->old);
        /* (With size 0 some allocators free, others do not. In the trace a block came back.) */
        return realloc(p, c->size ? c->size : 1);
    default:
        return NULL;
    }
}

static inline void make_call(struct thread *t, const struct plan_call *c)
{
    if (c->operation == TRACE_FREE) {
        free(take_block(t, c->block));
        return;
    }
    void *p = allocate(t, c);
    if (p)
        touch(p, c->old_size, c->size);
    else
        t->failed += c->size > 0;
    atomic_store_explicit(&t->replayer->blocks[c->block], p ? p : NO_MEMORY, memory_order_release);
}

static void run_free(struct thread *t)
{
    const struct replayer *r = t->replayer;
    for (uint32_t i = r->first[t->number]; i != PLAN_NONE; i = r->calls[i].next)
        make_call(t, &r->calls[i]);
}

/* ---- turns --------------------------------------------------------------------------------- */

static void wait_for_turn(struct thread *t)
{
    for (unsigned i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&t->may_go, memory_order_acquire))
            break;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    while (!atomic_load_explicit(&t->may_go, memory_order_acquire))
        syscall(SYS_futex, &t->may_go, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    atomic_store_explicit(&t->may_go, 0, memory_order_relaxed);
}

static void give_turn(struct thread *t)
{
    atomic_store_explicit(&t->may_go, 1, memory_order_release);
    syscall(SYS_futex, &t->may_go, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Returns the next call; NULL: there is none. A map of the whole plan would be walked through at
 * each measurement. */
static const struct plan_call *get_call(struct replayer *r)
{
    const uint32_t place = r->at % WINDOW_CALLS;
    if (r->at == r->head->calls)
        return NULL;
    if (!place) {
        const uint32_t left = r->head->calls - r->at;
        const size_t size = (left < WINDOW_CALLS ? left : WINDOW_CALLS) * sizeof(struct plan_call);
        const uint64_t from = r->head->calls_at + (uint64_t)r->at * sizeof(struct plan_call);
        if (pread(r->plan, r->window, size, (off_t)from) != (ssize_t)size)
            fail("the plan");
    }
    return &r->window[place];
}

/* Wait until it is time for a call. */
static void keep_gap(struct replayer *r, const struct plan_call *c)
{
    if (c->ns < r->passed_ns + GAP_NS)
        return;
    const uint64_t at = r->begin_ns + c->ns;
    const struct timespec until = {(time_t)(at / 1000000000), (long)(at % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
    r->passed_ns = clock_now(CLOCK_MONOTONIC) - r->begin_ns;
}

static void run_ordered(struct thread *t)
{
    struct replayer *r = t->replayer;
    const struct plan_call *c;
    wait_for_turn(t);
    while ((c = get_call(r))) {
        if (c->thread != t->number) {
            give_turn(&r->threads[c->thread]);
            wait_for_turn(t);
            continue;
        }
        if (r->is_paced)
            keep_gap(r, c);
        make_call(t, c);
        r->live += c->size - c->old_size;
        if (r->live > r->measure.requested_peak)
            r->measure.requested_peak = r->live;
        sample_memory(r, r->at++);
    }
    give_turn(&r->threads[(t->number + 1) % r->head->threads]); /* all learn that it is the end */
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void touch_stack(void)
{
    volatile char room[STACK_TOUCHED];
    for (unsigned i = 0; i < sizeof(room); i += PAGE)
        room[i] = 1;
    (void)room[0];
}

static void run(struct thread *t)
{
    const uint64_t begin = clock_now(CLOCK_THREAD_CPUTIME_ID);
    if (t->replayer->is_ordered)
        run_ordered(t);
    else
        run_free(t);
    t->cpu_ns = clock_now(CLOCK_THREAD_CPUTIME_ID) - begin - t->waited_ns;
}

static void *begin_thread(void *context)
{
    struct thread *t = context;
    touch_stack();
    pthread_barrier_wait(&t->replayer->barrier); /* all are ready */
    pthread_barrier_wait(&t->replayer->barrier); /* the base is measured */
    run(t);
    pthread_barrier_wait(&t->replayer->barrier); /* all have ended */
    for (;;)
        pause(); /* the end of a thread would give memory back */
    return NULL;
}

static void open_plan(struct replayer *r, int fd)
{
    struct plan_head head;
    if (pread(fd, &head, sizeof(head), 0) != sizeof(head))
        fail("the plan");
    errno = EPROTO;
    if (head.call_bytes != sizeof(struct plan_call) ||
        head.measure_bytes != sizeof(struct replay_measure))
        fail("this program and ljperf are not of one build");
    char *map = mmap(NULL, r->is_ordered ? head.calls_at : head.size, PROT_READ,
                     MAP_SHARED | MAP_POPULATE, fd, 0);
    if (map == MAP_FAILED)
        fail("the plan");
    r->head = (const struct plan_head *)map;
    r->first = (const uint32_t *)(r->head + 1);
    r->samples = r->first + head.threads;
    r->calls = r->is_ordered ? NULL : (const struct plan_call *)(map + head.calls_at);
    r->plan = fd;
    r->blocks = get_pages((uint64_t)head.blocks * sizeof(*r->blocks));
    r->sampled = get_pages((uint64_t)head.samples * sizeof(*r->sampled));
    r->threads = get_pages((uint64_t)head.threads * sizeof(*r->threads));
    for (uint32_t i = 0; i < head.threads; i++) {
        r->threads[i].replayer = r;
        r->threads[i].number = i;
    }
}

/* The trace's first writer is the program's first thread, for which allocators have another arena
 * than for the others. */
static void run_all(struct replayer *r)
{
    const uint32_t nr = r->head->threads;
    pthread_barrier_init(&r->barrier, NULL, nr);
    for (uint32_t i = 1; i < nr; i++) {
        errno = pthread_create(&r->threads[i].handle, NULL, begin_thread, &r->threads[i]);
        if (errno)
            fail("a thread cannot be created");
    }
    touch_stack();
    pthread_barrier_wait(&r->barrier);
    r->measure.base = anonymous_memory(r);
    r->begin_ns = clock_now(CLOCK_MONOTONIC);
    give_turn(&r->threads[0]);
    pthread_barrier_wait(&r->barrier);
    run(&r->threads[0]);
    pthread_barrier_wait(&r->barrier);
    r->measure.wall_ns = clock_now(CLOCK_MONOTONIC) - r->begin_ns;
    const uint64_t end = anonymous_memory(r);
    r->measure.end = end > r->measure.base ? end - r->measure.base : 0;
    if (r->measure.end > r->measure.peak)
        r->measure.peak = r->measure.end;
    r->measure.requested_end = r->live;
    for (uint32_t i = 0; i < nr; i++) {
        r->measure.cpu_ns += r->threads[i].cpu_ns;
        r->measure.waits += r->threads[i].waits;
        r->measure.failed += r->threads[i].failed;
    }
}

static void write_all(int fd, const void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        const ssize_t n = write(fd, (const char *)bytes + done, size - done);
        if (n <= 0)
            fail("the result");
        done += (size_t)n;
    }
}

int main(int argc, char **argv)
{
    struct replayer r = {.rollup = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC)};
    volatile char *window = (volatile char *)r.window;
    Dl_info info = {0};
    if (argc != 4) {
        dprintf(STDERR_FILENO, "ljperf-replay is run by ljperf alloc-replay\n");
        return 2;
    }
    if (r.rollup < 0)
        fail("/proc/self/smaps_rollup");
    for (size_t i = 0; i < sizeof(r.window); i += PAGE)
        window[i] = 0;
    r.is_paced = strcmp(argv[3], "paced") == 0;
    r.is_ordered = r.is_paced || strcmp(argv[3], "ordered") == 0;
    open_plan(&r, atoi(argv[1]));
    if (dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info) && info.dli_fname)
        snprintf(r.measure.allocator, sizeof(r.measure.allocator), "%s", info.dli_fname);
    run_all(&r);
    write_all(atoi(argv[2]), &r.measure, sizeof(r.measure));
    write_all(atoi(argv[2]), r.sampled, r.nr_sampled * sizeof(*r.sampled));
    _exit(EXIT_SUCCESS); /* threads still stand */
}
