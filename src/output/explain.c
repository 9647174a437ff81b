/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds the sample that is to be explained, and has it walked again. */
#include "output/explain_internal.h"

#include <inttypes.h>
#include <stdlib.h>

struct explain {
    struct explain_options options;
    struct replay_worker *worker;
    struct text text, matches;
    uint64_t found;
    size_t nr_frames;
    bool differs;
};

struct explain *explain_create(const struct explain_options *options)
{
    struct explain *e = calloc(1, sizeof(*e));
    if (e)
        e->options = *options;
    return e;
}

void explain_free(struct explain *e)
{
    if (!e)
        return;
    text_free(&e->text);
    text_free(&e->matches);
    free(e);
}

uint64_t explain_found(const struct explain *e)
{
    return e->found;
}

struct text *explain_text(struct explain *e)
{
    return &e->text;
}

struct text *explain_matches(struct explain *e)
{
    return &e->matches;
}

bool explain_differs(const struct explain *e)
{
    return e->differs;
}

size_t explain_nr_frames(const struct explain *e)
{
    return e->nr_frames;
}

static bool is_wanted(const struct explain_options *o, const struct replay_sample *s)
{
    if (o->number)
        return s->number == o->number;
    return s->sample->time - s->sample->time % o->time_unit == o->time &&
           replay_passes(o->filters, s->sample, s->comm);
}

static bool is_same_frame(const struct frame *a, const struct frame *b)
{
    return a->pc == b->pc && a->cfa == b->cfa && a->code == b->code && a->function == b->function &&
           a->line == b->line && a->column == b->column && a->trace == b->trace &&
           a->kind == b->kind && a->tier == b->tier && a->flags == b->flags &&
           a->provenance == b->provenance;
}

/* Compare the walk's frames with the sample's. Frames that an agent's traces replaced cannot be
 * compared. Says where they differ. */
static bool is_same_walk(const struct told_walk *t, const struct replay_sample *s, struct text *out)
{
    for (size_t i = 0; s->unwound && i < s->nr_frames; i++) {
        struct frame_place p = told_place(t, s, i);
        if (p.kind != PLACE_WALK)
            continue;
        const struct frame *a = &t->stack.frames.at[p.walk], *b = &s->frames[i];
        if (replay_frames_of(a) != 1 || is_same_frame(a, b))
            continue;
        text_printf(out,
                    "DIFFERS at frame %zu: walked again it has pc 0x%" PRIx64 ", cfa 0x%" PRIx64
                    ", kind %u, line %" PRIu32 ", provenance %u; in script 0x%" PRIx64
                    ", 0x%" PRIx64 ", %u, %" PRIu32 ", %u\n",
                    i, a->pc, a->cfa, a->kind, a->line, a->provenance, b->pc, b->cfa, b->kind,
                    b->line, b->provenance);
        return false;
    }
    return !s->unwound || t->stack.frames.nr >= s->nr_own;
}

static int explain_sample(void *context, const struct replay_sample *s, struct error *err)
{
    struct explain *e = context;
    struct told_walk t = {.end = NULL};
    if (!is_wanted(&e->options, s))
        return 0;
    explain_head(&e->matches, s);
    if (e->found++)
        return 0;
    e->nr_frames = s->nr_frames;
    int failed = told_walk_make(e->worker, s, &t, err);
    if (!failed) {
        e->differs = !is_same_walk(&t, s, &e->text);
        failed = explain_print(&e->text, e->worker, s, &t, &e->options, err);
    }
    told_walk_free(&t);
    return failed;
}

static int explain_worker_create(void *context, struct replay_worker *w, void **ret,
                                 struct error *err)
{
    struct explain *e = context;
    (void)err;
    e->worker = w;
    *ret = e;
    return 0;
}

static int explain_flush(void *worker, struct text *text, struct error *err)
{
    (void)worker, (void)text, (void)err;
    return 0;
}

/* A sample that is found by its number is the only one. */
static int explain_write(void *context, struct text *text, struct error *err)
{
    const struct explain *e = context;
    (void)text, (void)err;
    return e->options.number && e->found;
}

struct replay_sink explain_sink(struct explain *e)
{
    return (struct replay_sink){.context = e,
                                .worker_create = explain_worker_create,
                                .sample = explain_sample,
                                .flush = explain_flush,
                                .write = explain_write};
}
