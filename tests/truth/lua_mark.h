/* SPDX-License-Identifier: GPL-2.0-only */
/* What a host does with marks (lua_mark.c). */
#ifndef TESTS_TRUTH_LUA_MARK_H
#define TESTS_TRUTH_LUA_MARK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
/* This thread's mark is at *at from now on, which lies on its stack. */
void lua_mark_here(volatile uint64_t *at);
/* Replaces the mark, 0: it is nowhere. Returns the one before. */
uint64_t lua_mark_set(uint64_t mark);
#ifdef __cplusplus
}
#endif

#endif
