/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Unwind rules as a small closed type, and the cache of rules by address. Private to unwind/.
 *
 * Nearly every row of real CFI is "CFA = register + offset, some callee-saved registers and the
 * return address in 8-byte slots below the CFA". Such a row is 16 bytes; a program's hundred
 * thousand rows are a few thousand different ones, which stay in the first-level cache. Whatever
 * does not fit is kept whole (struct cfi_row).
 *
 *     pc, cfi id --multiply--> slot in a set of 4 --> index --> struct rule [--> struct cfi_row]
 *
 * An entry is 8 bytes: what is left of the hashed key once its set is known, and the rule's
 * index. The hash is a multiplication by an odd number, which loses nothing: equal entries mean
 * equal keys, so that the cache cannot change a result. Keys are in the module's own terms: maps
 * that come and go invalidate nothing. Threads share all of it: a first sight is one of them all.
 */
#ifndef UNWIND_NATIVE_RULE_H
#define UNWIND_NATIVE_RULE_H

#include "unwind/arch.h"
#include "unwind/native/cfi.h"

#include <pthread.h>
#include <stdatomic.h>

enum rule_kind {
    RULE_ABSENT,  /* rule 0: not a rule */
    RULE_NONE,    /* no CFI covers the address */
    RULE_OFFSETS, /* CFA = cfa_register + cfa_offset */
    RULE_PLT,     /* CFA = rsp + 8 + ((rip & 15) >= plt_from ? 8 : 0), return address below */
    RULE_ROW,     /* all else: row `cfa_offset` of the store, 0: the cache's lone one */
};

struct rule {
    int32_t cfa_offset;
    uint8_t kind;
    uint8_t cfa_register;
    uint8_t ra;                          /* return address at CFA - 8 x ra */
    bool ends;                           /* the return address is undefined: the outermost frame */
    uint8_t saved[ARCH_CALLEE_SAVED_NR]; /* at CFA - 8 x saved; 0: same value */
    uint8_t deepest;                     /* the largest of `ra` and `saved` */
    uint8_t plt_from;
};
_Static_assert(sizeof(struct rule) == 16, "four rules a cache line");

/* Bits of a key: which cfi, and where from its first FDE. What does not fit is not cached. */
enum { KEY_ID_BITS = 24, KEY_OFFSET_BITS = 36, KEY_BITS = KEY_ID_BITS + KEY_OFFSET_BITS };

enum {
    CACHE_SET_BITS = 15,
    CACHE_WAY_BITS = 2,
    CACHE_WAYS = 1 << CACHE_WAY_BITS,
    CACHE_RULE_BITS = 64 - KEY_BITS + CACHE_SET_BITS
};

/* The rules of an FDE, for all its addresses: lowered when one of them is seen for the first time.
 */
struct fde_row {
    uint32_t end;  /* from the FDE's begin; the rule holds from the row before's end up to here */
    uint32_t rule; /* 0: it is found by running the program (RULE_ROW, damage) */
};
struct fde_rules {
    const struct fde_rules *next; /* of those whose keys have the same hash */
    uint64_t key;
    uint64_t begin;
    uint32_t size;
    uint32_t nr;
    struct fde_row rows[];
};
struct fde_arena;

/* What the unwinders of several threads know of rules. It grows, and what can be seen of it never
 * changes (but an entry of the cache may give way to another): so it is read without a lock, and
 * whoever finds an index or a pointer in it by an acquiring load may read what that stands for. */
struct rule_store {
    _Atomic uint64_t *entries; /* [1 << CACHE_SET_BITS][CACHE_WAYS]; a key's slot, then the set's
                                  others */
    struct rule *rules;        /* different ones; 0: none */
    struct cfi_row *rows;      /* of RULE_ROW; 0: none */
    _Atomic(const struct fde_rules *) *fdes; /* lists, by hash */
    _Atomic size_t nr_fde_rows;
    /* Under the lock of struct unwind_rules. */
    unsigned users;
    size_t nr_rules, nr_rows;
    uint32_t *lookup; /* rules by content: open addressing, 0 is free */
    size_t lookup_size;
    struct fde_arena *arena;
};

struct unwind_rules {
    pthread_mutex_t lock;
    struct rule_store *current; /* a user of it; earlier ones, which were full, go with theirs */
};

/* An unwinder's way to the rules. */
struct rule_cache {
    const _Atomic uint64_t *entries; /* the store's */
    const struct rule *rules;
    struct rule_store *store;
    struct unwind_rules *shared;
    bool own; /* `shared` is the cache's */
    /* The latest that is not kept. */
    struct rule lone;
    struct cfi_row lone_row;
    uint64_t hits, misses;
};

/* rule.c: index of the one copy of `rule`; 0: memory is out, or there are too many. Under the lock.
 */
uint32_t rule_intern(struct rule_store *s, const struct rule *rule);
/* rule_fde.c: index of the rule of `address`; 0: run the program. */
uint32_t rule_of_fde(struct rule_cache *c, const struct cfi *cfi, uint64_t address);
bool rule_fdes_init(struct rule_store *s); /* false: memory is out */
void rule_fdes_destroy(struct rule_store *s);

/* `shared` must outlive the cache; NULL: the cache makes its own. false: memory is out. */
bool rule_cache_init(struct rule_cache *c, struct unwind_rules *shared);
void rule_cache_destroy(struct rule_cache *c);

/* Hashed key: set number in the high bits, zeros in the low (64 - KEY_BITS). */
static inline uint64_t rule_key_hash(uint32_t id, uint64_t offset)
{
    return (((uint64_t)id << KEY_OFFSET_BITS | offset) << (64 - KEY_BITS)) *
           UINT64_C(0x9e3779b97f4a7c15);
}

static inline size_t rule_slot(uint64_t hash)
{
    return hash >> (64 - CACHE_SET_BITS - CACHE_WAY_BITS);
}

/* What an entry has beside the tag: the index, where that is the key's. */
static inline uint64_t rule_entry(const _Atomic uint64_t *entry, uint64_t tag)
{
    return atomic_load_explicit(entry, memory_order_acquire) ^ tag;
}

/* The rule of a key; its index is 0 when it is not cached. Written out: compilers do not unroll
 * loops with atomic loads. */
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

/* The rule of `address` (in the cfi's terms) by running the CFI; `hash` is the key to keep it
 * under, 0: do not keep it. Valid until the next call, a RULE_ROW's row too. NULL: memory is out.
 */
const struct rule *rule_miss(struct rule_cache *c, const struct cfi *cfi, uint64_t address,
                             uint64_t hash);

/* The row of a RULE_ROW that the cache gave last. */
static inline const struct cfi_row *rule_cache_row(const struct rule_cache *c,
                                                   const struct rule *rule)
{
    return rule->cfa_offset ? &c->store->rows[rule->cfa_offset] : &c->lone_row;
}

/* The row of `address` as it is to be followed: without rules for slots that were popped. */
bool rule_row(const struct cfi *cfi, uint64_t address, struct cfi_row *ret);

/* The compact form of a row, as it stands or as it is to be followed; kind RULE_ROW when it has
 * none.
 */
struct rule rule_lower(const struct cfi_row *row);

#endif
