/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interpreter of AArch64. x29 is a frame pointer in all of it, in traces and in the exit
 * handler, so the unwind entry (CFA = x29 + 16) is wrong only where a C frame is made and removed,
 * and in leaf helpers. Base and next instruction are in registers that C functions keep.
 */
#include "unwind/arch_aarch64.h"
#include "unwind/luajit/walk_internal.h"

enum { BASE = 19, PC = 21, GL = 22, RB = 17, INSN = AARCH64_INSN };

/* The entries save registers with this many instructions, and do not change them meanwhile. */
enum { SAVE_SIZE = 12 * INSN, FP_SET = 3 * INSN };

/* ---- native registers ---------------------------------------------------------------------- */

enum { BLOCK = 12, BLOCK_HALF = BLOCK / 2 };

/* Read half of the saved registers, at once if all are recorded in one piece. */
static bool read_half(struct luajit_walk *w, uint64_t at, uint64_t value[BLOCK_HALF])
{
    if (memory_read_frame(&w->step->input->memory, at, value, BLOCK_HALF * sizeof(*value),
                          w->step->provenance))
        return true;
    for (unsigned i = BLOCK_HALF; i-- > 0;) {
        if (!walk_read_stack(w, at + 8 * i, &value[i]))
            return false;
    }
    return true;
}

/* The C frame ends with x28 to x19, then x29 and lr right below the CFA. */
static bool leave_block(struct luajit_walk *w, uint64_t si)
{
    static const uint8_t saved[BLOCK] = {28, 27, 26, 25, 24,         23,
                                         22, 21, 20, 19, AARCH64_FP, AARCH64_PC};
    uint64_t value[BLOCK], cfa = si + (uint64_t)w->vm.layout->frame_size;
    if (!read_half(w, cfa - 8 * BLOCK_HALF, &value[BLOCK_HALF]) ||
        !read_half(w, cfa - 8 * BLOCK, value))
        return false;
    walk_say(w, TRACE_WAY,
             "LuaJIT's C frame ends at the CFA #: return address and # bytes of registers are "
             "right below",
             cfa, sizeof(value));
    for (unsigned i = 0; i < BLOCK; i++) {
        w->step->value[saved[i]] = value[i];
        *w->step->known |= REG_BIT(saved[i]);
    }
    w->step->value[AARCH64_PC] &= arch_aarch64.reg.address_mask;
    w->step->value[AARCH64_SP] = cfa;
    *w->step->known &= arch_aarch64.reg.survives;
    return true;
}

/* Step out of code that has no frame (yet, or any more): its return address is in the link
 * register, and all other registers are the caller's. `helper`: it is called within the VM, whose
 * registers stay known. */
static enum walker_result leave_by_link(struct luajit_walk *w, uint64_t cfa, bool helper)
{
    uint64_t pc = walk_register(w, AARCH64_LR) & arch_aarch64.reg.address_mask;
    if (!walk_knows(w, AARCH64_LR) || !walk_is_executable(w, pc, true))
        return WALKER_NO;
    walk_say(w, TRACE_WAY, "code of LuaJIT without a frame: the return address is in lr, #", pc, 0);
    if (!emit_native(w, cfa))
        return WALKER_NO_MEMORY;
    w->step->value[AARCH64_PC] = pc;
    w->step->value[AARCH64_SP] = cfa;
    *w->step->known &= helper ? UINT64_MAX : arch_aarch64.reg.survives;
    return WALKER_STEPPED;
}

/* ---- places where the unwind entry lies ------------------------------------------------------ */

/* Get how far into an entry the pc is. false: it is in none. */
static bool in_entry(const struct luajit_layout *l, uint64_t o, uint64_t *into)
{
    const int32_t entries[] = {l->resume, l->pcall, l->call, l->cpcall, l->callback};
    for (unsigned i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
        *into = o - (uint64_t)entries[i];
        if (entries[i] != LUAJIT_UNKNOWN && *into < SAVE_SIZE)
            return true;
    }
    return false;
}

/* An entry: sub sp; stp x29, lr; add x29; then the other registers are saved. */
static enum walker_result step_entry(struct luajit_walk *w, uint64_t into)
{
    uint64_t cfa = walk_register(w, AARCH64_SP), fp;
    if (into)
        cfa += (uint64_t)w->vm.layout->frame_size;
    if (into >= FP_SET) {
        if (!walk_read_stack(w, cfa - 16, &fp))
            return WALKER_NO;
        w->step->value[AARCH64_FP] = fp;
    }
    return leave_by_link(w, cfa, false);
}

/* The end of the epilogue: ten loads, the last of which loads x29 and lr; add sp; ret. Get the CFA
 * where all registers are the caller's. */
static bool is_at_return(const struct luajit_walk *w, uint64_t o, uint64_t *cfa)
{
    enum { LOADS = 10 * INSN };
    const struct luajit_layout *l = w->vm.layout;
    const uint64_t loaded = (uint64_t)l->leave + LOADS;
    *cfa = walk_register(w, AARCH64_SP) + (o == loaded ? (uint64_t)l->frame_size : 0);
    return walk_is_exact(w) && (o == loaded || o == loaded + INSN);
}

/* Has the exit handler stored which trace is left, and where? */
static bool exit_is_told(const struct luajit_layout *l, uint64_t o)
{
    uint64_t stores = (uint64_t)l->evidence[LUAJIT_F_parent] - 1 + INSN;
    return o >= stores;
}

/* A trace's exit stubs are behind its code: str lr, [sp]; bl lj_vm_exit_handler; movz w0, #trace;
 * then "bl" to the first of these for each exit. (There may be a nop between.) */
enum { STUBS_HANDLER = INSN, STUBS_NUMBER = 2 * INSN, STUBS_EXITS = 3 * INSN };

/* Find the trace whose stubs begin at an address. */
static bool trace_of_stubs(struct luajit_walk *w, uint64_t stubs, struct luajit_trace *t)
{
    for (unsigned nops = 0; nops < 2; nops++) {
        uint64_t end = stubs - (uint64_t)nops * INSN;
        if (luajit_trace_find(&w->r, w->vm.g, end - INSN, 0, t) && t->mcode + t->szmcode == end)
            return true;
    }
    return false;
}

/* Get the exit whose "bl" returns to an address. */
static bool exit_of(const struct luajit_trace *t, uint64_t stubs, uint64_t returns, uint32_t *ret)
{
    uint64_t at = returns - INSN - stubs - STUBS_EXITS;
    *ret = (uint32_t)(at / INSN);
    return at % INSN == 0 && at / INSN < t->nsnap;
}

/* In the exit handler lr is behind the call in the stubs. The stub's "bl" returns to what is stored
 * on the trace's stack. */
static bool early_exit(struct luajit_walk *w, uint64_t S, struct luajit_trace *t, uint32_t *exitno)
{
    enum { REGISTERS = 64 * 8 }; /* which the handler's first instruction makes room for */
    uint64_t o = step_pc(w) - w->vm.blob, lr = walk_register(w, AARCH64_LR), returns;
    uint64_t at = S + (o == (uint64_t)w->vm.layout->exit_handler ? 0 : REGISTERS);
    return walk_knows(w, AARCH64_LR) && walk_read_stack(w, at, &returns) &&
           trace_of_stubs(w, lr - STUBS_NUMBER, t) &&
           exit_of(t, lr - STUBS_NUMBER, returns, exitno);
}

/* In the stubs lr is behind the "bl" of the exit. */
static bool exit_stub(struct luajit_walk *w, uint64_t pc, struct luajit_trace *t, uint32_t *exitno)
{
    const uint32_t str_lr = 0xf90003fe; /* str lr, [sp] */
    uint64_t lr = walk_register(w, AARCH64_LR);
    for (uint64_t stubs = pc; stubs + STUBS_HANDLER >= pc; stubs -= INSN) {
        uint32_t insn;
        if (luajit_read_moving_u32(&w->r, stubs, &insn) && insn == str_lr)
            return walk_knows(w, AARCH64_LR) && trace_of_stubs(w, stubs, t) &&
                   exit_of(t, stubs, lr, exitno);
    }
    return false;
}

static bool place(struct luajit_walk *w, uint64_t o, uint64_t *si, enum walker_result *result)
{
    const struct luajit_layout *l = w->vm.layout;
    uint64_t into, cfa, fp = walk_register(w, AARCH64_FP), lookup = o - !walk_is_exact(w);
    if (walk_is_exact(w) && blob_is_leaf_helper(l, o)) {
        *result = leave_by_link(w, walk_register(w, AARCH64_SP), true);
        return true;
    }
    if (walk_is_exact(w) && in_entry(l, o, &into)) {
        *result = step_entry(w, into);
        return true;
    }
    if (is_at_return(w, o, &cfa)) {
        *result = leave_by_link(w, cfa, false);
        return true;
    }
    if (!walk_knows(w, AARCH64_FP) || fp % 16 != 0) {
        *result = WALKER_NO;
        return true;
    }
    *si = fp + 16 - (uint64_t)l->frame_size;
    if (blob_is_exit(l, lookup)) {
        *result = step_exit(w, walk_register(w, AARCH64_SP), walk_is_exact(w));
        return true;
    }
    return false;
}

/* BC_RET moves BASE up while it stores results. x2 is then the frame's first header slot, where
 * the first result goes. */
static uint64_t base_at(const struct luajit_walk *w, uint64_t o)
{
    enum { FILL = 4 * INSN, HEADER = 16 };
    const struct luajit_layout *l = w->vm.layout;
    const bool moves = l->ret_moves != LUAJIT_UNKNOWN && o >= (uint64_t)l->ret_moves &&
                       o <= (uint64_t)l->ret_moved;
    const bool fills = l->ret_fills != LUAJIT_UNKNOWN && o - (uint64_t)l->ret_fills < FILL;
    return walk_is_exact(w) && (moves || fills) ? walk_register(w, 2) + HEADER
                                                : walk_register(w, BASE);
}

/* ---- calls from C and returns to it ---------------------------------------------------------- */

/* Has a builtin that C called stored its first result, where its function was? Only the link, which
 * is in the register already, still tells of its frame. */
static bool has_result(struct luajit_walk *w, const struct luajit_state *L, uint64_t link)
{
    uint64_t base = walk_register(w, BASE), header = 0;
    enum provenance before = w->r.provenance;
    bool none = base % 8 == 0 && base > luajit_bottom(&w->r, L) && base <= L->end &&
                luajit_slot_read(&w->r, L, base - 8, &header) && header == link &&
                luajit_function_at(&w->r, L, base, NULL)->address == 0;
    w->r.provenance = before;
    return none;
}

static bool is_between(struct luajit_walk *w, const struct luajit_state *L, uint64_t o,
                       struct lua_position *next)
{
    enum { TEST_BEFORE = 6 * INSN, DISTANCE_MAX = 1 << 20 };
    enum { CPCALL_LINKED = 2 * INSN, CPCALL_TESTED = 4 * INSN }; /* before and behind its call */
    const struct luajit_layout *l = w->vm.layout;
    uint64_t link = walk_register(w, PC);
    unsigned type = luajit_link_type(link);
    bool to_c = link < DISTANCE_MAX && (type == LUAJIT_LINK_C || type == LUAJIT_LINK_CP);
    *next = (struct lua_position){L->base, 0};
    if (walk_is_exact(w) && o >= (uint64_t)l->call_linked && o < (uint64_t)l->call_entered) {
        /* Called by C: the new frame is not complete yet. The calls of pcall and the like have
         * another link. */
        return o < (uint64_t)l->call_dispatch || to_c;
    }
    /* lj_vm_cpcall has linked its C frame and calls, and then tests if there is a frame to run. */
    if (walk_is_exact(w) && o + CPCALL_LINKED >= (uint64_t)l->cpcall_return &&
        o < (uint64_t)l->cpcall_return + CPCALL_TESTED)
        return true;
    bool returns = o < (uint64_t)l->return_c_end && o + TEST_BEFORE >= (uint64_t)l->return_c;
    if (returns && o >= (uint64_t)l->return_c_stored)
        return true;
    /* The same code returns to pcall, which does not leave the VM. */
    if (!to_c || !walk_knows(w, BASE))
        return false;
    if (!returns && (!walk_is_exact(w) || !has_result(w, L, link)))
        return false;
    next->base = walk_register(w, BASE) - (link & ~UINT64_C(7));
    return next->base >= L->stack && next->base <= L->end;
}

/* ---- traces --------------------------------------------------------------------------------- */

/* x29 stays the C frame's. */
static bool block_by_fp(struct luajit_walk *w, const struct luajit_state *L, uint64_t *si)
{
    *si = walk_register(w, AARCH64_FP) + 16 - (uint64_t)w->vm.layout->frame_size;
    return walk_knows(w, AARCH64_FP) && *si == next_block(w, L) && block_L(w, *si) == L->address;
}

static bool trace_block(struct luajit_walk *w, const struct luajit_trace *t,
                        const struct luajit_state *L, uint64_t pushed, uint64_t *si)
{
    (void)t, (void)pushed;
    return block_by_fp(w, L, si);
}

static bool exit_block(struct luajit_walk *w, uint64_t S, struct luajit_state *L, uint64_t *si)
{
    (void)S;
    return walk_knows(w, GL) && walk_use_vm(w, walk_register(w, GL), w->vm.layout, w->vm.blob) &&
           running_state(w, running_field(w->vm.layout), L) && block_by_fp(w, L, si);
}

/* str register, [x22, #displacement] */
static bool has_store(const uint8_t *code, uint32_t size, uint32_t displacement)
{
    for (uint32_t at = 0; at + 4 <= size; at += 4)
        if ((load_u32(code + at, false) & ~0x1fu) == (0xf90002c0 | displacement / 8 << 10))
            return true;
    return false;
}

/* ---- callback slots -------------------------------------------------------------------------- */

/* A page of slots begins with "ldr x11, lj_vm_ffi_callback; ldr x10, g; br x11; nop", and these two
 * words. Each slot is "movz w9, #slot; b page". No frame is made. */
enum walker_result step_callback_aarch64(struct luajit_walk *w, const struct luajit_blob *blob)
{
    enum { PAGE = 4096, TARGET = 4 * INSN, LOAD_X11 = 0x5800000b, TO_TARGET = TARGET / 4 << 5 };
    const struct memory *m = &w->step->input->memory;
    uint64_t page = step_pc(w) & ~(uint64_t)(PAGE - 1);
    uint8_t head[TARGET + 8];
    enum provenance provenance = PROVENANCE_EXACT;
    if (!walk_is_exact(w) || blob->layout->callback == LUAJIT_UNKNOWN ||
        !memory_read(m, page, head, sizeof(head), &provenance) ||
        load_u32(head, false) != (LOAD_X11 | TO_TARGET) ||
        load_u64(head + TARGET, false) != blob->address + (uint64_t)blob->layout->callback)
        return WALKER_NO;
    return leave_by_link(w, walk_register(w, AARCH64_SP), false);
}

/* ---- lj_vm_ffi_call -------------------------------------------------------------------------- */

/* Its unwind entry (CFA = x29 + 16) is wrong until x29 is set, and from where x29 is loaded: stp
 * x20, x19, [sp, #-32]!; stp x29, lr, [sp, #16]; add x29, sp, #16; ...; ldp x29, lr, [sp, #16]; ldp
 * x20, x19, [sp], #32; ret. */
static enum walker_result step_ffi_call(struct luajit_walk *w, uint64_t at)
{
    enum { FRAME = 32 };
    const struct luajit_layout *l = w->vm.layout;
    uint64_t sp = walk_register(w, AARCH64_SP), saved[2];
    if (!walk_is_exact(w) || !l->ffi_call_ret)
        return WALKER_NO;
    if (at == l->ffi_call || at == l->ffi_call_ret)
        return leave_by_link(w, sp, false);
    if (at - l->ffi_call < FP_SET)
        return leave_by_link(w, sp + FRAME, false);
    if (at + INSN != l->ffi_call_ret || !walk_read_stack(w, sp, &saved[0]) ||
        !walk_read_stack(w, sp + 8, &saved[1]))
        return WALKER_NO;
    w->step->value[20] = saved[0];
    w->step->value[19] = saved[1];
    *w->step->known |= REG_BIT(19) | REG_BIT(20);
    return leave_by_link(w, sp + FRAME, false);
}

const struct luajit_machine luajit_aarch64 = {.arch = &arch_aarch64,
                                              .base = BASE,
                                              .pc = PC,
                                              .old_base = RB,
                                              .vm = GL,
                                              .vm_is_g = true,
                                              .leave_block = leave_block,
                                              .place = place,
                                              .base_at = base_at,
                                              .is_between = is_between,
                                              .step_ffi_call = step_ffi_call,
                                              .step_mcode = step_mcode_aarch64,
                                              .leave_size = SAVE_SIZE,
                                              .trace_block = trace_block,
                                              .exit_block = exit_block,
                                              .exit_is_told = exit_is_told,
                                              .early_exit = early_exit,
                                              .exit_stub = exit_stub,
                                              .leave_trace = leave_block,
                                              .has_store = has_store,
                                              .store_size = INSN};
