/* SPDX-License-Identifier: GPL-2.0-only */
/* The runtimes that the program knows: a row each. */
#include "unwind/luajit/runtime.h"
#include "unwind/v8/runtime.h"

const struct runtime *const runtimes[] = {&luajit_runtime, &v8_runtime};
const size_t nr_runtimes = sizeof(runtimes) / sizeof(*runtimes);

_Static_assert(sizeof(runtimes) / sizeof(*runtimes) <= RUNTIMES_MAX, "a bit for each in a word");

size_t runtime_index(const struct runtime *rt)
{
    size_t i = 0;
    while (i + 1 < nr_runtimes && runtimes[i] != rt)
        i++;
    return i;
}
