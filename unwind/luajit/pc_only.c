/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frames from registers and traces without a Lua stack. The interpreter's program counter is in the
 * bytecode of one prototype, and so are the program counters of a trace's snapshots. The callers
 * are not known.
 */
#include "unwind/luajit/branch.h"
#include "unwind/luajit/walk_internal.h"

static const char why_listed[] =
    "its Lua stack is not of this moment: the list of all prototypes, traces and "
    "registers alone tell the function";
static const char why_unknown[] =
    "the functions that called it are on a Lua stack that was not recorded "
    "at this moment";

/* Upper bound of the size of GG_State: pointers into it are no bytecode. */
enum { GG_MAX = 1 << 16 };

/* The listed function that has `pc`, the address of the next instruction. */
static bool listed_function(struct luajit_walk *w, uint64_t pc, struct luajit_function *ret)
{
    const struct luajit_process *p = w->process;
    uint64_t proto = p->prototype && pc ? p->prototype(p->namer.context, pc - 1) : 0;
    *ret = (struct luajit_function){.address = proto, .proto = proto, .lua = true};
    return proto && luajit_code_read(&w->r, proto, &ret->code, &ret->sizebc) &&
           luajit_pc_inside(ret, pc);
}

bool pc_is_listed(struct luajit_walk *w)
{
    struct luajit_function ignored;
    enum provenance before = w->r.provenance;
    bool listed = walk_knows(w, walk_machine(w)->pc) &&
                  listed_function(w, vm_register(w, walk_machine(w)->pc), &ignored);
    w->r.provenance = before;
    return listed;
}

/* Emit one frame that stands for the unknown callers. */
static bool emit_callers(struct luajit_walk *w, enum provenance provenance)
{
    const struct frame f = {.kind = FRAME_LUA, .provenance = (uint8_t)provenance};
    if (*w->step->frames_left == 0)
        return true;
    (*w->step->frames_left)--;
    walk_mark(w, provenance, why_unknown, 0);
    return vec_push(&w->step->out->frames, f);
}

bool emit_alone(struct luajit_walk *w, uint64_t cfa)
{
    struct luajit_function f;
    struct emitter e;
    unsigned reg = walk_machine(w)->pc;
    uint64_t pc = walk_knows(w, reg) ? vm_register(w, reg) : 0;
    w->r.provenance = PROVENANCE_EXACT;
    if (!listed_function(w, pc, &f))
        return emit_unknown(w, cfa);
    emit_begin(&e, w, 0, cfa);
    emit_weaken(&e, PROVENANCE_STALE, why_listed);
    walk_say(w, TRACE_WAY,
             "the program counter # of the interpreter's register is in the bytecode of a listed "
             "prototype, #",
             pc, f.proto);
    emit_function(&e, &f, (struct lua_position){0, pc});
    return emit_end(&e) && emit_callers(w, PROVENANCE_STALE);
}

/* The function that has `pc`: a listed one, or one that the trace knows. */
static bool traced_function(struct luajit_walk *w, const struct luajit_trace *t, uint64_t pc,
                            struct luajit_function *ret)
{
    if (listed_function(w, pc, ret))
        return true;
    uint64_t proto = luajit_traces_proto_of(&w->r, w->vm.g, t, pc);
    *ret = (struct luajit_function){.address = proto, .proto = proto, .lua = true};
    return proto && luajit_code_read(&w->r, proto, &ret->code, &ret->sizebc) &&
           luajit_pc_inside(ret, pc);
}

/* An inlined frame's function: a constant of the trace, or the function that has `pc`. */
static struct luajit_function inlined(struct luajit_walk *w, const struct luajit_trace *t,
                                      uint64_t func, uint64_t pc)
{
    struct luajit_function f = {0};
    if (func)
        f = *luajit_function_read(&w->r, func);
    if ((f.address && (!f.lua || luajit_pc_inside(&f, pc))) || traced_function(w, t, pc, &f))
        return f;
    return (struct luajit_function){.unread = true};
}

bool emit_trace_alone(struct luajit_walk *w, const struct luajit_trace *t, uint32_t number,
                      uint64_t cfa)
{
    struct luajit_inlined in;
    struct luajit_function start;
    struct emitter e;
    bool guess = false, is_exit = number != UINT32_MAX;
    uint64_t at = step_pc(w) - !walk_is_exact(w) - t->mcode;
    if ((!is_exit && !luajit_snapshot_at(&w->r, w->vm.g, t, (uint32_t)at, &number, &guess)) ||
        !luajit_snapshot_frames(&w->r, t, number, &in) ||
        !traced_function(w, t, in.start_pc, &start))
        return emit_unknown(w, cfa);
    emit_begin(&e, w, 0, cfa);
    emit_weaken(&e, PROVENANCE_STALE, why_listed);
    if (guess && !same_functions_before(w, t, number))
        emit_weaken(&e, PROVENANCE_GUESS, snapshot_unsure);
    walk_say(w, TRACE_WAY, "the trace's snapshot # tells the functions, # of them inlined", number,
             in.nr);
    e.trace = t->number;
    e.inlined = true;
    for (unsigned i = 0; i < in.nr; i++) {
        struct luajit_function f = inlined(w, t, in.frames[i].func, in.frames[i].pc);
        /* The trace prepares a call of C or of a builtin, whose function is not known yet. */
        if (i == 0 && f.unread && in.frames[i].pc - w->vm.g < GG_MAX)
            continue;
        uint64_t pc = in.frames[i].pc;
        if (i == 0 && !is_exit)
            pc = luajit_recorded_pc(&w->r, t, number, &f, pc);
        if (!emit_function(&e, &f, (struct lua_position){0, pc}))
            break;
    }
    e.inlined = false;
    if (in.nr == 0 && !is_exit)
        in.start_pc = luajit_recorded_pc(&w->r, t, number, &start, in.start_pc);
    emit_function(&e, &start, (struct lua_position){0, in.start_pc});
    return emit_end(&e) && emit_callers(w, PROVENANCE_STALE);
}
