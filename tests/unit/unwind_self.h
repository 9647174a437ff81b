/* SPDX-License-Identifier: GPL-2.0-only */
/* A test's own process as the target: its modules as a code map, its memory as a layer. */
#ifndef TESTS_UNIT_UNWIND_SELF_H
#define TESTS_UNIT_UNWIND_SELF_H

#include "unwind/unwind.h"

#include <ucontext.h>

struct self;
struct self *self_create(void);
void self_free(struct self *s);
struct codemap self_codemap(struct self *s);
struct memory_layer self_memory(void);
/* General registers of a context, as the kernel or getcontext() saved them. */
struct registers self_registers(const ucontext_t *uc);
/* A copy of the stack that `sp` is in, from `sp` to its mapping's end (at most `max` bytes). Free.
 */
uint8_t *self_stack(uint64_t sp, size_t max, size_t *size);

#endif
