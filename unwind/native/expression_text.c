/* SPDX-License-Identifier: GPL-2.0-only */
/* DWARF expressions as text, with the names of DWARF 5 section 7.7.1, without DW_OP_. */
#include "unwind/native/expression.h"

#include <inttypes.h>

/* What follows an operation. */
enum operand { NO_OPERAND, BYTES_1, BYTES_2, BYTES_4, BYTES_8, ULEB, SLEB, OFFSET };

static const struct {
    const char *name;
    uint8_t operand;
} ops[256] = {
    [0x03] = {"addr", BYTES_8},     [0x06] = {"deref", NO_OPERAND},
    [0x08] = {"const1u", BYTES_1},  [0x09] = {"const1s", BYTES_1},
    [0x0a] = {"const2u", BYTES_2},  [0x0b] = {"const2s", BYTES_2},
    [0x0c] = {"const4u", BYTES_4},  [0x0d] = {"const4s", BYTES_4},
    [0x0e] = {"const8u", BYTES_8},  [0x0f] = {"const8s", BYTES_8},
    [0x10] = {"constu", ULEB},      [0x11] = {"consts", SLEB},
    [0x12] = {"dup", NO_OPERAND},   [0x13] = {"drop", NO_OPERAND},
    [0x14] = {"over", NO_OPERAND},  [0x15] = {"pick", BYTES_1},
    [0x16] = {"swap", NO_OPERAND},  [0x17] = {"rot", NO_OPERAND},
    [0x19] = {"abs", NO_OPERAND},   [0x1a] = {"and", NO_OPERAND},
    [0x1b] = {"div", NO_OPERAND},   [0x1c] = {"minus", NO_OPERAND},
    [0x1d] = {"mod", NO_OPERAND},   [0x1e] = {"mul", NO_OPERAND},
    [0x1f] = {"neg", NO_OPERAND},   [0x20] = {"not", NO_OPERAND},
    [0x21] = {"or", NO_OPERAND},    [0x22] = {"plus", NO_OPERAND},
    [0x23] = {"plus_uconst", ULEB}, [0x24] = {"shl", NO_OPERAND},
    [0x25] = {"shr", NO_OPERAND},   [0x26] = {"shra", NO_OPERAND},
    [0x27] = {"xor", NO_OPERAND},   [0x28] = {"bra", OFFSET},
    [0x29] = {"eq", NO_OPERAND},    [0x2a] = {"ge", NO_OPERAND},
    [0x2b] = {"gt", NO_OPERAND},    [0x2c] = {"le", NO_OPERAND},
    [0x2d] = {"lt", NO_OPERAND},    [0x2e] = {"ne", NO_OPERAND},
    [0x2f] = {"skip", OFFSET},      [0x94] = {"deref_size", BYTES_1},
    [0x96] = {"nop", NO_OPERAND},
};

enum { LIT0 = 0x30, LIT31 = 0x4f, BREG0 = 0x70, BREG31 = 0x8f, BREGX = 0x92 };

static void put_operand(struct text *t, struct cursor *c, enum operand operand)
{
    switch (operand) {
    case BYTES_1:
        text_printf(t, " %u", cursor_u8(c));
        break;
    case BYTES_2:
        text_printf(t, " %u", cursor_u16(c));
        break;
    case BYTES_4:
        text_printf(t, " %" PRIu32, cursor_u32(c));
        break;
    case BYTES_8:
        text_printf(t, " 0x%" PRIx64, cursor_u64(c));
        break;
    case ULEB:
        text_printf(t, " %" PRIu64, cursor_uleb128(c));
        break;
    case SLEB:
        text_printf(t, " %" PRId64, cursor_sleb128(c));
        break;
    case OFFSET:
        text_printf(t, " %d", (int16_t)cursor_u16(c));
        break;
    default:
        break;
    }
}

void expression_print(struct cfi_bytes expression, struct text *t)
{
    struct cursor c = cursor_make(expression.at, expression.size, false, "", "expression", 0);
    for (bool first = true; cursor_left(&c) > 0 && !c.failed; first = false) {
        uint8_t op = cursor_u8(&c);
        text_string(t, first ? "" : "; ");
        if (op >= LIT0 && op <= LIT31) {
            text_printf(t, "lit%u", op - LIT0);
        } else if (op >= BREG0 && op <= BREG31) {
            text_printf(t, "breg%u %" PRId64, op - BREG0, cursor_sleb128(&c));
        } else if (op == BREGX) {
            uint64_t reg = cursor_uleb128(&c);
            text_printf(t, "bregx %" PRIu64 " %" PRId64, reg, cursor_sleb128(&c));
        } else if (ops[op].name) {
            text_string(t, ops[op].name);
            put_operand(t, &c, ops[op].operand);
        } else {
            text_printf(t, "0x%02x (unknown)", op);
            return;
        }
    }
}
