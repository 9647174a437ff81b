/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pairs vmstacks with their samples: a vmstack belongs to the next sample of its CPU, if that
 * sample is of the same thread (and has the same user registers, as sample.c checks). If a ring is
 * full, vmstacks and samples are lost independently.
 */
#include "replay/replay_internal.h"

#include <stdlib.h>
#include <string.h>

enum { CPUS_MAX = 1 << 16 };

/* The last vmstack of a CPU, while it waits. */
struct waiting {
    struct vmstack_ref copy;
    uint32_t tid;
};

struct vmstack_pairing {
    VEC(struct waiting) cpus;
    size_t nr; /* vmstacks that wait */
};

void vmstack_ref_release(struct vmstack_ref *c)
{
    if (c->owned)
        free((void *)(uintptr_t)c->bytes);
    *c = (struct vmstack_ref){0};
}

int vmstack_ref_share(const struct vmstack_ref *c, struct vmstack_ref *ret, struct error *err)
{
    *ret = *c;
    if (!c->owned)
        return 0;
    uint8_t *own = malloc(c->size);
    if (!own)
        return error_no_memory(err);
    memcpy(own, c->bytes, c->size);
    ret->bytes = own;
    return 0;
}

struct vmstack_pairing *vmstack_pairing_create(void)
{
    return calloc(1, sizeof(struct vmstack_pairing));
}

void vmstack_pairing_free(struct vmstack_pairing *t)
{
    if (!t)
        return;
    vec_foreach (w, &t->cpus)
        vmstack_ref_release(&w->copy);
    vec_free(&t->cpus);
    free(t);
}

static int hold(struct vmstack_pairing *t, const struct sample *s, struct read_counts *counts,
                struct error *err)
{
    size_t nr = t->cpus.nr;
    if (s->cpu >= CPUS_MAX) {
        counts->copies_lost++;
        return 0;
    }
    if (s->cpu >= nr) {
        if (!vec_reserve(&t->cpus, (size_t)s->cpu + 1))
            return error_no_memory(err);
        memset(t->cpus.at + nr, 0, (s->cpu + 1 - nr) * sizeof(*t->cpus.at));
        t->cpus.nr = (size_t)s->cpu + 1;
    }
    struct waiting *w = &t->cpus.at[s->cpu];
    counts->copies_lost += w->copy.bytes != NULL;
    t->nr += w->copy.bytes == NULL;
    vmstack_ref_release(&w->copy);
    w->copy = (struct vmstack_ref){.bytes = s->raw, .size = s->raw_size};
    w->tid = s->tid;
    return 0;
}

int vmstack_pairing_take(struct vmstack_pairing *t, const struct perfdata *pd,
                         const struct record *rec, const struct perfdata_event *event,
                         struct read_counts *counts, struct error *err)
{
    struct sample s;
    struct vmevent e;
    struct error ignored;
    if (event->attr.type != PERF_TYPE_SOFTWARE || event->attr.config != PERF_COUNT_SW_BPF_OUTPUT)
        return 0;
    if (perfdata_sample(pd, rec, &s, &ignored) < 0 || !vmevent_of_sample(&s, &e))
        return 0;
    if (e.head.kind != VMEVENT_STACK)
        return 1; /* it is in the memory log */
    counts->copies++;
    if (!(s.present & PERF_SAMPLE_CPU)) {
        counts->copies_lost++;
        return 1;
    }
    return hold(t, &s, counts, err) < 0 ? -1 : 1;
}

void vmstack_pairing_give(struct vmstack_pairing *t, const struct sample *s,
                          struct vmstack_ref *ret, struct read_counts *counts)
{
    if (!t->nr || !(s->present & PERF_SAMPLE_CPU) || s->cpu >= t->cpus.nr ||
        !t->cpus.at[s->cpu].copy.bytes)
        return;
    struct waiting *w = &t->cpus.at[s->cpu];
    t->nr--;
    if (w->tid == s->tid) {
        *ret = w->copy;
        w->copy = (struct vmstack_ref){0};
        return;
    }
    counts->copies_lost++;
    vmstack_ref_release(&w->copy);
}

int vmstack_pairing_keep(struct vmstack_pairing *t, struct error *err)
{
    for (size_t i = 0; i < t->cpus.nr && t->nr; i++) {
        struct vmstack_ref *c = &t->cpus.at[i].copy;
        if (!c->bytes || c->owned)
            continue;
        uint8_t *own = malloc(c->size);
        if (!own)
            return error_no_memory(err);
        memcpy(own, c->bytes, c->size);
        c->bytes = own;
        c->owned = true;
    }
    return 0;
}

uint64_t vmstack_pairing_end(struct vmstack_pairing *t)
{
    uint64_t nr = t->nr;
    vec_foreach (w, &t->cpus)
        vmstack_ref_release(&w->copy);
    t->nr = 0;
    return nr;
}
