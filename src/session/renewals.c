/* SPDX-License-Identifier: GPL-2.0-only */
/* See renewals.h. */
#include "session/renewals.h"

#include "base/hash.h"

#include <stdlib.h>

enum {
    RENEWALS_MAX = 1 << 20,
    LOOK_AT = 4096, /* at once; a process that maps so much is not trusted */
};

void renewals_free(struct renewals *r)
{
    vec_free(&r->all);
    table_free(&r->code);
}

/* A hash: two places that share one only cost what is noted of the other. */
static uint64_t place_of(const struct renewal *n)
{
    return hash_combine(hash_u64(n->from), (uint64_t)n->pid << 32 ^ n->to) | 1;
}

bool renewals_add(struct renewals *r, const struct renewal *n, bool executable)
{
    if (executable)
        return r->code.nr >= RENEWALS_MAX || table_put(&r->code, place_of(n), r);
    if (table_get(&r->code, place_of(n)))
        return true;
    if (r->all.nr < RENEWALS_MAX)
        return vec_push(&r->all, *n);
    r->full = true;
    return true;
}

static int by_time(const void *a, const void *b)
{
    const struct renewal *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return x->time < y->time ? -1 : x->time > y->time;
}

void renewals_settle(struct renewals *r)
{
    if (r->all.nr)
        qsort(r->all.at, r->all.nr, sizeof(*r->all.at), by_time);
}

bool renewals_between(const struct renewals *r, uint32_t pid, uint64_t from, uint64_t to,
                      uint64_t after, uint64_t until)
{
    const struct renewal like = {.pid = pid, .time = after};
    size_t low = 0, high = r->all.nr;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (by_time(&r->all.at[mid], &like) <= 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (size_t i = low; i < r->all.nr; i++) {
        const struct renewal *n = &r->all.at[i];
        if (n->pid != pid || n->time > until)
            break;
        if ((n->from < to && from < n->to) || i - low >= LOOK_AT)
            return true;
    }
    return r->full;
}
