/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reading a VM's objects for one walk: each is checked for its type and size, and nothing is kept
 * beyond the walk, whose memory is that of one instant. Private to unwind/luajit.
 */
#ifndef UNWIND_LUAJIT_OBJECT_H
#define UNWIND_LUAJIT_OBJECT_H

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

enum { READER_WINDOW = 4096, READER_FUNCTIONS = 64, READER_DIGESTS = 64 };

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
    /* Functions by address: recursion and loops meet the same again. */
    struct luajit_function functions[READER_FUNCTIONS];
    uint32_t of[READER_FUNCTIONS]; /* `serial` at which the function was read */
    uint32_t serial;               /* of walk and layout */
    uint8_t window[READER_WINDOW];
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

bool luajit_read(struct luajit_reader *r, uint64_t address, void *to, size_t size);
bool luajit_read_u64(struct luajit_reader *r, uint64_t address, uint64_t *ret);
bool luajit_read_u32(struct luajit_reader *r, uint64_t address, uint32_t *ret);
/* A reference to an object: 4 or 8 bytes. */
bool luajit_read_ref(struct luajit_reader *r, uint64_t address, uint64_t *ret);
/* A reference in bytes at hand. */
uint64_t luajit_load_ref(const struct luajit_layout *l, const uint8_t *at);

/* A lua_State with sound fields; g as glref says, unchecked. */
bool luajit_read_state(struct luajit_reader *r, uint64_t address, struct luajit_state *ret);
/* Does g hold a VM whose dispatch table points into the blob at `blob`? */
bool luajit_check_g(struct luajit_reader *r, uint64_t g, uint64_t blob);

/* The function or thread object at `address`; address 0 in the result when it is neither. */
const struct luajit_function *luajit_function_read(struct luajit_reader *r, uint64_t address);
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
/* The header of the frame at `base`; false: not readable or not in the stack. */
bool luajit_header_read(struct luajit_reader *r, const struct luajit_state *L, uint64_t base,
                        struct luajit_header *ret);
/* A word of the Lua stack, through the window. */
bool luajit_slot_read(struct luajit_reader *r, const struct luajit_state *L, uint64_t address,
                      uint64_t *ret);

/* Is `pc`, a next-instruction address, one of the function's? Its index: (pc - code) / 4 - 1. */
static inline bool luajit_pc_inside(const struct luajit_function *f, uint64_t pc)
{
    return f->lua && pc >= f->code && pc - f->code <= 4 * (uint64_t)f->sizebc && pc % 4 == 0;
}

#endif
