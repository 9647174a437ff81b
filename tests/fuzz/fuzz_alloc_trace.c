/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Any bytes as a trace of allocations, and any bytes as the records of up to four writers. What is
 * read must be possible: blocks are numbered in their order, each is freed once, the bytes that
 * live and their peak are those of the calls. The plan has each call once, in the chain of its
 * thread.
 *
 * An input is: 0 and a file, or the number of chunks (1 to 8) and their records.
 */
#include "alloc/plan.h"
#include "alloc/trace.h"
#include "base/vec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { CHUNKS_MAX = 8, WRITERS = 4, PLAN_BYTES_MAX = 16 << 20 };

struct block {
    uint64_t size;
    bool lives;
};
typedef VEC(struct block) block_vec;

static void demand(bool is_so)
{
    if (!is_so)
        abort();
}

static void free_block(block_vec *blocks, uint32_t number, uint64_t size)
{
    demand(number < blocks->nr && blocks->at[number].lives && blocks->at[number].size == size);
    blocks->at[number].lives = false;
}

static void check_call(block_vec *blocks, const struct alloc_call *c, uint32_t writers)
{
    demand(c->writer < writers && c->operation > TRACE_NONE && c->operation < TRACE_THREAD);
    if (c->operation == TRACE_FREE) {
        demand(c->size == 0 && c->old == ALLOC_NO_BLOCK);
        free_block(blocks, c->block, c->old_size);
        return;
    }
    if (c->old != ALLOC_NO_BLOCK)
        free_block(blocks, c->old, c->old_size);
    else
        demand(c->old_size == 0);
    demand(c->block == blocks->nr && vec_push(blocks, (struct block){c->size, true}));
}

static void check_plan(struct alloc_trace *t)
{
    struct alloc_plan p;
    struct plan_call call;
    uint32_t seen = 0;
    if (alloc_plan_create(t, PLAN_BYTES_MAX, &p, NULL))
        return;
    for (uint32_t i = 0; i < p.head.threads; i++) {
        uint32_t at;
        demand(pread(p.fd, &at, sizeof(at), (off_t)(sizeof(p.head) + i * sizeof(at))) ==
               sizeof(at));
        for (uint32_t last = 0; at != PLAN_NONE; last = at, at = call.next, seen++) {
            demand(at < p.head.calls && at >= last);
            demand(pread(p.fd, &call, sizeof(call),
                         (off_t)(p.head.calls_at + (uint64_t)at * sizeof(call))) == sizeof(call));
            demand(call.thread == i && call.block < p.head.blocks);
        }
    }
    demand(seen == p.head.calls);
    alloc_plan_free(&p);
}

static void check_trace(const char *path)
{
    struct alloc_trace *t;
    struct alloc_call call;
    block_vec blocks = {0};
    uint64_t live = 0, peak = 0;
    int got;
    if (alloc_trace_open(path, &t, NULL))
        return;
    while ((got = alloc_trace_next(t, &call, NULL)) > 0) {
        check_call(&blocks, &call, alloc_trace_info(t)->writers);
        live = live + call.size - call.old_size;
        peak = live > peak ? live : peak;
        demand(alloc_trace_counts(t)->live == live && alloc_trace_counts(t)->peak == peak);
    }
    if (got == 0)
        check_plan(t);
    vec_free(&blocks);
    alloc_trace_close(t);
}

static void put(int fd, const void *bytes, size_t size, size_t at)
{
    demand(pwrite(fd, bytes, size, (off_t)at) == (ssize_t)size);
}

/* Make a file whose structure is right. */
static void put_chunks(int fd, const uint8_t *records, size_t size, unsigned nr)
{
    struct trace_header h = {.version = TRACE_VERSION, .last_ticks = 1000, .last_ns = 1000};
    size_t at = TRACE_BLOCK;
    memcpy(h.magic, TRACE_MAGIC, sizeof(h.magic));
    put(fd, &h, sizeof(h), 0);
    for (unsigned i = 0; i < nr; i++) {
        const size_t part = i + 1 < nr ? size / nr : size - size / nr * i;
        struct trace_chunk c = {.magic = TRACE_CHUNK_MAGIC, .writer = i % WRITERS};
        c.used = (uint32_t)part;
        c.size = (uint32_t)((sizeof(c) + part + TRACE_BLOCK - 1) / TRACE_BLOCK * TRACE_BLOCK);
        demand(ftruncate(fd, (off_t)(at + c.size)) == 0);
        put(fd, &c, sizeof(c), at);
        put(fd, records + size / nr * i, part, at + sizeof(c));
        at += c.size;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static int fd = -1;
    char path[64];
    if (!size || size > 256 << 10)
        return 0;
    if (fd < 0)
        fd = memfd_create("trace", 0);
    demand(fd >= 0 && ftruncate(fd, 0) == 0);
    if (*bytes % (CHUNKS_MAX + 1) == 0)
        put(fd, bytes + 1, size - 1, 0);
    else
        put_chunks(fd, bytes + 1, size - 1, *bytes % (CHUNKS_MAX + 1));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    check_trace(path);
    return 0;
}
