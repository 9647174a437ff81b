/* SPDX-License-Identifier: GPL-2.0-only */
/* The objects of a LuaJIT VM, for the census of heaps (unwind/census.h). Private to unwind/luajit.
 */
#ifndef UNWIND_LUAJIT_CENSUS_H
#define UNWIND_LUAJIT_CENSUS_H

#include "unwind/census.h"

extern const struct census_heap luajit_census;

#endif
