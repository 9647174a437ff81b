/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory for many small objects that do not move and are freed together. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena_block;

/* All zeros: empty. */
struct arena {
    struct arena_block *blocks;
    size_t size; /* bytes given out */
};

/* Returns `size` bytes, aligned to 16, not cleared; NULL: out of memory. */
void *arena_get(struct arena *a, size_t size);
/* Free all blocks; the arena is empty afterwards. */
void arena_free(struct arena *a);

#endif
