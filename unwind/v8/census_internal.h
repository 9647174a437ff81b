/* SPDX-License-Identifier: GPL-2.0-only */
/* A V8 heap that is being listed. Private to the census of unwind/v8. */
#ifndef UNWIND_V8_CENSUS_INTERNAL_H
#define UNWIND_V8_CENSUS_INTERNAL_H

#include "unwind/v8/census.h"
#include "unwind/v8/chunk.h"
#include "unwind/v8/names.h"
#include "unwind/v8/size.h"

/* A linear allocation area: objects are put in at `top`, what lies between it and `limit` is free.
 */
struct v8_area {
    uint64_t top, limit;
    bool is_main; /* the isolate's own */
};

struct v8_heap {
    struct v8_reader r;
    const struct v8_layout *l;
    const struct runtime_memory *m;
    uint64_t at; /* V8's Heap */
    struct v8_types *types;
    VEC(struct v8_chunk) chunks; /* by address */
    VEC(struct v8_area) areas;   /* by address */
    VEC(struct v8_shape) shapes;
    struct hash_table by_map; /* numbers of shapes */
    VEC(uint64_t) contexts;   /* addresses of native contexts, each of which has a global object */
    struct table functions;   /* by BytecodeArray: its SharedFunctionInfo, tagged */
    struct v8_chunk *current; /* the chunk of new space that is filled; NULL: not found */
    struct table filled;      /* descriptions of new space's chunks that are full */
    uint64_t total, gaps;
    struct census_outside outside[CENSUS_OUTSIDES];
    struct managed_names *managed;
    struct v8_names *sources;
    struct census_names names;
    uint8_t *bytes; /* V8_CHUNK bytes: of the chunk that is read */
};

/* Returns the map of a tagged word; NULL: it is none, or memory is out. */
const struct v8_shape *v8_heap_shape(struct v8_heap *h, uint64_t map);
/* Returns the map of an object. */
const struct v8_shape *v8_heap_shape_of(struct v8_heap *h, uint64_t address);

/* A descriptor of a map: a name, numbers (a Smi), and a value if no object has the field itself. */
enum { V8_DESCRIPTOR = 24, V8_DETAILS_ACCESSOR = 1, V8_DETAILS_IN_MAP = 1 << 5 };

/* Where a map's descriptors are. */
struct v8_fields {
    uint64_t first; /* address */
    unsigned nr;
    bool is_dictionary; /* each object has a table of its own instead */
};
bool v8_fields_read(struct v8_heap *h, uint64_t map, struct v8_fields *ret);
/* Returns the value of an object's field, whose descriptor has these numbers; 0: it has none. Words
 * are tagged. */
uint64_t v8_field_value(struct v8_heap *h, uint64_t object, uint64_t map, int32_t details);
/* Returns the value of an object's own property; 0: it has none. */
uint64_t v8_property(struct v8_heap *h, uint64_t object, const char *name);

/* The entries of a table of properties: some words of the table's own, then the entries. */
struct v8_entries {
    uint64_t at; /* address of the first */
    unsigned nr;
};
/* `words`: of an entry. Returns false: `table` is none. */
bool v8_entries_read(struct v8_heap *h, uint64_t table, unsigned words, struct v8_entries *ret);

/* See struct census_heap (census_references.c). */
void v8_heap_roots(void *heap, census_take_reference *take, void *context);
void v8_heap_late_roots(void *heap, census_take_reference *take, void *context);
void v8_heap_references(void *heap, const struct census_object *o, census_take_reference *take,
                        void *context);
bool v8_heap_variable(void *heap, uint64_t closure, unsigned number, struct text *out);

/* Returns the chunk that holds an address; NULL: none does. */
struct v8_chunk *v8_heap_chunk(const struct v8_heap *h, uint64_t address);
/* Call `look` with each range of memory outside of the heap. Returns false if `look` did. */
bool v8_heap_outside(struct v8_heap *h,
                     bool (*look)(struct v8_heap *h, uint64_t start, uint64_t end, void *context),
                     void *context);

/* See struct census_heap (census_text.c). */
void v8_heap_describe(void *heap, const struct census_object *o, struct text *out);
bool v8_heap_string(void *heap, uint64_t address, size_t max, struct text *out);
const char *v8_heap_subtype(void *heap, unsigned subtype);
bool v8_heap_string_identity(void *heap, const struct census_object *o, uint64_t *ret);

#endif
