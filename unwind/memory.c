/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/memory.h"

/* From the stack's second piece, or across the seam. */
static bool read_stack(const struct memory *m, uint64_t address, void *to, size_t size)
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

bool memory_read_layers(const struct memory *m, uint64_t address, void *to, size_t size,
                        enum provenance *provenance)
{
    if (size > UINT64_MAX - address)
        return false;
    if (read_stack(m, address, to, size))
        return true;
    for (size_t i = 0; i < m->nr_layers; i++) {
        const struct memory_layer *layer = &m->layers[i];
        enum provenance source = PROVENANCE_EXACT;
        if (!layer->read(layer->context, address, to, size, m->time, &source))
            continue;
        if (m->span && !layer->keeps_span)
            *m->span = (struct memory_span){1, 0};
        if (source > *provenance)
            *provenance = source;
        return true;
    }
    return false;
}

bool memory_read_instant(const struct memory *m, uint64_t address, void *to, size_t size)
{
    uint64_t at = address - m->stack_start;
    if (size > UINT64_MAX - address)
        return false;
    if (at < m->stack_size && m->stack_size - at >= size) {
        memcpy(to, m->stack + at, size);
        return true;
    }
    if (read_stack(m, address, to, size))
        return true;
    for (size_t i = 0; i < m->nr_layers; i++) {
        const struct memory_layer *layer = &m->layers[i];
        enum provenance source = PROVENANCE_EXACT;
        if (layer->instant && layer->read(layer->context, address, to, size, m->time, &source))
            return source == PROVENANCE_EXACT;
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
        if (layer->unlike && layer->unlike(layer->context, address, size, when, compare))
            return true;
    }
    return false;
}
