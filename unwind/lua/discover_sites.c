/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds where L and the bytecode's pc are while a function runs that the interpreter has called.
 *
 * L: where the call takes its first argument from. pc: the way behind the call is followed to the
 * next instruction fetch; what holds the fetch's address there held it during the call, too. So a
 * register that a call does not preserve leads to the slot where the compiler keeps it, and one
 * that is lent for a while does not mislead.
 */
#include "unwind/lua/discover_internal.h"

#include <stdlib.h>

enum {
    SAVE_WINDOW = 16, /* instructions before a call */
    CALLS_BEHIND = 2, /* calls on the way to the fetch */
};

/* What the search for one function's sites works on. */
struct search {
    const struct flow_code *code;
    const struct flow_frame *frame;
    const struct flow_trail *entry; /* as it is at the first dispatch */
    const bool *fetches;
    struct flow_trail way;
};

/* Returns whether a value is the address of savedpc: of the CI (5.1: of L). */
static bool is_savedpc(const struct flow_value *v, const struct lua_layout *l)
{
    bool old = l->version == 51;
    return v->root == (old ? FLOW_ARGUMENT_1 : FLOW_ARGUMENT_2) && !v->nr &&
           v->added == (old ? l->fields.state.savedpc : l->fields.ci.savedpc);
}

/* Returns whether the register holds the address of savedpc: the compiler has computed it at the
 * function's start. */
static bool holds_savedpc(const struct search *s, unsigned reg, size_t before,
                          const struct lua_layout *l)
{
    for (size_t i = before; i-- > 0 && before - i <= SAVE_WINDOW;) {
        const struct insn_parts *is = &s->code->insns.at[i].is;
        int32_t offset;
        if (!(insn_written(is) >> reg & 1))
            continue;
        if (!flow_is_load(is) || !flow_slot(s->frame, is, &offset))
            return false;
        for (unsigned n = 0; n < s->entry->nr_slots; n++) {
            if (s->entry->slots[n].offset == offset)
                return is_savedpc(&s->entry->slots[n].held.value, l);
        }
        return false;
    }
    return is_savedpc(&s->entry->regs[reg].value, l);
}

/* Returns whether the code right before the call stores the pc in the CI (5.1: in L). */
static bool is_saved(const struct search *s, size_t call, const struct lua_layout *l)
{
    int32_t offset, field = l->version == 51 ? l->fields.state.savedpc : l->fields.ci.savedpc;
    for (size_t i = call; i-- > 0 && call - i <= SAVE_WINDOW;) {
        const struct insn_parts *is = &s->code->insns.at[i].is;
        uint64_t target;
        bool load;
        if (flow_way(&s->code->insns.at[i], &target) != WAY_NEXT)
            return false;
        if (!flow_is_move(is, &load) || load || !is->wide || is->is_register ||
            is->base == INSN_NO_REGISTER || is->index != INSN_NO_REGISTER ||
            flow_slot(s->frame, is, &offset))
            continue;
        if (is->disp == field || (!is->disp && holds_savedpc(s, is->base, i, l)))
            return true;
    }
    return false;
}

/* Follow the way behind a call to a fetch. Returns what the fetch's address is; root FLOW_UNKNOWN:
 * not known. */
static struct flow_value next_fetch(struct search *s, size_t call)
{
    uint64_t target;
    const struct flow_insn *i;
    flow_trail_begin_within(&s->way, flow_end(&s->code->insns.at[call]), s->frame, s->fetches);
    for (unsigned calls = 0; (i = flow_trail_run(&s->way, s->code)); calls++) {
        if (s->fetches[i - s->code->insns.at]) {
            struct flow_value v = s->way.regs[i->is.base].value;
            v.added = (int16_t)(v.added + i->is.disp);
            return v;
        }
        if (flow_way(i, &target) != WAY_CALL || calls == CALLS_BEHIND)
            break;
        flow_trail_call(&s->way, s->code);
    }
    return (struct flow_value){0};
}

static bool is_same(const struct lua_place *a, const struct lua_place *b)
{
    return a->kind == b->kind && a->reg == b->reg && a->offset == b->offset;
}

/* The fetch may be that of the instruction behind the next one (a test skips one): an address with
 * something added is believed of the usual place only. */
static struct lua_place pc_of(const struct flow_value *v, const struct lua_layout *l)
{
    struct lua_place p = {0};
    if (v->nr || (v->root != FLOW_REGISTER && v->root != FLOW_SLOT))
        return p;
    p = v->root == FLOW_SLOT ? lua_place_in_slot(v->which)
                             : lua_place_in_register((unsigned)v->which);
    p.votes = 1;
    return !v->added || (l->nr_pc && is_same(&p, &l->pc[0])) ? p : (struct lua_place){0};
}

static int compare_sites(const void *a, const void *b)
{
    const struct lua_site *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* L's place: the first argument's, if it is one of L's. */
static struct lua_place state_of(const struct search *s, size_t call, const struct lua_layout *l)
{
    struct lua_place p;
    if (!lua_argument_place(s->code, s->frame, call, FLOW_RDI, &p) || !p.survives)
        return (struct lua_place){0};
    for (unsigned i = 0; i < l->nr_state; i++) {
        if (is_same(&p, &l->state[i]))
            return p;
    }
    return (struct lua_place){0};
}

/* Returns whether the called function gets the pc as its second argument: luaG_traceexec of 5.4 and
 * later, which is called before an instruction is fetched. */
static bool is_before_fetch(const struct search *s, size_t call, const struct lua_site *site)
{
    struct lua_place p;
    return lua_argument_place(s->code, s->frame, call, FLOW_RSI, &p) && is_same(&p, &site->pc);
}

void lua_find_sites(const struct flow_code *code, const struct flow_frame *frame,
                    const struct flow_trail *entry, const bool *fetches, struct lua_layout *ret)
{
    struct search *s = malloc(sizeof(*s));
    bool in_memory = ret->version == 52 || ret->version == 53;
    if (!s)
        return; /* the places for all of the body will do */
    *s = (struct search){.code = code, .frame = frame, .entry = entry, .fetches = fetches};
    for (size_t i = 0; i < code->insns.nr && ret->nr_sites < LUA_SITES_MAX; i++) {
        uint64_t target;
        struct lua_site site = {.at = flow_end(&code->insns.at[i])};
        if (flow_way(&code->insns.at[i], &target) != WAY_CALL)
            continue;
        site.state = state_of(s, i, ret);
        site.saved = in_memory || is_saved(s, i, ret);
        if (!site.saved) {
            const struct flow_value v = next_fetch(s, i);
            site.pc = pc_of(&v, ret);
            site.before_fetch = ret->version >= 54 && is_before_fetch(s, i, &site);
        }
        ret->sites[ret->nr_sites++] = site;
    }
    free(s);
    if (ret->nr_sites) /* .cold parts may lie before the first */
        qsort(ret->sites, ret->nr_sites, sizeof(*ret->sites), compare_sites);
}
