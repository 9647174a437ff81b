/* SPDX-License-Identifier: GPL-2.0-only */
#include "live/memory_copy.h"

#include "base/heap.h"
#include "base/process_maps.h"

#include <string.h>

void memory_copy_free(struct memory_copy *c)
{
    heap_unreserve(c->bytes, c->reserved);
    vec_free(&c->ranges);
    *c = (struct memory_copy){0};
}

/* ---- copying ------------------------------------------------------------------------------- */

static int compare_ranges(const void *a, const void *b)
{
    const struct memory_range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Make one range of those that touch. Returns false when memory is out. */
static bool join_ranges(struct memory_copy *c, lua_scan_range_list *from)
{
    c->ranges.nr = 0;
    c->size = 0;
    if (from->nr)
        qsort(from->at, from->nr, sizeof(*from->at), compare_ranges);
    vec_foreach (r, from) {
        struct memory_copied *last = c->ranges.nr ? &c->ranges.at[c->ranges.nr - 1] : NULL;
        uint64_t start = r->start;
        if (last && start < last->start + last->size)
            start = last->start + last->size;
        if (start >= r->end)
            continue;
        if (last && start == last->start + last->size)
            last->size += r->end - start;
        else if (!vec_push(&c->ranges, (struct memory_copied){
                                           .start = start, .size = r->end - start, .at = c->size}))
            return false;
        c->size += r->end - start;
    }
    return true;
}

static bool make_room(struct memory_copy *c)
{
    if (c->size <= c->reserved)
        return true;
    heap_unreserve(c->bytes, c->reserved);
    c->reserved = c->size + c->size / 8;
    c->bytes = heap_reserve(c->reserved);
    if (!c->bytes)
        c->reserved = 0;
    return c->bytes != NULL;
}

/* Copy a range in pieces. Pages that are gone meanwhile become zero. */
static void copy_range(struct memory_copy *c, const struct memory_copied *r,
                       const struct process_memory *from)
{
    enum { PIECE = 1 << 20, PAGE = 4096 };
    for (uint64_t done = 0, size; done < r->size; done += size) {
        size = r->size - done < PIECE ? r->size - done : PIECE;
        uint8_t *to = c->bytes + r->at + done;
        if (process_memory_read(from, r->start + done, to, size))
            continue;
        for (uint64_t at = 0; at < size; at += PAGE) {
            uint64_t page = size - at < PAGE ? size - at : PAGE;
            if (!process_memory_read(from, r->start + done + at, to + at, page))
                memset(to + at, 0, page);
        }
    }
}

/* Add the first thread's stack; those of the others are anonymous memory. */
static int add_stack(pid_t pid, lua_scan_range_list *ret, struct error *err)
{
    struct process_maps maps;
    bool ok = true;
    if (process_maps_read(pid, &maps, err) < 0)
        return -1;
    vec_foreach (map, &maps.maps) {
        if (ok && strcmp(map->path, "[stack]") == 0)
            ok = vec_push(ret, (struct memory_range){map->start, map->end});
    }
    process_maps_free(&maps);
    return ok ? 0 : error_no_memory(err);
}

int memory_copy_take(struct memory_copy *ret, pid_t pid, const struct process_memory *from,
                     uint64_t most, struct error *err)
{
    lua_scan_range_list ranges = {0};
    int failed = lua_scan_heap(pid, &ranges, err) || lua_scan_ranges(pid, &ranges, err) ||
                 add_stack(pid, &ranges, err);
    if (!failed && !join_ranges(ret, &ranges))
        failed = error_no_memory(err);
    vec_free(&ranges);
    if (failed)
        return -1;
    if (ret->size > most)
        return error_set(err, ERROR_UNSUPPORTED,
                         "the process has %llu MiB of memory of its own, and at most %llu MiB are "
                         "copied: let it dump a core (gcore), or allow more (--max-memory)",
                         (unsigned long long)(ret->size >> 20), (unsigned long long)(most >> 20));
    if (!make_room(ret))
        return error_no_memory(err);
    vec_foreach (r, &ret->ranges)
        copy_range(ret, r, from);
    return 0;
}

/* ---- the layer ----------------------------------------------------------------------------- */

static const uint8_t *find(const struct memory_copy *c, uint64_t address, size_t size)
{
    size_t low = 0, high = c->ranges.nr;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (c->ranges.at[mid].start + c->ranges.at[mid].size <= address)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == c->ranges.nr || address < c->ranges.at[low].start)
        return NULL;
    const struct memory_copied *r = &c->ranges.at[low];
    const uint64_t in = address - r->start;
    return r->size - in >= size ? c->bytes + r->at + in : NULL;
}

static bool read_copy(void *context, const struct memory_query *q, void *to,
                      struct memory_answer *answer)
{
    const uint8_t *bytes = find(context, q->address, q->size);
    (void)answer; /* exact */
    if (bytes)
        memcpy(to, bytes, q->size);
    return bytes != NULL;
}

struct memory_layer memory_copy_layer(struct memory_copy *c)
{
    return (struct memory_layer){.name = "copy", .read = read_copy, .context = c};
}
