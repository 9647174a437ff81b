/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A first touch of a page costs as much as unwinding ten frames, and tables that double touch each
 * page twice: of a run of 80 ms it was 10 (5,969 faults; so prepared 2,400). Large blocks stay the
 * system's: in the heap, too, they spare a tenth of two threads' time on a recording of 1.1 GB, but
 * what they leave behind as they grow takes 13 MB of memory more (77; 64 without).
 */
#include "base/heap.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Blocks from LARGE on are the system's where the heap has no room left: they go when freed. */
enum {
    HEAP_STEP = 32 << 20, /* of addresses: what is never touched takes no memory */
    LARGE = 512 << 10,
    FIRST = 256 << 10,
    LATER_STEP = 4 << 20,
    HUGE_PAGE = 2 << 20,
    SMALL_PAGE = 4096,
};

/* Address space is counted here: a large step may be all that there is. */
static bool is_limited(void)
{
    struct rlimit all, data;
    return getrlimit(RLIMIT_AS, &all) < 0 || getrlimit(RLIMIT_DATA, &data) < 0 ||
           all.rlim_cur != RLIM_INFINITY || data.rlim_cur != RLIM_INFINITY;
}

#ifdef __GLIBC__
/* A block at the heap's start, which has grown by HEAP_STEP; NULL: it has not. What is needed
 * beyond that comes in smaller steps. */
static void *grow_once(void)
{
    mallopt(M_TOP_PAD, HEAP_STEP);
    void *first = malloc(FIRST);
    mallopt(M_TOP_PAD, LATER_STEP);
    return first;
}
#endif

void heap_prepare(void)
{
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX, 1); /* what one thread frees serves the others */
    if (is_limited())
        return;
    mallopt(M_MMAP_THRESHOLD, LARGE);
    mallopt(M_TRIM_THRESHOLD, INT32_MAX);
    void *grow = grow_once();
    uintptr_t end = (uintptr_t)sbrk(0), start = (uintptr_t)grow;
    /* Not another allocator's (a sanitizer's), which has its pages elsewhere. */
    bool ours = grow && start < end && end - start <= 2 * (uintptr_t)HEAP_STEP;
    free(grow);
    if (!ours)
        return;
    /* Behind `grow` stands the size of what is left: that page has been written, and where there is
     * a small page a huge one does not come. */
    uintptr_t written = start + FIRST + SMALL_PAGE;
    uintptr_t huge = (written + HUGE_PAGE - 1) & ~((uintptr_t)HUGE_PAGE - 1);
    madvise((void *)huge, end - huge, MADV_HUGEPAGE); /* a hint: it may fail */
    /* What lies before it would come in small pages: never used, it costs nothing. From the top of
     * the heap, whatever its size: there is room for it. */
    void *volatile left_out = malloc(huge - start - 64); /* else compilers leave the call out */
    (void)left_out;
#endif
}

void *heap_table(size_t nr, size_t size)
{
    enum { PAGE = 4096 };
    volatile char *table = calloc(nr, size);
    for (size_t at = 0; table && nr * size >= LARGE && at < nr * size; at += PAGE)
        table[at] = 0;
    return (void *)(uintptr_t)table;
}

void *heap_reserve(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void heap_unreserve(void *p, size_t size)
{
    if (p)
        munmap(p, size);
}
