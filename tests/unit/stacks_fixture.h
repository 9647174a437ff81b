/* SPDX-License-Identifier: GPL-2.0-only */
/* Stacks written down by hand, for tests of what is printed from them. */
#ifndef TESTS_UNIT_STACKS_FIXTURE_H
#define TESTS_UNIT_STACKS_FIXTURE_H

#include "stacks/stacks.h"

/* To be freed with stacks_free(). */
struct stacks *stacks_make(void);
/* "comm;outermost;...;leaf": functions of module /bin/prog, those that begin with k_ of the
 * kernel, i_ inlined, "?N" unknown at address N. */
void stacks_add(struct stacks *s, const char *stack, uint64_t samples, uint64_t period);
/* One sample, "outermost;...;leaf" in a slice of time: "L17:f" is Lua function f in trace 17, "L:f"
 * interpreted. */
void stacks_add_managed(struct stacks *s, const char *stack, uint64_t block, uint64_t period);

#endif
