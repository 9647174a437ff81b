/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The runtimes in an address space. Files are looked into only if there is executable memory
 * without a file, in which generated code runs. Without it, the code map alone says whether a frame
 * is a runtime's.
 */
#include "session/session_internal.h"
#include "unwind/census.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static bool is_generated(const struct region *r)
{
    return r->anonymous && r->map.prot & PROT_EXEC;
}

/* Returns whether a mapping is a file's code, where runtimes are. */
static bool is_text(const struct mapping *m)
{
    return m->dso->kind == DSO_FILE && m->prot & PROT_EXEC;
}

static bool has_generated_code(const struct address_space *space)
{
    const struct region_slot *at = regions_next(space->regions, 0);
    for (; at; at = regions_next(space->regions, at->region.map.end)) {
        if (is_generated(&at->region))
            return true;
    }
    return false;
}

bool session_runtime_in(const struct mapping *m, const struct runtime *rt,
                        struct runtime_instance *ret)
{
    uint64_t vaddr;
    if (!is_text(m) || !dso_offset_to_vaddr(m->dso, m->pgoff, &vaddr))
        return false;
    const void *layout = cfi_runtime(dso_cfi(m->dso), rt);
    if (!layout || (rt->code_start && rt->code_start(layout) - vaddr >= m->end - m->start))
        return false;
    *ret = (struct runtime_instance){rt, layout, m->start - vaddr, m->start, m->end};
    return true;
}

bool session_runtime_of_files(const struct thread_context *p, const struct runtime *rt,
                              struct runtime_instance *ret)
{
    const struct address_space *space = p->space;
    const struct region_slot *at = regions_next(space->regions, 0);
    bool found = false;
    for (; at && !found; at = regions_next(space->regions, at->region.map.end))
        found = session_runtime_in(&at->region.map, rt, ret);
    return found;
}

/* Note the runtimes in one mapping. */
static void note_runtimes(struct space_runtimes *found, const struct mapping *m)
{
    for (size_t i = 0; i < nr_runtimes; i++) {
        size_t nr = found->of[i].nr;
        if (nr < RUNTIME_INSTANCES_MAX && session_runtime_in(m, runtimes[i], &found->of[i].at[nr]))
            found->of[i].nr++;
    }
}

static size_t size_of_runtimes(void)
{
    return sizeof(struct space_runtimes) +
           nr_runtimes * sizeof(*((struct space_runtimes *)NULL)->of);
}

static struct space_runtimes *find_runtimes(const struct address_space *space)
{
    struct space_runtimes *found = calloc(1, size_of_runtimes());
    if (!found || !(found->generated = has_generated_code(space)))
        return found;
    const struct region_slot *at = regions_next(space->regions, 0);
    for (; at; at = regions_next(space->regions, at->region.map.end))
        note_runtimes(found, &at->region.map);
    return found;
}

void space_runtimes_forget(struct address_space *space)
{
    free(atomic_exchange(&space->runtimes, NULL));
}

/* A process that generates code maps and protects memory all the time. Memory without a file
 * changes nothing but whether there is generated code at all. */
struct space_runtimes *space_runtimes_beside(const struct address_space *space,
                                             const struct region *r)
{
    const struct space_runtimes *found =
        atomic_load_explicit(&space->runtimes, memory_order_acquire);
    if (!found || is_text(&r->map) || (is_generated(r) && !found->generated))
        return NULL;
    const struct region_slot *at = regions_next(space->regions, r->map.start);
    for (; at && at->region.map.start < r->map.end;
         at = regions_next(space->regions, at->region.map.end)) {
        if (is_text(&at->region.map) || (is_generated(&at->region) && !is_generated(r)))
            return NULL;
    }
    struct space_runtimes *copy = malloc(size_of_runtimes());
    if (copy)
        memcpy(copy, found, size_of_runtimes());
    return copy;
}

static const struct space_runtimes *runtimes_of(const struct thread_context *p)
{
    struct address_space *space = p->space;
    struct space_runtimes *found = atomic_load_explicit(&space->runtimes, memory_order_acquire);
    if (!found) {
        struct space_runtimes *none = NULL;
        found = find_runtimes(space);
        if (found && !atomic_compare_exchange_strong(&space->runtimes, &none, found)) {
            free(found);
            found = none; /* from another thread, and equal */
        }
    }
    return found;
}

const struct runtime_instance *session_runtime(const struct thread_context *p,
                                               const struct runtime *rt, size_t *nr)
{
    const struct space_runtimes *found = runtimes_of(p);
    size_t i = runtime_index(rt);
    *nr = found ? found->of[i].nr : 0;
    return found ? found->of[i].at : NULL;
}

/* ---- VMs ----------------------------------------------------------------------------------- */

/* A mapping that holds a runtime's own code has no VMs in it. */
static bool holds_code(const struct session_vms *v, const struct mapping *m)
{
    bool holds = false;
    vec_foreach (i, &v->instances)
        holds |= i->start == m->start && i->runtime->code_start;
    return holds;
}

static bool note_range(struct session_vms *v, const struct mapping *m)
{
    const struct memory_range range = {m->start, m->end};
    if (m->prot & PROT_WRITE && !holds_code(v, m) && !vec_push(&v->writable, range))
        return false;
    return m->dso->kind == DSO_FILE || vec_push(&v->anonymous, range);
}

static int find_ranges(const struct thread_context *p, struct session_vms *v, struct error *err)
{
    bool ok = true;
    const struct mapping *m = session_mapping_next(p, 0);
    for (; m && ok; m = session_mapping_next(p, m->end)) {
        ok = note_range(v, m);
        if (m->end == UINT64_MAX)
            break;
    }
    return ok ? 0 : error_no_memory(err);
}

struct runtime_memory session_vms_memory(const struct session_vms *v, const struct memory *m)
{
    return (struct runtime_memory){.memory = m,
                                   .writable = v->writable.at,
                                   .nr_writable = v->writable.nr,
                                   .anonymous = v->anonymous.at,
                                   .nr_anonymous = v->anonymous.nr};
}

static int find_instances(const struct thread_context *p, struct session_vms *ret,
                          struct error *err)
{
    struct runtime_instance found;
    bool ok = true;
    for (size_t i = 0; i < nr_runtimes; i++) {
        const struct mapping *m = session_mapping_next(p, 0);
        for (; m && ok; m = session_mapping_next(p, m->end)) {
            if (session_runtime_in(m, runtimes[i], &found))
                ok = vec_push(&ret->instances, found);
            if (m->end == UINT64_MAX)
                break;
        }
    }
    return ok ? 0 : error_no_memory(err);
}

/* Returns the number of the instances from `first` on that are of the same runtime. */
static size_t nr_of_runtime(const struct session_vms *v, size_t first)
{
    size_t end = first;
    while (end < v->instances.nr && v->instances.at[end].runtime == v->instances.at[first].runtime)
        end++;
    return end - first;
}

int session_vms_find(const struct thread_context *p, const struct memory *m,
                     struct session_vms *ret, struct error *err)
{
    int failed = find_instances(p, ret, err);
    if (!failed && ret->instances.nr)
        failed = find_ranges(p, ret, err);
    const struct runtime_memory memory = session_vms_memory(ret, m);
    for (size_t i = 0, nr; i < ret->instances.nr && !failed; i += nr) {
        const struct runtime *rt = ret->instances.at[i].runtime;
        nr = nr_of_runtime(ret, i);
        if (rt->find_vms)
            failed = rt->find_vms(&memory, &ret->instances.at[i], nr, &ret->vms, err);
    }
    return failed;
}

void session_vms_free(struct session_vms *v)
{
    vec_free(&v->instances);
    vec_free(&v->vms);
    vec_free(&v->writable);
    vec_free(&v->anonymous);
}

int session_vms_census(const struct memory *m, const struct session_vms *v, runtime_vm_list *ret,
                       struct error *err)
{
    const struct runtime_memory memory = session_vms_memory(v, m);
    vec_foreach (vm, &v->vms) {
        const struct census_heap *census = vm->instance ? vm->instance->runtime->census : NULL;
        if (census && !census->find && !vec_push(ret, *vm))
            return error_no_memory(err);
    }
    for (size_t i = 0, nr; i < v->instances.nr; i += nr) {
        const struct census_heap *census = v->instances.at[i].runtime->census;
        nr = nr_of_runtime(v, i);
        if (census && census->find && census->find(&memory, &v->instances.at[i], nr, ret, err))
            return -1;
    }
    return 0;
}

/* Of a runtime without VMs, one instance speaks for all: its objects are in the one heap. */
static int list_objects_of(const struct runtime_memory *m, const struct session_vms *v,
                           const struct runtime_instance *at, runtime_add_object *add,
                           void *context, struct error *err)
{
    runtime_vm_list vms = {0};
    bool ok = true;
    vec_foreach (vm, &v->vms)
        ok = ok && (vm->instance != at || vec_push(&vms, *vm));
    int failed = ok ? at->runtime->list_objects(m, at, vms.at, vms.nr, add, context, err)
                    : error_no_memory(err);
    vec_free(&vms);
    return failed;
}

int session_vms_list_objects(const struct memory *m, const struct session_vms *v,
                             runtime_add_object *add, void *context, struct error *err)
{
    const struct runtime_memory memory = session_vms_memory(v, m);
    int failed = 0;
    for (size_t i = 0; i < v->instances.nr && !failed; i++) {
        const struct runtime *rt = v->instances.at[i].runtime;
        bool again = i && !rt->find_vms && v->instances.at[i - 1].runtime == rt;
        if (rt->list_objects && !again)
            failed = list_objects_of(&memory, v, &v->instances.at[i], add, context, err);
    }
    return failed;
}
