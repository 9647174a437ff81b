/* SPDX-License-Identifier: GPL-2.0-only */
/* Decoding and printing: every sample bit, every record type, both byte orders; compressed
 * records. */
#include "base/text.h"
#include "perfdata/format.h"
#include "perfdata/perfdata_internal.h"
#include "perfdata_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>
#include <cmocka.h>

struct opened {
    struct perfdata *pd;
    struct record_batch batch;
    uint8_t *bytes;
};

static void open_fixture(struct fixture *f, struct opened *o)
{
    size_t size;
    struct error err = {0};
    const struct perfdata_options options = {.unordered = true};
    memset(o, 0, sizeof(*o));
    o->bytes = fixture_build(f, false, &size);
    if (perfdata_open_memory(o->bytes, size, &options, &o->pd, &err) < 0 ||
        perfdata_read(o->pd, 1 << 20, &o->batch, &err) < 0)
        fail_msg("%s", err.text);
}

static void close_fixture(struct fixture *f, struct opened *o)
{
    perfdata_release(o->pd, &o->batch);
    record_batch_free(&o->batch);
    perfdata_close(o->pd);
    free(o->bytes);
    fixture_free(f);
}

/* ---- samples ------------------------------------------------------------------------------ */

enum { BITS = 25 };
static const uint64_t OTHER = 0x1122334455667788;

static struct perf_event_attr attr_with(uint64_t type)
{
    struct perf_event_attr attr = fixture_attr;
    attr.sample_type = type;
    attr.sample_regs_user = 0x181;
    attr.sample_regs_intr = 0x8000000000000002;
    attr.sample_stack_user = 32;
    attr.branch_sample_type = 1 << 17 | 1 << 19;
    return attr;
}

static void add_sample(struct fixture *f)
{
    static const uint8_t stack[32] = {1, 2, 3, 4, 5, 6, 7, 8};
    fixture_sample(f, &(struct fixture_sample){.id = 5,
                                               .ip = 0x401000,
                                               .time = 99,
                                               .addr = 0x88,
                                               .period = 77,
                                               .pid = 3,
                                               .tid = 4,
                                               .cpu = 6,
                                               .callchain = (uint64_t[]){(uint64_t)-512, 0x401000},
                                               .nr_callchain = 2,
                                               .raw = "raw!",
                                               .raw_size = 4,
                                               .user_regs = (uint64_t[]){10, 11, 12},
                                               .stack = stack,
                                               .stack_dyn_size = 8,
                                               .intr_regs = (uint64_t[]){20, 21},
                                               .other = OTHER});
}

static void assert_head(const struct sample *s)
{
    assert_int_equal(s->ip, s->present & PERF_SAMPLE_IP ? 0x401000 : 0);
    assert_int_equal(s->pid, s->present & PERF_SAMPLE_TID ? 3 : 0);
    assert_int_equal(s->tid, s->present & PERF_SAMPLE_TID ? 4 : 0);
    assert_int_equal(s->time, s->present & PERF_SAMPLE_TIME ? 99 : 0);
    assert_int_equal(s->addr, s->present & PERF_SAMPLE_ADDR ? 0x88 : 0);
    assert_int_equal(s->id, s->present & (PERF_SAMPLE_ID | PERF_SAMPLE_IDENTIFIER) ? 5 : 0);
    assert_int_equal(s->stream_id, s->present & PERF_SAMPLE_STREAM_ID ? OTHER : 0);
    assert_int_equal(s->cpu, s->present & PERF_SAMPLE_CPU ? 6 : 0);
    assert_int_equal(s->period,
                     s->present & PERF_SAMPLE_PERIOD ? 77 : s->event->attr.sample_period);
}

static void assert_parts(const struct sample *s)
{
    uint64_t v;
    if (s->present & PERF_SAMPLE_CALLCHAIN) {
        assert_int_equal(s->nr_callchain, 2);
        assert_true(sample_callchain_at(s, 0) == (uint64_t)-512);
        assert_int_equal(sample_callchain_at(s, 1), 0x401000);
        assert_int_equal(sample_callchain_at(s, 2), 0);
    }
    if (s->present & PERF_SAMPLE_RAW)
        assert_memory_equal(s->raw, "raw!", 4);
    if (s->present & PERF_SAMPLE_BRANCH_STACK) {
        assert_int_equal(s->nr_branches, 1);
        assert_int_equal(load_u64(s->branches + 8, s->swapped), OTHER);
    }
    if (s->present & PERF_SAMPLE_REGS_USER) {
        assert_int_equal(s->user_abi, 2);
        assert_true(sample_user_reg(s, 0, &v) && v == 10);
        assert_true(sample_user_reg(s, 8, &v) && v == 12);
        assert_false(sample_user_reg(s, 1, &v) || sample_user_reg(s, 64, &v));
    }
    if (s->present & PERF_SAMPLE_STACK_USER) {
        assert_int_equal(s->stack_size, 32);
        assert_int_equal(s->stack_dyn_size, 8);
        assert_int_equal(s->stack[7], 8);
    }
    if (s->present & PERF_SAMPLE_REGS_INTR)
        assert_int_equal(load_u64(s->intr_regs + 8, s->swapped), 21);
    assert_int_equal(s->data_src, s->present & PERF_SAMPLE_DATA_SRC ? OTHER : 0);
    assert_int_equal(s->transaction, s->present & PERF_SAMPLE_TRANSACTION ? OTHER : 0);
    assert_int_equal(s->phys_addr, s->present & PERF_SAMPLE_PHYS_ADDR ? OTHER : 0);
    assert_int_equal(s->cgroup, s->present & PERF_SAMPLE_CGROUP ? OTHER : 0);
    assert_int_equal(s->data_page_size, s->present & PERF_SAMPLE_DATA_PAGE_SIZE ? OTHER : 0);
    assert_int_equal(s->code_page_size, s->present & PERF_SAMPLE_CODE_PAGE_SIZE ? OTHER : 0);
    assert_int_equal(s->weight,
                     s->present & (PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT) ? OTHER : 0);
}

static void assert_sample_type(uint64_t type, uint64_t read_format, bool swap)
{
    struct fixture *f = fixture_create(swap);
    struct perf_event_attr attr = attr_with(type);
    struct opened o;
    struct sample s;
    struct error err;
    attr.read_format = read_format;
    fixture_event(f, &attr, (uint64_t[]){5}, 1);
    add_sample(f);
    open_fixture(f, &o);
    assert_int_equal(o.batch.nr, 1);
    if (perfdata_sample(o.pd, &o.batch.records[0], &s, &err) < 0)
        fail_msg("type %llx: %s", (unsigned long long)type, err.text);
    assert_head(&s);
    assert_parts(&s);
    assert_int_equal(o.batch.records[0].time, type & PERF_SAMPLE_TIME ? 99 : 0);
    assert_int_equal(perfdata_sample_head(o.pd, &o.batch.records[0], &s, &err), 0);
    assert_head(&s);
    close_fixture(f, &o);
}

static void test_each_sample_bit(void **state)
{
    (void)state;
    const uint64_t common = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    const uint64_t all = ((UINT64_C(1) << BITS) - 1) & ~(uint64_t)PERF_SAMPLE_WEIGHT_STRUCT;
    for (int swap = 0; swap < 2; swap++) {
        for (int bit = 0; bit < BITS; bit++) {
            assert_sample_type(UINT64_C(1) << bit, 0, swap);
            assert_sample_type(common | UINT64_C(1) << bit, 0, swap);
            assert_sample_type(all & ~(UINT64_C(1) << bit), 31, swap);
        }
        for (uint64_t format = 0; format < 32; format++)
            assert_sample_type(all, format, swap);
    }
}

/* A sample of a group stands for members that record other registers: it has the leader's
 * registers. */
static void test_a_members_registers_are_the_leaders(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct perf_event_attr attr = attr_with(fixture_attr.sample_type | PERF_SAMPLE_REGS_USER);
    struct opened o;
    struct sample s;
    uint64_t v;
    fixture_event(f, &attr, (uint64_t[]){5}, 1);
    add_sample(f);
    open_fixture(f, &o);
    assert_int_equal(perfdata_sample(o.pd, &o.batch.records[0], &s, NULL), 0);
    struct perfdata_event member = *s.event;
    member.attr.sample_regs_user = member.attr.sample_regs_intr = 0xff0fff;
    s.event = &member;
    assert_true(sample_user_reg(&s, 8, &v) && v == 12);
    assert_false(sample_user_reg(&s, 1, &v) || sample_user_reg(&s, 23, &v));
    close_fixture(f, &o);
}

static void test_sample_of_wrong_length(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct opened o;
    struct sample s;
    struct error err;
    fixture_event(f, &fixture_attr, NULL, 0);
    fixture_begin(f, PERF_RECORD_SAMPLE, 2); /* 8 bytes too long */
    for (int i = 0; i < 4; i++)
        fixture_u64(f, 1);
    fixture_end(f);
    fixture_begin(f, PERF_RECORD_SAMPLE, 2); /* 8 bytes too short */
    fixture_u64(f, 1);
    fixture_u64(f, 1);
    fixture_end(f);
    open_fixture(f, &o);
    assert_int_equal(perfdata_sample(o.pd, &o.batch.records[0], &s, &err), -1);
    assert_non_null(strstr(err.text, "longer than its fields"));
    assert_int_equal(perfdata_sample(o.pd, &o.batch.records[1], &s, &err), -1);
    assert_int_equal(perfdata_sample_head(o.pd, &o.batch.records[1], &s, &err), -1);
    close_fixture(f, &o);
}

/* 65,528 bytes of stack and interrupt registers: the record's size wraps. */
static void test_wrapped_sample_names_the_cure(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct perf_event_attr attr = fixture_attr;
    struct opened o;
    struct sample s;
    struct error err;
    attr.sample_type |= PERF_SAMPLE_STACK_USER | PERF_SAMPLE_REGS_INTR;
    attr.sample_regs_intr = 0xff0fff;
    fixture_event(f, &attr, NULL, 0);
    fixture_begin(f, PERF_RECORD_SAMPLE, 2);
    for (int i = 0; i < 3; i++)
        fixture_u64(f, 1);
    fixture_u64(f, 65480);
    for (int i = 0; i < 12; i++)
        fixture_u64(f, 0);
    fixture_end(f);
    open_fixture(f, &o);
    assert_int_equal(perfdata_sample(o.pd, &o.batch.records[0], &s, &err), -1);
    assert_non_null(strstr(err.text, "--call-graph=dwarf,65352"));
    close_fixture(f, &o);
}

/* ---- side-band records -------------------------------------------------------------------- */

static void test_decoders(void **state)
{
    (void)state;
    static const uint8_t id[20] = {0xab, 0xcd, 1, 2, 3};
    for (int swap = 0; swap < 2; swap++) {
        struct fixture *f = fixture_create(swap);
        struct opened o;
        struct record_mmap m;
        struct record_comm c;
        struct record_task t;
        struct record_ids ids;
        fixture_event(f, &fixture_attr, NULL, 0);
        fixture_mmap2(f, &(struct fixture_mmap){.pid = 1,
                                                .tid = 2,
                                                .addr = 0x7000,
                                                .len = 0x2000,
                                                .pgoff = 0x3000,
                                                .filename = "/lib/x.so",
                                                .build_id = id,
                                                .time = 4});
        fixture_exec(f, 9, "name", 5);
        fixture_fork(f, 9, 10, 11, 6);
        open_fixture(f, &o);
        const struct record *r = o.batch.records;
        assert_int_equal(perfdata_mmap(o.pd, &r[0], &m, NULL), 0);
        assert_int_equal(m.addr + m.len + m.pgoff, 0xc000);
        assert_int_equal(m.prot, 5);
        assert_int_equal(m.build_id.size, 20);
        assert_memory_equal(m.build_id.bytes, id, 20);
        assert_string_equal(m.filename, "/lib/x.so");
        assert_int_equal(perfdata_comm(o.pd, &r[1], &c, NULL), 0);
        assert_true(c.exec);
        assert_string_equal(c.comm, "name");
        assert_int_equal(perfdata_task(o.pd, &r[2], &t, NULL), 0);
        assert_true(t.pid == 10 && t.ppid == 9 && t.tid == 11 && t.time == 6 && !t.synthesized);
        perfdata_ids(o.pd, &r[0], &ids);
        assert_true(ids.pid == 1 && ids.tid == 2 && ids.time == 4);
        assert_int_equal(perfdata_comm(o.pd, &r[0], &c, NULL), -1);
        close_fixture(f, &o);
    }
}

/* Linux sets the bit for a build id in records of other events, too. */
static void test_false_build_id_bit(void **state)
{
    (void)state;
    for (int swap = 0; swap < 2; swap++) {
        struct fixture *f = fixture_create(swap);
        static const uint32_t majors[] = {0, 3, 8, 254, 259};
        struct opened o;
        struct record_mmap m;
        fixture_event(f, &fixture_attr, NULL, 0);
        for (size_t i = 0; i < sizeof(majors) / sizeof(*majors); i++)
            fixture_mmap2(f, &(struct fixture_mmap){.pid = 1,
                                                    .tid = 1,
                                                    .addr = 0x7000,
                                                    .len = 0x1000,
                                                    .filename = "/lib/x.so",
                                                    .false_bit = true,
                                                    .major = majors[i],
                                                    .minor = 1,
                                                    .inode = 4711,
                                                    .generation = UINT64_C(0x12345678)});
        open_fixture(f, &o);
        for (size_t i = 0; i < sizeof(majors) / sizeof(*majors); i++) {
            assert_int_equal(perfdata_mmap(o.pd, &o.batch.records[i], &m, NULL), 0);
            assert_int_equal(m.build_id.size, 0);
            assert_int_equal(m.maj, majors[i]);
            assert_int_equal(m.ino, 4711);
        }
        close_fixture(f, &o);
    }
}

/* A string without an end must not be read past its record. */
static void test_string_without_nul(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct opened o;
    struct record_comm c;
    struct error err;
    fixture_event(f, &fixture_attr, NULL, 0);
    fixture_begin(f, PERF_RECORD_COMM, 0);
    fixture_u64(f, 1);
    fixture_bytes(f, "xxxxxxxxxxxxxxxx", 16);
    fixture_end(f);
    open_fixture(f, &o);
    assert_int_equal(perfdata_comm(o.pd, &o.batch.records[0], &c, &err), -1);
    assert_non_null(strstr(err.text, "COMM record"));
    close_fixture(f, &o);
}

/* ---- printing ----------------------------------------------------------------------------- */

static const char *json_value(const char *p);

static const char *json_string(const char *p)
{
    if (!p || *p++ != '"')
        return NULL;
    for (; *p != '"'; p++)
        if (!*p || (unsigned char)*p < ' ' || (*p == '\\' && !*++p))
            return NULL;
    return p + 1;
}

static const char *json_list(const char *p, char end, bool named)
{
    if (*p == end)
        return p + 1;
    for (;; p++) {
        if (named && (!(p = json_string(p)) || *p++ != ':'))
            return NULL;
        p = json_value(p);
        if (!p || (*p != ',' && *p != end))
            return NULL;
        if (*p == end)
            return p + 1;
    }
}

static const char *json_value(const char *p)
{
    char *end;
    if (*p == '{')
        return json_list(p + 1, '}', true);
    if (*p == '[')
        return json_list(p + 1, ']', false);
    if (*p == '"')
        return json_string(p);
    if (!strncmp(p, "true", 4))
        return p + 4;
    if (!strncmp(p, "false", 5))
        return p + 5;
    strtod(p, &end);
    return end == p ? NULL : end;
}

static char *print(const struct opened *o, const struct record *rec, bool json)
{
    char *line = NULL;
    size_t size;
    FILE *out = open_memstream(&line, &size);
    int written = perfdata_print_record(o->pd, rec, json, out);
    fclose(out);
    assert_int_equal(written, size);
    return line;
}

/* A record of `type` with these u64 values as its body, and the text that its line must contain. */
struct shape {
    uint32_t type;
    uint16_t misc;
    uint64_t body[8];
    size_t nr;
    const char *text; /* a string behind the body; NULL: none */
    const char *expect;
};

#define PAIR(low, high) ((uint64_t)(high) << 32 | (low))
static const struct shape SHAPES[] = {
    {PERF_RECORD_LOST, 0, {5, 6}, 2, NULL, "LOST id=5 lost=6"},
    {PERF_RECORD_THROTTLE, 0, {1, 2, 3}, 3, NULL, "THROTTLE throttle_time=1 id=2 stream_id=3"},
    {PERF_RECORD_UNTHROTTLE, 0, {1, 2, 3}, 3, NULL, "UNTHROTTLE throttle_time=1"},
    {PERF_RECORD_EXIT, 0, {PAIR(1, 2), PAIR(3, 4), 5}, 3, NULL, "EXIT pid=1 ppid=2 tid=3 ptid=4"},
    {PERF_RECORD_READ, 0, {PAIR(1, 2), 7}, 2, NULL, "READ pid=1 tid=2 read={value=7}"},
    {PERF_RECORD_MMAP,
     1,
     {PAIR(-1u, 0), 0x10, 0x20, 0x30},
     4,
     "[k]",
     "addr=0x10 len=0x20 pgoff=0x30 filename=\"[k]\""},
    {PERF_RECORD_AUX, 0, {1, 2, 3}, 3, NULL, "aux_offset=0x1 aux_size=0x2 aux_flags=0x3"},
    {PERF_RECORD_ITRACE_START, 0, {PAIR(1, 2)}, 1, NULL, "ITRACE_START pid=1 tid=2"},
    {PERF_RECORD_LOST_SAMPLES, 0, {9}, 1, NULL, "LOST_SAMPLES lost=9"},
    {PERF_RECORD_SWITCH, 0x6000, {0}, 0, NULL, "SWITCH out preempt"},
    {PERF_RECORD_SWITCH_CPU_WIDE, 0x2000, {PAIR(8, 9)}, 1, NULL, "out next_pid=8 next_tid=9"},
    {PERF_RECORD_SWITCH_CPU_WIDE, 0, {PAIR(8, 9)}, 1, NULL, "prev_pid=8 prev_tid=9"},
    {PERF_RECORD_NAMESPACES, 0, {PAIR(1, 1), 2, 3, 4, 5, 6}, 6, NULL, "{name=\"uts\" dev=5 ino=6}"},
    {PERF_RECORD_KSYMBOL,
     0,
     {0xff, 64},
     2,
     "bpf_prog_x",
     "addr=0xff len=64 ksym_type=0 flags=0 name=\"bpf_prog_x\""},
    {PERF_RECORD_BPF_EVENT, 0, {PAIR(1, 17), 0}, 2, NULL, "bpf_type=1 flags=0 id=17 tag=0000"},
    {PERF_RECORD_CGROUP, 0, {44}, 1, "/a/b", "CGROUP id=44 path=\"/a/b\""},
    {PERF_RECORD_TEXT_POKE,
     0,
     {0x99, PAIR(0x00010002, 0x00ccbbaa)},
     2,
     NULL,
     "addr=0x99 old=aabb new=cc"},
    {PERF_RECORD_AUX_OUTPUT_HW_ID, 0, {0x77}, 1, NULL, "hw_id=0x77"},
    {22, 0, {5, 2, 6, 7}, 4, NULL, "CALLCHAIN_DEFERRED cookie=0x5 callchain=[0x6 0x7]"},
    {69, 0, {1, 2, 3, 4, 5}, 5, NULL, "entries=[{id=2 idx=3 cpu=4 tid=5}]"},
    {69, 0, {1, 2, 3, 4, 5, 6, 7}, 7, NULL, "tid=5 machine_pid=6 vcpu=7}]"},
    {70, 0, {1, 2, 3}, 3, NULL, "auxtrace_type=1 priv=[0x2 0x3]"},
    {73, 0, {1, 6, 0x6f6c6c6568, 0}, 4, NULL, "threads=[{pid=6 comm=\"hello\"}]"},
    {74, 0, {0x0000000500020000}, 1, NULL, "map_type=0 cpus=[5 0]"},
    {74, 0, {0x0005000000010002}, 1, NULL, "map_type=2 any start=0 end=5"},
    {75, 0, {1, 2, 3}, 3, NULL, "config=[{tag=2 value=3}]"},
    {76, 0, {1, PAIR(2, 3), 4, 5, 6}, 5, NULL, "id=1 cpu=2 thread=3 value=4 enabled=5 running=6"},
    {77, 0, {1, 2}, 2, NULL, "round_type=1 round_time=2"},
    {78, 0, {2, 3}, 2, "nm", "update=2 id=3 name=\"nm\""},
    {78, 0, {1, 3, 0x3fe0000000000000}, 3, NULL, "scale=0.5"},
    {79, 0, {1, 2, 3}, 3, NULL, "shift=1 mult=2 zero=3"},
    {79, 0, {1, 2, 3, 4, 5, 1}, 6, NULL, "cycles=4 mask=0x5 cap_zero"},
    {80, 0, {3, 0}, 2, NULL, "feature=3 payload=8"},
    {82, 0, {0}, 0, NULL, "FINISHED_INIT"},
};

static void add_shape(struct fixture *f, const struct shape *s, size_t words)
{
    fixture_begin(f, s->type, s->misc);
    for (size_t i = 0; i < words; i++)
        fixture_bytes(f, &s->body[i], 8);
    if (s->text && words == s->nr)
        fixture_string(f, s->text);
    fixture_end(f);
}

static void test_each_type_prints(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct opened o;
    struct perf_event_attr attr = fixture_attr;
    attr.sample_id_all = 0;
    fixture_event(f, &attr, NULL, 0);
    enum { NR = sizeof(SHAPES) / sizeof(SHAPES[0]) };
    for (size_t i = 0; i < NR; i++)
        add_shape(f, &SHAPES[i], SHAPES[i].nr);
    open_fixture(f, &o);
    assert_int_equal(o.batch.nr, NR);
    for (size_t i = 0; i < NR; i++) {
        char *text = print(&o, &o.batch.records[i], false);
        char *json = print(&o, &o.batch.records[i], true);
        if (!strstr(text, SHAPES[i].expect) || strstr(text, "error="))
            fail_msg("'%s' lacks '%s'", text, SHAPES[i].expect);
        const char *end = json_value(json);
        if (!end || *end)
            fail_msg("no JSON: %s", json);
        free(text);
        free(json);
    }
    close_fixture(f, &o);
}

/* Each type cut after each word: the line has an error, and the JSON stays valid. */
static void test_each_type_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(SHAPES) / sizeof(SHAPES[0]); i++) {
        for (size_t words = 0; words < SHAPES[i].nr; words++) {
            struct fixture *f = fixture_create(false);
            struct opened o;
            fixture_event(f, &fixture_attr, NULL, 0);
            add_shape(f, &SHAPES[i], words);
            open_fixture(f, &o);
            assert_int_equal(o.batch.nr, 1);
            char *json = print(&o, &o.batch.records[0], true);
            const char *end = json_value(json);
            if (!end || *end)
                fail_msg("no JSON: %s", json);
            free(json);
            close_fixture(f, &o);
        }
    }
}

static void test_strange_strings_print(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct opened o;
    fixture_event(f, &fixture_attr, NULL, 0);
    fixture_comm(f, 1, 1, "a\"b\\c\n\xff\xc3\xa9", 1);
    open_fixture(f, &o);
    char *json = print(&o, &o.batch.records[0], true);
    assert_non_null(strstr(json, "\"a\\\"b\\\\c\\u000a\\u00ff\xc3\xa9\""));
    free(json);
    char *text = print(&o, &o.batch.records[0], false);
    assert_non_null(strstr(text, "comm=\"a\\\"b\\\\c\\x0a\\xff\xc3\xa9\""));
    free(text);
    close_fixture(f, &o);
}

/* ---- tracepoint formats -------------------------------------------------------------------- */

#define FORMAT_HEAD                                                      \
    "name: n\nID: 5\nformat:\n\tfield:unsigned short "                   \
    "common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                      \
    "\n\tfield:__data_loc char[] name;\toffset:4;\tsize:4;\tsigned:0;\n" \
    "\tfield:u8 mac[6];\toffset:8;\tsize:6;\tsigned:0;\n\nprint fmt: "

static void test_only_sound_formats_are_parsed(void **state)
{
    (void)state;
    static const char *const sound[] = {
        FORMAT_HEAD "\"x\"\n",
        FORMAT_HEAD "\"%s %d\" \" more\", __get_str(name), (int)REC->mac[0] + 1\n",
        FORMAT_HEAD "\"%s\", __print_symbolic(REC->mac, { 1, \"a\" }, { 2, \"b\" })",
        FORMAT_HEAD "\"%d\", REC->mac == 2 ? !REC->name : sizeof(struct x) >> 2",
    };
    static const char *const unsound[] = {
        FORMAT_HEAD "\"%d\", REC->other\n",
        FORMAT_HEAD "\"%d\", (REC->mac\n",
        FORMAT_HEAD "\"%d\", REC->mac +\n",
        FORMAT_HEAD "\"%d, REC->mac\n",
        FORMAT_HEAD "\"%d\", ({ int x = 1; x; })\n",
        FORMAT_HEAD "",
        "name: n\nID: 5\nformat:\n\tfield:x;\toffset:0;\tsize:1;\tsigned:0;\n\nprint fmt: \"\"\n",
        "name: n\nID: x\nformat:\nprint fmt: \"\"\n",
    };
    for (size_t i = 0; i < sizeof(sound) / sizeof(sound[0]); i++)
        assert_true(format_is_sound(sound[i], strlen(sound[i])));
    for (size_t i = 0; i < sizeof(unsound) / sizeof(unsound[0]); i++)
        assert_false(format_is_sound(unsound[i], strlen(unsound[i])));
    char deep[4096] = FORMAT_HEAD "\"%d\", ";
    size_t n = strlen(deep);
    memset(deep + n, '(', sizeof(deep) - n);
    assert_false(format_is_sound(deep, sizeof(deep)));
    enum { CASTS = 1 << 18 };
    const size_t size = n + 4 * CASTS + 1;
    char *casts = malloc(size);
    memcpy(casts, deep, n);
    for (size_t i = 0; i < CASTS; i++)
        memcpy(casts + n + 4 * i, "(a*)", 4);
    casts[size - 1] = '1';
    assert_false(format_is_sound(casts, size));
    free(casts);
}

/* ---- compressed records ------------------------------------------------------------------- */

enum { FIRST_PART = 65519, STACK = 60000 };

/* Returns samples whose bytes do not compress, as a ring's records. */
static uint8_t *ring_bytes(struct fixture *f, size_t nr, size_t *size)
{
    static uint8_t noise[STACK];
    struct perf_event_attr attr = fixture_attr;
    uint64_t x = 88172645463325252;
    attr.sample_type |= PERF_SAMPLE_STACK_USER;
    attr.sample_stack_user = STACK;
    fixture_event(f, &attr, NULL, 0);
    for (uint64_t i = 0; i < nr; i++) {
        for (size_t k = 0; k < STACK; k++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            noise[k] = (uint8_t)x;
        }
        noise[0] = (uint8_t)i;
        fixture_sample(f,
                       &(struct fixture_sample){
                           .ip = i, .time = 10 + i, .stack = noise, .stack_dyn_size = STACK - i});
    }
    uint8_t *all = fixture_build(f, false, size);
    size_t head = fixture_data_offset(f);
    *size -= head;
    memmove(all, all + head, *size);
    return all;
}

/* Opens a recording with `nr` samples in compressed records, `push` bytes in each push. */
static void assert_compressed(size_t nr, size_t push, bool wrapped)
{
    struct fixture *ring = fixture_create(false), *f = fixture_create(false);
    struct perf_event_attr attr = fixture_attr;
    struct opened o;
    size_t size;
    uint8_t *data = ring_bytes(ring, nr, &size);
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    uint8_t *packed = malloc(2 * push + 4096);
    attr.sample_type |= PERF_SAMPLE_STACK_USER;
    attr.sample_stack_user = STACK;
    fixture_event(f, &attr, NULL, 0);
    for (size_t at = 0; at < size; at += push) {
        ZSTD_inBuffer in = {data + at, size - at < push ? size - at : push, 0};
        ZSTD_outBuffer out = {packed, 2 * push + 4096, 0};
        assert_int_equal(ZSTD_compressStream2(zstd, &out, &in, ZSTD_e_flush), 0);
        size_t first = wrapped && out.pos > FIRST_PART ? FIRST_PART : out.pos,
               rest = out.pos - first;
        fixture_begin(f, wrapped ? 83 : 81, 0);
        if (wrapped)
            fixture_u64(f, first + (rest ? 16 + rest : 0));
        fixture_bytes(f, packed, first);
        fixture_end(f);
        /* an inner record: the right size, garbage in place of data_size */
        if (rest) {
            fixture_u32(f, 83);
            fixture_u16(f, 0);
            fixture_u16(f, (uint16_t)(16 + rest));
            fixture_u64(f, UINT64_C(0xdeadbeefdeadbeef));
            fixture_bytes(f, packed + first, rest);
        }
    }
    ZSTD_freeCCtx(zstd);
    /* The writer fixes the size in the first header: rounded up, modulo 65,536. */
    size_t whole, wraps = 0;
    uint8_t *bytes = fixture_build(f, false, &whole);
    for (size_t at = fixture_data_offset(f); wrapped && at < whole;) {
        uint64_t length = 16 + load_u64(bytes + at + 8, false);
        uint16_t header_size = (uint16_t)((length + 7) & ~UINT64_C(7));
        if (((length + 7) & ~UINT64_C(7)) > UINT16_MAX || length % 8 == 0)
            memcpy(bytes + at + 6, &header_size, 2);
        wraps += header_size < length;
        at += length;
    }
    assert_int_equal(wraps > 0, wrapped);
    memset(&o, 0, sizeof(o));
    struct error err = {0};
    if (perfdata_open_memory(bytes, whole, NULL, &o.pd, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(perfdata_read(o.pd, 1000, &o.batch, &err), 0);
    if (perfdata_loss(o.pd)->damage.kind)
        fail_msg("%s", perfdata_loss(o.pd)->damage.text);
    assert_int_equal(o.batch.nr, nr);
    for (size_t i = 0; i < nr; i++) {
        struct sample s;
        assert_int_equal(perfdata_sample(o.pd, &o.batch.records[i], &s, &err), 0);
        assert_int_equal(s.ip, i);
        assert_int_equal(s.stack_size, STACK);
        assert_int_equal(s.stack_dyn_size, STACK - i);
        assert_int_equal(o.batch.records[i].size, 48 + STACK - i);
        assert_memory_equal(s.stack, data + i * (48 + STACK) + 40, STACK - i);
    }
    o.bytes = bytes;
    close_fixture(f, &o);
    fixture_free(ring);
    free(data);
    free(packed);
}

static void test_compressed_records(void **state)
{
    (void)state;
    assert_compressed(9, 50001, false); /* flushed in the middle of records */
}

/* COMPRESSED2 records whose 16-bit sizes wrapped, with one and with two records pushed at once. */
static void test_wrapped_compressed2(void **state)
{
    (void)state;
    assert_compressed(9, 65504, true); /* incompressible: the result is a few bytes longer */
    assert_compressed(9, 100000, true);
}

static void test_compressed_damage(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct opened o;
    fixture_event(f, &fixture_attr, NULL, 0);
    fixture_comm(f, 1, 1, "x", 1);
    fixture_begin(f, 81, 0);
    fixture_bytes(f, "not zstd at all.", 16);
    fixture_end(f);
    fixture_comm(f, 2, 2, "y", 2);
    open_fixture(f, &o);
    assert_int_equal(o.batch.nr, 1);
    assert_non_null(strstr(perfdata_loss(o.pd)->damage.text, "zstd"));
    assert_true(perfdata_loss(o.pd)->bytes_unread > 0);
    close_fixture(f, &o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_sample_bit),
        cmocka_unit_test(test_a_members_registers_are_the_leaders),
        cmocka_unit_test(test_sample_of_wrong_length),
        cmocka_unit_test(test_wrapped_sample_names_the_cure),
        cmocka_unit_test(test_decoders),
        cmocka_unit_test(test_false_build_id_bit),
        cmocka_unit_test(test_string_without_nul),
        cmocka_unit_test(test_each_type_prints),
        cmocka_unit_test(test_each_type_cut),
        cmocka_unit_test(test_strange_strings_print),
        cmocka_unit_test(test_only_sound_formats_are_parsed),
        cmocka_unit_test(test_compressed_records),
        cmocka_unit_test(test_wrapped_compressed2),
        cmocka_unit_test(test_compressed_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
