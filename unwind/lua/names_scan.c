/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * 5.1 runs the code up to the call, as far as it knows which jumps are taken ("symbolic
 * execution"). Later versions look at all instructions before the call, and know nothing of those
 * that a jump may have skipped.
 */
#include "unwind/lua/names_scan.h"

#include <stdio.h>

/* The function that is looked at, and how many instructions and variables may still be. */
struct scan {
    struct lua_asker *a;
    const struct lua_code *c;
    uint32_t *budget;
};

static bool spend(const struct scan *s)
{
    return *s->budget && (*s->budget)--;
}

static const char *local(const struct scan *s, uint32_t reg, uint32_t index, char *buffer)
{
    return lua_code_local(s->a, s->c, reg, index, s->budget, buffer);
}

static bool is_51(const struct scan *s)
{
    return s->c->layout->version == 51;
}

/* ---- what stands in a register ------------------------------------------------------------- */

enum { NOWHERE = UINT32_MAX };

/* Does the instruction change the register, by the version's own rule? */
static bool changes(const struct scan *s, const struct lua_insn *i, uint32_t reg)
{
    switch (i->op) {
    case LUA_OP_LOADNIL:
        return i->a <= reg && reg <= i->b;
    case LUA_OP_ITERATE:
        return reg >= i->a + 2;
    case LUA_OP_CALL:
    case LUA_OP_TAILCALL:
        return reg >= i->a;
    case LUA_OP_SELF:
        return reg == i->a || (is_51(s) && reg == i->a + 1);
    case LUA_OP_TEST:
        return reg == i->a;
    default:
        return i->sets_a && reg == i->a;
    }
}

/* The last instruction before `end` that has set the register in 5.1. */
static uint32_t find_setter_51(const struct scan *s, uint32_t end, uint32_t reg)
{
    uint32_t setter = NOWHERE;
    for (uint32_t at = 0; at < end && spend(s); at++) {
        const struct lua_insn i = lua_code_insn(s->c, at);
        if (changes(s, &i, reg))
            setter = at;
        bool jumps = i.op == LUA_OP_JUMP || i.op == LUA_OP_LOOP;
        if (jumps && i.jump > 0 && (uint32_t)i.jump < end - at)
            at += (uint32_t)i.jump;
        if (i.op == LUA_OP_SETLIST && i.b == 0)
            at++; /* its operand is in the next word */
    }
    return setter;
}

/* The last instruction before `end` that has set the register in 5.2 and later. */
static uint32_t find_setter_52(const struct scan *s, uint32_t end, uint32_t reg)
{
    uint32_t setter = NOWHERE, unsure_before = 0;
    for (uint32_t at = 0; at < end && spend(s); at++) {
        const struct lua_insn i = lua_code_insn(s->c, at);
        if (i.op == LUA_OP_JUMP && i.jump >= 0 && (uint32_t)i.jump < end - at) {
            uint32_t target = at + 1 + (uint32_t)i.jump;
            unsure_before = target > unsure_before ? target : unsure_before;
        } else if (changes(s, &i, reg)) {
            setter = at < unsure_before ? NOWHERE : at;
        }
    }
    return setter;
}

static uint32_t find_setter(const struct scan *s, uint32_t end, uint32_t reg)
{
    return is_51(s) ? find_setter_51(s, end, reg) : find_setter_52(s, end, reg);
}

/* The kinds of a name that a register gets without a look at tables. *index becomes the instruction
 * that set it, and is NOWHERE if none is known. */
static enum lua_name_kind simple_name(const struct scan *s, uint32_t *index, uint32_t reg,
                                      struct lua_insn *setter, char *buffer)
{
    enum { MOVES_MAX = 16 };
    for (unsigned moves = 0; moves < MOVES_MAX; moves++) {
        uint32_t end = *index;
        if (local(s, reg, end, buffer))
            return LUA_NAME_LOCAL;
        *index = find_setter(s, end, reg);
        if (*index == NOWHERE)
            return LUA_NAME_NONE;
        *setter = lua_code_insn(s->c, *index);
        if (setter->op != LUA_OP_MOVE)
            break;
        if (setter->b >= setter->a) {
            *index = NOWHERE;
            return LUA_NAME_NONE;
        }
        reg = setter->b;
        if (is_51(s)) /* 5.1 looks from the call on again */
            *index = end;
    }
    uint32_t constant = setter->bx;
    switch (setter->op) {
    case LUA_OP_GETUPVAL:
        return lua_code_upvalue(s->a, s->c, setter->b, buffer) ? LUA_NAME_UPVALUE : LUA_NAME_NONE;
    case LUA_OP_LOADKX:
        constant = lua_code_insn(s->c, *index + 1).bx;
        /* fall through */
    case LUA_OP_LOADK:
        return !is_51(s) && lua_code_string(s->a, s->c, constant, buffer) ? LUA_NAME_CONSTANT
                                                                          : LUA_NAME_NONE;
    default:
        return LUA_NAME_NONE;
    }
}

/* The text of a key: a constant, or (from 5.2 on) a register that holds one. */
static bool key_name(const struct scan *s, uint32_t index, const struct lua_operand *key,
                     char *buffer)
{
    struct lua_insn ignored;
    if (key->is_constant)
        return lua_code_string(s->a, s->c, key->index, buffer) != NULL;
    return !is_51(s) && simple_name(s, &index, key->index, &ignored, buffer) == LUA_NAME_CONSTANT;
}

/* Is the table that the instruction indexes the one of global variables? */
static bool is_env(const struct scan *s, uint32_t index, const struct lua_insn *i)
{
    char name[LUA_NAME_SIZE];
    struct lua_insn ignored;
    enum lua_name_kind kind;
    if (i->op == LUA_OP_GETTABUP)
        return lua_code_upvalue(s->a, s->c, i->table, name) && strcmp(name, "_ENV") == 0;
    if (is_51(s))
        return false;
    if (s->c->layout->version < 54)
        kind = local(s, i->table, index, name) ? LUA_NAME_LOCAL : LUA_NAME_NONE;
    else
        kind = simple_name(s, &index, i->table, &ignored, name);
    return (kind == LUA_NAME_LOCAL || kind == LUA_NAME_UPVALUE) && strcmp(name, "_ENV") == 0;
}

/* The name of what is in a register at an instruction. */
static enum lua_name_kind register_name(const struct scan *s, uint32_t index, uint32_t reg,
                                        char *buffer)
{
    struct lua_insn i;
    enum lua_name_kind kind = simple_name(s, &index, reg, &i, buffer);
    if (kind != LUA_NAME_NONE || index == NOWHERE)
        return kind;
    switch (i.op) {
    case LUA_OP_GETGLOBAL:
        return lua_code_string(s->a, s->c, i.bx, buffer) ? LUA_NAME_GLOBAL : LUA_NAME_NONE;
    case LUA_OP_GETTABUP:
    case LUA_OP_GETTABLE:
        if (!key_name(s, index, &i.key, buffer))
            return LUA_NAME_NONE;
        return is_env(s, index, &i) ? LUA_NAME_GLOBAL : LUA_NAME_FIELD;
    case LUA_OP_GETI:
        snprintf(buffer, LUA_NAME_SIZE, "integer index");
        return LUA_NAME_FIELD;
    case LUA_OP_SELF:
        return key_name(s, index, &i.key, buffer) ? LUA_NAME_METHOD : LUA_NAME_NONE;
    default:
        return LUA_NAME_NONE;
    }
}

/* ---- at a call ----------------------------------------------------------------------------- */

/* 5.4.0 to 5.4.4 call the metamethods of "<" and "<=" by one word, since each may stand for the
 * other. */
static bool has_order(const struct lua_layout *l)
{
    return l->version == 54 && strncmp(l->release, "5.4.", 4) == 0 && l->release[4] < '3' &&
           !l->release[5];
}

static enum lua_name_kind metamethod_name(const struct lua_layout *l, enum lua_event event,
                                          char *buffer)
{
    const char *name = lua_event_name(event);
    if (!name || l->version == 51)
        return LUA_NAME_NONE;
    if ((event == LUA_EVENT_LT || event == LUA_EVENT_LE) && has_order(l))
        name = "__order";
    snprintf(buffer, LUA_NAME_SIZE, "%s", name + (l->version >= 54 ? 2 : 0));
    return LUA_NAME_METAMETHOD;
}

enum lua_name_kind lua_call_name(struct lua_asker *a, const struct lua_code *caller, uint32_t index,
                                 char *buffer)
{
    enum { BUDGET = 1 << 20 };
    uint32_t budget = BUDGET;
    const struct scan s = {a, caller, &budget};
    const struct lua_insn i = lua_code_insn(caller, index);
    switch (i.op) {
    case LUA_OP_CALL:
    case LUA_OP_TAILCALL:
        return register_name(&s, index, i.a, buffer);
    case LUA_OP_ITERATE:
        if (is_51(&s))
            return register_name(&s, index, i.a, buffer);
        snprintf(buffer, LUA_NAME_SIZE, "for iterator");
        return LUA_NAME_ITERATOR;
    default:
        return metamethod_name(caller->layout, (enum lua_event)i.event, buffer);
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

/* Does the instruction write the register, whatever the version's own rule says? */
static bool writes(const struct lua_insn *i, uint32_t reg)
{
    switch (i->op) {
    case LUA_OP_LOADNIL:
        return i->a <= reg && reg <= i->b;
    case LUA_OP_SELF:
        return reg == i->a || reg == i->a + 1;
    case LUA_OP_CALL:
    case LUA_OP_TAILCALL:
    case LUA_OP_ITERATE:
    case LUA_OP_VARARG:
        return reg >= i->a;
    case LUA_OP_TEST:
        return false;
    default:
        return i->sets_a && reg == i->a;
    }
}

/* May control go elsewhere than to the next instruction? (The comparison of a conditional jump does
 * not jump itself: the JUMP behind it does.) */
static bool is_flow(const struct lua_insn *i)
{
    return i->op == LUA_OP_JUMP || i->op == LUA_OP_LOOP || i->op == LUA_OP_FLOW ||
           i->op == LUA_OP_RETURN || i->op == LUA_OP_TAILCALL;
}

/* The words behind a CLOSURE that are its operands: in 5.1 one for each upvalue. */
static uint32_t operands_of(const struct scan *s, const struct lua_insn *i)
{
    uint8_t nr;
    uint64_t child = is_51(s) && i->op == LUA_OP_CLOSURE ? lua_code_child(s->c, i->bx) : 0;
    uint64_t at = child + s->c->layout->fields.proto.nr_params - 1;
    return child && lua_read(&s->a->reader, at, &nr, 1) ? nr : 0;
}

static bool table_name(const struct scan *s, uint32_t index, uint32_t reg, unsigned depth,
                       char *buffer);
static bool find_writer(const struct scan *s, uint32_t *index, uint32_t *reg, bool *is_local,
                        struct lua_insn *ret, char *buffer);

/* The key of a field, where it is a constant that was loaded into a register: one of a function
 * with more than 255 constants. (debug.getinfo of 5.1 knows no such key.) */
static bool loaded_key(const struct scan *s, uint32_t index, const struct lua_operand *key,
                       char *buffer)
{
    struct lua_insn writer;
    uint32_t reg = key->index;
    bool is_local;
    if (key->is_constant || !find_writer(s, &index, &reg, &is_local, &writer, buffer) || is_local)
        return false;
    return writer.op == LUA_OP_LOADK && lua_code_string(s->a, s->c, writer.bx, buffer) != NULL;
}

/* The name of a value that an instruction stores into a field, or reads from one. */
static bool field_name(const struct scan *s, uint32_t index, const struct lua_insn *i,
                       unsigned depth, char separator, char *buffer)
{
    char key[LUA_NAME_SIZE];
    bool known = false;
    if (!key_name(s, index, &i->key, key) && !loaded_key(s, index, &i->key, key))
        return false;
    if (i->op == LUA_OP_GETTABUP || i->op == LUA_OP_SETTABUP)
        known = lua_code_upvalue(s->a, s->c, i->table, buffer) != NULL;
    else
        known = depth < NESTING_MAX && table_name(s, index, i->table, depth + 1, buffer);
    if (known && strcmp(buffer, "_ENV") == 0) /* a global variable */
        known = false;
    managed_join_name(buffer, LUA_DEFINED_SIZE, known, separator, key);
    return true;
}

/* Is this the instruction that stores the register? Get the name. Returns -1: it is not; 0: it
 * stores it nowhere that has a name; 1: `buffer` has the name. */
static int store_name(const struct scan *s, uint32_t at, const struct lua_insn *i, uint32_t reg,
                      unsigned depth, char separator, char *buffer)
{
    bool stores = i->op == LUA_OP_SETTABUP || i->op == LUA_OP_SETTABLE;
    if (stores && !i->value.is_constant && i->value.index == reg)
        return field_name(s, at, i, depth, separator, buffer);
    if (i->op == LUA_OP_SETGLOBAL && i->a == reg)
        return lua_code_string(s->a, s->c, i->bx, buffer) != NULL;
    if (i->op == LUA_OP_SETUPVAL && i->a == reg)
        return lua_code_upvalue(s->a, s->c, i->b, buffer) != NULL;
    if (i->op == LUA_OP_MOVE && i->b == reg)
        return local(s, i->a, at + 1, buffer) != NULL;
    return -1;
}

/* The name under which the value in a register behind `index` is first stored. Returns false if an
 * instruction before that writes the register, or control may go elsewhere. */
static bool stored_name(const struct scan *s, uint32_t index, uint32_t reg, uint32_t within,
                        unsigned depth, char separator, char *buffer)
{
    struct lua_insn i = lua_code_insn(s->c, index);
    uint32_t end = index + within < s->c->proto.nr_code ? index + within : s->c->proto.nr_code;
    for (uint32_t at = index + 1 + operands_of(s, &i); at < end && spend(s); at++) {
        if (local(s, reg, at, buffer))
            return true;
        i = lua_code_insn(s->c, at);
        int named = store_name(s, at, &i, reg, depth, separator, buffer);
        if (named >= 0)
            return named;
        if (writes(&i, reg) || is_flow(&i))
            return false;
        at += operands_of(s, &i);
    }
    return false;
}

/* Find the instruction before *index that wrote the register, on the way that code without jumps
 * goes. *index becomes its place. Returns false if there is none. `reg` changes with moves; a local
 * variable on the way ends the search with *is_local. */
static bool find_writer(const struct scan *s, uint32_t *index, uint32_t *reg, bool *is_local,
                        struct lua_insn *ret, char *buffer)
{
    *is_local = local(s, *reg, *index, buffer) != NULL;
    while (!*is_local && *index > 0 && spend(s)) {
        *ret = lua_code_insn(s->c, --*index);
        if (!writes(ret, *reg))
            continue;
        if (ret->op != LUA_OP_MOVE)
            return true;
        *reg = ret->b;
        *is_local = local(s, *reg, *index, buffer) != NULL;
    }
    return *is_local;
}

/* The name of the table in a register: of a variable, of a field of a table, or the name that a
 * constructor's result is going to have. */
static bool table_name(const struct scan *s, uint32_t index, uint32_t reg, unsigned depth,
                       char *buffer)
{
    struct lua_insn writer;
    uint32_t at = index, reg_then = reg;
    bool is_local;
    if (!find_writer(s, &at, &reg_then, &is_local, &writer, buffer))
        return false;
    if (is_local)
        return true;
    switch (writer.op) {
    case LUA_OP_NEWTABLE:
        return stored_name(s, index, reg, CONSTRUCTOR_WITHIN, depth, '.', buffer);
    case LUA_OP_GETTABUP:
    case LUA_OP_GETTABLE:
        return field_name(s, at, &writer, depth, '.', buffer);
    case LUA_OP_GETGLOBAL:
        return lua_code_string(s->a, s->c, writer.bx, buffer) != NULL;
    case LUA_OP_GETUPVAL:
        return lua_code_upvalue(s->a, s->c, writer.b, buffer) != NULL;
    default:
        return false;
    }
}

bool lua_is_method(struct lua_asker *a, const struct lua_code *c)
{
    char name[LUA_NAME_SIZE];
    uint32_t budget = 1;
    const char *first = c->proto.nr_params ? lua_code_local(a, c, 0, 0, &budget, name) : NULL;
    return first && strcmp(first, "self") == 0;
}

bool lua_definition_name(struct lua_asker *a, const struct lua_code *parent, uint32_t index,
                         const struct lua_code *child, uint32_t *budget,
                         char buffer[LUA_DEFINED_SIZE])
{
    const struct scan s = {a, parent, budget};
    const struct lua_insn i = lua_code_insn(parent, index);
    return i.op == LUA_OP_CLOSURE && stored_name(&s, index, i.a, STORE_WITHIN, 0,
                                                 lua_is_method(a, child) ? ':' : '.', buffer);
}
