/* SPDX-License-Identifier: GPL-2.0-only */
/* Sampled allocations of a recording. See allocations.h. */
#include "session/allocations.h"

#include "perfdata/alloc.h"

#include <stdlib.h>

bool allocations_take(struct allocations *a, const struct sample *s)
{
    enum alloc_kind kind;
    struct allocation new = {.serial = s->addr, .time = s->time, .weight = s->period};
    if (!s->event || !perfdata_alloc_kind(s->event, &kind) || !alloc_is_followed(s, kind))
        return true;
    new.kind = kind;
    return vec_push(&a->all, new);
}

bool allocations_freed(struct allocations *a, uint64_t serial, uint64_t time)
{
    return table_put(&a->freed, serial + 1, (void *)(uintptr_t)(time + 1));
}

bool allocations_when_freed(const struct allocations *a, uint64_t serial, uint64_t *ret)
{
    uintptr_t time = (uintptr_t)table_get(&a->freed, serial + 1);
    *ret = time - 1;
    return time != 0;
}

static uint64_t thread_key(uint32_t pid, uint32_t tid)
{
    return ((uint64_t)pid << 32 | tid) + 1;
}

bool allocations_collected(struct allocations *a, uint32_t pid, uint32_t tid, uint64_t time)
{
    const uint64_t key = thread_key(pid, tid);
    if ((uintptr_t)table_get(&a->collected, key) > time) /* records may come in any order */
        return true;
    return table_put(&a->collected, key, (void *)(uintptr_t)(time + 1));
}

uint64_t allocations_known(const struct allocations *a, enum alloc_kind kind, uint32_t pid,
                           uint32_t tid)
{
    if (kind == ALLOC_MALLOC)
        return UINT64_MAX;
    uintptr_t time = (uintptr_t)table_get(&a->collected, thread_key(pid, tid));
    return time ? time - 1 : 0;
}

/* Memory in use becomes more, or less. */
struct change {
    uint64_t time, weight;
    enum alloc_kind kind;
    bool less;
};

static int by_time(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->time != y->time)
        return x->time > y->time ? 1 : -1;
    return x->less - y->less; /* a block is there before it is freed */
}

bool allocations_seal(struct allocations *a)
{
    VEC(struct change) changes = {0};
    uint64_t in_use[ALLOC_KINDS] = {0}, most[ALLOC_KINDS] = {0}, when;
    bool ok = true;
    vec_foreach (one, &a->all) {
        const struct change more = {one->time, one->weight, one->kind, false};
        ok = ok && vec_push(&changes, more);
        if (!allocations_when_freed(a, one->serial, &when))
            continue;
        const struct change less = {when > one->time ? when : one->time, one->weight, one->kind,
                                    true};
        ok = ok && vec_push(&changes, less);
    }
    if (ok && changes.nr)
        qsort(changes.at, changes.nr, sizeof(*changes.at), by_time);
    for (size_t i = 0; ok && i < changes.nr; i++) {
        const struct change *c = &changes.at[i];
        uint64_t *now = &in_use[c->kind];
        *now = c->less ? *now - c->weight : *now + c->weight;
        if (*now > most[c->kind])
            a->peaks[c->kind] = c->time;
        most[c->kind] = *now > most[c->kind] ? *now : most[c->kind];
    }
    vec_free(&changes);
    vec_free(&a->all);
    return ok;
}

void allocations_free(struct allocations *a)
{
    vec_free(&a->all);
    table_free(&a->freed);
    table_free(&a->collected);
}
