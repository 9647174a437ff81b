/* SPDX-License-Identifier: GPL-2.0-only */
/* Handwritten stacks, for tests of output made from stacks. */
#ifndef TESTS_UNIT_STACKS_FIXTURE_H
#define TESTS_UNIT_STACKS_FIXTURE_H

#include "stacks/stacks.h"

/* Free with stacks_free(). */
struct stacks *stacks_make(void);
/* Adds "comm;outermost;...;leaf". Functions are of module /bin/prog; a prefix k_ makes a kernel
 * function, i_ an inlined one; "?N" is an unknown function at address N. */
void stacks_add(struct stacks *s, const char *stack, uint64_t samples, uint64_t period);
/* Adds one sample, "outermost;...;leaf", in time slice `block`. "L17:f" is Lua function f in trace
 * 17, "L:f" is f interpreted. */
void stacks_add_managed(struct stacks *s, const char *stack, uint64_t block, uint64_t period);

#endif
