/* SPDX-License-Identifier: GPL-2.0-only */
/* The user registers of a sample as an unwinder wants them. */
#ifndef SESSION_REGISTERS_H
#define SESSION_REGISTERS_H

#include "perfdata/perfdata.h"
#include "unwind/unwind.h"

/* Those that were recorded, in DWARF numbering. Of a sample with 64 bit user registers. */
void sample_registers(const struct sample *s, struct registers *ret);

/* Its stack copy, in its one or two pieces, as memory that stands at `sp`, the sample's user stack
 * pointer; without layers. */
struct memory sample_memory(const struct sample *s, uint64_t sp);

/* User registers an unwinder wants of this machine, for attr.sample_regs_user: perf's numbering. */
uint64_t wanted_user_registers(void);

#endif
