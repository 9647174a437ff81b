/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Symbols in buckets by address. Loading only puts a symbol's number into its bucket, and notes how
 * far symbols of the bucket reach beyond it. A bucket is sorted when it is first searched; then the
 * sizes that its symbols lack are computed too.
 */
#include "base/heap.h"
#include "symbols/symtab_internal.h"

#include <stdlib.h>
#include <string.h>

enum { USUAL = 4 }; /* symbols in a bucket, on average */

bool symtab_buckets_make(struct symtab_buckets *b, size_t nr, uint64_t base, uint64_t size)
{
    b->base = base;
    while (b->shift < 63 && size >> b->shift > nr / USUAL)
        b->shift++;
    b->nr = (uint32_t)(size >> b->shift) + 1;
    b->at = calloc(b->nr, sizeof(*b->at));
    b->wide = calloc((b->nr >> BUCKET_WIDE) + (size_t)1, sizeof(*b->wide));
    b->wider = calloc((b->nr >> BUCKET_WIDER) + (size_t)1, sizeof(*b->wider));
    b->before = calloc((b->nr >> BUCKET_WIDE) + (size_t)1, sizeof(*b->before));
    b->parts = heap_reserve(b->nr * sizeof(struct symtab_part *));
    return b->at && b->wide && b->wider && b->before && b->parts;
}

void symtab_buckets_free(struct symtab_buckets *b)
{
    for (uint32_t i = 0; i < b->nr_parts; i++) {
        free(b->parts[i]->keys);
        free(b->parts[i]);
    }
    heap_unreserve(b->parts, b->nr * sizeof(struct symtab_part *));
    vec_free(&b->next);
    free(b->at);
    free(b->wide);
    free(b->wider);
    free(b->before);
    *b = (struct symtab_buckets){0};
}

void symtab_bucket_add(struct symtab_buckets *b, uint32_t index, uint64_t place, uint64_t size)
{
    uint32_t bucket = symtab_bucket_of(b, place);
    b->next.at[index] = b->at[bucket].head;
    b->at[bucket].head = index + 1;
    uint64_t last = place + size - 1;
    uint32_t into = size && last >= place ? symtab_bucket_of(b, last) : BUCKET_FAR;
    if (into != bucket && b->at[bucket].reach < into)
        b->at[bucket].reach = into;
}

bool symtab_bucket_before(const struct symtab_buckets *b, uint32_t from, uint32_t into,
                          uint32_t *ret)
{
    enum { IN_WIDE = 1 << BUCKET_WIDE, IN_WIDER = 1 << BUCKET_WIDER };
    while (from > 0) {
        uint32_t i = from - 1;
        if (from % IN_WIDE == 0 && b->before[from >> BUCKET_WIDE] < into) {
            return false;
        } else if (from % IN_WIDER == 0 && b->wider[i >> BUCKET_WIDER] < into) {
            from -= IN_WIDER;
        } else if (from % IN_WIDE == 0 && b->wide[i >> BUCKET_WIDE] < into) {
            from -= IN_WIDE;
        } else if (b->at[i].reach < into) {
            from--;
        } else {
            *ret = i;
            return true;
        }
    }
    return false;
}

/* ---- sizes ------------------------------------------------------------------------------- */

bool symtab_part_ready(const struct symtab_buckets *b, uint32_t bucket, struct symtab_part **ret)
{
    uint32_t head = __atomic_load_n(&b->at[bucket].head, __ATOMIC_ACQUIRE);
    *ret = head & BUCKET_SETTLED ? b->parts[head & ~BUCKET_SETTLED] : NULL;
    return *ret || !head;
}

/* Get the lowest place of the bucket's symbols in tables up to `table`; false: none. */
static bool least_place(const struct symtab *t, uint32_t bucket, unsigned table, uint64_t *ret)
{
    struct symtab_part *part;
    bool found = false;
    if (symtab_part_ready(&t->buckets, bucket, &part)) {
        if (!part)
            return false;
        for (size_t i = 0; i < part->nr && !found; i++) {
            *ret = part->keys[i].key;
            found = symtab_table(t, part->keys[i].index) <= table;
        }
        return found;
    }
    for (uint32_t s = t->buckets.at[bucket].head; s; s = t->buckets.next.at[s - 1]) {
        if (symtab_table(t, s - 1) > table)
            continue;
        uint64_t place = symtab_elf_key(t, s - 1).key;
        *ret = found && *ret < place ? *ret : place;
        found = true;
    }
    return found;
}

/* perf sorts .symtab before it reads .dynsym, and adds the PLT last: only .symtab bounds symbols of
 * .symtab, and the PLT bounds no symbol. */
bool symtab_bound(const struct symtab *t, const struct symtab_part *part, size_t i, uint64_t *ret)
{
    const struct sort_key *k = part->keys;
    unsigned of = symtab_table(t, k[i].index);
    unsigned table = of == TABLE_SYMTAB ? TABLE_SYMTAB : TABLE_DYNSYM;
    bool found = false;
    for (size_t n = i + 1; n < part->nr && !found; n++) {
        *ret = k[n].key;
        found = k[n].key != k[i].key && symtab_table(t, k[n].index) <= table;
    }
    for (uint32_t b = part->bucket + 1; b < t->buckets.nr && !found; b++)
        found = least_place(t, b, table, ret);
    return found;
}

/* The last of all symbols reaches to the end of the next page. */
static uint64_t size_of_last(uint64_t start)
{
    return ((start + 4095) & ~UINT64_C(4095)) + 4096 - start;
}

/* Returns the size of key `i`, which has none: up to the next symbol at another address. Of several
 * symbols of one table at the same address, only the last gets this size; the others get 0. */
static uint32_t size_to_next(const struct symtab *t, const struct symtab_part *part, size_t i)
{
    const struct sort_key *k = part->keys;
    unsigned of = symtab_table(t, k[i].index);
    for (size_t n = i + 1; n < part->nr && k[n].key == k[i].key; n++)
        if (symtab_table(t, k[n].index) == of)
            return 0;
    uint64_t next;
    return symtab_size(symtab_bound(t, part, i, &next) ? next - k[i].key : size_of_last(k[i].key));
}

/* Compute missing sizes in ELF files, where most symbols have a size. */
static void size_elf(const struct symtab *t, struct symtab_part *part)
{
    struct sort_key *k = part->keys;
    for (size_t i = 0; i < part->nr; i++)
        if (!k[i].extra && symtab_table(t, k[i].index) != TABLE_PLT)
            k[i].extra = size_to_next(t, part, i);
}

/* Compute sizes in kallsyms, where no symbol has a size. No symbol reaches from the kernel into a
 * module or from one module into another. */
static void size_kallsyms(struct symtab_part *part)
{
    struct sort_key *k = part->keys;
    uint32_t of_module = 0;
    for (size_t i = part->nr; i-- > 0;) {
        uint32_t mine = k[i].extra;
        uint64_t start = k[i].key;
        uint64_t size = i + 1 == part->nr   ? size_of_last(start)
                        : mine != of_module ? ((start + 4096 + 4095) & ~UINT64_C(4095)) - start
                                            : k[i + 1].key - start;
        k[i].extra = symtab_size(size);
        of_module = mine;
    }
}

/* ---- nesting ----------------------------------------------------------------------------- */

static uint64_t end_of(const struct sort_key *k)
{
    uint64_t end = k->key + k->extra;
    return k->extra == UINT32_MAX || end < k->key ? UINT64_MAX : end;
}

/* Find out whether symbols reach beyond the start of others. Returns the highest end. */
static uint64_t find_nested(struct symtab_part *part)
{
    const struct sort_key *k = part->keys;
    uint64_t reach = 0;
    for (size_t i = 0; i < part->nr; i++) {
        uint64_t end = end_of(&k[i]);
        reach = end > reach ? end : reach;
        if (i + 1 < part->nr && k[i + 1].key != k[i].key && reach > k[i + 1].key)
            part->nested = true;
    }
    return reach;
}

/* ---- parts ------------------------------------------------------------------------------- */

/* Store the part in its bucket; from then on any thread may read it. */
static struct symtab_part *keep_part(struct symtab_buckets *b, struct symtab_part *part)
{
    uint32_t head = BUCKET_SETTLED | b->nr_parts;
    b->parts[b->nr_parts++] = part;
    __atomic_store_n(&b->at[part->bucket].head, head, __ATOMIC_RELEASE);
    return part;
}

/* Create a part of `nr` symbols, with room for their keys. */
static struct symtab_part *part_create(uint32_t bucket, size_t nr, struct sort_key *keys)
{
    struct symtab_part *part = calloc(1, sizeof(*part) + nr * sizeof(struct symbol *));
    keys = keys ? keys : malloc(nr * sizeof(*keys));
    if (!part || !keys) {
        free(part);
        free(keys);
        return NULL;
    }
    *part = (struct symtab_part){
        .keys = keys, .made = (_Atomic(struct symbol *) *)(part + 1), .nr = nr, .bucket = bucket};
    return part;
}

/* A bucket's list holds its symbols from the last loaded to the first. */
static struct symtab_part *sort_bucket(struct symtab *t, uint32_t bucket)
{
    struct symtab_buckets *b = &t->buckets;
    size_t nr = 0;
    for (uint32_t s = b->at[bucket].head; s; s = b->next.at[s - 1], nr++)
        symtab_elf_prefetch(t, s - 1); /* exported symbols are in any order */
    struct symtab_part *part = part_create(bucket, nr, NULL);
    if (!part)
        return NULL;
    for (uint32_t s = b->at[bucket].head; s; s = b->next.at[s - 1])
        part->keys[--nr] = symtab_elf_key(t, s - 1);
    if (!sort_keys(part->keys, part->nr)) {
        free(part->keys);
        free(part);
        return NULL;
    }
    size_elf(t, part);
    uint64_t end = find_nested(part);
    if (b->at[bucket].reach == BUCKET_FAR && end != UINT64_MAX)
        b->at[bucket].reach = symtab_bucket_of(b, end - 1);
    return keep_part(b, part);
}

struct symtab_part *symtab_part_get(struct symtab *t, uint32_t bucket)
{
    struct symtab_part *part;
    return symtab_part_ready(&t->buckets, bucket, &part) ? part : sort_bucket(t, bucket);
}

bool symtab_buckets_close(struct symtab *t)
{
    struct symtab_buckets *b = &t->buckets;
    uint32_t most = 0;
    for (uint32_t i = 0; i < b->nr; i++) {
        uint32_t wide = i >> BUCKET_WIDE, wider = i >> BUCKET_WIDER;
        if (i % (1 << BUCKET_WIDE) == 0)
            b->before[wide] = most;
        if (i + 1 == b->nr) /* nothing comes behind it */
            break;
        if (b->at[i].reach == BUCKET_FAR && !symtab_part_get(t, i))
            return false;
        uint32_t reach = b->at[i].reach;
        if (reach <= i)
            continue;
        b->wide[wide] = reach > b->wide[wide] ? reach : b->wide[wide];
        b->wider[wider] = reach > b->wider[wider] ? reach : b->wider[wider];
        most = reach > most ? reach : most;
    }
    return true;
}

bool symtab_buckets_adopt(struct symtab *t, struct sort_key *keys, size_t nr)
{
    symtab_buckets_free(&t->buckets);
    struct symtab_part *part = part_create(0, nr, keys);
    if (!part || !sort_keys(part->keys, nr) || !symtab_buckets_make(&t->buckets, 1, 0, 0)) {
        free(part ? part->keys : NULL);
        free(part);
        return false;
    }
    size_kallsyms(part);
    (void)find_nested(part);
    keep_part(&t->buckets, part);
    return true;
}
