/* SPDX-License-Identifier: GPL-2.0-only */
/* What an object of a V8 heap is, in words. */
#include "unwind/v8/census_internal.h"

#include "base/cursor.h"
#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAME = 64, /* characters of a name */
    MAP_BITS_2 = 15,
    IS_OF_BASE = 1, /* of MAP_BITS_2: the class that was called has made the object itself */
    MAP_PROTOTYPE = 24,
    TRANSITIONS_MAX = 4096 /* maps from an object's map back to that of its constructor */
};

const char *v8_heap_subtype(void *heap, unsigned subtype)
{
    struct v8_heap *h = heap;
    char name[24];
    if (subtype < V8_TYPES_MAX && h->types->names[subtype])
        return h->types->names[subtype];
    if (subtype >= V8_TYPES_MAX)
        return "an object of the program's C++";
    snprintf(name, sizeof(name), "type %u", subtype);
    h->types->names[subtype] = strdup(name);
    return h->types->names[subtype] ? h->types->names[subtype] : "";
}

bool v8_heap_string(void *heap, uint64_t address, size_t max, struct text *out)
{
    struct v8_heap *h = heap;
    struct text text = {0};
    const bool is = v8_string(&h->r, address | 1, max, &text);
    if (is && text.size)
        text_bytes(out, text.at, text.size < max ? text.size : max);
    text_free(&text);
    return is;
}

bool v8_heap_string_identity(void *heap, const struct census_object *o, uint64_t *ret)
{
    enum { REPRESENTATION = 7, SEQUENTIAL = 0, ONE_BYTE = 8, DATA = 16, PIECE = 4096 };
    struct v8_heap *h = heap;
    uint8_t bytes[PIECE];
    uint32_t length;
    if ((o->subtype & REPRESENTATION) != SEQUENTIAL ||
        !v8_read(&h->r, o->address + (uint64_t)h->l->string_length, &length, sizeof(length)))
        return false;
    const bool is_wide = !(o->subtype & ONE_BYTE);
    const uint64_t all = (uint64_t)length * (is_wide ? 2 : 1);
    if (!all || all > o->size)
        return false;
    *ret = hash_combine(hash_u64(length), is_wide);
    for (uint64_t done = 0, part; done < all; done += part) {
        part = all - done < PIECE ? all - done : PIECE;
        if (!v8_read(&h->r, o->address + DATA + done, bytes, (size_t)part))
            return false;
        *ret = hash_combine(*ret, hash_bytes(bytes, (size_t)part));
    }
    return true;
}

/* Keep a text under a key. Returns it, or "" when memory is out. */
static const char *keep(struct table *t, uint64_t key, struct text *text)
{
    text_char(text, 0);
    if (!text->failed && table_put(t, key, text->at))
        return text->at;
    text_free(text);
    return "";
}

/* ---- functions ----------------------------------------------------------------------------- */

/* Returns where a function that was never called begins in the source, of which its UncompiledData
 * knows; -1: not known, or its ScopeInfo says it. */
static int32_t start_of(struct v8_heap *h, uint64_t sfi)
{
    enum { UNCOMPILED_START = 16 };
    const struct v8_layout *l = h->l;
    const int32_t slots[] = {l->sfi_data, l->sfi_untrusted};
    for (size_t i = 0; i < sizeof(slots) / sizeof(*slots); i++) {
        uint64_t data;
        int32_t start;
        if (slots[i] == V8_UNKNOWN || !v8_slot(&h->r, sfi, slots[i], &data))
            continue;
        const int32_t type = v8_type(&h->r, data);
        if (type < 0 || type >= V8_TYPES_MAX || !h->types->is_uncompiled[type] ||
            !v8_read(&h->r, v8_address(data) + UNCOMPILED_START, &start, sizeof(start)))
            continue;
        return start < 0 ? -1 : start;
    }
    return -1;
}

/* Returns a function's name and where it is defined; "": not known. `sfi`: tagged. */
static const char *site_of(struct v8_heap *h, uint64_t sfi)
{
    struct v8_sfi s;
    struct v8_named named = {0};
    struct text text = {0};
    const char *known = sfi ? table_get(&h->names.sites, sfi) : "";
    if (known)
        return known;
    if (v8_sfi_read_name(&h->r, sfi, &s)) {
        if (!s.script) {
            if (s.name)
                v8_string(&h->r, s.name, NAME, &text);
            text_string(&text, text.size ? " (builtin)" : "(builtin)");
        } else if (v8_names_function(h->sources, &h->r, 0, 0, &s, start_of(h, sfi), &named) == 0 &&
                   named.function) {
            v8_names_symbol(h->sources, named.function, &text);
            if (named.line && !s.scope)
                text_printf(&text, ":%u:%u", named.line, named.column);
        }
    }
    return keep(&h->names.sites, sfi, &text);
}

static uint64_t function_of(struct v8_heap *h, const struct census_object *o)
{
    enum { VECTOR_FUNCTION = 24 };
    const struct v8_layout *l = h->l;
    uint64_t sfi = 0;
    if (o->type == CENSUS_FUNCTION)
        return v8_function_sfi(&h->r, o->address | 1);
    if (o->subtype == l->type_sfi)
        return o->address | 1;
    if (o->subtype == l->type_bytecode)
        return (uint64_t)(uintptr_t)table_get(&h->functions, o->address);
    if (o->subtype == l->type_feedback && v8_word(&h->r, o->address + VECTOR_FUNCTION, &sfi) &&
        v8_is(&h->r, sfi, l->type_sfi))
        return sfi;
    return 0;
}

/* Append the name of a function. `sfi`: tagged. */
static bool put_name(struct v8_heap *h, uint64_t sfi, struct text *out)
{
    struct v8_sfi s;
    struct v8_scope scope;
    if (!sfi || !v8_sfi_read_name(&h->r, sfi, &s))
        return false;
    uint64_t name = s.name;
    if (s.scope && v8_scope_read(&h->r, s.scope, &scope))
        name = v8_string_length(&h->r, scope.name) > 0 ? scope.name : scope.inferred;
    return v8_string_length(&h->r, name) > 0 && v8_string(&h->r, name, NAME, out);
}

/* ---- classes ------------------------------------------------------------------------------- */

/* Append the name of the function that has made objects of a map. The map leads back to the one
 * that it was made from, and the first one to the function. If that is the base of the class that
 * was called, the prototype knows the class. */
static bool put_constructor(struct v8_heap *h, uint64_t map, struct text *out)
{
    uint64_t to = 0, prototype;
    uint8_t bits;
    if (v8_read(&h->r, v8_address(map) + MAP_BITS_2, &bits, 1) && !(bits & IS_OF_BASE) &&
        v8_slot(&h->r, map, MAP_PROTOTYPE, &prototype) &&
        put_name(h, v8_function_sfi(&h->r, v8_property(h, prototype, "constructor")), out))
        return true;
    for (unsigned i = 0; i < TRANSITIONS_MAX; i++) {
        if (!v8_slot(&h->r, map, h->l->map_constructor, &to))
            return false;
        if (!v8_is(&h->r, to, h->l->type_map))
            break;
        map = to;
    }
    return put_name(h, v8_function_sfi(&h->r, to), out);
}

static void put_fields(struct v8_heap *h, uint64_t map, struct text *out)
{
    struct census_fields fields = {0};
    struct v8_fields f;
    uint64_t entry[2];
    if (!v8_fields_read(h, map, &f))
        return;
    fields.is_large = f.is_dictionary;
    for (unsigned i = 0; i < f.nr && !f.is_dictionary; i++) {
        if (!v8_read(&h->r, f.first + V8_DESCRIPTOR * (uint64_t)i, entry, sizeof(entry)))
            return;
        if (!(v8_smi(entry[1]) & (V8_DETAILS_ACCESSOR | V8_DETAILS_IN_MAP)))
            census_fields_add(&fields,
                              v8_string_length(&h->r, entry[0]) >= 0 ? v8_address(entry[0]) : 0);
    }
    text_char(out, ' ');
    census_fields_put(&fields, v8_heap_string, h, out);
}

/* Returns what objects of a map are; "": memory is out. */
static const char *class_of(struct v8_heap *h, uint64_t map, uint16_t type)
{
    struct text text = {0};
    const char *known = table_get(&h->names.classes, map), *name = v8_heap_subtype(h, type);
    if (known)
        return known;
    if (!put_constructor(h, map, &text)) {
        text_char(&text, '(');
        text_string(&text, name);
        text_char(&text, ')');
    }
    if (strcmp(name, "JSObject") == 0)
        put_fields(h, map, &text);
    return keep(&h->names.classes, map, &text);
}

/* ---- all ----------------------------------------------------------------------------------- */

void v8_heap_describe(void *heap, const struct census_object *o, struct text *out)
{
    struct v8_heap *h = heap;
    uint64_t map;
    const char *text = "";
    switch (o->type) {
    case CENSUS_STRING:
        v8_heap_string(h, o->address, CENSUS_STRING_SHOWN, out);
        return;
    case CENSUS_OBJECT:
        if (v8_word(&h->r, o->address, &map))
            text = class_of(h, map, o->subtype);
        break;
    case CENSUS_FUNCTION:
    case CENSUS_PROTO:
        text = site_of(h, function_of(h, o));
        break;
    default:
        break;
    }
    text_string(out, *text ? text : v8_heap_subtype(h, o->subtype));
}
