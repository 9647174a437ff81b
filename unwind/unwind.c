/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The walk loop. Each frame takes two halves. Between them memory has time to answer:
 *
 *   walk_frame   finds the frame's code, rule and CFA, and notes the frame
 *   walk_leave   reads the caller's registers from the stack
 *
 * The common frame (a rule in the cache, all slots in the stack window) needs no function call.
 * Functions that every frame runs take the machine's registers as an argument `r`. They are
 * compiled once for each machine, with its registers as constants.
 */
#include "unwind/unwind.h"

#include "base/hash.h"
#include "unwind/arch_aarch64.h"
#include "unwind/arch_x86_64.h"
#include "unwind/native/explore.h"
#include "unwind/native/walk.h"
#include "unwind/trace.h"

#include <stdlib.h>

#define likely(x) __builtin_expect(!!(x), 1)

/* For functions of which each machine has a copy. */
#define each_machine static inline __attribute__((always_inline))

static const struct arch_registers x86_64 = X86_64_REGISTERS, aarch64 = AARCH64_REGISTERS;
_Static_assert(ARCH_NR == 2, "the walk loop has a copy for each machine");

static inline bool is_x86_64(const struct walk *w)
{
    return likely(w->arch == &arch_x86_64);
}

enum { HOPS_MAX = 16, CONTEXT_CODES = 8 };

struct unwinder {
    struct rule_cache cache;
    struct code_facts facts;
    struct explorer *explorer; /* NULL: not needed yet */
    uint64_t frames, guesses;
    struct managed_slot managed[UNWIND_LANES];
    struct walk_codes codes[CONTEXT_CODES], own_codes[UNWIND_LANES];
    uint64_t epoch; /* within an epoch, equal context keys mean equal contexts */
    /* Comparing the words of a native frame costs as much as walking it, so suffix caches pay only
     * for managed frames. The number of walks in this epoch, and how many of them met managed code,
     * decide whether the next epoch uses suffix caches. */
    uint32_t walks, managed_met;
    bool uses_suffixes;
    struct suffix_cache suffix_caches[SUFFIX_CACHES];
    struct suffix_cache_walk suffix_walks[UNWIND_LANES];
};

struct unwinder *unwinder_create(struct unwind_rules *rules)
{
    struct unwinder *u = calloc(1, sizeof(*u));
    if (u && rule_cache_init(&u->cache, rules))
        return u;
    free(u);
    return NULL;
}

void unwinder_free(struct unwinder *u)
{
    if (!u)
        return;
    rule_cache_destroy(&u->cache);
    for (unsigned i = 0; i < UNWIND_LANES; i++)
        free(u->managed[i].state);
    for (unsigned i = 0; i < SUFFIX_CACHES; i++)
        suffix_cache_free(&u->suffix_caches[i]);
    explorer_free(u->explorer);
    free(u);
}

void unwinder_forget(struct unwinder *u)
{
    u->epoch++;
    u->uses_suffixes = u->managed_met * 2 > u->walks;
    u->walks = u->managed_met = 0;
}

struct unwinder_stats unwinder_stats(const struct unwinder *u)
{
    return (struct unwinder_stats){u->frames, u->cache.hits, u->cache.misses, u->guesses};
}

/* ---- ends ---------------------------------------------------------------------------------- */

/* Copies only the machine's own registers: x86-64 has half as many as there is space for. */
static void copy_registers(const struct arch *arch, uint64_t *to, const uint64_t *from)
{
    if (arch == &arch_x86_64)
        memcpy(to, from, sizeof(*to) * DWARF_NR);
    else
        memcpy(to, from, sizeof(*to) * ARCH_REGISTERS_MAX);
}

enum step_result walk_end(struct walk *w, enum stack_end end, uint64_t address)
{
    w->out->end = end;
    w->out->end_pc = walk_pc(w);
    w->out->end_address = address;
    w->out->registers.arch = w->arch;
    copy_registers(w->arch, w->out->registers.value, w->value);
    w->out->registers.known = w->known;
    w->done = true;
    return STEP_DONE;
}

enum step_result walk_unreadable(struct walk *w, uint64_t address)
{
    const struct memory *m = &w->in->memory;
    uint64_t stack_end = m->stack_start + memory_stack_size(m);
    bool behind = address + 7 >= stack_end && address + 7 - stack_end < ARCH_STACK_MAX;
    return walk_end(w, behind || w->other_stack ? STACK_TRUNCATED : STACK_BAD_READ, address);
}

/* ---- code ---------------------------------------------------------------------------------- */

static struct walk_code prepare_code(const struct code *code)
{
    struct walk_code c = {.code = *code, .frame_kind = FRAME_NATIVE};
    if (code->owner == CODE_JIT)
        c.frame_kind = FRAME_JIT;
    else if (code->owner == CODE_KERNEL)
        c.frame_kind = FRAME_KERNEL;
    if (code->cfi) {
        c.key_base = code->bias + code->cfi->low;
        c.cached = code->cfi_id != 0 && code->cfi_id >> KEY_ID_BITS == 0;
    }
    return c;
}

static struct walk_codes *codes_begin(struct walk_codes *c, const void *context_key, uint64_t epoch)
{
    c->context_key = context_key;
    c->epoch = epoch;
    c->nr = c->next = 0;
    return c;
}

static const struct walk_code *find_code(const struct walk_codes *codes, uint64_t pc)
{
    for (unsigned i = 0; i < codes->nr; i++) {
        const struct code *c = &codes->at[i].code;
        if (pc - c->start < c->end - c->start)
            return &codes->at[i];
    }
    return NULL;
}

static struct walk_code *ask_code(struct walk *w, uint64_t pc)
{
    struct walk_codes *codes = w->codes;
    const struct walker *walker = w->in->walker;
    struct code code = {0};
    if (!codemap_lookup(&w->in->code, pc, w->in->memory.time, &code))
        code = (struct code){.owner = CODE_NONE};
    if (pc - code.start >= code.end - code.start) { /* no range: valid only for this pc */
        code.start = pc;
        code.end = pc + 1;
    }
    if (code.cfi && code.cfi->arch != w->arch) /* it speaks of other registers */
        code.cfi = NULL;
    struct walk_code *to = &codes->at[codes->next];
    codes->next = (codes->next + 1) % WALK_CODES;
    if (codes->nr < WALK_CODES)
        codes->nr++;
    *to = prepare_code(&code);
    bool reads = walker && (!walker->arch || walker->arch == w->arch);
    to->managed = reads && walker->wants(walker->context, &code);
    return to;
}

const struct walk_code *walk_code_slow(struct walk *w, uint64_t pc)
{
    const struct walker *walker = w->in->walker;
    if (w->codes->context_key != w->in->context_key) /* a walk with another key took this place */
        codes_begin(w->codes, w->in->context_key, w->codes->epoch);
    const struct walk_code *found = find_code(w->codes, pc);
    w->code = found ? *found : *ask_code(w, pc);
    if (found && found->managed) /* each walk's own walker expects this question before a step */
        w->code.managed = walker->wants(walker->context, &w->code.code);
    return &w->code;
}

/* Returns where a walk keeps the codemap's answers: shared with other walks, or its own. */
static struct walk_codes *codes_of(struct unwinder *u, const struct unwind_input *in, unsigned lane)
{
    if (!in->context_key)
        return codes_begin(&u->own_codes[lane], NULL, 0);
    struct walk_codes *c = &u->codes[hash_u64((uintptr_t)in->context_key) % CONTEXT_CODES];
    return c->context_key == in->context_key && c->epoch == u->epoch
               ? c
               : codes_begin(c, in->context_key, u->epoch);
}

/* ---- one frame ----------------------------------------------------------------------------- */

/* Returns an address inside the executing instruction, or inside the call. */
each_machine uint64_t lookup_pc(const struct arch_registers *r, const struct walk *w)
{
    return w->value[r->pc] - !walk_is_at_pc(w);
}

/* What walk_frame passes to walk_leave. */
struct leaving {
    const struct rule *rule;
    uint64_t cfa;
    uint64_t sp;  /* the stack pointer must move up from this value */
    bool applied; /* the registers are already the caller's */
    bool signal;  /* the caller was interrupted */
};

static const struct rule rule_none = {.kind = RULE_NONE};

/* Returns the rule of `pc`; NULL: out of memory. */
static inline const struct rule *find_rule(struct unwinder *u, const struct walk_code *c,
                                           uint64_t pc)
{
    uint64_t offset = pc - c->key_base, hash = 0;
    if (likely(c->cached && offset >> KEY_OFFSET_BITS == 0)) {
        hash = rule_key_hash(c->code.cfi_id, offset);
        uint32_t index = rule_find(&u->cache, hash);
        if (likely(index != 0)) {
            u->cache.hits++;
            return &u->cache.rules[index];
        }
    }
    if (!c->code.cfi)
        return &rule_none;
    return rule_miss(&u->cache, c->code.cfi, pc - c->code.bias, hash);
}

each_machine bool push_frame(const struct arch_registers *r, struct walk *w,
                             const struct walk_code *c, uint64_t cfa)
{
    __typeof__(w->out->frames) *frames = &w->out->frames;
    if (!likely(vec_reserve(frames, frames->nr + 1)))
        return false;
    frames->at[frames->nr++] = (struct frame){
        .pc = w->value[r->pc],
        .cfa = cfa,
        .code = c->code.token,
        .kind = c->frame_kind,
        .flags = w->flags,
        .provenance = (uint8_t)w->provenance,
    };
    return true;
}

static inline int walk_once(struct unwinder *u, struct walk *w);

/* ---- what a trace is told ------------------------------------------------------------------ */

/* Make the full row of a compact rule. */
static struct cfi_row row_of(const struct arch_registers *r, const struct rule *rule)
{
    struct cfi_row row = {.cfa_register = rule->kind == RULE_PLT ? r->sp : rule->cfa_register,
                          .cfa_offset = rule->kind == RULE_PLT ? 8 : rule->cfa_offset};
    unsigned ra = rule->kind == RULE_PLT ? 1 : rule_ra(r, rule);
    if (ra)
        row.regs[r->ra] = (struct reg_rule){.kind = REG_OFFSET, .offset = -8 * (int64_t)ra};
    if (rule->kind == RULE_ENDS)
        row.regs[r->ra].kind = REG_UNDEFINED;
    for (unsigned i = 0; i < r->nr_saved && rule->kind == RULE_OFFSETS; i++) {
        unsigned saved = rule_saved(r, rule, i);
        if (saved)
            row.regs[r->saved[i]] =
                (struct reg_rule){.kind = REG_OFFSET, .offset = -8 * (int64_t)saved};
    }
    return row;
}

/* Tell the rule. `row` NULL: the rule is a compact one. */
static void trace_rule(const struct walk *w, const struct rule *rule, const struct cfi_row *row,
                       uint64_t cfa)
{
    static const char *const texts[] = {[RULE_OFFSETS] = "a rule of the cache",
                                        [RULE_ENDS] = "a rule of the cache",
                                        [RULE_PLT] = "the rule of all PLTs",
                                        [RULE_ROW] = "a whole row"};
    if (TRACE_LIKELY_NULL(w->in->trace))
        return;
    const struct cfi_row compact = row ? *row : row_of(&w->arch->reg, rule);
    const struct trace_event e = {.kind = TRACE_RULE,
                                  .text = texts[rule->kind],
                                  .value = cfa,
                                  .frame = w->out->frames.nr - 1,
                                  .row = &compact};
    w->in->trace->event(w->in->trace->context, &e);
}

static void trace_registers(const struct walk *w, enum trace_kind kind, const struct code *code)
{
    struct registers registers = {.arch = w->arch, .known = w->known};
    memcpy(registers.value, w->value, w->arch->reg.nr * sizeof(*registers.value));
    const struct trace_event e = {.kind = kind,
                                  .provenance = w->provenance,
                                  .frame = w->out->frames.nr,
                                  .code = code,
                                  .registers = &registers,
                                  .flags = w->flags};
    w->in->trace->event(w->in->trace->context, &e);
}

static void trace_next(const struct walk *w)
{
    if (!TRACE_LIKELY_NULL(w->in->trace))
        trace_registers(w, TRACE_NEXT, NULL);
}

static void say_outermost(const struct walk *w)
{
    trace_say(w->in, w->out, TRACE_END,
              "CFI says that the return address is undefined: this is the outermost frame", 0, 0);
}

/* Returns whether all frames so far, except the last, are of files, the kernel, and generated code
 * that no walker was asked about. Then no walker's state is needed any more if this walk starts
 * anew further out. */
static bool is_below_managed(const struct walk *w)
{
    for (size_t i = 0; i + 1 < w->out->frames.nr; i++) {
        uint8_t kind = w->out->frames.at[i].kind;
        if (kind != FRAME_NATIVE && kind != FRAME_KERNEL && (kind != FRAME_JIT || w->managed_met))
            return false;
    }
    return true;
}

/* Generated code that nothing describes (pcre2's regular expressions, guile's, PyPy's) keeps a
 * frame of fixed size without a frame pointer. To find its caller, search this many words above the
 * stack pointer for a return address from which the walk reaches the stack's entry. */
enum { GENERATED_WORDS = 128, GENERATED_TRIES = 8 };

/* A walk from such a word may reach other generated code. These limits on the depth and on all
 * searched words exist because a stack made for this purpose would take for ever. */
enum { SEARCHES_MAX = 64, SEARCHED_MAX = 16 * GENERATED_WORDS };

/* Go back to where a search began, but keep the count of searched words. */
static void walk_back(struct walk *w, const struct walk *before, size_t nr_frames)
{
    unsigned searched = w->searched;
    *w = *before;
    w->searched = searched;
    w->out->frames.nr = nr_frames;
    trace_say(w->in, w->out, TRACE_BACK, "the frames beyond this word are taken back", 0, 0);
}

/* Grade how well the calls fit together from frame `first` on, which is the caller of the generated
 * code. An old word in the frame of generated code may lead to the entry, too. But where its chain
 * meets the live frames, the call there is to another function. */
static enum walk_callee grade_callers(struct walk *w, size_t first, uint64_t sp)
{
    const struct frame *f = w->out->frames.at + first;
    size_t nr = w->out->frames.nr - first;
    enum walk_callee nearest = CALLEE_UNKNOWN;
    for (size_t i = 0; i + 1 < nr; i++) {
        if (i && f[i].cfa - sp > 8 * GENERATED_WORDS)
            break;
        enum walk_callee got = walk_callee_of(w, f[i + 1].pc, f[i].pc);
        if (got == CALLEE_OTHER)
            return got;
        nearest = i ? nearest : got;
    }
    return nearest;
}

/* Walk from the return address in word `i` to the end. Returns STEP_NO if there is none or the walk
 * does not reach the entry, -1 when out of memory. */
static int walk_from_word(struct unwinder *u, struct walk *w, const struct walk *before, unsigned i)
{
    size_t nr_frames = w->out->frames.nr;
    w->searched++;
    int got = walk_to_caller_of_generated(w, walk_sp(before) + 8 * i);
    if (got != STEP_OK)
        return STEP_NO;
    trace_say(
        w->in, w->out, TRACE_WAY,
        "the word at # is a return address behind an indirect call: the walk is tried from there",
        before->value[w->arch->reg.sp] + 8 * i, 0);
    trace_next(w);
    w->searches++;
    w->suffixes = NULL;
    w->managed_begun = false;
    w->flags = 0;
    while (!w->done && got >= 0)
        got = walk_once(u, w);
    if (got < 0 || w->out->end == STACK_COMPLETE)
        return got < 0 ? -1 : STEP_DONE;
    walk_back(w, before, nr_frames);
    return STEP_NO;
}

/* Find the caller of generated code. All results are guesses. Returns STEP_NO if no caller can be
 * found, -1 when out of memory. */
static int walk_past_generated(struct unwinder *u, struct walk *w)
{
    const struct walk before = *w;
    size_t nr_frames = w->out->frames.nr;
    unsigned tries = 0, fits = GENERATED_WORDS;
    if (!is_below_managed(w) || w->searches == SEARCHES_MAX)
        return STEP_NO;
    for (unsigned i = 0;
         i < GENERATED_WORDS && tries < GENERATED_TRIES && w->searched < SEARCHED_MAX; i++) {
        int got = walk_from_word(u, w, &before, i);
        if (got == STEP_NO)
            continue;
        if (got < 0)
            return got;
        enum walk_callee grade = grade_callers(w, nr_frames, walk_sp(&before));
        if (grade == CALLEE_SAME)
            return got;
        if (grade == CALLEE_UNKNOWN && fits == GENERATED_WORDS)
            fits = i;
        tries++;
        walk_back(w, &before, nr_frames);
    }
    return fits < GENERATED_WORDS ? walk_from_word(u, w, &before, fits) : STEP_NO;
}

static void say_without_cfi(const struct walk *w, const struct rule *rule)
{
    const char *text = "no CFI covers the address";
    bool compact = rule->kind == RULE_OFFSETS || rule->kind == RULE_ENDS;
    if (compact)
        trace_rule(w, rule, NULL, 0);
    if (compact && w->known >> rule->cfa_register & 1)
        text = "CFI says that the return address is in the link register still, whose value is not "
               "known any more";
    else if (compact)
        text = "CFI gives the CFA by a register whose value is not known any more";
    else if (rule->kind == RULE_ROW)
        text = "the CFI row cannot be followed";
    trace_say(w->in, w->out, TRACE_REFUSED, text, 0, 0);
}

/* Step out of a frame without CFI (or with CFI that cannot be followed): by signal trampoline, else
 * by guess. */
static enum step_result step_without_cfi(struct unwinder *u, struct walk *w,
                                         const struct code *code, struct leaving *l)
{
    enum { PAGE = 4096 };
    const struct code held = *code; /* look-ups by the guesses may replace *code */
    say_without_cfi(w, l->rule);
    /* A VM's compiler makes no trampoline: it is in a file, the vdso, or nameless memory. */
    bool may_trampoline = (held.executable && held.owner != CODE_JIT) || held.owner == CODE_NONE;
    /* An emulator has it at the start of a page, and `held` is of the byte before. */
    may_trampoline |= !walk_is_at_pc(w) && walk_pc(w) % PAGE == 0;
    enum step_result got = may_trampoline ? walk_sigreturn(w, &held) : STEP_NO;
    l->signal = got == STEP_OK;
    if (got == STEP_NO)
        got = walk_made_start(w);
    if (got == STEP_NO) {
        got = walk_by_lost_register(w, l->rule);
        if (got == STEP_NO)
            got = walk_guess(w, &held);
        if (got == STEP_NO && held.executable && held.owner != CODE_ELF)
            got = walk_past_generated(u, w);
        u->guesses += got == STEP_OK || (got == STEP_DONE && w->out->end == STACK_COMPLETE);
    }
    l->applied = true;
    if (got != STEP_NO)
        return got;
    return walk_end(w, held.owner == CODE_NONE ? STACK_NO_CODE : STACK_NO_CFI, 0);
}

/* The rest of walk_frame, for rules that are not plain offsets. */
static enum step_result step_by_row(struct unwinder *u, struct walk *w, const struct code *code,
                                    struct leaving *l, size_t frame)
{
    const struct cfi_row *row = rule_cache_row(&u->cache, l->rule);
    trace_rule(w, l->rule, row, 0);
    enum step_result got = walk_row_cfa(w, row, code, &l->cfa);
    if (got == STEP_OK) {
        w->out->frames.at[frame].cfa = l->cfa;
        if (row->regs[w->arch->reg.ra].kind == REG_UNDEFINED) {
            say_outermost(w);
            return walk_end(w, STACK_COMPLETE, 0);
        }
        got = walk_row_registers(w, row, code, l->cfa);
        l->applied = true;
        l->signal = row->signal_frame;
    }
    return got == STEP_NO ? step_without_cfi(u, w, code, l) : got;
}

/* Ask the walker. Returns STEP_NO if native rules step out of the frame, -1 (as int) when out of
 * memory. *named: the walker has appended frames in place of the native one. */
each_machine int step_by_managed(const struct arch_registers *r, struct walk *w,
                                 const struct walk_code *c, struct leaving *l, bool *named)
{
    const struct walker *walker = w->in->walker;
    struct managed_slot *slot = w->managed;
    if (slot->size < walker->state_size) {
        free(slot->state);
        slot->size = 0;
        slot->state = calloc(1, walker->state_size);
        if (!slot->state)
            return -1;
        slot->size = walker->state_size;
    }
    if (!w->managed_begun)
        slot->state->begun = false;
    w->managed_begun = w->managed_met = true;
    struct walker_step step = {.input = w->in,
                               .code = c->code,
                               .value = w->value,
                               .known = &w->known,
                               .flags = w->flags,
                               .provenance = &w->provenance,
                               .frames_left = &w->frames_left,
                               .out = w->out};
    l->sp = w->value[r->sp];
    switch (walker->step(walker->context, slot->state, &step)) {
    case WALKER_NO:
        return STEP_NO;
    case WALKER_BY_CFI:
        *named = true;
        return STEP_NO;
    case WALKER_STEPPED:
        break;
    case WALKER_UNREADABLE:
        return walk_unreadable(w, step.unreadable);
    default:
        return -1;
    }
    if (w->frames_left == 0)
        return walk_end(w, STACK_LIMIT, 0);
    l->rule = &rule_none;
    l->cfa = w->value[r->sp];
    l->applied = true;
    l->signal = false;
    return STEP_OK;
}

/* Is the return address still in the link register, whose value is not known? It is known only in a
 * frame that calls nothing. */
each_machine bool lacks_link(const struct arch_registers *r, const struct walk *w,
                             const struct rule *rule)
{
    const uint64_t place = (uint64_t)RULE_PLACE_MAX << RULE_LINKED_RA;
    return arch_has_link(r) && !(rule->linked & place) && !(w->known >> r->ra & 1);
}

/* First half of a frame. Returns STEP_DONE if the walk ended at this frame, -1 (as int) when out of
 * memory. */
each_machine int frame_on(const struct arch_registers *r, struct unwinder *u, struct walk *w,
                          struct leaving *l)
{
    uint64_t pc = w->value[r->pc];
    uint64_t lookup = lookup_pc(r, w);
    if (w->suffixes && suffix_cache_meets(w->suffixes, pc, w->value[r->sp]) && suffix_cache_take(w))
        return STEP_DONE;
    const struct walk_code *c = walk_code(w, lookup);
    if (w->suffixes && w->suffixes->noting)
        suffix_cache_note(w, c->managed);
    size_t frame = w->out->frames.nr;
    bool named = false;
    if (c->managed && w->frames_left) {
        int got = step_by_managed(r, w, c, l, &named);
        if (got != STEP_NO)
            return got;
        c = walk_code(w, lookup);
    }
    const struct rule *rule = find_rule(u, c, lookup);
    if (!rule)
        return -1;
    l->rule = rule;
    l->sp = w->value[r->sp];
    l->cfa = w->value[rule->cfa_register] + (uint64_t)(int64_t)rule->cfa_offset;
    l->applied = l->signal = false;
    bool has_cfa = (rule->kind == RULE_OFFSETS || rule->kind == RULE_ENDS) &&
                   w->known >> rule->cfa_register & 1;
    if (!arch_has_link(r) && rule->kind == RULE_PLT) {
        l->cfa = l->sp + 8 + ((pc & 15) >= rule->plt_from ? 8 : 0);
        has_cfa = true;
    }

    if (named)
        w->out->frames.at[frame].cfa = has_cfa ? l->cfa : 0;
    else if (w->frames_left-- == 0)
        return walk_end(w, STACK_LIMIT, 0);
    else if (!push_frame(r, w, c, has_cfa ? l->cfa : 0))
        return -1;
    u->frames++;
    if (has_cfa && rule->kind == RULE_ENDS)
        return walk_end(w, STACK_COMPLETE, 0);
    if (likely(has_cfa) && likely(!lacks_link(r, w, rule)))
        return STEP_OK;
    if (rule->kind == RULE_ROW)
        return step_by_row(u, w, &c->code, l, frame);
    return step_without_cfi(u, w, &c->code, l);
}

static int frame_x86_64(struct unwinder *u, struct walk *w, struct leaving *l)
{
    return frame_on(&x86_64, u, w, l);
}

static int frame_aarch64(struct unwinder *u, struct walk *w, struct leaving *l)
{
    return frame_on(&aarch64, u, w, l);
}

each_machine int frame_of(const struct arch_registers *r, struct unwinder *u, struct walk *w,
                          struct leaving *l)
{
    return r == &x86_64 ? frame_x86_64(u, w, l) : frame_aarch64(u, w, l);
}

static int walk_frame(struct unwinder *u, struct walk *w, struct leaving *l)
{
    return is_x86_64(w) ? frame_x86_64(u, w, l) : frame_aarch64(u, w, l);
}

/* Restore a callee-saved register: from its slot, or from itself, which avoids a branch that is
 * hard to predict. */
each_machine void restore(const struct arch_registers *r, struct walk *w, unsigned i,
                          const uint8_t *slot, bool saved)
{
    uint8_t *value = (uint8_t *)&w->value[r->saved[i]];
    memcpy(value, saved ? slot : value, 8);
}

/* `top`: the stack at the CFA. */
each_machine void restore_pushed(const struct arch_registers *r, struct walk *w,
                                 const struct rule *rule, const uint8_t *top)
{
    _Static_assert(RULE_PUSHED_SAVED == 6, "six slots are looked at");
    memcpy(&w->value[r->pc], top - 8 * (size_t)rule->ra, 8);
    restore(r, w, 0, top - 8 * (size_t)rule->saved[0], rule->saved[0]);
    restore(r, w, 1, top - 8 * (size_t)rule->saved[1], rule->saved[1]);
    restore(r, w, 2, top - 8 * (size_t)rule->saved[2], rule->saved[2]);
    restore(r, w, 3, top - 8 * (size_t)rule->saved[3], rule->saved[3]);
    restore(r, w, 4, top - 8 * (size_t)rule->saved[4], rule->saved[4]);
    restore(r, w, 5, top - 8 * (size_t)rule->saved[5], rule->saved[5]);
}

/* Restore a register from its place in a block, if it has one. */
each_machine void restore_from(struct walk *w, unsigned reg, const uint8_t *before, uint64_t place)
{
    place &= RULE_PLACE_MAX;
    if (likely(place))
        memcpy(&w->value[reg], before + 8 * place, 8);
}

/* `block`: the stack at the lowest slot. */
each_machine void restore_linked(const struct arch_registers *r, struct walk *w,
                                 const struct rule *rule, const uint8_t *block)
{
    const uint8_t *before = block - 8; /* places count from 1 on */
    uint64_t left = rule->linked >> RULE_LINKED_RA;
    if (likely(left & RULE_PLACE_MAX))
        restore_from(w, r->pc, before, left);
    else
        w->value[r->pc] = w->value[r->ra];
    left >>= RULE_PLACE_BITS;
    restore_from(w, r->saved[0], before, left);
    left >>= RULE_PLACE_BITS;
    if (!likely(rule->linked & RULE_LINKED_IN_ORDER)) {
#pragma GCC unroll 10
        for (unsigned i = 1; i < ARCH_SAVED_MAX && left; i++, left >>= RULE_PLACE_BITS)
            restore_from(w, r->saved[i], before, left);
        return;
    }
    const uint8_t *first = before + 8 * (left & RULE_PLACE_MAX);
#pragma GCC unroll 10
    for (unsigned i = 1; i < ARCH_SAVED_MAX && left; i++, left >>= RULE_PLACE_BITS)
        memcpy(&w->value[r->saved[i]], first + 8 * (i - 1), 8);
}

/* Returns the `size` bytes of the stack that begin at `low`, if one of the two pieces holds them
 * all; else NULL. */
static inline const uint8_t *find_slots(const struct memory *m, uint64_t low, uint64_t size)
{
    uint64_t at = low - m->stack_start;
    if (likely(at < m->stack_size && m->stack_size - at >= size))
        return m->stack + at;
    at -= m->stack_size;
    return at < m->stack_far_size && m->stack_far_size - at >= size ? m->stack_far + at : NULL;
}

/* Note the slots of a compact rule. */
each_machine void note_leaving(const struct arch_registers *r, const struct walk *w,
                               const struct leaving *l)
{
    struct memory_reads *reads = w->in->memory.reads;
    uint64_t size = 8 * (uint64_t)l->rule->deepest;
    if (!arch_has_link(r)) {
        memory_note(reads, l->cfa - size, size);
        return;
    }
    for (unsigned i = 0; i < r->nr_saved; i++) {
        uint64_t saved = rule_saved(r, l->rule, i);
        if (saved)
            memory_note(reads, l->cfa - 8 * saved, 8);
    }
    uint64_t ra = rule_ra(r, l->rule);
    if (ra)
        memory_note(reads, l->cfa - 8 * ra, 8);
}

/* Read the slots of a compact rule. In the common case the recorded stack holds them all. */
each_machine enum step_result leave_by_offsets(const struct arch_registers *r, struct walk *w,
                                               const struct leaving *l)
{
    const struct memory *m = &w->in->memory;
    const struct rule *rule = l->rule;
    uint64_t depth = 8 * (uint64_t)rule->deepest;
    uint64_t size = rule_slots_size(r, rule);
    const uint8_t *slots = find_slots(m, l->cfa - depth, size);
    if (!likely(slots != NULL))
        return walk_offsets_slow(w, rule, l->cfa);
    if (w->suffixes && w->suffixes->open)
        note_leaving(r, w, l);
    if (arch_has_link(r))
        restore_linked(r, w, rule, slots);
    else
        restore_pushed(r, w, rule, slots + size);
    w->value[r->pc] &= r->address_mask;
    w->value[r->sp] = l->cfa;
    w->known &= r->survives;
    if (!likely(w->known == r->survives)) {
        for (unsigned i = 0; i < r->nr_saved; i++)
            w->known |= (uint64_t)(rule_saved(r, rule, i) != 0) << r->saved[i];
    }
    return STEP_OK;
}

/* Second half of a frame: get the caller's registers, and check whether there may be a caller. */
each_machine enum step_result leave_on(const struct arch_registers *r, struct walk *w,
                                       const struct leaving *l)
{
    if (!l->applied && leave_by_offsets(r, w, l) != STEP_OK)
        return STEP_DONE;
    bool was_leaf = walk_is_at_pc(w);
    w->flags = 0;
    if (l->signal) {
        w->flags = FRAME_SIGNAL;
        w->out->frames.at[w->out->frames.nr - 1].flags |= FRAME_MADE;
    }
    if (!likely(w->value[r->sp] > l->sp)) {
        /* The return address was in a register (a leaf's on machines with a link register, vfork's
         * everywhere), so the stack pointer is the caller's. */
        bool in_register = was_leaf && !l->signal && w->value[r->sp] == l->sp;
        if (!in_register && (!l->signal || w->hops++ == HOPS_MAX))
            return walk_end(w, STACK_LOOP, 0);
        w->other_stack |= l->signal; /* an alternate signal stack, above the interrupted one */
    } else if (l->signal &&
               w->value[r->sp] - w->in->memory.stack_start > memory_stack_size(&w->in->memory)) {
        w->other_stack = true;
    }
    return w->value[r->pc] == 0 ? walk_end(w, STACK_COMPLETE, 0) : STEP_OK;
}

static enum step_result leave_x86_64(struct walk *w, const struct leaving *l)
{
    return leave_on(&x86_64, w, l);
}

static enum step_result leave_aarch64(struct walk *w, const struct leaving *l)
{
    return leave_on(&aarch64, w, l);
}

each_machine enum step_result leave_of(const struct arch_registers *r, struct walk *w,
                                       const struct leaving *l)
{
    return r == &x86_64 ? leave_x86_64(w, l) : leave_aarch64(w, l);
}

static enum step_result walk_leave(struct walk *w, const struct leaving *l)
{
    return is_x86_64(w) ? leave_x86_64(w, l) : leave_aarch64(w, l);
}

/* ---- one frame, traced --------------------------------------------------------------------- */

/* Read the slots that walk_leave reads in place, so that whoever notes reads sees them. */
static void note_slots(const struct walk *w, const struct leaving *l)
{
    const struct memory *m = &w->in->memory;
    enum provenance ignored = PROVENANCE_EXACT;
    uint64_t value;
    const struct arch_registers *r = &w->arch->reg;
    unsigned ra = rule_ra(r, l->rule);
    if (ra)
        (void)memory_read_slot(m, l->cfa - 8 * (uint64_t)ra, &value, &ignored);
    for (unsigned i = 0; i < r->nr_saved; i++) {
        unsigned saved = rule_saved(r, l->rule, i);
        if (saved)
            (void)memory_read_slot(m, l->cfa - 8 * (uint64_t)saved, &value, &ignored);
    }
}

/* Tell how a frame was left, or why the walk ends there. */
static void trace_left(const struct walk *w)
{
    if (!w->done) {
        trace_registers(w, TRACE_NEXT, NULL);
        return;
    }
    if (w->out->end == STACK_COMPLETE && walk_pc(w) == 0)
        trace_say(w->in, w->out, TRACE_END, "the return address is 0: nobody called this frame", 0,
                  0);
    else if (w->out->end == STACK_LOOP)
        trace_say(w->in, w->out, TRACE_END,
                  "the caller's stack pointer # is not above this frame's: a stack would never end",
                  walk_sp(w), 0);
    else if (w->out->end == STACK_LIMIT)
        trace_say(w->in, w->out, TRACE_END, "as many frames as --max-stack allows", 0, 0);
}

static __attribute__((noinline)) int walk_traced(struct unwinder *u, struct walk *w)
{
    struct leaving l = {.rule = NULL};
    const struct code code = walk_code(w, lookup_pc(&w->arch->reg, w))->code;
    trace_registers(w, TRACE_FRAME, &code);
    int got = walk_frame(u, w, &l);
    if (got < 0)
        return got;
    bool plain = l.rule && (l.rule->kind == RULE_OFFSETS || l.rule->kind == RULE_PLT) && !l.applied;
    bool ends = l.rule && l.rule->kind == RULE_ENDS && !l.applied;
    if ((plain && got == STEP_OK) || ends)
        trace_rule(w, l.rule, NULL, l.cfa);
    if (ends && got == STEP_DONE && w->out->end == STACK_COMPLETE)
        say_outermost(w);
    if (plain && got == STEP_OK)
        note_slots(w, &l);
    if (got == STEP_OK)
        walk_leave(w, &l);
    trace_left(w);
    return got;
}

/* Take one frame whole. Returns -1 when out of memory. */
static inline int walk_once(struct unwinder *u, struct walk *w)
{
    struct leaving l;
    if (!TRACE_LIKELY_NULL(w->in->trace))
        return walk_traced(u, w);
    int got = walk_frame(u, w, &l);
    if (got == STEP_OK)
        walk_leave(w, &l);
    return got;
}

/* ---- walks --------------------------------------------------------------------------------- */

/* `lane`: the number of this walk among those in progress. */
static void walk_begin(struct unwinder *u, struct walk *w, unsigned lane,
                       const struct unwind_input *in, struct unwind_stack *out)
{
    const struct arch_registers *r = &in->registers.arch->reg;
    const uint64_t needed = REG_BIT(r->pc) | REG_BIT(r->sp);
    w->arch = in->registers.arch;
    copy_registers(w->arch, w->value, in->registers.value);
    w->known = in->registers.known & arch_all_registers(r);
    w->flags = FRAME_LEAF;
    w->other_stack = w->done = false;
    w->provenance = PROVENANCE_EXACT;
    w->managed_begun = w->managed_met = false;
    w->suffixes = NULL;
    w->hops = w->searches = w->searched = 0;
    w->frames_left = in->max_frames;
    w->in = in;
    w->out = out;
    w->facts = &u->facts;
    w->explorer = &u->explorer;
    w->managed = &u->managed[lane];
    w->codes = codes_of(u, in, lane);
    w->code.code.start = w->code.code.end = 0;
    out->end_pc = out->end_address = 0;
    if ((w->known & needed) != needed)
        walk_end(w, STACK_NO_REGS, 0);
}

/* Returns -1 when out of memory. */
each_machine int walk_on(const struct arch_registers *r, struct unwinder *u, struct walk *w)
{
    struct leaving l;
    while (!w->done) {
        int got = frame_of(r, u, w, &l);
        if (got < 0)
            return -1;
        if (got == STEP_OK)
            leave_of(r, w, &l);
    }
    return 0;
}

/* Let the walker put in what it knows only now. Returns -1 when memory is out. */
static int walker_finish(const struct walk *w)
{
    const struct walker *walker = w->in->walker;
    return w->managed_met && walker->finish ? walker->finish(walker->context, w->in, w->out) : 0;
}

int unwind(struct unwinder *u, const struct unwind_input *input, struct unwind_stack *ret,
           struct error *err)
{
    struct walk w;
    walk_begin(u, &w, 0, input, ret);
    int failed = 0;
    if (!TRACE_LIKELY_NULL(input->trace))
        while (!w.done && !failed)
            failed = walk_once(u, &w) < 0;
    else
        failed = is_x86_64(&w) ? walk_on(&x86_64, u, &w) : walk_on(&aarch64, u, &w);
    return failed || walker_finish(&w) < 0 ? error_no_memory(err) : 0;
}

/* ---- batches ------------------------------------------------------------------------------- */

/* Walks advance in turns, each by half a frame: while one waits for memory, others work. */
struct lane {
    struct walk walk;
    struct leaving leaving;
    struct rule rule; /* a copy: other lanes may change the cache */
    bool in_frame;    /* walk_leave comes next */
    unsigned number;
    struct suffix_cache_walk *suffixes;
};

/* The address of the next frame is known: start to fetch its entry of the rule cache. */
each_machine void fetch_rule(const struct arch_registers *r, const struct unwinder *u,
                             struct walk *w)
{
    uint64_t pc = lookup_pc(r, w);
    if (w->done || w->suffixes) /* the suffix cache may make it unnecessary */
        return;
    const struct walk_code *c = walk_code(w, pc);
    if (c->cached)
        __builtin_prefetch(
            &u->cache.entries[rule_slot(rule_key_hash(c->code.cfi_id, pc - c->key_base))]);
}

static void lane_begin(struct unwinder *u, struct lane *l, const struct unwind_input *in,
                       struct unwind_stack *out)
{
    struct suffix_cache *t =
        u->uses_suffixes ? suffix_cache_of(u->suffix_caches, u->epoch, in) : NULL;
    walk_begin(u, &l->walk, l->number, in, out);
    if (in->memory.reads) {
        in->memory.reads->on = false;
        in->memory.reads->watch = NULL;
    }
    if (t) {
        suffix_cache_begin(l->suffixes, t, in);
        l->walk.suffixes = l->suffixes;
    }
    fetch_rule(&l->walk.arch->reg, u, &l->walk);
}

/* Start to fetch the slots that walk_leave will read. */
each_machine void fetch_slots(const struct arch_registers *r, const struct lane *l)
{
    const struct memory *m = &l->walk.in->memory;
    enum { BLOCK = 56 }; /* of linked slots: few are larger, and the CFA is far from it */
    uint64_t low = l->leaving.cfa - 8 * (uint64_t)l->rule.deepest - m->stack_start;
    uint64_t last = arch_has_link(r) ? low + BLOCK : l->leaving.cfa - 8 - m->stack_start;
    if (last >= m->stack_size || low >= m->stack_size)
        return;
    __builtin_prefetch(m->stack + last);
    __builtin_prefetch(m->stack + low);
}

/* Returns -1 when memory is out. */
static int lane_end(struct unwinder *u, struct walk *w)
{
    u->walks++;
    u->managed_met += w->managed_begun || (w->suffixes && w->suffixes->taken);
    if (w->suffixes)
        u->frames += suffix_cache_end(w);
    return walker_finish(w);
}

each_machine void lane_leave(const struct arch_registers *r, const struct unwinder *u,
                             struct lane *l)
{
    struct walk *w = &l->walk;
    l->in_frame = false;
    leave_of(r, w, &l->leaving);
    if (w->suffixes && w->suffixes->open)
        suffix_cache_noted(w);
    fetch_rule(r, u, w);
}

/* Advance a walk by half a frame. Returns -1 when out of memory. */
each_machine int advance_on(const struct arch_registers *r, struct unwinder *u, struct lane *l)
{
    if (l->in_frame) {
        lane_leave(r, u, l);
        return 0;
    }
    int got = frame_of(r, u, &l->walk, &l->leaving);
    if (got == STEP_OK) {
        l->in_frame = true;
        l->rule = *l->leaving.rule;
        l->leaving.rule = &l->rule;
        fetch_slots(r, l);
    }
    return got < 0 ? -1 : 0;
}

static int lane_advance(struct unwinder *u, struct lane *l)
{
    return is_x86_64(&l->walk) ? advance_on(&x86_64, u, l) : advance_on(&aarch64, u, l);
}

int unwind_batch(struct unwinder *u, const struct unwind_input *inputs, struct unwind_stack *ret,
                 size_t nr, struct error *err)
{
    struct lane lanes[UNWIND_LANES];
    unsigned nr_lanes = 0;
    size_t next = 0;
    while (nr_lanes < UNWIND_LANES && next < nr) {
        lanes[nr_lanes].in_frame = false;
        lanes[nr_lanes].number = nr_lanes;
        lanes[nr_lanes].suffixes = &u->suffix_walks[nr_lanes];
        lane_begin(u, &lanes[nr_lanes++], &inputs[next], &ret[next]);
        next++;
    }
    while (nr_lanes) {
        for (unsigned i = 0; i < nr_lanes;) {
            struct lane *l = &lanes[i];
            if (!l->walk.done) {
                if (lane_advance(u, l) < 0)
                    return error_no_memory(err);
                if (l->walk.done && lane_end(u, &l->walk) < 0)
                    return error_no_memory(err);
                i++;
            } else if (next < nr) {
                lane_begin(u, l, &inputs[next], &ret[next]);
                next++;
            } else if (&lanes[--nr_lanes] != l) {
                *l = lanes[nr_lanes];
                if (l->in_frame)
                    l->leaving.rule = &l->rule;
            }
        }
    }
    return 0;
}

void unwind_prefetch(const struct unwind_input *next)
{
    enum { LINE = 64, FETCHED = 16 * LINE };
    const struct memory *m = &next->memory;
    uint64_t size = m->stack_size < FETCHED ? m->stack_size : FETCHED;
    for (uint64_t at = 0; at < size; at += LINE)
        __builtin_prefetch(m->stack + at);
}
