/* SPDX-License-Identifier: GPL-2.0-only */
/* V8's objects that are sampled allocations, and are followed until they are garbage
 * (alloc_v8.bpf.h): what must be known of a process's V8. Private to alloc.c and alloc_functions.c.
 */
#ifndef LIVE_ALLOC_V8_H
#define LIVE_ALLOC_V8_H

#include "live/alloc_functions.h"

struct dso;
struct v8_layout;

/* Find out whether the objects of the V8 in a file can be followed; `f`: those of its functions
 * that are probed. */
void alloc_v8_find(struct dso *dso, const struct alloc_function *f, size_t nr,
                   struct alloc_v8_process *ret);
/* The same, when its layout is known; NULL: it is not. */
void alloc_v8_set(const struct v8_layout *layout, const struct alloc_function *f, size_t nr,
                  struct alloc_v8_process *ret);

/* Put down for the user why a process's objects are not followed. `refused`: why the program that
 * follows them is not loaded; empty: it is. Returns false if they are followed. */
bool alloc_v8_problem(const struct alloc_v8_process *v8, uint32_t pid, const char *refused,
                      char *ret, size_t size);

#endif
