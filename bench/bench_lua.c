/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The cost of a frame of plain (PUC-Rio) Lua (lua_frames.h). Its walker has one step a walk, which
 * puts the Lua frames into a native stack: finding the lua_States, reading their calls, dealing
 * them out, naming them and the C functions that Lua has called, and making the frames anew.
 *
 * usage: bench_lua PERF.DATA...
 */
#include "bench/lua_frames.h"
#include "unwind/lua/names.h"
#include "unwind/lua/walk.h"

int __real_lua_find_states(struct lua_walk *w);
int __wrap_lua_find_states(struct lua_walk *w);
int __real_lua_emit(struct lua_walk *w);
int __wrap_lua_emit(struct lua_walk *w);
int __real_lua_names_call(struct lua_names *n, const struct lua_names_source *source,
                          const struct lua_call *call, const struct lua_call *caller,
                          struct lua_named *ret, struct error *err);
int __wrap_lua_names_call(struct lua_names *n, const struct lua_names_source *source,
                          const struct lua_call *call, const struct lua_call *caller,
                          struct lua_named *ret, struct error *err);

static uint64_t start; /* ticks at which the step began */

/* A step begins by finding the states, and ends by making the frames. */
int __wrap_lua_find_states(struct lua_walk *w)
{
    start = __rdtsc();
    return __real_lua_find_states(w);
}

int __wrap_lua_emit(struct lua_walk *w)
{
    int failed = __real_lua_emit(w);
    now.ticks += __rdtsc() - start;
    now.steps++;
    for (size_t i = 0; i < w->out->frames.nr; i++)
        now.lua += w->out->frames.at[i].kind == FRAME_LUA;
    return failed;
}

int __wrap_lua_names_call(struct lua_names *n, const struct lua_names_source *source,
                          const struct lua_call *call, const struct lua_call *caller,
                          struct lua_named *ret, struct error *err)
{
    if (!now.nameless)
        return __real_lua_names_call(n, source, call, caller, ret, err);
    *ret = (struct lua_named){0};
    return 0;
}

int main(int argc, char **argv)
{
    return bench_all(argc, argv);
}
