/* SPDX-License-Identifier: GPL-2.0-only */
#include "session/vmstack_pairing.h"

#include <stdlib.h>
#include <string.h>

enum { CPUS_MAX = 1 << 16 };

void vmstack_ref_release(struct vmstack_ref *c)
{
    if (c->owned)
        free((void *)(uintptr_t)c->bytes);
    *c = (struct vmstack_ref){0};
}

/* Make the bytes its own. */
static int copy_bytes(struct vmstack_ref *c, struct error *err)
{
    uint8_t *own = malloc(c->size);
    if (!own)
        return error_no_memory(err);
    memcpy(own, c->bytes, c->size);
    c->bytes = own;
    c->owned = true;
    return 0;
}

int vmstack_ref_share(const struct vmstack_ref *c, struct vmstack_ref *ret, struct error *err)
{
    *ret = *c;
    return c->owned ? copy_bytes(ret, err) : 0;
}

void vmstack_pairing_free(struct vmstack_pairing *t)
{
    (void)vmstack_pairing_end(t);
    vec_free(&t->cpus);
}

int vmstack_pairing_hold(struct vmstack_pairing *t, const struct sample *s, struct error *err)
{
    size_t nr = t->cpus.nr;
    if (!(s->present & PERF_SAMPLE_CPU) || s->cpu >= CPUS_MAX) {
        t->lost++;
        return 0;
    }
    if (s->cpu >= nr) {
        if (!vec_reserve(&t->cpus, (size_t)s->cpu + 1))
            return error_no_memory(err);
        memset(t->cpus.at + nr, 0, (s->cpu + 1 - nr) * sizeof(*t->cpus.at));
        t->cpus.nr = (size_t)s->cpu + 1;
    }
    struct vmstack_waiting *w = &t->cpus.at[s->cpu];
    t->lost += w->copy.bytes != NULL;
    t->nr += w->copy.bytes == NULL;
    vmstack_ref_release(&w->copy);
    w->copy = (struct vmstack_ref){.bytes = s->raw, .size = s->raw_size};
    w->tid = s->tid;
    return 0;
}

void vmstack_pairing_give(struct vmstack_pairing *t, const struct sample *s,
                          struct vmstack_ref *ret)
{
    if (!t->nr || !(s->present & PERF_SAMPLE_CPU) || s->cpu >= t->cpus.nr ||
        !t->cpus.at[s->cpu].copy.bytes)
        return;
    struct vmstack_waiting *w = &t->cpus.at[s->cpu];
    t->nr--;
    if (w->tid == s->tid) {
        *ret = w->copy;
        w->copy = (struct vmstack_ref){0};
        return;
    }
    t->lost++;
    vmstack_ref_release(&w->copy);
}

int vmstack_pairing_keep(struct vmstack_pairing *t, struct error *err)
{
    for (size_t i = 0; i < t->cpus.nr && t->nr; i++) {
        struct vmstack_ref *c = &t->cpus.at[i].copy;
        if (c->bytes && !c->owned && copy_bytes(c, err) < 0)
            return -1;
    }
    return 0;
}

uint64_t vmstack_pairing_end(struct vmstack_pairing *t)
{
    uint64_t lost = t->lost + t->nr;
    vec_foreach (w, &t->cpus)
        vmstack_ref_release(&w->copy);
    t->nr = t->lost = 0;
    return lost;
}
