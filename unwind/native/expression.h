/* SPDX-License-Identifier: GPL-2.0-only */
/* DWARF expressions of call frame information. Private to unwind/. */
#ifndef UNWIND_NATIVE_EXPRESSION_H
#define UNWIND_NATIVE_EXPRESSION_H

#include "base/text.h"
#include "unwind/native/cfi.h"

struct expression_input {
    const struct registers *registers; /* registers of the frame being left */
    const struct memory *memory;
    uint64_t bias; /* bias of the module: DW_OP_addr's operand is in the module's own terms */
    bool swapped;
};

enum expression_result {
    EXPRESSION_OK,
    EXPRESSION_BAD,      /* an unknown or invalid operation, or an unknown register */
    EXPRESSION_BAD_READ, /* `failed_at` could not be read */
};

/* Evaluates an expression. `initial` (may be NULL) is pushed first. Ends after a bounded number of
 * operations. */
enum expression_result expression_evaluate(struct cfi_bytes expression,
                                           const struct expression_input *in,
                                           const uint64_t *initial, uint64_t *ret,
                                           uint64_t *failed_at, enum provenance *provenance);

/* expression_text.c: append the expression's operations, separated by "; ". */
void expression_print(struct cfi_bytes expression, struct text *t);

#endif
