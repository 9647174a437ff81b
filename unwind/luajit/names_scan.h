/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names of functions, read from bytecode. At a call: by the rule of debug.traceback, which scans
 * backwards and ignores jumps. The rule is reproduced and not improved, because users compare. At
 * the definition: the instruction that makes the closure is followed by the one that stores it.
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

/* LuaJIT's word for the kind ("method"); "" for LUAJIT_NAME_NONE. */
const char *luajit_name_kind_text(enum luajit_name_kind kind);

/* Find the caller's name for the function that its instruction at `position` called. `buffer` holds
 * PROTO_NAME_MAX bytes and receives the name. */
enum luajit_name_kind luajit_call_name(const struct luajit_proto *caller, const struct memory *m,
                                       uint32_t position, char *buffer);

/* The scanned prototype and the budget: how many instructions and variables may still be looked
 * at. */
struct luajit_scan {
    const struct luajit_proto *p;
    const struct memory *m;
    uint32_t *budget;
};

/* Find the last instruction before `position` that wrote `slot`. *position becomes the position of
 * that instruction, and *slot the slot that the value had there (a MOV on the way changes it).
 * LOCAL: the slot is a variable, whose name is in `buffer` (PROTO_NAME_MAX bytes). WRITE: *ret is
 * the instruction. NOTHING: no writer that could give a name. */
enum luajit_found { LUAJIT_FOUND_NOTHING, LUAJIT_FOUND_LOCAL, LUAJIT_FOUND_WRITE };
enum luajit_found luajit_find_writer(const struct luajit_scan *s, uint32_t *position,
                                     unsigned *slot, struct bc *ret, char *buffer);

/* A name of several words: M.handler. */
enum { LUAJIT_DEFINED_MAX = 4 * PROTO_NAME_MAX };

/* Find the name under which the closure is stored that the FNEW at `position` makes; false: it is
 * not stored under a name, or not right there. `method`: the function's first parameter is called
 * self (M:handler). `budget`: number of instructions and variables that may still be looked at; it
 * bounds the cost of many calls together. */
bool luajit_definition_name(const struct luajit_proto *parent, const struct memory *m,
                            uint32_t position, bool method, uint32_t *budget,
                            char buffer[LUAJIT_DEFINED_MAX]);

#endif
