/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Steps out of code without CFI by what its instructions do (explore.h), in both directions:
 *
 * Forward, from the pc to a return: the pushes, pops and additions on the way say where the return
 * address and the saved registers are.
 *
 * Backward, from the entry of the function to the pc: the same say how deep the frame is. A call in
 * the caller names the entry, or a symbol does.
 *
 * Forward alone is proven while no call is on the way: the thread will do just that. Behind a call
 * that never returns other functions' code may follow, so a caller found there must be the one
 * whose call leads to the pc with the stack as deep as found. Otherwise it is a guess.
 */
#include "unwind/native/explore.h"
#include "base/hash.h"
#include "unwind/trace.h"

#include <stdlib.h>

enum {
    FORWARD_MAX = 1500,  /* instructions from the pc to returns */
    BACKWARD_MAX = 4000, /* from an entry to the pc */
    OUTSIDE_MAX = 200,   /* the same if the entry is in another file: it only jumps here */
    SEARCH_MAX = 24000,  /* from all entries that are tried */
    SEARCH_WORDS = 512,
    ENTRIES_MAX = 16, /* that were tried in vain, and are remembered */
};

enum grade { GRADE_NONE, GRADE_GUESS, GRADE_PROVEN };

/* Where a frame's caller has its registers, relative to the registers at the pc. */
struct way {
    bool constant; /* true of all stacks, not of this thread's memory alone */
    struct held sp, pc, saved[ARCH_SAVED_MAX];
};

/* A way out of the frame: the caller's registers. */
struct way_out {
    struct way way;
    enum grade grade;
    uint64_t entry_sp; /* the stack pointer at the function's entry, where a call that pushes its
                          return address has put it */
    uint64_t entry;    /* of the function whose call proves it; 0: other things do */
    uint64_t value[ARCH_REGISTERS_MAX];
    uint64_t known;
    enum provenance provenance;
};

struct search {
    struct walk *w;
    const struct code *code; /* of the pc */
    struct explorer *e;
    bool function_sought;
    uint64_t start, end;        /* of the function, if something names it; else 0 */
    enum provenance provenance; /* of the code's bytes */
    unsigned left;              /* instructions that may still be followed from entries */
    struct way_out best;
};

/* ---- values -------------------------------------------------------------------------------- */

/* The address of a SLOT in this thread. */
static uint64_t slot_address(const struct walk *w, struct held v)
{
    return w->value[v.reg] + (uint64_t)(int64_t)v.at;
}

/* Get a value as it is in this thread. Returns false if it cannot be known. */
static bool resolve(struct walk *w, struct held v, uint64_t *ret, enum provenance *provenance)
{
    if (v.kind == HELD_NUMBER) {
        *ret = (uint64_t)v.add;
        return true;
    }
    if ((v.kind != HELD_REGISTER && v.kind != HELD_SLOT) || v.reg >= ARCH_REGISTERS_MAX ||
        !(w->known & REG_BIT(v.reg)))
        return false;
    uint64_t word;
    if (v.kind == HELD_REGISTER) {
        *ret = w->value[v.reg] + (uint64_t)v.add;
        return true;
    }
    /* What is below the stack pointer is nobody's, but for a function that calls nothing. */
    uint64_t address = slot_address(w, v);
    if ((address < walk_sp(w) && !walk_is_at_pc(w)) ||
        !memory_read_slot(&w->in->memory, address, &word, provenance))
        return false;
    *ret = word + (uint64_t)v.add;
    return true;
}

static bool read_word(void *context, struct held address, uint64_t *ret)
{
    struct search *s = context;
    uint64_t at;
    return resolve(s->w, address, &at, &s->provenance) && at >= walk_sp(s->w) &&
           memory_read_slot(&s->w->in->memory, at, ret, &s->provenance);
}

/* ---- backward ------------------------------------------------------------------------------ */

enum { IN_LINK_REGISTER = 1 };

/* A way from an entry to the pc. */
struct reached {
    struct walk *w;
    uint64_t wanted;    /* the stack pointer at the entry; 0: it is to be found */
    uint64_t wanted_at; /* address of the word that has the return address, or IN_LINK_REGISTER; 0:
                           it is to be found */
    uint64_t sp;        /* at the entry, on the way that fits */
    bool other;         /* a way leads here with another depth */
    struct execution at;
};

/* Get the stack pointer at the entry, if registers at the pc are relative to it. */
static bool entry_sp(const struct walk *w, const struct execution *x, uint64_t *ret)
{
    const struct arch_registers *r = &w->arch->reg;
    const struct held *sp = &x->reg[r->sp], *fp = &x->reg[r->fp];
    if (sp->kind == HELD_REGISTER && sp->reg == r->sp)
        *ret = walk_sp(w) - (uint64_t)sp->add;
    else if (fp->kind == HELD_REGISTER && fp->reg == r->sp && w->known & REG_BIT(r->fp))
        *ret = w->value[r->fp] - (uint64_t)fp->add;
    else
        return false;
    return *ret >= walk_sp(w);
}

/* Is the value what the register had first? */
static bool is_first(struct held v, unsigned reg)
{
    return v.kind == HELD_REGISTER && v.reg == reg && !v.add;
}

/* Where does the way from an entry have what was in a register there? The stack pointer was `entry`
 * above the present one. What is below the present one was restored, or is nobody's. */
static struct held saved_at(const struct arch_registers *r, const struct execution *x, unsigned reg,
                            int64_t entry)
{
    for (unsigned k = 0; k < x->nr_stored; k++) {
        const struct stored *at = &x->stored[k];
        if (at->reg == r->sp && entry + at->at >= 0 && is_first(at->value, reg))
            return (struct held){.kind = HELD_SLOT, .reg = r->sp, .at = (int32_t)(entry + at->at)};
    }
    return held_unknown;
}

/* The same of the return address. A call on another way here has changed the link register, but
 * only behind an instruction that has saved it. */
static struct held return_address_at(const struct arch_registers *r, const struct execution *x,
                                     int64_t entry)
{
    if (!arch_has_link(r))
        return (struct held){.kind = HELD_SLOT, .reg = r->sp, .at = (int32_t)entry};
    const struct held saved = saved_at(r, x, r->ra, entry);
    return saved.kind == HELD_UNKNOWN && is_first(x->reg[r->ra], r->ra) ? x->reg[r->ra] : saved;
}

/* Is it where it is wanted? */
static bool is_wanted(const struct reached *to, const struct execution *x, uint64_t sp)
{
    const struct walk *w = to->w;
    if (to->wanted && sp != to->wanted)
        return false;
    if (!to->wanted_at)
        return true;
    const struct held v = return_address_at(&w->arch->reg, x, (int64_t)(sp - walk_sp(w)));
    return to->wanted_at == (v.kind == HELD_SLOT ? slot_address(w, v) : IN_LINK_REGISTER);
}

static bool look_backward(void *context, const struct execution *x)
{
    struct reached *to = context;
    uint64_t sp;
    if (!entry_sp(to->w, x, &sp))
        return false;
    if (!is_wanted(to, x, sp)) {
        to->other = true;
        return false;
    }
    to->sp = sp;
    to->at = *x;
    return true;
}

static enum explored follow_from(struct search *s, uint64_t entry, struct reached *to)
{
    unsigned most =
        walk_code(s->w, entry)->code.token == s->code->token ? BACKWARD_MAX : OUTSIDE_MAX;
    to->w = s->w;
    to->other = false;
    const struct explore_goal goal = {.pc = walk_pc(s->w),
                                      .look = look_backward,
                                      .context = to,
                                      .end = entry == s->start ? s->end : 0};
    most = s->left < most ? s->left : most;
    unsigned left = most;
    enum explored got = explore(s->e, s->w, entry, &goal, &left, &s->provenance);
    s->left -= most - left;
    return got;
}

/* Get the way out by the way from the entry. A register has been saved before it was changed. One
 * that was not saved on this way may have been on another one, so nothing is known of it; but where
 * the return address is still in the link register, there is no frame that could hold one. */
static bool way_backward(const struct search *s, const struct reached *to, struct way *ret)
{
    const struct walk *w = s->w;
    const struct arch_registers *r = &w->arch->reg;
    const struct execution *x = &to->at;
    int64_t entry = (int64_t)(to->sp - walk_sp(w));
    if (entry != (int32_t)entry)
        return false;
    int64_t popped = arch_has_link(r) ? 0 : 8;
    *ret = (struct way){.constant = true,
                        .sp = {.kind = HELD_REGISTER, .reg = r->sp, .add = entry + popped},
                        .pc = return_address_at(r, x, entry)};
    bool frameless = ret->pc.kind == HELD_REGISTER;
    for (unsigned i = 0; i < r->nr_saved; i++) {
        unsigned reg = r->saved[i];
        bool kept = frameless && is_first(x->reg[reg], reg);
        ret->saved[i] = kept ? x->reg[reg] : saved_at(r, x, reg, entry);
    }
    return true;
}

/* May a value be a return address? It is in the stack, or still where a call has put it. */
static bool may_be_return_address(const struct arch_registers *r, struct held v)
{
    return v.kind == HELD_SLOT || v.kind == HELD_NUMBER || (arch_has_link(r) && is_first(v, r->ra));
}

/* Get the caller's registers. Returns false if the way leads to no caller. */
static bool leave(struct search *s, struct way_out *ret)
{
    struct walk *w = s->w;
    const struct arch_registers *r = &w->arch->reg;
    const struct way *way = &ret->way;
    ret->provenance = w->provenance > s->provenance ? w->provenance : s->provenance;
    unsigned popped = arch_has_link(r) ? 0 : 8; /* by the return */
    if (!may_be_return_address(r, way->pc) ||
        !resolve(w, way->sp, &ret->value[r->sp], &ret->provenance) ||
        ret->value[r->sp] < walk_sp(w) + popped ||
        !resolve(w, way->pc, &ret->value[r->pc], &ret->provenance))
        return false;
    ret->value[r->pc] &= r->address_mask;
    if (!ret->value[r->pc])
        return false;
    ret->entry_sp = ret->value[r->sp] - popped;
    ret->known = REG_BIT(r->pc) | REG_BIT(r->sp);
    for (unsigned i = 0; i < r->nr_saved; i++) {
        unsigned reg = r->saved[i];
        if (resolve(w, way->saved[i], &ret->value[reg], &ret->provenance))
            ret->known |= REG_BIT(reg);
    }
    return true;
}

/* The same by a way from the entry. */
static bool leave_backward(struct search *s, const struct reached *to)
{
    s->best.entry = 0;
    return way_backward(s, to, &s->best.way) && leave(s, &s->best);
}

/* Look where the function begins, once, and only where nothing else decides: a file may have a
 * hundred thousand symbols. Returns false if nothing names it. */
static bool seek_function(struct search *s)
{
    const struct codemap *map = &s->w->in->code;
    uint64_t pc = walk_pc(s->w) - !walk_is_at_pc(s->w);
    if (!s->function_sought && map->function &&
        !map->function(map->context, pc, s->w->in->memory.time, &s->start, &s->end))
        s->start = s->end = 0;
    s->function_sought = true;
    return s->start != 0;
}

/* ---- calls --------------------------------------------------------------------------------- */

/* What the bytes before a return address say. */
struct call_before {
    bool call;       /* a call is there, or the bytes are not known */
    bool read;       /* the bytes are known */
    uint64_t target; /* of a direct call; else 0 */
};

/* Get the function that a word leads to which a linker fills: from the files, else from memory. */
static bool imported(struct walk *w, uint64_t slot, uint64_t *to)
{
    enum provenance ignored = PROVENANCE_EXACT;
    const struct codemap *map = &w->in->code;
    return (map->imported && map->imported(map->context, slot, to)) ||
           (memory_read(&w->in->memory, slot, to, sizeof(*to), &ignored) && *to &&
            walk_code(w, *to)->code.executable);
}

bool walk_imported(struct walk *w, const uint8_t *code, size_t left, uint64_t pc, uint64_t *to)
{
    uint64_t slot;
    return w->arch->jump_by_slot(code, left, pc, &slot) && imported(w, slot, to);
}

/* A call of a slot of a PLT is one of the function behind it. */
static uint64_t behind_plt(struct walk *w, uint64_t target)
{
    enum { PLT = 16 };
    uint8_t bytes[PLT];
    uint64_t to;
    enum provenance ignored = PROVENANCE_EXACT;
    bool plt = memory_read(&w->in->memory, target, bytes, PLT, &ignored) &&
               walk_imported(w, bytes, PLT, target, &to);
    return plt ? to : target;
}

static struct call_before call_before(struct walk *w, uint64_t pc)
{
    uint64_t slot;
    struct call_before c = {0};
    uint8_t bytes[ARCH_CALL_MAX];
    if (!walk_is_return_address(w, pc, false))
        return c;
    c.call = true;
    c.read = walk_is_return_address(w, pc, true);
    size_t size = c.read ? walk_read_before(w, pc, bytes) : 0;
    if (!size || !w->arch->execute)
        return c;
    if (w->arch->direct_call(bytes + size, size, pc, &c.target))
        c.target = behind_plt(w, c.target);
    else if (!w->arch->call_by_slot || !w->arch->call_by_slot(bytes + size, size, pc, &slot) ||
             !imported(w, slot, &c.target))
        c.target = 0;
    return c;
}

/* The way to the return may have come through another function's end. What the way from the entry
 * has saved is where that way saved it; what was not saved there is not in a slot. */
static void use_saved(struct search *s, const struct reached *to, struct way_out *found)
{
    struct way way;
    struct way_out both = *found;
    if (!way_backward(s, to, &way))
        return;
    for (unsigned i = 0; i < s->w->arch->reg.nr_saved; i++)
        if (way.saved[i].kind == HELD_SLOT || both.way.saved[i].kind == HELD_SLOT)
            both.way.saved[i] = way.saved[i];
    if (leave(s, &both))
        *found = both;
}

/* Judge a caller that was found forward: does its call lead here with the stack this deep? */
static enum grade judge(struct search *s, struct way_out *found, bool unsure)
{
    const struct call_before c = call_before(s->w, found->value[s->w->arch->reg.pc]);
    struct reached to = {.wanted = found->entry_sp};
    enum explored got = EXPLORED_PART;
    if (!c.call)
        return GRADE_NONE;
    if (c.read && !unsure)
        return GRADE_PROVEN;
    if (c.target)
        got = follow_from(s, c.target, &to);
    found->entry = 0;
    if (got == EXPLORED_FOUND) {
        found->entry = c.target;
        use_saved(s, &to, found);
        return GRADE_PROVEN;
    }
    if (got == EXPLORED_ALL)
        return GRADE_NONE; /* that call leads elsewhere */
    if (c.read && seek_function(s) && s->start != c.target &&
        follow_from(s, s->start, &to) == EXPLORED_FOUND)
        return GRADE_PROVEN;
    return GRADE_GUESS;
}

/* ---- forward ------------------------------------------------------------------------------- */

/* Get the way out where the code has returned. */
static struct way way_forward(const struct arch_registers *r, const struct execution *x)
{
    struct way way = {.constant = !x->has_read, .sp = x->reg[r->sp], .pc = x->reg[r->pc]};
    for (unsigned i = 0; i < r->nr_saved; i++)
        way.saved[i] = x->reg[r->saved[i]];
    return way;
}

/* The ways that return. The explorer goes on only after this, so `found` is judged later. */
enum { FOUND_MAX = 4 };
struct returns {
    struct search *s;
    unsigned nr;
    struct {
        struct way_out out;
        bool unsure;
    } at[FOUND_MAX];
};

static bool same_way(const struct way_out *a, const struct way_out *b, const struct arch *arch)
{
    return a->entry_sp == b->entry_sp && a->value[arch->reg.pc] == b->value[arch->reg.pc];
}

static bool look_forward(void *context, const struct execution *x)
{
    struct returns *r = context;
    struct way_out *out = &r->at[r->nr].out;
    out->way = way_forward(&r->s->w->arch->reg, x);
    if (!leave(r->s, out) ||
        !walk_is_return_address(r->s->w, out->value[r->s->w->arch->reg.pc], false))
        return false;
    for (unsigned i = 0; i < r->nr; i++) {
        if (!same_way(&r->at[i].out, out, r->s->w->arch))
            continue;
        if (r->at[i].unsure && !x->unsure) { /* its registers are the sure ones */
            r->at[i].out = *out;
            r->at[i].unsure = false;
        }
        return !r->at[i].unsure;
    }
    r->at[r->nr++].unsure = x->unsure;
    return !x->unsure || r->nr == FOUND_MAX;
}

static bool read_forward(void *context, struct held address, uint64_t *ret)
{
    struct returns *r = context;
    return read_word(r->s, address, ret);
}

/* Is a way out better than the best so far? Of two that calls prove, one may have come through code
 * that is behind a call that never returns: the one is right whose function begins nearer to the
 * pc. */
static bool is_better(const struct search *s, const struct way_out *out)
{
    const struct way_out *best = &s->best;
    uint64_t pc = walk_pc(s->w);
    if (out->grade != best->grade)
        return out->grade > best->grade;
    return out->grade == GRADE_PROVEN && out->entry && best->entry &&
           pc - out->entry < pc - best->entry;
}

/* Look for returns. The best way out is in s->best. */
static void search_forward(struct search *s)
{
    struct returns found = {.s = s};
    const struct explore_goal goal = {
        .look = look_forward, .context = &found, .read = read_forward};
    unsigned left = FORWARD_MAX;
    (void)explore(s->e, s->w, walk_pc(s->w), &goal, &left, &s->provenance);
    for (unsigned unsure = 0; unsure < 2 && s->best.grade != GRADE_PROVEN; unsure++) {
        for (unsigned i = 0; i < found.nr; i++) {
            struct way_out *out = &found.at[i].out;
            if (found.at[i].unsure != unsure)
                continue;
            out->grade = judge(s, out, unsure);
            if (is_better(s, out))
                s->best = *out;
        }
    }
}

/* ---- ways that are known ------------------------------------------------------------------- */

/* Ways that were proven, by the pc and the caller's pc. A program comes to the same places again
 * and again. As a module's bytes never change, neither does a way. */
enum { WAY_BITS = 10 };
struct way_cache {
    struct {
        uint64_t pc, caller; /* keys; 0: free */
        struct way way;
    } at[1 << WAY_BITS];
};

/* Returns the key of an address; 0: it has none. */
static uint64_t key_of(struct walk *w, uint64_t pc)
{
    return walk_file_key(&walk_code(w, pc)->code, pc) << 1;
}

/* Returns the place of the ways from this pc; NULL: it has no key, or memory is out. */
static struct way_cache *ways_of(struct search *s, uint64_t *key, size_t *at)
{
    struct way_cache **cache = explorer_cache(s->e);
    *key = key_of(s->w, walk_pc(s->w) - !walk_is_at_pc(s->w));
    *key |= *key && walk_is_at_pc(s->w);
    *at = hash_u64(*key) >> (64 - WAY_BITS);
    if (*key && !*cache)
        *cache = calloc(1, sizeof(**cache));
    return *key ? *cache : NULL;
}

static bool by_known_way(struct search *s)
{
    uint64_t key;
    size_t at;
    const struct way_cache *ways = ways_of(s, &key, &at);
    if (!ways || ways->at[at].pc != key)
        return false;
    s->best.way = ways->at[at].way;
    if (!leave(s, &s->best) ||
        key_of(s->w, s->best.value[s->w->arch->reg.pc] - 1) != ways->at[at].caller)
        return false;
    s->best.grade = GRADE_PROVEN;
    return true;
}

static void keep_way(struct search *s)
{
    uint64_t key, caller = key_of(s->w, s->best.value[s->w->arch->reg.pc] - 1);
    size_t at;
    struct way_cache *ways = s->best.way.constant && caller ? ways_of(s, &key, &at) : NULL;
    if (!ways)
        return;
    ways->at[at].pc = key;
    ways->at[at].caller = caller;
    ways->at[at].way = s->best.way;
}

/* ---- steps --------------------------------------------------------------------------------- */

static bool begin(struct search *s, struct walk *w, const struct code *code)
{
    if (!w->arch->execute || !code->executable)
        return false;
    s->w = w;
    s->code = code;
    s->e = explorer_of(w);
    s->provenance = PROVENANCE_EXACT;
    s->left = SEARCH_MAX;
    s->best.grade = GRADE_NONE;
    uint8_t byte; /* of generated code mostly nothing is known */
    enum provenance ignored = PROVENANCE_EXACT;
    if (!s->e || !memory_read(&w->in->memory, walk_pc(w), &byte, 1, &ignored))
        return false;
    s->function_sought = false;
    s->start = s->end = 0;
    return true;
}

static enum step_result take(struct search *s, const char *text)
{
    struct walk *w = s->w;
    const struct arch_registers *r = &w->arch->reg;
    const struct way_out *best = &s->best;
    const struct held pc = best->way.pc;
    uint64_t at = pc.kind == HELD_SLOT ? slot_address(w, pc) : best->entry_sp;
    if (pc.kind == HELD_REGISTER)
        text = "the instructions say that the link register still has the return address";
    trace_say(w->in, w->out, TRACE_WAY, text, at, 0);
    w->provenance = best->provenance;
    if (best->grade != GRADE_PROVEN) {
        w->provenance = PROVENANCE_GUESS;
        trace_mark(
            w->in, w->out->frames.nr, PROVENANCE_GUESS,
            "the step to it is not proven: the instructions lead to the word at #, but a call "
            "is on the way, which may not return, and no call is known to lead here",
            at);
    }
    if (best->grade == GRADE_PROVEN)
        keep_way(s);
    w->known = best->known & r->survives;
    for (unsigned reg = 0; reg < r->nr; reg++)
        w->value[reg] = w->known & REG_BIT(reg) ? best->value[reg] : w->value[reg];
    return STEP_OK;
}

/* By the function's own entry, which a symbol or a compiler's list tells. */
static bool by_function(struct search *s)
{
    struct reached to = {0};
    if (!seek_function(s) || follow_from(s, s->start, &to) != EXPLORED_FOUND ||
        !leave_backward(s, &to) ||
        !walk_is_return_address(s->w, s->best.value[s->w->arch->reg.pc], true))
        return false;
    s->best.grade = GRADE_PROVEN;
    return true;
}

/* Entries of functions that were tried in vain. */
struct in_vain {
    unsigned nr;
    uint64_t entry[ENTRIES_MAX];
};

/* Is a word a return address behind a call of a function that leads here, as `to` wants it? */
static bool by_word(struct search *s, uint64_t word, struct reached *to, struct in_vain *vain)
{
    const uint64_t entry = call_before(s->w, word & s->w->arch->reg.address_mask).target;
    bool tried = !entry;
    for (unsigned j = 0; j < vain->nr && !tried; j++)
        tried = vain->entry[j] == entry;
    if (tried)
        return false;
    if (follow_from(s, entry, to) == EXPLORED_FOUND && leave_backward(s, to)) {
        s->best.grade = GRADE_PROVEN;
        return true;
    }
    if (!to->other) /* else another word behind a call of it may fit */
        vain->entry[vain->nr++] = entry;
    return false;
}

/* The same of the link register. */
static bool by_link_register(struct search *s)
{
    const struct arch_registers *r = &s->w->arch->reg;
    struct reached to = {.wanted_at = IN_LINK_REGISTER};
    struct in_vain vain = {0};
    return arch_has_link(r) && s->w->known & REG_BIT(r->ra) &&
           by_word(s, s->w->value[r->ra], &to, &vain);
}

/* By the words of the stack below `end`: is one behind a call of a function that leads here, and
 * just so far from here? */
static bool by_words(struct search *s, uint64_t end)
{
    struct in_vain vain = {0};
    bool link = arch_has_link(&s->w->arch->reg);
    enum provenance ignored = PROVENANCE_EXACT;
    for (unsigned i = 0; i < SEARCH_WORDS && vain.nr < ENTRIES_MAX && s->left; i++) {
        uint64_t word, at = walk_sp(s->w) + 8 * (uint64_t)i;
        struct reached to = {.wanted = link ? 0 : at, .wanted_at = link ? at : 0};
        if (at >= end || !memory_read_slot(&s->w->in->memory, at, &word, &ignored))
            return false;
        if (by_word(s, word, &to, &vain))
            return true;
    }
    return false;
}

/* A caller whose call leads to a function behind the pc, or far before it, has come through a jump
 * between functions, or through code behind a call that never returns. Then a caller nearer by is
 * looked for. */
static void look_nearer(struct search *s)
{
    enum { NEAR = 64 << 10 };
    const struct way_out found = s->best;
    if (walk_pc(s->w) - found.entry >= NEAR && !by_words(s, found.entry_sp))
        s->best = found;
}

enum step_result walk_by_instructions(struct walk *w, const struct code *code)
{
    const struct code held = *code; /* look-ups may replace *code */
    struct search s;
    if (!begin(&s, w, &held))
        return STEP_NO;
    if (TRACE_LIKELY_NULL(w->in->trace) && by_known_way(&s)) /* whoever traces wants the reasons */
        return take(&s, NULL);
    s.best.grade = GRADE_NONE;
    search_forward(&s);
    if (s.best.grade == GRADE_PROVEN && s.best.entry)
        look_nearer(&s);
    if (s.best.grade == GRADE_PROVEN)
        return take(&s, "the instructions up to a return say that the return address is at #");
    if (walk_outermost(w, &held) == STEP_DONE)
        return STEP_DONE;
    const struct way_out guessed = s.best;
    if (by_function(&s))
        return take(&s, "the instructions from the function's entry to the pc say that the return "
                        "address is at #");
    if (by_link_register(&s) || by_words(&s, UINT64_MAX))
        return take(&s, "the call before the return address at # leads to the pc, with the stack "
                        "as deep as it is");
    s.best = guessed;
    if (guessed.grade == GRADE_GUESS)
        return take(&s, "the instructions up to a return lead to the word at #");
    trace_say(w->in, w->out, TRACE_REFUSED,
              "the instructions around # lead to no return address, and no call leads to them",
              walk_pc(w), 0);
    return STEP_NO;
}
