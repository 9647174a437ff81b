/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The sink that keeps every sample. While the replay runs, each worker builds a tree of its own and
 * notes at which node each sample ends. At the end the samples are walked in order, and whatever
 * they refer to is numbered by first appearance, so that the numbers do not depend on threads.
 */
#include "stacks/profile.h"

#include "base/hash.h"
#include "base/text.h"
#include "stacks/stacks_internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { RECENT_THREADS = 256 };

/* Identifies a frame within a worker. */
struct raw_key {
    struct frame_key key;
    uint64_t pc; /* of a managed frame; else 0 */
    uint16_t trace;
    uint8_t kind, tier, provenance;
    bool inlined, plain_lua;
};

struct raw_line {
    const char *symbol, *file; /* strings of the replay */
    uint32_t line, column;
};

/* A frame with its name. For a managed frame, `managed` is its function, whose name is not final
 * yet. */
struct raw_location {
    struct raw_key key;
    uint64_t address;
    const char *module;
    uint32_t dso, managed;
    uint32_t first_line, nr_lines; /* innermost first */
};

struct profile_worker {
    struct profile *profile;
    struct replay_worker *worker;
    uint32_t index;
    struct stack_tree tree; /* a node's `function` is its raw location */
    VEC(struct raw_location) locations;
    VEC(struct raw_line) lines;
    struct hash_table table; /* of locations, by their keys */
    VEC(struct profile_thread) threads;
    uint32_t recent[RECENT_THREADS];    /* indexes in `threads`, by a hash */
    VEC(struct profile_sample) samples; /* of the batch at hand */
    VEC(struct profile_block) blocks;   /* of these, if they are wanted */
    uint32_t *nodes;                    /* the profile's nodes for those of `tree`; 0: not yet */
};

/* ---- collecting ---------------------------------------------------------------------------- */

static struct raw_key raw_key(const struct frame *f)
{
    return (struct raw_key){.key = replay_frame_key(f),
                            .pc = frame_is_managed(f) ? f->pc : 0,
                            .trace = f->trace,
                            .kind = f->kind,
                            .tier = f->tier,
                            .provenance = f->provenance,
                            .inlined = f->flags & FRAME_INLINED,
                            .plain_lua = f->flags & FRAME_PLAIN_LUA};
}

static bool same_thread(const struct profile_thread *a, const struct profile_thread *b)
{
    return a->comm == b->comm && a->pid == b->pid && a->tid == b->tid;
}

static bool same_key(const struct raw_key *a, const struct raw_key *b)
{
    return a->key.owner == b->key.owner && a->key.address == b->key.address &&
           a->key.lookup == b->key.lookup && a->pc == b->pc && a->trace == b->trace &&
           a->kind == b->kind && a->tier == b->tier && a->provenance == b->provenance &&
           a->inlined == b->inlined && a->plain_lua == b->plain_lua;
}

static uint64_t hash_of_key(const struct raw_key *k)
{
    return hash_combine(hash_combine((uintptr_t)k->key.owner ^ k->pc, k->key.address),
                        k->key.lookup ^ (uint64_t)k->provenance << 60);
}

/* Name a frame when it is first seen. */
static int add_location(struct profile_worker *w, const struct replay_sample *s,
                        const struct frame *f, const struct raw_key *key, struct error *err)
{
    struct named_frame n;
    if (replay_name(w->worker, s, f, &n, err) < 0)
        return -1;
    struct raw_location l = {.key = *key,
                             .address = n.address,
                             .module = n.module,
                             .dso = n.dso,
                             .managed = frame_is_managed(f) ? f->function : 0,
                             .first_line = (uint32_t)w->lines.nr};
    uint32_t nr_inlined = n.resolved ? n.resolved->nr_inlined : 0;
    bool failed = false;
    for (uint32_t i = 0; i < nr_inlined && !failed; i++) {
        const struct source_frame *in = &n.resolved->inlined[i];
        failed = !vec_push(&w->lines, (struct raw_line){in->name, in->file, in->line, in->column});
    }
    failed = failed || !vec_push(&w->lines, (struct raw_line){n.symbol, n.file, n.line, n.column});
    l.nr_lines = nr_inlined + 1;
    return failed || !vec_push(&w->locations, l) ? error_no_memory(err) : 0;
}

/* Returns the index of the frame's location; -1: failed, err is set. */
static int64_t location_of(struct profile_worker *w, const struct replay_sample *s,
                           const struct frame *f, struct error *err)
{
    struct raw_key key = raw_key(f);
    uint64_t hash = hash_of_key(&key);
    uint32_t n = hash_table_find(&w->table, hash, i, same_key(&w->locations.at[i].key, &key));
    if (n != HASH_TABLE_NONE)
        return n;
    if (add_location(w, s, f, &key, err) < 0)
        return -1;
    n = (uint32_t)w->locations.nr - 1;
    return hash_table_add(&w->table, hash, n) ? (int64_t)n : error_no_memory(err);
}

/* Returns the index among the worker's threads; UINT32_MAX: out of memory. */
static uint32_t thread_of(struct profile_worker *w, const struct replay_sample *s)
{
    struct profile_thread t = {s->comm ? s->comm : "", s->sample->pid, s->sample->tid};
    uint64_t h = hash_combine((uintptr_t)t.comm, (uint64_t)t.pid << 32 | t.tid);
    uint32_t *recent = &w->recent[h % RECENT_THREADS];
    if (*recent < w->threads.nr && same_thread(&w->threads.at[*recent], &t))
        return *recent;
    for (*recent = 0; *recent < w->threads.nr; ++*recent)
        if (same_thread(&w->threads.at[*recent], &t))
            return *recent;
    return vec_push(&w->threads, t) ? *recent : UINT32_MAX;
}

static struct profile_block block_of(const struct replay *r, const struct sample *s)
{
    struct profile_block b = {.objects = 1};
    b.followed = replay_allocation_known(r, s, &b.known);
    if (!replay_alloc_weight(r, s, ALLOC_WEIGHT_OBJECTS, &b.objects) ||
        !replay_freed(r, s, &b.freed))
        b.freed = 0;
    return b;
}

static int profile_take(void *worker, const struct replay_sample *s, struct error *err)
{
    struct profile_worker *w = worker;
    uint32_t node = 0;
    for (size_t i = s->nr_frames; i-- > 0;) {
        int64_t location = location_of(w, s, &s->frames[i], err);
        if (location < 0)
            return -1;
        node = stack_tree_child(&w->tree, node, (uint32_t)location);
        if (!node)
            return error_no_memory(err);
    }
    struct profile_sample sample = {
        .time = s->sample->time,
        .period = s->sample->period,
        .node = node,
        .thread = thread_of(w, s),
        .cpu = s->sample->cpu,
        .event = s->event,
        .end = (uint8_t)s->end,
        .unwound = s->unwound,
        .worker = (uint16_t)w->index,
        .wait = s->wait,
    };
    if (w->profile->wants_blocks &&
        !vec_push(&w->blocks, block_of(replay_of(w->worker), s->sample)))
        return error_no_memory(err);
    return sample.thread == UINT32_MAX || !vec_push(&w->samples, sample) ? error_no_memory(err) : 0;
}

/* Take the batch's samples, then their blocks, as bytes, which wait for their turn. */
static int profile_flush(void *worker, struct text *text, struct error *err)
{
    struct profile_worker *w = worker;
    text_bytes(text, (const char *)w->samples.at, w->samples.nr * sizeof(*w->samples.at));
    text_bytes(text, (const char *)w->blocks.at, w->blocks.nr * sizeof(*w->blocks.at));
    w->samples.nr = w->blocks.nr = 0;
    return text->failed ? error_no_memory(err) : 0;
}

/* Append a batch's samples, in the recording's order. */
static int profile_write(void *context, struct text *text, struct error *err)
{
    struct profile *p = context;
    size_t block = p->wants_blocks ? sizeof(*p->blocks.at) : 0;
    size_t nr = text->size / (sizeof(*p->samples.at) + block);
    if (!vec_reserve(&p->samples, p->samples.nr + nr) ||
        (block && !vec_reserve(&p->blocks, p->blocks.nr + nr)))
        return error_no_memory(err);
    if (nr)
        memcpy(p->samples.at + p->samples.nr, text->at, nr * sizeof(*p->samples.at));
    if (nr && block)
        memcpy(p->blocks.at + p->blocks.nr, text->at + nr * sizeof(*p->samples.at), nr * block);
    p->samples.nr += nr;
    p->blocks.nr += block ? nr : 0;
    return 0;
}

static int profile_worker_create(void *context, struct replay_worker *rw, void **ret,
                                 struct error *err)
{
    struct profile *p = context;
    struct profile_worker *w = calloc(1, sizeof(*w));
    if (!w)
        return error_no_memory(err);
    *w = (struct profile_worker){.profile = p, .worker = rw, .index = (uint32_t)p->workers.nr};
    p->replay = replay_of(rw);
    p->managed = replay_managed_names(replay_of(rw));
    if (stack_tree_init(&w->tree) < 0 || !vec_push(&p->workers, w)) {
        stack_tree_deinit(&w->tree);
        free(w);
        return error_no_memory(err);
    }
    *ret = w;
    return 0;
}

static void worker_free(struct profile_worker *w)
{
    stack_tree_deinit(&w->tree);
    vec_free(&w->locations);
    vec_free(&w->lines);
    vec_free(&w->threads);
    vec_free(&w->samples);
    vec_free(&w->blocks);
    hash_table_free(&w->table);
    free(w->nodes);
    free(w);
}

/* What a worker collected lives on until the profile is finished. */
struct replay_sink profile_sink(struct profile *p)
{
    return (struct replay_sink){.context = p,
                                .worker_create = profile_worker_create,
                                .sample = profile_take,
                                .flush = profile_flush,
                                .write = profile_write,
                                .folds_idle = true};
}

/* ---- numbering ----------------------------------------------------------------------------- */

struct finisher {
    struct profile *p;
    struct stack_tree tree;
    struct hash_table locations, functions; /* of the profile's */
    VEC(struct raw_key) keys;               /* of the profile's locations */
};

/* Returns a clean, interned copy; NULL for NULL. */
static const char *keep(struct profile *p, const char *s, bool *failed)
{
    struct text t = {0};
    if (!s)
        return NULL;
    text_clean(&t, s);
    const char *kept = t.failed ? NULL : intern_bytes(p->strings, t.at ? t.at : "", t.size);
    text_free(&t);
    *failed |= !kept;
    return kept;
}

static uint64_t hash_of_function(const struct profile_function *fn)
{
    return hash_combine(hash_combine((uintptr_t)fn->symbol, (uintptr_t)fn->module), fn->kind);
}

static bool same_function(const struct profile_function *a, const struct profile_function *b)
{
    return a->symbol == b->symbol && a->module == b->module && a->kind == b->kind;
}

/* Returns "[module]", without directories. */
static const char *unknown_name(struct profile *p, const char *module, bool *failed)
{
    const char *slash = module ? strrchr(module, '/') : NULL;
    const char *base = slash && slash[1] ? slash + 1 : module ? module : "unknown";
    struct text t = {0};
    text_printf(&t, *base == '[' ? "%s" : "[%s]", base);
    const char *name = t.failed ? NULL : intern_bytes(p->strings, t.at, t.size);
    text_free(&t);
    *failed |= !name;
    return name;
}

static int add_function(struct finisher *f, struct profile_function *fn, uint32_t *ret,
                        struct error *err)
{
    struct profile *p = f->p;
    uint64_t hash = hash_of_function(fn);
    bool failed = false;
    *ret = hash_table_find(&f->functions, hash, i, same_function(&p->functions.at[i], fn));
    if (*ret != HASH_TABLE_NONE)
        return 0;
    *ret = (uint32_t)p->functions.nr;
    fn->name = fn->symbol ? fn->symbol : unknown_name(p, fn->module, &failed);
    failed = failed || !vec_push(&p->functions, *fn) || !hash_table_add(&f->functions, hash, *ret);
    return failed ? error_no_memory(err) : 0;
}

/* Make the line of a managed function, with its final name. */
static int managed_line(struct finisher *f, const struct raw_location *l,
                        const struct raw_line *raw, struct profile_line *ret, struct error *err)
{
    struct managed_function g;
    struct text symbol = {0};
    bool failed = false;
    if (!l->managed || !managed_get(f->p->managed, l->managed, UINT64_MAX, &g))
        managed_unrecorded(l->key.kind, &g);
    managed_symbol(&symbol, &g);
    text_char(&symbol, 0);
    struct profile_function fn = {
        .symbol = symbol.failed ? NULL : keep(f->p, symbol.at, &failed),
        .module = keep(f->p, managed_module(&g), &failed),
        .file = keep(f->p, g.file, &failed),
        .line = g.line,
        .column = g.column,
        .kind = l->key.kind,
    };
    failed |= symbol.failed;
    text_free(&symbol);
    *ret = (struct profile_line){.file = raw->line ? fn.file : NULL,
                                 .line = raw->line,
                                 .column = raw->column,
                                 .inlined = l->key.inlined};
    return failed ? error_no_memory(err) : add_function(f, &fn, &ret->function, err);
}

static int native_line(struct finisher *f, const struct raw_location *l, const struct raw_line *raw,
                       bool inlined, struct profile_line *ret, struct error *err)
{
    bool failed = false;
    struct profile_function fn = {
        .symbol = keep(f->p, raw->symbol, &failed),
        .module = keep(f->p, l->module, &failed),
        .file = keep(f->p, raw->file, &failed),
        .kind = l->key.kind,
    };
    *ret = (struct profile_line){
        .file = fn.file, .line = raw->line, .column = raw->column, .inlined = inlined};
    return failed ? error_no_memory(err) : add_function(f, &fn, &ret->function, err);
}

static bool is_name_guessed(const struct finisher *f, const struct raw_location *l)
{
    struct managed_function g;
    return l->managed && managed_get(f->p->managed, l->managed, UINT64_MAX, &g) &&
           managed_name_is_guessed(&g);
}

static int fill_location(struct finisher *f, const struct profile_worker *w,
                         const struct raw_location *l, struct error *err)
{
    struct profile *p = f->p;
    struct profile_location to = {.address = l->address,
                                  .first_line = (uint32_t)p->lines.nr,
                                  .nr_lines = l->nr_lines,
                                  .dso = l->dso,
                                  .trace = l->key.trace,
                                  .kind = l->key.kind,
                                  .tier = l->key.tier,
                                  .provenance = l->key.provenance,
                                  .plain_lua = l->key.plain_lua,
                                  .name_guessed = is_name_guessed(f, l)};
    for (uint32_t i = 0; i < l->nr_lines; i++) {
        const struct raw_line *raw = &w->lines.at[l->first_line + i];
        struct profile_line line;
        int failed = profile_is_managed(l->key.kind)
                         ? managed_line(f, l, raw, &line, err)
                         : native_line(f, l, raw, i + 1 < l->nr_lines, &line, err);
        if (failed)
            return -1;
        if (!vec_push(&p->lines, line))
            return error_no_memory(err);
    }
    return vec_push(&p->locations, to) && vec_push(&f->keys, l->key) ? 0 : error_no_memory(err);
}

static int add_location_of(struct finisher *f, const struct profile_worker *w, uint32_t raw,
                           uint32_t *ret, struct error *err)
{
    const struct raw_location *l = &w->locations.at[raw];
    uint64_t hash = hash_of_key(&l->key);
    *ret = hash_table_find(&f->locations, hash, i, same_key(&f->keys.at[i], &l->key));
    if (*ret != HASH_TABLE_NONE)
        return 0;
    *ret = (uint32_t)f->p->locations.nr;
    if (fill_location(f, w, l, err) < 0)
        return -1;
    return hash_table_add(&f->locations, hash, *ret) ? 0 : error_no_memory(err);
}

/* Get the profile's node for a node of the worker: its ancestors are made first. */
static int add_node(struct finisher *f, struct profile_worker *w, uint32_t node, uint32_t *ret,
                    struct error *err)
{
    VEC(uint32_t) path = {0};
    bool failed = false;
    for (uint32_t n = node; n && !w->nodes[n] && !failed; n = w->tree.nodes.at[n].parent)
        failed = !vec_push(&path, n);
    while (path.nr && !failed) {
        uint32_t n = path.at[--path.nr], location = 0;
        const struct stack_node *from = &w->tree.nodes.at[n];
        if (add_location_of(f, w, from->function, &location, err) < 0) {
            vec_free(&path);
            return -1;
        }
        w->nodes[n] = stack_tree_child(&f->tree, w->nodes[from->parent], location);
        failed = !w->nodes[n];
    }
    vec_free(&path);
    *ret = w->nodes[node];
    return failed ? error_no_memory(err) : 0;
}

static int add_thread(struct profile *p, const struct profile_thread *raw, uint32_t *ret,
                      struct error *err)
{
    bool failed = false;
    struct profile_thread t = {keep(p, raw->comm, &failed), raw->pid, raw->tid};
    uint32_t i = 0;
    while (i < p->threads.nr && !same_thread(&p->threads.at[i], &t))
        i++;
    if (failed || (i == p->threads.nr && !vec_push(&p->threads, t)))
        return error_no_memory(err);
    *ret = i + 1;
    return 0;
}

static int number_samples(struct finisher *f, uint32_t *const *threads, struct error *err)
{
    struct profile *p = f->p;
    vec_foreach (s, &p->samples) {
        struct profile_worker *w = p->workers.at[s->worker];
        uint32_t *thread = &threads[s->worker][s->thread];
        if (!*thread && add_thread(p, &w->threads.at[s->thread], thread, err) < 0)
            return -1;
        s->thread = *thread - 1;
        if (s->node && add_node(f, w, s->node, &s->node, err) < 0)
            return -1;
    }
    return 0;
}

static int keep_nodes(struct finisher *f, struct error *err)
{
    struct profile *p = f->p;
    size_t nr = f->tree.nodes.nr;
    if (!vec_reserve(&p->nodes, nr))
        return error_no_memory(err);
    p->nodes.nr = nr;
    p->nodes.at[0] = (struct profile_node){0};
    for (size_t i = 1; i < nr; i++) {
        const struct stack_node *n = &f->tree.nodes.at[i];
        uint8_t own = p->locations.at[n->function].provenance;
        uint8_t above = p->nodes.at[n->parent].weakest;
        p->nodes.at[i] = (struct profile_node){n->parent, n->function, own > above ? own : above};
    }
    return 0;
}

/* Leave the samples of idle waits out. */
static void fold_idle(struct profile *p)
{
    size_t nr = 0;
    for (size_t i = 0; i < p->samples.nr; i++) {
        if (p->replay && replay_is_idle(p->replay, p->samples.at[i].wait))
            continue;
        p->samples.at[nr] = p->samples.at[i];
        if (p->blocks.nr)
            p->blocks.at[nr] = p->blocks.at[i];
        nr++;
    }
    p->samples.nr = nr;
    p->blocks.nr = p->blocks.nr ? nr : 0;
    p->replay = NULL;
}

int profile_finish(struct profile *p, struct error *err)
{
    struct finisher f = {.p = p};
    fold_idle(p);
    uint32_t **threads = calloc(p->workers.nr + 1, sizeof(*threads));
    bool failed = !threads || stack_tree_init(&f.tree) < 0;
    for (size_t i = 0; i < p->workers.nr && !failed; i++) {
        struct profile_worker *w = p->workers.at[i];
        threads[i] = calloc(w->threads.nr + 1, sizeof(**threads));
        w->nodes = calloc(w->tree.nodes.nr, sizeof(*w->nodes));
        failed = !threads[i] || !w->nodes;
    }
    int ret = failed ? error_no_memory(err) : number_samples(&f, threads, err);
    if (!ret)
        ret = keep_nodes(&f, err);
    for (size_t i = 0; i < p->workers.nr; i++) {
        if (threads)
            free(threads[i]);
        worker_free(p->workers.at[i]);
    }
    vec_free(&p->workers);
    free(threads);
    stack_tree_deinit(&f.tree);
    hash_table_free(&f.locations);
    hash_table_free(&f.functions);
    vec_free(&f.keys);
    return ret;
}

/* ---- creating ------------------------------------------------------------------------------ */

struct profile *profile_create(bool blocks)
{
    struct profile *p = calloc(1, sizeof(*p));
    if (p && !(p->strings = intern_create())) {
        free(p);
        return NULL;
    }
    if (p)
        p->wants_blocks = blocks;
    return p;
}

void profile_free(struct profile *p)
{
    if (!p)
        return;
    vec_foreach (w, &p->workers)
        worker_free(*w);
    vec_free(&p->workers);
    vec_free(&p->functions);
    vec_free(&p->lines);
    vec_free(&p->locations);
    vec_free(&p->nodes);
    vec_free(&p->threads);
    vec_free(&p->samples);
    vec_free(&p->blocks);
    intern_free(p->strings);
    free(p);
}
