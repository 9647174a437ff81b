/* SPDX-License-Identifier: GPL-2.0-only */
/* The newest part of a recording: which samples it has, and what else. */
#include "perfdata/recent.h"
#include "perfdata/vmevent.h"
#include "perfdata_fixture.h"

#include <perf/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { SECOND = 1000000000, HZ = 100, NAME_UPDATE = 2 };

static const uint64_t sampled[] = {7}, logged[] = {8};

static struct perf_event_attr attr_of(uint32_t type, uint64_t config)
{
    struct perf_event_attr a = fixture_attr;
    a.type = type;
    a.config = config;
    a.sample_type |= PERF_SAMPLE_IDENTIFIER;
    return a;
}

static struct fixture *begin(void)
{
    struct fixture *f = fixture_create(false);
    const struct perf_event_attr clock = attr_of(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
    const struct perf_event_attr log = attr_of(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_BPF_OUTPUT);
    fixture_event(f, &clock, sampled, 1);
    fixture_event(f, &log, logged, 1);
    fixture_begin(f, PERF_RECORD_EVENT_UPDATE, 0);
    fixture_u64(f, NAME_UPDATE);
    fixture_u64(f, logged[0]);
    fixture_string(f, VMEVENT_MEM_NAME);
    fixture_end(f);
    return f;
}

static void sample(struct fixture *f, uint64_t number, uint64_t time)
{
    fixture_sample(
        f, &(struct fixture_sample){.id = sampled[0], .ip = number, .pid = 1, .time = time});
}

static void log_entry(struct fixture *f, uint64_t number, uint64_t time)
{
    fixture_sample(f, &(struct fixture_sample){
                          .event = 1, .id = logged[0], .ip = number, .pid = 1, .time = time});
}

/* Takes all records of the fixture, which is freed. */
static struct recent *take(struct fixture *f, uint64_t span_ns, size_t max_bytes)
{
    const struct perfdata_options how = {.unordered = true, .raw = true, .keep_whole = true};
    struct record_batch batch = {0};
    struct perfdata *pd;
    struct error err = {0};
    char *path = fixture_write(f, true);
    if (perfdata_open(path, &how, &pd, &err) < 0)
        fail_msg("%s", err.text);
    struct recent *r = recent_create(pd, span_ns, max_bytes);
    assert_non_null(r);
    while (perfdata_read(pd, 1, &batch, &err) == 0 && batch.nr) {
        assert_int_equal(recent_take(r, &batch.records[0], &err), 0);
        perfdata_release(pd, &batch);
    }
    record_batch_free(&batch);
    perfdata_close(pd);
    unlink(path);
    free(path);
    fixture_free(f);
    return r;
}

/* Counts of what a recording has. */
struct content {
    uint64_t first, last; /* numbers of samples */
    size_t samples, entries, comms, mmaps, lost;
    uint64_t late;
};

static void count(struct content *c, const struct perfdata *pd, const struct record *rec)
{
    struct sample s;
    c->comms += rec->type == PERF_RECORD_COMM;
    c->mmaps += rec->type == PERF_RECORD_MMAP2;
    c->lost += rec->type == PERF_RECORD_LOST;
    if (rec->type != PERF_RECORD_SAMPLE)
        return;
    assert_int_equal(perfdata_sample(pd, rec, &s, NULL), 0);
    if (s.id == logged[0]) {
        c->entries++;
        return;
    }
    c->first = c->samples++ ? c->first : s.ip;
    c->last = s.ip;
}

/* Writes the recording with the samples of a time, and reads it. */
static struct content content_between(const struct recent *r, uint64_t from, uint64_t until)
{
    struct content c = {0};
    struct error err = {0};
    struct perfdata *pd;
    struct record_batch batch = {0};
    char path[32];
    int fd = memfd_create("recent", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(recent_write(r, from, until, fd, &err), 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (perfdata_open(path, NULL, &pd, &err) < 0)
        fail_msg("%s", err.text);
    while (perfdata_read(pd, 1 << 20, &batch, &err) == 0 && batch.nr) {
        for (size_t i = 0; i < batch.nr; i++)
            count(&c, pd, &batch.records[i]);
        perfdata_release(pd, &batch);
    }
    record_batch_free(&batch);
    c.late = perfdata_loss(pd)->records_late;
    assert_int_equal(perfdata_loss(pd)->damage.kind, ERROR_NONE);
    perfdata_close(pd);
    close(fd);
    return c;
}

static struct content content_from(const struct recent *r, uint64_t from)
{
    return content_between(r, from, UINT64_MAX);
}

/* 20 s of a recording: each second a process begins, and the VM's memory is read. */
static struct fixture *twenty_seconds(void)
{
    struct fixture *f = begin();
    for (uint64_t i = 0; i < 20 * HZ; i++) {
        uint64_t time = (10 + i / HZ) * SECOND + i % HZ * (SECOND / HZ);
        if (i % HZ == 0) {
            fixture_comm(f, (uint32_t)(100 + i), (uint32_t)(100 + i), "sh", time);
            fixture_mmap2(f, &(struct fixture_mmap){.pid = (uint32_t)(100 + i),
                                                    .addr = 0x1000,
                                                    .len = 0x1000,
                                                    .time = time,
                                                    .filename = "/bin/sh"});
            log_entry(f, i, time + 1);
        }
        sample(f, i, time + 2);
        if (i % 10 == 9)
            fixture_round(f);
    }
    return f;
}

static void old_samples_go(void **state)
{
    (void)state;
    struct recent *r = take(twenty_seconds(), UINT64_C(5) * SECOND, SIZE_MAX);
    const uint64_t end = UINT64_C(30) * SECOND;
    struct recent_state s = recent_state(r);
    assert_int_equal(s.newest, end - SECOND / HZ + 2);
    assert_in_range(s.oldest, UINT64_C(23) * SECOND, UINT64_C(25) * SECOND);
    struct content all = content_from(r, 0);
    assert_in_range(all.first, 13 * HZ, 15 * HZ);
    assert_int_equal(all.last, 20 * HZ - 1);
    assert_int_equal(all.samples, all.last - all.first + 1);
    assert_int_equal(all.late, 0);
    struct content some = content_from(r, end - UINT64_C(3) * SECOND);
    assert_int_equal(some.samples, 3 * HZ);
    assert_int_equal(some.first, 17 * HZ);
    /* (sample 1800 is at 28 s and 2 ns) */
    some = content_between(r, end - UINT64_C(3) * SECOND, UINT64_C(28) * SECOND + 2);
    assert_int_equal(some.samples, HZ + 1);
    assert_int_equal(some.last, 18 * HZ);
    assert_int_equal(some.comms, 20);
    recent_free(r);
}

static void all_that_samples_need_stays(void **state)
{
    (void)state;
    struct recent *r = take(twenty_seconds(), UINT64_C(2) * SECOND, SIZE_MAX);
    struct content c = content_from(r, UINT64_C(29) * SECOND);
    assert_int_equal(c.samples, HZ);
    assert_int_equal(c.comms, 20);
    assert_int_equal(c.mmaps, 20);
    assert_int_equal(c.entries, 20);
    assert_int_equal(c.late, 0);
    recent_free(r);
}

static void no_sample_is_in_the_last_time(void **state)
{
    (void)state;
    struct recent *r = take(twenty_seconds(), UINT64_C(2) * SECOND, SIZE_MAX);
    struct content c = content_from(r, UINT64_MAX);
    assert_int_equal(c.samples, 0);
    assert_int_equal(c.comms, 20);
    recent_free(r);
}

/* Where samples are large, less time of them is kept. */
static void bytes_are_limited(void **state)
{
    (void)state;
    enum { MOST = 20000 };
    struct recent *r = take(twenty_seconds(), UINT64_C(100) * SECOND, MOST);
    struct recent_state s = recent_state(r);
    assert_in_range(s.bytes, 1, 2 * MOST);
    assert_in_range(s.oldest, UINT64_C(20) * SECOND, UINT64_C(30) * SECOND);
    struct content c = content_from(r, 0);
    assert_int_equal(c.last, 20 * HZ - 1);
    assert_int_equal(c.samples, c.last - c.first + 1);
    assert_int_equal(c.comms, 20);
    recent_free(r);
}

/* A loss is of the time in which it was told. */
static void losses_go_with_the_samples(void **state)
{
    (void)state;
    struct fixture *f = begin();
    for (uint64_t i = 0; i < 20; i++) {
        sample(f, i, (1 + i) * SECOND);
        fixture_begin(f, PERF_RECORD_LOST, 0);
        fixture_u64(f, sampled[0]);
        fixture_u64(f, 3);
        fixture_trailer(f, 1, 1, (1 + i) * SECOND + 1, 0);
        fixture_end(f);
    }
    struct recent *r = take(f, UINT64_C(100) * SECOND, SIZE_MAX);
    assert_int_equal(content_from(r, 0).lost, 20);
    assert_int_equal(content_from(r, UINT64_C(16) * SECOND).lost, 5);
    assert_int_equal(recent_lost(r, 0), 20 * 3);
    assert_int_equal(recent_lost(r, UINT64_C(16) * SECOND), 5 * 3);
    recent_free(r);
}

/* Records that come late, from another processor's ring, are sorted as in the whole recording. */
static void rounds_stay(void **state)
{
    (void)state;
    struct fixture *f = begin();
    for (uint64_t round = 0; round < 100; round++) {
        for (uint64_t cpu = 0; cpu < 2; cpu++)
            for (uint64_t i = 0; i < 10; i++)
                sample(f, 20 * round + 2 * i + cpu,
                       (1 + round) * SECOND + (2 * i + cpu) * (SECOND / 100));
        fixture_round(f);
    }
    struct recent *r = take(f, UINT64_C(10) * SECOND, SIZE_MAX);
    struct content c = content_from(r, UINT64_C(95) * SECOND);
    assert_int_equal(c.samples, 6 * 20);
    assert_int_equal(c.first, 94 * 20);
    assert_int_equal(c.last, 100 * 20 - 1);
    assert_int_equal(c.late, 0);
    recent_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_samples_go),
        cmocka_unit_test(all_that_samples_need_stays),
        cmocka_unit_test(no_sample_is_in_the_last_time),
        cmocka_unit_test(bytes_are_limited),
        cmocka_unit_test(losses_go_with_the_samples),
        cmocka_unit_test(rounds_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
