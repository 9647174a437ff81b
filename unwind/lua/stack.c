/* SPDX-License-Identifier: GPL-2.0-only */
/* The calls of a lua_State. See stack.h. */
#include "unwind/lua/stack.h"

#include <string.h>

enum { SLOT = 16 };

/* While a stack is moved to other memory, 5.4.5 and later keep offsets in place of pointers to
 * slots; before, the pointers are corrected one by one. */
enum { OFFSETS_MAX = 1 << 26 };

static uint64_t slot_address(const struct lua_state *s, uint64_t slot)
{
    uint64_t before = slot - s->moved;
    if (s->moved && before < OFFSETS_MAX && before < slot - s->stack)
        return s->stack + before;
    bool is_pointer = slot >= s->stack && slot - s->stack < OFFSETS_MAX;
    return is_pointer || slot >= OFFSETS_MAX ? slot : s->stack + slot;
}

/* Take the base's function, which is the stack's first slot. In a list (5.2 on) it is corrected
 * last. */
static void take_moved(struct lua_state *s, uint64_t first)
{
    s->moved = first != s->stack && first >= OFFSETS_MAX && lua_is_address(first) ? first : 0;
}

static bool is_in_array(const struct lua_fields *f, const struct lua_state *s)
{
    return s->base_ci <= s->ci && (s->ci - s->base_ci) % f->ci.size == 0;
}

static bool is_sound(const struct lua_fields *f, const struct lua_state *s)
{
    uint64_t slots = (s->top - s->stack) / SLOT;
    if (s->stack > s->top || (s->top - s->stack) % SLOT || slots > LUA_SLOTS_MAX + 1000)
        return false;
    return !f->ci.is_array || is_in_array(f, s);
}

bool lua_state_read(struct lua_reader *r, uint64_t address, bool strict, struct lua_state *ret)
{
    const struct lua_fields *f = &r->layout->fields;
    uint8_t bytes[LUA_STATE_MAX];
    enum provenance before = r->provenance, own;
    r->provenance = PROVENANCE_EXACT;
    bool read = lua_is_address(address) && f->state.size <= sizeof(bytes) &&
                lua_read_moving(r, address, bytes, f->state.size);
    own = r->provenance;
    r->provenance = own > before ? own : before;
    if (!read || (bytes[LUA_OBJECT_TAG] & LUA_TAG_MASK) != LUA_TTHREAD)
        return false;
    *ret = (struct lua_state){
        .address = address,
        .global = lua_u64(bytes, f->state.global),
        .ci = lua_u64(bytes, f->state.ci),
        .stack = lua_u64(bytes, f->state.stack),
        .top = lua_u64(bytes, f->state.top),
        .base_ci = f->ci.is_array ? lua_u64(bytes, f->state.base_ci) : address + f->state.base_ci,
        .savedpc = f->state.savedpc == LUA_NO_FIELD ? 0 : lua_u64(bytes, f->state.savedpc),
        .status = bytes[f->state.status],
        .hookmask = bytes[f->state.hookmask],
        .provenance = (uint8_t)own,
    };
    if (!f->ci.is_array)
        take_moved(ret, lua_u64(bytes, (size_t)f->state.base_ci + f->ci.func));
    ret->top = slot_address(ret, ret->top);
    return lua_is_address(ret->global) && lua_is_address(ret->ci) && lua_is_address(ret->stack) &&
           (!strict || is_sound(f, ret));
}

bool lua_state_has_call(struct lua_reader *r, const struct lua_state *s)
{
    const struct lua_fields *f = &r->layout->fields;
    uint8_t bytes[LUA_CI_MAX], older[LUA_CI_MAX];
    if (s->ci == s->base_ci || !lua_read_moving(r, s->ci, bytes, f->ci.size))
        return false;
    if (f->ci.is_array)
        return is_in_array(f, s);
    return lua_read_moving(r, lua_u64(bytes, f->ci.previous), older, f->ci.size) &&
           lua_u64(older, f->ci.next) == s->ci;
}

/* ---- one call ------------------------------------------------------------------------------ */

static uint32_t status_of(const struct lua_fields *f, const uint8_t *ci)
{
    if (f->ci.is_array)
        return lua_u32(ci, f->ci.tail_calls);
    uint32_t status = ci[f->ci.status];
    for (unsigned i = 1; i < f->ci.status_size; i++)
        status |= (uint32_t)ci[f->ci.status + i] << 8 * i;
    return status;
}

/* Take what the status says. */
static void take_status(const struct lua_fields *f, struct lua_call *c)
{
    if (f->ci.is_array) {
        c->is_lua = c->function.kind != LUA_FUNCTION_C;
        c->is_tail = c->status != 0;
        return;
    }
    c->is_lua = f->ci.lua ? (c->status & f->ci.lua) != 0 : !(c->status & f->ci.c);
    c->is_fresh = f->ci.fresh_always || !(c->status & f->ci.fresh) == f->ci.fresh_if_clear;
    c->is_tail = (c->status & f->ci.tail) != 0;
    c->is_hooked = (c->status & f->ci.hooked) != 0;
    c->is_finalizer = (c->status & f->ci.finalizer) != 0;
}

/* Read the function in the call's slot. */
static void take_function(struct lua_reader *r, struct lua_call *c)
{
    uint8_t copy[SLOT];
    const uint8_t *slot = lua_take_moving(r, &r->slots, c->func, copy, sizeof(copy));
    if (slot)
        lua_called_function(r, lua_value_of(&r->layout->fields, slot), &c->function);
}

static void take_ci(struct lua_reader *r, const struct lua_state *s, uint64_t address,
                    const uint8_t *bytes, struct lua_call *c)
{
    const struct lua_fields *f = &r->layout->fields;
    *c = (struct lua_call){.ci = address,
                           .func = slot_address(s, lua_u64(bytes, f->ci.func)),
                           .top = slot_address(s, lua_u64(bytes, f->ci.top)),
                           .savedpc = lua_u64(bytes, f->ci.savedpc),
                           .status = status_of(f, bytes),
                           .index = UINT32_MAX};
    take_function(r, c);
    take_status(f, c);
    if (c->is_lua && c->function.kind == LUA_FUNCTION_C)
        c->function.kind = LUA_FUNCTION_NONE; /* the slot holds something else already */
    if (!c->is_lua && c->function.kind == LUA_FUNCTION_LUA)
        c->function.kind = LUA_FUNCTION_NONE;
    if (!c->is_lua)
        return;
    c->base =
        f->ci.base == LUA_NO_FIELD ? c->func + SLOT : slot_address(s, lua_u64(bytes, f->ci.base));
    if (f->ci.extra_args != LUA_NO_FIELD)
        c->nr_extra = lua_u32(bytes, f->ci.extra_args);
}

bool lua_call_set_pc(struct lua_call *c, uint64_t pc)
{
    const struct lua_function *f = &c->function;
    uint64_t offset = pc - f->code;
    c->index = UINT32_MAX;
    if (f->kind != LUA_FUNCTION_LUA || !f->code || offset % 4 || offset / 4 > f->nr_code)
        return false;
    c->index = offset ? (uint32_t)(offset / 4 - 1) : UINT32_MAX;
    return true;
}

/* Add what the call's function rests on. Its objects were read at other moments: where a single
 * reading tells them, the pc in the call must agree. */
static void take_proof(struct lua_call *c, bool agrees)
{
    if (c->function.provenance > c->provenance)
        c->provenance = c->function.provenance;
    if (c->function.by_one_reading && !agrees && c->provenance < PROVENANCE_STALE)
        c->provenance = PROVENANCE_STALE;
}

/* ---- lists --------------------------------------------------------------------------------- */

/* Take one CI, and what its reads rest on. Returns false if memory is out. */
static bool push_call(struct lua_reader *r, const struct lua_state *s, uint64_t address,
                      const uint8_t *bytes, lua_call_list *ret)
{
    enum provenance before = r->provenance;
    if (!vec_reserve(ret, ret->nr + 1))
        return false;
    struct lua_call *c = &ret->at[ret->nr++];
    take_ci(r, s, address, bytes, c);
    bool agrees = c->is_lua && c->savedpc && lua_call_set_pc(c, c->savedpc);
    c->provenance = (uint8_t)r->provenance;
    take_proof(c, agrees);
    r->provenance = before;
    return true;
}

/* 5.1: the CIs are an array; the newest function's pc is in the state. */
static int calls_of_array(struct lua_reader *r, const struct lua_state *s, lua_call_list *ret)
{
    const struct lua_fields *f = &r->layout->fields;
    uint8_t bytes[LUA_CI_MAX];
    uint64_t nr = (s->ci - s->base_ci) / f->ci.size;
    if (s->ci < s->base_ci || nr > LUA_CALLS_MAX)
        return 0;
    for (uint64_t at = s->ci; at > s->base_ci; at -= f->ci.size) {
        const uint8_t *ci = lua_take_moving(r, &r->calls, at, bytes, f->ci.size);
        if (!ci)
            return 0;
        if (at == s->ci) {
            memmove(bytes, ci, f->ci.size);
            memcpy(bytes + f->ci.savedpc, &s->savedpc, sizeof(s->savedpc));
            ci = bytes;
        }
        if (!push_call(r, s, at, ci, ret))
            return -1;
    }
    return 1;
}

/* Later versions: a list. Its nodes point at each other. */
static int calls_of_list(struct lua_reader *r, const struct lua_state *s, lua_call_list *ret)
{
    const struct lua_fields *f = &r->layout->fields;
    uint8_t bytes[LUA_CI_MAX];
    uint64_t newer = 0;
    size_t first = ret->nr;
    for (uint64_t at = s->ci; ret->nr - first < LUA_CALLS_MAX;) {
        const uint8_t *ci =
            lua_is_address(at) ? lua_take_moving(r, &r->calls, at, bytes, f->ci.size) : NULL;
        if (!ci || (newer && lua_u64(ci, f->ci.next) != newer))
            return 0;
        uint64_t previous = lua_u64(ci, f->ci.previous);
        if (!previous) /* the base: it stands for the C code that has made the state */
            return 1;
        if (!push_call(r, s, at, ci, ret))
            return -1;
        newer = at;
        at = previous;
    }
    return 0;
}

int lua_state_calls(struct lua_reader *r, const struct lua_state *s, lua_call_list *ret)
{
    const struct lua_fields *f = &r->layout->fields;
    struct lua_state array = *s;
    uint8_t first[8];
    if (!f->ci.is_array)
        return calls_of_list(r, s, ret);
    if (lua_read_moving(r, s->base_ci + f->ci.func, first, sizeof(first)))
        take_moved(&array, lua_u64(first, 0));
    return calls_of_array(r, &array, ret);
}
