/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rules of whole FDEs. After one address of a function, other addresses of it follow, and finding
 * the FDE and running two programs costs 1,700 instructions each time. So the first run goes
 * through all rows, for all threads, and later lookups only search them.
 */
#include "unwind/native/rule.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

enum {
    PROGRAM_MAX = 1024,            /* bytes; a longer program is run up to the address each time */
    LOWERED_MAX = PROGRAM_MAX + 2, /* most rows of one such program */
    OFFSET_BITS = 39,
    LISTS = 1 << 14,
    HEAD_ROWS = sizeof(struct fde_rules) / sizeof(struct fde_row), /* size of a head, in rows */
    ROWS_MAX = 1 << 20, /* rows of all FDEs with their heads; when there are more, no further FDEs
                           are kept */
    ARENA_SIZE = 128 << 10,
};

struct fde_arena {
    struct fde_arena *next;
    size_t used; /* bytes used of the ARENA_SIZE bytes behind the head */
    _Alignas(8) char bytes[];
};

bool rule_fdes_init(struct rule_store *s)
{
    s->fdes = calloc(LISTS, sizeof(*s->fdes));
    return s->fdes != NULL;
}

void rule_fdes_destroy(struct rule_store *s)
{
    free((void *)s->fdes);
    while (s->arena) {
        struct fde_arena *next = s->arena->next;
        free(s->arena);
        s->arena = next;
    }
}

/* ---- the table ----------------------------------------------------------------------------- */

static const struct fde_rules *find(struct rule_store *s, uint64_t key)
{
    const struct fde_rules *at =
        atomic_load_explicit(&s->fdes[hash_u64(key) % LISTS], memory_order_acquire);
    while (at && at->key != key)
        at = at->next;
    return at;
}

/* Allocates an FDE's rules. Call it under the lock. NULL: memory is out. */
static struct fde_rules *make_fde(struct rule_store *s, size_t nr_rows)
{
    size_t size = sizeof(struct fde_rules) + nr_rows * sizeof(struct fde_row);
    _Static_assert(sizeof(struct fde_rules) + LOWERED_MAX * sizeof(struct fde_row) <= ARENA_SIZE,
                   "any FDE fits");
    struct fde_arena *a = s->arena;
    if (!a || ARENA_SIZE - a->used < size) {
        a = malloc(sizeof(*a) + ARENA_SIZE);
        if (!a)
            return NULL;
        *a = (struct fde_arena){.next = s->arena};
        s->arena = a;
    }
    struct fde_rules *made = (void *)(a->bytes + a->used);
    a->used += size;
    return made;
}

/* ---- filling ------------------------------------------------------------------------------- */

/* An FDE's rules before they are kept. A damaged or unusual FDE has no rows. */
struct lowered {
    uint64_t begin;
    uint32_t size;
    uint32_t nr;
    uint64_t end; /* end of the rows so far */
    bool failed;  /* there are too many rows */
    struct {
        uint32_t end;
        struct rule rule;
    } rows[LOWERED_MAX];
};

static void take_row(void *context, const struct cfi_row *row, uint64_t end)
{
    struct lowered *l = context;
    uint64_t limit = l->begin + l->size;
    end = end < limit ? end : limit;
    if (end <= l->end) /* the row has no address, or earlier rows have all of them */
        return;
    struct rule rule = rule_lower(row);
    bool same = l->nr && memcmp(&l->rows[l->nr - 1].rule, &rule, sizeof(rule)) == 0;
    l->failed |= !same && l->nr == LOWERED_MAX;
    if (l->failed)
        return;
    l->nr += !same;
    l->rows[l->nr - 1].rule = rule;
    l->rows[l->nr - 1].end = (uint32_t)(end - l->begin);
    l->end = end;
}

/* Converts (lowers) all rows of an FDE. false: they cannot be kept. */
static bool lower_fde(const struct cfi *cfi, const struct cfi_table *table, uint64_t offset,
                      struct lowered *ret)
{
    struct fde fde;
    ret->begin = ret->size = ret->nr = 0;
    ret->failed = false;
    if (!cfi_read_fde(cfi, table, offset, &fde, NULL))
        return true; /* the FDE covers nothing */
    if (fde.size >= UINT32_MAX)
        return false;
    ret->begin = ret->end = fde.begin;
    ret->size = (uint32_t)fde.size;
    if (fde.cie.ra_register == cfi->arch->reg.ra && fde.program.size <= PROGRAM_MAX)
        cfi_run_all(cfi, table, &fde, take_row, ret);
    return !ret->failed;
}

/* Adds an FDE to the store. Call it under the lock. NULL: memory is out, or there are too many
 * rules. */
static const struct fde_rules *add_fde(struct rule_store *s, uint64_t key, const struct lowered *l)
{
    struct fde_rules *fde = make_fde(s, l->nr);
    if (!fde)
        return NULL;
    _Atomic(const struct fde_rules *) *list = &s->fdes[hash_u64(key) % LISTS];
    *fde = (struct fde_rules){.next = atomic_load_explicit(list, memory_order_relaxed),
                              .key = key,
                              .begin = l->begin,
                              .size = l->size,
                              .nr = l->nr};
    for (uint32_t i = 0; i < l->nr; i++) {
        const struct rule *rule = &l->rows[i].rule;
        uint32_t index = rule->kind == RULE_ROW ? 0 : rule_intern(s, rule);
        if (index == 0 && rule->kind != RULE_ROW)
            return NULL;
        fde->rows[i] = (struct fde_row){l->rows[i].end, index};
    }
    atomic_store_explicit(list, fde, memory_order_release);
    atomic_fetch_add_explicit(&s->nr_fde_rows, l->nr + HEAD_ROWS, memory_order_relaxed);
    return fde;
}

/* Returns the kept rules of the FDE, and adds them if needed; NULL: they cannot be kept. */
static const struct fde_rules *rules_of(struct rule_cache *c, const struct cfi *cfi, unsigned table,
                                        uint64_t offset)
{
    struct rule_store *s = c->store;
    struct lowered lowered; /* 20 KB, of which little is used in most cases */
    if (offset >> OFFSET_BITS)
        return NULL;
    uint64_t key = (uint64_t)cfi->id << (OFFSET_BITS + 1) | (uint64_t)table << OFFSET_BITS | offset;
    const struct fde_rules *fde = find(s, key);
    if (fde || atomic_load_explicit(&s->nr_fde_rows, memory_order_relaxed) > ROWS_MAX ||
        !lower_fde(cfi, &cfi->tables[table], offset, &lowered))
        return fde;
    pthread_mutex_lock(&c->shared->lock);
    fde = find(s, key); /* another thread may have added it meanwhile */
    if (!fde)
        fde = add_fde(s, key, &lowered);
    pthread_mutex_unlock(&c->shared->lock);
    return fde;
}

/* ---- lookup -------------------------------------------------------------------------------- */

static uint32_t rule_at(const struct fde_rules *fde, uint64_t address)
{
    const struct fde_row *row = fde->rows;
    uint32_t from = (uint32_t)(address - fde->begin), low = 0, high = fde->nr;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (row[mid].end <= from)
            low = mid + 1;
        else
            high = mid;
    }
    return low < fde->nr ? row[low].rule : 0;
}

uint32_t rule_of_fde(struct rule_cache *c, const struct cfi *cfi, uint64_t address)
{
    for (unsigned i = 0; i < cfi->nr_tables; i++) {
        uint64_t offset;
        if (!cfi_fde_at(cfi, &cfi->tables[i], address, &offset))
            continue;
        const struct fde_rules *fde = rules_of(c, cfi, i, offset);
        if (!fde)
            return 0;
        if (address - fde->begin < fde->size)
            return rule_at(fde, address);
    }
    return 0;
}
