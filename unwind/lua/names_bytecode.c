/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One table of opcodes for each version. 5.3 is 5.2 with operators in between, and 5.5 is 5.4 with
 * two opcodes in between; both have tables of their own, which are easier to check.
 */
#include "unwind/lua/names_bytecode.h"

#include <stddef.h>

struct row {
    uint8_t op, event;
    bool sets_a;
};

#define NO LUA_EVENT_NONE
#define ROW(op, event, sets)                 \
    {                                        \
        LUA_OP_##op, LUA_EVENT_##event, sets \
    }
#define SETS                   \
    {                          \
        LUA_OP_OTHER, NO, true \
    }
#define OPERATOR(event)                       \
    {                                         \
        LUA_OP_OTHER, LUA_EVENT_##event, true \
    }
#define COMPARE(event)                         \
    {                                          \
        LUA_OP_OTHER, LUA_EVENT_##event, false \
    }
#define PLAIN                   \
    {                           \
        LUA_OP_OTHER, NO, false \
    }

static const struct row rows_51[] = {
    ROW(MOVE, NONE, true),
    ROW(LOADK, NONE, true),
    SETS, /* LOADBOOL */
    ROW(LOADNIL, NONE, true),
    ROW(GETUPVAL, NONE, true),
    ROW(GETGLOBAL, INDEX, true),
    ROW(GETTABLE, INDEX, true),
    ROW(SETGLOBAL, NEWINDEX, false),
    ROW(SETUPVAL, NONE, false),
    ROW(SETTABLE, NEWINDEX, false),
    ROW(NEWTABLE, NONE, true),
    ROW(SELF, INDEX, true),
    OPERATOR(ADD),
    OPERATOR(SUB),
    OPERATOR(MUL),
    OPERATOR(DIV),
    OPERATOR(MOD),
    OPERATOR(POW),
    OPERATOR(UNM),
    SETS, /* NOT */
    OPERATOR(LEN),
    OPERATOR(CONCAT),
    ROW(JUMP, NONE, false),
    COMPARE(EQ),
    COMPARE(LT),
    COMPARE(LE),
    ROW(TEST, NONE, true),
    SETS, /* TESTSET */
    ROW(CALL, CALL, true),
    ROW(TAILCALL, CALL, true),
    ROW(RETURN, NONE, false),
    ROW(LOOP, NONE, true),     /* FORLOOP */
    ROW(LOOP, NONE, true),     /* FORPREP */
    ROW(ITERATE, CALL, false), /* TFORLOOP */
    ROW(SETLIST, NONE, false),
    PLAIN, /* CLOSE */
    ROW(CLOSURE, NONE, true),
    ROW(VARARG, NONE, true),
};

static const struct row rows_52[] = {
    ROW(MOVE, NONE, true),
    ROW(LOADK, NONE, true),
    ROW(LOADKX, NONE, true),
    SETS, /* LOADBOOL */
    ROW(LOADNIL, NONE, true),
    ROW(GETUPVAL, NONE, true),
    ROW(GETTABUP, INDEX, true),
    ROW(GETTABLE, INDEX, true),
    ROW(SETTABUP, NEWINDEX, false),
    ROW(SETUPVAL, NONE, false),
    ROW(SETTABLE, NEWINDEX, false),
    ROW(NEWTABLE, NONE, true),
    ROW(SELF, INDEX, true),
    OPERATOR(ADD),
    OPERATOR(SUB),
    OPERATOR(MUL),
    OPERATOR(DIV),
    OPERATOR(MOD),
    OPERATOR(POW),
    OPERATOR(UNM),
    SETS, /* NOT */
    OPERATOR(LEN),
    OPERATOR(CONCAT),
    ROW(JUMP, NONE, false),
    COMPARE(EQ),
    COMPARE(LT),
    COMPARE(LE),
    ROW(TEST, NONE, false),
    SETS, /* TESTSET */
    ROW(CALL, CALL, true),
    ROW(TAILCALL, CALL, true),
    ROW(RETURN, NONE, false),
    ROW(LOOP, NONE, true), /* FORLOOP */
    ROW(LOOP, NONE, true), /* FORPREP */
    ROW(ITERATE, CALL, false),
    ROW(FLOW, NONE, true), /* TFORLOOP */
    ROW(SETLIST, NONE, false),
    ROW(CLOSURE, NONE, true),
    ROW(VARARG, NONE, true),
    ROW(EXTRA, NONE, false),
};

static const struct row rows_53[] = {
    ROW(MOVE, NONE, true),
    ROW(LOADK, NONE, true),
    ROW(LOADKX, NONE, true),
    SETS, /* LOADBOOL */
    ROW(LOADNIL, NONE, true),
    ROW(GETUPVAL, NONE, true),
    ROW(GETTABUP, INDEX, true),
    ROW(GETTABLE, INDEX, true),
    ROW(SETTABUP, NEWINDEX, false),
    ROW(SETUPVAL, NONE, false),
    ROW(SETTABLE, NEWINDEX, false),
    ROW(NEWTABLE, NONE, true),
    ROW(SELF, INDEX, true),
    OPERATOR(ADD),
    OPERATOR(SUB),
    OPERATOR(MUL),
    OPERATOR(MOD),
    OPERATOR(POW),
    OPERATOR(DIV),
    OPERATOR(IDIV),
    OPERATOR(BAND),
    OPERATOR(BOR),
    OPERATOR(BXOR),
    OPERATOR(SHL),
    OPERATOR(SHR),
    OPERATOR(UNM),
    OPERATOR(BNOT),
    SETS, /* NOT */
    OPERATOR(LEN),
    OPERATOR(CONCAT),
    ROW(JUMP, NONE, false),
    COMPARE(EQ),
    COMPARE(LT),
    COMPARE(LE),
    PLAIN, /* TEST */
    SETS,  /* TESTSET */
    ROW(CALL, CALL, true),
    ROW(TAILCALL, CALL, true),
    ROW(RETURN, NONE, false),
    ROW(LOOP, NONE, true), /* FORLOOP */
    ROW(LOOP, NONE, true), /* FORPREP */
    ROW(ITERATE, CALL, false),
    ROW(FLOW, NONE, true), /* TFORLOOP */
    ROW(SETLIST, NONE, false),
    ROW(CLOSURE, NONE, true),
    ROW(VARARG, NONE, true),
    ROW(EXTRA, NONE, false),
};

/* 5.4 and 5.5, up to the opcodes that only 5.5 has. Operators call no metamethods: the MMBIN behind
 * them does, and its C says which. */
#define ROWS_54                                                                                   \
    ROW(MOVE, NONE, true), SETS, SETS, ROW(LOADK, NONE, true), /* LOADI, LOADF */                 \
        ROW(LOADKX, NONE, true), SETS, SETS, SETS,             /* FALSE, LFALSESKIP, TRUE */      \
        ROW(LOADNIL, NONE, true), ROW(GETUPVAL, NONE, true), ROW(SETUPVAL, NONE, false),          \
        ROW(GETTABUP, INDEX, true), ROW(GETTABLE, INDEX, true), ROW(GETI, INDEX, true),           \
        ROW(GETTABLE, INDEX, true), /* GETFIELD */                                                \
        ROW(SETTABUP, NEWINDEX, false), ROW(SETTABLE, NEWINDEX, false),                           \
        COMPARE(NEWINDEX),                                       /* SETI */                       \
        ROW(SETTABLE, NEWINDEX, false),                          /* SETFIELD */                   \
        ROW(NEWTABLE, NONE, true), ROW(SELF, INDEX, true), SETS, /* ADDI */                       \
        SETS, SETS, SETS, SETS, SETS, SETS, SETS,                /* ADDK to IDIVK */              \
        SETS, SETS, SETS, SETS, SETS,                            /* BANDK to BXORK, SHRI, SHLI */ \
        SETS, SETS, SETS, SETS, SETS, SETS, SETS,                /* ADD to IDIV */                \
        SETS, SETS, SETS, SETS, SETS,                            /* BAND to SHR */                \
        PLAIN, PLAIN, PLAIN, /* MMBIN, MMBINI, MMBINK: see decode_54() */                         \
        OPERATOR(UNM), OPERATOR(BNOT), SETS, OPERATOR(LEN), OPERATOR(CONCAT), COMPARE(CLOSE),     \
        PLAIN, ROW(JUMP, NONE, false),                       /* CLOSE, TBC */                     \
        COMPARE(EQ), COMPARE(LT), COMPARE(LE), PLAIN, PLAIN, /* EQK, EQI */                       \
        COMPARE(LT), COMPARE(LE), COMPARE(LT), COMPARE(LE),  /* LTI, LEI, GTI, GEI */             \
        PLAIN, SETS,                                         /* TEST, TESTSET */                  \
        ROW(CALL, CALL, true), ROW(TAILCALL, CALL, true), ROW(RETURN, CLOSE, false),              \
        ROW(RETURN, NONE, false), ROW(RETURN, NONE, false), /* RETURN0, RETURN1 */                \
        ROW(FLOW, NONE, true), ROW(FLOW, NONE, true),       /* FORLOOP, FORPREP */                \
        ROW(FLOW, NONE, false), ROW(ITERATE, CALL, false),  /* TFORPREP */                        \
        ROW(FLOW, NONE, true), ROW(SETLIST, NONE, false),   /* TFORLOOP */                        \
        ROW(CLOSURE, NONE, true), ROW(VARARG, NONE, true)

static const struct row rows_54[] = {
    ROWS_54,
    SETS, /* VARARGPREP */
    ROW(EXTRA, NONE, false),
};

static const struct row rows_55[] = {
    ROWS_54,
    SETS,  /* GETVARG */
    PLAIN, /* ERRNNIL */
    SETS,  /* VARARGPREP */
    ROW(EXTRA, NONE, false),
};

static uint32_t bits(uint32_t word, unsigned at, unsigned nr)
{
    return word >> at & ((UINT32_C(1) << nr) - 1);
}

/* Operands of 5.1 to 5.3: bit 8 of B and C says that the operand is a constant. */
static struct lua_operand operand_51(uint32_t field)
{
    return (struct lua_operand){field & 0xff, field >> 8};
}

static void decode_51(uint32_t word, unsigned version, struct lua_insn *i)
{
    enum { BX_ZERO = (1 << 17) - 1 };
    uint32_t b = bits(word, 23, 9), c = bits(word, 14, 9);
    i->a = bits(word, 6, 8);
    i->b = i->op == LUA_OP_LOADNIL && version > 51 ? i->a + b : b;
    i->bx = i->op == LUA_OP_EXTRA ? word >> 6 : bits(word, 14, 18);
    i->jump = (int32_t)bits(word, 14, 18) - BX_ZERO;
    bool stores = i->op == LUA_OP_SETTABUP || i->op == LUA_OP_SETTABLE;
    i->table = stores ? i->a : b;
    i->key = operand_51(stores ? b : c);
    i->value = operand_51(c);
    if (i->op == LUA_OP_SETLIST)
        i->b = c; /* 0: 5.1 has an operand behind it */
}

static void decode_54(uint32_t word, struct lua_insn *i)
{
    enum { OP_GETTABLE = 0xc, OP_SETTABLE = 0x10, OP_MMBIN = 0x2e, OP_MMBINK = 0x30 };
    enum { JUMP_ZERO = (1 << 24) - 1 };
    uint32_t op = bits(word, 0, 7), b = bits(word, 16, 8), c = bits(word, 24, 8);
    bool k = bits(word, 15, 1);
    i->a = bits(word, 7, 8);
    i->b = i->op == LUA_OP_LOADNIL ? i->a + b : b;
    i->bx = i->op == LUA_OP_EXTRA ? word >> 7 : bits(word, 15, 17);
    i->jump = (int32_t)(word >> 7) - JUMP_ZERO;
    bool stores = i->op == LUA_OP_SETTABUP || i->op == LUA_OP_SETTABLE;
    i->table = stores ? i->a : b;
    i->key = (struct lua_operand){stores ? b : c, op != OP_GETTABLE && op != OP_SETTABLE};
    if (i->op == LUA_OP_SELF)
        i->key.is_constant = k;
    i->value = (struct lua_operand){c, k};
    if (op >= OP_MMBIN && op <= OP_MMBINK && c < LUA_EVENT_NONE)
        i->event = (uint8_t)c;
}

struct lua_insn lua_insn_decode(uint32_t instruction, unsigned version)
{
    static const struct {
        const struct row *rows;
        size_t nr;
    } all[] = {
        {rows_51, sizeof(rows_51) / sizeof(*rows_51)},
        {rows_52, sizeof(rows_52) / sizeof(*rows_52)},
        {rows_53, sizeof(rows_53) / sizeof(*rows_53)},
        {rows_54, sizeof(rows_54) / sizeof(*rows_54)},
        {rows_55, sizeof(rows_55) / sizeof(*rows_55)},
    };
    struct lua_insn i = {.event = NO};
    if (version < 51 || version > 55)
        return i;
    uint32_t op = bits(instruction, 0, version >= 54 ? 7 : 6);
    if (op >= all[version - 51].nr)
        return i;
    const struct row *row = &all[version - 51].rows[op];
    i.op = row->op;
    i.event = row->event;
    i.sets_a = row->sets_a;
    if (version >= 54)
        decode_54(instruction, &i);
    else
        decode_51(instruction, version, &i);
    if (version == 55 && i.op == LUA_OP_SELF)
        i.key.is_constant = true;
    return i;
}

const char *lua_event_name(enum lua_event event)
{
    static const char *const names[] = {"__index", "__newindex", "__gc",     "__mode", "__len",
                                        "__eq",    "__add",      "__sub",    "__mul",  "__mod",
                                        "__pow",   "__div",      "__idiv",   "__band", "__bor",
                                        "__bxor",  "__shl",      "__shr",    "__unm",  "__bnot",
                                        "__lt",    "__le",       "__concat", "__call", "__close"};
    return event < LUA_EVENT_NONE ? names[event] : NULL;
}
