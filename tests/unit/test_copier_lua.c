/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runs the eBPF copier on live programs of plain Lua: the states of a thread must come with each
 * sample, with their calls and stacks. What a sample says is compared with the program's registers,
 * and with what the Lua program itself prints. Needs Debian's lua5.1 to lua5.4 and the right to
 * load eBPF and to open perf events; skipped otherwise.
 */
#include "live/plain_lua.h"
#include "live/live_process.h"
#include "session/session.h"
#include "unwind/arch_x86_64.h"
#include "unwind/lua/runtime.h"
#include "base/bytes.h"
#include "perfdata/vmevent.h"
#include "tests/unit/command_fixture.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { RING_PAGES = 1024, CPUS_MAX = 64, FREQUENCY = 4999, STATES = 16 };

/* perf's numbers of the x86 registers: bx, sp, ip, bp, r12 to r15 */
#define USER_REGISTERS (1ULL << 1 | 1ULL << 6 | 1ULL << 7 | 1ULL << 8 | 0xfULL << 20)
enum { BX, BP, SP, IP, R12, R13, R14, R15, NR_REGISTERS };

static const char *const programs[] = {"lua5.1", "lua5.2", "lua5.3", "lua5.4"};

struct seen {
    uint64_t samples, copies, hits, in_execute, right, whole, states, cut, calls, bytes, least,
        stackless, functions, lost;
    uint32_t took[1 << 16];
};

struct live {
    struct copier *copier;
    struct dsos *dsos;
    struct live_process process;
    const struct lua_layout *layout;
    uint64_t bias;
    const char *program;
    struct perf_event_mmap_page *pages[CPUS_MAX];
    int fds[CPUS_MAX], nr;
    pid_t pid;
    struct seen seen;
    uint8_t copy[1 << 16];
    uint32_t copy_size;
};

/* Where the process has its Lua. */
static void look(struct live *l)
{
    struct runtime_instance instance;
    struct error err = {0};
    l->process.pid = l->pid;
    assert_int_equal(live_process_learn(&l->process, l->dsos, &err), 0);
    assert_non_null(l->process.session);
    assert_true(session_runtime_of_files(&l->process.thread, &lua_runtime, &instance));
    l->layout = instance.layout;
    l->bias = instance.bias;
}

/* perf's register, as an index of those that a sample has, of one of DWARF's. */
static int register_of(unsigned dwarf)
{
    static const struct {
        unsigned dwarf;
        int index;
    } known[] = {{DWARF_RBX, BX},  {DWARF_RBP, BP},  {DWARF_R12, R12},
                 {DWARF_R13, R13}, {DWARF_R14, R14}, {DWARF_R15, R15}};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (known[i].dwarf == dwarf)
            return known[i].index;
    return -1;
}

static void live_begin(struct live *l, const char *lua, const char *program)
{
    struct error err = {0};
    memset(l, 0, sizeof(*l));
    static const struct dso_options no_options = {.no_debuginfod = true};
    l->program = lua;
    if (copier_create(65528, false, &l->copier, &err) < 0) {
        print_message("%s\n", err.text);
        skip();
    }
    const char *const command[] = {lua, "-e", program, NULL};
    l->pid = start(command);
    if (!await_work(l->pid)) {
        print_message("%s is not there\n", lua);
        skip();
    }
    l->dsos = dsos_create(&no_options);
    assert_non_null(l->dsos);
    look(l);
    struct runtime_files *files = runtime_files_create();
    assert_non_null(files);
    if (plain_lua_tell(l->copier, files, l->pid, &err) < 0)
        fail_msg("%s", err.text);
    runtime_files_free(files);
    const struct perf_event_attr attr = copier_attr(true, CLOCK_MONOTONIC);
    struct perf_event_attr a = {.size = sizeof(a),
                                .type = PERF_TYPE_SOFTWARE,
                                .config = PERF_COUNT_SW_CPU_CLOCK,
                                .freq = 1,
                                .sample_freq = FREQUENCY,
                                .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_REGS_USER,
                                .sample_regs_user = USER_REGISTERS,
                                .sample_id_all = 1,
                                .inherit = 1,
                                .disabled = 1,
                                .use_clockid = 1,
                                .clockid = CLOCK_MONOTONIC};
    int nr = (int)sysconf(_SC_NPROCESSORS_ONLN);
    for (int cpu = 0; cpu < nr && cpu < CPUS_MAX; cpu++) {
        int fd = (int)syscall(SYS_perf_event_open, &a, l->pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
        if (fd < 0)
            continue;
        l->fds[l->nr] = fd;
        l->pages[l->nr] =
            mmap(NULL, (RING_PAGES + 1) * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(l->pages[l->nr] != MAP_FAILED);
        l->nr++;
        if (copier_open_cpu(l->copier, cpu, fd, &attr, &err) < 0 ||
            copier_attach(l->copier, fd, &a, &err) < 0)
            fail_msg("%s", err.text);
    }
}

static void live_end(struct live *l)
{
    kill(l->pid, SIGKILL);
    waitpid(l->pid, NULL, 0);
    copier_free(l->copier);
    live_process_free(&l->process);
    dsos_free(l->dsos);
    for (int i = 0; i < l->nr; i++) {
        munmap(l->pages[i], (RING_PAGES + 1) * 4096);
        close(l->fds[i]);
    }
}

/* Returns the copied bytes at an address; NULL: not there. */
static const uint8_t *find(const struct live *l, uint64_t address, uint64_t size)
{
    struct vmevent e;
    struct vmevent_entry entry;
    struct error err;
    assert_int_equal(vmevent_open(l->copy, l->copy_size, &e, &err), 0);
    while (vmevent_next(&e, &entry, NULL) > 0)
        if (entry.bytes && address - entry.address < entry.length &&
            entry.length - (address - entry.address) >= size)
            return entry.bytes + (address - entry.address);
    return NULL;
}

/* Count the calls of a state; *whole: down to the base. */
static uint64_t calls_of(struct live *l, uint64_t L, bool *whole)
{
    const struct lua_fields *f = &l->layout->fields;
    const uint8_t *state = find(l, L, f->state.size);
    assert_non_null(state);
    uint64_t ci = load_u64(state + f->state.ci, false), nr = 0;
    uint64_t stack = load_u64(state + f->state.stack, false), func = 0;
    uint64_t base = f->ci.is_array ? load_u64(state + f->state.base_ci, false) : 0;
    for (*whole = false; !*whole; nr++) {
        const uint8_t *at = find(l, ci, f->ci.size);
        if (!at)
            break;
        func = load_u64(at + f->ci.func, false);
        const uint8_t *slot = find(l, func, 16);
        l->seen.stackless += !slot;
        if (slot && (slot[8] & 0x3f) == f->closure.tag_lua)
            l->seen.functions += find(l, load_u64(slot, false), f->closure.function + 8) != NULL;
        *whole = f->ci.is_array ? ci == base : !load_u64(at + f->ci.previous, false);
        ci = f->ci.is_array ? ci - f->ci.size : load_u64(at + f->ci.previous, false);
    }
    if (*whole)
        *whole = func == stack;
    return nr;
}

static void take_sample(struct live *l, const uint8_t *registers)
{
    struct vmevent e;
    struct vmevent_entry entry;
    struct error err;
    struct seen *s = &l->seen;
    uint64_t reg[NR_REGISTERS], states = 0;
    for (int i = 0; i < NR_REGISTERS; i++)
        reg[i] = load_u64(registers + 8 * i, false);
    s->samples++;
    if (!l->copy_size)
        return;
    if (vmevent_open(l->copy, l->copy_size, &e, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(e.head.user_sp, reg[SP]);
    s->took[s->copies++ & 0xffff] = (uint32_t)(e.head.after - e.head.before);
    s->bytes += e.head.size;
    s->hits += e.head.reason == VMEVENT_MATCHED;
    s->cut += (e.head.flags & VMEVENT_CUT_CALLS) != 0;
    const struct lua_place *place = &l->layout->state[0];
    int number = place->kind == LUA_IN_REGISTER ? register_of(place->reg) : -1;
    uint64_t body = l->layout->body, pc = reg[IP] - l->bias;
    bool is_in = number >= 0 && pc >= body && pc < l->layout->parts[0].end;
    bool right = false, whole = true, of_all = true;
    while (vmevent_next(&e, &entry, NULL) > 0) {
        if (entry.kind != VMENTRY_STATE)
            continue;
        states++;
        right |= is_in && entry.address == reg[number];
        s->calls += calls_of(l, entry.address, &whole);
        of_all &= whole;
    }
    s->whole += of_all;
    s->states += states;
    s->in_execute += is_in;
    s->right += is_in && right;
    if (s->least > states || s->copies == 1)
        s->least = states;
}

static void read_ring(struct live *l, struct perf_event_mmap_page *page)
{
    const uint8_t *data = (const uint8_t *)page + page->data_offset;
    uint64_t size = page->data_size, tail = page->data_tail;
    uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
    static uint8_t record[1 << 16];
    size_t nr;
    while (tail < head) {
        uint64_t at = tail % size;
        uint16_t length = load_u16(data + at + 6, false);
        uint64_t first = size - at < length ? size - at : length;
        memcpy(record, data + at, first);
        memcpy(record + first, data, length - first);
        tail += length;
        if (load_u32(record, false) == PERF_RECORD_LOST)
            l->seen.lost += load_u64(record + 16, false);
        if (load_u32(record, false) != PERF_RECORD_SAMPLE)
            continue;
        const uint64_t *ids = copier_ids(l->copier, &nr);
        uint64_t id = load_u64(record + 8, false);
        bool is_copy = false;
        for (size_t i = 0; i < nr; i++)
            is_copy |= ids[i] == id;
        if (is_copy) {
            l->copy_size = load_u32(record + 48, false);
            memcpy(l->copy, record + 52, l->copy_size);
        } else {
            take_sample(l, record + 24);
            l->copy_size = 0;
        }
    }
    __atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void live_run(struct live *l, int ms)
{
    for (int i = 0; i < l->nr; i++)
        assert_int_equal(ioctl(l->fds[i], PERF_EVENT_IOC_ENABLE, 0), 0);
    for (int i = 0; i < ms / 5 || (l->seen.samples < 600 && i < ms); i++) {
        sleep_ms(5);
        for (int k = 0; k < l->nr; k++)
            read_ring(l, l->pages[k]);
    }
    for (int i = 0; i < l->nr; i++)
        ioctl(l->fds[i], PERF_EVENT_IOC_DISABLE, 0);
    for (int k = 0; k < l->nr; k++)
        read_ring(l, l->pages[k]);
    struct seen *s = &l->seen;
    qsort(s->took, s->copies, sizeof(*s->took), by_value);
    struct vmstack_counters c = copier_counters(l->copier);
    print_message(
        "%s: %lu samples, %lu copies, %lu hits; %lu of %lu in execute have the right "
        "state; %lu whole; %.1f states, %.1f calls, %.0f bytes; least %lu states; %lu "
        "cut, %lu slots missing, %lu functions; %lu missed, %lu lost; mean %lu ns, median %u ns\n",
        l->program, s->samples, s->copies, s->hits, s->right, s->in_execute, s->whole,
        (double)s->states / (double)s->copies, (double)s->calls / (double)s->copies,
        (double)s->bytes / (double)s->copies, s->least, s->cut, s->stackless, s->functions,
        c.value[VMSTACK_LUA_MISSED], s->lost, c.value[VMSTACK_TIME] / (c.value[VMSTACK_COPIED] + 1),
        s->took[s->copies / 2]);
}

static void run(const char *program, uint64_t least)
{
    for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
        static struct live l;
        live_begin(&l, programs[i], program);
        live_run(&l, 1000);
        const struct seen *s = &l.seen;
        assert_true(s->samples > 500);
        /* A reader that has no processor for a while loses copies, as it loses samples. */
        assert_true((s->copies + s->lost) * 1000 >= s->samples * 999);
        assert_true(s->hits * 1000 >= s->copies * 999);
        assert_true(s->right * 100 >= s->in_execute * 97);
        assert_true(s->whole * 100 >= s->copies * 98);
        assert_true(s->least >= least || !least);
        live_end(&l);
    }
}

static void calls(void **state)
{
    (void)state;
    run("local function f(n) if n == 0 then return 1 end return 1 + f(n-1) end local t = {} "
        "while true do for i = 1, 30 do t[i % 7] = f(i) .. 'x' end end",
        1);
}

static void nested(void **state)
{
    (void)state;
    run("local function cmp(a, b) return a < b end "
        "local function leaf(n) local t = {} for i = 1, n do t[i] = i * 7919 % 101 end "
        "table.sort(t, cmp) return (tostring(n) .. 'abc'):gsub('%a', function(c) return c .. #t "
        "end) end "
        "local function mid(n) if n == 0 then return select(2, pcall(leaf, 30)) end return "
        "(mid(n-1)) end "
        "while true do mid(10) end",
        1);
}

static void coroutines(void **state)
{
    (void)state;
    run("local function work(n) local s = 0 for i = 1, n do s = s + i % 7 end return s end "
        "local function in3() for i = 1, 3 do coroutine.yield(work(300)) end end "
        "local function in2() local c = coroutine.wrap(in3) for i = 1, 3 do c() work(50) end end "
        "while true do local c = coroutine.create(in2) coroutine.resume(c) end",
        1);
}

static void deep(void **state)
{
    (void)state;
    run("local function f(n) if n == 0 then local s = 0 for i = 1, 1e4 do s = s + i end return s "
        "end return 1 + f(n-1) end while true do f(50) end",
        1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls),
        cmocka_unit_test(nested),
        cmocka_unit_test(coroutines),
        cmocka_unit_test(deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
