/* SPDX-License-Identifier: GPL-2.0-only */
/* Faults of pages: what a sample tells, and for how many faults it stands. */
#include "perfdata/resident.h"
#include "session/faults.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct perfdata_event event = {
    .attr = {.type = PERF_TYPE_SOFTWARE,
             .config = PERF_COUNT_SW_PAGE_FAULTS_MIN,
             .sample_type = PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_PAGE_SIZE},
    .name = "resident:u"};

static void a_page_is_as_large_as_the_sample_says(void **state)
{
    static const struct {
        uint64_t says, bytes, page;
    } rows[] = {{4096, 4096, 0x7fff12345000},
                {2 << 20, 2 << 20, 0x7fff12200000},
                {0, 4096, 0x7fff12345000}, /* it was gone again */
                {4095, 4096, 0x7fff12345000},
                {6 << 10, 4096, 0x7fff12345000}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct sample s = {.event = &event,
                                 .present = event.attr.sample_type,
                                 .addr = 0x7fff12345678,
                                 .data_page_size = rows[i].says};
        struct resident_fault fault;
        assert_true(perfdata_resident(&s, &fault));
        assert_int_equal(fault.bytes, rows[i].bytes);
        assert_int_equal(fault.page, rows[i].page);
    }
}

static void other_events_are_no_such_faults(void **state)
{
    static const char *const names[] = {"resident_set", "minor-faults", "resident:u"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct perfdata_event other = event;
        other.name = names[i];
        assert_int_equal(perfdata_is_resident(&other), i == 2);
    }
    struct perfdata_event other = event;
    other.attr.config = PERF_COUNT_SW_PAGE_FAULTS;
    assert_false(perfdata_is_resident(&other));
    other = event;
    other.attr.sample_type = 0;
    assert_false(perfdata_is_resident(&other));
}

static void take(struct faults *f, uint32_t tid, uint64_t time, uint64_t page, uint64_t period)
{
    const struct sample s = {.pid = 10, .tid = tid, .cpu = 1, .time = time, .period = period};
    const struct resident_fault fault = {page, 4096};
    assert_true(faults_take(f, &s, &fault));
}

static uint64_t halves(const struct faults *f, uint64_t time, uint64_t page)
{
    const struct sample s = {.pid = 10, .time = time};
    const struct resident_fault fault = {page, 4096};
    uint64_t value;
    return faults_halves(f, &s, &fault, &value) ? value : UINT64_MAX;
}

/* The kernel reports with each sample how far off the next one is. */
static void faults_between_samples_count_for_both(void **state)
{
    struct faults f = {0};
    (void)state;
    take(&f, 10, 1, 0x1000, 1);
    take(&f, 10, 2, 0x2000, 8);
    take(&f, 11, 3, 0x3000, 5); /* of another thread */
    take(&f, 10, 4, 0x4000, 3);
    faults_seal(&f);
    assert_int_equal(halves(&f, 1, 0x1000), 2);
    assert_int_equal(halves(&f, 2, 0x2000), 9);
    assert_int_equal(halves(&f, 3, 0x3000), 10);
    assert_int_equal(halves(&f, 4, 0x4000), 11);
    assert_int_equal(halves(&f, 5, 0x4000), UINT64_MAX);
    assert_int_equal(halves(&f, 4, 0x5000), UINT64_MAX);
    faults_free(&f);
}

static void a_page_counts_once_for_a_program(void **state)
{
    struct faults f = {0};
    (void)state;
    take(&f, 10, 30, 0x1000, 1); /* later in time, earlier in the file */
    take(&f, 10, 10, 0x1000, 1);
    take(&f, 10, 20, 0x1000, 1);
    take(&f, 10, 25, 0x2000, 1);
    take(&f, 10, 50, 0x1000, 1);
    take(&f, 10, 60, 0x1000, 1);
    assert_true(faults_exec(&f, 10, 40));
    assert_true(faults_exec(&f, 9, 15)); /* another process */
    faults_seal(&f);
    static const uint64_t times[] = {10, 20, 30, 50, 60}, want[] = {2, 0, 0, 2, 0};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(halves(&f, times[i], 0x1000), want[i]);
    assert_int_equal(halves(&f, 25, 0x2000), 2);
    faults_free(&f);
}

static void nothing_is_known_of_nothing(void **state)
{
    struct faults f = {0};
    (void)state;
    faults_seal(&f);
    assert_int_equal(halves(&f, 1, 0x1000), UINT64_MAX);
    faults_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_is_as_large_as_the_sample_says),
        cmocka_unit_test(other_events_are_no_such_faults),
        cmocka_unit_test(faults_between_samples_count_for_both),
        cmocka_unit_test(a_page_counts_once_for_a_program),
        cmocka_unit_test(nothing_is_known_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
