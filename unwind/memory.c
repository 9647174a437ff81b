/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/memory.h"

bool memory_read_layers(const struct memory *m, uint64_t address, void *to, size_t size,
                        enum provenance *provenance)
{
    if (size > UINT64_MAX - address)
        return false;
    for (size_t i = 0; i < m->nr_layers; i++) {
        const struct memory_layer *layer = &m->layers[i];
        enum provenance source = PROVENANCE_EXACT;
        if (!layer->read(layer->context, address, to, size, m->time, &source))
            continue;
        if (source > *provenance)
            *provenance = source;
        return true;
    }
    return false;
}
