/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The lists of objects: 5.1 has one for all but strings, which are in the string table; 5.2 has one
 * for objects with finalizers, too, and long strings are in the lists; since 5.3 all strings are,
 * and the string table has other links. Open upvalues are in their threads' lists up to 5.2, and in
 * no list in 5.3, where closures own them. Sizes are those that the allocating functions ask for.
 * Sources: lstate.h, lobject.h, lgc.c, lstring.c, ltable.c, lfunc.c of 5.1.5, 5.2.4, 5.3.6, 5.4.8,
 * 5.5.0.
 */
#include "unwind/lua/census_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    OBJECTS_MAX = 1 << 28, /* of one list: the bound of a list that is a circle */
    BUCKETS_MAX = 1 << 26,
    CALLS_MAX = 1 << 20,
    STRING_MAX = 1 << 30,
    TYPE_MASK = 0xf,
    EXTRA_STACK = 5, /* slots of a stack behind its end */
};

bool lua_heap_read(struct lua_heap *h, uint64_t address, void *to, size_t size)
{
    enum provenance ignored = PROVENANCE_EXACT;
    return memory_read(h->r.m, address, to, size, &ignored);
}

uint64_t lua_heap_word(struct lua_heap *h, uint64_t address)
{
    uint64_t word;
    return lua_heap_read(h, address, &word, sizeof(word)) ? word : 0;
}

static uint32_t half_word(struct lua_heap *h, uint64_t address)
{
    uint32_t half;
    return lua_heap_read(h, address, &half, sizeof(half)) ? half : 0;
}

uint8_t lua_heap_byte(struct lua_heap *h, uint64_t address)
{
    uint8_t byte;
    return lua_heap_read(h, address, &byte, 1) ? byte : 0;
}

bool lua_heap_value(struct lua_heap *h, uint64_t address, struct lua_value *ret)
{
    uint8_t bytes[16];
    if (!lua_heap_read(h, address, bytes, sizeof(bytes)))
        return false;
    *ret = lua_value_of(h->f, bytes);
    return true;
}

/* Whether a value is an object: since 5.2 a bit says so. */
static bool is_object(const struct lua_heap *h, struct lua_value v)
{
    enum { COLLECTABLE = 0x40 };
    if (h->version == 51)
        return v.tag >= LUA_TSTRING && v.tag <= LUA_TTHREAD;
    return v.tag < LUA_TAG_INDEX && v.tag & COLLECTABLE;
}

/* A reader's budget bounds one walk; here the lists' own bounds do. */
static struct lua_reader *reader(struct lua_heap *h)
{
    h->r.budget = UINT32_MAX;
    return &h->r;
}

/* ---- sizes --------------------------------------------------------------------------------- */

static uint64_t string_size(struct lua_heap *h, uint64_t at)
{
    enum { LONG_HEAD_55 = 0x20, OTHERS_HEAD_55 = 0x30, FIXED_HEAD_55 = 0x20 };
    enum { KIND_REGULAR = -1, KIND_FIXED = -2 };
    uint64_t text;
    const size_t length = lua_string_place(reader(h), at, &text);
    if (length > STRING_MAX)
        return 0;
    const uint8_t tag = lua_heap_byte(h, at + LUA_OBJECT_TAG) & LUA_TAG_MASK;
    if (h->version < 55 || tag == h->f->string.short_tag)
        return text - at + length + 1;
    const int8_t kind = (int8_t)lua_heap_byte(h, at + h->f->string.short_length);
    return kind == KIND_REGULAR ? LONG_HEAD_55 + length + 1
           : kind == KIND_FIXED ? FIXED_HEAD_55
                                : OTHERS_HEAD_55 + length + 1;
}

static uint64_t table_size(struct lua_heap *h, uint64_t at)
{
    enum { LIMBOX_LOG2 = 3, LIMBOX = 8, VALUE_55 = 9, COUNT_55 = 4 };
    struct lua_table t;
    if (!lua_table_read(reader(h), at, &t))
        return 0;
    uint64_t size = t.head_size;
    if (t.nr_nodes > 1 || (t.nodes && t.nodes != h->no_nodes))
        size += (uint64_t)t.nr_nodes * h->f->table.node_size;
    if (h->version < 55)
        return size + (uint64_t)t.nr_array * h->f->value_size;
    if (t.nr_nodes >= 1u << LIMBOX_LOG2) /* where the last free node is */
        size += LIMBOX;
    return size + (t.nr_array ? (uint64_t)t.nr_array * VALUE_55 + COUNT_55 : 0);
}

static bool is_c_closure(struct lua_heap *h, uint64_t at, uint8_t tag)
{
    if (h->f->closure.is_c != LUA_NO_FIELD)
        return lua_heap_byte(h, at + h->f->closure.is_c) != 0;
    return tag == h->f->closure.tag_c;
}

static uint64_t closure_size(struct lua_heap *h, uint64_t at, bool is_c)
{
    const uint64_t nr = lua_heap_byte(h, at + h->f->closure.nr_upvalues);
    return h->f->closure.upvalues + nr * (is_c ? h->f->value_size : 8);
}

static uint64_t userdata_size(struct lua_heap *h, uint64_t at)
{
    enum { LENGTH_52 = 0x20, LENGTH_53 = 0x18, LENGTH_54 = 0x10 };
    const unsigned length = h->version <= 52 ? LENGTH_52 : h->version == 53 ? LENGTH_53 : LENGTH_54;
    return lua_userdata_head(reader(h), at) + lua_heap_word(h, at + length);
}

static uint64_t upvalue_size(const struct lua_heap *h)
{
    return h->version == 53 ? 0x20 : 0x28;
}

static uint64_t proto_size(struct lua_heap *h, uint64_t at)
{
    enum { INSTRUCTION = 4, POINTER = 8, ABSLINE = 8, LOCAL = 16 };
    struct lua_proto p;
    if (!lua_proto_read(reader(h), at, &p))
        return h->f->proto.size;
    return h->f->proto.size + (uint64_t)p.nr_code * INSTRUCTION + (uint64_t)p.nr_protos * POINTER +
           (uint64_t)p.nr_k * h->f->value_size +
           (uint64_t)p.nr_lineinfo * (h->f->proto.signed_lines ? 1 : 4) +
           (uint64_t)p.nr_abslineinfo * ABSLINE + (uint64_t)p.nr_locvars * LOCAL +
           (uint64_t)p.nr_upvalues * h->f->proto.upvalue_size;
}

struct thread {
    uint64_t stack, nr_slots, nr_used;
};

static struct thread thread_of(struct lua_heap *h, uint64_t L)
{
    const struct lua_fields *f = h->f;
    const uint64_t last = lua_heap_word(h, L + f->state.stack_last);
    const uint64_t ci = lua_heap_word(h, L + f->state.ci);
    uint64_t top = lua_heap_word(h, L + f->state.top), end = lua_heap_word(h, ci + f->ci.top);
    struct thread t = {.stack = lua_heap_word(h, L + f->state.stack)};
    if (!t.stack || last < t.stack || last - t.stack > UINT64_C(16) * LUA_SLOTS_MAX * 2)
        return (struct thread){0}; /* it has no stack yet */
    t.nr_slots = (last - t.stack) / f->value_size + EXTRA_STACK + (h->version == 51);
    top = end > top ? end : top; /* a Lua function may use slots up to its call's end */
    if (top >= t.stack && (top - t.stack) / f->value_size <= t.nr_slots)
        t.nr_used = (top - t.stack) / f->value_size;
    return t;
}

static uint64_t thread_size(struct lua_heap *h, uint64_t L)
{
    enum { NR_CALLS_51 = 0x5c, EXTRA_SPACE = 8 };
    const struct lua_fields *f = h->f;
    uint64_t size = f->state.size + thread_of(h, L).nr_slots * f->value_size;
    if (f->ci.is_array)
        return size + (uint64_t)half_word(h, L + NR_CALLS_51) % LUA_SLOTS_MAX * f->ci.size;
    if (h->version >= 53)
        size += EXTRA_SPACE;
    /* The first CI is in the lua_State; those behind it are blocks of their own, in use or not. */
    uint64_t ci = lua_heap_word(h, L + f->state.ci), at;
    for (unsigned i = 0; i < CALLS_MAX && (at = lua_heap_word(h, ci + f->ci.previous)); i++)
        ci = at;
    for (unsigned i = 0; i < CALLS_MAX && (ci = lua_heap_word(h, ci + f->ci.next)); i++)
        size += f->ci.size;
    return size;
}

/* ---- objects ------------------------------------------------------------------------------- */

/* Get the type and size of an object. Returns false: there is none. */
static bool object_of(struct lua_heap *h, uint64_t at, struct census_object *ret)
{
    enum { UPVALUE_UP_TO_52 = 10, UPVALUE_SINCE_54 = 9 };
    const uint8_t tag = lua_heap_byte(h, at + LUA_OBJECT_TAG) & LUA_TAG_MASK;
    *ret = (struct census_object){.address = at};
    if (tag == h->f->proto.tag) {
        ret->type = CENSUS_PROTO;
        ret->size = proto_size(h, at);
    } else if (h->version != 53 && tag == (h->version < 53 ? UPVALUE_UP_TO_52 : UPVALUE_SINCE_54)) {
        ret->type = CENSUS_UPVALUE;
        ret->size = upvalue_size(h);
    } else if ((tag & TYPE_MASK) == LUA_TSTRING) {
        ret->type = CENSUS_STRING;
        ret->size = string_size(h, at);
    } else if ((tag & TYPE_MASK) == LUA_TTABLE) {
        ret->type = CENSUS_TABLE;
        ret->size = table_size(h, at);
    } else if ((tag & TYPE_MASK) == LUA_TFUNCTION) {
        const bool is_c = is_c_closure(h, at, tag);
        ret->type = is_c ? CENSUS_C_FUNCTION : CENSUS_FUNCTION;
        ret->size = closure_size(h, at, is_c);
    } else if ((tag & TYPE_MASK) == LUA_TUSERDATA) {
        ret->type = CENSUS_USERDATA;
        ret->size = userdata_size(h, at);
    } else if ((tag & TYPE_MASK) == LUA_TTHREAD) {
        ret->type = CENSUS_THREAD;
        ret->size = thread_size(h, at);
    }
    return ret->size != 0;
}

struct lister {
    struct lua_heap *h;
    census_take_object *take;
    void *context;
    struct error *err;
    bool has_main; /* the main thread was told */
    bool is_fixed; /* the list is of objects that are never collected */
};

static int broken_list(struct error *err, uint64_t nr, uint64_t at)
{
    return error_set(err, ERROR_FORMAT,
                     "a list of the VM's objects is broken behind %" PRIu64
                     " objects, at 0x%" PRIx64
                     ": the VM was changing it, or its memory is not all there",
                     nr, at);
}

static int list_upvalue(struct lister *l, uint64_t at)
{
    const struct census_object o = {
        .address = at, .size = upvalue_size(l->h), .type = CENSUS_UPVALUE};
    return l->take(l->context, &o, l->err);
}

/* A thread's open upvalues, which are in no other list up to 5.2. */
static int list_open(struct lister *l, uint64_t L)
{
    uint64_t at = lua_heap_word(l->h, L + l->h->f->state.open_upvalues);
    for (unsigned i = 0; at && i < LUA_SLOTS_MAX && l->h->version <= 52; i++) {
        if (list_upvalue(l, at))
            return -1;
        at = lua_heap_word(l->h, at);
    }
    return 0;
}

/* 5.3: upvalues belong to the closures that share them. */
static int list_shared(struct lister *l, uint64_t closure)
{
    const struct lua_fields *f = l->h->f;
    const unsigned nr = lua_heap_byte(l->h, closure + f->closure.nr_upvalues);
    for (unsigned i = 0; i < nr && l->h->version == 53; i++) {
        const uint64_t at = lua_heap_word(l->h, closure + f->closure.upvalues + 8 * (uint64_t)i);
        if (!at || table_get(&l->h->upvalues, at))
            continue;
        if (!table_put(&l->h->upvalues, at, l->h))
            return error_no_memory(l->err);
        if (list_upvalue(l, at))
            return -1;
    }
    return 0;
}

/* Whether an object is never collected: a mark says so up to 5.2, later its list. */
static bool is_fixed(const struct lister *l, uint64_t at)
{
    enum { MARKS = 9, FIXED = 0x20 };
    return l->is_fixed || (l->h->version <= 52 && lua_heap_byte(l->h, at + MARKS) & FIXED);
}

static int list_object(struct lister *l, const struct census_object *o)
{
    if (l->take(l->context, o, l->err))
        return -1;
    if (is_fixed(l, o->address) && !vec_push(&l->h->fixed, o->address))
        return error_no_memory(l->err);
    l->has_main |= o->address == l->h->main;
    if (o->type == CENSUS_THREAD)
        return list_open(l, o->address);
    return o->type == CENSUS_FUNCTION ? list_shared(l, o->address) : 0;
}

static int list(struct lister *l, uint64_t at)
{
    for (uint64_t nr = 0; at; nr++) {
        struct census_object o;
        const bool is_sound = lua_is_address(at) && object_of(l->h, at, &o);
        /* The newest one may not be filled in yet. */
        if (nr >= OBJECTS_MAX || (!is_sound && nr) || !lua_is_address(at))
            return broken_list(l->err, nr, at);
        if (is_sound && list_object(l, &o))
            return -1;
        at = lua_heap_word(l->h, at);
    }
    return 0;
}

/* 5.1 has userdata to be finalized in a circle, whose last one is pointed to. */
static int list_circle(struct lister *l, uint64_t last)
{
    uint64_t at = last ? lua_heap_word(l->h, last) : 0;
    for (uint64_t nr = 0; at; nr++) {
        struct census_object o;
        if (nr >= OBJECTS_MAX || !lua_is_address(at) || !object_of(l->h, at, &o))
            return broken_list(l->err, nr, at);
        if (list_object(l, &o))
            return -1;
        at = at == last ? 0 : lua_heap_word(l->h, at);
    }
    return 0;
}

/* The string table: its array, how many strings it has, how many buckets. */
static uint64_t string_table(const struct lua_heap *h)
{
    return h->version == 51 ? h->g : h->g + h->f->global.registry - 16;
}

static int list_strings(struct lister *l)
{
    struct lua_heap *h = l->h;
    const uint64_t at = string_table(h), array = lua_heap_word(h, at);
    const uint32_t nr = half_word(h, at + 12);
    if (!array || nr > BUCKETS_MAX)
        return broken_list(l->err, 0, array);
    for (uint32_t i = 0; i < nr; i++) {
        if (list(l, lua_heap_word(h, array + 8 * (uint64_t)i)))
            return -1;
    }
    return 0;
}

/* Where the heads of the other lists are, from that of all objects on (lstate.h). */
enum { FINOBJ_52 = 8, TOBEFNZ_52 = 0x48, FINOBJ = 0x10, TOBEFNZ = 0x40, FIXEDGC = 0x48 };
enum { TMUDATA_51 = 0x28 };

static int list_others(struct lister *l, uint64_t head)
{
    static const uint8_t since_53[] = {FINOBJ, TOBEFNZ, FIXEDGC}, in_52[] = {FINOBJ_52, TOBEFNZ_52};
    struct lua_heap *h = l->h;
    if (h->version == 51)
        return list_circle(l, lua_heap_word(h, head + TMUDATA_51));
    const bool is_52 = h->version == 52;
    const uint8_t *at = is_52 ? in_52 : since_53;
    for (size_t i = 0; i < (is_52 ? sizeof(in_52) : sizeof(since_53)); i++) {
        l->is_fixed = !is_52 && at[i] == FIXEDGC;
        if (list(l, lua_heap_word(h, head + at[i])))
            return -1;
    }
    return 0;
}

static int objects(void *heap, census_take_object *take, void *context, struct error *err)
{
    struct lua_heap *h = heap;
    struct lister l = {.h = h, .take = take, .context = context, .err = err};
    const uint64_t head = h->g + h->f->global.all_objects;
    struct census_object o;
    if ((h->version <= 52 && list_strings(&l)) || list(&l, lua_heap_word(h, head)) ||
        list_others(&l, head))
        return -1;
    /* 5.2 and 5.3 have it in no list. */
    if (!l.has_main && (!object_of(h, h->main, &o) || list_object(&l, &o)))
        return err->kind ? -1 : broken_list(err, 0, h->main);
    return 0;
}

/* ---- references ---------------------------------------------------------------------------- */

struct taker {
    struct lua_heap *h;
    census_take_reference *take;
    void *context;
};

static void refer(const struct taker *t, enum census_link link, uint64_t to, int64_t number)
{
    const struct census_reference r = {.to = to, .link = (uint8_t)link, .number = number};
    if (to)
        t->take(t->context, &r);
}

static void refer_value(const struct taker *t, enum census_link link, uint64_t at, int64_t number)
{
    struct lua_value v;
    if (lua_heap_value(t->h, at, &v) && is_object(t->h, v))
        refer(t, link, v.bits, number);
}

static void read_mode(struct lua_heap *h, uint64_t metatable, bool *weak_keys, bool *weak_values)
{
    enum { NODES_MAX = 256 };
    struct lua_value v;
    char mode[8] = "";
    *weak_keys = *weak_values = false;
    if (!metatable || !lua_table_find(reader(h), metatable, "__mode", NODES_MAX, &v) ||
        (v.tag & TYPE_MASK) != LUA_TSTRING ||
        lua_string_read(reader(h), v.bits, mode, sizeof(mode) - 1) >= sizeof(mode))
        return;
    *weak_keys = strchr(mode, 'k');
    *weak_values = strchr(mode, 'v');
}

/* Set the key of a field: integers are numbers of 5.1 and 5.2, too. */
static void set_key(const struct lua_heap *h, struct lua_value key, struct census_reference *r)
{
    enum { VARIANT = 0x10 };
    const unsigned type = key.tag & TYPE_MASK;
    double number;
    memcpy(&number, &key.bits, sizeof(number));
    r->key = CENSUS_KEY_OTHER;
    if (key.tag == LUA_TAG_INDEX) {
        r->key = CENSUS_KEY_INTEGER;
        r->number = (int64_t)key.bits;
    } else if (type == LUA_TSTRING) {
        r->key = CENSUS_KEY_STRING;
        r->string = key.bits;
    } else if (type == LUA_TNUMBER && (h->version == 53 ? key.tag & VARIANT : h->version >= 54) &&
               (h->version == 53 || !(key.tag & VARIANT))) {
        r->key = CENSUS_KEY_INTEGER;
        r->number = (int64_t)key.bits;
    } else if (type == LUA_TNUMBER && number >= INT32_MIN && number <= INT32_MAX &&
               (double)(int64_t)number == number) {
        r->key = CENSUS_KEY_INTEGER;
        r->number = (int64_t)number;
    }
}

static void refer_table(const struct taker *t, uint64_t at)
{
    struct lua_table table;
    struct lua_table_walk w;
    struct lua_value key, value;
    bool weak_keys, weak_values;
    if (!lua_table_read(reader(t->h), at, &table))
        return;
    refer(t, CENSUS_METATABLE, table.metatable, 0);
    read_mode(t->h, table.metatable, &weak_keys, &weak_values);
    lua_table_begin(&w, &table);
    while (lua_table_next(reader(t->h), &w, &key, &value)) {
        struct census_reference r = {.to = key.bits, .link = CENSUS_KEY, .is_weak = weak_keys};
        if (is_object(t->h, key))
            t->take(t->context, &r);
        if (!is_object(t->h, value))
            continue;
        r = (struct census_reference){
            .to = value.bits, .link = CENSUS_FIELD, .is_weak = weak_values};
        set_key(t->h, key, &r);
        t->take(t->context, &r);
    }
}

static void refer_closure(const struct taker *t, const struct census_object *o)
{
    enum { ENVIRONMENT_51 = 0x18 };
    const struct lua_fields *f = t->h->f;
    const unsigned nr = lua_heap_byte(t->h, o->address + f->closure.nr_upvalues);
    const uint64_t upvalues = o->address + f->closure.upvalues;
    if (t->h->version == 51)
        refer(t, CENSUS_ENVIRONMENT, lua_heap_word(t->h, o->address + ENVIRONMENT_51), 0);
    if (o->type == CENSUS_FUNCTION)
        refer(t, CENSUS_CODE, lua_heap_word(t->h, o->address + f->closure.function), 0);
    for (unsigned i = 0; i < nr; i++) {
        if (o->type == CENSUS_FUNCTION)
            refer(t, CENSUS_CLOSED, lua_heap_word(t->h, upvalues + 8 * (uint64_t)i), i + 1);
        else
            refer_value(t, CENSUS_CLOSED, upvalues + (uint64_t)f->value_size * i, i + 1);
    }
}

static void refer_words(const struct taker *t, uint64_t at, uint32_t nr, unsigned each)
{
    for (uint32_t i = 0; i < nr; i++)
        refer(t, CENSUS_CONSTANT, lua_heap_word(t->h, at + (uint64_t)each * i), 0);
}

static void refer_proto(const struct taker *t, uint64_t at)
{
    enum { LOCAL = 16 };
    struct lua_proto p;
    if (!lua_proto_read(reader(t->h), at, &p))
        return;
    refer(t, CENSUS_CONSTANT, p.source, 0);
    for (uint32_t i = 0; i < p.nr_k; i++)
        refer_value(t, CENSUS_CONSTANT, p.k + (uint64_t)t->h->f->value_size * i, 0);
    refer_words(t, p.protos, p.nr_protos, 8);
    refer_words(t, p.locvars, p.nr_locvars, LOCAL);
    refer_words(t, p.upvalues, p.nr_upvalues, t->h->f->proto.upvalue_size);
}

static void refer_thread(const struct taker *t, uint64_t L)
{
    enum { GLOBALS_51 = 0x78 };
    const struct thread of = thread_of(t->h, L);
    for (uint64_t i = 0; i < of.nr_used; i++)
        refer_value(t, CENSUS_SLOT, of.stack + i * t->h->f->value_size, (int64_t)i);
    if (t->h->version == 51)
        refer_value(t, CENSUS_ENVIRONMENT, L + GLOBALS_51, 0);
}

static void refer_userdata(const struct taker *t, uint64_t at)
{
    enum { ENVIRONMENT_52 = 0x18, VALUE_53 = 0x20, TAG_53 = 0xa, NR_VALUES = 0xa, VALUES = 0x28 };
    struct lua_heap *h = t->h;
    refer(t, CENSUS_METATABLE, lua_heap_word(h, at + h->f->userdata_metatable), 0);
    if (h->version <= 52) {
        refer(t, CENSUS_ENVIRONMENT, lua_heap_word(h, at + ENVIRONMENT_52), 0);
    } else if (h->version == 53) {
        const struct lua_value v = {lua_heap_word(h, at + VALUE_53), lua_heap_byte(h, at + TAG_53)};
        if (is_object(h, v))
            refer(t, CENSUS_VALUE, v.bits, 0);
    } else {
        const uint32_t nr = half_word(h, at + NR_VALUES) & 0xffff;
        for (uint32_t i = 0; i < nr; i++)
            refer_value(t, CENSUS_VALUE, at + VALUES + (uint64_t)h->f->value_size * i, 0);
    }
}

static void references(void *heap, const struct census_object *o, census_take_reference *take,
                       void *context)
{
    struct lua_heap *h = heap;
    const struct taker t = {.h = h, .take = take, .context = context};
    if (o->type == CENSUS_TABLE)
        refer_table(&t, o->address);
    else if (o->type == CENSUS_FUNCTION || o->type == CENSUS_C_FUNCTION)
        refer_closure(&t, o);
    else if (o->type == CENSUS_UPVALUE)
        refer_value(&t, CENSUS_VALUE, lua_heap_word(h, o->address + h->f->closure.upvalue_v), 0);
    else if (o->type == CENSUS_PROTO)
        refer_proto(&t, o->address);
    else if (o->type == CENSUS_THREAD)
        refer_thread(&t, o->address);
    else if (o->type == CENSUS_USERDATA)
        refer_userdata(&t, o->address);
}

static void refer_root(const struct taker *t, uint64_t to, const char *name)
{
    const struct census_reference r = {.to = to, .link = CENSUS_ROOT, .name = name};
    if (to)
        t->take(t->context, &r);
}

/* The table of global variables: the main thread's in 5.1, later the registry's field 2. */
static uint64_t globals(struct lua_heap *h)
{
    enum { GLOBALS_51 = 0x78, GLOBALS_INDEX = 2 };
    struct lua_table t;
    struct lua_table_walk w;
    struct lua_value key, value;
    if (h->version == 51)
        return lua_heap_value(h, h->main + GLOBALS_51, &value) ? value.bits : 0;
    if (!lua_table_read(reader(h), h->registry, &t))
        return 0;
    lua_table_begin(&w, &t);
    while (lua_table_next(reader(h), &w, &key, &value)) {
        struct census_reference r = {0};
        set_key(h, key, &r);
        if (r.key == CENSUS_KEY_INTEGER && r.number == GLOBALS_INDEX && lua_value_is_table(value))
            return value.bits;
    }
    return 0;
}

static void roots(void *heap, census_take_reference *take, void *context)
{
    enum { METATABLES = 9 };
    struct lua_heap *h = heap;
    const struct taker t = {.h = h, .take = take, .context = context};
    refer_root(&t, globals(h), "_G");
    refer_root(&t, h->registry, "[registry]");
    refer_root(&t, h->main, "[main thread]");
    vec_foreach (at, &h->fixed)
        refer_root(&t, *at, "[fixed]");
    for (unsigned i = 0; i < METATABLES && h->f->global.metatables != LUA_NO_FIELD; i++)
        refer_root(&t, lua_heap_word(h, h->g + h->f->global.metatables + 8 * (uint64_t)i),
                   "[metatables of basic types]");
}

/* ---- the VM -------------------------------------------------------------------------------- */

/* Bytes by the VM's own count: one counter, or a counter and what is owed (lgc.h: gettotalbytes).
 */
static uint64_t total(void *heap)
{
    enum { TOTAL_51 = 0x78, TOTAL = 0x10, DEBT = 0x18 };
    struct lua_heap *h = heap;
    if (h->version == 51)
        return lua_heap_word(h, h->g + TOTAL_51);
    const uint64_t bytes = lua_heap_word(h, h->g + TOTAL), debt = lua_heap_word(h, h->g + DEBT);
    return h->version >= 55 ? bytes - debt : bytes + debt;
}

/* The string table, and global_State, whose last parts are the metatables of basic types, the names
 * of metamethods (before them since 5.2), and since 5.3 a cache of strings. */
static uint64_t own(void *heap)
{
    enum { METATABLES = 9 * 8, NAMES_51 = 17 * 8, CACHE = 53 * 2 * 8 };
    struct lua_heap *h = heap;
    const bool is_early_53 = h->version == 53 && h->f->ci.fresh_if_clear; /* without the cache */
    const uint64_t last = h->version == 51                   ? NAMES_51
                          : h->version >= 53 && !is_early_53 ? CACHE
                                                             : 0;
    return 8 * (uint64_t)half_word(h, string_table(h) + 12) + h->f->global.metatables + METATABLES +
           last;
}

/* Find the node of tables without nodes: two tables that have the same one. */
static void find_no_nodes(struct lua_heap *h)
{
    enum { SEARCHED_MAX = 1 << 20 };
    struct table seen = {0};
    uint64_t at = lua_heap_word(h, h->g + h->f->global.all_objects);
    for (unsigned i = 0; at && i < SEARCHED_MAX && !h->no_nodes; i++) {
        struct lua_table t;
        const uint8_t tag = lua_heap_byte(h, at + LUA_OBJECT_TAG) & LUA_TAG_MASK;
        if (tag == LUA_TTABLE && lua_table_read(reader(h), at, &t) && t.nr_nodes == 1) {
            if (table_get(&seen, t.nodes))
                h->no_nodes = t.nodes;
            else if (!table_put(&seen, t.nodes, h))
                break;
        }
        at = lua_heap_word(h, at);
    }
    table_free(&seen);
}

static int begin(const struct runtime_memory *m, const struct runtime_vm *vm, void **ret,
                 struct error *err)
{
    struct lua_heap *h = calloc(1, sizeof(*h));
    struct lua_value registry;
    if (!h)
        return error_no_memory(err);
    h->r =
        (struct lua_reader){.m = m->memory, .layout = vm->instance->layout, .budget = UINT32_MAX};
    h->f = &h->r.layout->fields;
    h->version = h->r.layout->version;
    h->g = vm->address;
    h->main = lua_main_thread(reader(h), h->g);
    if (lua_heap_value(h, h->g + h->f->global.registry, &registry) && lua_value_is_table(registry))
        h->registry = registry.bits;
    find_no_nodes(h);
    *ret = h;
    return 0;
}

static void end(void *heap)
{
    struct lua_heap *h = heap;
    table_free(&h->upvalues);
    vec_free(&h->fixed);
    census_names_free(&h->names);
    free(h);
}

/* ---- finding VMs --------------------------------------------------------------------------- */

enum { PIECE = 1 << 16, STATE_HEAD = 48, GRAIN = 8 };

struct search {
    const struct memory *m;
    const struct runtime_instance *at;
    size_t nr;
    runtime_vm_list *ret;
    struct table seen; /* global_States that were looked at */
    uint8_t piece[PIECE + STATE_HEAD];
};

/* Whether there is a VM of a layout: its main thread leads back to it, and its registry is a
 * table. */
static bool is_vm(const struct search *s, const struct lua_layout *l, uint64_t g)
{
    struct lua_heap h = {.r = {.m = s->m, .layout = l}, .f = &l->fields, .version = l->version};
    struct lua_value registry;
    struct lua_table t;
    const uint64_t main = lua_main_thread(reader(&h), g);
    return lua_is_address(main) &&
           (lua_heap_byte(&h, main + LUA_OBJECT_TAG) & LUA_TAG_MASK) == LUA_TTHREAD &&
           lua_heap_word(&h, main + l->fields.state.global) == g &&
           lua_heap_value(&h, g + l->fields.global.registry, &registry) &&
           lua_value_is_table(registry) && lua_table_read(reader(&h), registry.bits, &t);
}

/* Look at the global_State of the lua_State whose head may be at `head`. */
static bool note_vm(struct search *s, const uint8_t *head)
{
    if ((head[LUA_OBJECT_TAG] & LUA_TAG_MASK) != LUA_TTHREAD)
        return true;
    for (size_t i = 0; i < s->nr; i++) {
        const struct lua_layout *l = s->at[i].layout;
        const uint64_t g = lua_u64(head, l->fields.state.global);
        if (!lua_is_address(g) || table_get(&s->seen, g + i) || !is_vm(s, l, g))
            continue;
        if (!table_put(&s->seen, g + i, s) || !vec_push(s->ret, (struct runtime_vm){g, &s->at[i]}))
            return false;
    }
    return true;
}

/* Search a range in pieces, and a piece that is not all there in its pages. */
static bool search_range(struct search *s, uint64_t start, uint64_t end, size_t piece)
{
    enum { PAGE = 4096 };
    enum provenance ignored = PROVENANCE_EXACT;
    for (uint64_t at = start, size; at < end; at += size) {
        size = end - at < piece ? end - at : piece;
        /* a head may begin in this piece and end in the next one */
        size_t head = end - at - size < STATE_HEAD ? (size_t)(end - at - size) : STATE_HEAD;
        if (!memory_read(s->m, at, s->piece, size + head, &ignored)) {
            head = 0;
            if (!memory_read(s->m, at, s->piece, size, &ignored)) {
                if (size > PAGE && !search_range(s, at, at + size, PAGE))
                    return false;
                continue;
            }
        }
        for (size_t i = 0; i + STATE_HEAD <= size + head; i += GRAIN) {
            if (!note_vm(s, s->piece + i))
                return false;
        }
    }
    return true;
}

static int find(const struct runtime_memory *m, const struct runtime_instance *at, size_t nr,
                runtime_vm_list *ret, struct error *err)
{
    struct search *s = malloc(sizeof(*s));
    bool ok = s != NULL;
    if (!s)
        return error_no_memory(err);
    s->m = m->memory;
    s->at = at;
    s->nr = nr < RUNTIME_INSTANCES_MAX ? nr : RUNTIME_INSTANCES_MAX;
    s->ret = ret;
    s->seen = (struct table){0};
    for (size_t i = 0; i < m->nr_writable && ok; i++)
        ok = search_range(s, m->writable[i].start, m->writable[i].end, PIECE);
    table_free(&s->seen);
    free(s);
    return ok ? 0 : error_no_memory(err);
}

const struct census_heap lua_census = {.find = find,
                                       .begin = begin,
                                       .end = end,
                                       .total = total,
                                       .own = own,
                                       .own_name = "the VM's own tables",
                                       .objects = objects,
                                       .roots = roots,
                                       .references = references,
                                       .describe = lua_heap_describe,
                                       .upvalue = lua_heap_upvalue,
                                       .string = lua_heap_string};
