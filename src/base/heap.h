/* SPDX-License-Identifier: GPL-2.0-only */
/* Control how the C library's heap grows. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

enum { HEAP_LARGE = 512 << 10 }; /* bytes: blocks of so many are told apart */

/* Prepare the heap for a program that fills tables for a second and ends. The heap grows in large
 * steps, in huge pages where the system has them, and keeps freed memory. Call it before threads
 * start. Without glibc it does nothing. */
void heap_prepare(void);

/* calloc() for a hash table that will be filled. It touches every page of a large table by a
 * write. A page that a search reads first costs two faults, and the second fault stops the other
 * threads (with two threads on a recording of 2 GB this took a fifth of their time). NULL: out
 * of memory. */
void *heap_table(size_t nr, size_t size);

/* Reserve zeroed memory of which mostly little is used; pass the same `size` to both. Untouched
 * pages cost nothing, while an unused block of the heap is cleared with the huge page that contains
 * it. NULL: out of memory. heap_unreserve(NULL, ...) does nothing. */
void *heap_reserve(size_t size);
void heap_unreserve(void *p, size_t size);

#endif
