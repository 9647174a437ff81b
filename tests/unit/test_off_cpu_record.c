/* SPDX-License-Identifier: GPL-2.0-only */
/* Records of time off the cpu: what the kernel writes, and what is listed at the end, is read as a
 * sample like others. */
#include "live/off_cpu_record.h"
#include "perfdata/offcpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__aarch64__)
enum { REGISTERS = 33, LAST_REGISTER = 32 };
#else
enum { REGISTERS = 20, LAST_REGISTER = 23 };
#endif

static struct off_cpu_form form;
static const uint64_t ids[] = {77};
static struct perfdata_event event = {.name = OFFCPU_NAME, .ids = ids, .nr_ids = 1};
static uint8_t kernel[1 << 16], written[1 << 16];

static void begin_more(uint32_t stack, bool more)
{
    const struct perf_event_attr first = {
        .sample_type = PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
        .sample_regs_user = perfdata_user_registers(),
        .sample_stack_user = stack};
    off_cpu_form_set(&form, &first, more);
    assert_false(form.attr.sample_type & PERF_SAMPLE_RAW); /* perf would take it for its own */
    event.attr = form.attr;
}

static void begin(uint32_t stack)
{
    begin_more(stack, false);
}

static size_t put(size_t at, const void *from, size_t size)
{
    memcpy(kernel + at, from, size);
    return at + size;
}

static size_t put_u64(size_t at, uint64_t value)
{
    return put(at, &value, sizeof(value));
}

static struct off_cpu_due due_of(unsigned nr_frames)
{
    struct off_cpu_due due = {.weight = 1000000,
                              .waited = 654336, /* of 256 */
                              .nr = 3,
                              .state = OFFCPU_INTERRUPTIBLE,
                              .syscall = 230,
                              .nr_frames = nr_frames,
                              .ip = 0x401000,
                              .sp = 0x7ffc1000};
    for (unsigned i = 0; i < OFF_CPU_FRAMES; i++)
        due.frames[i] = UINT64_C(0xffffffff81000000) + i;
    return due;
}

/* Write a record as the kernel does: `copied` bytes of stack, of which `used` are the stack's. */
static const struct perf_event_header *kernel_writes(const struct off_cpu_due *due, size_t copied,
                                                     size_t used)
{
    const uint32_t raw = (uint32_t)((sizeof(*due) + 4 + 7) / 8 * 8 - 4), tids[] = {10, 11};
    size_t at = sizeof(struct perf_event_header);
    memset(kernel, 0xee, sizeof(kernel));
    at = put_u64(at, ids[0]);
    at = put_u64(at, UINT64_C(0xffffffff82000000)); /* in the tracepoint */
    at = put(at, tids, sizeof(tids));
    at = put_u64(at, 5000);
    at = put_u64(at, 0); /* address */
    at = put_u64(at, 3); /* cpu */
    at = put_u64(at, 0); /* period */
    at = put_u64(at, 0); /* callchain */
    at = put(at, &raw, sizeof(raw));
    put(at, due, sizeof(*due));
    at += raw;
    at = put_u64(at, PERF_SAMPLE_REGS_ABI_64);
    for (uint64_t i = 0; i < REGISTERS; i++)
        at = put_u64(at, 100 + i);
    if (copied) {
        at = put_u64(at, copied);
        memset(kernel + at, 0x5a, used);
        at += copied;
        at = put_u64(at, used);
    }
    const struct perf_event_header h = {PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL, (uint16_t)at};
    assert_true(at <= UINT16_MAX);
    put(0, &h, sizeof(h));
    return (const struct perf_event_header *)kernel;
}

/* Give the record its form, and read what would be written. */
static void rewrite(const struct perf_event_header *record, struct sample *ret)
{
    struct sample s;
    struct trimmed t;
    size_t size = 0;
    assert_int_equal(off_cpu_form_sample(&form, &event, record, &s, &t), 1);
    assert_ptr_equal(s.event, &event);
    assert_true(t.nr <= TRIM_PARTS);
    for (int i = 0; i < t.nr; i++) {
        assert_true(size + t.parts[i].iov_len <= sizeof(written));
        memcpy(written + size, t.parts[i].iov_base, t.parts[i].iov_len);
        size += t.parts[i].iov_len;
    }
    const struct perf_event_header *h = (const struct perf_event_header *)written;
    assert_int_equal(h->size, size);
    assert_int_equal(perfdata_sample_parse(&event, h, size, ret, NULL), 0);
}

static void assert_wait(const struct sample *s, unsigned nr_frames)
{
    struct offcpu_wait wait;
    uint64_t value;
    assert_int_equal(s->id, 77);
    assert_int_equal(s->pid, 10);
    assert_int_equal(s->tid, 11);
    assert_int_equal(s->time, 5000);
    assert_int_equal(s->cpu, 3);
    assert_int_equal(s->period, 1000000);
    assert_int_equal(s->nr_callchain, nr_frames ? nr_frames + 1 : 0);
    if (nr_frames)
        assert_true(sample_callchain_at(s, 0) == PERF_CONTEXT_KERNEL);
    for (unsigned i = 0; i < nr_frames; i++)
        assert_true(sample_callchain_at(s, i + 1) == UINT64_C(0xffffffff81000000) + i);
    assert_true(s->ip == (nr_frames ? UINT64_C(0xffffffff81000000) : 0x401000));
    assert_int_equal(s->misc & PERF_RECORD_MISC_CPUMODE_MASK,
                     nr_frames ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER);
    assert_true(perfdata_offcpu(s, &wait));
    assert_int_equal(wait.waited, 654336);
    assert_int_equal(wait.nr, 3);
    assert_int_equal(wait.reason, WAIT_SLEEPING);
    assert_int_equal(wait.syscall, 230);
    assert_true(sample_user_reg(s, 0, &value) && value == 100);
    assert_true(sample_user_reg(s, LAST_REGISTER, &value) && value == 99 + REGISTERS);
}

static void a_sample_gets_its_form(void **state)
{
    static const struct {
        unsigned frames;
        size_t copied, used;
    } rows[] = {{0, 64, 40}, {5, 64, 40}, {5, 64, 64}, {OFF_CPU_FRAMES, 4096, 0}, {5, 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct off_cpu_due due = due_of(rows[i].frames);
        struct sample s;
        begin((uint32_t)rows[i].copied);
        if (!rows[i].copied) {
            form.attr.sample_type &= ~(uint64_t)PERF_SAMPLE_STACK_USER;
            form.ring.sample_type &= ~(uint64_t)PERF_SAMPLE_STACK_USER;
            event.attr = form.attr;
        }
        rewrite(kernel_writes(&due, rows[i].copied, rows[i].used), &s);
        assert_wait(&s, rows[i].frames);
        if (!rows[i].copied)
            continue;
        assert_int_equal(s.stack_dyn_size, rows[i].used);
        for (size_t k = 0; k < rows[i].used; k++)
            assert_int_equal(s.stack[k], 0x5a);
    }
}

/* With what is known of the end of the wait. The kernel would refuse an event of its own with it.
 */
static void a_sample_tells_who_woke(void **state)
{
    static const size_t copies[] = {64, 4096, 0};
    (void)state;
    for (size_t i = 0; i < sizeof(copies) / sizeof(*copies); i++) {
        struct off_cpu_due due = due_of(OFF_CPU_FRAMES);
        struct offcpu_wake wake;
        struct sample s;
        due.runqueue = 777;
        due.waker =
            (struct off_cpu_waker){OFFCPU_WAKER | OFFCPU_WAKER_CONTEXT, 20, 21, "a name of 15 ch"};
        begin_more((uint32_t)copies[i], true);
        assert_false(form.ring.sample_type & PERF_SAMPLE_AUX);
        if (!copies[i]) {
            form.attr.sample_type &= ~(uint64_t)PERF_SAMPLE_STACK_USER;
            form.ring.sample_type &= ~(uint64_t)PERF_SAMPLE_STACK_USER;
            event.attr = form.attr;
        }
        rewrite(kernel_writes(&due, copies[i], copies[i] / 2), &s);
        assert_wait(&s, OFF_CPU_FRAMES);
        assert_true(perfdata_offcpu_wake(&s, &wake));
        assert_true(wake.has_runqueue && wake.runqueue == 777);
        assert_true(wake.has_waker && wake.has_context && !wake.interrupt && !wake.softirq);
        assert_int_equal(wake.pid, 20);
        assert_int_equal(wake.tid, 21);
        assert_string_equal(wake.comm, "a name of 15 ch");
    }
}

/* The kernel makes a record as large as it may be: then the callchain is cut. */
static void a_full_record_stays_within_its_size(void **state)
{
    struct off_cpu_due due = due_of(OFF_CPU_FRAMES);
    struct sample s;
    (void)state;
    const size_t rest = 8 * 9 + (sizeof(due) + 4 + 7) / 8 * 8 + 8 * (1 + REGISTERS) + 16;
    const size_t copied = (UINT16_MAX - rest) & ~(size_t)7;
    for (int more = 0; more < 2; more++) {
        begin_more((uint32_t)copied, more);
        rewrite(kernel_writes(&due, copied, copied), &s);
        assert_true(s.nr_callchain > 20 && s.nr_callchain <= OFF_CPU_FRAMES + 1);
        assert_int_equal(s.stack_dyn_size, copied);
        assert_int_equal(s.period, 1000000);
    }
}

static void what_is_damaged_is_seen(void **state)
{
    struct off_cpu_due due = due_of(5);
    struct perfdata_event other = event;
    struct sample s;
    struct trimmed t;
    (void)state;
    begin(64);
    other.name = "ljperf:vmstack";
    const struct perf_event_header *record = kernel_writes(&due, 64, 40);
    assert_int_equal(off_cpu_form_sample(&form, &other, record, &s, &t), 0);
    assert_int_equal(off_cpu_form_sample(&form, &event, record, &s, &t), 1);
    due.nr_frames = OFF_CPU_FRAMES + 1;
    record = kernel_writes(&due, 64, 40);
    assert_int_equal(off_cpu_form_sample(&form, &event, record, &s, &t), -1);
    due = due_of(5);
    record = kernel_writes(&due, 64, 40);
    struct perf_event_header cut = *record;
    for (cut.size = sizeof(cut); cut.size < record->size; cut.size += 8) {
        memcpy(kernel, &cut, sizeof(cut));
        assert_int_equal(off_cpu_form_sample(&form, &event, record, &s, &t), -1);
        record = kernel_writes(&due, 64, 40);
    }
}

static void who_waits_at_the_end_is_a_sample(void **state)
{
    struct off_cpu_thread t = {.tid = 11, .pid = 10, .syscall = 202, .nr_frames = 2};
    static const uint8_t stack[48] = {1, 2, 3};
    const size_t sizes[] = {0, 3, 8, 48};
    struct sample s;
    (void)state;
    begin(64);
    for (unsigned i = 0; i < OFF_CPU_REGISTERS; i++)
        t.registers[i] = 1000 + i;
    t.is_64bit = 1;
    t.frames[0] = 5, t.frames[1] = 6;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        const struct off_cpu_end end = {
            .id = 77, .time = 9, .waited = 12345, .stack = stack, .size = sizes[i]};
        const struct perf_event_header *h = off_cpu_form_thread(&form, &t, &end);
        uint64_t sp;
        assert_non_null(h);
        assert_int_equal(perfdata_sample_parse(&event, h, h->size, &s, NULL), 0);
        assert_int_equal(s.period, 12345);
        assert_int_equal(s.tid, 11);
        assert_int_equal(s.nr_callchain, 3);
        assert_true(sample_user_reg(&s, OFF_CPU_SP, &sp) && sp == 1000 + OFF_CPU_SP);
        assert_int_equal(s.stack_dyn_size, sizes[i]);
        assert_true(!sizes[i] || s.stack_size > sizes[i]); /* the stack ended, not the copy */
        assert_true(!sizes[i] || memcmp(s.stack, stack, sizes[i]) == 0);
    }
}

static void a_thread_that_could_run_waits_for_a_cpu(void **state)
{
    struct off_cpu_thread t = {.tid = 11, .pid = 10, .syscall = -1, .is_64bit = 1};
    static const uint8_t stack[8];
    const struct off_cpu_end end = {.id = 77, .time = 9, .waited = 12345, .stack = stack};
    (void)state;
    begin_more(64, true);
    for (int runnable = 0; runnable < 2; runnable++) {
        struct offcpu_wake wake;
        struct sample s;
        t.state = runnable ? OFFCPU_RUNNABLE : OFFCPU_INTERRUPTIBLE;
        const struct perf_event_header *h = off_cpu_form_thread(&form, &t, &end);
        assert_non_null(h);
        assert_int_equal(perfdata_sample_parse(&event, h, h->size, &s, NULL), 0);
        assert_true(perfdata_offcpu_wake(&s, &wake) && !wake.has_waker);
        assert_int_equal(wake.runqueue, runnable ? 12345 : 0);
    }
}

/* The reader has told it: nothing of it is trusted. */
static void lies_about_a_thread_are_refused(void **state)
{
    static uint8_t stack[1 << 16];
    struct off_cpu_thread t = {.tid = 11, .pid = 10, .nr_frames = OFF_CPU_FRAMES};
    struct off_cpu_end end = {.id = 77, .time = 9, .waited = 1, .stack = stack, .size = 65528};
    struct sample s;
    (void)state;
    begin(65528);
    t.is_64bit = 1;
    const struct perf_event_header *h = off_cpu_form_thread(&form, &t, &end);
    assert_non_null(h); /* the largest */
    assert_int_equal(perfdata_sample_parse(&event, h, h->size, &s, NULL), 0);
    end.size++;
    assert_null(off_cpu_form_thread(&form, &t, &end));
    end.size = 8;
    t.nr_frames++;
    assert_null(off_cpu_form_thread(&form, &t, &end));
    t.nr_frames = 0;
    assert_non_null(off_cpu_form_thread(&form, &t, &end));
    t.is_64bit = 0;
    assert_null(off_cpu_form_thread(&form, &t, &end));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_gets_its_form),
        cmocka_unit_test(a_sample_tells_who_woke),
        cmocka_unit_test(a_thread_that_could_run_waits_for_a_cpu),
        cmocka_unit_test(a_full_record_stays_within_its_size),
        cmocka_unit_test(what_is_damaged_is_seen),
        cmocka_unit_test(who_waits_at_the_end_is_a_sample),
        cmocka_unit_test(lies_about_a_thread_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
