/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads a VM's objects for one walk. Each object's type and size are checked. No object is kept
 * beyond the walk, because the walk's memory is that of one instant. Private to unwind/luajit.
 */
#ifndef UNWIND_LUAJIT_OBJECT_H
#define UNWIND_LUAJIT_OBJECT_H

#include "base/cursor.h"
#include "unwind/luajit/layout.h"
#include "unwind/memory.h"

/* Object types (gct), the same in every version. */
enum {
    LUAJIT_GCT_STR = 4,
    LUAJIT_GCT_UPVAL = 5,
    LUAJIT_GCT_THREAD = 6,
    LUAJIT_GCT_PROTO = 7,
    LUAJIT_GCT_FUNC = 8,
    LUAJIT_GCT_TRACE = 9,
    LUAJIT_GCT_CDATA = 10,
    LUAJIT_GCT_TAB = 11,
    LUAJIT_GCT_UDATA = 12, /* the last type */
};

/* Masks the object's address in a 64 bit slot: removes the type. */
#define LUAJIT_REF_MASK ((UINT64_C(1) << 47) - 1)

enum {
    LUAJIT_SLOTS_MAX = 1 << 17,  /* slots of a Lua stack; LuaJIT's limit is a little above 65,500 */
    LUAJIT_SIZEBC_MAX = 1 << 26, /* instructions of a function */
};

/* The function in a frame's header. */
struct luajit_function {
    uint64_t address; /* GCfunc, or the lua_State of a dummy frame; 0: neither */
    uint64_t proto;   /* 0: C or builtin */
    uint64_t code;    /* first bytecode instruction; of a C function its native address */
    uint32_t sizebc;
    uint8_t ffid;
    bool lua, dummy;
    bool unread; /* there may be a function, but its memory is not recorded */
    uint8_t provenance;
};

/* The used fields of a lua_State. */
struct luajit_state {
    uint64_t address, g;
    uint64_t base, top, maxstack, stack, cframe; /* cframe includes its two flag bits */
    uint64_t end;                                /* end of the slots */
};

enum { READER_WINDOW = 4096, READER_FUNCTIONS = 64, READER_DIGESTS = 64, READER_STATES = 2 };

/* Cached digest of a trace's instructions, snapshots and snapshot map. Its bytes stay where they
 * are. */
struct luajit_digest {
    const uint8_t *bytes;     /* NULL: the entry is free */
    uint32_t snap, map, size; /* offsets: start of the snapshots, start of the map, end */
    bool is_12;               /* snapshots have 12 bytes, else 8 */
    uint64_t value;
};

/* Reads memory for one walk. Each read raises `provenance`. */
struct luajit_reader {
    const struct memory *m;
    const struct luajit_layout *layout;
    enum provenance provenance;
    /* Steps that searches may still take. The bound makes a walk end soon even if memory is
     * malformed. */
    uint32_t budget;
    /* A part of a Lua stack: headers are read in descending order, one after the other. */
    uint64_t window_start, window_size; /* holds exact bytes only */
    const uint8_t *window;              /* in place, or in `copied` */
    /* Cache of functions by address: recursion and loops read the same functions again. */
    struct luajit_function functions[READER_FUNCTIONS];
    uint32_t of[READER_FUNCTIONS];             /* `serial` at which the function was read */
    uint32_t serial;                           /* number of the current walk and layout */
    struct luajit_state states[READER_STATES]; /* the states read last */
    uint32_t states_of[READER_STATES];         /* `serial` at which the state was read */
    uint8_t states_provenance[READER_STATES];
    uint32_t next_state;
    uint8_t copied[READER_WINDOW];
    /* The trace whose digest was compared last. `digest` is the result (trace.c). */
    uint64_t digested;
    uint8_t digest;
    /* Parts of trace `digested` in place, if its digest proves that they are the sample's; else
     * NULL. */
    const uint8_t *block;
    uint64_t block_start, block_size;
    struct luajit_digest digests[READER_DIGESTS]; /* kept across walks */
};

void luajit_reader_begin(struct luajit_reader *r, const struct memory *m);
/* Take one step of a search; false: the walk has used up its budget. */
static inline bool luajit_spend(struct luajit_reader *r)
{
    return r->budget != 0 && r->budget-- != 0;
}

/* Use this layout for all following reads. */
void luajit_reader_use(struct luajit_reader *r, const struct luajit_layout *layout);

/* Bytes that came with the sample in one piece: in place, valid until the walk ends. NULL: the
 * caller must read (copy) the bytes. */
static inline const uint8_t *luajit_piece(const struct luajit_reader *r, uint64_t address,
                                          size_t size)
{
    return memory_piece(r->m, address, size, NULL);
}

/* As luajit_piece(), but reads the bytes to `copy` if they are not in place. NULL: not recorded. */
static inline const uint8_t *luajit_take(struct luajit_reader *r, uint64_t address, void *copy,
                                         size_t size)
{
    const uint8_t *at = luajit_piece(r, address, size);
    return at ? at : memory_read(r->m, address, copy, size, &r->provenance) ? copy : NULL;
}

static inline bool luajit_read(struct luajit_reader *r, uint64_t address, void *to, size_t size)
{
    const uint8_t *at = luajit_piece(r, address, size);
    if (!at)
        return memory_read(r->m, address, to, size, &r->provenance);
    memcpy(to, at, size);
    return true;
}

static inline bool luajit_read_u64(struct luajit_reader *r, uint64_t address, uint64_t *ret)
{
    return luajit_read(r, address, ret, sizeof(*ret));
}

static inline bool luajit_read_u32(struct luajit_reader *r, uint64_t address, uint32_t *ret)
{
    return luajit_read(r, address, ret, sizeof(*ret));
}

/* Read memory that a VM writes all the time: its Lua stacks, lua_States, its current state. Such
 * memory of another moment is never exact (memory.h). */
static inline bool luajit_read_moving(struct luajit_reader *r, uint64_t address, void *to,
                                      size_t size)
{
    const uint8_t *at = luajit_piece(r, address, size);
    if (!at)
        return memory_read_moving(r->m, address, to, size, &r->provenance);
    memcpy(to, at, size);
    return true;
}

static inline bool luajit_read_moving_u32(struct luajit_reader *r, uint64_t address, uint32_t *ret)
{
    return luajit_read_moving(r, address, ret, sizeof(*ret));
}

/* Read a reference to an object (4 or 8 bytes). luajit_read_moving_ref() is for references that the
 * VM writes all the time. */
bool luajit_read_ref(struct luajit_reader *r, uint64_t address, uint64_t *ret);
bool luajit_read_moving_ref(struct luajit_reader *r, uint64_t address, uint64_t *ret);
/* Decode a reference from bytes that were already read. */
static inline uint64_t luajit_load_ref(const struct luajit_layout *l, const uint8_t *at)
{
    return l->gc64 ? load_u64(at, false) : load_u32(at, false);
}

/* Read a lua_State and check its fields. g is the value of glref, which is not checked. */
bool luajit_read_state(struct luajit_reader *r, uint64_t address, struct luajit_state *ret);
/* Does g hold a VM whose dispatch table points into the blob at `blob`? */
bool luajit_check_g(struct luajit_reader *r, uint64_t g, uint64_t blob);

/* Read a function that is not in the cache. */
const struct luajit_function *luajit_function_read_anew(struct luajit_reader *r, uint64_t address);

static inline size_t luajit_function_slot(uint64_t address)
{
    return (address >> 3 ^ address >> 9) % READER_FUNCTIONS;
}

/* The function or thread object at `address`; the result's address is 0 when it is neither. */
static inline const struct luajit_function *luajit_function_read(struct luajit_reader *r,
                                                                 uint64_t address)
{
    size_t slot = luajit_function_slot(address);
    const struct luajit_function *f = &r->functions[slot];
    if (r->of[slot] != r->serial || f->address != address)
        return luajit_function_read_anew(r, address);
    if (f->provenance > r->provenance)
        r->provenance = f->provenance;
    return f;
}

/* As luajit_function_read(), for a function that is known to be alive (a constant of the trace that
 * runs). A nearby reading of the function counts as exact, unless something else is known to have
 * been at its address. The namer proves the prototype. */
const struct luajit_function *luajit_function_alive(struct luajit_reader *r, uint64_t address);
/* Read where a prototype's bytecode is; false: there is no valid prototype at `proto`. */
bool luajit_code_read(struct luajit_reader *r, uint64_t proto, uint64_t *code, uint32_t *sizebc);

/* The header of a Lua frame. */
struct luajit_header {
    uint64_t func; /* GCfunc or lua_State, as the header has it */
    uint64_t link;
};
/* Read bytes of the Lua stack that are not in the window, and move the window there. */
bool luajit_stack_read_anew(struct luajit_reader *r, const struct luajit_state *L, uint64_t address,
                            void *to, uint64_t size);

static inline bool luajit_stack_read(struct luajit_reader *r, const struct luajit_state *L,
                                     uint64_t address, void *to, uint64_t size)
{
    uint64_t at = address - r->window_start;
    if (at >= r->window_size || r->window_size - at < size || address < L->stack ||
        address > L->end || L->end - address < size)
        return luajit_stack_read_anew(r, L, address, to, size);
    memcpy(to, r->window + at, size);
    return true;
}

/* Read a word of the Lua stack through the window. */
static inline bool luajit_slot_read(struct luajit_reader *r, const struct luajit_state *L,
                                    uint64_t address, uint64_t *ret)
{
    return luajit_stack_read(r, L, address, ret, sizeof(*ret));
}

/* Read the header of the frame at `base`; false: not recorded, or not in the stack. */
static inline bool luajit_header_read(struct luajit_reader *r, const struct luajit_state *L,
                                      uint64_t base, struct luajit_header *ret)
{
    uint64_t words[2], size = 8 * (uint64_t)r->layout->frame_slots;
    if (base % 8 != 0 || base < size)
        return false;
    if (!r->layout->gc64) {
        if (!luajit_slot_read(r, L, base - 8, words))
            return false;
        *ret = (struct luajit_header){(uint32_t)words[0], words[0] >> 32};
        return true;
    }
    if (!luajit_stack_read(r, L, base - 16, words, 16))
        return false;
    *ret = (struct luajit_header){words[0] & LUAJIT_REF_MASK, words[1]};
    return true;
}

/* Is `pc`, the address of a next instruction, in the function's bytecode? The index of the
 * executing instruction is (pc - code) / 4 - 1. */
static inline bool luajit_pc_inside(const struct luajit_function *f, uint64_t pc)
{
    return f->lua && pc >= f->code && pc - f->code <= 4 * (uint64_t)f->sizebc && pc % 4 == 0;
}

#endif
