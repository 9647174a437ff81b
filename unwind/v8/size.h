/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Types and sizes of V8's objects. An object's map has its size, or 0 if objects of the type have
 * different sizes: then the type says how the size follows from the object's first fields.
 */
#ifndef UNWIND_V8_SIZE_H
#define UNWIND_V8_SIZE_H

#include "unwind/census.h"
#include "unwind/v8/object.h"

enum { V8_TYPES_MAX = 4096 }; /* types from here on have objects of a fixed size only */

/* What is known of the types of one version. */
struct v8_types {
    char *names[V8_TYPES_MAX]; /* V8's own; NULL: there is none in the metadata */
    uint8_t rules[V8_TYPES_MAX];
    uint8_t kinds[V8_TYPES_MAX];      /* enum census_type */
    bool is_raw[V8_TYPES_MAX];        /* its fields are no references */
    bool is_uncompiled[V8_TYPES_MAX]; /* it stands for the code of a function that was not called */
    int32_t filler, free_space;       /* types of gaps */
};

/* Returns whether a layout has the types from which the others follow. A file says them. */
bool v8_types_known(const struct v8_layout *l);
/* Returns NULL when memory is out. `l`: v8_types_known(). */
struct v8_types *v8_types_create(const struct v8_layout *l);
void v8_types_free(struct v8_types *t);

/* A map, as far as it is needed. */
struct v8_shape {
    uint64_t map; /* tagged */
    uint16_t type;
    uint8_t words; /* of an object; 0: see the object */
    bool is_map;   /* false: it is none */
};

/* Returns the size of an object in bytes; 0: it cannot be told. `bytes`: `nr` bytes of it, from its
 * first on. */
uint64_t v8_object_size(struct v8_reader *r, const struct v8_types *t, const struct v8_shape *s,
                        const uint8_t *bytes, size_t nr);

#endif
