/* SPDX-License-Identifier: GPL-2.0-only */
#include "alloc/preload/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATH_BYTES = 4096,
    CHUNK_SLACK = 128, /* room behind the last record's begin: for that one and a TRACE_THREAD */
    NAMES_MAX = 1000,  /* images of one process, each with a file */
    FD_LEAST = 500,    /* our descriptor stays out of the way of the program's */
    SKIP_CALLS = 256,  /* when there is no room, ask again after so many calls */
    WRITERS_AT_ONCE = 64,
};

__thread struct writer_thread writer_thread;
struct writer_page *writer_page;
static struct writer_page no_page;

/* The process's own state: the calls that are recorded have no context. */
static struct {
    pthread_mutex_t lock;       /* protects all that follows, but for `header`'s counters */
    bool is_wanted;             /* the environment names a file */
    pid_t pid;                  /* whose trace this is */
    char given[PATH_BYTES];     /* the path that the environment names */
    char path[PATH_BYTES + 32]; /* of this process's file */
    uint64_t run;
    uint32_t flags;
    int fd;
    struct stat file;            /* is our descriptor still ours? */
    uint64_t end;                /* where the next chunk goes */
    struct trace_header *header; /* mapped; NULL: none */
    struct writer *free;         /* writers without a thread */
    uint32_t nr_writers, nr_threads;
    struct writer *room; /* memory for more writers */
    size_t nr_room;
    bool has_key;
    pthread_key_t key;
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void note_clocks(void)
{
    trace.header->last_ticks = ticks_now();
    trace.header->last_ns = now_ns();
}

/* ---- the file ------------------------------------------------------------------------------ */

/* The first process of a run gets the file that the user has named, others get names of their own.
 */
static int create_file(void)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    snprintf(trace.path, sizeof(trace.path), "%s", trace.given);
    int fd = open(trace.path, flags, 0600);
    for (unsigned n = 1; fd < 0 && errno == EEXIST && n < NAMES_MAX; n++) {
        if (n == 1)
            snprintf(trace.path, sizeof(trace.path), "%s.%d", trace.given, (int)trace.pid);
        else
            snprintf(trace.path, sizeof(trace.path), "%s.%d.%u", trace.given, (int)trace.pid, n);
        fd = open(trace.path, flags, 0600);
    }
    return fd;
}

static int move_up(int fd)
{
    const int up = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_LEAST);
    if (up < 0)
        return fd;
    close(fd);
    return up;
}

/* Is this the trace? The program may have closed our descriptor and opened another file by its
 * number. */
static bool is_our_file(int fd)
{
    struct stat s;
    return fd >= 0 && fstat(fd, &s) == 0 && s.st_dev == trace.file.st_dev &&
           s.st_ino == trace.file.st_ino;
}

static int keep_file(void)
{
    if (is_our_file(trace.fd))
        return 0;
    const int fd = open(trace.path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (!is_our_file(fd)) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    trace.fd = move_up(fd); /* what has the old number is the program's */
    return 0;
}

/* Reserve bytes of the file: a mapping of a hole would end the program when the disk is full, and
 * so would a file that becomes larger than the process may write (SIGXFSZ). */
static int reserve(uint64_t offset, uint64_t size)
{
    static const char zeros[TRACE_BLOCK];
    struct rlimit most;
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && offset + size > most.rlim_cur) {
        errno = EFBIG;
        return -1;
    }
    if (fallocate(trace.fd, 0, (off_t)offset, (off_t)size) == 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != ENOSYS)
        return -1;
    for (uint64_t done = 0; done < size; done += sizeof(zeros)) {
        errno = ENOSPC;
        if (pwrite(trace.fd, zeros, sizeof(zeros), (off_t)(offset + done)) != sizeof(zeros))
            return -1;
    }
    return 0;
}

/* Map reserved bytes, with their pages. NULL: failed. */
static void *map_file(uint64_t offset, uint64_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, trace.fd, (off_t)offset);
    if (p == MAP_FAILED)
        return NULL;
#ifdef MADV_POPULATE_WRITE
    (void)madvise(p, size, MADV_POPULATE_WRITE); /* one call for many faults, from Linux 5.14 on */
#endif
    return p;
}

static void fill_header(struct trace_header *h)
{
    memcpy(h->magic, TRACE_MAGIC, sizeof(h->magic));
    h->flags = trace.flags;
    h->pid = (uint32_t)trace.pid;
    h->parent = (uint32_t)getppid();
    h->run = trace.run;
    h->ticks = h->last_ticks = ticks_now();
    h->ns = h->last_ns = now_ns();
    const ssize_t n = readlink("/proc/self/exe", h->program, sizeof(h->program) - 1);
    h->program[n > 0 ? n : 0] = 0;
    __atomic_store_n(&h->version, TRACE_VERSION, __ATOMIC_RELEASE);
}

static int open_trace(void)
{
    struct trace_header *h = NULL;
    trace.fd = move_up(create_file());
    trace.end = TRACE_BLOCK;
    if (trace.fd < 0 || fstat(trace.fd, &trace.file) < 0 || reserve(0, TRACE_BLOCK) < 0 ||
        !(h = map_file(0, TRACE_BLOCK)))
        return -1;
    fill_header(h);
    trace.header = h;
    return 0;
}

/* ---- writers ------------------------------------------------------------------------------- */

/* Give the writer a new chunk. The old one is kept if that fails. */
static int renew_chunk(struct writer *w)
{
    struct trace_chunk *c = NULL;
    const uint32_t size = w->next_size;
    if (keep_file() < 0 || reserve(trace.end, size) < 0 || !(c = map_file(trace.end, size))) {
        trace.header->full_errno = (uint32_t)errno;
        return -1;
    }
    c->writer = w->number;
    c->size = size;
    c->ticks = w->last_ticks = ticks_now();
    __atomic_store_n(&c->magic, TRACE_CHUNK_MAGIC, __ATOMIC_RELEASE);
    trace.end += size;
    if (w->chunk)
        munmap(w->chunk, w->chunk->size);
    w->chunk = c;
    w->at = (uint8_t *)(c + 1);
    w->end = (uint8_t *)c + size - CHUNK_SLACK;
    w->last_address = 0;
    w->next_size = size < TRACE_CHUNK_MAX ? size * 2 : size;
    note_clocks();
    return 0;
}

static struct writer *create_writer(void)
{
    const size_t size = WRITERS_AT_ONCE * sizeof(struct writer);
    if (!trace.nr_room) {
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return NULL;
        trace.room = p;
        trace.nr_room = WRITERS_AT_ONCE;
    }
    struct writer *w = &trace.room[--trace.nr_room];
    *w = (struct writer){.number = trace.nr_writers++, .next_size = TRACE_CHUNK_MIN};
    return w;
}

/* Get a writer for this thread. */
static struct writer *take_writer(struct writer_thread *t)
{
    struct writer *w = trace.free;
    if (w)
        trace.free = w->next;
    else
        w = create_writer();
    if (!w)
        return NULL;
    if (!t->number) {
        t->number = ++trace.nr_threads;
        trace.header->threads = trace.nr_threads;
        writer_page->is_threaded = trace.nr_threads > 1;
    }
    t->writer = w;
    if (trace.has_key)
        (void)pthread_setspecific(trace.key, t);
    return w;
}

/* Say in the chunk whose records follow. */
static void put_thread(struct writer *w, uint32_t number)
{
    const uint64_t v = number - 1;
    const unsigned n = number_bytes(v);
    w->at = number_put(put_control(w->at, TRACE_THREAD | n << 12), v, n);
    w->thread = number;
    __atomic_store_n(&w->chunk->used, (uint32_t)(w->at - (uint8_t *)(w->chunk + 1)),
                     __ATOMIC_RELEASE);
}

/* A thread ends: another one may go on with its chunk. */
static void end_thread(void *context)
{
    struct writer_thread *t = context;
    if (t->busy || !t->writer || !writer_page->is_on)
        return;
    t->busy = true;
    pthread_mutex_lock(&trace.lock);
    t->writer->next = trace.free;
    trace.free = t->writer;
    t->writer = NULL;
    pthread_mutex_unlock(&trace.lock);
    t->busy = false;
}

/* ---- beginnings ---------------------------------------------------------------------------- */

/* In a process that was forked: begin a trace of its own. Its other threads are gone. */
static bool begin_forked(struct writer_thread *t)
{
    struct trace_header *parents = trace.header;
    if (t->writer && t->writer->chunk)
        munmap(t->writer->chunk, t->writer->chunk->size);
    *t = (struct writer_thread){.busy = true};
    trace.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    trace.pid = getpid();
    trace.flags |= TRACE_FORKED;
    trace.free = NULL;
    trace.nr_room = 0;
    trace.nr_writers = trace.nr_threads = 0;
    if (is_our_file(trace.fd))
        close(trace.fd);
    if (open_trace() < 0) {
        trace.header = NULL;
        if (parents)
            __atomic_fetch_add(&parents->children_failed, 1, __ATOMIC_RELAXED);
        return false;
    }
    if (parents)
        munmap(parents, TRACE_BLOCK);
    writer_page->is_on = 1;
    return true;
}

static struct writer *renew(struct writer_thread *t)
{
    if (!writer_page->is_on && (!trace.is_wanted || trace.pid == getpid() || !begin_forked(t)))
        return NULL;
    if (t->skipped && t->skipped++ < SKIP_CALLS) {
        __atomic_fetch_add(&trace.header->lost_full, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    pthread_mutex_lock(&trace.lock);
    struct writer *w = t->writer ? t->writer : take_writer(t);
    const bool has_room = w && ((w->chunk && w->at <= w->end) || renew_chunk(w) == 0);
    pthread_mutex_unlock(&trace.lock);
    t->skipped = !has_room;
    if (!has_room) {
        __atomic_fetch_add(&trace.header->lost_full, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    if (w->thread != t->number)
        put_thread(w, t->number);
    return w;
}

struct writer *writer_renew(void)
{
    const int kept = errno;
    struct writer *w = renew(&writer_thread);
    errno = kept;
    return w;
}

void writer_count_within(void)
{
    if (writer_page->is_on)
        __atomic_fetch_add(&trace.header->lost_within, 1, __ATOMIC_RELAXED);
}

void writer_start(uint32_t flags)
{
    const char *path = getenv("LJPERF_ALLOC_TRACE"), *run = getenv("LJPERF_ALLOC_RUN");
    writer_page = &no_page;
    if (!path || *path != '/' || strlen(path) >= sizeof(trace.given))
        return;
    const int kept = errno;
    void *p = mmap(NULL, TRACE_BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED && madvise(p, TRACE_BLOCK, MADV_WIPEONFORK) == 0) {
        memcpy(trace.given, path, strlen(path) + 1);
        trace.run = run ? strtoull(run, NULL, 16) : 0;
        trace.flags = flags;
        trace.pid = getpid();
        trace.has_key = pthread_key_create(&trace.key, end_thread) == 0;
        writer_page = p;
        if (open_trace() == 0) {
            writer_page->is_on = 1;
            trace.is_wanted = true;
        }
    }
    errno = kept;
}

__attribute__((destructor)) static void end_process(void)
{
    if (writer_page && writer_page->is_on)
        note_clocks();
}
