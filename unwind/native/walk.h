/* SPDX-License-Identifier: GPL-2.0-only */
/* One walk under way, and the steps out of a frame that are not the common one. Private to unwind/.
 */
#ifndef UNWIND_NATIVE_WALK_H
#define UNWIND_NATIVE_WALK_H

#include "unwind/native/rule.h"
#include "unwind/native/suffix_cache.h"
#include "unwind/walker.h"

/* A codemap's answer, prepared: the key of an address is hashed from `address - key_base`. */
struct walk_code {
    struct code code;
    uint64_t key_base;
    bool cached;  /* there is CFI, and its id fits into a key */
    bool managed; /* the input's walker is asked first */
    uint8_t frame_kind;
};

/* A codemap is asked by virtual call: the last few answers, of one walk or of all walks whose
 * inputs have the same context key. */
enum { WALK_CODES = 8 };
struct walk_codes {
    const void *context_key; /* of the inputs; NULL: of one walk */
    uint64_t epoch;
    struct walk_code at[WALK_CODES];
    unsigned nr, next;
};

/* What the bytes of modules say about addresses in them, learnt by reading: whether a call stands
 * before a return address, whether a signal trampoline begins. A module's bytes never change: keyed
 * as rules are, by the module's cfi and the address in it; an entry is a key and facts. */
enum code_fact {
    FACT_CALL = 1,         /* behind a call instruction */
    FACT_NO_CALL = 2,      /* not */
    FACT_NO_SIGRETURN = 4, /* no signal trampoline begins here */
};
enum { FACT_BITS = 12, FACT_MASK = 7 };
struct code_facts {
    uint64_t entries[1 << FACT_BITS]; /* key << 3 | facts; 0: free */
};

struct managed_slot {
    struct walker_state *state;
    size_t size;
};

struct walk {
    uint64_t value[DWARF_NR]; /* registers of the frame being looked at */
    uint32_t known;
    uint8_t flags;    /* of that frame: FRAME_LEAF, FRAME_SIGNAL */
    bool other_stack; /* a signal handler's stack was left */
    bool done;
    bool managed_begun; /* the walker's state is of this walk */
    enum provenance provenance;
    unsigned hops; /* signal frames after which the stack pointer went down */
    unsigned
        searches; /* for callers of generated code that are under way, each in another's walk */
    unsigned searched; /* words that all of them looked at */
    unsigned frames_left;
    const struct unwind_input *in;
    struct unwind_stack *out;
    struct code_facts *facts;
    struct managed_slot *managed;       /* where the walker's state is kept */
    struct suffix_cache_walk *suffixes; /* NULL: none */
    struct walk_code code;              /* a copy of the last that was asked for */
    struct walk_codes *codes;
};

/* What a step found. */
enum step_result {
    STEP_OK,
    STEP_NO,   /* this way does not apply */
    STEP_DONE, /* the walk ended; its end is set */
};

/* The code that owns `pc`. Valid until the next call. */
const struct walk_code *walk_code_slow(struct walk *w, uint64_t pc);

static inline const struct walk_code *walk_code(struct walk *w, uint64_t pc)
{
    const struct walk_code *c = &w->code;
    if (pc - c->code.start < c->code.end - c->code.start)
        return c;
    return walk_code_slow(w, pc);
}

enum step_result walk_end(struct walk *w, enum stack_end end, uint64_t address);
/* The word at `address` was not to be had: truncated or bad. */
enum step_result walk_unreadable(struct walk *w, uint64_t address);

/* walk_step.c. CFI of any form: `cfa` is the frame's CFA once `walk_row_cfa` gave it. */
enum step_result walk_row_cfa(struct walk *w, const struct cfi_row *row, const struct code *code,
                              uint64_t *ret);
enum step_result walk_row_registers(struct walk *w, const struct cfi_row *row,
                                    const struct code *code, uint64_t cfa);
/* The compact form, where not all slots are in the stack window. */
enum step_result walk_offsets_slow(struct walk *w, const struct rule *rule, uint64_t cfa);

/* walk_guess.c. No CFI: a signal trampoline or an epilogue (proven by its bytes), or a guess. Or
 * CFI by a register that the calls from here need not have kept. */
enum step_result walk_sigreturn(struct walk *w, const struct code *code);
enum step_result walk_by_lost_register(struct walk *w, const struct rule *rule);
enum step_result walk_guess(struct walk *w, const struct code *code);
/* Goes to the caller whose return address is at `slot`, if there is one that a file's code with CFI
 * gave, at an indirect call: as generated code is called. */
enum step_result walk_to_caller_of_generated(struct walk *w, uint64_t slot);
/* Does the call before a return address call the function that `pc` is in? Unknown: it is indirect.
 */
enum walk_callee { CALLEE_OTHER, CALLEE_UNKNOWN, CALLEE_SAME };
enum walk_callee walk_callee_of(struct walk *w, uint64_t return_address, uint64_t pc);

#endif
