/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/lua/value.h"

#include "unwind/lua/table.h"

#include <stdio.h>
#include <string.h>

enum {
    TYPE_MASK = 0xf,
    VARIANT = 0x10,
    PLACES_COUNTED_MAX = 1 << 20, /* of each part of a table */
    CLASS_SIZE = 128,
    METATABLE_NODES_MAX = 256,
    REGISTRY_NODES_MAX = 1 << 12,
};

static struct lua_reader *reader(const struct lua_value_source *s)
{
    return s->from->reader;
}

static struct variable *last(const struct lua_value_source *s)
{
    return &s->to->at.at[s->to->at.nr - 1];
}

/* ---- scalars ------------------------------------------------------------------------------- */

static bool value_boolean(unsigned version, struct lua_value v)
{
    return version >= 54 ? (v.tag & VARIANT) != 0 : (uint32_t)v.bits != 0;
}

/* 5.3 has integers as a variant of floats, 5.4 and 5.5 floats as a variant of integers. */
static bool value_is_integer(unsigned version, struct lua_value v)
{
    bool variant = v.tag & VARIANT;
    return version == 53 ? variant : version >= 54 && !variant;
}

static double value_float(struct lua_value v)
{
    double number;
    memcpy(&number, &v.bits, sizeof(number));
    return number;
}

static void set_number(struct variable *of, unsigned version, struct lua_value v)
{
    if (value_is_integer(version, v))
        variable_set_integer(of, (int64_t)v.bits);
    else
        variable_set_number(of, version >= 53 ? VALUE_FLOAT : VALUE_NUMBER, value_float(v));
}

static void set_string(const struct lua_value_source *s, struct lua_value v)
{
    size_t length = lua_string_read(reader(s), v.bits, s->string, s->to->wanted.string_max);
    if (length == SIZE_MAX)
        variable_set_unknown(last(s), "a string that is not recorded");
    else
        variable_set_string(s->to, last(s), s->string,
                            length < s->to->wanted.string_max ? length : s->to->wanted.string_max,
                            length);
    last(s)->address = v.bits;
}

/* ---- functions ----------------------------------------------------------------------------- */

static bool set_function(const struct lua_value_source *s, struct lua_value v)
{
    struct lua_function f;
    struct text text = {0};
    if (!lua_function_of(reader(s), v, &f)) {
        variable_set_unknown(last(s), "a function that is not recorded");
        return true;
    }
    if (f.kind == LUA_FUNCTION_C) {
        const char *name = lua_names_native(s->names, s->from, f.native);
        variable_set_object(last(s), VALUE_C_FUNCTION, "function", f.closure);
        last(s)->native = f.native;
        variable_set_text(s->to, last(s), name ? name : "", name ? strlen(name) : 0);
        return true;
    }
    int failed = lua_names_function(s->names, s->from, f.proto, &text);
    variable_set_object(last(s), VALUE_FUNCTION, "function", f.closure);
    variable_set_text(s->to, last(s), text.at, text.size);
    text_free(&text);
    return !failed;
}

/* ---- classes ------------------------------------------------------------------------------- */

/* The name under which the registry has a metatable. */
static bool registered_class(const struct lua_value_source *s, uint64_t metatable, char *to,
                             size_t *length)
{
    const struct lua_fields *f = &reader(s)->layout->fields;
    uint8_t registry[16];
    if (!lua_read_moving(reader(s), s->from->global + f->global.registry, registry,
                         sizeof(registry)))
        return false;
    const uint64_t name =
        lua_table_name_of(reader(s), lua_value_of(f, registry).bits, metatable, REGISTRY_NODES_MAX);
    *length = name ? lua_string_read(reader(s), name, to, CLASS_SIZE - 1) : SIZE_MAX;
    return *length < CLASS_SIZE;
}

/* Set the text to the class of an object: its metatable's __name, or the metatable's name in the
 * registry. */
static void set_class(const struct lua_value_source *s, uint64_t metatable)
{
    char class[CLASS_SIZE];
    size_t length = SIZE_MAX;
    struct lua_value name;
    if (!metatable)
        return;
    if (lua_table_find(reader(s), metatable, "__name", METATABLE_NODES_MAX, &name) &&
        (name.tag & TYPE_MASK) == LUA_TSTRING)
        length = lua_string_read(reader(s), name.bits, class, sizeof(class) - 1);
    if (length < sizeof(class) || registered_class(s, metatable, class, &length))
        variable_set_text(s->to, last(s), class, length);
}

static void set_userdata(const struct lua_value_source *s, struct lua_value v)
{
    uint64_t metatable = 0;
    const uint16_t at = reader(s)->layout->fields.userdata_metatable;
    /* The address that the program sees is behind the head. */
    variable_set_object(last(s), VALUE_USERDATA, "userdata",
                        v.bits + lua_userdata_head(reader(s), v.bits));
    if (lua_read_moving(reader(s), v.bits + at, &metatable, sizeof(metatable)))
        set_class(s, metatable);
}

/* ---- tables -------------------------------------------------------------------------------- */

/* Count the fields that are not empty, up to a bound. Returns how many; *is_least becomes true if
 * there may be more. */
static uint64_t count_fields(const struct lua_value_source *s, const struct lua_table *of,
                             bool of_array, bool *is_least)
{
    struct lua_table t = *of;
    struct lua_table_walk w;
    struct lua_value key, value;
    uint64_t nr = 0;
    /* 5.5 has values and tags apart, so each element is two reads. */
    bool is_slow = of_array && reader(s)->layout->fields.table.split_array;
    uint32_t most = is_slow ? PLACES_COUNTED_MAX / 64 : PLACES_COUNTED_MAX;
    *(of_array ? &t.nr_nodes : &t.nr_array) = 0;
    lua_table_begin(&w, &t);
    while (w.next < most && lua_table_next(reader(s), &w, &key, &value))
        nr++;
    *is_least |= w.next < (uint64_t)t.nr_array + t.nr_nodes;
    return nr;
}

/* Write a key that is no string as Lua prints it. */
static void set_key(const struct lua_value_source *s, struct lua_value key)
{
    static const char *const types[] = {"nil",   "boolean",  "light userdata", "number", "string",
                                        "table", "function", "userdata",       "thread"};
    char text[64];
    const unsigned version = reader(s)->layout->version, type = key.tag & TYPE_MASK;
    bool is_index = key.tag == LUA_TAG_INDEX;
    if (is_index || (type == LUA_TNUMBER && value_is_integer(version, key)))
        snprintf(text, sizeof(text), "%lld", (long long)key.bits);
    else if (type == LUA_TNUMBER)
        snprintf(text, sizeof(text), "%.14g", value_float(key));
    else if (type == LUA_TBOOLEAN)
        snprintf(text, sizeof(text), "%s", value_boolean(version, key) ? "true" : "false");
    else
        snprintf(text, sizeof(text), "%s: 0x%llx", type < 9 ? types[type] : "?",
                 (unsigned long long)key.bits);
    variable_set_name(s->to, last(s), text, strlen(text));
    last(s)->name_is_written = true;
}

static void set_field_name(const struct lua_value_source *s, struct lua_value key)
{
    char name[VARIABLE_NAME_MAX + 1];
    size_t length = SIZE_MAX;
    if ((key.tag & TYPE_MASK) == LUA_TSTRING && key.tag != LUA_TAG_INDEX)
        length = lua_string_read(reader(s), key.bits, name, sizeof(name) - 1);
    if (length == SIZE_MAX)
        set_key(s, key);
    else
        variable_set_name(s->to, last(s), name, length < sizeof(name) ? length : sizeof(name) - 1);
}

/* Add the first fields of a table. */
static bool add_fields(const struct lua_value_source *s, const struct lua_table *t, size_t of,
                       unsigned depth)
{
    struct lua_table_walk w;
    struct lua_value key, value;
    lua_table_begin(&w, t);
    for (unsigned i = 0; lua_table_next(reader(s), &w, &key, &value); i++) {
        if (i == s->to->wanted.fields_max || !variables_add(s->to, VARIABLE_FIELD, depth + 1)) {
            s->to->at.at[of].is_cut = true;
            return !s->to->failed;
        }
        set_field_name(s, key);
        if (!lua_value_set(s, value, depth + 1))
            return false;
    }
    return true;
}

static bool set_table(const struct lua_value_source *s, struct lua_value v, unsigned depth)
{
    struct lua_table t;
    size_t at = s->to->at.nr - 1;
    if (!lua_table_read(reader(s), v.bits, &t)) {
        variable_set_unknown(last(s), "a table that is not recorded");
        return true;
    }
    variable_set_object(last(s), VALUE_TABLE, "table", v.bits);
    last(s)->array = count_fields(s, &t, true, &last(s)->is_least);
    last(s)->fields = count_fields(s, &t, false, &last(s)->is_least);
    set_class(s, t.metatable);
    last(s)->provenance = (uint8_t)reader(s)->provenance;
    return !variables_wants_fields(s->to, depth) || add_fields(s, &t, at, depth);
}

/* ---- all ----------------------------------------------------------------------------------- */

bool lua_value_set(const struct lua_value_source *s, struct lua_value v, unsigned depth)
{
    enum provenance before = reader(s)->provenance;
    bool is_fine = true, is_table = false;
    reader(s)->provenance = PROVENANCE_EXACT;
    switch (v.tag & TYPE_MASK) {
    case LUA_TNIL:
        variable_set_nil(last(s), "nil");
        break;
    case LUA_TBOOLEAN:
        variable_set_boolean(last(s), value_boolean(reader(s)->layout->version, v));
        break;
    case LUA_TLIGHTUSERDATA:
        variable_set_object(last(s), VALUE_POINTER, "light userdata", v.bits);
        break;
    case LUA_TNUMBER:
        set_number(last(s), reader(s)->layout->version, v);
        break;
    case LUA_TSTRING:
        set_string(s, v);
        break;
    case LUA_TTABLE:
        is_table = true;
        is_fine = set_table(s, v, depth);
        break;
    case LUA_TFUNCTION:
        is_fine = set_function(s, v);
        break;
    case LUA_TUSERDATA:
        set_userdata(s, v);
        break;
    case LUA_TTHREAD:
        variable_set_object(last(s), VALUE_THREAD, "thread", v.bits);
        break;
    default:
        variable_set_unknown(last(s), "no value of Lua");
    }
    if (!is_table) /* behind a table are its fields */
        last(s)->provenance =
            (uint8_t)(reader(s)->provenance > before ? reader(s)->provenance : before);
    reader(s)->provenance = before > reader(s)->provenance ? before : reader(s)->provenance;
    return is_fine && !s->to->failed;
}
