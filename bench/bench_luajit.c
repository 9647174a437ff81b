/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The cost of a frame of LuaJIT (lua_frames.h). A step of its walker leads from a native frame of
 * the interpreter or a trace to its C caller, with finding the lua_State, the VM and the start of
 * the segment, and all Lua frames.
 *
 * usage: bench_luajit PERF.DATA...
 */
#include "bench/lua_frames.h"
#include "unwind/luajit/names.h"
#include "unwind/luajit/walk.h"

struct walker __real_luajit_walker(const struct luajit_process *process);
struct walker __wrap_luajit_walker(const struct luajit_process *process);
int __real_luajit_names_frame(struct luajit_names *n, const struct luajit_names_source *source,
                              const struct luajit_frame *frame, struct luajit_named *ret,
                              struct error *err);
int __wrap_luajit_names_frame(struct luajit_names *n, const struct luajit_names_source *source,
                              const struct luajit_frame *frame, struct luajit_named *ret,
                              struct error *err);

static enum walker_result (*real_step)(const void *, struct walker_state *, struct walker_step *);

static enum walker_result timed_step(const void *context, struct walker_state *state,
                                     struct walker_step *s)
{
    size_t nr = s->out->frames.nr;
    uint64_t start = __rdtsc();
    enum walker_result got = real_step(context, state, s);
    uint64_t ticks = __rdtsc() - start;
    if (got == WALKER_NO) /* the step added no frame */
        return got;
    now.ticks += ticks;
    now.steps++;
    for (; nr < s->out->frames.nr; nr++)
        now.lua += s->out->frames.at[nr].kind == FRAME_LUA;
    return got;
}

struct walker __wrap_luajit_walker(const struct luajit_process *process)
{
    struct walker w = __real_luajit_walker(process);
    real_step = w.step;
    w.step = timed_step;
    return w;
}

int __wrap_luajit_names_frame(struct luajit_names *n, const struct luajit_names_source *source,
                              const struct luajit_frame *frame, struct luajit_named *ret,
                              struct error *err)
{
    if (!now.nameless)
        return __real_luajit_names_frame(n, source, frame, ret, err);
    *ret = (struct luajit_named){0};
    return 0;
}

int main(int argc, char **argv)
{
    return bench_all(argc, argv);
}
