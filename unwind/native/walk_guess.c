/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frames without CFI: generated code, hand-written assembly, stripped files. A step found here is a
 * guess, and so are all frames after it. Two exceptions are exact: code that is about to leave its
 * frame, by its instructions; and the kernel's signal frame, whose trampoline is known by its bytes
 * and whose layout is ABI.
 */
#include "unwind/native/walk.h"

#include "base/hash.h"

/* ---- what the bytes of modules say --------------------------------------------------------- */

/* Returns the entry for `pc` in `code`, which has its facts or is empty; NULL: the bytes of this
 * code may change. */
static uint64_t *fact_entry(struct walk *w, const struct code *code, uint64_t pc)
{
    uint64_t offset = pc - code->bias;
    if (code->owner != CODE_ELF || !code->cfi_id || code->cfi_id >> KEY_ID_BITS ||
        offset >> KEY_OFFSET_BITS)
        return NULL;
    uint64_t key = ((uint64_t)code->cfi_id << KEY_OFFSET_BITS | offset) << 3;
    uint64_t *entry = &w->facts->entries[hash_u64(key) >> (64 - FACT_BITS)];
    if ((*entry & ~(uint64_t)FACT_MASK) != key)
        *entry = key;
    return entry;
}

/* ---- signal trampolines -------------------------------------------------------------------- */

/* Is `pc` at the first byte of a signal trampoline, or at its system call? */
static bool at_sigreturn(struct walk *w, uint64_t pc)
{
    static const uint8_t into[] = {0, 7, 5};
    uint8_t code[ARCH_SIGRETURN_SIZE];
    for (size_t i = 0; i < sizeof(into); i++) {
        if (memory_read(&w->in->memory, pc - into[i], code, sizeof(code), &w->provenance) &&
            arch_is_sigreturn(code))
            return true;
        if (!(w->flags & (FRAME_LEAF | FRAME_SIGNAL)))
            return false; /* a return to the trampoline is always to its first byte */
    }
    return false;
}

enum step_result walk_sigreturn(struct walk *w, const struct code *code)
{
    enum provenance before = w->provenance;
    bool exact_pc = w->flags & (FRAME_LEAF | FRAME_SIGNAL);
    uint64_t *fact = exact_pc ? NULL : fact_entry(w, code, w->value[DWARF_RIP]);
    if (fact && *fact & FACT_NO_SIGRETURN)
        return STEP_NO;
    if (!at_sigreturn(w, w->value[DWARF_RIP])) {
        if (fact)
            *fact |= FACT_NO_SIGRETURN;
        w->provenance = before;
        return STEP_NO;
    }
    uint64_t value[DWARF_NR];
    for (unsigned reg = 0; reg < DWARF_NR; reg++) {
        uint64_t at = w->value[DWARF_RSP] + (uint64_t)arch_sigcontext_offset(reg);
        if (!memory_read_slot(&w->in->memory, at, &value[reg], &w->provenance))
            return walk_unreadable(w, at);
    }
    memcpy(w->value, value, sizeof(value));
    w->known = REG_BIT(DWARF_NR) - 1;
    return STEP_OK;
}

/* ---- return addresses ---------------------------------------------------------------------- */

/* Reads the bytes before a return address; returns how many: fewer when code begins just before
 * it. */
static size_t read_before(struct walk *w, uint64_t pc, uint8_t bytes[ARCH_CALL_MAX])
{
    enum provenance ignored = PROVENANCE_EXACT;
    size_t size = ARCH_CALL_MAX;
    while (size && !memory_read(&w->in->memory, pc - size, bytes, size, &ignored))
        size--;
    return size;
}

/* May `pc` be a return address, in executable code and behind a call instruction? Where the bytes
 * cannot be read, executable code is enough, unless `proof` is set. */
static bool is_return_address(struct walk *w, uint64_t pc, bool proof)
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
    if (!memory_read(&w->in->memory, pc - 2, bytes, 2, &ignored))
        return !proof;
    size_t size = read_before(w, pc, bytes);
    bool call = arch_is_call(bytes + size, size);
    if (fact)
        *fact |= call ? FACT_CALL : FACT_NO_CALL;
    return call;
}

/* The outermost frame of a stack that a program made itself has a return address without a call
 * before it. A nop stands before the return address, so that a lookup of the call in front of it
 * finds the right function (Go's goexit). The frame is outermost, so the saved rbp is 0. */
static bool is_made_return(struct walk *w, uint64_t pc, uint64_t saved_rbp)
{
    enum { NOP = 0x90 };
    enum provenance ignored = PROVENANCE_EXACT;
    uint8_t byte;
    if (saved_rbp != 0 || pc == 0 || !memory_read(&w->in->memory, pc - 1, &byte, 1, &ignored))
        return false;
    const struct code *code = &walk_code(w, pc - 1)->code;
    return byte == NOP && code->executable && code->owner == CODE_ELF;
}

/* Accepts a guess: the return address is at `slot`, and rbp was saved below it if `saved_rbp`. */
static enum step_result accept(struct walk *w, uint64_t slot, bool saved_rbp, bool proof)
{
    const struct memory *m = &w->in->memory;
    enum provenance ignored = PROVENANCE_EXACT;
    uint64_t pc, rbp = w->value[DWARF_RBP];
    if (slot + 8 <= w->value[DWARF_RSP] || !memory_read_slot(m, slot, &pc, &ignored) ||
        (saved_rbp && !memory_read_slot(m, slot - 8, &rbp, &ignored)))
        return STEP_NO;
    if (pc != 0 && !is_return_address(w, pc, proof) && !(saved_rbp && is_made_return(w, pc, rbp)))
        return STEP_NO;
    if (pc == 0 && !saved_rbp)
        return STEP_NO;
    w->provenance = PROVENANCE_GUESS;
    w->value[DWARF_RIP] = pc;
    w->value[DWARF_RSP] = slot + 8;
    w->value[DWARF_RBP] = rbp;
    w->known &= ARCH_SURVIVES;
    if (saved_rbp)
        w->known |= REG_BIT(DWARF_RBP);
    return STEP_OK;
}

/* ---- what the code does next --------------------------------------------------------------- */

/* Leaves by the code's own instructions, when it is about to leave its frame. Example: V8's
 * PushAllRegistersAndIterateStack, beneath which V8 collects garbage, has no CFI, and only an
 * epilogue behind its only call. */
static enum step_result leave_by_epilogue(struct walk *w)
{
    const struct memory *m = &w->in->memory;
    uint64_t pc = w->value[DWARF_RIP], sp = w->value[DWARF_RSP], value[DWARF_NR], to;
    uint8_t code[ARCH_EPILOGUE_MAX];
    struct arch_epilogue e;
    enum provenance provenance = w->provenance;
    if (!memory_read(m, pc, code, sizeof(code), &provenance) ||
        !arch_epilogue(code, sizeof(code), &e) ||
        !memory_read_slot(m, sp + e.return_address, &to, &provenance) || !to ||
        !is_return_address(w, to, false))
        return STEP_NO;
    memcpy(value, w->value, sizeof(value));
    for (unsigned reg = 0; reg < DWARF_NR; reg++) {
        if (e.popped[reg] >= 0 &&
            !memory_read_slot(m, sp + (uint64_t)e.popped[reg], &value[reg], &provenance))
            return STEP_NO;
    }
    memcpy(w->value, value, sizeof(value));
    for (unsigned reg = 0; reg < DWARF_NR; reg++)
        w->known |= e.popped[reg] >= 0 ? REG_BIT(reg) : 0;
    w->known &= ARCH_SURVIVES;
    w->value[DWARF_RIP] = to;
    w->value[DWARF_RSP] = sp + e.return_address + 8;
    w->provenance = provenance;
    return STEP_OK;
}

/* ---- guesses ------------------------------------------------------------------------------- */

/* Guesses when pc is exact: its bytes, or that it is a function's first byte, may show where the
 * frame is. */
static enum step_result guess_by_point(struct walk *w, const struct code *code)
{
    uint64_t pc = w->value[DWARF_RIP], sp = w->value[DWARF_RSP];
    uint8_t bytes[ARCH_POINT_BEFORE + ARCH_POINT_AFTER];
    enum provenance ignored = PROVENANCE_EXACT;
    enum arch_point point = ARCH_POINT_BODY;
    if (memory_read(&w->in->memory, pc - ARCH_POINT_BEFORE, bytes, sizeof(bytes), &ignored))
        point = arch_point(bytes + ARCH_POINT_BEFORE);
    if (code->owner == CODE_JIT && pc == code->start)
        point = ARCH_POINT_ENTRY;
    if (point == ARCH_POINT_ENTRY)
        return accept(w, sp, false, false);
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
    uint64_t rbp = w->value[DWARF_RBP], sp = w->value[DWARF_RSP];
    if (!(w->known & REG_BIT(DWARF_RBP)) || rbp < sp || rbp % 8 != 0 || rbp > UINT64_MAX - 16)
        return STEP_NO;
    return accept(w, rbp + 8, true, false);
}

/* Steps by a register that calls need not preserve. Functions of hand-written assembly agree on the
 * registers they keep: libcrypto's AES-GCM calls other functions of its own with the CFA in rax.
 * The register still has the value that the sample, or a frame further in, gave it. A return
 * address at the place that CFI gives confirms it. */
enum step_result walk_by_lost_register(struct walk *w, const struct rule *rule)
{
    uint64_t cfa = w->value[rule->cfa_register] + (uint64_t)(int64_t)rule->cfa_offset, pc;
    enum provenance ignored = PROVENANCE_EXACT;
    if (rule->kind != RULE_OFFSETS || cfa <= w->value[DWARF_RSP] || cfa % 8 != 0 ||
        !memory_read_slot(&w->in->memory, cfa - 8 * (uint64_t)rule->ra, &pc, &ignored) ||
        !is_return_address(w, pc, true))
        return STEP_NO;
    w->provenance = PROVENANCE_GUESS;
    return walk_offsets_slow(w, rule, cfa);
}

enum step_result walk_to_caller_of_generated(struct walk *w, uint64_t slot)
{
    enum provenance ignored = PROVENANCE_EXACT;
    uint8_t bytes[ARCH_CALL_MAX];
    uint64_t pc;
    if (!memory_read_slot(&w->in->memory, slot, &pc, &ignored) || pc < ARCH_CALL_MAX)
        return STEP_NO;
    const struct code *code = &walk_code(w, pc - 1)->code;
    if (!code->executable || code->owner != CODE_ELF || !code->cfi)
        return STEP_NO;
    size_t size = read_before(w, pc, bytes);
    if (!arch_is_indirect_call(bytes + size, size))
        return STEP_NO;
    return accept(w, slot, false, true);
}

/* Finds where the function that contains `address` begins, by CFI. false: no FDE covers it. */
static bool function_start(struct walk *w, uint64_t address, uint64_t *ret)
{
    const struct code *code = &walk_code(w, address)->code;
    for (unsigned i = 0; code->cfi && i < code->cfi->nr_tables; i++) {
        const struct cfi_table *table = &code->cfi->tables[i];
        uint64_t offset;
        struct fde fde;
        if (cfi_fde_at(code->cfi, table, address - code->bias, &offset) &&
            cfi_read_fde(code->cfi, table, offset, &fde, NULL) &&
            address - code->bias - fde.begin < fde.size) {
            *ret = fde.begin + code->bias;
            return true;
        }
    }
    return false;
}

enum walk_callee walk_callee_of(struct walk *w, uint64_t return_address, uint64_t pc)
{
    uint8_t bytes[ARCH_CALL_MAX];
    uint64_t to, start, mine;
    size_t size = return_address < ARCH_CALL_MAX ? 0 : read_before(w, return_address, bytes);
    if (!arch_direct_call(bytes + size, size, return_address, &to))
        return CALLEE_UNKNOWN;
    if (!function_start(w, to, &start) || start != to)
        return CALLEE_SAME; /* perhaps a call through the PLT */
    return function_start(w, pc - 1, &mine) && mine == start ? CALLEE_SAME : CALLEE_OTHER;
}

enum step_result walk_guess(struct walk *w, const struct code *code)
{
    bool exact_pc = w->flags & (FRAME_LEAF | FRAME_SIGNAL);
    if (code->executable && leave_by_epilogue(w) == STEP_OK)
        return STEP_OK;
    if (exact_pc && code->executable && guess_by_point(w, code) == STEP_OK)
        return STEP_OK;
    if (code->executable && guess_by_frame_pointer(w) == STEP_OK)
        return STEP_OK;
    /* A leaf that pushed nothing, or a jump to an address without code. */
    if (exact_pc && accept(w, w->value[DWARF_RSP], false, true) == STEP_OK)
        return STEP_OK;
    /* _start and thread starts without CFI clear rbp to mark the outermost frame. */
    if (code->executable && w->known & REG_BIT(DWARF_RBP) && w->value[DWARF_RBP] == 0)
        return walk_end(w, STACK_COMPLETE, 0);
    return STEP_NO;
}
