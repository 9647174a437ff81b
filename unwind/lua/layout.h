/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What must be known of one build of plain (PUC-Rio) Lua: where its interpreter's C function keeps
 * what it works on, and where the fields of its objects are. "execute" is luaV_execute, "CI" is
 * CallInfo. All offsets are in bytes.
 *
 * Sources: the object headers of Lua 5.1 to 5.5 (lobject.h, lstate.h), as compilers lay them out on
 * x86-64. Fields that moved within a version are told apart by what execute's code does
 * (discover.c).
 */
#ifndef UNWIND_LUA_LAYOUT_H
#define UNWIND_LUA_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

enum { LUA_NO_FIELD = 0xffff };

/* Fields of objects. A field that the version does not have is LUA_NO_FIELD. */
struct lua_fields {
    /* lua_State */
    struct {
        uint16_t size, status, top, global, ci, stack, stack_last, base_ci, hookmask;
        uint16_t base, savedpc; /* 5.1 only: of the function that runs */
        uint16_t open_upvalues;
    } state;
    /* CallInfo. 5.1: elements of an array. Later: a list, newest first by `previous`. */
    struct {
        uint16_t size, func, top, previous, next, savedpc, status, status_size;
        uint16_t base;       /* 5.1 to 5.3: of the locals; later they are behind func */
        uint16_t extra_args; /* 5.4 on: number of varargs below func */
        uint16_t tail_calls; /* 5.1: number of functions that this one replaced */
        bool is_array;       /* 5.1 */
        uint32_t lua;        /* status bit: a Lua function; 0: see `c` */
        uint32_t c;          /* status bit: a C function; 0: those without `lua` */
        uint32_t fresh;      /* status bit: an activation of execute begins here */
        bool fresh_if_clear; /* ... if the bit is clear (5.2 to 5.3.1: CIST_REENTRY) */
        bool fresh_always;   /* 5.4.0, 5.4.1: each Lua call is an activation of its own */
        uint32_t tail, hooked, finalizer; /* status bits; 0: there is none */
    } ci;
    /* Closures and light C functions */
    struct {
        uint8_t tag_lua, tag_c, tag_light; /* of a stack slot; without the "collectable" bit too
                                              5.1: tag_lua == tag_c, and `is_c` tells */
        uint16_t is_c;                     /* 5.1 and 5.2.0: byte in the object */
        uint16_t function;                 /* Proto of a Lua closure, C function of a C closure */
        uint16_t upvalues, nr_upvalues;
        uint16_t upvalue_v; /* UpVal: pointer to its value */
    } closure;
    struct {
        uint16_t size; /* bytes to read for all fields */
        uint16_t k, code, size_k, size_code, lineinfo, size_lineinfo, abslineinfo, size_abslineinfo;
        uint16_t line_defined, last_line_defined, source, locvars, size_locvars;
        uint16_t upvalues, size_upvalues, upvalue_size; /* of an entry; its name is at 0 */
        uint16_t protos, size_protos, nr_params, is_vararg;
        uint8_t tag;       /* of the object */
        bool signed_lines; /* lineinfo has deltas (5.4 on); else an int for each instruction */
    } proto;
    struct {
        uint16_t text, length; /* length: 8 bytes, of a long string or of all (see `short_tag`) */
        uint16_t short_length; /* one byte; LUA_NO_FIELD: all strings have `length` */
        uint8_t short_tag, long_tag;
        bool long_is_pointer; /* 5.5: the text of a long string is elsewhere, at *(text) */
    } string;
    struct {
        uint16_t array, size_array, node, log2_nodes, metatable;
        uint16_t node_size, node_value, node_key, node_key_tag, node_next;
        bool split_array; /* 5.5: tags and values of the array part are apart */
    } table;
    /* global_State */
    struct {
        uint16_t registry; /* TValue */
        uint16_t main_thread;
        bool main_is_embedded; /* 5.5: the main thread is in the global_State, not pointed to */
        uint16_t metatables;   /* of the basic types; LUA_NO_FIELD: not known */
        uint16_t all_objects;  /* head of the list of all objects (allgc, rootgc) */
    } global;
    uint16_t userdata_metatable;
    uint8_t value_tag;      /* offset of a TValue's tag */
    uint8_t value_tag_size; /* 4 (5.1 to 5.3) or 1 */
    uint8_t value_size;     /* 16 */
};

/* Where execute keeps a value, in all of its body after `from`. */
enum lua_place_kind { LUA_NOWHERE, LUA_IN_REGISTER, LUA_IN_SLOT };
struct lua_place {
    uint8_t kind;
    uint8_t reg;    /* number of a register of unwind/arch_x86_64.h, when kind is LUA_IN_REGISTER */
    int32_t offset; /* from the CFA of execute's frame, when kind is LUA_IN_SLOT */
    uint16_t votes; /* how many instructions tell it */
    bool survives;  /* it is the same in a frame that has called something: a slot or a
                       callee-saved register */
};

struct lua_range {
    uint64_t start, end;
};

/* A call in execute: what is known of its frame while the called function runs. It has precedence
 * over the places that hold in all of the body. */
struct lua_site {
    uint64_t at;            /* the return address */
    struct lua_place state; /* L; LUA_NOWHERE: not told */
    struct lua_place pc;    /* the bytecode pc; LUA_NOWHERE: not told */
    bool saved;             /* the pc was saved in savedpc right before */
    bool before_fetch;      /* the pc's place has what is fetched next: that is what runs */
};

/* Instructions around an instruction fetch, while a register tells what is fetched. The pc's places
 * tell the bytecode instruction before it there, which need not have run: a jump may have led here.
 */
struct lua_fetch {
    uint64_t start, end; /* addresses in execute */
    uint8_t reg;         /* number of a register of unwind/arch_x86_64.h */
    int8_t disp;         /* added to it: the address of the bytecode instruction */
};

enum {
    LUA_PARTS_MAX = 8,
    LUA_PLACES_MAX = 6,
    LUA_SITES_MAX = 320,
    LUA_FETCHES_MAX = 256,
    LUA_COLLECTORS_MAX = 4
};

/* One build. Addresses are the file's own. */
struct lua_layout {
    uint8_t version;    /* 51 to 55 */
    uint8_t nr_opcodes; /* as the dispatch has it */
    char release[16];   /* as the file's own text has it, "5.4.6"; "": it has none */
    struct lua_range parts[LUA_PARTS_MAX]; /* execute: first the part with the entry, then others
                                              (.cold) */
    unsigned nr_parts;
    uint64_t body; /* up to here (in the entry's part), L may still be in the register of the first
                      argument, and the places below do not hold yet */
    /* Where the CFA of its frame is from `body` on, by CFI: so many bytes above a register. */
    enum lua_frame_base { LUA_BY_NOTHING, LUA_BY_SP, LUA_BY_FP } cfa_by;
    int32_t cfa_offset;
    struct lua_place state[LUA_PLACES_MAX]; /* L; best first */
    struct lua_place pc[LUA_PLACES_MAX];    /* the bytecode pc; best first; none: it is in memory
                                               (5.2, 5.3) */
    struct lua_place calls;                 /* 5.1: nexeccalls */
    unsigned nr_state, nr_pc;
    struct lua_site sites[LUA_SITES_MAX]; /* sorted by address; not all calls need have one */
    unsigned nr_sites;
    struct lua_fetch fetches[LUA_FETCHES_MAX]; /* in no order */
    unsigned nr_fetches;
    struct lua_range
        collectors[LUA_COLLECTORS_MAX]; /* luaC_step, and what it jumps to at its end */
    unsigned nr_collectors;
    struct lua_fields fields;
};

/* Returns the call that returns to an address; NULL: there is none. */
const struct lua_site *lua_site_at(const struct lua_layout *l, uint64_t return_address);
/* Returns the fetch around which an instruction of execute is; NULL: it is around none. */
const struct lua_fetch *lua_fetch_at(const struct lua_layout *l, uint64_t at);

/* Fill in the fields of a version as its last release has them. Returns false if there is no such
 * version. */
bool lua_fields_of(unsigned version, struct lua_fields *ret);

#endif
