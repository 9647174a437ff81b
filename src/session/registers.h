/* SPDX-License-Identifier: GPL-2.0-only */
/* The user registers of a sample, in the form that an unwinder needs. */
#ifndef SESSION_REGISTERS_H
#define SESSION_REGISTERS_H

#include "perfdata/perfdata.h"
#include "unwind/unwind.h"

/* Returns the machine of a recording, which its header names. A recording that names none (a pipe
 * may name it late) is taken to be of this machine. NULL: a machine that cannot be unwound. */
const struct arch *recording_arch(const struct perfdata *pd);

/* Get the recorded registers. `arch` is the recording's machine; the sample must have 64-bit user
 * registers. */
void sample_registers(const struct sample *s, const struct arch *arch, struct registers *ret);

/* Returns the sample's stack copy, in its one or two pieces, as memory that starts at `sp`, the
 * sample's user stack pointer. The memory has no layers. */
struct memory sample_memory(const struct sample *s, uint64_t sp);

#endif
