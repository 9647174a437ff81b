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
    LOOK_EVERY_MS = 20,      /* between two looks at the costs */
    START_TRAPS_MS = 300,    /* that traps may take beyond their share: a start allocates a lot */
    BURST_MEAN_FIRST = 4096, /* bytes between samples in the first burst */
    TAX_MOST = 10, /* percent of a cpu, or of the processes' own time, that probes may take */
    /* Of linux/bpf.h, which is older on some machines. */
    TRACE_UPROBE_SESSION = 57, /* BPF_TRACE_UPROBE_SESSION, since Linux 6.13 */
};

struct probe_link {
    int fd; /* of an event, or of a link */
    bool removable;
};

struct probed_process {
    pid_t pid;
    VEC(struct alloc_function) functions;
    VEC(struct probe_link) links;
    struct alloc_v8_process v8;
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
    bool removed;           /* probes of malloc cost too much, and are no more */
    bool says_end;          /* the recording is to be told so */
    uint32_t v8_said;       /* bits of states (enum alloc_v8_state) that the user was told */
    int uprobe_type;        /* of the kernel's events for probes; without sessions */
    struct table processes; /* pid + 1 -> struct probed_process */
    VEC(int) fds;           /* events */
    VEC(uint64_t) ids;
    uint64_t virtual_ids[ALLOC_KINDS];
    uint64_t cost; /* ns that a trap takes */
    struct {
        uint64_t began; /* when allocations were first recorded, and what had been then: */
        uint64_t cpu, calls;
        uint64_t looked;
    } costs;
    uint64_t functions; /* that were probed */
    uint64_t gone;      /* mappings that were no more when they were to be probed */
    struct alloc_burst *burst;
    uint64_t burst_bytes; /* that were seen in all bursts but the last one */
    double tax;           /* at the last look, percent */
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

/* Probes of malloc and its like are hit often; V8 calls its functions for many objects at once. */
static bool is_removable(const struct alloc_function *f)
{
    return kind_of(f) == ALLOC_MALLOC;
}

static int keep(struct probed_process *p, const struct alloc_function *of, int fd,
                struct error *err)
{
    const struct probe_link link = {fd, is_removable(of)};
    if (vec_push(&p->links, link))
        return 0;
    close(fd);
    return error_no_memory(err);
}

static int link_session(struct alloc *a, struct probed_process *p, const char *path,
                        const struct alloc_function *f, size_t nr, struct error *err)
{
    uint64_t offsets[ALLOC_FUNCTIONS], cookies[ALLOC_FUNCTIONS];
    for (size_t i = 0; i < nr; i++) {
        offsets[i] = f[i].offset;
        cookies[i] = f[i].shape;
    }
    const bool collects = f->shape & ALLOC_COLLECTS; /* so do all, then */
    struct link_of_probes link = {
        .program = (uint32_t)(collects ? a->collector.program : a->loaded.program),
        .type = TRACE_UPROBE_SESSION,
        .probes = {.path = (uintptr_t)path,
                   .offsets = (uintptr_t)offsets,
                   .cookies = (uintptr_t)cookies,
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
                                   .config = at_return, /* the format's bit `retprobe` */
                                   .uprobe_path = (uintptr_t)path,
                                   .probe_offset = f->offset,
                                   .sample_period = 1};
    const char *program = at_return ? "alloc_return" : "alloc_call";
    LIBBPF_OPTS(bpf_link_create_opts, options, .perf_event.bpf_cookie = f->shape);
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

/* Functions are probed in this order: what frees, or copies, is seen before what allocates. */
enum group { GROUP_COLLECTS, GROUP_KEPT, GROUP_REMOVABLE };

static enum group group_of(const struct alloc_function *f)
{
    return f->shape & ALLOC_COLLECTS ? GROUP_COLLECTS
           : is_removable(f)         ? GROUP_REMOVABLE
                                     : GROUP_KEPT;
}

/* Probe those functions of one mapping that are of a group. */
static int probe(struct alloc *a, struct probed_process *p, const struct alloc_function *f,
                 size_t nr, enum group group, struct error *err)
{
    struct alloc_function new[ALLOC_FUNCTIONS];
    size_t nr_new = 0;
    for (size_t i = 0; i < nr; i++)
        if (group_of(&f[i]) == group && kind_of(&f[i]) != ALLOC_LUA && !is_probed(p, &f[i]))
            new[nr_new++] = f[i];
    if (!nr_new)
        return 0;
    qsort(new, nr_new, sizeof(*new), by_rank);
    int failed = link_functions(a, p, new, nr_new, err);
    for (size_t i = 0; i < nr_new && !failed; i++)
        if (!vec_push(&p->functions, new[i]))
            failed = error_no_memory(err);
    a->functions += failed ? 0 : nr_new;
    return failed;
}

/* The same. A process that has ended, or has executed another program, is passed over: the reader
 * tells what it has mapped then. */
static int probe_if_there(struct alloc *a, struct probed_process *p, const struct alloc_function *f,
                          size_t nr, enum group group, struct error *err)
{
    struct error why = {0};
    if (probe(a, p, f, nr, group, &why) == 0)
        return 0;
    if (why.sys_errno == ENOENT || why.sys_errno == ESRCH) {
        a->gone++;
        return 0;
    }
    *err = why;
    return -1;
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

/* `all`: also those that are not removable. */
static void process_unlink(struct probed_process *p, bool all)
{
    size_t kept = 0;
    vec_foreach (link, &p->links) {
        if (all || link->removable)
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
    process_unlink(p, true);
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

/* Functions that are probed in bursts alone are kept. */
static int keep_for_bursts(struct probed_process *p, const struct alloc_function *f, uint32_t nr,
                           struct error *err)
{
    for (uint32_t i = 0; i < nr; i++)
        if (kind_of(&f[i]) == ALLOC_LUA && !is_probed(p, &f[i]) && !vec_push(&p->functions, f[i]))
            return error_no_memory(err);
    return 0;
}

/* Tell the programs where the functions' code is, so that they know calls from one to another. */
static void set_code(struct alloc *a, pid_t pid, const struct alloc_function *f, size_t nr)
{
    struct alloc_code code = {.low = UINT64_MAX};
    const uint32_t key = (uint32_t)pid;
    for (size_t i = 0; i < nr && i < ALLOC_FUNCTIONS; i++) {
        if (f[i].shape & (ALLOC_NOTES | ALLOC_AREA | ALLOC_RETURNS_AREA | ALLOC_COLLECTS))
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
    int failed = 0;
    uint32_t nr = size >= alloc_functions_size(0) ? functions->nr : 0;
    if (!nr || nr > ALLOC_FUNCTIONS || size < alloc_functions_size(nr))
        return 0;
    struct probed_process *p = process_find(a, (pid_t)functions->pid);
    if (!p)
        return 0;
    renew(p, functions->at, nr);
    if (keep_for_bursts(p, functions->at, nr, err) < 0)
        return -1;
    if (kind_of(&functions->at[0]) == ALLOC_LUA) /* the others are told apart from these */
        return 0;
    set_code(a, p->pid, functions->at, nr);
    for (int i = GROUP_COLLECTS; i <= GROUP_REMOVABLE; i++) {
        const enum group group = (enum group)i;
        if (group == GROUP_COLLECTS ? *a->no_collector != 0
                                    : group == GROUP_REMOVABLE && a->removed)
            continue;
        for (uint32_t from = 0, to; from < nr; from = to) {
            for (to = from + 1; to < nr && functions->at[to].map == functions->at[from].map;)
                to++;
            failed |= probe_if_there(a, p, &functions->at[from], to - from, group, err);
        }
        if (group == GROUP_COLLECTS && !failed)
            set_v8(a, p, &functions->v8);
    }
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
            failed = probe(a, &self, &f, 1, GROUP_REMOVABLE, err);
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

static bool is_for_bursts(const struct alloc *a, const struct alloc_function *f)
{
    return kind_of(f) == ALLOC_LUA || (a->removed && is_removable(f) && f->shape & ALLOC_RETURNS);
}

/* Probe a process's functions, as `to`, for a burst. */
static void probe_for_burst(struct alloc *a, const struct probed_process *p,
                            struct probed_process *to)
{
    struct error ignored; /* (it may have ended) */
    for (size_t from = 0, end; from < p->functions.nr; from = end) {
        struct alloc_function f[ALLOC_FUNCTIONS];
        size_t nr = 0;
        for (end = from; end < p->functions.nr && nr < ALLOC_FUNCTIONS &&
                         p->functions.at[end].map == p->functions.at[from].map;
             end++) {
            if (!is_for_bursts(a, &p->functions.at[end]))
                continue;
            f[nr] = p->functions.at[end];
            f[nr].shape &= ~(uint64_t)(ALLOC_RETURNS | ALLOC_KIND_MASK << ALLOC_KIND |
                                       ALLOC_ARGUMENT_MASK << ALLOC_OLD);
            f[nr].shape |= ALLOC_BURST;
            f[nr].shape |=
                (uint64_t)(kind_of(&p->functions.at[end]) == ALLOC_LUA ? ALLOC_LUA : ALLOC_BURSTS)
                << ALLOC_KIND;
            nr++;
        }
        to->pid = p->pid;
        if (nr)
            (void)link_functions(a, to, f, nr, &ignored);
    }
}

/* Let each burst give some samples, by what the last one has seen. */
static void set_burst_mean(struct alloc *a)
{
    enum { SAMPLES = 16 };
    uint64_t bytes = copier_counters(a->copier).value[ALLOC_BURST_BYTES];
    uint64_t mean = (bytes - a->burst_bytes) / SAMPLES;
    a->burst_bytes = bytes;
    if (mean / 2 <= a->settings.burst && mean >= a->settings.burst / 2)
        return;
    a->settings.burst = mean ? mean : 1;
    a->settings.round++;
    set(a);
}

static int burst(struct alloc *a, struct error *err)
{
    struct probed_process to = {0};
    fd_vec fds = {0};
    bool ok = true;
    vec_foreach (slot, &a->processes)
        probe_for_burst(a, slot->value, &to);
    vec_foreach (link, &to.links)
        ok = ok && vec_push(&fds, link->fd);
    if (ok && fds.nr) {
        set_burst_mean(a);
        vec_free(&to.links);
        return alloc_burst_begin(a->burst, &fds, err);
    }
    process_unlink(&to, true);
    vec_free(&to.links);
    vec_free(&fds);
    return ok ? 0 : error_no_memory(err);
}

/* ---- costs ----------------------------------------------------------------------------------- */

static void remove_probes(struct alloc *a)
{
    a->removed = a->says_end = true;
    vec_foreach (slot, &a->processes)
        process_unlink(slot->value, false);
}

int alloc_bursts(struct alloc *a, struct error *err)
{
    return a->settings.on && alloc_burst_is_due(a->burst) ? burst(a, err) : 0;
}

const char *alloc_follow(struct alloc *a)
{
    const uint64_t now = clock_ns(CLOCK_MONOTONIC), ms = 1000000;
    if (a->removed || !a->settings.on || now - a->costs.looked < LOOK_EVERY_MS * ms)
        return NULL;
    uint64_t calls = copier_counters(a->copier).value[ALLOC_CALLS] - a->costs.calls;
    uint64_t cpu = cpu_time(a), elapsed = now - a->costs.began;
    cpu = cpu > a->costs.cpu ? cpu - a->costs.cpu : 0;
    a->costs.looked = now;
    /* A thread that mostly sleeps has time for traps; of several that run, all have. */
    uint64_t traps = calls * a->cost, own = cpu > traps ? cpu - traps : 0;
    uint64_t rest = elapsed > traps ? elapsed - traps : 1;
    uint64_t time = own > rest ? own : rest;
    a->tax = 100 * (double)traps / (double)time;
    if (a->force || traps <= time * TAX_MOST / 100 + START_TRAPS_MS * ms)
        return NULL;
    remove_probes(a);
    snprintf(a->line, sizeof(a->line),
             "--alloc: %" PRIu64 " calls of malloc and its like a second, at %.1f us each, take "
             "%.3g %% of the processes' time; from now on they are recorded for 1 of 200 ms, as "
             "malloc-bursts, without frees (--force goes on)",
             calls * 1000 / (elapsed / ms + 1), (double)a->cost / 1e3, a->tax);
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
    a->settings =
        (struct alloc_settings){.mean = options->mean, .burst = BURST_MEAN_FIRST, .round = 1};
    a->burst = alloc_burst_create();
    for (int i = 0; i < ALLOC_KINDS; i++)
        a->virtual_ids[i] = alloc_form_id((enum alloc_kind)i);
    alloc_form_set(&a->form, plan->sampling[0].attr);
    if (!a->burst) {
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
    alloc_burst_free(a->burst);
    vec_foreach (slot, &a->processes)
        process_free(slot->value);
    table_free(&a->processes);
    vec_foreach (fd, &a->fds)
        close(*fd);
    vec_free(&a->fds);
    vec_free(&a->ids);
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
        a->costs.began = clock_ns(CLOCK_MONOTONIC);
        a->costs.cpu = cpu_time(a);
        a->costs.calls = copier_counters(a->copier).value[ALLOC_CALLS];
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

const struct perf_event_header *alloc_end_record(struct alloc *a, uint64_t now)
{
    bool says = a->says_end;
    a->says_end = false;
    return says ? freed_record(a, ALLOC_SERIAL_END, now, now) : NULL;
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
             v[ALLOC_CALLS], a->functions, (double)v[ALLOC_BYTES] / 1e6, v[ALLOC_SAMPLES],
             v[ALLOC_FREED], (double)a->cost / 1e3, a->tax, v[ALLOC_LOST], v[ALLOC_OVER], stray,
             a->gone);
    *ret_matters = v[ALLOC_LOST] || v[ALLOC_OVER] || v[ALLOC_STRAY] || !a->functions;
    return a->line;
}
