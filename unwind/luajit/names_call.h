/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whether the function that runs is the one that the caller's instruction called. A tail call
 * leaves no mark: the function it calls stands where its caller stood, above a call instruction
 * that names that one. So what the instruction calls is found once more, as it found it: in a local
 * variable, an upvalue, a table's field, an operand's metatable; and compared.
 */
#ifndef UNWIND_LUAJIT_NAMES_CALL_H
#define UNWIND_LUAJIT_NAMES_CALL_H

#include "unwind/luajit/names_proto.h"

enum luajit_callee {
    LUAJIT_CALLEE_UNTOLD,  /* what was called is not recorded, or was nowhere but in the call */
    LUAJIT_CALLEE_SAME,    /* a function of this prototype */
    LUAJIT_CALLEE_ANOTHER, /* another function stands there: it has called this one as its last
                              deed, or was replaced since; or a trace keeps what was called in
                              registers */
};

/* Of a Lua function's frame that has a caller, whose call stands at `position` (names_scan.h).
 * `weakest`: slots of the Lua stack count when memory has them no worse than that. */
enum luajit_callee luajit_callee_check(const struct luajit_proto *caller, const struct memory *m,
                                       const struct luajit_frame *f, uint32_t position,
                                       enum provenance weakest);

#endif
