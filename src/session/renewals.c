/* SPDX-License-Identifier: GPL-2.0-only */
/* See renewals.h. */
#include "session/renewals.h"

#include "base/hash.h"
#include "unwind/provenance.h"

#include <stdlib.h>
#include <string.h>

enum {
    RENEWALS_MAX = 1 << 20,
    LOOK_AT = 4096, /* between two times; a process that maps this much is not trusted */
};

void renewals_free(struct renewals *r)
{
    vec_free(&r->all);
    vec_free(&r->flips);
    vec_free(&r->places);
    table_free(&r->code);
}

/* A hash. If two places share a hash, only the notes of the other place are lost. */
static uint64_t place_of(const struct renewal *n)
{
    return hash_combine(hash_u64(n->from), (uint64_t)n->pid << 32 ^ n->to) | 1;
}

/* Keep as many as there is room for: without the others, more counts as new. */
static bool add_code(struct renewals *r, const struct renewal *n)
{
    return (r->flips.nr >= RENEWALS_MAX || vec_push(&r->flips, *n)) &&
           (r->code.nr >= RENEWALS_MAX || table_put(&r->code, place_of(n), r));
}

bool renewals_add(struct renewals *r, const struct renewal *n)
{
    if (n->kind == RENEWAL_CODE)
        return add_code(r, n);
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

/* ---- mappings that grow ---------------------------------------------------------------------- */

struct renewal_range {
    uint64_t from, to;
};

/* Data of a process that is known to be mapped, in order; no record says what was unmapped
 * since. */
struct mapped {
    VEC(struct renewal_range) at;
};

/* Returns the index of the first range that ends above an address. */
static size_t mapped_behind(const struct mapped *m, uint64_t address)
{
    size_t low = 0, high = m->at.nr;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (m->at.at[mid].to <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Replace `nr` ranges from `first` on with these. */
static bool mapped_put(struct mapped *m, size_t first, size_t nr,
                       const struct renewal_range *ranges, size_t nr_ranges)
{
    if (nr + nr_ranges == 0)
        return true;
    if (!vec_reserve(&m->at, m->at.nr + nr_ranges))
        return false;
    memmove(m->at.at + first + nr_ranges, m->at.at + first + nr,
            (m->at.nr - first - nr) * sizeof(*m->at.at));
    memcpy(m->at.at + first, ranges, nr_ranges * sizeof(*ranges));
    m->at.nr = m->at.nr - nr + nr_ranges;
    return true;
}

/* Note that `n` is mapped. If `n` is data, it replaces the ranges in its place or right beside it:
 * they were recorded as one with `n`, are gone, or cannot grow with it. If `n` is not data, the
 * rest of the data that it overlaps stays. */
static bool mapped_replace(struct mapped *m, const struct renewal *n)
{
    struct renewal_range ranges[2];
    bool is_data = n->kind == RENEWAL_DATA;
    size_t first = mapped_behind(m, n->from - is_data), nr = 0, kept = 0;
    while (first + nr < m->at.nr && m->at.at[first + nr].from < n->to + is_data)
        nr++;
    if (is_data)
        ranges[kept++] = (struct renewal_range){n->from, n->to};
    else if (nr && m->at.at[first].from < n->from)
        ranges[kept++] = (struct renewal_range){m->at.at[first].from, n->from};
    if (!is_data && nr && m->at.at[first + nr - 1].to > n->to)
        ranges[kept++] = (struct renewal_range){n->to, m->at.at[first + nr - 1].to};
    return mapped_put(m, first, nr, ranges, kept);
}

/* Returns the part of [from, to) that is not mapped, if it is in one piece and all mapped pieces
 * lie inside [from, to); else nothing. (A piece that reaches beyond it is not what it was.) */
static struct renewal_range mapped_gap(const struct mapped *m, uint64_t from, uint64_t to)
{
    static const struct renewal_range none = {0, 0};
    struct renewal_range gap = none;
    for (size_t i = mapped_behind(m, from); from < to; i++) {
        bool is_last = i == m->at.nr || m->at.at[i].from >= to;
        struct renewal_range known = is_last ? (struct renewal_range){to, to} : m->at.at[i];
        if (known.from < from || known.to > to || (known.from > from && gap.to))
            return none;
        if (known.from > from)
            gap = (struct renewal_range){from, known.from};
        from = known.to;
    }
    return gap;
}

/* Returns whether the gap is soon made executable, by itself: then it is a place of code. `flip` is
 * the next flip. */
static bool is_code_soon(const struct renewals *r, size_t flip, const struct renewal *n,
                         const struct renewal_range *gap)
{
    enum { LOOK = 256 };
    for (size_t i = flip; i < r->flips.nr && i - flip < LOOK; i++) {
        const struct renewal *f = &r->flips.at[i];
        if (f->pid != n->pid || f->time - n->time > PROOF_CODE_RENEWED_NS)
            return false;
        if (f->from < gap->to && gap->from < f->to)
            return f->from == gap->from && f->to == gap->to;
    }
    return false;
}

/* Find the part of `n` that is known to be new, or else take all of it. Memory that was added at
 * one end of a mapping is the part that was not there. But memory that was added between two
 * mappings, or that was unmapped before, may be more than the part that is not known to be mapped,
 * unless it is code. */
static void find_new(const struct renewals *r, const struct mapped *m, size_t flip,
                     struct renewal *n)
{
    enum { GROWTH_MAX = 1 << 20 };
    n->new_from = n->from;
    n->new_to = n->to;
    struct renewal_range gap = mapped_gap(m, n->from, n->to);
    uint64_t size = gap.to - gap.from;
    if (n->kind != RENEWAL_DATA || !size || size > GROWTH_MAX || size == n->to - n->from)
        return;
    bool grown = gap.from == n->from || gap.to == n->to;
    if (grown || is_code_soon(r, flip, n, &gap)) {
        n->new_from = gap.from;
        n->new_to = gap.to;
    }
}

/* All renewals are in order of process and time. */
static bool find_all_new(struct renewals *r)
{
    struct mapped mapped = {0};
    bool ok = true;
    size_t flip = 0;
    for (size_t i = 0; i < r->all.nr && ok; i++) {
        struct renewal *n = &r->all.at[i];
        if (i && n->pid != n[-1].pid)
            mapped.at.nr = 0;
        for (; ok && flip < r->flips.nr && by_time(&r->flips.at[flip], n) < 0; flip++)
            ok = r->flips.at[flip].pid != n->pid || mapped_replace(&mapped, &r->flips.at[flip]);
        find_new(r, &mapped, flip, n);
        ok = ok && mapped_replace(&mapped, n);
    }
    vec_free(&mapped.at);
    return ok;
}

/* ---- by granule ------------------------------------------------------------------------------ */

/* A V8 that compiles makes thousands of mappings in a second. To look through them one by one took
 * a third of the fold of a TypeScript compile. */
enum { GRANULE_BITS = 18, NARROW = 64 };
static const uint64_t WIDE = UINT64_MAX; /* instead of a granule: for renewals that touch many */

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

/* Looks at the renewals of `p`'s granule, from its index up to `high`, all of one process. */
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

/* ---- all renewals ---------------------------------------------------------------------------- */

bool renewals_seal(struct renewals *r)
{
    if (r->all.nr)
        qsort(r->all.at, r->all.nr, sizeof(*r->all.at), by_time);
    if (r->flips.nr)
        qsort(r->flips.at, r->flips.nr, sizeof(*r->flips.at), by_time);
    bool ok = find_all_new(r);
    vec_free(&r->flips);
    return ok && place_all(r);
}

/* Returns the index of the first renewal of the process after that time. */
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
