/* SPDX-License-Identifier: GPL-2.0-only */
/* Collects the samples of `ljperf traces`. See traces.h. */
#include "output/traces_internal.h"

#include "base/hash.h"
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

int traces_create(struct replay *r, const struct traces_options *options, struct traces **ret,
                  struct error *err)
{
    struct traces *t = calloc(1, sizeof(*t));
    if (!t)
        return error_no_memory(err);
    t->replay = r;
    t->options = *options;
    t->symbols = intern_create();
    if (!t->symbols) {
        free(t);
        return error_no_memory(err);
    }
    pthread_mutex_init(&t->lock, NULL);
    *ret = t;
    return 0;
}

static void sum_free(struct traces_sum *s)
{
    vec_free(&s->functions);
    hash_table_free(&s->function_table);
    vec_free(&s->codes);
    hash_table_free(&s->code_table);
    vec_free(&s->processes);
    vec_free(&s->js);
    hash_table_free(&s->js_table);
}

void traces_free(struct traces *t)
{
    if (!t)
        return;
    for (int i = 0; i < TRACES_EVENTS; i++)
        sum_free(&t->sums[i]);
    sum_free(&t->sum);
    intern_free(t->symbols);
    table_free(&t->same);
    vec_free(&t->vms);
    vec_foreach (s, &t->starts)
        vec_free(&s->aborts);
    vec_free(&t->starts);
    vec_free(&t->traces);
    vec_free(&t->exits);
    vec_free(&t->reasons);
    traces_js_free(t);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* ---- sums ------------------------------------------------------------------------------------ */

static bool add_function(struct traces_sum *s, const struct traced_function *f)
{
    uint32_t at = hash_table_intern(&s->function_table, hash_u64(f->function), &s->functions, i,
                                    s->functions.at[i].function == f->function,
                                    (struct traced_function){.function = f->function});
    if (at == HASH_TABLE_NONE)
        return false;
    s->functions.at[at].interpreted += f->interpreted;
    s->functions.at[at].compiled += f->compiled;
    return true;
}

static bool is_code(const struct traced_code *a, const struct traced_code *b)
{
    return a->pid == b->pid && a->pc == b->pc && a->trace == b->trace;
}

static bool add_code(struct traces_sum *s, const struct traced_code *c)
{
    uint64_t hash = hash_combine(hash_combine(c->pid, c->trace), c->pc);
    uint32_t at = hash_table_intern(&s->code_table, hash, &s->codes, i, is_code(&s->codes.at[i], c),
                                    (struct traced_code){c->pid, c->trace, c->pc, 0});
    if (at == HASH_TABLE_NONE)
        return false;
    s->codes.at[at].weight += c->weight;
    return true;
}

static struct traced_process *process_of(struct traces_sum *s, uint32_t pid)
{
    for (size_t i = s->processes.nr; i-- > 0;) {
        if (s->processes.at[i].pid == pid)
            return &s->processes.at[i];
    }
    return vec_push(&s->processes, (struct traced_process){.pid = pid})
               ? &s->processes.at[s->processes.nr - 1]
               : NULL;
}

static bool add_process(struct traces_sum *s, const struct traced_process *p)
{
    struct traced_process *known = process_of(s, p->pid);
    if (known)
        *known = *p;
    return known != NULL;
}

static bool sum_add(struct traces_sum *to, const struct traces_sum *from)
{
    bool ok = true;
    vec_foreach (f, &from->functions)
        ok = ok && add_function(to, f);
    vec_foreach (c, &from->codes)
        ok = ok && add_code(to, c);
    vec_foreach (p, &from->processes)
        ok = ok && add_process(to, p);
    ok = ok && traces_js_add(to, from);
    to->weight += from->weight;
    to->all += from->all;
    to->samples += from->samples;
    for (int i = 0; i < ACTIVITIES; i++)
        to->activity[i] += from->activity[i];
    return ok;
}

/* ---- samples --------------------------------------------------------------------------------- */

struct traces_worker {
    struct traces *traces;
    struct traces_sum sums[TRACES_EVENTS];
};

static int worker_create(void *context, struct replay_worker *w, void **ret, struct error *err)
{
    struct traces_worker *of = calloc(1, sizeof(*of));
    (void)w;
    if (!of)
        return error_no_memory(err);
    of->traces = context;
    *ret = of;
    return 0;
}

static void worker_free(void *worker)
{
    struct traces_worker *w = worker;
    struct traces *t = w->traces;
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < TRACES_EVENTS; i++)
        t->failed |= !sum_add(&t->sums[i], &w->sums[i]);
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < TRACES_EVENTS; i++)
        sum_free(&w->sums[i]);
    free(w);
}

/* The innermost frame of LuaJIT, and the function that it counts for: builtins count for their
 * callers. If JavaScript is further in, its innermost frame. NULL: neither runs, or WebAssembly
 * that JavaScript has called. */
static const struct frame *innermost(const struct replay_sample *s, const struct frame **own)
{
    const struct frame *first = NULL;
    *own = NULL;
    for (size_t i = 0; i < s->nr_frames && !*own; i++) {
        const struct frame *f = &s->frames[i];
        if (!first && (f->kind == FRAME_JS || f->kind == FRAME_WASM)) {
            *own = f;
            return f->kind == FRAME_JS ? f : NULL;
        }
        if (f->kind != FRAME_LUA || f->flags & FRAME_PLAIN_LUA)
            continue;
        first = first ? first : f;
        if (f->function && f->line)
            *own = f;
    }
    *own = *own ? *own : first;
    return first;
}

static bool note_process(struct traces_sum *sum, const struct replay_sample *s)
{
    struct traced_process *p = process_of(sum, s->thread->pid);
    if (!p)
        return false;
    p->comm = s->comm;
    return true;
}

static int take_sample(void *worker, const struct replay_sample *s, struct error *err)
{
    struct traces_worker *w = worker;
    const struct frame *own, *first = innermost(s, &own);
    uint64_t weight = w->traces->options.samples ? 1 : s->sample->period ? s->sample->period : 1;
    if (s->event >= TRACES_EVENTS)
        return 0;
    struct traces_sum *sum = &w->sums[s->event];
    sum->samples++;
    sum->all += weight;
    if (!first)
        return 0;
    if (first->kind == FRAME_JS)
        return traces_js_take(sum, first, weight) && note_process(sum, s) ? 0
                                                                          : error_no_memory(err);
    bool compiled = first->tier == TIER_TRACE;
    const struct traced_function f = {own->function, compiled ? 0 : weight, compiled ? weight : 0};
    const struct traced_code c = {s->thread->pid, first->trace, frame_lookup_pc(first), weight};
    sum->weight += weight;
    if (s->vmstate < ACTIVITIES)
        sum->activity[s->vmstate] += weight;
    bool ok = add_function(sum, &f) && (!compiled || add_code(sum, &c)) && note_process(sum, s);
    return ok ? 0 : error_no_memory(err);
}

struct replay_sink traces_sink(struct traces *t)
{
    return (struct replay_sink){.context = t,
                                .worker_create = worker_create,
                                .worker_free = worker_free,
                                .sample = take_sample};
}

/* ---- afterwards ------------------------------------------------------------------------------ */

const struct traced_process *traces_process(const struct traces *t, uint32_t pid)
{
    vec_foreach (p, &t->sum.processes) {
        if (p->pid == pid)
            return p;
    }
    return NULL;
}

static int by_interpreted(const void *a, const void *b)
{
    const struct traced_function *x = a, *y = b;
    if (x->interpreted != y->interpreted)
        return x->interpreted < y->interpreted ? 1 : -1;
    if (x->compiled != y->compiled)
        return x->compiled < y->compiled ? 1 : -1;
    return x->function < y->function ? -1 : x->function > y->function;
}

uint32_t traces_same(struct traces *t, uint32_t function)
{
    struct managed_function f;
    struct text symbol = {0};
    if (!function || !managed_get(replay_managed_names(t->replay), function, UINT64_MAX, &f))
        return function;
    managed_symbol(&symbol, &f);
    text_char(&symbol, 0);
    const char *key = symbol.failed ? NULL : intern_string(t->symbols, symbol.at);
    text_free(&symbol);
    if (!key)
        return 0;
    void *first = table_get(&t->same, (uintptr_t)key);
    if (first)
        return (uint32_t)(uintptr_t)first;
    return table_put(&t->same, (uintptr_t)key, (void *)(uintptr_t)function) ? function : 0;
}

/* Put functions with the same symbol together. */
static bool merge_functions(struct traces *t)
{
    struct traces_sum merged = {0};
    bool ok = true;
    vec_foreach (f, &t->sum.functions) {
        struct traced_function as = *f;
        as.function = traces_same(t, f->function);
        ok = ok && (as.function || !f->function) && add_function(&merged, &as);
    }
    vec_free(&t->sum.functions);
    hash_table_free(&t->sum.function_table);
    memcpy(&t->sum.functions, &merged.functions, sizeof(merged.functions));
    t->sum.function_table = merged.function_table;
    return ok;
}

/* Functions of which something is known are listed, even if no sample was in them. */
static bool add_unsampled(struct traces *t)
{
    bool ok = true;
    vec_foreach (s, &t->starts)
        ok = ok && add_function(&t->sum, &(struct traced_function){.function = s->at.function});
    vec_foreach (e, &t->exits)
        ok = ok && add_function(&t->sum, &(struct traced_function){.function = e->to.function});
    return ok;
}

/* Everything is about the first event that was sampled. */
static void choose_event(struct traces *t)
{
    while (t->event + 1 < TRACES_EVENTS && !t->sums[t->event].samples)
        t->event++;
    t->sum = t->sums[t->event];
    memset(&t->sums[t->event], 0, sizeof(t->sum));
    for (int i = 0; i < TRACES_EVENTS; i++)
        t->others += t->sums[i].samples;
}

uint64_t traces_others(const struct traces *t, unsigned *event)
{
    *event = t->event;
    return t->others;
}

int traces_read(struct replay *r, struct traces **ret, struct error *err)
{
    if (traces_create(r, &(struct traces_options){0}, ret, err) < 0)
        return -1;
    if (traces_read_facts(*ret, err) == 0 && traces_js_read_facts(*ret, err) == 0)
        return 0;
    traces_free(*ret);
    return -1;
}

bool traces_is_empty(const struct traces *t)
{
    return !t->sum.weight && !t->sum.js_weight;
}

int traces_finish(struct traces *t, struct error *err)
{
    if (t->failed)
        return error_no_memory(err);
    choose_event(t);
    if (!merge_functions(t))
        return error_no_memory(err);
    if (traces_js_merge(t, err) < 0)
        return -1;
    vec_foreach (f, &t->sum.functions) {
        t->interpreted += f->interpreted;
        t->compiled += f->compiled;
    }
    if (traces_read_facts(t, err) < 0 || traces_js_read_facts(t, err) < 0)
        return -1;
    if (!add_unsampled(t))
        return error_no_memory(err);
    /* The table of functions is not used any more. */
    if (t->sum.functions.nr)
        qsort(t->sum.functions.at, t->sum.functions.nr, sizeof(*t->sum.functions.at),
              by_interpreted);
    return 0;
}
