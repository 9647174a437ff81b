/* SPDX-License-Identifier: GPL-2.0-only */
/* Processes, threads, mappings, the kernel and generated code over time. */
#include "memory_fixture.h"
#include "base/hash.h"
#include "base/text.h"
#include "perfdata_fixture.h"
#include "replay/replay.h"
#include "session/session.h"

#include <inttypes.h>
#include <pthread.h>
#include <linux/perf_event.h>
#include <perf/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- a session, and records for it ------------------------------------------------------- */

struct world {
    char dir[32];
    struct perfdata *pd;
    struct dsos *dsos;
    struct session *s;
    struct session_options options;
    int clock; /* -1: perf's own clock */
};

/* Writes a recording with one event and nothing else: header, attr, no records. */
static void write_recording(const char *path, const struct perf_event_attr *attr)
{
    const uint64_t entry = sizeof(*attr) + 16, header_size = 104;
    const uint64_t header[13] = {
        0x32454c4946524550, /* "PERFILE2" */
        header_size,
        entry,
        header_size, /* attrs: offset and size */
        entry,
        header_size + entry, /* data: offset; size 0 */
    };
    const uint64_t ids[2] = {header_size + entry, 0};
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(header, sizeof(header), 1, f), 1);
    assert_int_equal(fwrite(attr, sizeof(*attr), 1, f), 1);
    assert_int_equal(fwrite(ids, sizeof(ids), 1, f), 1);
    fclose(f);
}

static void world_open(struct world *w)
{
    char path[64];
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof(attr),
                                   .config = PERF_COUNT_SW_CPU_CLOCK,
                                   .sample_type =
                                       PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
                                   .sample_id_all = 1};
    if (w->clock >= 0) {
        attr.use_clockid = 1;
        attr.clockid = w->clock;
    }
    strcpy(w->dir, "session-test-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    snprintf(path, sizeof(path), "%s/perf.data", w->dir);
    write_recording(path, &attr);
    assert_int_equal(perfdata_open(path, NULL, &w->pd, NULL), 0);
    w->dsos = dsos_create(&(struct dso_options){.no_debuginfod = true});
    w->options.tmp_dir = w->dir;
    assert_int_equal(session_create(w->pd, w->dsos, &w->options, &w->s, NULL), 0);
}

static void remove_file(const struct world *w, const char *name)
{
    char path[96];
    snprintf(path, sizeof(path), "%s/%s", w->dir, name);
    unlink(path);
}

static void world_free(struct world *w)
{
    session_free(w->s);
    dsos_free(w->dsos);
    perfdata_close(w->pd);
    remove_file(w, "perf.data");
    assert_int_equal(rmdir(w->dir), 0);
}

static void add(struct text *t, const void *bytes, size_t size)
{
    text_bytes(t, bytes, size);
}

static void u32(struct text *t, uint32_t v)
{
    add(t, &v, sizeof(v));
}

static void u64(struct text *t, uint64_t v)
{
    add(t, &v, sizeof(v));
}

static void string(struct text *t, const char *s)
{
    add(t, s, strlen(s) + 1);
    while (t->size % 8)
        text_char(t, 0);
}

/* Ends a record that begins with 8 free bytes, and applies it. */
static void apply(struct world *w, struct text *t, uint32_t type, uint16_t misc, uint64_t time)
{
    u32(t, 0);
    u32(t, 0);
    u64(t, time);
    struct perf_event_header h = {type, misc, (uint16_t)t->size};
    memcpy(t->at, &h, sizeof(h));
    struct record rec = {.data = (const uint8_t *)t->at,
                         .time = time,
                         .size = (uint32_t)t->size,
                         .type = type,
                         .misc = misc};
    struct error err = {0};
    assert_int_equal(session_apply(w->s, &rec, &err), 0);
    text_free(t);
}

static struct text begin(void)
{
    struct text t = {0};
    u64(&t, 0);
    return t;
}

struct map {
    uint32_t pid;
    uint64_t start, size, pgoff;
    uint32_t prot;
    const char *name;
    uint64_t time;
    uint16_t mode;
    uint64_t inode, generation;
    uint32_t device;
};

static void do_mmap(struct world *w, struct map m)
{
    struct text t = begin();
    bool data = !(m.prot & PROT_EXEC);
    u32(&t, m.pid);
    u32(&t, m.pid);
    u64(&t, m.start);
    u64(&t, m.size);
    u64(&t, m.pgoff);
    u32(&t, m.device); /* major */
    u32(&t, 0);
    u64(&t, m.inode);
    u64(&t, m.generation);
    u32(&t, m.prot);
    u32(&t, MAP_PRIVATE);
    string(&t, m.name);
    uint16_t mode = m.mode ? m.mode : PERF_RECORD_MISC_USER;
    apply(w, &t, PERF_RECORD_MMAP2, mode | (data ? PERF_RECORD_MISC_MMAP_DATA : 0), m.time);
}

/* Further members may follow. */
#define MAP(pid_, start_, size_, pgoff_, prot_, name_, ...) \
    do_mmap(&w, (struct map){.pid = (pid_),                 \
                             .start = (start_),             \
                             .size = (size_),               \
                             .pgoff = (pgoff_),             \
                             .prot = (prot_),               \
                             .name = (name_),               \
                             __VA_ARGS__})
enum { R = PROT_READ, RW = PROT_READ | PROT_WRITE, RX = PROT_READ | PROT_EXEC };

static void kernel_map(struct world *w, uint64_t start, uint64_t size, uint64_t pgoff,
                       const char *name, uint16_t mode)
{
    struct text t = begin();
    u32(&t, UINT32_MAX);
    u32(&t, 0);
    u64(&t, start);
    u64(&t, size);
    u64(&t, pgoff);
    string(&t, name);
    apply(w, &t, PERF_RECORD_MMAP, mode, 0);
}

static void comm(struct world *w, uint32_t pid, uint32_t tid, const char *name, bool exec)
{
    struct text t = begin();
    u32(&t, pid);
    u32(&t, tid);
    string(&t, name);
    apply(w, &t, PERF_RECORD_COMM, exec ? PERF_RECORD_MISC_COMM_EXEC : 0, 1);
}

static void task(struct world *w, uint32_t type, uint32_t pid, uint32_t ppid, uint32_t tid,
                 uint32_t ptid, uint16_t misc, uint64_t time)
{
    struct text t = begin();
    u32(&t, pid);
    u32(&t, ppid);
    u32(&t, tid);
    u32(&t, ptid);
    u64(&t, time);
    apply(w, &t, type, misc, time);
}

static void forked(struct world *w, uint32_t pid, uint32_t ppid, uint64_t time)
{
    task(w, PERF_RECORD_FORK, pid, ppid, pid, ppid, 0, time);
}

static void exited(struct world *w, uint32_t pid, uint32_t tid)
{
    task(w, PERF_RECORD_EXIT, pid, pid, tid, tid, 0, 1);
}

static void ksymbol(struct world *w, uint64_t addr, uint32_t len, bool gone, const char *name,
                    uint64_t time)
{
    struct text t = begin();
    u64(&t, addr);
    u32(&t, len);
    u32(&t, 1 | (gone ? 1U << 16 : 0));
    string(&t, name);
    apply(w, &t, PERF_RECORD_KSYMBOL, 0, time);
}

static struct thread_context context_of(struct world *w, uint32_t pid, uint32_t tid)
{
    struct thread_context p;
    assert_int_equal(session_context(w->s, pid, tid, &p, NULL), 0);
    return p;
}

static void expect_comm(struct world *w, uint32_t pid, uint32_t tid, const char *name)
{
    struct thread_context p = context_of(w, pid, tid);
    assert_string_equal(p.comm, name);
    assert_int_equal(p.pid, pid);
    assert_int_equal(p.tid, tid);
    thread_context_release(&p);
}

/* Returns the dso's name at an address; "-": none. */
static const char *name_at(struct world *w, uint32_t pid, uint64_t pc)
{
    struct thread_context p = context_of(w, pid, pid);
    const struct mapping *m = session_mapping(&p, pc);
    const char *name = m ? m->dso->name : "-"; /* dsos outlive contexts */
    thread_context_release(&p);
    return name;
}

static struct code code_at(struct world *w, uint32_t pid, uint64_t pc, uint64_t time)
{
    struct thread_context p = context_of(w, pid, pid);
    struct codemap map = session_codemap(&p);
    struct code code;
    codemap_lookup(&map, pc, time, &code);
    thread_context_release(&p);
    return code;
}

/* ---- tasks ------------------------------------------------------------------------------- */

static void comms_are_those_of_the_moment(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    expect_comm(&w, 0, 0, "swapper");
    expect_comm(&w, 10, 10, ":10");
    comm(&w, 10, 10, "first", false);
    expect_comm(&w, 10, 10, "first");
    struct thread_context before = context_of(&w, 10, 10);
    comm(&w, 10, 10, "second", false);
    assert_string_equal(before.comm, "first");
    thread_context_release(&before);
    expect_comm(&w, 10, 10, "second");
    expect_comm(&w, 10, 11, ":11"); /* a thread without a record, named as by perf */
    world_free(&w);
}

static void a_child_has_its_parents_comm(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    comm(&w, 10, 10, "shell", false);
    forked(&w, 20, 10, 5);
    expect_comm(&w, 20, 20, "shell");
    task(&w, PERF_RECORD_FORK, 10, 10, 12, 10, 0, 5); /* a thread */
    expect_comm(&w, 10, 12, "shell");
    comm(&w, 10, 12, "worker", false);
    expect_comm(&w, 10, 10, "shell");
    task(&w, PERF_RECORD_FORK, 30, 10, 30, 12, 0, 6); /* forked by the worker */
    expect_comm(&w, 30, 30, "worker");
    expect_comm(&w, 77, 77, ":77");
    forked(&w, 78, 77, 7); /* the parent has no name */
    expect_comm(&w, 78, 78, ":78");
    world_free(&w);
}

static void a_fork_copies_maps_and_they_part(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    MAP(10, 0x1000, 0x1000, 0, RX, "/bin/a");
    forked(&w, 20, 10, 5);
    assert_string_equal(name_at(&w, 20, 0x1800), "/bin/a");
    MAP(20, 0x2000, 0x1000, 0, RX, "/lib/child");
    MAP(10, 0x3000, 0x1000, 0, RX, "/lib/parent");
    assert_string_equal(name_at(&w, 10, 0x2000), "-");
    assert_string_equal(name_at(&w, 20, 0x3000), "-");
    assert_string_equal(name_at(&w, 20, 0x2000), "/lib/child");
    assert_string_equal(name_at(&w, 10, 0x3000), "/lib/parent");
    /* A synthesized fork tells the parent, and copies no maps. */
    task(&w, PERF_RECORD_FORK, 30, 10, 30, 10, PERF_RECORD_MISC_FORK_EXEC, 0);
    assert_string_equal(name_at(&w, 30, 0x1800), "-");
    /* A thread shares the maps of its process. */
    task(&w, PERF_RECORD_FORK, 10, 10, 11, 10, 0, 5);
    assert_string_equal(name_at(&w, 10, 0x1800), "/bin/a");
    world_free(&w);
}

static void an_exec_clears_the_address_space(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    MAP(10, 0x1000, 0x1000, 0, RX, "/bin/old");
    comm(&w, 10, 10, "renamed", false);
    assert_string_equal(name_at(&w, 10, 0x1000), "/bin/old");
    struct thread_context before = context_of(&w, 10, 10);
    comm(&w, 10, 10, "new", true);
    MAP(10, 0x4000, 0x1000, 0, RX, "/bin/new");
    assert_string_equal(name_at(&w, 10, 0x1000), "-");
    assert_string_equal(name_at(&w, 10, 0x4000), "/bin/new");
    assert_string_equal(session_mapping(&before, 0x1000)->dso->name, "/bin/old");
    assert_null(session_mapping(&before, 0x4000));
    thread_context_release(&before);
    world_free(&w);
}

static void a_reused_pid_is_a_new_process(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    comm(&w, 10, 10, "old", false);
    MAP(10, 0x1000, 0x1000, 0, RX, "/bin/old");
    exited(&w, 10, 10);
    /* Late samples still find the process. */
    expect_comm(&w, 10, 10, "old");
    assert_string_equal(name_at(&w, 10, 0x1000), "/bin/old");
    comm(&w, 5, 5, "init", false);
    forked(&w, 10, 5, 9);
    expect_comm(&w, 10, 10, "init");
    assert_string_equal(name_at(&w, 10, 0x1000), "-");
    world_free(&w);
}

static void a_tid_in_another_process_is_another_thread(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    comm(&w, 10, 12, "worker", false);
    expect_comm(&w, 20, 12, ":12");
    world_free(&w);
}

/* The last thread of a process turns up in the oldest dead process, which might be forgotten just
 * then to make room for the process that the thread left. */
static void a_thread_comes_to_the_oldest_dead_process(void **state)
{
    (void)state;
    enum { DEAD = 1024 };
    for (int by_fork = 0; by_fork < 2; by_fork++) {
        struct world w = {.clock = CLOCK_MONOTONIC};
        world_open(&w);
        for (uint32_t pid = 1000; pid < 1000 + DEAD; pid++) {
            comm(&w, pid, pid, "dead", false);
            exited(&w, pid, pid);
        }
        comm(&w, 5000, 5000, "alive", false);
        if (by_fork)
            task(&w, PERF_RECORD_FORK, 1000, 5000, 5000, 5000, 0, 1);
        comm(&w, 1000, 5000, "moved", false);
        MAP(1000, 0x1000, 0x1000, 0, RX, "/bin/moved");
        expect_comm(&w, 1000, 5000, "moved");
        assert_string_equal(name_at(&w, 1000, 0x1000), "/bin/moved");
        world_free(&w);
    }
}

/* Millions of processes come and go in a long recording. */
static void the_dead_are_forgotten_but_not_at_once(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    comm(&w, 1, 1, "init", false);
    MAP(1, 0x1000, 0x1000, 0, RX, "/bin/init");
    enum { NR = 5000 };
    for (uint32_t pid = 10; pid < 10 + NR; pid++) {
        forked(&w, pid, 1, pid);
        MAP(pid, 0x2000, 0x1000, 0, RX, "/bin/child");
        exited(&w, pid, pid);
    }
    assert_int_equal(session_stats(w.s).processes, NR + 1);
    assert_string_equal(name_at(&w, 10 + NR - 1, 0x2000), "/bin/child");
    assert_string_equal(name_at(&w, 10 + NR - 500, 0x2000), "/bin/child");
    expect_comm(&w, 10 + NR - 500, 10 + NR - 500, "init");
    assert_string_equal(name_at(&w, 10, 0x2000), "-");
    assert_string_equal(name_at(&w, 1, 0x1000), "/bin/init");
    world_free(&w);
}

static void a_process_lives_while_a_thread_of_it_does(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    comm(&w, 10, 10, "main", false);
    task(&w, PERF_RECORD_FORK, 10, 10, 11, 10, 0, 5);
    MAP(10, 0x1000, 0x1000, 0, RX, "/bin/a");
    exited(&w, 10, 10);
    for (uint32_t pid = 100; pid < 3000; pid++) {
        forked(&w, pid, 1, 5);
        exited(&w, pid, pid);
    }
    struct thread_context p = context_of(&w, 10, 11);
    assert_non_null(session_mapping(&p, 0x1000));
    thread_context_release(&p);
    world_free(&w);
}

/* ---- mappings ---------------------------------------------------------------------------- */

static void later_mappings_cut_earlier_ones(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    MAP(10, 0x10000, 0x10000, 0x5000, RX, "/lib/a", .inode = 1);
    MAP(10, 0x14000, 0x1000, 0, RX, "/lib/b", .inode = 2);
    struct thread_context p = context_of(&w, 10, 10);
    const struct mapping *front = session_mapping(&p, 0x13fff);
    const struct mapping *back = session_mapping(&p, 0x15000);
    assert_int_equal(front->start, 0x10000);
    assert_int_equal(front->end, 0x14000);
    assert_int_equal(front->pgoff, 0x5000);
    assert_int_equal(back->start, 0x15000);
    assert_int_equal(back->end, 0x20000);
    assert_int_equal(back->pgoff, 0xa000);
    assert_string_equal(session_mapping(&p, 0x14fff)->dso->name, "/lib/b");
    assert_null(session_mapping(&p, 0x20000));
    assert_null(session_mapping(&p, 0xffff));
    thread_context_release(&p);
    world_free(&w);
}

static void places_keep_what_they_saw(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    struct thread_context old[200];
    for (uint64_t i = 0; i < 200; i++) {
        MAP(10, 0x1000 * (i + 1), 0x1000, 0, RX, "/lib/a", .inode = i + 1);
        old[i] = context_of(&w, 10, 10);
    }
    MAP(10, 0, 0x100000, 0, RX, "/lib/over");
    for (uint64_t i = 0; i < 200; i++) {
        for (uint64_t j = 0; j < 200; j++) {
            const struct mapping *m = session_mapping(&old[i], 0x1000 * (j + 1));
            assert_int_equal(m != NULL, j <= i);
            assert_true(!m || m->start == 0x1000 * (j + 1));
        }
    }
    for (uint64_t i = 0; i < 200; i++)
        thread_context_release(&old[i]);
    assert_string_equal(name_at(&w, 10, 0x1000), "/lib/over");
    world_free(&w);
}

static void an_equal_mapping_is_no_event(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    MAP(10, 0x10000, 0x4000, 0, RX, "/lib/a", .inode = 7);
    MAP(10, 0x20000, 0x4000, 0x20000, RW, "//anon");
    struct thread_context p = context_of(&w, 10, 10);
    MAP(10, 0x10000, 0x4000, 0, RX, "/lib/a", .inode = 7);
    MAP(10, 0x11000, 0x1000, 0x1000, RX, "/lib/a", .inode = 7); /* a part, equal there */
    MAP(10, 0x20000, 0x4000, 0x20000, RW, "//anon");
    assert_int_equal(session_stats(w.s).maps, 2);
    assert_int_equal(session_stats(w.s).maps_equal, 3);
    struct thread_context same = context_of(&w, 10, 10);
    assert_ptr_equal(p.space, same.space);
    thread_context_release(&same);
    /* A mapping that only looks equal is an event. */
    MAP(10, 0x10000, 0x4000, 0x1000, RX, "/lib/a", .inode = 7);
    MAP(10, 0x10000, 0x4000, 0x1000, RX, "/lib/a", .inode = 8); /* replaced on disk */
    MAP(10, 0x10000, 0x4000, 0x1000, R, "/lib/a", .inode = 8);
    MAP(10, 0x10000, 0x5000, 0x1000, R, "/lib/a", .inode = 8);
    assert_int_equal(session_stats(w.s).maps, 6);
    thread_context_release(&p);
    world_free(&w);
}

/* LuaJIT makes its code writable and executable alternately, part by part. */
static void generated_code_that_flips_stays_executable(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    MAP(10, 0x100000, 0x10000, 0, RW, "//anon");
    MAP(10, 0x100000, 0x10000, 0, RX, "//anon");
    uint64_t changes = session_stats(w.s).maps;
    for (int i = 0; i < 100; i++) {
        MAP(10, 0x100000, 0x10000, 0, RW, "//anon");
        MAP(10, 0x100000, 0x10000, 0, RX, "//anon");
        MAP(10, 0x104000, 0x1000, 0, RX, "//anon");
    }
    assert_int_equal(session_stats(w.s).maps, changes);
    struct code code = code_at(&w, 10, 0x104000, 1);
    assert_int_equal(code.owner, CODE_ANON);
    assert_true(code.executable);
    assert_int_equal(code.start, 0x100000);
    assert_int_equal(code.end, 0x110000);
    world_free(&w);
}

static void names_tell_what_a_mapping_is(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t prot;
        enum dso_kind kind;
        const char *dso;
    } cases[] = {
        {"/usr/bin/program", RX, DSO_FILE, "/usr/bin/program"},
        {"/usr/bin/program (deleted)", RX, DSO_FILE, "/usr/bin/program (deleted)"},
        {"[vdso]", RX, DSO_VDSO, "[vdso]"},
        {"[vsyscall]", PROT_EXEC, DSO_PSEUDO, "[vsyscall]"},
        {"[heap]", RW, DSO_PSEUDO, "[heap]"},
        {"[stack]", RW, DSO_PSEUDO, "[stack]"},
        {"//anon", RW, DSO_PSEUDO, "//anon"},
        {"//anon", RX, DSO_PSEUDO, "/tmp/perf-10.map"}, /* as perf names it */
        {"/dev/zero (deleted)", RW, DSO_PSEUDO, "/dev/zero (deleted)"},
        {"/dev/dri/card0", RX, DSO_PSEUDO, "/dev/dri/card0"},
        {"/dev/shm/tool", RX, DSO_FILE, "/dev/shm/tool"},
        {"/dev/shm/code (deleted)", RX, DSO_PSEUDO, "/dev/shm/code (deleted)"},
        {"/memfd:jit (deleted)", RX, DSO_PSEUDO, "/memfd:jit (deleted)"},
        {"[anon:v8]", RX, DSO_PSEUDO, "[anon:v8]"},
        {"anon_inode:[perf_event]", RW, DSO_PSEUDO, "anon_inode:[perf_event]"},
        {"/SYSV00000000 (deleted)", RW, DSO_PSEUDO, "/SYSV00000000 (deleted)"},
        {"[uprobes]", PROT_EXEC, DSO_PSEUDO, "[uprobes]"},
    };
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        MAP(10, 0x100000 * (i + 1), 0x1000, 0, cases[i].prot, cases[i].name);
        struct thread_context p = context_of(&w, 10, 10);
        const struct mapping *m = session_mapping(&p, 0x100000 * (i + 1));
        assert_int_equal(m->dso->kind, cases[i].kind);
        assert_string_equal(m->dso->name, cases[i].dso);
        thread_context_release(&p);
    }
    world_free(&w);
}

static void text_moved_to_huge_pages_stays_its_files(void **state)
{
    (void)state;
    const uint64_t base = 0x40000000, huge = 2 << 20;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    MAP(10, base + 0x1000, 6 * huge, 0x3000, RX, "/bin/big");
    MAP(10, base + huge, 2 * huge, 0, RW, "//anon"); /* the copy */
    assert_string_equal(name_at(&w, 10, base + huge), "//anon");
    MAP(10, base + huge, 2 * huge, 0, RX, "//anon");
    assert_string_equal(name_at(&w, 10, base + huge), "/bin/big");
    struct thread_context p = context_of(&w, 10, 10);
    const struct mapping *m = session_mapping(&p, base + huge + 5);
    assert_int_equal(m->start - m->pgoff, base + 0x1000 - 0x3000);
    thread_context_release(&p);
    /* Memory that is not wholly inside a file's code, and aligned, has its own name. */
    MAP(10, base + 3 * huge + 0x1000, huge, 0, RX, "//anon");
    assert_string_equal(name_at(&w, 10, base + 3 * huge + 0x1000), "/tmp/perf-10.map");
    MAP(10, base + 6 * huge, huge, 0, RX, "//anon");
    assert_string_equal(name_at(&w, 10, base + 6 * huge), "/tmp/perf-10.map");
    world_free(&w);
}

static void damaged_mappings_are_counted(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    MAP(10, 0x1000, 0, 0, RX, "/lib/empty");
    MAP(10, UINT64_MAX - 0xfff, 0x2000, 0, RX, "/lib/wraps");
    assert_int_equal(session_stats(w.s).records_bad, 2);
    assert_string_equal(name_at(&w, 10, 0x1000), "-");
    world_free(&w);
}

static void records_that_are_cut_are_counted(void **state)
{
    (void)state;
    static const uint32_t types[] = {PERF_RECORD_MMAP, PERF_RECORD_MMAP2, PERF_RECORD_COMM,
                                     PERF_RECORD_FORK, PERF_RECORD_EXIT,  PERF_RECORD_NAMESPACES};
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        struct perf_event_header h = {types[i], PERF_RECORD_MISC_USER, sizeof(h)};
        struct record rec = {
            .data = (const uint8_t *)&h, .size = h.size, .type = h.type, .misc = h.misc};
        assert_int_equal(session_apply(w.s, &rec, NULL), 0);
        assert_int_equal(session_stats(w.s).records_bad, i + 1);
    }
    struct text t = begin();
    apply(&w, &t, PERF_RECORD_TEXT_POKE, 0, 1);
    assert_int_equal(session_stats(w.s).text_pokes, 1);
    world_free(&w);
}

static void list_build_id(struct world *w, const char *name, const struct build_id *id)
{
    struct text t = begin();
    u32(&t, UINT32_MAX);
    add(&t, id->bytes, 20);
    u32(&t, 20);
    string(&t, name);
    struct perf_event_header h = {PERF_RECORD_HEADER_BUILD_ID, PERF_RECORD_MISC_USER | (1U << 15),
                                  (uint16_t)t.size};
    memcpy(t.at, &h, sizeof(h));
    struct record rec = {
        .data = (const uint8_t *)t.at, .size = h.size, .type = h.type, .misc = h.misc};
    assert_int_equal(session_apply(w->s, &rec, NULL), 0);
    text_free(&t);
}

static void build_id(struct world *w, const char *name, uint8_t first)
{
    struct build_id id;
    for (uint8_t i = 0; i < 20; i++)
        id.bytes[i] = first + i;
    list_build_id(w, name, &id);
}

static const struct build_id *id_at(struct world *w, uint64_t pc)
{
    struct thread_context p = context_of(w, 10, 10);
    const struct build_id *id = &session_mapping(&p, pc)->dso->build_id;
    thread_context_release(&p);
    return id;
}

static void build_ids_come_before_or_after_the_mapping(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    build_id(&w, "/lib/before.so.1", 1);
    build_id(&w, "/lib/two-of-them", 1);
    build_id(&w, "/lib/two-of-them", 9); /* which one was mapped is unknown */
    MAP(10, 0x10000, 0x1000, 0, RX, "/lib/before.so.1");
    MAP(10, 0x20000, 0x1000, 0, RX, "/lib/after.so.1");
    MAP(10, 0x30000, 0x1000, 0, RX, "/lib/two-of-them");
    build_id(&w, "/lib/after.so.1", 5);
    assert_int_equal(id_at(&w, 0x10000)->size, 20);
    assert_int_equal(id_at(&w, 0x10000)->bytes[19], 20);
    assert_int_equal(id_at(&w, 0x20000)->size, 20);
    assert_int_equal(id_at(&w, 0x20000)->bytes[0], 5);
    assert_int_equal(id_at(&w, 0x30000)->size, 0);
    world_free(&w);
}

/* A list of names and ids does not say which file of a name it means. */
static void an_id_of_a_name_is_not_given_to_two_files(void **state)
{
    (void)state;
    static const struct map others[] = {{.inode = 8, .device = 1},
                                        {.inode = 7, .device = 2},
                                        {.inode = 7, .device = 1, .generation = 4}};
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        struct world w = {.clock = CLOCK_MONOTONIC};
        world_open(&w);
        build_id(&w, "/lib/before.so.1", 1);
        for (uint64_t at = 0x10000; at <= 0x20000; at += 0x10000) {
            const char *name = at == 0x10000 ? "/lib/before.so.1" : "/lib/after.so.1";
            const struct map *o = &others[i];
            MAP(10, at, 0x1000, 0, RX, name, .inode = 7, .device = 1, .generation = 3);
            MAP(11, at, 0x1000, 0, RX, name, .inode = 7, .device = 1); /* synthesized */
            assert_int_equal(id_at(&w, at)->size, at == 0x10000 ? 20 : 0);
            MAP(10, at + 0x1000, 0x1000, 0, RX, name, .inode = o->inode, .device = o->device,
                .generation = o->generation);
            MAP(10, at + 0x2000, 0x1000, 0, RX, name, .inode = 7, .device = 1);
        }
        build_id(&w, "/lib/after.so.1", 5);
        for (uint64_t at = 0x10000; at <= 0x20000; at += 0x10000)
            for (uint64_t piece = 0; piece < 0x3000; piece += 0x1000)
                assert_int_equal(id_at(&w, at + piece)->size, 0);
        world_free(&w);
    }
}

/* The mappings describe one file in different ways: those from before the recording have no
 * generation, and some do not tell which file it is. */
static void one_file_keeps_the_id_of_its_name(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    const char *name = "/lib/one.so.1";
    build_id(&w, name, 1);
    MAP(10, 0x10000, 0x1000, 0, RX, name, .inode = 7, .device = 1);
    MAP(10, 0x20000, 0x1000, 0, RX, name, .inode = 7, .device = 1, .generation = 3);
    MAP(10, 0x30000, 0x1000, 0, RX, name);
    MAP(10, 0x40000, 0x1000, 0, RX, name, .inode = 7, .device = 1);
    build_id(&w, name, 1);
    struct thread_context p = context_of(&w, 10, 10);
    const struct dso *dso = session_mapping(&p, 0x10000)->dso;
    assert_int_equal(dso->build_id.size, 20);
    for (uint64_t at = 0x20000; at <= 0x40000; at += 0x10000)
        assert_ptr_equal(session_mapping(&p, at)->dso, dso);
    thread_context_release(&p);
    world_free(&w);
}

/* ---- against a model that owns pages one by one -------------------------------------------- */

enum { PAGES = 300, STEPS = 3000, KEPT = 40 };

struct pages {
    int owner[PAGES]; /* number of a map; 0: none */
    int first[PAGES]; /* page of that map's offset 0 */
};

static void expect_pages(const struct thread_context *p, const struct pages *pages)
{
    for (int i = 0; i < PAGES; i++) {
        const struct mapping *m = session_mapping(p, (uint64_t)i * 4096 + 17);
        char name[32];
        snprintf(name, sizeof(name), "/lib/%d", pages->owner[i]);
        assert_int_equal(m != NULL, pages->owner[i] != 0);
        if (!m)
            continue;
        assert_string_equal(m->dso->name, name);
        assert_int_equal(i * 4096 - (int)m->start + (int)m->pgoff, (i - pages->first[i]) * 4096);
        assert_true(m->start <= (uint64_t)i * 4096 && m->end >= (uint64_t)(i + 1) * 4096);
    }
}

static void random_mappings_agree_with_a_model(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    static struct pages kept_pages[KEPT];
    struct thread_context kept[KEPT] = {0};
    struct pages pages = {0};
    srand(3);
    for (int step = 1; step <= STEPS; step++) {
        int size = 1 + rand() % (step % 7 ? 4 : 90);
        int start = rand() % (PAGES - size);
        int number = 1 + rand() % 9;
        char name[32];
        snprintf(name, sizeof(name), "/lib/%d", number);
        MAP(10, (uint64_t)start * 4096, (uint64_t)size * 4096, 0, RX, name);
        for (int i = start; i < start + size; i++) {
            pages.owner[i] = number;
            pages.first[i] = start;
        }
        int slot = rand() % KEPT;
        if (kept[slot].space) {
            expect_pages(&kept[slot], &kept_pages[slot]);
            thread_context_release(&kept[slot]);
        }
        kept[slot] = context_of(&w, 10, 10);
        kept_pages[slot] = pages;
        if (step % 500 == 0) { /* start again from a copy, then from nothing */
            forked(&w, 11, 10, 5);
            forked(&w, 10, 11, 5);
        }
        if (step % 1500 == 0) {
            comm(&w, 10, 10, "again", true);
            memset(&pages, 0, sizeof(pages));
        }
    }
    for (int i = 0; i < KEPT; i++) {
        if (!kept[i].space)
            continue;
        expect_pages(&kept[i], &kept_pages[i]);
        thread_context_release(&kept[i]);
    }
    world_free(&w);
}

/* ---- code and memory of real files --------------------------------------------------------- */

struct own {
    uint64_t start, end, pgoff;
    char prot[8], path[200];
};

/* Returns this program's own mapping around an address. */
static struct own own_mapping(const void *address)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    struct own o;
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %199s", &o.start, &o.end,
                   o.prot, &o.pgoff, o.path) == 5 &&
            o.start <= (uintptr_t)address && (uintptr_t)address < o.end) {
            fclose(f);
            return o;
        }
    }
    fail();
    return o;
}

static const char constant[] = "these bytes stand in a read-only page";

static void code_of_a_file_has_rules_and_a_bias(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    uint64_t pc = (uintptr_t)code_of_a_file_has_rules_and_a_bias;
    struct own o = own_mapping((const void *)pc);
    MAP(10, o.start, o.end - o.start, o.pgoff, RX, o.path);
    struct thread_context p = context_of(&w, 10, 10);
    struct codemap map = session_codemap(&p);
    for (int i = 0; i < 2; i++) { /* the second time from the kept answer */
        struct code code;
        assert_true(codemap_lookup(&map, pc, 1, &code));
        assert_int_equal(code.owner, CODE_ELF);
        assert_non_null(code.cfi);
        assert_true(code.executable);
        const struct mapping *m = code.token;
        assert_int_equal(code.cfi_id, m->dso->id);
        assert_ptr_equal(m, session_mapping(&p, pc));
        uint64_t vaddr;
        assert_true(dso_offset_to_vaddr(m->dso, pc - o.start + o.pgoff, &vaddr));
        assert_int_equal(pc - code.bias, vaddr);
        assert_true(code.start >= o.start && code.start <= pc);
        assert_true(code.end <= o.end && code.end > pc);
    }
    thread_context_release(&p);
    world_free(&w);
}

static void a_file_that_is_gone_still_owns_its_code(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    MAP(10, 0x10000, 0x2000, 0x1000, RX, "/no/such/file");
    MAP(10, 0x20000, 0x2000, 0x1000, R, "/no/such/file");
    struct code code = code_at(&w, 10, 0x10800, 1);
    assert_int_equal(code.owner, CODE_ELF);
    assert_null(code.cfi);
    assert_int_equal(code.cfi_id, 0);
    assert_true(code.executable);
    assert_false(code_at(&w, 10, 0x20800, 1).executable);
    struct thread_context p = context_of(&w, 10, 10);
    struct codemap map = session_codemap(&p);
    assert_false(codemap_lookup(&map, 0x30000, 1, &code));
    assert_int_equal(code.owner, CODE_NONE);
    thread_context_release(&p);
    world_free(&w);
}

static bool read_constant_at(struct world *w, uint64_t time, enum provenance *provenance)
{
    char bytes[sizeof(constant)];
    struct thread_context p = context_of(w, 10, 10);
    struct memory_layer layer = session_memory(&p);
    bool done = layer_read(&layer, (uintptr_t)constant, bytes, sizeof(bytes), time, provenance);
    if (done)
        assert_memory_equal(bytes, constant, sizeof(constant));
    thread_context_release(&p);
    return done;
}

static bool read_constant(struct world *w)
{
    enum provenance provenance = PROVENANCE_EXACT;
    bool done = read_constant_at(w, 1, &provenance);
    assert_int_equal(provenance, PROVENANCE_EXACT);
    return done;
}

/* Returns the build id of a file. */
static struct build_id own_id(const char *path)
{
    struct dsos *probe = dsos_create(&(struct dso_options){.no_debuginfod = true});
    const struct elf_image *image = dso_image(dsos_get(probe, DSO_FILE, path, NULL, 0));
    assert_non_null(image);
    struct build_id id = image->build_id;
    assert_int_equal(id.size, 20);
    dsos_free(probe);
    return id;
}

/* Another file of the same name turns up, before samples use the first file or while they do. */
static void a_file_is_proven_until_another_has_its_name(void **state)
{
    (void)state;
    struct own o = own_mapping(constant);
    struct build_id id = own_id(o.path);
    enum provenance provenance;
    for (int early = 0; early < 2; early++) {
        struct world w = {.clock = CLOCK_MONOTONIC};
        world_open(&w);
        list_build_id(&w, o.path, &id);
        MAP(10, o.start, o.end - o.start, o.pgoff, R, o.path, .inode = 7, .time = 100);
        if (!early) {
            assert_true(read_constant_at(&w, 500, &provenance));
            assert_int_equal(provenance, PROVENANCE_EXACT);
        }
        MAP(11, o.start, o.end - o.start, o.pgoff, R, o.path, .inode = 8, .time = 1000);
        assert_true(read_constant_at(&w, 500, &provenance)); /* whenever it is asked */
        assert_int_equal(provenance, early ? PROVENANCE_STALE : PROVENANCE_EXACT);
        assert_true(read_constant_at(&w, 1000, &provenance));
        assert_int_equal(provenance, PROVENANCE_STALE);
        MAP(10, o.start, o.end - o.start, o.pgoff, R, o.path, .inode = 8, .time = 1100);
        assert_true(read_constant_at(&w, 1200, &provenance));
        assert_int_equal(provenance, PROVENANCE_STALE);
        world_free(&w);
    }
}

static void memory_is_that_of_pages_nobody_could_write(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    struct own o = own_mapping(constant);
    /* The build id must prove that the file is the one that ran. */
    struct dso *dso = dsos_get(w.dsos, DSO_FILE, o.path, NULL, 0);
    struct build_id id = own_id(o.path);
    assert_ptr_equal(dsos_get(w.dsos, DSO_FILE, o.path, &id, 0), dso);
    assert_false(read_constant(&w));
    MAP(10, o.start, o.end - o.start, o.pgoff, R, o.path);
    assert_true(read_constant(&w));
    MAP(10, o.start, o.end - o.start, o.pgoff, RW, o.path);
    assert_false(read_constant(&w));
    MAP(10, o.start, o.end - o.start, o.pgoff, R, o.path); /* like RELRO: it was written before */
    assert_false(read_constant(&w));
    world_free(&w);
}

/* ---- the kernel -------------------------------------------------------------------------- */

static const char *kernel_at(struct world *w, uint64_t pc, uint64_t time)
{
    const struct mapping *m = session_kernel_mapping(w->s, pc, time);
    return m ? m->dso->name : "-";
}

static void kernel_and_modules_are_told_apart(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    const uint64_t text = 0xffffffff81000000, module = 0xffffffffc0100000;
    kernel_map(&w, text, 0x1200000, text + 0x40, "[kernel.kallsyms]_text", PERF_RECORD_MISC_KERNEL);
    kernel_map(&w, module, 0x5000, 0, "/lib/modules/6.1/kernel/x.ko", PERF_RECORD_MISC_KERNEL);
    kernel_map(&w, module + 0x10000, 0x1000, 0, "[y]", PERF_RECORD_MISC_KERNEL);
    kernel_map(&w, text, 0x900000, text, "[guest.kernel.kallsyms]_stext",
               PERF_RECORD_MISC_GUEST_KERNEL);
    assert_string_equal(kernel_at(&w, text + 5, 1), "[kernel.kallsyms]");
    assert_string_equal(kernel_at(&w, module, 1), "/lib/modules/6.1/kernel/x.ko");
    assert_string_equal(kernel_at(&w, module + 0x10000, 0), "[y]");
    assert_string_equal(kernel_at(&w, 0x1000, 1), "-");
    assert_string_equal(session_guest_mapping(w.s, text, 1)->dso->name, "[guest.kernel.kallsyms]");
    assert_null(session_guest_mapping(w.s, module, 1));
    const struct mapping *k = session_kernel_mapping(w.s, text + 5, 1);
    const struct mapping *m = session_kernel_mapping(w.s, module, 1);
    assert_int_equal(k->dso->kind, DSO_KERNEL);
    assert_int_equal(m->dso->kind, DSO_KMODULE);
    const char *symbol;
    uint64_t address;
    assert_true(dso_reference(k->dso, &symbol, &address));
    assert_string_equal(symbol, "_text");
    assert_int_equal(address, text + 0x40);
    /* Kernel maps belong to no process, and a guest's processes are not the host's. */
    assert_string_equal(name_at(&w, UINT32_MAX, text), "-");
    MAP(10, 0x1000, 0x1000, 0, RX, "/guest/bin", .mode = PERF_RECORD_MISC_GUEST_USER);
    assert_string_equal(name_at(&w, 10, 0x1000), "-");
    world_free(&w);
}

/* The recording's account of its machine decides whose kallsyms is its kernel's. */
static void a_recordings_release_is_that_of_its_dsos(void **state)
{
    (void)state;
    enum { OSRELEASE = 4 }; /* the feature's number */
    struct utsname u;
    assert_int_equal(uname(&u), 0);
    for (int i = 0; i < 4; i++) {
        bool same = i & 1, pipe = i & 2;
        struct fixture *f = fixture_create(false);
        fixture_event(f, &fixture_attr, NULL, 0);
        fixture_feature_string(f, OSRELEASE, same ? u.release : "0.99-other");
        char *path = fixture_write(f, pipe);
        struct replay *r;
        const struct replay_options options = {
            .input = path, .dso = {.buildid_dir = "none"}, .threads = 1};
        assert_int_equal(replay_create(&options, &r, NULL), 0);
        struct dso *k = dsos_get(replay_dsos(r), DSO_KERNEL, "[kernel.kallsyms]", NULL, 0);
        assert_int_equal(dso_kallsyms(k) != NULL, same);
        replay_free(r);
        unlink(path);
        free(path);
        fixture_free(f);
    }
}

static void a_kernel_of_unknown_length_reaches_to_the_end(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    const uint64_t text = 0xffffffff81000000;
    kernel_map(&w, text, 0, text, "[kernel.kallsyms]_text", PERF_RECORD_MISC_KERNEL);
    assert_string_equal(kernel_at(&w, UINT64_MAX - 1, 1), "[kernel.kallsyms]");
    kernel_map(&w, text + 0x1000000, 0x1000, 0, "[m]", PERF_RECORD_MISC_KERNEL);
    assert_string_equal(kernel_at(&w, text + 0x1000800, 1), "[m]");
    /* The pieces of a map are one map. */
    const struct mapping *front = session_kernel_mapping(w.s, text, 1);
    assert_ptr_equal(front, session_kernel_mapping(w.s, text + 0x2000000, 1));
    assert_int_equal(front->start, text);
    world_free(&w);
}

static void bpf_programs_come_and_go(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    const uint64_t at = 0xffffffffc0200000;
    ksymbol(&w, at, 0x100, false, "bpf_prog_1", 100);
    ksymbol(&w, at + 0x100, 0x80, false, "bpf_trampoline_9", 100);
    ksymbol(&w, at, 0x100, true, "bpf_prog_1", 200);
    ksymbol(&w, at + 0x10, 0x60, false, "bpf_prog_2", 300);
    ksymbol(&w, at + 0x40, 0x10, false, "bpf_prog_3", 400); /* the record of 2's end was lost */
    assert_string_equal(kernel_at(&w, at + 0x20, 150), "bpf_prog_1");
    assert_string_equal(kernel_at(&w, at + 0x20, 199), "bpf_prog_1");
    assert_string_equal(kernel_at(&w, at + 0x20, 200), "-");
    assert_string_equal(kernel_at(&w, at + 0x20, 300), "bpf_prog_2");
    assert_string_equal(kernel_at(&w, at + 0x48, 399), "bpf_prog_2");
    assert_string_equal(kernel_at(&w, at + 0x48, 400), "bpf_prog_3");
    assert_string_equal(kernel_at(&w, at + 0x17f, 500), "bpf_trampoline_9");
    assert_string_equal(kernel_at(&w, at + 0x17f, 99), "-");
    assert_string_equal(session_kernel_mapping(w.s, at + 0x48, 400)->symbol, "bpf_prog_3");
    ksymbol(&w, at + 0x1000, 0x100, true, "never registered", 600);
    world_free(&w);
}

static void a_symbol_over_the_kernel_uncovers_it_again(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    const uint64_t text = 0xffffffff81000000;
    kernel_map(&w, text, 0x100000, text, "[kernel.kallsyms]_text", PERF_RECORD_MISC_KERNEL);
    ksymbol(&w, text + 0x1000, 0x100, false, "ftrace_trampoline", 100);
    ksymbol(&w, text + 0x1000, 0x100, true, "ftrace_trampoline", 200);
    assert_string_equal(kernel_at(&w, text + 0x1000, 50), "[kernel.kallsyms]");
    assert_string_equal(kernel_at(&w, text + 0x1000, 150), "ftrace_trampoline");
    assert_string_equal(kernel_at(&w, text + 0x1000, 250), "[kernel.kallsyms]");
    world_free(&w);
}

/* ---- generated code ------------------------------------------------------------------------ */

enum { JIT_PID = 5000010 }; /* the pid in its files' names; larger than any pid on this machine */

static void dump_load(struct text *t, uint64_t time, uint64_t address, uint32_t size,
                      const char *name)
{
    size_t name_size = strlen(name) + 1;
    u32(t, 0);
    u32(t, (uint32_t)(56 + name_size + size));
    u64(t, time);
    u32(t, 1);
    u32(t, 1);
    u64(t, address);
    u64(t, address);
    u64(t, size);
    u64(t, 0);
    add(t, name, name_size);
    for (uint32_t i = 0; i < size; i++)
        text_char(t, (char)0x90);
}

static void write_file(const struct world *w, const char *name, const char *bytes, size_t size)
{
    char path[96];
    snprintf(path, sizeof(path), "%s/%s", w->dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
}

static struct text dump_begin(uint32_t pid)
{
    struct text t = {0};
    u32(&t, 0x4A695444);
    u32(&t, 1);
    u32(&t, 40);
    u32(&t, 62);
    u32(&t, 0);
    u32(&t, pid);
    u64(&t, 0);
    u64(&t, 0);
    return t;
}

/* jit-5000010.dump: "f" is at 0x50000 from 2000 on, replaced by "g" from 3000 on; "late" is at
 * 0x60000 from 4000 on. */
static void write_dump(const struct world *w, uint32_t pid, const char *name)
{
    struct text t = dump_begin(pid);
    dump_load(&t, 2000, 0x50000, 0x100, "f");
    dump_load(&t, 3000, 0x50000, 0x80, "g");
    dump_load(&t, 4000, 0x60000, 0x100, "late");
    write_file(w, name, t.at, t.size);
    text_free(&t);
}

static void announce(struct world *w, uint32_t pid, const char *file, uint64_t time)
{
    char path[256];
    assert_non_null(getcwd(path, sizeof(path) - 64));
    snprintf(path + strlen(path), 64, "/%s/%s", w->dir, file);
    do_mmap(w, (struct map){.pid = pid,
                            .start = 0x900000,
                            .size = 0x1000,
                            .prot = RX,
                            .name = path,
                            .time = time,
                            .inode = 5});
}

static const struct jit_function *jit_function_at(struct world *w, uint32_t pid, uint64_t pc,
                                                  uint64_t time)
{
    struct code code = code_at(w, pid, pc, time);
    return code.owner == CODE_JIT ? code.token : NULL;
}

static const char *jit_at(struct world *w, uint32_t pid, uint64_t pc, uint64_t time)
{
    const struct jit_function *f = jit_function_at(w, pid, pc, time);
    return f ? f->name : "-";
}

static void an_announced_jitdump_names_code_over_time(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    write_dump(&w, JIT_PID, "jit-5000010.dump");
    MAP(JIT_PID, 0x40000, 0x40000, 0, RX, "//anon", .time = 1000);
    assert_string_equal(jit_at(&w, JIT_PID, 0x50010, 2500), "-");
    announce(&w, JIT_PID, "jit-5000010.dump", 1500);
    announce(&w, JIT_PID, "jit-5000010.dump", 1600);
    assert_int_equal(session_stats(w.s).jit_files, 1);
    assert_int_equal(session_stats(w.s).jit_functions, 3);
    assert_string_equal(jit_at(&w, JIT_PID, 0x50010, 2500), "f");
    assert_string_equal(jit_at(&w, JIT_PID, 0x50010, 3500), "g");
    assert_string_equal(jit_at(&w, JIT_PID, 0x50090, 2500), "f");
    assert_string_equal(jit_at(&w, JIT_PID, 0x50090, 3500), "-");
    assert_string_equal(jit_at(&w, 11, 0x50010, 2500), "-");
    /* Memory that is mapped anew, whatever its name, does not hide functions. */
    MAP(JIT_PID, 0x50000, 0x1000, 0, RX, "[anon:v8]", .time = 2600);
    MAP(JIT_PID, 0x60000, 0x1000, 0, RX, "/memfd:code (deleted)", .time = 2600);
    assert_string_equal(jit_at(&w, JIT_PID, 0x50010, 3500), "g");
    assert_string_equal(jit_at(&w, JIT_PID, 0x60010, 4500), "late");
    struct code code = code_at(&w, JIT_PID, 0x50010, 3500);
    assert_int_equal(code.start, 0x50000);
    assert_int_equal(code.end, 0x50080);
    assert_int_equal(code.bias, 0x50000);
    assert_true(code.executable);
    assert_null(code.cfi);
    assert_null(session_warning(w.s, 0));
    remove_file(&w, "jit-5000010.dump");
    world_free(&w);
}

static void a_files_mapping_keeps_its_code(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    write_dump(&w, JIT_PID, "jit-5000010.dump");
    announce(&w, JIT_PID, "jit-5000010.dump", 1500);
    MAP(JIT_PID, 0x50000, 0x1000, 0, RX, "/usr/bin/node");
    assert_int_equal(code_at(&w, JIT_PID, 0x50010, 2500).owner, CODE_ELF);
    struct thread_context p = context_of(&w, JIT_PID, JIT_PID);
    assert_string_equal(session_jit_function(&p, 0x50010, 2500)->name, "f");
    assert_null(session_jit_function(&p, 0x51000, 2500));
    thread_context_release(&p);
    remove_file(&w, "jit-5000010.dump");
    world_free(&w);
}

static void a_childs_view_of_a_jitdump_ends_at_the_fork(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    write_dump(&w, JIT_PID, "jit-5000010.dump");
    announce(&w, JIT_PID, "jit-5000010.dump", 1500);
    forked(&w, 20, JIT_PID, 2500);
    assert_string_equal(jit_at(&w, 20, 0x50010, 2400), "f");
    assert_string_equal(jit_at(&w, 20, 0x50010, 5000), "f"); /* in the parent, f became g */
    assert_string_equal(jit_at(&w, 20, 0x60010, 5000), "-");
    assert_string_equal(jit_at(&w, JIT_PID, 0x60010, 5000), "late");
    comm(&w, 20, 20, "other", true);
    assert_string_equal(jit_at(&w, 20, 0x50010, 5000), "-");
    remove_file(&w, "jit-5000010.dump");
    world_free(&w);
}

static void a_jitdump_of_another_pid_is_not_believed(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    write_dump(&w, 99, "jit-5000010.dump");
    write_dump(&w, 99, "jit-99.dump");
    announce(&w, JIT_PID, "jit-5000010.dump", 1500); /* the header says 99 */
    announce(&w, JIT_PID, "jit-99.dump", 1500);      /* the name says 99 */
    assert_string_equal(jit_at(&w, JIT_PID, 0x50010, 2500), "-");
    assert_non_null(strstr(session_warning(w.s, 0), "another process"));
    assert_null(session_warning(w.s, 1));
    remove_file(&w, "jit-5000010.dump");
    remove_file(&w, "jit-99.dump");
    world_free(&w);
}

static void a_missing_jitdump_is_said_once(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    announce(&w, JIT_PID, "jit-5000010.dump", 1500);
    MAP(JIT_PID, 0x900000, 0x1000, 0, RW, "//anon");
    announce(&w, JIT_PID, "jit-5000010.dump", 1600);
    assert_non_null(strstr(session_warning(w.s, 0), "--jitdump"));
    assert_null(session_warning(w.s, 1));
    world_free(&w);
}

static void without_the_right_clock_times_are_ignored_and_it_is_said(void **state)
{
    (void)state;
    for (int clock = -1; clock <= CLOCK_REALTIME; clock++) {
        struct world w = {.clock = clock};
        world_open(&w);
        write_dump(&w, JIT_PID, "jit-5000010.dump");
        announce(&w, JIT_PID, "jit-5000010.dump", 1500);
        assert_string_equal(jit_at(&w, JIT_PID, 0x50010, 1), "g");
        assert_string_equal(jit_at(&w, JIT_PID, 0x60010, 99), "late");
        assert_non_null(strstr(session_warning(w.s, 0), "-k mono"));
        remove_file(&w, "jit-5000010.dump");
        world_free(&w);
    }
}

static void stamps_of_some_other_clock_are_noticed(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    write_dump(&w, JIT_PID, "jit-5000010.dump");
    announce(&w, JIT_PID, "jit-5000010.dump", UINT64_C(3600000000000));
    assert_string_equal(jit_at(&w, JIT_PID, 0x60010, 99), "late");
    assert_non_null(strstr(session_warning(w.s, 0), "another clock"));
    remove_file(&w, "jit-5000010.dump");
    world_free(&w);
}

/* Creates a session with --jitdump PATH, where PATH is the world's copied.dump. */
static void give_dump(struct world *w, const char **path, char text[96])
{
    write_dump(w, JIT_PID, "copied.dump");
    snprintf(text, 96, "%s/copied.dump", w->dir);
    *path = text;
    session_free(w->s);
    w->options.jitdumps = path;
    w->options.nr_jitdumps = 1;
    assert_int_equal(session_create(w->pd, w->dsos, &w->options, &w->s, NULL), 0);
}

static void jitdumps_can_be_given(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    char text[96];
    const char *path;
    give_dump(&w, &path, text);
    assert_string_equal(jit_at(&w, JIT_PID, 0x50010, 2500), "f");
    assert_string_equal(jit_at(&w, 11, 0x50010, 2500), "-");
    comm(&w, JIT_PID, JIT_PID, "node", true);
    assert_string_equal(jit_at(&w, JIT_PID, 0x50010, 2500), "f");
    remove_file(&w, "copied.dump");
    struct session *none;
    assert_int_equal(session_create(w.pd, w.dsos, &w.options, &none, NULL), -1);
    world_free(&w);
}

/* perf record -a announces each running process with a FORK, with or without a known parent. */
static void a_given_jitdump_stays_when_its_process_is_born(void **state)
{
    (void)state;
    for (int synthesized = 0; synthesized < 2; synthesized++) {
        struct world w = {.clock = CLOCK_MONOTONIC};
        world_open(&w);
        char text[96];
        const char *path;
        uint16_t misc = synthesized ? PERF_RECORD_MISC_FORK_EXEC : 0;
        give_dump(&w, &path, text);
        task(&w, PERF_RECORD_FORK, JIT_PID, 1, JIT_PID, 1, misc, 5);
        assert_string_equal(jit_at(&w, JIT_PID, 0x50010, 2500), "f");
        comm(&w, 2, 2, "shell", false);
        task(&w, PERF_RECORD_FORK, JIT_PID, 2, JIT_PID, 2, misc, 6);
        assert_string_equal(jit_at(&w, JIT_PID, 0x50010, 2500), "f");
        forked(&w, 20, JIT_PID, 2500); /* its children have the dump up to the fork, as usual */
        assert_string_equal(jit_at(&w, 20, 0x50010, 5000), "f");
        remove_file(&w, "copied.dump");
        world_free(&w);
    }
}

/* In a container, pid 5000020 is pid 3: the recording has its namespaces, the dump's name has pid
 * 3. */
static void a_containers_process_has_another_pid(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    write_dump(&w, 3, "jit-3.dump");
    announce(&w, 5000020, "jit-3.dump", 1500);
    assert_string_equal(jit_at(&w, 5000020, 0x50010, 2500), "-");
    struct text t = begin();
    u32(&t, 5000020);
    u32(&t, 5000020);
    u64(&t, 7);
    for (uint64_t i = 0; i < 7; i++) {
        u64(&t, 3);
        u64(&t, 4026000000 + i);
    }
    apply(&w, &t, PERF_RECORD_NAMESPACES, 0, 1500);
    MAP(5000020, 0x900000, 0x1000, 0, RW, "//anon");
    announce(&w, 5000020, "jit-3.dump", 1500);
    assert_string_equal(jit_at(&w, 5000020, 0x50010, 2500), "f");
    remove_file(&w, "jit-3.dump");
    world_free(&w);
}

static void a_perf_map_names_anonymous_code(void **state)
{
    (void)state;
    static const char text[] = "50000 100 from the map\n";
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    write_file(&w, "perf-5000010.map", text, sizeof(text) - 1);
    MAP(JIT_PID, 0x1000, 0x1000, 0, RX, "/bin/a");
    assert_int_equal(session_stats(w.s).jit_files, 0);
    assert_string_equal(jit_at(&w, JIT_PID, 0x50010, 1), "-");
    MAP(JIT_PID, 0x50000, 0x10000, 0, RX, "//anon");
    assert_string_equal(jit_at(&w, JIT_PID, 0x50010, 1), "from the map");
    assert_string_equal(jit_at(&w, JIT_PID, 0x50100, 1), "-");
    assert_int_equal(code_at(&w, JIT_PID, 0x50100, 1).owner, CODE_ANON);
    /* A jitdump, which has times, is asked first. */
    write_dump(&w, JIT_PID, "jit-5000010.dump");
    announce(&w, JIT_PID, "jit-5000010.dump", 1500);
    assert_string_equal(jit_at(&w, JIT_PID, 0x50010, 2500), "f");
    assert_string_equal(jit_at(&w, JIT_PID, 0x50010, 1500), "from the map");
    remove_file(&w, "jit-5000010.dump");
    remove_file(&w, "perf-5000010.map");
    world_free(&w);
}

/* Whichever process runs the code, a frame's name must not depend on which sample came first. */
static void inherited_code_is_of_who_made_it(void **state)
{
    (void)state;
    static const char text[] = "50000 100 from the map\n";
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    write_file(&w, "perf-5000010.map", text, sizeof(text) - 1);
    MAP(JIT_PID, 0x50000, 0x10000, 0, RX, "//anon");
    forked(&w, 20, JIT_PID, 5);
    const struct jit_function *childs = jit_function_at(&w, 20, 0x50010, 9);
    assert_ptr_equal(childs, jit_function_at(&w, JIT_PID, 0x50010, 9));
    assert_int_equal(jit_function_owner(childs), JIT_PID);
    MAP(20, 0x70000, 0x10000, 0, RX, "//anon");
    assert_int_equal(jit_function_owner(jit_function_at(&w, 20, 0x50010, 9)), JIT_PID);
    remove_file(&w, "perf-5000010.map");
    world_free(&w);
}

static void another_users_perf_map_is_not_used(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    static const char text[] = "50000 100 planted\n";
    for (int force = 0; force < 2; force++) {
        struct world w = {.clock = CLOCK_MONOTONIC, .options = {.force = force}};
        world_open(&w);
        write_file(&w, "perf-5000010.map", text, sizeof(text) - 1);
        char path[96];
        snprintf(path, sizeof(path), "%s/perf-5000010.map", w.dir);
        assert_int_equal(chown(path, 12345, 0), 0);
        MAP(JIT_PID, 0x50000, 0x10000, 0, RX, "//anon");
        assert_string_equal(jit_at(&w, JIT_PID, 0x50010, 1), force ? "planted" : "-");
        assert_int_equal(session_warning(w.s, 0) == NULL, force);
        remove_file(&w, "perf-5000010.map");
        world_free(&w);
    }
}

static void jit_files_can_be_left_alone(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC, .options = {.no_jit = true}};
    world_open(&w);
    write_dump(&w, JIT_PID, "jit-5000010.dump");
    announce(&w, JIT_PID, "jit-5000010.dump", 1500);
    assert_string_equal(jit_at(&w, JIT_PID, 0x50010, 2500), "-");
    remove_file(&w, "jit-5000010.dump");
    world_free(&w);
}

/* A function with V8's rules: push rbp; mov rbp, rsp; ... */
static void a_jit_function_brings_its_own_rules(void **state)
{
    (void)state;
    static const uint8_t frame[] = {
        /* CIE: version 1, "zR", code 1, data -8, return address 16, pcrel|sdata4; CFA = rsp + 8,
         * return address at CFA - 8 */
        0x14, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
        /* FDE: covers [0, 0x100): begins 0x100 (the code) + 0x20 (here) before itself */
        0x10, 0, 0, 0, 0x1c, 0, 0, 0, 0xe0, 0xfe, 0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 0,
        /* end */
        0, 0, 0, 0};
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    struct text t = dump_begin(JIT_PID);
    u32(&t, 4);
    u32(&t, 16 + 24 + sizeof(frame));
    u64(&t, 0);
    u64(&t, sizeof(frame));
    u64(&t, 0);
    u64(&t, 0);
    add(&t, frame, sizeof(frame));
    dump_load(&t, 2000, 0x50000, 0x100, "with");
    dump_load(&t, 2000, 0x60000, 0x100, "without");
    write_file(&w, "jit-5000010.dump", t.at, t.size);
    text_free(&t);
    announce(&w, JIT_PID, "jit-5000010.dump", 1500);
    struct code code = code_at(&w, JIT_PID, 0x50010, 2500);
    assert_non_null(code.cfi);
    assert_true(code.cfi_id >= 1U << 30);
    assert_int_equal(code.bias, 0x50000);
    assert_ptr_equal(code_at(&w, JIT_PID, 0x50020, 2500).cfi, code.cfi);
    assert_null(code_at(&w, JIT_PID, 0x60010, 2500).cfi);
    remove_file(&w, "jit-5000010.dump");
    world_free(&w);
}

/* ---- threads ----------------------------------------------------------------------------- */

enum { PLACES = 400, ASKERS = 4, MAPS = 50 };

struct asker {
    pthread_t thread;
    const struct thread_context *places;
    bool failed;
};

/* Context i was taken when maps 0 to i % MAPS had been made over the mappings before. */
static void *ask(void *context)
{
    struct asker *a = context;
    for (unsigned i = 0; i < PLACES; i++) {
        struct codemap map = session_codemap(&a->places[i]);
        for (unsigned j = 0; j < MAPS; j++) {
            struct code code;
            uint64_t pc = 0x10000 * (j + 1) + i;
            bool known = codemap_lookup(&map, pc, i + 1, &code);
            const struct mapping *m = known ? code.token : NULL;
            if (known != (j <= i) || (m && (pc < m->start || pc >= m->end || code.start > pc)))
                a->failed = true;
            session_kernel_mapping(a->places[i].session, 0xffffffffc0000000 + j, i + 1);
        }
    }
    return NULL;
}

static void threads_ask_while_records_are_applied(void **state)
{
    (void)state;
    struct world w = {.clock = CLOCK_MONOTONIC};
    world_open(&w);
    static struct thread_context places[PLACES];
    static struct asker askers[ASKERS];
    struct own o = own_mapping((const void *)ask);
    for (uint64_t i = 0; i < PLACES; i++) {
        uint64_t at = 0x10000 * (i % MAPS + 1);
        MAP(10, at, 0x8000, o.pgoff + i / MAPS * 4096, RX, o.path, .time = i + 1);
        places[i] = context_of(&w, 10, 10);
    }
    for (int i = 0; i < ASKERS; i++) {
        askers[i] = (struct asker){.places = places};
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
    }
    for (uint64_t i = 0; i < 2000; i++) {
        MAP(10, 0x10000 * (i % 97 + 1), 0x8000, i * 4096, RX, "/lib/later", .time = 1000 + i);
        ksymbol(&w, 0xffffffffc0000000 + i % 31, 8, i % 3 == 0, "bpf_prog", 1000 + i);
        struct thread_context p = context_of(&w, 10, 10);
        thread_context_release(&p);
    }
    for (int i = 0; i < ASKERS; i++) {
        pthread_join(askers[i].thread, NULL);
        assert_false(askers[i].failed);
    }
    for (unsigned i = 0; i < PLACES; i++)
        thread_context_release(&places[i]);
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comms_are_those_of_the_moment),
        cmocka_unit_test(a_child_has_its_parents_comm),
        cmocka_unit_test(a_fork_copies_maps_and_they_part),
        cmocka_unit_test(an_exec_clears_the_address_space),
        cmocka_unit_test(a_reused_pid_is_a_new_process),
        cmocka_unit_test(a_tid_in_another_process_is_another_thread),
        cmocka_unit_test(a_thread_comes_to_the_oldest_dead_process),
        cmocka_unit_test(the_dead_are_forgotten_but_not_at_once),
        cmocka_unit_test(a_process_lives_while_a_thread_of_it_does),
        cmocka_unit_test(later_mappings_cut_earlier_ones),
        cmocka_unit_test(places_keep_what_they_saw),
        cmocka_unit_test(an_equal_mapping_is_no_event),
        cmocka_unit_test(generated_code_that_flips_stays_executable),
        cmocka_unit_test(names_tell_what_a_mapping_is),
        cmocka_unit_test(text_moved_to_huge_pages_stays_its_files),
        cmocka_unit_test(damaged_mappings_are_counted),
        cmocka_unit_test(records_that_are_cut_are_counted),
        cmocka_unit_test(build_ids_come_before_or_after_the_mapping),
        cmocka_unit_test(an_id_of_a_name_is_not_given_to_two_files),
        cmocka_unit_test(one_file_keeps_the_id_of_its_name),
        cmocka_unit_test(random_mappings_agree_with_a_model),
        cmocka_unit_test(code_of_a_file_has_rules_and_a_bias),
        cmocka_unit_test(a_file_that_is_gone_still_owns_its_code),
        cmocka_unit_test(memory_is_that_of_pages_nobody_could_write),
        cmocka_unit_test(a_file_is_proven_until_another_has_its_name),
        cmocka_unit_test(kernel_and_modules_are_told_apart),
        cmocka_unit_test(a_recordings_release_is_that_of_its_dsos),
        cmocka_unit_test(a_kernel_of_unknown_length_reaches_to_the_end),
        cmocka_unit_test(bpf_programs_come_and_go),
        cmocka_unit_test(a_symbol_over_the_kernel_uncovers_it_again),
        cmocka_unit_test(an_announced_jitdump_names_code_over_time),
        cmocka_unit_test(a_files_mapping_keeps_its_code),
        cmocka_unit_test(a_childs_view_of_a_jitdump_ends_at_the_fork),
        cmocka_unit_test(a_jitdump_of_another_pid_is_not_believed),
        cmocka_unit_test(a_missing_jitdump_is_said_once),
        cmocka_unit_test(without_the_right_clock_times_are_ignored_and_it_is_said),
        cmocka_unit_test(stamps_of_some_other_clock_are_noticed),
        cmocka_unit_test(jitdumps_can_be_given),
        cmocka_unit_test(a_given_jitdump_stays_when_its_process_is_born),
        cmocka_unit_test(a_containers_process_has_another_pid),
        cmocka_unit_test(a_perf_map_names_anonymous_code),
        cmocka_unit_test(inherited_code_is_of_who_made_it),
        cmocka_unit_test(another_users_perf_map_is_not_used),
        cmocka_unit_test(jit_files_can_be_left_alone),
        cmocka_unit_test(a_jit_function_brings_its_own_rules),
        cmocka_unit_test(threads_ask_while_records_are_applied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
