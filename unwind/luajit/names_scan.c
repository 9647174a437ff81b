/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/luajit/names_scan.h"

#include "unwind/managed.h"

#include <stdio.h>

static bool spend(const struct luajit_scan *s)
{
    return *s->budget && (*s->budget)--;
}

static const char *local(const struct luajit_scan *s, uint32_t slot, uint32_t position,
                         char *buffer)
{
    return luajit_proto_local(s->p, slot, position, buffer, s->budget);
}

const char *luajit_name_kind_text(enum luajit_name_kind kind)
{
    static const char *const texts[] = {"",       "local", "upvalue",   "global",
                                        "method", "field", "metamethod"};
    return texts[kind];
}

/* ---- backwards: what stands in a slot ------------------------------------------------------ */

/* Is it a method call? Then the instruction before the call's TGETS copies the object to the slot
 * of the first argument. */
static bool is_method(const struct luajit_proto *p, uint32_t position, uint8_t slot,
                      const struct bc *get)
{
    unsigned argument = slot + (unsigned)p->layout->frame_slots;
    struct bc before = luajit_proto_bc(p, position - 1);
    return position > 0 && before.op == BC_MOV && before.a == argument && before.d == get->b;
}

/* The name of the value that the instruction at `position` put into its slot A. */
static enum luajit_name_kind name_of_write(const struct luajit_scan *s, uint32_t position,
                                           const struct bc *bc, char *buffer)
{
    switch (bc->op) {
    case BC_GGET:
        return luajit_proto_string(s->p, s->m, bc->d, buffer) ? LUAJIT_NAME_GLOBAL
                                                              : LUAJIT_NAME_NONE;
    case BC_TGETS:
        if (!luajit_proto_string(s->p, s->m, bc->c, buffer))
            return LUAJIT_NAME_NONE;
        return is_method(s->p, position, bc->a, bc) ? LUAJIT_NAME_METHOD : LUAJIT_NAME_FIELD;
    case BC_UGET:
        return luajit_proto_upvalue(s->p, bc->d, buffer) ? LUAJIT_NAME_UPVALUE : LUAJIT_NAME_NONE;
    default:
        return LUAJIT_NAME_NONE;
    }
}

enum luajit_found luajit_find_writer(const struct luajit_scan *s, uint32_t *position,
                                     unsigned *slot, struct bc *ret, char *buffer)
{
    if (local(s, *slot, *position, buffer))
        return LUAJIT_FOUND_LOCAL;
    /* Position 0, the function's header, is never looked at. */
    while (*position > 1 && spend(s)) {
        struct bc bc = luajit_proto_bc(s->p, --*position);
        enum bc_mode mode = bc_mode(bc.op);
        if (mode == BC_MODE_BASE && *slot >= bc.a && (bc.op != BC_KNIL || *slot <= bc.d))
            return LUAJIT_FOUND_NOTHING;
        if (mode != BC_MODE_DST || bc.a != *slot)
            continue;
        if (bc.op != BC_MOV) {
            *ret = bc;
            return LUAJIT_FOUND_WRITE;
        }
        *slot = bc.d;
        if (local(s, *slot, *position, buffer))
            return LUAJIT_FOUND_LOCAL;
    }
    return LUAJIT_FOUND_NOTHING;
}

enum { CALL_BUDGET = 1 << 20 };

enum luajit_name_kind luajit_call_name(const struct luajit_proto *caller, const struct memory *m,
                                       uint32_t position, char *buffer)
{
    uint32_t budget = CALL_BUDGET;
    const struct luajit_scan s = {caller, m, &budget};
    struct bc call = luajit_proto_bc(caller, position), writer;
    const char *meta = bc_metamethod(call.op);
    if (!meta)
        return LUAJIT_NAME_NONE;
    if (*meta == '_') {
        snprintf(buffer, PROTO_NAME_MAX, "%s", meta);
        return LUAJIT_NAME_METAMETHOD;
    }
    unsigned slot = call.a;
    if (call.op == BC_ITERC) {
        if (slot < 3)
            return LUAJIT_NAME_NONE;
        slot -= 3;
    }
    switch (luajit_find_writer(&s, &position, &slot, &writer, buffer)) {
    case LUAJIT_FOUND_LOCAL:
        return LUAJIT_NAME_LOCAL;
    case LUAJIT_FOUND_WRITE:
        return name_of_write(&s, position, &writer, buffer);
    default:
        return LUAJIT_NAME_NONE;
    }
}

/* ---- forwards: where a value goes ---------------------------------------------------------- */

enum {
    /* Range of the search in instructions: a list of functions assigned at once; the fields of a
     * constructor. */
    STORE_WITHIN = 256,
    CONSTRUCTOR_WITHIN = 1 << 16,
    NESTING_MAX = 3, /* a.b.c.f */
};

static bool table_name(const struct luajit_scan *s, uint32_t position, unsigned slot,
                       unsigned depth, char *buffer);

/* The name of a value that is stored under a key in the table in slot B. */
static bool field_name(const struct luajit_scan *s, uint32_t position, const struct bc *store,
                       unsigned depth, char separator, char *buffer)
{
    char key[PROTO_NAME_MAX];
    if (!luajit_proto_string(s->p, s->m, store->c, key))
        return false;
    bool known = depth < NESTING_MAX && table_name(s, position, store->b, depth + 1, buffer);
    managed_join_name(buffer, LUAJIT_DEFINED_MAX, known, separator, key);
    return true;
}

/* The name under which the value in `slot` behind `position` is first stored; false: an instruction
 * before that writes the slot, or control may go elsewhere. */
static bool stored_name(const struct luajit_scan *s, uint32_t position, unsigned slot,
                        uint32_t within, unsigned depth, char separator, char *buffer)
{
    const struct luajit_proto *p = s->p;
    for (uint32_t i = 1; i <= within && position + i < p->head.sizebc && spend(s); i++) {
        uint32_t at = position + i;
        struct bc bc = luajit_proto_bc(p, at);
        if (local(s, slot, at, buffer))
            return true;
        if (bc.op == BC_GSET && bc.a == slot)
            return luajit_proto_string(p, s->m, bc.d, buffer) != NULL;
        if (bc.op == BC_TSETS && bc.a == slot)
            return field_name(s, at, &bc, depth, separator, buffer);
        if (bc.op == BC_USETV && bc.d == slot)
            return luajit_proto_upvalue(p, bc.a, buffer) != NULL;
        if (bc.op == BC_MOV && bc.d == slot)
            return local(s, bc.a, at + 1, buffer) != NULL;
        enum bc_mode mode = bc_mode(bc.op);
        if ((mode == BC_MODE_DST && bc.a == slot) || (mode == BC_MODE_BASE && bc.a <= slot) ||
            bc_is_flow(bc.op))
            return false;
    }
    return false;
}

/* The name of the table in `slot` at `position`: of a variable, of a field of a table, or the name
 * that a constructor's result is going to have. */
static bool table_name(const struct luajit_scan *s, uint32_t position, unsigned slot,
                       unsigned depth, char *buffer)
{
    struct bc writer;
    uint32_t at = position;
    unsigned slot_then = slot;
    switch (luajit_find_writer(s, &at, &slot_then, &writer, buffer)) {
    case LUAJIT_FOUND_LOCAL:
        return true;
    case LUAJIT_FOUND_WRITE:
        break;
    default:
        return false;
    }
    if (writer.op == BC_TNEW || writer.op == BC_TDUP)
        return stored_name(s, position, slot, CONSTRUCTOR_WITHIN, depth, '.', buffer);
    if (writer.op == BC_TGETS)
        return field_name(s, at, &writer, depth, '.', buffer);
    return name_of_write(s, at, &writer, buffer) != LUAJIT_NAME_NONE;
}

bool luajit_definition_name(const struct luajit_proto *parent, const struct memory *m,
                            uint32_t position, bool method, uint32_t *budget,
                            char buffer[LUAJIT_DEFINED_MAX])
{
    const struct luajit_scan s = {parent, m, budget};
    struct bc bc = luajit_proto_bc(parent, position);
    return bc.op == BC_FNEW &&
           stored_name(&s, position, bc.a, STORE_WITHIN, 0, method ? ':' : '.', buffer);
}
