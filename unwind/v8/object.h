/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * V8's heap objects, read through struct memory and checked: an object is what its map says, and
 * a map is what its own map says. All loops are bounded; what cannot be read, or is not what it
 * should be, is false.
 */
#ifndef UNWIND_V8_OBJECT_H
#define UNWIND_V8_OBJECT_H

#include "base/text.h"
#include "unwind/memory.h"
#include "unwind/v8/layout.h"

/* Of one frame at one time. */
struct v8_reader {
    const struct memory *memory;
    const struct v8_layout *layout;
    enum provenance provenance; /* the weakest of what was read */
    struct v8_map {
        uint64_t map; /* tagged; 0: free */
        uint16_t type;
        uint8_t provenance;      /* of what tells the type */
        struct memory_span same; /* between these times it tells the same, as far as proven */
    } maps[32];                  /* that objects had: most have one of a few */
};

static inline bool v8_is_smi(uint64_t word)
{
    return (uint32_t)word == 0;
}
static inline int32_t v8_smi(uint64_t word)
{
    return (int32_t)(word >> 32);
}
/* A strong or weak pointer; a cleared weak one is none. */
static inline bool v8_is_pointer(uint64_t word)
{
    return word & 1 && word >> 12 != 0;
}
static inline uint64_t v8_address(uint64_t word)
{
    return word & ~UINT64_C(3);
}

bool v8_word(struct v8_reader *r, uint64_t address, uint64_t *ret);
/* The word at `offset` of an object (a tagged word). */
bool v8_slot(struct v8_reader *r, uint64_t object, int32_t offset, uint64_t *ret);
/* The instance type; -1: that is no object. */
int32_t v8_type(struct v8_reader *r, uint64_t object);
static inline bool v8_is(struct v8_reader *r, uint64_t object, int32_t type)
{
    return type != V8_UNKNOWN && v8_type(r, object) == type;
}

/* ---- strings ------------------------------------------------------------------------------- */

/* Characters of a string, in pieces; `wide`: UTF-16 code units, else Latin-1. False ends it. */
struct v8_characters {
    bool (*take)(void *context, const uint8_t *bytes, size_t nr, bool wide);
    void *context;
};
/* All kinds of strings, flattened; only the first `max` characters. False: some could not be read.
 */
bool v8_string_each(struct v8_reader *r, uint64_t string, size_t max,
                    const struct v8_characters *to);
/* Appends as UTF-8. */
bool v8_string(struct v8_reader *r, uint64_t string, size_t max, struct text *ret);
/* The same of UTF-16 that stands here. */
void v8_utf8(struct text *to, const uint16_t *units, size_t nr);
/* -1: no string. */
int64_t v8_string_length(struct v8_reader *r, uint64_t string);

/* ---- functions ----------------------------------------------------------------------------- */

/* A SharedFunctionInfo. Tagged words; 0: none. */
struct v8_sfi {
    uint64_t sfi, script;
    uint64_t scope;    /* ScopeInfo */
    uint64_t name;     /* String, when there is no ScopeInfo */
    uint64_t bytecode; /* BytecodeArray */
};
bool v8_sfi_read(struct v8_reader *r, uint64_t sfi, struct v8_sfi *ret);
/* The same for whom its BytecodeArray is of no matter: how far that is proven does not count. */
bool v8_sfi_read_name(struct v8_reader *r, uint64_t sfi, struct v8_sfi *ret);
/* Its BytecodeArray; 0: it has none, or that cannot be read. */
uint64_t v8_sfi_bytecode(struct v8_reader *r, uint64_t sfi);
/* The SharedFunctionInfo of a JSFunction; 0: that is none. */
uint64_t v8_function_sfi(struct v8_reader *r, uint64_t function);

/* What a ScopeInfo says of its function. */
struct v8_scope {
    uint64_t name, inferred; /* tagged; 0: none */
    int32_t start, end;      /* in the source; -1: not known */
    bool members, statics;   /* what sets the fields of a class's instances, or its static ones */
};
bool v8_scope_read(struct v8_reader *r, uint64_t scope, struct v8_scope *ret);

/* Of the functions that code with this BytecodeArray makes, the one with that `bytecode`. */
bool v8_constant_function(struct v8_reader *r, uint64_t maker, uint64_t bytecode,
                          struct v8_sfi *ret);
/* Reads what that may need for any of them. How many there may be. */
unsigned v8_constants_read(struct v8_reader *r, uint64_t maker);

/* ---- code ---------------------------------------------------------------------------------- */

enum v8_code_kind {
    V8_CODE_OTHER,
    V8_CODE_INTERPRETED, /* a copy of the interpreter's trampoline */
    V8_CODE_BASELINE,
    V8_CODE_MAGLEV,
    V8_CODE_TURBOFAN,
};

struct v8_code {
    uint64_t code;        /* tagged */
    uint64_t start, size; /* of the instructions */
    uint64_t deopt, positions;
    enum v8_code_kind kind;
};
/* The object whose instructions `pc` is in; searched for from `low` on (the mapping's start). The
 * memory's `soon` begins anew with it. */
bool v8_code_find(struct v8_reader *r, uint64_t pc, uint64_t low, struct v8_code *ret);

/* Element of the code's deoptimization data. */
bool v8_deopt_element(struct v8_reader *r, const struct v8_code *c, int32_t index, uint64_t *ret);
/* The function that the code is of (optimized code). */
uint64_t v8_code_sfi(struct v8_reader *r, const struct v8_code *c);

/* Element of an array of any kind. */
bool v8_array_element(struct v8_reader *r, uint64_t array, int32_t index, uint64_t *ret);

/* Bytes of a table (a ByteArray), a piece at a time. */
struct v8_stream {
    struct v8_reader *r;
    uint64_t at, end;
    uint8_t piece[256];
    uint64_t piece_at;
    size_t piece_size;
};
bool v8_stream_open(struct v8_reader *r, uint64_t table, struct v8_stream *ret);
bool v8_stream_byte(struct v8_stream *s, uint8_t *ret);
/* Seven bits a byte, the low ones first. */
bool v8_stream_vlq(struct v8_stream *s, uint64_t *ret);

/* ---- positions ----------------------------------------------------------------------------- */

/* A position in a source, as V8 packs it. */
static inline int32_t v8_position_offset(uint64_t raw) /* -1: unknown */
{
    return raw & 1 ? -1 : (int32_t)(raw >> 1 & 0x3fffffff) - 1;
}
static inline int32_t v8_position_inlining(uint64_t raw) /* -1: not inlined */
{
    return (int32_t)(raw >> 31 & 0xffff) - 1;
}
/* The entry of a source position table for `offset`; false: there is no table, or none for it. */
bool v8_position_find(struct v8_reader *r, uint64_t table, int64_t offset, uint64_t *raw);

/* The same of a table's bytes, wherever they stand. */
bool v8_position_find_at(struct v8_reader *r, uint64_t address, uint64_t size, int64_t offset,
                         uint64_t *raw);

/* Entries that may be that of a call which returns to `offset`, where V8 tells some calls behind
 * them (layout.h: positions_behind): the first at that offset, the last before it. Returns how
 * many. */
unsigned v8_position_call(struct v8_reader *r, uint64_t table, int64_t offset, uint64_t ret[2]);

struct v8_inlined {
    uint64_t sfi;   /* tagged: whose position it is */
    int32_t offset; /* in its source */
    bool inlined;   /* false: the outer function, the last one */
};
enum { V8_INLINED_MAX = 64 };
/* The functions at `raw` of optimized code, innermost first; 0: they cannot be told. */
unsigned v8_code_inlined(struct v8_reader *r, const struct v8_code *c, uint64_t raw,
                         struct v8_inlined ret[V8_INLINED_MAX]);

/* Is no function inlined in optimized code, for sure? */
bool v8_code_inlines_none(struct v8_reader *r, const struct v8_code *c);

/* The functions at a return address in Maglev's code, as deoptimization there would restore them,
 * innermost first, and how many; 0: not to be told. Its table of positions is wrong in loops that
 * it peeled. */
struct v8_restored {
    uint64_t sfi;            /* tagged */
    int32_t bytecode_offset; /* that executes; -1: unknown */
};
unsigned v8_maglev_frames(struct v8_reader *r, const struct v8_code *c, uint64_t pc,
                          struct v8_restored ret[V8_INLINED_MAX]);
/* A call in optimized code. */
struct v8_safepoint {
    uint32_t pc, trampoline; /* where it returns to, and where once the code is not to be used any
                                more; from the start of the code. No trampoline: UINT32_MAX */
    int32_t place;           /* for deoptimization; -1: none, or not told (to V8 9.4) */
};
/* The call that returns to `pc`, by either way. 1: found, 0: there is none, -1: the table is not
 * known of this version, or cannot be read. */
int v8_safepoint_find(struct v8_reader *r, const struct v8_code *c, uint64_t pc,
                      struct v8_safepoint *ret);
/* Where the call that returns to `pc` would return to if the code were still in use: `pc`, unless
 * that is a trampoline. 0: that cannot be told. */
uint64_t v8_code_call(struct v8_reader *r, const struct v8_code *c, uint64_t pc);
/* Where that table ends; of code without one, or whose table cannot be read, the code's end. */
uint64_t v8_safepoints_end(struct v8_reader *r, const struct v8_code *c);

/* Bytecode offset of the innermost function at a return address in TurboFan's code, as
 * deoptimization there has it; false: not to be told. */
bool v8_turbofan_offset(struct v8_reader *r, const struct v8_code *c, uint64_t pc, int32_t *ret);

/* Bytecode offset at a return address (or pc) of baseline code; false: not to be told. */
bool v8_baseline_offset(struct v8_reader *r, const struct v8_code *c, uint64_t bytecode,
                        uint64_t pc, int32_t *ret);

#endif
