/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rules of whole FDEs. Where one address of a function is met others follow, and finding its FDE
 * and running two programs costs 1,700 instructions each time: so the first run goes through all
 * rows, and others only look up theirs.
 */
#include "unwind/native/rule.h"

#include "base/hash.h"

#include <stdlib.h>

enum {
    PROGRAM_MAX = 1024, /* bytes; a longer program is run up to the address each time */
    OFFSET_BITS = 39,
    FIRST_SLOTS = 1024,
    ROWS_MAX = 1 << 20, /* of all FDEs; more: no further ones are kept */
};

void rule_fdes_reset(struct rule_cache *c)
{
    if (c->fdes)
        memset(c->fdes, 0, c->nr_fde_slots * sizeof(*c->fdes));
    c->nr_fdes = 0;
    c->fde_rows.nr = 0;
}

void rule_fdes_destroy(struct rule_cache *c)
{
    free(c->fdes);
    vec_free(&c->fde_rows);
}

/* ---- the table ----------------------------------------------------------------------------- */

static struct fde_rules *find(struct fde_rules *slots, size_t nr, uint64_t key)
{
    size_t at = hash_u64(key) & (nr - 1);
    while (slots[at].key && slots[at].key != key)
        at = (at + 1) & (nr - 1);
    return &slots[at];
}

static bool grow(struct rule_cache *c)
{
    size_t nr = c->nr_fde_slots ? c->nr_fde_slots * 2 : FIRST_SLOTS;
    struct fde_rules *slots = calloc(nr, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < c->nr_fde_slots; i++)
        if (c->fdes[i].key)
            *find(slots, nr, c->fdes[i].key) = c->fdes[i];
    free(c->fdes);
    c->fdes = slots;
    c->nr_fde_slots = nr;
    return true;
}

/* ---- filling ------------------------------------------------------------------------------- */

struct filling {
    struct rule_cache *cache;
    struct fde_rules *to;
    uint64_t end; /* of the rows so far */
    bool failed;  /* memory is out, or there are too many rules */
};

static void add_row(struct filling *f, uint64_t end, uint32_t rule)
{
    uint64_t limit = f->to->begin + f->to->size;
    end = end < limit ? end : limit;
    if (end <= f->end) /* no address is in it, or all are in earlier ones */
        return;
    if (!vec_push(&f->cache->fde_rows, (struct fde_row){(uint32_t)(end - f->to->begin), rule}))
        f->failed = true;
    f->end = end;
}

static void take_row(void *context, const struct cfi_row *row, uint64_t end)
{
    struct filling *f = context;
    struct rule rule = rule_lower(row);
    uint32_t index = rule.kind == RULE_ROW ? 0 : rule_intern(f->cache, &rule);
    f->failed |= index == 0 && rule.kind != RULE_ROW;
    add_row(f, end, index);
}

/* The rules of the FDE at `offset`, those of damaged or unusual ones without rows; false: they
 * cannot be kept. */
static bool fill(struct rule_cache *c, const struct cfi *cfi, const struct cfi_table *table,
                 uint64_t offset, struct fde_rules *ret)
{
    struct fde fde;
    ret->first = (uint32_t)c->fde_rows.nr;
    ret->nr = 0;
    ret->begin = ret->size = 0;
    if (!cfi_read_fde(cfi, table, offset, &fde, NULL))
        return true; /* covers nothing */
    if (fde.size >= UINT32_MAX)
        return false;
    ret->begin = fde.begin;
    ret->size = (uint32_t)fde.size;
    if (fde.cie.ra_register != DWARF_RIP || fde.program.size > PROGRAM_MAX)
        return true;
    struct filling f = {.cache = c, .to = ret, .end = fde.begin};
    cfi_run_all(cfi, table, &fde, take_row, &f);
    if (f.failed) {
        c->fde_rows.nr = ret->first;
        return false;
    }
    ret->nr = (uint32_t)(c->fde_rows.nr - ret->first);
    return true;
}

/* The kept rules of the FDE; NULL: none. */
static const struct fde_rules *rules_of(struct rule_cache *c, const struct cfi *cfi, unsigned table,
                                        uint64_t offset)
{
    if (offset >> OFFSET_BITS || c->fde_rows.nr > ROWS_MAX)
        return NULL;
    if (c->nr_fdes * 2 >= c->nr_fde_slots && !grow(c))
        return NULL;
    uint64_t key = (uint64_t)cfi->id << (OFFSET_BITS + 1) | (uint64_t)table << OFFSET_BITS | offset;
    struct fde_rules *at = find(c->fdes, c->nr_fde_slots, key);
    if (at->key)
        return at;
    if (!fill(c, cfi, &cfi->tables[table], offset, at))
        return NULL;
    at->key = key;
    c->nr_fdes++;
    return at;
}

/* ---- asking -------------------------------------------------------------------------------- */

static uint32_t rule_at(const struct rule_cache *c, const struct fde_rules *fde, uint64_t address)
{
    if (fde->nr == 0) /* then there may be no rows of any FDE, either */
        return 0;
    const struct fde_row *row = c->fde_rows.at + fde->first;
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
            return rule_at(c, fde, address);
    }
    return 0;
}
