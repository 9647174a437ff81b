/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of Lua's bytecode that names need: maps the encodings of 5.1 to 5.5 to one, and tells
 * which registers an instruction sets. Numbers and fields: lopcodes.h
 * of 5.1.5, 5.2.4, 5.3.6, 5.4.8, 5.5.0; those of a version's other releases are the same.
 */
#ifndef UNWIND_LUA_NAMES_BYTECODE_H
#define UNWIND_LUA_NAMES_BYTECODE_H

#include <stdbool.h>
#include <stdint.h>

/* What an instruction does, as far as names depend on it. */
enum lua_op {
    LUA_OP_OTHER,
    LUA_OP_MOVE,      /* R[a] = R[b] */
    LUA_OP_LOADK,     /* R[a] = K[bx] */
    LUA_OP_LOADKX,    /* R[a] = K[bx of the next instruction] */
    LUA_OP_LOADNIL,   /* R[a] to R[b] = nil */
    LUA_OP_GETUPVAL,  /* R[a] = U[b] */
    LUA_OP_SETUPVAL,  /* U[b] = R[a] */
    LUA_OP_GETGLOBAL, /* R[a] = _G[K[bx]] */
    LUA_OP_SETGLOBAL, /* _G[K[bx]] = R[a] */
    LUA_OP_GETTABUP,  /* R[a] = U[table][key] */
    LUA_OP_GETTABLE,  /* R[a] = R[table][key] */
    LUA_OP_GETI,      /* R[a] = R[table][a number] */
    LUA_OP_SETTABUP,  /* U[table][key] = value */
    LUA_OP_SETTABLE,  /* R[table][key] = value */
    LUA_OP_NEWTABLE,  /* R[a] = {} */
    LUA_OP_SELF,      /* R[a + 1] = R[table], R[a] = R[table][key] */
    LUA_OP_JUMP,
    LUA_OP_LOOP, /* a numeric loop's jump; 5.1 follows it as any other */
    LUA_OP_TEST, /* conditional jump that 5.2 takes for a change of R[a] */
    LUA_OP_CALL, /* sets R[a] and all above */
    LUA_OP_TAILCALL,
    LUA_OP_RETURN,
    LUA_OP_ITERATE, /* calls R[a], an iterator */
    LUA_OP_FLOW,    /* control may go elsewhere, in some other way */
    LUA_OP_CLOSURE, /* R[a] = a function of P[bx] */
    LUA_OP_VARARG,  /* sets R[a] and perhaps some above */
    LUA_OP_SETLIST,
    LUA_OP_EXTRA, /* an operand of the instruction before */
};

/* Metamethods, in Lua's order since 5.3. */
enum lua_event {
    LUA_EVENT_INDEX,
    LUA_EVENT_NEWINDEX,
    LUA_EVENT_GC,
    LUA_EVENT_MODE,
    LUA_EVENT_LEN,
    LUA_EVENT_EQ,
    LUA_EVENT_ADD,
    LUA_EVENT_SUB,
    LUA_EVENT_MUL,
    LUA_EVENT_MOD,
    LUA_EVENT_POW,
    LUA_EVENT_DIV,
    LUA_EVENT_IDIV,
    LUA_EVENT_BAND,
    LUA_EVENT_BOR,
    LUA_EVENT_BXOR,
    LUA_EVENT_SHL,
    LUA_EVENT_SHR,
    LUA_EVENT_UNM,
    LUA_EVENT_BNOT,
    LUA_EVENT_LT,
    LUA_EVENT_LE,
    LUA_EVENT_CONCAT,
    LUA_EVENT_CALL,
    LUA_EVENT_CLOSE,
    LUA_EVENT_NONE,
};

struct lua_operand {
    uint32_t index;
    bool is_constant; /* of K; else of R */
};

struct lua_insn {
    uint8_t op;    /* enum lua_op */
    uint8_t event; /* enum lua_event: the metamethod that Lua says it calls */
    bool sets_a;   /* R[a], as Lua's own table of instructions says */
    uint32_t a, b, bx;
    uint32_t table;
    struct lua_operand key, value;
    int32_t jump; /* from the next instruction on */
};

/* Decode an instruction of a version (51 to 55). Unknown opcodes are LUA_OP_OTHER. */
struct lua_insn lua_insn_decode(uint32_t instruction, unsigned version);

/* Returns the metamethod's name with its underscores, "__index"; NULL: LUA_EVENT_NONE. */
const char *lua_event_name(enum lua_event event);

#endif
