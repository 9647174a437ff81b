/* SPDX-License-Identifier: GPL-2.0-only */
/* Walks a segment of a Lua stack. */
#include "unwind/luajit/stack.h"

uint64_t luajit_bottom(const struct luajit_reader *r, const struct luajit_state *L)
{
    return L->stack + 8 * (uint64_t)r->layout->frame_slots;
}

const struct luajit_function *luajit_function_at(struct luajit_reader *r,
                                                 const struct luajit_state *L, uint64_t base,
                                                 uint64_t *link)
{
    static const struct luajit_function none;
    struct luajit_header header;
    if (!luajit_header_read(r, L, base, &header))
        return &none;
    if (link)
        *link = header.link;
    return luajit_function_read(r, header.func);
}

/* The base of the frame that called with `instruction`; 0: it is no call. */
static uint64_t base_of_call(const struct luajit_layout *l, uint64_t base, uint32_t instruction)
{
    int op = (int)(instruction & 0xff);
    if (op != l->op_call && op != l->op_callm && op != l->op_iterc && op != l->op_itern)
        return 0;
    uint64_t distance = 8 * ((uint64_t)l->frame_slots + (instruction >> 8 & 0xff));
    return base > distance ? base - distance : 0;
}

uint64_t luajit_caller_base(struct luajit_reader *r, uint64_t base, uint64_t pc)
{
    uint32_t instruction;
    if (pc < 8 || pc % 4 != 0 || !luajit_read_u32(r, pc - 4, &instruction))
        return 0;
    return base_of_call(r->layout, base, instruction);
}

bool luajit_link_sane(struct luajit_reader *r, const struct luajit_state *L, uint64_t base,
                      uint64_t link)
{
    uint64_t bottom = luajit_bottom(r, L), distance = link & ~UINT64_C(7);
    if (base == bottom)
        return true;
    switch (luajit_link_type(link)) {
    case LUAJIT_LINK_LUA:
        return luajit_caller_base(r, base, link) >= bottom;
    case 4:
        return false;
    default:
        return distance > 0 && distance <= base - bottom;
    }
}

bool luajit_continuation_read(struct luajit_reader *r, const struct luajit_state *L, uint64_t base,
                              uint64_t *cont, uint64_t *pc)
{
    uint64_t word;
    if (r->layout->gc64)
        return luajit_slot_read(r, L, base - 32, cont) && luajit_slot_read(r, L, base - 24, pc);
    if (!luajit_slot_read(r, L, base - 16, &word))
        return false;
    *cont = (uint32_t)word;
    *pc = word >> 32;
    return true;
}

struct step {
    struct lua_position next;
    bool ends;   /* the frame was called by C */
    bool called; /* a Lua function called it: next.pc must be in that function */
};

/* Step from a frame to the one below, by its link. */
static enum luajit_segment_end step_down(struct luajit_reader *r, const struct luajit_state *L,
                                         struct lua_position at, uint64_t link, struct step *ret)
{
    unsigned type = luajit_link_type(link);
    uint64_t cont = 0;
    uint32_t instruction;
    *ret = (struct step){.next = {.base = at.base - (link & ~UINT64_C(7))}};
    switch (type) {
    case LUAJIT_LINK_LUA:
        if (!luajit_read_u32(r, link - 4, &instruction))
            return LUAJIT_SEGMENT_UNREAD;
        ret->next = (struct lua_position){base_of_call(r->layout, at.base, instruction), link};
        ret->called = true;
        break;
    case LUAJIT_LINK_CONT:
        if (!luajit_continuation_read(r, L, at.base, &cont, &ret->next.pc))
            return LUAJIT_SEGMENT_UNREAD;
        if (cont == 1) { /* an FFI callback: the second word is a type */
            ret->ends = true;
            ret->next.pc = 0;
        }
        break;
    case LUAJIT_LINK_VARG:
        ret->next.pc = at.pc;
        break;
    case LUAJIT_LINK_C:
    case LUAJIT_LINK_CP:
        ret->ends = true;
        break;
    case LUAJIT_LINK_PCALL:
    case LUAJIT_LINK_PCALLH:
        break;
    default:
        return LUAJIT_SEGMENT_BAD;
    }
    if (ret->next.base >= at.base || ret->next.base < luajit_bottom(r, L))
        return LUAJIT_SEGMENT_BAD;
    return LUAJIT_SEGMENT_C;
}

/* Show a frame's function. A vararg function has two frames and is shown once: with the pc and the
 * variables of the upper frame, and the caller of the lower one. */
static bool show(const struct luajit_sink *sink, const struct luajit_function *f,
                 struct lua_position at)
{
    if (f->dummy)
        return true;
    if (!luajit_pc_inside(f, at.pc))
        at.pc = 0;
    return sink->frame(sink->context, f, at);
}

enum luajit_segment_end luajit_segment_walk(struct luajit_reader *r, const struct luajit_state *L,
                                            struct lua_position at, const struct luajit_function *f,
                                            const struct luajit_sink *sink,
                                            struct lua_position *next)
{
    const struct luajit_function *given = f;
    bool called = false;
    uint64_t bottom = luajit_bottom(r, L), variables = 0; /* 0: at the frame's own base */
    while (luajit_spend(r)) {
        struct luajit_header header;
        struct step step;
        *next = at;
        if (at.base <= bottom)
            return at.base == bottom ? LUAJIT_SEGMENT_BOTTOM : LUAJIT_SEGMENT_BAD;
        if (at.base > L->end || at.base % 8 != 0)
            return LUAJIT_SEGMENT_BAD;
        if (!luajit_header_read(r, L, at.base, &header))
            return LUAJIT_SEGMENT_UNREAD;
        const struct luajit_function *here = given ? given : luajit_function_read(r, header.func);
        given = NULL;
        struct luajit_function gone;
        if (called && !here->unread && !luajit_pc_inside(here, at.pc)) {
            if (here->provenance == PROVENANCE_EXACT)
                return LUAJIT_SEGMENT_BAD;
            /* Another object is at the address by now. */
            gone = (struct luajit_function){.address = here->address, .unread = true};
            here = &gone;
        }
        if (here->address == 0)
            return LUAJIT_SEGMENT_BAD;
        enum luajit_segment_end got = step_down(r, L, at, header.link, &step);
        if (got != LUAJIT_SEGMENT_C)
            return got;
        if (!variables)
            variables = at.base;
        if (luajit_link_type(header.link) != LUAJIT_LINK_VARG) {
            if (!show(sink, here, (struct lua_position){variables, at.pc}))
                return LUAJIT_SEGMENT_FULL;
            variables = 0;
        }
        at = step.next;
        *next = at;
        called = step.called;
        if (step.ends)
            return LUAJIT_SEGMENT_C;
    }
    return LUAJIT_SEGMENT_BAD;
}
