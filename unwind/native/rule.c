/* SPDX-License-Identifier: GPL-2.0-only */
/* Lowering rows to rules, and filling the rule cache. */
#include "unwind/native/rule.h"

#include "base/hash.h"
#include "unwind/native/expression.h"

#include <stdlib.h>

/* ---- lowering ------------------------------------------------------------------------------ */

/* `rule` as a slot number below the CFA: 1 to 255; 0: it is not that. */
static uint8_t slot_of(const struct reg_rule *rule)
{
    if (rule->kind != REG_OFFSET || rule->offset >= 0 || rule->offset < -8 * 255 ||
        rule->offset % 8 != 0)
        return 0;
    return (uint8_t)(-rule->offset / 8);
}

/* Registers that a compact rule cannot name must follow the ABI's default: rsp is the CFA, and
 * what the caller must save itself is lost. */
static bool others_default(const struct cfi_row *row)
{
    for (unsigned reg = 0; reg < DWARF_RIP; reg++) {
        enum reg_rule_kind kind = row->regs[reg].kind;
        bool lost = kind == REG_UNDEFINED && reg != DWARF_RSP;
        if (!(ARCH_CALLEE_SAVED & REG_BIT(reg)) && kind != REG_UNSPECIFIED && !lost)
            return false;
    }
    return true;
}

static bool lower_cfa(const struct cfi_row *row, struct rule *rule)
{
    if (row->cfa_is_expression) {
        rule->kind = RULE_PLT;
        return expression_is_plt(row->cfa_expression, &rule->plt_from);
    }
    rule->kind = RULE_OFFSETS;
    rule->cfa_register = (uint8_t)row->cfa_register;
    rule->cfa_offset = (int32_t)row->cfa_offset;
    return row->cfa_register < DWARF_RIP && row->cfa_offset == (int32_t)row->cfa_offset;
}

static bool lower_saved(const struct cfi_row *row, struct rule *rule)
{
    for (unsigned i = 0; i < ARCH_CALLEE_SAVED_NR; i++) {
        const struct reg_rule *reg = &row->regs[arch_callee_saved[i]];
        if (reg->kind == REG_UNSPECIFIED || reg->kind == REG_SAME)
            continue;
        rule->saved[i] = slot_of(reg);
        if (rule->saved[i] == 0)
            return false;
        if (rule->saved[i] > rule->deepest)
            rule->deepest = rule->saved[i];
    }
    return true;
}

/* Compilers do not withdraw a register's rule when they pop its slot. Below rsp nothing is
 * recorded; but once rsp stood below the slot and now stands above, the register was restored (or, in a
 * prologue that stores before it moves rsp, not yet changed), and its caller's value is in it. A slot that rsp
 * never reached is in the red zone: that rule stands. */
static void settle_popped(struct cfi_row *row)
{
    if (row->cfa_is_expression || row->cfa_register != DWARF_RSP)
        return;
    for (unsigned i = 0; i < ARCH_CALLEE_SAVED_NR; i++) {
        struct reg_rule *reg = &row->regs[arch_callee_saved[i]];
        if (reg->kind == REG_OFFSET && reg->offset > -INT32_MAX &&
            -reg->offset > row->cfa_offset && -reg->offset <= row->reach)
            reg->kind = REG_SAME;
    }
}

bool rule_row(const struct cfi *cfi, uint64_t address, struct cfi_row *ret)
{
    if (!cfi_row(cfi, address, ret))
        return false;
    settle_popped(ret);
    return true;
}

struct rule rule_lower(const struct cfi_row *row)
{
    const struct rule whole = {.kind = RULE_ROW};
    const struct reg_rule *ra = &row->regs[DWARF_RIP];
    struct rule rule = {.ra = slot_of(ra), .ends = ra->kind == REG_UNDEFINED};
    if (ra->kind == REG_UNSPECIFIED || (row->cfa_register == DWARF_NR && !row->cfa_is_expression))
        return (struct rule){.kind = RULE_NONE}; /* says nothing about the caller */
    rule.deepest = rule.ra;
    if (row->signal_frame || (rule.ra == 0 && !rule.ends) || !lower_cfa(row, &rule) ||
        !lower_saved(row, &rule) || !others_default(row))
        return whole;
    return rule;
}

/* ---- cache --------------------------------------------------------------------------------- */

enum {
    CACHE_ENTRIES = CACHE_WAYS << CACHE_SET_BITS,
    CACHE_BYTES = CACHE_ENTRIES * 8,
    RULES_MAX = 1 << 16, /* more: begin anew */
    ROWS_MAX = 1 << 13,
};
_Static_assert(RULES_MAX <= 1 << CACHE_RULE_BITS, "an entry holds any rule's index");

static bool lookup_grow(struct rule_cache *c)
{
    size_t size = c->lookup_size ? c->lookup_size * 2 : 1024;
    uint32_t *lookup = calloc(size, sizeof(*lookup));
    if (!lookup)
        return false;
    free(c->lookup);
    c->lookup = lookup;
    c->lookup_size = size;
    for (size_t i = 1; i < c->rules.nr; i++) {
        size_t at = hash_bytes(&c->rules.at[i], sizeof(struct rule)) & (size - 1);
        while (lookup[at])
            at = (at + 1) & (size - 1);
        lookup[at] = (uint32_t)i;
    }
    return true;
}

static bool cache_reset(struct rule_cache *c)
{
    memset(c->entries, 0, CACHE_BYTES);
    c->rules.nr = c->rows.nr = 0;
    if (c->lookup)
        memset(c->lookup, 0, c->lookup_size * sizeof(*c->lookup));
    return vec_push(&c->rules, (struct rule){.kind = RULE_ABSENT}) &&
           vec_push(&c->rows, (struct cfi_row){0});
}

bool rule_cache_init(struct rule_cache *c)
{
    *c = (struct rule_cache){.entries = aligned_alloc(64, CACHE_BYTES)};
    if (c->entries && cache_reset(c) && lookup_grow(c))
        return true;
    rule_cache_destroy(c);
    return false;
}

void rule_cache_destroy(struct rule_cache *c)
{
    free(c->entries);
    free(c->lookup);
    vec_free(&c->rules);
    vec_free(&c->rows);
}

/* Index of the one copy of `rule`; 0: memory is out. */
static uint32_t intern_rule(struct rule_cache *c, const struct rule *rule)
{
    if (c->rules.nr * 2 > c->lookup_size && !lookup_grow(c))
        return 0;
    size_t mask = c->lookup_size - 1;
    size_t at = hash_bytes(rule, sizeof(*rule)) & mask;
    for (; c->lookup[at]; at = (at + 1) & mask) {
        if (!memcmp(&c->rules.at[c->lookup[at]], rule, sizeof(*rule)))
            return c->lookup[at];
    }
    if (!vec_push(&c->rules, *rule))
        return 0;
    return c->lookup[at] = (uint32_t)(c->rules.nr - 1);
}

static int cache_put(struct rule_cache *c, uint64_t hash, const struct rule *rule)
{
    uint32_t index = intern_rule(c, rule);
    if (index == 0)
        return -1;
    uint64_t *set = rule_set(c, hash);
    memmove(set + 1, set, (CACHE_WAYS - 1) * sizeof(*set));
    set[0] = hash << CACHE_SET_BITS | index;
    return 0;
}

int rule_miss(struct rule_cache *c, const struct cfi *cfi, uint64_t address, uint64_t hash,
              struct rule *ret)
{
    struct cfi_row row;
    c->misses++;
    *ret = rule_row(cfi, address, &row) ? rule_lower(&row) : (struct rule){.kind = RULE_NONE};
    if ((c->rules.nr == RULES_MAX || c->rows.nr == ROWS_MAX) && !cache_reset(c))
        return -1;
    if (ret->kind == RULE_ROW && hash == 0)
        c->rows.at[0] = row;
    if (hash == 0)
        return 0;
    if (ret->kind == RULE_ROW) {
        ret->cfa_offset = (int32_t)c->rows.nr;
        if (!vec_push(&c->rows, row))
            return -1;
    }
    return cache_put(c, hash, ret);
}
