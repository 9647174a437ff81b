/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Code that LuaJIT has generated (traces, exit stubs, callback slots), and the exit handler, whose
 * frame lies on top of the trace's. A trace runs in the block of the entry from which it was
 * started, with room for its spill slots below: si = rsp + 16 + spadjust, with spadjust of the
 * running trace itself, also for a side trace. In the trace's first and last instructions the room
 * is different. The lua_State's own chain of C frames then tells si.
 */
#include "unwind/insn_x86_64.h"
#include "unwind/luajit/branch.h"
#include "unwind/luajit/trace_calls.h"
#include "unwind/luajit/trace_callers.h"
#include "unwind/luajit/walk_internal.h"

#include "base/cursor.h"
#include "unwind/luajit/runtime.h"

/* Upper bound of the size of GG_State, which holds the bytecode of C functions and builtins. */
enum { GG_MAX = 0x4000 };

const char snapshot_unsure[] = "this build does not say which snapshot covers the code, and "
                               "neighbours have other functions";

/* ---- the block of a trace ------------------------------------------------------------------ */

uint64_t block_L(struct luajit_walk *w, uint64_t si)
{
    uint64_t L = 0;
    enum provenance ignored = PROVENANCE_EXACT;
    memory_read_frame(&w->step->input->memory, si + (uint64_t)w->vm.layout->frame_L, &L,
                      w->vm.layout->gc64 ? 8 : 4, &ignored);
    return L;
}

bool running_state(struct luajit_walk *w, int32_t field, struct luajit_state *ret)
{
    uint64_t L;
    if (field == LUAJIT_UNKNOWN || !luajit_read_moving_ref(&w->r, w->vm.g + (uint64_t)field, &L))
        return false;
    return luajit_read_state(&w->r, L, ret) && ret->g == w->vm.g;
}

int32_t running_field(const struct luajit_layout *l)
{
    return l->cur_L != LUAJIT_UNKNOWN ? l->cur_L : l->jit_L;
}

static bool is_entry(const struct luajit_layout *l, uint64_t o)
{
    return o == (uint64_t)l->resume || o == (uint64_t)l->pcall || o == (uint64_t)l->call ||
           o == (uint64_t)l->cpcall;
}

static uint64_t jump_target(uint64_t next, const uint8_t *distance)
{
    return next + (uint64_t)(int64_t)(int32_t)load_u32(distance, false);
}

/* Is the block's return address behind a call of one of the blob's entries, or of a function that
 * ends in a jump to an entry (lua_call)? */
static bool entered_by_call(const struct memory *m, const struct luajit_layout *l, uint64_t blob,
                            uint64_t ra)
{
    enum { CALL = X86_64_DIRECT_CALL, JUMP_OPCODE = 0xe9, WRAPPER = 96 };
    enum provenance ignored = PROVENANCE_EXACT;
    uint8_t code[CALL], wrapper[WRAPPER];
    uint64_t target;
    if (ra < CALL || !memory_read(m, ra - CALL, code, CALL, &ignored) ||
        !x86_64_direct_call(code + CALL, CALL, ra, &target))
        return false;
    if (is_entry(l, target - blob))
        return true;
    if (!memory_read(m, target, wrapper, sizeof(wrapper), &ignored))
        return false;
    for (unsigned i = 0; i + CALL <= WRAPPER; i++) {
        if (wrapper[i] == JUMP_OPCODE &&
            is_entry(l, jump_target(target + i + CALL, wrapper + i + 1) - blob))
            return true;
    }
    return false;
}

/* Is it a call of a function by name? lua_resume is called that way. */
static bool is_call_by_name(const uint8_t code[X86_64_CALL_MAX])
{
    const uint8_t *end = code + X86_64_CALL_MAX;
    uint64_t ignored;
    return x86_64_direct_call(end, X86_64_CALL_MAX, 0, &ignored) ||
           (end[-6] == 0xff && end[-5] == 0x15); /* or a call through the function's GOT entry */
}

/* Check the block's fields where the call of an entry cannot be seen. A callback: the call is
 * indirect, no results are wanted, the error handler is inherited, and there is an outer block.
 * lj_vm_resume: lua_resume jumps to it, and all fields are zero. Much of a stack is zero, so the
 * call must be one by name: pcre's generated code is called through a register. */
static bool entered_otherwise(const struct memory *m, const struct luajit_layout *l, uint64_t si,
                              uint64_t ra)
{
    enum { OUTER_MAX = 1 << 24 };
    enum provenance ignored = PROVENANCE_EXACT;
    uint8_t code[X86_64_CALL_MAX];
    int32_t nres, errf;
    uint64_t previous, pc = 0;
    if (!memory_read_frame(m, si + (uint64_t)l->frame_nres, &nres, sizeof(nres), &ignored) ||
        !memory_read_frame(m, si + (uint64_t)l->frame_errf, &errf, sizeof(errf), &ignored) ||
        !memory_read_frame(m, si + (uint64_t)l->frame_pc, &pc, (size_t)l->ref_size, &ignored) ||
        !memory_read_slot(m, si + (uint64_t)l->frame_prev, &previous, &ignored))
        return false;
    bool callback = nres == 0 && errf == -1 && previous > si && previous - si < OUTER_MAX;
    bool resume = nres == 0 && errf == 0 && previous == 0;
    return (callback || resume) && ra > X86_64_CALL_MAX &&
           memory_read(m, ra - X86_64_CALL_MAX, code, sizeof(code), &ignored) &&
           (callback ? x86_64_is_call(code + sizeof(code), sizeof(code)) : is_call_by_name(code));
}

uint64_t find_block(struct luajit_walk *w, const struct luajit_layout *l, uint64_t blob,
                    uint64_t from)
{
    enum { STEP = 16, TRIES = 256 };
    const struct memory *m = &w->step->input->memory;
    enum provenance ignored = PROVENANCE_EXACT;
    uint64_t si = (from + STEP - 1) & ~(uint64_t)(STEP - 1);
    for (unsigned i = 0; i < TRIES && luajit_spend(&w->r); i++, si += STEP) {
        uint64_t ra;
        if (!memory_read_slot(m, si + (uint64_t)l->frame_size - 8, &ra, &ignored))
            return 0;
        if (entered_by_call(m, l, blob, ra) || entered_otherwise(m, l, si, ra))
            return si;
    }
    return 0;
}

/* The VM's memory is not available: search for the block. The result is a guess. */
static enum walker_result step_searched(struct luajit_walk *w, const struct luajit_layout *l,
                                        uint64_t blob, uint64_t from)
{
    uint64_t si = find_block(w, l, blob, from);
    if (!si)
        return WALKER_NO;
    w->vm = (struct luajit_vm){.blob = blob, .layout = l};
    walk_mark(
        w, PROVENANCE_GUESS,
        "the VM's memory was not recorded: a C frame of LuaJIT was searched for, and found at #",
        si);
    *w->step->provenance = PROVENANCE_GUESS;
    if (!emit_unknown(w, si + (uint64_t)l->frame_size))
        return WALKER_NO_MEMORY;
    return walk_machine(w)->leave_trace(w, si) ? WALKER_STEPPED : WALKER_NO;
}

/* ---- Lua frames of a trace ----------------------------------------------------------------- */

/* A way to read a trace's frames: a snapshot, and the base of its start frame. */
struct reading {
    struct luajit_inlined in;
    uint64_t base;
    struct luajit_function start; /* function of the start frame; address 0: as in the Lua stack */
    uint32_t number;              /* number of the snapshot */
    bool is_exit;                 /* the program leaves the trace at this snapshot: at its very
                                     line */
    bool is_behind;               /* the snapshot was taken behind the call of C that is being
                                     executed */
};

static void reading_begin(struct reading *ret, uint64_t base, bool is_exit)
{
    ret->in.nr = 0;
    ret->in.depth = 0;
    ret->in.start_pc = ret->in.start_func = 0;
    ret->base = base;
    ret->start = (struct luajit_function){0};
    ret->number = 0;
    ret->is_exit = is_exit;
    ret->is_behind = false;
}

/* Do snapshot and Lua stack agree: is the start frame's pc inside its function? `replaced`: a tail
 * call in the trace has replaced the function, and the snapshot names the new one. */
static bool read_start(struct luajit_walk *w, const struct luajit_state *L, uint64_t base,
                       bool replaced, struct reading *ret)
{
    ret->base = base;
    ret->start = (struct luajit_function){0};
    if (base <= luajit_bottom(&w->r, L) || base > L->end)
        return false;
    if (replaced) {
        if (ret->in.start_func)
            ret->start = *luajit_function_read(&w->r, ret->in.start_func);
        return luajit_pc_inside(&ret->start, ret->in.start_pc);
    }
    const struct luajit_function *f = luajit_function_at(&w->r, L, base, NULL);
    /* A start frame that is no Lua function, but a builtin that called back into Lua, needs no
     * pc. */
    return luajit_pc_inside(f, ret->in.start_pc) || (ret->in.start_pc == 0 && !f->lua);
}

/* Find the start frame: at `base`, or below it if the trace's end has already stored the base of
 * the next trace, which begins at the innermost frame. This has happened for certain (is_moved), or
 * it may have (at_end). */
static bool find_start(struct luajit_walk *w, const struct luajit_state *L, uint64_t base,
                       bool is_moved, bool at_end, struct reading *ret)
{
    uint64_t moved = base - 8 * (uint64_t)ret->in.depth;
    bool has_moved = ret->in.depth != 0;
    if (is_moved && has_moved && read_start(w, L, moved, false, ret))
        return true;
    if (read_start(w, L, base, false, ret) ||
        (at_end && has_moved && read_start(w, L, moved, false, ret)))
        return true;
    return read_start(w, L, base, true, ret) ||
           (has_moved &&
            (read_start(w, L, moved, false, ret) || read_start(w, L, moved, true, ret)));
}

/* Has the snapshot's code stored another base before `offset` ("mov [r14 + jit_base], register")?
 * It does so for a return below the trace's start frame, or a jump to a trace that starts above it.
 * In recursion the frames fit at both bases. */
static bool has_moved_base(struct luajit_walk *w, const struct luajit_trace *t, uint32_t number,
                           uint32_t offset)
{
    enum { PIECE = 512, OVERLAP = 8 /* a store is shorter; pieces begin at whole words */ };
    const struct luajit_layout *l = w->vm.layout;
    const struct luajit_machine *m = luajit_machine(l);
    const uint32_t field = (uint32_t)(l->jit_base - (m->vm_is_g ? 0 : l->g2disp));
    uint8_t code[PIECE];
    uint32_t from;
    enum provenance ignored = PROVENANCE_EXACT; /* any reading will do: only jumps are patched */
    if (!l->gc64 || !luajit_snapshot_start(&w->r, t, number, &from))
        return false;
    for (; from + m->store_size <= offset; from += PIECE - OVERLAP) {
        uint32_t size = offset - from < PIECE ? offset - from : PIECE;
        if (!memory_read(w->r.m, t->mcode + from, code, size, &ignored))
            return false;
        if (m->has_store(code, size, field))
            return true;
    }
    return false;
}

/* Try the ways in order of how often they are right: the covering snapshot; the next snapshot, if
 * the base has already moved down; then neighbours, for builds where the snapshot's number is a
 * guess. */
static bool find_reading(struct luajit_walk *w, const struct luajit_state *L,
                         const struct luajit_trace *t, uint32_t number, uint64_t base,
                         struct reading *ret, bool *weak)
{
    enum { END = 64 }; /* bytes of code that hold all adjustments before a trace's last jump */
    static const int8_t neighbours[] = {0, 1, -1, 2};
    uint64_t offset = step_pc(w) - !walk_is_exact(w) - t->mcode;
    bool moved = offset < t->szmcode && has_moved_base(w, t, number, (uint32_t)offset);
    bool at_end = step_pc(w) - t->mcode + END >= t->szmcode;
    unsigned first = moved && number + 1 < t->nsnap; /* the code has returned: the base belongs to
                                                        the next snapshot */
    for (unsigned i = 0; i < sizeof(neighbours); i++) {
        uint32_t n = number + (uint32_t)neighbours[i < 2 ? i ^ first : i];
        *weak = i > 1;
        if (n < t->nsnap && luajit_snapshot_frames(&w->r, t, n, &ret->in) &&
            find_start(w, L, base, moved && !first, at_end, ret)) {
            ret->number = n;
            ret->is_behind &= n == number;
            return true;
        }
    }
    return false;
}

/* The prototype that has `pc` in its bytecode. Searched in the surrounding functions (recursion),
 * and in the trace's constants. 0: none. */
static uint64_t proto_of(struct luajit_walk *w, const struct luajit_state *L,
                         const struct luajit_trace *t, const struct reading *reading, uint64_t pc)
{
    const struct luajit_function *f = luajit_function_at(&w->r, L, reading->base, NULL);
    if (luajit_pc_inside(f, pc))
        return f->proto;
    if (luajit_pc_inside(&reading->start, pc))
        return reading->start.proto;
    return luajit_traces_proto_of(&w->r, w->vm.g, t, pc);
}

/* An inlined frame's function: a constant of the trace. Where a prototype has many closures, it is
 * the function in the Lua stack, or at least the prototype. */
static struct luajit_function inlined_function(struct luajit_walk *w, const struct luajit_state *L,
                                               const struct luajit_trace *t,
                                               const struct reading *reading, unsigned i)
{
    uint64_t pc = reading->in.frames[i].pc, func = reading->in.frames[i].func;
    struct luajit_function f = {0};
    if (func)
        f = *luajit_function_alive(&w->r, func);
    if (f.address && (!f.lua || luajit_pc_inside(&f, pc)))
        return f;
    f = *luajit_function_at(&w->r, L, reading->base + 8 * (uint64_t)reading->in.frames[i].base_slot,
                            NULL);
    if (luajit_pc_inside(&f, pc))
        return f;
    f = (struct luajit_function){.unread = true};
    f.proto = pc ? proto_of(w, L, t, reading, pc) : 0;
    if (f.proto && luajit_code_read(&w->r, f.proto, &f.code, &f.sizebc)) {
        f.lua = true;
        f.unread = false;
    }
    return f;
}

/* The program counter of the innermost frame from which its line is read. */
static uint64_t recorded_pc(struct luajit_walk *w, const struct luajit_trace *t,
                            const struct reading *reading, const struct luajit_function *f,
                            uint64_t pc)
{
    if (reading->is_exit)
        return pc;
    uint64_t recorded = luajit_recorded_pc(&w->r, t, reading->number, f, pc);
    return reading->is_behind ? luajit_call_pc(&w->r, f, recorded ? recorded : pc) : recorded;
}

static enum luajit_segment_end emit_reading(struct luajit_walk *w, const struct luajit_state *L,
                                            const struct luajit_trace *t,
                                            const struct reading *reading, struct emitter *e,
                                            struct lua_position *next)
{
    struct luajit_sink sink = emit_sink(e);
    e->trace = t->number;
    e->trace_address = t->address;
    e->trace_base = reading->base;
    e->snapshot = reading->number;
    e->inlined = true;
    for (unsigned i = 0; i < reading->in.nr; i++) {
        struct luajit_function f = inlined_function(w, L, t, reading, i);
        /* The trace prepares a call of C or of a builtin, whose function is not known yet. */
        if (i == 0 && f.unread && reading->in.frames[i].pc - w->vm.g < GG_MAX)
            continue;
        uint64_t pc = reading->in.frames[i].pc;
        uint64_t base = reading->base + 8 * (uint64_t)reading->in.frames[i].base_slot;
        if (i == 0)
            pc = recorded_pc(w, t, reading, &f, pc);
        if (!emit_function(e, &f, (struct lua_position){base, pc}))
            return LUAJIT_SEGMENT_FULL;
    }
    e->inlined = false;
    e->trace_once = true;
    struct lua_position at = {reading->base, reading->in.start_pc};
    const struct luajit_function *start = reading->start.address ? &reading->start : NULL;
    if (reading->in.nr == 0)
        at.pc =
            recorded_pc(w, t, reading,
                        start ? start : luajit_function_at(&w->r, L, reading->base, NULL), at.pc);
    return luajit_segment_walk(&w->r, L, at, start, &sink, next);
}

/* ---- calls of C from a trace ----------------------------------------------------------------- */

/* Has the trace called foreign code, that is, code that is not LuaJIT's own? Then the FFI has made
 * the call. In a program that contains LuaJIT, the program's own functions are in the same file:
 * they are recognized by their addresses among the trace's constants. */
static bool calls_foreign(struct luajit_walk *w, const struct luajit_trace *t)
{
    const struct walker_step *s = w->step;
    struct code code;
    if (walk_is_exact(w) || s->out->frames.nr == 0)
        return false;
    const struct frame *callee = &s->out->frames.at[s->out->frames.nr - 1];
    if (callee->kind != FRAME_NATIVE)
        return true;
    return codemap_lookup(&s->input->code, callee->pc, s->input->memory.time, &code) &&
           (!luajit_of_module(code.cfi) || !walk_machine(w)->reads_code ||
            luajit_call_by_ffi(&w->r, t, (uint32_t)(step_pc(w) - t->mcode)));
}

/* The prototypes of the frames in a snapshot. */
struct chain {
    uint64_t protos[LUAJIT_INLINED_MAX + 1];
    unsigned nr;
};

static bool read_chain(struct luajit_walk *w, const struct luajit_state *L,
                       const struct luajit_trace *t, uint32_t number, uint64_t base,
                       struct chain *ret)
{
    struct reading reading;
    bool weak;
    reading_begin(&reading, base, false);
    ret->nr = 0;
    if (!find_reading(w, L, t, number, base, &reading, &weak) || reading.number != number)
        return false;
    for (unsigned i = 0; i < reading.in.nr; i++)
        ret->protos[ret->nr++] = inlined_function(w, L, t, &reading, i).proto;
    ret->protos[ret->nr++] = reading.start.address
                                 ? reading.start.proto
                                 : luajit_function_at(&w->r, L, reading.base, NULL)->proto;
    return true;
}

static bool is_same_chain(const struct chain *a, const struct chain *b)
{
    return a->nr == b->nr && !memcmp(a->protos, b->protos, a->nr * sizeof(*a->protos));
}

/* The function that the trace has called. If the call was through a register that C functions
 * preserve, the register still holds the target. */
static bool called_target(struct luajit_walk *w, uint64_t *ret)
{
    enum { CALL = X86_64_DIRECT_CALL };
    uint64_t ra = step_pc(w);
    uint8_t code[CALL];
    unsigned reg;
    enum provenance ignored = PROVENANCE_EXACT;
    if (!memory_read(&w->step->input->memory, ra - CALL, code, CALL, &ignored))
        return false;
    if (x86_64_direct_call(code + CALL, CALL, ra, ret))
        return true;
    if (!x86_64_register_call(code + CALL, CALL, &reg) || !(X86_64_CALLEE_SAVED & REG_BIT(reg)) ||
        !walk_knows(w, reg))
        return false;
    *ret = walk_register(w, reg);
    return true;
}

/* Is it proven that the frames of the snapshot behind the call made the call? */
static bool is_caller_proven(struct luajit_walk *w, const struct luajit_state *L,
                             const struct luajit_trace *t, uint64_t base, uint32_t covering)
{
    struct reading reading;
    bool weak;
    struct luajit_call call = {.before = covering, .behind = covering + 1};
    uint32_t offset = (uint32_t)(step_pc(w) - t->mcode);
    reading_begin(&reading, base, false);
    if (!called_target(w, &call.target) ||
        !find_reading(w, L, t, covering, base, &reading, &weak) || reading.number != covering)
        return false;
    call.is_first = luajit_call_is_first(&w->r, t, offset, w->vm.blob);
    if (reading.in.nr)
        call.from = inlined_function(w, L, t, &reading, 0);
    else
        call.from = reading.start.address ? reading.start
                                          : *luajit_function_at(&w->r, L, reading.base, NULL);
    return luajit_caller_is_proven(&w->r, t, &call);
}

/* Choose the snapshot that best tells which function made a call of C. `*number` covers the call,
 * and becomes the chosen snapshot. `behind`: the chosen snapshot was taken behind the call. false:
 * the choice is not proven. */
static bool place_call(struct luajit_walk *w, const struct luajit_state *L,
                       const struct luajit_trace *t, uint64_t base, uint32_t *number, bool *behind)
{
    struct chain covering, after;
    uint32_t snapshots[CALL_SNAPSHOTS];
    uint32_t offset = (uint32_t)(step_pc(w) - t->mcode);
    if (!luajit_trace_knows_others(&w->r, t, NULL, 0))
        return true; /* the trace has inlined nothing */
    bool read = read_chain(w, L, t, *number, base, &covering);
    bool proven = read && *number + 1 < t->nsnap &&
                  read_chain(w, L, t, *number + 1, base, &after) &&
                  is_same_chain(&covering, &after) &&
                  !luajit_trace_knows_others(&w->r, t, covering.protos, covering.nr);
    unsigned nr = proven || !walk_machine(w)->reads_code
                      ? 0
                      : luajit_call_snapshots(&w->r, t, offset, *number, w->vm.blob, snapshots);
    for (unsigned i = 0; i < nr; i++) {
        bool last = i + 1 == nr;
        if (!read_chain(w, L, t, snapshots[i], base, &after) ||
            (!last && luajit_trace_knows_others(&w->r, t, after.protos, after.nr)))
            continue;
        proven = snapshots[i] == *number + 1 && is_caller_proven(w, L, t, base, *number);
        *number = snapshots[i];
        *behind = true;
        return proven;
    }
    return proven;
}

/* ---- a segment ------------------------------------------------------------------------------- */

/* Store the segment's result in the walk's state, and emit the last frame. */
static enum walker_result finish_segment(struct luajit_walk *w, struct segment *s,
                                         struct emitter *e, enum luajit_segment_end end,
                                         struct lua_position next)
{
    s->begun = true;
    s->next = next;
    if (end == LUAJIT_SEGMENT_BAD)
        emit_undo(e);
    if (!emit_end(e))
        return WALKER_NO_MEMORY;
    bool nothing = w->step->out->frames.nr == e->first;
    s->lost = end == LUAJIT_SEGMENT_BAD || end == LUAJIT_SEGMENT_UNREAD;
    if (s->lost || nothing)
        return emit_unknown(w, e->cfa) ? WALKER_STEPPED : WALKER_NO_MEMORY;
    return WALKER_STEPPED;
}

bool same_functions_before(struct luajit_walk *w, const struct luajit_trace *t, uint32_t number)
{
    struct luajit_inlined in, before;
    if (number == 0)
        return true;
    if (!luajit_snapshot_frames(&w->r, t, number, &in) ||
        !luajit_snapshot_frames(&w->r, t, number - 1, &before) || in.nr != before.nr ||
        in.start_func != before.start_func)
        return false;
    for (unsigned i = 0; i < in.nr; i++) {
        if (in.frames[i].func != before.frames[i].func ||
            in.frames[i].base_slot != before.frames[i].base_slot)
            return false;
    }
    return true;
}

/* Were the words that lead to the Lua stack read at another moment than the sample's? */
static bool is_of_another_moment(const struct luajit_walk *w)
{
    return w->process->prototype || w->r.provenance > PROVENANCE_EXACT;
}

/* Emit the trace's frames with `number` as the covering snapshot, from `base` on. If no snapshot
 * fits a Lua stack of this moment, emit the function at `base`. One of another moment says less
 * than the trace itself. */
static enum luajit_segment_end emit_trace(struct luajit_walk *w, const struct luajit_state *L,
                                          const struct luajit_trace *t, bool has_snapshot,
                                          bool is_exit, uint32_t number, uint64_t base,
                                          struct emitter *e, struct lua_position *next)
{
    struct reading reading; /* (only as many frames as reading.in.nr says are valid) */
    reading_begin(&reading, base, is_exit);
    bool is_call = has_snapshot && !is_exit && calls_foreign(w, t);
    if (is_call && !place_call(w, L, t, base, &number, &reading.is_behind))
        emit_weaken(
            e, PROVENANCE_GUESS,
            "the trace calls C, and its snapshots do not prove which of its functions does");
    bool weak = false;
    if (has_snapshot && find_reading(w, L, t, number, base, &reading, &weak)) {
        walk_say(w, TRACE_WAY, "the trace's snapshot # tells the functions, # of them inlined",
                 reading.number, reading.in.nr);
        if (weak)
            emit_weaken(e, PROVENANCE_GUESS,
                        "only a neighbour of the snapshot that covers the pc fits the Lua stack");
        /* Two separate questions: which of the trace's functions made the call, and in whose frame
         * the trace runs. The second one has a certain answer: the VM's own word came with the
         * sample, and the frame's header tells its caller. */
        e->certain_below = !weak && reading.base == base && !reading.start.address;
        enum luajit_segment_end end = emit_reading(w, L, t, &reading, e, next);
        if (end != LUAJIT_SEGMENT_BAD)
            return end;
        emit_undo(e);
        walk_say(w, TRACE_UNDO, "with that snapshot the Lua stack is no chain of valid frames", 0,
                 0);
    }
    if (is_of_another_moment(w))
        return LUAJIT_SEGMENT_BAD;
    emit_weaken(e, PROVENANCE_GUESS,
                "no snapshot of the trace fits the Lua stack: the function at the base is taken");
    e->trace = t->number;
    e->inlined = false;
    e->trace_once = true;
    struct luajit_sink sink = emit_sink(e);
    return luajit_segment_walk(&w->r, L, (struct lua_position){base, 0}, NULL, &sink, next);
}

/* ---- a frame in a trace -------------------------------------------------------------------- */

/* The VM's memory does not fit the stack, because it is of another moment. Walk only the native
 * side, with the trace's own frame size. */
static enum walker_result step_unfitting(struct luajit_walk *w, const struct luajit_trace *t,
                                         uint32_t exitno)
{
    struct luajit_state L;
    if (!walk_machine(w)->reads_code)
        return WALKER_NO; /* native rules follow the frame pointer */
    uint64_t si = walk_register(w, DWARF_RSP) + 16 + t->spadjust;
    uint64_t cfa = si + (uint64_t)w->vm.layout->frame_size;
    if (!luajit_read_state(&w->r, block_L(w, si), &L) || L.g != w->vm.g)
        return step_searched(w, w->vm.layout, w->vm.blob, walk_register(w, DWARF_RSP) + 16);
    walk_mark(w, PROVENANCE_STALE,
              "the VM's memory is of another moment than the stack: the trace's frame size alone "
              "leads on",
              0);
    if (*w->step->provenance < PROVENANCE_STALE)
        *w->step->provenance = PROVENANCE_STALE;
    struct segment *s = segment_get(w, L.address, 0);
    if (s)
        s->lost = true;
    if (!emit_trace_alone(w, t, exitno, cfa))
        return WALKER_NO_MEMORY;
    return walk_machine(w)->leave_trace(w, si) ? WALKER_STEPPED : WALKER_NO;
}

/* Raise the walk's provenance to that of the step's reads: the native frames above rest on them. */
static void rest_on_reads(struct luajit_walk *w)
{
    if (w->r.provenance <= *w->step->provenance)
        return;
    walk_mark(w, w->r.provenance, "words of the VM that lead to its C frame are not exact", 0);
    *w->step->provenance = w->r.provenance;
}

/* Step from a frame in trace `t`, or (`exitno` is not UINT32_MAX) in a stub of its exits. */
static enum walker_result step_trace(struct luajit_walk *w, const struct luajit_trace *t,
                                     uint32_t exitno, uint64_t pushed)
{
    struct luajit_state L;
    uint64_t si, base = 0;
    walk_say(w, TRACE_WAY, "machine code of LuaJIT's trace #, which begins at #", t->number,
             t->mcode);
    if (!running_state(w, running_field(w->vm.layout), &L) ||
        !walk_machine(w)->trace_block(w, t, &L, pushed, &si))
        return step_unfitting(w, t, exitno);
    rest_on_reads(w);
    struct emitter e;
    const uint32_t exit = exitno;
    struct lua_position next;
    struct segment *s = segment_get(w, L.address, si);
    emit_begin(&e, w, L.address, si + (uint64_t)w->vm.layout->frame_size);
    if (!s || s->lost || s->begun)
        return emit_trace_alone(w, t, exit, e.cfa) && walk_machine(w)->leave_trace(w, si)
                   ? WALKER_STEPPED
                   : WALKER_NO;
    segment_pass(w, s, si);
    luajit_read_moving_ref(&w->r, w->vm.g + (uint64_t)w->vm.layout->jit_base, &base);
    bool guess = false, found = exitno != UINT32_MAX;
    if (!found)
        found = luajit_snapshot_at(&w->r, w->vm.g, t,
                                   (uint32_t)(step_pc(w) - !walk_is_exact(w) - t->mcode), &exitno,
                                   &guess);
    if (found && guess && !same_functions_before(w, t, exitno))
        emit_weaken(&e, PROVENANCE_GUESS, snapshot_unsure);
    enum luajit_segment_end end =
        emit_trace(w, &L, t, found, exit != UINT32_MAX, exitno, base ? base : L.base, &e, &next);
    enum walker_result got;
    if (end == LUAJIT_SEGMENT_BAD && is_of_another_moment(w)) {
        emit_undo(&e);
        s->begun = s->lost = true;
        got = emit_trace_alone(w, t, exit, e.cfa) ? WALKER_STEPPED : WALKER_NO_MEMORY;
    } else {
        got = finish_segment(w, s, &e, end, next);
    }
    if (got != WALKER_STEPPED)
        return got;
    return walk_machine(w)->leave_trace(w, si) ? WALKER_STEPPED : WALKER_NO;
}

/* ---- exits --------------------------------------------------------------------------------- */

/* Find the trace and the exit number, for a pc in the handler. */
static bool exiting_trace(struct luajit_walk *w, uint64_t S, bool exact, struct luajit_trace *t,
                          uint32_t *exitno)
{
    const struct luajit_layout *l = w->vm.layout;
    uint32_t parent;
    if (exact && !walk_machine(w)->exit_is_told(l, step_pc(w) - w->vm.blob))
        return walk_machine(w)->early_exit(w, S, t, exitno);
    return luajit_read_moving_u32(&w->r, w->vm.g + (uint64_t)l->parent, &parent) &&
           luajit_read_moving_u32(&w->r, w->vm.g + (uint64_t)l->exitno, exitno) &&
           luajit_trace_read(&w->r, w->vm.g, parent, t);
}

/* Where the interpreter goes on after an exit: here SAVE_PC is the address of the instruction, not
 * the one behind it. */
static struct lua_position resumed_place(struct luajit_walk *w, const struct luajit_state *L,
                                         uint64_t base, uint64_t si)
{
    const struct luajit_function *f = luajit_function_at(&w->r, L, base, NULL);
    uint64_t pc = read_saved_pc(w, si);
    if (!luajit_pc_inside(f, pc))
        pc = 0;
    else if (luajit_pc_inside(f, pc + 4))
        pc += 4;
    return (struct lua_position){base, pc};
}

/* Has lj_snap_restore written the exit's frames, and moved L->base to the innermost one? */
static bool is_restored(struct luajit_walk *w, const struct luajit_state *L,
                        const struct luajit_inlined *in)
{
    if (in->depth == 0 || in->nr == 0)
        return false;
    const struct luajit_function *top = luajit_function_at(&w->r, L, L->base, NULL);
    if (!top->address || (in->frames[0].func && top->address != in->frames[0].func) ||
        (in->frames[0].pc && !luajit_pc_inside(top, in->frames[0].pc)))
        return false;
    uint64_t base = L->base - 8 * (uint64_t)in->depth;
    if (base <= luajit_bottom(&w->r, L) || base > L->end)
        return false;
    return luajit_pc_inside(luajit_function_at(&w->r, L, base, NULL), in->start_pc);
}

/* Is lj_snap_restore running, or about to run, in the block of lj_vm_cpcall below the trace's
 * block? It begins by storing in that block where the interpreter goes on, and ends by moving
 * L->base. (The recorder runs in such a block, too, where SAVE_PC is L. By then the trace's own
 * block has the place where the interpreter goes on.) */
static bool is_being_restored(struct luajit_walk *w, const struct luajit_state *L, uint64_t si,
                              const struct luajit_inlined *in)
{
    uint64_t inner = L->cframe & ~UINT64_C(3);
    if (inner >= si)
        return false;
    uint64_t pc = read_saved_pc(w, inner);
    return pc == in->frames[0].pc ||
           (pc == L->address && read_saved_pc(w, si) + 4 != in->frames[0].pc);
}

/* The return address of the first call of lj_vm_cpcall in the code from `from` on; 0: there is none
 * up to `end`, or the code cannot be read. */
static uint64_t find_cpcall(struct luajit_walk *w, uint64_t from, uint64_t end)
{
    enum { INSN_MAX = 15 };
    const uint64_t cpcall = w->vm.blob + (uint64_t)w->vm.layout->cpcall;
    const struct arch *arch = walk_machine(w)->arch;
    while (from < end && luajit_spend(&w->r)) {
        uint8_t code[INSN_MAX];
        uint64_t target;
        enum provenance ignored = PROVENANCE_EXACT;
        unsigned size = memory_read(&w->step->input->memory, from, code, sizeof(code), &ignored)
                            ? arch->insn_size(code, sizeof(code))
                            : 0;
        if (!size)
            return 0;
        from += size;
        if (arch->direct_call(code + size, size, from, &target) && target == cpcall)
            return from;
    }
    return 0;
}

/* How far lj_trace_exit, the frame on top of the handler's, has come. First it saves errno, with a
 * function of the C library. Then it calls lj_vm_cpcall to restore the exit's frames. After that it
 * stores where the interpreter goes on, and drives the collector or counts the exit. */
enum exit_phase { EXIT_UNKNOWN, EXIT_BEFORE_RESTORE, EXIT_RESTORED };

static enum exit_phase exit_phase(struct luajit_walk *w)
{
    enum { REACH = 256, CODE_MAX = 1024 };
    const struct walker_step *s = w->step;
    const struct arch *arch = walk_machine(w)->arch;
    uint64_t ra = step_pc(w), start;
    uint8_t code[ARCH_CALL_MAX];
    enum provenance ignored = PROVENANCE_EXACT;
    if (walk_is_exact(w) || s->out->frames.nr == 0 ||
        !memory_read(&s->input->memory, ra - sizeof(code), code, sizeof(code), &ignored) ||
        !arch->direct_call(code + sizeof(code), sizeof(code), ra, &start))
        return EXIT_UNKNOWN;
    const struct frame *callee = &s->out->frames.at[s->out->frames.nr - 1];
    if (callee->kind != FRAME_NATIVE || callee->pc - start >= CODE_MAX)
        return EXIT_UNKNOWN;
    uint64_t call = find_cpcall(w, start, start + REACH);
    if (!call || callee->pc == call)
        return EXIT_UNKNOWN;
    return callee->pc < call ? EXIT_BEFORE_RESTORE : EXIT_RESTORED;
}

/* Do L->base and SAVE_PC, which came with the sample, agree with the trace about the restored
 * frames? Then no result rests on the trace, whose parts may have been read at another moment:
 * while the exit drives the collector, the VM's words do not name the trace. */
static bool goes_on_at(struct luajit_walk *w, const struct luajit_state *L, uint64_t si,
                       struct lua_position at)
{
    return at.base == L->base && at.pc && resumed_place(w, L, L->base, si).pc == at.pc;
}

/* Walk the segment of a trace that is being left. */
static enum luajit_segment_end walk_exit(struct luajit_walk *w, const struct luajit_state *L,
                                         uint64_t S, uint64_t si, bool exact, struct emitter *e,
                                         struct lua_position *next)
{
    const struct luajit_layout *l = w->vm.layout;
    const struct luajit_machine *m = walk_machine(w);
    uint64_t o = step_pc(w) - w->vm.blob, base = 0;
    enum provenance before = w->r.provenance;
    struct luajit_trace t;
    struct luajit_sink sink = emit_sink(e);
    struct lua_position at = {0};
    uint32_t exitno;
    bool handler = !exact || o < (uint64_t)l->exit_return;
    if (handler && exiting_trace(w, S, exact, &t, &exitno) && exitno < t.nsnap) {
        luajit_read_moving_ref(&w->r, w->vm.g + (uint64_t)l->jit_base, &base);
        if (!exact || base == 0)
            base = L->base;
        struct reading reading;
        reading_begin(&reading, base, true);
        bool told = luajit_snapshot_frames(&w->r, &t, exitno, &reading.in);
        const struct luajit_inlined *in = &reading.in;
        enum exit_phase phase = exit_phase(w);
        bool restored = told && !exact && is_restored(w, L, in) && phase != EXIT_BEFORE_RESTORE;
        bool fits = told && (read_start(w, L, base, true, &reading) ||
                             read_start(w, L, base, false, &reading));
        struct lua_position start = {reading.base, in->start_pc};
        if (fits && phase == EXIT_RESTORED && in->nr == 0 && !reading.start.address &&
            goes_on_at(w, L, si, start))
            w->r.provenance = before;
        if (fits && (!restored || is_being_restored(w, L, si, in))) /* in recursion the frames fit
                                                                       at both bases */
            return emit_reading(w, L, &t, &reading, e, next);
        if (restored) {
            at = (struct lua_position){L->base, in->frames[0].pc};
            if (phase == EXIT_RESTORED && goes_on_at(w, L, si, at))
                w->r.provenance = before;
        }
    } else if (!handler && o >= (uint64_t)l->exit_interp && walk_knows(w, m->base)) {
        /* (Between lj_trace_exit and that place rbx is not loaded: it still has the trace's
         * value.) */
        uint64_t rdx = vm_register(w, m->base), rbx = vm_register(w, m->pc);
        const struct luajit_function *f = luajit_function_at(&w->r, L, rdx, NULL);
        if (luajit_pc_inside(f, rbx + 4))
            at = (struct lua_position){rdx, rbx + 4};
        else if (f->address && !f->lua && !f->dummy && rbx - w->vm.g < GG_MAX)
            at = (struct lua_position){rdx, 0}; /* the interpreter goes on with a call of C */
    }
    if (!at.base)
        at = resumed_place(w, L, L->base, si);
    return luajit_segment_walk(&w->r, L, at, NULL, &sink, next);
}

enum walker_result step_exit(struct luajit_walk *w, uint64_t S, bool exact)
{
    struct luajit_state L;
    struct emitter e;
    struct lua_position next;
    const struct luajit_layout *l = w->vm.layout;
    uint64_t si;
    w->r.provenance = PROVENANCE_EXACT;
    walk_say(w, TRACE_WAY,
             "a trace is being left: LuaJIT's exit handler; the stack pointer on the trace was #",
             S, 0);
    if (!walk_machine(w)->exit_block(w, S, &L, &si))
        return walk_machine(w)->reads_code ? step_searched(w, l, w->vm.blob, S + 16) : WALKER_NO;
    rest_on_reads(w);
    struct segment *s = segment_get(w, L.address, si);
    emit_begin(&e, w, L.address, si + (uint64_t)w->vm.layout->frame_size);
    enum walker_result got = WALKER_STEPPED;
    if (s)
        segment_pass(w, s, si);
    if (!s || s->lost) {
        got = emit_unknown(w, e.cfa) ? WALKER_STEPPED : WALKER_NO_MEMORY;
    } else if (s->begun) {
        struct luajit_sink sink = emit_sink(&e);
        struct lua_position at = resumed_place(w, &L, s->next.base, si);
        got =
            finish_segment(w, s, &e, luajit_segment_walk(&w->r, &L, at, NULL, &sink, &next), next);
    } else {
        enum luajit_segment_end end = walk_exit(w, &L, S, si, exact, &e, &next);
        got = finish_segment(w, s, &e, end, next);
    }
    if (got != WALKER_STEPPED)
        return got;
    return walk_machine(w)->leave_trace(w, si) ? WALKER_STEPPED : WALKER_NO;
}

/* ---- callback slots ------------------------------------------------------------------------ */

/* A page of slots begins with a pointer to lj_vm_ffi_callback. Each slot is "mov al, slot; jmp",
 * and a group ends with "push rbp; mov ah, group; mov rbp, g; jmp [page]". The code has pushed
 * nothing, or rbp. */
static enum walker_result step_callback(struct luajit_walk *w, const struct luajit_blob *blob)
{
    enum { PAGE = 4096, TAIL = 20, BACK = 13 };
    uint64_t pc = step_pc(w), page = pc & ~(uint64_t)(PAGE - 1), pointer;
    const struct memory *m = &w->step->input->memory;
    uint8_t code[BACK + 2] = {0};
    enum provenance provenance = PROVENANCE_EXACT;
    if (!walk_is_exact(w) || blob->layout->callback == LUAJIT_UNKNOWN ||
        !memory_read_u64(m, page, &pointer, &provenance) ||
        pointer != blob->address + (uint64_t)blob->layout->callback || pc < page + 8 ||
        (pc - page >= BACK && !memory_read(m, pc - BACK, code, sizeof(code), &provenance)))
        return WALKER_NO;
    bool pushed = false;
    static const uint8_t behind[] = {1, 3, 8, 13}; /* distances from the push to the tail's
                                                      instructions behind it */
    for (unsigned i = 0; i < sizeof(behind); i++)
        pushed |= code[BACK - behind[i]] == 0x55 && code[BACK - behind[i] + 1] == 0xb4;
    uint64_t size = pushed ? 16 : 8;
    return step_partial(w, walk_register(w, DWARF_RSP) + size, size);
}

/* ---- whose code ---------------------------------------------------------------------------- */

static enum walker_result step_in_vm(struct luajit_walk *w, uint64_t g,
                                     const struct luajit_layout *layout, uint64_t blob)
{
    struct luajit_trace t;
    uint32_t vmstate, exitno;
    unsigned pushes;
    uint64_t pc = step_pc(w);
    if (layout->trace == LUAJIT_UNKNOWN)
        return WALKER_NO;
    luajit_reader_use(&w->r, layout);
    w->r.provenance = PROVENANCE_EXACT;
    if (!walk_use_vm(w, g, layout, blob) ||
        !luajit_read_moving_u32(&w->r, g + (uint64_t)layout->vmstate, &vmstate))
        return WALKER_NO;
    uint32_t running = (int32_t)vmstate > 0 ? vmstate : 0;
    if (luajit_trace_find(&w->r, g, pc - !walk_is_exact(w), running, &t))
        return step_trace(w, &t, UINT32_MAX, 0);
    if (walk_is_exact(w) && walk_machine(w)->exit_stub &&
        walk_machine(w)->exit_stub(w, pc, &t, &exitno))
        return step_trace(w, &t, exitno, 0);
    if (!walk_is_exact(w) || !walk_machine(w)->reads_code ||
        !luajit_exit_stub(&w->r, g, pc, &exitno, &pushes) ||
        !luajit_trace_read(&w->r, g, running, &t))
        return WALKER_NO;
    if (exitno == UINT32_MAX) { /* behind the first push the number is on the stack */
        uint8_t numbers[16] = {0};
        uint64_t sp = walk_register(w, DWARF_RSP);
        enum provenance ignored = PROVENANCE_EXACT;
        if (!memory_read_frame(&w->step->input->memory, sp, numbers, pushes * 8, &ignored))
            return WALKER_NO;
        exitno = pushes == 2 ? numbers[8] | (uint32_t)numbers[0] << 8 : numbers[0];
    }
    return step_trace(w, &t, exitno, 8 * (uint64_t)pushes);
}

enum walker_result step_mcode_aarch64(struct luajit_walk *w)
{
    const struct luajit_process *p = w->process;
    enum walker_result got = WALKER_NO;
    for (size_t i = 0; i < p->nr_blobs && got == WALKER_NO; i++) {
        const struct luajit_blob *b = &p->blobs[i];
        const unsigned g = luajit_aarch64.vm;
        if (b->layout->machine != LUAJIT_ON_AARCH64)
            continue;
        got = step_callback_aarch64(w, b);
        if (got == WALKER_NO && walk_knows(w, g))
            got = step_in_vm(w, walk_register(w, g), b->layout, b->address);
    }
    return got;
}

enum walker_result step_mcode_x86_64(struct luajit_walk *w)
{
    const struct luajit_process *p = w->process;
    enum walker_result got = WALKER_NO;
    for (size_t i = 0; i < p->nr_blobs && got == WALKER_NO; i++) {
        const struct luajit_blob *b = &p->blobs[i];
        got = step_callback(w, b);
        if (got == WALKER_NO && b->layout->gc64 && walk_knows(w, DWARF_R14))
            got = step_in_vm(w, walk_register(w, DWARF_R14) - (uint64_t)b->layout->g2disp,
                             b->layout, b->address);
    }
    for (size_t i = 0; i < p->nr_vms && got == WALKER_NO; i++)
        got = step_in_vm(w, p->vms[i].g, p->vms[i].layout, p->vms[i].blob);
    for (unsigned i = 0; i < w->nr_vms && got == WALKER_NO; i++)
        got = step_in_vm(w, w->vms[i].g, w->vms[i].layout, w->vms[i].blob);
    if (got != WALKER_NO || w->step->code.cfi || w->step->code.owner == CODE_NONE ||
        !w->step->code.executable)
        return got;
    for (size_t i = 0; i < p->nr_blobs && got == WALKER_NO; i++)
        got = step_searched(w, p->blobs[i].layout, p->blobs[i].address,
                            walk_register(w, DWARF_RSP) + 16);
    return got;
}
