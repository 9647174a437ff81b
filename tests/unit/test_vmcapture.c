/* SPDX-License-Identifier: GPL-2.0-only */
/* The recorder's hooks for guest code: which processes are kept, and what those without a VM cost.
 */
#include "capture/jstarget.h"
#include "capture/vmcapture.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
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
static uint64_t targets_after_pass(const struct capture_hooks *hooks, const struct vm_capture *vc)
{
    struct error err;
    assert_int_equal(hooks->tick(hooks->context, NULL, &err), 0);
    assert_int_equal(hooks->ending(hooks->context, NULL, &err), 0);
    return vm_capture_stats(vc).targets;
}

static void processes_that_are_gone_are_forgotten(void **state)
{
    (void)state;
    const struct vm_capture_options options = {.no_copier = true};
    const struct capture_plan plan = {.nr_rings = 0};
    struct vm_capture *vc = vm_capture_create(&options, NULL, NULL);
    assert_non_null(vc);
    const struct capture_hooks *hooks = vm_capture_hooks(vc);
    perfdata_event_vec more = {0};
    struct error err;
    pid_t dead = dead_pid(), child = dead_pid();
    assert_int_equal(hooks->opened(hooks->context, &plan, &more, &err), 0);
    assert_int_equal(hooks->started(hooks->context, NULL, &err), 0);
    sampled(hooks, getpid());
    assert_int_equal(targets_after_pass(hooks, vc), 1);
    /* Their ends have been told already: what comes now comes late. */
    sampled(hooks, dead);
    forked(hooks, getpid(), child);
    usleep(1100000); /* once a second it is looked who is gone */
    assert_int_equal(targets_after_pass(hooks, vc), 1);
    vec_free(&more);
    vm_capture_free(vc);
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
    const struct object_sink sink = {.write = write_nothing, .now = now_is_one, .full = never_full};
    struct dsos *dsos = dsos_create(&(struct dso_options){.no_debuginfod = true});
    struct unwinder *unwinder = unwinder_create(NULL);
    struct js_targets *all = js_targets_create(dsos, unwinder, &sink);
    struct error err;
    assert_non_null(all);
    uint64_t before = heap_in_use();
    for (uint32_t i = 0; i < PROCESSES; i++) {
        const struct sample s = {.pid = 1000 + i, .user_abi = PERF_SAMPLE_REGS_ABI_64};
        assert_int_equal(js_targets_sample(all, &s, &err), 0);
    }
    assert_true(heap_in_use() - before < PROCESSES * MOST);
    js_targets_retell(all);
    js_targets_free(all);
    unwinder_free(unwinder);
    dsos_free(dsos);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_that_are_gone_are_forgotten),
        cmocka_unit_test(a_process_without_v8_costs_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
