/* SPDX-License-Identifier: GPL-2.0-only */
/* The test's own process as the target: its modules as a code map, its memory as a layer. */
#ifndef TESTS_UNIT_UNWIND_SELF_H
#define TESTS_UNIT_UNWIND_SELF_H

#include "unwind/unwind.h"

#include <ucontext.h>

struct self;
struct self *self_create(void);
void self_free(struct self *s);
/* From now on no module has CFI. */
void self_strip(struct self *s);
struct codemap self_codemap(struct self *s);
struct memory_layer self_memory(void);
/* The general registers of a context that the kernel or getcontext() saved. */
struct registers self_registers(const ucontext_t *uc);
/* Returns a copy of the stack from `sp` to the end of its mapping, at most `max` bytes. Free it. */
uint8_t *self_stack(uint64_t sp, size_t max, size_t *size);

#endif
