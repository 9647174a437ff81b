/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds where the interpreter's function keeps its lua_State and the bytecode's pc.
 *
 * L: the first argument is followed from the entry into registers that survive calls and slots of
 * the frame; each call that gets L from such a place as its first argument is a vote for it.
 * pc: each instruction fetch, a load of four bytes beside an addition of 4 to the address, is a
 * vote.
 */
#include "unwind/lua/discover_internal.h"

#include "unwind/arch_x86_64.h"

#include <stdlib.h>

enum {
    FETCH_WINDOW = 6,     /* instructions around a fetch */
    ARGUMENT_WINDOW = 12, /* instructions before a call */
    BALLOT_MAX = 24,
};

/* ---- votes --------------------------------------------------------------------------------- */

struct ballot {
    struct lua_place places[BALLOT_MAX];
    unsigned nr;
};

uint8_t lua_dwarf_number(unsigned reg)
{
    static const uint8_t numbers[] = {DWARF_RAX, DWARF_RCX, DWARF_RDX, DWARF_RBX,
                                      DWARF_RSP, DWARF_RBP, DWARF_RSI, DWARF_RDI};
    return reg < 8 ? numbers[reg] : (uint8_t)reg;
}

struct lua_place lua_place_in_register(unsigned reg)
{
    return (struct lua_place){.kind = LUA_IN_REGISTER,
                              .reg = lua_dwarf_number(reg),
                              .survives = FLOW_SURVIVES >> reg & 1};
}

struct lua_place lua_place_in_slot(int32_t offset)
{
    return (struct lua_place){.kind = LUA_IN_SLOT, .offset = offset, .survives = true};
}

static struct lua_place *find_place(struct ballot *b, struct lua_place p, bool make)
{
    for (unsigned i = 0; i < b->nr; i++) {
        struct lua_place *at = &b->places[i];
        if (at->kind == p.kind && at->reg == p.reg && at->offset == p.offset)
            return at;
    }
    if (!make || b->nr == BALLOT_MAX)
        return NULL;
    b->places[b->nr] = p;
    return &b->places[b->nr++];
}

static void vote(struct ballot *b, struct lua_place p)
{
    struct lua_place *at = find_place(b, p, true);
    if (at && at->votes < UINT16_MAX)
        at->votes++;
}

static int compare_places(const void *a, const void *b)
{
    const struct lua_place *x = a, *y = b;
    if (x->votes != y->votes)
        return x->votes > y->votes ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind == LUA_IN_SLOT ? -1 : 1;
    return x->reg != y->reg ? (x->reg < y->reg ? -1 : 1)
                            : (x->offset > y->offset) - (x->offset < y->offset);
}

/* Take the places with at least `least` votes, best first. */
static unsigned elect(struct ballot *b, unsigned least, struct lua_place ret[LUA_PLACES_MAX])
{
    unsigned nr = 0;
    if (b->nr)
        qsort(b->places, b->nr, sizeof(*b->places), compare_places);
    while (nr < b->nr && nr < LUA_PLACES_MAX && b->places[nr].votes >= least) {
        ret[nr] = b->places[nr];
        nr++;
    }
    return nr;
}

/* ---- fetches ------------------------------------------------------------------------------- */

/* A fetch, and the code around it as it is executed: straight, with one jump before at most. */
enum { WINDOW_MAX = 3 * FETCH_WINDOW + 2 };
struct window {
    const struct flow_frame *frame;
    const struct insn_parts *insns[WINDOW_MAX];
    size_t at, nr;
};

static const struct insn_parts *insn(const struct window *w, size_t i)
{
    return w->insns[i];
}

static bool is_straight(const struct flow_code *code, size_t i)
{
    return flow_is_straight(&code->insns.at[i]);
}

/* Append the straight code before instruction `before`, and return its first instruction. */
static size_t add_before(struct window *w, const struct flow_code *code, size_t before)
{
    size_t from = before;
    while (from > 0 && before - from < FETCH_WINDOW && is_straight(code, from - 1))
        from--;
    for (size_t i = from; i < before; i++)
        w->insns[w->nr++] = &code->insns.at[i].is;
    return from;
}

static void add_from(struct window *w, const struct flow_code *code, size_t at)
{
    w->at = w->nr;
    w->insns[w->nr++] = &code->insns.at[at].is;
    for (size_t i = at + 1; i < code->insns.nr && i - at <= FETCH_WINDOW && is_straight(code, i);
         i++)
        w->insns[w->nr++] = &code->insns.at[i].is;
}

static struct window window_around(const struct flow_code *code, const struct flow_frame *frame,
                                   size_t at)
{
    struct window w = {.frame = frame};
    add_before(&w, code, at);
    add_from(&w, code, at);
    return w;
}

/* Make the window of the fetch with the code before `jump`, which leads to it or right before it.
 * Returns false if it does not lead there. */
static bool window_by_jump(const struct flow_code *code, const struct flow_frame *frame, size_t at,
                           size_t jump, struct window *ret)
{
    uint64_t target, to = code->insns.at[at].at;
    if (flow_way(&code->insns.at[jump], &target) != WAY_JUMP || target > to || to - target > 64)
        return false;
    size_t from = at;
    while (from > 0 && code->insns.at[from].at > target && at - from < FETCH_WINDOW &&
           is_straight(code, from - 1))
        from--;
    if (code->insns.at[from].at != target)
        return false;
    *ret = (struct window){.frame = frame};
    add_before(ret, code, jump);
    for (size_t i = from; i < at; i++)
        ret->insns[ret->nr++] = &code->insns.at[i].is;
    add_from(ret, code, at);
    return true;
}

static bool is_frame(const struct flow_frame *f, const struct insn_parts *is)
{
    return is->base == FLOW_RSP || (is->base == FLOW_RBP && f->fp_known);
}

/* mov r32, [R] or [R - 4] */
static bool is_fetch(const struct flow_frame *f, const struct insn_parts *is)
{
    bool load;
    return flow_is_move(is, &load) && load && !is->wide && !is->is_register &&
           is->index == INSN_NO_REGISTER && is->base != INSN_NO_REGISTER &&
           (is->disp == 0 || is->disp == -4) && !is_frame(f, is);
}

static bool is_add_4(const struct insn_parts *is)
{
    return !is->map && !is->vector && is->wide && (is->opcode == 0x83 || is->opcode == 0x81) &&
           (is->reg & 7) == 0 && is->value == 4;
}

static bool is_lea_4(const struct insn_parts *is, unsigned base)
{
    return !is->map && !is->vector && is->wide && is->opcode == 0x8d && is->base == base &&
           is->index == INSN_NO_REGISTER && is->disp == 4;
}

/* Find the last copy or load that gave the register its value before instruction `before`. */
static const struct insn_parts *source_of(const struct window *w, unsigned reg, size_t before)
{
    for (size_t i = before; i-- > 0;) {
        bool load;
        if (flow_is_move(insn(w, i), &load) && insn(w, i)->wide &&
            (load || insn(w, i)->is_register) && (load ? insn(w, i)->reg : insn(w, i)->rm) == reg)
            return insn(w, i);
        if (insn_written(insn(w, i)) >> reg & 1)
            return NULL;
    }
    return NULL;
}

static bool same_memory(const struct insn_parts *a, const struct insn_parts *b)
{
    return !a->is_register && !b->is_register && a->base == b->base && a->index == b->index &&
           a->disp == b->disp;
}

/* Get the register that holds the address of the next instruction: it got an addition of 4. */
static bool next_pc_register(const struct window *w, unsigned base, unsigned *ret)
{
    bool load, before = insn(w, w->at)->disp == -4;
    const struct insn_parts *from = source_of(w, base, w->at);
    unsigned copied = INSN_NO_REGISTER;
    if (from && from->is_register)
        copied = flow_is_move(from, &load) && load ? from->rm : from->reg;
    for (size_t i = 0; i < w->nr; i++) {
        const struct insn_parts *is = insn(w, i);
        bool in_place = is_add_4(is) && is->is_register;
        *ret = in_place ? is->rm : is->reg;
        if (in_place && is->rm == base && (i < w->at) == before)
            return true;
        const struct insn_parts *of = in_place && !before ? source_of(w, is->rm, i) : NULL;
        if (of && of->is_register && (of->rm == base || of->reg == base))
            return true;
        if (in_place && !before && is->rm == copied)
            return true;
        if (!before && (is_lea_4(is, base) || (copied < FLOW_NR && is_lea_4(is, copied))))
            return true;
    }
    return false;
}

/* Returns the register to which the address goes on behind the fetch; the same, if to none. */
static unsigned copy_of(const struct window *w, unsigned reg)
{
    for (size_t i = w->at + 1; i < w->nr; i++) {
        bool load;
        if (flow_is_move(insn(w, i), &load) && insn(w, i)->is_register && insn(w, i)->wide &&
            (load ? insn(w, i)->rm : insn(w, i)->reg) == reg)
            return load ? insn(w, i)->reg : insn(w, i)->rm;
    }
    return reg;
}

/* Find the store of a register in the window. */
static const struct insn_parts *store_of(const struct window *w, unsigned reg)
{
    for (size_t i = 0; i < w->nr; i++) {
        bool load;
        if (flow_is_move(insn(w, i), &load) && !load && insn(w, i)->wide &&
            !insn(w, i)->is_register && insn(w, i)->reg == reg)
            return insn(w, i);
    }
    return NULL;
}

/* The pc is incremented in memory: add [X + d], 4. */
static const struct insn_parts *incremented(const struct window *w, const struct insn_parts *from)
{
    for (size_t i = 0; from && !from->is_register && i < w->nr; i++) {
        if (is_add_4(insn(w, i)) && same_memory(insn(w, i), from))
            return insn(w, i);
    }
    return NULL;
}

struct fields {
    int32_t disp[BALLOT_MAX];
    unsigned votes[BALLOT_MAX], nr;
};

static void vote_field(struct fields *f, int32_t disp)
{
    unsigned i = 0;
    while (i < f->nr && f->disp[i] != disp)
        i++;
    if (i == BALLOT_MAX)
        return;
    f->disp[i] = disp;
    f->votes[i] = i == f->nr ? 1 : f->votes[i] + 1;
    f->nr += i == f->nr;
}

/* Count one fetch. Returns false if it is none. */
static bool count_fetch(const struct window *w, struct ballot *places, struct fields *fields)
{
    unsigned base = insn(w, w->at)->base, next;
    int32_t offset;
    const struct insn_parts *from = source_of(w, base, w->at);
    const struct insn_parts *store = incremented(w, from);
    bool in_register = !store && next_pc_register(w, base, &next);
    if (!store && !in_register)
        return false;
    if (!store)
        store = store_of(w, next);
    if (store && flow_slot(w->frame, store, &offset)) {
        vote(places, lua_place_in_slot(offset));
    } else if (store && store->index == INSN_NO_REGISTER && !is_frame(w->frame, store) &&
               (!from || from->is_register || from->disp == store->disp)) {
        vote_field(fields, store->disp);
    } else if (in_register) {
        vote(places, lua_place_in_register(copy_of(w, next)));
    }
    return true;
}

/* What was fetched: where it is now. */
struct fetched {
    uint32_t regs;
    int32_t slot;
    bool in_slot;
};

static void move_fetched(struct fetched *f, const struct flow_frame *frame,
                         const struct insn_parts *is)
{
    int32_t offset = 0;
    bool load, move = flow_is_move(is, &load);
    bool slot = move && flow_slot(frame, is, &offset);
    if (slot && !load) {
        bool in = f->regs >> is->reg & 1;
        f->in_slot = in || (f->in_slot && f->slot != offset);
        f->slot = in ? offset : f->slot;
        return;
    }
    bool same = slot ? f->in_slot && f->slot == offset
                     : move && is->is_register && f->regs >> (load ? is->rm : is->reg) & 1;
    /* -O0 shifts by 0. */
    bool kept = !is->map && !is->vector && is->opcode == 0xc1 && is->value == 0;
    if (kept)
        return;
    f->regs &= ~insn_written(is);
    if (same)
        f->regs |= UINT32_C(1) << (slot || load ? is->reg : is->rm);
}

/* Returns whether the opcode is cut out of what was fetched: on the way from `at` on, in either
 * direction at up to `branches` conditional jumps. */
static bool is_dispatched(const struct flow_code *code, const struct flow_frame *frame,
                          const struct lua_dispatch *d, uint64_t at, struct fetched f,
                          unsigned branches)
{
    enum { DISPATCH_WINDOW = 16 };
    const struct flow_insn *i;
    for (unsigned n = 0; n < DISPATCH_WINDOW && (i = flow_at(code, at)); n++) {
        const struct insn_parts *is = &i->is;
        uint64_t target;
        enum insn_way way = flow_way(i, &target);
        bool group = is->opcode == 0x83 || is->opcode == 0x80 || is->opcode == 0x81;
        bool and = !is->map && !is->vector &&
                   ((group && is->is_register && (is->reg & 7) == 4 && f.regs >> is->rm & 1) ||
                    ((is->opcode & 0xfe) == 0x24 && f.regs & 1));
        if (and&&is->value == d->mask)
            return true;
        if (way == WAY_BRANCH && branches && is_dispatched(code, frame, d, target, f, branches - 1))
            return true;
        if (way == WAY_CALL || way == WAY_STOP || way == WAY_JUMP_INDIRECT)
            return false;
        if (way == WAY_NEXT)
            move_fetched(&f, frame, is);
        at = way == WAY_JUMP ? target : flow_end(i);
    }
    return false;
}

/* Count a fetch, in each way in which it is reached. Not `thorough`: only the straight one. */
static bool count_fetches(const struct flow_code *code, const struct flow_frame *frame, size_t at,
                          bool thorough, struct ballot *places, struct fields *fields)
{
    struct window w = window_around(code, frame, at);
    if (count_fetch(&w, places, fields))
        return true;
    bool any = false;
    for (size_t i = 0; thorough && i < code->insns.nr; i++) {
        if (window_by_jump(code, frame, at, i, &w))
            any |= count_fetch(&w, places, fields);
    }
    return any;
}

void lua_find_pc(const struct flow_code *code, const struct flow_frame *frame, bool *fetches,
                 struct lua_layout *ret, struct lua_evidence *ev)
{
    struct ballot dispatched = {0}, others = {0};
    struct fields fields = {0};
    unsigned best = 0;
    for (size_t i = 0; i < code->insns.nr; i++) {
        const struct flow_insn *at = &code->insns.at[i];
        const struct fetched f = {.regs = UINT32_C(1) << (at->is.reg & 15)};
        if (!is_fetch(frame, &at->is))
            continue;
        bool first = is_dispatched(code, frame, &ev->dispatch, flow_end(at), f, 2);
        if (!count_fetches(code, frame, i, ret->version, first ? &dispatched : &others, &fields))
            continue;
        fetches[i] = true;
        if (first)
            lua_add_fetch(code, i, ret);
        ev->nr_fetches++;
        if (!ev->fetch)
            ev->fetch = code->insns.at[i].at;
    }
    for (unsigned i = 0; i < fields.nr; i++) {
        if (fields.votes[i] > best) {
            best = fields.votes[i];
            ev->memory_at = fields.disp[i];
        }
    }
    ev->nr_memory = best;
    /* Fetches of other words (an instruction's extra argument) tell it if no other does. */
    ret->nr_pc = elect(dispatched.nr ? &dispatched : &others, 1, ret->pc);
    while (ret->nr_pc > 1 && 2 * ret->pc[ret->nr_pc - 1].votes < ret->pc[0].votes)
        ret->nr_pc--;
}

/* ---- L ------------------------------------------------------------------------------------- */

bool lua_argument_place(const struct flow_code *code, const struct flow_frame *frame, size_t call,
                        unsigned reg, struct lua_place *ret)
{
    for (size_t i = call; i-- > 0 && call - i <= ARGUMENT_WINDOW && is_straight(code, i);) {
        const struct insn_parts *is = &code->insns.at[i].is;
        bool load;
        int32_t offset;
        if (!(insn_written(is) >> reg & 1))
            continue;
        if (!flow_is_move(is, &load) || !is->wide)
            return false;
        if (is->is_register) {
            reg = load ? is->rm : is->reg;
            *ret = lua_place_in_register(reg);
            if (ret->survives)
                return true;
            continue; /* -O0 loads a slot by way of another register */
        }
        if (!load || !flow_slot(frame, is, &offset))
            return false;
        *ret = lua_place_in_slot(offset);
        return true;
    }
    return false;
}

static void count_calls(const struct flow_code *code, const struct flow_frame *frame,
                        struct ballot *ret, unsigned *nr_calls)
{
    for (size_t i = 0; i < code->insns.nr; i++) {
        uint64_t target;
        struct lua_place p;
        if (flow_way(&code->insns.at[i], &target) != WAY_CALL)
            continue;
        ++*nr_calls;
        if (lua_argument_place(code, frame, i, FLOW_RDI, &p))
            vote(ret, p);
    }
}

/* How often the function adds to, or subtracts from, a number in a place. */
static uint16_t count_steps(const struct flow_code *code, const struct flow_frame *frame,
                            const struct lua_place *p)
{
    uint16_t nr = 0;
    for (size_t i = 0; i < code->insns.nr; i++) {
        const struct insn_parts *is = &code->insns.at[i].is;
        unsigned which = is->reg & 7;
        int32_t offset;
        bool step = !is->map && !is->vector && !is->wide &&
                    ((is->opcode == 0x83 && (which == 0 || which == 5) &&
                      (is->value == 1 || is->value == -1)) ||
                     (is->opcode == 0xff && which < 2));
        if (!step || nr == UINT16_MAX)
            continue;
        if (is->is_register
                ? p->kind == LUA_IN_REGISTER && p->reg == lua_dwarf_number(is->rm)
                : p->kind == LUA_IN_SLOT && flow_slot(frame, is, &offset) && offset == p->offset)
            nr++;
    }
    return nr;
}

/* A place that holds an argument at the first call. */
struct held_place {
    struct lua_place place;
    uint64_t set_by;
};
enum { HELD_MAX = 16 };

static unsigned places_of(const struct flow_trail *t, enum flow_root argument,
                          struct held_place ret[static HELD_MAX])
{
    unsigned nr = 0;
    for (unsigned r = 0; r < FLOW_NR && nr < HELD_MAX; r++) {
        if (FLOW_SURVIVES >> r & 1 && flow_value_is(&t->regs[r].value, argument, 0, NULL))
            ret[nr++] = (struct held_place){lua_place_in_register(r), t->regs[r].set_by};
    }
    for (unsigned i = 0; i < t->nr_slots && nr < HELD_MAX; i++) {
        if (flow_value_is(&t->slots[i].held.value, argument, 0, NULL))
            ret[nr++] =
                (struct held_place){lua_place_in_slot(t->slots[i].offset), t->slots[i].held.set_by};
    }
    return nr;
}

static bool is_place(const struct ballot *b, unsigned reg)
{
    for (unsigned i = 0; i < b->nr; i++) {
        if (b->places[i].kind == LUA_IN_REGISTER && b->places[i].reg == lua_dwarf_number(reg))
            return true;
    }
    return false;
}

/* Returns whether the function stores one of L's registers in a slot: compilers lend the register
 * to a loop for a while. */
static bool is_spilled(const struct flow_code *code, const struct flow_frame *frame,
                       const struct ballot *known, int32_t slot)
{
    for (size_t i = 0; i < code->insns.nr; i++) {
        const struct insn_parts *is = &code->insns.at[i].is;
        bool load;
        int32_t offset;
        if (flow_is_move(is, &load) && !load && is->wide && flow_slot(frame, is, &offset) &&
            offset == slot && is_place(known, is->reg))
            return true;
    }
    return false;
}

/* Places from which many calls take an argument hold L as well: it got there later. So do slots
 * from which a call takes it where its register is stored. */
static void add_voted(const struct flow_code *code, const struct flow_frame *frame,
                      const struct ballot *votes, unsigned nr_calls, struct ballot *ret)
{
    for (unsigned i = 0; i < votes->nr; i++) {
        const struct lua_place *p = &votes->places[i];
        struct lua_place *known = find_place(ret, *p, false);
        if (known)
            known->votes = p->votes;
        else if ((p->survives && p->votes >= 4 && p->votes * 4u >= nr_calls) ||
                 (p->kind == LUA_IN_SLOT && is_spilled(code, frame, ret, p->offset)))
            vote(ret, *p), find_place(ret, *p, false)->votes = p->votes;
    }
}

static void find_calls_place(const struct flow_code *code, const struct flow_frame *frame,
                             const struct held_place *held, unsigned nr, struct lua_layout *ret)
{
    for (unsigned i = 0; i < nr; i++) {
        struct lua_place p = held[i].place;
        p.votes = count_steps(code, frame, &p);
        if (!i || p.votes > ret->calls.votes)
            ret->calls = p;
    }
}

/* Returns the address from which on the best place holds L. If L gets there later, it is the
 * address from which on all that are known from the entry do. */
static uint64_t body_of(const struct held_place *states, unsigned nr, const struct lua_place *best)
{
    uint64_t last = 0;
    for (unsigned i = 0; i < nr; i++) {
        const struct lua_place *p = &states[i].place;
        if (p->kind == best->kind && p->reg == best->reg && p->offset == best->offset)
            return states[i].set_by;
        if (states[i].set_by > last)
            last = states[i].set_by;
    }
    return last;
}

void lua_find_state(const struct flow_code *code, const struct flow_frame *frame,
                    const struct flow_trail *entry, struct lua_layout *ret, struct lua_evidence *ev)
{
    struct held_place states[HELD_MAX], counts[HELD_MAX];
    struct ballot votes = {0}, known = {0};
    unsigned nr = places_of(entry, FLOW_ARGUMENT_1, states);
    for (unsigned i = 0; i < nr; i++) {
        struct lua_place *p = find_place(&known, states[i].place, true);
        if (p)
            p->votes = 0;
    }
    count_calls(code, frame, &votes, &ev->nr_calls);
    if (nr)
        add_voted(code, frame, &votes, ev->nr_calls, &known);
    ret->nr_state = elect(&known, 0, ret->state);
    /* A register that many calls do not use is used for something else by then. */
    while (ret->nr_state > 1 && ret->state[ret->nr_state - 1].kind == LUA_IN_REGISTER &&
           ret->state[ret->nr_state - 1].votes * 8 < ret->state[0].votes)
        ret->nr_state--;
    ret->body = body_of(states, nr, &ret->state[0]);
    if (ret->version == 51)
        find_calls_place(code, frame, counts, places_of(entry, FLOW_ARGUMENT_2, counts), ret);
}
