/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Holds records of pipes and compressed files until their last reader is done, in blocks that count
 * their records. A sample is kept without the bytes behind dyn_size: these are stale ring memory,
 * and make up most of a 64 KiB copy. The header's size is not changed, so size - rec->size is the
 * number of missing bytes.
 */
#include "perfdata/perfdata_internal.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { FREE_CHUNKS = 32, HUGE_PAGE = 2 << 20, SLAB_SIZE = 4 * HUGE_PAGE };

static bool is_of_slab(const struct perfdata *pd, const struct chunk *c)
{
    return (uintptr_t)c - (uintptr_t)pd->slab < SLAB_SIZE;
}

static struct chunk *chunk_of(const struct record *rec)
{
    return (struct chunk *)(rec->data - ((uintptr_t)rec->data & (CHUNK_SIZE - 1)));
}

void chunk_unref(struct perfdata *pd, struct chunk *c, unsigned nr)
{
    if (atomic_fetch_sub_explicit(&c->refs, nr, memory_order_acq_rel) != nr)
        return;
    atomic_fetch_sub_explicit(&pd->live_chunks, 1, memory_order_relaxed);
    pthread_mutex_lock(&pd->chunk_lock);
    bool keep = pd->nr_free_chunks < FREE_CHUNKS || is_of_slab(pd, c);
    if (keep) {
        c->next = pd->free_chunks;
        pd->free_chunks = c;
        pd->nr_free_chunks++;
    }
    pthread_mutex_unlock(&pd->chunk_lock);
    if (!keep)
        munmap(c, CHUNK_SIZE);
}

void chunk_ref(struct perfdata *pd, struct chunk *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    if (!atomic_load_explicit(&pd->kept, memory_order_relaxed))
        atomic_store_explicit(&pd->kept, true, memory_order_relaxed);
}

/* Map a block of `size` bytes, aligned to `size`, which must be a power of two. This uses mmap
 * because the allocator would leave holes between aligned blocks, and keep them. */
static uint8_t *map_aligned(size_t size)
{
    uint8_t *p = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)p & (size - 1);
    if (before)
        munmap(p, before);
    munmap(p + before + size, size - before);
    return p + before;
}

/* Get memory for a chunk, with the lock held. The first chunks, which usually are all of them, come
 * from a few large pages: the first touch of a small page costs 1 to 3 us, as much as reading a
 * sample. */
static struct chunk *chunk_map(struct perfdata *pd)
{
    if (!pd->slab && !pd->slab_used) {
        pd->slab = map_aligned(SLAB_SIZE);
        if (pd->slab)
            madvise(pd->slab, SLAB_SIZE, MADV_HUGEPAGE); /* a hint: it may fail */
        else
            pd->slab_used = SLAB_SIZE;
    }
    if (pd->slab_used == SLAB_SIZE)
        return (struct chunk *)map_aligned(CHUNK_SIZE);
    pd->slab_used += CHUNK_SIZE;
    return (struct chunk *)(pd->slab + pd->slab_used - CHUNK_SIZE);
}

struct chunk *chunk_create(struct perfdata *pd)
{
    pthread_mutex_lock(&pd->chunk_lock);
    struct chunk *c = pd->free_chunks;
    if (c) {
        pd->free_chunks = c->next;
        pd->nr_free_chunks--;
    } else {
        c = chunk_map(pd);
    }
    pthread_mutex_unlock(&pd->chunk_lock);
    if (!c)
        return NULL;
    atomic_fetch_add_explicit(&pd->live_chunks, 1, memory_order_relaxed);
    atomic_init(&c->refs, 1);
    c->used = CHUNK_HEAD;
    return c;
}

void chunks_free(struct perfdata *pd)
{
    if (pd->chunk)
        chunk_unref(pd, pd->chunk, 1);
    while (pd->free_chunks) {
        struct chunk *c = pd->free_chunks;
        pd->free_chunks = c->next;
        if (!is_of_slab(pd, c))
            munmap(c, CHUNK_SIZE);
    }
    if (pd->slab)
        munmap(pd->slab, SLAB_SIZE);
}

static uint8_t *chunk_room(struct perfdata *pd, size_t size, struct error *err)
{
    if (!pd->chunk || size > CHUNK_SIZE - pd->chunk->used) {
        if (pd->chunk)
            chunk_unref(pd, pd->chunk, 1);
        pd->chunk = chunk_create(pd);
        if (!pd->chunk) {
            error_no_memory(err);
            return NULL;
        }
    }
    uint8_t *p = (uint8_t *)pd->chunk + pd->chunk->used;
    pd->chunk->used += (uint32_t)((size + 7) & ~(size_t)7);
    atomic_fetch_add_explicit(&pd->chunk->refs, 1, memory_order_relaxed);
    return p;
}

/* Find the stale part of a sample's stack copy: [*start, *start + *size) of the record. */
static void stale_part(const struct perfdata *pd, const struct record *rec, size_t *start,
                       size_t *size)
{
    struct sample s;
    *start = rec->size;
    *size = 0;
    if (rec->type != PERF_RECORD_SAMPLE || pd->options.keep_whole ||
        perfdata_sample(pd, rec, &s, NULL) < 0 || !s.stack)
        return;
    *start = (size_t)(s.stack - rec->data) + s.stack_dyn_size;
    *size = s.stack_size - s.stack_dyn_size;
}

int record_keep(struct perfdata *pd, struct record *rec, struct error *err)
{
    size_t start, stale;
    if (rec->size > UINT16_MAX) /* a wrapped COMPRESSED2 that is delivered raw */
        rec->size = UINT16_MAX;
    stale_part(pd, rec, &start, &stale);
    uint8_t *p = chunk_room(pd, rec->size - stale, err);
    if (!p)
        return -1;
    memcpy(p, rec->data, start);
    memcpy(p + start, rec->data + start + stale, rec->size - start - stale);
    rec->data = p;
    rec->size -= (uint32_t)stale;
    atomic_store_explicit(&pd->kept, true, memory_order_relaxed);
    return 0;
}

bool record_in_chunk(const struct perfdata *pd, const struct record *rec)
{
    const struct stream *s = &pd->streams.at[rec->stream];
    if (rec->type == PERF_RECORD_FINISHED_ROUND && !pd->options.raw) /* nobody reads its bytes */
        return false;
    return s->fd >= 0 || !s->map || rec->data < s->map || rec->data >= s->map + s->map_size;
}

void records_drop(struct perfdata *pd, const struct record *records, size_t nr)
{
    struct chunk *last = NULL;
    unsigned refs = 0;
    if (!atomic_load_explicit(&pd->kept, memory_order_relaxed))
        return;
    for (size_t i = 0; i < nr; i++) {
        if (!record_in_chunk(pd, &records[i]))
            continue;
        struct chunk *c = chunk_of(&records[i]);
        if (c != last && last)
            chunk_unref(pd, last, refs), refs = 0;
        last = c;
        refs++;
    }
    if (last)
        chunk_unref(pd, last, refs);
}
