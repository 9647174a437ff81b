/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reading a VM's objects for one walk: each is checked for its type and size, and nothing is kept
 * beyond the walk, whose memory is that of one instant. Private to unwind/luajit.
 */
#ifndef UNWIND_LUAJIT_OBJECT_H
#define UNWIND_LUAJIT_OBJECT_H

#include "base/cursor.h"
#include "unwind/luajit/layout.h"
#include "unwind/memory.h"

/* Types of objects (gct), in every version. */
enum {
    LUAJIT_GCT_STR = 4,
    LUAJIT_GCT_THREAD = 6,
    LUAJIT_GCT_PROTO = 7,
    LUAJIT_GCT_FUNC = 8,
    LUAJIT_GCT_TRACE = 9,
    LUAJIT_GCT_TAB = 11,
    LUAJIT_GCT_UDATA = 12, /* the last */
};

/* Of a 64 bit slot: the object's address, without its type. */
#define LUAJIT_REF_MASK ((UINT64_C(1) << 47) - 1)

enum {
    LUAJIT_SLOTS_MAX = 1 << 17,  /* of a Lua stack; LuaJIT's limit is 65,500 and some */
    LUAJIT_SIZEBC_MAX = 1 << 26, /* instructions of a function */
};

/* A function as it stands in a frame's header. */
struct luajit_function {
    uint64_t address; /* GCfunc, or the lua_State of a dummy frame; 0: it is neither */
    uint64_t proto;   /* 0: C or builtin */
    uint64_t code;    /* first bytecode instruction; C: the C function */
    uint32_t sizebc;
    uint8_t ffid;
    bool lua, dummy;
    bool unread; /* there may be a function, but it is not recorded */
    uint8_t provenance;
};

/* The used part of a lua_State. */
struct luajit_state {
    uint64_t address, g;
    uint64_t base, top, maxstack, stack, cframe; /* cframe with its two flag bits */
    uint64_t end;                                /* of the slots */
};

enum { READER_WINDOW = 4096, READER_FUNCTIONS = 64, READER_DIGESTS = 64, READER_STATES = 2 };

/* What a trace's instructions, snapshots and map come to, of bytes that stay where they are. */
struct luajit_digest {
    const uint8_t *bytes;     /* NULL: free */
    uint32_t snap, map, size; /* where the parts begin, and all ends */
    bool is_12;               /* snapshots of 12 bytes, else 8 */
    uint64_t value;
};

/* Reads for one walk. `provenance` is raised by each read. */
struct luajit_reader {
    const struct memory *m;
    const struct luajit_layout *layout;
    enum provenance provenance;
    uint32_t budget; /* steps that are left to searches: whatever memory says, a walk ends soon */
    /* A piece of a Lua stack: headers are read in descending order, one after the other. */
    uint64_t window_start, window_size; /* exact bytes only */
    const uint8_t *window;              /* in place, or in `copied` */
    /* Functions by address: recursion and loops meet the same again. */
    struct luajit_function functions[READER_FUNCTIONS];
    uint32_t of[READER_FUNCTIONS];             /* `serial` at which the function was read */
    uint32_t serial;                           /* of walk and layout */
    struct luajit_state states[READER_STATES]; /* the last ones */
    uint32_t states_of[READER_STATES];         /* likewise */
    uint8_t states_provenance[READER_STATES];
    uint32_t next_state;
    uint8_t copied[READER_WINDOW];
    uint64_t digested; /* the trace whose digest was compared last, and what came out (trace.c) */
    uint8_t digest;
    /* Its parts in place, where the digest says that they are the sample's; NULL: they are not. */
    const uint8_t *block;
    uint64_t block_start, block_size;
    struct luajit_digest digests[READER_DIGESTS]; /* of all walks */
};

void luajit_reader_begin(struct luajit_reader *r, const struct memory *m);
/* One step of a search; false: the walk has had its share. */
static inline bool luajit_spend(struct luajit_reader *r)
{
    return r->budget != 0 && r->budget-- != 0;
}

/* From here on objects are those of this layout. */
void luajit_reader_use(struct luajit_reader *r, const struct luajit_layout *layout);

/* Of what came with the sample in one piece: in place, until the walk ends. NULL: it is to be read.
 */
static inline const uint8_t *luajit_piece(const struct luajit_reader *r, uint64_t address,
                                          size_t size)
{
    return memory_piece(r->m, address, size, NULL);
}

/* The same, or read to `copy`. NULL: it is not recorded. */
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

/* What a VM writes all the time: its Lua stacks, lua_States, what it is at. Another moment's is
 * never exact (memory.h). */
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

/* A reference to an object: 4 or 8 bytes. The latter: one that moves. */
bool luajit_read_ref(struct luajit_reader *r, uint64_t address, uint64_t *ret);
bool luajit_read_moving_ref(struct luajit_reader *r, uint64_t address, uint64_t *ret);
/* A reference in bytes at hand. */
static inline uint64_t luajit_load_ref(const struct luajit_layout *l, const uint8_t *at)
{
    return l->gc64 ? load_u64(at, false) : load_u32(at, false);
}

/* A lua_State with sound fields; g as glref says, unchecked. */
bool luajit_read_state(struct luajit_reader *r, uint64_t address, struct luajit_state *ret);
/* Does g hold a VM whose dispatch table points into the blob at `blob`? */
bool luajit_check_g(struct luajit_reader *r, uint64_t g, uint64_t blob);

/* One that was not read yet. */
const struct luajit_function *luajit_function_read_anew(struct luajit_reader *r, uint64_t address);

static inline size_t luajit_function_slot(uint64_t address)
{
    return (address >> 3 ^ address >> 9) % READER_FUNCTIONS;
}

/* The function or thread object at `address`; address 0 in the result when it is neither. */
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

/* The same of a function that is known to live (a constant of the trace that runs): what was read
 * of it at a moment not far counts as read now, when nothing else is known to have stood there. Its
 * prototype is proven by whoever names it. */
const struct luajit_function *luajit_function_alive(struct luajit_reader *r, uint64_t address);
/* A prototype's bytecode: false when there is no sound prototype at `proto`. */
bool luajit_code_read(struct luajit_reader *r, uint64_t proto, uint64_t *code, uint32_t *sizebc);

/* A frame's header. */
struct luajit_header {
    uint64_t func; /* GCfunc or lua_State, as it stands there */
    uint64_t link;
};
/* Bytes of the Lua stack that are not in the window, which moves there. */
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

/* A word of the Lua stack, through the window. */
static inline bool luajit_slot_read(struct luajit_reader *r, const struct luajit_state *L,
                                    uint64_t address, uint64_t *ret)
{
    return luajit_stack_read(r, L, address, ret, sizeof(*ret));
}

/* The header of the frame at `base`; false: not readable or not in the stack. */
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

/* Is `pc`, a next-instruction address, one of the function's? Its index: (pc - code) / 4 - 1. */
static inline bool luajit_pc_inside(const struct luajit_function *f, uint64_t pc)
{
    return f->lua && pc >= f->code && pc - f->code <= 4 * (uint64_t)f->sizebc && pc % 4 == 0;
}

#endif
