/* SPDX-License-Identifier: GPL-2.0-only */
/* DWARF expressions of call frame information. Private to unwind/. */
#ifndef UNWIND_NATIVE_EXPRESSION_H
#define UNWIND_NATIVE_EXPRESSION_H

#include "unwind/native/cfi.h"

struct expression_input {
    const struct registers *registers; /* of the frame being left */
    const struct memory *memory;
    uint64_t bias; /* of the module: DW_OP_addr's operand is in its own terms */
    bool swapped;
};

enum expression_result {
    EXPRESSION_OK,
    EXPRESSION_BAD,      /* an operation unknown or wrong, or a register not known */
    EXPRESSION_BAD_READ, /* `failed_at` could not be read */
};

/* Evaluate; `initial` (may be NULL) is pushed first. Ends after a bounded number of operations. */
enum expression_result expression_evaluate(struct cfi_bytes expression,
                                           const struct expression_input *in,
                                           const uint64_t *initial, uint64_t *ret,
                                           uint64_t *failed_at, enum provenance *provenance);

/* The one expression that every x86-64 PLT has as its CFA: rsp + 8, plus 8 in the part of each
 * 16-byte slot that has pushed the relocation's number: (rip & 15) >= `ret`. */
bool expression_is_plt(struct cfi_bytes expression, uint8_t *ret);

#endif
