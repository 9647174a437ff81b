/* SPDX-License-Identifier: GPL-2.0-only */
/* A LuaJIT heap that is being listed. Private to the census of unwind/luajit. */
#ifndef UNWIND_LUAJIT_CENSUS_INTERNAL_H
#define UNWIND_LUAJIT_CENSUS_INTERNAL_H

#include "base/table.h"
#include "unwind/luajit/census.h"
#include "unwind/luajit/size.h"
#include "unwind/luajit/slot.h"

enum { LUAJIT_GLOBAL_READ = 4096 }; /* bytes of global_State that are searched, at most */

struct luajit_heap {
    const struct memory *m;
    const struct luajit_layout *l;
    uint64_t g, main, registry; /* 0: not found */
    uint64_t state_size;        /* bytes of a lua_State */
    uint64_t strings;           /* the string table's array */
    uint64_t nr_buckets, nr_strings;
    uint64_t ctypes;                 /* FFI: the table of C types */
    uint32_t nr_ctypes, ctypes_size; /* types; places in the table */
    uint64_t budget;                 /* strings that may still be followed */
    size_t global_size;
    uint8_t global[LUAJIT_GLOBAL_READ];
    VEC(uint64_t) fixed; /* strings that are never collected: words of the language */
    struct census_names names;
};

/* Read a table's head. Returns false: there is no table. */
bool luajit_heap_table(const struct luajit_heap *h, uint64_t address, struct luajit_table *ret);
/* Get a field by name; of the type LUAJIT_TAG_NIL if it is not there. */
struct luajit_slot luajit_heap_field(const struct luajit_heap *h, const struct luajit_table *t,
                                     const char *name);
/* Call `take` for the elements of an array, `step` bytes each, until it says false. */
bool luajit_heap_each(const struct luajit_heap *h, uint64_t address, uint64_t nr, size_t step,
                      bool (*take)(void *context, uint64_t index, const uint8_t *element),
                      void *context);
/* Kinds of types, in the upper four bits of their information; below them flags, and in the lower
 * half the type that they are made of (lj_ctype.h). */
enum { CT_NUM, CT_STRUCT, CT_PTR, CT_ARRAY, CT_VOID, CT_ENUM, CT_FUNC, CT_TYPEDEF, CT_ATTRIB };
enum { CTYPE_KIND_SHIFT = 28, CTYPE_ID = 0xffff };
/* A type of the FFI. */
struct luajit_ctype {
    uint32_t info, size;
    uint64_t name; /* address of a string; 0: none */
};
/* Read a type's description. Returns false: there is none with this number. */
bool luajit_heap_ctype(const struct luajit_heap *h, uint32_t id, struct luajit_ctype *ret);
/* Read an object's head, with zeros for what is behind the end of readable memory. */
bool luajit_heap_head(const struct luajit_heap *h, uint64_t address, uint8_t head[LUAJIT_HEAD]);

/* See struct census_heap (census_text.c). */
void luajit_heap_describe(void *heap, const struct census_object *o, struct text *out);
bool luajit_heap_upvalue(void *heap, uint64_t closure, unsigned number, struct text *out);
bool luajit_heap_string(void *heap, uint64_t address, size_t max, struct text *out);

#endif
