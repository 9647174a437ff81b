/* SPDX-License-Identifier: GPL-2.0-only */
/* The runtimes that the program knows: a row each. */
#include "unwind/lua/runtime.h"
#include "unwind/luajit/runtime.h"
#include "unwind/v8/runtime.h"

const struct runtime *const runtimes[] = {&luajit_runtime, &lua_runtime, &v8_runtime};
const size_t nr_runtimes = sizeof(runtimes) / sizeof(*runtimes);

_Static_assert(sizeof(runtimes) / sizeof(*runtimes) <= RUNTIMES_MAX, "a bit for each in a word");
