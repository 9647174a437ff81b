/* SPDX-License-Identifier: GPL-2.0-only */
/* Turns Lua frames into struct frame. Each frame waits for the one below it, its caller. */
#include "unwind/luajit/runtime.h"
#include "unwind/luajit/variables.h"
#include "unwind/luajit/walk_internal.h"

/* false: memory is out. */
static inline bool push(struct luajit_walk *w, const struct frame *f)
{
    __typeof__(w->step->out->frames) *frames = &w->step->out->frames;
    if (*w->step->frames_left == 0)
        return true;
    (*w->step->frames_left)--;
    return vec_push(frames, *f);
}

/* ---- native and unknown frames ------------------------------------------------------------- */

bool emit_native(struct luajit_walk *w, uint64_t cfa)
{
    const struct code *c = &w->step->code;
    struct frame f = {.pc = step_pc(w),
                      .cfa = cfa,
                      .code = c->token,
                      .kind = c->owner == CODE_JIT ? FRAME_JIT : FRAME_NATIVE,
                      .flags = w->step->flags,
                      .provenance = (uint8_t)*w->step->provenance};
    return push(w, &f);
}

bool emit_unknown(struct luajit_walk *w, uint64_t cfa)
{
    struct frame f = {.pc = step_pc(w),
                      .cfa = cfa,
                      .code = w->step->code.token,
                      .kind = FRAME_LUA,
                      .flags = w->step->flags,
                      .provenance = (uint8_t)*w->step->provenance};
    walk_say(w, TRACE_REFUSED,
             "the Lua functions of this C frame cannot be told: the VM's memory "
             "was not recorded, or does not fit the stack",
             0, 0);
    return push(w, &f);
}

/* ---- Lua frames ---------------------------------------------------------------------------- */

void emit_begin(struct emitter *e, struct luajit_walk *w, uint64_t L, uint64_t cfa)
{
    e->w = w; /* (`pending` is valid only if has_pending is set) */
    e->L = L;
    e->pc = step_pc(w);
    e->cfa = cfa;
    e->trace = 0;
    e->pending_base = e->inner_base = e->trace_address = 0;
    e->trace_once = e->inlined = e->omit_c = e->certain_below = false;
    emit_weaken(e, PROVENANCE_EXACT, NULL);
    e->first = w->step->out->frames.nr;
    e->left = *w->step->frames_left;
    e->has_pending = e->omitted = e->no_memory = false;
}

/* Tell what the pending frame is, and why it is not exact. */
static void mark_pending(const struct emitter *e)
{
    static const char *const texts[] = {
        [LUAJIT_FRAME_LUA] = "a Lua function: its GCfunc is at #, its GCproto at #",
        [LUAJIT_FRAME_C] = "a C function of Lua: its GCfunc is at #",
        [LUAJIT_FRAME_BUILTIN] = "a builtin of LuaJIT: its GCfunc is at #",
        [LUAJIT_FRAME_UNKNOWN] = "a function that cannot be read: its GCfunc is at #",
    };
    const struct luajit_walk *w = e->w;
    bool known = (size_t)e->pending.kind < sizeof(texts) / sizeof(*texts);
    walk_say(w, TRACE_WAY, known ? texts[e->pending.kind] : "a function", e->pending.func,
             e->pending.proto);
    if (w->r.provenance > *w->step->provenance)
        walk_mark(w, w->r.provenance,
                  "memory of the VM that leads to it is not exact: see the reads", 0);
    if (e->weakest > PROVENANCE_EXACT)
        walk_mark(w, e->weakest, e->why, 0);
}

/* Note where the variables of the pending frame are, which `f` has become. */
static void note_place(const struct emitter *e, const struct frame *f)
{
    struct luajit_walk *w = e->w;
    const struct luajit_variables_at at = {
        .L = e->pending.L,
        .base = e->pending_base,
        .inner_base = e->inner_base,
        .func = e->pending.func,
        .proto = e->pending.proto,
        .position = e->pending.position,
        .kind = e->pending.kind,
        .is_in_trace = e->pending.trace != 0,
        .trace = e->pending.trace ? e->trace_address : 0,
        .snapshot = e->snapshot,
        .trace_base = e->trace_base,
    };
    struct variable_place place = luajit_variables_place(w->vm.layout, &at);
    place.runtime = &luajit_runtime;
    variable_places_note(w->process->places, &place, w->step->out->frames.nr, f);
}

static bool flush(struct emitter *e)
{
    struct luajit_walk *w = e->w;
    bool stands_for = w->step->out->frames.nr == e->first && !e->omitted;
    enum provenance provenance = *w->step->provenance;
    provenance = provenance > w->r.provenance ? provenance : w->r.provenance;
    provenance = provenance > e->weakest ? provenance : e->weakest;
    struct frame f = {.pc = stands_for ? e->pc : e->pending_code,
                      .cfa = stands_for ? e->cfa : 0,
                      .code = stands_for ? w->step->code.token : NULL,
                      .kind = FRAME_LUA,
                      .tier = e->pending.trace ? TIER_TRACE : TIER_INTERP,
                      .trace = e->pending.trace,
                      .flags = stands_for ? w->step->flags : 0,
                      .provenance = (uint8_t)provenance};
    if (!TRACE_LIKELY_NULL(w->step->input->trace))
        mark_pending(e);
    if (e->pending.inlined)
        f.flags |= FRAME_INLINED;
    if (e->certain_below && e->pending.trace && !e->pending.inlined)
        e->weakest = PROVENANCE_EXACT;
    e->has_pending = false;
    const struct luajit_namer *namer = &w->process->namer;
    if (namer->name &&
        !namer->name(namer->context, &w->step->input->memory, &w->vm, &e->pending, &f))
        e->no_memory = true;
    if (f.provenance > provenance)
        walk_mark(w, f.provenance, "what was read to name it is not exact: see the reads", 0);
    if (w->process->places && !e->no_memory && *w->step->frames_left)
        note_place(e, &f);
    if (!e->no_memory && !push(w, &f))
        e->no_memory = true;
    return !e->no_memory && *w->step->frames_left > 0;
}

bool emit_function(struct emitter *e, const struct luajit_function *f, struct lua_position at)
{
    const uint64_t pc = at.pc;
    if (e->has_pending) {
        if (f->lua && pc) {
            e->pending.caller_pc = pc;
            e->pending.caller_proto = f->proto;
            e->pending.caller_func = f->address;
            e->pending.caller_base = at.base;
        }
        if (!flush(e))
            return false;
    }
    e->inner_base = e->pending_base;
    e->pending_base = at.base;
    if (e->omit_c && emit_nothing(e) && f->ffid == 1 && !f->lua && !f->unread) {
        e->omit_c = false;
        e->omitted = true;
        return true;
    }
    e->omit_c = false;
    e->pending = (struct luajit_frame){.g = e->w->vm.g,
                                       .L = e->L,
                                       .func = f->address,
                                       .proto = f->proto,
                                       .position = -1,
                                       .ffid = f->ffid,
                                       .kind = LUAJIT_FRAME_BUILTIN,
                                       .inlined = e->inlined,
                                       .trace = e->trace};
    if (f->unread)
        e->pending.kind = LUAJIT_FRAME_UNKNOWN;
    else if (f->lua)
        e->pending.kind = LUAJIT_FRAME_LUA;
    else if (f->ffid == 1)
        e->pending.kind = LUAJIT_FRAME_C;
    e->pending_code = f->lua ? 0 : f->code;
    if (f->lua && luajit_pc_inside(f, pc)) {
        e->pending.position = pc == f->code ? 0 : (int32_t)((pc - f->code) / 4 - 1);
        e->pending_code = f->code + 4 * (uint64_t)e->pending.position;
    }
    e->has_pending = true;
    if (e->trace_once)
        e->trace = 0;
    return true;
}

static bool take(void *context, const struct luajit_function *f, struct lua_position at)
{
    return emit_function(context, f, at);
}

struct luajit_sink emit_sink(struct emitter *e)
{
    return (struct luajit_sink){take, e};
}

bool emit_end(struct emitter *e)
{
    if (e->has_pending)
        flush(e);
    return !e->no_memory;
}

void emit_undo(struct emitter *e)
{
    e->w->step->out->frames.nr = e->first;
    *e->w->step->frames_left = e->left;
    e->has_pending = e->omitted = e->trace_once = e->inlined = e->certain_below = false;
    e->trace = 0;
    e->pending_base = e->inner_base = e->trace_address = 0;
}
