/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where the innermost segment of a Lua stack begins: the running frame's base and program counter.
 * In the interpreter the base is in rdx and the next instruction in rbx (AArch64: x19 and x21; the
 * comments below have x86-64's names). C helpers keep rbx (callee-saved) and lose rdx, but L->base
 * was stored before they were called; AArch64's keep both. Between instructions, in calls, returns
 * and fast functions, both values are changing. Then several places are tried, in an order that was
 * found by single steps through eight builds. The first place whose whole segment is valid is used.
 */
#include "unwind/luajit/walk_internal.h"

uint64_t vm_register(const struct luajit_walk *w, unsigned reg)
{
    uint64_t value = walk_register(w, reg);
    return w->vm.layout->gc64 ? value : (uint32_t)value;
}

uint64_t read_saved_pc(struct luajit_walk *w, uint64_t si)
{
    uint64_t pc;
    enum provenance ignored = PROVENANCE_EXACT;
    uint64_t address = si + (uint64_t)w->vm.layout->frame_pc;
    const struct memory *m = &w->step->input->memory;
    if (w->vm.layout->gc64)
        return memory_read_slot(m, address, &pc, &ignored) ? pc : 0;
    uint32_t half;
    return memory_read_frame(m, address, &half, sizeof(half), &ignored) ? half : 0;
}

uint64_t place_pc(struct luajit_walk *w, const struct luajit_state *L, uint64_t base, uint64_t si)
{
    const struct luajit_function *f = luajit_function_at(&w->r, L, base, NULL);
    if (!f->lua)
        return 0;
    unsigned reg = walk_machine(w)->pc;
    if (walk_knows(w, reg) && luajit_pc_inside(f, vm_register(w, reg)))
        return vm_register(w, reg);
    uint64_t saved = read_saved_pc(w, si);
    return luajit_pc_inside(f, saved) ? saved : 0;
}

enum { STAGES_DONE = 100 };

static void add(struct position_search *s, uint64_t base, uint64_t pc)
{
    for (unsigned i = 0; i < s->nr; i++) {
        if (s->at[i].base == base && s->at[i].pc == pc)
            return;
    }
    if (s->nr < PLACES_MAX)
        s->at[s->nr++] = (struct lua_position){base, pc};
}

static const struct luajit_function *function_at(struct position_search *s, uint64_t base,
                                                 uint64_t *link)
{
    *link = 0;
    if (base % 8 != 0 || base <= luajit_bottom(&s->w->r, s->L) || base > s->L->end) {
        static const struct luajit_function none;
        return &none;
    }
    return luajit_function_at(&s->w->r, s->L, base, link);
}

/* Add the frame whose instruction before `pc` made the call, while the frame at `base` is set up or
 * torn down: a Lua function with `pc` in it. */
static void add_caller(struct position_search *s, uint64_t base, uint64_t pc)
{
    uint64_t link, caller = luajit_caller_base(&s->w->r, base, pc);
    if (!caller)
        return;
    const struct luajit_function *f = function_at(s, caller, &link);
    if (luajit_pc_inside(f, pc))
        add(s, caller, pc);
}

/* Tries 1 and 2: a complete frame at a base, with rbx in its function, or with a function that
 * needs no program counter. */
static void add_whole_frame(struct position_search *s, uint64_t base)
{
    uint64_t link;
    struct luajit_function f = *function_at(s, base, &link);
    if (f.address == 0 || f.dummy || f.unread || !luajit_link_sane(&s->w->r, s->L, base, link))
        return;
    if (!f.lua)
        add(s, base, 0);
    else if (luajit_pc_inside(&f, s->pc))
        add(s, base, s->pc);
}

/* Try 3: the frame at rdx is being overwritten by results, or is not complete yet. */
static void add_overwritten(struct position_search *s)
{
    enum { DISTANCE_MAX = 1 << 20 };
    uint64_t link, below = s->bases[0] - (s->pc & ~UINT64_C(7));
    unsigned type = luajit_link_type(s->pc);
    function_at(s, s->bases[0], &link);
    /* The calls of pcall and the like have a link in rbx that is not in the frame yet. */
    if (s->pc < DISTANCE_MAX && s->pc > 7 && link != s->pc &&
        (type == LUAJIT_LINK_PCALL || type == LUAJIT_LINK_PCALLH)) {
        const struct luajit_function *f = function_at(s, below, &link);
        if (f->address && !f->lua && !f->unread && !f->dummy)
            add(s, below, 0);
    }
    function_at(s, s->bases[0], &link);
    if (luajit_link_sane(&s->w->r, s->L, s->bases[0], link))
        return;
    add_caller(s, s->bases[0], s->pc);
    add_caller(s, s->bases[0], s->saved_pc);
}

/* The function at rdx has called a metamethod, whose frame (a continuation frame) is above it. rbx
 * is the distance: with the link's type before the call, without it behind the return. The
 * function's own program counter is in the continuation frame. */
static void add_continued(struct position_search *s)
{
    enum { DISTANCE_MAX = 1 << 20 };
    const uint64_t base = s->bases[0], rbx = s->pc;
    const struct luajit_vm *vm = &s->w->vm;
    uint64_t link, cont, pc;
    if (rbx < 16 || rbx >= DISTANCE_MAX || ((rbx & 7) != 0 && (rbx & 7) != LUAJIT_LINK_CONT))
        return;
    const struct luajit_function *f = function_at(s, base, &link);
    /* (When rdx's own frame returns, rbx holds its link, or what is left of it.) */
    bool returns = rbx & 7 ? link == rbx : (link ^ rbx) <= 7;
    if (f->lua && !returns && luajit_link_sane(&s->w->r, s->L, base, link) &&
        luajit_continuation_read(&s->w->r, s->L, base + (rbx & ~UINT64_C(7)), &cont, &pc) &&
        (!vm->layout->gc64 || cont - vm->blob < vm->layout->blob_size) && pc != f->code &&
        luajit_pc_inside(f, pc))
        add(s, base, pc);
}

/* Has the code that returns to pcall and the like, or to a continuation, made rbx from the link?
 * First it inverts the lowest bit, then it keeps only the distance. */
static bool is_returned(uint64_t link, uint64_t rbx)
{
    unsigned type = luajit_link_type(link);
    bool by_pcall = type == LUAJIT_LINK_PCALL || type == LUAJIT_LINK_PCALLH;
    return ((by_pcall || type == LUAJIT_LINK_CONT) && (link ^ 1) == rbx) ||
           (by_pcall && (link & ~UINT64_C(7)) == rbx);
}

/* rdx has left the upper one of a vararg function's two frames, and rbx still has its link. */
static void add_vararg(struct position_search *s)
{
    const uint64_t base = s->bases[0], distance = s->pc & ~UINT64_C(7);
    uint64_t link, above;
    if (luajit_link_type(s->pc) != LUAJIT_LINK_VARG || distance >= s->L->end - s->L->stack)
        return;
    const struct luajit_function f = *function_at(s, base, &link);
    if (f.lua && luajit_link_sane(&s->w->r, s->L, base, link) &&
        function_at(s, base + distance, &above)->address == f.address && above == s->pc)
        add(s, base, 0);
}

/* Try 4: a frame is returning. Try 5: one is being called. */
static void add_moving(struct position_search *s, uint64_t base)
{
    uint64_t link;
    const struct luajit_function *f = function_at(s, base, &link);
    unsigned type = luajit_link_type(link);
    bool at_rbx = f->lua && (link == s->pc || is_returned(link, s->pc));
    /* A tail call or a return, in a function that pcall, a resume or C has called: rbx already is
     * the link, not the address of an instruction. */
    if (at_rbx && s->has_base && base == s->bases[0] && type != LUAJIT_LINK_LUA &&
        luajit_link_sane(&s->w->r, s->L, base, link))
        add(s, base, 0);
    if (at_rbx)
        add_caller(s, base, s->pc);
    add_caller(s, base, s->pc);
}

/* Functions that are not recorded, in frames that are otherwise valid. */
static void add_unread(struct position_search *s)
{
    for (unsigned i = 0; i < s->nr_bases; i++) {
        uint64_t link;
        const struct luajit_function *f = function_at(s, s->bases[i], &link);
        if (f->unread && luajit_link_sane(&s->w->r, s->L, s->bases[i], link))
            add(s, s->bases[i], 0);
    }
}

/* Tries 7 to 10: SAVE_PC, then any caller, then a function without position. */
static void add_weaker(struct position_search *s)
{
    uint64_t link;
    for (unsigned i = s->nr_bases; i-- > 0;) {
        const struct luajit_function *f = function_at(s, s->bases[i], &link);
        if (luajit_pc_inside(f, s->saved_pc))
            add(s, s->bases[i], s->saved_pc);
    }
    for (unsigned i = 0; i < s->nr_bases; i++)
        add_caller(s, s->bases[i], s->saved_pc);
    for (unsigned i = 0; i < s->nr_bases; i++) {
        const struct luajit_function *f = function_at(s, s->bases[i], &link);
        if (f->lua)
            add(s, s->bases[i], 0);
    }
    add(s, s->L->base, 0);
}

/* Does the blob call a C function that Lua code called? L->base is then its frame, and rbx points
 * into GG_State. */
static bool calls_c_function(const struct luajit_walk *w, uint64_t o)
{
    const struct luajit_layout *l = w->vm.layout;
    return !walk_is_exact(w) && (o == (uint64_t)l->funcc_return || o == (uint64_t)l->funccw_return);
}

void positions_begin(struct luajit_walk *w, const struct luajit_state *L, uint64_t si, uint64_t o,
                     struct position_search *s)
{
    s->w = w; /* (only the first s->nr places are valid: the others are not initialized) */
    s->L = L;
    s->saved_pc = read_saved_pc(w, si);
    s->pc = 0;
    s->nr_bases = s->stage = s->nr = s->next = 0;
    s->has_base = s->weak = false;
    if (calls_c_function(w, o)) {
        s->stage = STAGES_DONE;
        add(s, L->base, 0);
        return;
    }
    const struct luajit_machine *m = walk_machine(w);
    if (walk_knows(w, m->pc))
        s->pc = vm_register(w, m->pc);
    s->has_base = walk_knows(w, m->base);
    if (s->has_base)
        s->bases[s->nr_bases++] = m->base_at ? m->base_at(w, o) : vm_register(w, m->base);
    bool old = walk_knows(w, m->old_base);
    bool old_first = s->has_base || o == (uint64_t)w->vm.layout->callback_leave_return;
    if (old && old_first)
        s->bases[s->nr_bases++] = vm_register(w, m->old_base);
    s->bases[s->nr_bases++] = L->base;
    if (old && !old_first)
        s->bases[s->nr_bases++] = vm_register(w, m->old_base);
}

/* Run one stage of tries; false: there are no more. */
static bool run_stage(struct position_search *s)
{
    unsigned stage = s->stage++;
    if (stage < s->nr_bases) {
        /* L->base is stale in a leaf: a changing frame at rdx comes first. */
        if (s->has_base && stage == s->nr_bases - 1) {
            add_overwritten(s);
            add_continued(s);
            add_vararg(s);
            add_moving(s, s->bases[0]);
        }
        add_whole_frame(s, s->bases[stage]);
    } else if (stage == s->nr_bases) {
        for (unsigned i = 0; i < s->nr_bases; i++)
            add_moving(s, s->bases[i]);
    } else if (stage == s->nr_bases + 1) {
        add_unread(s);
        s->weak = s->has_base;
        add_weaker(s);
    } else {
        return false;
    }
    return true;
}

bool positions_next(struct position_search *s, struct lua_position *ret)
{
    while (s->next == s->nr) {
        if (s->stage >= STAGES_DONE || !run_stage(s))
            return false;
    }
    *ret = s->at[s->next++];
    return true;
}
