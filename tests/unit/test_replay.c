/* SPDX-License-Identifier: GPL-2.0-only */
/* What happens to samples between the recording and the consumer. */
#include "perfdata_fixture.h"
#include "perfdata/features.h"
#include "perfdata/perfdata.h"
#include "output/report.h"
#include "replay/replay.h"
#include "session/lists.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Writes samples as text, a line each: event, thread, period, and the frames' addresses. */
static int take(void *worker, const struct replay_sample *s, struct error *err)
{
    struct text *t = worker;
    (void)err;
    text_printf(t, "%zu %u %lu", (size_t)s->sample->event->index, s->sample->tid,
                (unsigned long)s->sample->period);
    for (size_t i = 0; i < s->nr_frames; i++)
        text_printf(t, " %lx", (unsigned long)s->frames[i].pc);
    text_char(t, '\n');
    return 0;
}

static int worker_create(void *context, struct replay_worker *w, void **ret, struct error *err)
{
    (void)w;
    (void)err;
    *ret = context;
    return 0;
}

/* Expects this text from the fixture, which it frees. */
static void expect(struct fixture *f, const char *want)
{
    char *path = fixture_write(f, false);
    struct text got = {0};
    struct replay *r;
    const struct replay_options options = {.input = path, .threads = 1};
    const struct replay_sink sink = {
        .context = &got, .worker_create = worker_create, .sample = take};
    assert_int_equal(replay_create(&options, &r, NULL), 0);
    assert_int_equal(replay_run(r, &sink, NULL), 0);
    replay_free(r);
    text_char(&got, 0);
    assert_string_equal(got.at, want);
    text_free(&got);
    unlink(path);
    free(path);
    fixture_free(f);
}

static void group_sample(struct fixture *f, uint32_t tid, uint64_t time, uint64_t first,
                         uint64_t second)
{
    fixture_begin(f, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
    fixture_u64(f, 7); /* IDENTIFIER */
    fixture_u64(f, 0x1000);
    fixture_u32(f, 10);
    fixture_u32(f, tid);
    fixture_u64(f, time);
    fixture_u64(f, 2); /* READ: nr, then value and id of each */
    fixture_u64(f, first);
    fixture_u64(f, 7);
    fixture_u64(f, second);
    fixture_u64(f, 8);
    fixture_end(f);
}

static struct fixture *group_fixture(bool inherit)
{
    struct fixture *f = fixture_create(false);
    struct perf_event_attr attr = fixture_attr;
    attr.sample_type |= PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_READ;
    attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_ID;
    attr.inherit = inherit;
    fixture_event(f, &attr, (uint64_t[]){7}, 1);
    fixture_event(f, &attr, (uint64_t[]){8}, 1);
    return f;
}

static void a_groups_counters_move_since_their_last_reading(void **state)
{
    (void)state;
    struct fixture *f = group_fixture(false);
    group_sample(f, 10, 1, 1000, 50);
    group_sample(f, 11, 2, 1500, 50);
    group_sample(f, 10, 3, 1600, 90);
    expect(f, "0 10 1000 1000\n1 10 50 1000\n0 11 500 1000\n0 10 100 1000\n1 10 40 1000\n");
}

static void inherited_counters_are_each_threads_own(void **state)
{
    (void)state;
    struct fixture *f = group_fixture(true);
    group_sample(f, 10, 1, 1000000, 500);
    group_sample(f, 11, 2, 5000, 20);
    group_sample(f, 10, 3, 1000100, 500);
    group_sample(f, 11, 4, 5001, 21);
    group_sample(f, 11, 5, 30, 2); /* another thread with that number */
    expect(f, "0 10 1000000 1000\n1 10 500 1000\n0 11 5000 1000\n1 11 20 1000\n0 10 100 1000\n"
              "0 11 1 1000\n1 11 1 1000\n0 11 30 1000\n1 11 2 1000\n");
}

static void a_deferred_callchains_cookie_is_no_frame(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct perf_event_attr attr = fixture_attr;
    attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
    fixture_event(f, &attr, (uint64_t[]){7}, 1);
    const uint64_t kernel = -128, deferred = -640, user = -512;
    const uint64_t chain[] = {kernel, 0xffffffff81000010, deferred, 0x4242};
    const uint64_t both[] = {deferred, 0x4242, user, 0x1000, 0x2000};
    const uint64_t cut[] = {kernel, 0xffffffff81000010, deferred};
    fixture_sample(
        f, &(struct fixture_sample){
               .ip = 0x1, .pid = 10, .tid = 10, .time = 1, .callchain = chain, .nr_callchain = 4});
    fixture_sample(
        f, &(struct fixture_sample){
               .ip = 0x1, .pid = 10, .tid = 10, .time = 2, .callchain = both, .nr_callchain = 5});
    fixture_sample(
        f, &(struct fixture_sample){
               .ip = 0x1, .pid = 10, .tid = 10, .time = 3, .callchain = cut, .nr_callchain = 3});
    expect(f, "0 10 1 ffffffff81000010\n0 10 1 1000 2000\n0 10 1 ffffffff81000010\n");
}

static void a_fixed_period_is_the_events(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct perf_event_attr attr = fixture_attr;
    attr.sample_period = 100003;
    fixture_event(f, &attr, (uint64_t[]){7}, 1);
    fixture_sample(f, &(struct fixture_sample){.ip = 0x1, .pid = 10, .tid = 10, .time = 1});
    expect(f, "0 10 100003 1\n");
}

/* Replays one sample with a user stack, and returns how that went. `regs`: values of the registers
 * in `mask`. */
static struct replay_stats walk_one(const char *machine, uint64_t mask, const uint64_t *regs,
                                    struct text *got)
{
    struct fixture *f = fixture_create(false);
    struct perf_event_attr attr = fixture_attr;
    const uint64_t stack[8] = {0};
    attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    attr.sample_regs_user = mask;
    attr.sample_stack_user = sizeof(stack);
    fixture_event(f, &attr, (uint64_t[]){7}, 1);
    fixture_feature_string(f, HEADER_ARCH, machine);
    fixture_sample(f, &(struct fixture_sample){.ip = 0x1,
                                               .pid = 10,
                                               .tid = 10,
                                               .time = 1,
                                               .user_regs = regs,
                                               .stack = stack,
                                               .stack_dyn_size = sizeof(stack)});
    char *path = fixture_write(f, false);
    struct replay *r;
    const struct replay_options options = {.input = path, .threads = 1, .max_stack = 127};
    const struct replay_sink sink = {
        .context = got, .worker_create = worker_create, .sample = take};
    assert_int_equal(replay_create(&options, &r, NULL), 0);
    assert_int_equal(replay_run(r, &sink, NULL), 0);
    struct replay_stats stats = *replay_stats(r);
    replay_free(r);
    unlink(path);
    free(path);
    fixture_free(f);
    return stats;
}

static void a_recordings_header_says_how_registers_are_read(void **state)
{
    (void)state;
    uint64_t regs[33];
    struct text got = {0};
    for (unsigned i = 0; i < 33; i++)
        regs[i] = 0x1000 + i;
    struct replay_stats stats = walk_one("aarch64", (UINT64_C(1) << 33) - 1, regs, &got);
    assert_int_equal(stats.user, 1);
    assert_int_equal(stats.unsupported_machine, 0);
    stats = walk_one("x86_64", 0xff0fff, regs, &got);
    assert_int_equal(stats.user, 1);
    text_char(&got, 0);
    assert_string_equal(got.at, "0 10 1 1020\n0 10 1 1008\n"); /* pc: bit 32; rip: bit 8 */
    text_free(&got);
}

/* perf asks for VG (bit 46), the size of vectors, where a machine has SVE. Its word comes behind
 * pc's, and before the stack. */
static void the_size_of_vectors_is_no_part_of_a_stack(void **state)
{
    (void)state;
    const uint64_t vg = UINT64_C(1) << 46;
    uint64_t regs[34];
    struct text got = {0};
    for (unsigned i = 0; i < 34; i++)
        regs[i] = 0x1000 + i;
    struct replay_stats stats = walk_one("aarch64", vg | ((UINT64_C(1) << 33) - 1), regs, &got);
    assert_int_equal(stats.user, 1);
    assert_int_equal(stats.bad, 0);
    regs[1] = 0x4444; /* of sp, pc and VG only */
    stats = walk_one("aarch64", vg | UINT64_C(3) << 31, regs, &got);
    assert_int_equal(stats.bad, 0);
    text_char(&got, 0);
    assert_string_equal(got.at, "0 10 1 1020\n0 10 1 4444\n");
    text_free(&got);
}

/* Programs may ask for addresses of 52 bits, which the bits of a signature could be, too. */
static void addresses_of_too_many_bits_are_counted_and_not_walked(void **state)
{
    (void)state;
    enum { SP_AT = 31, PC_AT = 32 };
    const uint64_t all = (UINT64_C(1) << 33) - 1;
    uint64_t regs[33] = {[SP_AT] = 0xffffdeadb000, [PC_AT] = 0xffff00001000};
    struct text got = {0};
    struct replay_stats stats = walk_one("aarch64", all, regs, &got);
    assert_int_equal(stats.user, 1);
    assert_int_equal(stats.unsupported_abi, 0);
    regs[PC_AT] = UINT64_C(0x1) << 48 | 0x1000;
    stats = walk_one("aarch64", all, regs, &got);
    assert_int_equal(stats.user, 0);
    assert_int_equal(stats.unsupported_abi, 1);
    regs[PC_AT] = 0x1000;
    regs[SP_AT] = UINT64_C(0xf) << 48;
    stats = walk_one("aarch64", all, regs, &got);
    assert_int_equal(stats.user, 0);
    assert_int_equal(stats.unsupported_abi, 1);
    text_free(&got);
}

static void stacks_of_a_machine_without_a_row_are_counted_and_not_walked(void **state)
{
    (void)state;
    const uint64_t regs[24] = {0};
    struct text got = {0};
    struct replay_stats stats = walk_one("riscv64", 0xff0fff, regs, &got);
    assert_int_equal(stats.user, 0);
    assert_int_equal(stats.unsupported_machine, 1);
    assert_int_equal(stats.unsupported_abi, 0);
    text_char(&got, 0);
    assert_string_equal(got.at, "0 10 1 1\n"); /* what the kernel says: the pc */
    text_free(&got);
}

static void count(struct fixture *f, uint32_t tid, uint64_t value, uint64_t id)
{
    fixture_begin(f, PERF_RECORD_READ, 0);
    fixture_u32(f, 10);
    fixture_u32(f, tid);
    fixture_u64(f, value);
    fixture_u64(f, 1000); /* TOTAL_TIME_ENABLED */
    fixture_u64(f, id);
    fixture_trailer(f, 10, tid, 300, 0);
    fixture_end(f);
}

/* Groups and counts are kept when the rest has gone; what is malformed is counted and ignored. */
static void facts_outlive_the_rest(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    struct perf_event_attr attr = fixture_attr;
    attr.read_format = PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED;
    fixture_event(f, &attr, (uint64_t[]){7}, 1);
    fixture_event(f, &attr, (uint64_t[]){8}, 1);
    fixture_begin(f, PERF_RECORD_CGROUP, 0);
    fixture_u64(f, 77);
    fixture_string(f, "/a/b");
    fixture_trailer(f, 0, 0, 100, 0);
    fixture_end(f);
    count(f, 11, 5, 8);
    count(f, 12, 6, 7);
    count(f, 12, 7, 999);                    /* of no event: the first */
    fixture_begin(f, PERF_RECORD_CGROUP, 0); /* cut */
    fixture_u32(f, 1);
    fixture_u32(f, 0);
    fixture_end(f);
    char *path = fixture_write(f, false);
    struct replay *r;
    const struct replay_options options = {.input = path, .threads = 2};
    struct text got = {0};
    const struct replay_sink sink = {
        .context = &got, .worker_create = worker_create, .sample = take};
    assert_int_equal(replay_create(&options, &r, NULL), 0);
    assert_int_equal(replay_run(r, &sink, NULL), 0);
    replay_let_go(r);
    const struct session_lists *lists = replay_lists(r);
    assert_string_equal(session_cgroup(lists, 77), "/a/b");
    assert_null(session_cgroup(lists, 78));
    static const struct session_count want[] = {{10, 11, 1, 5}, {10, 12, 0, 6}, {10, 12, 0, 7}};
    struct session_count c;
    for (size_t i = 0; i < 3; i++) {
        assert_true(session_count(lists, i, &c));
        assert_true(c.pid == want[i].pid && c.tid == want[i].tid && c.event == want[i].event &&
                    c.value == want[i].value);
    }
    assert_false(session_count(lists, 3, &c));
    struct text table = {0};
    const struct report_event events[] = {{"first", true}, {"second\033[1m", true}};
    assert_int_equal(report_put_threads(lists, events, 2, &table, NULL), 0);
    text_char(&table, 0);
    assert_string_equal(table.at, "# PID  TID  first  second%1B[1m\n"
                                  "   10   11      0             5\n"
                                  "   10   12     13             0\n");
    text_free(&table);
    text_free(&got);
    replay_free(r);
    unlink(path);
    free(path);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_groups_counters_move_since_their_last_reading),
        cmocka_unit_test(inherited_counters_are_each_threads_own),
        cmocka_unit_test(a_deferred_callchains_cookie_is_no_frame),
        cmocka_unit_test(a_fixed_period_is_the_events),
        cmocka_unit_test(a_recordings_header_says_how_registers_are_read),
        cmocka_unit_test(facts_outlive_the_rest),
        cmocka_unit_test(the_size_of_vectors_is_no_part_of_a_stack),
        cmocka_unit_test(addresses_of_too_many_bits_are_counted_and_not_walked),
        cmocka_unit_test(stacks_of_a_machine_without_a_row_are_counted_and_not_walked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
