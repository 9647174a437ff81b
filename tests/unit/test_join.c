/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Joining truncated stacks: what a thread's earlier complete stacks prove about a frame's callers,
 * and for how long. A stack is written as text, native frames from the innermost on: `leaf@3 work@2
 * main@1` is complete, `leaf@3 work@2 ...` is truncated in work. The name stands for the pc, the
 * depth for the CFA.
 */
#include "replay/replay_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct thread_stacks {
    struct dsos *dsos;
    struct session *session;
    struct job jobs[512];            /* one per batch */
    size_t nr_jobs, in_batch, batch; /* number of stacks, and most stacks in a batch */
    uint64_t joined;
};

static void stacks_begin(struct thread_stacks *t, size_t batch)
{
    memset(t, 0, sizeof(*t));
    t->batch = batch;
    t->dsos = dsos_create(&(struct dso_options){.no_debuginfod = true});
    assert_int_equal(
        session_create(NULL, t->dsos, &(struct session_options){.no_jit = true}, &t->session, NULL),
        0);
}

static struct frame parse_frame(const char *text)
{
    struct frame f = {.kind = FRAME_NATIVE};
    char *depth;
    for (; *text != '@'; text++)
        f.pc = f.pc << 8 | (uint8_t)*text;
    f.cfa = 0x7fff0000 - 0x100 * strtoul(text + 1, &depth, 10);
    assert_int_equal(*depth, 0);
    return f;
}

/* Adds a sample with these frames. */
static void add(struct thread_stacks *t, const char *stack)
{
    if (t->in_batch % t->batch == 0)
        t->nr_jobs++;
    t->in_batch++;
    assert_true(t->nr_jobs <= sizeof(t->jobs) / sizeof(t->jobs[0]));
    struct job *job = &t->jobs[t->nr_jobs - 1];
    struct job_sample s = {
        .first_frame = job->frames.nr, .end = STACK_COMPLETE, .unwound = true, .has_user = true};
    assert_int_equal(session_context(t->session, 10, 11, &s.thread, NULL), 0);
    char *copy = strdup(stack), *rest = copy;
    for (char *word; (word = strsep(&rest, " "));) {
        if (strcmp(word, "...") == 0)
            s.end = STACK_TRUNCATED;
        else
            assert_true(vec_push(&job->frames, parse_frame(word)));
    }
    free(copy);
    s.nr_frames = job->frames.nr - s.first_frame;
    assert_true(vec_push(&job->samples, s));
    struct job_sample *last = &job->samples.at[job->samples.nr - 1];
    last->nr_same = sample_frames_same(job, last);
}

static void add_times(struct thread_stacks *t, const char *stack, unsigned times)
{
    while (times--)
        add(t, stack);
}

static void join_all(struct thread_stacks *t)
{
    struct join_table *table = join_table_create(false);
    assert_non_null(table);
    for (size_t i = 0; i < t->nr_jobs; i++)
        assert_int_equal(join_job(table, &t->jobs[i], &t->joined, NULL), 0);
    join_table_free(table);
}

static void stacks_end(struct thread_stacks *t)
{
    for (size_t i = 0; i < t->nr_jobs; i++) {
        vec_foreach (s, &t->jobs[i].samples)
            thread_context_release(&s->thread);
        vec_free(&t->jobs[i].samples);
        vec_free(&t->jobs[i].frames);
    }
    session_free(t->session);
    dsos_free(t->dsos);
}

/* Writes the `nth` stack as text after joining; `?` marks joined frames. */
static const char *stack_text(const struct thread_stacks *t, size_t nth, char *ret, size_t size)
{
    const struct job *job = &t->jobs[nth / t->batch];
    const struct job_sample *s = &job->samples.at[nth % t->batch];
    size_t at = 0;
    *ret = 0;
    for (size_t i = s->first_frame; i < s->first_frame + s->nr_frames; i++) {
        const struct frame *f = &job->frames.at[i];
        at += (size_t)snprintf(ret + at, size - at, "%s", i > s->first_frame ? " " : "");
        for (int shift = 56; shift >= 0; shift -= 8)
            if (f->pc >> shift & 0xff)
                at += (size_t)snprintf(ret + at, size - at, "%c", (char)(f->pc >> shift));
        at += (size_t)snprintf(ret + at, size - at, "@%u%s",
                               (unsigned)((0x7fff0000 - f->cfa) / 0x100),
                               f->provenance == PROVENANCE_STALE ? "?" : "");
    }
    if (s->end != STACK_COMPLETE)
        snprintf(ret + at, size - at, " ...");
    return ret;
}

static void assert_last(const struct thread_stacks *t, const char *want)
{
    char got[256];
    assert_string_equal(stack_text(t, t->in_batch - 1, got, sizeof(got)), want);
}

/* Joins the stacks in batches of several sizes. The last stack must always become `want`. */
static void check(void (*make)(struct thread_stacks *), const char *want)
{
    static const size_t batches[] = {1, 2, 3, 64, 4096};
    static struct thread_stacks t;
    for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
        stacks_begin(&t, batches[i]);
        make(&t);
        join_all(&t);
        assert_last(&t, want);
        stacks_end(&t);
    }
}

/* A thread is remembered from its first truncated stack on. */
static void known(struct thread_stacks *t)
{
    add(t, "leaf@4 deep@3 ...");
    add(t, "leaf@4 deep@3 work@2 main@1");
    add(t, "other@4 deep@3 ...");
}

static void test_known_callers(void **state)
{
    (void)state;
    check(known, "other@4 deep@3 work@2? main@1?");
}

static void other_caller(struct thread_stacks *t)
{
    known(t);
    add(t, "leaf@4 deep@3 free@2 main@1");
    add(t, "leaf@4 deep@3 ...");
}

static void test_two_callers_prove_nothing(void **state)
{
    (void)state;
    check(other_caller, "leaf@4 deep@3 ...");
}

static void caller_changed(struct thread_stacks *t)
{
    known(t);
    add_times(t, "leaf@4 deep@3 work@2 main@1", 20);
    add_times(t, "leaf@4 deep@3 free@2 main@1", 4);
    add(t, "leaf@4 deep@3 ...");
}

static void test_a_run_ends_a_dispute(void **state)
{
    (void)state;
    check(caller_changed, "leaf@4 deep@3 free@2? main@1?");
}

/* Runs with other stacks of the thread in between, and with a different innermost part each
 * time. */
static void changed_amidst(struct thread_stacks *t)
{
    known(t);
    for (unsigned i = 0; i < 4; i++) {
        add(t, i % 2 ? "leaf@4 deep@3 free@2 main@1" : "twig@5 knot@4 deep@3 free@2 main@1");
        add(t, "idle@2 main@1");
    }
    add(t, "leaf@4 deep@3 ...");
}

static void test_a_run_amidst_others(void **state)
{
    (void)state;
    check(changed_amidst, "leaf@4 deep@3 free@2? main@1?");
}

static void run_broken(struct thread_stacks *t)
{
    known(t);
    add_times(t, "leaf@4 deep@3 free@2 main@1", 3);
    add_times(t, "leaf@4 deep@3 work@2 main@1", 3);
    add_times(t, "leaf@4 deep@3 free@2 main@1", 3);
    add(t, "leaf@4 deep@3 ...");
}

static void test_a_run_is_without_others(void **state)
{
    (void)state;
    check(run_broken, "leaf@4 deep@3 ...");
}

static void callers_alternate(struct thread_stacks *t, unsigned change)
{
    for (unsigned i = 0; i < change; i++)
        add_times(t, i % 2 ? "leaf@4 deep@3 work@2 main@1" : "leaf@4 deep@3 free@2 main@1", 4);
    add(t, "leaf@4 deep@3 ...");
}

static void second_change(struct thread_stacks *t)
{
    known(t);
    callers_alternate(t, 2);
}

static void later_change(struct thread_stacks *t)
{
    known(t);
    callers_alternate(t, 40);
    add_times(t, "leaf@4 deep@3 free@2 main@1", 3);
    add(t, "leaf@4 deep@3 ...");
}

static void second_change_longer(struct thread_stacks *t)
{
    second_change(t);
    add_times(t, "leaf@4 deep@3 work@2 main@1", 4);
    add(t, "leaf@4 deep@3 ...");
}

static void test_each_dispute_takes_longer(void **state)
{
    (void)state;
    check(second_change, "leaf@4 deep@3 ...");
    check(second_change_longer, "leaf@4 deep@3 work@2? main@1?");
    check(later_change, "leaf@4 deep@3 ...");
}

/* Each run is long enough, until a run would need more than RUN_MAX stacks. */
static void many_changes(struct thread_stacks *t)
{
    known(t);
    unsigned run = 4;
    for (unsigned i = 0; i < 8; i++, run *= 2)
        add_times(t, i % 2 ? "leaf@4 deep@3 work@2 main@1" : "leaf@4 deep@3 free@2 main@1",
                  run < 512 ? run : 512);
    add(t, "leaf@4 deep@3 ...");
}

static void test_a_dispute_for_good(void **state)
{
    static struct thread_stacks t;
    (void)state;
    stacks_begin(&t, 4096);
    many_changes(&t);
    join_all(&t);
    assert_last(&t, "leaf@4 deep@3 ...");
    stacks_end(&t);
}

/* Frames seen inside the disputed frame before its caller changed were seen under another
 * caller. */
static void not_seen_since(struct thread_stacks *t)
{
    known(t);
    add(t, "leaf@5 bough@4 deep@3 work@2 main@1");
    add_times(t, "leaf@4 deep@3 free@2 main@1", 8);
    add(t, "leaf@5 bough@4 ...");
}

static void seen_since(struct thread_stacks *t)
{
    not_seen_since(t);
    add(t, "leaf@5 bough@4 deep@3 free@2 main@1");
    add(t, "leaf@5 bough@4 ...");
}

static void seen_in_the_run(struct thread_stacks *t)
{
    known(t);
    add(t, "leaf@5 bough@4 deep@3 work@2 main@1");
    add_times(t, "leaf@5 bough@4 deep@3 free@2 main@1", 2);
    add_times(t, "leaf@4 deep@3 free@2 main@1", 2);
    add(t, "leaf@5 bough@4 ...");
}

static void test_frames_within(void **state)
{
    (void)state;
    check(not_seen_since, "leaf@5 bough@4 ...");
    check(seen_since, "leaf@5 bough@4 deep@3? free@2? main@1?");
    check(seen_in_the_run, "leaf@5 bough@4 deep@3? free@2? main@1?");
}

/* The frame of the entry has a caller in some stacks. */
static void outermost_called(struct thread_stacks *t)
{
    known(t);
    add_times(t, "leaf@4 deep@3 work@2 main@1 begin@0", 600);
    add(t, "leaf@4 deep@3 ...");
}

static void test_entry_with_a_caller(void **state)
{
    static struct thread_stacks t;
    (void)state;
    stacks_begin(&t, 4096);
    outermost_called(&t);
    join_all(&t);
    assert_last(&t, "leaf@4 deep@3 ...");
    stacks_end(&t);
}

/* Random stacks of few frames, whose callers change from time to time. The batches must not change
 * any result. */
static void draw(struct thread_stacks *t, unsigned seed)
{
    static const char *const callers[] = {"work@2 main@1", "free@2 main@1", "work@2 free@1",
                                          "main@1"};
    char stack[128];
    srand(seed);
    unsigned caller = 0;
    for (unsigned i = 0; i < 500; i++) {
        if (rand() % 24 == 0)
            caller = (unsigned)rand() % 4;
        static const char *const inner[] = {"", "leaf@4 ", "leaf@5 knot@4 ",
                                            "twig@6 leaf@5 knot@4 "};
        snprintf(stack, sizeof(stack), "%sdeep@3 %s", inner[rand() % 4],
                 rand() % 3 ? callers[caller] : "...");
        add(t, stack);
    }
}

static void test_batches_change_nothing(void **state)
{
    static struct thread_stacks whole, parts;
    (void)state;
    uint64_t joined = 0;
    for (unsigned seed = 0; seed < 64; seed++) {
        stacks_begin(&whole, 4096);
        draw(&whole, seed);
        join_all(&whole);
        stacks_begin(&parts, 1 + seed % 7);
        draw(&parts, seed);
        join_all(&parts);
        for (size_t i = 0; i < whole.in_batch; i++) {
            char a[256], b[256];
            assert_string_equal(stack_text(&whole, i, a, sizeof(a)),
                                stack_text(&parts, i, b, sizeof(b)));
        }
        assert_int_equal(whole.joined, parts.joined);
        joined += whole.joined;
        stacks_end(&whole);
        stacks_end(&parts);
    }
    assert_true(joined > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_callers),
        cmocka_unit_test(test_two_callers_prove_nothing),
        cmocka_unit_test(test_a_run_ends_a_dispute),
        cmocka_unit_test(test_a_run_amidst_others),
        cmocka_unit_test(test_a_run_is_without_others),
        cmocka_unit_test(test_each_dispute_takes_longer),
        cmocka_unit_test(test_a_dispute_for_good),
        cmocka_unit_test(test_frames_within),
        cmocka_unit_test(test_entry_with_a_caller),
        cmocka_unit_test(test_batches_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
