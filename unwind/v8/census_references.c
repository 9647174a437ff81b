/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What objects of a V8 heap refer to. Every tagged word of an object that has references is one.
 * Those that the language has names for are told first: properties, elements, variables.
 */
#include "unwind/v8/census_internal.h"

#include "base/cursor.h"

enum {
    PIECE = 4096,
    OBJECT_PROPERTIES = 8,
    OBJECT_ELEMENTS = 16,
    ARRAY_DATA = 16,
    ELEMENTS_MAX = 1 << 27, /* of an array: the bound of a damaged length */
};

struct taker {
    struct v8_heap *h;
    census_take_reference *take;
    void *context;
};

static void refer(const struct taker *t, uint64_t word, struct census_reference r)
{
    if (!v8_is_pointer(word))
        return;
    r.to = v8_address(word);
    r.is_weak |= (word & 2) != 0;
    t->take(t->context, &r);
}

static void refer_field(const struct taker *t, uint64_t name, uint64_t value)
{
    const bool is_string = v8_string_length(&t->h->r, name) >= 0;
    refer(t, value,
          (struct census_reference){.link = CENSUS_FIELD,
                                    .key = is_string ? CENSUS_KEY_STRING : CENSUS_KEY_OTHER,
                                    .string = v8_address(name)});
}

/* ---- words --------------------------------------------------------------------------------- */

/* Tell of the words of an object from `from` on; `weak`: those at this offset are not followed. */
static void refer_words(const struct taker *t, const struct census_object *o, uint64_t from,
                        uint64_t end, uint8_t link, uint64_t weak)
{
    uint64_t words[PIECE / 8];
    for (uint64_t at = from; at < end; at += PIECE) {
        const uint64_t size = end - at < PIECE ? (end - at) & ~UINT64_C(7) : PIECE;
        if (!v8_read(&t->h->r, o->address + at, words, (size_t)size))
            return;
        for (uint64_t i = 0; i < size / 8; i++) {
            const uint64_t offset = at + 8 * i;
            refer(t, words[i],
                  (struct census_reference){.link = link,
                                            .number = (int64_t)(offset / 8),
                                            .is_weak = weak && offset == weak});
        }
    }
}

/* ---- objects ------------------------------------------------------------------------------- */

static void refer_elements(const struct taker *t, uint64_t object)
{
    struct v8_heap *h = t->h;
    uint64_t array, length, words[PIECE / 8];
    if (!v8_word(&h->r, object + OBJECT_ELEMENTS, &array) ||
        !v8_is(&h->r, array, h->l->type_array) ||
        !v8_slot(&h->r, array, h->l->array_length, &length) || !v8_is_smi(length) ||
        v8_smi(length) < 0 || v8_smi(length) > ELEMENTS_MAX)
        return;
    const uint64_t nr = (uint64_t)v8_smi(length);
    for (uint64_t i = 0, part; i < nr; i += part) {
        part = nr - i < PIECE / 8 ? nr - i : PIECE / 8;
        if (!v8_read(&h->r, v8_address(array) + ARRAY_DATA + 8 * i, words, (size_t)(8 * part)))
            return;
        for (uint64_t k = 0; k < part; k++)
            refer(t, words[k],
                  (struct census_reference){
                      .link = CENSUS_FIELD, .key = CENSUS_KEY_INTEGER, .number = (int64_t)(i + k)});
    }
}

/* The table of the global object has a cell for each property: its name, numbers, its value. */
static void refer_globals(const struct taker *t, uint64_t object)
{
    enum { CELL_NAME = 8, CELL_VALUE = 24 };
    struct v8_heap *h = t->h;
    struct v8_entries e;
    uint64_t table, cell, name, value;
    if (!v8_word(&h->r, object + OBJECT_PROPERTIES, &table) || !v8_entries_read(h, table, 1, &e))
        return;
    for (unsigned i = 0; i < e.nr; i++) {
        if (!v8_word(&h->r, e.at + 8 * (uint64_t)i, &cell))
            return;
        if (v8_is_pointer(cell) && v8_slot(&h->r, cell, CELL_NAME, &name) &&
            v8_slot(&h->r, cell, CELL_VALUE, &value))
            refer_field(t, name, value);
    }
}

static void refer_table(const struct taker *t, uint64_t object)
{
    enum { ENTRY = 3 };
    struct v8_heap *h = t->h;
    struct v8_entries e;
    uint64_t table, entry[2];
    if (!v8_word(&h->r, object + OBJECT_PROPERTIES, &table) ||
        !v8_entries_read(h, table, ENTRY, &e))
        return;
    for (unsigned i = 0; i < e.nr; i++) {
        if (!v8_read(&h->r, e.at + 8 * ENTRY * (uint64_t)i, entry, sizeof(entry)))
            return;
        refer_field(t, entry[0], entry[1]);
    }
}

static void refer_properties(const struct taker *t, const struct census_object *o)
{
    struct v8_heap *h = t->h;
    struct v8_fields f;
    uint64_t map, entry[3];
    if (!v8_word(&h->r, o->address, &map) || !v8_fields_read(h, map, &f))
        return;
    if (o->subtype == h->l->type_global)
        refer_globals(t, o->address);
    else if (f.is_dictionary)
        refer_table(t, o->address);
    for (unsigned i = 0; i < f.nr && !f.is_dictionary; i++) {
        if (!v8_read(&h->r, f.first + V8_DESCRIPTOR * (uint64_t)i, entry, sizeof(entry)))
            return;
        const int32_t details = v8_smi(entry[1]);
        if (!(details & V8_DETAILS_IN_MAP))
            refer_field(t, entry[0], v8_field_value(h, o->address | 1, map, details));
    }
    refer_elements(t, o->address);
}

/* ---- contexts ------------------------------------------------------------------------------ */

/* A context's variables stand behind its fixed slots, in the order of its ScopeInfo. */
struct context_variables {
    uint64_t scope; /* tagged */
    uint64_t first; /* slot */
    uint64_t nr;
};

static bool variables_read(struct v8_heap *h, uint64_t context, struct context_variables *ret)
{
    enum { FIXED = 2, FIXED_EXTENDED = 3, IN_CONTEXT = 2, NAMES = 2 };
    const struct v8_layout *l = h->l;
    uint64_t length, flags_word, names;
    if (!v8_word(&h->r, context + (uint64_t)l->array_length, &length) || !v8_is_smi(length) ||
        !v8_word(&h->r, context + ARRAY_DATA, &ret->scope) ||
        !v8_is(&h->r, ret->scope, l->type_scope) ||
        !v8_slot(&h->r, ret->scope, l->scope_data, &flags_word) ||
        !v8_slot(&h->r, ret->scope, l->scope_data + 8 * NAMES, &names) || !v8_is_smi(names) ||
        v8_smi(names) < 0 || v8_smi(length) < v8_smi(names))
        return false;
    const uint32_t flags = flags_word >> 32 ? (uint32_t)(flags_word >> 32) : (uint32_t)flags_word;
    const uint64_t own = (flags >> l->scope_function & 3) == IN_CONTEXT;
    ret->nr = (uint64_t)v8_smi(names);
    ret->first = (uint64_t)v8_smi(length) - ret->nr - own;
    return ret->first == FIXED || ret->first == FIXED_EXTENDED;
}

bool v8_heap_variable(void *heap, uint64_t context, unsigned number, struct text *out)
{
    enum { NAME = 64 };
    struct v8_heap *h = heap;
    const struct v8_layout *l = h->l;
    struct context_variables v;
    uint64_t flags_word, name;
    if (!variables_read(h, context, &v) || number < v.first || number - v.first >= v.nr ||
        v.nr >= (uint64_t)l->scope_names_max ||
        !v8_slot(&h->r, v.scope, l->scope_data, &flags_word))
        return false;
    const uint32_t flags = flags_word >> 32 ? (uint32_t)(flags_word >> 32) : (uint32_t)flags_word;
    const bool has_count =
        l->scope_module != V8_UNKNOWN && (int32_t)(flags & 15) == l->scope_module;
    const int32_t element = l->scope_first + has_count + (int32_t)(number - v.first);
    return v8_slot(&h->r, v.scope, l->scope_data + 8 * element, &name) &&
           v8_string_length(&h->r, name) > 0 && v8_string(&h->r, name, NAME, out);
}

static void refer_context(const struct taker *t, const struct census_object *o)
{
    struct context_variables v;
    uint64_t value;
    if (!variables_read(t->h, o->address, &v))
        return;
    for (uint64_t i = v.first; i < v.first + v.nr; i++) {
        if (!v8_word(&t->h->r, o->address + ARRAY_DATA + 8 * i, &value))
            return;
        refer(t, value, (struct census_reference){.link = CENSUS_CLOSED, .number = (int64_t)i});
    }
}

/* ---- all ----------------------------------------------------------------------------------- */

static void refer_function(const struct taker *t, const struct census_object *o)
{
    struct v8_heap *h = t->h;
    uint64_t word;
    if (v8_word(&h->r, o->address + (uint64_t)h->l->fn_shared, &word))
        refer(t, word, (struct census_reference){.link = CENSUS_CODE});
    if (v8_word(&h->r, o->address + (uint64_t)h->l->fn_context, &word))
        refer(t, word, (struct census_reference){.link = CENSUS_ENVIRONMENT});
}

/* Keys of a WeakMap do not keep their values by themselves; that somebody has the key is taken for
 * granted. */
static void refer_ephemerons(const struct taker *t, const struct census_object *o)
{
    enum { ENTRY = 2 };
    struct v8_entries e;
    uint64_t entry[ENTRY];
    if (!v8_entries_read(t->h, o->address | 1, ENTRY, &e))
        return;
    for (unsigned i = 0; i < e.nr; i++) {
        if (!v8_read(&t->h->r, e.at + 8 * ENTRY * (uint64_t)i, entry, sizeof(entry)))
            return;
        refer(t, entry[1],
              (struct census_reference){.link = CENSUS_FIELD, .key = CENSUS_KEY_OTHER});
    }
}

/* Returns up to which byte an object's words may be references. */
static uint64_t words_end(const struct v8_heap *h, const struct census_object *o)
{
    enum { REPRESENTATION = 7, SEQUENTIAL = 0, EXTERNAL = 2 };
    if (o->subtype < h->l->nonstring) {
        const unsigned kind = o->subtype & REPRESENTATION;
        return kind == SEQUENTIAL || kind == EXTERNAL ? 8 : o->size;
    }
    if (o->subtype < V8_TYPES_MAX && h->types->is_raw[o->subtype])
        return 8;
    const uint64_t data = (uint64_t)h->l->bytecode_data & ~UINT64_C(7);
    return o->subtype == h->l->type_bytecode && data < o->size ? data : o->size;
}

void v8_heap_references(void *heap, const struct census_object *o, census_take_reference *take,
                        void *context)
{
    enum { WEAK_REF_TARGET = 24, WEAK_CELL_TARGET = 16, EPHEMERONS = 2 };
    struct v8_heap *h = heap;
    const struct taker t = {.h = h, .take = take, .context = context};
    uint64_t weak = 0;
    if (o->subtype == h->l->type_array + EPHEMERONS) {
        refer_ephemerons(&t, o);
        return;
    }
    if (o->type == CENSUS_OBJECT || o->type == CENSUS_FUNCTION)
        refer_properties(&t, o);
    if (o->type == CENSUS_FUNCTION)
        refer_function(&t, o);
    if (o->type == CENSUS_CONTEXT)
        refer_context(&t, o);
    if (o->subtype == h->l->type_weak_ref)
        weak = WEAK_REF_TARGET;
    else if (o->subtype == h->l->type_weak_cell)
        weak = WEAK_CELL_TARGET;
    refer_words(&t, o, 0, words_end(h, o), CENSUS_SLOT, weak);
}

/* ---- roots --------------------------------------------------------------------------------- */

void v8_heap_roots(void *heap, census_take_reference *take, void *context)
{
    enum { GLOBAL_OBJECT = 2 }; /* a native context's slot */
    struct v8_heap *h = heap;
    const struct taker t = {.h = h, .take = take, .context = context};
    vec_foreach (c, &h->contexts) {
        uint64_t global;
        if (v8_word(&h->r, *c + ARRAY_DATA + 8 * GLOBAL_OBJECT, &global))
            refer(&t, global, (struct census_reference){.link = CENSUS_ROOT, .name = "globalThis"});
    }
}

static bool look_for_roots(struct v8_heap *h, uint64_t start, uint64_t end, void *context)
{
    const struct taker *t = context;
    uint64_t words[PIECE / 8];
    for (uint64_t at = start & ~UINT64_C(7); at < end; at += PIECE - at % PIECE) {
        uint64_t size = PIECE - at % PIECE;
        size = end - at < size ? (end - at) & ~UINT64_C(7) : size;
        if (!v8_read(&h->r, at, words, (size_t)size))
            continue;
        for (uint64_t i = 0; i < size / 8; i++) {
            if ((words[i] & 3) == 1 && v8_heap_chunk(h, words[i]))
                refer(t, words[i],
                      (struct census_reference){.link = CENSUS_ROOT, .name = "[native memory]"});
        }
    }
    return true;
}

void v8_heap_late_roots(void *heap, census_take_reference *take, void *context)
{
    struct v8_heap *h = heap;
    struct taker t = {.h = h, .take = take, .context = context};
    vec_foreach (c, &h->contexts)
        refer(&t, *c | 1, (struct census_reference){.link = CENSUS_ROOT, .name = "[context]"});
    v8_heap_outside(h, look_for_roots, &t);
}
