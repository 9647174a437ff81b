/* SPDX-License-Identifier: GPL-2.0-only */
/* Steps by CFI that the walk loop does not take itself: whole rows, and slots outside the stack
 * window. */
#include "unwind/native/walk.h"

#include "unwind/native/expression.h"

static enum step_result evaluate(struct walk *w, struct cfi_bytes expression,
                                 const struct code *code, const uint64_t *initial, uint64_t *ret)
{
    struct registers registers = {.known = w->known, .arch = w->arch};
    memcpy(registers.value, w->value, sizeof(registers.value));
    const struct expression_input in = {&registers, &w->in->memory, code->bias, code->cfi->swapped};
    uint64_t failed_at;
    switch (expression_evaluate(expression, &in, initial, ret, &failed_at, &w->provenance)) {
    case EXPRESSION_OK:
        return STEP_OK;
    case EXPRESSION_BAD_READ:
        return walk_unreadable(w, failed_at);
    default:
        return STEP_NO;
    }
}

enum step_result walk_row_cfa(struct walk *w, const struct cfi_row *row, const struct code *code,
                              uint64_t *ret)
{
    if (row->cfa_is_expression)
        return evaluate(w, row->cfa_expression, code, NULL, ret);
    if (row->cfa_register >= w->arch->reg.columns || !(w->known & REG_BIT(row->cfa_register)))
        return STEP_NO;
    *ret = w->value[row->cfa_register] + (uint64_t)row->cfa_offset;
    return STEP_OK;
}

/* Finds one register of the caller. STEP_NO: it is not known there. */
static enum step_result row_register(struct walk *w, const struct reg_rule *rule, unsigned reg,
                                     const struct code *code, uint64_t cfa, uint64_t *ret)
{
    enum step_result got;
    uint64_t address = cfa + (uint64_t)rule->offset;
    const struct arch_registers *r = &w->arch->reg;
    uint64_t from = reg;
    switch (rule->kind) {
    case REG_UNSPECIFIED:
        if (reg == r->sp) {
            *ret = cfa;
            return STEP_OK;
        }
        if (!(r->survives & REG_BIT(reg)))
            return STEP_NO;
        break;
    case REG_SAME:
        break;
    case REG_REGISTER:
        from = (uint64_t)rule->offset;
        break;
    case REG_VAL_OFFSET:
        *ret = address;
        return STEP_OK;
    case REG_VAL_EXPRESSION:
        return evaluate(w, rule->expression, code, &cfa, ret);
    case REG_EXPRESSION:
        got = evaluate(w, rule->expression, code, &cfa, &address);
        if (got != STEP_OK)
            return got;
        /* fall through */
    case REG_OFFSET:
        if (memory_read_slot(&w->in->memory, address, ret, &w->provenance))
            return STEP_OK;
        return walk_unreadable(w, address);
    default:
        return STEP_NO;
    }
    if (from >= r->columns || !(w->known & REG_BIT(from)))
        return STEP_NO;
    *ret = w->value[from];
    return STEP_OK;
}

/* Finds the caller's pc. */
static enum step_result return_address(struct walk *w, const struct reg_rule *rule,
                                       const struct code *code, uint64_t cfa, uint64_t *ret)
{
    const struct arch_registers *r = &w->arch->reg;
    struct reg_rule ra = *rule;
    /* The function has not saved the link register (yet, or any more). It is known in a frame that
     * calls nothing: each step to a caller forgets it, as the call changed it. */
    if (arch_has_link(r) && ra.kind == REG_UNSPECIFIED)
        ra.kind = REG_SAME;
    enum step_result got = row_register(w, &ra, r->ra, code, cfa, ret);
    *ret &= r->address_mask;
    return got;
}

/* What a row's CFA leaves out of the caller's stack pointer. A return address that is saved above
 * the CFA was pushed before the function began: a PLT has pushed it with another word, and glibc's
 * CFI of _dl_runtime_resolve (AArch64) counts its own pushes only. */
static uint64_t pushed_before(const struct arch_registers *r, const struct cfi_row *row)
{
    enum { PUSHED = 16 };
    const struct reg_rule *ra = &row->regs[r->ra];
    bool above = ra->kind == REG_OFFSET && ra->offset == PUSHED / 2;
    return above && arch_has_link(r) && row->regs[r->sp].kind == REG_UNSPECIFIED ? PUSHED : 0;
}

enum step_result walk_row_registers(struct walk *w, const struct cfi_row *row,
                                    const struct code *code, uint64_t cfa)
{
    const struct arch_registers *r = &w->arch->reg;
    const uint64_t columns = (REG_BIT(r->columns) - 1) & ~REG_BIT(r->pc);
    uint64_t value[ARCH_REGISTERS_MAX], pc = 0, told = 0;
    /* The return address comes first: its failure is the one to report. */
    enum step_result got = return_address(w, &row->regs[r->ra], code, cfa, &pc);
    if (got != STEP_OK)
        return got;
    for (uint64_t left = (row->told | REG_BIT(r->sp)) & columns; left; left &= left - 1) {
        const unsigned reg = (unsigned)__builtin_ctzll(left);
        got = row_register(w, &row->regs[reg], reg, code, cfa, &value[reg]);
        if (got == STEP_OK)
            told |= REG_BIT(reg);
        else if (reg == r->sp)
            return got;
        else
            w->done = false; /* a lost register does not end the walk */
    }
    value[r->sp] += pushed_before(r, row);
    w->known &= ~row->told & r->survives & columns; /* those of which the row tells nothing */
    w->known |= told | REG_BIT(r->pc);
    if (arch_has_link(r) && !row->signal_frame) /* the call from there has changed it */
        w->known &= ~REG_BIT(r->ra);
    for (; told; told &= told - 1)
        w->value[__builtin_ctzll(told)] = value[__builtin_ctzll(told)];
    w->value[r->pc] = pc;
    return STEP_OK;
}

enum step_result walk_offsets_slow(struct walk *w, const struct rule *rule, uint64_t cfa)
{
    const struct arch_registers *r = &w->arch->reg;
    const struct memory *m = &w->in->memory;
    unsigned ra = rule_ra(r, rule);
    uint64_t address = cfa - 8 * (uint64_t)ra;
    uint64_t pc = w->value[r->ra];
    if (ra && !memory_read_slot(m, address, &pc, &w->provenance))
        return walk_unreadable(w, address);
    for (unsigned i = 0; i < r->nr_saved; i++) {
        unsigned reg = r->saved[i], saved = rule_saved(r, rule, i);
        if (saved == 0)
            continue;
        if (memory_read_slot(m, cfa - 8 * (uint64_t)saved, &w->value[reg], &w->provenance))
            w->known |= REG_BIT(reg);
        else
            w->known &= ~REG_BIT(reg);
    }
    w->value[r->sp] = cfa;
    w->value[r->pc] = pc & r->address_mask;
    w->known &= r->survives;
    return STEP_OK;
}
