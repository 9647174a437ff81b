/* SPDX-License-Identifier: GPL-2.0-only */
/* See renewals.h. */
#include "session/renewals.h"

#include "base/hash.h"

#include <stdlib.h>

enum {
    RENEWALS_MAX = 1 << 20,
    LOOK_AT = 4096, /* between two times; a process that maps so much is not trusted */
};

void renewals_free(struct renewals *r)
{
    vec_free(&r->all);
    vec_free(&r->places);
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

/* Where one that begins or ends at an address is noted, the last one in time. */
static uint64_t end_key(const struct renewal *n, uint64_t end, bool is_start)
{
    return hash_combine(hash_u64(end), (uint64_t)n->pid << 1 | is_start) | 1;
}

/* The last one before it with that end; NULL: none. */
static const struct renewal *last_with(const struct renewals *r, const struct table *ends,
                                       const struct renewal *n, uint64_t end, bool is_start)
{
    uintptr_t at = (uintptr_t)table_get(ends, end_key(n, end, is_start));
    const struct renewal *last = at ? &r->all.at[at - 1] : NULL;
    return last && last->pid == n->pid && (is_start ? last->from : last->to) == end ? last : NULL;
}

/* It is no more what it was. */
static void forget(struct table *ends, const struct renewal *n)
{
    if (!n)
        return;
    table_remove(ends, end_key(n, n->from, true));
    table_remove(ends, end_key(n, n->to, false));
}

static void find_new(const struct renewals *r, struct table *ends, struct renewal *n)
{
    enum { GROWTH_MAX = 1 << 20 };
    const struct renewal *above = last_with(r, ends, n, n->to, false);
    const struct renewal *below = last_with(r, ends, n, n->from, true);
    n->new_from = n->from;
    n->new_to = n->to;
    if (above && above->from > n->from && above->from - n->from <= GROWTH_MAX)
        n->new_to = above->from;
    else if (below && below->to < n->to && n->to - below->to <= GROWTH_MAX)
        n->new_from = below->to;
    forget(ends, above);
    forget(ends, below);
}

/* ---- by place -------------------------------------------------------------------------------- */

/* A V8 that compiles maps thousands in a second: looked through one by one they took a third of a
 * TypeScript compile's fold. */
enum { GRANULE_BITS = 18, NARROW = 64 };
static const uint64_t WIDE = UINT64_MAX; /* in place of a granule: of those that touch many */

static int by_place(const void *a, const void *b)
{
    const struct renewal_place *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->granule != y->granule)
        return x->granule < y->granule ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static bool place(struct renewals *r, uint32_t index)
{
    const struct renewal *n = &r->all.at[index];
    uint64_t first = n->new_from >> GRANULE_BITS, last = (n->new_to - 1) >> GRANULE_BITS;
    if (n->new_from >= n->new_to || last - first >= NARROW)
        first = last = WIDE;
    for (uint64_t granule = first; granule - first <= last - first; granule++) {
        struct renewal_place p = {granule, n->pid, index};
        if (!vec_push(&r->places, p))
            return false;
    }
    return true;
}

static bool place_all(struct renewals *r)
{
    for (size_t i = 0; i < r->all.nr; i++)
        if (!place(r, (uint32_t)i))
            return false;
    if (r->places.nr)
        qsort(r->places.at, r->places.nr, sizeof(*r->places.at), by_place);
    return true;
}

static bool overlaps(const struct renewal *n, uint64_t from, uint64_t to)
{
    return n->new_from < to && from < n->new_to;
}

/* Of those of `p`'s granule, from its index up to `high`, all of one process. */
static bool any_at(const struct renewals *r, struct renewal_place p, uint32_t high, uint64_t from,
                   uint64_t to)
{
    size_t first = 0, end = r->places.nr;
    while (first < end) {
        size_t mid = first + (end - first) / 2;
        if (by_place(&r->places.at[mid], &p) < 0)
            first = mid + 1;
        else
            end = mid;
    }
    for (; first < r->places.nr; first++) {
        const struct renewal_place *at = &r->places.at[first];
        if (at->pid != p.pid || at->granule != p.granule || at->index >= high)
            return false;
        if (overlaps(&r->all.at[at->index], from, to))
            return true;
    }
    return false;
}

static bool any_between(const struct renewals *r, size_t low, size_t high, uint64_t from,
                        uint64_t to)
{
    enum { FEW = 8 };
    uint64_t first = from >> GRANULE_BITS, last = (to - 1) >> GRANULE_BITS;
    if (high - low <= FEW || from >= to || last - first >= NARROW) {
        for (size_t i = low; i < high; i++)
            if (overlaps(&r->all.at[i], from, to))
                return true;
        return false;
    }
    struct renewal_place p = {WIDE, r->all.at[low].pid, (uint32_t)low};
    bool any = any_at(r, p, (uint32_t)high, from, to);
    for (p.granule = first; p.granule <= last && !any; p.granule++)
        any = any_at(r, p, (uint32_t)high, from, to);
    return any;
}

/* ---- all of them ----------------------------------------------------------------------------- */

bool renewals_settle(struct renewals *r)
{
    struct table ends = {0};
    bool ok = true;
    if (r->all.nr)
        qsort(r->all.at, r->all.nr, sizeof(*r->all.at), by_time);
    for (size_t i = 0; i < r->all.nr && ok; i++) {
        struct renewal *n = &r->all.at[i];
        void *value = (void *)(uintptr_t)(i + 1);
        find_new(r, &ends, n);
        ok = table_put(&ends, end_key(n, n->to, false), value) &&
             table_put(&ends, end_key(n, n->from, true), value);
    }
    table_free(&ends);
    return ok && place_all(r);
}

/* The first of the process behind that time. */
static size_t first_behind(const struct renewals *r, uint32_t pid, uint64_t time)
{
    const struct renewal like = {.pid = pid, .time = time};
    size_t low = 0, high = r->all.nr;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (by_time(&r->all.at[mid], &like) <= 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

bool renewals_between(const struct renewals *r, uint32_t pid, uint64_t from, uint64_t to,
                      uint64_t after, uint64_t until)
{
    size_t low = first_behind(r, pid, after), high = first_behind(r, pid, until);
    if (high > low && (high - low > LOOK_AT || any_between(r, low, high, from, to)))
        return true;
    return r->full;
}
