/* SPDX-License-Identifier: GPL-2.0-only */
/* What an object of a plain Lua heap is, in words. */
#include "unwind/lua/census_internal.h"

#include "unwind/lua/names_proto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TYPE_MASK = 0xf,
    NAME = 64,
    NODES_MAX = 256,
    REGISTRY_NODES_MAX = 1 << 12,
    CLASSES_MAX = 4096 /* that are looked for in the registry */
};

static struct lua_reader *reader(struct lua_heap *h)
{
    h->r.budget = UINT32_MAX;
    return &h->r;
}

bool lua_heap_string(void *heap, uint64_t address, size_t max, struct text *out)
{
    struct lua_heap *h = heap;
    char *bytes = malloc(max + 1);
    const size_t length = bytes ? lua_string_read(reader(h), address, bytes, max) : SIZE_MAX;
    if (length != SIZE_MAX)
        text_bytes(out, bytes, length < max ? length : max);
    free(bytes);
    return length != SIZE_MAX;
}

/* ---- functions ----------------------------------------------------------------------------- */

/* Returns where a prototype is defined; "": not known. */
static const char *site_of(struct lua_heap *h, uint64_t proto)
{
    enum { READS = 64 };
    char file[LUA_FILE_SIZE], site[LUA_FILE_SIZE + 16] = "";
    struct lua_code c = {.layout = h->r.layout};
    struct lua_asker a;
    char *known = table_get(&h->names.sites, proto);
    if (known)
        return known;
    if (!lua_proto_read(reader(h), proto, &c.proto))
        return "";
    lua_asker_begin(&a, h->r.m, h->r.layout, READS);
    if (lua_code_file(&a, &c, file)) {
        if (c.proto.line_defined > 0)
            snprintf(site, sizeof(site), "%s:%u", file, c.proto.line_defined);
        else
            snprintf(site, sizeof(site), "%s", file);
    }
    known = strdup(site);
    if (known && table_put(&h->names.sites, proto, known))
        return known;
    free(known);
    return "";
}

bool lua_heap_upvalue(void *heap, uint64_t closure, unsigned number, struct text *out)
{
    enum { READS = 64 };
    struct lua_heap *h = heap;
    char buffer[LUA_NAME_SIZE];
    struct lua_code c;
    struct lua_asker a;
    const uint8_t tag = lua_heap_byte(h, closure + LUA_OBJECT_TAG) & LUA_TAG_MASK;
    if ((tag & TYPE_MASK) != LUA_TFUNCTION || !number)
        return false;
    lua_asker_begin(&a, h->r.m, h->r.layout, READS);
    if (lua_code_read(&a, lua_heap_word(h, closure + h->f->closure.function), &c) <= 0)
        return false;
    const char *name = lua_code_upvalue(&a, &c, number - 1, buffer);
    if (name)
        text_string(out, name);
    lua_code_free(&c);
    return name != NULL;
}

/* ---- classes ------------------------------------------------------------------------------- */

/* Returns a metatable's __name, or its name in the registry; "": it has none. */
static const char *class_of(struct lua_heap *h, uint64_t metatable)
{
    struct text name = {0};
    struct lua_value v;
    const char *known = metatable ? table_get(&h->names.classes, metatable) : "";
    if (known)
        return known;
    uint64_t at = 0;
    if (lua_table_find(reader(h), metatable, "__name", NODES_MAX, &v) &&
        (v.tag & TYPE_MASK) == LUA_TSTRING)
        at = v.bits;
    else if (h->names.classes.nr < CLASSES_MAX)
        at = lua_table_name_of(reader(h), h->registry, metatable, REGISTRY_NODES_MAX);
    if (at)
        lua_heap_string(h, at, NAME, &name);
    text_char(&name, 0);
    if (!name.failed && table_put(&h->names.classes, metatable, name.at))
        return name.at;
    text_free(&name);
    return "";
}

/* ---- tables -------------------------------------------------------------------------------- */

static void describe_table(struct lua_heap *h, uint64_t at, struct text *out)
{
    struct lua_table t;
    struct lua_table_walk w;
    struct lua_value key, value;
    struct census_fields fields = {0};
    if (!lua_table_read(reader(h), at, &t))
        return;
    const char *class = class_of(h, t.metatable);
    if (*class)
        text_printf(out, "%s ", class);
    fields.is_array = t.nr_array > 0;
    fields.is_large = t.nr_nodes > 2 * CENSUS_SHAPE_MAX;
    t.nr_array = 0;
    lua_table_begin(&w, &t);
    while (!fields.is_large && lua_table_next(reader(h), &w, &key, &value))
        census_fields_add(&fields, (key.tag & TYPE_MASK) == LUA_TSTRING ? key.bits : 0);
    census_fields_put(&fields, lua_heap_string, h, out);
}

/* ---- all ----------------------------------------------------------------------------------- */

void lua_heap_describe(void *heap, const struct census_object *o, struct text *out)
{
    struct lua_heap *h = heap;
    const struct lua_fields *f = h->f;
    switch (o->type) {
    case CENSUS_STRING:
        lua_heap_string(h, o->address, CENSUS_STRING_SHOWN, out);
        break;
    case CENSUS_FUNCTION:
        text_string(out, site_of(h, lua_heap_word(h, o->address + f->closure.function)));
        break;
    case CENSUS_C_FUNCTION:
        text_printf(out, "[C] 0x%llx",
                    (unsigned long long)lua_heap_word(h, o->address + f->closure.function));
        break;
    case CENSUS_PROTO:
        text_string(out, site_of(h, o->address));
        break;
    case CENSUS_TABLE:
        describe_table(h, o->address, out);
        break;
    case CENSUS_USERDATA:
        text_string(out, class_of(h, lua_heap_word(h, o->address + f->userdata_metatable)));
        break;
    default:
        break;
    }
}
