/* SPDX-License-Identifier: GPL-2.0-only */
/* Where stacks ended that did not reach their entry point: counts by (how, module, address). */
#include "base/hash.h"
#include "base/hash_table.h"
#include "replay/replay_internal.h"

#include <stdlib.h>
#include <string.h>

enum { STOPS_MAX = 1 << 16 }; /* further distinct places are counted without an address */

struct end_table {
    VEC(struct replay_incomplete_end) ends, sorted;
    struct hash_table table; /* of `ends` */
};

struct end_table *end_table_create(void)
{
    return calloc(1, sizeof(struct end_table));
}

void end_table_free(struct end_table *t)
{
    if (!t)
        return;
    vec_free(&t->ends);
    hash_table_free(&t->table);
    vec_free(&t->sorted);
    free(t);
}

/* Module names are dso names, with one pointer for each dso. */
static bool is_same(const struct replay_incomplete_end *a, const struct replay_incomplete_end *b)
{
    return a->end == b->end && a->module == b->module && a->address == b->address;
}

int end_table_add(struct end_table *t, enum stack_end end, const struct mapping *at, uint64_t pc,
                  struct error *err)
{
    struct replay_incomplete_end key = {.end = end, .address = pc};
    if (at) {
        key.module = at->dso->name;
        key.address = pc - at->start + at->pgoff;
    }
    if (t->ends.nr >= STOPS_MAX)
        key.address = 0;
    uint64_t h = hash_combine(hash_combine((uint64_t)key.end, (uintptr_t)key.module), key.address);
    uint32_t n = hash_table_intern(&t->table, h, &t->ends, i, is_same(&t->ends.at[i], &key), key);
    if (n == HASH_TABLE_NONE)
        return error_no_memory(err);
    t->ends.at[n].count++;
    return 0;
}

static int by_count(const void *a, const void *b)
{
    const struct replay_incomplete_end *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    int names = strcmp(x->module ? x->module : "", y->module ? y->module : "");
    if (names)
        return names;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return (int)x->end - (int)y->end;
}

const struct replay_incomplete_end *end_table_sorted(struct end_table *t, size_t *nr)
{
    t->sorted.nr = 0;
    vec_foreach (e, &t->ends)
        if (!vec_push(&t->sorted, *e))
            break;
    if (t->sorted.nr)
        qsort(t->sorted.at, t->sorted.nr, sizeof(*t->sorted.at), by_count);
    *nr = t->sorted.nr;
    return t->sorted.at;
}
