/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runs the eBPF copier on live programs: its copy must come before each sample and be of the right
 * lua_State. Needs luajit and the right to load eBPF and to open perf events; skipped otherwise.
 */
#include "live/copier.h"
#include "live/runtime_files.h"
#include "perfdata/vmevent.h"
#include "tests/unit/command_fixture.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernel_fixture.h"

enum { RING_PAGES = 512, CPUS_MAX = 256, FREQUENCY = 4999 };

/* perf's numbers of the x86 registers sp and ip */
#define USER_REGISTERS (1ULL << 7 | 1ULL << 8)

struct ring {
    int fd;
    struct perf_event_mmap_page *page;
    /* whether the last record was a copy, and that copy's header and time */
    bool has_copy;
    struct vmevent_header copy;
    uint64_t copy_time;
};

/* Counters of what the rings held. */
struct seen {
    uint64_t samples, in_kernel, copies, hits, misses[VMEVENT_NR_REASONS], adjacent, apart;
    uint64_t lost, bytes, states, stacks, wrong_stack, levels, vms_most, later, broken;
};

struct live {
    struct copier *copier;
    struct runtime_files *files;
    struct ring rings[CPUS_MAX];
    int nr_rings;
    pid_t pid;
    lua_scan_vm_list vms;
    struct seen seen;
    struct ring *ring; /* the ring being read */
};

/* ---- setting up --------------------------------------------------------------------------- */

static const struct perf_event_attr sampling_attr = {
    .size = sizeof(sampling_attr),
    .type = PERF_TYPE_SOFTWARE,
    .config = PERF_COUNT_SW_CPU_CLOCK,
    .freq = 1,
    .sample_freq = FREQUENCY,
    .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
                   PERF_SAMPLE_CPU | PERF_SAMPLE_REGS_USER,
    .sample_regs_user = USER_REGISTERS,
    .sample_id_all = 1,
    .inherit = 1,
    .disabled = 1,
    .use_clockid = 1,
    .clockid = CLOCK_MONOTONIC};

static int open_sampling(pid_t pid, int cpu, struct ring *r)
{
    struct perf_event_attr a = sampling_attr;
    size_t size = (size_t)(RING_PAGES + 1) * (size_t)sysconf(_SC_PAGESIZE);
    r->fd = (int)syscall(SYS_perf_event_open, &a, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (r->fd < 0)
        return -1;
    r->page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    assert_true(r->page != MAP_FAILED);
    return 0;
}

static void open_rings(struct live *l)
{
    const struct perf_event_attr attr = copier_attr(true, CLOCK_MONOTONIC);
    struct error err = {0};
    int nr = (int)sysconf(_SC_NPROCESSORS_ONLN);
    for (int cpu = 0; cpu < nr && cpu < CPUS_MAX; cpu++) {
        struct ring *r = &l->rings[l->nr_rings];
        if (open_sampling(l->pid, cpu, r) < 0)
            continue;
        l->nr_rings++;
        if (copier_open_cpu(l->copier, cpu, r->fd, &attr, &err) < 0 ||
            copier_attach(l->copier, r->fd, &sampling_attr, &err) < 0)
            fail_msg("%s", err.text);
    }
    assert_true(l->nr_rings > 0);
}

/* Starts a program, waits until it has `want` VMs, attaches. */
static void live_begin(struct live *l, const char *const *command, size_t want)
{
    struct error err = {0};
    memset(l, 0, sizeof(*l));
    if (copier_create(65528, false, &l->copier, &err) < 0) {
        print_message("%s\n", err.text);
        skip();
    }
    l->files = runtime_files_create();
    assert_non_null(l->files);
    l->pid = start(command);
    for (int i = 0; i < 100 && l->vms.nr < want; i++) {
        sleep_ms(20);
        if (waitpid(l->pid, NULL, WNOHANG) == l->pid) {
            print_message("%s is not there\n", command[0]);
            skip();
        }
        l->vms.nr = 0;
        /* the process may be in the middle of its exec */
        (void)lua_scan_process(l->files, l->pid, &l->vms, &err);
    }
    assert_int_equal(l->vms.nr, want);
    const struct copier_vms of = {.vms = l->vms.at, .nr = l->vms.nr};
    assert_int_equal(copier_set(l->copier, l->pid, &of, NULL, &err), 0);
    open_rings(l);
}

static void live_end(struct live *l)
{
    kill(l->pid, SIGKILL);
    waitpid(l->pid, NULL, 0);
    copier_free(l->copier);
    for (int i = 0; i < l->nr_rings; i++) {
        munmap(l->rings[i].page, (size_t)(RING_PAGES + 1) * (size_t)sysconf(_SC_PAGESIZE));
        close(l->rings[i].fd);
    }
    vec_free(&l->vms);
    runtime_files_free(l->files);
}

/* ---- what the rings hold ------------------------------------------------------------------- */

static const struct lua_scan_vm *vm_of(const struct live *l, uint64_t g)
{
    vec_foreach (vm, &l->vms) {
        if (vm->vm.g == g)
            return vm;
    }
    return NULL;
}

/* Returns whether the bottom slot of a Lua stack holds the stack's own lua_State (GC64: under a 47
 * bit mask). */
static bool is_stack_of(const struct vmevent_entry *stack, uint64_t L, bool gc64)
{
    uint64_t slot = load_u64(stack->bytes, false);
    return stack->length >= 16 && (gc64 ? (slot & ((1ULL << 47) - 1)) == L : (uint32_t)slot == L);
}

static void check_copy(struct live *l, struct vmevent *e)
{
    struct vmevent_entry entry;
    uint64_t L = 0, g = 0;
    bool bottom = false; /* this state's stack bottom is still to come */
    struct seen *s = &l->seen;
    while (vmevent_next(e, &entry, NULL) > 0) {
        const struct lua_scan_vm *vm = vm_of(l, g);
        if (entry.kind == VMENTRY_GLOBAL) {
            g = entry.address;
            assert_non_null(vm_of(l, g));
            if (entry.vm + 1u > s->vms_most)
                s->vms_most = entry.vm + 1u;
        } else if (entry.kind == VMENTRY_STATE) {
            assert_non_null(vm);
            const struct luajit_layout *y = vm->vm.layout;
            uint64_t at = load_u64(entry.bytes + y->L_glref, false);
            assert_int_equal(y->gc64 ? at : (uint32_t)at, g);
            L = entry.address;
            s->states++;
            s->levels += entry.level != 0;
            bottom = true;
        } else if (entry.kind == VMENTRY_STACK && bottom) {
            assert_non_null(vm);
            s->stacks++;
            s->wrong_stack += !is_stack_of(&entry, L, vm->vm.layout->gc64);
            bottom = false;
        }
    }
}

static void take_copy(struct live *l, const uint8_t *at, uint64_t time)
{
    struct vmevent e;
    struct error err;
    uint32_t size = load_u32(at, false);
    if (vmevent_open(at + 4, size, &e, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(e.head.kind, VMEVENT_STACK);
    l->seen.copies++;
    l->seen.bytes += e.head.size;
    l->seen.hits += e.head.reason == VMEVENT_MATCHED;
    l->seen.broken += (e.head.flags & VMEVENT_BROKEN_LINKS) != 0;
    if (e.head.reason < VMEVENT_NR_REASONS)
        l->seen.misses[e.head.reason]++;
    l->ring->copy = e.head;
    l->ring->copy_time = time;
    l->ring->has_copy = true;
    check_copy(l, &e);
}

/* Layout: IDENTIFIER, IP, TID, TIME, CPU, REGS_USER (abi, sp, ip). */
static void take_sample(struct live *l, const uint8_t *at, uint16_t misc)
{
    uint32_t tid = load_u32(at + 20, false);
    uint64_t time = load_u64(at + 24, false), abi = load_u64(at + 40, false);
    l->seen.samples++;
    l->seen.in_kernel += (misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
    bool fits = l->ring->has_copy && abi && l->ring->copy.tid == tid &&
                l->ring->copy.user_sp == load_u64(at + 48, false) &&
                l->ring->copy.user_ip == load_u64(at + 56, false);
    l->seen.adjacent += fits;
    l->seen.apart += !fits;
    l->seen.later += fits && l->ring->copy_time > time;
}

static bool is_copier_id(const struct live *l, uint64_t id)
{
    size_t nr;
    const uint64_t *ids = copier_ids(l->copier, &nr);
    for (size_t i = 0; i < nr; i++) {
        if (ids[i] == id)
            return true;
    }
    return false;
}

static void take_record(struct live *l, const uint8_t *record)
{
    const uint8_t *body = record + sizeof(struct perf_event_header);
    uint32_t type = load_u32(record, false);
    if (type == PERF_RECORD_LOST)
        l->seen.lost += load_u64(body + 8, false);
    if (type != PERF_RECORD_SAMPLE)
        return;
    if (is_copier_id(l, load_u64(body, false))) {
        take_copy(l, body + 40, load_u64(body + 24, false)); /* id, ip, tid, time, cpu */
        return;
    }
    take_sample(l, body, load_u16(record + 4, false));
    l->ring->has_copy = false;
}

static void read_ring(struct live *l, struct ring *r)
{
    const uint8_t *data = (const uint8_t *)r->page + r->page->data_offset;
    uint64_t size = r->page->data_size, tail = r->page->data_tail;
    uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
    static uint8_t record[1 << 16];
    l->ring = r;
    while (tail < head) {
        uint64_t at = tail % size;
        uint16_t length = load_u16(data + at + 6, false); /* headers do not wrap */
        uint64_t first = size - at < length ? size - at : length;
        memcpy(record, data + at, first);
        memcpy(record + first, data, length - first);
        take_record(l, record);
        tail += length;
    }
    __atomic_store_n(&r->page->data_tail, tail, __ATOMIC_RELEASE);
}

static void live_run(struct live *l, int ms)
{
    for (int i = 0; i < l->nr_rings; i++)
        assert_int_equal(ioctl(l->rings[i].fd, PERF_EVENT_IOC_ENABLE, 0), 0);
    /* samples come by processor time, and a loaded machine gives little of it */
    for (int i = 0; i < ms / 10 || (l->seen.samples < 600 && i < ms * 2); i++) {
        sleep_ms(10);
        for (int k = 0; k < l->nr_rings; k++)
            read_ring(l, &l->rings[k]);
    }
    for (int i = 0; i < l->nr_rings; i++)
        ioctl(l->rings[i].fd, PERF_EVENT_IOC_DISABLE, 0);
    for (int k = 0; k < l->nr_rings; k++)
        read_ring(l, &l->rings[k]);
}

static void report(const char *name, const struct live *l)
{
    const struct seen *s = &l->seen;
    struct vmstack_counters c = copier_counters(l->copier);
    uint64_t copied = c.value[VMSTACK_COPIED] ? c.value[VMSTACK_COPIED] : 1;
    print_message("%s: %lu samples (%lu in the kernel), %lu hits, %lu adjacent, %lu elsewhere, "
                  "%lu unreadable, %lu lost; %lu bytes and %lu ns a hit; %lu stacks, %lu cut, "
                  "%lu outer states, %lu without, %lu stamped later than their sample\n",
                  name, s->samples, s->in_kernel, s->hits, s->adjacent,
                  s->misses[VMEVENT_ELSEWHERE], s->misses[VMEVENT_BAD_READ], s->lost,
                  s->bytes / copied, c.value[VMSTACK_TIME] / copied, s->stacks,
                  c.value[VMSTACK_CUT], s->levels, s->broken, s->later);
}

/* Checks that hold for any program that always runs Lua. */
static void check_always(const char *name, const struct live *l)
{
    const struct seen *s = &l->seen;
    report(name, l);
    assert_true(s->samples > 500);
    assert_true(s->adjacent * 1000 >= (s->samples - s->lost) * 999);
    assert_true(s->hits * 1000 >= s->copies * 999);
    assert_int_equal(s->wrong_stack, 0);
}

/* ---- programs ------------------------------------------------------------------------------ */

static void run_lua(const char *name, const char *option, const char *program, int ms,
                    struct live *l)
{
    const char *const command[] = {"luajit", option, "-e", program, NULL};
    live_begin(l, command, 1);
    sleep_ms(50);
    live_run(l, ms);
    check_always(name, l);
}

static const char CALLS[] = "local function f(n) if n == 0 then return 1 end return 1 + f(n-1) end "
                            "local t = {} "
                            "while true do for i = 1, 30 do t[i % 7] = f(i) .. 'x' end end";

static void interpreter(void **state)
{
    (void)state;
    struct live l;
    run_lua("interpreter", "-joff", CALLS, 1500, &l);
    live_end(&l);
}

static void with_the_jit(void **state)
{
    (void)state;
    struct live l;
    run_lua("jit", "-jon", CALLS, 1500, &l);
    live_end(&l);
}

/* The program spends half of its time in the kernel. */
static void system_calls(void **state)
{
    (void)state;
    struct live l;
    run_lua("system calls", "-joff",
            "local f = io.open('/dev/null', 'w') f:setvbuf('no') "
            "while true do f:write('x') end",
            1000, &l);
    assert_true(l.seen.in_kernel > 50);
    live_end(&l);
}

/* The search for VMs skips address space that was never written, of any size. */
static void beside_terabytes_of_nothing(void **state)
{
    const char *const command[] = {
        "luajit", "-e",
        "local ffi = require 'ffi' ffi.cdef 'char *mmap(void *, size_t, int, int, int, long);' "
        "local at = ffi.C.mmap(nil, 10 * 2^40, 3, 0x4022, -1, 0) "
        "for i = 0, 2^40, 2^34 do at[i] = 1 end while true do end",
        NULL};
    struct runtime_files *files = runtime_files_create();
    lua_scan_vm_list vms = {0};
    lua_scan_range_list ranges = {0};
    struct error err;
    struct timespec from, to;
    (void)state;
    pid_t pid = start(command);
    sleep_ms(500);
    if (waitpid(pid, NULL, WNOHANG) == pid)
        skip();
    need_program_of_our_machine(pid);
    clock_gettime(CLOCK_MONOTONIC, &from);
    assert_int_equal(lua_scan_process(files, pid, &vms, &err), 0);
    assert_int_equal(lua_scan_heap(pid, &ranges, &err), 0);
    clock_gettime(CLOCK_MONOTONIC, &to);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(vms.nr, 1);
    assert_true(to.tv_sec - from.tv_sec < 5); /* to look at each page took 24 s, twice */
    vec_free(&vms);
    vec_free(&ranges);
    runtime_files_free(files);
}

static void deep_recursion_is_cut(void **state)
{
    (void)state;
    struct live l;
    run_lua("deep", "-joff",
            "local function f(n) if n == 0 then local s = 0 while true do s = s + 1 end end "
            "return 1 + f(n-1) end f(20000)",
            500, &l);
    struct vmstack_counters c = copier_counters(l.copier);
    assert_true(c.value[VMSTACK_CUT] >= l.seen.hits);
    live_end(&l);
}

/* Two nested coroutines: the stacks of the resumers are copied, too. */
static void coroutines(void **state)
{
    (void)state;
    struct live l;
    run_lua("coroutines", "-joff",
            "local function work() local s = 0 for i = 1, 1e12 do s = s + i % 7 end end "
            "local outer = coroutine.wrap(function() coroutine.wrap(work)() end) outer()",
            700, &l);
    assert_true(l.seen.levels >= 2 * l.seen.hits * 99 / 100);
    live_end(&l);
}

/* A VM that nobody has found yet is copied when DISPATCH names it; check_copy() compares it with
 * the VM known here. Elsewhere, the copy says that no VM is known. */
static void one_that_is_not_known(void **state)
{
    (void)state;
    struct live l;
    struct error err;
    lua_scan_blob_list blobs = {0};
    const char *const command[] = {"luajit", "-joff", "-e", CALLS, NULL};
    live_begin(&l, command, 1);
    assert_int_equal(lua_scan_blobs(l.files, l.pid, &blobs, &err), 0);
    assert_true(blobs.nr > 0);
    const struct copier_vms of = {.blobs = blobs.at, .nr_blobs = blobs.nr};
    assert_int_equal(copier_set(l.copier, l.pid, &of, NULL, &err), 0);
    live_run(&l, 700);
    report("not known", &l);
    assert_true(l.seen.samples > 500);
    assert_true(l.seen.hits * 10 >= l.seen.copies * 5);
    assert_int_equal(l.seen.hits + l.seen.misses[VMEVENT_NO_VM], l.seen.copies);
    assert_int_equal(l.seen.wrong_stack, 0);
    vec_free(&blobs);
    live_end(&l);
}

/* A process without VMs gets copies that say so; a process outside the table gets none. */
static void none_is_said(void **state)
{
    (void)state;
    struct live l;
    struct error err;
    const char *const command[] = {"luajit", "-joff", "-e", CALLS, NULL};
    live_begin(&l, command, 1);
    const struct copier_vms none = {0};
    assert_int_equal(copier_set(l.copier, l.pid, &none, NULL, &err), 0);
    live_run(&l, 200);
    assert_true(l.seen.copies > 50);
    assert_int_equal(l.seen.misses[VMEVENT_NO_VM], l.seen.copies);
    uint64_t before = l.seen.copies;
    copier_drop(l.copier, l.pid);
    live_run(&l, 600);
    assert_int_equal(l.seen.copies, before);
    assert_true(copier_counters(l.copier).value[VMSTACK_UNKNOWN] > 50);
    live_end(&l);
}

/* A VM that this thread does not run never matches, wherever its words point. */
static void hostile_descriptions(void **state)
{
    (void)state;
    struct live l;
    struct error err;
    struct lua_scan_vm vms[40];
    const char *const command[] = {"luajit", "-joff", "-e", CALLS, NULL};
    live_begin(&l, command, 1);
    for (size_t i = 0; i < 40; i++) {
        vms[i] = l.vms.at[0];
        vms[i].vm.g += i * 0x11;
    }
    vms[1].vm.g = UINT64_MAX - 3;
    vms[2].vm.g = 0xffff800000000000;
    const struct copier_vms many = {.vms = vms + 1, .nr = 39};
    assert_int_equal(copier_set(l.copier, l.pid, &many, NULL, &err), 0);
    vec_free(&l.vms);
    for (int i = 0; i < l.nr_rings; i++)
        ioctl(l.rings[i].fd, PERF_EVENT_IOC_ENABLE, 0);
    sleep_ms(1000);
    struct vmstack_counters c = copier_counters(l.copier);
    assert_true(c.value[VMSTACK_NONE] + c.value[VMSTACK_COPIED] > 50);
    live_end(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interpreter),
        cmocka_unit_test(with_the_jit),
        cmocka_unit_test(beside_terabytes_of_nothing),
        cmocka_unit_test(system_calls),
        cmocka_unit_test(deep_recursion_is_cut),
        cmocka_unit_test(coroutines),
        cmocka_unit_test(one_that_is_not_known),
        cmocka_unit_test(none_is_said),
        cmocka_unit_test(hostile_descriptions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
