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

/* See struct census_heap (census_text.c). */
void v8_heap_describe(void *heap, const struct census_object *o, struct text *out);
bool v8_heap_string(void *heap, uint64_t address, size_t max, struct text *out);
const char *v8_heap_subtype(void *heap, unsigned subtype);
bool v8_heap_string_identity(void *heap, const struct census_object *o, uint64_t *ret);

#endif
