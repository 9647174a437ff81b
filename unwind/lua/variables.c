/* SPDX-License-Identifier: GPL-2.0-only */
/* Which slots are variables, and their names. Values are value.c's. */
#include "unwind/lua/variables.h"

#include "unwind/lua/names_proto.h"
#include "unwind/lua/value.h"

#include <stdlib.h>

enum {
    SLOT = 16,
    READS = 1 << 16,       /* for the names of one function's variables */
    STRING_MAX = 16 << 20, /* bytes, whatever is asked for */
};

/* The call whose variables are listed. */
struct listing {
    struct lua_value_source s;
    struct lua_asker a; /* reads the function's own objects */
    struct lua_code code;
    const struct variable_place *at;
    uint32_t index;     /* instruction whose variables are listed */
    uint32_t nr_locals; /* registers that are variables there */
};

static uint64_t word(const struct listing *l, enum lua_place_word which)
{
    return l->at->word[which];
}

static struct lua_reader *reader(const struct listing *l)
{
    return l->s.from->reader;
}

/* Add a variable whose value is at an address (0: unknown). Returns false when there is no more
 * room, or memory is out. */
static bool add(struct listing *l, enum variable_role role, uint32_t number, const char *name,
                uint64_t address)
{
    uint8_t bytes[SLOT];
    struct variable *v = variables_add(l->s.to, role, 0);
    if (!v)
        return false;
    v->number = number;
    if (name)
        variable_set_name(l->s.to, v, name, strlen(name));
    if (!address || !lua_read_moving(reader(l), address, bytes, sizeof(bytes))) {
        variable_set_unknown(v, "not recorded");
        return true;
    }
    /* The table of all global variables would be listed with each function. */
    bool is_env = name && role == VARIABLE_UPVALUE && strcmp(name, "_ENV") == 0;
    return lua_value_set(&l->s, lua_value_of(&reader(l)->layout->fields, bytes),
                         is_env ? l->s.to->wanted.depth : 0);
}

/* ---- locals -------------------------------------------------------------------------------- */

/* Lua's own variables have names in brackets: those of a loop. */
static bool is_hidden(const char *name)
{
    return *name == '(';
}

static bool add_locals(struct listing *l)
{
    char name[LUA_NAME_SIZE];
    uint32_t first, end;
    for (uint32_t i = 0; i < l->code.nr[LUA_PART_LOCALS]; i++) {
        const char *text = lua_code_variable(&l->a, &l->code, i, &first, &end, name);
        if (first > l->index)
            break;
        if (l->index >= end)
            continue;
        uint32_t reg = l->nr_locals++;
        bool hidden = text && is_hidden(text);
        if (hidden && !l->s.to->wanted.temporaries)
            continue;
        if (!add(l, hidden ? VARIABLE_TEMPORARY : VARIABLE_LOCAL, hidden ? reg + 1 : 0,
                 text ? text : "?", word(l, LUA_PLACE_BASE) + (uint64_t)reg * SLOT))
            return false;
    }
    return true;
}

/* A stripped function's parameters have only their numbers. */
static bool add_parameters(struct listing *l)
{
    for (uint32_t i = 0; i < l->code.proto.nr_params; i++)
        if (!add(l, VARIABLE_ARGUMENT, i + 1, NULL, word(l, LUA_PLACE_BASE) + (uint64_t)i * SLOT))
            return false;
    l->nr_locals = l->code.proto.nr_params;
    return true;
}

/* ---- varargs ------------------------------------------------------------------------------- */

/* From 5.4 on they stand below the function, unless 5.5 has made a table of them; before, behind
 * the places of the parameters, which were copied above. */
static uint32_t find_varargs(const struct listing *l, uint64_t *first)
{
    enum { HIDDEN_55 = 1 };
    const uint64_t func = word(l, LUA_PLACE_FUNC), base = word(l, LUA_PLACE_BASE);
    const struct lua_proto *p = &l->code.proto;
    uint64_t nr = word(l, LUA_PLACE_EXTRA);
    if (!p->is_vararg || (reader(l)->layout->version == 55 && !(p->is_vararg & HIDDEN_55)))
        return 0;
    if (reader(l)->layout->version >= 54) {
        *first = func - nr * SLOT;
    } else {
        *first = func + SLOT * (UINT64_C(1) + p->nr_params);
        nr = base > *first ? (base - *first) / SLOT : 0;
    }
    return nr <= LUA_SLOTS_MAX ? (uint32_t)nr : 0;
}

static bool add_varargs(struct listing *l)
{
    uint64_t first = 0;
    uint32_t nr = find_varargs(l, &first);
    for (uint32_t i = 0; i < nr; i++)
        if (!add(l, VARIABLE_VARARG, i + 1, NULL, first + (uint64_t)i * SLOT))
            return false;
    return true;
}

/* ---- upvalues ------------------------------------------------------------------------------ */

/* Where an upvalue's value is; 0: not known. While 5.4.5 and later move a stack, those that are on
 * it have an offset. */
static uint64_t upvalue_address(struct listing *l, uint32_t index)
{
    enum { OFFSET_MAX = 1 << 26 };
    const struct lua_fields *f = &reader(l)->layout->fields;
    uint64_t upvalue, value;
    struct lua_state state;
    uint64_t at = word(l, LUA_PLACE_CLOSURE) + f->closure.upvalues + 8 * (uint64_t)index;
    if (!lua_read_moving(reader(l), at, &upvalue, sizeof(upvalue)) || !upvalue ||
        !lua_read_moving(reader(l), upvalue + f->closure.upvalue_v, &value, sizeof(value)))
        return 0;
    if (value < OFFSET_MAX && reader(l)->layout->version >= 54 &&
        lua_state_read(reader(l), word(l, LUA_PLACE_STATE), false, &state) &&
        value <= state.top - state.stack)
        value += state.stack;
    return value;
}

static bool add_upvalues(struct listing *l, const struct lua_function *f)
{
    char name[LUA_NAME_SIZE];
    for (uint32_t i = 0; i < f->nr_upvalues; i++) {
        const char *text = lua_code_upvalue(&l->a, &l->code, i, name);
        if (!add(l, VARIABLE_UPVALUE, i + 1, text, upvalue_address(l, i)))
            return false;
    }
    return true;
}

/* ---- temporaries --------------------------------------------------------------------------- */

/* The slots behind the variables, up to the end of those in use. */
static bool add_temporaries(struct listing *l)
{
    bool is_c = !word(l, LUA_PLACE_BASE);
    uint64_t base = is_c ? word(l, LUA_PLACE_FUNC) + SLOT : word(l, LUA_PLACE_BASE);
    uint64_t end = word(l, LUA_PLACE_TOP);
    uint64_t nr = end > base ? (end - base) / SLOT : 0;
    for (uint64_t i = l->nr_locals; i < nr && i < LUA_SLOTS_MAX; i++)
        if (!add(l, VARIABLE_TEMPORARY, (uint32_t)i + 1, NULL, base + i * SLOT))
            return false;
    return true;
}

/* ---- all ----------------------------------------------------------------------------------- */

/* The function of the call: its closure, whose slot may be overwritten already. */
static bool find_function(struct listing *l, struct lua_function *ret)
{
    const struct lua_fields *f = &reader(l)->layout->fields;
    struct lua_value v = {word(l, LUA_PLACE_CLOSURE), f->closure.tag_lua};
    return v.bits && lua_function_of(reader(l), v, ret) && ret->kind == LUA_FUNCTION_LUA;
}

static int list_lua(struct listing *l)
{
    struct lua_function f;
    int read = 0;
    if (find_function(l, &f))
        read = lua_code_read(&l->a, f.proto, &l->code);
    if (read <= 0) {
        l->s.to->unknown = "its function is not recorded";
        return read;
    }
    l->index = word(l, LUA_PLACE_INDEX) == UINT32_MAX ? 0 : (uint32_t)word(l, LUA_PLACE_INDEX);
    bool has_names = l->code.nr[LUA_PART_LOCALS] || !l->code.proto.nr_params;
    bool all = (has_names ? add_locals(l) : add_parameters(l)) && add_varargs(l) &&
               add_upvalues(l, &f) && (!l->s.to->wanted.temporaries || add_temporaries(l));
    if (all && !has_names)
        l->s.to->unknown = "the chunk has been stripped of the names of its variables";
    lua_code_free(&l->code);
    return l->s.to->failed ? -1 : 0;
}

int lua_variables(struct lua_names *names, const struct lua_names_source *source,
                  const struct variable_place *at, struct variables *ret)
{
    struct listing l = {.s = {.names = names, .from = source, .to = ret}, .at = at};
    if (ret->wanted.string_max > STRING_MAX)
        ret->wanted.string_max = STRING_MAX;
    l.s.string = malloc((size_t)ret->wanted.string_max + 1);
    if (!l.s.string)
        return -1;
    lua_asker_begin(&l.a, source->reader->m, source->reader->layout, READS);
    int failed = 0;
    if (at->word[LUA_PLACE_BASE])
        failed = list_lua(&l);
    else if (ret->wanted.temporaries)
        failed = add_temporaries(&l) || !ret->failed ? 0 : -1;
    free(l.s.string);
    return failed;
}
