/* SPDX-License-Identifier: GPL-2.0-only */
/* States by frames: the innermost frame says most, the names of a VM's own functions say the
 * rest. */
#include "stacks/state.h"
#include "unwind/runtime.h"

#include <string.h>

const char *stack_state_name(enum stack_state state)
{
    static const char *const names[STATE_NR] = {
        [STATE_UNKNOWN] = "unknown",
        [STATE_KERNEL] = "kernel",
        [STATE_NATIVE] = "native",
        [STATE_LUA_INTERP] = "lua interpreter",
        [STATE_LUA_TRACE] = "lua trace",
        [STATE_LUA_GC] = "lua garbage collection",
        [STATE_LUA_COMPILE] = "lua trace compiler",
        [STATE_LUA_EXIT] = "lua trace exit",
        [STATE_LUA_FFI] = "lua FFI call",
        [STATE_LUA_C] = "C called by lua",
        [STATE_JS_INTERP] = "js interpreter",
        [STATE_JS_BASELINE] = "js baseline",
        [STATE_JS_MAGLEV] = "js maglev",
        [STATE_JS_TURBOFAN] = "js turbofan",
        [STATE_JS_GC] = "js garbage collection",
        [STATE_JS_COMPILE] = "js compiler",
        [STATE_JS_C] = "C called by js",
        [STATE_WASM] = "wasm",
        [STATE_MANAGED] = "managed",
        [STATE_MANAGED_C] = "C called by managed",
        [STATE_GENERATED] = "other generated code",
    };
    return names[state];
}

/* Names of functions that do one thing only, together with whatever they call. */
static const struct {
    const char *prefix;
    uint8_t state;
} known[] = {
    {"lj_gc_", STATE_LUA_GC},
    {"luaC_step", STATE_LUA_GC},
    {"luaC_fullgc", STATE_LUA_GC},
    {"lj_ccall_", STATE_LUA_FFI},
    {"lj_vm_ffi_call", STATE_LUA_FFI},
    {"lj_trace_exit", STATE_LUA_EXIT},
    {"lj_snap_restore", STATE_LUA_EXIT},
    {"lj_vm_exit", STATE_LUA_EXIT},
    {"lj_trace_", STATE_LUA_COMPILE},
    {"lj_record_", STATE_LUA_COMPILE},
    {"lj_asm_", STATE_LUA_COMPILE},
    {"lj_opt_", STATE_LUA_COMPILE},
    {"v8::internal::Heap::CollectGarbage", STATE_JS_GC},
    {"v8::internal::Heap::PerformGarbageCollection", STATE_JS_GC},
    {"v8::internal::Scavenger", STATE_JS_GC},
    {"v8::internal::MarkCompactCollector", STATE_JS_GC},
    {"v8::internal::ConcurrentMarking", STATE_JS_GC},
    {"v8::internal::Sweeper", STATE_JS_GC},
    {"v8::internal::Compiler::", STATE_JS_COMPILE},
    {"v8::internal::OptimizedCompilationJob", STATE_JS_COMPILE},
    {"v8::internal::OptimizingCompileDispatcher", STATE_JS_COMPILE},
    {"v8::internal::compiler::", STATE_JS_COMPILE},
    {"v8::internal::maglev::", STATE_JS_COMPILE},
    {"v8::internal::baseline::", STATE_JS_COMPILE},
};

static enum stack_state known_state(const struct function *f)
{
    for (size_t i = 0; f->symbol && i < sizeof(known) / sizeof(*known); i++)
        if (strncmp(f->symbol, known[i].prefix, strlen(known[i].prefix)) == 0)
            return known[i].state;
    return STATE_UNKNOWN;
}

static enum stack_state managed_state(const struct function *f)
{
    if (f->kind == FRAME_WASM)
        return STATE_WASM;
    if (f->kind == FRAME_MANAGED)
        return STATE_MANAGED;
    if (f->kind == FRAME_LUA)
        return f->tier == TIER_TRACE ? STATE_LUA_TRACE : STATE_LUA_INTERP;
    switch (f->tier) {
    case TIER_BASELINE:
        return STATE_JS_BASELINE;
    case TIER_MAGLEV:
        return STATE_JS_MAGLEV;
    case TIER_TURBOFAN:
        return STATE_JS_TURBOFAN;
    default:
        return STATE_JS_INTERP;
    }
}

/* Returns the state of C that Lua called, by what the VM itself noted: then the C is part of the
 * VM. */
static enum stack_state told_state(const struct stacks *s, const struct stack_node *n)
{
    while (n->depth > 1)
        n = stacks_node(s, n->parent);
    switch (stacks_group(s, n->function)->vmstate) {
    case RUNTIME_IN_GC:
        return STATE_LUA_GC;
    case RUNTIME_IN_EXIT:
        return STATE_LUA_EXIT;
    case RUNTIME_IN_RECORDER:
    case RUNTIME_IN_OPTIMIZER:
    case RUNTIME_IN_ASSEMBLER:
        return STATE_LUA_COMPILE;
    default:
        return STATE_LUA_C;
    }
}

/* Native code: look for the VM that called it. */
static enum stack_state called_state(const struct stacks *s, const struct stack_node *n)
{
    for (; n->depth > 1; n = stacks_node(s, n->parent)) {
        const struct function *f = stacks_function(s, n->function);
        enum stack_state state = known_state(f);
        if (state != STATE_UNKNOWN)
            return state;
        if (function_is_managed(f))
            return f->kind == FRAME_LUA       ? told_state(s, n)
                   : f->kind == FRAME_MANAGED ? STATE_MANAGED_C
                                              : STATE_JS_C;
    }
    return STATE_NATIVE;
}

enum stack_state stack_state(const struct stacks *s, size_t node)
{
    const struct stack_node *n = stacks_node(s, node);
    if (n->depth <= 1)
        return STATE_UNKNOWN;
    const struct function *f = stacks_function(s, n->function);
    if (function_is_kernel(f))
        return STATE_KERNEL;
    if (function_is_managed(f))
        return managed_state(f);
    return f->kind == FRAME_JIT ? STATE_GENERATED : called_state(s, n);
}
