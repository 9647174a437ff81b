/* SPDX-License-Identifier: GPL-2.0-only */
/* A process that is watched while it runs. See live_process.h. */
#include "live/live_process.h"

#include "base/proc.h"
#include "live/lua_scan.h"

#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>

static int tell_map(struct live_process *p, const struct process_map *map, bool by_root,
                    struct error *err)
{
    char path[PATH_MAX + 64], live[64];
    struct record_mmap mm = {.pid = (uint32_t)p->pid,
                             .tid = (uint32_t)p->pid,
                             .addr = map->start,
                             .len = map->end - map->start,
                             .pgoff = map->pgoff,
                             .prot = map->prot,
                             .flags = map->shared ? MAP_SHARED : MAP_PRIVATE,
                             .live_path = process_map_live_path(p->pid, map, live, sizeof(live)),
                             .filename = map->path[0] ? map->path : "//anon"};
    if (by_root && map->path[0] == '/') {
        snprintf(path, sizeof(path), "/proc/%d/root%s", p->pid, map->path);
        mm.filename = path;
    }
    return session_map(p->session, &mm, 0, err);
}

int live_process_learn(struct live_process *p, struct dsos *dsos, struct error *err)
{
    const struct session_options no_jit = {.no_jit = true};
    struct process_maps maps;
    if (p->session)
        return 0;
    if (process_maps_read(p->pid, &maps, &p->problem) < 0) {
        p->failed = true;
        return 0;
    }
    bool by_root = proc_is_apart((uint32_t)p->pid, "mnt"); /* it sees other files than we do */
    int failed = session_create(NULL, dsos, &no_jit, &p->session, err);
    vec_foreach (map, &maps.maps) {
        if (!failed && (map->prot & PROT_EXEC || map->path[0] == '/'))
            failed = tell_map(p, map, by_root, err);
    }
    if (!failed)
        failed = session_context(p->session, (uint32_t)p->pid, (uint32_t)p->pid, &p->thread, err);
    if (failed) {
        session_free(p->session);
        p->session = NULL;
    }
    process_maps_free(&maps);
    return failed;
}

void live_process_forget(struct live_process *p)
{
    if (!p->session)
        return;
    thread_context_release(&p->thread);
    session_free(p->session);
    p->session = NULL;
}

int live_process_open(struct live_process *p, const struct log_sink *sink)
{
    struct process_memory *memory;
    if (p->objects)
        return 0;
    if (process_memory_open(p->pid, &memory, &p->problem) < 0 ||
        object_log_create(p->pid, memory, sink, &p->objects, &p->problem) < 0) {
        p->failed = true;
        return -1;
    }
    return 0;
}

int live_process_pass(struct live_process *p, size_t budget, struct error *err)
{
    return p->objects ? object_log_pass(p->objects, budget, err) : 0;
}

int live_process_flush(struct live_process *p, struct error *err)
{
    return p->objects ? object_log_flush(p->objects, err) : 0;
}

void live_process_rewrite(struct live_process *p)
{
    if (p->objects)
        object_log_rewrite(p->objects);
}

void live_process_free(struct live_process *p)
{
    live_process_forget(p);
    object_log_free(p->objects);
    p->objects = NULL;
}
