/* SPDX-License-Identifier: GPL-2.0-only */
/* The state of one walk, and the less common ways to step out of a frame. Private to unwind/. */
#ifndef UNWIND_NATIVE_WALK_H
#define UNWIND_NATIVE_WALK_H

#include "unwind/native/rule.h"
#include "unwind/native/suffix_cache.h"
#include "unwind/walker.h"

/* A codemap's answer, prepared for use: the key of an address is hashed from `address -
 * key_base`. */
struct walk_code {
    struct code code;
    uint64_t key_base;
    bool cached;  /* the code has CFI, and the cfi's id fits into a key */
    bool managed; /* ask the input's walker first */
    uint8_t frame_kind;
};

/* Keeps the last few answers of the codemap, because asking it is a virtual call. They are of one
 * walk, or of all walks whose inputs have the same context key. */
enum { WALK_CODES = 8 };
struct walk_codes {
    const void *context_key; /* of the inputs; NULL: the answers are of one walk */
    uint64_t epoch;
    struct walk_code at[WALK_CODES];
    unsigned nr, next;
};

/* Facts learnt from the bytes of modules: whether a call stands before a return address, and
 * whether a signal trampoline begins at an address. A module's bytes never change, so the keys are
 * those of rules: the module's cfi and the address in the module. An entry has a key and facts. */
enum code_fact {
    FACT_CALL = 1,         /* the address is behind a call instruction */
    FACT_NO_CALL = 2,      /* the address is not behind a call instruction */
    FACT_NO_SIGRETURN = 4, /* no signal trampoline begins at the address */
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
    const struct arch *arch;
    uint64_t value[ARCH_REGISTERS_MAX]; /* registers of the current frame */
    uint64_t known;
    uint8_t flags;    /* flags of the current frame: FRAME_LEAF, FRAME_SIGNAL */
    bool other_stack; /* the walk has left a signal handler's stack */
    bool done;
    bool managed_begun; /* the walker's state belongs to this walk */
    bool managed_met;   /* the walker was asked */
    enum provenance provenance;
    unsigned hops; /* number of signal frames after which the stack pointer went down */
    /* Searches for callers of generated code that are under way, each within another's walk. */
    unsigned searches;
    unsigned searched; /* words that all searches have looked at */
    unsigned frames_left;
    const struct unwind_input *in;
    struct unwind_stack *out;
    struct code_facts *facts;
    struct managed_slot *managed;       /* keeps the walker's state */
    struct suffix_cache_walk *suffixes; /* NULL: none */
    struct explorer **explorer;         /* the unwinder's, made at first need (explore.h) */
    struct walk_code code;              /* a copy of the last answer */
    struct walk_codes *codes;
};

static inline uint64_t walk_pc(const struct walk *w)
{
    return w->value[w->arch->reg.pc];
}

static inline uint64_t walk_sp(const struct walk *w)
{
    return w->value[w->arch->reg.sp];
}

/* Is the frame's pc the instruction that executes, not a return address? */
static inline bool walk_is_at_pc(const struct walk *w)
{
    return w->flags & (FRAME_LEAF | FRAME_SIGNAL);
}

/* What a step found. */
enum step_result {
    STEP_OK,
    STEP_NO,   /* this way does not apply */
    STEP_DONE, /* the walk ended; its end is set */
};

/* Returns the code that owns `pc`. Valid until the next call. */
const struct walk_code *walk_code_slow(struct walk *w, uint64_t pc);

static inline const struct walk_code *walk_code(struct walk *w, uint64_t pc)
{
    const struct walk_code *c = &w->code;
    if (pc - c->code.start < c->code.end - c->code.start)
        return c;
    return walk_code_slow(w, pc);
}

/* Returns the key of an address in a file's code, whose bytes never change, as rules have it: less
 * than 1 << KEY_BITS. 0: the code is not a file's, or has no key. */
static inline uint64_t walk_file_key(const struct code *code, uint64_t pc)
{
    uint64_t offset = pc - code->bias;
    if (code->owner != CODE_ELF || !code->cfi_id || code->cfi_id >> KEY_ID_BITS ||
        offset >> KEY_OFFSET_BITS)
        return 0;
    return (uint64_t)code->cfi_id << KEY_OFFSET_BITS | offset;
}

enum step_result walk_end(struct walk *w, enum stack_end end, uint64_t address);
/* Ends the walk because the word at `address` cannot be read: the stack is truncated, or the read
 * is bad. */
enum step_result walk_unreadable(struct walk *w, uint64_t address);

/* walk_step.c: steps by CFI of any form. `cfa` is the frame's CFA, as walk_row_cfa() returned
 * it. */
enum step_result walk_row_cfa(struct walk *w, const struct cfi_row *row, const struct code *code,
                              uint64_t *ret);
enum step_result walk_row_registers(struct walk *w, const struct cfi_row *row,
                                    const struct code *code, uint64_t cfa);
/* A step by the compact form, where not all slots are in the stack window. */
enum step_result walk_offsets_slow(struct walk *w, const struct rule *rule, uint64_t cfa);

/* walk_instructions.c: steps by what the code without CFI does, to a caller that is proven or else
 * is a guess; or ends the walk (walk_outermost). */
enum step_result walk_by_instructions(struct walk *w, const struct code *code);

/* walk_guess.c: steps without CFI, by a signal trampoline (proven by its bytes), by instructions,
 * or by a guess; and by CFI that uses a register which calls from here need not have kept. */
enum step_result walk_sigreturn(struct walk *w, const struct code *code);
/* Ends the walk if no CFI covers the call, but the return address is the first byte of a function
 * and no call is before it: a stack that makecontext() made, or another program (__start_context).
 * STEP_NO: it is not so. */
enum step_result walk_made_start(struct walk *w);
enum step_result walk_by_lost_register(struct walk *w, const struct rule *rule);
enum step_result walk_guess(struct walk *w, const struct code *code);
/* Steps to the caller whose return address is at `slot`, if the address is in a file's code with
 * CFI, behind an indirect call: generated code is called so. */
enum step_result walk_to_caller_of_generated(struct walk *w, uint64_t slot);
/* Does the call before a return address call the function that contains `pc`? CALLEE_UNKNOWN: the
 * call is indirect. */
enum walk_callee { CALLEE_OTHER, CALLEE_UNKNOWN, CALLEE_SAME };
enum walk_callee walk_callee_of(struct walk *w, uint64_t return_address, uint64_t pc);

/* May `pc` be a return address, in executable code and behind a call instruction? Where the bytes
 * cannot be read, executable code is enough, unless `proof` is set. */
bool walk_is_return_address(struct walk *w, uint64_t pc, bool proof);
/* Reads the bytes before a return address; returns how many: fewer when code begins just before
 * it. */
size_t walk_read_before(struct walk *w, uint64_t pc, uint8_t bytes[ARCH_CALL_MAX]);
/* Gets where a jump through a word of a table of imported functions leads, if the code at `pc` is
 * one. */
bool walk_imported(struct walk *w, const uint8_t *code, size_t left, uint64_t pc, uint64_t *to);
/* Ends the walk if this frame without CFI, whose frame pointer is 0, is the outermost one. STEP_NO:
 * that is not shown. */
enum step_result walk_outermost(struct walk *w, const struct code *code);

#endif
