/* SPDX-License-Identifier: GPL-2.0-only */
/* The stack machine of DWARF 5 section 2.5, limited to what call frame information may use. */
#include "unwind/native/expression.h"

/* DW_OP_* */
enum {
    OP_ADDR = 0x03,
    OP_DEREF = 0x06,
    OP_CONST1U = 0x08,
    OP_CONST1S,
    OP_CONST2U,
    OP_CONST2S,
    OP_CONST4U,
    OP_CONST4S,
    OP_CONST8U,
    OP_CONST8S,
    OP_CONSTU,
    OP_CONSTS,
    OP_DUP,
    OP_DROP,
    OP_OVER,
    OP_PICK,
    OP_SWAP,
    OP_ROT,
    OP_ABS = 0x19,
    OP_AND,
    OP_DIV,
    OP_MINUS,
    OP_MOD,
    OP_MUL,
    OP_NEG,
    OP_NOT,
    OP_OR,
    OP_PLUS,
    OP_PLUS_UCONST,
    OP_SHL,
    OP_SHR,
    OP_SHRA,
    OP_XOR,
    OP_BRA,
    OP_EQ,
    OP_GE,
    OP_GT,
    OP_LE,
    OP_LT,
    OP_NE,
    OP_SKIP,
    OP_LIT0 = 0x30,
    OP_LIT31 = 0x4f,
    OP_BREG0 = 0x70,
    OP_BREG31 = 0x8f,
    OP_BREGX = 0x92,
    OP_DEREF_SIZE = 0x94,
    OP_NOP = 0x96,
};

enum { STACK_MAX = 64, STEPS_MAX = 1024 };

struct machine {
    const struct expression_input *in;
    struct cursor c;
    uint64_t stack[STACK_MAX];
    unsigned depth;
    enum expression_result result;
    uint64_t failed_at;
    enum provenance *provenance;
};

static void fail(struct machine *m)
{
    if (m->result == EXPRESSION_OK)
        m->result = EXPRESSION_BAD;
}

static void push(struct machine *m, uint64_t value)
{
    if (m->depth == STACK_MAX)
        fail(m);
    else
        m->stack[m->depth++] = value;
}

static uint64_t pop(struct machine *m)
{
    if (m->depth > 0)
        return m->stack[--m->depth];
    fail(m);
    return 0;
}

static uint64_t peek(struct machine *m, unsigned back)
{
    if (back < m->depth)
        return m->stack[m->depth - 1 - back];
    fail(m);
    return 0;
}

static void push_register(struct machine *m, uint64_t reg, int64_t offset)
{
    const struct registers *r = m->in->registers;
    if (reg < r->arch->reg.columns && r->known & REG_BIT(reg))
        push(m, r->value[reg] + (uint64_t)offset);
    else
        fail(m);
}

static void dereference(struct machine *m, unsigned size)
{
    uint64_t address = pop(m);
    uint8_t bytes[8] = {0};
    if (size == 0 || size > 8 || (size & (size - 1)) != 0 || m->result != EXPRESSION_OK) {
        fail(m);
        return;
    }
    if (!memory_read(m->in->memory, address, bytes, size, m->provenance)) {
        m->result = EXPRESSION_BAD_READ;
        m->failed_at = address;
        return;
    }
    bool swap = m->in->swapped;
    push(m, size == 8   ? load_u64(bytes, swap)
            : size == 4 ? load_u32(bytes, swap)
            : size == 2 ? load_u16(bytes, swap)
                        : bytes[0]);
}

/* SKIP and BRA: the operand is relative to the byte behind it; the target must be inside the
 * expression. */
static void jump(struct machine *m, bool taken)
{
    int16_t delta = (int16_t)cursor_u16(&m->c);
    if (!taken || m->c.failed)
        return;
    if (delta < m->c.start - m->c.at || delta > m->c.end - m->c.at)
        fail(m);
    else
        m->c.at += delta;
}

static bool run_constant(struct machine *m, uint8_t op)
{
    struct cursor *c = &m->c;
    switch (op) {
    case OP_ADDR:
        push(m, cursor_u64(c) + m->in->bias);
        return true;
    case OP_CONST1U:
        push(m, cursor_u8(c));
        return true;
    case OP_CONST1S:
        push(m, (uint64_t)(int64_t)(int8_t)cursor_u8(c));
        return true;
    case OP_CONST2U:
        push(m, cursor_u16(c));
        return true;
    case OP_CONST2S:
        push(m, (uint64_t)(int64_t)(int16_t)cursor_u16(c));
        return true;
    case OP_CONST4U:
        push(m, cursor_u32(c));
        return true;
    case OP_CONST4S:
        push(m, (uint64_t)(int64_t)(int32_t)cursor_u32(c));
        return true;
    case OP_CONST8U:
    case OP_CONST8S:
        push(m, cursor_u64(c));
        return true;
    case OP_CONSTU:
        push(m, cursor_uleb128(c));
        return true;
    case OP_CONSTS:
        push(m, (uint64_t)cursor_sleb128(c));
        return true;
    default:
        return false;
    }
}

static bool run_stack_op(struct machine *m, uint8_t op)
{
    uint64_t a, b, d;
    switch (op) {
    case OP_DUP:
        push(m, peek(m, 0));
        return true;
    case OP_DROP:
        (void)pop(m);
        return true;
    case OP_OVER:
        push(m, peek(m, 1));
        return true;
    case OP_PICK:
        push(m, peek(m, cursor_u8(&m->c)));
        return true;
    case OP_SWAP:
        a = pop(m), b = pop(m);
        push(m, a), push(m, b);
        return true;
    case OP_ROT:
        a = pop(m), b = pop(m), d = pop(m);
        push(m, a), push(m, d), push(m, b);
        return true;
    default:
        return false;
    }
}

static bool run_unary(struct machine *m, uint8_t op)
{
    uint64_t a;
    switch (op) {
    case OP_ABS:
        a = pop(m);
        push(m, (int64_t)a < 0 ? -a : a);
        return true;
    case OP_NEG:
        push(m, -pop(m));
        return true;
    case OP_NOT:
        push(m, ~pop(m));
        return true;
    case OP_PLUS_UCONST:
        a = cursor_uleb128(&m->c);
        push(m, pop(m) + a);
        return true;
    default:
        return false;
    }
}

static uint64_t divide(struct machine *m, uint64_t a, uint64_t b)
{
    if (b == 0) {
        fail(m);
        return 0;
    }
    return b == UINT64_MAX ? -a : (uint64_t)((int64_t)a / (int64_t)b); /* INT64_MIN / -1 wraps */
}

static uint64_t shift_right_signed(uint64_t a, uint64_t b)
{
    return (uint64_t)((int64_t)a >> (b < 63 ? b : 63));
}

/* `a` was pushed first. */
static void run_binary(struct machine *m, uint8_t op)
{
    uint64_t b = pop(m), a = pop(m);
    int64_t sa = (int64_t)a, sb = (int64_t)b;
    switch (op) {
    case OP_AND:
        push(m, a & b);
        break;
    case OP_DIV:
        push(m, divide(m, a, b));
        break;
    case OP_MINUS:
        push(m, a - b);
        break;
    case OP_MOD:
        if (b == 0)
            fail(m);
        push(m, b ? a % b : 0);
        break;
    case OP_MUL:
        push(m, a * b);
        break;
    case OP_OR:
        push(m, a | b);
        break;
    case OP_PLUS:
        push(m, a + b);
        break;
    case OP_SHL:
        push(m, b < 64 ? a << b : 0);
        break;
    case OP_SHR:
        push(m, b < 64 ? a >> b : 0);
        break;
    case OP_SHRA:
        push(m, shift_right_signed(a, b));
        break;
    case OP_XOR:
        push(m, a ^ b);
        break;
    case OP_EQ:
        push(m, a == b);
        break;
    case OP_GE:
        push(m, sa >= sb);
        break;
    case OP_GT:
        push(m, sa > sb);
        break;
    case OP_LE:
        push(m, sa <= sb);
        break;
    case OP_LT:
        push(m, sa < sb);
        break;
    case OP_NE:
        push(m, a != b);
        break;
    default:
        fail(m);
    }
}

static void run_op(struct machine *m, uint8_t op)
{
    uint64_t reg;
    if (op >= OP_LIT0 && op <= OP_LIT31) {
        push(m, op - OP_LIT0);
    } else if (op >= OP_BREG0 && op <= OP_BREG31) {
        push_register(m, op - OP_BREG0, cursor_sleb128(&m->c));
    } else if (op == OP_BREGX) {
        reg = cursor_uleb128(&m->c);
        push_register(m, reg, cursor_sleb128(&m->c));
    } else if (op == OP_DEREF) {
        dereference(m, 8);
    } else if (op == OP_DEREF_SIZE) {
        dereference(m, cursor_u8(&m->c));
    } else if (op == OP_SKIP) {
        jump(m, true);
    } else if (op == OP_BRA) {
        jump(m, pop(m) != 0);
    } else if (op != OP_NOP && !run_constant(m, op) && !run_stack_op(m, op) && !run_unary(m, op)) {
        run_binary(m, op);
    }
}

enum expression_result expression_evaluate(struct cfi_bytes expression,
                                           const struct expression_input *in,
                                           const uint64_t *initial, uint64_t *ret,
                                           uint64_t *failed_at, enum provenance *provenance)
{
    struct machine m = {.in = in, .provenance = provenance};
    m.c = cursor_make(expression.at, expression.size, in->swapped, "", "expression", 0);
    if (initial)
        push(&m, *initial);
    for (unsigned steps = 0; m.result == EXPRESSION_OK && cursor_left(&m.c) > 0; steps++) {
        if (steps == STEPS_MAX)
            return EXPRESSION_BAD;
        run_op(&m, cursor_u8(&m.c));
        if (m.c.failed)
            fail(&m);
    }
    *ret = pop(&m);
    *failed_at = m.failed_at;
    return m.result;
}
