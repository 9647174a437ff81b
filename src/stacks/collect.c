/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The sink that collects stacks. A worker finds the functions of its frames by itself. It brings a
 * batch's samples into the tree, which all workers share, when it has them together: separate trees
 * would hold most nodes once for each worker, and would have to be merged when no thread has
 * anything else to do. A frame's code is named once per worker: `slots` remembers which functions
 * (including inlined ones) are there.
 */
#include "base/hash.h"
#include "base/threads.h"
#include "stacks/stacks_internal.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_CACHE = 256, FUNCTION_CACHE = 8192, FRAME_CACHE = 1024 }; /* powers of two */

/* The functions at one frame key: `nr` indexes from `first` on in the worker's list, outermost
 * first. */
struct expansion {
    struct frame_key key;
    uint32_t first;
    uint16_t nr;    /* 0: free slot */
    uint16_t trace; /* with by_trace */
    uint8_t kind, tier;
    bool inlined; /* of a managed frame */
};

/* A function as it was given, and its index. The strings of a replay stay where they are, so the
 * same pointers are the same function. Most addresses are of functions that were seen before. */
struct function_entry {
    struct function given;
    uint32_t index;
    bool used;
};

struct group_entry {
    struct stack_group group;
    uint32_t index;
    bool used;
};

/* Two words of a frame: function and line; column, trace, kind, tier, flags and provenance. */
struct frame_words {
    uint64_t at[2];
};
_Static_assert(offsetof(struct frame, line) == offsetof(struct frame, function) + 4 &&
                   offsetof(struct frame, provenance) == offsetof(struct frame, function) + 15,
               "the words hold these fields and no others");

static struct frame_words words_of(const struct frame *f)
{
    struct frame_words w;
    memcpy(&w, (const uint8_t *)f + offsetof(struct frame, function), sizeof(w));
    return w;
}

/* Identifies a frame within its batch. */
struct seen_frame {
    uint64_t pc;
    const void *code;
    struct frame_words words;
};

static struct seen_frame seen_frame(const struct frame *f)
{
    return (struct seen_frame){f->pc, f->code, words_of(f)};
}

static bool is_seen(const struct seen_frame *s, const struct frame *f)
{
    struct frame_words w = words_of(f);
    return s->pc == f->pc && s->code == f->code && s->words.at[0] == w.at[0] &&
           s->words.at[1] == w.at[1];
}

/* The functions at a frame that was met in this batch: they are found without looking at the
 * frame's code. */
struct frame_entry {
    struct seen_frame frame;
    uint32_t batch; /* 0: free */
    uint32_t first; /* as in an expansion; if nr is 1, the function itself */
    uint16_t nr;
};

/* A frame that is to be brought into the tree. */
struct step {
    uint32_t first; /* its functions, as in a frame_entry */
    uint16_t nr;
    uint8_t provenance;
};

/* A sample that is to be brought into the tree. Its outermost `shared` frames are those of the
 * sample before; the next `nr_steps` frames follow in `steps`. */
struct planned {
    uint64_t period;
    uint32_t group;
    uint32_t shared, nr_steps;
};

/* The place of a frame in the tree. */
struct path_node {
    uint32_t node;
    uint8_t weakest; /* the weakest provenance from the outermost frame to this one */
};

struct collector {
    struct stacks *stacks;
    struct replay_worker *worker;
    VEC(struct expansion) expansions;
    struct hash_table table; /* of expansions */
    VEC(uint32_t) functions;
    struct group_entry groups[GROUP_CACHE];
    struct function_entry known[FUNCTION_CACHE];
    struct frame_entry frames[FRAME_CACHE];
    uint32_t batch; /* counts from 1 on */
    /* The last sample's path: the next sample mostly shares its outer part. It is valid for one
     * batch only: afterwards a frame's code pointer may mean something else. */
    VEC(struct seen_frame) path;
    uint32_t path_group;
    VEC(struct planned) planned; /* of the batch */
    VEC(struct step) steps;
    VEC(struct path_node) nodes; /* of the sample that is being brought into the tree */
};

static bool frame_is_inlined(const struct frame *f)
{
    return f->flags & FRAME_INLINED;
}

static uint16_t trace_of(const struct collector *c, const struct frame *f)
{
    return c->stacks->options.by_trace ? f->trace : 0;
}

static uint64_t hash_key(const struct frame_key *k)
{
    return hash_combine((uintptr_t)k->owner, k->address * 2 + (k->address == k->lookup));
}

static bool is_expansion_of(const struct expansion *e, const struct frame_key *key,
                            const struct frame *f, uint16_t trace)
{
    return e->key.address == key->address && e->key.owner == key->owner &&
           e->key.lookup == key->lookup && e->kind == f->kind && e->tier == f->tier &&
           e->trace == trace && e->inlined == frame_is_inlined(f);
}

static int push_function(struct collector *c, const struct function *f, struct error *err)
{
    struct function_entry *e = &c->known[function_hash(f) % FUNCTION_CACHE];
    if (!e->used || !function_equal(&e->given, f)) {
        *e = (struct function_entry){*f, stacks_intern_function(c->stacks, f), true};
        e->used = e->index != UINT32_MAX;
    }
    return e->used && vec_push(&c->functions, e->index) ? 0 : error_no_memory(err);
}

static int push_source(struct collector *c, const struct named_frame *n, const struct frame *f,
                       const char *symbol, const char *file, uint32_t line, bool inlined,
                       struct error *err)
{
    const struct stacks_options *o = &c->stacks->options;
    struct function fn = {.symbol = symbol,
                          .module = n->module,
                          .kind = f->kind,
                          .tier = f->tier,
                          .inlined = inlined,
                          .by_place = n->by_place && !inlined,
                          .build = inlined ? NULL : n->build};
    if (o->by_line) {
        fn.file = file;
        fn.line = line;
    }
    if (o->by_offset && symbol && !inlined)
        fn.offset = n->offset < UINT32_MAX ? (uint32_t)n->offset : UINT32_MAX;
    if (o->by_address && !symbol)
        fn.address = n->address;
    else if (o->by_start && symbol && !inlined && f->kind != FRAME_JIT)
        fn.address = n->address - n->offset;
    return push_function(c, &fn, err);
}

/* The name of a managed function is not final before the run's end. It is one function whatever
 * compiled it, and into what, unless the options distinguish that. */
static int push_managed(struct collector *c, const struct frame *f, struct error *err)
{
    struct function fn = {.kind = f->kind, .managed = f->function};
    if (c->stacks->options.by_line)
        fn.line = f->line;
    if (c->stacks->options.by_tier) {
        fn.tier = f->tier;
        fn.inlined = frame_is_inlined(f);
    }
    fn.trace = trace_of(c, f);
    if (!f->function) {
        struct managed_function g;
        managed_unrecorded(f->kind, &g);
        fn.symbol = g.name;
        fn.module = managed_module(&g);
    }
    return push_function(c, &fn, err);
}

static int push_functions(struct collector *c, const struct replay_sample *s, const struct frame *f,
                          struct error *err)
{
    struct named_frame n;
    if (frame_is_managed(f))
        return push_managed(c, f, err);
    if (replay_name(c->worker, s, f, &n, err) < 0 ||
        push_source(c, &n, f, n.symbol, n.file, n.line, false, err) < 0)
        return -1;
    uint32_t nr_inlined = n.resolved ? n.resolved->nr_inlined : 0;
    for (uint32_t i = nr_inlined; i-- > 0;) {
        const struct source_frame *in = &n.resolved->inlined[i];
        if (push_source(c, &n, f, in->name, in->file, in->line, true, err) < 0)
            return -1;
    }
    return 0;
}

static const struct expansion *expansion_of(struct collector *c, const struct replay_sample *s,
                                            const struct frame *f, struct error *err)
{
    struct expansion e = {.key = replay_frame_key(f),
                          .first = (uint32_t)c->functions.nr,
                          .trace = trace_of(c, f),
                          .kind = f->kind,
                          .tier = f->tier,
                          .inlined = frame_is_inlined(f)};
    uint64_t hash = hash_key(&e.key);
    uint32_t n = hash_table_find(&c->table, hash, i,
                                 is_expansion_of(&c->expansions.at[i], &e.key, f, e.trace));
    if (n != HASH_TABLE_NONE)
        return &c->expansions.at[n];
    if (push_functions(c, s, f, err) < 0)
        return NULL;
    e.nr = (uint16_t)(c->functions.nr - e.first);
    if (vec_push(&c->expansions, e) && hash_table_add(&c->table, hash, c->expansions.nr - 1))
        return &c->expansions.at[c->expansions.nr - 1];
    error_no_memory(err);
    return NULL;
}

static struct frame_entry *frame_slot(struct collector *c, const struct frame *f)
{
    uint64_t mixed =
        (f->pc ^ words_of(f).at[0] ^ (uintptr_t)f->code << 16) * UINT64_C(0x9e3779b97f4a7c15);
    return &c->frames[mixed >> 32 & (FRAME_CACHE - 1)];
}

/* Returns the functions at a frame; NULL: failed, err is set. */
static const struct frame_entry *functions_at(struct collector *c, const struct replay_sample *s,
                                              const struct frame *f, struct error *err)
{
    struct frame_entry *at = frame_slot(c, f);
    if (is_seen(&at->frame, f) && at->batch == c->batch)
        return at;
    const struct expansion *e = expansion_of(c, s, f, err);
    if (!e)
        return NULL;
    uint32_t first = e->nr == 1 ? c->functions.at[e->first] : e->first;
    *at = (struct frame_entry){seen_frame(f), c->batch, first, e->nr};
    return at;
}

static uint64_t slice_of(const struct stacks_options *o, uint64_t time)
{
    if (!o->slice_ns)
        return 0;
    return o->all_slices ? time / o->slice_ns : time / o->slice_ns % STACKS_BLOCKS;
}

/* Get who woke the sample's thread, interned; NULL: not known. Returns false when out of memory. */
static bool waker_of(const struct collector *c, const struct replay_sample *s, const char **ret)
{
    char name[REPLAY_WAKER_NAME];
    *ret = NULL;
    if (!c->stacks->options.by_waker || !replay_waker(s, name))
        return true;
    *ret = intern_string(c->stacks->strings, name);
    return *ret != NULL;
}

/* Returns the sample's group, as stacks_intern_group() counts; UINT32_MAX: out of memory. */
static uint32_t group_of(struct collector *c, const struct replay_sample *s)
{
    const struct stacks_options *o = &c->stacks->options;
    struct stack_group g = {.comm = s->comm,
                            .pid = o->by_pid || o->by_tid ? s->sample->pid : 0,
                            .tid = o->by_tid ? s->sample->tid : 0,
                            .cpu = o->by_cpu ? s->sample->cpu : 0,
                            .block = slice_of(o, s->sample->time),
                            .vmstate = o->by_state ? s->vmstate : 0,
                            .event = s->event,
                            .reason = o->by_wait ? s->wait_reason : 0,
                            .syscall = o->by_wait ? s->wait_syscall : 0,
                            .cgroup = o->by_cgroup ? s->sample->cgroup : 0,
                            .wait = s->wait};
    if (!waker_of(c, s, &g.waker))
        return UINT32_MAX;
    uint64_t h = hash_combine((uintptr_t)g.comm, (uint64_t)g.pid << 32 | g.tid) + g.block;
    struct group_entry *e =
        &c->groups[hash_combine(h, (g.cpu * 8ul + g.vmstate) * 65536 + g.event + g.syscall +
                                       g.cgroup + g.wait + (uintptr_t)g.waker) %
                   GROUP_CACHE];
    if (e->used && e->group.comm == g.comm && e->group.pid == g.pid && e->group.tid == g.tid &&
        e->group.cpu == g.cpu && e->group.block == g.block && e->group.event == g.event &&
        e->group.vmstate == g.vmstate && e->group.reason == g.reason &&
        e->group.syscall == g.syscall && e->group.cgroup == g.cgroup && e->group.wait == g.wait &&
        e->group.waker == g.waker)
        return e->index;
    uint32_t group = stacks_intern_group(c->stacks, &g);
    *e = (struct group_entry){g, group, group != UINT32_MAX};
    return group;
}

/* Returns how many of the sample's outermost frames the path already holds. */
static size_t shared_steps(const struct collector *c, const struct replay_sample *s, uint32_t group)
{
    size_t most = c->path.nr < s->nr_frames ? c->path.nr : s->nr_frames;
    size_t nr = s->nr_same < most ? s->nr_same : most;
    if (c->path_group != group)
        return 0;
    while (nr < most && is_seen(&c->path.at[nr], &s->frames[s->nr_frames - 1 - nr]))
        nr++;
    return nr;
}

static int collect(void *worker, const struct replay_sample *s, struct error *err)
{
    struct collector *c = worker;
    struct planned p = {.period = s->sample->period, .group = group_of(c, s)};
    if (p.group == UINT32_MAX || !vec_reserve(&c->path, s->nr_frames))
        return error_no_memory(err);
    c->path.nr = p.shared = (uint32_t)shared_steps(c, s, p.group);
    c->path_group = p.group;
    p.nr_steps = (uint32_t)s->nr_frames - p.shared;
    if (!vec_reserve(&c->steps, c->steps.nr + p.nr_steps) || !vec_push(&c->planned, p))
        return error_no_memory(err);
    for (uint32_t i = p.nr_steps; i-- > 0;) {
        const struct frame *f = &s->frames[i];
        const struct frame_entry *e = functions_at(c, s, f, err);
        if (!e)
            return -1;
        c->steps.at[c->steps.nr++] = (struct step){e->first, e->nr, f->provenance};
        c->path.at[c->path.nr++] = seen_frame(f);
    }
    return 0;
}

/* Go down by one frame. `nodes` has room for it. Returns false when out of memory. */
static bool take_step(struct collector *c, struct stack_tree *tree, const struct step *s,
                      struct path_node *to)
{
    const uint32_t *functions = s->nr == 1 ? &s->first : c->functions.at + s->first;
    for (uint16_t k = 0; to->node && k < s->nr; k++)
        to->node = stack_tree_child(tree, to->node, functions[k]);
    if (!to->node)
        return false;
    uint8_t *provenance = &tree->nodes.at[to->node].provenance;
    if (*provenance < s->provenance)
        *provenance = s->provenance;
    if (to->weakest < s->provenance)
        to->weakest = s->provenance;
    c->nodes.at[c->nodes.nr++] = *to;
    return true;
}

/* Bring a sample into the tree; its steps begin at `s`. */
static bool add_sample(struct collector *c, struct stack_tree *tree, const struct planned *p,
                       const struct step *s)
{
    if (!vec_reserve(&c->nodes, (size_t)p->shared + p->nr_steps))
        return false;
    struct path_node at = {.weakest = PROVENANCE_EXACT};
    c->nodes.nr = p->shared;
    if (p->shared)
        at = c->nodes.at[p->shared - 1];
    else
        at.node = stack_tree_child(tree, 0, p->group);
    for (const struct step *end = s + p->nr_steps; s < end && at.node; s++)
        if (!take_step(c, tree, s, &at))
            return false;
    if (!at.node)
        return false;
    struct stack_node *n = &tree->nodes.at[at.node];
    n->samples++;
    n->period += p->period;
    n->joined += at.weakest == PROVENANCE_STALE;
    n->guessed += at.weakest == PROVENANCE_GUESS;
    return true;
}

static int collector_flush(void *worker, struct text *text, struct error *err)
{
    struct collector *c = worker;
    const struct step *s = c->steps.at;
    bool done = true;
    (void)text;
    lock_patiently(&c->stacks->tree_lock);
    vec_foreach (p, &c->planned) {
        done = done && add_sample(c, &c->stacks->tree, p, s);
        s += p->nr_steps;
    }
    pthread_mutex_unlock(&c->stacks->tree_lock);
    c->planned.nr = c->steps.nr = c->path.nr = 0;
    c->batch++;
    return done ? 0 : error_no_memory(err);
}

static int collector_create(void *context, struct replay_worker *w, void **ret, struct error *err)
{
    struct collector *c = calloc(1, sizeof(*c));
    if (!c)
        return error_no_memory(err);
    c->stacks = context;
    c->stacks->replay = replay_of(w);
    c->stacks->managed = replay_managed_names(replay_of(w));
    c->worker = w;
    c->batch = 1;
    *ret = c;
    return 0;
}

static void collector_free(void *worker)
{
    struct collector *c = worker;
    vec_free(&c->functions);
    vec_free(&c->path);
    vec_free(&c->planned);
    vec_free(&c->steps);
    vec_free(&c->nodes);
    vec_free(&c->expansions);
    hash_table_free(&c->table);
    free(c);
}

struct replay_sink stacks_sink(struct stacks *s)
{
    return (struct replay_sink){.context = s,
                                .worker_create = collector_create,
                                .worker_free = collector_free,
                                .sample = collect,
                                .flush = collector_flush,
                                .folds_idle = true};
}
