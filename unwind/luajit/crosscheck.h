/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the exported C functions say about a layout: code that a compiler made, disassembled. Weaker
 * evidence than the blob's, and nothing is replaced by it: a second witness where functions are
 * exported (lua_gettop reads L->top and L->base, and so on), and the only one for jit_State.state.
 */
#ifndef UNWIND_LUAJIT_CROSSCHECK_H
#define UNWIND_LUAJIT_CROSSCHECK_H

#include "unwind/luajit/discover.h"

/* Fills l->state, l->confirmed, l->contradicted and l->contradiction. Without exported functions,
 * or without a disassembler, nothing. */
void luajit_crosscheck(const struct luajit_image *image, struct luajit_layout *l);

#endif
