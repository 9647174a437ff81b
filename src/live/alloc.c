/* SPDX-License-Identifier: GPL-2.0-only */
/* Allocations of memory. See alloc.h. */
#include "live/alloc.h"

#include "base/clock.h"
#include "base/first_line.h"
#include "base/proc.h"
#include "base/process_maps.h"
#include "base/table.h"
#include "base/vec.h"
#include "live/alloc_burst.h"
#include "live/alloc_record.h"
#include "live/alloc_usdt.h"
#include "live/alloc_v8.h"
#include "live/bpf_load.h"
#include "live/mem_writer.h"
#include "perfdata/vmevent.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LOOK_EVERY_MS = 20, /* between two looks at the costs */
    WINDOW_MS = 10000,  /* in which these count; then from anew */
    QUIET_BURSTS = 25,  /* in which there must be few calls, until functions are probed again */
    QUIET_BURSTS_MOST = 1500,
    USDT_MS = 1000, /* after which an allocator's own probes that were not hit are given up */
    BURST_MEAN_FIRST = 4096, /* bytes between samples in the first burst */
    V8_BURST_MEAN_FIRST = 1 << 17,
    TAX_MOST = 10, /* percent of a cpu, or of the processes' own time, that all probes may take */
    /* Of linux/bpf.h, which is older on some machines. */
    TRACE_UPROBE_SESSION = 57, /* BPF_TRACE_UPROBE_SESSION, since Linux 6.13 */
};

/* Functions that are probed as long as that does not cost too much. */
enum group {
    GROUP_MALLOC, /* hit often */
    GROUP_LUA,    /* LuaJIT's allocators: very often */
    GROUP_V8,     /* of V8's heap: for many objects at once */
    GROUPS,
    GROUP_KEPT = GROUPS, /* of memory that V8's objects own: seldom */
    GROUP_USDT,          /* probes of the allocator's own */
    GROUP_COLLECTS,      /* of V8's collections: as long as GROUP_V8 is probed */
    GROUP_ENDS,          /* of the end of V8's heaps */
};

static const struct group_of_functions {
    uint64_t shape; /* a bit that only its functions have; 0: the group stays removed */
    /* Of the time (as TAX_MOST), percent, and what traps may take beyond it within WINDOW_MS, ms: a
     * start allocates a lot. */
    unsigned tax_most, moment;
    unsigned tax_of_bursts;           /* the same in bursts; 0: these are as short as can be */
    unsigned samples;                 /* that a burst is to give */
    enum vmstack_counter calls, seen; /* counters: of calls, all the time, and in bursts */
    enum vmstack_counter burst_bytes; /* the same of bytes, in bursts */
    const char *whose, *as;           /* for messages */
} groups[GROUPS] = {
    [GROUP_MALLOC] = {.tax_most = TAX_MOST,
                      .moment = 300,
                      .samples = 16,
                      .calls = ALLOC_CALLS,
                      .seen = ALLOC_CALLS,
                      .burst_bytes = ALLOC_BURST_BYTES,
                      .whose = "malloc and its like",
                      .as = "malloc-bursts, without frees"},
    [GROUP_LUA] = {.shape = ALLOC_OF_LUA,
                   .tax_most = TAX_MOST,
                   .moment = 300,
                   .samples = 16,
                   .calls = ALLOC_LUA_CALLS,
                   .seen = ALLOC_LUA_SEEN,
                   .burst_bytes = ALLOC_BURST_BYTES,
                   .whose = "LuaJIT's allocator",
                   .as = "lua-heap; what it had allocated is not followed any more"},
    [GROUP_V8] = {.shape = ALLOC_OF_V8,
                  .tax_most = 5,
                  .moment = 50,
                  .tax_of_bursts = 2,
                  .samples = 64,
                  .calls = ALLOC_V8_CALLS,
                  .seen = ALLOC_V8_SEEN,
                  .burst_bytes = ALLOC_V8_IN_BURST,
                  .whose = "V8's functions for its heap",
                  .as = "js-bursts; objects from before are not followed any more"},
};

/* Returns the group with which one is removed. */
static enum group leader_of(enum group group)
{
    return group == GROUP_COLLECTS ? GROUP_V8 : group;
}

struct probe_link {
    int fd; /* of an event, or of a link */
    enum group group;
};

/* Whether an allocator's own probes speak. */
enum usdt_state { USDT_NONE, USDT_WAITS, USDT_SPEAKS, USDT_SILENT };

struct probed_process {
    pid_t pid;
    enum usdt_state usdt;
    uint64_t usdt_since; /* CLOCK_MONOTONIC ns; 0: not recorded yet */
    VEC(struct alloc_function) functions;
    VEC(struct probe_link) links;
    struct alloc_v8_process v8;
};

/* What had been when costs began to be counted. */
struct costs {
    uint64_t began; /* CLOCK_MONOTONIC ns */
    uint64_t cpu, calls[GROUPS];
};

struct alloc {
    struct copier *copier;
    struct bpf_loaded loaded;
    struct bpf_loaded collector; /* the program that sees V8's collections */
    char no_collector[200];      /* why there is none; empty: it is loaded */
    struct alloc_form form;
    struct alloc_settings settings;
    bool sessions; /* one program sees entries and returns */
    bool force;
    bool removed[GROUPS];   /* their probes cost too much, and are no more */
    bool says_end;          /* the recording is to be told so */
    uint32_t v8_said;       /* bits of states (enum alloc_v8_state) that the user was told */
    int uprobe_type;        /* of the kernel's events for probes; without sessions */
    struct table processes; /* pid + 1 -> struct probed_process */
    VEC(int) fds;           /* events */
    VEC(uint64_t) ids;
    uint64_t virtual_ids[ALLOC_KINDS];
    uint64_t cost;              /* ns that a trap takes */
    struct costs costs, window; /* from the beginning; of the last seconds */
    uint64_t looked;
    struct {
        unsigned bursts, wanted; /* that were made, and that are wanted */
        uint64_t seen;           /* calls before them */
    } quiet[GROUPS];
    struct {
        struct alloc_burst *of;
        uint64_t ns;    /* that the next one takes */
        uint64_t bytes; /* that were seen in all but the last one */
    } bursts[GROUPS];
    VEC(uint64_t) lapsed;         /* serial numbers of blocks whose frees are not seen any more */
    VEC(struct alloc_usdt) usdts; /* in alloc_usdts, by their numbers */
    uint64_t functions;           /* that were probed */
    uint64_t gone;                /* mappings that were no more when they were to be probed */
    double tax;                   /* at the last look, percent */
    char line[500];
    uint8_t record[MEM_RECORD_MAX];
};

/* ---- loading ------------------------------------------------------------------------------- */

static int program_named(const struct alloc *a, const char *name)
{
    struct bpf_program *program = bpf_object__find_program_by_name(a->loaded.object, name);
    return program ? bpf_program__fd(program) : -1;
}

/* Without this program V8's objects are not followed. */
static void load_collector(struct alloc *a)
{
    struct error why;
    const int failed =
        a->sessions
            ? copier_load_as(a->copier, "alloc_collect", TRACE_UPROBE_SESSION, &a->collector, &why)
            : copier_load(a->copier, "alloc_collect", NULL, &a->collector, &why);
    if (failed < 0)
        snprintf(a->no_collector, sizeof(a->no_collector), "%.190s", why.text);
}

static int load_sessions(struct alloc *a, struct error *err)
{
    a->sessions = true;
    return copier_load_as(a->copier, "alloc_session", TRACE_UPROBE_SESSION, &a->loaded, err);
}

static int load_pair(struct alloc *a, struct error *err)
{
    static const char *const more[] = {"alloc_return", NULL};
    bpf_object__close(a->loaded.object);
    a->loaded.object = NULL;
    a->sessions = false;
    return copier_load(a->copier, "alloc_call", more, &a->loaded, err);
}

static int read_uprobe_type(struct alloc *a, struct error *err)
{
    char line[16];
    int failed = !first_line("/sys/bus/event_source/devices/uprobe/type", line, sizeof(line));
    a->uprobe_type = failed ? 0 : atoi(line);
    return failed ? error_set(err, ERROR_UNSUPPORTED,
                              "the kernel has no probes of programs (CONFIG_UPROBES)")
                  : 0;
}

static void set(struct alloc *a)
{
    const uint32_t zero = 0;
    (void)bpf_map_update_elem(copier_map(a->copier, "alloc_settings"), &zero, &a->settings,
                              BPF_ANY);
}

static int open_ring(struct alloc *a, const struct capture_ring *ring, struct error *err)
{
    uint32_t key = (uint32_t)ring->cpu;
    uint64_t id;
    int fd = copier_open_output(&a->form.ring, ring->cpu, ring->fd, "the event of allocations", &id,
                                err);
    if (fd < 0)
        return -1;
    if (!vec_push(&a->fds, fd)) {
        close(fd);
        return error_no_memory(err);
    }
    if (!vec_push(&a->ids, id))
        return error_no_memory(err);
    int failed = bpf_map_update_elem(copier_map(a->copier, "alloc_outputs"), &key, &fd, BPF_ANY);
    return failed ? error_system(err, -failed,
                                 "eBPF: cpu %d: the output of allocations cannot be set", ring->cpu)
                  : 0;
}

/* ---- probes -------------------------------------------------------------------------------- */

/* What BPF_LINK_CREATE takes for probes in a file, since Linux 6.6: union bpf_attr of linux/bpf.h.
 */
struct link_of_probes {
    uint32_t program, target, type, flags;
    struct {
        uint64_t path, offsets, reference_counters, cookies;
        uint32_t nr, flags, pid;
    } probes;
};

static enum alloc_kind kind_of(const struct alloc_function *f)
{
    return (enum alloc_kind)(f->shape >> ALLOC_KIND & ALLOC_KIND_MASK);
}

static enum group group_of(const struct alloc_function *f)
{
    return f->shape & ALLOC_COLLECTS    ? f->shape & ALLOC_OF_V8 ? GROUP_COLLECTS : GROUP_ENDS
           : f->shape & ALLOC_USDT      ? GROUP_USDT
           : f->shape & ALLOC_OF_LUA    ? GROUP_LUA
           : f->shape & ALLOC_OF_V8     ? GROUP_V8
           : kind_of(f) == ALLOC_MALLOC ? GROUP_MALLOC
                                        : GROUP_KEPT;
}

/* What is probed all the time is malloc to readers, LuaJIT's allocator, too: frees are seen. */
static uint64_t cookie_of(const struct alloc_function *f)
{
    const uint64_t kind = (uint64_t)ALLOC_KIND_MASK << ALLOC_KIND;
    bool lasts = f->shape & ALLOC_OF_LUA && !(f->shape & ALLOC_BURST);
    return lasts ? (f->shape & ~kind) | (uint64_t)ALLOC_MALLOC << ALLOC_KIND : f->shape;
}

static int keep(struct probed_process *p, const struct alloc_function *of, int fd,
                struct error *err)
{
    const struct probe_link link = {fd, group_of(of)};
    if (vec_push(&p->links, link))
        return 0;
    close(fd);
    return error_no_memory(err);
}

static int link_session(struct alloc *a, struct probed_process *p, const char *path,
                        const struct alloc_function *f, size_t nr, struct error *err)
{
    uint64_t offsets[ALLOC_FUNCTIONS], cookies[ALLOC_FUNCTIONS], semaphores[ALLOC_FUNCTIONS];
    bool has_semaphore = false;
    for (size_t i = 0; i < nr; i++) {
        semaphores[i] = f[i].semaphore;
        has_semaphore |= f[i].semaphore != 0;
        offsets[i] = f[i].offset;
        cookies[i] = cookie_of(&f[i]);
    }
    const bool collects = f->shape & ALLOC_COLLECTS; /* so do all, then */
    struct link_of_probes link = {
        .program = (uint32_t)(collects ? a->collector.program : a->loaded.program),
        .type = TRACE_UPROBE_SESSION,
        .probes = {.path = (uintptr_t)path,
                   .offsets = (uintptr_t)offsets,
                   .cookies = (uintptr_t)cookies,
                   .reference_counters = has_semaphore ? (uintptr_t)semaphores : 0,
                   .nr = (uint32_t)nr,
                   .pid = (uint32_t)p->pid}};
    int fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &link, sizeof(link));
    return fd < 0 ? bpf_refused(errno, "probing functions that allocate", err)
                  : keep(p, f, fd, err);
}

/* One event and one link for each function. */
static int link_event(struct alloc *a, struct probed_process *p, const char *path,
                      const struct alloc_function *f, bool at_return, struct error *err)
{
    struct perf_event_attr attr = {.size = sizeof(attr),
                                   .type = (uint32_t)a->uprobe_type,
                                   /* the formats `retprobe` and `ref_ctr_offset` */
                                   .config = at_return | f->semaphore << 32,
                                   .uprobe_path = (uintptr_t)path,
                                   .probe_offset = f->offset,
                                   .sample_period = 1};
    const char *program = at_return ? "alloc_return" : "alloc_call";
    LIBBPF_OPTS(bpf_link_create_opts, options, .perf_event.bpf_cookie = cookie_of(f));
    int fd = (int)syscall(SYS_perf_event_open, &attr, p->pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return bpf_refused(errno, "probing a function that allocates", err);
    if (keep(p, f, fd, err) < 0)
        return -1;
    int link = bpf_link_create(f->shape & ALLOC_COLLECTS ? a->collector.program
                                                         : program_named(a, program),
                               fd, BPF_PERF_EVENT, &options);
    return link < 0 ? bpf_refused(-link, "linking a program to a probe (Linux 5.15)", err)
                    : keep(p, f, link, err);
}

static int link_events(struct alloc *a, struct probed_process *p, const char *path,
                       const struct alloc_function *f, size_t nr, struct error *err)
{
    for (size_t i = 0; i < nr; i++)
        if ((f[i].shape & (ALLOC_RETURNS | ALLOC_RETURNS_AREA) &&
             link_event(a, p, path, &f[i], true, err) < 0) ||
            link_event(a, p, path, &f[i], false, err) < 0)
            return -1;
    return 0;
}

/* Probe functions that are in one mapping. */
static int link_functions(struct alloc *a, struct probed_process *p, const struct alloc_function *f,
                          size_t nr, struct error *err)
{
    char path[80];
    snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)p->pid, f->map,
             f->map_end);
    return a->sessions ? link_session(a, p, path, f, nr, err) : link_events(a, p, path, f, nr, err);
}

static bool same_place(const struct alloc_function *a, const struct alloc_function *b)
{
    return a->inode == b->inode && a->major == b->major && a->minor == b->minor &&
           a->offset == b->offset;
}

static bool is_probed(const struct probed_process *p, const struct alloc_function *f)
{
    vec_foreach (known, &p->functions)
        if (same_place(known, f))
            return true;
    return false;
}

/* What frees is probed first: else a block would seem to be in use that was freed before. */
static int rank(const struct alloc_function *f)
{
    const uint64_t size = f->shape >> ALLOC_SIZE & ALLOC_ARGUMENT_MASK;
    const uint64_t old = f->shape >> ALLOC_OLD & ALLOC_ARGUMENT_MASK;
    return old ? size != 0 : 2;
}

static int by_rank(const void *a, const void *b)
{
    return rank(a) - rank(b);
}

static bool is_removed(const struct alloc *a, enum group group)
{
    return leader_of(group) < GROUPS && a->removed[leader_of(group)];
}

/* Whether a function is not to be probed now. */
static bool waits(const struct alloc *a, const struct probed_process *p,
                  const struct alloc_function *f)
{
    bool told = f->shape & ALLOC_BEHIND_USDT && (p->usdt == USDT_WAITS || p->usdt == USDT_SPEAKS);
    return told || is_removed(a, group_of(f));
}

/* Give an allocator's own probe its number for the programs. Returns false if it cannot have one.
 */
static bool number_usdt(struct alloc *a, struct alloc_function *f)
{
    uint32_t number = 0;
    if (!alloc_usdt_is_valid(&f->usdt))
        return false;
    while (number < a->usdts.nr && memcmp(&a->usdts.at[number], &f->usdt, sizeof(f->usdt)) != 0)
        number++;
    if (number >= ALLOC_USDTS || (number == a->usdts.nr && !vec_push(&a->usdts, f->usdt)))
        return false;
    f->shape |= (uint64_t)number << ALLOC_NUMBER;
    return bpf_map_update_elem(copier_map(a->copier, "alloc_usdts"), &number, &f->usdt, BPF_ANY) ==
           0;
}

/* Probe functions of one mapping. A process that has ended, or has executed another program, is
 * passed over: the reader tells what it has mapped then. */
static int link_if_there(struct alloc *a, struct probed_process *p, const struct alloc_function *f,
                         size_t nr, struct error *err)
{
    struct error why = {0};
    if (!nr || link_functions(a, p, f, nr, &why) == 0)
        return 0;
    if (why.sys_errno == ENOENT || why.sys_errno == ESRCH) {
        a->gone++;
        return 0;
    }
    *err = why;
    return -1;
}

/* Probe those functions of one mapping that are of a group, and are not known yet. */
static int probe(struct alloc *a, struct probed_process *p, const struct alloc_function *f,
                 size_t nr, enum group group, struct error *err)
{
    struct alloc_function new[ALLOC_FUNCTIONS];
    size_t nr_new = 0;
    for (size_t i = 0; i < nr && nr_new < ALLOC_FUNCTIONS; i++) {
        if (group_of(&f[i]) != group || is_probed(p, &f[i]))
            continue;
        new[nr_new] = f[i];
        if (group == GROUP_USDT && !number_usdt(a, &new[nr_new]))
            continue;
        if (!vec_push(&p->functions, new[nr_new]))
            return error_no_memory(err);
        a->functions++;
        if (group == GROUP_USDT) {
            p->usdt = USDT_WAITS;
            p->usdt_since = 0;
        }
        nr_new += !waits(a, p, &new[nr_new]);
    }
    if (nr_new)
        qsort(new, nr_new, sizeof(*new), by_rank);
    return link_if_there(a, p, new, nr_new, err);
}

/* Probe what is known of a process and was not probed: functions whose shapes have this bit. (Those
 * of V8's collections were found first, and are probed first.) */
static int probe_known(struct alloc *a, struct probed_process *p, uint64_t bit, struct error *err)
{
    enum { RANKS = 3 };
    int failed = 0;
    for (int i = 0; i < RANKS; i++)
        vec_foreach (f, &p->functions)
            if (f->shape & bit && rank(f) == i && !waits(a, p, f))
                failed |= link_if_there(a, p, f, 1, err);
    return failed;
}

/* ---- processes ----------------------------------------------------------------------------- */

static struct probed_process *process_find(const struct alloc *a, pid_t pid)
{
    return table_get(&a->processes, (uint64_t)(uint32_t)pid + 1);
}

static int process_add(struct alloc *a, pid_t pid, struct error *err)
{
    struct probed_process *p = process_find(a, pid);
    if (p)
        return 0;
    if (a->processes.nr >= ALLOC_PROCESSES)
        return error_set(err, ERROR_UNSUPPORTED,
                         "--alloc: more than %d processes; allocations of the others are missing",
                         ALLOC_PROCESSES);
    p = calloc(1, sizeof(*p));
    if (p && table_put(&a->processes, (uint64_t)(uint32_t)pid + 1, p)) {
        p->pid = pid;
        return 0;
    }
    free(p);
    return error_no_memory(err);
}

/* Of one group, and of those that are removed with it; GROUPS: all. */
static void process_unlink(struct probed_process *p, enum group group)
{
    size_t kept = 0;
    vec_foreach (link, &p->links) {
        if (group == GROUPS || leader_of(link->group) == group)
            close(link->fd);
        else
            p->links.at[kept++] = *link;
    }
    p->links.nr = kept;
}

static void process_free(struct probed_process *p)
{
    if (!p)
        return;
    process_unlink(p, GROUPS);
    vec_free(&p->links);
    vec_free(&p->functions);
    free(p);
}

/* What is known was true before the process has executed a program: a file may be mapped elsewhere
 * now. */
static void renew(struct probed_process *p, const struct alloc_function *f, uint32_t nr)
{
    vec_foreach (known, &p->functions)
        for (uint32_t i = 0; i < nr; i++)
            if (same_place(known, &f[i]))
                *known = f[i];
}

/* Tell the programs where the functions' code is, so that they know calls from one to another. */
static void set_code(struct alloc *a, const struct probed_process *p)
{
    struct alloc_code code = {.low = UINT64_MAX};
    const uint32_t key = (uint32_t)p->pid;
    const struct alloc_function *f = p->functions.at;
    const size_t nr = p->functions.nr;
    for (size_t i = 0; i < nr && i < ALLOC_FUNCTIONS; i++) {
        if (f[i].shape &
            (ALLOC_NOTES | ALLOC_AREA | ALLOC_RETURNS_AREA | ALLOC_USDT | ALLOC_COLLECTS))
            continue;
        code.low = f[i].start < code.low ? f[i].start : code.low;
        code.high = f[i].end > code.high ? f[i].end : code.high;
        code.functions[code.nr].start = f[i].start;
        code.functions[code.nr].end = f[i].end;
        code.nr++;
    }
    (void)bpf_map_update_elem(copier_map(a->copier, "alloc_codes"), &key, &code, BPF_ANY);
}

/* From now on a process's V8 is followed: its collections are seen. */
static void set_v8(struct alloc *a, struct probed_process *p, const struct alloc_v8_process *v8)
{
    const uint32_t key = (uint32_t)p->pid;
    p->v8 = *v8;
    if (v8->state == ALLOC_V8_KNOWN || v8->state == ALLOC_V8_NEW)
        (void)bpf_map_update_elem(copier_map(a->copier, "alloc_v8s"), &key, &v8->layout, BPF_ANY);
}

const char *alloc_limit(struct alloc *a, const struct alloc_functions *functions)
{
    const uint32_t bit = 1U << (functions->v8.state & 7);
    if (a->v8_said & bit || !alloc_v8_problem(&functions->v8, functions->pid, a->no_collector,
                                              a->line, sizeof(a->line)))
        return NULL;
    a->v8_said |= bit;
    return a->line;
}

int alloc_attach(struct alloc *a, const struct alloc_functions *functions, size_t size,
                 struct error *err)
{
    /* What frees, or copies, is seen before what allocates. */
    static const enum group order[] = {GROUP_ENDS, GROUP_COLLECTS, GROUP_KEPT, GROUP_USDT,
                                       GROUP_V8,   GROUP_MALLOC,   GROUP_LUA};
    int failed = 0;
    uint32_t nr = size >= alloc_functions_size(0) ? functions->nr : 0;
    if (!nr || nr > ALLOC_FUNCTIONS || size < alloc_functions_size(nr))
        return 0;
    struct probed_process *p = process_find(a, (pid_t)functions->pid);
    if (!p)
        return 0;
    renew(p, functions->at, nr);
    for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
        if ((order[i] == GROUP_COLLECTS || order[i] == GROUP_ENDS) && *a->no_collector)
            continue;
        for (uint32_t from = 0, to; from < nr; from = to) {
            for (to = from + 1; to < nr && functions->at[to].map == functions->at[from].map;)
                to++;
            failed |= probe(a, p, &functions->at[from], to - from, order[i], err);
        }
        if (order[i] == GROUP_COLLECTS && !failed)
            set_v8(a, p, &functions->v8);
    }
    set_code(a, p);
    return failed && !proc_is_gone(p->pid) ? -1 : 0;
}

int alloc_fork(struct alloc *a, pid_t parent, pid_t child, struct error *err)
{
    const struct probed_process *from = process_find(a, parent);
    struct alloc_functions all = {.pid = (uint32_t)child};
    if (!from)
        return 0;
    all.v8 = from->v8;
    if (process_add(a, child, err) < 0)
        return -1;
    for (; all.nr < from->functions.nr && all.nr < ALLOC_FUNCTIONS; all.nr++)
        all.at[all.nr] = from->functions.at[all.nr];
    return alloc_attach(a, &all, sizeof(all), err);
}

void alloc_exit(struct alloc *a, pid_t pid)
{
    struct probed_process *p = process_find(a, pid);
    const uint32_t key = (uint32_t)pid;
    if (!p)
        return;
    fd_vec fds = {0};
    bool ok = true;
    vec_foreach (link, &p->links)
        ok = ok && vec_push(&fds, link->fd);
    if (ok)
        p->links.nr = 0;
    else
        fds.nr = 0;
    alloc_close_apart(&fds); /* (programs may create thousands of processes) */
    table_remove(&a->processes, (uint64_t)key + 1);
    (void)bpf_map_delete_elem(copier_map(a->copier, "alloc_codes"), &key);
    (void)bpf_map_delete_elem(copier_map(a->copier, "alloc_v8s"), &key);
    process_free(p);
}

/* ---- what a probe costs ---------------------------------------------------------------------- */

/* A function that begins as most do. */
void alloc_probed_code(void);
__asm__(".pushsection .text\n"
        ".globl alloc_probed_code\n"
        ".hidden alloc_probed_code\n"
        ".type alloc_probed_code, %function\n"
        "alloc_probed_code:\n"
#if defined(__x86_64__)
        "	push %rbp\n"
        "	pop %rbp\n"
        "	ret\n"
#else
        "	nop\n"
        "	ret\n"
#endif
        ".size alloc_probed_code, . - alloc_probed_code\n"
        ".popsection\n");

static uint64_t time_calls(unsigned nr)
{
    uint64_t from = clock_ns(CLOCK_MONOTONIC);
    for (unsigned i = 0; i < nr; i++)
        alloc_probed_code();
    return clock_ns(CLOCK_MONOTONIC) - from;
}

/* Measure what a call of a probed function costs, at one of our own. */
static int measure_cost(struct alloc *a, struct error *err)
{
    enum { CALLS = 64, ROUNDS = 5 };
    const uint64_t code = (uintptr_t)&alloc_probed_code;
    struct process_maps maps;
    struct probed_process self = {.pid = getpid()};
    int failed = -1;
    if (process_maps_read(self.pid, &maps, err) < 0)
        return -1;
    vec_foreach (m, &maps.maps) {
        const struct alloc_function f = {
            .map = m->start, .map_end = m->end, .offset = code - m->start + m->pgoff};
        if (code >= m->start && code < m->end)
            failed = probe(a, &self, &f, 1, GROUP_MALLOC, err);
    }
    process_maps_free(&maps);
    a->cost = UINT64_MAX;
    for (int i = 0; i < ROUNDS && !failed; i++) {
        uint64_t took = time_calls(CALLS) / CALLS;
        a->cost = took < a->cost ? took : a->cost;
    }
    a->functions = 0;
    vec_free(&self.functions);
    vec_foreach (link, &self.links) /* closed at the end: that takes long */
        if (!vec_push(&a->fds, link->fd))
            close(link->fd);
    vec_free(&self.links);
    return failed;
}

/* Returns the processor time of all processes, ns. */
static uint64_t cpu_time(const struct alloc *a)
{
    uint64_t sum = 0;
    vec_foreach (slot, &a->processes)
        sum += process_cpu_ns(((const struct probed_process *)slot->value)->pid);
    return sum;
}

/* ---- bursts ---------------------------------------------------------------------------------- */

static bool is_for_bursts(const struct probed_process *p, const struct alloc_function *f)
{
    bool told = f->shape & ALLOC_BEHIND_USDT && p->usdt == USDT_SPEAKS;
    return !told && f->shape & (ALLOC_RETURNS | ALLOC_OF_V8);
}

/* Returns a function's shape in a burst: frees, and what becomes of a block, are not seen. */
static uint64_t shape_in_burst(const struct alloc_function *f)
{
    const enum alloc_kind kind = kind_of(f) == ALLOC_LUA  ? ALLOC_LUA
                                 : kind_of(f) == ALLOC_JS ? ALLOC_JS_BURSTS
                                                          : ALLOC_BURSTS;
    const uint64_t not_seen = ALLOC_RETURNS | ALLOC_KIND_MASK << ALLOC_KIND |
                              ALLOC_ARGUMENT_MASK << ALLOC_OLD | ALLOC_V8_OBJECT;
    return (f->shape & ~not_seen) | ALLOC_BURST | (uint64_t)kind << ALLOC_KIND;
}

/* Probe a process's functions of a group, as `to`, for a burst. */
static void probe_for_burst(struct alloc *a, const struct probed_process *p, enum group group,
                            struct probed_process *to)
{
    struct error ignored; /* (it may have ended) */
    for (size_t from = 0, end; from < p->functions.nr; from = end) {
        struct alloc_function f[ALLOC_FUNCTIONS];
        size_t nr = 0;
        for (end = from; end < p->functions.nr && nr < ALLOC_FUNCTIONS &&
                         p->functions.at[end].map == p->functions.at[from].map;
             end++) {
            if (group_of(&p->functions.at[end]) != group ||
                !is_for_bursts(p, &p->functions.at[end]))
                continue;
            f[nr] = p->functions.at[end];
            f[nr++].shape = shape_in_burst(&p->functions.at[end]);
        }
        to->pid = p->pid;
        if (nr)
            (void)link_functions(a, to, f, nr, &ignored);
    }
}

/* Let each burst give some samples of a group, by what the last one has seen; of V8's areas, which
 * are large, no more than the user has asked for. */
static void set_burst_mean(struct alloc *a, enum group group)
{
    const uint64_t least = group == GROUP_V8 ? a->settings.mean : 1;
    uint64_t *mean = group == GROUP_V8 ? &a->settings.v8_burst : &a->settings.burst;
    uint64_t bytes = copier_counters(a->copier).value[groups[group].burst_bytes];
    uint64_t wanted = (bytes - a->bursts[group].bytes) / groups[group].samples;
    a->bursts[group].bytes = bytes;
    wanted = wanted > least ? wanted : least;
    if (wanted / 2 <= *mean && wanted >= *mean / 2)
        return;
    *mean = wanted;
    a->settings.round++;
    set(a);
}

/* The end of a collection may not have been seen. */
static void forget_collections(struct alloc *a)
{
    const int table = copier_map(a->copier, "alloc_collecting");
    struct alloc_block key;
    for (int i = 0; i < 2 * ALLOC_COLLECTING; i++)
        if (bpf_map_get_next_key(table, NULL, &key) != 0 || bpf_map_delete_elem(table, &key) != 0)
            break;
}

static int burst(struct alloc *a, enum group group, struct error *err)
{
    struct probed_process to = {0};
    fd_vec fds = {0};
    bool ok = true;
    if (group == GROUP_V8) { /* what is allocated for copies is known by collections */
        forget_collections(a);
        vec_foreach (slot, &a->processes)
            probe_for_burst(a, slot->value, GROUP_COLLECTS, &to);
    }
    vec_foreach (slot, &a->processes)
        probe_for_burst(a, slot->value, group, &to);
    vec_foreach (link, &to.links)
        ok = ok && vec_push(&fds, link->fd);
    if (ok && fds.nr) {
        set_burst_mean(a, group);
        vec_free(&to.links);
        return alloc_burst_begin(a->bursts[group].of, &fds, a->bursts[group].ns, err);
    }
    process_unlink(&to, GROUPS);
    vec_free(&to.links);
    vec_free(&fds);
    return ok ? 0 : error_no_memory(err);
}

/* ---- costs ----------------------------------------------------------------------------------- */

static uint64_t calls_of(const struct alloc *a, enum group group)
{
    return copier_counters(a->copier).value[groups[group].calls];
}

static uint64_t seen_of(const struct alloc *a, enum group group)
{
    return copier_counters(a->copier).value[groups[group].seen];
}

/* Note what has been up to now. */
static void begin_costs(const struct alloc *a, uint64_t now, struct costs *ret)
{
    ret->began = now;
    ret->cpu = cpu_time(a);
    for (int g = 0; g < GROUPS; g++)
        ret->calls[g] = calls_of(a, (enum group)g);
}

/* What was spent since costs began, ns. */
struct spent {
    uint64_t traps[GROUPS], all; /* in traps */
    uint64_t time;               /* that the processes had for what is theirs */
};

static struct spent spent_since(const struct alloc *a, const struct costs *from, uint64_t now)
{
    struct spent s = {0};
    uint64_t cpu = cpu_time(a), elapsed = now - from->began;
    cpu = cpu > from->cpu ? cpu - from->cpu : 0;
    for (int g = 0; g < GROUPS; g++)
        s.all += s.traps[g] = (calls_of(a, (enum group)g) - from->calls[g]) * a->cost;
    /* A thread that mostly sleeps has time for traps; of several that run, all have. */
    uint64_t own = cpu > s.all ? cpu - s.all : 0, rest = elapsed > s.all ? elapsed - s.all : 1;
    s.time = own > rest ? own : rest;
    return s;
}

/* Which samples lapse: they count as freed from now on. */
typedef bool sample_matches(const void *key, uint64_t serial);

static bool is_of_lua(const void *key, uint64_t serial)
{
    (void)key;
    return serial & ALLOC_SERIAL_LUA;
}

/* A sampled call of V8 that has not returned. */
static bool is_v8_pending(const void *key, uint64_t serial)
{
    uint64_t thread;
    (void)serial;
    memcpy(&thread, key, sizeof(thread));
    return thread & ALLOC_V8_PENDING;
}

/* Take samples out of a table whose values begin with serial numbers. */
static void lapse_in(struct alloc *a, const char *name, sample_matches *matches)
{
    const int table = copier_map(a->copier, name);
    VEC(struct alloc_block) gone = {0};
    struct alloc_block key = {0}, next = {0}; /* (no key has more bytes) */
    struct alloc_pending value;
    for (bool first = true; bpf_map_get_next_key(table, first ? NULL : &key, &next) == 0;
         first = false) {
        key = next;
        if (bpf_map_lookup_elem(table, &key, &value) == 0 && matches(&key, value.serial) &&
            vec_push(&gone, key))
            (void)vec_push(&a->lapsed, value.serial);
    }
    vec_foreach (one, &gone)
        (void)bpf_map_delete_elem(table, one);
    vec_free(&gone);
}

/* The same of all of a table whose keys are the serial numbers. */
static void lapse_all(struct alloc *a, const char *name)
{
    const int table = copier_map(a->copier, name);
    uint64_t serial;
    while (bpf_map_get_next_key(table, NULL, &serial) == 0 &&
           bpf_map_delete_elem(table, &serial) == 0)
        (void)vec_push(&a->lapsed, serial);
}

/* Forget sampled blocks of a group, and calls that have not returned: neither their frees nor their
 * returns are seen any more. */
static void lapse(struct alloc *a, enum group group)
{
    if (group == GROUP_LUA) {
        lapse_in(a, "alloc_blocks", is_of_lua);
        lapse_in(a, "alloc_pendings", is_of_lua);
    } else if (group == GROUP_V8) {
        lapse_in(a, "alloc_pendings", is_v8_pending);
        lapse_all(a, "alloc_young");
        lapse_all(a, "alloc_old");
    }
}

/* Returns how long bursts of a group take that has cost what was spent, ns. */
static uint64_t burst_length(enum group group, const struct spent *s)
{
    uint64_t may = s->time / 100 * groups[group].tax_of_bursts;
    uint64_t ns =
        s->traps[group] ? ALLOC_BURST_EVERY_NS / 1000 * (may * 1000 / s->traps[group]) : 0;
    return ns < ALLOC_BURST_NS        ? ALLOC_BURST_NS
           : ns > ALLOC_BURST_NS_MOST ? ALLOC_BURST_NS_MOST
                                      : ns;
}

static void remove_probes(struct alloc *a, enum group group, const struct spent *s)
{
    a->bursts[group].ns = burst_length(group, s);
    a->removed[group] = true;
    a->says_end |= group == GROUP_MALLOC;
    vec_foreach (slot, &a->processes)
        process_unlink(slot->value, group);
    lapse(a, group);
    a->quiet[group].bursts = 0;
    a->quiet[group].seen = seen_of(a, group);
}

/* After a burst: if there were few calls of a group in the last ones, probe it all the time again.
 * Each time that this was too early, the next one takes twice as long. */
static int renew_group(struct alloc *a, enum group group, struct error *err)
{
    const uint64_t seen = seen_of(a, group);
    unsigned *bursts = &a->quiet[group].bursts, *wanted = &a->quiet[group].wanted;
    if (!groups[group].shape || ++*bursts < *wanted)
        return 0;
    uint64_t traps = (seen - a->quiet[group].seen) * a->cost;
    bool quiet = traps * 2 * 100 < *bursts * a->bursts[group].ns * groups[group].tax_most;
    *bursts = 0;
    a->quiet[group].seen = seen;
    if (!quiet)
        return 0;
    a->removed[group] = false;
    *wanted = *wanted < QUIET_BURSTS_MOST / 2 ? 2 * *wanted : QUIET_BURSTS_MOST;
    begin_costs(a, clock_ns(CLOCK_MONOTONIC), &a->window);
    int failed = 0;
    vec_foreach (slot, &a->processes)
        failed |= probe_known(a, slot->value, groups[group].shape, err);
    return failed ? -1 : 0;
}

int alloc_bursts(struct alloc *a, struct error *err)
{
    int failed = 0;
    for (int g = 0; g < GROUPS && a->settings.on && !failed; g++) {
        if (!a->removed[g] || !alloc_burst_is_due(a->bursts[g].of))
            continue;
        failed = renew_group(a, (enum group)g, err);
        if (!failed && a->removed[g])
            failed = burst(a, (enum group)g, err);
    }
    return failed;
}

/* Give up an allocator's own probes that are not hit (it need not draw samples: jemalloc does so
 * only if it was told to), and probe its functions in their place. Returns the process, or NULL. */
static struct probed_process *give_up_usdt(struct alloc *a, uint64_t now)
{
    struct alloc_code code;
    struct error ignored;
    vec_foreach (slot, &a->processes) {
        struct probed_process *p = slot->value;
        const uint32_t key = (uint32_t)p->pid;
        if (p->usdt != USDT_WAITS)
            continue;
        p->usdt_since = p->usdt_since ? p->usdt_since : now;
        if (bpf_map_lookup_elem(copier_map(a->copier, "alloc_codes"), &key, &code) == 0 &&
            code.told)
            p->usdt = USDT_SPEAKS;
        if (p->usdt == USDT_SPEAKS || now - p->usdt_since < USDT_MS * UINT64_C(1000000))
            continue;
        p->usdt = USDT_SILENT;
        process_unlink(p, GROUP_USDT);
        (void)probe_known(a, p, ALLOC_BEHIND_USDT, &ignored);
        return p;
    }
    return NULL;
}

/* Returns the group that has cost too much, alone or as the dearest one; GROUPS: none. */
static enum group too_costly(const struct alloc *a, const struct spent *s)
{
    const uint64_t ms = 1000000;
    enum group most = GROUPS;
    uint64_t all = 0, moment = 0;
    for (int g = 0; g < GROUPS; g++) {
        if (a->removed[g])
            continue;
        if (s->traps[g] > s->time * groups[g].tax_most / 100 + groups[g].moment * ms)
            return (enum group)g;
        all += s->traps[g];
        moment = groups[g].moment * ms > moment ? groups[g].moment * ms : moment;
        if (most == GROUPS || s->traps[g] > s->traps[most])
            most = (enum group)g;
    }
    return all > s->time * TAX_MOST / 100 + moment ? most : GROUPS;
}

const char *alloc_follow(struct alloc *a)
{
    const uint64_t now = clock_ns(CLOCK_MONOTONIC), ms = 1000000;
    if (!a->settings.on || now - a->looked < LOOK_EVERY_MS * ms)
        return NULL;
    a->looked = now;
    const struct probed_process *silent = give_up_usdt(a, now);
    if (silent) {
        snprintf(
            a->line, sizeof(a->line),
            "--alloc: process %d: its allocator has probes of its own (otel_memory), but draws "
            "no samples: its functions are probed in their place, from now on",
            (int)silent->pid);
        return a->line;
    }
    const struct spent all = spent_since(a, &a->costs, now);
    const struct spent last = spent_since(a, &a->window, now);
    const uint64_t elapsed = now - a->window.began;
    a->tax = 100 * (double)all.all / (double)all.time;
    const enum group group = a->force ? GROUPS : too_costly(a, &last);
    if (group == GROUPS) {
        if (elapsed >= WINDOW_MS * ms)
            begin_costs(a, now, &a->window);
        return NULL;
    }
    remove_probes(a, group, &last);
    begin_costs(a, now, &a->window);
    snprintf(a->line, sizeof(a->line),
             "--alloc: %" PRIu64 " calls of %s a second, at %.1f us each, take "
             "%.3g %% of the processes' time; from now on they are recorded for %" PRIu64
             " of 200 ms, as %s (--force goes on)",
             last.traps[group] / a->cost * 1000 / (elapsed / ms + 1), groups[group].whose,
             (double)a->cost / 1e3, 100 * (double)last.traps[group] / (double)last.time,
             a->bursts[group].ns / ALLOC_BURST_NS, groups[group].as);
    return a->line;
}

/* ---- opening ------------------------------------------------------------------------------- */

static int open_all(struct alloc *a, const struct capture_plan *plan, struct error *err)
{
    struct error why;
    for (size_t i = 0; i < plan->nr_rings; i++)
        if (open_ring(a, &plan->rings[i], err) < 0)
            return -1;
    for (size_t i = 0; i < plan->nr_pids; i++)
        if (process_add(a, plan->pids[i], err) < 0)
            return -1;
    set(a);
    /* Kernels before Linux 6.13 load the program, but do not attach it. There each call pays for
     * its probe at the return. */
    int failed = 0;
    if (load_sessions(a, &why) < 0 || measure_cost(a, &why) < 0)
        failed = load_pair(a, err) < 0 || read_uprobe_type(a, err) < 0 ? -1 : measure_cost(a, err);
    if (!failed)
        load_collector(a);
    return failed;
}

int alloc_open(struct copier *copier, const struct capture_plan *plan,
               const struct alloc_options *options, struct alloc **ret, struct error *err)
{
    struct error why = {0};
    if (copier_namespace(NULL))
        return error_set(err, ERROR_UNSUPPORTED,
                         "processes can only be probed from outside of this container (its pid "
                         "namespace)");
    if (!bpf_has_cookies())
        return error_set(err, ERROR_UNSUPPORTED, "Linux 5.15 or later is needed");
    struct alloc *a = calloc(1, sizeof(*a));
    if (!a)
        return error_no_memory(err);
    a->copier = copier;
    a->force = options->force;
    for (int g = 0; g < GROUPS; g++)
        a->quiet[g].wanted = QUIET_BURSTS;
    a->settings = (struct alloc_settings){.mean = options->mean,
                                          .burst = BURST_MEAN_FIRST,
                                          .v8_burst = V8_BURST_MEAN_FIRST,
                                          .round = 1};
    bool ok = true;
    for (int g = 0; g < GROUPS; g++)
        ok &= (a->bursts[g].of = alloc_burst_create()) != NULL;
    for (int i = 0; i < ALLOC_KINDS; i++)
        a->virtual_ids[i] = alloc_form_id((enum alloc_kind)i);
    alloc_form_set(&a->form, plan->sampling[0].attr);
    if (!ok) {
        error_no_memory(&why);
    } else if (open_all(a, plan, &why) == 0) {
        *ret = a;
        return 0;
    }
    alloc_free(a);
    *err = why;
    return -1;
}

void alloc_free(struct alloc *a)
{
    if (!a)
        return;
    for (int g = 0; g < GROUPS; g++)
        alloc_burst_free(a->bursts[g].of);
    vec_foreach (slot, &a->processes)
        process_free(slot->value);
    table_free(&a->processes);
    vec_foreach (fd, &a->fds)
        close(*fd);
    vec_free(&a->fds);
    vec_free(&a->ids);
    vec_free(&a->lapsed);
    vec_free(&a->usdts);
    bpf_object__close(a->loaded.object);
    bpf_object__close(a->collector.object);
    free(a);
}

bool alloc_opens_events(const struct alloc *a)
{
    return !a->sessions;
}

int alloc_events(const struct alloc *a, perfdata_event_vec *ret, struct error *err)
{
    for (int i = 0; i < ALLOC_KINDS; i++) {
        const enum alloc_kind kind = (enum alloc_kind)i;
        struct perfdata_event e = {
            .attr = a->form.attr, .name = alloc_event_name(kind), .scale = 1};
        e.ids = kind == ALLOC_MALLOC ? a->ids.at : &a->virtual_ids[i];
        e.nr_ids = kind == ALLOC_MALLOC ? a->ids.nr : 1;
        if (!vec_push(ret, e))
            return error_no_memory(err);
    }
    return 0;
}

/* ---- recording ------------------------------------------------------------------------------- */

void alloc_enable(struct alloc *a, bool on)
{
    a->settings.on = on;
    if (on && !a->costs.began) {
        begin_costs(a, clock_ns(CLOCK_MONOTONIC), &a->costs);
        a->window = a->costs;
    }
    set(a);
}

int alloc_rewrite(struct alloc *a, const struct perfdata_event *event,
                  const struct perf_event_header *record, struct sample *s, struct trimmed *t)
{
    return alloc_form_sample(&a->form, event, record, s, t);
}

/* Returns the record that says that a block was freed; NULL: memory is out. */
static const struct perf_event_header *freed_record(struct alloc *a, uint64_t serial, uint64_t time,
                                                    uint64_t now)
{
    struct vmevent_writer writer;
    uint8_t payload[sizeof(struct vmevent_header)];
    const struct vmevent_header head = {
        .kind = VMEVENT_FREED, .sequence = serial, .before = time, .after = time};
    size_t nr_ids;
    const uint64_t *ids = copier_ids(a->copier, &nr_ids);
    vmevent_begin(&writer, payload, sizeof(payload), &head);
    size_t size = vmevent_end(&writer, 0);
    size = nr_ids ? mem_writer_record(payload, size, ids[0], now, a->record) : 0;
    return size ? (const struct perf_event_header *)a->record : NULL;
}

int alloc_write_ends(struct alloc *a, uint64_t now, alloc_take take, void *context,
                     struct error *err)
{
    const struct perf_event_header *record;
    if (a->says_end && !vec_push(&a->lapsed, ALLOC_SERIAL_END))
        return error_no_memory(err);
    a->says_end = false;
    vec_foreach (serial, &a->lapsed)
        if ((record = freed_record(a, *serial, now, now)) && take(context, record, err) < 0)
            return -1;
    a->lapsed.nr = 0;
    return 0;
}

int alloc_write_rest(struct alloc *a, uint64_t now, alloc_take take, void *context,
                     struct error *err)
{
    const int map = copier_map(a->copier, "alloc_unwritten");
    uint64_t key = 0, next, time;
    const struct perf_event_header *record;
    bool first = true;
    while (bpf_map_get_next_key(map, first ? NULL : &key, &next) == 0) {
        first = false;
        key = next;
        if (bpf_map_lookup_elem(map, &key, &time) == 0 &&
            (record = freed_record(a, key, time, now)) && take(context, record, err) < 0)
            return -1;
    }
    return 0;
}

const char *alloc_summary(struct alloc *a, bool *ret_matters)
{
    const struct vmstack_counters c = copier_counters(a->copier);
    const uint64_t *v = c.value;
    char stray[100] = "";
    if (v[ALLOC_STRAY])
        snprintf(stray, sizeof(stray),
                 ", %" PRIu64 " because a thread had several V8s, or a V8 several threads",
                 v[ALLOC_STRAY]);
    snprintf(a->line, sizeof(a->line),
             "alloc: %" PRIu64 " calls of %" PRIu64 " functions, %.1f MB: %" PRIu64
             " samples, %" PRIu64 " of them freed; at %.1f us a call, %.3g %% of the processes' "
             "time; %" PRIu64 " lost because the rings were full (-m), %" PRIu64
             " not followed because a table was full%s; %" PRIu64
             " files gone before they were probed",
             v[ALLOC_CALLS] + v[ALLOC_LUA_CALLS] + v[ALLOC_LUA_SEEN] + v[ALLOC_V8_CALLS] +
                 v[ALLOC_V8_SEEN],
             a->functions, (double)v[ALLOC_BYTES] / 1e6, v[ALLOC_SAMPLES], v[ALLOC_FREED],
             (double)a->cost / 1e3, a->tax, v[ALLOC_LOST], v[ALLOC_OVER], stray, a->gone);
    *ret_matters = v[ALLOC_LOST] || v[ALLOC_OVER] || v[ALLOC_STRAY] || !a->functions;
    return a->line;
}
