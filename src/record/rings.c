/* SPDX-License-Identifier: GPL-2.0-only */
/* Reading the kernel's rings. */
#include "record/rings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    RECORD_LIMIT = 1 << 16, /* header.size has 16 bits */
    CONSUME_AT = 256 << 10, /* bytes read before their room goes back to the kernel */
};

int ring_map(struct ring *r, int cpu, int *fds, size_t nr_fds, uint64_t size, struct error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *r = (struct ring){.cpu = cpu, .fds = fds, .nr_fds = nr_fds, .size = size};
    r->wrapped = malloc(RECORD_LIMIT);
    if (!r->wrapped)
        return error_no_memory(err);
    void *map = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    if (map == MAP_FAILED)
        return error_system(err, errno, "a ring of %llu bytes cannot be mapped",
                            (unsigned long long)size);
    r->page = map;
    r->data = (uint8_t *)map + page;
    for (size_t i = 1; i < nr_fds; i++)
        if (ioctl(fds[i], PERF_EVENT_IOC_SET_OUTPUT, fds[0]) < 0)
            return error_system(err, errno, "an event cannot write into the ring of cpu %d", cpu);
    return 0;
}

void ring_unmap(struct ring *r)
{
    if (r->page)
        munmap(r->page, r->size + (size_t)sysconf(_SC_PAGESIZE));
    free(r->wrapped);
    *r = (struct ring){0};
}

/* The record at `tail`, in one piece. NULL: the bytes there are no record (never, unless somebody
 * else writes into the ring). */
static const struct perf_event_header *ring_record(const struct ring *r, uint64_t tail,
                                                   uint64_t left, size_t *size)
{
    uint64_t at = tail & (r->size - 1);
    struct perf_event_header h;
    memcpy(&h, r->data + at, sizeof(h)); /* records are multiples of 8: a header never wraps */
    *size = h.size;
    if (h.size < sizeof(h) || h.size > left)
        return NULL;
    if (at + h.size <= r->size)
        return (const struct perf_event_header *)(r->data + at);
    size_t first = (size_t)(r->size - at);
    memcpy(r->wrapped, r->data + at, first);
    memcpy(r->wrapped + first, r->data, h.size - first);
    return (struct perf_event_header *)r->wrapped;
}

int ring_read(struct ring *r, ring_take take, void *context, bool *any, struct error *err)
{
    /* Records written from now on wait for the next pass: this one must end. */
    uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
    uint64_t tail = r->page->data_tail, freed = tail;
    int result = 0;
    while (tail != head) {
        size_t size;
        const struct perf_event_header *h = ring_record(r, tail, head - tail, &size);
        if (!h) {
            result =
                error_set(err, ERROR_FORMAT, "the ring of cpu %d has a malformed record at %llu",
                          r->cpu, (unsigned long long)tail);
            break;
        }
        *any = true;
        result = take(context, r->cpu, h, err);
        if (result < 0)
            break;
        tail += size;
        if (tail - freed >= CONSUME_AT) {
            __atomic_store_n(&r->page->data_tail, tail, __ATOMIC_RELEASE);
            freed = tail;
        }
    }
    __atomic_store_n(&r->page->data_tail, result < 0 ? head : tail, __ATOMIC_RELEASE);
    return result;
}

int ring_poll_fd(const struct ring *r)
{
    return r->alive < r->nr_fds ? r->fds[r->alive] : -1;
}

void ring_next_fd(struct ring *r)
{
    r->alive += r->alive < r->nr_fds;
}
