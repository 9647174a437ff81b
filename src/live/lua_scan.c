/* SPDX-License-Identifier: GPL-2.0-only */
/* Find the Lua VMs of a live process. See lua_scan.h. */
#include "live/lua_scan.h"

#include "base/proc.h"
#include "base/text.h"
#include "live/runtime_files.h"
#include "unwind/luajit/runtime.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- reading a process ------------------------------------------------------------------- */

struct process_memory {
    int fd;
};

int process_memory_open(pid_t pid, struct process_memory **ret, struct error *err)
{
    int fd = proc_open(pid, "mem");
    if (fd < 0 && (errno == EACCES || errno == EPERM))
        return error_system(err, errno,
                            "/proc/%d/mem: only the process's user can read it, with "
                            "CAP_SYS_PTRACE where kernel.yama.ptrace_scope is not 0",
                            (int)pid);
    if (fd < 0)
        return error_system(err, errno, "/proc/%d/mem", (int)pid);
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

enum {
    OVERLAP = 8 << 10, /* bytes: a dispatch table is shorter, so none is missed between pieces */
    PIECE = 256 << 10, /* bytes of a range that are searched at once */
    PAGEMAP_AT_ONCE = 512,
    REGIONS_AT_ONCE = 64,
};

/* Larger mappings are not searched where the kernel cannot skip what was never written. Looking at
 * each page of a mapping of 10 TB took 55 s. */
static const uint64_t MAPPING_MAX = UINT64_C(64) << 30;

/* ---- pages that were ever written ---------------------------------------------------------- */

/* Finds runs of pages, in one mapping after the other. */
struct page_finder {
    int pagemap;             /* -1: it cannot be read, so all pages count */
    uint64_t page;           /* bytes of a page of the kernel */
    bool skips;              /* the kernel can skip pages that were never written */
    uint64_t at, end;        /* the rest of the mapping */
    uint64_t run, run_end;   /* found last, not appended yet; 0: none */
    lua_scan_range_list *to; /* receives the runs */
};

/* PAGEMAP_SCAN of Linux 6.7 (Documentation/admin-guide/mm/pagemap.rst). */
struct scanned_region {
    uint64_t start, end, categories;
};
struct scan_argument {
    uint64_t size, flags, start, end, walk_end, regions, nr_regions, max_pages;
    uint64_t inverted, all_of, any_of, returned;
};
enum { SCAN_PRESENT = 1 << 3, SCAN_SWAPPED = 1 << 4, SCAN_ANY = SCAN_PRESENT | SCAN_SWAPPED };

static long scan(int pagemap, uint64_t start, uint64_t end, uint64_t *walk_end,
                 struct scanned_region regions[REGIONS_AT_ONCE])
{
    struct scan_argument a = {.size = sizeof(a),
                              .start = start,
                              .end = end,
                              .regions = (uintptr_t)regions,
                              .nr_regions = REGIONS_AT_ONCE,
                              .any_of = SCAN_ANY,
                              .returned = SCAN_ANY};
    long nr = ioctl(pagemap, _IOWR('f', 16, struct scan_argument), &a);
    *walk_end = a.walk_end;
    return nr;
}

static struct page_finder finder_open(pid_t pid, lua_scan_range_list *to)
{
    uint64_t ignored;
    struct scanned_region regions[REGIONS_AT_ONCE];
    int fd = proc_open(pid, "pagemap");
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (struct page_finder){.pagemap = fd,
                                .page = page,
                                .skips = fd >= 0 && scan(fd, 0, page, &ignored, regions) >= 0,
                                .to = to};
}

static void finder_close(struct page_finder *f)
{
    if (f->pagemap >= 0)
        close(f->pagemap);
    f->pagemap = -1;
}

/* Append a run of pages, cut into pieces. */
static bool push_run(lua_scan_range_list *ranges, uint64_t start, uint64_t end)
{
    for (; end - start > PIECE + OVERLAP; start += PIECE) {
        if (!vec_push(ranges, (struct memory_range){start, start + PIECE + OVERLAP}))
            return false;
    }
    return start == end || vec_push(ranges, (struct memory_range){start, end});
}

static bool end_run(struct page_finder *f)
{
    bool ok = !f->run || push_run(f->to, f->run, f->run_end);
    f->run = f->run_end = 0;
    return ok;
}

static bool take_pages(struct page_finder *f, uint64_t start, uint64_t end)
{
    bool ok = true;
    if (f->run && start == f->run_end) {
        f->run_end = end;
        return true;
    }
    ok = end_run(f);
    f->run = start;
    f->run_end = end;
    return ok;
}

/* Look at the next pages of the mapping, one by one: bits 63 and 62 of an entry say that a page is
 * present or swapped out (pagemap.rst). Reading the other pages, which are nearly all of a thread's
 * stack, would only make the kernel return zeros. Returns false when memory is out. */
static bool look_at_pages(struct page_finder *f)
{
    uint64_t entries[PAGEMAP_AT_ONCE], left = (f->end - f->at) / f->page;
    size_t nr = left < PAGEMAP_AT_ONCE ? left : PAGEMAP_AT_ONCE, size = nr * sizeof(*entries);
    bool ok = true;
    if (f->pagemap < 0 ||
        pread(f->pagemap, entries, size, (off_t)(f->at / f->page * 8)) != (ssize_t)size) {
        ok = take_pages(f, f->at, f->end);
        f->at = f->end;
        return ok;
    }
    for (size_t i = 0; i < nr && ok; i++, f->at += f->page)
        ok = !(entries[i] >> 62) || take_pages(f, f->at, f->at + f->page);
    return ok;
}

/* The same by the kernel's own search. */
static bool look_at_regions(struct page_finder *f)
{
    struct scanned_region regions[REGIONS_AT_ONCE];
    uint64_t walk_end;
    long nr = scan(f->pagemap, f->at, f->end, &walk_end, regions);
    bool ok = true;
    if (nr < 0 || walk_end <= f->at) {
        f->skips = false;
        return look_at_pages(f);
    }
    for (long i = 0; i < nr && ok; i++)
        ok = take_pages(f, regions[i].start, regions[i].end);
    f->at = walk_end < f->end ? walk_end : f->end;
    return ok;
}

static bool look(struct page_finder *f)
{
    bool ok = f->skips ? look_at_regions(f) : look_at_pages(f);
    return ok && (f->at < f->end || end_run(f));
}

/* Begin a mapping; false: it is too large to look at each of its pages. */
static bool begin_mapping(struct page_finder *f, uint64_t start, uint64_t end)
{
    f->at = start;
    f->end = f->skips || end - start <= MAPPING_MAX ? end : start;
    return f->end == end;
}

/* ---- the memory that is searched ----------------------------------------------------------- */

/* May the mapping hold a VM? Heaps, anonymous mappings and data may. Shared memory and files that
 * are not mapped privately hold none. */
static bool may_hold_vm(const struct process_map *map)
{
    bool is_candidate = (map->prot & (PROT_READ | PROT_WRITE)) == (PROT_READ | PROT_WRITE) &&
                        !map->shared && map->path[0] != '[';
    return is_candidate || strcmp(map->path, "[heap]") == 0 || strncmp(map->path, "[anon", 5) == 0;
}

static bool may_hold_objects(const struct process_map *map)
{
    return map->prot & PROT_READ && !map->shared &&
           (!map->path[0] || strncmp(map->path, "[anon", 5) == 0);
}

/* Find all pages of such mappings. */
static int find_ranges(pid_t pid, bool (*wanted)(const struct process_map *),
                       lua_scan_range_list *ret, struct error *err)
{
    struct process_maps maps;
    bool ok = true;
    if (process_maps_read(pid, &maps, err) < 0)
        return -1;
    struct page_finder f = finder_open(pid, ret);
    vec_foreach (map, &maps.maps) {
        if (!ok || !wanted(map) || !begin_mapping(&f, map->start, map->end))
            continue;
        while (ok && f.at < f.end)
            ok = look(&f);
    }
    finder_close(&f);
    process_maps_free(&maps);
    return ok ? 0 : error_no_memory(err);
}

int lua_scan_ranges(pid_t pid, lua_scan_range_list *ret, struct error *err)
{
    return find_ranges(pid, may_hold_objects, ret, err);
}

int lua_scan_heap(pid_t pid, lua_scan_range_list *ret, struct error *err)
{
    return find_ranges(pid, may_hold_vm, ret, err);
}

/* ---- searching in steps -------------------------------------------------------------------- */

struct lua_scan_job {
    struct process_memory *memory; /* NULL: the process has no LuaJIT */
    lua_scan_blob_list blobs;
    lua_scan_range_list mappings; /* to be looked at */
    size_t mapping;               /* index of the next mapping */
    struct page_finder finder;
    lua_scan_range_list ranges; /* to be searched */
    size_t at;                  /* index of the next range */
    luajit_vm_list found;
    uint64_t left_out; /* bytes of mappings that are too large */
};

static int begin_ranges(struct lua_scan_job *job, pid_t pid, const struct process_maps *maps,
                        struct error *err)
{
    job->finder = finder_open(pid, &job->ranges);
    vec_foreach (map, &maps->maps)
        if (may_hold_vm(map) &&
            !vec_push(&job->mappings, (struct memory_range){map->start, map->end}))
            return error_no_memory(err);
    return 0;
}

/* Find ranges to search, if none are left, for the cost of at most so many pages. A page's entry
 * costs about what some 64 bytes of memory cost. Returns what it did cost, in bytes; -1: memory is
 * out. */
static int64_t find_more(struct lua_scan_job *job, uint64_t budget)
{
    enum { PAGE_COST = 64, LOOK_COST = PAGEMAP_AT_ONCE * PAGE_COST };
    struct page_finder *f = &job->finder;
    uint64_t cost = 0;
    job->ranges.nr = job->at = 0;
    for (; cost < budget && !job->ranges.nr; cost += LOOK_COST) {
        while (f->at == f->end && job->mapping < job->mappings.nr) {
            const struct memory_range *m = &job->mappings.at[job->mapping++];
            if (!begin_mapping(f, m->start, m->end))
                job->left_out += m->end - m->start;
        }
        if (f->at == f->end)
            break;
        if (!look(f))
            return -1;
    }
    return (int64_t)cost;
}

int lua_scan_begin(struct runtime_files *files, pid_t pid, struct lua_scan_job **ret,
                   struct error *err)
{
    struct process_maps maps;
    struct lua_scan_job *job = calloc(1, sizeof(*job));
    if (!job)
        return error_no_memory(err);
    job->finder.pagemap = -1;
    if (process_maps_read(pid, &maps, err) < 0) {
        free(job);
        return -1;
    }
    unsigned ignored;
    int failed = blobs_of(files, pid, &maps, &ignored, &job->blobs, err);
    if (!failed && job->blobs.nr)
        failed = process_memory_open(pid, &job->memory, err);
    if (!failed && job->blobs.nr)
        failed = begin_ranges(job, pid, &maps, err);
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
    finder_close(&job->finder);
    vec_free(&job->blobs);
    vec_free(&job->mappings);
    vec_free(&job->ranges);
    vec_free(&job->found);
    free(job);
}

/* Returns whether anything is left to look at or to search. */
static bool is_left(const struct lua_scan_job *job)
{
    return job->at < job->ranges.nr || job->finder.at < job->finder.end ||
           job->mapping < job->mappings.nr;
}

static int search(struct lua_scan_job *job, size_t from, lua_scan_vm_list *ret, struct error *err)
{
    const struct memory_layer layer = process_memory_layer(job->memory);
    const struct memory m = {.layers = &layer, .nr_layers = 1};
    size_t known = job->found.nr;
    if (luajit_vms_find(&m, job->ranges.at + from, job->at - from, job->blobs.at, job->blobs.nr,
                        &job->found, err) < 0)
        return -1;
    for (size_t i = known; i < job->found.nr; i++) {
        const struct luajit_vm *vm = &job->found.at[i];
        if (!vec_push(ret, (struct lua_scan_vm){*vm, lua_scan_main_state(&m, vm)}))
            return error_no_memory(err);
    }
    return 0;
}

int lua_scan_step(struct lua_scan_job *job, uint64_t budget, lua_scan_vm_list *ret,
                  struct error *err)
{
    for (uint64_t spent = 0; spent < budget && is_left(job);) {
        int64_t cost = job->at == job->ranges.nr ? find_more(job, budget - spent) : 0;
        if (cost < 0)
            return error_no_memory(err);
        spent += (uint64_t)cost;
        size_t from = job->at;
        for (; job->at < job->ranges.nr && spent < budget; job->at++)
            spent += job->ranges.at[job->at].end - job->ranges.at[job->at].start;
        if (job->at > from && search(job, from, ret, err) < 0)
            return -1;
    }
    return is_left(job);
}

uint64_t lua_scan_left_out(const struct lua_scan_job *job)
{
    return job->left_out;
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
