/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory of hash tables. A file of its own, which tests can take the place of. */
#include "base/heap.h"

#include <stdlib.h>

void *heap_table(size_t nr, size_t size)
{
    enum { PAGE = 4096 };
    void *table = calloc(nr, size);
    volatile char *bytes = table;
    for (size_t at = 0; table && nr * size >= HEAP_LARGE && at < nr * size; at += PAGE)
        bytes[at] = 0;
    return table;
}
