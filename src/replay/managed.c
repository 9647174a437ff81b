/* SPDX-License-Identifier: GPL-2.0-only */
/* Managed frames in a sample's stack: what is known of its process, for the runtimes' walkers. */
#include "replay/replay_internal.h"
#include "unwind/luajit/runtime.h"
#include "unwind/v8/runtime.h"

bool managed_walks_create(struct replay_worker *w, struct managed_names *managed, bool has_log)
{
    w->tables = runtime_tables_create(managed, has_log);
    bool ok = w->tables != NULL;
    for (size_t i = 0; ok && i < WALK_GROUP; i++) {
        w->walkers[i] = runtime_walkers_create();
        ok = w->walkers[i] != NULL;
    }
    return ok;
}

void managed_walks_free(struct replay_worker *w)
{
    for (size_t i = 0; i < WALK_GROUP; i++)
        runtime_walkers_free(w->walkers[i]);
    runtime_tables_free(w->tables);
}

/* Note where a process has LuaJIT, for replay_compiler(). If memory is out, nothing is noted. */
static void note_luajits(struct sample_process *of, const struct runtime_instance *at, size_t nr)
{
    struct luajit_places *known = &of->worker->replay->luajits;
    uint32_t pid = of->noted_pid = of->thread->pid;
    pthread_mutex_lock(&known->lock);
    for (size_t i = 0; i < nr; i++) {
        const struct luajit_place new = {pid, luajit_blob_of(&at[i])};
        bool is_known = false;
        vec_foreach (p, &known->at)
            is_known |= p->pid == pid && p->blob.address == new.blob.address;
        if (!is_known)
            (void)vec_push(&known->at, new);
    }
    pthread_mutex_unlock(&known->lock);
}

/* The same of V8, for replay_v8_place(). */
static void note_v8(struct sample_process *of, const struct v8_layout *layout)
{
    struct v8_places *known = &of->worker->replay->v8s;
    uint32_t pid = of->noted_v8_pid = of->thread->pid;
    bool is_known = false;
    pthread_mutex_lock(&known->lock);
    vec_foreach (p, &known->at)
        is_known |= p->thread.pid == pid;
    if (!is_known && vec_reserve(&known->at, known->at.nr + 1))
        known->at.at[known->at.nr++] = (struct v8_place){thread_context_hold(of->thread), layout};
    pthread_mutex_unlock(&known->lock);
}

void v8_places_free(struct v8_places *v)
{
    vec_foreach (p, &v->at)
        thread_context_release(&p->thread);
    vec_free(&v->at);
}

static const struct runtime_instance *instances(void *context, const struct runtime *rt, size_t *nr)
{
    struct sample_process *p = context;
    const struct runtime_instance *at = session_runtime(p->thread, rt, nr);
    if (rt == &luajit_runtime && *nr && p->noted_pid != p->thread->pid)
        note_luajits(p, at, *nr);
    if (rt == &v8_runtime && *nr && p->noted_v8_pid != p->thread->pid)
        note_v8(p, at->layout);
    return at;
}

/* Look something up in the snapshots of the process. */
static size_t find(void *context, enum runtime_list list, uint64_t key, uint64_t *ret, size_t max)
{
    const struct sample_process *p = context;
    const struct snapshots *s = p->worker->replay->snapshots;
    switch (list) {
    case RUNTIME_LIST_VMS:
        return snapshots_globals(s, p->thread->pid, ret, max);
    case RUNTIME_LIST_BLOCKS:
        *ret = snapshots_prototype(s, p->thread->pid, key);
        return *ret != 0;
    case RUNTIME_LIST_FUNCTIONS:
        return snapshots_functions(s, p->thread->pid, key, ret, max);
    }
    return 0;
}

const struct walker *sample_walker(struct replay_worker *w, size_t at,
                                   const struct thread_context *thread, const struct vmstack *copy,
                                   const runtime_vm_list *vms)
{
    struct sample_process *p = &w->processes[at];
    p->worker = w;
    p->thread = thread;
    struct runtime_sample s = {
        .pid = thread->pid,
        .batch = w->job->batch_number,
        .instances = instances,
        .find = w->replay->snapshots ? find : NULL,
        .context = p,
        .vms = copy  ? p->vms
               : vms ? vms->at
                     : NULL,
        .nr_vms = copy  ? copy->nr_vms
                  : vms ? vms->nr
                        : 0,
        .has_vmstack = copy != NULL,
        .has_running_vm = copy && copy->nr_vms && copy->reason == VMEVENT_MATCHED,
        .reads_anew = p->reads_anew,
        .awaits = w->replay->options.awaits,
        .places = p->places,
        .no_objects = !w->replay->log && !w->replay->snapshots && !vms,
    };
    for (uint32_t i = 0; copy && i < copy->nr_vms; i++)
        p->vms[i] = (struct runtime_vm){.address = copy->g[i]};
    return runtime_walkers_begin(w->walkers[at], w->tables, &s);
}
