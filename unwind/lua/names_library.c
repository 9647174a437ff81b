/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/lua/names_library.h"

#include "base/hash.h"
#include "unwind/lua/table.h"

#include <stdio.h>
#include <string.h>

enum {
    PART_SIZE = 64,               /* bytes of a library's and of a function's name */
    FUNCTIONS_MAX = 1 << 16,      /* of one VM */
    LIBRARY_FIELDS_MAX = 1 << 13, /* places of one library's table that are looked at */
    LIBRARIES_MAX = 1 << 12,      /* places of package.loaded, and of the registry */
    TYPE_MASK = 0xf,
};

/* Whose names count more. */
enum worth { WORTH_CLASS, WORTH_MODULE, WORTH_GLOBAL, WORTH_STANDARD };

struct reading {
    struct lua_reader *r;
    struct managed_names *managed;
    struct lua_library *library;
    bool failed; /* memory is out */
};

static uint64_t native_hash(uint64_t native)
{
    return hash_u64(native);
}

static uint32_t find(const struct lua_library *l, uint64_t native)
{
    return hash_table_find(&l->by_native, native_hash(native), i,
                           l->functions.at[i].native == native);
}

struct lua_library_function *lua_library_find(struct lua_library *l, uint64_t native)
{
    uint32_t at = find(l, native);
    return at != HASH_TABLE_NONE ? &l->functions.at[at] : NULL;
}

void lua_library_free(struct lua_library *l)
{
    vec_free(&l->functions);
    hash_table_free(&l->by_native);
}

/* Is this name to be taken in place of the one that the function has? */
static bool is_better(const struct lua_library_function *have, enum worth worth, const char *name)
{
    return worth > have->worth || (worth == have->worth && strcmp(name, have->name) < 0);
}

static void add(struct reading *g, uint64_t native, enum worth worth, const char *prefix,
                const char *name)
{
    char whole[2 * PART_SIZE];
    struct lua_library *l = g->library;
    snprintf(whole, sizeof(whole), "%s%s%s", prefix,
             !*prefix               ? ""
             : worth == WORTH_CLASS ? ":"
                                    : ".",
             name);
    uint32_t at = find(l, native);
    if (at != HASH_TABLE_NONE && !is_better(&l->functions.at[at], worth, whole))
        return;
    const char *kept = managed_string(g->managed, whole, strlen(whole));
    const struct lua_library_function f = {native, kept, 0, (uint8_t)worth};
    if (!kept) {
        g->failed = true;
    } else if (at != HASH_TABLE_NONE) {
        l->functions.at[at] = f;
    } else if (l->functions.nr < FUNCTIONS_MAX) {
        g->failed = !vec_push(&l->functions, f) ||
                    !hash_table_add(&l->by_native, native_hash(native), l->functions.nr - 1);
    }
}

/* A name that can be part of one: printable, and short. */
static bool read_part(struct reading *g, struct lua_value key, char to[PART_SIZE])
{
    if ((key.tag & TYPE_MASK) != LUA_TSTRING || key.tag == LUA_TAG_INDEX)
        return false;
    size_t length = lua_string_read(g->r, key.bits, to, PART_SIZE - 1);
    for (size_t i = 0; i < length && length < PART_SIZE; i++)
        if ((unsigned char)to[i] <= ' ' || (unsigned char)to[i] >= 0x7f)
            return false;
    return length > 0 && length < PART_SIZE;
}

/* Take the C functions of a table. */
static void read_functions(struct reading *g, uint64_t table, enum worth worth, const char *prefix)
{
    char name[PART_SIZE];
    struct lua_table t;
    struct lua_table_walk w;
    struct lua_value key, value;
    struct lua_function f;
    if (!lua_table_read(g->r, table, &t))
        return;
    t.nr_array = 0;
    lua_table_begin(&w, &t);
    while (!g->failed && w.next < LIBRARY_FIELDS_MAX && lua_table_next(g->r, &w, &key, &value))
        if ((value.tag & TYPE_MASK) == LUA_TFUNCTION && lua_function_of(g->r, value, &f) &&
            f.kind == LUA_FUNCTION_C && read_part(g, key, name))
            add(g, f.native, worth, prefix, name);
}

static enum worth worth_of(const char *module)
{
    static const char *const standard[] = {"string", "table",     "math", "io",    "os",
                                           "debug",  "coroutine", "utf8", "bit32", "package"};
    for (size_t i = 0; i < sizeof(standard) / sizeof(*standard); i++)
        if (strcmp(module, standard[i]) == 0)
            return WORTH_STANDARD;
    return strcmp(module, "_G") == 0 ? WORTH_GLOBAL : WORTH_MODULE;
}

/* Read the tables in a table, each under its name. Of a class (luaL_newmetatable), the methods are
 * in the metatable or in its __index. */
static void read_tables(struct reading *g, uint64_t table, bool are_classes)
{
    char name[PART_SIZE];
    struct lua_table t;
    struct lua_table_walk w;
    struct lua_value key, value, index;
    if (!lua_table_read(g->r, table, &t))
        return;
    t.nr_array = 0;
    lua_table_begin(&w, &t);
    while (!g->failed && w.next < LIBRARIES_MAX && lua_table_next(g->r, &w, &key, &value)) {
        if (!lua_value_is_table(value) || !read_part(g, key, name))
            continue;
        enum worth worth = are_classes ? WORTH_CLASS : worth_of(name);
        if (are_classes && *name == '_')
            continue;
        read_functions(g, value.bits, worth, worth == WORTH_GLOBAL ? "" : name);
        if (are_classes && lua_table_find(g->r, value.bits, "__index", 64, &index) &&
            lua_value_is_table(index) && index.bits != value.bits)
            read_functions(g, index.bits, worth, name);
    }
}

int lua_library_read(struct lua_reader *r, uint64_t global, struct managed_names *managed,
                     struct lua_library *ret)
{
    struct reading g = {.r = r, .managed = managed, .library = ret};
    const struct lua_fields *f = &r->layout->fields;
    struct lua_value registry, loaded;
    uint8_t bytes[16];
    if (!lua_read_moving(r, global + f->global.registry, bytes, f->value_size))
        return 0;
    registry = lua_value_of(f, bytes);
    if (!lua_value_is_table(registry))
        return 0;
    if (lua_table_find(r, registry.bits, "_LOADED", LIBRARIES_MAX, &loaded) &&
        lua_value_is_table(loaded))
        read_tables(&g, loaded.bits, false);
    read_tables(&g, registry.bits, true);
    return g.failed ? -1 : 0;
}
