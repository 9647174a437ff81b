/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interned functions of managed languages (Lua, JavaScript). A frame refers to a function by its id
 * (frame.function). The identity of a function is its source and the place of its definition. Its
 * display name is chosen among the names proposed for it: the better rank wins, then the name
 * proposed for an earlier part of the recording, then the lesser string. This rule does not depend
 * on the order in which threads propose names. Ids do depend on that order: never print them or
 * sort by them.
 *
 * All functions may be called from any thread.
 */
#ifndef UNWIND_MANAGED_H
#define UNWIND_MANAGED_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum managed_kind {
    MANAGED_FUNCTION, /* written by the program's authors */
    MANAGED_MAIN,     /* the top-level code of a source file or chunk */
    MANAGED_BUILTIN,  /* part of the VM: has its own name and no place in a source */
    MANAGED_UNKNOWN,  /* a function whose identity could not be read or did not pass the checks */
};

/* Two functions are the same when all these fields are equal. */
struct managed_identity {
    uint8_t kind;     /* enum managed_kind */
    uint8_t language; /* enum frame_kind: one that frame_language() names */
    const char *file; /* named as the program names it; NULL: none */
    uint32_t line;    /* line of the definition; 0: unknown, or the whole file */
    uint32_t column;  /* counted from 1; 0: unknown */
    uint32_t index;   /* WebAssembly: the function's number + 1; else 0 */
    uint64_t salt;    /* hash of the function's code: separates functions defined at the same
                         place */
    const char *name; /* name of a builtin; NULL: named by managed_propose_name() */
};

/* Where a name comes from. A greater rank is better. */
enum name_rank {
    NAME_RANK_NONE,
    /* Like the two ranks at calls, but it is unknown whether this function was called there, or was
     * tail-called by the function that was called there: such a name is guessed. */
    NAME_RANK_UNTOLD_WEAK,
    NAME_RANK_UNTOLD,
    NAME_RANK_TAIL, /* another function was called there; proposed with "" */
    /* Like the two ranks at calls, but for frames that are not exact: when the caller was read,
     * another function may already have been at the address. */
    NAME_RANK_DOUBTFUL_WEAK,
    NAME_RANK_DOUBTFUL,
    NAME_RANK_NAMELESS,  /* its definition gives it no name; proposed with "" */
    NAME_RANK_CALL_WEAK, /* at a call: name of a local variable, an upvalue, a metamethod */
    NAME_RANK_CALL,      /* at a call: name of a global, a method, a field */
    NAME_RANK_STORED,  /* where the VM has it: a global variable, a field of a module or a class */
    NAME_RANK_DEFINED, /* where the function is defined and stored */
};

/* What output needs. A definition gives one name, and most places have one function: if several
 * were read, some are of others that were at the same addresses (`disputed`). Strings live as long
 * as the table; equal strings are the same pointer. */
struct managed_function {
    uint8_t kind, language;
    uint8_t rank;     /* rank of the name */
    bool disputed;    /* its definition was also read with another name, or other code */
    bool borrowed;    /* the name is of a function that was found at the same place, and nothing
                         proves that this is the same: managed_found_at() */
    const char *name; /* NULL: none */
    const char *file; /* NULL: none */
    uint32_t line, column, index;
    /* Stripped bytecode has no lines: a digest of the function's code tells it from the others of
     * its chunk, in each run the same. 0: the function has a line, or needs none. */
    uint32_t digest;
};

struct managed_names;
/* Returns NULL when out of memory. */
struct managed_names *managed_names_create(void);
void managed_names_free(struct managed_names *g);

/* Returns the id of a function, counted from 1; 0 when out of memory or beyond 4 million
 * functions. */
uint32_t managed_intern(struct managed_names *g, const struct managed_identity *identity);

/* Propose a name. `batch`: the part of the recording that shows the name, in time order (replay:
 * the number of the batch; 0: known from the start). MANAGED_UNKNOWN takes no names, because it
 * stands for all functions that could not be read. Returns -1 when out of memory. */
int managed_propose_name(struct managed_names *g, uint32_t id, enum name_rank rank,
                         const char *name, uint64_t batch);

/* How a function was found at a place. */
enum managed_found {
    MANAGED_FOUND_REMAINS, /* it may be what is left of a dead one */
    MANAGED_FOUND_WHOLE,   /* it was there */
    MANAGED_NR_FOUND,
};

/* Say that the function `id` was found at a place for which `place` stands. This is a function,
 * too: one of which no more was read than its place (see luajit_proto_place()). If only one
 * function is found at a place, in the better way in which any is, then `place` borrows its name
 * (struct managed_function): code that was loaded anew may have another function there. `shared`:
 * so may this program. If not, but several are found, then the names of all are disputed. `batch`
 * as in managed_propose_name(). Returns -1 when out of memory. */
int managed_found_at(struct managed_names *g, uint32_t place, uint32_t id, enum managed_found how,
                     bool shared, uint64_t batch);

/* Get the function as known from names up to and including `batch`. The answer is always the same
 * once all proposals of these batches were made. UINT64_MAX: use all names. Returns false if there
 * is no such id. */
bool managed_get(const struct managed_names *g, uint32_t id, uint64_t batch,
                 struct managed_function *ret);

/* Returns whether nothing proves that the name belongs to this function. (The place, and what is
 * known of it, may be exact all the same.) */
bool managed_name_is_guessed(const struct managed_function *f);

/* Returns one copy of a string that lives as long as the table; NULL when out of memory. */
const char *managed_string(struct managed_names *g, const char *bytes, size_t size);

/* Get a placeholder function for a frame whose function is unknown because the necessary data was
 * not recorded. `language`: enum frame_kind. */
void managed_unrecorded(uint8_t language, struct managed_function *ret);

/* Returns where the function comes from: its file as the program named it, else the language in
 * brackets. For sorting, and for the place where native code shows its file. */
const char *managed_module(const struct managed_function *f);

/* Make a name of the name of a table and that of a field in it: TABLE, separator, KEY. `name` has
 * room for `size` bytes, and the table's name if `has_table`. Only the key remains if the table has
 * no name, or both have no room. */
void managed_join_name(char *name, size_t size, bool has_table, char separator, const char *key);

/* Append the function as one symbol: `NAME FILE:LINE[:COL]` (WebAssembly: `NAME
 * FILE:wasm-function[N]`; stripped Lua: `NAME FILE:fn_DIGEST`), without the unknown parts. A
 * function without a name is `FILE:LINE`, one without name and file is "?". The bytes are raw:
 * whoever prints them must escape them. */
void managed_symbol(struct text *t, const struct managed_function *f);

#endif
