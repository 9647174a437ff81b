/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frames without CFI: generated code, hand-written assembly, stripped files. A step found here is a
 * guess, and so are all frames after it. Three exceptions are exact: what the code's instructions
 * prove (walk_instructions.c); a PLT's slots, which are known by their bytes; and the kernel's
 * signal frame, whose trampoline is known by its bytes and whose layout is ABI.
 */
#include "unwind/native/walk.h"

#include "base/hash.h"
#include "unwind/trace.h"

static void say(const struct walk *w, enum trace_kind kind, const char *text, uint64_t value)
{
    trace_say(w->in, w->out, kind, text, value, 0);
}

/* Says why a way does not apply. */
static enum step_result refuse(const struct walk *w, const char *text, uint64_t value)
{
    say(w, TRACE_REFUSED, text, value);
    return STEP_NO;
}

/* ---- what the bytes of modules say --------------------------------------------------------- */

/* Returns the entry for `pc` in `code`, which has its facts or is empty; NULL: the bytes of this
 * code may change. */
static uint64_t *fact_entry(struct walk *w, const struct code *code, uint64_t pc)
{
    uint64_t key = walk_file_key(code, pc) << 3;
    if (!key)
        return NULL;
    uint64_t *entry = &w->facts->entries[hash_u64(key) >> (64 - FACT_BITS)];
    if ((*entry & ~(uint64_t)FACT_MASK) != key)
        *entry = key;
    return entry;
}

/* ---- signal trampolines -------------------------------------------------------------------- */

/* Does the word in a signal frame at the stack pointer (`mode`) say that user code was interrupted?
 */
static bool is_user_mode(struct walk *w, uint64_t *mode, enum provenance *provenance)
{
    const struct arch *a = w->arch;
    return memory_read_slot(&w->in->memory, walk_sp(w) + a->sigcontext_mode, mode, provenance) &&
           (*mode & a->user_mode_mask) == a->user_mode;
}

/* Is the thread in the trampoline's system call? Its pc is behind the trampoline then, where
 * another function may begin: the signal frame must be there. */
static bool in_sigreturn_call(struct walk *w, uint64_t pc)
{
    const struct arch *a = w->arch;
    uint8_t code[ARCH_SIGRETURN_MAX];
    uint64_t mode;
    return walk_is_at_pc(w) &&
           memory_read(&w->in->memory, pc - a->sigreturn_size, code, a->sigreturn_size,
                       &w->provenance) &&
           a->is_sigreturn(code) && is_user_mode(w, &mode, &w->provenance);
}

/* Is `pc` at the first byte of a signal trampoline, or at a later instruction of it? */
static bool at_sigreturn(struct walk *w, uint64_t pc)
{
    const struct arch *a = w->arch;
    uint8_t code[ARCH_SIGRETURN_MAX];
    for (size_t i = 0; i < a->nr_sigreturn_into; i++) {
        if (memory_read(&w->in->memory, pc - a->sigreturn_into[i], code, a->sigreturn_size,
                        &w->provenance) &&
            a->is_sigreturn(code))
            return true;
        if (!walk_is_at_pc(w))
            return false; /* a return to the trampoline is always to its first byte */
    }
    return in_sigreturn_call(w, pc);
}

/* Take the interrupted registers from the kernel's signal frame at the stack pointer. */
static enum step_result leave_signal(struct walk *w)
{
    const struct arch_registers *r = &w->arch->reg;
    uint64_t value[ARCH_REGISTERS_MAX] = {0};
    for (unsigned reg = 0; reg < r->nr; reg++) {
        uint64_t at = walk_sp(w) + w->arch->sigcontext[reg];
        if (!memory_read_slot(&w->in->memory, at, &value[reg], &w->provenance))
            return walk_unreadable(w, at);
    }
    memcpy(w->value, value, sizeof(value));
    w->known = arch_all_registers(r);
    return STEP_OK;
}

/* Is a signal frame at the stack pointer, though the bytes of the code there are not known? On
 * machines with a link register the trampoline is in the vdso, of which another machine has no
 * image, and a step by frame pointer would lose the interrupted function. */
static bool may_be_signal(struct walk *w)
{
    enum { SP_ALIGNED = 16 };
    const struct arch *a = w->arch;
    uint64_t mode, pc, sp;
    uint8_t code;
    enum provenance ignored = PROVENANCE_EXACT;
    const struct memory *m = &w->in->memory;
    return arch_has_link(&a->reg) && !walk_is_at_pc(w) &&
           !memory_read(m, walk_pc(w), &code, 1, &ignored) && is_user_mode(w, &mode, &ignored) &&
           mode <= UINT32_MAX &&
           memory_read_slot(m, walk_sp(w) + a->sigcontext[a->reg.sp], &sp, &ignored) &&
           sp % SP_ALIGNED == 0 && sp &&
           memory_read_slot(m, walk_sp(w) + a->sigcontext[a->reg.pc], &pc, &ignored) &&
           walk_code(w, pc)->code.executable;
}

enum step_result walk_sigreturn(struct walk *w, const struct code *code)
{
    enum provenance before = w->provenance;
    uint64_t *fact = walk_is_at_pc(w) ? NULL : fact_entry(w, code, walk_pc(w));
    if (fact && *fact & FACT_NO_SIGRETURN)
        return STEP_NO;
    if (!at_sigreturn(w, walk_pc(w))) {
        w->provenance = before;
        if (may_be_signal(w)) {
            w->provenance = PROVENANCE_GUESS;
            trace_mark(w->in, w->out->frames.nr, PROVENANCE_GUESS,
                       "the code at # is not known, but a signal frame is at the stack pointer",
                       walk_pc(w));
            return leave_signal(w);
        }
        if (fact)
            *fact |= FACT_NO_SIGRETURN;
        return STEP_NO;
    }
    enum step_result got = leave_signal(w);
    if (got == STEP_OK)
        say(w, TRACE_WAY,
            "the code is the kernel's signal trampoline (rt_sigreturn): the interrupted registers "
            "are in the signal frame",
            0);
    return got;
}

/* Returns the address in the link register; 0: there is no such register, or it is not known. */
static uint64_t link_address(const struct walk *w)
{
    const struct arch_registers *r = &w->arch->reg;
    bool known = arch_has_link(r) && w->known & REG_BIT(r->ra);
    return known ? w->value[r->ra] & r->address_mask : 0;
}

/* ---- slots of imported functions ------------------------------------------------------------ */

/* Step out of a slot of a PLT, where no CFI covers them. It is exact: the code's bytes show it. */
static enum step_result step_by_import_slot(struct walk *w)
{
    enum { MOST = ARCH_IMPORT_SLOT_MAX };
    const struct arch_registers *r = &w->arch->reg;
    uint8_t bytes[2 * MOST];
    enum provenance ignored = PROVENANCE_EXACT;
    size_t before = MOST, after = MOST;
    unsigned pushed;
    uint64_t pc = walk_pc(w), to = link_address(w);
    if (!w->arch->in_import_slot || !walk_is_at_pc(w) || !to)
        return STEP_NO;
    while (after && !memory_read(&w->in->memory, pc, bytes + MOST, after, &ignored))
        after--;
    while (before &&
           !memory_read(&w->in->memory, pc - before, bytes + MOST - before, before, &ignored))
        before--;
    if (!w->arch->in_import_slot(bytes + MOST, before, after, &pushed) ||
        !walk_is_return_address(w, to, false))
        return STEP_NO;
    say(w, TRACE_WAY,
        "the code is a slot through which an imported function is called: the return address # is "
        "in the link register",
        to);
    w->value[r->pc] = to;
    w->value[r->sp] += pushed;
    w->known &= r->survives;
    return STEP_OK;
}

/* ---- return addresses ---------------------------------------------------------------------- */

size_t walk_read_before(struct walk *w, uint64_t pc, uint8_t bytes[ARCH_CALL_MAX])
{
    enum provenance ignored = PROVENANCE_EXACT;
    size_t size = w->arch->call_max;
    while (size && !memory_read(&w->in->memory, pc - size, bytes, size, &ignored))
        size--;
    return size;
}

bool walk_is_return_address(struct walk *w, uint64_t pc, bool proof)
{
    if (pc < 16)
        return false;
    const struct code *code = &walk_code(w, pc - 1)->code;
    if (!code->executable)
        return false;
    uint64_t *fact = fact_entry(w, code, pc);
    if (fact && *fact & (FACT_CALL | FACT_NO_CALL))
        return *fact & FACT_CALL;
    enum provenance ignored = PROVENANCE_EXACT;
    uint8_t bytes[ARCH_CALL_MAX];
    /* Mostly nothing is recorded of generated code: check this first. */
    if (!memory_read(&w->in->memory, pc - w->arch->call_min, bytes, w->arch->call_min, &ignored))
        return !proof;
    size_t size = walk_read_before(w, pc, bytes);
    bool call = w->arch->is_call(bytes + size, size);
    if (fact)
        *fact |= call ? FACT_CALL : FACT_NO_CALL;
    return call;
}

/* The outermost frame of a stack that a program made itself has a return address without a call
 * before it. A nop stands before the return address, so that a lookup of the call in front of it
 * finds the right function (Go's goexit). The frame is outermost, so the saved frame pointer is
 * 0. */
static bool is_made_return(struct walk *w, uint64_t pc, uint64_t saved_fp)
{
    const struct arch *a = w->arch;
    enum provenance ignored = PROVENANCE_EXACT;
    uint8_t bytes[sizeof(a->nop)];
    if (saved_fp != 0 || pc == 0 ||
        !memory_read(&w->in->memory, pc - a->nop_size, bytes, a->nop_size, &ignored))
        return false;
    const struct code *code = &walk_code(w, pc - 1)->code;
    return memcmp(bytes, a->nop, a->nop_size) == 0 && code->executable && code->owner == CODE_ELF;
}

enum step_result walk_made_start(struct walk *w)
{
    uint64_t pc = walk_pc(w), begin;
    const struct code *code = walk_is_at_pc(w) ? NULL : &walk_code(w, pc)->code;
    if (!code || code->owner != CODE_ELF || !code->cfi ||
        !cfi_function(code->cfi, pc - code->bias, &begin, NULL) || begin != pc - code->bias ||
        walk_is_return_address(w, pc, false))
        return STEP_NO;
    w->out->frames.at[w->out->frames.nr - 1].flags |= FRAME_MADE;
    say(w, TRACE_END,
        "the return address # is the first byte of a function, without a call before it: the "
        "program has made this stack, which begins there",
        pc);
    return walk_end(w, STACK_COMPLETE, 0);
}

/* Accepts a guess: the return address is at `slot`, and fp was saved below it if `saved_fp`. */
static enum step_result accept(struct walk *w, uint64_t slot, bool saved_fp, bool proof)
{
    const struct arch_registers *r = &w->arch->reg;
    const struct memory *m = &w->in->memory;
    enum provenance ignored = PROVENANCE_EXACT;
    uint64_t pc, fp = w->value[r->fp];
    if (slot + 8 <= walk_sp(w) || !memory_read_slot(m, slot, &pc, &ignored) ||
        (saved_fp && !memory_read_slot(m, slot - 8, &fp, &ignored)))
        return refuse(w, "the word at # is not above the stack pointer, or was not recorded", slot);
    pc &= r->address_mask;
    if (pc != 0 && !walk_is_return_address(w, pc, proof) &&
        !(saved_fp && is_made_return(w, pc, fp)))
        return refuse(w, "# is no return address: no executable code with a call before it", pc);
    if (pc == 0 && !saved_fp)
        return refuse(w, "the word at # is 0", slot);
    w->provenance = PROVENANCE_GUESS;
    trace_mark(w->in, w->out->frames.nr, PROVENANCE_GUESS,
               "the step to it was guessed: its pc is the word at #", slot);
    w->value[r->pc] = pc;
    w->value[r->sp] = slot + 8;
    w->value[r->fp] = fp;
    w->known &= r->survives;
    if (saved_fp)
        w->known |= REG_BIT(r->fp);
    return STEP_OK;
}

/* Accepts the guess that the call to this function is the last one: the return address is where the
 * call put it, in the link register or at the stack pointer. */
static enum step_result accept_leaf(struct walk *w, bool proof)
{
    const struct arch_registers *r = &w->arch->reg;
    if (!arch_has_link(r))
        return accept(w, walk_sp(w), false, proof);
    uint64_t pc = link_address(w);
    if (!pc || !walk_is_return_address(w, pc, proof))
        return refuse(w, "the link register (#) has no return address", pc);
    w->provenance = PROVENANCE_GUESS;
    trace_mark(w->in, w->out->frames.nr, PROVENANCE_GUESS,
               "the step to it was guessed: its pc # is in the link register", pc);
    w->value[r->pc] = pc;
    w->known &= r->survives;
    return STEP_OK;
}

/* ---- guesses ------------------------------------------------------------------------------- */

/* Guesses when pc is exact: its bytes, or that it is a function's first byte, may show where the
 * frame is. */
static enum step_result guess_by_point(struct walk *w, const struct code *code)
{
    const struct arch *a = w->arch;
    uint64_t pc = walk_pc(w), sp = walk_sp(w);
    uint8_t bytes[ARCH_POINT_MAX];
    enum provenance ignored = PROVENANCE_EXACT;
    enum arch_point point = ARCH_POINT_BODY;
    if (memory_read(&w->in->memory, pc - a->point_before, bytes, a->point_before + a->point_after,
                    &ignored))
        point = a->point(bytes + a->point_before);
    if (code->owner == CODE_JIT && pc == code->start)
        point = ARCH_POINT_ENTRY;
    static const char *const texts[] = {
        [ARCH_POINT_BODY] = "the instructions at # do not show where the frame is",
        [ARCH_POINT_ENTRY] = "the pc # is a function's entry or its return: nothing is pushed",
        [ARCH_POINT_PUSHED] = "the instruction at # follows the push of the frame pointer",
        [ARCH_POINT_PLT] = "the pc # is in a PLT slot that has pushed its number",
    };
    say(w, point == ARCH_POINT_BODY ? TRACE_REFUSED : TRACE_WAY, texts[point], pc);
    if (point == ARCH_POINT_ENTRY)
        return accept_leaf(w, false);
    if (point == ARCH_POINT_PLT)
        return accept(w, sp + 8, false, false);
    if (point == ARCH_POINT_PUSHED)
        return accept(w, sp + 8, true, false);
    return STEP_NO;
}

/* Guesses by a frame pointer: it must be above sp and in the recorded stack, with a return address
 * above it. */
static enum step_result guess_by_frame_pointer(struct walk *w)
{
    unsigned reg = w->arch->reg.fp;
    uint64_t fp = w->value[reg];
    if (!(w->known & REG_BIT(reg)) || fp < walk_sp(w) || fp % 8 != 0 || fp > UINT64_MAX - 16)
        return refuse(w,
                      "the frame pointer's register (#) is no frame pointer: not known, not "
                      "aligned, or below the stack pointer",
                      fp);
    say(w, TRACE_WAY, "the frame pointer's register (#) is taken for a frame pointer", fp);
    return accept(w, fp + 8, true, false);
}

/* Steps by a register that calls need not preserve. Functions of hand-written assembly agree on the
 * registers they keep: libcrypto's AES-GCM calls other functions of its own with the CFA in rax.
 * The register still has the value that the sample, or a frame further in, gave it. A return
 * address at the place that CFI gives confirms it. */
enum step_result walk_by_lost_register(struct walk *w, const struct rule *rule)
{
    uint64_t cfa = w->value[rule->cfa_register] + (uint64_t)(int64_t)rule->cfa_offset, pc;
    unsigned ra = rule_ra(&w->arch->reg, rule);
    enum provenance ignored = PROVENANCE_EXACT;
    if (rule->kind != RULE_OFFSETS || ra == 0 || cfa <= walk_sp(w) || cfa % 8 != 0 ||
        !memory_read_slot(&w->in->memory, cfa - 8 * (uint64_t)ra, &pc, &ignored) ||
        !walk_is_return_address(w, pc & w->arch->reg.address_mask, true))
        return STEP_NO;
    w->provenance = PROVENANCE_GUESS;
    trace_mark(w->in, w->out->frames.nr, PROVENANCE_GUESS,
               "the step to it was guessed: the CFA's register still has the value of an inner "
               "frame; the CFA is then #, with a return address where CFI says",
               cfa);
    return walk_offsets_slow(w, rule, cfa);
}

enum step_result walk_to_caller_of_generated(struct walk *w, uint64_t slot)
{
    enum provenance ignored = PROVENANCE_EXACT;
    uint8_t bytes[ARCH_CALL_MAX];
    uint64_t pc;
    if (!memory_read_slot(&w->in->memory, slot, &pc, &ignored))
        return STEP_NO;
    pc &= w->arch->reg.address_mask;
    if (pc < ARCH_CALL_MAX)
        return STEP_NO;
    const struct code *code = &walk_code(w, pc - 1)->code;
    if (!code->executable || code->owner != CODE_ELF || !code->cfi)
        return STEP_NO;
    size_t size = walk_read_before(w, pc, bytes);
    if (!w->arch->is_indirect_call(bytes + size, size))
        return STEP_NO;
    return accept(w, slot, false, true);
}

/* Finds where the function that contains `address` begins, by CFI. false: no FDE covers it. */
static bool function_start(struct walk *w, uint64_t address, uint64_t *ret)
{
    const struct code *code = &walk_code(w, address)->code;
    if (!code->cfi || !cfi_function(code->cfi, address - code->bias, ret, NULL))
        return false;
    *ret += code->bias;
    return true;
}

enum walk_callee walk_callee_of(struct walk *w, uint64_t return_address, uint64_t pc)
{
    uint8_t bytes[ARCH_CALL_MAX];
    uint64_t to, start, mine;
    size_t size = return_address < ARCH_CALL_MAX ? 0 : walk_read_before(w, return_address, bytes);
    if (!w->arch->direct_call(bytes + size, size, return_address, &to))
        return CALLEE_UNKNOWN;
    if (!function_start(w, to, &start) || start != to)
        return CALLEE_SAME; /* perhaps a call through the PLT */
    return function_start(w, pc - 1, &mine) && mine == start ? CALLEE_SAME : CALLEE_OTHER;
}

/* Is the address in other code? Then a link register with this value was not set by a call from
 * this code. */
static bool is_outside(const struct code *code, uint64_t address)
{
    return address && address - code->start >= code->end - code->start;
}

/* Is this frame without CFI, whose frame pointer is 0, the outermost one? 0 alone proves nothing:
 * code may use the register for numbers. _start and starts of threads set it to 0 right before they
 * call what they start. A stack that a program made itself has a return address without a call. */
static bool is_outermost(struct walk *w, const struct code *code)
{
    enum { START = 32 /* bytes of a start's code before its call's return address */ };
    uint8_t bytes[START];
    enum provenance ignored = PROVENANCE_EXACT;
    uint64_t pc = walk_pc(w);
    size_t size = START;
    if (walk_is_at_pc(w) || !code->executable || code->owner != CODE_ELF) {
        say(w, TRACE_REFUSED,
            "the frame pointer is 0, which may be a number: no start of a file's code has called "
            "from #",
            pc);
        return false;
    }
    if (!walk_is_return_address(w, pc, true) && is_made_return(w, pc, 0)) {
        say(w, TRACE_END, "the return address # has no call before it: the program made it", pc);
        return true;
    }
    while (size && !memory_read(&w->in->memory, pc - size, bytes, size, &ignored))
        size /= 2;
    if (w->arch->clears_fp(bytes, size)) {
        say(w, TRACE_END, "the code before # has set the frame pointer to 0, as a start does", pc);
        return true;
    }
    say(w, TRACE_REFUSED, "the frame pointer is 0, but the code before # has not set it to 0", pc);
    return false;
}

enum step_result walk_outermost(struct walk *w, const struct code *code)
{
    unsigned fp = w->arch->reg.fp;
    if (w->known & REG_BIT(fp) && w->value[fp] == 0 && is_outermost(w, code))
        return walk_end(w, STACK_COMPLETE, 0);
    return STEP_NO;
}

enum step_result walk_guess(struct walk *w, const struct code *code)
{
    bool exact_pc = walk_is_at_pc(w);
    if (code->owner == CODE_ELF && code->cfi && cfi_is_entry(code->cfi, walk_pc(w) - code->bias)) {
        say(w, TRACE_END, "# is in the first instructions of the program, which nobody calls",
            walk_pc(w));
        return walk_end(w, STACK_COMPLETE, 0);
    }
    enum step_result got = step_by_import_slot(w);
    if (got == STEP_NO)
        got = walk_by_instructions(w, code);
    if (got != STEP_NO)
        return got;
    if (exact_pc && code->executable && guess_by_point(w, code) == STEP_OK)
        return STEP_OK;
    /* Generated code keeps other things in the link register, too. */
    bool file = code->owner == CODE_ELF;
    if (exact_pc && file && is_outside(code, link_address(w)) && accept_leaf(w, true) == STEP_OK)
        return STEP_OK;
    if (code->executable && guess_by_frame_pointer(w) == STEP_OK)
        return STEP_OK;
    /* A leaf that pushed nothing, or a jump to an address without code. */
    if (exact_pc)
        say(w, TRACE_WAY, "a leaf is tried, which pushes nothing: the stack pointer is #",
            walk_sp(w));
    if (exact_pc && accept_leaf(w, true) == STEP_OK)
        return STEP_OK;
    return walk_outermost(w, code);
}
