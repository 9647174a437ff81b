/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory is measured behind up to PLAN_SAMPLES_MAX calls, because it costs more than a call. The
 * calls are cut into as many parts, and of each part it is the call behind which the most bytes
 * live: so no peak of what is requested is missed.
 */
#include "alloc/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct making {
    struct alloc_plan *plan;
    uint8_t *map;
    uint32_t *first;
    struct plan_call *calls;
    uint32_t *last; /* of each thread */
    uint64_t first_ticks;
    double ns_per_tick;
};

static uint64_t align(uint64_t v, uint64_t to)
{
    return (v + to - 1) / to * to;
}

/* Returns how often memory is measured. The kernel takes some PAGE_NS for each page of the process;
 * all measurements of a run together take MEASURE_NS at most, if there are SAMPLES_LEAST. A short
 * trace has fewer, or its replay would only measure. */
static uint32_t choose_samples(uint64_t peak, uint32_t calls)
{
    enum { PAGE_NS = 100, SAMPLES_LEAST = 100, OWN_PAGES = 1000, CALLS_EACH = 16 };
    const uint64_t MEASURE_NS = 3000000000;
    uint64_t nr = MEASURE_NS / PAGE_NS / (peak / TRACE_BLOCK + OWN_PAGES);
    nr = nr < PLAN_SAMPLES_MAX ? nr : PLAN_SAMPLES_MAX;
    nr = nr < calls / CALLS_EACH ? nr : calls / CALLS_EACH;
    nr = nr > SAMPLES_LEAST ? nr : SAMPLES_LEAST;
    return nr < calls ? (uint32_t)nr : calls;
}

/* Check the sizes, which are known since the trace was read once, and set the head. */
static int measure_plan(const struct alloc_trace *t, uint64_t max_memory, struct plan_head *h,
                        struct error *err)
{
    const struct alloc_counts *c = alloc_trace_counts(t);
    const char *program = alloc_trace_info(t)->program;
    const unsigned long long mib = 1 << 20;
    if (!c->changes)
        return error_set(err, ERROR_NOT_FOUND, "the trace of %.100s has no calls", program);
    if (c->changes >= PLAN_NONE)
        return error_set(err, ERROR_UNSUPPORTED, "%" PRIu64 " calls are too many for a replay",
                         c->changes);
    h->call_bytes = sizeof(struct plan_call);
    h->measure_bytes = sizeof(struct replay_measure);
    h->calls = (uint32_t)c->changes;
    h->blocks = (uint32_t)c->blocks;
    h->threads = alloc_trace_info(t)->writers;
    h->samples = choose_samples(c->peak, h->calls);
    h->calls_at = align(sizeof(*h) + ((uint64_t)h->threads + h->samples) * sizeof(uint32_t), 64);
    h->size = h->calls_at + (uint64_t)h->calls * sizeof(struct plan_call);
    const uint64_t all = h->size + (uint64_t)h->blocks * sizeof(void *);
    if (all > max_memory)
        return error_set(err, ERROR_UNSUPPORTED,
                         "to replay %" PRIu64 " calls takes %llu MiB of memory, more than "
                         "--max-memory",
                         c->changes, (unsigned long long)all / mib);
    if (c->peak > max_memory)
        return error_set(err, ERROR_UNSUPPORTED,
                         "%.100s had blocks of %llu MiB at once, and a replay uses all of them: "
                         "more than --max-memory",
                         program, (unsigned long long)c->peak / mib);
    return 0;
}

static int create_file(struct making *m, struct error *err)
{
    struct alloc_plan *p = m->plan;
    const struct plan_head *h = &p->head;
    p->fd = memfd_create("ljperf-plan", MFD_CLOEXEC);
    if (p->fd < 0 || ftruncate(p->fd, (off_t)h->size) < 0)
        return error_system(err, errno, "no memory file can be made");
    m->map = mmap(NULL, h->size, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    if (m->map == MAP_FAILED) {
        m->map = NULL;
        return error_system(err, errno, "the memory file cannot be mapped");
    }
    p->samples = calloc(h->samples, sizeof(*p->samples));
    p->requested = calloc(h->samples, sizeof(*p->requested));
    m->last = calloc(h->threads, sizeof(*m->last));
    if (!p->samples || !p->requested || !m->last)
        return error_no_memory(err);
    memcpy(m->map, h, sizeof(*h));
    m->first = (uint32_t *)(m->map + sizeof(*h));
    m->calls = (struct plan_call *)(m->map + h->calls_at);
    for (uint32_t i = 0; i < h->threads; i++)
        m->first[i] = m->last[i] = PLAN_NONE;
    return 0;
}

/* Returns when a call was, since the first one. */
static uint64_t time_of(const struct making *m, const struct alloc_call *call)
{
    const double MOST = 1e18;
    const double ns = (double)(call->ticks - m->first_ticks) * m->ns_per_tick;
    return call->ticks < m->first_ticks ? 0 : ns < MOST ? (uint64_t)ns : (uint64_t)MOST;
}

static void add_call(struct making *m, uint32_t number, const struct alloc_call *call)
{
    if (!number)
        m->first_ticks = call->ticks;
    m->calls[number] = (struct plan_call){.size = call->size,
                                          .old_size = call->old_size,
                                          .ns = time_of(m, call),
                                          .block = call->block,
                                          .old = call->old,
                                          .next = PLAN_NONE,
                                          .thread = (uint16_t)call->writer,
                                          .operation = (uint8_t)call->operation,
                                          .alignment = (uint8_t)call->alignment};
    if (m->last[call->writer] == PLAN_NONE)
        m->first[call->writer] = number;
    else
        m->calls[m->last[call->writer]].next = number;
    m->last[call->writer] = number;
}

/* Measure behind the call of its part at which the most bytes live. */
static void choose_sample(struct alloc_plan *p, uint32_t number, uint64_t live)
{
    const struct plan_head *h = &p->head;
    const uint32_t part = (uint32_t)((uint64_t)number * h->samples / h->calls);
    const bool is_first =
        !number || part != (uint32_t)((uint64_t)(number - 1) * h->samples / h->calls);
    if (!is_first && live <= p->requested[part])
        return;
    p->samples[part] = number;
    p->requested[part] = live;
}

static int add_calls(struct making *m, struct alloc_trace *t, struct error *err)
{
    const struct plan_head *h = &m->plan->head;
    struct alloc_call call;
    uint32_t number = 0;
    int got;
    alloc_trace_rewind(t);
    while ((got = alloc_trace_next(t, &call, err)) > 0) {
        if (number == h->calls || (call.operation != TRACE_FREE && call.block >= h->blocks))
            return error_set(err, ERROR_FORMAT, "the trace is still being written");
        add_call(m, number, &call);
        choose_sample(m->plan, number++, alloc_trace_counts(t)->live);
    }
    if (!got && number != h->calls)
        return error_set(err, ERROR_FORMAT, "the trace is still being written");
    memcpy(m->first + h->threads, m->plan->samples, h->samples * sizeof(uint32_t));
    return got;
}

int alloc_plan_create(struct alloc_trace *t, uint64_t max_memory, struct alloc_plan *ret,
                      struct error *err)
{
    struct making m = {.plan = ret, .ns_per_tick = alloc_trace_info(t)->ns_per_tick};
    *ret = (struct alloc_plan){.fd = -1};
    int failed = alloc_trace_count(t, err);
    if (!failed)
        failed = measure_plan(t, max_memory, &ret->head, err);
    if (!failed)
        failed = create_file(&m, err);
    if (!failed)
        failed = add_calls(&m, t, err);
    free(m.last);
    if (m.map)
        munmap(m.map, ret->head.size);
    if (failed)
        alloc_plan_free(ret);
    return failed ? -1 : 0;
}

void alloc_plan_free(struct alloc_plan *p)
{
    if (p->fd >= 0)
        close(p->fd);
    free(p->samples);
    free(p->requested);
    *p = (struct alloc_plan){.fd = -1};
}
