/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/memory.h"

static void note_word(struct memory_reads *r, uint64_t address)
{
    uint64_t start = address & ~(uint64_t)(MEMORY_WINDOW - 1);
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
    r->at[i - 1].words |= UINT64_C(1) << (address % MEMORY_WINDOW / 8);
}

void memory_note(struct memory_reads *r, uint64_t address, size_t size)
{
    enum { MOST = 64 };
    if (size > MOST) {
        r->lost = true;
        return;
    }
    for (uint64_t at = address & ~UINT64_C(7); at < address + size; at += 8)
        note_word(r, at);
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

/* Returns whether another sample of the thread might have this address in its stack copy. */
static bool is_near_stack(const struct memory *m, uint64_t address)
{
    enum { NEAR = 1 << 26 };
    return address - (m->stack_start - NEAR) < 2 * (uint64_t)NEAR;
}

/* What is read. This decides how much other moments say about it. */
enum matter {
    MATTER_ANY,
    MATTER_FRAME,  /* a native frame: other moments say nothing */
    MATTER_MOVING, /* a VM's stack or state: other moments are never exact */
};

static inline bool read_layers(const struct memory *m, uint64_t address, void *to, size_t size,
                               enum matter matter, enum provenance *provenance)
{
    bool noted = m->reads && m->reads->on;
    if (size > UINT64_MAX - address)
        return false;
    if (m->stack_far_size && read_far(m, address, to, size)) {
        if (noted)
            memory_note(m->reads, address, size);
        return true;
    }
    if (noted)
        m->reads->lost |= is_near_stack(m, address);
    for (size_t i = 0; i < m->nr_layers; i++) {
        const struct memory_layer *layer = &m->layers[i];
        enum provenance source = PROVENANCE_EXACT;
        if ((matter == MATTER_FRAME && layer->other_moments) ||
            !layer->read(layer->context, address, to, size, m->time, &source))
            continue;
        if (matter == MATTER_MOVING && layer->other_moments && source == PROVENANCE_EXACT)
            source = PROVENANCE_STALE;
        if (m->span && !layer->keeps_span)
            memory_span_empty(m->span);
        if (source > *provenance)
            *provenance = source;
        return true;
    }
    return false;
}

bool memory_read_layers(const struct memory *m, uint64_t address, void *to, size_t size,
                        enum provenance *provenance)
{
    return read_layers(m, address, to, size, MATTER_ANY, provenance);
}

bool memory_read_frame_layers(const struct memory *m, uint64_t address, void *to, size_t size,
                              enum provenance *provenance)
{
    return read_layers(m, address, to, size, MATTER_FRAME, provenance);
}

bool memory_read_moving(const struct memory *m, uint64_t address, void *to, size_t size,
                        enum provenance *provenance)
{
    return memory_read_near(m, address, to, size) ||
           read_layers(m, address, to, size, MATTER_MOVING, provenance);
}

bool memory_read_instant(const struct memory *m, uint64_t address, void *to, size_t size)
{
    if (size > UINT64_MAX - address)
        return false;
    if (m->reads)
        m->reads->lost = true; /* data that came with a sample is valid for no other sample */
    if (memory_read_stack(m, address, to, size))
        return true;
    for (size_t i = 0; i < m->nr_layers; i++) {
        const struct memory_layer *layer = &m->layers[i];
        enum provenance source = PROVENANCE_EXACT;
        if (layer->instant && layer->read(layer->context, address, to, size, m->time, &source))
            return source == PROVENANCE_EXACT;
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
        if (layer->instant && (!layer->has || layer->has(layer->context, address, size)))
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
    for (size_t i = 0; i < m->nr_layers; i++) {
        const struct memory_layer *layer = &m->layers[i];
        enum provenance source = PROVENANCE_EXACT;
        if (layer->peek) {
            const uint8_t *bytes = layer->peek(layer->context, address, size, m->time, &source);
            if (bytes && source > *provenance)
                *provenance = source;
            return bytes;
        }
        if (!layer->has || layer->has(layer->context, address, size))
            return NULL; /* this layer may have the bytes */
    }
    return NULL;
}

bool memory_is_instant(const struct memory *m, uint64_t address)
{
    uint8_t byte;
    enum provenance ignored = PROVENANCE_EXACT;
    for (size_t i = 0; i < m->nr_layers; i++) {
        const struct memory_layer *layer = &m->layers[i];
        if (layer->instant && layer->read(layer->context, address, &byte, 1, m->time, &ignored))
            return true;
    }
    return false;
}

struct memory_proof memory_prove(const struct memory *m, uint64_t address, size_t size,
                                 const struct memory_compare *compare, enum provenance read)
{
    for (size_t i = 0; i < m->nr_layers && size <= UINT64_MAX - address; i++) {
        const struct memory_layer *layer = &m->layers[i];
        struct memory_proof proof;
        if (layer->prove && layer->prove(layer->context, address, size, m->time, compare, &proof))
            return proof;
    }
    return (struct memory_proof){.provenance = read};
}

bool memory_was_unlike(const struct memory *m, uint64_t address, size_t size,
                       const struct memory_span *when, const struct memory_compare *compare)
{
    for (size_t i = 0; i < m->nr_layers && size <= UINT64_MAX - address; i++) {
        const struct memory_layer *layer = &m->layers[i];
        if (layer->unlike && layer->unlike(layer->context, address, size, m->time, when, compare))
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
