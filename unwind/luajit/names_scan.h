/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names of functions, read out of bytecode: at a call, by the rule of debug.traceback (which scans
 * backwards and ignores jumps: reproduced, not improved, since users compare); and at the
 * definition, where the instruction that makes the closure is followed by the one that stores it.
 */
#ifndef UNWIND_LUAJIT_NAMES_SCAN_H
#define UNWIND_LUAJIT_NAMES_SCAN_H

#include "unwind/luajit/names_proto.h"

enum luajit_name_kind {
    LUAJIT_NAME_NONE,
    LUAJIT_NAME_LOCAL,
    LUAJIT_NAME_UPVALUE,
    LUAJIT_NAME_GLOBAL,
    LUAJIT_NAME_METHOD,
    LUAJIT_NAME_FIELD,
    LUAJIT_NAME_METAMETHOD,
};

/* LuaJIT's word for it ("method"); "" of LUAJIT_NAME_NONE. */
const char *luajit_name_kind_text(enum luajit_name_kind kind);

/* What the caller calls the function that its instruction at `position` called. `buffer` holds
 * PROTO_NAME_MAX and gets the name. */
enum luajit_name_kind luajit_call_name(const struct luajit_proto *caller, const struct memory *m,
                                       uint32_t position, char *buffer);

/* A longer name than one word: M.handler. */
enum { LUAJIT_DEFINED_MAX = 4 * PROTO_NAME_MAX };

/* The name under which the closure that the FNEW at `position` makes is stored; false: under none,
 * or not right there. `method`: its first parameter is called self (M:handler). `budget`:
 * instructions and variables that may still be looked at; it bounds many calls together. */
bool luajit_definition_name(const struct luajit_proto *parent, const struct memory *m,
                            uint32_t position, bool method, uint32_t *budget,
                            char buffer[LUAJIT_DEFINED_MAX]);

#endif
