/* SPDX-License-Identifier: GPL-2.0-only */
/* The recorder's queue and its reader: what comes out, in which order, and the cost of a slow
 * reader. */
#include "live/reader.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { STACK = 40000, ROUNDS = 20000, LOG = 7, PID = 8 };

/* The work: it checks its input, writes a piece for each, and waits at the gate. */
struct seen {
    struct reader *reader;
    /* time of the next sample or record; samples may be left out */
    uint64_t next;
    uint64_t samples, records, ticks;
    uint64_t fail_at;     /* 0: never */
    pthread_mutex_t gate; /* held by the test: the work waits */
    atomic_bool inside;   /* the work is at the gate */
    const uint8_t *stack;
};

static void come_in(struct seen *s, uint64_t number)
{
    if (number < s->next) /* cmocka's assertions are for the test's own thread */
        abort();
    s->next = number + 1;
    atomic_store(&s->inside, true);
    pthread_mutex_lock(&s->gate);
    pthread_mutex_unlock(&s->gate);
    atomic_store(&s->inside, false);
}

static int take_sample(void *context, const struct sample *got, struct error *err)
{
    struct seen *s = context;
    come_in(s, got->time);
    s->samples++;
    uint64_t register_0 = 0;
    if (!sample_user_reg(got, 0, &register_0) || register_0 != got->time ||
        got->stack_size != STACK || got->stack_near != got->stack_dyn_size ||
        memcmp(got->stack, s->stack, got->stack_dyn_size) != 0 || got->raw_size != 5 ||
        memcmp(got->raw, "hello", 5) != 0 || got->callchain)
        abort();
    if (s->fail_at && got->time >= s->fail_at)
        return error_set(err, ERROR_FORMAT, "no more");
    return reader_write(s->reader, LOG, &got->time, sizeof(got->time), err);
}

static int take_record(void *context, const struct perf_event_header *h, struct error *err)
{
    struct seen *s = context;
    uint64_t number;
    memcpy(&number, h + 1, sizeof(number));
    come_in(s, number);
    s->records++;
    return reader_write(s->reader, LOG, &number, sizeof(number), err);
}

/* What a test asks of the reader. */
enum { CALL_WRITE_PID = 1, CALL_CRASH, CALL_STAND, CALL_LIE };

static int take_call(void *context, unsigned which, struct error *err)
{
    struct seen *s = context;
    uint64_t pid = (uint64_t)getpid();
    if (which == CALL_CRASH) {
        reader_look(s->reader, 4711);
        raise(SIGKILL);
    }
    if (which == CALL_STAND) {
        reader_look(s->reader, 4712);
        for (;;)
            pause();
    }
    if (which == CALL_LIE) /* all that both have, but for the common memory */
        memset((uint8_t *)reader_common(s->reader) - 384, 0xee, 384);
    return reader_write(s->reader, PID, &pid, sizeof(pid), err);
}

static int take_tick(void *context, struct error *err)
{
    struct seen *s = context;
    (void)err;
    s->ticks++;
    return 0;
}

static void begin(struct seen *s, enum reader_form form)
{
    uint8_t *stack = malloc(STACK);
    assert_non_null(stack);
    for (size_t i = 0; i < STACK; i++)
        stack[i] = (uint8_t)(i * 7 + i / 256);
    *s = (struct seen){.stack = stack, .gate = PTHREAD_MUTEX_INITIALIZER};
    const struct reader_work work = {.sample = take_sample,
                                     .record = take_record,
                                     .call = take_call,
                                     .tick = take_tick,
                                     .context = s};
    s->reader = reader_create(&work);
    assert_non_null(s->reader);
    assert_int_equal(reader_start(s->reader, form, NULL), 0);
}

static int wait_for(struct seen *s, struct error *err)
{
    int left;
    while ((left = reader_wait(s->reader, 1000, err)) > 0)
        ;
    return left;
}

static void end(struct seen *s)
{
    reader_free(s->reader);
    free((uint8_t *)(uintptr_t)s->stack);
}

static int put_sample(struct seen *s, uint64_t number, uint64_t stack, struct error *err)
{
    static const struct perfdata_event event = {.name = "e"};
    const struct sample sample = {.event = &event,
                                  .time = number,
                                  .callchain = s->stack,
                                  .nr_callchain = 1,
                                  .user_abi = PERF_SAMPLE_REGS_ABI_64,
                                  .user_regs = (const uint8_t *)&number,
                                  .user_mask = 1,
                                  .raw = (const uint8_t *)"hello",
                                  .raw_size = 5,
                                  .stack = s->stack,
                                  .stack_size = STACK,
                                  .stack_dyn_size = stack};
    return reader_sample(s->reader, &sample, err);
}

static int put_record(struct seen *s, uint64_t number, struct error *err)
{
    struct {
        struct perf_event_header header;
        uint64_t number;
        uint32_t odd;
    } r = {.header = {.size = 20}, .number = number};
    return reader_record(s->reader, &r.header, err);
}

static uint64_t take_written(struct seen *s, uint64_t *last)
{
    const void *bytes;
    size_t size;
    uint64_t nr = 0, number;
    unsigned kind;
    for (; reader_take(s->reader, &kind, &bytes, &size); nr++) {
        assert_int_equal(kind, LOG);
        assert_int_equal(size, sizeof(number));
        memcpy(&number, bytes, size);
        assert_true(number > *last);
        *last = number;
    }
    return nr;
}

/* Samples and records of all sizes, each fifth one a record, go round the queue many times. Returns
 * the number of pieces that were written. */
enum { RECORDS = ROUNDS / 5, SAMPLES = ROUNDS - RECORDS };
static uint64_t go_round(struct seen *s)
{
    uint64_t written = 0, last = 0;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        assert_int_equal(i % 5 ? put_sample(s, i, i * 977 % STACK, NULL) : put_record(s, i, NULL),
                         0);
        if (i % 64)
            continue;
        assert_int_equal(reader_kick(s->reader, NULL), 0);
        written += take_written(s, &last);
    }
    assert_int_equal(wait_for(s, NULL), 0);
    return written + take_written(s, &last);
}

/* Each that was not counted as dropped comes out, in order, and so do the written pieces. */
static void what_goes_in_comes_out(void **state)
{
    (void)state;
    struct seen s;
    begin(&s, READER_THREAD);
    uint64_t written = go_round(&s);
    assert_int_equal(s.records, RECORDS);
    assert_int_equal(s.samples + reader_dropped(s.reader), SAMPLES);
    assert_int_equal(written, s.samples + s.records);
    assert_true(s.ticks > 0 && s.ticks <= ROUNDS / 64);
    end(&s);
}

/* While the work waits, samples are dropped and counted, and records find room; nobody waits. */
static void a_full_queue_drops_samples_only(void **state)
{
    (void)state;
    struct seen s;
    uint64_t i = 1, last = 0;
    begin(&s, READER_THREAD);
    pthread_mutex_lock(&s.gate);
    for (; !reader_dropped(s.reader); i++) {
        assert_int_equal(put_sample(&s, i, STACK, NULL), 0);
        assert_true(i < 10000); /* the queue is bounded */
    }
    for (unsigned nr = 0; nr < 1000; nr++)
        assert_int_equal(put_record(&s, i++, NULL), 0);
    assert_int_equal(put_sample(&s, i, STACK, NULL), 0);
    assert_int_equal(reader_dropped(s.reader), 2);
    pthread_mutex_unlock(&s.gate);
    assert_int_equal(wait_for(&s, NULL), 0);
    assert_int_equal(s.records, 1000);
    assert_int_equal(s.samples + s.records, i - 2);
    assert_int_equal(take_written(&s, &last), i - 2);
    assert_int_equal(put_sample(&s, i, STACK, NULL), 0); /* there is room again */
    assert_int_equal(wait_for(&s, NULL), 0);
    assert_int_equal(reader_dropped(s.reader), 2);
    end(&s);
}

static void a_failure_is_told(void **state)
{
    (void)state;
    struct seen s;
    struct error err = {0};
    begin(&s, READER_THREAD);
    s.fail_at = 3;
    for (uint64_t i = 1; i < 100; i++)
        (void)put_sample(&s, i, 100, &err);
    assert_int_equal(wait_for(&s, &err), -1);
    assert_string_equal(err.text, "no more");
    assert_int_equal(s.samples, 3);
    assert_int_equal(put_record(&s, 200, &err), -1);
    assert_int_equal(reader_kick(s.reader, &err), -1);
    end(&s);
}

/* The thread is ended while it works and much is queued. */
static void the_end_waits_for_nothing(void **state)
{
    (void)state;
    struct seen s;
    begin(&s, READER_THREAD);
    pthread_mutex_lock(&s.gate);
    for (uint64_t i = 1; i < 100; i++)
        assert_int_equal(put_sample(&s, i, 100, NULL), 0);
    assert_int_equal(reader_kick(s.reader, NULL), 0);
    while (!atomic_load(&s.inside))
        sched_yield();
    pthread_mutex_unlock(&s.gate);
    end(&s);
}

/* ---- processes ----------------------------------------------------------------------------- */

/* The pid that the reader says it has. */
static pid_t ask_pid(struct seen *s)
{
    const void *bytes;
    size_t size;
    unsigned kind;
    uint64_t pid;
    assert_int_equal(reader_call(s->reader, CALL_WRITE_PID, NULL), 0);
    assert_int_equal(wait_for(s, NULL), 0);
    assert_true(reader_take(s->reader, &kind, &bytes, &size));
    assert_int_equal(kind, PID);
    memcpy(&pid, bytes, sizeof(pid));
    return (pid_t)pid;
}

static void a_process_does_the_same(void **state)
{
    (void)state;
    struct seen s;
    begin(&s, READER_PROCESS);
    uint64_t written = go_round(&s);
    assert_int_equal(written + reader_dropped(s.reader), SAMPLES + RECORDS);
    assert_int_equal(s.samples, 0); /* its memory is its own */
    pid_t pid = ask_pid(&s);
    assert_true(pid != getpid());
    assert_int_equal(pid, reader_pid(s.reader));
    end(&s);
    assert_int_equal(kill(pid, 0), -1);
}

static void expect_loss(struct seen *s, pid_t at, const char *why)
{
    struct reader_loss loss;
    assert_true(reader_lost(s->reader, &loss));
    assert_int_equal(loss.at, at);
    assert_non_null(strstr(loss.why, why));
    assert_false(reader_lost(s->reader, &loss));
    assert_int_equal(reader_pid(s->reader), 0);
}

/* Nothing fails without a reader; a new one works as the old one did. */
static void go_on(struct seen *s)
{
    assert_int_equal(put_sample(s, 1, 100, NULL), 0);
    assert_int_equal(put_record(s, 2, NULL), 0);
    assert_int_equal(reader_kick(s->reader, NULL), 0);
    assert_int_equal(wait_for(s, NULL), 0);
    assert_int_equal(reader_start(s->reader, READER_PROCESS, NULL), 0);
    assert_true(ask_pid(s) != getpid());
}

static void a_process_that_dies_is_told(void **state)
{
    (void)state;
    struct seen s;
    begin(&s, READER_PROCESS);
    assert_int_equal(reader_call(s.reader, CALL_CRASH, NULL), 0);
    assert_int_equal(wait_for(&s, NULL), 0);
    expect_loss(&s, 4711, "signal 9");
    go_on(&s);
    end(&s);
}

static void a_process_that_stands_can_be_ended(void **state)
{
    (void)state;
    struct seen s;
    begin(&s, READER_PROCESS);
    assert_int_equal(reader_call(s.reader, CALL_STAND, NULL), 0);
    while (reader_stands(s.reader) < 50)
        assert_int_equal(reader_wait(s.reader, 10, NULL), 1);
    reader_kill(s.reader);
    assert_int_equal(wait_for(&s, NULL), 0);
    expect_loss(&s, 4712, "stood");
    go_on(&s);
    end(&s);
}

/* The queue fills while it stands: a record then waits for room, but not for ever. */
static void a_full_queue_of_one_that_stands(void **state)
{
    (void)state;
    struct seen s;
    uint64_t i = 1;
    begin(&s, READER_PROCESS);
    assert_int_equal(reader_call(s.reader, CALL_STAND, NULL), 0);
    for (; !reader_dropped(s.reader); i++)
        assert_int_equal(put_sample(&s, i, STACK, NULL), 0);
    for (; reader_pid(s.reader); i++)
        assert_int_equal(put_record(&s, i, NULL), 0);
    expect_loss(&s, 4712, "stood");
    go_on(&s);
    end(&s);
}

/* A process that was taken over may write anything into the memory that both have. */
static void what_a_process_says_is_checked(void **state)
{
    (void)state;
    struct seen s;
    begin(&s, READER_PROCESS);
    assert_int_equal(reader_call(s.reader, CALL_LIE, NULL), 0);
    for (int i = 0; i < 200 && reader_pid(s.reader); i++) {
        (void)put_sample(&s, 1000, 100, NULL);
        (void)put_record(&s, 1000, NULL);
        (void)reader_wait(s.reader, 1, NULL);
    }
    expect_loss(&s, 0, "");
    go_on(&s);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_out),
        cmocka_unit_test(a_full_queue_drops_samples_only),
        cmocka_unit_test(a_failure_is_told),
        cmocka_unit_test(the_end_waits_for_nothing),
        cmocka_unit_test(a_process_does_the_same),
        cmocka_unit_test(a_process_that_dies_is_told),
        cmocka_unit_test(a_process_that_stands_can_be_ended),
        cmocka_unit_test(a_full_queue_of_one_that_stands),
        cmocka_unit_test(what_a_process_says_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
