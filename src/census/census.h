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

struct census_sum {
    uint64_t nr, bytes;
};

/* Strings with the same text. */
struct census_strings {
    uint64_t identity, nr, bytes;
    uint32_t example; /* number of one of them */
};

struct census {
    const struct census_heap *heap; /* the runtime's functions, and its heap */
    void *of;
    VEC(struct census_object) objects;
    struct hash_table by_address; /* number of the object at an address */
    struct census_sum types[CENSUS_TYPES], all, reached;
    VEC(struct census_sum) subtypes; /* by the runtime's number of the type */
    struct census_outside outside[CENSUS_OUTSIDES];
    uint64_t total; /* bytes that the VM says that it has allocated; 0: not known */
    uint64_t own;   /* of them, what is no object */
    uint64_t most;  /* bytes that objects can have */
    /* Of all types but strings and upvalues; those with most bytes first. */
    VEC(struct census_group) groups;
    struct text texts;
    /* Those that are there more than once, after census_compare_strings(); those first of which
     * most bytes would be saved. */
    VEC(struct census_strings) strings;
    VEC(struct census_parent) parents; /* one for each object, after census_reach() */
};

/* List the objects of a VM. `c` is empty at first; `heap` and `of` stay the caller's, and must stay
 * valid. `most`: bytes of the process's memory, more than which its objects cannot have. Returns -1
 * when memory is out, or if the list is broken; what was listed is then counted. */
int census_take(struct census *c, const struct census_heap *heap, void *of, uint64_t most,
                struct error *err);
/* Sum up by description. */
int census_group(struct census *c, struct error *err);
/* Find the strings that repeat. */
int census_compare_strings(struct census *c, struct error *err);
/* Find the ways from the roots. Does nothing if the runtime does not tell them. */
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
