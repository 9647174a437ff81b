/* SPDX-License-Identifier: GPL-2.0-only */
/* Reading: forms, byte orders, time order, trimmed copies, and damage. */
#include "perfdata/perfdata_internal.h"
#include "perfdata_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>

static struct perfdata *open_path(const char *path, const struct perfdata_options *options)
{
    struct perfdata *pd = NULL;
    struct error err = {0};
    if (perfdata_open(path, options, &pd, &err) < 0)
        fail_msg("%s", err.text);
    return pd;
}

static struct perfdata *open_fixture(struct fixture *f, bool pipe_form)
{
    char *path = fixture_write(f, pipe_form);
    struct perfdata *pd = open_path(path, NULL);
    unlink(path);
    free(path);
    return pd;
}

/* Reads all records. Their bytes stay until the batch is released. */
static size_t read_all(struct perfdata *pd, struct record_batch *batch)
{
    struct error err = {0};
    if (perfdata_read(pd, 1 << 20, batch, &err) < 0)
        fail_msg("%s", err.text);
    return batch->nr;
}

static void finish(struct perfdata *pd, struct record_batch *batch)
{
    perfdata_release(pd, batch);
    record_batch_free(batch);
    if (pd->queue.at ==
        pd->queue.records.nr) /* no record waits: only blocks being filled are left */
        assert_in_range(atomic_load(&pd->live_chunks), 0, 1 + pd->streams.nr);
    perfdata_close(pd);
}

static void add_times(struct fixture *f, const uint64_t *times, size_t nr)
{
    for (size_t i = 0; i < nr; i++)
        fixture_sample(f, &(struct fixture_sample){.ip = i, .pid = 1, .time = times[i]});
}

static void assert_times(struct perfdata *pd, const uint64_t *times, size_t nr)
{
    struct record_batch b = {0};
    assert_int_equal(read_all(pd, &b), nr);
    for (size_t i = 0; i < nr; i++)
        assert_int_equal(b.records[i].time, times[i]);
    finish(pd, &b);
}
#define TIMES(...) (uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / 8

/* ---- order -------------------------------------------------------------------------------- */

static void test_rings_of_a_round_are_merged(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    fixture_event(f, &fixture_attr, NULL, 0);
    add_times(f, TIMES(10, 20, 30, 40));
    add_times(f, TIMES(15, 25, 35));
    fixture_round(f);
    add_times(f, TIMES(50, 60));
    /* 38 is not late: it is later than what the first round had read of its ring */
    add_times(f, TIMES(38, 55));
    fixture_round(f);
    assert_times(open_fixture(f, false), TIMES(10, 15, 20, 25, 30, 35, 38, 40, 50, 55, 60));
    fixture_free(f);
}

static void test_equal_times_stay_in_file_order(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct record_batch b = {0};
    fixture_event(f, &fixture_attr, NULL, 0);
    add_times(f, TIMES(5, 7, 7, 9, 3, 7, 7, 8, 7));
    struct perfdata *pd = open_fixture(f, false);
    assert_int_equal(read_all(pd, &b), 9);
    const uint64_t ips[] = {4, 0, 1, 2, 5, 6, 8, 7, 3};
    for (size_t i = 0; i < 9; i++) {
        struct sample s;
        assert_int_equal(perfdata_sample(pd, &b.records[i], &s, NULL), 0);
        assert_int_equal(s.ip, ips[i]);
    }
    finish(pd, &b);
    fixture_free(f);
}

/* A round's mark promises that no older record follows. Records that break the promise are
 * counted. */
static void test_late_records_are_counted(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct record_batch b = {0};
    fixture_event(f, &fixture_attr, NULL, 0);
    add_times(f, TIMES(10, 20));
    fixture_round(f);
    fixture_round(f);
    add_times(f, TIMES(15, 30));
    struct perfdata *pd = open_fixture(f, false);
    assert_int_equal(read_all(pd, &b), 4);
    assert_int_equal(b.records[2].time, 15);
    assert_int_equal(perfdata_loss(pd)->records_late, 1);
    finish(pd, &b);
    fixture_free(f);
}

static void test_backward_rings_are_sorted_whole(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct perf_event_attr attr = fixture_attr;
    attr.write_backward = 1;
    fixture_event(f, &attr, NULL, 0);
    add_times(f, TIMES(90, 80, 70));
    fixture_round(f);
    add_times(f, TIMES(60, 50, 40));
    fixture_round(f);
    assert_times(open_fixture(f, false), TIMES(40, 50, 60, 70, 80, 90));
    fixture_free(f);
}

static void test_without_times_the_file_order_stays(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct record_batch b = {0};
    struct perf_event_attr attr = fixture_attr;
    attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID;
    fixture_event(f, &attr, NULL, 0);
    for (uint64_t i = 0; i < 5; i++)
        fixture_sample(f, &(struct fixture_sample){.ip = 100 - i});
    struct perfdata *pd = open_fixture(f, false);
    assert_int_equal(read_all(pd, &b), 5);
    for (size_t i = 0; i < 5; i++) {
        struct sample s;
        assert_int_equal(perfdata_sample(pd, &b.records[i], &s, NULL), 0);
        assert_int_equal(s.ip, 100 - i);
    }
    finish(pd, &b);
    fixture_free(f);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Any disorder is sorted at the end of the input; compared with qsort. */
static void test_random_times(void **state)
{
    (void)state;
    enum { NR = 3000 };
    static uint64_t times[NR];
    uint64_t x = 88172645463325252;
    for (int shape = 1; shape < 2000; shape = shape * 5 + 1) {
        struct fixture *f = fixture_create(false);
        fixture_event(f, &fixture_attr, NULL, 0);
        for (size_t i = 0; i < NR; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            times[i] = 1 + i / (size_t)shape * 3 + x % (uint64_t)(shape * 7);
        }
        add_times(f, times, NR);
        qsort(times, NR, sizeof(times[0]), compare_u64);
        assert_times(open_fixture(f, false), times, NR);
        fixture_free(f);
    }
}

/* ---- events ------------------------------------------------------------------------------- */

static void test_identifier_tells_layouts_apart(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct record_batch b = {0};
    struct perf_event_attr first = fixture_attr, second = fixture_attr;
    first.sample_type |= PERF_SAMPLE_IDENTIFIER;
    second.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME;
    second.config = PERF_COUNT_SW_DUMMY;
    fixture_event(f, &first, (uint64_t[]){71, 72}, 2);
    fixture_event(f, &second, (uint64_t[]){99}, 1);
    fixture_sample(f, &(struct fixture_sample){.event = 0, .id = 72, .ip = 5, .time = 30});
    fixture_sample(f, &(struct fixture_sample){.event = 1, .id = 99, .time = 20});
    fixture_sample(f, &(struct fixture_sample){.event = 0, .id = 1234, .time = 25});
    fixture_comm(f, 4, 4, "x", 10);
    struct perfdata *pd = open_fixture(f, false);
    assert_int_equal(read_all(pd, &b), 3);
    assert_int_equal(b.records[0].type, PERF_RECORD_COMM);
    assert_int_equal(b.records[1].event, 1);
    assert_int_equal(b.records[2].event, 0);
    assert_int_equal(b.records[2].time, 30);
    assert_int_equal(perfdata_loss(pd)->samples_no_event, 1);
    assert_string_equal(perfdata_event(pd, 0)->name, "cpu-clock");
    assert_string_equal(perfdata_event(pd, 1)->name, "dummy");
    finish(pd, &b);
    fixture_free(f);
}

static void test_differing_layouts_without_identifier_are_refused(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct perf_event_attr second = fixture_attr;
    struct perfdata *pd;
    struct error err;
    second.sample_type |= PERF_SAMPLE_CPU;
    fixture_event(f, &fixture_attr, (uint64_t[]){1}, 1);
    fixture_event(f, &second, (uint64_t[]){2}, 1);
    char *path = fixture_write(f, false);
    assert_int_equal(perfdata_open(path, NULL, &pd, &err), -1);
    assert_non_null(strstr(err.text, "sample_types differ"));
    unlink(path);
    free(path);
    fixture_free(f);
}

static void assert_name(struct perf_event_attr attr, const char *name)
{
    char *got = attr_name(&attr);
    assert_string_equal(got, name);
    free(got);
}

static void test_names(void **state)
{
    (void)state;
    assert_name((struct perf_event_attr){.type = PERF_TYPE_HARDWARE, .exclude_guest = 1}, "cycles");
    assert_name((struct perf_event_attr){.type = PERF_TYPE_HARDWARE,
                                         .config = 1,
                                         .exclude_kernel = 1,
                                         .exclude_hv = 1,
                                         .exclude_guest = 1,
                                         .precise_ip = 2},
                "instructions:uppH");
    assert_name((struct perf_event_attr){.type = PERF_TYPE_SOFTWARE, .config = 2},
                "page-faults:HG");
    assert_name((struct perf_event_attr){.type = PERF_TYPE_HW_CACHE, .config = 0x10003},
                "dTLB-load-misses:HG");
    assert_name((struct perf_event_attr){.type = PERF_TYPE_HW_CACHE, .config = 0x104},
                "invalid-cache:HG");
    assert_name((struct perf_event_attr){.type = PERF_TYPE_RAW, .config = 0x1c2}, "raw 0x1c2:HG");
    assert_name(
        (struct perf_event_attr){.type = PERF_TYPE_BREAKPOINT, .config1 = 0x10, .bp_type = 3},
        "mem:0x10:rw:HG");
    assert_name((struct perf_event_attr){.type = 77}, "unknown attr type: 77");
}

/* ---- forms -------------------------------------------------------------------------------- */

/* Makes a recording with every kind of record, and stack copies of 64 bytes, of which 16 count. */
static void make_mixed(struct fixture *f)
{
    static uint8_t stack[64];
    struct perf_event_attr attr = fixture_attr;
    attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER | PERF_SAMPLE_DATA_SRC |
                        PERF_SAMPLE_CALLCHAIN;
    attr.sample_regs_user = 0x180;
    attr.sample_stack_user = sizeof(stack);
    for (size_t i = 0; i < sizeof(stack); i++)
        stack[i] = (uint8_t)(i < 16 ? i + 1 : 0xee);
    fixture_event(f, &attr, NULL, 0);
    fixture_feature_string(f, HEADER_HOSTNAME, "host");
    fixture_feature_string(f, HEADER_ARCH, "x86_64");
    fixture_comm(f, 10, 10, "first", 0);
    fixture_mmap2(f, &(struct fixture_mmap){.pid = 10,
                                            .tid = 10,
                                            .addr = 0x400000,
                                            .len = 0x1000,
                                            .filename = "/bin/true",
                                            .time = 5});
    for (uint64_t i = 0; i < 20; i++) {
        fixture_sample(f, &(struct fixture_sample){.ip = 0x400000 + i,
                                                   .pid = 10,
                                                   .time = 10 + (i ^ 1),
                                                   .callchain = (uint64_t[]){i, i + 1},
                                                   .nr_callchain = 2,
                                                   .user_regs = (uint64_t[]){0x7000, 0x400000 + i},
                                                   .stack = stack,
                                                   .stack_dyn_size = i % 5 ? 16 : 64,
                                                   .other = 0xabc});
        if (i % 5 == 4)
            fixture_round(f);
    }
    fixture_exit(f, 10, 10, 100);
}

/* Checks what every form of the mixed recording must give. */
static void assert_mixed(struct perfdata *pd, bool trimmed)
{
    struct record_batch b = {0};
    assert_string_equal(perfdata_hostname(pd), "host");
    assert_string_equal(perfdata_arch(pd), "x86_64");
    size_t seen = 0;
    uint64_t last = 0;
    read_all(pd, &b);
    for (size_t i = 0; i < b.nr; i++) {
        struct sample s;
        struct error err;
        if (b.records[i].type != PERF_RECORD_SAMPLE)
            continue;
        if (perfdata_sample(pd, &b.records[i], &s, &err) < 0)
            fail_msg("%s", err.text);
        uint64_t n = s.ip - 0x400000, sp = 0, ip = 0;
        assert_true(s.time >= last);
        last = s.time;
        assert_int_equal(s.pid, 10);
        assert_int_equal(s.data_src, 0xabc);
        assert_int_equal(sample_callchain_at(&s, 1), n + 1);
        assert_true(sample_user_reg(&s, 7, &sp) && sample_user_reg(&s, 8, &ip));
        assert_false(sample_user_reg(&s, 0, &sp));
        assert_int_equal(ip, s.ip);
        assert_int_equal(s.stack_size, 64);
        assert_int_equal(s.stack_dyn_size, n % 5 ? 16 : 64);
        for (size_t j = 0; j < 16; j++)
            assert_int_equal(s.stack[j], j + 1);
        if (trimmed && n % 5)
            for (uint32_t j = 0; j < b.records[i].size; j++)
                assert_int_not_equal(b.records[i].data[j], 0xee); /* stale bytes are dropped */
        seen++;
    }
    assert_int_equal(seen, 20);
    assert_int_equal(perfdata_loss(pd)->records_late, 0);
    finish(pd, &b);
}

static void test_forms_and_byte_orders(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct fixture *f = fixture_create(i & 1);
        make_mixed(f);
        struct perfdata *pd = open_fixture(f, i & 2);
        assert_int_equal(perfdata_swapped(pd), i & 1);
        assert_int_equal(perfdata_is_pipe(pd), (i & 2) != 0);
        assert_int_equal(perfdata_event(pd, 0)->attr.sample_id_all, 1);
        assert_int_equal(perfdata_event(pd, 0)->attr.exclude_guest, 1);
        assert_mixed(pd, false);
        fixture_free(f);
    }
}

/* Returns a descriptor from which a recording can be read. The pipe holds all its bytes. */
static int pipe_with(const uint8_t *bytes, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    assert_int_equal(write(ends[1], bytes, size), size);
    close(ends[1]);
    return ends[0];
}

static void test_streams_keep_trimmed_copies(void **state)
{
    (void)state;
    size_t size;
    struct fixture *f = fixture_create(false);
    struct perfdata *pd;
    make_mixed(f);
    uint8_t *bytes = fixture_build(f, true, &size);
    assert_int_equal(perfdata_open_stream(pipe_with(bytes, size), "pipe", NULL, &pd, NULL), 0);
    assert_mixed(pd, true);
    free(bytes);
    fixture_free(f);
}

/* Writes a file of shallow and deep stacks, with other records between some of them. */
static char *write_stacks(bool swap)
{
    enum { COPY = 40000, NR = 600 };
    const struct perf_event_attr attr = {
        .size = sizeof(attr),
        .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TIME |
                       PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER |
                       PERF_SAMPLE_PHYS_ADDR,
        .sample_regs_user = 0x1ff,
        .sample_stack_user = COPY,
        .sample_id_all = 1,
    };
    const uint64_t id = 7, chain[40] = {1, 2, 3}, regs[9] = {9, 8, 7};
    struct fixture *f = fixture_create(swap);
    uint8_t *stack = malloc(COPY);
    fixture_event(f, &attr, &id, 1);
    srand(5);
    for (uint64_t i = 0; i < NR; i++) {
        uint64_t dyn = i % 50 == 9    ? COPY
                       : i % 70 == 3  ? 0
                       : i % 31 == 30 ? (uint64_t)rand() % COPY
                                      : (uint64_t)rand() % 4000 & ~UINT64_C(7);
        for (size_t k = 0; k < COPY; k++)
            stack[k] = (uint8_t)(i * 31 + k * 7 + k / 256);
        fixture_sample(f, &(struct fixture_sample){.id = id,
                                                   .ip = i,
                                                   .time = 1 + i,
                                                   .callchain = chain,
                                                   .nr_callchain = i % 41,
                                                   .user_regs = regs,
                                                   .stack = i % 90 == 80 ? NULL : stack,
                                                   .stack_dyn_size = dyn,
                                                   .other = i * 3});
        for (uint64_t k = 0; k < (i % 100 == 60 ? 3000 : i % 7 == 0); k++)
            fixture_comm(f, 1, 1, "name", 1 + i);
        if (i % 40 == 0)
            fixture_round(f);
    }
    char *path = fixture_write(f, false);
    free(stack);
    fixture_free(f);
    return path;
}

/* Opens that file, which is written once. */
static struct perfdata *open_stacks(bool swap, struct perfdata_options options)
{
    static int files[2];
    char path[32];
    if (!files[swap]) {
        char *written = write_stacks(swap);
        files[swap] = open(written, O_RDONLY | O_CLOEXEC);
        assert_true(files[swap] > 0);
        unlink(written);
        free(written);
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", files[swap]);
    options.unordered = true;
    return open_path(path, &options);
}

static void assert_same_sample(struct perfdata *a, const struct record *ra, struct perfdata *b,
                               const struct record *rb)
{
    struct sample sa, sb;
    assert_int_equal(perfdata_sample(a, ra, &sa, NULL), 0);
    assert_int_equal(perfdata_sample(b, rb, &sb, NULL), 0);
    assert_int_equal(sa.ip, sb.ip);
    assert_int_equal(sa.nr_callchain, sb.nr_callchain);
    assert_int_equal(sa.phys_addr, sb.phys_addr);
    assert_int_equal(sa.phys_addr, sa.ip * 3);
    assert_int_equal(sa.stack_size, sb.stack_size);
    assert_int_equal(sa.stack_dyn_size, sb.stack_dyn_size);
    assert_int_equal(sb.stack_near, sb.stack_dyn_size);
    if (sa.stack_near)
        assert_memory_equal(sa.stack, sb.stack, sa.stack_near);
    if (sa.stack_near < sa.stack_dyn_size)
        assert_memory_equal(sa.stack_far, sb.stack + sa.stack_near,
                            sa.stack_dyn_size - sa.stack_near);
}

struct seen {
    size_t samples, in_chunks, split;
};

/* How `a` takes its file: as it judges itself (by the page cache's pages), by reading only, or
 * changing between reading and mapping. */
enum manner { JUDGED, READING, CHANGING };

static struct seen compare_with_mapped(struct perfdata *a, struct perfdata *b, size_t used,
                                       enum manner manner)
{
    struct skim *skim = &a->streams.at[0].skim;
    struct record_batch ra = {0}, rb = {0};
    struct seen seen = {0};
    if (manner != JUDGED)
        skim->judged = UINT64_MAX;
    do {
        perfdata_release(a, &ra);
        perfdata_release(b, &rb);
        perfdata_stack_used(a, used);
        skim->mapped ^= manner == CHANGING;
        assert_int_equal(perfdata_read(a, 100, &ra, NULL), 0);
        assert_int_equal(perfdata_read(b, 100, &rb, NULL), 0);
        assert_int_equal(ra.nr, rb.nr);
        for (size_t i = 0; i < ra.nr; i++) {
            struct sample s;
            assert_int_equal(ra.records[i].offset, rb.records[i].offset);
            assert_int_equal(ra.records[i].type, rb.records[i].type);
            if (ra.records[i].type != PERF_RECORD_SAMPLE)
                continue;
            assert_same_sample(a, &ra.records[i], b, &rb.records[i]);
            perfdata_sample(a, &ra.records[i], &s, NULL);
            seen.samples++;
            seen.in_chunks += record_in_chunk(a, &ra.records[i]);
            seen.split += s.stack_near < s.stack_dyn_size;
        }
    } while (ra.nr);
    finish(a, &ra);
    finish(b, &rb);
    return seen;
}

/* A file's samples are the same whether they are read without their stale bytes, in one piece or
 * two, or mapped whole. When all is read, most samples do not come from the mapping. */
static void test_skimmed_samples_are_whole(void **state)
{
    (void)state;
    const struct perfdata_options whole = {.keep_whole = true}, plain = {0},
                                  split = {.split_stacks = true};
    for (int swap = 0; swap < 2; swap++) {
        struct seen seen =
            compare_with_mapped(open_stacks(swap, plain), open_stacks(swap, whole), 0, READING);
        assert_int_equal(seen.samples, 600);
        assert_in_range(seen.in_chunks, 500, 600);
        assert_int_equal(seen.split, 0);
        for (size_t used = 0; used <= 40000; used = used * 3 + 500) {
            seen = compare_with_mapped(open_stacks(swap, split), open_stacks(swap, whole), used,
                                       READING);
            assert_int_equal(seen.samples, 600);
            if (used == 500)
                assert_in_range(seen.split, 200, 600);
        }
    }
}

static void test_samples_are_the_same_read_or_mapped(void **state)
{
    (void)state;
    const struct perfdata_options whole = {.keep_whole = true}, split = {.split_stacks = true};
    for (size_t used = 0; used <= 8000; used = used * 3 + 500) {
        struct seen seen = compare_with_mapped(open_stacks(false, split), open_stacks(false, whole),
                                               used, CHANGING);
        assert_int_equal(seen.samples, 600);
        assert_in_range(seen.in_chunks, 100, 500);
        seen =
            compare_with_mapped(open_stacks(false, split), open_stacks(false, whole), used, JUDGED);
        assert_int_equal(seen.samples, 600);
    }
}

static void test_file_form_in_a_pipe_is_refused(void **state)
{
    (void)state;
    size_t size;
    struct fixture *f = fixture_create(false);
    struct perfdata *pd;
    struct error err;
    make_mixed(f);
    uint8_t *bytes = fixture_build(f, false, &size);
    assert_int_equal(perfdata_open_stream(pipe_with(bytes, size), "pipe", NULL, &pd, &err), -1);
    assert_int_equal(err.kind, ERROR_UNSUPPORTED);
    free(bytes);
    fixture_free(f);
}

/* A round's end is not kept: it has no bytes to release. */
static void test_a_pipe_without_events_may_end_in_a_round(void **state)
{
    (void)state;
    static const uint64_t pipe_header[] = {0x32454c4946524550, 16};
    static const struct {
        struct perf_event_header head;
        uint64_t number;
        char host[16];
    } feature = {{80, 0, sizeof(feature)}, 3, "\x08\0\0\0host"};
    static const struct perf_event_header round = {68, 0, sizeof(round)};
    uint8_t bytes[sizeof(pipe_header) + sizeof(feature) + sizeof(round)];
    struct perfdata *pd;
    struct error err;
    memcpy(bytes, pipe_header, sizeof(pipe_header));
    memcpy(bytes + sizeof(pipe_header), &feature, sizeof(feature));
    memcpy(bytes + sizeof(pipe_header) + sizeof(feature), &round, sizeof(round));
    assert_int_equal(perfdata_open_stream(pipe_with(bytes, sizeof(bytes)), "pipe", NULL, &pd, &err),
                     -1);
}

/* Samples may be lost before the first event is told. */
static void test_a_pipe_may_begin_with_lost_samples(void **state)
{
    (void)state;
    static const struct {
        uint64_t pipe_header[2];
        struct perf_event_header head;
        uint64_t lost;
    } bytes = {{0x32454c4946524550, 16}, {PERF_RECORD_LOST_SAMPLES, 0, 16}, 5};
    struct perfdata *pd;
    struct error err;
    assert_int_equal(perfdata_open_stream(pipe_with((const uint8_t *)&bytes, sizeof(bytes)), "pipe",
                                          NULL, &pd, &err),
                     -1);
    assert_non_null(strstr(err.text, "event"));
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    fclose(out);
}

static void test_directory(void **state)
{
    (void)state;
    char dir[] = "/tmp/perfdata-dir-XXXXXX", path[64];
    size_t size;
    assert_non_null(mkdtemp(dir));
    struct fixture *f = fixture_create(false);
    fixture_event(f, &fixture_attr, NULL, 0);
    fixture_comm(f, 1, 1, "sh", 0);
    uint8_t *bytes = fixture_build(f, false, &size);
    snprintf(path, sizeof(path), "%s/data", dir);
    write_file(path, bytes, size);
    free(bytes);
    for (uint64_t part = 0; part < 12; part++) { /* data.2 comes before data.10 */
        struct fixture *g = fixture_create(false);
        fixture_event(g, &fixture_attr, NULL, 0);
        for (uint64_t i = 0; i < 100; i++)
            fixture_sample(g, &(struct fixture_sample){.ip = part, .time = 1 + i * 12 + part});
        bytes = fixture_build(g, false, &size);
        snprintf(path, sizeof(path), "%s/data.%d", dir, (int)part);
        write_file(path, bytes + fixture_data_offset(g), size - fixture_data_offset(g));
        free(bytes);
        fixture_free(g);
    }
    struct record_batch b = {0};
    struct perfdata *pd = open_path(dir, NULL);
    assert_int_equal(read_all(pd, &b), 1201);
    assert_int_equal(b.records[0].type, PERF_RECORD_COMM);
    for (uint64_t i = 1; i < 1201; i++) {
        assert_int_equal(b.records[i].time, i);
        assert_int_equal(b.records[i].stream, 1 + (i - 1) % 12);
    }
    finish(pd, &b);
    for (int part = -1; part < 12; part++) {
        snprintf(path, sizeof(path), part < 0 ? "%s/data" : "%s/data.%d", dir, part);
        unlink(path);
    }
    struct error err;
    assert_int_equal(perfdata_open(dir, NULL, &pd, &err), -1);
    assert_non_null(strstr(err.text, "this directory has no file"));
    rmdir(dir);
    fixture_free(f);
}

static void test_unordered_and_raw(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct record_batch b = {0};
    fixture_event(f, &fixture_attr, NULL, 0);
    add_times(f, TIMES(30, 20));
    fixture_round(f);
    fixture_begin(f, 4000, 0);
    fixture_u64(f, 1);
    fixture_end(f);
    char *path = fixture_write(f, false);
    struct perfdata *pd =
        open_path(path, &(struct perfdata_options){.unordered = true, .raw = true});
    assert_int_equal(read_all(pd, &b), 4);
    assert_int_equal(b.records[0].time, 30);
    assert_int_equal(b.records[2].type, 68);
    assert_int_equal(b.records[3].type, 4000);
    assert_int_equal(perfdata_loss(pd)->records_unknown, 1);
    finish(pd, &b);
    pd = open_path(path, NULL);
    assert_int_equal(read_all(pd, &b), 2);
    finish(pd, &b);
    unlink(path);
    free(path);
    fixture_free(f);
}

/* Without marks, only a bounded number of records waits; a file in order stays in order. */
static void test_no_marks_many_records(void **state)
{
    (void)state;
    enum { NR = 700000 };
    struct fixture *f = fixture_create(false);
    struct record_batch b = {0};
    fixture_event(f, &fixture_attr, NULL, 0);
    for (uint64_t i = 0; i < NR; i++)
        fixture_sample(f, &(struct fixture_sample){.ip = i, .time = 1 + (i ^ 1)});
    struct perfdata *pd = open_fixture(f, false);
    uint64_t nr = 0, last = 0;
    do {
        perfdata_release(pd, &b);
        assert_int_equal(perfdata_read(pd, 1000, &b, NULL), 0);
        for (size_t i = 0; i < b.nr; i++, nr++) {
            assert_true(b.records[i].time > last);
            last = b.records[i].time;
        }
        assert_true(pd->queue.records.nr <= 512 << 10);
    } while (b.nr);
    assert_int_equal(nr, NR);
    finish(pd, &b);
    fixture_free(f);
}

/* ---- files that are no recordings --------------------------------------------------------- */

static void assert_refused(const void *bytes, size_t size, const char *text)
{
    char *path = fixture_write_bytes(bytes, size);
    struct perfdata *pd;
    struct error err;
    assert_int_equal(perfdata_open(path, NULL, &pd, &err), -1);
    if (!strstr(err.text, text) || !strstr(err.text, path))
        fail_msg("'%s' does not say '%s'", err.text, text);
    unlink(path);
    free(path);
}

static void test_other_files_are_named(void **state)
{
    (void)state;
    static const uint8_t zeros[200];
    assert_refused("", 0, "is empty");
    assert_refused("PERFILE2", 8, "the first bytes of one");
    assert_refused("just some text, long enough\n", 28, "a text file");
    assert_refused("\177ELF\2\1\1\0\0\0\0\0\0\0\0\0", 16, "an ELF file");
    assert_refused("\x28\xb5\x2f\xfd\0\1\2\3\4\5\6\7\10\11\12\13", 16, "zstd data");
    assert_refused(zeros, sizeof(zeros), "zeros");
}

static void test_old_magic_and_short_header(void **state)
{
    (void)state;
    for (int swap = 0; swap < 2; swap++) {
        struct fixture *f = fixture_create(swap);
        size_t size;
        fixture_event(f, &fixture_attr, NULL, 0);
        add_times(f, TIMES(1, 2));
        uint8_t *bytes = fixture_build(f, false, &size);
        memcpy(bytes, "PERFFILE", 8);
        bytes[swap ? 15 : 8] = 72;
        char *path = fixture_write_bytes(bytes, size);
        assert_times(open_path(path, NULL), TIMES(1, 2));
        unlink(path);
        free(path);
        free(bytes);
        fixture_free(f);
    }
}

/* ---- damage ------------------------------------------------------------------------------- */

static void test_killed_recorder(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    size_t size;
    fixture_event(f, &fixture_attr, NULL, 0);
    fixture_feature_string(f, HEADER_HOSTNAME, "host");
    add_times(f, TIMES(1, 2, 3));
    uint8_t *bytes = fixture_build(f, false, &size);
    memset(bytes + 48, 0, 8); /* data size */
    size_t end = fixture_data_offset(f) + fixture_last_record(f) + 20;
    char *path = fixture_write_bytes(bytes, end); /* in the third record */
    struct perfdata *pd = open_path(path, NULL);
    struct record_batch b = {0};
    assert_null(perfdata_hostname(pd));
    assert_int_equal(read_all(pd, &b), 2);
    assert_int_equal(perfdata_loss(pd)->bytes_unread, 20);
    assert_int_equal(perfdata_loss(pd)->damage.kind, ERROR_NONE);
    finish(pd, &b);
    unlink(path);
    free(path);
    free(bytes);
    fixture_free(f);
}

/* Reads everything, and touches all that the decoders return. */
static size_t exhaust(struct perfdata *pd, FILE *out)
{
    struct record_batch b = {0};
    size_t samples = 0;
    struct error err;
    while (perfdata_read(pd, 7, &b, &err) == 0 && b.nr) {
        for (size_t i = 0; i < b.nr; i++) {
            struct sample s;
            perfdata_print_record(pd, &b.records[i], i & 1, out);
            if (perfdata_sample(pd, &b.records[i], &s, &err) < 0)
                continue;
            samples++;
            for (uint64_t k = 0; k < s.stack_dyn_size; k++)
                fputc(s.stack[k], out);
        }
        perfdata_release(pd, &b);
    }
    perfdata_print_header(pd, out);
    record_batch_free(&b);
    return samples;
}

static void test_cut_anywhere(void **state)
{
    (void)state;
    FILE *null = fopen("/dev/null", "w");
    for (int form = 0; form < 2; form++) {
        struct fixture *f = fixture_create(false);
        size_t size, last = 0;
        make_mixed(f);
        uint8_t *bytes = fixture_build(f, form, &size);
        for (size_t cut = 0; cut < size; cut++) {
            struct perfdata *pd;
            struct error err = {0};
            uint8_t *copy = malloc(cut + 1); /* allocated by itself, for the sanitizer */
            memcpy(copy, bytes, cut);
            if (perfdata_open_memory(copy, cut, NULL, &pd, &err) < 0) {
                assert_int_not_equal(err.kind, ERROR_NONE);
                assert_true(cut < fixture_data_offset(f));
            } else {
                size_t samples = exhaust(pd, null);
                assert_true(samples >= last); /* nothing before the cut is lost */
                last = samples;
                if (!form && cut < fixture_data_offset(f) + fixture_last_record(f))
                    assert_int_not_equal(perfdata_loss(pd)->damage.kind, ERROR_NONE);
                perfdata_close(pd);
            }
            free(copy);
        }
        assert_int_equal(last, 20);
        free(bytes);
        fixture_free(f);
    }
    fclose(null);
}

static void test_any_byte_flipped(void **state)
{
    (void)state;
    static const uint8_t flips[] = {0xff, 0x01, 0x80};
    FILE *null = fopen("/dev/null", "w");
    for (int form = 0; form < 2; form++) {
        struct fixture *f = fixture_create(form);
        size_t size;
        make_mixed(f);
        uint8_t *bytes = fixture_build(f, form, &size);
        for (size_t at = 0; at < size * sizeof(flips); at++) {
            struct perfdata *pd;
            struct error err = {0};
            bytes[at / sizeof(flips)] ^= flips[at % sizeof(flips)];
            if (perfdata_open_memory(bytes, size, NULL, &pd, &err) == 0) {
                assert_true(exhaust(pd, null) <= 21);
                perfdata_close(pd);
            } else {
                assert_int_not_equal(err.kind, ERROR_NONE);
            }
            bytes[at / sizeof(flips)] ^= flips[at % sizeof(flips)];
        }
        free(bytes);
        fixture_free(f);
    }
    fclose(null);
}

static void test_size_below_header_ends_reading(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct record_batch b = {0};
    fixture_event(f, &fixture_attr, NULL, 0);
    add_times(f, TIMES(1, 2));
    fixture_begin(f, PERF_RECORD_COMM, 0); /* never ended: size 0 */
    fixture_u64(f, 0);
    struct perfdata *pd = open_fixture(f, false);
    assert_int_equal(read_all(pd, &b), 2);
    assert_int_equal(perfdata_loss(pd)->bytes_unread, 16);
    assert_non_null(strstr(perfdata_loss(pd)->damage.text, "offset 0x"));
    finish(pd, &b);
    fixture_free(f);
}

/* ---- recordings that other perfs made ----------------------------------------------------- */

static void test_shared_recordings(void **state)
{
    (void)state;
    const struct {
        const char *name, *event;
        size_t records, samples;
    } files[] = {{"fibo.compressed2.pipe.data", "cycles:P", 1659, 547},
                 {"sleep.compressed2.data", "cycles:Pu", 19, 7}};
    const char *shared = getenv("SHARED");
    char path[512];
    for (size_t i = 0; i < 2; i++) {
        struct record_batch b = {0};
        size_t samples = 0;
        snprintf(path, sizeof(path), "%s/testdata/%s", shared ? shared : "../shared",
                 files[i].name);
        if (access(path, R_OK) < 0) {
            print_message("%s is not there\n", path);
            skip();
        }
        struct perfdata *pd = open_path(path, NULL);
        assert_string_equal(perfdata_event(pd, 0)->name, files[i].event);
        assert_int_equal(read_all(pd, &b), files[i].records);
        for (size_t j = 0; j < b.nr; j++) {
            struct sample s;
            if (b.records[j].type != PERF_RECORD_SAMPLE)
                continue;
            assert_int_equal(perfdata_sample(pd, &b.records[j], &s, NULL), 0);
            samples++;
        }
        assert_int_equal(samples, files[i].samples);
        assert_int_equal(perfdata_loss(pd)->bytes_unread, 0);
        assert_int_equal(perfdata_loss(pd)->damage.kind, ERROR_NONE);
        finish(pd, &b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rings_of_a_round_are_merged),
        cmocka_unit_test(test_equal_times_stay_in_file_order),
        cmocka_unit_test(test_late_records_are_counted),
        cmocka_unit_test(test_backward_rings_are_sorted_whole),
        cmocka_unit_test(test_without_times_the_file_order_stays),
        cmocka_unit_test(test_random_times),
        cmocka_unit_test(test_identifier_tells_layouts_apart),
        cmocka_unit_test(test_differing_layouts_without_identifier_are_refused),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_forms_and_byte_orders),
        cmocka_unit_test(test_streams_keep_trimmed_copies),
        cmocka_unit_test(test_skimmed_samples_are_whole),
        cmocka_unit_test(test_samples_are_the_same_read_or_mapped),
        cmocka_unit_test(test_file_form_in_a_pipe_is_refused),
        cmocka_unit_test(test_a_pipe_without_events_may_end_in_a_round),
        cmocka_unit_test(test_a_pipe_may_begin_with_lost_samples),
        cmocka_unit_test(test_directory),
        cmocka_unit_test(test_unordered_and_raw),
        cmocka_unit_test(test_no_marks_many_records),
        cmocka_unit_test(test_other_files_are_named),
        cmocka_unit_test(test_old_magic_and_short_header),
        cmocka_unit_test(test_killed_recorder),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_any_byte_flipped),
        cmocka_unit_test(test_size_below_header_ends_reading),
        cmocka_unit_test(test_shared_recordings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
