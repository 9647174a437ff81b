/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Samples with a READ block (leader sampling, `-e '{a,b}:S'`): the leader's sample stands for all
 * members of the group. As in perf, each member whose counter moved gets a sample of its own; its
 * period is how far the counter moved since its last reading.
 */
#include "base/hash.h"
#include "base/hash_table.h"
#include "replay/replay_internal.h"

#include <stdlib.h>

struct reading {
    uint64_t id, value;
    uint32_t tid; /* of an inherited event, where each thread counts from 0; else 0 */
};

struct member_table {
    VEC(struct reading) readings;
    struct hash_table table; /* of readings, by id and thread */
};

struct member_table *member_table_create(void)
{
    return calloc(1, sizeof(struct member_table));
}

void member_table_free(struct member_table *t)
{
    if (!t)
        return;
    vec_free(&t->readings);
    hash_table_free(&t->table);
    free(t);
}

/* Get how far the counter moved. Returns false when out of memory. */
static bool moved(struct member_table *t, uint64_t id, uint32_t tid, uint64_t value, uint64_t *ret)
{
    const struct reading none = {.id = id, .tid = tid};
    uint32_t n =
        hash_table_intern(&t->table, hash_combine(id, tid), &t->readings, i,
                          t->readings.at[i].id == id && t->readings.at[i].tid == tid, none);
    if (n == HASH_TABLE_NONE)
        return false;
    struct reading *r = &t->readings.at[n];
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
