/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads the objects of a plain Lua for one walk. Each object's type and sizes are checked. For
 * unwind/lua, and for the snapshot, which keeps objects.
 */
#ifndef UNWIND_LUA_OBJECT_H
#define UNWIND_LUA_OBJECT_H

#include "unwind/lua/layout.h"
#include "unwind/memory.h"

#include <stddef.h>

/* Limits of what is believed: Lua's own, where it has one. */
enum {
    LUA_CODE_MAX = 1 << 24,  /* instructions of a function */
    LUA_SLOTS_MAX = 1000000, /* of a stack (LUAI_MAXSTACK) */
    LUA_CALLS_MAX = 1 << 18, /* CIs of a state that a walk reads */
    LUA_CI_MAX = 0x50,       /* bytes of a CI */
    LUA_STATE_MAX = 0xd0,    /* bytes of a lua_State */
    LUA_PROTO_MAX = 0x80,    /* bytes of a Proto */
};

/* An object that the collector knows. */
enum {
    LUA_OBJECT_TAG = 8,      /* offset of its type */
    LUA_CLOSURE_HEAD = 0x28, /* bytes of a closure up to its first upvalue, of all versions */
};

/* Returns whether an address can be that of an object, a CI or an array of Lua's. */
static inline bool lua_is_address(uint64_t address)
{
    return address >= 4096 && address % 8 == 0;
}

/* Tags of values, without variant bits. */
enum {
    LUA_TNIL = 0,
    LUA_TBOOLEAN = 1,
    LUA_TLIGHTUSERDATA = 2,
    LUA_TNUMBER = 3,
    LUA_TSTRING = 4,
    LUA_TTABLE = 5,
    LUA_TFUNCTION = 6,
    LUA_TUSERDATA = 7,
    LUA_TTHREAD = 8,
    LUA_TAG_MASK = 0x3f, /* a tag without its "collectable" bit */
};

/* What a function slot holds. */
enum lua_function_kind {
    LUA_FUNCTION_NONE, /* no function, or one whose memory is not recorded */
    LUA_FUNCTION_LUA,
    LUA_FUNCTION_C,
};

/* Functions that were read before, by the address of their closure: a call then costs no reads of
 * objects. What is kept holds at the times that memory itself names. */
enum { LUA_CLOSURES_KEPT = 256 };
struct lua_function {
    uint8_t kind;        /* enum lua_function_kind */
    uint8_t provenance;  /* of the objects that tell it */
    bool by_one_reading; /* it is exact only if a second word of the sample agrees (memory.h) */
    uint8_t nr_upvalues;
    uint32_t nr_code; /* of a Lua function: instructions */
    uint64_t closure; /* address of the closure; 0: a light C function */
    uint64_t proto;   /* of a Lua function */
    uint64_t code;    /* of a Lua function: its first instruction; 0: the prototype is not known */
    uint64_t native;  /* address of a C function */
};
struct lua_closures {
    struct {
        struct lua_function function;
        const struct lua_layout *layout;
        uint32_t space, tag; /* tag: of the value, which the object's own must fit */
        struct memory_span valid;
    } at[LUA_CLOSURES_KEPT];
};

/* A piece of memory that came with the sample, in place. Size 0: none. */
struct lua_window {
    uint64_t start, size;
    const uint8_t *bytes;
};

struct lua_reader {
    const struct memory *m;
    const struct lua_layout *layout;
    /* Raised by each read; reset it to separate what rests on which reads. */
    enum provenance provenance;
    uint32_t budget;               /* reads that may still be done: the bound of a walk */
    struct lua_closures *closures; /* NULL: none are kept */
    uint32_t space;                /* the process that they are of */
    /* Pieces that were found last, of a stack and of the CIs: the next slot is often there. */
    struct lua_window slots, calls;
};

/* Read bytes of an object that does not change while it lives (a prototype, a string, but not what
 * the collector writes into it). Returns false if they are not recorded, or the budget is used
 * up. */
bool lua_read(struct lua_reader *r, uint64_t address, void *to, size_t size);
/* Read bytes that the program writes all the time (a state, a CI, a stack slot). */
bool lua_read_moving(struct lua_reader *r, uint64_t address, void *to, size_t size);
/* The same, in place where that is possible. Returns the bytes, which may be in `copy`: they are
 * valid until the walk ends, and as long as the copy; NULL: as above. */
const uint8_t *lua_take_anew(struct lua_reader *r, struct lua_window *w, uint64_t address,
                             void *copy, size_t size);
static inline const uint8_t *lua_take_moving(struct lua_reader *r, struct lua_window *w,
                                             uint64_t address, void *copy, size_t size)
{
    uint64_t at = address - w->start;
    if (at >= w->size || w->size - at < size || !r->budget)
        return lua_take_anew(r, w, address, copy, size);
    r->budget--;
    return w->bytes + at;
}

/* Little-endian fields of bytes that were read. */
static inline uint64_t lua_u64(const uint8_t *bytes, size_t at)
{
    uint64_t v;
    __builtin_memcpy(&v, bytes + at, sizeof(v));
    return v;
}

static inline uint32_t lua_u32(const uint8_t *bytes, size_t at)
{
    uint32_t v;
    __builtin_memcpy(&v, bytes + at, sizeof(v));
    return v;
}

/* A TValue: a stack slot, a constant, a value in a table. */
struct lua_value {
    uint64_t bits;
    uint32_t tag; /* as it stands in memory */
};
/* Get the value in bytes that were read. */
struct lua_value lua_value_of(const struct lua_fields *f, const uint8_t *bytes);

/* Returns whether a value is a function whose memory is recorded, and get it. The reader's
 * provenance is raised to that of the function. */
bool lua_function_of(struct lua_reader *r, struct lua_value v, struct lua_function *ret);
/* The same, for the value in the slot of a call: the call keeps its function alive. The function
 * has the provenance of its objects; the reader's own is not raised. */
bool lua_called_function(struct lua_reader *r, struct lua_value v, struct lua_function *ret);

/* Returns the address of a VM's main thread; 0: not known. `global`: of its global_State. */
uint64_t lua_main_thread(struct lua_reader *r, uint64_t global);

/* A prototype: its fields, checked. Arrays are addresses with their numbers of elements. */
struct lua_proto {
    uint64_t address;
    uint64_t k, code, lineinfo, abslineinfo, locvars, upvalues, protos, source;
    uint32_t nr_k, nr_code, nr_lineinfo, nr_abslineinfo, nr_locvars, nr_upvalues, nr_protos;
    uint32_t line_defined, last_line_defined;
    uint8_t nr_params, is_vararg;
};
/* Returns false if there is no prototype at the address, or its memory is not recorded. */
bool lua_proto_read(struct lua_reader *r, uint64_t address, struct lua_proto *ret);
/* The same, of bytes that were read: layout->fields.proto.size of them. */
bool lua_proto_of(const struct lua_layout *layout, uint64_t address, const uint8_t *bytes,
                  struct lua_proto *ret);

/* Returns how many bytes of a userdata are before the program's own; those of user values among
 * them, as far as they can be read. */
uint64_t lua_userdata_head(struct lua_reader *r, uint64_t address);

/* Read a string object's text, at most `size` bytes and a zero byte behind them. Returns its whole
 * length; SIZE_MAX: there is no string, or it is not recorded. */
size_t lua_string_read(struct lua_reader *r, uint64_t address, char *to, size_t size);
/* Get the address of a string object's text. Returns its length; SIZE_MAX as above. */
size_t lua_string_place(struct lua_reader *r, uint64_t address, uint64_t *text);

#endif
