/* SPDX-License-Identifier: GPL-2.0-only */
/* The queue and the thread. See reader_thread.h. */
#include "live/reader_thread.h"

#include "base/vec.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum {
    QUEUE = 64 << 20,   /* bytes: a second of samples; later samples would not be walked anyway */
    RESERVED = 4 << 20, /* bytes of QUEUE only for records that are no samples */
    ENTRY_SAMPLE = 1,
    ENTRY_RECORD = 2,
    ENTRY_WRAP = 3, /* the next entry is at the queue's start */
};

/* Head of each entry in the queue; the entry's data follows. */
struct entry {
    uint32_t size; /* bytes with this head, a multiple of 8 */
    uint32_t kind;
    struct sample sample; /* its pointers point behind this head */
};

/* Pieces, each a size_t and its bytes. There are two of these: the thread fills one while the
 * recorder reads the other. No limit is needed: a full queue and a tick make the thread write a
 * bounded amount. */
struct written {
    uint8_t *at;
    size_t nr, cap;
};

struct reader_thread {
    struct reader_thread_work work;
    pthread_t thread;
    bool running; /* the thread exists; used by the recorder only */
    uint8_t *queue;
    struct written reading; /* used by the recorder only */
    size_t read;

    /* Guards all members below, and which side owns which part of the queue. */
    pthread_mutex_t lock;
    pthread_cond_t more; /* wakes the thread: entries, a tick, the end */
    pthread_cond_t less; /* wakes the recorder: room, or nothing left */
    size_t head, tail;   /* offsets into the queue: next write, next read */
    size_t used;         /* bytes between them */
    bool tick, busy, quit, failed;
    struct written writing;
    uint64_t dropped;
    struct error error;
};

/* ---- creation ------------------------------------------------------------------------------ */

struct reader_thread *reader_thread_create(const struct reader_thread_work *work)
{
    struct reader_thread *a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    a->queue = malloc(QUEUE); /* untouched pages use no memory */
    a->work = *work;
    if (!a->queue || pthread_mutex_init(&a->lock, NULL)) {
        free(a->queue);
        free(a);
        return NULL;
    }
    pthread_cond_init(&a->more, NULL);
    pthread_cond_init(&a->less, NULL);
    return a;
}

void reader_thread_free(struct reader_thread *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->quit = true;
    pthread_cond_broadcast(&a->more);
    pthread_cond_broadcast(&a->less);
    pthread_mutex_unlock(&a->lock);
    if (a->running)
        pthread_join(a->thread, NULL);
    pthread_cond_destroy(&a->more);
    pthread_cond_destroy(&a->less);
    pthread_mutex_destroy(&a->lock);
    free(a->queue);
    free(a->reading.at);
    free(a->writing.at);
    free(a);
}

/* ---- the thread ---------------------------------------------------------------------------- */

/* Remove the entry that was read. Call with the lock held. */
static void entry_end(struct reader_thread *a, size_t size)
{
    a->used -= size;
    a->tail += size;
    if (!a->used) /* start again at 0: this part is in the caches */
        a->head = a->tail = 0;
    pthread_cond_broadcast(&a->less);
}

static int entry_work(const struct reader_thread *a, const struct entry *e, struct error *err)
{
    if (e->kind == ENTRY_SAMPLE)
        return a->work.sample(a->work.context, &e->sample, err);
    return a->work.record(a->work.context, (const struct perf_event_header *)(e + 1), err);
}

/* Wait for the next thing to do: an entry, or a tick (*tick). Call with the lock held; it is
 * released while waiting. Returns false if the thread must end. */
static bool next_entry(struct reader_thread *a, const struct entry **ret, bool *tick)
{
    *tick = false;
    while (!a->quit && !a->used && !a->tick)
        pthread_cond_wait(&a->more, &a->lock);
    if (a->quit)
        return false;
    if (!a->used) {
        a->tick = false;
        *tick = true;
        return true;
    }
    const struct entry *e = (const struct entry *)(a->queue + a->tail);
    if (e->kind == ENTRY_WRAP) {
        a->used -= QUEUE - a->tail;
        a->tail = 0;
        e = (const struct entry *)a->queue;
    }
    *ret = e;
    return true;
}

static void *run(void *thread)
{
    struct reader_thread *a = thread;
    const struct entry *e = NULL;
    struct error err = {0};
    bool tick;
    pthread_mutex_lock(&a->lock);
    while (next_entry(a, &e, &tick)) {
        bool failed = a->failed;
        a->busy = true;
        pthread_mutex_unlock(&a->lock);
        if (!failed)
            failed = (tick ? a->work.tick(a->work.context, &err) : entry_work(a, e, &err)) < 0;
        pthread_mutex_lock(&a->lock);
        a->busy = false;
        if (failed && !a->failed) {
            a->failed = true;
            a->error = err;
        }
        if (tick)
            pthread_cond_broadcast(&a->less);
        else
            entry_end(a, e->size);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

int reader_thread_start(struct reader_thread *a, struct error *err)
{
    sigset_t all, old;
    if (a->running)
        return 0;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* base/file_map.h */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int why = pthread_create(&a->thread, NULL, run, a);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    a->running = why == 0;
    return why ? error_system(err, why, "a thread cannot be created") : 0;
}

/* ---- filling the queue --------------------------------------------------------------------- */

static int status(const struct reader_thread *a, struct error *err)
{
    if (a->failed && err)
        *err = a->error;
    return a->failed ? -1 : 0;
}

/* Returns where an entry of `size` bytes may be written so that `left` bytes stay free; NULL: no
 * room. Call with the lock held. Only one thread writes entries. The reader sees an entry once
 * `used` counts it. */
static struct entry *entry_room(struct reader_thread *a, size_t size, size_t left)
{
    size_t end = QUEUE - a->head, skipped = 0;
    bool straight = a->head >= a->tail && (a->used < QUEUE);
    if (straight && end < size + sizeof(struct entry))
        skipped = end;
    if (a->used + skipped + size + left > QUEUE)
        return NULL;
    if (skipped) {
        ((struct entry *)(a->queue + a->head))->kind = ENTRY_WRAP;
        a->used += skipped;
        a->head = 0;
    }
    return (struct entry *)(a->queue + a->head);
}

/* Publish a filled entry. Call with the lock held. */
static void entry_put(struct reader_thread *a, struct entry *e, size_t size)
{
    e->size = (uint32_t)size;
    a->head += size;
    a->used += size;
}

static size_t rounded(size_t size)
{
    return (size + 7) & ~(size_t)7;
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

int reader_thread_sample(struct reader_thread *a, const struct sample *s, struct error *err)
{
    size_t registers = 8 * (size_t)__builtin_popcountll(s->user_mask);
    size_t size = sizeof(struct entry) + (s->user_regs ? registers : 0) +
                  (s->raw ? rounded(s->raw_size) : 0) + (s->stack ? rounded(s->stack_dyn_size) : 0);
    pthread_mutex_lock(&a->lock);
    struct entry *e = entry_room(a, size, RESERVED);
    a->dropped += !e;
    if (e) {
        fill_sample(e, s, registers);
        entry_put(a, e, size);
    }
    int failed = status(a, err);
    pthread_mutex_unlock(&a->lock);
    return failed;
}

int reader_thread_record(struct reader_thread *a, const struct perf_event_header *record,
                         struct error *err)
{
    struct entry *e;
    size_t size = sizeof(*e) + rounded(record->size);
    pthread_mutex_lock(&a->lock);
    while (!(e = entry_room(a, size, 0)) && !a->failed) {
        pthread_cond_signal(&a->more);
        pthread_cond_wait(&a->less, &a->lock);
    }
    if (e) {
        e->kind = ENTRY_RECORD;
        memcpy(e + 1, record, record->size);
        entry_put(a, e, size);
    }
    int failed = status(a, err);
    pthread_mutex_unlock(&a->lock);
    return failed;
}

int reader_thread_kick(struct reader_thread *a, struct error *err)
{
    pthread_mutex_lock(&a->lock);
    a->tick = true;
    pthread_cond_signal(&a->more);
    int failed = status(a, err);
    pthread_mutex_unlock(&a->lock);
    return failed;
}

int reader_thread_wait(struct reader_thread *a, struct error *err)
{
    pthread_mutex_lock(&a->lock);
    pthread_cond_signal(&a->more);
    while (a->running && (a->used || a->tick || a->busy))
        pthread_cond_wait(&a->less, &a->lock);
    int failed = status(a, err);
    pthread_mutex_unlock(&a->lock);
    return failed;
}

uint64_t reader_thread_dropped(struct reader_thread *a)
{
    pthread_mutex_lock(&a->lock);
    uint64_t nr = a->dropped;
    pthread_mutex_unlock(&a->lock);
    return nr;
}

/* ---- what the work writes ------------------------------------------------------------------ */

int reader_thread_write(struct reader_thread *a, const void *bytes, size_t size, struct error *err)
{
    pthread_mutex_lock(&a->lock);
    struct written *w = &a->writing;
    bool ok = vec_reserve(w, w->nr + sizeof(size) + size);
    if (ok) {
        memcpy(w->at + w->nr, &size, sizeof(size));
        memcpy(w->at + w->nr + sizeof(size), bytes, size);
        w->nr += sizeof(size) + size;
    }
    pthread_mutex_unlock(&a->lock);
    return ok ? 0 : error_no_memory(err);
}

bool reader_thread_take(struct reader_thread *a, const void **bytes, size_t *size)
{
    struct written *r = &a->reading;
    if (a->read == r->nr) {
        a->read = r->nr = 0;
        pthread_mutex_lock(&a->lock);
        struct written full = a->writing;
        a->writing = *r;
        *r = full;
        pthread_mutex_unlock(&a->lock);
    }
    if (a->read == r->nr)
        return false;
    memcpy(size, r->at + a->read, sizeof(*size));
    *bytes = r->at + a->read + sizeof(*size);
    a->read += sizeof(*size) + *size;
    return true;
}
