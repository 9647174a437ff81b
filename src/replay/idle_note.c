/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Idle waits of a recording: what the rules (idle.h) need is noted of each sample, while the
 * recording has waits. Each worker notes by itself: stacks as a tree of addresses, and for each
 * thread the stacks that it had, with times and numbers. At the end these are put together.
 */
#include "base/hash.h"
#include "perfdata/offcpu.h"
#include "replay/idle.h"
#include "replay/replay_internal.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum {
    INNER_MAX = 16,   /* frames in which a function that waits is looked for */
    JUDGED_MAX = 32,  /* different waits of a thread that are judged: the most frequent */
    WORKER_SHIFT = 32 /* a wait's number: its worker, and from bit 0 on its place + 1 there */
};

/* What is known of the code at a frame. */
struct idle_code {
    struct frame_key key;
    uint64_t function;
    uint32_t dso; /* 0: not known */
    uint8_t kind;
    bool waits, locks, named;
};

struct idle_node {
    uint32_t parent; /* 0: none; node 0 is no frame */
    uint32_t depth;
    struct idle_frame frame;
};

/* The samples of a thread with one stack. */
struct idle_entry {
    uint64_t key; /* of the thread and the stack */
    uint32_t pid, tid;
    uint32_t node;        /* innermost frame */
    uint32_t nr_inner;    /* struct idle_stack */
    uint8_t call;         /* enum idle_call; IDLE_NO: these are not to be judged */
    bool at_end;          /* the wait had not ended when the recording did */
    bool idle;            /* the decision */
    uint64_t first, last; /* ns: from when to when samples of it were seen */
    uint64_t samples, period;
};

struct idle_worker {
    size_t nr_events; /* when `has_waits` was set */
    bool has_waits;
    VEC(struct idle_code) codes;
    VEC(struct idle_node) nodes;
    VEC(struct idle_entry) entries;
    struct hash_table code_table, node_table, entry_table;
    VEC(uint32_t) path; /* codes of the sample's frames, innermost first */
    uint64_t waits, waits_ns;
};

struct idle {
    unsigned nr;
    struct idle_worker workers[];
};

struct idle *idle_create(unsigned nr_workers)
{
    struct idle *d = calloc(1, sizeof(*d) + nr_workers * sizeof(*d->workers));
    if (d)
        d->nr = nr_workers;
    return d;
}

static void forget_stacks(struct idle_worker *w)
{
    vec_free(&w->codes);
    vec_free(&w->nodes);
    vec_free(&w->path);
    hash_table_free(&w->code_table);
    hash_table_free(&w->node_table);
    hash_table_free(&w->entry_table);
}

void idle_free(struct idle *d)
{
    for (unsigned i = 0; d && i < d->nr; i++) {
        forget_stacks(&d->workers[i]);
        vec_free(&d->workers[i].entries);
    }
    free(d);
}

/* ---- frames -------------------------------------------------------------------------------- */

static bool is_code_of(const struct idle_code *c, const struct frame_key *key, uint8_t kind)
{
    return c->key.owner == key->owner && c->key.address == key->address &&
           c->key.lookup == key->lookup && c->kind == kind;
}

static int describe(struct replay_worker *w, const struct replay_sample *s, const struct frame *f,
                    struct idle_code *ret, struct error *err)
{
    struct named_frame n;
    if (frame_is_managed(f)) {
        ret->function = f->function ? hash_combine(f->function, f->kind) : 0;
        return 0;
    }
    if (replay_name(w, s, f, &n, err) < 0)
        return -1;
    ret->dso = n.dso;
    ret->named = n.symbol && !n.by_place;
    ret->waits = ret->named && idle_waits_for_work(n.symbol);
    ret->locks = ret->named && !ret->waits && idle_takes_lock(n.symbol);
    if (n.symbol)
        ret->function =
            hash_combine(n.dso ? n.dso : (uintptr_t)ret->key.owner, n.address - n.offset);
    return 0;
}

/* Returns the code at a frame; UINT32_MAX: failed, err is set. */
static uint32_t code_at(struct idle_worker *d, struct replay_worker *w,
                        const struct replay_sample *s, const struct frame *f, struct error *err)
{
    struct idle_code code = {.key = replay_frame_key(f), .kind = f->kind};
    uint64_t hash = hash_combine((uintptr_t)code.key.owner, code.key.lookup);
    uint32_t n =
        hash_table_find(&d->code_table, hash, i, is_code_of(&d->codes.at[i], &code.key, f->kind));
    if (n != HASH_TABLE_NONE)
        return n;
    if (describe(w, s, f, &code, err) < 0)
        return UINT32_MAX;
    if (vec_push(&d->codes, code) && hash_table_add(&d->code_table, hash, d->codes.nr - 1))
        return (uint32_t)d->codes.nr - 1;
    error_no_memory(err);
    return UINT32_MAX;
}

/* Returns how many innermost frames are of the library that the innermost one is of. All of them:
 * then it is the program's own code, and only the innermost counts. */
static size_t frames_of_library(const struct idle_worker *d)
{
    const uint32_t dso = d->codes.at[d->path.at[0]].dso;
    size_t nr = 0;
    while (nr < d->path.nr && d->codes.at[d->path.at[nr]].dso == dso)
        nr++;
    return dso && nr < d->path.nr ? nr : 1;
}

/* Find the function in which a futex's waiter waits for work. Returns the number of frames up to
 * it; 0: it may take a lock. */
static size_t frames_of_futex(const struct idle_worker *d, bool bitset)
{
    bool named = true;
    for (size_t i = 0; i < d->path.nr && i < INNER_MAX; i++) {
        const struct idle_code *c = &d->codes.at[d->path.at[i]];
        if (c->waits)
            return named || bitset ? i + 1 : 0;
        if (c->locks)
            return 0;
        named = named && c->named;
    }
    return 0;
}

/* ---- stacks -------------------------------------------------------------------------------- */

static bool is_node_of(const struct idle_node *n, uint32_t parent, const struct idle_frame *f)
{
    return n->parent == parent && n->frame.pc == f->pc && n->frame.function == f->function;
}

/* Returns the node of a frame below `parent`; 0 when out of memory. */
static uint32_t node_below(struct idle_worker *d, uint32_t parent, const struct idle_frame *f)
{
    const struct idle_node none = {0};
    if (!d->nodes.nr && !vec_push(&d->nodes, none))
        return 0;
    const struct idle_node node = {parent, d->nodes.at[parent].depth + 1, *f};
    uint64_t hash = hash_combine(hash_combine(f->pc, parent), f->function);
    uint32_t n = hash_table_intern(&d->node_table, hash, &d->nodes, i,
                                   is_node_of(&d->nodes.at[i], parent, f), node);
    return n == HASH_TABLE_NONE ? 0 : n;
}

/* A sample as it is noted. */
struct noted {
    const struct replay_sample *s;
    const struct frame *frames; /* the user's, innermost first */
    size_t nr;
    enum idle_call call;
    bool bitset, is_wait;
    uint64_t began;
};

/* Who awaits a result is not on the stack. */
static bool is_on_stack(const struct frame *f)
{
    return f->tier != TIER_ASYNC;
}

/* Where a frame is. Of the innermost one the function will do, unless it waits: so there are fewer
 * stacks. */
static uint64_t place_of(const struct idle_worker *d, const struct noted *n, size_t i,
                         const struct frame *f)
{
    return i || n->is_wait ? f->pc : d->codes.at[d->path.at[0]].function;
}

static uint64_t key_of(const struct idle_worker *d, const struct noted *n)
{
    const struct sample *s = n->s->sample;
    uint64_t sp = 0, key = hash_combine((uint64_t)s->pid << 32 | s->tid,
                                        (uint64_t)n->call << 1 | n->bitset);
    if (n->is_wait && n->s->arch)
        sample_user_reg(s, n->s->arch->perf_sp, &sp);
    key = hash_combine(key, sp);
    for (size_t i = 0; i < n->nr; i++)
        if (is_on_stack(&n->frames[i]))
            key = hash_combine(key, place_of(d, n, i, &n->frames[i]));
    return key;
}

/* Find the codes of all frames, and set `nr_inner` and `call` of a new entry. */
static int look_at_frames(struct idle_worker *d, struct replay_worker *w, const struct noted *n,
                          struct idle_entry *e, struct error *err)
{
    bool guessed = false;
    d->path.nr = 0;
    for (size_t i = 0; i < n->nr; i++) {
        if (!is_on_stack(&n->frames[i]))
            continue;
        uint32_t code = code_at(d, w, n->s, &n->frames[i], err);
        if (code == UINT32_MAX)
            return -1;
        if (!vec_push(&d->path, code))
            return error_no_memory(err);
        guessed |= n->frames[i].provenance == PROVENANCE_GUESS;
    }
    size_t inner = e->call == IDLE_FUTEX ? frames_of_futex(d, n->bitset) : frames_of_library(d);
    if (!inner || guessed)
        e->call = IDLE_NO;
    e->nr_inner = (uint32_t)(inner ? inner : 1);
    return 0;
}

static int add_stack(struct idle_worker *d, struct replay_worker *w, const struct noted *n,
                     struct idle_entry *e, struct error *err)
{
    if (look_at_frames(d, w, n, e, err) < 0)
        return -1;
    size_t at = d->path.nr;
    for (size_t i = n->nr; i-- > 0;) {
        if (!is_on_stack(&n->frames[i]))
            continue;
        at--;
        const struct idle_frame f = {place_of(d, n, at, &n->frames[i]),
                                     d->codes.at[d->path.at[at]].function};
        e->node = node_below(d, e->node, &f);
        if (!e->node)
            return error_no_memory(err);
    }
    return 0;
}

/* Returns the place of the sample's entry; UINT32_MAX: failed, err is set. */
static uint32_t entry_of(struct idle_worker *d, struct replay_worker *w, const struct noted *n,
                         struct error *err)
{
    struct idle_entry e = {.pid = n->s->sample->pid,
                           .tid = n->s->sample->tid,
                           .call = (uint8_t)n->call,
                           .first = n->began};
    uint32_t leaf = code_at(d, w, n->s, n->frames, err);
    d->path.nr = 0;
    if (leaf == UINT32_MAX)
        return UINT32_MAX;
    if (vec_push(&d->path, leaf)) {
        e.key = key_of(d, n);
        uint32_t known = hash_table_find(&d->entry_table, e.key, i, d->entries.at[i].key == e.key);
        if (known != HASH_TABLE_NONE)
            return known;
        if (add_stack(d, w, n, &e, err) < 0)
            return UINT32_MAX;
        if (vec_push(&d->entries, e) && hash_table_add(&d->entry_table, e.key, d->entries.nr - 1))
            return (uint32_t)d->entries.nr - 1;
    }
    error_no_memory(err);
    return UINT32_MAX;
}

/* ---- samples ------------------------------------------------------------------------------- */

/* Whether the recording has waits. Events of a pipe are known when they have come. */
static bool has_waits(struct idle_worker *d, const struct replay *r)
{
    const size_t nr = perfdata_nr_events(r->pd);
    for (; d->nr_events < nr; d->nr_events++)
        d->has_waits |= perfdata_is_offcpu(perfdata_event(r->pd, d->nr_events));
    return d->has_waits;
}

static void describe_wait(struct noted *n, struct idle_worker *d)
{
    const struct sample *s = n->s->sample;
    struct offcpu_wait wait;
    n->began = s->time;
    if (!n->s->wait_reason)
        return;
    d->waits++;
    d->waits_ns += s->period;
    if (!perfdata_offcpu(s, &wait))
        return;
    n->began = s->time > wait.waited ? s->time - wait.waited : 0;
    if ((wait.reason != WAIT_SLEEPING && wait.reason != WAIT_UNKNOWN) || wait.syscall < 0)
        return;
    n->call = idle_call_of(n->s->arch, (unsigned)wait.syscall, s);
    n->is_wait = n->call != IDLE_NO;
    n->bitset = n->call == IDLE_FUTEX && idle_is_bitset(n->s->arch, s);
}

int idle_note(struct idle *idle, unsigned number, struct replay_worker *w,
              const struct replay_sample *s, uint64_t *ret, struct error *err)
{
    struct idle_worker *d = &idle->workers[number];
    struct noted n = {
        .s = s, .frames = s->frames + s->nr_kernel, .nr = s->nr_frames - s->nr_kernel};
    *ret = 0;
    if (!has_waits(d, w->replay))
        return 0;
    describe_wait(&n, d);
    if (!s->unwound || s->end != STACK_COMPLETE || !n.nr)
        return 0;
    uint32_t at = entry_of(d, w, &n, err);
    if (at == UINT32_MAX)
        return -1;
    struct idle_entry *e = &d->entries.at[at];
    e->first = e->first < n.began ? e->first : n.began;
    e->last = e->last > s->sample->time ? e->last : s->sample->time;
    e->at_end |= s->wait_reason && s->sample->cpu == UINT32_MAX;
    e->samples++;
    e->period += s->sample->period;
    if (e->call != IDLE_NO)
        *ret = (uint64_t)number << WORKER_SHIFT | (at + 1);
    return 0;
}

/* ---- deciding ------------------------------------------------------------------------------ */

/* An entry of a worker, or the equal entries of several as one. */
struct merged {
    struct idle_entry sum;
    const struct idle_worker *worker;
};
typedef VEC(struct merged) merged_list;

static int compare_merged(const void *a, const void *b)
{
    const struct idle_entry *x = &((const struct merged *)a)->sum;
    const struct idle_entry *y = &((const struct merged *)b)->sum;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
}

static void merge(struct idle_entry *to, const struct idle_entry *e)
{
    to->first = to->first < e->first ? to->first : e->first;
    to->last = to->last > e->last ? to->last : e->last;
    to->at_end |= e->at_end;
    to->samples += e->samples;
    to->period += e->period;
}

/* Put the entries of all workers together, sorted by threads. */
static bool merge_all(const struct idle *d, merged_list *ret)
{
    size_t nr = 0;
    for (unsigned i = 0; i < d->nr; i++)
        vec_foreach (e, &d->workers[i].entries)
            if (!vec_push(ret, (struct merged){*e, &d->workers[i]}))
                return false;
    if (ret->nr)
        qsort(ret->at, ret->nr, sizeof(*ret->at), compare_merged);
    for (size_t i = 0; i < ret->nr; i++) {
        if (nr && compare_merged(&ret->at[nr - 1], &ret->at[i]) == 0)
            merge(&ret->at[nr - 1].sum, &ret->at[i].sum);
        else
            ret->at[nr++] = ret->at[i];
    }
    ret->nr = nr;
    return true;
}

typedef VEC(struct idle_frame) frame_list;

/* Get a stack; `frames` has its frames. Returns false when out of memory. */
static bool get_stack(const struct merged *m, frame_list *frames, struct idle_stack *ret)
{
    uint32_t node = m->sum.node, nr = node ? m->worker->nodes.at[node].depth : 0;
    if (!vec_reserve(frames, nr))
        return false;
    frames->nr = nr;
    for (; node; node = m->worker->nodes.at[node].parent)
        frames->at[--nr] = m->worker->nodes.at[node].frame;
    *ret = (struct idle_stack){frames->at, frames->nr, m->sum.nr_inner};
    return true;
}

/* The stacks of one thread. */
struct of_thread {
    struct merged *at;
    size_t nr;
    uint64_t first, last; /* when it was seen */
    uint64_t recorded;    /* ns of the recording */
    frame_list wait, other;
};

static bool is_most(uint64_t of, uint64_t part)
{
    return part >= of - of / 10;
}

/* Whether it waits once, for nearly all of the recording, or for nearly as long as the thread was
 * seen and still at the end. */
static bool is_whole(const struct of_thread *t, const struct idle_entry *e)
{
    const uint64_t waited = e->last - e->first;
    return e->samples == 1 &&
           (is_most(t->recorded, waited) || (e->at_end && is_most(t->last - t->first, waited)));
}

static bool judge(struct of_thread *t, const struct merged *m, bool *ret)
{
    struct idle_wait wait = {.call = (enum idle_call)m->sum.call,
                             .first_thread = m->sum.pid == m->sum.tid,
                             .whole = is_whole(t, &m->sum),
                             .samples = m->sum.samples};
    struct idle_judge j;
    bool ok = get_stack(m, &t->wait, &wait.stack) && idle_judge_begin(&j, &wait);
    if (!ok)
        return false;
    for (const struct merged *o = t->at; o < t->at + t->nr && ok; o++) {
        struct idle_stack other;
        if (o == m || o->sum.last <= m->sum.first || o->sum.first >= m->sum.last)
            continue;
        ok = get_stack(o, &t->other, &other);
        if (ok)
            idle_judge_add(&j, &other, o->sum.samples);
    }
    *ret = idle_judge_end(&j) && ok;
    return ok;
}

static bool decide_thread(struct of_thread *t)
{
    bool ok = true;
    t->first = UINT64_MAX;
    t->last = 0;
    for (size_t i = 0; i < t->nr; i++) {
        t->first = t->first < t->at[i].sum.first ? t->first : t->at[i].sum.first;
        t->last = t->last > t->at[i].sum.last ? t->last : t->at[i].sum.last;
    }
    for (unsigned judged = 0; judged < JUDGED_MAX && ok; judged++) {
        struct merged *most = NULL;
        for (struct merged *m = t->at; m < t->at + t->nr; m++)
            if (m->sum.call != IDLE_NO && (!most || m->sum.samples > most->sum.samples))
                most = m;
        if (!most)
            break;
        ok = judge(t, most, &most->sum.idle);
        most->sum.call = IDLE_NO; /* it is done */
    }
    return ok;
}

/* Bring the decision to the entries of all workers. */
static void spread(struct idle *d, const struct merged *m)
{
    for (unsigned i = 0; i < d->nr; i++) {
        struct idle_worker *w = &d->workers[i];
        uint32_t n =
            hash_table_find(&w->entry_table, m->sum.key, k, w->entries.at[k].key == m->sum.key);
        if (n != HASH_TABLE_NONE)
            w->entries.at[n].idle = true;
    }
}

/* Returns the time from the first sample to the last, ns. */
static uint64_t time_of(const merged_list *all)
{
    uint64_t first = UINT64_MAX, last = 0;
    vec_foreach (m, all) {
        first = first < m->sum.first ? first : m->sum.first;
        last = last > m->sum.last ? last : m->sum.last;
    }
    return last > first ? last - first : 0;
}

int idle_decide(struct idle *d, struct replay_stats *st, struct error *err)
{
    merged_list all = {0};
    bool ok = merge_all(d, &all);
    struct of_thread t = {.recorded = time_of(&all)};
    for (size_t i = 0; i < all.nr && ok; i += t.nr) {
        t.at = &all.at[i];
        for (t.nr = 1; i + t.nr < all.nr && all.at[i + t.nr].sum.pid == t.at->sum.pid &&
                       all.at[i + t.nr].sum.tid == t.at->sum.tid;)
            t.nr++;
        ok = decide_thread(&t);
    }
    for (size_t i = 0; i < all.nr && ok; i++) {
        if (!all.at[i].sum.idle)
            continue;
        st->idle += all.at[i].sum.samples;
        st->idle_ns += all.at[i].sum.period;
        spread(d, &all.at[i]);
    }
    for (unsigned i = 0; i < d->nr; i++) {
        st->waits += d->workers[i].waits;
        st->waits_ns += d->workers[i].waits_ns;
        forget_stacks(&d->workers[i]);
    }
    vec_free(&all);
    vec_free(&t.wait);
    vec_free(&t.other);
    return ok ? 0 : error_no_memory(err);
}

bool idle_is(const struct idle *d, uint64_t wait)
{
    if (!wait)
        return false;
    const struct idle_worker *w = &d->workers[wait >> WORKER_SHIFT];
    return w->entries.at[(uint32_t)wait - 1].idle;
}
