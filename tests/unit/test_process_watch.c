/* SPDX-License-Identifier: GPL-2.0-only */
/* The recorder's hooks for managed code: which processes are kept, and what those without a VM
 * cost.
 */
#include "live/v8_watch.h"
#include "live/process_watch.h"

#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A process that has ended and been reaped. */
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

static void forked(const struct capture_hooks *hooks, pid_t parent, pid_t pid)
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
                     0};
    struct error err;
    assert_int_equal(hooks->record(hooks->context, NULL, &fork_record.header, &err), 0);
}

/* A pass, and all that it makes the thread do. */
static uint64_t targets_after_pass(const struct capture_hooks *hooks,
                                   const struct process_watch *watch)
{
    struct error err;
    assert_int_equal(hooks->tick(hooks->context, NULL, &err), 0);
    assert_int_equal(hooks->ending(hooks->context, NULL, &err), 0);
    return process_watch_stats(watch).targets;
}

/* A program that has LuaJIT mapped and waits; it ends with its standard input. */
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
        if (there)
            return pid;
    }
    print_message("no luajit here\n");
    skip();
    return -1;
}

static struct process_watch *begin(perfdata_event_vec *more)
{
    const struct process_watch_options options = {.no_copier = true};
    const struct capture_plan plan = {.system_wide = true};
    struct process_watch *watch = process_watch_create(&options, NULL, NULL);
    struct error err;
    assert_non_null(watch);
    const struct capture_hooks *hooks = process_watch_hooks(watch);
    assert_int_equal(hooks->opened(hooks->context, &plan, more, &err), 0);
    assert_int_equal(hooks->started(hooks->context, NULL, &err), 0);
    return watch;
}

/* What has no VM in its files costs no more than that this is known. */
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
    /* Their ends have been told already: what comes now comes late. */
    sampled(hooks, dead);
    forked(hooks, luajit, child);
    usleep(1100000); /* once a second it is looked who is gone */
    assert_int_equal(targets_after_pass(hooks, watch), before + 1);
    close(input);
    waitpid(luajit, NULL, 0);
    usleep(1100000);
    assert_int_equal(targets_after_pass(hooks, watch), before);
    vec_free(&more);
    process_watch_free(watch);
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
    enum { PROCESSES = 64, MOST = 1 << 12 /* bytes of each */ };
    const struct log_sink sink = {.write = write_nothing, .now = now_is_one, .full = never_full};
    struct dsos *dsos = dsos_create(&(struct dso_options){.no_debuginfod = true});
    struct unwinder *unwinder = unwinder_create(NULL);
    struct v8_watches *all = v8_watches_create(dsos, unwinder, &sink);
    struct error err;
    assert_non_null(all);
    uint64_t before = heap_in_use();
    for (uint32_t i = 0; i < PROCESSES; i++) {
        const struct sample s = {.pid = 1000 + i, .user_abi = PERF_SAMPLE_REGS_ABI_64};
        assert_int_equal(v8_watches_sample(all, &s, &err), 0);
    }
    assert_true(heap_in_use() - before < PROCESSES * MOST);
    v8_watches_rewrite(all);
    v8_watches_free(all);
    unwinder_free(unwinder);
    dsos_free(dsos);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_processes_with_luajit_are_followed),
        cmocka_unit_test(processes_that_are_gone_are_forgotten),
        cmocka_unit_test(a_process_without_v8_costs_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
