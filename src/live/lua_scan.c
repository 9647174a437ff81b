/* SPDX-License-Identifier: GPL-2.0-only */
/* Find the Lua VMs of a live process. See lua_scan.h. */
#include "live/lua_scan.h"

#include "base/text.h"
#include "live/runtime_files.h"
#include "unwind/luajit/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- reading a process ------------------------------------------------------------------- */

struct process_memory {
    int fd;
};

int process_memory_open(pid_t pid, struct process_memory **ret, struct error *err)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/mem", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && (errno == EACCES || errno == EPERM))
        return error_system(err, errno,
                            "%s: only the process's user can read it, with CAP_SYS_PTRACE where "
                            "kernel.yama.ptrace_scope is not 0",
                            path);
    if (fd < 0)
        return error_system(err, errno, "%s", path);
    struct process_memory *p = malloc(sizeof(*p));
    if (!p) {
        close(fd);
        return error_no_memory(err);
    }
    p->fd = fd;
    *ret = p;
    return 0;
}

void process_memory_close(struct process_memory *p)
{
    if (!p)
        return;
    close(p->fd);
    free(p);
}

bool process_memory_read(const struct process_memory *p, uint64_t address, void *to, size_t size)
{
    char *at = to;
    if (size > INT64_MAX || address > INT64_MAX - size)
        return false;
    while (size) {
        ssize_t n = pread(p->fd, at, size, (off_t)address);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        address += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

static bool layer_read(void *context, const struct memory_query *q, void *to,
                       struct memory_answer *answer)
{
    if (!process_memory_read(context, q->address, to, q->size))
        return false;
    answer->provenance = PROVENANCE_STALE;
    return true;
}

struct memory_layer process_memory_layer(struct process_memory *p)
{
    return (struct memory_layer){.name = "live", .read = layer_read, .context = p};
}

/* ---- files ------------------------------------------------------------------------------- */

static int look_at_map(struct runtime_files *files, pid_t pid, const struct process_map *map,
                       unsigned *holds, lua_scan_blob_list *ret, struct error *err)
{
    struct runtime_file f;
    if (!(map->prot & PROT_EXEC) || !map->inode || map->path[0] != '/')
        return 0;
    if (runtime_files_look(files, pid, map, &f, err) < 0)
        return -1;
    *holds |= f.holds;
    size_t number = runtime_index(&luajit_runtime);
    const struct luajit_layout *layout = f.layouts[number];
    uint64_t offset = f.code_offset[number], into = offset - map->pgoff;
    if (!ret || !layout || offset < map->pgoff || into >= map->end - map->start)
        return 0;
    return vec_push(ret, (struct luajit_blob){layout, map->start + into}) ? 0
                                                                          : error_no_memory(err);
}

bool lua_scan_is_generated(const char *path)
{
    return !path[0] || !strncmp(path, "//anon", 6) || !strncmp(path, "/memfd:", 7) ||
           !strncmp(path, "/dev/shm/", 9) || !strncmp(path, "[anon:", 6) ||
           path[text_undeleted(path)];
}

static int blobs_of(struct runtime_files *files, pid_t pid, const struct process_maps *maps,
                    unsigned *holds, lua_scan_blob_list *ret, struct error *err)
{
    *holds = 0;
    vec_foreach (map, &maps->maps) {
        if (lua_scan_is_generated(map->path) && map->prot & PROT_EXEC)
            *holds |= HOLDS_GENERATED;
        if (look_at_map(files, pid, map, holds, ret, err) < 0)
            return -1;
    }
    return 0;
}

int lua_scan_look(struct runtime_files *files, pid_t pid, unsigned *holds, lua_scan_blob_list *ret,
                  struct error *err)
{
    struct process_maps maps;
    if (process_maps_read(pid, &maps, err) < 0)
        return -1;
    int failed = blobs_of(files, pid, &maps, holds, ret, err);
    process_maps_free(&maps);
    return failed;
}

int lua_scan_blobs(struct runtime_files *files, pid_t pid, lua_scan_blob_list *ret,
                   struct error *err)
{
    unsigned ignored;
    return lua_scan_look(files, pid, &ignored, ret, err);
}

/* ---- VMs --------------------------------------------------------------------------------- */

/* Try several sizes of lua_State, since forks of LuaJIT differ in it. */
uint64_t lua_scan_main_state(const struct memory *m, const struct luajit_vm *vm)
{
    enum { STATE_MAX = 0x100 };
    enum provenance ignored = PROVENANCE_EXACT;
    for (uint64_t size = (uint64_t)vm->layout->L_used; size <= STATE_MAX; size += 8) {
        if (luajit_state_check(m, vm, vm->g - size, &ignored))
            return vm->g - size;
    }
    return 0;
}

struct lua_scan_job {
    struct process_memory *memory; /* NULL: the process has no LuaJIT */
    lua_scan_blob_list blobs;
    lua_scan_range_list ranges;
    size_t at; /* index of the next range */
    luajit_vm_list found;
};

enum {
    PAGE = 4096,
    OVERLAP = 2 * PAGE, /* bytes: a dispatch table is shorter, so none is missed between pieces */
    PIECE = 256 << 10,  /* bytes of a range that are searched at once */
    PAGEMAP_AT_ONCE = 512,
};

/* Append a run of present pages, cut into pieces. */
static bool push_run(lua_scan_range_list *ranges, uint64_t start, uint64_t end)
{
    for (; end - start > PIECE + OVERLAP; start += PIECE) {
        if (!vec_push(ranges, (struct memory_range){start, start + PIECE + OVERLAP}))
            return false;
    }
    return start == end || vec_push(ranges, (struct memory_range){start, end});
}

/* Append the pages of a mapping that were ever written. They are present or swapped out (bits 63
 * and 62 of their entries, Documentation/admin-guide/mm/pagemap.rst). Reading the other pages,
 * which are nearly all of a thread's stack, would only make the kernel return zeros. */
static bool push_mapping(lua_scan_range_list *ranges, const struct process_map *map, int pagemap)
{
    uint64_t entries[PAGEMAP_AT_ONCE], run = 0;
    for (uint64_t page = map->start; page < map->end;) {
        size_t nr =
            (map->end - page) / PAGE < PAGEMAP_AT_ONCE ? (map->end - page) / PAGE : PAGEMAP_AT_ONCE;
        if (pagemap < 0 ||
            pread(pagemap, entries, nr * 8, (off_t)(page / PAGE * 8)) != (ssize_t)(nr * 8))
            return push_run(ranges, run ? run : page, map->end);
        for (size_t i = 0; i < nr; i++, page += PAGE) {
            bool there = entries[i] >> 62;
            if (there && !run)
                run = page;
            if (there || !run)
                continue;
            if (!push_run(ranges, run, page))
                return false;
            run = 0;
        }
    }
    return !run || push_run(ranges, run, map->end);
}

static int pagemap_open(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Find the memory that may hold a VM: heaps, anonymous mappings and data. Shared memory and files
 * that are not mapped privately hold none. */
static int find_ranges(lua_scan_range_list *ret, pid_t pid, const struct process_maps *maps,
                       struct error *err)
{
    bool ok = true;
    int pagemap = pagemap_open(pid);
    vec_foreach (map, &maps->maps) {
        bool is_candidate = (map->prot & (PROT_READ | PROT_WRITE)) == (PROT_READ | PROT_WRITE) &&
                            !map->shared && map->path[0] != '[';
        bool is_heap = strcmp(map->path, "[heap]") == 0 || strncmp(map->path, "[anon", 5) == 0;
        if (ok && (is_candidate || is_heap))
            ok = push_mapping(ret, map, pagemap);
    }
    if (pagemap >= 0)
        close(pagemap);
    return ok ? 0 : error_no_memory(err);
}

int lua_scan_ranges(pid_t pid, lua_scan_range_list *ret, struct error *err)
{
    struct process_maps maps;
    bool ok = true;
    if (process_maps_read(pid, &maps, err) < 0)
        return -1;
    int pagemap = pagemap_open(pid);
    vec_foreach (map, &maps.maps) {
        bool is_candidate = map->prot & PROT_READ && !map->shared &&
                            (!map->path[0] || strncmp(map->path, "[anon", 5) == 0);
        if (ok && is_candidate)
            ok = push_mapping(ret, map, pagemap);
    }
    if (pagemap >= 0)
        close(pagemap);
    process_maps_free(&maps);
    return ok ? 0 : error_no_memory(err);
}

int lua_scan_heap(pid_t pid, lua_scan_range_list *ret, struct error *err)
{
    struct process_maps maps;
    if (process_maps_read(pid, &maps, err) < 0)
        return -1;
    int failed = find_ranges(ret, pid, &maps, err);
    process_maps_free(&maps);
    return failed;
}

int lua_scan_begin(struct runtime_files *files, pid_t pid, struct lua_scan_job **ret,
                   struct error *err)
{
    struct process_maps maps;
    struct lua_scan_job *job = calloc(1, sizeof(*job));
    if (!job)
        return error_no_memory(err);
    if (process_maps_read(pid, &maps, err) < 0) {
        free(job);
        return -1;
    }
    unsigned ignored;
    int failed = blobs_of(files, pid, &maps, &ignored, &job->blobs, err);
    if (!failed && job->blobs.nr)
        failed = process_memory_open(pid, &job->memory, err);
    if (!failed && job->blobs.nr)
        failed = find_ranges(&job->ranges, pid, &maps, err);
    process_maps_free(&maps);
    if (failed) {
        lua_scan_end(job);
        return -1;
    }
    *ret = job;
    return 0;
}

void lua_scan_end(struct lua_scan_job *job)
{
    if (!job)
        return;
    process_memory_close(job->memory);
    vec_free(&job->blobs);
    vec_free(&job->ranges);
    vec_free(&job->found);
    free(job);
}

int lua_scan_step(struct lua_scan_job *job, uint64_t budget, lua_scan_vm_list *ret,
                  struct error *err)
{
    const struct memory_layer layer = process_memory_layer(job->memory);
    const struct memory m = {.layers = &layer, .nr_layers = 1};
    size_t from = job->at, known = job->found.nr;
    for (uint64_t bytes = 0; job->at < job->ranges.nr && bytes < budget; job->at++)
        bytes += job->ranges.at[job->at].end - job->ranges.at[job->at].start;
    if (job->at == from)
        return job->at < job->ranges.nr;
    if (luajit_vms_find(&m, job->ranges.at + from, job->at - from, job->blobs.at, job->blobs.nr,
                        &job->found, err) < 0)
        return -1;
    for (size_t i = known; i < job->found.nr; i++) {
        const struct luajit_vm *vm = &job->found.at[i];
        if (!vec_push(ret, (struct lua_scan_vm){*vm, lua_scan_main_state(&m, vm)}))
            return error_no_memory(err);
    }
    return job->at < job->ranges.nr;
}

int lua_scan_process(struct runtime_files *files, pid_t pid, lua_scan_vm_list *ret,
                     struct error *err)
{
    struct lua_scan_job *job;
    if (lua_scan_begin(files, pid, &job, err) < 0)
        return -1;
    int failed = lua_scan_step(job, UINT64_MAX, ret, err);
    lua_scan_end(job);
    return failed;
}
