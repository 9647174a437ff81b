/* SPDX-License-Identifier: GPL-2.0-only */
/* The interpreter of x86-64: its C frame where the unwind entry is wrong, and its registers. */
#include "unwind/luajit/walk_internal.h"

/* ---- native registers ---------------------------------------------------------------------- */

static bool leave_partial(struct luajit_walk *w, uint64_t cfa, uint64_t saved)
{
    /* The register that the entries push first is last. */
    enum { PUSHED = 5 };
    static const uint8_t pushed[PUSHED] = {DWARF_R14, DWARF_R15, DWARF_RBX, DWARF_RBP, DWARF_RIP};
    uint64_t value[PUSHED];
    unsigned first = saved < sizeof(value) ? PUSHED - (unsigned)saved / 8 : 0;
    const struct memory *m = &w->step->input->memory;
    if (first || !memory_read_near(m, cfa - sizeof(value), value, sizeof(value))) {
        for (unsigned i = PUSHED; i-- > first;) {
            if (!walk_read_stack(w, cfa - 8 * (uint64_t)(PUSHED - i), &value[i]))
                return false;
        }
    }
    walk_say(w, TRACE_WAY,
             "LuaJIT's C frame ends at the CFA #: return address and # bytes of registers are "
             "right below",
             cfa, 8 * (PUSHED - first));
    for (unsigned i = first; i < PUSHED; i++) {
        w->step->value[pushed[i]] = value[i];
        *w->step->known |= REG_BIT(pushed[i]);
    }
    w->step->value[DWARF_RSP] = cfa;
    *w->step->known &= X86_64_SURVIVES;
    return first < PUSHED;
}

enum walker_result step_partial(struct luajit_walk *w, uint64_t cfa, uint64_t saved)
{
    if (!emit_native(w, cfa))
        return WALKER_NO_MEMORY;
    return leave_partial(w, cfa, saved) ? WALKER_STEPPED : WALKER_NO;
}

static bool leave_block(struct luajit_walk *w, uint64_t si)
{
    return leave_partial(w, si + (uint64_t)w->vm.layout->frame_size, UINT64_MAX);
}

/* ---- places where the unwind entry lies ---------------------------------------------------- */

/* Get the bytes from rsp to the CFA in the instructions that enter or leave the VM. As many bytes
 * below the CFA hold registers. false: the block is complete there. */
static bool partial_frame(const struct luajit_layout *l, uint64_t o, uint64_t *distance)
{
    /* push rbp, rbx, r15, r14; sub. The callback's rbp was pushed by its slot. */
    static const uint8_t entry[10] = {8, 16, 24, 24, 32, 32, 40, 40, 40, 40};
    static const uint8_t callback[9] = {16, 24, 24, 32, 32, 40, 40, 40, 40};
    /* add; pop r14, r15, rbx, rbp; ret */
    static const uint8_t leave[7] = {40, 40, 32, 32, 24, 16, 8};
    const int32_t entries[] = {l->resume, l->pcall, l->call, l->cpcall};
    for (unsigned i = 0; i < 4; i++) {
        if (o - (uint64_t)entries[i] < sizeof(entry)) {
            *distance = entry[o - (uint64_t)entries[i]];
            return true;
        }
    }
    if (l->callback != LUAJIT_UNKNOWN && o - (uint64_t)l->callback < sizeof(callback)) {
        *distance = callback[o - (uint64_t)l->callback];
        return true;
    }
    const int32_t leaves[] = {l->leave, l->rethrow};
    for (unsigned i = 0; i < 2; i++) {
        if (leaves[i] != LUAJIT_UNKNOWN && o - (uint64_t)leaves[i] - 4 < sizeof(leave)) {
            *distance = leave[o - (uint64_t)leaves[i] - 4];
            return true;
        }
    }
    return false;
}

/* Step from a leaf helper, which has pushed nothing (or one register, in cpuid). All registers stay
 * known, so that the frame that called the helper shows the interpreter's registers. */
static enum walker_result step_leaf_helper(struct luajit_walk *w)
{
    uint64_t sp = walk_register(w, DWARF_RSP), pc;
    for (unsigned i = 0; i < 2; i++) {
        uint64_t slot = sp + 8 * i;
        if (!walk_read_stack(w, slot, &pc) || !walk_is_executable(w, pc, true))
            continue;
        walk_say(w, TRACE_WAY, "a leaf helper of LuaJIT: the word at # is a return address", slot,
                 0);
        if (!emit_native(w, slot + 8))
            return WALKER_NO_MEMORY;
        w->step->value[DWARF_RIP] = pc;
        w->step->value[DWARF_RSP] = slot + 8;
        return WALKER_STEPPED;
    }
    return WALKER_NO;
}

/* The block of a leaf, whose rsp may differ from the block's: BC_JLOOP makes room for a trace, and
 * lj_fff_gcstep is called from within the block. */
static uint64_t leaf_block(struct luajit_walk *w, uint64_t o)
{
    const struct luajit_layout *l = w->vm.layout;
    uint64_t sp = walk_register(w, DWARF_RSP);
    struct luajit_state L;
    if (l->jloop_sub != LUAJIT_UNKNOWN && o >= (uint64_t)l->jloop_sub && o < (uint64_t)l->jloop_end)
        return sp + 16;
    enum provenance before = w->r.provenance;
    bool here = blob_is_unlinked(l, o) || block_state(w, sp, &L);
    bool above = !here && block_state(w, sp + 8, &L) && (L.cframe & ~UINT64_C(3)) == sp + 8;
    w->r.provenance = before;
    return above ? sp + 8 : sp;
}

/* ---- calls from C and returns to it ---------------------------------------------------------- */

/* Has the code that returns to C already removed the frame, or has the code that C called not made
 * it yet? `next`: the frame below. */
static bool is_between(struct luajit_walk *w, const struct luajit_state *L, uint64_t o,
                       struct lua_position *next)
{
    const struct luajit_layout *l = w->vm.layout;
    enum { XOR_BEFORE = 0x20, DISTANCE_MAX = 1 << 20, LAST_STEP = 3 };
    uint64_t rbx = vm_register(w, DWARF_RBX), rdx = vm_register(w, DWARF_RDX);
    *next = (struct lua_position){L->base, 0};
    if (walk_is_exact(w) && o >= (uint64_t)l->call_linked && o < (uint64_t)l->call_entered) {
        /* Called by C: the new frame is not complete yet. The calls of pcall and the like have
         * another link. */
        unsigned type = luajit_link_type(rbx);
        return o < (uint64_t)l->call_dispatch ||
               (rbx < DISTANCE_MAX && (type == LUAJIT_LINK_C || type == LUAJIT_LINK_CP));
    }
    if (o >= (uint64_t)l->return_c_end || o + XOR_BEFORE < (uint64_t)l->return_c)
        return false;
    if (o >= (uint64_t)l->return_c_stored)
        return true;
    if (!walk_knows(w, DWARF_RBX))
        return false;
    if (o >= (uint64_t)l->return_c_base)
        next->base = rbx;
    else if (o + LAST_STEP >= (uint64_t)l->return_c_base && o < (uint64_t)l->return_c_base &&
             rbx > DISTANCE_MAX)
        next->base = l->gc64 ? -rbx : (uint32_t)-rbx;
    else if (rbx < DISTANCE_MAX && (rbx & 3) <= 1 && walk_knows(w, DWARF_RDX))
        /* rbx is a link of C (1, 5), or what the exclusive or leaves of it (0, 4). The same code
         * returns to pcall (6), which does not leave the VM. */
        next->base = rdx - (rbx & ~UINT64_C(7));
    else
        return false;
    return next->base >= L->stack && next->base <= L->end;
}

/* ---- the exit handler ---------------------------------------------------------------------- */

/* Get rsp on the exiting trace (5.4 of the facts): from the handler's pushes, or from the value
 * that the handler saved. */
static bool exit_state(struct luajit_walk *w, uint64_t o, uint64_t *S)
{
    const struct luajit_layout *l = w->vm.layout;
    /* Offsets of the handler's pushes, which follow two pushes by the stub. */
    static const uint8_t pushes[] = {2,   4,   6,    8,    0xa,  0xc,  0xd,
                                     0xe, 0xf, 0x15, 0x16, 0x17, 0x18, 0x19};
    uint64_t sp = walk_register(w, DWARF_RSP), saved;
    enum { EXIT_STATE = 0x100, SAVED_RSP = 0xa0 };
    if (walk_is_exact(w) && o < (uint64_t)l->exit_sub) {
        unsigned done = 2;
        for (unsigned i = 0; i < sizeof(pushes); i++)
            done += o - (uint64_t)l->exit_handler >= pushes[i];
        *S = sp + 8 * (uint64_t)done;
        return true;
    }
    *S = sp + EXIT_STATE;
    return walk_read_stack(w, sp + SAVED_RSP, &saved) && saved == *S;
}

/* Step from lj_vm_exit_handler, up to where rsp is the block's again; false: the pc is behind that
 * place. */
static bool step_handler(struct luajit_walk *w, uint64_t o, enum walker_result *ret)
{
    const struct luajit_layout *l = w->vm.layout;
    uint64_t S;
    if (walk_is_exact(w) && o == (uint64_t)l->exit_interp) { /* reached from a trace's end */
        *ret = step_exit(w, walk_register(w, DWARF_RSP), true);
        return true;
    }
    if (!exit_state(w, o, &S)) {
        if (!walk_is_exact(w) || o <= (uint64_t)l->exit_return)
            return false;
        if (l->gc64 && o > (uint64_t)l->exit_interp && walk_knows(w, DWARF_RCX))
            S = walk_register(w, DWARF_RCX) - 16; /* si is in rcx */
        else
            return false;
    }
    *ret = step_exit(w, S, walk_is_exact(w));
    return true;
}

/* ---- traces --------------------------------------------------------------------------------- */

/* BC_JLOOP saves the caller's r12 and r13 if traces may use them. */
static bool leave_trace(struct luajit_walk *w, uint64_t si)
{
    uint64_t r12, r13;
    if (!walk_read_stack(w, si, &r12) ||
        !walk_read_stack(w, w->vm.layout->gc64 ? si - 8 : si + 8, &r13) || !leave_block(w, si))
        return false;
    w->step->value[DWARF_R12] = r12;
    w->step->value[DWARF_R13] = r13;
    *w->step->known |= REG_BIT(DWARF_R12) | REG_BIT(DWARF_R13);
    return true;
}

/* L's chain tells the C frame. */
static bool trace_block(struct luajit_walk *w, const struct luajit_trace *t,
                        const struct luajit_state *L, uint64_t pushed, uint64_t *si)
{
    uint64_t sp = walk_register(w, DWARF_RSP) + pushed + 16, room;
    struct luajit_trace parent;
    uint16_t number, exitno;
    *si = next_block(w, L);
    room = *si - sp;
    if (block_L(w, *si) != L->address)
        return false;
    if (room == t->spadjust)
        return true;
    /* The pc is before the first adjustment of rsp, or behind the last one. */
    if (!walk_is_exact(w))
        return false;
    return room == 0 ||
           (luajit_trace_parent(&w->r, t, &number, &exitno) &&
            luajit_trace_read(&w->r, w->vm.g, number, &parent) && room == parent.spadjust);
}

/* Does the code have a "mov [r14 + displacement], register"? */
static bool has_store(const uint8_t *code, uint32_t size, uint32_t displacement)
{
    const uint8_t *end = code + size, *at = code + 3;
    for (; end - at >= 4; at++) {
        at = memchr(at, (int)(displacement & 0xff), (size_t)(end - at) - 3);
        if (!at)
            return false;
        if (load_u32(at, false) == displacement && (at[-3] & 0xfb) == 0x49 && at[-2] == 0x89 &&
            (at[-1] & 0xc7) == 0x86)
            return true;
    }
    return false;
}

static bool exit_block(struct luajit_walk *w, uint64_t S, struct luajit_state *L, uint64_t *si)
{
    enum { ROOM_MAX = 1 << 16 };
    const struct luajit_layout *l = w->vm.layout;
    const int32_t fields[] = {running_field(l), l->J_L};
    uint64_t dispatch[2] = {vm_register(w, DWARF_R14), 0};
    enum provenance ignored = PROVENANCE_EXACT;
    if (!l->gc64) /* the stub has stored DISPATCH at S */
        memory_read_frame(&w->step->input->memory, S, &dispatch[1], 4, &ignored);
    for (unsigned i = 0; i < 4; i++) {
        uint64_t g = dispatch[i / 2] - (uint64_t)l->g2disp;
        uint64_t pointer;
        if (dispatch[i / 2] == 0 || !walk_use_vm(w, g, l, w->vm.blob))
            continue;
        if (i % 2 == 0
                ? !running_state(w, fields[0], L)
                : !luajit_read_moving(&w->r, g + (uint64_t)fields[1], &pointer, sizeof(pointer)) ||
                      !luajit_read_state(&w->r, pointer, L) || L->g != g)
            continue;
        *si = next_block(w, L);
        if (*si - S >= 16 && *si - S <= ROOM_MAX && block_L(w, *si) == L->address)
            return true;
    }
    /* This may be a finalizer that runs on a lua_State of its own. */
    *si = find_linked_block(w, S + 16, L);
    return *si != 0;
}

/* ---- the row ------------------------------------------------------------------------------- */

static bool place(struct luajit_walk *w, uint64_t o, uint64_t *si, enum walker_result *result)
{
    const struct luajit_layout *l = w->vm.layout;
    bool exact = walk_is_exact(w);
    uint64_t sp = walk_register(w, DWARF_RSP), distance;
    if (exact && blob_is_leaf_helper(l, o)) {
        *result = step_leaf_helper(w);
        return true;
    }
    if (exact && partial_frame(l, o, &distance)) {
        *result = step_partial(w, sp + distance, distance);
        return true;
    }
    if (blob_is_exit(l, o) && step_handler(w, o, result))
        return true;
    *si = exact ? leaf_block(w, o) : sp;
    return false;
}

/* Has the exit handler stored which trace is left, and where? */
static bool exit_is_told(const struct luajit_layout *l, uint64_t o)
{
    enum { STORES = 14 };
    return o >= (uint64_t)l->evidence[LUAJIT_F_exitno] - 1 + STORES;
}

/* Before that, the trace is the one that runs, or in ecx; the exit's number was pushed, then is in
 * eax. */
static bool early_exit(struct luajit_walk *w, uint64_t S, struct luajit_trace *t, uint32_t *exitno)
{
    enum { NUMBER_LOADED = 0x20 };
    const struct luajit_layout *l = w->vm.layout;
    uint64_t in = step_pc(w) - w->vm.blob - (uint64_t)l->exit_handler;
    uint32_t parent;
    uint8_t bytes[16];
    enum provenance ignored = PROVENANCE_EXACT;
    if (!luajit_read_moving_u32(&w->r, w->vm.g + (uint64_t)l->vmstate, &parent))
        return false;
    if ((int32_t)parent <= 0)
        parent = (uint32_t)walk_register(w, DWARF_RCX);
    *exitno = (uint32_t)walk_register(w, 0) & 0xffff;
    if (in < NUMBER_LOADED) {
        if (!memory_read_frame(&w->step->input->memory, S - 16, bytes, 16, &ignored))
            return false;
        *exitno = bytes[8] | (uint32_t)bytes[0] << 8;
    }
    return luajit_trace_read(&w->r, w->vm.g, parent, t);
}

/* lj_vm_ffi_call has its own unwind entry, which is right between "push rbp; mov rbp, rsp" and
 * "leave". */
static enum walker_result step_ffi_call(struct luajit_walk *w, uint64_t at)
{
    const struct luajit_layout *l = w->vm.layout;
    uint64_t o = at - l->ffi_call, pushed;
    if (!walk_is_exact(w) || (o > 3 && at != l->ffi_call_ret))
        return WALKER_NO;
    pushed = o == 0 || at == l->ffi_call_ret ? 8 : 16;
    return step_partial(w, walk_register(w, DWARF_RSP) + pushed, pushed);
}

const struct luajit_machine luajit_x86_64 = {.arch = &arch_x86_64,
                                             .base = DWARF_RDX,
                                             .pc = DWARF_RBX,
                                             .old_base = DWARF_RBP,
                                             .vm = DWARF_R14,
                                             .leave_block = leave_block,
                                             .place = place,
                                             .is_between = is_between,
                                             .step_ffi_call = step_ffi_call,
                                             .step_mcode = step_mcode_x86_64,
                                             .leave_size = 11,
                                             .rethrow_size = 15,
                                             .trace_block = trace_block,
                                             .exit_block = exit_block,
                                             .exit_is_told = exit_is_told,
                                             .early_exit = early_exit,
                                             .leave_trace = leave_trace,
                                             .has_store = has_store,
                                             .store_size = 7,
                                             .reads_code = true};
