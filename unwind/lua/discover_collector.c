/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds the garbage collector's step (luaC_step): what the interpreter calls where a counter of the
 * global_State says that enough has been allocated. It loads l_G, compares a word behind it with 0
 * or with another one (5.1: its threshold), and one of both ways comes to the call soon.
 */
#include "unwind/lua/discover_internal.h"

#include "unwind/native/cfi.h"

enum {
    NEAR = 8,       /* instructions from the load to the jump */
    CALL_NEAR = 16, /* from there to the call */
    TARGETS_MAX = 16,
    COLLECTOR_MAX = 1 << 14, /* bytes */
};

struct targets {
    uint64_t at[TARGETS_MAX];
    unsigned votes[TARGETS_MAX], nr;
};

static void vote(struct targets *t, uint64_t at)
{
    unsigned i = 0;
    while (i < t->nr && t->at[i] != at)
        i++;
    if (i == TARGETS_MAX)
        return;
    t->at[i] = at;
    t->votes[i] = i == t->nr ? 1 : t->votes[i] + 1;
    t->nr += i == t->nr;
}

static bool is_in_global(const struct insn_parts *is, unsigned global)
{
    return !is->map && !is->vector && is->wide && !is->is_register && is->base == global &&
           is->index == INSN_NO_REGISTER;
}

/* cmp [global + d], 0; cmp r, [global + d]; cmp [global + d], r */
static bool is_comparison(const struct insn_parts *is, unsigned global)
{
    if (!is_in_global(is, global))
        return false;
    return is->opcode == 0x39 || is->opcode == 0x3b ||
           (is->opcode == 0x83 && (is->reg & 7) == 7 && is->value == 0);
}

/* test r, r */
static bool is_test_of(const struct insn_parts *is, unsigned reg)
{
    return !is->map && !is->vector && is->wide && is->is_register && is->opcode == 0x85 &&
           is->reg == reg && is->rm == reg;
}

/* Vote for the call to which the straight code at `at` comes. */
static void vote_for_call(const struct flow_code *code, uint64_t at, struct targets *t)
{
    const struct flow_insn *i;
    for (unsigned n = 0; n < CALL_NEAR && (i = flow_at(code, at)); n++) {
        uint64_t target;
        enum insn_way way = flow_way(i, &target);
        if (way == WAY_CALL && target)
            vote(t, target);
        if (way != WAY_NEXT && way != WAY_JUMP)
            return;
        at = way == WAY_JUMP ? target : flow_end(i);
    }
}

/* The instruction `load` has put l_G into register `global`: follow it to a comparison and its
 * jump. */
static void follow(const struct flow_code *code, size_t load, unsigned global, struct targets *t)
{
    unsigned tested = INSN_NO_REGISTER;
    bool compared = false;
    for (size_t i = load + 1; i < code->insns.nr && i - load <= NEAR; i++) {
        const struct insn_parts *is = &code->insns.at[i].is;
        uint64_t target;
        enum insn_way way = flow_way(&code->insns.at[i], &target);
        if (way == WAY_BRANCH && compared) {
            vote_for_call(code, flow_end(&code->insns.at[i]), t);
            vote_for_call(code, target, t);
        }
        if (way != WAY_NEXT)
            return;
        compared |=
            is_comparison(is, global) || (tested != INSN_NO_REGISTER && is_test_of(is, tested));
        if (flow_is_load(is) && is_in_global(is, global))
            tested = is->reg;
        if (insn_written(is) >> global & 1 && !compared && tested == INSN_NO_REGISTER)
            return;
    }
}

/* Add the function that begins at an address. */
static void add_function(const struct runtime_image *image, uint64_t at, struct lua_layout *ret)
{
    struct fde fde;
    for (unsigned i = 0; i < ret->nr_collectors; i++)
        if (ret->collectors[i].start == at)
            return;
    if (ret->nr_collectors < LUA_COLLECTORS_MAX && image->cfi &&
        cfi_find_fde(image->cfi, at, &fde) && fde.begin == at)
        ret->collectors[ret->nr_collectors++] = (struct lua_range){at, at + fde.size};
}

/* Add the functions to which the collector's step jumps at its end: its own frame is gone while
 * they run (5.2: luaC_forcestep). */
static void add_tails(const struct runtime_image *image, struct lua_layout *ret)
{
    const struct lua_range step = ret->collectors[0];
    struct flow_code code = {0};
    if (step.end - step.start > COLLECTOR_MAX || flow_add_part(&code, image, step, NULL) < 0)
        return;
    for (size_t i = 0; i < code.insns.nr; i++) {
        uint64_t target;
        enum insn_way way = flow_way(&code.insns.at[i], &target);
        if ((way == WAY_JUMP || way == WAY_BRANCH) && target - step.start >= step.end - step.start)
            add_function(image, target, ret);
    }
    flow_free(&code);
}

/* Returns the target with most votes; 0: there is none, or it has a single vote, or as many as
 * another. */
static uint64_t elected(const struct targets *t)
{
    unsigned best = 0;
    bool tie = false;
    for (unsigned i = 1; i < t->nr; i++) {
        tie = t->votes[i] == t->votes[best] || (tie && t->votes[i] < t->votes[best]);
        best = t->votes[i] > t->votes[best] ? i : best;
    }
    return t->nr && t->votes[best] > 1 && !tie ? t->at[best] : 0;
}

void lua_find_collector(const struct runtime_image *image, const struct flow_code *code,
                        struct lua_layout *ret)
{
    struct targets t = {0};
    for (size_t i = 0; i < code->insns.nr; i++) {
        const struct insn_parts *is = &code->insns.at[i].is;
        bool load;
        if (flow_is_move(is, &load) && load && is->wide && !is->is_register &&
            is->index == INSN_NO_REGISTER && is->disp == ret->fields.state.global)
            follow(code, i, is->reg, &t);
    }
    if (elected(&t))
        add_function(image, elected(&t), ret);
    if (ret->nr_collectors)
        add_tails(image, ret);
}
