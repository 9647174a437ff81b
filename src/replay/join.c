/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Joining truncated stacks. A stack deeper than its copy ends in a frame whose return address lies
 * beyond the copy; its pc and CFA are known. Where earlier complete stacks of the thread held a
 * frame with the same pc and the same CFA, the same function was at the same call in the same
 * place: its caller is taken to be the same, and so on to the entry, hence `image`. What has been
 * seen with two different callers proves nothing and is not used.
 *
 * A thread's stacks are remembered from its first truncated one on: most threads never have one.
 * Nothing goes by where batches end, which differs between a file and a pipe of the same data.
 */
#include "base/hash.h"
#include "replay/internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    CALLERS_MAX = 4096, /* known frames of a thread; more: it starts anew */
    THREADS_MAX = 4096, /* likewise for threads */
};

/* A frame seen in a complete stack, and its caller. */
struct known_frame {
    uint64_t pc, cfa;
    uint64_t caller_pc, caller_cfa;
    uint32_t begin; /* of its thread; another one's, and 0: free slot */
    uint8_t caller_flags;
    bool outermost; /* there is no caller */
    bool disputed;  /* seen with different callers */
};

struct known_thread {
    uint64_t key;               /* 0: free slot */
    struct known_frame *frames; /* NULL until the first truncated stack */
    size_t nr, cap;
    uint32_t begin; /* from 1: how often it started anew, which then takes no clearing */
};

struct join_table {
    struct known_thread *slots;
    size_t nr, cap;
    VEC(struct frame) callers; /* scratch */
};

struct join_table *join_table_create(void)
{
    return calloc(1, sizeof(struct join_table));
}

static void forget_all(struct join_table *t)
{
    for (size_t i = 0; i < t->cap; i++)
        free(t->slots[i].frames);
    free(t->slots);
    t->slots = NULL;
    t->nr = t->cap = 0;
}

/* Most recordings need none. */
static bool make_slots(struct join_table *t)
{
    t->slots = calloc(2 * THREADS_MAX, sizeof(*t->slots));
    t->cap = t->slots ? 2 * THREADS_MAX : 0;
    return t->slots;
}

void join_table_free(struct join_table *t)
{
    if (!t)
        return;
    forget_all(t);
    vec_free(&t->callers);
    free(t);
}

/* The thread, when it is remembered; with `add`, it is from now on (NULL: out of memory). */
static struct known_thread *thread_of(struct join_table *t, const struct job_sample *s, bool add)
{
    if ((!t->nr && !add) || (!t->slots && !make_slots(t)))
        return NULL;
    uint64_t key = ((uint64_t)s->place.pid << 32 | s->place.tid) + 1;
    size_t at = hash_u64(key) & (t->cap - 1);
    while (t->slots[at].key && t->slots[at].key != key)
        at = (at + 1) & (t->cap - 1);
    if (t->slots[at].key)
        return &t->slots[at];
    if (!add)
        return NULL;
    if (t->nr == THREADS_MAX) {
        forget_all(t);
        return thread_of(t, s, true);
    }
    struct known_frame *frames = calloc(2 * CALLERS_MAX, sizeof(*frames));
    if (!frames)
        return NULL;
    t->slots[at] =
        (struct known_thread){.key = key, .frames = frames, .cap = 2 * CALLERS_MAX, .begin = 1};
    t->nr++;
    return &t->slots[at];
}

static bool is_known(const struct known_thread *k, const struct known_frame *f)
{
    return f->begin == k->begin;
}

static void start_anew(struct known_thread *k)
{
    k->nr = 0;
    if (++k->begin == 0) { /* they begin to repeat */
        memset(k->frames, 0, k->cap * sizeof(*k->frames));
        k->begin = 1;
    }
}

/* The frame's slot, or the free one where it belongs. */
static struct known_frame *find_frame(const struct known_thread *k, uint64_t pc, uint64_t cfa)
{
    size_t at = hash_combine(pc, cfa) & (k->cap - 1);
    while (is_known(k, &k->frames[at]) && (k->frames[at].pc != pc || k->frames[at].cfa != cfa))
        at = (at + 1) & (k->cap - 1);
    return &k->frames[at];
}

/* ---- remembering --------------------------------------------------------------------------- */

static void learn_frame(struct known_thread *k, const struct frame *f, const struct frame *caller)
{
    struct known_frame *known = find_frame(k, f->pc, f->cfa);
    struct known_frame now = {.pc = f->pc, .cfa = f->cfa, .begin = k->begin, .outermost = !caller};
    if (caller) {
        now.caller_pc = caller->pc;
        now.caller_cfa = caller->cfa;
        now.caller_flags = caller->flags;
    }
    if (!is_known(k, known)) {
        *known = now;
        k->nr++;
    } else if (known->outermost != now.outermost || known->caller_pc != now.caller_pc ||
               known->caller_cfa != now.caller_cfa) {
        known->disputed = true;
    }
}

/* The sample whose stack was remembered last, and how many of its outermost frames are known now.
 */
struct learned {
    const struct known_thread *thread;
    const struct job_sample *sample;
    size_t nr;
};

/* How many outermost frames of the sample were learned with the sample before it: to learn a frame
 * once more changes nothing. Where the thread is about to start anew they are learned again, as
 * they would be at the begin of a batch. */
static size_t learned_already(const struct known_thread *k, const struct job_sample *s,
                              const struct learned *last)
{
    if (last->thread != k || last->sample + 1 != s || k->nr >= CALLERS_MAX)
        return 0;
    return last->nr < s->nr_same ? last->nr : s->nr_same;
}

/* Frames whose place is not known (cfa 0), and guesses, prove nothing about their callers. A
 * guest's frames may be others by the next sample, in the same native frame. */
static void learn_stack(struct known_thread *k, const struct job *job, const struct job_sample *s,
                        struct learned *last)
{
    const struct frame *frames = job->frames.at + s->first_frame + s->nr_kernel;
    size_t nr = s->nr_frames - s->nr_kernel;
    size_t done = learned_already(k, s, last);
    bool anew = false;
    for (; done < nr && frames[nr - 1 - done].cfa; done++) {
        const struct frame *f = &frames[nr - 1 - done];
        if (f->provenance == PROVENANCE_GUESS || frame_is_guest(f))
            break;
        if (k->nr >= CALLERS_MAX) {
            start_anew(k);
            anew = true;
        }
        learn_frame(k, f, done ? f + 1 : NULL);
    }
    *last = (struct learned){k, s, anew ? 0 : done};
}

/* ---- joining ------------------------------------------------------------------------------- */

/* Collect the callers of `f` up to the entry; false: not all are known beyond dispute. */
static bool find_callers(struct join_table *t, const struct known_thread *k, const struct frame *f,
                         struct error *err)
{
    uint64_t pc = f->pc;
    uint64_t cfa = f->cfa;
    t->callers.nr = 0;
    while (cfa) {
        const struct known_frame *known = find_frame(k, pc, cfa);
        if (!is_known(k, known) || known->disputed)
            return false;
        if (known->outermost)
            return t->callers.nr > 0;
        if (known->caller_cfa <= cfa) /* never down: this ends for certain */
            return false;
        struct frame caller = {.pc = known->caller_pc,
                               .cfa = known->caller_cfa,
                               .flags = known->caller_flags,
                               .kind = FRAME_NATIVE,
                               .provenance = PROVENANCE_IMAGE};
        if (!vec_push(&t->callers, caller)) {
            error_no_memory(err);
            return false;
        }
        pc = caller.pc;
        cfa = caller.cfa;
    }
    return false;
}

/* Append the callers to the truncated stack `s`. What code stands at their addresses is asked
 * anew: mappings of that time may be gone. */
static int append_callers(struct join_table *t, struct job *job, struct job_sample *s,
                          struct error *err)
{
    struct codemap map = session_codemap(&s->place);
    size_t first = job->frames.nr;
    size_t own = s->nr_frames;
    size_t nr = t->callers.nr;
    if (!vec_reserve(&job->frames, first + own + nr))
        return error_no_memory(err);
    memcpy(job->frames.at + first, job->frames.at + s->first_frame, own * sizeof(struct frame));
    struct frame *to = job->frames.at + first + own;
    for (size_t i = 0; i < nr; i++) {
        struct code code;
        to[i] = t->callers.at[i];
        if (codemap_lookup(&map, frame_lookup_pc(&to[i]), s->sample.time, &code)) {
            to[i].code = code.token;
            to[i].kind = code.owner == CODE_JIT ? FRAME_JIT : FRAME_NATIVE;
        }
    }
    job->frames.nr = first + own + nr;
    s->first_frame = first;
    s->nr_frames = own + nr;
    s->end = STACK_COMPLETE;
    return 0;
}

/* Returns 1 when the stack was continued. */
static int join_sample(struct join_table *t, const struct known_thread *k, struct job *job,
                       struct job_sample *s, struct error *err)
{
    struct error failed = {0};
    if (s->nr_frames == s->nr_kernel)
        return 0;
    const struct frame *last = job->frames.at + s->first_frame + s->nr_frames - 1;
    if (last->cfa == 0 || last->provenance == PROVENANCE_GUESS)
        return 0;
    if (!find_callers(t, k, last, &failed)) {
        if (failed.kind != ERROR_NONE)
            *err = failed;
        return failed.kind != ERROR_NONE ? -1 : 0;
    }
    return append_callers(t, job, s, err) < 0 ? -1 : 1;
}

/* One sample; returns 1 when it was joined. */
static int settle_sample(struct join_table *t, struct job *job, struct job_sample *s,
                         struct learned *last, struct error *err)
{
    int joined = 0;
    if (!s->unwound || (s->end != STACK_COMPLETE && s->end != STACK_TRUNCATED))
        return 0;
    struct known_thread *k = thread_of(t, s, false);
    if (s->end == STACK_TRUNCATED) {
        if (!k) {
            *last = (struct learned){0}; /* threads may be forgotten */
            k = thread_of(t, s, true);
        }
        joined = k ? join_sample(t, k, job, s, err) : error_no_memory(err);
    }
    if (joined > 0)
        s->nr_same = sample_frames_same(job, s);
    if (k && s->end == STACK_COMPLETE)
        learn_stack(k, job, s, last);
    return joined;
}

int join_job(struct join_table *t, struct job *job, uint64_t *nr_joined, struct error *err)
{
    struct learned last = {0};
    int joined = 0;
    vec_foreach (s, &job->samples) {
        if (joined)
            s->nr_same = sample_frames_same(job, s);
        joined = settle_sample(t, job, s, &last, err);
        if (joined < 0)
            return -1;
        *nr_joined += (uint64_t)joined;
    }
    return 0;
}
