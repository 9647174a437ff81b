/* SPDX-License-Identifier: GPL-2.0-only */
/* What the C frames of execute say: the lua_State, the bytecode pc. See walk.h. */
#include "unwind/lua/walk.h"

#include "unwind/arch_x86_64.h"
#include "unwind/trace.h"

#include <string.h>

enum { FRAME_WORDS_MAX = 512 };

static bool is_exact(const struct lua_activation *a)
{
    return a->flags & (FRAME_LEAF | FRAME_SIGNAL);
}

/* Returns whether the frame's pc is where the places do not hold yet. */
static bool is_in_prologue(const struct lua_activation *a)
{
    uint64_t at = a->pc - a->bias;
    return is_exact(a) && at >= a->layout->parts[0].start && at < a->layout->body;
}

/* Returns what is known of the call that the frame is in; NULL: it is in none, or nothing is. */
static const struct lua_site *site_of(const struct lua_activation *a)
{
    return is_exact(a) ? NULL : lua_site_at(a->layout, a->pc - a->bias);
}

/* Get what is in a place of the frame. */
static bool place_read(const struct lua_walk *w, const struct lua_activation *a,
                       const struct lua_place *p, uint64_t *ret)
{
    enum provenance provenance = PROVENANCE_EXACT;
    if (p->kind == LUA_IN_REGISTER) {
        *ret = p->reg < ARCH_REGISTERS_MAX ? a->value[p->reg] : 0;
        return p->reg < ARCH_REGISTERS_MAX && a->known & REG_BIT(p->reg);
    }
    return p->kind == LUA_IN_SLOT && a->cfa &&
           memory_read_slot(&w->input->memory, a->cfa + (uint64_t)(int64_t)p->offset, ret,
                            &provenance);
}

/* ---- words of the frame -------------------------------------------------------------------- */

/* Get the i-th word that the frame may hold: first the registers that survive calls, then its part
 * of the stack. Returns false if there are no more. */
static bool frame_word(const struct lua_walk *w, const struct lua_activation *a, unsigned i,
                       uint64_t *ret)
{
    static const uint8_t saved[] = {DWARF_RBX, DWARF_RBP, DWARF_R12,
                                    DWARF_R13, DWARF_R14, DWARF_R15};
    enum provenance provenance = PROVENANCE_EXACT;
    *ret = 0;
    if (i < sizeof(saved)) {
        *ret = a->known & REG_BIT(saved[i]) ? a->value[saved[i]] : 0;
        return true;
    }
    uint64_t at = (a->value[DWARF_RSP] & ~UINT64_C(7)) + 8 * (uint64_t)(i - sizeof(saved));
    if (i >= FRAME_WORDS_MAX || !a->cfa || at >= a->cfa)
        return false;
    return memory_read_slot(&w->input->memory, at, ret, &provenance);
}

bool lua_activation_has(const struct lua_walk *w, const struct lua_activation *a, uint64_t value)
{
    uint64_t word;
    for (unsigned i = 0; frame_word(w, a, i, &word); i++) {
        if (word == value)
            return true;
    }
    return false;
}

/* ---- the state ----------------------------------------------------------------------------- */

/* A state as an activation names it. */
struct found_state {
    struct lua_state state;
    int number; /* among those of the walk; LUA_NO_STATE: it is not there yet */
    bool sound;
};

/* Read the state at an address, if another activation has not had it read already: most of a
 * thread's activations run the same one. */
static bool state_at(struct lua_walk *w, const struct lua_activation *a, uint64_t at, bool strict,
                     struct found_state *ret)
{
    for (size_t i = 0; i < w->states.nr && strict; i++) {
        const struct lua_walk_state *s = &w->states.at[i];
        if (s->state.address == at && s->layout == a->layout && s->sound) {
            ret->number = (int)i;
            return true;
        }
    }
    ret->number = LUA_NO_STATE;
    ret->sound = strict;
    return lua_state_read(&w->reader, at, strict, &ret->state);
}

/* Try the places that the code tells: first for a state that stands still, then for one in the
 * middle of a change. */
static bool state_by_place(struct lua_walk *w, const struct lua_activation *a,
                           struct found_state *ret)
{
    const struct lua_site *site = site_of(a);
    uint64_t at;
    for (int strict = 1; strict >= 0; strict--) {
        if (site && place_read(w, a, &site->state, &at) && state_at(w, a, at, strict, ret))
            return true;
        if (is_in_prologue(a) && a->known & REG_BIT(DWARF_RDI) &&
            state_at(w, a, a->value[DWARF_RDI], strict, ret))
            return true;
        for (unsigned i = 0; i < a->layout->nr_state; i++) {
            if (place_read(w, a, &a->layout->state[i], &at) && state_at(w, a, at, strict, ret))
                return true;
        }
    }
    return false;
}

/* A compiler lends the state's register to other code for a while: look through the frame's words.
 * *several: more than one state is there. */
static bool state_by_value(struct lua_walk *w, const struct lua_activation *a,
                           struct lua_state *ret, bool *several)
{
    struct lua_state s;
    uint64_t word;
    bool found = false;
    *several = false;
    for (unsigned i = 0; frame_word(w, a, i, &word); i++) {
        if ((found && word == ret->address) || !lua_state_read(&w->reader, word, true, &s))
            continue;
        bool runs = s.ci != s.base_ci;
        *several |= found;
        if (!found || (ret->ci == ret->base_ci && runs))
            *ret = s;
        found = true;
    }
    return found;
}

/* ---- states of the walk -------------------------------------------------------------------- */

/* Returns the number of the state among those of the walk; -1 when memory is out. */
static int state_number(struct lua_walk *w, const struct found_state *f,
                        const struct lua_layout *layout)
{
    if (f->number != LUA_NO_STATE)
        return f->number;
    for (size_t i = 0; i < w->states.nr; i++) {
        if (w->states.at[i].state.address == f->state.address && w->states.at[i].layout == layout)
            return (int)i;
    }
    const struct lua_walk_state new = {.state = f->state, .layout = layout, .sound = f->sound};
    return vec_push(&w->states, new) ? (int)w->states.nr - 1 : -1;
}

/* Read the calls of a state. */
static int read_calls(struct lua_walk *w, struct lua_walk_state *s)
{
    w->reader.layout = s->layout;
    w->reader.provenance = (enum provenance)s->state.provenance;
    s->first = w->calls.nr;
    int got = lua_state_calls(&w->reader, &s->state, &w->calls);
    s->end = w->calls.nr;
    s->whole = got == 1;
    s->provenance = (uint8_t)w->reader.provenance;
    s->is_main = lua_main_thread(&w->reader, s->state.global) == s->state.address;
    return got < 0 ? -1 : 0;
}

static int find_state(struct lua_walk *w, struct lua_activation *a)
{
    struct found_state f;
    bool several = false;
    w->reader.layout = a->layout;
    a->cfa = w->out->frames.at[a->frame].cfa;
    a->state = LUA_NO_STATE;
    if (!state_by_place(w, a, &f)) {
        f.number = LUA_NO_STATE;
        f.sound = true;
        if (!state_by_value(w, a, &f.state, &several))
            return 0;
    }
    a->doubted = several;
    a->state = state_number(w, &f, a->layout);
    if (!TRACE_LIKELY_NULL(w->input->trace))
        trace_tell(w->input->trace, TRACE_WAY, a->frame, "the C frame runs the Lua state #",
                   a->state < 0 ? 0 : w->states.at[a->state].state.address, 0);
    return a->state < 0 ? -1 : 0;
}

int lua_find_states(struct lua_walk *w)
{
    vec_foreach (a, &w->activations) {
        if (find_state(w, a) < 0)
            return -1;
    }
    if (lua_find_resumed(w) < 0)
        return -1;
    vec_foreach (s, &w->states) {
        if (read_calls(w, s) < 0)
            return -1;
    }
    return 0;
}

/* ---- what it runs -------------------------------------------------------------------------- */

/* The result of a call may already stand in the function's slot while its call is still the newest:
 * the closure is in the frame then. */
static void find_function(struct lua_walk *w, const struct lua_activation *a, struct lua_call *call)
{
    uint64_t word;
    struct lua_function f;
    for (unsigned i = 0; call->savedpc && frame_word(w, a, i, &word); i++) {
        const struct lua_value v = {word, a->layout->fields.closure.tag_lua};
        if (!lua_function_of(&w->reader, v, &f) || f.kind != LUA_FUNCTION_LUA)
            continue;
        call->function = f;
        if (lua_call_set_pc(call, call->savedpc))
            return;
        call->function.kind = LUA_FUNCTION_NONE;
    }
}

enum { INSTRUCTION_BYTES = 4 };

/* Around an instruction fetch, its register tells what runs next; nothing else does right then. */
static bool set_fetched(const struct lua_activation *a, struct lua_call *call)
{
    const struct lua_fetch *f = is_exact(a) ? lua_fetch_at(a->layout, a->pc - a->bias) : NULL;
    return f && a->known & REG_BIT(f->reg) &&
           lua_call_set_pc(call, a->value[f->reg] + (uint64_t)(int64_t)f->disp + INSTRUCTION_BYTES);
}

bool lua_activation_has_next(struct lua_walk *w, const struct lua_activation *a,
                             const struct lua_call *call)
{
    uint8_t next[sizeof(uint64_t)];
    w->reader.layout = a->layout;
    return lua_read_moving(&w->reader, call->ci + a->layout->fields.ci.next, next, sizeof(next)) &&
           lua_is_address(lua_u64(next, 0)) && lua_activation_has(w, a, lua_u64(next, 0));
}

/* Is the newest call being made by a function that execute has called? It is in the list before all
 * of its parts are written, and execute's frame still has the call before it. (That one may also be
 * in a register that the frame has saved for its caller.) */
static bool is_made_by_callee(struct lua_walk *w, const struct lua_activation *a,
                              const struct lua_call *call)
{
    const struct lua_walk_state *s = &w->states.at[a->state];
    const struct lua_call *older = call + 1;
    return !is_exact(a) && !a->layout->fields.ci.is_array && older < w->calls.at + s->end &&
           older->is_lua && !lua_activation_has(w, a, call->ci) &&
           lua_activation_has(w, a, older->ci) && !lua_activation_has_next(w, a, call);
}

bool lua_set_running(struct lua_walk *w, const struct lua_activation *a, struct lua_call *call)
{
    const struct lua_layout *l = a->layout;
    uint64_t pc;
    w->reader.layout = l;
    w->reader.provenance = (enum provenance)call->provenance;
    if (call->function.kind == LUA_FUNCTION_NONE)
        find_function(w, a, call);
    bool agrees = lua_call_set_pc(call, call->savedpc);
    uint32_t saved = call->index;
    const struct lua_site *site = site_of(a);
    bool told = site && (site->saved || site->pc.kind != LUA_NOWHERE);
    bool by_site = told && place_read(w, a, &site->pc, &pc) &&
                   lua_call_set_pc(call, pc + (site->before_fetch ? INSTRUCTION_BYTES : 0)) &&
                   call->index != UINT32_MAX;
    bool fetched = set_fetched(a, call);
    if (told ? !by_site : !fetched)
        call->index = saved;
    told |= fetched;
    agrees |= by_site || fetched;
    for (unsigned i = 0; i < l->nr_pc && !told && !is_in_prologue(a); i++) {
        const struct lua_place *p = &l->pc[i];
        if (2 * p->votes < l->pc[0].votes || (!is_exact(a) && (i || !p->survives)))
            continue;
        if (place_read(w, a, p, &pc) && lua_call_set_pc(call, pc) && call->index != UINT32_MAX) {
            agrees = true;
            break;
        }
        call->index = saved;
    }
    if (!by_site && saved != UINT32_MAX && is_made_by_callee(w, a, call)) {
        call->index = saved = UINT32_MAX;
        agrees = w->states.at[a->state].state.hookmask; /* its hook may run already */
    }
    /* A hook is called before the instruction is fetched, and has saved the pc already. */
    if (!is_exact(a) && w->states.at[a->state].state.hookmask && saved != UINT32_MAX &&
        call->index + 1 == saved)
        call->index = saved;
    call->provenance = (uint8_t)w->reader.provenance;
    return agrees;
}

bool lua_nr_calls(struct lua_walk *w, const struct lua_activation *a, uint32_t *ret)
{
    uint64_t value;
    if (is_in_prologue(a) && a->known & REG_BIT(DWARF_RSI)) {
        *ret = (uint32_t)a->value[DWARF_RSI];
        return true;
    }
    if (!place_read(w, a, &a->layout->calls, &value))
        return false;
    *ret = (uint32_t)value;
    return true;
}
