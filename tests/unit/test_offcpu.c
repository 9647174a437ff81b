/* SPDX-License-Identifier: GPL-2.0-only */
/* What samples of offcpu-time say of waits, also damaged ones and those of the other byte order. */
#include "perfdata/offcpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct perfdata_event offcpu = {
    .name = OFFCPU_NAME, .attr = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_BPF_OUTPUT}};
static const struct perfdata_event other = {
    .name = "ljperf:mem", .attr = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_BPF_OUTPUT}};
static const struct perfdata_event named = {.name = OFFCPU_NAME,
                                            .attr = {.type = PERF_TYPE_TRACEPOINT}};

static struct offcpu_payload wait_of(uint32_t state)
{
    return (struct offcpu_payload){.version = OFFCPU_VERSION,
                                   .nr = 2,
                                   .weight = 1000000,
                                   .waited = 300000,
                                   .state = state,
                                   .syscall = 202};
}

static struct sample sample_of(const struct offcpu_payload *p)
{
    return (struct sample){.event = &offcpu, .raw = (const uint8_t *)p, .raw_size = sizeof(*p) + 4};
}

static void a_wait_is_read(void **state)
{
    struct offcpu_payload from = wait_of(OFFCPU_INTERRUPTIBLE), p;
    struct sample s = sample_of(&from);
    (void)state;
    assert_true(perfdata_offcpu(&s, &p));
    assert_memory_equal(&p, &from, sizeof(p));
}

static void the_other_byte_order_is_read(void **state)
{
    struct offcpu_payload from = wait_of(OFFCPU_UNINTERRUPTIBLE), p;
    struct sample s = sample_of(&from);
    (void)state;
    from.version = __builtin_bswap16(from.version);
    from.nr = __builtin_bswap32(from.nr);
    from.weight = __builtin_bswap64(from.weight);
    from.waited = __builtin_bswap64(from.waited);
    from.state = __builtin_bswap32(from.state);
    from.syscall = (int32_t)__builtin_bswap32(202);
    assert_false(perfdata_offcpu(&s, &p)); /* the version is none */
    s.swapped = true;
    assert_true(perfdata_offcpu(&s, &p));
    assert_int_equal(p.waited, 300000);
    assert_int_equal(p.syscall, 202);
    assert_int_equal(perfdata_wait_reason(&s), WAIT_BLOCKED);
}

static void what_is_no_wait_is_refused(void **state)
{
    struct offcpu_payload from = wait_of(OFFCPU_INTERRUPTIBLE), p;
    struct sample s = sample_of(&from);
    (void)state;
    s.raw_size = sizeof(from) - 1;
    assert_false(perfdata_offcpu(&s, &p));
    assert_int_equal(perfdata_wait_reason(&s), WAIT_UNKNOWN); /* a wait all the same */
    s = sample_of(&from);
    s.raw = NULL;
    assert_false(perfdata_offcpu(&s, &p));
    s = sample_of(&from);
    s.event = &other;
    assert_false(perfdata_offcpu(&s, &p));
    assert_int_equal(perfdata_wait_reason(&s), WAIT_NONE);
    s.event = &named;
    assert_false(perfdata_offcpu(&s, &p));
    s.event = NULL;
    assert_false(perfdata_offcpu(&s, &p));
    assert_int_equal(perfdata_wait_reason(&s), WAIT_NONE);
    s = sample_of(&from);
    from.version++;
    assert_false(perfdata_offcpu(&s, &p));
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
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct offcpu_payload from = wait_of(rows[i].state);
        struct sample s = sample_of(&from);
        assert_int_equal(perfdata_wait_reason(&s), rows[i].reason);
        assert_true(*wait_reason_name(rows[i].reason));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_is_read),
        cmocka_unit_test(the_other_byte_order_is_read),
        cmocka_unit_test(what_is_no_wait_is_refused),
        cmocka_unit_test(the_state_gives_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
