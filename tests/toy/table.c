/* SPDX-License-Identifier: GPL-2.0-only */
/* The table of runtimes with the toy's row, in place of unwind/runtimes/table.c. */
#include "tests/toy/runtime.h"
#include "unwind/lua/runtime.h"
#include "unwind/luajit/runtime.h"
#include "unwind/v8/runtime.h"

const struct runtime *const runtimes[] = {&luajit_runtime, &lua_runtime, &v8_runtime, &toy_runtime};
const size_t nr_runtimes = sizeof(runtimes) / sizeof(*runtimes);
