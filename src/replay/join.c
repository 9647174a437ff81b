/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Joining truncated stacks. A stack deeper than its copy ends in a frame whose return address
 * lies beyond the copy; its pc and CFA are known. When the thread's last complete stack holds a
 * frame with the same pc and the same CFA, the same activation is at the same call: its callers
 * are the same, unless it returned and was called again from the same place with the same
 * depth; hence `image`.
 */
#include "base/hash.h"
#include "replay/internal.h"

#include <stdlib.h>
#include <string.h>

/* The last complete stack of one thread, from its outermost kernel-free frame list. */
struct known_stack {
    uint64_t key;                   /* pid and tid; 0: free slot */
    const struct job_sample *fresh; /* in the current job; NULL: `frames` holds it */
    VEC(struct frame) frames;
};

struct join_table {
    struct known_stack *slots;
    size_t nr, cap;
    VEC(uint64_t) touched; /* keys whose stack stands in the current job */
};

struct join_table *join_table_create(void)
{
    struct join_table *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->cap = 256;
    t->slots = calloc(t->cap, sizeof(*t->slots));
    if (t->slots)
        return t;
    free(t);
    return NULL;
}

void join_table_free(struct join_table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->cap; i++)
        vec_free(&t->slots[i].frames);
    free(t->slots);
    vec_free(&t->touched);
    free(t);
}

static struct known_stack *find_slot(struct known_stack *slots, size_t cap, uint64_t key)
{
    size_t at = hash_u64(key) & (cap - 1);
    while (slots[at].key && slots[at].key != key)
        at = (at + 1) & (cap - 1);
    return &slots[at];
}

static bool grow_table(struct join_table *t)
{
    size_t cap = t->cap * 2;
    struct known_stack *slots = calloc(cap, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < t->cap; i++)
        if (t->slots[i].key)
            *find_slot(slots, cap, t->slots[i].key) = t->slots[i];
    free(t->slots);
    t->slots = slots;
    t->cap = cap;
    return true;
}

static struct known_stack *known_of(struct join_table *t, uint64_t key)
{
    if (t->nr * 2 >= t->cap && !grow_table(t))
        return NULL;
    struct known_stack *k = find_slot(t->slots, t->cap, key);
    if (!k->key) {
        k->key = key;
        t->nr++;
    }
    return k;
}

static uint64_t key_of(const struct job_sample *s)
{
    return ((uint64_t)s->place.pid << 32 | s->place.tid) + 1;
}

/* The frames above (outside of) the one that stands at (pc, cfa) in the known stack. */
static const struct frame *callers_at(const struct frame *known, size_t nr, const struct frame *f,
                                      size_t *ret)
{
    for (size_t i = 0; i < nr; i++) {
        if (known[i].cfa != f->cfa || known[i].pc != f->pc)
            continue;
        *ret = nr - i - 1;
        return known + i + 1;
    }
    return NULL;
}

/* Append `callers`, seen in an earlier sample, to the truncated stack `s`. Whether code still
 * stands at their addresses is asked anew: mappings of that time may be gone. */
static int append_callers(struct job *job, struct job_sample *s, const struct frame *callers,
                          size_t nr, struct error *err)
{
    struct codemap map = session_codemap(&s->place);
    size_t first = job->frames.nr;
    size_t own = s->nr_frames;
    if (!vec_reserve(&job->frames, first + own + nr))
        return error_no_memory(err);
    memcpy(job->frames.at + first, job->frames.at + s->first_frame, own * sizeof(struct frame));
    struct frame *to = job->frames.at + first + own;
    for (size_t i = 0; i < nr; i++) {
        struct code code;
        to[i] = callers[i];
        to[i].code = NULL;
        if (to[i].provenance < PROVENANCE_IMAGE)
            to[i].provenance = PROVENANCE_IMAGE;
        if (codemap_lookup(&map, frame_lookup_pc(&to[i]), s->sample.time, &code))
            to[i].code = code.token;
    }
    job->frames.nr = first + own + nr;
    s->first_frame = first;
    s->nr_frames = own + nr;
    s->end = STACK_COMPLETE;
    return 0;
}

/* Returns 1 when the stack was continued. */
static int join_sample(const struct known_stack *k, struct job *job, struct job_sample *s,
                       struct error *err)
{
    const struct frame *known = k->frames.at;
    size_t nr = k->frames.nr;
    if (k->fresh) {
        known = job->frames.at + k->fresh->first_frame + k->fresh->nr_kernel;
        nr = k->fresh->nr_frames - k->fresh->nr_kernel;
    }
    if (s->nr_frames == s->nr_kernel)
        return 0;
    const struct frame *last = job->frames.at + s->first_frame + s->nr_frames - 1;
    if (last->cfa == 0 || last->provenance == PROVENANCE_GUESS)
        return 0;
    size_t nr_callers = 0;
    const struct frame *callers = callers_at(known, nr, last, &nr_callers);
    if (!callers)
        return 0;
    /* job->frames may move while appending: keep an own copy when the callers stand in it. */
    struct frame *copy = malloc((nr_callers + 1) * sizeof(*copy));
    if (!copy)
        return error_no_memory(err);
    memcpy(copy, callers, nr_callers * sizeof(*copy));
    int failed = append_callers(job, s, copy, nr_callers, err);
    free(copy);
    return failed ? -1 : 1;
}

/* Frames of this job go away with it: keep what later jobs may need. */
static int keep_fresh(struct join_table *t, struct job *job, struct error *err)
{
    vec_foreach (key, &t->touched) {
        struct known_stack *k = find_slot(t->slots, t->cap, *key);
        const struct job_sample *s = k->fresh;
        size_t nr = s->nr_frames - s->nr_kernel;
        k->fresh = NULL;
        if (!vec_reserve(&k->frames, nr))
            return error_no_memory(err);
        memcpy(k->frames.at, job->frames.at + s->first_frame + s->nr_kernel,
               nr * sizeof(struct frame));
        k->frames.nr = nr;
    }
    t->touched.nr = 0;
    return 0;
}

int join_job(struct join_table *t, struct job *job, uint64_t *nr_joined, struct error *err)
{
    vec_foreach (s, &job->samples) {
        if (!s->unwound || (s->end != STACK_COMPLETE && s->end != STACK_TRUNCATED))
            continue;
        struct known_stack *k = known_of(t, key_of(s));
        if (!k)
            return error_no_memory(err);
        if (s->end == STACK_TRUNCATED) {
            int joined = join_sample(k, job, s, err);
            if (joined < 0)
                return -1;
            if (joined == 0)
                continue;
            ++*nr_joined;
        }
        if (!k->fresh && !vec_push(&t->touched, k->key))
            return error_no_memory(err);
        k->fresh = s;
    }
    return keep_fresh(t, job, err);
}
