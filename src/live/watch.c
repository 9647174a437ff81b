/* SPDX-License-Identifier: GPL-2.0-only */
/* The table of watches. See watch.h. */
#include "live/watch.h"

#include "live/runtime_files.h"
#include "live/runtime_watch.h"
#include "live/v8_watch.h"
#include "unwind/luajit/runtime.h"
#include "unwind/v8/runtime.h"

#include <stdlib.h>

static const struct {
    const struct runtime *runtime;
    const struct watch_kind *kind; /* NULL: process_look.c drives it */
} rows[] = {{&luajit_runtime, NULL}, {&v8_runtime, &v8_watch_kind}};

static const struct watch_kind *kind_of(const struct runtime *rt)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        if (rows[i].runtime == rt)
            return rows[i].kind;
    }
    return &runtime_watch_kind;
}

struct watches {
    struct {
        const struct watch_kind *kind; /* NULL: none */
        void *all;
    } of[RUNTIMES_MAX + 1]; /* in the order of the table of runtimes; then of generated code */
    size_t nr;
};

/* Processes with these runtimes make code, too, which the runtimes' own walks read. */
static bool makes_code(unsigned holds)
{
    return holds & (holds_bit(&luajit_runtime) | holds_bit(&v8_runtime));
}

static bool wants(size_t i, unsigned holds)
{
    return i < nr_runtimes ? holds >> i & 1 : holds & HOLDS_GENERATED && !makes_code(holds);
}

struct watches *watches_create(const struct watch_means *means)
{
    struct watches *w = calloc(1, sizeof(*w));
    if (w)
        w->nr = nr_runtimes + 1;
    for (size_t i = 0; w && i < w->nr; i++) {
        struct watch_means own = *means;
        own.runtime = i < nr_runtimes ? runtimes[i] : NULL;
        w->of[i].kind = kind_of(own.runtime);
        if (!w->of[i].kind || (w->of[i].all = w->of[i].kind->create(&own)))
            continue;
        watches_free(w);
        return NULL;
    }
    return w;
}

void watches_free(struct watches *w)
{
    for (size_t i = 0; w && i < w->nr; i++) {
        if (w->of[i].all)
            w->of[i].kind->free(w->of[i].all);
    }
    free(w);
}

int watches_sample(struct watches *w, const struct sample *s, const struct vmstack *copy,
                   unsigned holds, uint64_t age, struct error *err)
{
    for (size_t i = 0; i < w->nr; i++) {
        const struct watch_kind *kind = w->of[i].kind;
        if (kind && wants(i, holds) && age <= kind->late &&
            kind->sample(w->of[i].all, s, copy, err) < 0)
            return -1;
    }
    return 0;
}

void watches_mapped(struct watches *w, uint32_t pid)
{
    for (size_t i = 0; i < w->nr; i++) {
        if (w->of[i].kind)
            w->of[i].kind->mapped(w->of[i].all, pid);
    }
}

void watches_mapped_file(struct watches *w, uint32_t pid)
{
    for (size_t i = 0; i < w->nr; i++) {
        if (w->of[i].kind && w->of[i].kind->mapped_file)
            w->of[i].kind->mapped_file(w->of[i].all, pid);
    }
}

int watches_end(struct watches *w, uint32_t pid, struct error *err)
{
    for (size_t i = 0; i < w->nr; i++) {
        if (w->of[i].kind && w->of[i].kind->end(w->of[i].all, pid, err) < 0)
            return -1;
    }
    return 0;
}

int watches_pass(struct watches *w, size_t budget, struct error *err)
{
    for (size_t i = 0; i < w->nr; i++) {
        if (w->of[i].kind && w->of[i].kind->pass(w->of[i].all, budget, err) < 0)
            return -1;
    }
    return 0;
}

int watches_flush(struct watches *w, struct error *err)
{
    for (size_t i = 0; i < w->nr; i++) {
        if (w->of[i].kind && w->of[i].kind->flush(w->of[i].all, err) < 0)
            return -1;
    }
    return 0;
}

void watches_rewrite(struct watches *w)
{
    for (size_t i = 0; i < w->nr; i++) {
        if (w->of[i].kind)
            w->of[i].kind->rewrite(w->of[i].all);
    }
}
