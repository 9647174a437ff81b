/* SPDX-License-Identifier: GPL-2.0-only */
/* A LuaJIT trace's machine code, from what a recording has of the process's memory. */
#include "replay/replay_internal.h"
#include "session/registers.h"
#include "unwind/luajit/runtime.h"
#include "session/walk_input.h"

enum { GLOBALS_MAX = 64 };

/* Find where VMs may be: those on the thread, the VM of a sample in a trace, those that were
 * noted. */
static size_t find_globals(const struct replay *r, const struct replay_sample *s,
                           const struct vmstack *copy, const struct luajit_layout *layout,
                           uint64_t ret[GLOBALS_MAX])
{
    uint32_t pid = s->thread->pid;
    struct registers registers = {0};
    size_t nr = 0;
    for (uint32_t i = 0; copy && i < copy->nr_vms && i < VMSTACK_VMS_MAX; i++)
        ret[nr++] = copy->g[i];
    if (layout->gc64 && s->unwound) {
        sample_registers(s->sample, s->arch, &registers);
        nr += luajit_vm_of_registers(&registers, layout, &ret[nr]);
    }
    size_t noted = r->log ? memory_log_globals(r->log, pid, ret + nr, GLOBALS_MAX - nr) : 0;
    nr += noted < GLOBALS_MAX - nr ? noted : GLOBALS_MAX - nr;
    noted = r->snapshots ? snapshots_globals(r->snapshots, pid, ret + nr, GLOBALS_MAX - nr) : 0;
    return nr + (noted < GLOBALS_MAX - nr ? noted : GLOBALS_MAX - nr);
}

/* Open the sample's vmstack, which says where VMs are and may have their traces. No walk uses the
 * worker's vmstacks at this time. */
static bool open_copy(struct replay_worker *w, const struct replay_sample *s)
{
    struct registers registers;
    if (!s->copy || !s->unwound)
        return false;
    sample_registers(s->sample, s->arch, &registers);
    return replay_copies(w) &&
           vmstack_open(&w->copies[0], s->copy->bytes, s->copy->size, s->sample->tid,
                        registers_pc(&registers), registers_sp(&registers)) &&
           w->copies[0].nr;
}

int replay_trace(struct replay_worker *w, const struct replay_sample *s, uint32_t number,
                 uint64_t address, struct luajit_listing *ret, struct error *err)
{
    struct replay *r = w->replay;
    struct walk_memory layers;
    size_t nr;
    const struct runtime_instance *luajits = session_runtime(s->thread, &luajit_runtime, &nr);
    struct luajit_names *names = runtime_tables_of(w->tables, &luajit_runtime);
    bool has_copy = open_copy(w, s);
    const struct walk_parts parts = {.thread = s->thread,
                                     .sample = s->sample,
                                     .vmstack = has_copy ? &w->copies[0] : NULL,
                                     .log = r->log,
                                     .snapshots = r->snapshots};
    const struct memory memory = walk_memory(&parts, &layers);
    for (size_t i = 0; i < nr; i++) {
        const struct luajit_blob blob = luajit_blob_of(&luajits[i]);
        uint64_t gs[GLOBALS_MAX];
        size_t nr_gs = find_globals(r, s, has_copy ? &w->copies[0] : NULL, blob.layout, gs);
        for (size_t k = 0; k < nr_gs; k++) {
            const struct luajit_vm vm = {gs[k], blob.address, blob.layout};
            const struct luajit_names_source source = {
                .memory = &memory, .vm = &vm, .space = s->thread->pid, .batch = s->batch_number};
            int got = luajit_listing_read(&source, names, number, address, ret, err);
            if (got)
                return got;
        }
    }
    return 0;
}
