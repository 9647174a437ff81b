/* SPDX-License-Identifier: GPL-2.0-only */
/* How the C library's heap grows. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/* For a program that fills tables for a second and ends: the heap grows by large steps, in huge
 * pages where the system has them, and keeps what was freed. Before threads start; without glibc
 * nothing happens. */
void heap_prepare(void);

/* calloc for a hash table that will be filled: every page of a large one is touched by writing.
 * Where a search reads a page first, it costs two faults, and the second one stops the other
 * threads (of two threads on a recording of 2 GB it took a fifth of their time). NULL: memory is
 * out. */
void *heap_table(size_t nr, size_t size);

/* Memory of which mostly little is used, all zeros; `size` is the same for both. What is not
 * touched costs nothing, while an unused block of the heap is cleared with the huge page it stands
 * in. NULL: memory is out. heap_unreserve(NULL, ...) does nothing. */
void *heap_reserve(size_t size);
void heap_unreserve(void *p, size_t size);

#endif
