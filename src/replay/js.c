/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * JavaScript in a sample's stack: passes the walk to unwind/v8, and its frames to the worker's
 * namer. A walk may meet both Lua and JavaScript: this walker asks the Lua walker first.
 */
#include "replay/replay_internal.h"
#include "unwind/v8/names.h"
#include "unwind/v8/runtime.h"

static bool name_frame(void *context, struct v8_reader *r, const struct v8_sfi *sfi, int32_t offset,
                       struct frame *ret)
{
    struct sample_js *js = context;
    struct v8_named named;
    if (v8_names_function(js->worker->js_names, r, js->thread->pid, js->worker->job->batch_number,
                          sfi, offset, &named) < 0)
        return false;
    ret->function = named.function;
    ret->line = named.line;
    ret->column = named.column;
    if (named.bare && ret->provenance == PROVENANCE_EXACT)
        ret->provenance = PROVENANCE_STALE;
    return true;
}

/* Look functions up in snapshots by the BytecodeArray, which stays where it is while closures come
 * and go. */
static size_t find_functions(void *context, uint64_t bytecode, uint64_t *ret, size_t max)
{
    const struct sample_js *js = context;
    return snapshots_functions(js->worker->replay->snapshots, js->thread->pid, bytecode, ret, max);
}

static bool name_wasm(void *context, struct v8_reader *r, const struct v8_wasm *wasm,
                      struct frame *ret)
{
    struct sample_js *js = context;
    struct v8_named named;
    if (v8_names_wasm(js->worker->js_names, r, js->thread->pid, js->worker->job->batch_number, wasm,
                      &named) < 0)
        return false;
    ret->function = named.function;
    return true;
}

/* The states of both walkers, one after the other. */
struct js_state {
    struct walker_state head;
    _Alignas(16) uint8_t states[];
};

static size_t aligned(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

static bool wants(const void *context, const struct code *code)
{
    struct sample_js *js = (void *)(uintptr_t)context;
    if (code->owner != CODE_ELF && code->owner != CODE_KERNEL && !js->asked) {
        size_t nr;
        const struct runtime_instance *v8 = session_runtime(js->thread, &v8_runtime, &nr);
        js->process.layout = nr ? v8->layout : NULL;
        js->asked = true;
    }
    bool v8 = js->inner.wants(js->inner.context, code);
    bool lua = js->lua->wants(js->lua->context, code);
    js->is_v8 |= v8;
    js->is_lua |= lua;
    return v8 || lua;
}

/* Returns the state of V8's walker. */
static struct walker_state *v8_state(const struct sample_js *js, const struct js_state *both)
{
    return (struct walker_state *)(both->states + aligned(js->lua->state_size));
}

static bool is_stateless(const void *context, const struct walker_state *state)
{
    const struct sample_js *js = context;
    const struct js_state *both = (const struct js_state *)state;
    return !both->head.begun ||
           (js->lua->is_stateless(js->lua->context, (const struct walker_state *)both->states) &&
            js->inner.is_stateless(js->inner.context, v8_state(js, both)));
}

static enum walker_result step(const void *context, struct walker_state *state,
                               struct walker_step *s)
{
    const struct sample_js *js = context;
    struct js_state *both = (struct js_state *)state;
    struct walker_state *lua = (struct walker_state *)both->states;
    struct walker_state *v8 = v8_state(js, both);
    if (!both->head.begun)
        lua->begun = v8->begun = false;
    both->head.begun = true;
    /* A process usually has only one of the VMs: the walker of the other is not asked at each
     * frame. */
    if (js->is_lua && js->lua->wants(js->lua->context, &s->code)) {
        enum walker_result got = js->lua->step(js->lua->context, lua, s);
        if (got != WALKER_NO)
            return got;
    }
    if (js->is_lua && !js->inner.wants(js->inner.context, &s->code))
        return WALKER_NO;
    return js->inner.step(js->inner.context, v8, s);
}

const struct walker *sample_js_walker(struct replay_worker *w, const struct thread_context *thread,
                                      const struct walker *lua, struct sample_js *ret)
{
    ret->worker = w;
    ret->thread = thread;
    ret->asked = ret->is_v8 = ret->is_lua = false;
    ret->side = MEMORY_NEAREST;
    ret->lua = lua;
    ret->process = (struct v8_process){
        .namer = {.name = name_frame, .wasm = name_wasm, .context = ret}, .space = thread->pid};
    if (w->replay->snapshots)
        ret->process.functions = find_functions;
    ret->inner = v8_walker(&ret->process);
    ret->outer = (struct walker){.arch = ret->inner.arch,
                                 .wants = wants,
                                 .step = step,
                                 .is_stateless = is_stateless,
                                 .state_size = sizeof(struct js_state) + aligned(lua->state_size) +
                                               ret->inner.state_size,
                                 .context = ret};
    return &ret->outer;
}
