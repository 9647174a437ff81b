/* SPDX-License-Identifier: GPL-2.0-only */
/* A sweep over the ranges in the order of their starts, with a stack of the open ranges. */
#include "symbols/segments.h"
#include "base/sort.h"

#include <stdlib.h>

typedef VEC(struct segment_range) range_stack;

static bool add(struct segments *s, uint64_t start, uint32_t owner)
{
    size_t nr = s->starts.nr;
    if (nr && s->starts.at[nr - 1] == start) {
        s->owners.at[nr - 1] = owner;
        return true;
    }
    return vec_push(&s->starts, start) && vec_push(&s->owners, owner);
}

/* Close the ranges that end at or before `until`: the enclosing range continues after each. */
static bool close_until(struct segments *s, range_stack *open, uint64_t until)
{
    while (open->nr && open->at[open->nr - 1].high <= until) {
        uint64_t end = open->at[--open->nr].high;
        while (open->nr && open->at[open->nr - 1].high <= end)
            open->nr--;
        if (!add(s, end, open->nr ? open->at[open->nr - 1].owner : (uint32_t)NO_OWNER))
            return false;
    }
    return true;
}

static bool sweep(struct segments *s, const struct segment_range *ranges,
                  const struct sort_key *order, size_t nr)
{
    range_stack open = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < nr; i++) {
        struct segment_range r = ranges[order[i].index];
        if (r.high > r.low)
            ok = close_until(s, &open, r.low) && vec_push(&open, r) && add(s, r.low, r.owner);
    }
    ok = ok && close_until(s, &open, UINT64_MAX);
    vec_free(&open);
    return ok;
}

bool segments_make(struct segments *s, const struct segment_range *ranges, size_t nr)
{
    struct sort_key *order = nr < UINT32_MAX ? malloc((nr + 1) * sizeof(*order)) : NULL;
    if (!order)
        return false;
    for (size_t i = 0; i < nr; i++)
        order[i] = (struct sort_key){.key = ranges[i].low, .index = (uint32_t)i};
    /* Each range starts one segment and may end one. */
    bool ok = vec_reserve(&s->starts, 2 * nr) && vec_reserve(&s->owners, 2 * nr) &&
              sort_keys(order, nr) && sweep(s, ranges, order, nr);
    free(order);
    return ok;
}

void segments_free(struct segments *s)
{
    vec_free(&s->starts);
    vec_free(&s->owners);
}
