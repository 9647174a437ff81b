/* SPDX-License-Identifier: GPL-2.0-only */
/* The queue, the pieces, and the reader. See reader.h. */
#include "live/reader.h"

#include "base/broker.h"
#include "base/clock.h"
#include "base/threads.h"
#include "base/vec.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    QUEUE = 64 << 20,   /* bytes: a second of samples; later samples would not be walked anyway */
    RESERVED = 4 << 20, /* bytes of QUEUE only for entries that are no samples */
    PIECES = 16 << 20,  /* bytes of pieces that wait for the recorder */
    PART = 1 << 20,     /* bytes of PIECES whose memory is given back at once */
    READY = 1 << 20,    /* bytes of QUEUE that are there from the beginning */
    ENTRY_SAMPLE = 1,
    ENTRY_RECORD = 2,
    ENTRY_CALL = 3,
    ENTRY_WRAP = 4,    /* the next entry is at the queue's start */
    WAIT_MS = 20,      /* ms between two looks at what may not wake its waiter */
    COUNTED_MS = 200,  /* ms, at most, that count as standing between two looks */
    STANDS_MS = 30000, /* ms of standing after which a process is given up */
    SLEEPS_MS = 5000,  /* the same, if it uses no processor: it waits for what may never come */
    END_MS = 500,      /* ms that a process has to end */
};

/* Head of each entry in the queue; the entry's data follows. */
struct entry {
    uint32_t size; /* bytes with this head, a multiple of 8 */
    uint32_t kind;
    uint32_t call;
    struct sample sample; /* its pointers point behind this head */
};

/* Head of each piece. */
struct piece {
    uint32_t size; /* bytes that follow */
    uint32_t kind;
};

/* The shared memory; the queue and the pieces follow it. Both are rings, and all counts are of
 * bytes since the start: they only grow. The recorder owns the first group, the reader the second.
 */
struct shared {
    _Atomic uint64_t put;   /* bytes put into the queue */
    _Atomic uint64_t first; /* the count at which the queue's first byte was written */
    _Atomic uint64_t took;  /* bytes of pieces taken */
    _Atomic uint32_t ticks; /* asked for */
    _Atomic uint32_t more;  /* the reader waits for a change of it */
    _Atomic uint32_t waits; /* the recorder waits */
    _Atomic uint32_t quit, hurry;

    _Atomic uint64_t taken;  /* bytes taken from the queue: worked at, too */
    _Atomic uint64_t pieces; /* bytes of pieces put */
    _Atomic uint32_t ticked;
    _Atomic uint32_t less;    /* the recorder waits for a change of it */
    _Atomic uint32_t blocked; /* the reader waits for room for a piece */
    _Atomic uint32_t steps;
    _Atomic int32_t at;
    _Atomic uint32_t failed; /* `error` says why */
    struct error error;

    _Alignas(64) uint8_t common[READER_COMMON];
};
/* (Parts of the memory are given back by pages: it begins with the largest page there is.) */
enum {
    PAGE_MAX = 64 << 10,
    SHARED = (sizeof(struct shared) + PAGE_MAX - 1) / PAGE_MAX * PAGE_MAX,
    MAPPED = SHARED + QUEUE + PIECES
};

struct reader {
    struct reader_work work;
    struct shared *shared;
    uint8_t *queue, *pieces;

    /* Used by the recorder only. */
    bool running;
    enum reader_form form;
    pthread_t thread;
    pid_t pid;
    uint64_t put, first, took; /* as in the shared memory, which a process could change */
    uint32_t ticks;
    struct {
        uint8_t *at;
        size_t nr, cap;
    } reading; /* pieces, each with its head */
    size_t read;
    uint64_t dropped;
    uint32_t steps;           /* as last seen */
    uint64_t looked, stands;  /* ns: the time of the last look, and how long it stands */
    uint64_t used_ns, sleeps; /* ns of processor time at the last look; how long it used none */
    bool is_lost;
    struct reader_loss loss;
    struct rusage used;
};

static void wait_change(_Atomic uint32_t *of, uint32_t seen, unsigned ms)
{
    const struct timespec most = {ms / 1000, (long)(ms % 1000) * 1000000};
    (void)syscall(SYS_futex, of, FUTEX_WAIT, seen, &most, NULL, 0);
}

static void change(_Atomic uint32_t *of)
{
    atomic_fetch_add(of, 1);
    (void)syscall(SYS_futex, of, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Let the pages of the queue's first part be there. When a program begins, the reader must learn at
 * once what it maps, and a fault takes 10 us or more: of a ms, the samples of a few. (Linux 5.14;
 * if it fails, each page comes when it is used first.) */
static void ready_queue(const struct reader *r)
{
#ifdef MADV_POPULATE_WRITE
    (void)madvise(r->queue, READY, MADV_POPULATE_WRITE);
#else
    (void)r;
#endif
}

/* ---- creation ------------------------------------------------------------------------------ */

struct reader *reader_create(const struct reader_work *work)
{
    struct reader *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    void *map = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) { /* (untouched pages use no memory) */
        free(r);
        return NULL;
    }
    r->work = *work;
    r->shared = map;
    r->queue = (uint8_t *)map + SHARED;
    r->pieces = r->queue + QUEUE;
    return r;
}

void reader_free(struct reader *r)
{
    if (!r)
        return;
    reader_end(r);
    munmap(r->shared, MAPPED);
    free(r->reading.at);
    free(r);
}

void *reader_common(struct reader *r)
{
    return r->shared->common;
}

/* ---- the reader ---------------------------------------------------------------------------- */

static void step(struct reader *r)
{
    atomic_fetch_add(&r->shared->steps, 1);
}

/* Something is done, or pieces must be taken: wake the recorder if it waits for that. */
static void wake_recorder(struct reader *r)
{
    if (atomic_load(&r->shared->waits))
        change(&r->shared->less);
}

static void keep_error(struct reader *r, const struct error *err)
{
    r->shared->error = *err;
    atomic_store(&r->shared->failed, 1);
}

/* The entry that comes next. `*taken`: the count before it. */
static const struct entry *next_entry(const struct reader *r, uint64_t *taken)
{
    size_t at = (size_t)((*taken - atomic_load(&r->shared->first)) % QUEUE);
    const struct entry *e = (const struct entry *)(r->queue + at);
    if (e->kind != ENTRY_WRAP)
        return e;
    *taken += QUEUE - at;
    return (const struct entry *)r->queue;
}

static int entry_work(const struct reader *r, const struct entry *e, struct error *err)
{
    void *context = r->work.context;
    if (e->kind == ENTRY_SAMPLE)
        return r->work.sample(context, &e->sample, err);
    if (e->kind == ENTRY_CALL)
        return r->work.call(context, e->call, err);
    return r->work.record(context, (const struct perf_event_header *)(e + 1), err);
}

static void work_at_entry(struct reader *r)
{
    struct shared *s = r->shared;
    struct error err = {0};
    uint64_t taken = atomic_load(&s->taken);
    const struct entry *e = next_entry(r, &taken);
    if (!atomic_load(&s->failed) && entry_work(r, e, &err) < 0)
        keep_error(r, &err);
    atomic_store(&s->taken, taken + e->size);
}

static void work_at_tick(struct reader *r, uint32_t wanted)
{
    struct shared *s = r->shared;
    struct error err = {0};
    if (!atomic_load(&s->failed) && r->work.tick(r->work.context, &err) < 0)
        keep_error(r, &err);
    atomic_store(&s->ticked, wanted);
}

static void *work_on(void *reader)
{
    struct reader *r = reader;
    struct shared *s = r->shared;
    while (!atomic_load(&s->quit)) {
        uint32_t more = atomic_load(&s->more), ticks = atomic_load(&s->ticks);
        if (atomic_load(&s->put) != atomic_load(&s->taken)) {
            work_at_entry(r);
        } else if (ticks != atomic_load(&s->ticked)) {
            work_at_tick(r, ticks);
        } else {
            if (!atomic_load(&s->quit))
                wait_change(&s->more, more, 1000);
            continue;
        }
        reader_look(r, 0);
        wake_recorder(r);
    }
    return NULL;
}

void reader_look(struct reader *r, pid_t pid)
{
    atomic_store(&r->shared->at, pid);
    step(r);
}

bool reader_hurried(const struct reader *r)
{
    return atomic_load(&r->shared->hurry);
}

/* ---- pieces -------------------------------------------------------------------------------- */

static size_t rounded(size_t size)
{
    return (size + 7) & ~(size_t)7;
}

static void copy_in(uint8_t *ring, uint64_t at, const void *from, size_t size)
{
    size_t to = (size_t)(at % PIECES), first = PIECES - to < size ? PIECES - to : size;
    memcpy(ring + to, from, first);
    memcpy(ring, (const uint8_t *)from + first, size - first);
}

static void copy_out(const uint8_t *ring, uint64_t at, void *to, size_t size)
{
    size_t from = (size_t)(at % PIECES), first = PIECES - from < size ? PIECES - from : size;
    memcpy(to, ring + from, first);
    memcpy((uint8_t *)to + first, ring, size - first);
}

int reader_write(struct reader *r, unsigned kind, const void *bytes, size_t size, struct error *err)
{
    struct shared *s = r->shared;
    const struct piece head = {(uint32_t)size, kind};
    const uint64_t at = atomic_load(&s->pieces), end = at + sizeof(head) + rounded(size);
    if (size > READER_PIECE_MAX)
        return error_set(err, ERROR_UNSUPPORTED, "a piece of %zu bytes", size);
    while (end - atomic_load(&s->took) > PIECES) {
        uint32_t more = atomic_load(&s->more);
        if (atomic_load(&s->quit))
            return error_set(err, ERROR_UNSUPPORTED, "the recorder has ended");
        atomic_store(&s->blocked, 1);
        step(r); /* waiting for the recorder is no standing still */
        wake_recorder(r);
        wait_change(&s->more, more, WAIT_MS);
    }
    atomic_store(&s->blocked, 0);
    step(r);
    copy_in(r->pieces, at, &head, sizeof(head));
    copy_in(r->pieces, at + sizeof(head), bytes, size);
    atomic_store(&s->pieces, end);
    return 0;
}

static void lose(struct reader *r, const char *why);

/* Give back the memory of pieces that were taken: they come round all of it, and few wait at a
 * time. If that fails, the memory stays in use. */
static void give_back(const struct reader *r, uint64_t from, uint64_t to)
{
    for (uint64_t part = from / PART; part < to / PART; part++)
        (void)madvise(r->pieces + part * PART % PIECES, PART, MADV_REMOVE);
}

/* Move all pieces into the recorder's own memory. Returns false when they are none: the reader is
 * out of its mind, or memory is out. */
static bool take_pieces(struct reader *r)
{
    struct shared *s = r->shared;
    uint64_t end = atomic_load(&s->pieces);
    size_t waiting = (size_t)(end - r->took);
    struct piece head;
    if (end == r->took)
        return true;
    if (end - r->took > PIECES || !vec_reserve(&r->reading, r->reading.nr + waiting))
        return false;
    uint8_t *to = r->reading.at + r->reading.nr;
    copy_out(r->pieces, r->took, to, waiting);
    size_t at = 0; /* of whole pieces */
    while (waiting - at >= sizeof(head)) {
        memcpy(&head, to + at, sizeof(head));
        if (head.size > READER_PIECE_MAX || rounded(head.size) > waiting - at - sizeof(head))
            break;
        at += sizeof(head) + rounded(head.size);
    }
    r->reading.nr += at;
    give_back(r, r->took, end);
    r->took = end;
    atomic_store(&s->took, end);
    if (atomic_load(&s->blocked))
        change(&s->more);
    return at == waiting;
}

static void drain(struct reader *r)
{
    if (!take_pieces(r) && r->running)
        lose(r, "has put nonsense into the memory that it shares with the recorder");
}

bool reader_take(struct reader *r, unsigned *kind, const void **bytes, size_t *size)
{
    struct piece head;
    if (r->read == r->reading.nr) {
        r->read = r->reading.nr = 0;
        drain(r);
    }
    if (r->read == r->reading.nr)
        return false;
    memcpy(&head, r->reading.at + r->read, sizeof(head));
    *kind = head.kind;
    *size = head.size;
    *bytes = r->reading.at + r->read + sizeof(head);
    r->read += sizeof(head) + rounded(head.size);
    return true;
}

/* ---- beginning and end --------------------------------------------------------------------- */

static int start_thread(struct reader *r, struct error *err)
{
    int why = thread_without_signals(&r->thread, work_on, r);
    return why ? error_system(err, why, "a thread cannot be created") : 0;
}

static void be_process(struct reader *r, pid_t recorder)
{
    struct error err = {0};
    sigset_t old;
    signals_block(&old);
    ready_queue(r);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (r->work.begin && r->work.begin(r->work.context, &err) < 0)
        keep_error(r, &err);
    if (getppid() == recorder)
        (void)work_on(r);
    broker_end();
    _exit(0);
}

static int start_process(struct reader *r, struct error *err)
{
    pid_t recorder = getpid();
    r->pid = fork();
    if (r->pid == 0)
        be_process(r, recorder);
    return r->pid < 0 ? error_system(err, errno, "a process cannot be created") : 0;
}

/* Nobody has the shared memory but us: all counts begin anew. */
static void reset(struct reader *r)
{
    memset(r->shared, 0, offsetof(struct shared, common));
    r->put = r->first = r->took = 0;
    r->ticks = 0;
    r->steps = 0;
    r->stands = r->sleeps = 0;
}

int reader_start(struct reader *r, enum reader_form form, struct error *err)
{
    if (r->running)
        return 0;
    reset(r);
    r->form = form;
    ready_queue(r);
    int failed = form == READER_THREAD ? start_thread(r, err) : start_process(r, err);
    r->running = !failed;
    r->looked = clock_ns(CLOCK_MONOTONIC);
    return failed;
}

pid_t reader_pid(const struct reader *r)
{
    return r->running && r->form == READER_PROCESS ? r->pid : 0;
}

static void add_time(struct timeval *to, const struct timeval *more)
{
    to->tv_sec += more->tv_sec;
    to->tv_usec += more->tv_usec;
    if (to->tv_usec >= 1000000) {
        to->tv_sec++;
        to->tv_usec -= 1000000;
    }
}

/* Reap the process. Returns false if it has not ended. */
static bool reap(struct reader *r, int *status)
{
    struct rusage used = {0};
    pid_t got = wait4(r->pid, status, WNOHANG, &used);
    if (got == 0 || (got < 0 && errno == EINTR))
        return false;
    if (got < 0)
        *status = 0;
    add_time(&r->used.ru_utime, &used.ru_utime);
    add_time(&r->used.ru_stime, &used.ru_stime);
    if (used.ru_maxrss > r->used.ru_maxrss)
        r->used.ru_maxrss = used.ru_maxrss;
    return true;
}

/* Let the process end, then end it. One that waits in the kernel for what never comes stays: it
 * ends when the kernel lets it go. */
static void end_process(struct reader *r)
{
    int status;
    for (unsigned ms = 0; ms < 2 * END_MS; ms++) {
        if (reap(r, &status))
            return;
        if (ms == END_MS)
            kill(r->pid, SIGKILL);
        usleep(1000);
    }
}

void reader_end(struct reader *r)
{
    if (!r->running)
        return;
    atomic_store(&r->shared->quit, 1);
    change(&r->shared->more);
    if (r->form == READER_THREAD)
        pthread_join(r->thread, NULL);
    else
        end_process(r);
    drain(r);
    r->running = false;
}

/* ---- what a process does wrong ------------------------------------------------------------- */

/* There is no process any more. What it has written whole is kept. */
static void note_loss(struct reader *r, const char *why)
{
    int at = atomic_load(&r->shared->at);
    r->running = false;
    r->is_lost = true;
    r->loss.at = at > 0 ? at : 0;
    snprintf(r->loss.why, sizeof(r->loss.why), "%s", why);
    (void)take_pieces(r);
}

/* End a process that goes on no more, or does what it should not. */
static void lose(struct reader *r, const char *why)
{
    int status;
    kill(r->pid, SIGKILL);
    for (unsigned ms = 0; ms < WAIT_MS && !reap(r, &status); ms++)
        usleep(1000);
    note_loss(r, why);
}

static void lose_ended(struct reader *r, int status)
{
    char why[sizeof(r->loss.why)];
    if (WIFSIGNALED(status))
        snprintf(why, sizeof(why), "was ended by signal %d", WTERMSIG(status));
    else
        snprintf(why, sizeof(why), "has ended with status %d", WEXITSTATUS(status));
    note_loss(r, why);
}

/* Its work has failed. */
static void lose_failed(struct reader *r)
{
    char why[sizeof(r->loss.why)];
    const struct error *e = &r->shared->error;
    snprintf(why, sizeof(why), "has failed: %.*s", (int)sizeof(e->text), e->text);
    lose(r, why);
}

bool reader_lost(struct reader *r, struct reader_loss *ret)
{
    if (!r->is_lost)
        return false;
    r->is_lost = false;
    *ret = r->loss;
    return true;
}

/* Bytes in the queue. */
static uint64_t queued(struct reader *r)
{
    uint64_t used = r->put - atomic_load(&r->shared->taken);
    if (used <= QUEUE)
        return used;
    if (r->running && r->form == READER_PROCESS)
        lose(r, "has lost count of its queue");
    return 0;
}

static bool is_idle(struct reader *r)
{
    return !queued(r) && atomic_load(&r->shared->ticked) == r->ticks;
}

/* Add up for how long it stands, and of that, for how long it has not worked. */
static void count_time(struct reader *r, uint64_t passed)
{
    const uint64_t most = (uint64_t)COUNTED_MS * 1000000;
    const uint32_t steps = atomic_load(&r->shared->steps);
    if (steps != r->steps || is_idle(r)) {
        r->stands = r->sleeps = 0;
        r->steps = steps;
        return;
    }
    passed = passed < most ? passed : most;
    r->stands += passed;
    const uint64_t used = process_cpu_ns(r->pid);
    r->sleeps = used == r->used_ns ? r->sleeps + passed : 0;
    r->used_ns = used;
}

/* See whether a process lives and goes on. */
static void look_after(struct reader *r)
{
    int status;
    if (!r->running || r->form != READER_PROCESS)
        return;
    if (reap(r, &status)) {
        lose_ended(r, status);
        return;
    }
    if (atomic_load(&r->shared->failed)) {
        lose_failed(r);
        return;
    }
    const uint64_t now = clock_ns(CLOCK_MONOTONIC);
    count_time(r, now - r->looked);
    r->looked = now;
    if (r->running &&
        (r->stands > (uint64_t)STANDS_MS * 1000000 || r->sleeps > (uint64_t)SLEEPS_MS * 1000000))
        reader_kill(r);
}

unsigned reader_stands(const struct reader *r)
{
    return r->running && r->form == READER_PROCESS ? (unsigned)(r->stands / 1000000) : 0;
}

void reader_hurry(struct reader *r)
{
    atomic_store(&r->shared->hurry, 1);
}

void reader_kill(struct reader *r)
{
    char why[sizeof(r->loss.why)];
    snprintf(why, sizeof(why), "was ended: it stood for %u ms", reader_stands(r));
    if (r->running && r->form == READER_PROCESS)
        lose(r, why);
}

struct rusage reader_used(const struct reader *r)
{
    return r->used;
}

/* ---- filling the queue --------------------------------------------------------------------- */

/* A thread that has failed is an error; a process that has failed is lost. */
static int status_of(const struct reader *r, struct error *err)
{
    bool failed = r->running && r->form == READER_THREAD && atomic_load(&r->shared->failed);
    if (failed && err)
        *err = r->shared->error;
    return failed ? -1 : 0;
}

/* Returns where an entry of `size` bytes may be written so that `left` bytes stay free; NULL: no
 * room. The reader sees an entry once `put` counts it. */
static struct entry *entry_room(struct reader *r, size_t size, size_t left)
{
    uint64_t used = queued(r);
    if (!used) { /* start again with the first byte: this part is in the caches */
        r->first = r->put;
        atomic_store(&r->shared->first, r->first);
    }
    size_t at = (size_t)((r->put - r->first) % QUEUE), end = QUEUE - at;
    size_t skipped = end < size ? end : 0;
    if (used + skipped + size + left > QUEUE)
        return NULL;
    if (skipped) {
        ((struct entry *)(r->queue + at))->kind = ENTRY_WRAP;
        r->put += skipped;
        at = 0;
    }
    return (struct entry *)(r->queue + at);
}

/* Publish a filled entry. */
static void entry_put(struct reader *r, struct entry *e, size_t size)
{
    e->size = (uint32_t)size;
    r->put += size;
    atomic_store(&r->shared->put, r->put);
}

static const uint8_t *put_bytes(uint8_t **to, const void *from, size_t size)
{
    const uint8_t *at = *to;
    if (!from)
        return NULL;
    memcpy(*to, from, size);
    *to += rounded(size);
    return at;
}

/* Copy what walks need: no call chain, no branches. */
static void fill_sample(struct entry *e, const struct sample *s, size_t registers)
{
    uint8_t *to = (uint8_t *)(e + 1);
    e->kind = ENTRY_SAMPLE;
    e->sample = *s;
    e->sample.callchain = e->sample.branches = e->sample.read = e->sample.intr_regs = NULL;
    e->sample.nr_callchain = e->sample.nr_branches = e->sample.read_size = 0;
    e->sample.stack_near = s->stack_dyn_size;
    e->sample.stack_far = NULL;
    e->sample.user_regs = put_bytes(&to, s->user_regs, registers);
    e->sample.raw = put_bytes(&to, s->raw, s->raw_size);
    e->sample.stack = put_bytes(&to, s->stack, s->stack_dyn_size);
}

int reader_sample(struct reader *r, const struct sample *s, struct error *err)
{
    size_t registers = 8 * (size_t)__builtin_popcountll(s->user_mask);
    size_t size = sizeof(struct entry) + (s->user_regs ? registers : 0) +
                  (s->raw ? rounded(s->raw_size) : 0) + (s->stack ? rounded(s->stack_dyn_size) : 0);
    struct entry *e = r->running ? entry_room(r, size, RESERVED) : NULL;
    r->dropped += !e;
    if (e) {
        fill_sample(e, s, registers);
        entry_put(r, e, size);
    }
    return status_of(r, err);
}

/* Wait for room. Returns NULL if there is no reader (any more), or its work has failed. */
static struct entry *await_room(struct reader *r, size_t size)
{
    struct entry *e = NULL;
    atomic_store(&r->shared->waits, 1);
    while (r->running && status_of(r, NULL) == 0) {
        uint32_t less = atomic_load(&r->shared->less);
        if ((e = entry_room(r, size, 0)))
            break;
        change(&r->shared->more);
        drain(r);
        look_after(r);
        wait_change(&r->shared->less, less, WAIT_MS);
    }
    atomic_store(&r->shared->waits, 0);
    return e;
}

int reader_record(struct reader *r, const struct perf_event_header *record, struct error *err)
{
    size_t size = sizeof(struct entry) + rounded(record->size);
    struct entry *e = await_room(r, size);
    if (e) {
        e->kind = ENTRY_RECORD;
        memcpy(e + 1, record, record->size);
        entry_put(r, e, size);
        change(&r->shared->more); /* a program has begun, or mapped a file: not at the next tick */
    }
    return status_of(r, err);
}

int reader_call(struct reader *r, unsigned which, struct error *err)
{
    struct entry *e = await_room(r, sizeof(*e));
    if (e) {
        e->kind = ENTRY_CALL;
        e->call = which;
        entry_put(r, e, sizeof(*e));
        change(&r->shared->more);
    }
    return status_of(r, err);
}

int reader_kick(struct reader *r, struct error *err)
{
    look_after(r);
    atomic_store(&r->shared->ticks, ++r->ticks);
    change(&r->shared->more);
    return status_of(r, err);
}

int reader_wait(struct reader *r, unsigned ms, struct error *err)
{
    const uint64_t until = clock_ns(CLOCK_MONOTONIC) + (uint64_t)ms * 1000000;
    bool idle = false;
    atomic_store(&r->shared->waits, 1);
    change(&r->shared->more);
    while (r->running) {
        uint32_t less = atomic_load(&r->shared->less);
        if ((idle = is_idle(r)) || clock_ns(CLOCK_MONOTONIC) >= until)
            break;
        drain(r);
        look_after(r);
        if (r->running)
            wait_change(&r->shared->less, less, WAIT_MS);
    }
    atomic_store(&r->shared->waits, 0);
    drain(r);
    int failed = status_of(r, err);
    return failed ? failed : r->running && !idle;
}

uint64_t reader_dropped(const struct reader *r)
{
    return r->dropped;
}
