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

/* What is scanned, and how much of it still: instructions and variables that may be looked at. */
struct luajit_scan {
    const struct luajit_proto *p;
    const struct memory *m;
    uint32_t *budget;
};

/* Find what wrote `slot` last before `position`; *position is then the writer's, and *slot the one
 * that the value had (a MOV changes it on the way). LOCAL: it is a variable, named in `buffer`
 * (PROTO_NAME_MAX); WRITE: *ret is the instruction; NOTHING: nothing that could be named wrote it.
 */
enum luajit_found { LUAJIT_FOUND_NOTHING, LUAJIT_FOUND_LOCAL, LUAJIT_FOUND_WRITE };
enum luajit_found luajit_find_writer(const struct luajit_scan *s, uint32_t *position,
                                     unsigned *slot, struct bc *ret, char *buffer);

/* A longer name than one word: M.handler. */
enum { LUAJIT_DEFINED_MAX = 4 * PROTO_NAME_MAX };

/* The name under which the closure that the FNEW at `position` makes is stored; false: under none,
 * or not right there. `method`: its first parameter is called self (M:handler). `budget`:
 * instructions and variables that may still be looked at; it bounds many calls together. */
bool luajit_definition_name(const struct luajit_proto *parent, const struct memory *m,
                            uint32_t position, bool method, uint32_t *budget,
                            char buffer[LUAJIT_DEFINED_MAX]);

#endif
