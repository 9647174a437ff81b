/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frames of the interpreter. Each entry into the VM has one C frame ("block"). The block's unwind
 * entry is right at every bytecode handler and every call of C. It is wrong in the first and last
 * instructions of the entries, in the leaf helpers, around traces and in the exit handler: the
 * machines' files know how (struct luajit_machine).
 */
#include "unwind/luajit/walk_internal.h"

/* ---- places in the blob ---------------------------------------------------------------------- */

bool blob_is_unlinked(const struct luajit_layout *l, uint64_t o)
{
    const struct luajit_machine *m = luajit_machine(l);
    const int32_t ranges[][2] = {
        {l->resume, l->resume_linked},        {l->pcall, l->call_linked},
        {l->cpcall, l->cpcall_linked},        {l->callback, l->callback_return},
        {l->leave, l->leave + m->leave_size}, {l->rethrow, l->rethrow + m->rethrow_size}};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++) {
        if (ranges[i][0] >= 0 && o >= (uint64_t)ranges[i][0] && o < (uint64_t)ranges[i][1])
            return true;
    }
    return false;
}

bool blob_is_leaf_helper(const struct luajit_layout *l, uint64_t o)
{
    return l->leaf_start != LUAJIT_UNKNOWN && o >= (uint64_t)l->leaf_start &&
           (l->callback == LUAJIT_UNKNOWN || o < (uint64_t)l->callback);
}

bool blob_is_exit(const struct luajit_layout *l, uint64_t o)
{
    return l->exit_handler != LUAJIT_UNKNOWN && o >= (uint64_t)l->exit_handler &&
           o < (uint64_t)l->exit_settled;
}

bool walk_leave_block(struct luajit_walk *w, uint64_t si)
{
    return walk_machine(w)->leave_block(w, si);
}

/* ---- segments ------------------------------------------------------------------------------ */

struct segment *segment_find(struct luajit_walk *w, uint64_t L)
{
    for (unsigned i = w->nr_segments; i-- > 0;) {
        if (w->segments[i].L == L)
            return &w->segments[i];
    }
    return NULL;
}

struct segment *segment_get(struct luajit_walk *w, uint64_t L, uint64_t si)
{
    struct segment *s = segment_find(w, L);
    if (s || w->nr_segments == SEGMENTS_MAX)
        return s;
    s = &w->segments[w->nr_segments++];
    *s = (struct segment){.L = L, .si = si};
    return s;
}

void segment_pass(struct luajit_walk *w, struct segment *s, uint64_t si)
{
    uint64_t previous;
    enum provenance ignored = PROVENANCE_EXACT;
    if (memory_read_slot(&w->step->input->memory, si + (uint64_t)w->vm.layout->frame_prev,
                         &previous, &ignored))
        s->si = previous & ~UINT64_C(3);
    else
        s->si = 0;
}

/* ---- frames with a segment ----------------------------------------------------------------- */

static uint64_t read_L(struct luajit_walk *w, uint64_t si)
{
    uint64_t L = 0;
    uint32_t half;
    enum provenance ignored = PROVENANCE_EXACT;
    const struct memory *m = &w->step->input->memory;
    uint64_t address = si + (uint64_t)w->vm.layout->frame_L;
    if (w->vm.layout->gc64)
        return memory_read_slot(m, address, &L, &ignored) ? L : 0;
    return memory_read_frame(m, address, &half, sizeof(half), &ignored) ? half : 0;
}

/* Is L a plausible address of a lua_State, of which nothing is recorded? */
static bool is_unrecorded(struct luajit_walk *w, uint64_t L)
{
    enum { LOWEST = 1 << 16 };
    const uint64_t end = UINT64_C(1)
                         << 47; /* references have 47 bits, also where addresses have 48 */
    uint8_t byte;
    enum provenance ignored = PROVENANCE_EXACT;
    if (L != 0 && L == w->unrecorded)
        return true;
    return L >= LOWEST && L < end && L % 4 == 0 &&
           !memory_read(&w->step->input->memory, L, &byte, sizeof(byte), &ignored);
}

bool block_state(struct luajit_walk *w, uint64_t si, struct luajit_state *ret)
{
    uint64_t L = read_L(w, si);
    if (L == 0 || L == w->unrecorded)
        return false;
    if (luajit_read_state(&w->r, L, ret))
        return walk_use_vm(w, ret->g, w->vm.layout, w->vm.blob);
    if (is_unrecorded(w, L))
        w->unrecorded = L;
    return false;
}

/* Is the block in lj_vm_cpcall while the C function runs? SAVE_NRES is then negative. */
static bool has_no_frames_yet(struct luajit_walk *w, uint64_t si, uint64_t o)
{
    const struct luajit_layout *l = w->vm.layout;
    int32_t nres = 0;
    enum provenance ignored = PROVENANCE_EXACT;
    memory_read_frame(&w->step->input->memory, si + (uint64_t)l->frame_nres, &nres, sizeof(nres),
                      &ignored);
    bool inside = o >= (uint64_t)l->cpcall && o <= (uint64_t)l->cpcall_return;
    return inside && nres < 0;
}

/* Walk the innermost segment from the first place whose whole segment is valid. */
static enum luajit_segment_end walk_top(struct luajit_walk *w, const struct luajit_state *L,
                                        uint64_t si, uint64_t o, struct emitter *e,
                                        struct lua_position *next)
{
    struct position_search search;
    struct lua_position at;
    enum provenance before = w->r.provenance;
    /* A stack of another moment counts only if the program counter is in its newest frame. */
    bool must_run = w->process->other_moments && pc_is_listed(w);
    positions_begin(w, L, si, o, &search);
    while (positions_next(&search, &at)) {
        if (must_run && at.pc != search.pc)
            continue;
        struct luajit_sink sink = emit_sink(e);
        bool omit = e->omit_c;
        w->r.provenance = before;
        emit_weaken(e, PROVENANCE_EXACT, NULL);
        if (search.weak)
            emit_weaken(e, PROVENANCE_GUESS,
                        "L->base and SAVE_PC of a running instruction are often out of date, and "
                        "registers do not confirm them");
        walk_say(w, TRACE_WAY, "the Lua stack is tried from base #, program counter #", at.base,
                 at.pc);
        enum luajit_segment_end end = luajit_segment_walk(&w->r, L, at, NULL, &sink, next);
        if (end != LUAJIT_SEGMENT_BAD)
            return end;
        emit_undo(e);
        walk_say(w, TRACE_UNDO, "from there the Lua stack is no chain of valid frames", 0, 0);
        e->omit_c = omit;
    }
    return LUAJIT_SEGMENT_BAD;
}

static enum luajit_segment_end walk_segment(struct luajit_walk *w, const struct luajit_state *L,
                                            struct segment *s, uint64_t si, uint64_t o,
                                            struct emitter *e, struct lua_position *next)
{
    if (!s->begun)
        return walk_top(w, L, si, o, e, next);
    struct luajit_sink sink = emit_sink(e);
    struct lua_position at = s->next;
    walk_say(w, TRACE_WAY, "the Lua stack goes on where the C frame further in left it: base #",
             at.base, 0);
    at.pc = place_pc(w, L, at.base, si);
    return luajit_segment_walk(&w->r, L, at, NULL, &sink, next);
}

/* Is the offset in the code of a bytecode instruction? All bytecode instructions stand before the
 * helpers. The return to C is among the first helpers. */
static bool is_in_bytecode(const struct luajit_layout *l, uint64_t o)
{
    enum { MARGIN = 0x100 };
    return l->return_c > MARGIN && o < (uint64_t)l->return_c - MARGIN;
}

/* Emit a C frame that is linked into L's chain: the Lua frames of its segment, or a Lua frame whose
 * function is unknown. */
static bool emit_segment(struct luajit_walk *w, const struct luajit_state *L, struct segment *s,
                         uint64_t si, uint64_t o)
{
    struct emitter e;
    struct lua_position next;
    uint64_t cfa = si + (uint64_t)w->vm.layout->frame_size;
    emit_begin(&e, w, L->address, cfa);
    e.omit_c = !walk_is_exact(w);
    if (!s->begun && walk_machine(w)->is_between(w, L, o, &next)) {
        s->begun = true;
        s->next = next;
        return emit_native(w, cfa);
    }
    enum luajit_segment_end end = walk_segment(w, L, s, si, o, &e, &next);
    s->begun = true;
    s->next = next;
    if (end == LUAJIT_SEGMENT_BAD) {
        emit_undo(&e);
        s->lost = true;
        return emit_alone(w, cfa);
    }
    if (!emit_end(&e))
        return false;
    if (end == LUAJIT_SEGMENT_UNREAD) {
        s->lost = true;
        return emit_unknown(w, cfa);
    }
    if (w->step->out->frames.nr > e.first)
        return true;
    /* The segment has only a C function: the host called it through the VM. But where bytecode
     * runs, there is the bytecode's function: L->base, the last place tried, was stored before that
     * function was called. */
    if (walk_is_exact(w) && is_in_bytecode(w->vm.layout, o)) {
        s->lost = true;
        return emit_alone(w, cfa);
    }
    return emit_native(w, cfa);
}

uint64_t next_block(struct luajit_walk *w, const struct luajit_state *L)
{
    const struct segment *s = segment_find(w, L->address);
    return s ? s->si : L->cframe & ~UINT64_C(3);
}

uint64_t find_linked_block(struct luajit_walk *w, uint64_t from, struct luajit_state *L)
{
    enum { STEP = 16, TRIES = 1 << 12 };
    const struct memory *m = &w->step->input->memory;
    uint64_t si = from & ~(uint64_t)(STEP - 1), last = 0;
    for (unsigned i = 0; i < TRIES && luajit_spend(&w->r); i++, si += STEP) {
        if (m->stack_size && si - m->stack_start >= memory_stack_size(m))
            break; /* the rest of the stack is not recorded */
        uint64_t address = read_L(w, si);
        if (address == 0 || address == last || address % 4 != 0 ||
            address - from < (uint64_t)STEP * TRIES)
            continue;
        last = luajit_read_state(&w->r, address, L) ? 0 : address;
        if (!last && next_block(w, L) == si && walk_use_vm(w, L->g, w->vm.layout, w->vm.blob))
            return si;
    }
    return 0;
}

bool walk_is_executable(struct luajit_walk *w, uint64_t pc, bool mcode)
{
    struct code code;
    const struct unwind_input *in = w->step->input;
    return pc > 1 && codemap_lookup(&in->code, pc - 1, in->memory.time, &code) &&
           (code.executable || (mcode && code.owner == CODE_ANON));
}

/* Has a native rule led to a place that is no block, because its lua_State or its return address is
 * invalid? `L`: the state of the block; its address is 0 if it was not read or is invalid. */
static bool is_no_block(struct luajit_walk *w, uint64_t si, uint64_t o, uint64_t ra,
                        struct luajit_state *L)
{
    const struct luajit_layout *l = w->vm.layout;
    L->address = 0;
    if (o == (uint64_t)l->callback_return || o == (uint64_t)l->cpcall_return)
        return false;
    w->r.provenance = PROVENANCE_EXACT;
    if (!walk_is_executable(w, ra, false))
        return true;
    if (w->process->other_moments)
        return false;
    if (block_state(w, si, L))
        return false;
    L->address = 0;
    return !is_unrecorded(w, read_L(w, si));
}

/* Emit the Lua side of the C frame at si. L: the frame's state, if it was just read; else its
 * address is 0. */
static bool emit_block(struct luajit_walk *w, uint64_t si, uint64_t o, struct luajit_state *L)
{
    uint64_t cfa = si + (uint64_t)w->vm.layout->frame_size;
    if (L->address == 0)
        w->r.provenance = PROVENANCE_EXACT;
    if (L->address == 0 && !block_state(w, si, L)) {
        /* lj_ccallback_enter has not stored SAVE_L yet. */
        bool none = o == (uint64_t)w->vm.layout->callback_return || has_no_frames_yet(w, si, o);
        walk_say(w, TRACE_REFUSED,
                 "SAVE_L in LuaJIT's C frame at # is no lua_State that was recorded", si, 0);
        return none ? emit_native(w, cfa) : emit_alone(w, cfa);
    }
    walk_say(w, TRACE_WAY, "SAVE_L in LuaJIT's C frame at # is the lua_State #", si, L->address);
    struct segment *s = segment_get(w, L->address, L->cframe & ~UINT64_C(3));
    if (!s)
        return emit_unknown(w, cfa);
    const struct luajit_layout *l = w->vm.layout;
    bool left = walk_is_exact(w) && !s->begun && o >= (uint64_t)l->return_c_stored &&
                o < (uint64_t)l->return_c_end;
    if (si != s->si && left)
        return emit_native(w, cfa); /* returning to C: the block is already out of the chain */
    /* coroutine.yield ends the chain some instructions before it leaves the VM. */
    if (walk_is_exact(w) && !s->begun && s->si == 0)
        return emit_segment(w, L, s, si, o);
    if (si != s->si) {
        /* The block is not linked yet, or no more (an error is unwinding it): it has no Lua frames
         * of its own. But a lost chain, or memory of another moment, does not prove this. */
        bool passed = !s->begun && s->si > si && w->r.provenance == PROVENANCE_EXACT;
        walk_say(w, TRACE_REFUSED, "the lua_State's chain has another C frame next, #, not #",
                 s->si, si);
        return passed ? emit_native(w, cfa) : emit_alone(w, cfa);
    }
    segment_pass(w, s, si);
    if (has_no_frames_yet(w, si, o))
        return emit_native(w, cfa);
    if (s->lost)
        return emit_alone(w, cfa);
    return emit_segment(w, L, s, si, o);
}

/* ---- one step ------------------------------------------------------------------------------ */

enum walker_result step_blob(struct luajit_walk *w, uint64_t o)
{
    const struct luajit_machine *machine = walk_machine(w);
    const struct luajit_layout *l = w->vm.layout;
    bool exact = walk_is_exact(w);
    enum walker_result result;
    uint64_t si, ra = 0, caught = 0;
    if (machine->place(w, o, &si, &result))
        return result;
    struct luajit_state L = {.address = 0};
    bool recorded = walk_read_stack(w, si + (uint64_t)l->frame_size - 8, &ra);
    ra &= walk_registers(w)->address_mask;
    /* In the second phase of an exception libgcc has put the registers of the catching frame into
     * its own frame. Native rules then lead to a place that is no block. By then the lua_State's
     * chain begins at the catching block, which is the next linked block on the stack. */
    if (!exact && is_no_block(w, si, o, ra, &L)) {
        caught = find_linked_block(w, si - (uint64_t)l->frame_size, &L);
        L.address = 0;
    }
    if (caught) {
        walk_mark(w, PROVENANCE_GUESS,
                  "an exception is unwinding: the next C frame of a lua_State is taken, at #",
                  caught);
        *w->step->provenance = PROVENANCE_GUESS;
        si = caught;
    } else if (!recorded) {
        return WALKER_NO; /* beyond the recorded stack: the native walk reports this */
    }
    bool unlinked = exact && blob_is_unlinked(l, o);
    if (!(unlinked ? emit_native(w, si + (uint64_t)l->frame_size) : emit_block(w, si, o, &L)))
        return WALKER_NO_MEMORY;
    return walk_leave_block(w, si) ? WALKER_STEPPED : WALKER_NO;
}
