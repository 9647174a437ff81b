/* SPDX-License-Identifier: GPL-2.0-only */
/* Converts (lowers) rows to rules, and fills the rule cache. */
#include "unwind/native/rule.h"
#include "base/threads.h"

#include "base/hash.h"
#include "base/heap.h"

#include <stdlib.h>

/* ---- lowering ------------------------------------------------------------------------------ */

/* Returns how far below the CFA an offset points; for a distance that no 64-bit number can hold,
 * any result is fine. */
static int64_t depth_of(const struct reg_rule *rule)
{
    return (int64_t)(0 - (uint64_t)rule->offset);
}

/* Returns `rule` as a slot number below the CFA, from 1 on; 0: the rule is no such slot. */
static uint16_t slot_of(const struct reg_rule *rule)
{
    uint64_t depth = (uint64_t)depth_of(rule);
    bool fits = depth % 8 == 0 && depth <= 8 * (uint64_t)UINT16_MAX;
    return rule->kind == REG_OFFSET && fits ? (uint16_t)(depth / 8) : 0;
}

/* Does the register have its value still? */
static bool is_kept(const struct reg_rule *rule)
{
    return rule->kind == REG_UNSPECIFIED || rule->kind == REG_SAME;
}

/* Do the registers that a compact rule cannot name follow the ABI's default? The default: the stack
 * pointer is the CFA, and registers that the caller must save itself are lost. */
static bool others_default(const struct cfi_row *row)
{
    const struct arch_registers *r = &row->arch->reg;
    uint64_t others = row->told & ~(r->callee_saved | REG_BIT(r->ra));
    for (; others; others &= others - 1) {
        unsigned reg = (unsigned)__builtin_ctzll(others);
        enum reg_rule_kind kind = row->regs[reg].kind;
        bool lost = kind == REG_UNDEFINED && reg != r->sp;
        if (kind != REG_UNSPECIFIED && !lost)
            return false;
    }
    return true;
}

/* Slots that were popped. Compilers do not remove a register's rule when they pop its slot. Memory
 * below the stack pointer is not recorded. But when it was below the slot and is now above it, the
 * register was restored (or, in a prologue that stores before it moves the stack pointer, not
 * changed yet), and it holds its caller's value. A slot that it never reached is in the red zone:
 * its rule stays. */
struct popped {
    int64_t above, upto; /* depths of popped slots: greater than `above`, up to `upto` */
};

static struct popped popped_of(const struct cfi_row *row)
{
    const int64_t most = INT32_MAX - 1; /* no stack frame is deeper */
    if (row->cfa_is_expression || row->cfa_register != row->arch->reg.sp)
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
        const struct cfi_bytes e = row->cfa_expression;
        rule->kind = RULE_PLT;
        return row->arch->is_plt_cfa && row->arch->is_plt_cfa(e.at, e.size, &rule->plt_from);
    }
    rule->cfa_register = (uint8_t)row->cfa_register;
    rule->cfa_offset = (int32_t)row->cfa_offset;
    return row->cfa_register < row->arch->reg.columns && row->cfa_register != row->arch->reg.pc &&
           row->cfa_offset == (int32_t)row->cfa_offset;
}

/* The slots of a row, in words below the CFA; 0: none. */
struct slots {
    uint16_t ra;
    uint16_t saved[ARCH_SAVED_MAX];
};

/* Finds where the return address is. false: a rule cannot say it. */
static bool find_ra(const struct cfi_row *row, struct slots *ret)
{
    const struct arch_registers *r = &row->arch->reg;
    const struct reg_rule *ra = &row->regs[r->ra];
    if (ra->kind == REG_UNDEFINED || (arch_has_link(r) && is_kept(ra)))
        return true;
    ret->ra = slot_of(ra);
    return ret->ra != 0;
}

/* Finds where the callee-saved registers are. false: a rule cannot say it of all. */
static bool find_saved(const struct cfi_row *row, struct slots *ret)
{
    const struct arch_registers *r = &row->arch->reg;
    struct popped popped = popped_of(row);
    uint64_t left = row->told & r->callee_saved;
    for (unsigned i = 0; left; i++) {
        const struct reg_rule *reg = &row->regs[r->saved[i]];
        left &= ~REG_BIT(r->saved[i]);
        if (is_kept(reg) || is_popped(popped, reg))
            continue;
        ret->saved[i] = slot_of(reg);
        if (ret->saved[i] == 0)
            return false;
    }
    return true;
}

static bool lower_pushed(const struct slots *s, struct rule *rule)
{
    rule->ra = (uint8_t)s->ra;
    for (unsigned i = 0; i < ARCH_SAVED_MAX; i++) {
        if (s->saved[i] && i >= RULE_PUSHED_SAVED)
            return false;
        if (s->saved[i])
            rule->saved[i] = (uint8_t)s->saved[i];
    }
    return rule->deepest <= UINT8_MAX;
}

/* Returns a slot's place in the block; too large: the block is too large for it. */
static uint64_t place_of(uint16_t slot, uint16_t deepest)
{
    return slot ? deepest + 1u - slot : 0;
}

/* Are the registers behind the frame pointer saved in order (rule.h)? */
static bool is_in_order(const struct slots *s)
{
    for (unsigned i = 2; i < ARCH_SAVED_MAX; i++)
        if (s->saved[i] && s->saved[i] + 1 != s->saved[i - 1])
            return false;
    return true;
}

static bool lower_linked(const struct slots *s, struct rule *rule)
{
    uint64_t most = place_of(s->ra, rule->deepest);
    rule->linked = most << RULE_LINKED_RA;
    for (unsigned i = 0; i < ARCH_SAVED_MAX; i++) {
        uint64_t place = place_of(s->saved[i], rule->deepest);
        rule->linked |= place << (RULE_LINKED_SAVED + RULE_PLACE_BITS * i);
        most = place > most ? place : most;
    }
    if (is_in_order(s))
        rule->linked |= RULE_LINKED_IN_ORDER;
    return most <= RULE_PLACE_MAX;
}

static bool lower_slots(const struct cfi_row *row, struct rule *rule)
{
    struct slots s = {0};
    if (!find_ra(row, &s) || !find_saved(row, &s))
        return false;
    rule->deepest = s.ra;
    for (unsigned i = 0; i < ARCH_SAVED_MAX; i++)
        rule->deepest = s.saved[i] > rule->deepest ? s.saved[i] : rule->deepest;
    return arch_has_link(&row->arch->reg) ? lower_linked(&s, rule) : lower_pushed(&s, rule);
}

bool rule_row(const struct cfi *cfi, uint64_t address, struct cfi_row *ret)
{
    if (!cfi_row(cfi, address, ret))
        return false;
    struct popped popped = popped_of(ret);
    for (unsigned i = 0; i < ret->arch->reg.nr_saved; i++) {
        struct reg_rule *reg = &ret->regs[ret->arch->reg.saved[i]];
        if (is_popped(popped, reg))
            reg->kind = REG_SAME;
    }
    return true;
}

struct rule rule_lower(const struct cfi_row *row)
{
    const struct rule whole = {.kind = RULE_ROW};
    const struct reg_rule *ra = &row->regs[row->arch->reg.ra];
    struct rule rule = {.kind = RULE_OFFSETS};
    bool has_caller = ra->kind != REG_UNSPECIFIED || arch_has_link(&row->arch->reg);
    if (!has_caller || (row->cfa_register == CFA_NONE && !row->cfa_is_expression))
        return (struct rule){.kind = RULE_NONE}; /* the row has no rule for the caller */
    if (row->signal_frame || !others_default(row) || !lower_slots(row, &rule) ||
        !lower_cfa(row, &rule))
        return whole;
    if (ra->kind != REG_UNDEFINED)
        return rule;
    if (rule.kind == RULE_PLT) /* no program has this */
        return whole;
    rule.kind = RULE_ENDS;
    return rule;
}

/* ---- cache --------------------------------------------------------------------------------- */

enum {
    CACHE_ENTRIES = CACHE_WAYS << CACHE_SET_BITS,
    CACHE_BYTES = CACHE_ENTRIES * 8,
    RULES_MAX = 1 << 16, /* if more are needed: start a new store */
    RULES_BYTES = RULES_MAX * sizeof(struct rule),
    ROWS_MAX = 1 << 13,
    ROWS_BYTES = ROWS_MAX * sizeof(struct cfi_row),
};
_Static_assert(RULES_MAX <= 1 << CACHE_RULE_BITS, "an entry holds any rule's index");

static uint64_t rule_hash(const struct rule *rule)
{
    uint64_t half[2];
    memcpy(half, rule, sizeof(half));
    return hash_u64(half[0] ^ hash_u64(half[1]));
}

static void store_free(struct rule_store *s)
{
    free((void *)s->entries);
    heap_unreserve(s->rules, RULES_BYTES);
    heap_unreserve(s->rows, ROWS_BYTES);
    hash_table_free(&s->by_content);
    rule_fdes_destroy(s);
    free(s);
}

/* Creates a store with one user. NULL: memory is out. */
static struct rule_store *store_create(void)
{
    struct rule_store *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->users = 1;
    s->nr_rules = s->nr_rows = 1;
    s->entries = aligned_alloc(64, CACHE_BYTES);
    s->rules = heap_reserve(RULES_BYTES);
    s->rows = heap_reserve(ROWS_BYTES);
    if (s->entries && s->rules && s->rows && rule_fdes_init(s)) {
        memset((void *)s->entries, 0, CACHE_BYTES);
        return s;
    }
    store_free(s);
    return NULL;
}

static void store_leave(struct rule_store *s)
{
    if (--s->users == 0)
        store_free(s);
}

struct unwind_rules *unwind_rules_create(void)
{
    struct unwind_rules *u = calloc(1, sizeof(*u));
    if (!u)
        return NULL;
    lock_init_short(&u->lock);
    u->current = store_create();
    if (u->current)
        return u;
    unwind_rules_free(u);
    return NULL;
}

void unwind_rules_free(struct unwind_rules *u)
{
    if (!u)
        return;
    if (u->current)
        store_leave(u->current);
    pthread_mutex_destroy(&u->lock);
    free(u);
}

/* Switches to a store. Call it under the lock. */
static void cache_use(struct rule_cache *c, struct rule_store *s)
{
    s->users++;
    if (c->store)
        store_leave(c->store);
    c->store = s;
    c->entries = s->entries;
    c->rules = s->rules;
}

bool rule_cache_init(struct rule_cache *c, struct unwind_rules *shared)
{
    *c = (struct rule_cache){.shared = shared ? shared : unwind_rules_create(), .own = !shared};
    if (!c->shared)
        return false;
    pthread_mutex_lock(&c->shared->lock);
    cache_use(c, c->shared->current);
    pthread_mutex_unlock(&c->shared->lock);
    return true;
}

void rule_cache_destroy(struct rule_cache *c)
{
    if (c->store) {
        pthread_mutex_lock(&c->shared->lock);
        store_leave(c->store);
        pthread_mutex_unlock(&c->shared->lock);
    }
    if (c->own)
        unwind_rules_free(c->shared);
}

uint32_t rule_intern(struct rule_store *s, const struct rule *rule)
{
    uint64_t hash = rule_hash(rule);
    uint32_t known =
        hash_table_find(&s->by_content, hash, i, memcmp(&s->rules[i], rule, sizeof(*rule)) == 0);
    if (known != HASH_TABLE_NONE)
        return known;
    if (s->nr_rules == RULES_MAX || !hash_table_add(&s->by_content, hash, s->nr_rules))
        return 0;
    s->rules[s->nr_rules] = *rule;
    return (uint32_t)s->nr_rules++;
}

/* Puts an entry into the key's slot or a free slot beside it. In a full set it replaces the entry
 * in the key's slot. */
static void store_put(struct rule_store *s, uint64_t hash, uint32_t index)
{
    size_t slot = rule_slot(hash);
    uint64_t entry = hash << CACHE_SET_BITS | index;
    for (unsigned way = 0; way < CACHE_WAYS; way++) {
        uint64_t none = 0;
        _Atomic uint64_t *to = &s->entries[slot ^ way];
        if (atomic_load_explicit(to, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(to, &none, entry, memory_order_release,
                                                    memory_order_relaxed))
            return;
    }
    atomic_store_explicit(&s->entries[slot], entry, memory_order_release);
}

static bool store_is_full(const struct rule_store *s)
{
    return s->nr_rules == RULES_MAX || s->nr_rows == ROWS_MAX;
}

/* Switches from a store that is full to one that is not; false: memory is out. Call it under the
 * lock. */
static bool cache_renew(struct rule_cache *c)
{
    struct unwind_rules *u = c->shared;
    if (store_is_full(u->current)) {
        struct rule_store *s = store_create();
        if (!s)
            return false;
        store_leave(u->current);
        u->current = s;
    }
    cache_use(c, u->current);
    return true;
}

/* Keeps a rule, and its row if it is a RULE_ROW. Returns the rule's index; 0: memory is out. */
static uint32_t keep_rule(struct rule_cache *c, struct rule rule, const struct cfi_row *row)
{
    uint32_t index = 0;
    pthread_mutex_lock(&c->shared->lock);
    if (!store_is_full(c->store) || cache_renew(c)) {
        struct rule_store *s = c->store;
        if (rule.kind == RULE_ROW) {
            rule.cfa_offset = (int32_t)s->nr_rows;
            s->rows[s->nr_rows++] = *row;
        }
        index = rule_intern(s, &rule);
    }
    pthread_mutex_unlock(&c->shared->lock);
    return index;
}

const struct rule *rule_miss(struct rule_cache *c, const struct cfi *cfi, uint64_t address,
                             uint64_t hash)
{
    c->misses++;
    uint32_t index = hash ? rule_of_fde(c, cfi, address) : 0;
    if (index == 0) {
        struct cfi_row row;
        struct rule rule = {.kind = RULE_NONE};
        if (rule_row(cfi, address, &row))
            rule = rule_lower(&row);
        if (hash == 0) {
            if (rule.kind == RULE_ROW)
                c->lone_row = row;
            c->lone = rule;
            return &c->lone;
        }
        index = keep_rule(c, rule, &row);
        if (index == 0)
            return NULL;
    }
    store_put(c->store, hash, index);
    return &c->rules[index];
}
