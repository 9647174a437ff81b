/* SPDX-License-Identifier: GPL-2.0-only */
/* Time off the cpu. See off_cpu.h. */
#include "live/off_cpu.h"

#include "base/clock.h"
#include "base/vec.h"
#include "live/bpf_load.h"
#include "live/lua_scan.h"
#include "live/off_cpu_record.h"
#include "perfdata/offcpu_layout.h"
#include "record/target.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ends of system calls are seen for so long, until a thread without rseq shows that they must be.
 */
static const uint64_t SEE_EXITS_NS = UINT64_C(1000000000);

struct off_cpu {
    struct copier *copier;
    struct bpf_loaded loaded;
    struct off_cpu_settings settings;
    struct off_cpu_form form;
    VEC(int) fds; /* events, and links of programs */
    VEC(uint64_t) ids;
    int list;         /* link of the program that lists waiting threads; owned by `fds` */
    uint64_t ended;   /* CLOCK_MONOTONIC ns at which they were listed */
    int exits;        /* link at the ends of system calls; -1: none */
    bool keeps_exits; /* for good */
};

/* ---- opening ------------------------------------------------------------------------------- */

static int keep(struct off_cpu *o, int fd, struct error *err)
{
    if (vec_push(&o->fds, fd))
        return 0;
    close(fd);
    return error_no_memory(err);
}

static int load(struct off_cpu *o, struct error *err)
{
    const char *const more[] = {"off_cpu_write",
                                "off_cpu_fork",
                                "off_cpu_exec",
                                "off_cpu_list",
                                o->settings.wakes ? "off_cpu_wake" : NULL,
                                NULL};
    return copier_load(o->copier, "off_cpu_switch", more, &o->loaded, err);
}

static int program_named(const struct off_cpu *o, const char *name)
{
    struct bpf_program *program = bpf_object__find_program_by_name(o->loaded.object, name);
    return program ? bpf_program__fd(program) : -1;
}

/* Let a program run at a tracepoint; `tracepoint` NULL: at that which its section names. Returns 1
 * if the kernel has no such tracepoint. */
static int run(struct off_cpu *o, const char *name, const char *tracepoint, struct error *err)
{
    int link = bpf_raw_tracepoint_open(tracepoint, program_named(o, name));
    if (link == -ENOENT && tracepoint)
        return 1;
    return link < 0 ? bpf_refused(-link, name, err) : keep(o, link, err);
}

/* Keep what is needed to list the threads that wait. */
static int prepare_list(struct off_cpu *o, struct error *err)
{
    o->list = bpf_link_create(program_named(o, "off_cpu_list"), 0, BPF_TRACE_ITER, NULL);
    return o->list < 0 ? bpf_refused(-o->list, "off_cpu_list", err) : keep(o, o->list, err);
}

static int see_exits(struct off_cpu *o, struct error *err)
{
    o->exits = bpf_raw_tracepoint_open("sys_exit", program_named(o, "off_cpu_write"));
    return o->exits < 0 ? bpf_refused(-o->exits, "the ends of system calls", err) : 0;
}

static void do_not_see_exits(struct off_cpu *o)
{
    if (o->exits >= 0)
        close(o->exits);
    o->exits = -1;
}

static int run_all(struct off_cpu *o, bool inherited, struct error *err)
{
    if (inherited && run(o, "off_cpu_fork", NULL, err) < 0)
        return -1;
    if (run(o, "off_cpu_exec", NULL, err) < 0)
        return -1;
    int r = run(o, "off_cpu_write", "rseq_update", err);
    o->keeps_exits = r > 0;
    if (r < 0 || see_exits(o, err) < 0)
        return -1;
    if (o->settings.wakes && run(o, "off_cpu_wake", NULL, err) < 0)
        return -1;
    return run(o, "off_cpu_switch", NULL, err);
}

static int open_ring(struct off_cpu *o, const struct capture_ring *ring, struct error *err)
{
    uint32_t key = (uint32_t)ring->cpu;
    uint64_t id;
    int fd =
        copier_open_output(&o->form.ring, ring->cpu, ring->fd, "the event " OFFCPU_NAME, &id, err);
    if (fd < 0 || keep(o, fd, err) < 0)
        return -1;
    if (!vec_push(&o->ids, id))
        return error_no_memory(err);
    int failed = bpf_map_update_elem(copier_map(o->copier, "off_cpu_outputs"), &key, &fd, BPF_ANY);
    return failed ? error_system(err, -failed,
                                 "eBPF: cpu %d: the output of " OFFCPU_NAME " cannot be set",
                                 ring->cpu)
                  : 0;
}

/* `recorded_now`: else from their exec on. */
static int set_threads(struct off_cpu *o, const pid_t *tids, size_t nr, bool recorded_now,
                       struct error *err)
{
    const int map = copier_map(o->copier, "off_cpu_threads");
    uint32_t recorded = recorded_now;
    for (size_t i = 0; i < nr; i++) {
        uint32_t tid = (uint32_t)tids[i];
        int failed = bpf_map_update_elem(map, &tid, &recorded, BPF_ANY);
        if (failed)
            return error_system(err, -failed, "--off-cpu: more than %d threads", OFF_CPU_THREADS);
    }
    return 0;
}

static void set(struct off_cpu *o)
{
    const uint32_t zero = 0;
    (void)bpf_map_update_elem(copier_map(o->copier, "off_cpu_settings"), &zero, &o->settings,
                              BPF_ANY);
}

/* Threads that were created after the others were listed, and before new ones were followed. */
static int set_new_threads(struct off_cpu *o, const struct capture_plan *plan, struct error *err)
{
    pid_vec tids = {0};
    if (plan->command || !plan->whole || !plan->inherited)
        return 0;
    int failed = tasks_threads(plan->pids, plan->nr_pids, &tids, err) < 0 ||
                 set_threads(o, tids.at, tids.nr, true, err) < 0;
    vec_free(&tids);
    return failed ? -1 : 0;
}

static int open_all(struct off_cpu *o, const struct capture_plan *plan, struct error *err)
{
    if (load(o, err) < 0)
        return -1;
    for (size_t i = 0; i < plan->nr_rings; i++)
        if (open_ring(o, &plan->rings[i], err) < 0)
            return -1;
    if (set_threads(o, plan->tids, plan->nr_tids, !plan->command, err) < 0 ||
        prepare_list(o, err) < 0)
        return -1;
    set(o);
    return run_all(o, plan->inherited, err) < 0 ? -1 : set_new_threads(o, plan, err);
}

/* Find where x86-64 counts whether a cpu is in an interrupt. Kernels without KALLSYMS_ALL do not
 * say, or the addresses are hidden: then they stay 0. AArch64 counts in each thread. */
static void find_context(struct off_cpu_settings *s)
{
#if defined(__x86_64__)
    static const char *const names[] = {"__preempt_count", "pcpu_hot", "__per_cpu_offset"};
    uint64_t *const at[] = {&s->preempt_count, &s->pcpu_hot, &s->cpu_offsets};
    FILE *f = fopen("/proc/kallsyms", "re");
    char *line = NULL;
    size_t size = 0;
    while (f && getline(&line, &size, f) > 0) { /* "ADDRESS TYPE NAME" */
        char *name = strrchr(line, ' ');
        for (size_t i = 0; name && i < sizeof(names) / sizeof(*names); i++)
            if (strncmp(name + 1, names[i], strlen(names[i])) == 0 &&
                name[1 + strlen(names[i])] == '\n')
                *at[i] = strtoull(line, NULL, 16);
    }
    free(line);
    if (f)
        fclose(f);
#else
    (void)s;
#endif
}

int off_cpu_open(struct copier *copier, const struct capture_plan *plan,
                 const struct off_cpu_options *options, struct off_cpu **ret, struct error *err)
{
    struct error why = {0};
    if (copier_namespace(NULL))
        return error_set(err, ERROR_UNSUPPORTED,
                         "threads can only be followed from outside of this container (its pid "
                         "namespace)");
    struct off_cpu *o = calloc(1, sizeof(*o));
    if (!o)
        return error_no_memory(err);
    const struct perf_event_attr *first = plan->sampling[0].attr;
    o->copier = copier;
    o->exits = -1;
    off_cpu_form_set(&o->form, first, options->runqueue || options->waker);
    o->settings = (struct off_cpu_settings){.mean = options->mean,
                                            .wakes = options->runqueue || options->waker,
                                            .wakers = options->waker,
                                            .all = plan->system_wide,
                                            .kernel = !first->exclude_kernel &&
                                                      first->sample_type & PERF_SAMPLE_CALLCHAIN};
    if (options->waker)
        find_context(&o->settings);
    if (open_all(o, plan, &why) == 0) {
        *ret = o;
        return 0;
    }
    off_cpu_free(o);
    *err = why;
    return -1;
}

void off_cpu_free(struct off_cpu *o)
{
    if (!o)
        return;
    do_not_see_exits(o);
    vec_foreach (fd, &o->fds)
        close(*fd);
    vec_free(&o->fds);
    vec_free(&o->ids);
    bpf_object__close(o->loaded.object);
    free(o);
}

struct perfdata_event off_cpu_event(const struct off_cpu *o)
{
    return (struct perfdata_event){.attr = o->form.attr,
                                   .name = OFFCPU_NAME,
                                   .scale = 1,
                                   .ids = o->ids.at,
                                   .nr_ids = o->ids.nr};
}

/* ---- recording ----------------------------------------------------------------------------- */

void off_cpu_enable(struct off_cpu *o, bool on)
{
    o->settings.began = on ? clock_ns(CLOCK_MONOTONIC) : 0;
    set(o);
}

int off_cpu_follow(struct off_cpu *o, struct error *err)
{
    if (o->keeps_exits)
        return 0;
    o->keeps_exits = copier_counters(o->copier).value[OFF_CPU_NO_RSEQ] != 0;
    if (o->keeps_exits)
        return o->exits < 0 ? see_exits(o, err) : 0;
    if (o->settings.began && clock_ns(CLOCK_MONOTONIC) - o->settings.began > SEE_EXITS_NS)
        do_not_see_exits(o);
    return 0;
}

int off_cpu_rewrite(struct off_cpu *o, const struct perfdata_event *event,
                    const struct perf_event_header *record, struct sample *s, struct trimmed *t)
{
    return off_cpu_form_sample(&o->form, event, record, s, t);
}

/* ---- who waits at the end -------------------------------------------------------------------- */

int off_cpu_list(struct off_cpu *o, off_cpu_take take, void *context, struct error *err)
{
    enum { AT_ONCE = 64 };
    struct off_cpu_thread *threads = malloc(AT_ONCE * sizeof(*threads));
    int iterator = threads ? bpf_iter_create(o->list) : -1, failed = 0;
    size_t have = 0;
    ssize_t got = 0;
    o->ended = clock_ns(CLOCK_MONOTONIC);
    while (iterator >= 0 && !failed &&
           (got = read(iterator, (char *)threads + have, AT_ONCE * sizeof(*threads) - have)) > 0) {
        have += (size_t)got;
        size_t nr = have / sizeof(*threads);
        for (size_t i = 0; i < nr && !failed; i++)
            failed = take(context, &threads[i], err);
        have -= nr * sizeof(*threads);
        memmove(threads, threads + nr, have);
    }
    if (!threads)
        failed = error_no_memory(err);
    else if (!failed && (iterator < 0 || got < 0))
        failed =
            bpf_refused(iterator < 0 ? -iterator : errno, "listing the threads that wait", err);
    if (iterator >= 0)
        close(iterator);
    free(threads);
    return failed;
}

uint64_t off_cpu_waited(const struct off_cpu *o, const struct off_cpu_thread *t)
{
    return o->ended > t->out ? o->ended - t->out : 0;
}

size_t off_cpu_read_stack(const struct off_cpu *o, const struct off_cpu_thread *t, void *to,
                          size_t room)
{
    enum { PAGE = 4096 };
    if (!(o->form.attr.sample_type & PERF_SAMPLE_STACK_USER))
        return 0;
    const size_t most =
        o->form.attr.sample_stack_user < room ? o->form.attr.sample_stack_user : room;
    const uint64_t sp = t->registers[OFF_CPU_SP];
    struct process_memory *memory;
    struct error gone;
    size_t got = 0;
    if (process_memory_open((pid_t)t->pid, &memory, &gone) < 0)
        return 0;
    while (got < most) { /* page by page, up to one that is not mapped */
        size_t piece = PAGE - (sp + got) % PAGE;
        piece = piece < most - got ? piece : most - got;
        if (!process_memory_read(memory, sp + got, (uint8_t *)to + got, piece))
            break;
        got += piece;
    }
    process_memory_close(memory);
    return got;
}

/* Whether a thread still waits as it did when it was listed. */
static bool waits(const struct off_cpu *o, const struct off_cpu_thread *t)
{
    struct off_cpu_wait wait;
    if (bpf_map_lookup_elem(copier_map(o->copier, "off_cpu_waits"), &t->tid, &wait) != 0)
        return false;
    return wait.out && wait.out <= t->out; /* (`t` has the beginning, if that was later) */
}

const struct perf_event_header *off_cpu_waiting(struct off_cpu *o, const struct off_cpu_thread *t,
                                                const void *stack, size_t size, uint64_t time)
{
    const struct off_cpu_end end = {.id = o->ids.nr ? o->ids.at[0] : 0,
                                    .time = time,
                                    .waited = off_cpu_waited(o, t),
                                    .stack = stack,
                                    .size = size};
    return waits(o, t) ? off_cpu_form_thread(&o->form, t, &end) : NULL;
}
