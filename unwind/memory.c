/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/memory.h"

/* Note words of one window, a bit each. */
static void note_words(struct memory_reads *r, uint64_t start, uint64_t words)
{
    uint32_t i = r->nr;
    while (i && r->at[i - 1].start != start)
        i--;
    if (!i && r->nr == MEMORY_WINDOWS) {
        r->lost = true;
        return;
    }
    if (!i) {
        i = ++r->nr;
        r->at[i - 1] = (struct memory_window){.start = start};
    }
    r->at[i - 1].words |= words;
}

void memory_note(struct memory_reads *r, uint64_t address, size_t size)
{
    enum { MOST = 64, WORDS = MEMORY_WINDOW / 8 };
    if (r->watch)
        r->watch(r->watch_context, address, size);
    if (size > MOST) {
        r->lost = true;
        return;
    }
    if (!size)
        return;
    uint64_t start = address & ~(uint64_t)(MEMORY_WINDOW - 1), first = (address - start) / 8;
    uint64_t words = (address % 8 + size + 7) / 8, run = (UINT64_C(1) << words) - 1;
    note_words(r, start, run << first);
    if (first + words > WORDS)
        note_words(r, start + MEMORY_WINDOW, run >> (WORDS - first));
}

/* Read from the second piece of the stack, or across the border of the two pieces. */
static __attribute__((noinline)) bool read_far(const struct memory *m, uint64_t address, void *to,
                                               size_t size)
{
    uint64_t at = address - m->stack_start, end = memory_stack_size(m);
    if (!m->stack_far_size || at >= end || end - at < size)
        return false;
    size_t near = at < m->stack_size ? (size_t)(m->stack_size - at) : 0;
    if (near)
        memcpy(to, m->stack + at, near);
    memcpy((uint8_t *)to + near, m->stack_far + (at + near - m->stack_size), size - near);
    return true;
}

bool memory_read_stack(const struct memory *m, uint64_t address, void *to, size_t size)
{
    uint64_t at = address - m->stack_start;
    if (at >= m->stack_size || m->stack_size - at < size)
        return read_far(m, address, to, size);
    memcpy(to, m->stack + at, size);
    return true;
}

/* The answer for bytes of the stack copy. */
static struct memory_answer of_stack(const struct memory_query *q)
{
    return (struct memory_answer){.same = {0, UINT64_MAX}, .read = {q->time, q->time}};
}

/* Returns whether another sample of the thread might have this address in its stack copy. */
static bool is_near_stack(const struct memory *m, uint64_t address)
{
    enum { NEAR = 1 << 26 };
    return address - (m->stack_start - NEAR) < 2 * (uint64_t)NEAR;
}

/* Ask the first piece of the stack. Like ask_far, it is out of line for the sake of those who ask
 * the layers: they are most. */
static __attribute__((noinline)) bool ask_near(const struct memory *m, const struct memory_query *q,
                                               void *to, struct memory_answer *a)
{
    if (!memory_read_near(m, q->address, to, q->size))
        return false;
    *a = of_stack(q);
    return true;
}

static __attribute__((noinline)) bool ask_far(const struct memory *m, const struct memory_query *q,
                                              void *to, struct memory_answer *a)
{
    if (!read_far(m, q->address, to, q->size))
        return false;
    if (m->reads && m->reads->on)
        memory_note(m->reads, q->address, q->size);
    *a = of_stack(q);
    return true;
}

static inline bool ask_layers(const struct memory *m, const struct memory_query *q, void *to,
                              struct memory_answer *a)
{
    if (q->size > UINT64_MAX - q->address)
        return false;
    if (m->stack_far_size && ask_far(m, q, to, a))
        return true;
    if (m->reads && m->reads->on)
        m->reads->lost |= is_near_stack(m, q->address);
    memory_answer_begin(a, q);
    for (size_t i = 0; i < m->nr_layers; i++) {
        const struct memory_layer *layer = &m->layers[i];
        if ((q->kind == MEMORY_FRAME && layer->when == MEMORY_OF_OTHER_TIMES) ||
            !layer->read(layer->context, q, to, a))
            continue;
        a->layer = layer;
        if (q->kind == MEMORY_MOVING && layer->when == MEMORY_OF_OTHER_TIMES &&
            a->provenance == PROVENANCE_EXACT)
            a->provenance = PROVENANCE_STALE;
        return true;
    }
    return false;
}

bool memory_ask(const struct memory *m, const struct memory_query *q, void *to,
                struct memory_answer *a)
{
    bool is_near = q->address - m->stack_start < m->stack_size;
    return (is_near && ask_near(m, q, to, a)) || ask_layers(m, q, to, a);
}

bool memory_read_layers(const struct memory *m, uint64_t address, void *to, size_t size,
                        enum memory_kind kind, enum provenance *provenance)
{
    const struct memory_query q = {.address = address, .size = size, .time = m->time, .kind = kind};
    struct memory_answer a;
    if (!ask_layers(m, &q, to, &a))
        return false;
    if (a.provenance > *provenance)
        *provenance = a.provenance;
    return true;
}

bool memory_has_moments(const struct memory *m)
{
    for (size_t i = 0; i < m->nr_layers; i++)
        if (m->layers[i].has_moments)
            return true;
    return false;
}

bool memory_read_instant(const struct memory *m, uint64_t address, void *to, size_t size)
{
    if (size > UINT64_MAX - address)
        return false;
    if (m->reads)
        m->reads->lost = true; /* data that came with a sample is valid for no other sample */
    if (memory_read_stack(m, address, to, size))
        return true;
    const struct memory_query q = {.address = address, .size = size, .time = m->time};
    struct memory_answer a;
    memory_answer_begin(&a, &q);
    for (size_t i = 0; i < m->nr_layers; i++) {
        const struct memory_layer *layer = &m->layers[i];
        if (layer->when == MEMORY_OF_SAMPLE && layer->read(layer->context, &q, to, &a))
            return a.provenance == PROVENANCE_EXACT;
    }
    return false;
}

bool memory_has_instant(const struct memory *m, uint64_t address, uint64_t size)
{
    if (size > UINT64_MAX - address)
        return false;
    if (m->reads)
        m->reads->lost = true;
    if (address < m->stack_start + memory_stack_size(m) && m->stack_start < address + size)
        return true;
    for (size_t i = 0; i < m->nr_layers; i++) {
        const struct memory_layer *layer = &m->layers[i];
        if (layer->when == MEMORY_OF_SAMPLE &&
            (!layer->has || layer->has(layer->context, address, size)))
            return true;
    }
    return false;
}

const uint8_t *memory_peek(const struct memory *m, uint64_t address, size_t size,
                           enum provenance *provenance)
{
    if (size > UINT64_MAX - address || (m->reads && m->reads->on) ||
        (address < m->stack_start + memory_stack_size(m) && m->stack_start < address + size))
        return NULL;
    const struct memory_query q = {.address = address, .size = size, .time = m->time};
    for (size_t i = 0; i < m->nr_layers; i++) {
        const struct memory_layer *layer = &m->layers[i];
        if (layer->peek) {
            struct memory_answer a;
            memory_answer_begin(&a, &q);
            const uint8_t *bytes = layer->peek(layer->context, &q, &a);
            if (bytes && a.provenance > *provenance)
                *provenance = a.provenance;
            return bytes;
        }
        if (!layer->has || layer->has(layer->context, address, size))
            return NULL; /* this layer may have the bytes */
    }
    return NULL;
}

bool memory_is_instant(const struct memory *m, uint64_t address)
{
    const struct memory_query q = {.address = address, .size = 1, .time = m->time};
    struct memory_answer a;
    uint8_t byte;
    memory_answer_begin(&a, &q);
    for (size_t i = 0; i < m->nr_layers; i++) {
        const struct memory_layer *layer = &m->layers[i];
        if (layer->when == MEMORY_OF_SAMPLE && layer->read(layer->context, &q, &byte, &a))
            return true;
    }
    return false;
}

struct memory_proof memory_prove(const struct memory *m, uint64_t address, size_t size,
                                 const struct memory_compare *compare, enum provenance read)
{
    struct memory_span same = {0, UINT64_MAX};
    for (size_t i = 0; i < m->nr_layers && size <= UINT64_MAX - address; i++) {
        const struct memory_layer *layer = &m->layers[i];
        struct memory_proof proof = {.same = {0, UINT64_MAX}};
        bool proves =
            layer->prove && layer->prove(layer->context, address, size, m->time, compare, &proof);
        memory_span_narrow(&same, &proof.same);
        proof.same = same;
        if (proves)
            return proof;
    }
    return (struct memory_proof){.provenance = read, .same = same};
}

bool memory_was_unlike(const struct memory *m, uint64_t address, size_t size,
                       const struct memory_span *when, const struct memory_compare *compare,
                       struct memory_span *same)
{
    struct memory_span ignored = {0, UINT64_MAX};
    for (size_t i = 0; i < m->nr_layers && size <= UINT64_MAX - address; i++) {
        const struct memory_layer *layer = &m->layers[i];
        if (layer->unlike && layer->unlike(layer->context, address, size, m->time, when, compare,
                                           same ? same : &ignored))
            return true;
    }
    return false;
}

bool memory_version(const struct memory *m, uint64_t address, uint64_t time, bool later,
                    uint64_t *ret)
{
    bool found = false;
    for (size_t i = 0; i < m->nr_layers; i++) {
        const struct memory_layer *layer = &m->layers[i];
        uint64_t at;
        if (!layer->version || !layer->version(layer->context, address, time, later, &at) ||
            (found && (later ? at >= *ret : at <= *ret)))
            continue;
        *ret = at;
        found = true;
    }
    return found;
}
