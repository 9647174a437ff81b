/* SPDX-License-Identifier: GPL-2.0-only */
/* Makes the frames of a walk. See walk.h. */
#include "unwind/lua/walk.h"

#include "base/hash.h"
#include "unwind/trace.h"

/* C functions are not larger than this. */
enum { C_FUNCTION_MAX = 1 << 20 };

/* C functions that Lua has called, in two rows: those behind the last activation of a coroutine's
 * state, then those in front of the next activation. Newest first. */
struct c_calls {
    struct {
        size_t at, end; /* in the walk's calls */
        const struct lua_walk_state *state;
    } row[2];
};

struct emitter {
    struct lua_walk *w;
    size_t next;  /* index of the next native frame */
    size_t shift; /* how many more frames there are than native ones so far */
    size_t max;
    bool failed;
};

/* ---- frames -------------------------------------------------------------------------------- */

static void push(struct emitter *e, const struct frame *f)
{
    if (e->w->frames.nr < e->max && !vec_push(&e->w->frames, *f))
        e->failed = true;
}

/* Note where the variables of the next frame are. */
static void note_place(struct emitter *e, const struct lua_walk_state *s, size_t call)
{
    const struct lua_call *c = &e->w->calls.at[call];
    if (!e->w->sample->places || e->w->frames.nr >= e->max)
        return;
    const struct variable_place place = {
        .runtime = &lua_runtime,
        .frame = e->w->frames.nr,
        .layout = s->layout,
        .word = {[LUA_PLACE_STATE] = s->state.address,
                 [LUA_PLACE_GLOBAL] = s->state.global,
                 [LUA_PLACE_FUNC] = c->func,
                 [LUA_PLACE_BASE] = c->base,
                 [LUA_PLACE_TOP] = call > s->first ? c[-1].func : s->state.top,
                 [LUA_PLACE_CLOSURE] = c->function.closure,
                 [LUA_PLACE_INDEX] = c->index,
                 [LUA_PLACE_EXTRA] = c->nr_extra},
    };
    e->failed |= !vec_push(&e->w->places, place);
}

/* Hand on the places that were noted, now that those of other runtimes have moved with their
 * frames. */
static void set_places(const struct lua_walk *w)
{
    vec_foreach (p, &w->places)
        variable_places_set(w->sample->places, p, p->frame, &w->frames.at[p->frame]);
}

/* `by` frames were put in front of the native frame `from`. */
static void moved(struct emitter *e, size_t from, size_t by)
{
    if (by && e->w->sample->places)
        variable_places_moved(e->w->sample->places, from + e->shift, by);
    e->shift += by;
}

/* Name a call's frame. A native frame keeps its own names beside that, and gets none that says
 * nothing. */
static void name(struct emitter *e, const struct lua_walk_state *s, size_t call, struct frame *f)
{
    struct lua_walk *w = e->w;
    const struct lua_call *c = &w->calls.at[call];
    bool is_last = call + 1 >= s->end;
    struct lua_named named;
    const struct lua_names_source source = {.reader = &w->reader,
                                            .global = s->state.global,
                                            .batch = w->sample->batch,
                                            .space = w->sample->pid,
                                            .provenance = f->provenance};
    w->reader.layout = s->layout;
    if (lua_names_call(w->names, &source, c, is_last ? NULL : c + 1, &named, NULL) < 0) {
        e->failed = true;
        return;
    }
    f->function = f->kind == FRAME_NATIVE && !named.is_named ? 0 : named.function;
    f->line = named.line                                          ? named.line
              : c->is_lua && c->index == UINT32_MAX && c->savedpc ? named.definition_line
                                                                  : 0;
    f->callname = named.callname;
    if (named.provenance > f->provenance)
        f->provenance = named.provenance;
}

/* Returns a Lua frame that stands for a native one; NULL: for none. */
static struct frame lua_frame(const struct frame *native)
{
    struct frame f = {.kind = FRAME_LUA, .tier = TIER_INTERP, .flags = FRAME_PLAIN_LUA};
    if (native) {
        f.pc = native->pc;
        f.cfa = native->cfa;
        f.code = native->code;
        f.flags |= native->flags;
    }
    return f;
}

/* Make the frame of a Lua function, or of a C function that has no native frame. */
static void push_call(struct emitter *e, const struct lua_walk_state *s, size_t call,
                      const struct frame *native, uint8_t provenance)
{
    const struct lua_call *c = &e->w->calls.at[call];
    struct frame f = lua_frame(native);
    if (!c->is_lua)
        f.tier = TIER_NONE;
    if (!native && c->function.kind == LUA_FUNCTION_LUA && c->index != UINT32_MAX)
        f.pc = c->function.code + 4 * (uint64_t)c->index;
    else if (!native)
        f.pc = c->function.native;
    f.provenance = provenance > c->provenance ? provenance : c->provenance;
    f.provenance = f.provenance > s->provenance ? f.provenance : s->provenance;
    name(e, s, call, &f);
    note_place(e, s, call);
    push(e, &f);
}

/* Make the frame that stands for calls which are not known. */
static void push_unknown(struct emitter *e, const struct frame *native, uint8_t provenance)
{
    struct frame f = lua_frame(native);
    f.provenance = provenance;
    push(e, &f);
}

/* ---- native frames of C functions ---------------------------------------------------------- */

/* Returns how many bytes the function has that begins at an address of the code's own; 0: none
 * does. */
static uint64_t size_in(struct lua_walk *w, const struct code *code, uint64_t begin)
{
    struct lua_native *k = &w->natives[hash_u64(begin) % LUA_NATIVES_KEPT];
    uint64_t found, end;
    if (k->begin == begin && k->cfi_id == code->cfi_id)
        return k->size;
    bool begins = cfi_function(code->cfi, begin, &found, &end) && found == begin && end > begin;
    *k = (struct lua_native){code->cfi_id, begin, begins ? end - begin : 0};
    return k->size;
}

/* Returns how many bytes the C function has that begins at an address; 0: none does that CFI
 * knows. */
static uint64_t native_size(struct lua_walk *w, uint64_t native)
{
    const struct unwind_input *in = w->input;
    struct code code = {0};
    if (!codemap_lookup(&in->code, native, in->memory.time, &code) || !code.cfi)
        return 0;
    uint64_t size = size_in(w, &code, native - code.bias);
    return size < C_FUNCTION_MAX ? size : C_FUNCTION_MAX;
}

/* Copy native frames up to the index `end`. */
static void push_natives(struct emitter *e, size_t end)
{
    const struct frame *from = e->w->out->frames.at + e->next;
    size_t nr = end > e->next ? end - e->next : 0, room = e->max - e->w->frames.nr;
    if (!vec_append(&e->w->frames, from, nr < room ? nr : room))
        e->failed = true;
    e->next += nr;
}

/* Find the native frame of a C function before `end`. Returns `end`: it has none. */
static size_t find_native(const struct emitter *e, const struct lua_call *c, size_t end)
{
    const struct frame *frames = e->w->out->frames.at;
    const uint64_t native = c->function.native;
    size_t at = e->next;
    if (c->function.kind != LUA_FUNCTION_C || at >= end)
        return end;
    const uint64_t size = native_size(e->w, native); /* 0: no frame is of it */
    while (at < end &&
           (frames[at].kind != FRAME_NATIVE || frame_lookup_pc(&frames[at]) - native >= size))
        at++;
    return at;
}

/* Make the frame of a C function that has no native one. `outer`: it belongs to the Lua function
 * outside of the native frames up to `end`, the last of which is the VM's own, which calls it. */
static void push_tail_called(struct emitter *e, const struct lua_walk_state *s, size_t call,
                             bool outer, size_t end)
{
    if (outer && end > e->next + 1)
        push_natives(e, end - 1);
    push_call(e, s, call, NULL, PROVENANCE_EXACT);
    moved(e, e->next, 1);
}

/* Copy the native frames up to the index `end`, and give those of C functions their names. A C
 * function without a native frame gets one of its own, unless the frames are the innermost ones:
 * then it was not entered yet, or has just returned. */
static void push_natives_with(struct emitter *e, const struct c_calls *c, size_t end)
{
    bool innermost = e->next == 0 || e->w->out->frames.at[e->next - 1].kind == FRAME_KERNEL;
    for (unsigned i = 0; i < 2; i++) {
        for (size_t call = c->row[i].at; call < c->row[i].end; call++) {
            const struct lua_walk_state *s = c->row[i].state;
            size_t at = find_native(e, &e->w->calls.at[call], end);
            if (at < end) {
                push_natives(e, at);
                struct frame f = e->w->out->frames.at[at];
                name(e, s, call, &f);
                f.provenance = e->w->out->frames.at[at].provenance;
                push(e, &f);
                e->next = at + 1;
            } else if (!innermost) {
                bool is_last = call + 1 == c->row[i].end;
                push_tail_called(e, s, call, i && is_last, end);
            }
        }
    }
    push_natives(e, end);
}

/* ---- activations --------------------------------------------------------------------------- */

static bool is_last_of_state(const struct lua_walk *w, const struct lua_activation *a)
{
    for (const struct lua_activation *o = a + 1; o < w->activations.at + w->activations.nr; o++) {
        if (o->state == a->state)
            return false;
    }
    return true;
}

/* Put the calls that have no activation any more behind the last one of their state. Returns in `c`
 * the C functions at the end of the list, which may have native frames. */
static void push_rest(struct emitter *e, const struct lua_activation *a,
                      const struct lua_walk_state *s, struct c_calls *c)
{
    const struct lua_walk *w = e->w;
    size_t last = s->end, before = w->frames.nr;
    while (last > s->rest && !w->calls.at[last - 1].is_lua)
        last--;
    for (size_t i = s->rest; i < last && !s->is_main; i++)
        push_call(e, s, i, NULL, a->doubted ? PROVENANCE_GUESS : a->provenance);
    if (!s->whole)
        push_unknown(e, NULL, a->provenance);
    moved(e, e->next, w->frames.nr - before);
    c->row[0].at = last;
    c->row[0].end = s->whole ? s->end : last;
    c->row[0].state = s;
}

/* Put an activation's Lua functions in the place of its native frame. */
static void push_activation(struct emitter *e, const struct lua_activation *a)
{
    struct lua_walk *w = e->w;
    const struct frame *native = &w->out->frames.at[a->frame];
    const struct lua_walk_state *s = a->state == LUA_NO_STATE ? NULL : &w->states.at[a->state];
    size_t before = w->frames.nr;
    uint8_t provenance = a->doubted ? PROVENANCE_GUESS : a->provenance;
    e->next = a->frame;
    if (a->between) /* its calls are all behind it: push_rest() */
        return;
    for (size_t i = a->first; s && i < a->end; i++) {
        if (w->calls.at[i].is_lua)
            push_call(e, s, i, w->frames.nr == before ? native : NULL, provenance);
    }
    /* Only the innermost function can have returned already: elsewhere the list was read at another
     * moment. */
    bool may_be_empty = s && a == w->activations.at && !a->lost && !s->provenance;
    if (w->frames.nr == before && may_be_empty)
        push(e, native);
    else if (w->frames.nr == before)
        push_unknown(e, native, a->provenance);
    e->next = a->frame + 1;
    if (w->frames.nr > before + 1)
        moved(e, e->next, w->frames.nr - before - 1);
}

/* Take the C functions that the activation's newest Lua function has called. */
static void take_c_calls(const struct lua_walk *w, const struct lua_activation *a,
                         struct c_calls *c)
{
    c->row[1].at = c->row[1].end = a->first;
    if (a->state == LUA_NO_STATE)
        return;
    c->row[1].state = &w->states.at[a->state];
    while (c->row[1].end < a->end && !w->calls.at[c->row[1].end].is_lua)
        c->row[1].end++;
}

/* The result takes the frames that were made; the next walk makes its own in the place of these. */
static void swap_frames(struct lua_walk *w)
{
    struct frame *at = w->out->frames.at;
    size_t cap = w->out->frames.cap;
    w->out->frames.at = w->frames.at;
    w->out->frames.cap = w->frames.cap;
    w->out->frames.nr = w->frames.nr;
    w->frames.at = at;
    w->frames.cap = cap;
    w->frames.nr = 0;
}

int lua_emit(struct lua_walk *w)
{
    struct emitter e = {.w = w, .max = w->input->max_frames};
    struct c_calls c = {0};
    if (e.max < w->out->frames.nr)
        e.max = w->out->frames.nr;
    w->frames.nr = w->places.nr = 0;
    vec_foreach (a, &w->activations) {
        take_c_calls(w, a, &c);
        push_natives_with(&e, &c, a->frame);
        push_activation(&e, a);
        c = (struct c_calls){0};
        if (a->state != LUA_NO_STATE && is_last_of_state(w, a))
            push_rest(&e, a, &w->states.at[a->state], &c);
    }
    push_natives_with(&e, &c, w->out->frames.nr);
    if (e.failed)
        return -1;
    set_places(w);
    if (w->frames.nr == e.max && w->out->frames.nr + e.shift > e.max)
        w->out->end = STACK_LIMIT;
    swap_frames(w);
    return 0;
}
