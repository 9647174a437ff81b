/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Strings are in the VM's string table, open upvalues in their threads' lists, all other objects in
 * the list that begins at g->gc.root: first those that are newest, then the main thread, then the
 * userdata (lj_gc.c, lj_str.c, lj_func.c, lj_udata.c).
 */
#include "unwind/luajit/census.h"

#include "unwind/luajit/census_internal.h"
#include "unwind/luajit/vm.h"
#include "unwind/runtime.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    OBJECTS_MAX = 1 << 28, /* of one VM: the bound of a list that is a circle */
    BUCKETS_MAX = 1 << 26,
    PIECE = 4096, /* bytes of an array that are read at once */
    HEAD_SHORT = 24,
    FIELDS_MAX = 1 << 10,  /* nodes among which a field is looked for */
    FIXED = 0x20,          /* of an object's marks: it is never collected (lj_gc.h) */
    STRINGS_MAX = 1 << 28, /* that are followed while the string table is looked for */
};

static bool read_bytes(const struct luajit_heap *h, uint64_t address, void *to, size_t size)
{
    enum provenance ignored = PROVENANCE_EXACT;
    return memory_read(h->m, address, to, size, &ignored);
}

static uint64_t read_ref(const struct luajit_heap *h, uint64_t address)
{
    uint8_t bytes[8];
    return read_bytes(h, address, bytes, (size_t)h->l->ref_size) ? luajit_load_ref(h->l, bytes) : 0;
}

/* Read an object's head, with zeros for what is behind the end of readable memory. */
bool luajit_heap_head(const struct luajit_heap *h, uint64_t address, uint8_t head[LUAJIT_HEAD])
{
    memset(head, 0, LUAJIT_HEAD);
    for (size_t size = LUAJIT_HEAD; size >= HEAD_SHORT; size /= 2) {
        if (read_bytes(h, address, head, size))
            return true;
    }
    return read_bytes(h, address, head, HEAD_SHORT);
}

/* ---- the string table ---------------------------------------------------------------------- */

/* Up to three of a reference's low bits are flags of the bucket. */
static uint64_t link_of(uint64_t word)
{
    return word & ~UINT64_C(7);
}

/* Follow a bucket's chain. Returns how many strings it has; -1: it has something else in it, or
 * more than `most`, or `take` failed. */
static int64_t follow_bucket(struct luajit_heap *h, uint64_t at, uint64_t most,
                             census_take_object *take, void *context, struct error *err)
{
    uint64_t nr = 0;
    for (; at; nr++) {
        uint8_t head[32];
        if (nr >= most || !h->budget-- || !read_bytes(h, at, head, (size_t)h->l->str_size) ||
            head[h->l->gct] != LUAJIT_GCT_STR)
            return -1;
        const struct census_object o = {
            .address = at,
            .size = luajit_string_bytes(h->l, load_u32(head + h->l->str_len, false)),
            .type = CENSUS_STRING};
        if (take && take(context, &o, err))
            return -1;
        if (take && head[h->l->gct - 1] & FIXED && !vec_push(&h->fixed, at))
            return error_no_memory(err);
        at = link_of(luajit_load_ref(h->l, head));
    }
    return (int64_t)nr;
}

/* Follow the chains of the first `nr_buckets` buckets. Returns how many strings they have; -1: as
 * above. */
static int64_t follow_buckets(struct luajit_heap *h, uint64_t nr_buckets, census_take_object *take,
                              void *context, struct error *err)
{
    const size_t each = (size_t)h->l->ref_size;
    uint8_t piece[PIECE];
    uint64_t nr = 0;
    for (uint64_t i = 0; i < nr_buckets; i += sizeof(piece) / each) {
        size_t here = nr_buckets - i < sizeof(piece) / each ? nr_buckets - i : sizeof(piece) / each;
        if (!read_bytes(h, h->strings + i * each, piece, here * each))
            return -1;
        for (size_t k = 0; k < here; k++) {
            int64_t got = follow_bucket(h, link_of(luajit_load_ref(h->l, piece + k * each)),
                                        h->nr_strings - nr, take, context, err);
            if (got < 0)
                return -1;
            nr += (uint64_t)got;
        }
    }
    return (int64_t)nr;
}

/* Whether the words at `at` are the string table's: its address, its mask, how many strings it has.
 * Every version has these three one after the other. The table itself proves it. */
static bool is_string_table(struct luajit_heap *h, const uint8_t *at)
{
    enum { BUCKETS_MIN = 64 };
    const uint64_t array = load_u64(at, false);
    const uint32_t mask = load_u32(at + 8, false), nr = load_u32(at + 12, false);
    if (array < 4096 || array % 4 || mask < BUCKETS_MIN - 1 || mask >= BUCKETS_MAX ||
        (mask & (mask + 1)) || !nr)
        return false;
    h->strings = array;
    h->nr_buckets = mask + UINT64_C(1);
    h->nr_strings = nr;
    return follow_buckets(h, BUCKETS_MIN, NULL, NULL, NULL) > 0 &&
           follow_buckets(h, h->nr_buckets, NULL, NULL, NULL) == nr;
}

static bool find_strings(struct luajit_heap *h)
{
    h->budget = STRINGS_MAX;
    for (size_t at = 0; at + 16 <= h->global_size; at += 8) {
        if (is_string_table(h, h->global + at))
            return true;
    }
    h->strings = h->nr_strings = h->nr_buckets = 0;
    return false;
}

/* ---- tables -------------------------------------------------------------------------------- */

/* Call `take` for the slots of an array, up to `most` ones. Returns false when it says so. */
bool luajit_heap_each(const struct luajit_heap *h, uint64_t address, uint64_t nr, size_t step,
                      bool (*take)(void *context, uint64_t index, const uint8_t *slot),
                      void *context)
{
    uint8_t piece[LUAJIT_NODE * (PIECE / LUAJIT_NODE)];
    const uint64_t in_piece = sizeof(piece) / step;
    for (uint64_t i = 0; i < nr; i += in_piece) {
        uint64_t here = nr - i < in_piece ? nr - i : in_piece;
        if (!read_bytes(h, address + i * step, piece, here * step))
            return false;
        for (uint64_t k = 0; k < here; k++) {
            if (!take(context, i + k, piece + k * step))
                return false;
        }
    }
    return true;
}

bool luajit_heap_table(const struct luajit_heap *h, uint64_t address, struct luajit_table *ret)
{
    uint8_t head[LUAJIT_HEAD];
    return address && luajit_heap_head(h, address, head) && head[h->l->gct] == LUAJIT_GCT_TAB &&
           luajit_table_of(h->l, head, ret);
}

struct find_field {
    const struct luajit_heap *h;
    const char *name;
    size_t length;
    uint64_t left; /* nodes that may still be looked at */
    struct luajit_slot found;
};

static bool match_field(void *context, uint64_t index, const uint8_t *node)
{
    struct find_field *f = context;
    const struct luajit_layout *l = f->h->l;
    const struct luajit_slot key = luajit_slot_of(l, load_u64(node + LUAJIT_NODE_KEY, false));
    char text[32];
    uint32_t length;
    (void)index;
    if (!f->left--)
        return false;
    if (key.tag != LUAJIT_TAG_STR ||
        !read_bytes(f->h, key.object + (uint64_t)l->str_len, &length, sizeof(length)) ||
        length != f->length || length > sizeof(text) ||
        !read_bytes(f->h, key.object + (uint64_t)l->str_size, text, length) ||
        memcmp(text, f->name, length) != 0)
        return true;
    f->found = luajit_slot_of(l, load_u64(node, false));
    return false;
}

struct luajit_slot luajit_heap_field(const struct luajit_heap *h, const struct luajit_table *t,
                                     const char *name)
{
    struct find_field f = {.h = h,
                           .name = name,
                           .length = strlen(name),
                           .left = FIELDS_MAX,
                           .found = {.tag = LUAJIT_TAG_NIL}};
    luajit_heap_each(h, t->nodes, t->nr_nodes, LUAJIT_NODE, match_field, &f);
    return f.found;
}

/* ---- the VM's words ------------------------------------------------------------------------ */

/* The registry is the table in global_State that has a field _LOADED (lib_package.c). */
static void find_registry(struct luajit_heap *h)
{
    for (size_t at = 0; at + LUAJIT_SLOT <= h->global_size; at += LUAJIT_SLOT) {
        const struct luajit_slot v = luajit_slot_of(h->l, load_u64(h->global + at, false));
        struct luajit_table t;
        if (v.tag == LUAJIT_TAG_TAB && luajit_heap_table(h, v.object, &t) &&
            luajit_heap_field(h, &t, "_LOADED").tag == LUAJIT_TAG_TAB) {
            h->registry = v.object;
            return;
        }
    }
}

/* The part of global_State before jit_State, whose words change while code is compiled. */
static void read_global(struct luajit_heap *h)
{
    const struct luajit_layout *l = h->l;
    int32_t size = l->J > 0 && l->J < l->g2disp ? l->J : l->g2disp;
    h->global_size =
        size > 0 && size < LUAJIT_GLOBAL_READ ? (size_t)size & ~(size_t)7 : LUAJIT_GLOBAL_READ;
    while (h->global_size && !read_bytes(h, h->g, h->global, h->global_size))
        h->global_size = h->global_size / 2 & ~(size_t)7;
}

/* ---- C types ------------------------------------------------------------------------------- */

/* Returns the size of a type's description. */
static uint64_t ctype_bytes(const struct luajit_layout *l)
{
    return l->gc64 ? 24 : 16;
}

/* Read the sizes of C types: CTState begins with the address of its table, the number of types and
 * the size of the table (lj_ctype.h). */
static void find_ctypes(struct luajit_heap *h)
{
    const struct luajit_layout *l = h->l;
    uint8_t head[16];
    if (l->ctype_state == LUAJIT_UNKNOWN)
        return;
    const uint64_t state = read_ref(h, h->g + (uint64_t)l->ctype_state);
    if (state && read_bytes(h, state, head, sizeof(head))) {
        h->ctypes = load_u64(head, false);
        h->nr_ctypes = load_u32(head + 8, false);
        h->ctypes_size = load_u32(head + 12, false);
    }
}

/* A description begins with the information and the size, and ends with the name (CType). */
bool luajit_heap_ctype(const struct luajit_heap *h, uint32_t id, struct luajit_ctype *ret)
{
    const size_t size = ctype_bytes(h->l);
    uint8_t bytes[24];
    if (id >= h->nr_ctypes || !read_bytes(h, h->ctypes + id * size, bytes, size))
        return false;
    *ret = (struct luajit_ctype){.info = load_u32(bytes, false),
                                 .size = load_u32(bytes + 4, false),
                                 .name = luajit_load_ref(h->l, bytes + size - h->l->ref_size)};
    return true;
}

/* Returns the size of a C type's values. An attribute stands before its type (ctype_raw); kinds
 * behind enums have no size of their own (ctype_hassize). */
static uint64_t ctype_size(const struct luajit_heap *h, uint32_t id)
{
    enum { ATTRIBUTES_MAX = 16, POINTER = 8 };
    struct luajit_ctype t;
    for (unsigned i = 0; i < ATTRIBUTES_MAX && luajit_heap_ctype(h, id, &t); i++) {
        const uint32_t kind = t.info >> CTYPE_KIND_SHIFT;
        if (kind != CT_ATTRIB)
            return kind <= CT_ENUM ? t.size : POINTER;
        id = t.info & CTYPE_ID;
    }
    return POINTER;
}

/* A cdata of variable size has words before its head: how far its block begins before it, how much
 * longer the block is than the value, and the value's size (GCcdataVar). */
static uint64_t cdata_size(const struct luajit_heap *h, uint64_t address, const uint8_t *head)
{
    enum { VARIABLE = 0x80 };
    const struct luajit_layout *l = h->l;
    uint8_t before[8];
    if (!(head[l->gct - 1] & VARIABLE))
        return luajit_cdata_data(l) + ctype_size(h, load_u16(head + l->gct + 1, false));
    if (!read_bytes(h, address - sizeof(before), before, sizeof(before)))
        return 0;
    return load_u16(before + 2, false) + (uint64_t)load_u32(before + 4, false);
}

/* ---- threads ------------------------------------------------------------------------------- */

struct thread {
    uint64_t stack, nr_slots; /* as far as they are in use */
    uint64_t environment;
    uint64_t open; /* the first open upvalue */
    uint64_t size;
};

/* Returns the end of the slots that a frame may use: those of a Lua function that runs are above
 * L->top. */
static uint64_t frame_end(const struct luajit_heap *h, uint64_t base)
{
    const struct luajit_layout *l = h->l;
    const uint64_t slot = base - LUAJIT_SLOT * (uint64_t)l->frame_slots;
    const uint64_t function = read_ref(h, slot) & LUAJIT_REF_MASK;
    uint8_t head[LUAJIT_HEAD], size;
    if (!function || !luajit_heap_head(h, function, head) || head[l->gct] != LUAJIT_GCT_FUNC ||
        head[l->func_ffid])
        return base;
    const uint64_t proto = luajit_load_ref(l, head + l->func_pc) - (uint64_t)l->proto_size;
    return read_bytes(h, proto + (uint64_t)l->proto_framesize, &size, 1)
               ? base + LUAJIT_SLOT * (uint64_t)size
               : base;
}

static struct thread thread_of(const struct luajit_heap *h, uint64_t address, const uint8_t *head)
{
    const struct luajit_layout *l = h->l;
    const uint64_t ref = (uint64_t)l->ref_size;
    const uint64_t slots = load_u32(head + l->L_stacksize, false);
    struct thread t = {.stack = luajit_load_ref(l, head + l->L_stack),
                       .open = luajit_load_ref(l, head + l->L_stack + ref),
                       .environment = luajit_load_ref(l, head + l->L_stack + 2 * ref)};
    if (slots > LUAJIT_SLOTS_MAX)
        return t;
    t.size = LUAJIT_SLOT * slots;
    if (address != h->main) /* the main thread is in GG_State, which is the VM's own */
        t.size += h->state_size;
    const uint64_t base = load_u64(head + l->L_base, false), top = load_u64(head + l->L_top, false);
    const uint64_t frame = base >= t.stack && base - t.stack < t.size ? frame_end(h, base) : base;
    const uint64_t end = top > frame ? top : frame;
    if (end >= t.stack && end - t.stack <= LUAJIT_SLOT * slots)
        t.nr_slots = (end - t.stack) / LUAJIT_SLOT;
    return t;
}

/* Tell of a thread's open upvalues, which are in no other list. */
static int open_upvalues(const struct luajit_heap *h, uint64_t at, census_take_object *take,
                         void *context, struct error *err)
{
    uint8_t head[32];
    for (uint32_t i = 0; at && i < LUAJIT_SLOTS_MAX; i++) {
        const struct census_object o = {
            .address = at, .size = luajit_upvalue_bytes(h->l), .type = CENSUS_UPVALUE};
        if (!read_bytes(h, at, head, HEAD_SHORT) || head[h->l->gct] != LUAJIT_GCT_UPVAL)
            return 0;
        if (take(context, &o, err))
            return -1;
        at = luajit_load_ref(h->l, head);
    }
    return 0;
}

/* ---- objects ------------------------------------------------------------------------------- */

/* Get the type and size of an object. Returns false: there is none. */
static bool object_of(const struct luajit_heap *h, uint64_t address, const uint8_t *head,
                      struct census_object *ret)
{
    const struct luajit_layout *l = h->l;
    struct luajit_table table;
    *ret = (struct census_object){.address = address};
    switch (head[l->gct]) {
    case LUAJIT_GCT_UPVAL:
        ret->type = CENSUS_UPVALUE;
        ret->size = luajit_upvalue_bytes(l);
        break;
    case LUAJIT_GCT_THREAD:
        ret->type = CENSUS_THREAD;
        ret->size = thread_of(h, address, head).size;
        return true;
    case LUAJIT_GCT_PROTO:
        ret->type = CENSUS_PROTO;
        ret->size = luajit_proto_size(l, address, head);
        break;
    case LUAJIT_GCT_FUNC:
        ret->type = head[l->func_ffid] ? CENSUS_C_FUNCTION : CENSUS_FUNCTION;
        ret->size = luajit_function_size(l, head);
        break;
    case LUAJIT_GCT_TRACE:
        ret->type = CENSUS_TRACE;
        ret->size = luajit_trace_size(l, address, head);
        return true; /* one that is being built has no sound head yet */
    case LUAJIT_GCT_CDATA:
        ret->type = CENSUS_CDATA;
        ret->size = cdata_size(h, address, head);
        break;
    case LUAJIT_GCT_TAB:
        ret->type = CENSUS_TABLE;
        ret->size = luajit_table_of(l, head, &table) ? table.size : 0;
        break;
    case LUAJIT_GCT_UDATA:
        ret->type = CENSUS_USERDATA;
        ret->size = luajit_userdata_of(l, head).size;
        break;
    default:
        return false;
    }
    return ret->size != 0;
}

static int broken_list(struct error *err, uint64_t nr, uint64_t at)
{
    return error_set(err, ERROR_FORMAT,
                     "the VM's list of objects is broken behind %" PRIu64 " objects, at 0x%" PRIx64
                     ": the VM was changing it, or its memory is not all there",
                     nr, at);
}

static int listed_objects(const struct luajit_heap *h, census_take_object *take, void *context,
                          struct error *err)
{
    const struct luajit_layout *l = h->l;
    uint64_t at = read_ref(h, h->g + (uint64_t)l->gc_root);
    uint8_t head[LUAJIT_HEAD];
    struct census_object o;
    for (uint64_t nr = 0; at; nr++) {
        const bool is_read = !(at & 7) && luajit_heap_head(h, at, head);
        const bool is_sound = is_read && object_of(h, at, head, &o);
        /* The newest one may not be filled in yet. */
        if (nr >= OBJECTS_MAX || !is_read || (!is_sound && nr))
            return broken_list(err, nr, at);
        if (is_sound && take(context, &o, err))
            return -1;
        if (is_sound && o.type == CENSUS_THREAD &&
            open_upvalues(h, thread_of(h, at, head).open, take, context, err))
            return -1;
        at = luajit_load_ref(l, head);
    }
    return 0;
}

static int objects(void *heap, census_take_object *take, void *context, struct error *err)
{
    struct luajit_heap *h = heap;
    h->budget = STRINGS_MAX;
    if (follow_buckets(h, h->nr_buckets, take, context, err) < 0)
        return err->kind ? -1 : error_set(err, ERROR_FORMAT, "the VM's table of strings is broken");
    return listed_objects(h, take, context, err);
}

/* ---- references ---------------------------------------------------------------------------- */

struct taker {
    const struct luajit_heap *h;
    census_take_reference *take;
    void *context;
    bool weak_keys, weak_values;
};

static void refer(const struct taker *t, enum census_link link, uint64_t to, int64_t number)
{
    const struct census_reference r = {.to = to, .link = (uint8_t)link, .number = number};
    if (to)
        t->take(t->context, &r);
}

static bool array_slot(void *context, uint64_t index, const uint8_t *slot)
{
    const struct taker *t = context;
    const struct luajit_slot v = luajit_slot_of(t->h->l, load_u64(slot, false));
    if (luajit_slot_is_object(&v)) {
        const struct census_reference r = {.to = v.object,
                                           .link = CENSUS_FIELD,
                                           .key = CENSUS_KEY_INTEGER,
                                           .number = (int64_t)index,
                                           .is_weak = t->weak_values};
        t->take(t->context, &r);
    }
    return true;
}

static bool table_node(void *context, uint64_t index, const uint8_t *node)
{
    const struct taker *t = context;
    const struct luajit_slot value = luajit_slot_of(t->h->l, load_u64(node, false));
    const struct luajit_slot key = luajit_slot_of(t->h->l, load_u64(node + LUAJIT_NODE_KEY, false));
    struct census_reference r = {.to = key.object, .link = CENSUS_KEY, .is_weak = t->weak_keys};
    (void)index;
    if (value.tag == LUAJIT_TAG_NIL)
        return true;
    if (luajit_slot_is_object(&key))
        t->take(t->context, &r);
    if (!luajit_slot_is_object(&value))
        return true;
    r = (struct census_reference){
        .to = value.object,
        .link = CENSUS_FIELD,
        .key = CENSUS_KEY_OTHER,
        /* a value whose key dies goes with it (ephemerons are not told apart) */
        .is_weak = t->weak_values};
    if (key.tag == LUAJIT_TAG_STR) {
        r.key = CENSUS_KEY_STRING;
        r.string = key.object;
    } else if (key.tag == LUAJIT_TAG_INT || key.tag == LUAJIT_TAG_NUM) {
        const double number =
            key.tag == LUAJIT_TAG_INT ? (int32_t)key.word : luajit_slot_number(&key);
        r.number = number >= INT32_MIN && number <= INT32_MAX ? (int64_t)number : 0;
        r.key = (double)r.number == number ? CENSUS_KEY_INTEGER : CENSUS_KEY_OTHER;
    }
    t->take(t->context, &r);
    return true;
}

/* A metatable's __mode says which references are weak. */
static void read_mode(struct taker *t, uint64_t metatable)
{
    struct luajit_table mt;
    char mode[8] = "";
    uint32_t length = 0;
    if (!metatable || !luajit_heap_table(t->h, metatable, &mt))
        return;
    const struct luajit_slot v = luajit_heap_field(t->h, &mt, "__mode");
    const struct luajit_layout *l = t->h->l;
    if (v.tag != LUAJIT_TAG_STR ||
        !read_bytes(t->h, v.object + (uint64_t)l->str_len, &length, sizeof(length)) ||
        length >= sizeof(mode) || !read_bytes(t->h, v.object + (uint64_t)l->str_size, mode, length))
        return;
    t->weak_keys = strchr(mode, 'k');
    t->weak_values = strchr(mode, 'v');
}

static void refer_table(struct taker *t, const uint8_t *head)
{
    struct luajit_table table;
    if (!luajit_table_of(t->h->l, head, &table))
        return;
    refer(t, CENSUS_METATABLE, table.metatable, 0);
    read_mode(t, table.metatable);
    luajit_heap_each(t->h, table.array, table.asize, LUAJIT_SLOT, array_slot, t);
    luajit_heap_each(t->h, table.nodes, table.nr_nodes, LUAJIT_NODE, table_node, t);
}

static void refer_function(const struct taker *t, uint64_t address, const uint8_t *head)
{
    const struct luajit_layout *l = t->h->l;
    const uint64_t ref = (uint64_t)l->ref_size;
    const unsigned nr = head[l->func_nupvalues];
    refer(t, CENSUS_ENVIRONMENT, luajit_load_ref(l, head + l->func_pc - 2 * l->ref_size), 0);
    if (!head[l->func_ffid]) {
        refer(t, CENSUS_CODE, luajit_load_ref(l, head + l->func_pc) - (uint64_t)l->proto_size, 0);
        for (unsigned i = 0; i < nr; i++)
            refer(t, CENSUS_CLOSED, read_ref(t->h, address + (uint64_t)l->func_upvalues + i * ref),
                  i + 1);
        return;
    }
    for (unsigned i = 0; i < nr; i++) {
        uint64_t word;
        if (!read_bytes(t->h, address + (uint64_t)l->func_c + 8 + i * LUAJIT_SLOT, &word,
                        sizeof(word)))
            return;
        const struct luajit_slot v = luajit_slot_of(l, word);
        if (luajit_slot_is_object(&v))
            refer(t, CENSUS_CLOSED, v.object, i + 1);
    }
}

/* Object constants stand below the address k; the trace of a function's start is alive with it. */
static void refer_proto(const struct taker *t, uint64_t address, const uint8_t *head)
{
    const struct luajit_layout *l = t->h->l;
    const uint64_t k = luajit_load_ref(l, head + l->proto_k), ref = (uint64_t)l->ref_size;
    const uint32_t nr = load_u32(head + l->proto_sizekgc, false);
    const uint16_t trace = load_u16(head + l->proto_trace, false);
    refer(t, CENSUS_CONSTANT, luajit_load_ref(l, head + l->proto_chunkname), 0);
    for (uint32_t i = 0; i < nr && i * ref < k - address; i++)
        refer(t, CENSUS_CONSTANT, read_ref(t->h, k - (i + UINT64_C(1)) * ref), 0);
    if (trace && l->trace != LUAJIT_UNKNOWN)
        refer(t, CENSUS_CONSTANT,
              read_ref(t->h, read_ref(t->h, t->h->g + (uint64_t)l->trace) + trace * ref), 0);
}

/* Constants of a trace stand in its instructions between nk and the bias, an object's address in a
 * word of its own (GC64) or in the lower half of one. Words that are something else are no
 * addresses of objects. */
static void refer_trace(const struct taker *t, uint64_t size, const uint8_t *head)
{
    enum { BIAS = 0x8000, INSTRUCTION = 8 };
    const struct luajit_layout *l = t->h->l;
    const uint64_t ir = load_u64(head + l->trace_ir, false);
    const uint32_t nk = load_u32(head + l->trace_nk, false);
    refer(t, CENSUS_CONSTANT, luajit_load_ref(l, head + l->trace_startpt), 0);
    const bool is_sound = nk > 0 && nk <= BIAS && (uint64_t)(BIAS - nk) * INSTRUCTION <= size;
    for (uint32_t i = nk; i < BIAS && is_sound; i++) {
        uint64_t word;
        if (!read_bytes(t->h, ir + (uint64_t)i * INSTRUCTION, &word, sizeof(word)))
            return;
        word = l->gc64 ? word & LUAJIT_REF_MASK : (uint32_t)word;
        if (!(word & 7))
            refer(t, CENSUS_CONSTANT, word, 0);
    }
    const uint16_t link = load_u16(head + l->trace_link, false);
    if (link && l->trace != LUAJIT_UNKNOWN)
        refer(t, CENSUS_CONSTANT,
              read_ref(t->h,
                       read_ref(t->h, t->h->g + (uint64_t)l->trace) + link * (uint64_t)l->ref_size),
              0);
}

static bool stack_slot(void *context, uint64_t index, const uint8_t *slot)
{
    const struct taker *t = context;
    const struct luajit_slot v = luajit_slot_of(t->h->l, load_u64(slot, false));
    if (luajit_slot_is_object(&v))
        refer(t, CENSUS_SLOT, v.object, (int64_t)index);
    return true;
}

/* Without GC64 the slot before a frame has the function in its lower half and a link above. */
static bool stack_slot_32(void *context, uint64_t index, const uint8_t *slot)
{
    const struct taker *t = context;
    const struct luajit_slot v = luajit_slot_of(t->h->l, load_u64(slot, false));
    refer(t, CENSUS_SLOT, luajit_slot_is_object(&v) ? v.object : load_u32(slot, false),
          (int64_t)index);
    return true;
}

static void refer_thread(struct taker *t, uint64_t address, const uint8_t *head)
{
    const struct thread of = thread_of(t->h, address, head);
    refer(t, CENSUS_ENVIRONMENT, of.environment, 0);
    luajit_heap_each(t->h, of.stack, of.nr_slots, LUAJIT_SLOT,
                     t->h->l->gc64 ? stack_slot : stack_slot_32, t);
}

static void refer_upvalue(const struct taker *t, const uint8_t *head)
{
    uint64_t word;
    if (!read_bytes(t->h, luajit_load_ref(t->h->l, head + t->h->l->upval_v), &word, sizeof(word)))
        return;
    const struct luajit_slot v = luajit_slot_of(t->h->l, word);
    if (luajit_slot_is_object(&v))
        refer(t, CENSUS_VALUE, v.object, 0);
}

static void references(void *heap, const struct census_object *o, census_take_reference *take,
                       void *context)
{
    const struct luajit_heap *h = heap;
    struct taker t = {.h = h, .take = take, .context = context};
    uint8_t head[LUAJIT_HEAD];
    if (o->type == CENSUS_STRING || o->type == CENSUS_CDATA ||
        !luajit_heap_head(h, o->address, head))
        return;
    if (o->type == CENSUS_TABLE) {
        refer_table(&t, head);
    } else if (o->type == CENSUS_FUNCTION || o->type == CENSUS_C_FUNCTION) {
        refer_function(&t, o->address, head);
    } else if (o->type == CENSUS_PROTO) {
        refer_proto(&t, o->address, head);
    } else if (o->type == CENSUS_TRACE) {
        refer_trace(&t, o->size, head);
    } else if (o->type == CENSUS_THREAD) {
        refer_thread(&t, o->address, head);
    } else if (o->type == CENSUS_UPVALUE) {
        refer_upvalue(&t, head);
    } else if (o->type == CENSUS_USERDATA) {
        const struct luajit_userdata u = luajit_userdata_of(h->l, head);
        refer(&t, CENSUS_METATABLE, u.metatable, 0);
        refer(&t, CENSUS_ENVIRONMENT, u.environment, 0);
    }
}

static void refer_root(const struct taker *t, uint64_t to, const char *name)
{
    const struct census_reference r = {.to = to, .link = CENSUS_ROOT, .name = name};
    if (to)
        t->take(t->context, &r);
}

/* Beside the registry and the threads, global_State has references of its own: metatables of the
 * basic types, names of metamethods, userdata to be finalized. Its words from gc.total up to
 * gc.weak are counters and the collector's lists, which have any object in them. */
static void refer_global(const struct taker *t)
{
    enum { LISTS = 6 }; /* root, sweep, gray, grayagain, weak, mmudata */
    const struct luajit_heap *h = t->h;
    const size_t step = (size_t)h->l->ref_size;
    const size_t lists = (size_t)h->l->gc_root, end = lists + (LISTS - 1) * step;
    for (size_t at = 0; at + step <= h->global_size; at += step) {
        if (at < (size_t)h->l->gc_total || at >= end)
            refer_root(t, luajit_load_ref(h->l, h->global + at) & LUAJIT_REF_MASK, "[VM]");
    }
}

static void roots(void *heap, census_take_reference *take, void *context)
{
    const struct luajit_heap *h = heap;
    const struct taker t = {.h = h, .take = take, .context = context};
    uint8_t head[LUAJIT_HEAD];
    if (luajit_heap_head(h, h->main, head))
        refer_root(&t, thread_of(h, h->main, head).environment, "_G");
    refer_root(&t, h->registry, "[registry]");
    refer_root(&t, h->main, "[main thread]");
    if (h->l->cur_L != LUAJIT_UNKNOWN)
        refer_root(&t, read_ref(h, h->g + (uint64_t)h->l->cur_L), "[running thread]");
    refer_global(&t);
    vec_foreach (at, &h->fixed)
        refer_root(&t, *at, "[fixed]");
}

/* ---- begin and end ------------------------------------------------------------------------- */

static uint64_t total(void *heap)
{
    const struct luajit_heap *h = heap;
    return read_ref(h, h->g + (uint64_t)h->l->gc_total);
}

/* GG_State, the string table, the array of traces and the table of C types. */
static uint64_t own(void *heap)
{
    enum { DISPATCH = 0x808 }; /* bytes from the dispatch table on to GG_State's end */
    const struct luajit_heap *h = heap;
    const struct luajit_layout *l = h->l;
    uint32_t nr_traces = 0;
    if (l->sizetrace != LUAJIT_UNKNOWN)
        read_bytes(h, h->g + (uint64_t)l->sizetrace, &nr_traces, sizeof(nr_traces));
    return h->state_size + (uint64_t)l->g2disp + DISPATCH +
           (h->nr_buckets + nr_traces) * (uint64_t)l->ref_size + h->ctypes_size * ctype_bytes(l);
}

static int begin(const struct runtime_memory *m, const struct runtime_vm *vm, void **ret,
                 struct error *err)
{
    const struct luajit_layout *l = vm->instance->layout;
    if (!luajit_sizes_known(l) || !luajit_tables_known(l) || l->gc_root == LUAJIT_UNKNOWN ||
        l->gc_total == LUAJIT_UNKNOWN)
        return error_set(err, ERROR_FORMAT, "this LuaJIT's list of objects is not known");
    struct luajit_heap *h = calloc(1, sizeof(*h));
    if (!h)
        return error_no_memory(err);
    h->m = m->memory;
    h->l = l;
    h->g = vm->address;
    enum provenance ignored = PROVENANCE_EXACT;
    h->main = luajit_main_thread(h->m, &(struct luajit_vm){.g = h->g, .layout = l}, &ignored);
    h->state_size = h->main ? h->g - h->main : (uint64_t)l->L_used;
    read_global(h);
    find_registry(h);
    find_ctypes(h);
    if (!find_strings(h)) {
        free(h);
        return error_set(err, ERROR_FORMAT, "the VM's table of strings was not found");
    }
    *ret = h;
    return 0;
}

static void end(void *heap)
{
    struct luajit_heap *h = heap;
    census_names_free(&h->names);
    vec_free(&h->fixed);
    free(h);
}

const struct census_heap luajit_census = {.begin = begin,
                                          .end = end,
                                          .total = total,
                                          .own = own,
                                          .own_name = "the VM's own tables",
                                          .objects = objects,
                                          .roots = roots,
                                          .references = references,
                                          .describe = luajit_heap_describe,
                                          .upvalue = luajit_heap_upvalue,
                                          .string = luajit_heap_string};
