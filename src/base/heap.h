/* SPDX-License-Identifier: GPL-2.0-only */
/* How the C library's heap grows. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

/* For a program that fills tables for a second and ends: the heap grows by large steps, in huge
 * pages where the system has them, and keeps what was freed. Before threads start; without glibc
 * nothing happens. */
void heap_prepare(void);

#endif
