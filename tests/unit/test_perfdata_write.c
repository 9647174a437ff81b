/* SPDX-License-Identifier: GPL-2.0-only */
/* The writer's output is read back by our reader and by perf itself. */
#include "perfdata/perfdata_internal.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

enum { SAMPLES = 5000 };

static const uint64_t ids[] = {41, 42};

static struct perfdata_event make_event(void)
{
    return (struct perfdata_event){
        .attr = {.type = PERF_TYPE_SOFTWARE,
                 .size = sizeof(struct perf_event_attr),
                 .config = PERF_COUNT_SW_TASK_CLOCK,
                 .sample_period = 1000,
                 .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
                                PERF_SAMPLE_ID | PERF_SAMPLE_PERIOD,
                 .sample_id_all = 1,
                 .exclude_guest = 1},
        .name = "my-clock",
        .ids = ids,
        .nr_ids = 2,
    };
}

struct sample_record {
    struct perf_event_header header;
    uint64_t ip;
    uint32_t pid, tid;
    uint64_t time, id, period;
};

struct comm_record {
    struct perf_event_header header;
    uint32_t pid, tid;
    char comm[16];
    uint32_t trailer_pid, trailer_tid;
    uint64_t time, id;
};

static void write_records(struct perfdata_writer *w)
{
    struct error err = {0};
    struct comm_record c = {.header = {PERF_RECORD_COMM, 0, sizeof(c)},
                            .pid = 7,
                            .tid = 7,
                            .comm = "writer",
                            .time = 1000,
                            .id = 41};
    if (perfdata_writer_record(w, &c, sizeof(c), &err) < 0)
        fail_msg("%s", err.text);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        struct sample_record s = {.header = {PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, sizeof(s)},
                                  .ip = 0x1000 + i,
                                  .pid = 7,
                                  .tid = 8,
                                  .time = 2000 + i * 1000,
                                  .id = 42,
                                  .period = i};
        assert_int_equal(perfdata_writer_record(w, &s, sizeof(s), &err), 0);
        if (i % 1000 == 999) {
            struct perf_event_header round = {PERF_RECORD_FINISHED_ROUND, 0, sizeof(round)};
            assert_int_equal(perfdata_writer_record(w, &round, sizeof(round), &err), 0);
        }
    }
}

static void write_recording(const char *path, bool pipe_form, int level)
{
    static const char host[4 + 64] = {64, 0, 0, 0, 'h', 'o', 's', 't'};
    struct perfdata_event event = make_event();
    struct perfdata_writer *w;
    struct error err = {0};
    if (perfdata_writer_create(
            path, &(struct perfdata_writer_options){.pipe = pipe_form, .zstd_level = level}, &event,
            1, &w, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(perfdata_writer_feature(w, HEADER_HOSTNAME, host, sizeof(host), &err), 0);
    write_records(w);
    if (perfdata_writer_finish(w, &err) < 0)
        fail_msg("%s", err.text);
    perfdata_writer_destroy(w);
}

static void assert_reads_back(const char *path, bool pipe_form)
{
    struct perfdata *pd;
    struct error err = {0};
    struct record_batch b = {0};
    uint64_t seen = 0;
    if (perfdata_open(path, NULL, &pd, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(perfdata_is_pipe(pd), pipe_form);
    assert_string_equal(perfdata_event(pd, 0)->name, "my-clock");
    assert_int_equal(perfdata_event(pd, 0)->nr_ids, 2);
    assert_int_equal(perfdata_event(pd, 0)->ids[1], 42);
    assert_string_equal(perfdata_hostname(pd), "host");
    while (perfdata_read(pd, 100, &b, &err) == 0 && b.nr) {
        for (size_t i = 0; i < b.nr; i++) {
            struct sample s;
            if (b.records[i].type != PERF_RECORD_SAMPLE)
                continue;
            assert_int_equal(perfdata_sample(pd, &b.records[i], &s, &err), 0);
            assert_int_equal(s.ip, 0x1000 + seen);
            assert_int_equal(s.period, seen);
            seen++;
        }
        perfdata_release(pd, &b);
    }
    assert_int_equal(seen, SAMPLES);
    assert_int_equal(perfdata_loss(pd)->damage.kind, ERROR_NONE);
    record_batch_free(&b);
    perfdata_close(pd);
}

/* Expects perf's own reading: "comm pid/tid time: period event: ip". */
static void assert_perf_reads(const char *path, const char *name)
{
    char command[256], line[512];
    unsigned long long seen = 0;
    snprintf(command, sizeof(command),
             "perf script -f -F comm,tid,time,event,ip,period -i %s 2>/dev/null", path);
    FILE *perf = popen(command, "r");
    assert_non_null(perf);
    while (fgets(line, sizeof(line), perf)) {
        char comm[32], event[32];
        unsigned long long tid, period, ip;
        double time;
        if (line[0] == '\n' || line[0] == '#')
            continue;
        if (sscanf(line, "%31s %llu %lf: %llu %31s %llx", comm, &tid, &time, &period, event, &ip) !=
            6)
            fail_msg("perf says: %s", line);
        assert_string_equal(event, name);
        assert_int_equal(period, seen);
        assert_int_equal(ip, 0x1000 + seen);
        assert_int_equal(tid, 8);
        seen++;
    }
    pclose(perf);
    assert_int_equal(seen, SAMPLES);
}

static void test_round_trip(void **state)
{
    (void)state;
    bool has_perf = system("perf --version >/dev/null 2>&1") == 0;
    for (int i = 0; i < 4; i++) {
        char path[] = "/tmp/perfdata-write-XXXXXX";
        close(mkstemp(path));
        write_recording(path, i & 1, i & 2 ? 3 : 0);
        assert_reads_back(path, i & 1);
        if (has_perf)
            assert_perf_reads(path, "my-clock:");
        unlink(path);
    }
}

static void test_unfinished_is_a_killed_recording(void **state)
{
    (void)state;
    char path[] = "/tmp/perfdata-write-XXXXXX";
    struct perfdata_event event = make_event();
    struct perfdata_writer *w;
    struct perfdata *pd;
    struct error err = {0};
    struct record_batch b = {0};
    close(mkstemp(path));
    assert_int_equal(
        perfdata_writer_create(path, &(struct perfdata_writer_options){0}, &event, 1, &w, &err), 0);
    write_records(w);
    assert_int_equal(perfdata_writer_flush(w, &err), 0);
    if (system("command -v perf >/dev/null") == 0)
        /* the names are in a feature, which comes last */
        assert_perf_reads(path, "task-clock:");
    write_records(w);
    perfdata_writer_destroy(w);
    assert_int_equal(perfdata_open(path, NULL, &pd, &err), 0);
    assert_int_equal(perfdata_read(pd, SAMPLES * 4, &b, &err), 0);
    assert_int_equal(b.nr, 2 * (SAMPLES + 1));
    perfdata_release(pd, &b);
    record_batch_free(&b);
    perfdata_close(pd);
    unlink(path);
}

/* A file that reached its size limit is cut back to whole records, and closed like any other. */
/* Write until a file may not grow beyond so many bytes. Then at least this many samples are read,
 * and nothing is damaged. `has_features`: there was room enough for them. */
static void salvage(uint64_t most, uint64_t least, bool has_features)
{
    enum { BIG = 32 << 10 };
    char path[] = "/tmp/perfdata-write-XXXXXX";
    struct perfdata_event event = make_event();
    struct perfdata_writer *w;
    struct error err = {0};
    struct record_batch b = {0};
    struct perfdata *pd;
    struct rlimit old, limit;
    uint64_t lost = 0, samples = 0;
    uint8_t *big = calloc(1, BIG);
    close(mkstemp(path));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = most;
    assert_int_equal(
        perfdata_writer_create(path, &(struct perfdata_writer_options){0}, &event, 1, &w, &err), 0);
    setrlimit(RLIMIT_FSIZE, &limit);
    int r = 0;
    for (uint64_t i = 0; !r && i < 1000; i++) {
        struct sample_record s = {
            .header = {PERF_RECORD_SAMPLE, 2, sizeof(s)}, .ip = i, .time = 2000 + i, .id = 42};
        struct perf_event_header unknown = {PERF_RECORD_CGROUP, 0, BIG};
        memcpy(big, &unknown, sizeof(unknown));
        r = perfdata_writer_record(w, &s, sizeof(s), &err);
        if (!r)
            r = perfdata_writer_record(w, big, BIG, &err);
        if (!r && i % 4 == 3)
            r = perfdata_writer_flush(w, &err);
    }
    assert_int_equal(r, -1);
    assert_int_equal(err.sys_errno, EFBIG);
    assert_int_equal(perfdata_writer_salvage(w, &lost, &err), 0);
    perfdata_writer_destroy(w);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_true(lost > 0 && lost < most + BIG);
    assert_int_equal(perfdata_open(path, NULL, &pd, &err), 0);
    assert_true(has_features == (strcmp(perfdata_event(pd, 0)->name, "my-clock") == 0));
    while (perfdata_read(pd, 100, &b, &err) == 0 && b.nr) {
        for (size_t i = 0; i < b.nr; i++)
            samples += b.records[i].type == PERF_RECORD_SAMPLE;
        perfdata_release(pd, &b);
    }
    assert_true(samples >= least);
    assert_int_equal(perfdata_loss(pd)->damage.kind, ERROR_NONE);
    record_batch_free(&b);
    perfdata_close(pd);
    free(big);
    unlink(path);
}

static void test_salvage(void **state)
{
    (void)state;
    salvage(3 << 20, 31, true);
    salvage(300 << 10, 4, false);
}

static void test_bad_calls_are_errors(void **state)
{
    (void)state;
    char path[] = "/tmp/perfdata-write-XXXXXX";
    struct perfdata_event event = make_event();
    struct perfdata_writer *w;
    struct error err = {0};
    struct perf_event_header h = {PERF_RECORD_COMM, 0, 32};
    assert_int_equal(perfdata_writer_create("/nonexistent/x", &(struct perfdata_writer_options){0},
                                            &event, 1, &w, &err),
                     -1);
    assert_int_equal(err.kind, ERROR_SYSTEM);
    close(mkstemp(path));
    assert_int_equal(
        perfdata_writer_create(path, &(struct perfdata_writer_options){0}, &event, 1, &w, &err), 0);
    assert_int_equal(perfdata_writer_record(w, &h, sizeof(h), &err), -1);
    assert_int_equal(perfdata_writer_feature(w, 300, &h, sizeof(h), &err), -1);
    perfdata_writer_destroy(w);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_unfinished_is_a_killed_recording),
        cmocka_unit_test(test_salvage),
        cmocka_unit_test(test_bad_calls_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
