/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/arena.h"

#include <stdlib.h>

enum { BLOCK_SIZE = 64 << 10, ALIGN = 16 };

struct arena_block {
    struct arena_block *next;
    size_t used, size;
    _Alignas(ALIGN) char bytes[];
};

static struct arena_block *add_block(struct arena *a, size_t want)
{
    size_t size = want > BLOCK_SIZE ? want : BLOCK_SIZE;
    struct arena_block *b = malloc(sizeof(*b) + size);
    if (!b)
        return NULL;
    *b = (struct arena_block){.next = a->blocks, .size = size};
    a->blocks = b;
    return b;
}

void *arena_get(struct arena *a, size_t size)
{
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct arena_block *b = a->blocks;
    if ((!b || b->size - b->used < size) && !(b = add_block(a, size)))
        return NULL;
    void *p = b->bytes + b->used;
    b->used += size;
    a->size += size;
    return p;
}

void arena_free(struct arena *a)
{
    while (a->blocks) {
        struct arena_block *next = a->blocks->next;
        free(a->blocks);
        a->blocks = next;
    }
    a->size = 0;
}
