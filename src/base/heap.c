/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The first touch of a page costs as much as unwinding ten frames, and tables that double touch
 * each page twice. In a run of 80 ms, page faults took 10 ms (5,969 faults; 2,400 with this
 * preparation). Large blocks stay with the system. Large blocks in the heap would save a tenth of
 * two threads' time on a recording of 1.1 GB, but the space they leave behind as they grow takes 13
 * MB more memory (77 MB; 64 MB without).
 */
#include "base/heap.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Blocks of at least HEAP_LARGE bytes come from the system when the heap has no room left; free()
 * returns these blocks to the system. */
enum {
    HEAP_STEP = 32 << 20, /* of address space: untouched pages take no memory */
    FIRST = 256 << 10,
    LATER_STEP = 4 << 20,
    HUGE_PAGE = 2 << 20,
    SMALL_PAGE = 4096,
};

/* Does a limit count address space? A large step may be all the space that such a limit leaves. */
static bool is_limited(void)
{
    struct rlimit all, data;
    return getrlimit(RLIMIT_AS, &all) < 0 || getrlimit(RLIMIT_DATA, &data) < 0 ||
           all.rlim_cur != RLIM_INFINITY || data.rlim_cur != RLIM_INFINITY;
}

#ifdef __GLIBC__
/* Returns a block at the start of the heap, which has grown by HEAP_STEP; NULL: the heap has not
 * grown. After that the heap grows in smaller steps. */
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
    mallopt(M_ARENA_MAX, 1); /* memory freed by one thread serves the others */
    if (is_limited())
        return;
    mallopt(M_MMAP_THRESHOLD, HEAP_LARGE);
    mallopt(M_TRIM_THRESHOLD, INT32_MAX);
    void *grow = grow_once();
    uintptr_t end = (uintptr_t)sbrk(0), start = (uintptr_t)grow;
    /* Another allocator (a sanitizer's) has its pages elsewhere: leave its memory alone. */
    bool ours = grow && start < end && end - start <= 2 * (uintptr_t)HEAP_STEP;
    free(grow);
    if (!ours)
        return;
    /* malloc has written the size of the remaining space behind `grow`, so that page has been
     * touched. The system gives no huge page where a small page already exists. */
    uintptr_t written = start + FIRST + SMALL_PAGE;
    uintptr_t huge = (written + HUGE_PAGE - 1) & ~((uintptr_t)HUGE_PAGE - 1);
    /* A hint: it may fail. */
    madvise((void *)huge, end - huge, MADV_HUGEPAGE); // NOLINT: an address
    /* The space before `huge` would come in small pages; it costs nothing while it is never used.
     * This malloc takes that space from the top of the heap, whatever its size, because the top has
     * room for it. */
    void *volatile left_out = malloc(huge - start - 64); /* compilers drop unused calls */
    (void)left_out;
#endif
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
