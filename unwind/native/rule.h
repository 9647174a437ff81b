/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Unwind rules in a compact form, and the cache of rules by address. Private to unwind/.
 *
 * Nearly every row of real CFI is "CFA = register + offset, some callee-saved registers and the
 * return address in 8-byte slots below the CFA". Such a row takes 16 bytes. The hundred thousand
 * rows of a program are only a few thousand different ones, which stay in the first-level cache.
 * Other rows are kept whole (struct cfi_row).
 *
 * Slots have one of two forms, by the machine:
 *
 *   pushed   The call pushes the return address, so slots are just below the CFA: their distances
 *            from it, in bytes. Every machine without a link register.
 *   linked   The call puts the return address into the link register. There it stays in a function
 *            that calls nothing; others save it, beside registers, in one block that may be far
 *            below the CFA (compilers put it at the bottom of the frame). So a rule has the
 *            distance of the block, and places in it of five bits each.
 *
 *    pc, cfi id --multiply--> slot in a set of 4 --> index --> struct rule [--> struct cfi_row]
 *
 * An entry has 8 bytes: the part of the hashed key that its set does not determine, and the rule's
 * index. The hash is a multiplication by an odd number, which loses nothing. So equal entries mean
 * equal keys, and the cache cannot change a result. Keys are in the module's own terms, so mappings
 * that come and go invalidate nothing. Threads share the whole cache: an address that one thread
 * has looked up is known to all.
 */
#ifndef UNWIND_NATIVE_RULE_H
#define UNWIND_NATIVE_RULE_H

#include "base/hash_table.h"
#include "unwind/arch.h"
#include "unwind/native/cfi.h"

#include <pthread.h>
#include <stdatomic.h>

enum rule_kind {
    RULE_ABSENT,  /* rule 0: not a rule */
    RULE_NONE,    /* no CFI covers the address */
    RULE_OFFSETS, /* CFA = cfa_register + cfa_offset */
    RULE_ENDS,    /* the same, and the return address is undefined: this is the outermost frame */
    RULE_PLT,     /* CFA = sp + 8 + ((pc & 15) >= plt_from ? 8 : 0), return address below */
    RULE_ROW,     /* all other rules: row `cfa_offset` of the store; 0: the cache's `lone_row` */
};

/* The pushed form has slots of so many callee-saved registers: of all on x86-64. */
enum { RULE_PUSHED_SAVED = 6 };

/* The linked form: five bits for the return address, and for each callee-saved register (struct
 * arch_registers, `saved`). They are the word's place in the block from 1 on, lowest first; 0: it
 * is not saved. Compilers mostly save the registers behind the frame pointer in order: the first
 * ones, in rising words without a gap. */
enum {
    RULE_PLACE_BITS = 5,
    RULE_PLACE_MAX = (1 << RULE_PLACE_BITS) - 1,
    RULE_LINKED_IN_ORDER = 1,
    RULE_LINKED_RA = 64 - RULE_PLACE_BITS * (ARCH_SAVED_MAX + 1),
    RULE_LINKED_SAVED = RULE_LINKED_RA + RULE_PLACE_BITS,
};
_Static_assert(RULE_LINKED_RA > 0, "all registers fit");

struct rule {
    int32_t cfa_offset;
    uint8_t kind;
    uint8_t cfa_register;
    uint16_t deepest; /* the lowest slot is at CFA - 8 x deepest; 0: there are no slots */
    union {
        struct {
            uint8_t ra;                       /* the return address is at CFA - 8 x ra */
            uint8_t saved[RULE_PUSHED_SAVED]; /* at CFA - 8 x saved; 0: the register keeps its
                                                 value */
            uint8_t plt_from;
        };
        uint64_t linked;
    };
};
_Static_assert(sizeof(struct rule) == 16, "four rules a cache line");

/* How far below the CFA, in words, the return address is. 0: it is (still) in the link register. */
static inline unsigned rule_ra(const struct arch_registers *r, const struct rule *rule)
{
    unsigned place = (unsigned)(rule->linked >> RULE_LINKED_RA) & RULE_PLACE_MAX;
    if (!arch_has_link(r))
        return rule->ra;
    return place ? rule->deepest + 1u - place : 0;
}

/* How far below the CFA, in words, the callee-saved register r->saved[i] is. 0: it keeps its
 * value. */
static inline unsigned rule_saved(const struct arch_registers *r, const struct rule *rule,
                                  unsigned i)
{
    unsigned place =
        (unsigned)(rule->linked >> (RULE_LINKED_SAVED + RULE_PLACE_BITS * i)) & RULE_PLACE_MAX;
    if (!arch_has_link(r))
        return i < RULE_PUSHED_SAVED ? rule->saved[i] : 0;
    return place ? rule->deepest + 1u - place : 0;
}

/* The size in bytes of a part of the stack that has all slots; it begins at the lowest one. Blocks
 * differ in size, but asking for the largest costs nothing: more of the stack follows. */
static inline uint64_t rule_slots_size(const struct arch_registers *r, const struct rule *rule)
{
    return 8 * (uint64_t)(arch_has_link(r) ? RULE_PLACE_MAX : rule->deepest);
}

/* Bits of a key: the cfi's id, and the offset from its first FDE. Larger values are not cached. */
enum { KEY_ID_BITS = 24, KEY_OFFSET_BITS = 36, KEY_BITS = KEY_ID_BITS + KEY_OFFSET_BITS };

enum {
    CACHE_SET_BITS = 15,
    CACHE_WAY_BITS = 2,
    CACHE_WAYS = 1 << CACHE_WAY_BITS,
    CACHE_RULE_BITS = 64 - KEY_BITS + CACHE_SET_BITS
};

/* The rules of an FDE for all its addresses. They are made when one of these addresses is looked up
 * for the first time. */
struct fde_row {
    uint32_t end;  /* offset from the FDE's begin; the rule holds from the previous row's end up to
                      here */
    uint32_t rule; /* 0: run the program to find the rule (RULE_ROW, or damage) */
};
struct fde_rules {
    const struct fde_rules *next; /* next in the list of FDEs whose keys have the same hash */
    uint64_t key;
    uint64_t begin;
    uint32_t size;
    uint32_t nr;
    struct fde_row rows[];
};
struct fde_arena;

/* The rules that unwinders of several threads share. The store grows, and its visible parts never
 * change (except that an entry of the cache may be replaced). So it is read without a lock: a
 * thread that loads an index or a pointer with acquire order may read the object behind it. */
struct rule_store {
    /* [1 << CACHE_SET_BITS][CACHE_WAYS]; a key's slot comes first, then the other slots of its
     * set. */
    _Atomic uint64_t *entries;
    struct rule *rules;                      /* all different; index 0: none */
    struct cfi_row *rows;                    /* rows of RULE_ROW; index 0: none */
    _Atomic(const struct fde_rules *) *fdes; /* lists, by hash */
    _Atomic size_t nr_fde_rows;
    /* The fields below are protected by the lock of struct unwind_rules. */
    unsigned users;
    size_t nr_rules, nr_rows;
    struct hash_table by_content; /* of rules */
    struct fde_arena *arena;
};

struct unwind_rules {
    pthread_mutex_t lock;
    /* The store in use, of which this struct is a user. Earlier stores, which were full, are freed
     * with their last user. */
    struct rule_store *current;
};

/* One unwinder's access to the rules. */
struct rule_cache {
    const _Atomic uint64_t *entries; /* the store's */
    const struct rule *rules;
    struct rule_store *store;
    struct unwind_rules *shared;
    bool own; /* the cache owns `shared` */
    /* The latest rule and row that are not in the store. */
    struct rule lone;
    struct cfi_row lone_row;
    uint64_t hits, misses;
};

/* rule.c: returns the index of the one copy of `rule`; 0: memory is out, or there are too many
 * rules. Call it under the lock. */
uint32_t rule_intern(struct rule_store *s, const struct rule *rule);
/* rule_fde.c: returns the index of the rule of `address`; 0: run the program. */
uint32_t rule_of_fde(struct rule_cache *c, const struct cfi *cfi, uint64_t address);
bool rule_fdes_init(struct rule_store *s); /* false: memory is out */
void rule_fdes_destroy(struct rule_store *s);

/* `shared` must outlive the cache; NULL: the cache makes its own. false: memory is out. */
bool rule_cache_init(struct rule_cache *c, struct unwind_rules *shared);
void rule_cache_destroy(struct rule_cache *c);

/* Returns the hashed key: the set number in the high bits, zeros in the low (64 - KEY_BITS). */
static inline uint64_t rule_key_hash(uint32_t id, uint64_t offset)
{
    return (((uint64_t)id << KEY_OFFSET_BITS | offset) << (64 - KEY_BITS)) *
           UINT64_C(0x9e3779b97f4a7c15);
}

static inline size_t rule_slot(uint64_t hash)
{
    return hash >> (64 - CACHE_SET_BITS - CACHE_WAY_BITS);
}

/* Returns what an entry has besides the tag: the index, if the entry belongs to the key. */
static inline uint64_t rule_entry(const _Atomic uint64_t *entry, uint64_t tag)
{
    return atomic_load_explicit(entry, memory_order_acquire) ^ tag;
}

/* Returns the index of the rule of a key; 0: it is not cached. The loop is written out, because
 * compilers do not unroll loops with atomic loads. */
static inline uint32_t rule_find(const struct rule_cache *c, uint64_t hash)
{
    _Static_assert(CACHE_WAYS == 4, "four ways are looked at");
    const _Atomic uint64_t *entries = c->entries;
    size_t slot = rule_slot(hash);
    uint64_t tag = hash << CACHE_SET_BITS, index;
    if ((index = rule_entry(&entries[slot], tag)) >> CACHE_RULE_BITS == 0 ||
        (index = rule_entry(&entries[slot ^ 1], tag)) >> CACHE_RULE_BITS == 0 ||
        (index = rule_entry(&entries[slot ^ 2], tag)) >> CACHE_RULE_BITS == 0 ||
        (index = rule_entry(&entries[slot ^ 3], tag)) >> CACHE_RULE_BITS == 0)
        return (uint32_t)index;
    return 0;
}

/* Finds the rule of `address` (in the cfi's terms) by running the CFI. `hash`: the key under which
 * the rule is kept; 0: do not keep it. The result, and a RULE_ROW's row, are valid until the next
 * call. NULL: memory is out. */
const struct rule *rule_miss(struct rule_cache *c, const struct cfi *cfi, uint64_t address,
                             uint64_t hash);

/* Returns the row of the RULE_ROW that the cache gave last. */
static inline const struct cfi_row *rule_cache_row(const struct rule_cache *c,
                                                   const struct rule *rule)
{
    return rule->cfa_offset ? &c->store->rows[rule->cfa_offset] : &c->lone_row;
}

/* Finds the row of `address` for unwinding: without rules for slots that were popped. */
bool rule_row(const struct cfi *cfi, uint64_t address, struct cfi_row *ret);

/* Returns the compact form of a row, either as it is or after rule_row(). Kind RULE_ROW when it has
 * no compact form. */
struct rule rule_lower(const struct cfi_row *row);

#endif
