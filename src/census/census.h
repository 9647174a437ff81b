/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The census of a VM's heap: all its objects, summed up by type and by kind, and the way on which
 * each is reached from the VM's roots. It knows the heap through unwind/census.h only.
 */
#ifndef CENSUS_CENSUS_H
#define CENSUS_CENSUS_H

#include "base/hash_table.h"
#include "base/vec.h"
#include "unwind/census.h"

/* Objects of one type and one description: closures of one function, tables of one class. */
struct census_group {
    uint64_t nr, bytes;
    uint32_t text, length; /* in the census's `texts`; empty: there is no description */
    uint8_t type;
    uint32_t example; /* number of the largest object */
};

/* How an object is reached: a shortest way leads through this reference. */
struct census_parent {
    uint32_t from; /* number of the object; CENSUS_NONE: a root, or not reached */
    uint8_t link, key;
    bool reached;
    union {
        int64_t number;
        uint64_t string;
        const char *name;
    };
};
#define CENSUS_NONE HASH_TABLE_NONE

struct census {
    const struct census_heap *heap; /* the runtime's functions, and its heap */
    void *of;
    VEC(struct census_object) objects;
    struct hash_table by_address; /* number of the object at an address */
    struct {
        uint64_t nr, bytes;
    } types[CENSUS_TYPES], all, reached;
    uint64_t total; /* bytes that the VM says that it has allocated; 0: not known */
    uint64_t own;   /* of them, the VM's own tables */
    uint64_t most;  /* bytes that objects can have */
    /* Of all types but strings and upvalues; those with most bytes first. */
    VEC(struct census_group) groups;
    struct text texts;
    VEC(struct census_parent) parents; /* one for each object, after census_reach() */
};

/* List the objects of a VM. `c` is empty at first; `heap` and `of` stay the caller's, and must stay
 * valid. `most`: bytes of the process's memory, more than which its objects cannot have. Returns -1
 * when memory is out, or if the list is broken; what was listed is then counted. */
int census_take(struct census *c, const struct census_heap *heap, void *of, uint64_t most,
                struct error *err);
/* Sum up by description. */
int census_group(struct census *c, struct error *err);
/* Find the ways from the roots. */
int census_reach(struct census *c, struct error *err);
void census_free(struct census *c);

/* Returns the number of the object at an address; CENSUS_NONE: there is none. */
uint32_t census_find(const struct census *c, uint64_t address);
/* Append the way to an object, as the language writes it: _G.app.cache[3]. Names are
 * escaped as a terminal may see them. Nothing is appended for an object that is not reached. */
void census_path(const struct census *c, uint32_t object, struct text *out);

/* A type's name: "table". */
const char *census_type_name(enum census_type type);

#endif
