/* SPDX-License-Identifier: GPL-2.0-only */
/* The recorder's hooks for managed code: which processes are kept, and the cost of those without a
 * VM. */
#include "live/v8_watch.h"
#include "unwind/v8/runtime.h"
#include "live/lua_scan.h"
#include "live/process_watch.h"

#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernel_fixture.h"

/* Returns the pid of a process that has ended and been reaped. */
static pid_t dead_pid(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_true(pid > 0 && waitpid(pid, NULL, 0) == pid);
    return pid;
}

static void sampled(const struct capture_hooks *hooks, pid_t pid)
{
    const struct sample s = {
        .pid = (uint32_t)pid, .tid = (uint32_t)pid, .user_abi = PERF_SAMPLE_REGS_ABI_64};
    struct error err;
    assert_int_equal(hooks->sample(hooks->context, NULL, &s, &err), 0);
}

static void forked_at(const struct capture_hooks *hooks, pid_t parent, pid_t pid, uint64_t time)
{
    const struct {
        struct perf_event_header header;
        uint32_t pid, ppid, tid, ptid;
        uint64_t time;
    } fork_record = {{PERF_RECORD_FORK, 0, sizeof(fork_record)},
                     (uint32_t)pid,
                     (uint32_t)parent,
                     (uint32_t)pid,
                     (uint32_t)parent,
                     time};
    struct error err;
    assert_int_equal(hooks->record(hooks->context, NULL, &fork_record.header, &err), 0);
}

/* Makes a pass and all the work that it gives to the thread. Returns the number of targets. */
static uint64_t targets_after_pass(const struct capture_hooks *hooks,
                                   const struct process_watch *watch)
{
    struct error err;
    assert_int_equal(hooks->tick(hooks->context, NULL, &err), 0);
    assert_int_equal(hooks->ending(hooks->context, NULL, &err), 0);
    return process_watch_stats(watch).targets;
}

/* Starts a program that has LuaJIT mapped and waits. It ends with its standard input. */
static pid_t start_luajit(int *input)
{
    int ends[2];
    char path[64], line[512];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[0], 0);
        execlp("luajit", "luajit", "-e", "io.read()", (char *)NULL);
        _exit(127);
    }
    close(ends[0]);
    *input = ends[1];
    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    for (int i = 0; i < 200; i++) {
        FILE *f = fopen(path, "re");
        bool there = false;
        while (f && !there && fgets(line, sizeof(line), f))
            there = strstr(line, "luajit") != NULL;
        if (f)
            fclose(f);
        usleep(10000);
        if (there) {
            need_program_of_our_machine(pid);
            return pid;
        }
    }
    print_message("no luajit here\n");
    skip();
    return -1;
}

static struct process_watch *begin(perfdata_event_vec *more)
{
    const struct process_watch_options options = {.no_copier = true, .thread = true};
    static const struct capture_plan plan = {.system_wide = true};
    struct process_watch *watch = process_watch_create(&options, NULL, NULL);
    struct error err;
    assert_non_null(watch);
    const struct capture_hooks *hooks = process_watch_hooks(watch);
    assert_int_equal(hooks->opened(hooks->context, &plan, more, &err), 0);
    assert_int_equal(hooks->started(hooks->context, NULL, &err), 0);
    return watch;
}

/* A process without a VM in its files costs no more than the knowledge of that. */
static void only_processes_with_luajit_are_followed(void **state)
{
    (void)state;
    perfdata_event_vec more = {0};
    struct process_watch *watch = begin(&more);
    const struct capture_hooks *hooks = process_watch_hooks(watch);
    int input;
    uint64_t before = targets_after_pass(hooks, watch);
    sampled(hooks, getpid());
    assert_int_equal(targets_after_pass(hooks, watch), before);
    pid_t luajit = start_luajit(&input);
    sampled(hooks, luajit);
    assert_int_equal(targets_after_pass(hooks, watch), before + 1);
    close(input);
    waitpid(luajit, NULL, 0);
    vec_free(&more);
    process_watch_free(watch);
}

/* Once a second the watch looks for processes that are gone; a busy machine makes it late. */
static void wait_for_targets(const struct capture_hooks *hooks, struct process_watch *watch,
                             uint64_t wanted)
{
    enum { STEP_US = 300000, STEPS = 60 };
    uint64_t nr = wanted + 1;
    for (int i = 0; i < STEPS && nr != wanted; i++) {
        usleep(STEP_US);
        nr = targets_after_pass(hooks, watch);
    }
    assert_int_equal(nr, wanted);
}

static void processes_that_are_gone_are_forgotten(void **state)
{
    (void)state;
    perfdata_event_vec more = {0};
    struct process_watch *watch = begin(&more);
    const struct capture_hooks *hooks = process_watch_hooks(watch);
    int input;
    pid_t dead = dead_pid(), child = dead_pid(), luajit = start_luajit(&input);
    uint64_t before = targets_after_pass(hooks, watch);
    sampled(hooks, luajit);
    /* Their exits have been reported already: the following records are late. */
    sampled(hooks, dead);
    forked_at(hooks, luajit, child, 0);
    wait_for_targets(hooks, watch, before + 1);
    close(input);
    waitpid(luajit, NULL, 0);
    wait_for_targets(hooks, watch, before);
    vec_free(&more);
    process_watch_free(watch);
}

/* Records with the trailer of struct capture_plan's events: TID, TIME, CPU, IDENTIFIER. */
struct trailer {
    uint64_t tid, time, cpu, id;
};

static void executed(const struct capture_hooks *hooks, pid_t pid, uint64_t time)
{
    const struct {
        struct perf_event_header header;
        uint32_t pid, tid;
        char comm[8];
        struct trailer trailer;
    } record = {{PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, sizeof(record)},
                (uint32_t)pid,
                (uint32_t)pid,
                "luajit",
                {.time = time}};
    struct error err;
    assert_int_equal(hooks->record(hooks->context, NULL, &record.header, &err), 0);
}

static void mapped(const struct capture_hooks *hooks, pid_t pid, const struct process_map *m,
                   uint64_t time)
{
    struct {
        struct perf_event_header header;
        uint32_t pid, tid;
        uint64_t start, size, pgoff;
        uint32_t major, minor;
        uint64_t inode, generation;
        uint32_t prot, flags;
        char name[64];
        struct trailer trailer;
    } record = {.header = {PERF_RECORD_MMAP2, 0, sizeof(record)},
                .pid = (uint32_t)pid,
                .tid = (uint32_t)pid,
                .start = m->start,
                .size = m->end - m->start,
                .major = m->major,
                .minor = m->minor,
                .inode = m->inode,
                .prot = m->prot,
                .name = "/a/file",
                .trailer = {.time = time}};
    struct error err;
    assert_int_equal(hooks->record(hooks->context, NULL, &record.header, &err), 0);
}

/* Rings are read one after the other: the fork of a process may be read when its exec, and what it
 * has mapped, was read before. */
static void a_fork_that_is_read_late_changes_nothing(void **state)
{
    (void)state;
    perfdata_event_vec more = {0};
    struct process_watch *vc = begin(&more);
    const struct capture_hooks *hooks = process_watch_hooks(vc);
    int input;
    pid_t luajit = start_luajit(&input);
    struct process_maps maps;
    uint64_t before = targets_after_pass(hooks, vc);
    sampled(hooks, luajit); /* its files are known from now on */
    assert_int_equal(targets_after_pass(hooks, vc), before + 1);
    executed(hooks, luajit, 20000);
    assert_int_equal(targets_after_pass(hooks, vc), before);
    assert_int_equal(process_maps_read(luajit, &maps, NULL), 0);
    vec_foreach (m, &maps.maps)
        if (m->prot & PROT_EXEC && m->inode)
            mapped(hooks, luajit, m, 30000);
    assert_int_equal(targets_after_pass(hooks, vc), before + 1);
    forked_at(hooks, getpid(), luajit, 10000);
    assert_int_equal(targets_after_pass(hooks, vc), before + 1);
    executed(hooks, luajit, 20000); /* likewise */
    assert_int_equal(targets_after_pass(hooks, vc), before + 1);
    forked_at(hooks, getpid(), luajit, 90000); /* another process with that id */
    assert_int_equal(targets_after_pass(hooks, vc), before);
    process_maps_free(&maps);
    close(input);
    waitpid(luajit, NULL, 0);
    vec_free(&more);
    process_watch_free(vc);
}

static int write_nothing(void *context, const void *payload, size_t size, struct error *err)
{
    (void)context, (void)payload, (void)size, (void)err;
    return 0;
}

static uint64_t now_is_one(void *context)
{
    (void)context;
    return 1;
}

static bool never_full(void *context)
{
    (void)context;
    return false;
}

static uint64_t heap_in_use(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void a_process_without_v8_costs_little(void **state)
{
    (void)state;
    enum { PROCESSES = 64, MOST = 1 << 12 /* bytes per process */ };
    const struct log_sink sink = {.write = write_nothing, .now = now_is_one, .full = never_full};
    struct dsos *dsos = dsos_create(&(struct dso_options){.no_debuginfod = true});
    struct unwinder *unwinder = unwinder_create(NULL);
    const struct watch_means means = {
        .runtime = &v8_runtime, .dsos = dsos, .unwinder = unwinder, .sink = sink};
    void *all = v8_watch_kind.create(&means);
    struct error err;
    assert_non_null(all);
    uint64_t before = heap_in_use();
    for (uint32_t i = 0; i < PROCESSES; i++) {
        const struct sample s = {.pid = 1000 + i, .user_abi = PERF_SAMPLE_REGS_ABI_64};
        assert_int_equal(v8_watch_kind.sample(all, &s, NULL, &err), 0);
    }
    assert_true(heap_in_use() - before < PROCESSES * MOST);
    v8_watch_kind.rewrite(all);
    v8_watch_kind.free(all);
    unwinder_free(unwinder);
    dsos_free(dsos);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_processes_with_luajit_are_followed),
        cmocka_unit_test(processes_that_are_gone_are_forgotten),
        cmocka_unit_test(a_fork_that_is_read_late_changes_nothing),
        cmocka_unit_test(a_process_without_v8_costs_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
