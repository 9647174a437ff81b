/* SPDX-License-Identifier: GPL-2.0-only */
/* What samples of offcpu-time say of waits. */
#include "perfdata/offcpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct perfdata_event offcpu = {.name = OFFCPU_NAME,
                                             .attr = {.type = PERF_TYPE_SOFTWARE,
                                                      .config = PERF_COUNT_SW_BPF_OUTPUT,
                                                      .sample_type = PERF_SAMPLE_ADDR}};

static struct sample sample_of(const struct offcpu_wait *wait)
{
    return (struct sample){.event = &offcpu, .addr = offcpu_word(wait)};
}

static void a_wait_is_read(void **state)
{
    static const struct offcpu_wait waits[] = {
        {.waited = 256 * 1000, .nr = 1, .reason = WAIT_SLEEPING, .syscall = 202},
        {.waited = 0, .nr = 0, .reason = WAIT_RUNNABLE, .syscall = -1},
        {.waited = (UINT64_C(1) << 44) - 256, .nr = 255, .reason = WAIT_UNKNOWN, .syscall = 1022}};
    (void)state;
    for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
        struct sample s = sample_of(&waits[i]);
        struct offcpu_wait got;
        if (waits[i].syscall == 1022) /* the numbers end there */
            s = sample_of(
                &(struct offcpu_wait){waits[i].waited, waits[i].nr, waits[i].reason, 1021});
        assert_true(perfdata_offcpu(&s, &got));
        assert_true(got.waited == waits[i].waited);
        assert_int_equal(got.nr, waits[i].nr);
        assert_int_equal(got.reason, waits[i].reason);
        assert_int_equal(got.syscall, waits[i].syscall == 1022 ? 1021 : waits[i].syscall);
        assert_int_equal(perfdata_wait_reason(&s), waits[i].reason);
    }
}

static void what_is_too_large_becomes_the_largest(void **state)
{
    const struct offcpu_wait wait = {
        .waited = UINT64_MAX, .nr = 100000, .reason = WAIT_BLOCKED, .syscall = 5000};
    struct sample s = sample_of(&wait);
    struct offcpu_wait got;
    (void)state;
    assert_true(perfdata_offcpu(&s, &got));
    assert_true(got.waited == (UINT64_C(1) << 44) - 256);
    assert_int_equal(got.nr, 255);
    assert_int_equal(got.reason, WAIT_BLOCKED);
    assert_int_equal(got.syscall, -1);
}

static void what_is_no_wait_is_refused(void **state)
{
    struct perfdata_event other = offcpu, perf = offcpu, named = offcpu;
    struct sample s = sample_of(&(struct offcpu_wait){1000, 1, WAIT_SLEEPING, 3});
    struct offcpu_wait got;
    (void)state;
    other.name = "ljperf:mem";
    perf.attr.sample_type = PERF_SAMPLE_RAW;
    named.attr.type = PERF_TYPE_TRACEPOINT;
    s.event = &perf; /* a wait all the same */
    assert_false(perfdata_offcpu(&s, &got));
    assert_int_equal(perfdata_wait_reason(&s), WAIT_UNKNOWN);
    s.event = &other;
    assert_false(perfdata_offcpu(&s, &got));
    assert_int_equal(perfdata_wait_reason(&s), WAIT_NONE);
    s.event = &named;
    assert_false(perfdata_offcpu(&s, &got));
    s.event = NULL;
    assert_false(perfdata_offcpu(&s, &got));
    assert_int_equal(perfdata_wait_reason(&s), WAIT_NONE);
    s.event = &offcpu;
    s.addr ^= UINT64_C(1) << 63; /* another form */
    assert_false(perfdata_offcpu(&s, &got));
    s.addr = 0;
    assert_false(perfdata_offcpu(&s, &got));
    assert_int_equal(perfdata_wait_reason(&s), WAIT_UNKNOWN);
}

static void no_number_of_a_reason_leads_astray(void **state)
{
    struct sample s = sample_of(&(struct offcpu_wait){1000, 1, WAIT_NONE, 3});
    (void)state;
    for (uint64_t reason = 0; reason < 8; reason++) {
        s.addr = (s.addr & ~(UINT64_C(7) << 10)) | reason << 10;
        assert_non_null(wait_reason_name(perfdata_wait_reason(&s)));
    }
}

static void the_state_gives_the_reason(void **state)
{
    static const struct {
        uint32_t state;
        enum wait_reason reason;
    } rows[] = {{0, WAIT_RUNNABLE},      {1, WAIT_SLEEPING},
                {2, WAIT_BLOCKED},       {4, WAIT_STOPPED},
                {8, WAIT_STOPPED},       {0x102, WAIT_BLOCKED},
                {0x2001, WAIT_SLEEPING}, {OFFCPU_UNKNOWN, WAIT_UNKNOWN},
                {0x40, WAIT_UNKNOWN}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_int_equal(wait_reason_of(rows[i].state), rows[i].reason);
}

/* A sample with this for its end. `size`: bytes of it that are there. */
static struct sample woken(const struct offcpu_more *more, size_t size)
{
    return (struct sample){.event = &offcpu, .aux = (const uint8_t *)more, .aux_size = size};
}

static void the_end_of_a_wait_is_read(void **state)
{
    const struct {
        uint32_t flags;
        const char *name;
    } rows[] = {{OFFCPU_RUNQUEUE, ""},
                {OFFCPU_WAKER, "sh:12 [?]"},
                {OFFCPU_WAKER | OFFCPU_WAKER_CONTEXT, "sh:12"},
                {OFFCPU_WAKER | OFFCPU_WAKER_CONTEXT | OFFCPU_WAKER_SOFTIRQ, "sh:12 [softirq]"},
                {OFFCPU_WAKER | OFFCPU_WAKER_CONTEXT | OFFCPU_WAKER_INTERRUPT, "[interrupt]"}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct offcpu_more more = {
            .flags = rows[i].flags, .waker_pid = 11, .waker_tid = 12, .runqueue = 5, .waker = "sh"};
        char name[OFFCPU_WAKER_NAME];
        struct offcpu_wake wake;
        struct sample s = woken(&more, sizeof(more));
        assert_true(perfdata_offcpu_wake(&s, &wake));
        offcpu_waker_name(&wake, name);
        assert_string_equal(name, rows[i].name);
        assert_int_equal(wake.runqueue, 5);
    }
}

static void what_says_nothing_of_its_end_is_refused(void **state)
{
    struct offcpu_more more = {.flags = OFFCPU_WAKER, .waker_tid = 12};
    struct offcpu_wake wake;
    char name[OFFCPU_WAKER_NAME];
    (void)state;
    for (size_t size = 0; size < sizeof(more); size++) {
        struct sample s = woken(&more, size);
        assert_false(perfdata_offcpu_wake(&s, &wake));
    }
    memset(more.waker, 'x', sizeof(more.waker)); /* without its 0 */
    struct sample s = woken(&more, sizeof(more));
    assert_true(perfdata_offcpu_wake(&s, &wake));
    offcpu_waker_name(&wake, name);
    assert_string_equal(name, "xxxxxxxxxxxxxxx:12 [?]");
    more.flags = 0;
    assert_false(perfdata_offcpu_wake(&s, &wake));
    more.flags = OFFCPU_WAKER;
    s.event = NULL;
    assert_false(perfdata_offcpu_wake(&s, &wake));
    s = sample_of(&(struct offcpu_wait){0}); /* of an older version, or without --runqueue */
    assert_false(perfdata_offcpu_wake(&s, &wake));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_is_read),
        cmocka_unit_test(what_is_too_large_becomes_the_largest),
        cmocka_unit_test(what_is_no_wait_is_refused),
        cmocka_unit_test(no_number_of_a_reason_leads_astray),
        cmocka_unit_test(the_state_gives_the_reason),
        cmocka_unit_test(the_end_of_a_wait_is_read),
        cmocka_unit_test(what_says_nothing_of_its_end_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
