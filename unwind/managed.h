/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions of managed languages (Lua, JavaScript), interned: a frame refers to one by its id
 * (frame.function). A function's identity is its source and the place where it is defined; its
 * display name is chosen among what was proposed for it, by a rule that does not depend on the
 * order in which threads propose: the better rank wins, then what was proposed for an earlier part
 * of the recording, then the lesser string. Ids do depend on that order: never print or sort by
 * them.
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
    MANAGED_FUNCTION, /* written by the program */
    MANAGED_MAIN,     /* a source file's or chunk's own code */
    MANAGED_BUILTIN,  /* part of the VM: has a name of its own and no place in a source */
    MANAGED_UNKNOWN,  /* a function, but what it is could not be read or did not stand the checks */
};

/* Two functions are the same when all of this is equal. */
struct managed_identity {
    uint8_t kind;     /* enum managed_kind */
    uint8_t language; /* enum frame_kind: FRAME_LUA, FRAME_JS, FRAME_WASM */
    const char *file; /* as the program named it; NULL: none */
    uint32_t line;    /* where it is defined; 0: not known, or the whole file */
    uint32_t column;  /* from 1; 0: not known */
    uint32_t index;   /* of WebAssembly: the function's number + 1; else 0 */
    uint64_t salt;    /* tells apart what shares a place: a hash of the function's code */
    const char *name; /* of a builtin; NULL: others are named by managed_propose_name() */
};

/* How a name came about; greater is better. */
enum name_rank {
    NAME_RANK_NONE,
    /* As the two at calls, where nothing tells whether the function was called there, or by the one
     * that was, as its last deed: managed_is_doubted(). */
    NAME_RANK_UNTOLD_WEAK,
    NAME_RANK_UNTOLD,
    NAME_RANK_TAIL, /* another was called there: proposed with "" */
    /* As the two at calls, of frames that are not exact: when the caller was read, an address may
     * have been given to another function. */
    NAME_RANK_DOUBTFUL_WEAK,
    NAME_RANK_DOUBTFUL,
    NAME_RANK_NAMELESS,  /* where it is defined it gets no name: proposed with "" */
    NAME_RANK_CALL_WEAK, /* at a call: of a local variable, an upvalue, a metamethod */
    NAME_RANK_CALL,      /* at a call: of a global, a method, a field */
    NAME_RANK_DEFINED,   /* where the function is defined and stored */
};

/* What output needs. Strings live as long as the table; equal ones are the same pointer. */
struct managed_function {
    uint8_t kind, language;
    uint8_t rank;     /* of the name */
    const char *name; /* NULL: none */
    const char *file; /* NULL: none */
    uint32_t line, column, index;
};

struct managed_names;
/* NULL when memory is out. */
struct managed_names *managed_names_create(void);
void managed_names_free(struct managed_names *g);

/* Ids are from 1; 0 when memory is out, or with more than 4 million functions. */
uint32_t managed_intern(struct managed_names *g, const struct managed_identity *identity);

/* `batch`: the part of the recording that shows the name, in order of time (replay: the batch's
 * number; 0: known from the start). MANAGED_UNKNOWN takes none: it stands for all that could not be
 * read. -1 when memory is out. */
int managed_propose_name(struct managed_names *g, uint32_t id, enum name_rank rank,
                         const char *name, uint64_t batch);

/* The function as far as names up to and with `batch` go: the same answer whenever all proposals of
 * these batches were made. UINT64_MAX: all that is known. false: no such id. */
bool managed_get(const struct managed_names *g, uint32_t id, uint64_t batch,
                 struct managed_function *ret);

/* Whether nothing proves that the name is this function's: its frames are not exact. */
bool managed_is_doubted(const struct managed_function *f);

/* One copy of a string for the table's life; NULL when memory is out. */
const char *managed_string(struct managed_names *g, const char *bytes, size_t size);

/* What stands for the function of a frame that has none, because what would tell was not recorded.
 * `language`: enum frame_kind. */
void managed_unrecorded(uint8_t language, struct managed_function *ret);

/* Where the function is from, for sorting and for the place where native code shows its file: the
 * file as the program named it, else the language in brackets. */
const char *managed_module(const struct managed_function *f);

/* The function as one symbol: `NAME FILE:LINE[:COL]` (WebAssembly: `NAME FILE:wasm-function[N]`),
 * without what is not known; raw bytes, to be escaped by whoever prints. A function without a name
 * is `FILE:LINE`, one without both "?". */
void managed_symbol(struct text *t, const struct managed_function *f);

#endif
