/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds the instructions around a fetch while its register holds the address of what is fetched.
 *
 * They end with the instruction that writes the register: it has not run when the thread stands at
 * it. They begin where ways join before the fetch, or behind the arithmetic that made the address:
 * what runs there belongs to no bytecode instruction any more. A copy of the address does not begin
 * them: compilers make it early, while a bytecode instruction still works.
 */
#include "unwind/lua/discover_internal.h"

enum { NEAR = 8 /* instructions on either side */ };

static bool writes(const struct flow_insn *i, unsigned reg)
{
    return insn_written(&i->is) >> reg & 1;
}

static bool is_jumped_to(const struct flow_code *code, uint64_t at)
{
    for (size_t i = 0; i < code->insns.nr; i++) {
        uint64_t target;
        enum insn_way way = flow_way(&code->insns.at[i], &target);
        if ((way == WAY_JUMP || way == WAY_BRANCH) && target == at)
            return true;
    }
    return false;
}

static size_t first_of(const struct flow_code *code, size_t fetch, unsigned reg)
{
    bool load;
    for (size_t i = fetch; fetch - i < NEAR; i--) {
        const struct flow_insn *before = i ? &code->insns.at[i - 1] : NULL;
        if (is_jumped_to(code, code->insns.at[i].at))
            return i;
        if (!before || flow_end(before) != code->insns.at[i].at || !flow_is_straight(before))
            break;
        if (writes(before, reg))
            return flow_is_move(&before->is, &load) ? fetch : i;
    }
    return fetch;
}

static size_t last_of(const struct flow_code *code, size_t fetch, unsigned reg)
{
    size_t i = fetch;
    while (i - fetch < NEAR && !writes(&code->insns.at[i], reg) &&
           flow_is_straight(&code->insns.at[i]) && i + 1 < code->insns.nr &&
           flow_end(&code->insns.at[i]) == code->insns.at[i + 1].at)
        i++;
    return i;
}

void lua_add_fetch(const struct flow_code *code, size_t fetch, struct lua_layout *ret)
{
    const struct insn_parts *is = &code->insns.at[fetch].is;
    if (ret->nr_fetches == LUA_FETCHES_MAX)
        return;
    const struct flow_insn *last = &code->insns.at[last_of(code, fetch, is->base)];
    ret->fetches[ret->nr_fetches++] =
        (struct lua_fetch){.start = code->insns.at[first_of(code, fetch, is->base)].at,
                           .end = last->at + 1,
                           .reg = lua_dwarf_number(is->base),
                           .disp = (int8_t)is->disp};
}
