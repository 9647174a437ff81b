/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Samples with a READ block (leader sampling, `-e '{a,b}:S'`): the leader's sample stands for all
 * members of the group. As in perf, each member whose counter moved gets a sample of its own; its
 * period is how far the counter moved since its last reading.
 */
#include "base/hash.h"
#include "replay/replay_internal.h"

#include <stdlib.h>

struct reading {
    uint64_t id, value; /* id 0: free */
    uint32_t tid;       /* of an inherited event, where each thread counts from 0; else 0 */
};

struct member_table {
    struct reading *slots;
    size_t nr, cap; /* cap: 0 or a power of two */
};

struct member_table *member_table_create(void)
{
    return calloc(1, sizeof(struct member_table));
}

void member_table_free(struct member_table *t)
{
    if (t)
        free(t->slots);
    free(t);
}

static struct reading *slot_of(struct reading *slots, size_t cap, uint64_t id, uint32_t tid)
{
    size_t i = hash_combine(id, tid) & (cap - 1);
    while (slots[i].id && (slots[i].id != id || slots[i].tid != tid))
        i = (i + 1) & (cap - 1);
    return &slots[i];
}

static bool table_grow(struct member_table *t)
{
    size_t cap = t->cap ? 2 * t->cap : 16;
    struct reading *slots = calloc(cap, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < t->cap; i++)
        if (t->slots[i].id)
            *slot_of(slots, cap, t->slots[i].id, t->slots[i].tid) = t->slots[i];
    free(t->slots);
    t->slots = slots;
    t->cap = cap;
    return true;
}

/* Get how far the counter moved. Returns false when out of memory. */
static bool moved(struct member_table *t, uint64_t id, uint32_t tid, uint64_t value, uint64_t *ret)
{
    if (2 * t->nr >= t->cap && !table_grow(t))
        return false;
    struct reading *r = slot_of(t->slots, t->cap, id, tid);
    t->nr += r->id == 0;
    r->id = id;
    r->tid = tid;
    *ret = value < r->value ? value : value - r->value; /* smaller: a new thread with that number */
    r->value = value;
    return true;
}

int member_table_split(struct member_table *t, const struct perfdata *pd, const struct sample *s,
                       struct member *ret, size_t *nr, struct error *err)
{
    struct sample_value value;
    *nr = 0;
    for (size_t i = 0; i < MEMBERS_MAX && sample_value(s, i, &value); i++) {
        const struct perfdata_event *e = perfdata_event_by_id(pd, value.id);
        uint64_t period;
        if (!value.id || !e)
            continue;
        if (!moved(t, value.id, e->attr.inherit ? s->tid : 0, value.value, &period))
            return error_no_memory(err);
        if (period)
            ret[(*nr)++] = (struct member){e, value.id, period};
    }
    return 0;
}
