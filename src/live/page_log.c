/* SPDX-License-Identifier: GPL-2.0-only */
/* See page_log.h. Memory is read by pages. Of each page the log writes the parts that were kept
 * ("units"). */
#include "live/page_log.h"

#include "base/hash.h"
#include "base/table.h"

#include <stdlib.h>
#include <string.h>

enum {
    PAGE = 4096,
    GRAIN_MIN = 8,
    GRAINS = PAGE / GRAIN_MIN,
    WORDS = GRAINS / 64,
    CACHED_PAGES = 2048,   /* pages in the cache, a power of two */
    PAGES_MAX = 1 << 18,   /* pages of which something is kept: 1 GiB */
    PENDING_MAX = 1 << 13, /* pages of a round that wait to be written */
    RANGE_MAX = 1 << 20,
    RANGES_MAX = 1 << 20,
};

/* A part of a page that was written as one entry. */
struct unit {
    uint16_t first, nr;     /* in grains of GRAIN_MIN */
    bool marked;            /* the last reading is already written */
    uint64_t hash;          /* of the unit's bytes */
    uint64_t before, after; /* times of the last reading that gave these bytes */
};

struct page {
    uint64_t number;
    uint8_t *bytes; /* of this round, once something in the page is kept */
    uint64_t before, after;
    uint64_t kept[WORDS];    /* bit per grain: kept in this round */
    uint64_t written[WORDS]; /* bit per grain: written in any round */
    VEC(struct unit) units;
};

/* What page_log_range() and page_log_object() wrote. */
struct range {
    uint64_t address, hash, before, after;
    uint8_t *bytes; /* of an object; NULL: none */
    uint32_t size;
    uint8_t kind;
    bool marked;
};

struct cached {
    uint64_t number, serial; /* of the round; 0: none */
    uint64_t before, after;
    uint8_t bytes[PAGE];
};

struct span {
    uint64_t start, end;
};

struct page_log {
    struct process_memory *memory;
    unsigned grain;
    uint64_t serial, began; /* of the current round */
    /* `pages`: page number + 1 -> struct page; `ranges`: address -> struct range. */
    struct table pages, ranges;
    struct table indexed; /* hashes of the pairs that page_log_index() wrote */
    VEC(struct page *) pending;
    VEC(struct span) skipped;
    struct page_log_stats stats;
    struct mem_writer out;
    struct cached cache[CACHED_PAGES];
};

int page_log_create(pid_t pid, struct process_memory *memory, unsigned grain,
                    const struct log_sink *sink, struct page_log **ret, struct error *err)
{
    struct page_log *p = calloc(1, sizeof(*p));
    if (!p) {
        process_memory_close(memory);
        return error_no_memory(err);
    }
    p->memory = memory;
    p->grain = grain;
    p->serial = 1;
    p->out.pid = pid;
    p->out.sink = *sink;
    *ret = p;
    return 0;
}

static void forget_ranges(struct page_log *p)
{
    vec_foreach (slot, &p->ranges) {
        struct range *r = slot->value;
        free(r->bytes);
        free(r);
    }
    table_free(&p->ranges);
    p->ranges = (struct table){0};
}

void page_log_free(struct page_log *p)
{
    if (!p)
        return;
    vec_foreach (slot, &p->pages) {
        struct page *page = slot->value;
        vec_free(&page->units);
        free(page->bytes);
        free(page);
    }
    forget_ranges(p);
    table_free(&p->pages);
    table_free(&p->indexed);
    vec_free(&p->pending);
    vec_free(&p->skipped);
    process_memory_close(p->memory);
    free(p);
}

struct page_log_stats page_log_stats(const struct page_log *p)
{
    struct page_log_stats stats = p->stats;
    stats.bytes = p->out.bytes;
    return stats;
}

bool page_log_skip(struct page_log *p, uint64_t start, uint64_t end)
{
    return vec_push(&p->skipped, (struct span){start, end});
}

static bool is_skipped(const struct page_log *p, uint64_t address)
{
    size_t low = 0, high = p->skipped.nr;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (p->skipped.at[mid].end <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low < p->skipped.nr && p->skipped.at[low].start <= address;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void tell_unit(struct page_log *p, const struct page *page, const struct unit *u,
                      const uint8_t *bytes)
{
    const struct vmevent_entry entry = {
        .address = page->number * PAGE + (uint64_t)u->first * GRAIN_MIN,
        .length = (uint32_t)u->nr * GRAIN_MIN,
        .kind = VMENTRY_BYTES,
        .flags = bytes ? 0 : VMENTRY_UNCHANGED,
        .before = u->before,
        .after = u->after,
        .bytes = bytes,
    };
    mem_writer_put(&p->out, &entry);
}

static void mark_unit(struct page_log *p, const struct page *page, struct unit *u)
{
    if (!u->marked)
        tell_unit(p, page, u, NULL);
    u->marked = true;
}

/* Compare a unit with its earlier reading, and write it if it differs. */
static void read_unit(struct page_log *p, const struct page *page, struct unit *u)
{
    const uint8_t *bytes = page->bytes + (size_t)u->first * GRAIN_MIN;
    uint64_t hash = hash_bytes(bytes, (size_t)u->nr * GRAIN_MIN);
    bool same = u->before && hash == u->hash;
    if (u->before && !same)
        mark_unit(p, page, u);
    u->hash = hash;
    u->before = page->before;
    u->after = page->after;
    u->marked = !same;
    if (!same)
        tell_unit(p, page, u, bytes);
}

static bool bit(const uint64_t *bits, unsigned i)
{
    return bits[i / 64] >> (i % 64) & 1;
}

static bool is_kept(const struct page *page, const struct unit *u)
{
    for (unsigned i = u->first; i < (unsigned)u->first + u->nr; i++)
        if (bit(page->kept, i))
            return true;
    return false;
}

/* Add units for the runs of grains that were kept for the first time. */
static void add_units(struct page_log *p, struct page *page)
{
    for (unsigned i = 0; i < GRAINS;) {
        unsigned from = i;
        while (i < GRAINS && bit(page->kept, i) && !bit(page->written, i))
            i++;
        if (i == from) {
            i++;
            continue;
        }
        struct unit u = {.first = (uint16_t)from, .nr = (uint16_t)(i - from)};
        read_unit(p, page, &u);
        if (!vec_push(&page->units, u))
            continue; /* out of memory: the next round tries again */
        for (unsigned at = from; at < i; at++)
            page->written[at / 64] |= UINT64_C(1) << (at % 64);
    }
}

static void tell_page(struct page_log *p, struct page *page)
{
    vec_foreach (u, &page->units)
        if (is_kept(page, u))
            read_unit(p, page, u);
    add_units(p, page);
    memset(page->kept, 0, sizeof(page->kept));
    free(page->bytes);
    page->bytes = NULL;
}

static void tell_pending(struct page_log *p)
{
    vec_foreach (page, &p->pending)
        tell_page(p, *page);
    p->pending.nr = 0;
}

int page_log_end(struct page_log *p, struct error *err)
{
    tell_pending(p);
    return mem_writer_send(&p->out, err);
}

static void tell_range(struct page_log *p, struct range *r, const uint8_t *bytes)
{
    const struct vmevent_entry entry = {.address = r->address,
                                        .length = r->size,
                                        .kind = r->kind,
                                        .flags = bytes ? 0 : VMENTRY_UNCHANGED,
                                        .before = r->before,
                                        .after = r->after,
                                        .bytes = bytes};
    if (bytes || !r->marked)
        mem_writer_put(&p->out, &entry);
    r->marked = true;
}

int page_log_flush(struct page_log *p, struct error *err)
{
    tell_pending(p);
    vec_foreach (slot, &p->pages) {
        struct page *page = slot->value;
        vec_foreach (u, &page->units)
            mark_unit(p, page, u);
    }
    vec_foreach (slot, &p->ranges)
        tell_range(p, slot->value, NULL);
    return mem_writer_send(&p->out, err);
}

void page_log_index(struct page_log *p, uint64_t from, uint64_t to)
{
    const uint64_t pair[] = {from, to}, hash = hash_combine(hash_u64(from), to);
    if (table_get(&p->indexed, hash) || !table_put(&p->indexed, hash, p))
        return;
    const struct vmevent_entry entry = {.length = sizeof(pair),
                                        .kind = VMENTRY_INDEX,
                                        .before = mem_writer_now(&p->out),
                                        .after = mem_writer_now(&p->out),
                                        .bytes = (const uint8_t *)pair};
    mem_writer_put(&p->out, &entry);
}

/* ---- reading ------------------------------------------------------------------------------- */

void page_log_begin(struct page_log *p)
{
    p->serial++;
    p->began = mem_writer_now(&p->out);
}

/* A page as of this round; NULL: it cannot be read. */
static const struct cached *page_read(struct page_log *p, uint64_t number)
{
    struct cached *c = &p->cache[number & (CACHED_PAGES - 1)];
    if (c->serial == p->serial && c->number == number)
        return c;
    c->serial = 0;
    c->before = mem_writer_now(&p->out);
    if (!process_memory_read(p->memory, number * PAGE, c->bytes, PAGE))
        return NULL;
    c->after = mem_writer_now(&p->out);
    c->number = number;
    c->serial = p->serial;
    return c;
}

/* A page's bytes. If something of it was kept in this round: the bytes that will be written. */
static const uint8_t *page_bytes(struct page_log *p, uint64_t number)
{
    const struct page *page = table_get(&p->pages, number + 1);
    if (page && page->bytes)
        return page->bytes;
    const struct cached *c = page_read(p, number);
    return c ? c->bytes : NULL;
}

static bool page_known(struct page_log *p, uint64_t number, struct page **ret)
{
    struct page *page = table_get(&p->pages, number + 1);
    if (!page) {
        if (p->pages.nr >= PAGES_MAX || !(page = calloc(1, sizeof(*page))))
            return false;
        page->number = number;
        if (!table_put(&p->pages, number + 1, page)) {
            free(page);
            return false;
        }
        p->stats.pages++;
    }
    *ret = page;
    return true;
}

/* Keep grains [from, to) of a page. Returns false if the page cannot be read. */
static bool keep_grains(struct page_log *p, uint64_t number, unsigned from, unsigned to)
{
    struct page *page;
    const struct cached *c;
    if (is_skipped(p, number * PAGE))
        return true;
    if (!page_known(p, number, &page)) {
        p->stats.refused++;
        return true;
    }
    if (!page->bytes) {
        if (!(c = page_read(p, number)))
            return false;
        if (p->pending.nr >= PENDING_MAX)
            tell_pending(p);
        page->bytes = malloc(PAGE);
        if (!page->bytes || !vec_push(&p->pending, page)) {
            free(page->bytes);
            page->bytes = NULL;
            return false;
        }
        memcpy(page->bytes, c->bytes, PAGE);
        page->before = c->before;
        page->after = c->after;
    }
    for (unsigned i = from; i < to; i++)
        page->kept[i / 64] |= UINT64_C(1) << (i % 64);
    return true;
}

bool page_log_keep(struct page_log *p, uint64_t address, uint64_t size)
{
    if (!size || address > UINT64_MAX - size - PAGE)
        return false;
    uint64_t start = address & ~(uint64_t)(p->grain - 1);
    uint64_t end = (address + size + p->grain - 1) & ~(uint64_t)(p->grain - 1);
    for (uint64_t at = start; at < end;) {
        uint64_t next = (at / PAGE + 1) * PAGE < end ? (at / PAGE + 1) * PAGE : end;
        if (!keep_grains(p, at / PAGE, (unsigned)(at % PAGE / GRAIN_MIN),
                         (unsigned)((next - 1) % PAGE / GRAIN_MIN + 1)))
            return false;
        at = next;
    }
    return true;
}

/* Copy bytes of pages that were read. */
static bool copy_bytes(struct page_log *p, uint64_t address, void *to, size_t size)
{
    uint8_t *out = to;
    if (address > UINT64_MAX - size - PAGE)
        return false;
    while (size) {
        const uint8_t *bytes = page_bytes(p, address / PAGE);
        size_t into = address % PAGE, part = PAGE - into < size ? PAGE - into : size;
        if (!bytes)
            return false;
        memcpy(out, bytes + into, part);
        out += part;
        address += part;
        size -= part;
    }
    return true;
}

static bool peek(void *context, const struct memory_query *q, void *to,
                 struct memory_answer *answer)
{
    if (!copy_bytes(context, q->address, to, q->size))
        return false;
    answer->provenance = PROVENANCE_STALE;
    return true;
}

static bool read_kept(void *context, const struct memory_query *q, void *to,
                      struct memory_answer *answer)
{
    return page_log_keep(context, q->address, q->size) && peek(context, q, to, answer);
}

struct memory_layer page_log_layer(struct page_log *p)
{
    return (struct memory_layer){.name = "live", .read = read_kept, .context = p};
}

struct memory_layer page_log_peek(struct page_log *p)
{
    return (struct memory_layer){.name = "live", .read = peek, .context = p};
}

/* ---- ranges -------------------------------------------------------------------------------- */

static struct range *range_get(struct page_log *p, uint64_t address)
{
    struct range *r = table_get(&p->ranges, address);
    if (r)
        return r;
    if (p->ranges.nr >= RANGES_MAX) { /* most are gone; the others will be written again */
        vec_foreach (slot, &p->ranges)
            tell_range(p, slot->value, NULL);
        forget_ranges(p);
    }
    r = calloc(1, sizeof(*r));
    if (r && table_put(&p->ranges, address, r)) {
        r->address = address;
        return r;
    }
    free(r);
    return NULL;
}

bool page_log_range(struct page_log *p, uint64_t address, uint64_t size, uint8_t kind)
{
    if (!address || !size || size > RANGE_MAX)
        return false;
    uint8_t *bytes = malloc(size);
    uint64_t before = mem_writer_now(&p->out);
    bool read = bytes && process_memory_read(p->memory, address, bytes, size);
    uint64_t after = mem_writer_now(&p->out), hash = read ? hash_bytes(bytes, size) : 0;
    struct range *r = read ? range_get(p, address) : NULL;
    if (r) {
        bool same = r->size == size && r->kind == kind && r->hash == hash;
        if (r->size && !same)
            tell_range(p, r, NULL);
        free(r->bytes);
        *r = (struct range){.address = address,
                            .hash = hash,
                            .before = before,
                            .after = after,
                            .size = (uint32_t)size,
                            .kind = kind};
        if (!same)
            tell_range(p, r, bytes);
    }
    free(bytes);
    return r;
}

/* ---- objects ------------------------------------------------------------------------------- */

/* Store and write a reading of the object that differs from the last. Takes over `bytes`. */
static void object_changed(struct page_log *p, struct range *r, uint8_t *bytes, uint64_t size)
{
    if (r->size)
        tell_range(p, r, NULL);
    free(r->bytes);
    *r = (struct range){.address = r->address,
                        .bytes = bytes,
                        .before = p->began,
                        .after = mem_writer_now(&p->out),
                        .size = (uint32_t)size,
                        .kind = VMENTRY_OBJECT};
    tell_range(p, r, bytes);
}

bool page_log_object(struct page_log *p, uint64_t address, uint64_t size,
                     bool (*same)(const void *context, const uint8_t *a, const uint8_t *b,
                                  size_t size),
                     const void *context)
{
    if (!address || !size || size > RANGE_MAX)
        return false;
    uint8_t *bytes = malloc(size);
    bool read = bytes && copy_bytes(p, address, bytes, size);
    struct range *r = read ? range_get(p, address) : NULL;
    if (!r) {
        free(bytes);
        return false;
    }
    bool equal = r->bytes && r->size == size &&
                 (same ? same(context, r->bytes, bytes, size) : !memcmp(r->bytes, bytes, size));
    if (!equal) {
        object_changed(p, r, bytes, size);
        return true;
    }
    r->before = p->began;
    r->after = mem_writer_now(&p->out);
    r->marked = false;
    free(bytes);
    return true;
}
