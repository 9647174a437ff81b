/* SPDX-License-Identifier: GPL-2.0-only */
/* Lowering rows to rules, and filling the rule cache. */
#include "unwind/native/rule.h"

#include "base/hash.h"
#include "base/heap.h"
#include "unwind/native/expression.h"

#include <stdlib.h>

/* ---- lowering ------------------------------------------------------------------------------ */

/* How far below the CFA an offset points; what no 64-bit number can say is as good as any. */
static int64_t depth_of(const struct reg_rule *rule)
{
    return (int64_t)(0 - (uint64_t)rule->offset);
}

/* `rule` as a slot number below the CFA: 1 to 255; 0: it is not that. */
static uint8_t slot_of(const struct reg_rule *rule)
{
    uint64_t depth = (uint64_t)depth_of(rule);
    return rule->kind == REG_OFFSET && depth % 8 == 0 && depth <= 8 * 255 ? (uint8_t)(depth / 8)
                                                                          : 0;
}

/* Registers that a compact rule cannot name must follow the ABI's default: rsp is the CFA, and
 * what the caller must save itself is lost. */
static bool others_default(const struct cfi_row *row)
{
    uint32_t others = row->told & ~(ARCH_CALLEE_SAVED | REG_BIT(DWARF_RIP));
    for (; others; others &= others - 1) {
        unsigned reg = (unsigned)__builtin_ctz(others);
        enum reg_rule_kind kind = row->regs[reg].kind;
        bool lost = kind == REG_UNDEFINED && reg != DWARF_RSP;
        if (kind != REG_UNSPECIFIED && !lost)
            return false;
    }
    return true;
}

/* Compilers do not withdraw a register's rule when they pop its slot. Below rsp nothing is
 * recorded; but once rsp stood below the slot and now stands above, the register was restored (or,
 * in a prologue that stores before it moves rsp, not yet changed), and its caller's value is in it.
 * A slot that rsp never reached is in the red zone: that rule stands. */
struct popped {
    int64_t above, upto; /* depths of the slots */
};

static struct popped popped_of(const struct cfi_row *row)
{
    const int64_t most = INT32_MAX - 1; /* no stack frame is deeper */
    if (row->cfa_is_expression || row->cfa_register != DWARF_RSP)
        return (struct popped){INT64_MAX, INT64_MIN};
    return (struct popped){row->cfa_offset, row->reach < most ? row->reach : most};
}

static bool is_popped(struct popped p, const struct reg_rule *reg)
{
    int64_t depth = depth_of(reg);
    return depth > p.above && depth <= p.upto && reg->kind == REG_OFFSET;
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
    struct popped popped = popped_of(row);
    for (uint32_t left = row->told & ARCH_CALLEE_SAVED; left; left &= left - 1) {
        unsigned number = (unsigned)__builtin_ctz(left);
        const struct reg_rule *reg = &row->regs[number];
        if (reg->kind == REG_UNSPECIFIED || reg->kind == REG_SAME || is_popped(popped, reg))
            continue;
        uint8_t slot = slot_of(reg);
        if (slot == 0)
            return false;
        rule->saved[arch_saved_index(number)] = slot;
        rule->deepest = slot > rule->deepest ? slot : rule->deepest;
    }
    return true;
}

bool rule_row(const struct cfi *cfi, uint64_t address, struct cfi_row *ret)
{
    if (!cfi_row(cfi, address, ret))
        return false;
    struct popped popped = popped_of(ret);
    for (unsigned i = 0; i < ARCH_CALLEE_SAVED_NR; i++) {
        struct reg_rule *reg = &ret->regs[arch_callee_saved[i]];
        if (is_popped(popped, reg))
            reg->kind = REG_SAME;
    }
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
    RULES_BYTES = RULES_MAX * sizeof(struct rule),
    ROWS_MAX = 1 << 13,
    RULE_UNCACHED = 1,
    RULES_RESERVED = 2,
};
_Static_assert(RULES_MAX <= 1 << CACHE_RULE_BITS, "an entry holds any rule's index");

static size_t rule_hash(const struct rule *rule)
{
    uint64_t half[2];
    memcpy(half, rule, sizeof(half));
    return hash_u64(half[0] ^ hash_u64(half[1]));
}

static bool lookup_grow(struct rule_cache *c)
{
    size_t size = c->lookup_size ? c->lookup_size * 2 : 1024;
    uint32_t *lookup = calloc(size, sizeof(*lookup));
    if (!lookup)
        return false;
    free(c->lookup);
    c->lookup = lookup;
    c->lookup_size = size;
    for (size_t i = RULES_RESERVED; i < c->nr_rules; i++) {
        size_t at = rule_hash(&c->rules[i]) & (size - 1);
        while (lookup[at])
            at = (at + 1) & (size - 1);
        lookup[at] = (uint32_t)i;
    }
    return true;
}

static void cache_reset(struct rule_cache *c)
{
    memset(c->entries, 0, CACHE_BYTES);
    memset(c->lookup, 0, c->lookup_size * sizeof(*c->lookup));
    c->nr_rules = RULES_RESERVED;
    c->rows.nr = 1;
    rule_fdes_reset(c);
}

bool rule_cache_init(struct rule_cache *c)
{
    *c = (struct rule_cache){.entries = aligned_alloc(64, CACHE_BYTES),
                             .rules = heap_reserve(RULES_BYTES)};
    if (c->entries && c->rules && lookup_grow(c) && vec_push(&c->rows, (struct cfi_row){0})) {
        cache_reset(c);
        return true;
    }
    rule_cache_destroy(c);
    return false;
}

void rule_cache_destroy(struct rule_cache *c)
{
    free(c->entries);
    heap_unreserve(c->rules, RULES_BYTES);
    free(c->lookup);
    vec_free(&c->rows);
    rule_fdes_destroy(c);
}

uint32_t rule_intern(struct rule_cache *c, const struct rule *rule)
{
    if (c->nr_rules == RULES_MAX || (c->nr_rules * 2 > c->lookup_size && !lookup_grow(c)))
        return 0;
    size_t mask = c->lookup_size - 1;
    size_t at = rule_hash(rule) & mask;
    for (; c->lookup[at]; at = (at + 1) & mask) {
        if (!memcmp(&c->rules[c->lookup[at]], rule, sizeof(*rule)))
            return c->lookup[at];
    }
    c->rules[c->nr_rules] = *rule;
    return c->lookup[at] = (uint32_t)c->nr_rules++;
}

/* Into the key's slot or a free one beside it; in a full set, over what stands in the key's. */
static void cache_put(struct rule_cache *c, uint64_t hash, uint32_t index)
{
    size_t slot = rule_slot(hash), to = slot;
    for (unsigned way = 0; way < CACHE_WAYS; way++) {
        if (c->entries[slot ^ way] == 0) {
            to = slot ^ way;
            break;
        }
    }
    c->entries[to] = hash << CACHE_SET_BITS | index;
}

const struct rule *rule_miss(struct rule_cache *c, const struct cfi *cfi, uint64_t address,
                             uint64_t hash)
{
    struct cfi_row row;
    struct rule rule = {.kind = RULE_NONE};
    c->misses++;
    uint32_t known = hash ? rule_of_fde(c, cfi, address) : 0;
    if (known) {
        cache_put(c, hash, known);
        return &c->rules[known];
    }
    if (rule_row(cfi, address, &row))
        rule = rule_lower(&row);
    if (hash == 0) {
        if (rule.kind == RULE_ROW)
            c->rows.at[0] = row;
        c->rules[RULE_UNCACHED] = rule;
        return &c->rules[RULE_UNCACHED];
    }
    if (c->nr_rules == RULES_MAX || c->rows.nr == ROWS_MAX)
        cache_reset(c);
    if (rule.kind == RULE_ROW) {
        rule.cfa_offset = (int32_t)c->rows.nr;
        if (!vec_push(&c->rows, row))
            return NULL;
    }
    uint32_t index = rule_intern(c, &rule);
    if (index == 0)
        return NULL;
    cache_put(c, hash, index);
    return &c->rules[index];
}
