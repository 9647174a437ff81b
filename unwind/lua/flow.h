/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads the machine code of a C function (x86-64): its instructions, and what they do with the
 * values that the function was called with. Private to unwind/lua.
 */
#ifndef UNWIND_LUA_FLOW_H
#define UNWIND_LUA_FLOW_H

#include "base/vec.h"
#include "unwind/insn_x86_64.h"
#include "unwind/lua/layout.h"
#include "unwind/runtime.h"

/* Numbers of registers in instructions. */
enum {
    FLOW_RAX,
    FLOW_RCX,
    FLOW_RDX,
    FLOW_RBX,
    FLOW_RSP,
    FLOW_RBP,
    FLOW_RSI,
    FLOW_RDI,
    FLOW_R8,
    FLOW_R10 = 10,
    FLOW_R11,
    FLOW_R12,
    FLOW_NR = 16,
    FLOW_SURVIVES = 1 << FLOW_RBX | 1 << FLOW_RBP | 0xf << FLOW_R12, /* calls */
    FLOW_CALLER_SAVED = 1 << FLOW_RAX | 1 << FLOW_RCX | 1 << FLOW_RDX | 1 << FLOW_RSI |
                        1 << FLOW_RDI | 0xf << FLOW_R8,
};

struct flow_insn {
    uint64_t at;
    struct insn_parts is;
};

/* The instructions of a function's parts, in the order of the parts. */
struct flow_code {
    VEC(struct flow_insn) insns;
    struct lua_range parts[LUA_PARTS_MAX];
    size_t first[LUA_PARTS_MAX + 1]; /* index of a part's first instruction */
    unsigned nr_parts;
};

/* Append a part. Returns -1 when memory is out; nothing is appended if its bytes are not in the
 * file. */
int flow_add_part(struct flow_code *c, const struct runtime_image *image, struct lua_range part,
                  struct error *err);
/* Append an exported function whole, by its FDE. Returns false, and the code is empty, if it is not
 * there, is large, or memory is out. */
bool flow_add_exported(struct flow_code *c, const struct runtime_image *image, const char *name);
void flow_free(struct flow_code *c);

/* Returns the instruction at an address; NULL: none begins there. */
const struct flow_insn *flow_at(const struct flow_code *c, uint64_t address);
bool flow_has(const struct flow_code *c, uint64_t address);

static inline uint64_t flow_end(const struct flow_insn *i)
{
    return i->at + i->is.size;
}

/* Returns where control flow goes after an instruction. `target`: of a direct branch, jump or
 * call. */
enum insn_way flow_way(const struct flow_insn *i, uint64_t *target);
static inline bool flow_is_straight(const struct flow_insn *i)
{
    uint64_t target;
    return flow_way(i, &target) == WAY_NEXT;
}

/* Returns whether it is a move between general registers, or of one and memory: `load` r/m to reg,
 * else reg to r/m. */
bool flow_is_move(const struct insn_parts *is, bool *load);
/* Returns whether it is a load of a register from memory, with or without extension. */
bool flow_is_load(const struct insn_parts *is);

/* ---- values ---------------------------------------------------------------------------------- */

/* Where a value came from: an argument of the function, or what is read through it:
 * *(... *(argument + offsets[0]) ... + offsets[nr - 1]) + added. On a way that begins within the
 * function, what a register or a slot held there. */
enum flow_root { FLOW_UNKNOWN, FLOW_ARGUMENT_1, FLOW_ARGUMENT_2, FLOW_REGISTER, FLOW_SLOT };
enum { FLOW_PATH_MAX = 6 };
struct flow_value {
    uint8_t root, nr;
    int16_t offsets[FLOW_PATH_MAX], added;
    int32_t which; /* of FLOW_REGISTER, FLOW_SLOT: register, distance from the CFA */
};

/* The stack frame as it is at one instruction: the CFA's distance from registers. */
struct flow_frame {
    bool sp_known, fp_known;
    int32_t sp, fp; /* rsp == CFA + sp, rbp == CFA + fp */
};

/* Get the place in the frame of a memory operand, as its distance from the CFA. */
bool flow_slot(const struct flow_frame *f, const struct insn_parts *is, int32_t *ret);

enum { FLOW_SLOTS_MAX = 64, FLOW_ACCESSES_MAX = 96 };
struct flow_held {
    struct flow_value value;
    uint64_t set_by; /* address behind the instruction that put it there */
};
/* A field of what a value points to that was read or written. */
struct flow_access {
    uint64_t at;
    struct flow_value base; /* nothing is added */
    int32_t disp;
    uint8_t size;
    bool store;
};

/* The way from a function's entry: at conditional jumps straight on. */
struct flow_trail {
    uint64_t at; /* the next instruction; 0: the way has ended */
    struct flow_frame frame;
    struct flow_held regs[FLOW_NR];
    struct {
        int32_t offset;
        struct flow_held held;
    } slots[FLOW_SLOTS_MAX];
    unsigned nr_slots;
    struct flow_access accesses[FLOW_ACCESSES_MAX];
    unsigned nr_accesses;
    unsigned steps;    /* instructions that have been followed */
    bool within;       /* the way begins within the function: slots hold FLOW_SLOT */
    const bool *stops; /* for each instruction of the code: the way stops there; NULL: nowhere */
};

/* Begin at the entry of the first part. */
void flow_trail_begin(struct flow_trail *t, const struct flow_code *c);
/* Begin behind a call, at the instruction `at`: registers that survive calls, and slots, hold what
 * they hold there. */
void flow_trail_begin_within(struct flow_trail *t, uint64_t at, const struct flow_frame *frame,
                             const bool *stops);
/* Follow the way until it comes to a call (which is not done), an indirect jump, a stop or its end.
 * Returns the instruction where it stands; NULL: the end. */
const struct flow_insn *flow_trail_run(struct flow_trail *t, const struct flow_code *c);
/* Do the call where the way stands. */
void flow_trail_call(struct flow_trail *t, const struct flow_code *c);

/* Returns whether a value is the argument, read through the given offsets. */
bool flow_value_is(const struct flow_value *v, enum flow_root root, unsigned nr,
                   const int16_t *offsets);

#endif
