/* SPDX-License-Identifier: GPL-2.0-only */
/* Machine code, instruction by instruction. */
#ifndef OUTPUT_ANNOTATE_CODE_H
#define OUTPUT_ANNOTATE_CODE_H

#include "base/error.h"
#include "output/annotate.h"
#include "unwind/arch.h"

#include <stddef.h>
#include <stdint.h>

struct instruction {
    uint64_t address;
    uint32_t size;
    const char *name, *operands; /* `name` is "(bad)" for bytes that are no instruction */
};

/* Call `each` for every instruction of code whose first byte is at `address`. Returns -1 if
 * there is no disassembler for the machine (NULL: it is not known), or no memory. */
int annotate_instructions(const struct arch *arch, enum annotate_syntax syntax, const uint8_t *code,
                          size_t size, uint64_t address,
                          void (*each)(void *context, const struct instruction *i), void *context,
                          struct error *err);

#endif
