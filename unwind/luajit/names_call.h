/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tells if the running function is the one that the caller's instruction called. A tail call leaves
 * no mark: the function that it calls replaces the function that made the tail call, above a call
 * instruction that names the replaced one. So the function that the instruction called is looked up
 * again, in the same way as the instruction did (in a local variable, an upvalue, a table's field,
 * an operand's metatable), and compared.
 */
#ifndef UNWIND_LUAJIT_NAMES_CALL_H
#define UNWIND_LUAJIT_NAMES_CALL_H

#include "unwind/luajit/names_proto.h"

enum luajit_callee {
    LUAJIT_CALLEE_UNTOLD,  /* the called function is not recorded, or was only in the call itself */
    LUAJIT_CALLEE_SAME,    /* the called function has this prototype */
    LUAJIT_CALLEE_ANOTHER, /* another function is there: it has made a tail call of this function,
                              or has replaced it since; or a trace keeps the called function in
                              registers */
};

/* Check the frame of a Lua function that has a caller, whose call stands at `position`
 * (names_scan.h). A slot of the Lua stack counts only if its provenance is `weakest` or better. */
enum luajit_callee luajit_callee_check(const struct luajit_proto *caller, const struct memory *m,
                                       const struct luajit_frame *f, uint32_t position,
                                       enum provenance weakest);

#endif
