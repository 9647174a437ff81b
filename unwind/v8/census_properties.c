/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The named properties of objects. Objects of one map have the fields of its descriptors, some in
 * the object, the others in an array of its own; or each object has a table.
 */
#include "unwind/v8/census_internal.h"

#include <string.h>

enum {
    MAP_INOBJECT = 9,
    MAP_BITS_2 = 15,
    MAP_BITS_3 = 16,
    MAP_PROTOTYPE = 24,
    MAP_DESCRIPTORS = 40
};
enum { OWN_SHIFT = 10, OWN_MASK = 1023, IS_DICTIONARY = 1 << 21 }; /* of MAP_BITS_3 */
enum { OBJECT_PROPERTIES = 8, ARRAY_DATA = 16 };

enum { FIELD_SHIFT = 19, FIELD_MASK = 1023 }; /* of a descriptor's numbers */

bool v8_fields_read(struct v8_heap *h, uint64_t map, struct v8_fields *ret)
{
    uint64_t array;
    uint32_t bits;
    if (!v8_read(&h->r, v8_address(map) + MAP_BITS_3, &bits, sizeof(bits)) ||
        !v8_slot(&h->r, map, MAP_DESCRIPTORS, &array) || !v8_is_pointer(array))
        return false;
    *ret = (struct v8_fields){.first = v8_address(array) + (uint64_t)h->l->descriptors_first,
                              .nr = bits >> OWN_SHIFT & OWN_MASK,
                              .is_dictionary = bits & IS_DICTIONARY};
    return true;
}

static bool is_text(struct v8_heap *h, uint64_t string, const char *is)
{
    struct text text = {0};
    const bool same = v8_string_length(&h->r, string) == (int64_t)strlen(is) &&
                      v8_string(&h->r, string, strlen(is), &text) &&
                      memcmp(text.at, is, text.size) == 0;
    text_free(&text);
    return same;
}

uint64_t v8_field_value(struct v8_heap *h, uint64_t object, uint64_t map, int32_t details)
{
    uint8_t words, first;
    uint64_t array, value = 0;
    const struct v8_shape *s = v8_heap_shape(h, map);
    if (!s || !v8_read(&h->r, v8_address(map) + MAP_INOBJECT, &first, 1))
        return 0;
    words = s->words;
    const uint32_t field = (uint32_t)details >> FIELD_SHIFT & FIELD_MASK;
    if (words >= first && field < (uint32_t)(words - first))
        return v8_word(&h->r, v8_address(object) + 8 * ((uint64_t)first + field), &value) ? value
                                                                                          : 0;
    if (!v8_slot(&h->r, object, OBJECT_PROPERTIES, &array) || !v8_is_pointer(array) ||
        words < first)
        return 0;
    const uint64_t behind = field - (uint64_t)(words - first);
    return v8_word(&h->r, v8_address(array) + ARRAY_DATA + 8 * behind, &value) ? value : 0;
}

bool v8_entries_read(struct v8_heap *h, uint64_t table, unsigned words, struct v8_entries *ret)
{
    enum { CAPACITY = 2, ENTRIES_MAX = 1 << 24 };
    uint64_t length, capacity;
    if (!v8_is_pointer(table) || !v8_slot(&h->r, table, h->l->array_length, &length) ||
        !v8_slot(&h->r, table, ARRAY_DATA + 8 * CAPACITY, &capacity) || !v8_is_smi(length) ||
        !v8_is_smi(capacity) || v8_smi(capacity) < 0 || v8_smi(capacity) > ENTRIES_MAX)
        return false;
    const int64_t own = (int64_t)v8_smi(length) - (int64_t)words * v8_smi(capacity);
    if (own <= CAPACITY || own > v8_smi(length))
        return false;
    ret->at = v8_address(table) + ARRAY_DATA + 8 * (uint64_t)own;
    ret->nr = (unsigned)v8_smi(capacity);
    return true;
}

/* Returns a property of an object with a table. */
static uint64_t dictionary_value(struct v8_heap *h, uint64_t object, const char *name)
{
    enum { ENTRY = 3, SEARCHED_MAX = 1 << 16 };
    struct v8_entries e;
    uint64_t table, entry[2];
    if (!v8_slot(&h->r, object, OBJECT_PROPERTIES, &table) || !v8_entries_read(h, table, ENTRY, &e))
        return 0;
    for (unsigned i = 0; i < e.nr && i < SEARCHED_MAX; i++) {
        if (!v8_read(&h->r, e.at + 8 * ENTRY * (uint64_t)i, entry, sizeof(entry)))
            return 0;
        if (v8_is_pointer(entry[0]) && is_text(h, entry[0], name))
            return entry[1];
    }
    return 0;
}

uint64_t v8_property(struct v8_heap *h, uint64_t object, const char *name)
{
    struct v8_fields f;
    uint64_t map, entry[3];
    if (!v8_is_pointer(object) || !v8_slot(&h->r, object, 0, &map) || !v8_heap_shape(h, map) ||
        !v8_fields_read(h, map, &f))
        return 0;
    if (f.is_dictionary)
        return dictionary_value(h, object, name);
    for (unsigned i = 0; i < f.nr; i++) {
        if (!v8_read(&h->r, f.first + V8_DESCRIPTOR * (uint64_t)i, entry, sizeof(entry)))
            return 0;
        const int32_t details = v8_smi(entry[1]);
        if (!is_text(h, entry[0], name) || details & V8_DETAILS_ACCESSOR)
            continue;
        return details & V8_DETAILS_IN_MAP ? entry[2] : v8_field_value(h, object, map, details);
    }
    return 0;
}
