/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Lua in a sample's stack: passes the walk to unwind/luajit, and its frames to the worker's namer.
 * The LuaJITs that a process has mapped are looked up only when a walk comes into memory that no
 * file owns, because the lookup opens all files of the process.
 */
#include "replay/replay_internal.h"
#include "unwind/luajit/names.h"
#include "unwind/luajit/runtime.h"
#include "unwind/luajit/vm.h"

/* Read the state that the VM of the innermost Lua frame noted. Only memory that came with the
 * sample shows it. */
static void read_vmstate(struct sample_lua *lua, const struct memory *m, const struct luajit_vm *vm)
{
    int32_t value;
    lua->named = true;
    if (vm->layout && vm->layout->vmstate != LUAJIT_UNKNOWN &&
        memory_read_instant(m, vm->g + (uint64_t)vm->layout->vmstate, &value, sizeof(value)))
        lua->vmstate = (uint8_t)luajit_vmstate(vm->layout, value);
}

static bool name_frame(void *context, const struct memory *m, const struct luajit_vm *vm,
                       const struct luajit_frame *frame, struct frame *ret)
{
    struct sample_lua *lua = context;
    const struct luajit_names_source source = {.memory = m,
                                               .vm = vm,
                                               .space = lua->thread->pid,
                                               .provenance = ret->provenance,
                                               .batch = lua->worker->job->batch_number};
    struct luajit_named named;
    if (!lua->named)
        read_vmstate(lua, m, vm);
    if (luajit_names_frame(lua->worker->names, &source, frame, &named, NULL) < 0)
        return false;
    ret->function = named.function;
    ret->line = named.line;
    ret->callname = named.callname;
    if (named.provenance > ret->provenance)
        ret->provenance = (uint8_t)named.provenance;
    return true;
}

/* Look a prototype up in snapshots by an address in its bytecode. */
static uint64_t find_prototype(void *context, uint64_t address)
{
    const struct sample_lua *lua = context;
    return snapshots_prototype(lua->worker->replay->snapshots, lua->thread->pid, address);
}

/* Use the VMs that were copied with the sample, or found by a snapshot: if references have 32 bits,
 * no register of a trace says which VM the trace belongs to. */
static void use_known_vms(struct sample_lua *lua)
{
    uint64_t gs[VMSTACK_VMS_MAX];
    size_t nr = 0, nr_gs = lua->copy ? lua->copy->nr_vms : 0;
    if (lua->copy)
        memcpy(gs, lua->copy->g, nr_gs * sizeof(*gs));
    else
        nr_gs = snapshots_globals(lua->worker->replay->snapshots, lua->thread->pid, gs,
                                  VMSTACK_VMS_MAX);
    for (size_t i = 0; i < lua->process.nr_blobs; i++) {
        const struct luajit_blob *b = &lua->process.blobs[i];
        for (uint32_t k = 0; !b->layout->gc64 && k < nr_gs && nr < VMSTACK_VMS_MAX; k++)
            lua->vms[nr++] =
                (struct luajit_vm){.g = gs[k], .blob = b->address, .layout = b->layout};
    }
    lua->process.vms = lua->vms;
    lua->process.nr_vms = nr;
}

static bool wants(const void *context, const struct code *code)
{
    struct sample_lua *lua = (void *)(uintptr_t)context;
    if (code->owner != CODE_ELF && code->owner != CODE_KERNEL && !lua->asked) {
        size_t nr;
        const struct runtime_instance *at = session_runtime(lua->thread, &luajit_runtime, &nr);
        for (size_t i = 0; i < nr; i++)
            lua->blobs[i] = luajit_blob_of(&at[i]);
        lua->process.blobs = lua->blobs;
        lua->process.nr_blobs = nr;
        lua->asked = true;
        if ((lua->copy || lua->worker->replay->snapshots) && !lua->process.nr_vms)
            use_known_vms(lua);
    }
    return lua->inner.wants(lua->inner.context, code);
}

static enum walker_result step(const void *context, struct walker_state *state,
                               struct walker_step *s)
{
    const struct sample_lua *lua = context;
    return lua->inner.step(lua->inner.context, state, s);
}

static bool is_stateless(const void *context, const struct walker_state *state)
{
    const struct sample_lua *lua = context;
    return lua->inner.is_stateless(lua->inner.context, state);
}

const struct walker *sample_walker(struct replay_worker *w, const struct thread_context *thread,
                                   struct sample_lua *ret)
{
    ret->worker = w;
    ret->thread = thread;
    ret->asked = ret->named = false;
    ret->vmstate = LUAJIT_IN_UNKNOWN;
    ret->copy = NULL;
    ret->process = (struct luajit_process){.namer = {.name = name_frame, .context = ret}};
    if (w->replay->snapshots)
        ret->process.prototype = find_prototype;
    ret->process.apart = w->replay->snapshots;
    ret->inner = luajit_walker(&ret->process);
    ret->outer = (struct walker){.arch = ret->inner.arch,
                                 .wants = wants,
                                 .step = step,
                                 .is_stateless = is_stateless,
                                 .state_size = ret->inner.state_size,
                                 .context = ret};
    return &ret->outer;
}

void sample_use_copy(struct sample_lua *lua, const struct vmstack *copy)
{
    lua->copy = copy;
    lua->process.gs = copy->g;
    lua->process.nr_gs = copy->nr_vms;
    lua->process.apart &= copy->reason != VMEVENT_MATCHED;
}
