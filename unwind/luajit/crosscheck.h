/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compares a layout with the exported C functions, whose compiled code is disassembled. This
 * evidence is weaker than the blob's, and replaces no value. It is a second witness where functions
 * are exported (lua_gettop reads L->top and L->base, and so on), and the only source of
 * jit_State.state.
 */
#ifndef UNWIND_LUAJIT_CROSSCHECK_H
#define UNWIND_LUAJIT_CROSSCHECK_H

#include "unwind/luajit/discover.h"

/* Fills l->state, l->confirmed, l->contradicted and l->contradiction. Without exported functions,
 * or without a disassembler, it finds nothing. */
void luajit_crosscheck(const struct luajit_image *image, struct luajit_layout *l);

#endif
