/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory for many small things that stay where they are and go together. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena_block;

/* All zeros: empty. */
struct arena {
    struct arena_block *blocks;
    size_t size; /* bytes given out */
};

/* `size` bytes, aligned to 16, not cleared; NULL: memory is out. */
void *arena_get(struct arena *a, size_t size);
/* Everything at once; it is empty then. */
void arena_free(struct arena *a);

#endif
