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
    DEEP_FIELDS_MAX = 256,        /* places of a table that is reached from a library */
    DEEP_OBJECTS_MAX = 1 << 12,   /* tables and closures that are reached from libraries */
    UPVALUES_MAX = 64,            /* of a closure */
    TYPE_MASK = 0xf,
};

/* Whose names count more. */
enum worth { WORTH_CLASS, WORTH_MODULE, WORTH_GLOBAL, WORTH_STANDARD };

/* A table or a closure whose functions are named with what leads to it. */
struct reached {
    uint64_t address;
    const char *prefix; /* interned */
    bool is_closure;
};

struct reading {
    struct lua_reader *r;
    struct managed_names *managed;
    struct lua_library *library;
    bool deep;
    VEC(struct reached) reached; /* in the order in which they are looked at */
    struct hash_table by_address;
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
    vec_free(&l->stored);
    hash_table_free(&l->by_proto);
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

/* ---- Lua functions ------------------------------------------------------------------------- */

static uint32_t find_stored(const struct lua_library *l, uint64_t proto)
{
    return hash_table_find(&l->by_proto, native_hash(proto), i, l->stored.at[i].proto == proto);
}

const struct lua_stored_function *lua_library_stored(const struct lua_library *l, uint64_t proto)
{
    uint32_t at = find_stored(l, proto);
    return at != HASH_TABLE_NONE && l->stored.at[at].name ? &l->stored.at[at] : NULL;
}

/* Put a name behind what leads to it. NULL: too long, or (`failed`) memory is out. */
static const char *join(struct reading *g, const char *prefix, const char *name)
{
    char whole[2 * PART_SIZE];
    int size = snprintf(whole, sizeof(whole), "%s%s%s", prefix, *prefix ? "." : "", name);
    if (size >= (int)sizeof(whole))
        return NULL;
    const char *kept = managed_string(g->managed, whole, (size_t)size);
    g->failed |= !kept;
    return kept;
}

/* The first name of a closure counts: it has the shortest way. The closures of a prototype that
 * have different names are made by a function that makes many: none of the names is the
 * prototype's. */
static void add_lua(struct reading *g, const struct lua_function *f, const char *prefix,
                    const char *name)
{
    struct lua_library *l = g->library;
    uint32_t at = find_stored(l, f->proto);
    if (at != HASH_TABLE_NONE && l->stored.at[at].closure == f->closure)
        return;
    const char *whole = join(g, prefix, name);
    if (!whole)
        return;
    if (at != HASH_TABLE_NONE) {
        if (l->stored.at[at].name != whole)
            l->stored.at[at].name = NULL;
    } else if (l->stored.nr < FUNCTIONS_MAX) {
        const struct lua_stored_function new = {
            .proto = f->proto, .closure = f->closure, .name = whole, .separator = strlen(prefix)};
        g->failed = !vec_push(&l->stored, new) ||
                    !hash_table_add(&l->by_proto, native_hash(f->proto), l->stored.nr - 1);
    }
}

/* Note an object that is to be looked at, if it is not noted yet. */
static void reach(struct reading *g, uint64_t address, const char *prefix, const char *name,
                  bool is_closure)
{
    const char *whole = is_closure ? "" : join(g, prefix, name);
    if (!whole || g->reached.nr >= DEEP_OBJECTS_MAX)
        return;
    const struct reached new = {address, whole, is_closure};
    g->failed |= hash_table_intern(&g->by_address, native_hash(address), &g->reached, i,
                                   g->reached.at[i].address == address, new) == HASH_TABLE_NONE;
}

/* ---- tables -------------------------------------------------------------------------------- */

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

/* Take a value that is stored under a name. */
static void take(struct reading *g, struct lua_value value, enum worth worth, const char *prefix,
                 const char *name)
{
    struct lua_function f;
    if (lua_value_is_table(value)) {
        if (g->deep && worth != WORTH_CLASS)
            reach(g, value.bits, prefix, name, false);
        return;
    }
    if ((value.tag & TYPE_MASK) != LUA_TFUNCTION || !lua_function_of(g->r, value, &f))
        return;
    if (f.kind == LUA_FUNCTION_C) {
        add(g, f.native, worth, prefix, name);
    } else if (worth != WORTH_CLASS) {
        add_lua(g, &f, prefix, name);
        if (g->deep)
            reach(g, f.closure, prefix, name, true);
    }
}

/* Take the functions of a table. */
static void read_functions(struct reading *g, uint64_t table, enum worth worth, const char *prefix,
                           uint32_t places_max)
{
    char name[PART_SIZE];
    struct lua_table t;
    struct lua_table_walk w;
    struct lua_value key, value;
    if (!lua_table_read(g->r, table, &t))
        return;
    t.nr_array = 0;
    lua_table_begin(&w, &t);
    while (!g->failed && w.next < places_max && lua_table_next(g->r, &w, &key, &value)) {
        bool is_of_interest =
            (value.tag & TYPE_MASK) == LUA_TFUNCTION || (g->deep && lua_value_is_table(value));
        if (is_of_interest && read_part(g, key, name))
            take(g, value, worth, prefix, name);
    }
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
        read_functions(g, value.bits, worth, worth == WORTH_GLOBAL ? "" : name, LIBRARY_FIELDS_MAX);
        if (are_classes && lua_table_find(g->r, value.bits, "__index", 64, &index) &&
            lua_value_is_table(index) && index.bits != value.bits)
            read_functions(g, index.bits, worth, name, LIBRARY_FIELDS_MAX);
    }
}

/* ---- what is reached from there ------------------------------------------------------------ */

/* Take what is in an upvalue. */
static void read_upvalue(struct reading *g, const struct lua_proto *p, uint64_t closure,
                         uint32_t index)
{
    const struct lua_fields *f = &g->r->layout->fields;
    uint64_t string, upvalue, at;
    char name[PART_SIZE];
    uint8_t bytes[16];
    if (!lua_read(g->r, p->upvalues + index * (uint64_t)f->proto.upvalue_size, &string,
                  sizeof(string)) ||
        !lua_read_moving(g->r, closure + f->closure.upvalues + 8 * (uint64_t)index, &upvalue,
                         sizeof(upvalue)) ||
        !upvalue || !lua_read_moving(g->r, upvalue + f->closure.upvalue_v, &at, sizeof(at)) ||
        at < 4096 || !lua_read_moving(g->r, at, bytes, sizeof(bytes)))
        return;
    const struct lua_value key = {string, LUA_TSTRING};
    if (read_part(g, key, name) && strcmp(name, "_ENV") != 0)
        take(g, lua_value_of(f, bytes), WORTH_MODULE, "", name);
}

static void read_upvalues(struct reading *g, uint64_t closure)
{
    struct lua_function f;
    struct lua_proto p;
    const struct lua_value v = {closure, g->r->layout->fields.closure.tag_lua};
    if (!lua_function_of(g->r, v, &f) || f.kind != LUA_FUNCTION_LUA ||
        !lua_proto_read(g->r, f.proto, &p) || !p.upvalues)
        return;
    for (uint32_t i = 0; i < p.nr_upvalues && i < f.nr_upvalues && i < UPVALUES_MAX; i++)
        read_upvalue(g, &p, closure, i);
}

/* Tables of values that are not the program's own: they hold all modules once more, or the
 * stack. */
static bool is_followed(const char *prefix)
{
    return strcmp(prefix, "package.loaded") != 0 && strcmp(prefix, "_G") != 0;
}

static void read_reached(struct reading *g)
{
    for (size_t i = 0; i < g->reached.nr && !g->failed; i++) {
        const struct reached at = g->reached.at[i];
        if (at.is_closure)
            read_upvalues(g, at.address);
        else if (is_followed(at.prefix))
            read_functions(g, at.address, WORTH_MODULE, at.prefix, DEEP_FIELDS_MAX);
    }
}

int lua_library_read(struct lua_reader *r, uint64_t global, struct managed_names *managed,
                     uint32_t deep, struct lua_library *ret)
{
    struct reading g = {.r = r, .managed = managed, .library = ret, .deep = deep};
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
    r->budget = r->budget < deep ? r->budget : deep;
    read_reached(&g);
    vec_free(&g.reached);
    hash_table_free(&g.by_address);
    return g.failed ? -1 : 0;
}
