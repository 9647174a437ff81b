/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ljperf-alloc.so: the functions of malloc's family, each of which calls the next library's and
 * records the call (writer.h). `ljperf alloc-trace` has it loaded before all other libraries.
 *
 * It is a library of its own: it uses nothing of ljperf, and never allocates. The compiler must not
 * know these functions (-fno-builtin-malloc and so on), or it replaces their calls by others.
 */
#include "alloc/preload/writer.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

PUBLIC void *malloc(size_t size);
PUBLIC void *calloc(size_t nr, size_t size);
PUBLIC void *realloc(void *old, size_t size);
PUBLIC void *reallocarray(void *old, size_t nr, size_t size);
PUBLIC void free(void *p);
PUBLIC int posix_memalign(void **ret, size_t alignment, size_t size);
PUBLIC void *aligned_alloc(size_t alignment, size_t size);
PUBLIC void *memalign(size_t alignment, size_t size);
PUBLIC void *valloc(size_t size);
PUBLIC void *pvalloc(size_t size);

/* ---- the functions that are called --------------------------------------------------------- */

static void *first_malloc(size_t size);
static void *first_calloc(size_t nr, size_t size);
static void *first_realloc(void *old, size_t size);
static void first_free(void *p);
static int first_posix_memalign(void **ret, size_t alignment, size_t size);
static void *first_aligned(size_t alignment, size_t size);
static void *first_page(size_t size);

/* Before the first call they are functions that look for them, so no call has to ask. */
static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
} next = {first_malloc,  first_calloc,  first_realloc, first_free, first_posix_memalign,
          first_aligned, first_aligned, first_page,    first_page};

/* What dlsym() itself allocates, while the functions are looked for. It is never freed, and not
 * recorded. */
static _Alignas(16) char early[64 << 10];
static size_t early_used;
static bool is_looking;

static bool is_early(const void *p)
{
    return (uintptr_t)p - (uintptr_t)early < sizeof(early);
}

static void *early_get(size_t size)
{
    if (size > sizeof(early) - early_used) {
        errno = ENOMEM;
        return NULL;
    }
    void *p = early + early_used;
    early_used += (size + 15) / 16 * 16;
    if (early_used > sizeof(early))
        early_used = sizeof(early);
    return p;
}

static void *no_aligned(size_t alignment, size_t size)
{
    (void)alignment, (void)size;
    errno = ENOMEM;
    return NULL;
}

static void *no_page_function(size_t size)
{
    return no_aligned(0, size);
}

static int no_posix_memalign(void **ret, size_t alignment, size_t size)
{
    (void)ret, (void)no_aligned(alignment, size);
    return ENOMEM;
}

/* Returns the object of a function: where it is mapped. */
static void *object_of(void *function)
{
    Dl_info info;
    return function && dladdr(function, &info) ? info.dli_fbase : NULL;
}

static uint32_t look_at_allocator(void *function)
{
    void *object = object_of(function);
    if (object == object_of(dlsym(RTLD_NEXT, "abort")))
        return 0;
    /* (A name that is not there allocates a message.) */
    return TRACE_REPLACED |
           (object == object_of(dlsym(RTLD_NEXT, "_Znwm")) ? (uint32_t)TRACE_OWN_NEW : 0);
}

#define FIND(name, otherwise)                                    \
    __extension__({                                              \
        void *found_ = dlsym(RTLD_NEXT, name);                   \
        found_ ? (__typeof__(&(otherwise)))found_ : (otherwise); \
    })

/* Find the functions and begin the trace. Programs call malloc before their first thread begins. */
static void look(void)
{
    if (is_looking)
        return;
    is_looking = true;
    void *(*const found_malloc)(size_t) = FIND("malloc", no_page_function);
    next.calloc = FIND("calloc", no_aligned);
    next.realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    next.free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    next.posix_memalign = FIND("posix_memalign", no_posix_memalign);
    next.aligned_alloc = FIND("aligned_alloc", no_aligned);
    next.memalign = FIND("memalign", no_aligned);
    next.valloc = FIND("valloc", no_page_function);
    next.pvalloc = FIND("pvalloc", no_page_function);
    next.malloc = found_malloc;
    if (!next.realloc || !next.free)
        abort(); /* nothing else could be right */
    writer_start(look_at_allocator((void *)found_malloc));
}

static void *first_malloc(size_t size)
{
    look();
    return next.malloc == first_malloc ? early_get(size) : next.malloc(size);
}

static void *first_calloc(size_t nr, size_t size)
{
    look();
    if (next.calloc != first_calloc)
        return next.calloc(nr, size);
    return size && nr > SIZE_MAX / size ? NULL : early_get(nr * size); /* it is zero */
}

static void *first_realloc(void *old, size_t size)
{
    look();
    if (next.realloc != first_realloc)
        return next.realloc(old, size);
    void *p = early_get(size);
    if (p && old)
        memcpy(p, old,
               size < (size_t)((char *)p - (char *)old) ? size : (size_t)((char *)p - (char *)old));
    return p;
}

static void first_free(void *p)
{
    look();
    if (next.free != first_free)
        next.free(p);
}

static int first_posix_memalign(void **ret, size_t alignment, size_t size)
{
    look();
    return next.posix_memalign == first_posix_memalign ? ENOMEM
                                                       : next.posix_memalign(ret, alignment, size);
}

static void *first_aligned(size_t alignment, size_t size)
{
    look();
    return next.memalign == first_aligned ? no_aligned(alignment, size)
                                          : next.memalign(alignment, size);
}

static void *first_page(size_t size)
{
    return first_aligned((size_t)sysconf(_SC_PAGESIZE), size);
}

__attribute__((constructor)) static void begin_process(void)
{
    look();
}

/* ---- the calls ----------------------------------------------------------------------------- */

static inline bool is_recorded(void)
{
    return __builtin_expect(writer_page != NULL, 1);
}

void *malloc(size_t size)
{
    void *p = next.malloc(size);
    if (is_recorded())
        writer_put(TRACE_MALLOC, p, size);
    return p;
}

void *calloc(size_t nr, size_t size)
{
    size_t all;
    void *p = next.calloc(nr, size);
    if (__builtin_mul_overflow(nr, size, &all))
        all = SIZE_MAX;
    if (is_recorded())
        writer_put(TRACE_CALLOC, p, all);
    return p;
}

/* A block of ours goes to the allocator. */
static void *move_early(const void *old, size_t size)
{
    const size_t most = (size_t)(early + sizeof(early) - (const char *)old);
    void *p = malloc(size);
    if (p)
        memcpy(p, old, size < most ? size : most);
    return p;
}

void *realloc(void *old, size_t size)
{
    if (__builtin_expect(is_early(old) && writer_page, 0))
        return move_early(old, size);
    const uint64_t before = writer_ticks_before();
    void *p = next.realloc(old, size);
    if (is_recorded())
        writer_put_long(&(struct writer_long){
            .operation = TRACE_REALLOC, .before = before, .address = p, .old = old, .size = size});
    return p;
}

void *reallocarray(void *old, size_t nr, size_t size)
{
    size_t all;
    if (!__builtin_mul_overflow(nr, size, &all))
        return realloc(old, all);
    errno = ENOMEM;
    return NULL;
}

void free(void *p)
{
    if (!p || is_early(p))
        return;
    if (is_recorded())
        writer_put(TRACE_FREE, p, 0);
    next.free(p);
}

static void record_aligned(const void *p, size_t alignment, size_t size)
{
    const unsigned logarithm =
        alignment > 1 ? 64 - (unsigned)__builtin_clzll((unsigned long long)alignment - 1) : 0;
    if (is_recorded())
        writer_put_long(&(struct writer_long){
            .operation = TRACE_ALIGNED, .address = p, .size = size, .alignment = logarithm});
}

int posix_memalign(void **ret, size_t alignment, size_t size)
{
    const int failed = next.posix_memalign(ret, alignment, size);
    record_aligned(failed ? NULL : *ret, alignment, size);
    return failed;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    void *p = next.aligned_alloc(alignment, size);
    record_aligned(p, alignment, size);
    return p;
}

void *memalign(size_t alignment, size_t size)
{
    void *p = next.memalign(alignment, size);
    record_aligned(p, alignment, size);
    return p;
}

void *valloc(size_t size)
{
    void *p = next.valloc(size);
    record_aligned(p, (size_t)sysconf(_SC_PAGESIZE), size);
    return p;
}

void *pvalloc(size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *p = next.pvalloc(size);
    record_aligned(p, page, (size + page - 1) / page * page);
    return p;
}
