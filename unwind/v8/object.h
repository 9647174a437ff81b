/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * V8's heap objects, read through struct memory and checked: an object's type is what its map says,
 * and a map must itself have a map of maps. All loops are bounded. Functions return false when
 * memory cannot be read or an object is not of the expected type.
 */
#ifndef UNWIND_V8_OBJECT_H
#define UNWIND_V8_OBJECT_H

#include "base/text.h"
#include "unwind/memory.h"
#include "unwind/v8/layout.h"

/* Reads the objects of one frame at one time. What it asks for are parts of objects that the sample
 * leads to (MEMORY_OBJECT), if they are not said to be `moving`. */
struct v8_reader {
    const struct memory *memory;
    const struct v8_layout *layout;
    enum memory_moment moment;  /* of all questions */
    bool alive;                 /* of all questions: see struct memory_query */
    bool moving;                /* what is read now is written all the time (MEMORY_MOVING) */
    enum provenance provenance; /* the weakest provenance of all readings */
    bool by_one_reading;        /* true of some reading: see struct memory_answer */
    struct memory_span same;    /* times at which all readings are the same */
    struct v8_map {
        uint64_t map; /* tagged; 0: free */
        uint16_t type;
        uint8_t provenance;      /* of the words that give the type */
        struct memory_span same; /* times between which the map gives the same type, as far as
                                    proven */
    } maps[32];                  /* maps of objects read before: most objects have one of a few
                                    maps */
};

static inline bool v8_is_smi(uint64_t word)
{
    return (uint32_t)word == 0;
}
static inline int32_t v8_smi(uint64_t word)
{
    return (int32_t)(word >> 32);
}
/* Is the word a strong or weak pointer? A cleared weak pointer is not. */
static inline bool v8_is_pointer(uint64_t word)
{
    return word & 1 && word >> 12 != 0;
}
static inline uint64_t v8_address(uint64_t word)
{
    return word & ~UINT64_C(3);
}

/* Reads `size` bytes, and adds how far they are proven to what the reader knows of its readings. */
bool v8_read(struct v8_reader *r, uint64_t address, void *to, size_t size);
bool v8_word(struct v8_reader *r, uint64_t address, uint64_t *ret);
/* Reads the word at `offset` of an object (`object`: a tagged word). */
bool v8_slot(struct v8_reader *r, uint64_t object, int32_t offset, uint64_t *ret);
/* While a collection moves objects, the old copy of one that was moved has the address of the new
 * one in the place of its map, without a tag; all else of it is as it was. Returns the new one, of
 * an object's first word; 0: the word is no such address. */
static inline uint64_t v8_moved_to(uint64_t first)
{
    enum { ALIGNED = 7, TAG = 1 };
    return !(first & ALIGNED) && v8_is_pointer(first | TAG) ? first | TAG : 0;
}
/* Reads an object's map, also of an old copy. */
bool v8_map_of(struct v8_reader *r, uint64_t object, uint64_t *ret);
/* Returns whether two tagged words are of the same object: a collection may have moved it, and
 * updated only one of them. */
bool v8_is_same(struct v8_reader *r, uint64_t a, uint64_t b);
/* Returns the instance type of an object; -1: `object` is no object. */
int32_t v8_type(struct v8_reader *r, uint64_t object);
static inline bool v8_is(struct v8_reader *r, uint64_t object, int32_t type)
{
    return type != V8_UNKNOWN && v8_type(r, object) == type;
}

/* ---- strings ------------------------------------------------------------------------------- */

/* Receives the characters of a string in pieces. `wide`: UTF-16 code units, else Latin-1. When
 * `take` returns false, the reading ends. */
struct v8_characters {
    bool (*take)(void *context, const uint8_t *bytes, size_t nr, bool wide);
    void *context;
};
/* Passes the first `max` characters of a string of any kind, flattened, to `to`. false: some could
 * not be read. */
bool v8_string_each(struct v8_reader *r, uint64_t string, size_t max,
                    const struct v8_characters *to);
/* Appends the string as UTF-8. */
bool v8_string(struct v8_reader *r, uint64_t string, size_t max, struct text *ret);
/* Appends `nr` characters from the character `from` on as UTF-8, or as many as there are. */
bool v8_string_part(struct v8_reader *r, uint64_t string, size_t from, size_t nr, struct text *ret);
/* Appends UTF-16 units of our own memory as UTF-8. */
void v8_utf8(struct text *to, const uint16_t *units, size_t nr);
/* Returns the length in characters; -1: no string. */
int64_t v8_string_length(struct v8_reader *r, uint64_t string);

/* ---- functions ----------------------------------------------------------------------------- */

/* A SharedFunctionInfo and its fields. Tagged words; 0: none. */
struct v8_sfi {
    uint64_t sfi, script;
    uint64_t scope;    /* ScopeInfo */
    uint64_t name;     /* String, when there is no ScopeInfo */
    uint64_t bytecode; /* BytecodeArray */
};
bool v8_sfi_read(struct v8_reader *r, uint64_t sfi, struct v8_sfi *ret);
/* The same for callers that do not need the BytecodeArray: its reading does not change the
 * provenance. */
bool v8_sfi_read_name(struct v8_reader *r, uint64_t sfi, struct v8_sfi *ret);
/* Returns the BytecodeArray of a SharedFunctionInfo; 0: it has none, or memory cannot be read. */
uint64_t v8_sfi_bytecode(struct v8_reader *r, uint64_t sfi);
/* Returns the SharedFunctionInfo of a JSFunction; 0: `function` is not a JSFunction. */
uint64_t v8_function_sfi(struct v8_reader *r, uint64_t function);

/* A function as its ScopeInfo describes it. */
struct v8_scope {
    uint64_t name, inferred; /* tagged; 0: none */
    int32_t start, end;      /* in the source; -1: not known */
    bool members, statics;   /* it initializes a class's instance fields, or its static fields */
};
bool v8_scope_read(struct v8_reader *r, uint64_t scope, struct v8_scope *ret);

/* Returns a number that identifies a function at any address: of its script's number and its place
 * in the script. 0: it cannot be read. */
uint32_t v8_sfi_identity(struct v8_reader *r, const struct v8_sfi *sfi);
/* The same of anything that has a place in a script, or a number in a module. */
uint32_t v8_identity(uint64_t script_id, uint64_t in_script);

/* Searches the constants of the BytecodeArray `maker` for the inner function with the BytecodeArray
 * `bytecode`. */
bool v8_constant_function(struct v8_reader *r, uint64_t maker, uint64_t bytecode,
                          struct v8_sfi *ret);
/* Reads everything that v8_constant_function() may need for any inner function of `maker`. Returns
 * how many such functions there may be. */
unsigned v8_constants_read(struct v8_reader *r, uint64_t maker);

/* ---- code ---------------------------------------------------------------------------------- */

enum v8_code_kind {
    V8_CODE_OTHER,
    V8_CODE_JS_TO_WASM,
    V8_CODE_REGEXP,
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
/* Reads a Code object; false: it is none. */
bool v8_code_read(struct v8_reader *r, uint64_t code, struct v8_code *ret);
/* Is this a Code object whose instructions contain the pc? */
bool v8_code_contains(struct v8_reader *r, uint64_t code, uint64_t pc);

/* Finds the code object whose instructions contain `pc`. Searches down to `low` (the start of the
 * mapping). Resets `by_one_reading` before it reads the object. */
bool v8_code_find(struct v8_reader *r, uint64_t pc, uint64_t low, struct v8_code *ret);

/* Reads an element of the code's deoptimization data. */
bool v8_deopt_element(struct v8_reader *r, const struct v8_code *c, int32_t index, uint64_t *ret);
/* Returns the outer function of optimized code (a SharedFunctionInfo); 0: unknown. */
uint64_t v8_code_sfi(struct v8_reader *r, const struct v8_code *c);

/* Reads an element of an array of any kind. */
bool v8_array_element(struct v8_reader *r, uint64_t array, int32_t index, uint64_t *ret);

/* The bytes of a table (a ByteArray), read a piece at a time. */
struct v8_stream {
    struct v8_reader *r;
    uint64_t at, end;
    uint8_t piece[256];
    uint64_t piece_at;
    size_t piece_size;
};
bool v8_stream_open(struct v8_reader *r, uint64_t table, struct v8_stream *ret);
bool v8_stream_byte(struct v8_stream *s, uint8_t *ret);
/* Reads a number: seven bits in each byte, the low bits first. */
bool v8_stream_vlq(struct v8_stream *s, uint64_t *ret);

/* ---- positions ----------------------------------------------------------------------------- */

/* A source position as V8 packs it. */
static inline int32_t v8_position_offset(uint64_t raw) /* -1: unknown */
{
    return raw & 1 ? -1 : (int32_t)(raw >> 1 & 0x3fffffff) - 1;
}
static inline int32_t v8_position_inlining(uint64_t raw) /* -1: not inlined */
{
    return (int32_t)(raw >> 31 & 0xffff) - 1;
}
/* Finds the entry of a source position table for `offset`; false: there is no table, or no
 * entry. */
bool v8_position_find(struct v8_reader *r, uint64_t table, int64_t offset, uint64_t *raw);

/* The same for a table's bytes at any address. */
bool v8_position_find_at(struct v8_reader *r, uint64_t address, uint64_t size, int64_t offset,
                         uint64_t *raw);

/* Finds the table entries that may belong to the call that returns to `offset`, for versions where
 * V8 writes some calls' positions behind the calls (layout.h: positions_behind): the first entry at
 * that offset, and the last entry before it. Returns how many. */
unsigned v8_position_call(struct v8_reader *r, uint64_t table, int64_t offset, uint64_t ret[2]);

struct v8_inlined {
    uint64_t sfi;   /* tagged: the function of this position */
    int32_t offset; /* place in the function's source */
    bool inlined;   /* false: the outer function, which comes last */
};
enum { V8_INLINED_MAX = 64 };
/* Finds the functions at the position `raw` of optimized code, innermost first. Returns how many;
 * 0: unknown. */
unsigned v8_code_inlined(struct v8_reader *r, const struct v8_code *c, uint64_t raw,
                         struct v8_inlined ret[V8_INLINED_MAX]);

/* Is it certain that optimized code inlines no function? */
bool v8_code_inlines_none(struct v8_reader *r, const struct v8_code *c);

/* Finds the functions at a return address in Maglev's code as deoptimization there would restore
 * them, innermost first. Returns how many; 0: unknown. (Maglev's table of positions is wrong in
 * loops that it peeled.) */
struct v8_restored {
    uint64_t sfi;            /* tagged */
    int32_t bytecode_offset; /* the executing bytecode; -1: unknown */
};
unsigned v8_maglev_frames(struct v8_reader *r, const struct v8_code *c, uint64_t pc,
                          struct v8_restored ret[V8_INLINED_MAX]);
/* A call in optimized code. */
struct v8_safepoint {
    /* Return address of the call, and its return address once the code must not be used any more;
     * both are offsets from the start of the code. No trampoline: UINT32_MAX. */
    uint32_t pc, trampoline;
    int32_t place; /* number of the deoptimization entry; -1: none, or unknown (up to V8
                      9.4) */
};
/* Finds the call that returns to `pc`, directly or to its trampoline. Returns 1: found, 0: there is
 * none, -1: this version's table is not known, or it cannot be read. */
int v8_safepoint_find(struct v8_reader *r, const struct v8_code *c, uint64_t pc,
                      struct v8_safepoint *ret);
/* Returns the address to which the call that returns to `pc` would return if the code were still in
 * use: `pc` itself, unless `pc` is a trampoline. 0: unknown. */
uint64_t v8_code_call(struct v8_reader *r, const struct v8_code *c, uint64_t pc);
/* Returns the end of the safepoint table; the end of the code if it has no table, or the table
 * cannot be read. */
uint64_t v8_safepoints_end(struct v8_reader *r, const struct v8_code *c);

/* Finds the bytecode offset of the innermost function at a return address in TurboFan's code, from
 * the deoptimization data. false: unknown. */
bool v8_turbofan_offset(struct v8_reader *r, const struct v8_code *c, uint64_t pc, int32_t *ret);

/* Finds the bytecode offset at a return address (or pc) of baseline code; false: unknown. */
bool v8_baseline_offset(struct v8_reader *r, const struct v8_code *c, uint64_t bytecode,
                        uint64_t pc, int32_t *ret);

#endif
