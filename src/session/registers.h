/* SPDX-License-Identifier: GPL-2.0-only */
/* The user registers of a sample, in the form that an unwinder needs. */
#ifndef SESSION_REGISTERS_H
#define SESSION_REGISTERS_H

#include "perfdata/perfdata.h"
#include "unwind/unwind.h"

/* Get the recorded registers in DWARF numbering. The sample must have 64-bit user registers. */
void sample_registers(const struct sample *s, struct registers *ret);

/* Returns the sample's stack copy, in its one or two pieces, as memory that starts at `sp`, the
 * sample's user stack pointer. The memory has no layers. */
struct memory sample_memory(const struct sample *s, uint64_t sp);

#endif
