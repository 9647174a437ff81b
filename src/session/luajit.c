/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * LuaJIT interpreters and V8 in an address space. Files are looked into only if there is executable
 * memory without a file, in which traces and callbacks run. Without it, the code map alone says
 * whether a frame is an interpreter's.
 */
#include "session/session_internal.h"

#include <stdlib.h>
#include <sys/mman.h>

static bool is_generated(const struct region *r)
{
    return r->anonymous && r->map.prot & PROT_EXEC;
}

/* Returns whether a mapping is a file's code, where interpreters are. */
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

bool session_luajit_in(const struct mapping *m, struct luajit_blob *ret)
{
    uint64_t vaddr;
    if (!is_text(m) || !dso_offset_to_vaddr(m->dso, m->pgoff, &vaddr))
        return false;
    const struct luajit_layout *l = cfi_luajit(dso_cfi(m->dso));
    if (!l || l->blob - vaddr >= m->end - m->start)
        return false;
    *ret = (struct luajit_blob){.layout = l, .address = m->start + (l->blob - vaddr)};
    return true;
}

const struct v8_layout *session_v8_of_files(const struct thread_context *p)
{
    const struct address_space *space = p->space;
    const struct region_slot *at = regions_next(space->regions, 0);
    for (; at; at = regions_next(space->regions, at->region.map.end)) {
        const struct mapping *m = &at->region.map;
        const struct v8_layout *found = is_text(m) ? cfi_v8(dso_cfi(m->dso)) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

static struct space_luajit *find_blobs(const struct address_space *space)
{
    struct space_luajit *found = calloc(1, sizeof(*found));
    if (!found || !(found->generated = has_generated_code(space)))
        return found;
    const struct region_slot *at = regions_next(space->regions, 0);
    for (; at && found->nr < SPACE_LUAJIT_MAX;
         at = regions_next(space->regions, at->region.map.end)) {
        const struct mapping *m = &at->region.map;
        if (session_luajit_in(m, &found->blobs[found->nr]))
            found->nr++;
        if (!found->v8 && is_text(m))
            found->v8 = cfi_v8(dso_cfi(m->dso));
    }
    return found;
}

void space_luajit_forget(struct address_space *space)
{
    free(atomic_exchange(&space->luajit, NULL));
}

/* A process that generates code maps and protects memory all the time. Memory without a file
 * changes nothing but whether there is generated code at all. */
struct space_luajit *space_luajit_beside(const struct address_space *space, const struct region *r)
{
    const struct space_luajit *found = atomic_load_explicit(&space->luajit, memory_order_acquire);
    if (!found || is_text(&r->map) || (is_generated(r) && !found->generated))
        return NULL;
    const struct region_slot *at = regions_next(space->regions, r->map.start);
    for (; at && at->region.map.start < r->map.end;
         at = regions_next(space->regions, at->region.map.end)) {
        if (is_text(&at->region.map) || (is_generated(&at->region) && !is_generated(r)))
            return NULL;
    }
    struct space_luajit *copy = malloc(sizeof(*copy));
    if (copy)
        *copy = *found;
    return copy;
}

static const struct space_luajit *space_has_managed_code(const struct thread_context *p)
{
    struct address_space *space = p->space;
    struct space_luajit *found = atomic_load_explicit(&space->luajit, memory_order_acquire);
    if (!found) {
        struct space_luajit *none = NULL;
        found = find_blobs(space);
        if (found && !atomic_compare_exchange_strong(&space->luajit, &none, found)) {
            free(found);
            found = none; /* from another thread, and equal */
        }
    }
    return found;
}

const struct luajit_blob *session_luajit(const struct thread_context *p, size_t *nr)
{
    const struct space_luajit *found = space_has_managed_code(p);
    *nr = found ? found->nr : 0;
    return found ? found->blobs : NULL;
}

const struct v8_layout *session_v8(const struct thread_context *p)
{
    const struct space_luajit *found = space_has_managed_code(p);
    return found ? found->v8 : NULL;
}
