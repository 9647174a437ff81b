/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Is a snapshot's PC on the recorded branch, or on the one that was not recorded? The bytecode
 * tells which comparisons and loops have that PC as one of their two ways. The snapshot's first
 * guard tells if it can belong to one of them. The next snapshot tells which way was taken.
 */
#include "unwind/luajit/branch.h"

#include "base/cursor.h"
#include "unwind/luajit/names_bytecode.h"

enum {
    JUMP_BIAS = 0x8000, /* bias of the distance: no jump is longer */
    PIECE = 512,        /* instructions that are read at once */
    BRANCHES = 8,       /* branches with a common way: more are not told apart */
    SPAN = 2048,        /* range of instructions in which a way is followed */
    STEPS_MAX = 512,    /* steps of a way */
    BC_JFORI = BC_FORI + 1,
    BC_JFORL = BC_FORL + 2,
    BC_JITERL = BC_FORL + 5,
    BC_ISF = 0x0f, /* the last conditional instruction, with a JMP behind it */
    IR_UGT = 7,
    IR_EQ = 8,
    IR_NE = 9, /* comparisons: 0 to 9, in every version */
};

static const uint32_t ELSEWHERE = UINT32_MAX; /* used as a place */

/* A function's bytecode, by index. These reads prove nothing and need no proof: the line is read
 * from a prototype that is proven. */
struct code {
    struct luajit_reader *r;
    const struct luajit_function *f;
    uint32_t first, nr; /* the current piece */
    bool lost;          /* a piece is not recorded */
    uint8_t piece[4 * PIECE];
};

static bool piece_read(struct code *c, uint32_t first)
{
    enum provenance ignored = PROVENANCE_EXACT;
    uint32_t left = c->f->sizebc - first;
    c->first = first;
    c->nr = left < PIECE ? left : PIECE;
    c->lost |= !luajit_spend(c->r) || !memory_read(c->r->m, c->f->code + 4 * (uint64_t)first,
                                                   c->piece, 4 * (size_t)c->nr, &ignored);
    return !c->lost;
}

/* The instruction at index i; its opcode is BC_NONE behind the end, and where the bytecode is not
 * recorded. */
static struct bc code_at(struct code *c, uint32_t i)
{
    if (i >= c->f->sizebc || c->lost ||
        (i - c->first >= c->nr && !piece_read(c, i < PIECE / 2 ? 0 : i - PIECE / 2)))
        return (struct bc){.op = BC_NONE};
    return bc_decode(load_u32(c->piece + 4 * (size_t)(i - c->first), false),
                     c->r->layout->bytecode);
}

static uint32_t target_of(uint32_t i, uint16_t d)
{
    return i + 1 + d - JUMP_BIAS;
}

/* ---- branches that have a way to a place ----------------------------------------------------- */

/* A comparison, or a loop's step. */
struct branch {
    uint32_t at;    /* index of its instruction */
    uint32_t other; /* the way that does not lead to the given place */
    /* The instruction whose line is shown: its own. Of a loop's two steps it is the loop's end
     * (both have the line of the "for"). */
    uint32_t shown;
    uint8_t op;
};

struct branches {
    struct branch at[BRANCHES];
    unsigned nr;
    bool many;
};

static void add(struct branches *b, uint32_t at, uint32_t other, uint32_t shown, uint8_t op)
{
    if (b->nr == BRANCHES)
        b->many = true;
    else
        b->at[b->nr++] = (struct branch){at, other, shown, op};
}

/* Add the branches right before `place`, which go on there when they do not jump. */
static void add_before(struct code *c, uint32_t place, struct branches *ret)
{
    struct bc last = place > 0 ? code_at(c, place - 1) : (struct bc){.op = BC_NONE};
    uint32_t target = target_of(place - 1, last.d);
    if (last.op == BC_FORI || last.op == BC_JFORI) {
        add(ret, place - 1, target, target - 1, BC_FORI);
        /* The loop's end jumps to its body, too. */
        add(ret, target - 1, target, target - 1, BC_FORI);
    } else if (last.op == BC_JMP && place > 1) {
        struct bc b = code_at(c, place - 2);
        if (b.op <= BC_ISNEP)
            add(ret, place - 2, target, place - 2, b.op);
    }
}

/* The first instruction at `i` or behind it that leads to `place`, if it is a jump; the function's
 * end: there is none. */
static uint32_t next_jumping(struct code *c, uint32_t i, uint32_t place)
{
    uint32_t end = c->f->sizebc, first = place < JUMP_BIAS ? 0 : place - JUMP_BIAS;
    for (i = i < first ? first : i; i < end && i < place + JUMP_BIAS; i++) {
        if (i - c->first >= c->nr && !piece_read(c, i))
            return end;
        if (target_of(i, load_u16(c->piece + 4 * (size_t)(i - c->first) + 2, false)) == place)
            return i;
    }
    return end;
}

/* Add the branches that jump to `place`. */
static void add_jumping(struct code *c, uint32_t place, struct branches *ret)
{
    uint32_t i = next_jumping(c, 0, place);
    for (; i < c->f->sizebc; i = next_jumping(c, i + 1, place)) {
        struct bc jump = code_at(c, i);
        if (jump.op == BC_FORI || jump.op == BC_JFORI) {
            add(ret, i, i + 1, place - 1, BC_FORI);
            add(ret, place - 1, i + 1, place - 1, BC_FORI);
        } else if (jump.op == BC_JMP && i > 0) {
            struct bc b = code_at(c, i - 1);
            if (b.op <= BC_ISNEP)
                add(ret, i - 1, i + 1, i - 1, b.op);
        }
    }
}

/* ---- ways ------------------------------------------------------------------------------------ */

struct way {
    struct code *code;
    const struct branches *without;
    uint64_t seen[SPAN / 64];
    uint32_t origin, nr;
    uint32_t next[STEPS_MAX]; /* places that the way reaches */
    bool open;                /* there are more places, which were not followed */
    bool anew;                /* also follow another call of the function */
};

static void go_on(struct way *w, uint32_t i)
{
    uint32_t bit = i - w->origin;
    for (unsigned k = 0; k < w->without->nr; k++) {
        if (w->without->at[k].at == i)
            return;
    }
    if (bit >= SPAN || w->nr == STEPS_MAX) {
        w->open = true;
    } else if (!(w->seen[bit / 64] >> bit % 64 & 1)) {
        w->seen[bit / 64] |= UINT64_C(1) << bit % 64;
        w->next[w->nr++] = i;
    }
}

static void go_on_anew(struct way *w)
{
    if (w->anew)
        go_on(w, 0);
}

/* Follow a loop's end that was patched with a trace's number and has lost its jump. The loop's
 * beginning jumps to the end, by an instruction of opcode `first` or `second`. */
static void go_on_with_body(struct way *w, uint32_t end, uint8_t first, uint8_t second)
{
    for (uint32_t i = end; i-- > 0 && end - i < SPAN && luajit_spend(w->code->r);) {
        struct bc b = code_at(w->code, i);
        if ((b.op == first || b.op == second) && target_of(i, b.d) == end) {
            go_on(w, i + 1);
            return;
        }
    }
    w->open = true;
}

static void follow(struct way *w, uint32_t i)
{
    struct bc b = code_at(w->code, i);
    uint32_t target = target_of(i, b.d);
    if (b.op == BC_NONE)
        w->open = true;
    else if (b.op == BC_CALLMT || b.op == BC_CALLT || (b.op >= BC_RETM && b.op <= BC_RET1))
        go_on_anew(w);
    else if (b.op == BC_JMP || b.op == BC_ISNEXT || b.op == BC_UCLO)
        go_on(w, target);
    else
        go_on(w, i + 1);
    if (b.op <= BC_ISF)
        go_on(w, i + 2);
    else if (b.op == BC_JFORL)
        go_on_with_body(w, i + 1, BC_FORI, BC_JFORI);
    else if (b.op == BC_JITERL)
        go_on_with_body(w, i - 1, BC_JMP, BC_ISNEXT);
    else if (b.op >= BC_FORI && b.op < BC_JITERL)
        go_on(w, target);
    else if (b.op == BC_JLOOP) /* may have replaced a return */
        go_on_anew(w);
}

static bool may_leave(uint8_t op)
{
    return bc_metamethod(op) || (op >= BC_CALLM && op <= BC_RET1) || op == BC_JLOOP;
}

/* Does a way lead from `from` to `goal` (ELSEWHERE: to another function) without these branches?
 * `anew`: it may also pass through another call of the function. */
static bool may_reach(struct code *c, uint32_t from, uint32_t goal, const struct branches *without,
                      bool anew)
{
    struct way w = {.code = c, .without = without, .anew = anew};
    w.origin = from < SPAN / 2 ? 0 : from - SPAN / 2;
    go_on(&w, from);
    for (uint32_t i = 0; i < w.nr && !w.open; i++) {
        if (w.next[i] == goal || (goal == ELSEWHERE && may_leave(code_at(c, w.next[i]).op)))
            return true;
        follow(&w, w.next[i]);
    }
    return w.open;
}

/* ---- which it is ----------------------------------------------------------------------------- */

/* Can the guard belong to that branch? (The type of FFI objects is checked first.) */
static bool may_guard(uint8_t guard, uint8_t op)
{
    bool equality = op >= BC_ISEQV && op <= BC_ISNEP;
    return op == BC_FORI ? guard <= IR_UGT : !equality || guard == IR_EQ || guard == IR_NE;
}

/* The index of an instruction; ELSEWHERE: in another function. */
static uint32_t index_at(const struct luajit_function *f, uint64_t pc)
{
    uint64_t at = pc - f->code;
    return at % 4 == 0 && at / 4 < f->sizebc ? (uint32_t)(at / 4) : ELSEWHERE;
}

/* The index of a snapshot's place; ELSEWHERE: in another function or another frame. */
static uint32_t index_of(const struct luajit_function *f, const struct luajit_point *p,
                         uint32_t depth)
{
    return p->depth == depth ? index_at(f, p->pc) : ELSEWHERE;
}

/* The call at which the innermost frame of snapshot `number` stands in snapshot `other`, which has
 * more frames. ELSEWHERE: cannot be told. */
static uint32_t index_of_call(struct code *c, const struct luajit_trace *t, uint32_t number,
                              uint32_t other)
{
    struct luajit_inlined in;
    if (!luajit_snapshot_frames(c->r, t, number, &in))
        return ELSEWHERE;
    uint32_t slot = in.nr ? in.frames[0].base_slot : 0;
    if (!luajit_snapshot_frames(c->r, t, other, &in))
        return ELSEWHERE;
    if (slot == 0)
        return in.nr ? index_at(c->f, in.start_pc - 4) : ELSEWHERE;
    for (unsigned i = 1; i < in.nr; i++) {
        if (in.frames[i].base_slot == slot)
            return index_at(c->f, in.frames[i].pc - 4);
    }
    return ELSEWHERE;
}

static struct branches branches_to(struct code *c, uint32_t place, uint8_t guard)
{
    struct branches all = {0};
    add_before(c, place, &all);
    add_jumping(c, place, &all);
    struct branches ret = {.many = all.many};
    for (unsigned i = 0; i < all.nr; i++) {
        const struct branch *b = &all.at[i];
        if (b->other != place && may_guard(guard, b->op))
            ret.at[ret.nr++] = *b;
    }
    return ret;
}

/* The only branch whose other way leads to `next`; NULL: none, or `several`. */
static const struct branch *branch_gone(struct code *c, const struct branches *b, uint32_t next,
                                        bool *several)
{
    const struct branch *ret = NULL;
    *several = false;
    for (unsigned i = 0; i < b->nr; i++) {
        if (!may_reach(c, b->at[i].other, next, b, true))
            continue;
        *several |= ret && ret->shown != b->at[i].shown;
        ret = &b->at[i];
    }
    return *several ? NULL : ret;
}

/* Is the first guard that a snapshot covers a comparison, or can this not be told? */
static bool begins_with_comparison(struct luajit_reader *r, const struct luajit_trace *t,
                                   uint32_t number, struct luajit_guard *guard)
{
    uint32_t from, to;
    if (!luajit_snapshot_refs(r, t, number, &from, &to))
        return false;
    if (luajit_first_guard(r, t, from, to, guard))
        return guard->opcode <= IR_NE;
    return number + 1 < t->nsnap; /* the last snapshot has no guard if the trace ends with it */
}

/* Does the function reach `place` only by going on behind this comparison? */
static bool is_only_way(struct code *c, uint32_t place, const struct branch *b)
{
    if (b->op == BC_FORI || b->at + 2 != place)
        return false;
    uint32_t i = next_jumping(c, 0, place);
    for (; i < c->f->sizebc; i = next_jumping(c, i + 1, place)) {
        uint8_t op = code_at(c, i).op;
        if (op == BC_UCLO || op == BC_ISNEXT || (op >= BC_FORI && op <= BC_JMP))
            return false;
    }
    return !c->lost;
}

/* Does the guard belong to a comparison, and to nothing else? Then the snapshot belongs to it, too:
 * it is taken right before. Other guards on numbers or strings (lj_record.c, lj_opt_narrow.c,
 * lj_ffrecord.c, lj_crecord.c): a division checks that integers are not 0; next() and writing to
 * files check that they are not -1; the FFI converts numbers to true or false, and loops compare
 * their step, each with 0. rawequal() compares, too. Where only the comparison leads to the place,
 * such code would have to follow the comparison without any guard of the comparison. */
static bool is_comparison(struct code *c, const struct luajit_trace *t,
                          const struct luajit_guard *guard, uint32_t place, const struct branch *b)
{
    int32_t k;
    if (guard->first < LUAJIT_REF_BIAS || guard->first == guard->second)
        return false;
    bool constant = guard->second < LUAJIT_REF_BIAS, equality = guard->opcode >= IR_EQ;
    if (guard->type == IRT_NUM)
        return !constant || (equality && is_only_way(c, place, b));
    if (guard->opcode != IR_NE)
        return false;
    if (guard->type == IRT_STR || !constant)
        return guard->type == IRT_STR || guard->type == IRT_INT;
    return guard->type == IRT_INT && luajit_integer_constant(c->r, t, guard->second, &k) &&
           k != 0 && k != -1;
}

/* Does the snapshot before belong to the branch itself? Then the branch went to the place of
 * `here`. The PC of that snapshot is the other way, from which no way leads back to the branch. */
static bool has_come_by(struct code *c, const struct luajit_trace *t, uint32_t number,
                        const struct luajit_point *here, const struct branch *b)
{
    static const struct branches none;
    struct luajit_point before;
    struct luajit_guard guard;
    return luajit_snapshot_point(c->r, t, number - 1, &before) &&
           index_of(c->f, &before, here->depth) == b->other &&
           begins_with_comparison(c->r, t, number - 1, &guard) && may_guard(guard.opcode, b->op) &&
           !may_reach(c, b->other, b->at, &none, false);
}

uint64_t luajit_recorded_pc(struct luajit_reader *r, const struct luajit_trace *t, uint32_t number,
                            const struct luajit_function *f, uint64_t pc)
{
    struct luajit_point here, next; /* behind the last snapshot the trace's loop begins again */
    struct luajit_guard guard;
    if (number == 0 || !f->lua || pc % 4 || pc - f->code < 4 || (pc - f->code) / 4 > f->sizebc ||
        !begins_with_comparison(r, t, number, &guard) ||
        !luajit_snapshot_point(r, t, number, &here) || here.pc != pc - 4 ||
        !luajit_snapshot_point(r, t, number + 1 < t->nsnap ? number + 1 : 0, &next))
        return pc;
    struct code c = {.r = r, .f = f};
    uint32_t following = number + 1 < t->nsnap ? number + 1 : 0;
    uint32_t place = index_of(f, &here, here.depth), to = index_of(f, &next, here.depth);
    if (next.depth > here.depth)
        to = index_of_call(&c, t, number, following);
    struct branches b = branches_to(&c, place, guard.opcode);
    if (b.nr == 0 && !b.many && !c.lost)
        return pc;
    bool several, straight = may_reach(&c, place, to, &b, true);
    const struct branch *gone = branch_gone(&c, &b, to, &several);
    if (gone && straight && !b.many && has_come_by(&c, t, number, &here, gone))
        gone = NULL;
    else if (gone && straight && is_comparison(&c, t, &guard, place, gone))
        straight = false;
    if (c.lost || b.many || several || (gone && straight))
        return 0;
    return gone ? f->code + 4 * ((uint64_t)gone->shown + 1) : pc;
}
