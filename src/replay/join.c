/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Joins truncated stacks. A stack that is deeper than its copy ends in a frame whose return address
 * lies beyond the copy; the frame's pc and CFA are known. If earlier complete stacks of the thread
 * held a frame with the same pc and the same CFA, the same function was at the same call in the
 * same place. Its caller is taken to be the same, and so on up to the entry, hence `image`. A frame
 * that was seen with two different callers proves nothing and is not used, until a run of complete
 * stacks agrees on one caller: a function that is compiled anew, or a loop that has moved on, calls
 * from elsewhere from then on. Each such dispute of a frame takes a run twice as long as the last
 * one.
 *
 * One machine frame may stand for several functions of JavaScript or WebAssembly, inlined in each
 * other: a group of frames, of which the innermost has the CFA. All interpreted functions share a
 * pc, and one function has several codes over time. So such a frame is identified by its place, its
 * functions, and their lines.
 *
 * A thread's stacks are remembered from its first truncated stack on: most threads never have one.
 * Nothing depends on where batches end, because that differs between a file and a pipe of the same
 * data.
 */
#include "base/hash.h"
#include "base/hash_table.h"
#include "replay/replay_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    CALLERS_MAX = 16384, /* the most known frames of a thread; with more it starts anew */
    THREADS_MAX = 4096,  /* the most threads; with more all of them start anew */
    LAST_TRIED = 4, /* frames tried at a copy's end, which may lack words that identify a frame */
    RUN_FIRST = 4,  /* complete stacks that end a frame's first dispute */
    RUN_MAX = 256,  /* a dispute that would take more never ends */
    DISPUTES_MAX = 16,   /* open disputes of a thread */
    DISPUTE_IDLE = 1024, /* stacks without the frame, after which a dispute may be forgotten */
};

/* Identifies a frame of a thread. */
struct place_key {
    uint64_t pc, cfa;
    uint64_t functions; /* a hash of the group; 0: a native frame */
};

/* A frame seen in a complete stack, and its caller. */
struct known_frame {
    struct place_key key, caller;
    uint32_t group, nr_group; /* its functions in the thread's `groups`; none: a native frame */
    /* Stacks of its thread: the last with the frame; the one since which it has its caller. */
    uint32_t learned, changed;
    uint8_t flags;
    bool outermost;    /* it has no caller */
    bool disputed;     /* seen with different callers */
    uint16_t run_last; /* how many agreeing stacks the last dispute took; 0: no dispute */
};

/* A frame that was seen with different callers, and how its dispute goes on. All numbers are of its
 * thread's stacks. A stack that is like the one before it counts, whether or not it is learned
 * again. */
struct dispute {
    uint32_t frame;          /* an index in the thread's frames */
    struct place_key caller; /* the caller that the last stacks agree on */
    uint32_t from, last;     /* the first and the last of these stacks */
    uint32_t run;            /* how many these stacks are */
    /* The frame's depth in these stacks: it counts the frames outside, from the outermost on. */
    size_t depth;
};

struct known_thread {
    uint64_t key;
    VEC(struct known_frame) frames;
    struct hash_table table; /* of frames, by their keys */
    /* For explanations: the sample of each remembered stack; else empty. */
    VEC(struct replay_sighting) sightings;
    VEC(struct frame) groups;
    uint32_t stacks; /* stacks remembered since the thread started anew */
    struct dispute disputes[DISPUTES_MAX];
    unsigned nr_disputes;
};

struct join_table {
    VEC(struct known_thread *) threads;
    struct hash_table table; /* of threads, by their keys */
    bool keeps_sightings;
    VEC(struct frame) callers; /* scratch */
    VEC(uint32_t) learned;     /* scratch: the stack in which each of them was learned */
    enum join_failure failure; /* of the last find_callers() that found none */
};

struct join_table *join_table_create(bool keeps_sightings)
{
    struct join_table *t = calloc(1, sizeof(*t));
    if (t)
        t->keeps_sightings = keeps_sightings;
    return t;
}

static void forget_thread(struct known_thread *k)
{
    vec_free(&k->frames);
    hash_table_free(&k->table);
    vec_free(&k->groups);
    vec_free(&k->sightings);
    free(k);
}

static void forget_all(struct join_table *t)
{
    vec_foreach (k, &t->threads)
        forget_thread(*k);
    t->threads.nr = 0;
    hash_table_clear(&t->table);
}

void join_table_free(struct join_table *t)
{
    if (!t)
        return;
    forget_all(t);
    vec_free(&t->threads);
    hash_table_free(&t->table);
    vec_free(&t->callers);
    vec_free(&t->learned);
    free(t);
}

/* Returns the thread if it is remembered. With `add`, it is remembered from now on (NULL: out of
 * memory). */
static struct known_thread *thread_of(struct join_table *t, const struct job_sample *s, bool add)
{
    uint64_t key = ((uint64_t)s->thread.pid << 32 | s->thread.tid) + 1, hash = hash_u64(key);
    uint32_t n = hash_table_find(&t->table, hash, i, t->threads.at[i]->key == key);
    if (n != HASH_TABLE_NONE || !add)
        return n != HASH_TABLE_NONE ? t->threads.at[n] : NULL;
    if (t->threads.nr == THREADS_MAX)
        forget_all(t);
    struct known_thread *k = calloc(1, sizeof(*k));
    if (!k || !vec_push(&t->threads, k)) {
        free(k);
        return NULL;
    }
    k->key = key;
    return hash_table_add(&t->table, hash, t->threads.nr - 1) ? k : NULL;
}

static void start_anew(struct known_thread *k)
{
    k->frames.nr = k->groups.nr = k->stacks = k->nr_disputes = 0;
    k->sightings.nr = 0;
    hash_table_clear(&k->table);
}

static bool same_key(const struct place_key *a, const struct place_key *b)
{
    return a->pc == b->pc && a->cfa == b->cfa && a->functions == b->functions;
}

static uint64_t hash_key(const struct place_key *key)
{
    return hash_combine(hash_combine(key->pc, key->cfa), key->functions);
}

/* Returns NULL if the frame is not known. */
static struct known_frame *find_frame(const struct known_thread *k, const struct place_key *key)
{
    uint32_t n = hash_table_find(&k->table, hash_key(key), i, same_key(&k->frames.at[i].key, key));
    return n != HASH_TABLE_NONE ? &k->frames.at[n] : NULL;
}

/* Returns NULL when out of memory. The frame must not be known yet. */
static struct known_frame *add_frame(struct known_thread *k, const struct known_frame *f)
{
    if (!vec_push(&k->frames, *f))
        return NULL;
    if (hash_table_add(&k->table, hash_key(&f->key), k->frames.nr - 1))
        return &k->frames.at[k->frames.nr - 1];
    k->frames.nr--;
    return NULL;
}

/* ---- groups -------------------------------------------------------------------------------- */

/* Returns whether a frame can be identified by itself. Lua's frames cannot: by the next sample the
 * same native frame may stand for others. */
static bool stands_alone(const struct frame *f)
{
    return f->kind == FRAME_JS || f->kind == FRAME_WASM;
}

/* Returns the index of the innermost frame of the group whose outermost frame is `last`; SIZE_MAX:
 * the place or the functions of that frame are not known. */
static size_t group_begin(const struct frame *frames, size_t last)
{
    const struct frame *f = &frames[last];
    if (!frame_is_managed(f))
        return f->cfa && f->provenance != PROVENANCE_GUESS ? last : SIZE_MAX;
    for (;; last--) {
        f = &frames[last];
        if (!stands_alone(f) || !f->function || f->provenance == PROVENANCE_GUESS)
            return SIZE_MAX;
        if (f->cfa)
            return last;
        if (!last)
            return SIZE_MAX;
    }
}

/* Returns the index after the group that begins at `begin`; there are `nr` frames in all. */
static size_t group_end(const struct frame *frames, size_t nr, size_t begin)
{
    size_t end = begin + 1;
    while (end < nr && stands_alone(&frames[begin]) && stands_alone(&frames[end]) &&
           !frames[end].cfa)
        end++;
    return end;
}

/* Returns the key of a group: it is the same for the same functions at the same places of their
 * source, whatever code they have by now. */
static struct place_key group_key(const struct frame *frames, size_t begin, size_t end)
{
    struct place_key key = {frames[begin].pc, frames[begin].cfa, 0};
    if (!stands_alone(&frames[begin]))
        return key;
    for (size_t i = begin; i < end; i++) {
        const struct frame *f = &frames[i];
        key.functions = hash_combine(key.functions, (uint64_t)f->function << 32 | f->line);
        key.functions = hash_combine(key.functions, f->column);
    }
    key.functions |= 1;
    key.pc = 0;
    return key;
}

/* ---- remembering --------------------------------------------------------------------------- */

/* Note the functions of a frame. Returns -1 when out of memory. */
static int note_group(struct known_thread *k, struct known_frame *f, const struct frame *frames,
                      size_t nr)
{
    f->flags = frames->flags & (uint8_t)~FRAME_LEAF;
    if (!f->key.functions)
        return 0;
    if (f->nr_group != nr) {
        if (!vec_reserve(&k->groups, k->groups.nr + nr))
            return -1;
        f->group = (uint32_t)k->groups.nr;
        f->nr_group = (uint32_t)nr;
        k->groups.nr += nr;
    }
    memcpy(k->groups.at + f->group, frames, nr * sizeof(*frames));
    return 0;
}

/* Returns whether two callers of one frame, which were taken for different ones, are the same
 * functions at the same lines, as far as the lines are known. `lines`: more lines are known of
 * `b`. */
static bool is_alike(const struct known_thread *k, const struct place_key *a,
                     const struct place_key *b, bool *lines)
{
    const struct known_frame *f = find_frame(k, a), *g = find_frame(k, b);
    if (!a->functions || !b->functions || !f || !g || f->nr_group != g->nr_group)
        return false;
    *lines = false;
    for (uint32_t i = 0; i < f->nr_group; i++) {
        const struct frame *of_a = &k->groups.at[f->group + i], *of_b = &k->groups.at[g->group + i];
        bool differ = of_a->line != of_b->line || of_a->column != of_b->column;
        if (of_a->function != of_b->function || (differ && of_a->line && of_b->line))
            return false;
        *lines |= !of_a->line && of_b->line;
    }
    return true;
}

/* ---- disputes ------------------------------------------------------------------------------ */

static unsigned run_needed(const struct known_frame *f)
{
    return f->run_last ? 2 * f->run_last : RUN_FIRST;
}

static uint32_t frame_index(const struct known_thread *k, const struct known_frame *f)
{
    return (uint32_t)(f - k->frames.at);
}

static void drop_dispute(struct known_thread *k, unsigned i)
{
    k->disputes[i] = k->disputes[--k->nr_disputes];
}

/* Returns the index of the frame's open dispute; nr_disputes: none. */
static unsigned find_dispute(const struct known_thread *k, const struct known_frame *f)
{
    unsigned i = 0;
    while (i < k->nr_disputes && &k->frames.at[k->disputes[i].frame] != f)
        i++;
    return i;
}

/* The frame has `caller` (NULL: none) in the current stack, and had another caller before. If there
 * is no room to follow the dispute, or if the frame is at times without a caller, it is disputed
 * for good. */
static void begin_dispute(struct known_thread *k, struct known_frame *f,
                          const struct place_key *caller, size_t depth)
{
    f->disputed = true;
    if (!caller || f->outermost || run_needed(f) > RUN_MAX)
        return;
    for (unsigned i = k->nr_disputes == DISPUTES_MAX ? DISPUTES_MAX : 0; i--;)
        if (k->stacks - k->disputes[i].last > DISPUTE_IDLE)
            drop_dispute(k, i);
    if (k->nr_disputes < DISPUTES_MAX)
        k->disputes[k->nr_disputes++] =
            (struct dispute){frame_index(k, f), *caller, k->stacks, k->stacks, 1, depth};
}

/* Count one more stack of the run. Frames inside the disputed one that were last seen before the
 * run began had the other caller around it: find_callers() goes by `changed`. */
static void continue_run(struct known_thread *k, unsigned i, size_t depth)
{
    struct dispute *d = &k->disputes[i];
    struct known_frame *f = &k->frames.at[d->frame];
    d->last = k->stacks;
    d->depth = depth;
    if (++d->run < run_needed(f))
        return;
    f->run_last = (uint16_t)run_needed(f);
    f->caller = d->caller;
    f->changed = d->from;
    f->disputed = false;
    drop_dispute(k, i);
}

/* A disputed frame is in the current stack. If it is there twice, its key does not identify it. */
static void continue_dispute(struct known_thread *k, const struct known_frame *f,
                             const struct place_key *caller, size_t depth)
{
    unsigned i = find_dispute(k, f);
    if (i == k->nr_disputes)
        return;
    struct dispute *d = &k->disputes[i];
    if (!caller || d->last == k->stacks)
        drop_dispute(k, i);
    else if (same_key(&d->caller, caller))
        continue_run(k, i, depth);
    else
        *d = (struct dispute){d->frame, *caller, k->stacks, k->stacks, 1, depth};
}

/* The frames of the current stack between these depths are those of the stack before it, and are
 * not learned again. (Joined frames include no disputed ones.) */
static void continue_same(struct known_thread *k, size_t begin, size_t end)
{
    for (unsigned i = k->nr_disputes; i--;) {
        const struct dispute *d = &k->disputes[i];
        if (d->last + 1 == k->stacks && d->depth > begin && d->depth <= end)
            continue_run(k, i, d->depth);
    }
}

/* ---- learning ------------------------------------------------------------------------------ */

/* Learn the caller of a known frame. A function that is compiled anew has a frame of another size:
 * in a recursion, other frames of the same functions then come to the same places. Their latest
 * callers are the likely ones. */
static void learn_caller(struct known_thread *k, struct known_frame *f,
                         const struct place_key *caller, size_t depth)
{
    bool lines;
    if (f->disputed) {
        continue_dispute(k, f, caller, depth);
    } else if (f->outermost != !caller) {
        begin_dispute(k, f, caller, depth);
    } else if (caller && !same_key(&f->caller, caller)) {
        if (!is_alike(k, &f->caller, caller, &lines)) {
            begin_dispute(k, f, caller, depth);
        } else if (lines || f->caller.cfa != caller->cfa) {
            f->changed = f->caller.cfa != caller->cfa ? k->stacks : f->changed;
            f->caller = *caller;
        }
    }
}

/* Learn a group of `nr` frames, the innermost of which is `depth` frames from the entry. Returns
 * its key. */
static struct place_key learn_group(struct known_thread *k, const struct frame *frames, size_t nr,
                                    const struct place_key *caller, size_t depth)
{
    struct known_frame now = {
        .key = group_key(frames, 0, nr), .changed = k->stacks, .outermost = !caller};
    struct known_frame *known = find_frame(k, &now.key);
    if (caller)
        now.caller = *caller;
    if (known)
        learn_caller(k, known, caller, depth);
    else if (!(known = add_frame(k, &now)))
        return now.key; /* out of memory: the frame stays unknown, which proves nothing */
    known->learned = k->stacks;
    known->disputed |= note_group(k, known, frames, nr) < 0;
    return now.key;
}

/* The sample whose stack was remembered last, and how many of its outermost frames are known now.
 */
struct learned {
    const struct known_thread *thread;
    const struct job_sample *sample;
    size_t nr;
};

/* Returns how many outermost frames of the sample were learned with the sample before it: to learn
 * a frame again changes nothing but disputes (continue_same). If the thread is about to start anew,
 * the frames are learned again, as they would be at the beginning of a batch. */
static size_t learned_already(const struct known_thread *k, const struct job_sample *s,
                              const struct learned *last)
{
    if (last->thread != k || last->sample + 1 != s || k->frames.nr >= CALLERS_MAX)
        return 0;
    return last->nr < s->nr_same ? last->nr : s->nr_same;
}

/* Frames whose place is not known (cfa 0), and guesses, prove nothing about their callers. The
 * outermost `nr_joined` frames were known already. */
static void learn_stack(struct known_thread *k, const struct job *job, const struct job_sample *s,
                        size_t nr_joined, bool keeps_sightings, struct learned *last)
{
    const struct frame *frames = job->frames.at + s->first_frame + s->nr_kernel;
    size_t nr = s->nr_frames - s->nr_kernel, done = learned_already(k, s, last);
    size_t left = nr - (done > nr_joined ? done : nr_joined);
    struct place_key caller;
    bool has_caller = false, anew = false;
    k->stacks++;
    if (keeps_sightings && k->sightings.nr + 1 == k->stacks)
        (void)vec_push(&k->sightings, (struct replay_sighting){s->number, s->sample.time});
    while (left < nr && stands_alone(&frames[left]) && !frames[left].cfa) /* inside a group */
        left++;
    continue_same(k, nr_joined, nr - left);
    if (left < nr) {
        caller = group_key(frames, left, group_end(frames, nr, left));
        has_caller = true;
    }
    while (left) {
        size_t begin = group_begin(frames, left - 1);
        if (begin == SIZE_MAX)
            break;
        if (k->frames.nr >= CALLERS_MAX) {
            start_anew(k);
            anew = true;
        }
        caller =
            learn_group(k, frames + begin, left - begin, has_caller ? &caller : NULL, nr - begin);
        has_caller = true;
        left = begin;
    }
    *last = (struct learned){k, s, anew ? 0 : nr - left};
}

/* ---- joining ------------------------------------------------------------------------------- */

/* Note for each frame that push_caller() is about to append when it was learned. */
static int note_learned(struct join_table *t, const struct known_frame *known)
{
    uint32_t nr = known->key.functions ? known->nr_group : 1;
    for (uint32_t i = 0; i < nr; i++)
        if (!vec_push(&t->learned, known->learned))
            return -1;
    return 0;
}

/* Append a known frame as a caller. Its functions were seen in another sample. Returns -1 when out
 * of memory. */
static int push_caller(struct join_table *t, const struct known_thread *k,
                       const struct known_frame *known)
{
    struct frame f = {.pc = known->key.pc, /* for a native frame */
                      .cfa = known->key.cfa,
                      .flags = known->flags,
                      .kind = FRAME_NATIVE,
                      .provenance = PROVENANCE_STALE};
    if (t->keeps_sightings && note_learned(t, known) < 0)
        return -1;
    if (!known->key.functions)
        return vec_push(&t->callers, f) ? 0 : -1;
    for (size_t i = known->group; i < known->group + known->nr_group && i < k->groups.nr; i++) {
        f = k->groups.at[i];
        f.provenance = PROVENANCE_STALE;
        f.flags &= (uint8_t)~FRAME_LEAF;
        if (!vec_push(&t->callers, f))
            return -1;
    }
    return 0;
}

/* Collect the callers of a frame up to the entry. Returns 1: they are known; 0: not all are known
 * beyond dispute; -1: out of memory. */
static int find_callers(struct join_table *t, const struct known_thread *k,
                        const struct place_key *frame)
{
    const struct known_frame *known = find_frame(k, frame);
    t->callers.nr = t->learned.nr = 0;
    t->failure = known ? JOIN_NOT_WHOLE : JOIN_NOT_SEEN;
    while (known && !known->disputed) {
        uint64_t cfa = known->key.cfa;
        if (known->outermost)
            return t->callers.nr > 0;
        if (known->caller.cfa <= cfa) /* never down, so the loop ends */
            return 0;
        uint32_t learned = known->learned;
        known = find_frame(k, &known->caller);
        if (known && known->changed > learned) /* no stack had both frames */
            return 0;
        if (known && push_caller(t, k, known) < 0)
            return -1;
    }
    if (known)
        t->failure = JOIN_DISPUTED;
    return 0;
}

/* Note in which samples the joined frames were learned. */
static int note_sightings(const struct join_table *t, const struct known_thread *k, struct job *job,
                          struct job_sample *s, struct error *err)
{
    s->first_sighting = job->sightings.nr;
    for (size_t i = 0; t->keeps_sightings && i < t->callers.nr; i++) {
        uint32_t stack = i < t->learned.nr ? t->learned.at[i] : 0;
        struct replay_sighting seen = {0};
        if (stack && stack <= k->sightings.nr)
            seen = k->sightings.at[stack - 1];
        if (!vec_push(&job->sightings, seen))
            return error_no_memory(err);
    }
    return 0;
}

/* Append the callers to the first `own` frames of the truncated stack `s`. The code at their
 * addresses is looked up again: mappings of the earlier time may be gone. */
static int append_callers(struct join_table *t, struct job *job, struct job_sample *s, size_t own,
                          struct error *err)
{
    struct codemap map = session_codemap(&s->thread);
    size_t first = job->frames.nr;
    size_t nr = t->callers.nr;
    if (!vec_reserve(&job->frames, first + own + nr))
        return error_no_memory(err);
    memcpy(job->frames.at + first, job->frames.at + s->first_frame, own * sizeof(struct frame));
    struct frame *to = job->frames.at + first + own;
    for (size_t i = 0; i < nr; i++) {
        struct code code;
        to[i] = t->callers.at[i];
        bool found =
            to[i].cfa && codemap_lookup(&map, frame_lookup_pc(&to[i]), s->sample.time, &code);
        to[i].code = found ? code.token : NULL;
        if (found && !frame_is_managed(&to[i]))
            to[i].kind = code.owner == CODE_JIT ? FRAME_JIT : FRAME_NATIVE;
    }
    job->frames.nr = first + own + nr;
    s->first_frame = first;
    s->nr_frames = own + nr;
    s->nr_joined = nr;
    s->end = STACK_COMPLETE;
    return 0;
}

/* Returns 1 if the stack was continued. The last frame of the walk is at the copy's end. If it is a
 * JavaScript frame, some of its words may be missing: then the frame before it leads on. */
static int join_sample(struct join_table *t, const struct known_thread *k, struct job *job,
                       struct job_sample *s, struct error *err)
{
    const struct frame *frames = job->frames.at + s->first_frame;
    size_t own = s->nr_frames;
    s->join_failure = JOIN_NO_PLACE;
    for (unsigned i = 0; i < LAST_TRIED && own > s->nr_kernel; i++) {
        bool managed = stands_alone(&frames[own - 1]);
        size_t begin = group_begin(frames, own - 1);
        if (begin != SIZE_MAX && begin >= s->nr_kernel) {
            const struct place_key key = group_key(frames, begin, own);
            int found = find_callers(t, k, &key);
            if (found < 0)
                return error_no_memory(err);
            if (found)
                return append_callers(t, job, s, own, err) < 0 ||
                               note_sightings(t, k, job, s, err) < 0
                           ? -1
                           : 1;
            s->join_failure = (uint8_t)t->failure;
        }
        if (!managed)
            break;
        own = begin == SIZE_MAX ? own - 1 : begin;
    }
    return 0;
}

/* Join one sample. Returns 1 if it was joined. */
static int join_one(struct join_table *t, struct job *job, struct job_sample *s,
                    struct learned *last, struct error *err)
{
    int joined = 0;
    if (!s->unwound || (s->end != STACK_COMPLETE && s->end != STACK_TRUNCATED))
        return 0;
    struct known_thread *k = thread_of(t, s, false);
    if (s->end == STACK_TRUNCATED) {
        if (!k) {
            *last = (struct learned){0}; /* thread_of() may forget threads */
            k = thread_of(t, s, true);
        }
        joined = k ? join_sample(t, k, job, s, err) : error_no_memory(err);
    }
    if (joined > 0)
        s->nr_same = sample_frames_same(job, s);
    if (k && s->end == STACK_COMPLETE)
        learn_stack(k, job, s, joined > 0 ? t->callers.nr : 0, t->keeps_sightings, last);
    return joined;
}

int join_job(struct join_table *t, struct job *job, uint64_t *nr_joined, struct error *err)
{
    struct learned last = {0};
    int joined = 0;
    vec_foreach (s, &job->samples) {
        if (joined)
            s->nr_same = sample_frames_same(job, s);
        joined = join_one(t, job, s, &last, err);
        if (joined < 0)
            return -1;
        *nr_joined += s->witness ? 0 : (uint64_t)joined;
    }
    return 0;
}
