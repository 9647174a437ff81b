/* SPDX-License-Identifier: GPL-2.0-only */
/* The rules of a frame, its CFA, and where the caller's registers came from. */
#include "output/explain_internal.h"
#include "unwind/arch.h"
#include "unwind/native/expression.h"

#include <ctype.h>
#include <inttypes.h>

/* Append a register's name, as perf has it, in small letters. */
static void put_name(struct text *out, const struct machine *m, uint64_t reg)
{
    const struct arch *a = m->before.arch;
    if (reg == a->reg.pc) {
        text_string(out, "pc");
        return;
    }
    for (unsigned i = 0; i < a->nr_perf; i++) {
        if (a->perf[i].reg != reg)
            continue;
        for (const char *c = a->perf[i].name; *c; c++)
            text_char(out, (char)tolower((unsigned char)*c));
        return;
    }
    text_printf(out, "register %" PRIu64, reg);
}

/* ---- the rule ------------------------------------------------------------------------------- */

static void put_expression(struct text *out, struct cfi_bytes expression)
{
    text_char(out, '{');
    expression_print(expression, out);
    text_char(out, '}');
}

static void put_reg_rule(struct text *out, const struct machine *m, unsigned reg)
{
    const struct reg_rule *r = &m->row.regs[reg];
    if (r->kind == REG_UNSPECIFIED)
        return;
    text_string(out, ", ");
    put_name(out, m, reg);
    switch (r->kind) {
    case REG_UNDEFINED:
        text_string(out, " undefined");
        break;
    case REG_SAME:
        text_string(out, " kept");
        break;
    case REG_OFFSET:
        text_printf(out, " at CFA%+" PRId64, r->offset);
        break;
    case REG_VAL_OFFSET:
        text_printf(out, " = CFA%+" PRId64, r->offset);
        break;
    case REG_REGISTER:
        text_string(out, " in ");
        put_name(out, m, (uint64_t)r->offset);
        break;
    case REG_EXPRESSION:
        text_string(out, " at the address ");
        put_expression(out, r->expression);
        break;
    default:
        text_string(out, " = ");
        put_expression(out, r->expression);
        break;
    }
}

void explain_rule(struct text *out, const struct machine *m)
{
    const struct arch_registers *r = &m->before.arch->reg;
    if (!m->has_row)
        return;
    text_printf(out, "    rule     CFI, %s: CFA = ", m->rule);
    if (m->row.cfa_is_expression) {
        put_expression(out, m->row.cfa_expression);
    } else {
        put_name(out, m, m->row.cfa_register);
        text_printf(out, "%+" PRId64, m->row.cfa_offset);
    }
    put_reg_rule(out, m, r->ra);
    for (unsigned reg = 0; reg < r->columns; reg++)
        if (reg != r->ra)
            put_reg_rule(out, m, reg);
    text_string(out, m->row.signal_frame ? "; a signal frame\n" : "\n");
}

/* ---- values --------------------------------------------------------------------------------- */

/* Append where a value comes from. */
static void put_origin(struct text *out, const struct told_walk *t, const struct origin *o)
{
    const struct machine *from = o->machine < t->machines.nr ? &t->machines.at[o->machine] : NULL;
    size_t frame = t->nr_kernel + (from ? from->first : 0);
    switch (o->kind) {
    case ORIGIN_SAMPLE:
        text_string(out, "from the sample");
        break;
    case ORIGIN_READ:
        text_printf(out, "read at 0x%" PRIx64 " in the step out of #%zu", o->address, frame);
        break;
    case ORIGIN_CFA:
        text_printf(out, "the CFA of #%zu", frame);
        break;
    case ORIGIN_COMPUTED:
        text_printf(out, "computed in the step out of #%zu", frame);
        break;
    default:
        text_string(out, "not known");
        break;
    }
}

static void put_register(struct text *out, const struct told_walk *t, const struct machine *m,
                         uint64_t reg)
{
    put_name(out, m, reg);
    if (reg >= m->before.arch->reg.nr || !(m->before.known >> reg & 1)) {
        text_string(out, " is not known here");
        return;
    }
    text_printf(out, " is 0x%" PRIx64 ", ", m->before.value[reg]);
    put_origin(out, t, &m->origins[reg]);
}

void explain_cfa(struct text *out, const struct told_walk *t, const struct machine *m,
                 const struct frame *f)
{
    if (!f->cfa && !m->has_row)
        return;
    text_string(out, "    cfa      ");
    if (f->cfa)
        text_printf(out, "0x%" PRIx64, f->cfa);
    else
        text_string(out, "not known");
    if (m->has_row && !m->row.cfa_is_expression) {
        text_string(out, " = ");
        put_name(out, m, m->row.cfa_register);
        text_printf(out, "%+" PRId64 "; ", m->row.cfa_offset);
        put_register(out, t, m, m->row.cfa_register);
    } else if (m->has_row) {
        text_string(out, ", by the expression");
    } else {
        text_string(out, ", by the walker; ");
        put_register(out, t, m, m->before.arch->reg.sp);
        text_string(out, "; ");
        put_register(out, t, m, m->before.arch->reg.fp);
    }
    text_char(out, '\n');
}

/* Returns the machine frame further out; NULL: the walk ended at `m`. */
static const struct machine *next_of(const struct told_walk *t, const struct machine *m)
{
    size_t index = (size_t)(m - t->machines.at);
    return index + 1 < t->machines.nr && m->has_after ? m + 1 : NULL;
}

void explain_read_registers(struct text *out, const struct told_walk *t, const struct machine *m,
                            const struct told *read)
{
    const struct machine *next = next_of(t, m);
    for (unsigned reg = 0; next && reg < m->before.arch->reg.nr; reg++) {
        const struct origin *o = &next->origins[reg];
        if (o->kind == ORIGIN_READ && next - t->machines.at == (ptrdiff_t)o->machine + 1 &&
            o->address - read->read.address < read->read.size) {
            text_string(out, "; the caller's ");
            put_name(out, m, reg);
        }
    }
}

/* Registers of the caller that were not read in this step, and those that it lost. */
void explain_caller(struct text *out, const struct told_walk *t, const struct machine *m)
{
    static const char *const how[] = {[ORIGIN_CFA] = "the CFA", [ORIGIN_COMPUTED] = "computed"};
    const struct machine *next = next_of(t, m);
    uint64_t lost = m->before.known & ~m->after.known;
    if (!m->has_after)
        return;
    for (unsigned reg = 0; next && reg < m->before.arch->reg.nr; reg++) {
        const struct origin *o = &next->origins[reg];
        if ((o->kind == ORIGIN_CFA || o->kind == ORIGIN_COMPUTED) &&
            next - t->machines.at == (ptrdiff_t)o->machine + 1) {
            text_string(out, "    caller   ");
            put_name(out, m, reg);
            text_printf(out, " = 0x%" PRIx64 ", %s\n", m->after.value[reg], how[o->kind]);
        }
    }
    if (!lost)
        return;
    text_string(out, "    lost     ");
    for (unsigned reg = 0, nr = 0; reg < m->before.arch->reg.nr; reg++)
        if (lost >> reg & 1) {
            text_string(out, nr++ ? " " : "");
            put_name(out, m, reg);
        }
    text_string(out, ": calls need not keep them\n");
}
