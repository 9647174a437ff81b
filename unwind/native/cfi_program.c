/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runs call frame programs: the CIE's, then the FDE's up to an address. Rules for registers beyond
 * the return address (vectors) are read and dropped.
 */
#include "unwind/arch.h"
#include "unwind/native/cfi.h"

/* DW_CFA_* of DWARF 5 section 7.24, and the GNU opcodes. */
enum {
    CFA_ADVANCE_LOC = 0x40, /* high two bits; operand in the low six */
    CFA_OFFSET = 0x80,
    CFA_RESTORE = 0xc0,
    CFA_NOP = 0x00,
    CFA_SET_LOC = 0x01,
    CFA_ADVANCE_LOC1 = 0x02,
    CFA_ADVANCE_LOC2 = 0x03,
    CFA_ADVANCE_LOC4 = 0x04,
    CFA_OFFSET_EXTENDED = 0x05,
    CFA_RESTORE_EXTENDED = 0x06,
    CFA_UNDEFINED = 0x07,
    CFA_SAME_VALUE = 0x08,
    CFA_REGISTER = 0x09,
    CFA_REMEMBER_STATE = 0x0a,
    CFA_RESTORE_STATE = 0x0b,
    CFA_DEF_CFA = 0x0c,
    CFA_DEF_CFA_REGISTER = 0x0d,
    CFA_DEF_CFA_OFFSET = 0x0e,
    CFA_DEF_CFA_EXPRESSION = 0x0f,
    CFA_EXPRESSION = 0x10,
    CFA_OFFSET_EXTENDED_SF = 0x11,
    CFA_DEF_CFA_SF = 0x12,
    CFA_DEF_CFA_OFFSET_SF = 0x13,
    CFA_VAL_OFFSET = 0x14,
    CFA_VAL_OFFSET_SF = 0x15,
    CFA_VAL_EXPRESSION = 0x16,
    CFA_MIPS_ADVANCE_LOC8 = 0x1d,
    CFA_GNU_WINDOW_SAVE = 0x2d, /* SPARC; AArch64: negate_ra_state, from here on return addresses
                                   are signed, or are not. Signatures are always removed (struct
                                   arch_registers), so the state is not needed */
    CFA_GNU_ARGS_SIZE = 0x2e,
    CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

enum { REMEMBER_MAX = 32 }; /* compilers nest to a depth of two */

struct program {
    const struct cfi *cfi;
    const struct cfi_table *table;
    const struct cie *cie;
    struct cursor c;
    uint64_t location; /* where the row being built begins */
    struct cfi_row *row;
    const struct cfi_row *initial; /* the row that DW_CFA_restore goes back to; NULL in the CIE */
    struct cfi_row *remembered;
    unsigned depth;
    int64_t reach;
    cfi_each_row each; /* NULL: one row is wanted */
    void *context;
};

static void set_rule(struct program *p, uint64_t reg, enum reg_rule_kind kind, int64_t offset)
{
    if (reg >= p->row->arch->reg.columns)
        return;
    p->row->regs[reg] = (struct reg_rule){.kind = kind, .offset = offset};
    p->row->told |= REG_BIT(reg);
}

/* Returns factor x data_align. The product wraps: a hostile product must not be undefined
 * behavior. */
static int64_t scaled(const struct program *p, uint64_t factor)
{
    return (int64_t)(factor * (uint64_t)p->cie->data_align);
}

static void set_expression(struct program *p, uint64_t reg, enum reg_rule_kind kind)
{
    uint64_t size = cursor_uleb128(&p->c);
    const uint8_t *at = cursor_bytes(&p->c, size);
    if (!at || reg >= p->row->arch->reg.columns)
        return;
    p->row->regs[reg] = (struct reg_rule){kind, 0, {at, size}};
    p->row->told |= REG_BIT(reg);
}

static void restore_rule(struct program *p, uint64_t reg)
{
    if (!p->initial)
        p->c.failed = true;
    else if (reg < p->row->arch->reg.columns)
        p->row->regs[reg] = p->initial->regs[reg];
}

static void def_cfa(struct program *p, uint64_t reg, int64_t offset)
{
    p->row->cfa_is_expression = false;
    p->row->cfa_register = reg;
    p->row->cfa_offset = offset;
}

static void def_cfa_expression(struct program *p)
{
    uint64_t size = cursor_uleb128(&p->c);
    p->row->cfa_is_expression = true;
    p->row->cfa_expression = (struct cfi_bytes){cursor_bytes(&p->c, size), size};
}

static void remember(struct program *p)
{
    if (p->depth == REMEMBER_MAX)
        p->c.failed = true;
    else
        p->remembered[p->depth++] = *p->row;
}

static void restore_state(struct program *p)
{
    if (p->depth == 0)
        p->c.failed = true;
    else
        *p->row = p->remembered[--p->depth];
}

/* Runs an opcode that changes a register's rule. false: `op` is not one of them. */
static bool run_register_op(struct program *p, uint8_t op)
{
    struct cursor *c = &p->c;
    bool first = op >= CFA_OFFSET_EXTENDED && op <= CFA_REGISTER;
    bool second = op >= CFA_EXPRESSION && op <= CFA_VAL_EXPRESSION;
    if ((!first && !second) || op == CFA_DEF_CFA_SF || op == CFA_DEF_CFA_OFFSET_SF)
        return false;
    uint64_t reg = cursor_uleb128(c);
    switch (op) {
    case CFA_OFFSET_EXTENDED:
        set_rule(p, reg, REG_OFFSET, scaled(p, cursor_uleb128(c)));
        return true;
    case CFA_OFFSET_EXTENDED_SF:
        set_rule(p, reg, REG_OFFSET, scaled(p, (uint64_t)cursor_sleb128(c)));
        return true;
    case CFA_RESTORE_EXTENDED:
        restore_rule(p, reg);
        return true;
    case CFA_UNDEFINED:
        set_rule(p, reg, REG_UNDEFINED, 0);
        return true;
    case CFA_SAME_VALUE:
        set_rule(p, reg, REG_SAME, 0);
        return true;
    case CFA_REGISTER:
        set_rule(p, reg, REG_REGISTER, (int64_t)cursor_uleb128(c));
        return true;
    case CFA_EXPRESSION:
        set_expression(p, reg, REG_EXPRESSION);
        return true;
    case CFA_VAL_EXPRESSION:
        set_expression(p, reg, REG_VAL_EXPRESSION);
        return true;
    case CFA_VAL_OFFSET:
        set_rule(p, reg, REG_VAL_OFFSET, scaled(p, cursor_uleb128(c)));
        return true;
    case CFA_VAL_OFFSET_SF:
        set_rule(p, reg, REG_VAL_OFFSET, scaled(p, (uint64_t)cursor_sleb128(c)));
        return true;
    default:
        return false;
    }
}

static void run_other_op(struct program *p, uint8_t op)
{
    struct cursor *c = &p->c;
    uint64_t reg;
    switch (op) {
    case CFA_NOP:
    case CFA_GNU_WINDOW_SAVE:
        break;
    case CFA_REMEMBER_STATE:
        remember(p);
        break;
    case CFA_RESTORE_STATE:
        restore_state(p);
        break;
    case CFA_DEF_CFA:
        reg = cursor_uleb128(c);
        def_cfa(p, reg, (int64_t)cursor_uleb128(c));
        break;
    case CFA_DEF_CFA_SF:
        reg = cursor_uleb128(c);
        def_cfa(p, reg, scaled(p, (uint64_t)cursor_sleb128(c)));
        break;
    case CFA_DEF_CFA_REGISTER:
        def_cfa(p, cursor_uleb128(c), p->row->cfa_offset);
        break;
    case CFA_DEF_CFA_OFFSET:
        p->row->cfa_offset = (int64_t)cursor_uleb128(c);
        break;
    case CFA_DEF_CFA_OFFSET_SF:
        p->row->cfa_offset = scaled(p, (uint64_t)cursor_sleb128(c));
        break;
    case CFA_DEF_CFA_EXPRESSION:
        def_cfa_expression(p);
        break;
    case CFA_GNU_ARGS_SIZE:
        (void)cursor_uleb128(c);
        break;
    case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
        reg = cursor_uleb128(c);
        set_rule(p, reg, REG_OFFSET, scaled(p, -cursor_uleb128(c)));
        break;
    default: /* an unknown opcode: its operands cannot be skipped */
        c->failed = true;
    }
}

/* Runs an opcode that ends a row. true: it is one, and `ret` is where the next row begins. */
static bool run_location_op(struct program *p, uint8_t op, uint64_t *ret)
{
    struct cursor *c = &p->c;
    uint64_t delta;
    switch (op) {
    case CFA_SET_LOC: {
        struct cursor field = *c;
        field.start = p->table->section.bytes;
        if (!cfi_read_pointer(p->cfi, &field, p->table->section.address, p->cie->pointer_encoding,
                              p->cie->address_size, ret))
            field.failed = true;
        *c = field;
        return true;
    }
    case CFA_ADVANCE_LOC1:
        delta = cursor_u8(c);
        break;
    case CFA_ADVANCE_LOC2:
        delta = cursor_u16(c);
        break;
    case CFA_ADVANCE_LOC4:
        delta = cursor_u32(c);
        break;
    case CFA_MIPS_ADVANCE_LOC8:
        delta = cursor_u64(c);
        break;
    default:
        return false;
    }
    *ret = p->location + delta * p->cie->code_align;
    return true;
}

/* The row being built is complete, and another row follows: note how deep the stack was in it. */
static void leave_row(struct program *p, uint64_t to)
{
    struct cfi_row *row = p->row;
    if (p->each) {
        row->reach = p->reach;
        p->each(p->context, row, to);
    }
    if (row->cfa_is_expression || row->cfa_register != row->arch->reg.sp)
        p->reach = INT64_MAX;
    else if (row->cfa_offset > p->reach)
        p->reach = row->cfa_offset;
}

/* Runs until the row that covers `address` is complete. `next`: where the row after it begins
 * (UINT64_MAX: the program ended). */
static bool run(struct program *p, uint64_t address, uint64_t *next)
{
    struct cursor *c = &p->c;
    *next = UINT64_MAX;
    while (cursor_left(c) > 0 && !c->failed) {
        uint8_t op = cursor_u8(c);
        uint64_t to;
        switch (op & 0xc0) {
        case CFA_ADVANCE_LOC:
            to = p->location + (op & 0x3f) * p->cie->code_align;
            break;
        case CFA_OFFSET:
            set_rule(p, op & 0x3f, REG_OFFSET, scaled(p, cursor_uleb128(c)));
            continue;
        case CFA_RESTORE:
            restore_rule(p, op & 0x3f);
            continue;
        default:
            if (run_location_op(p, op, &to))
                break;
            if (!run_register_op(p, op))
                run_other_op(p, op);
            continue;
        }
        if (to > address) {
            *next = to;
            break;
        }
        leave_row(p, to);
        p->location = to;
    }
    return !c->failed;
}

static struct cursor program_cursor(const struct cfi *cfi, const struct cfi_table *table,
                                    struct cfi_bytes program)
{
    return cursor_make(program.at, program.size, cfi->swapped, cfi->name, "call frame program",
                       (uint64_t)(program.at - table->section.bytes));
}

static bool run_both(const struct cfi *cfi, const struct cfi_table *table, const struct fde *fde,
                     uint64_t address, cfi_each_row each, void *context, struct cfi_row *ret,
                     uint64_t *next)
{
    struct cfi_row remembered[REMEMBER_MAX];
    *ret = (struct cfi_row){
        .cfa_register = CFA_NONE, .signal_frame = fde->cie.signal_frame, .arch = cfi->arch};
    struct program p = {
        .cfi = cfi,
        .table = table,
        .cie = &fde->cie,
        .location = fde->begin,
        .row = ret,
        .remembered = remembered,
        .c = program_cursor(cfi, table, fde->cie.program),
    };
    if (!run(&p, UINT64_MAX, next))
        return false;
    struct cfi_row initial = *ret;
    p.initial = &initial;
    p.location = fde->begin;
    p.depth = 0;
    p.reach = 0;
    p.each = each;
    p.context = context;
    p.c = program_cursor(cfi, table, fde->program);
    bool sound = run(&p, address, next);
    ret->reach = p.reach;
    return sound;
}

bool cfi_run(const struct cfi *cfi, const struct cfi_table *table, const struct fde *fde,
             uint64_t address, struct cfi_row *ret)
{
    uint64_t next;
    return run_both(cfi, table, fde, address, NULL, NULL, ret, &next);
}

bool cfi_run_all(const struct cfi *cfi, const struct cfi_table *table, const struct fde *fde,
                 cfi_each_row each, void *context)
{
    struct cfi_row last;
    uint64_t next;
    if (!run_both(cfi, table, fde, UINT64_MAX, each, context, &last, &next))
        return false;
    each(context, &last, UINT64_MAX);
    return true;
}

uint64_t cfi_next_row(const struct cfi *cfi, const struct cfi_table *table, const struct fde *fde,
                      uint64_t address)
{
    struct cfi_row row;
    uint64_t next, end = fde->begin + fde->size;
    if (!run_both(cfi, table, fde, address, NULL, NULL, &row, &next) || next > end)
        return end;
    return next;
}
