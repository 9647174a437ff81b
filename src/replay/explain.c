/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Walks one sample again, and tells each decision and each read of memory. The walk is the one of
 * sample.c, with two differences that do not change its result: nothing is taken over from other
 * samples' walks (suffix cache, frame cache), and each layer of memory stands behind one that tells
 * its reads.
 */
#include "replay/replay_internal.h"
#include "unwind/trace.h"

#include <string.h>

enum { TOLD_LAYERS = WALK_LAYERS_MAX + 1 };

struct telling;

/* A layer of the sample, and how its reads are told. */
struct told_layer {
    const struct memory_layer *layer; /* NULL: has nothing; it is asked when all others failed */
    struct telling *telling;
};

struct telling {
    const struct replay_explainer *explainer;
    const struct memory *memory;
    struct memory_reads reads;
    struct told_layer told[TOLD_LAYERS];
    struct memory_layer layers[TOLD_LAYERS];
};

/* ---- layers that tell ----------------------------------------------------------------------- */

static const char *source_of(const struct memory_layer *l)
{
    if (!l)
        return "nothing";
    return l->name ? l->name : "memory without a name";
}

static bool told_read(void *context, const struct memory_query *q, void *to,
                      struct memory_answer *answer)
{
    const struct told_layer *t = context;
    const struct memory_layer *l = t->layer;
    struct replay_read read = {.address = q->address, .size = q->size, .source = source_of(l)};
    if (l && !l->read(l->context, q, to, answer))
        return false;
    read.bytes = l ? to : NULL;
    read.provenance = answer->provenance;
    if (l && l->when == MEMORY_OF_OTHER_TIMES) {
        read.when = answer->read;
        if (q->kind == MEMORY_MOVING && read.provenance == PROVENANCE_EXACT)
            read.provenance = PROVENANCE_STALE; /* as memory_ask() takes it */
    } else {
        memory_span_empty(&read.when);
    }
    t->telling->explainer->read(t->telling->explainer->context, &read);
    return l;
}

static bool told_has(void *context, uint64_t address, uint64_t size)
{
    const struct told_layer *t = context;
    return t->layer && (!t->layer->has || t->layer->has(t->layer->context, address, size));
}

static bool told_prove(void *context, uint64_t address, size_t size, uint64_t time,
                       const struct memory_compare *compare, struct memory_proof *ret)
{
    const struct memory_layer *l = ((const struct told_layer *)context)->layer;
    return l->prove(l->context, address, size, time, compare, ret);
}

static bool told_unlike(void *context, uint64_t address, size_t size, uint64_t time,
                        const struct memory_span *when, const struct memory_compare *compare,
                        struct memory_span *same)
{
    const struct memory_layer *l = ((const struct told_layer *)context)->layer;
    return l->unlike(l->context, address, size, time, when, compare, same);
}

static bool told_version(void *context, uint64_t address, uint64_t time, bool later, uint64_t *ret)
{
    const struct memory_layer *l = ((const struct told_layer *)context)->layer;
    return l->version(l->context, address, time, later, ret);
}

/* Only whether there is one is asked: reads are noted, and none is made in place. */
static const uint8_t *told_piece(void *context, uint64_t address, size_t size,
                                 struct memory_piece *ret)
{
    const struct memory_layer *l = ((const struct told_layer *)context)->layer;
    return l->piece(l->context, address, size, ret);
}

/* The stack's own copy is read in place: the reads of it are noted. */
static void told_stack(void *context, uint64_t address, size_t size)
{
    enum { SHOWN = 64 };
    const struct telling *t = context;
    uint8_t bytes[SHOWN];
    struct replay_read read = {.address = address, .size = size, .source = "stack copy"};
    memory_span_empty(&read.when);
    if (memory_read_stack(t->memory, address, bytes, size < SHOWN ? size : SHOWN))
        read.bytes = bytes;
    t->explainer->read(t->explainer->context, &read);
}

static void tell_layer(struct telling *t, size_t i, const struct memory_layer *layer)
{
    struct told_layer *told = &t->told[i];
    *told = (struct told_layer){layer, t};
    struct memory_layer to = {
        .name = layer ? layer->name : NULL, .read = told_read, .has = told_has, .context = told};
    if (layer) {
        to.when = layer->when;
        to.has_moments = layer->has_moments;
        to.piece = layer->piece ? told_piece : NULL;
        to.prove = layer->prove ? told_prove : NULL;
        to.unlike = layer->unlike ? told_unlike : NULL;
        to.version = layer->version ? told_version : NULL;
    }
    t->layers[i] = to;
}

static void tell_layers(struct telling *t, const struct walk_memory *m, struct unwind_input *in)
{
    size_t nr = in->memory.nr_layers;
    for (size_t i = 0; i < nr; i++)
        tell_layer(t, i, &m->layers[i]);
    tell_layer(t, nr, NULL);
    in->memory.layers = t->layers;
    in->memory.nr_layers = nr + 1;
    t->memory = &in->memory;
    t->reads = (struct memory_reads){.on = true, .watch = told_stack, .watch_context = t};
    in->memory.reads = &t->reads;
}

/* ---- the walk ------------------------------------------------------------------------------- */

int replay_explain(struct replay_worker *w, const struct replay_sample *s,
                   const struct replay_explainer *e, struct unwind_stack *ret, struct error *err)
{
    struct job *const before = w->job;
    struct job job = {.batch_number = s->batch_number, .arch = before->arch};
    struct job_sample again = {.sample = *s->sample, .thread = *s->thread};
    struct walk_memory memory;
    struct unwind_input in = {0};
    struct telling *t = calloc(1, sizeof(*t));
    if (s->copy)
        again.copy = (struct vmstack_ref){.bytes = s->copy->bytes, .size = s->copy->size};
    if (!t || (s->copy && !replay_copies(w))) {
        free(t);
        return error_no_memory(err);
    }
    w->job = &job; /* names are proposed for the sample's batch, as before */
    t->explainer = e;
    w->processes[0].reads_anew = true;
    sample_input(w, &again, 0, &memory, &in);
    w->processes[0].reads_anew = false;
    tell_layers(t, &memory, &in);
    in.context_key = NULL;
    in.trace = e->trace;
    int failed = unwind(w->unwinder, &in, ret, err);
    w->job = before;
    free(t);
    return failed;
}
