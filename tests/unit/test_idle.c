/* SPDX-License-Identifier: GPL-2.0-only */
/* Which waits are idle: by the call, by names, and by what else the thread does. */
#include "replay/idle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A frame of the stack "a1b2": function a at place 1, called from nowhere, and b at place 2. */
enum { FRAMES_MAX = 8 };
struct made {
    struct idle_frame frames[FRAMES_MAX];
    struct idle_stack stack;
};

/* `text`: two letters a frame, outermost first; capitals at the end are of a library. */
static const struct idle_stack *make(struct made *m, const char *text)
{
    m->stack = (struct idle_stack){.frames = m->frames};
    for (; text[0]; text += 2) {
        assert_true(m->stack.nr < FRAMES_MAX);
        uint64_t function = (uint8_t)text[0];
        m->frames[m->stack.nr++] = (struct idle_frame){function << 8 | (uint8_t)text[1], function};
        m->stack.nr_inner = text[0] >= 'A' && text[0] <= 'Z' ? m->stack.nr_inner + 1 : 0;
    }
    return &m->stack;
}

/* Judge a wait that was seen 10 times; `others`: stacks of the thread, each seen once. */
static bool is_idle_as(struct idle_wait wait, const char *at, const char *const *others)
{
    struct made made, other;
    struct idle_judge j;
    wait.stack = *make(&made, at);
    assert_true(idle_judge_begin(&j, &wait));
    for (; *others; others++)
        idle_judge_add(&j, make(&other, *others), 1);
    return idle_judge_end(&j);
}

#define OTHERS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NOTHING ((const char *const[]){NULL})

static bool is_idle(enum idle_call call, const char *at, const char *const *others)
{
    return is_idle_as((struct idle_wait){.call = call, .samples = 10}, at, others);
}

static void a_loop_waits_for_work(void **state)
{
    (void)state;
    assert_true(is_idle(IDLE_MANY, "m1l1E1", OTHERS("m1l2h1", "m1l2h2x1", "m1l3t1")));
    assert_true(is_idle(IDLE_MANY, "m1l1E1", NOTHING));
    /* the function that waits is not the loop itself */
    assert_true(is_idle(IDLE_FUTEX, "m1l1w1C1F1", OTHERS("m1l2h1", "m1l2h1x1", "m1l4")));
    assert_true(is_idle(IDLE_MANY, "m1l1w1E1", OTHERS("m1l2h1", "m1l1w2c1", "m1l1w1E2")));
}

static void who_waits_within_a_request_is_not_idle(void **state)
{
    (void)state;
    for (int call = IDLE_ONE; call <= IDLE_FUTEX; call++)
        assert_false(
            is_idle((enum idle_call)call, "m1l1r1a1E1", OTHERS("m1l2p1", "m1l1r2d1", "m1l1r3e1")));
    assert_false(is_idle(IDLE_MANY, "m1a1E1", OTHERS("n1a2", "n1b2"))); /* nothing is shared */
    assert_false(is_idle(IDLE_MANY, "E1", NOTHING));                    /* who waits is not known */
    assert_false(is_idle(IDLE_NO, "m1l1r1E1", OTHERS("m1l2", "m1l1r2x1")));
}

static void a_little_may_happen_elsewhere(void **state)
{
    const char *others[42] = {"m1l1w2x1"};
    (void)state;
    for (size_t i = 1; i < 40; i++)
        others[i] = "m1l2h1";
    assert_true(is_idle(IDLE_MANY, "m1l1w1v1E1", others)); /* 1 of 40 */
    for (size_t i = 1; i < 4; i++)
        others[i] = "m1l1w2x1";
    assert_false(is_idle(IDLE_MANY, "m1l1w1v1E1", others)); /* 4 of 40 */
}

/* A read waits for a request, or for an answer. */
static void one_file_needs_more(void **state)
{
    (void)state;
    assert_true(is_idle(IDLE_ONE, "m1s1R1", OTHERS("m1s2a1", "m1s2a2W1")));
    assert_false(is_idle(IDLE_ONE, "m1l1q1R1", OTHERS("m1l2h1"))); /* a client's loop */
    assert_false(is_idle(IDLE_ONE, "m1q1R1", OTHERS("m1q2W1")));   /* write, then read */
    assert_false(is_idle(IDLE_ONE, "m1q1R1", NOTHING));
}

static void once_is_enough_only_for_good(void **state)
{
    struct idle_wait once = {.call = IDLE_MANY, .samples = 1};
    (void)state;
    assert_false(is_idle_as(once, "m1l1E1", NOTHING));
    once.whole = true;
    assert_true(is_idle_as(once, "m1l1E1", NOTHING));
    once.call = IDLE_ONE;
    assert_true(is_idle_as(once, "m1l1E1", NOTHING));
    once.first_thread = true; /* it may be a client whose server hangs */
    assert_false(is_idle_as(once, "m1l1E1", NOTHING));
}

static void the_first_thread_waits_for_its_workers(void **state)
{
    const struct idle_wait wait = {.call = IDLE_FUTEX, .samples = 10, .first_thread = true};
    (void)state;
    assert_false(is_idle_as(wait, "m1l1C1", NOTHING));
}

static void calls_are_known_by_machine(void **state)
{
    const struct arch *x86 = arch_by_name("x86_64"), *arm = arch_by_name("aarch64");
    (void)state;
    assert_int_equal(idle_call_of(x86, 232, NULL), IDLE_MANY);
    assert_int_equal(idle_call_of(arm, 22, NULL), IDLE_MANY);
    assert_int_equal(idle_call_of(x86, 202, NULL), IDLE_FUTEX);
    assert_int_equal(idle_call_of(arm, 98, NULL), IDLE_FUTEX);
    assert_int_equal(idle_call_of(x86, 0, NULL), IDLE_ONE);
    assert_int_equal(idle_call_of(x86, 7, NULL), IDLE_ONE);
    assert_int_equal(idle_call_of(x86, 74, NULL), IDLE_NO); /* fsync */
    assert_int_equal(idle_call_of(arm, 232, NULL), IDLE_NO);
    assert_int_equal(idle_call_of(arm, 0xffff, NULL), IDLE_NO);
    assert_int_equal(idle_call_of(NULL, 232, NULL), IDLE_NO);
}

/* A sample with all of x86-64's registers, of which the second argument has this value. */
static struct sample with_second(uint64_t *registers, uint64_t value)
{
    enum { SI = 4 };
    registers[SI] = value;
    return (struct sample){.user_mask = 0x1ff,
                           .user_abi = PERF_SAMPLE_REGS_ABI_64,
                           .user_regs = (const uint8_t *)registers};
}

static void registers_tell_more_of_a_call(void **state)
{
    const struct arch *x86 = arch_by_name("x86_64");
    uint64_t registers[9] = {0};
    (void)state;
    struct sample s = with_second(registers, 1);
    assert_int_equal(idle_call_of(x86, 7, &s), IDLE_ONE);
    s = with_second(registers, 2);
    assert_int_equal(idle_call_of(x86, 7, &s), IDLE_MANY);
    assert_int_equal(idle_call_of(x86, 0, &s), IDLE_ONE);
    s = with_second(registers, 393); /* FUTEX_WAIT_BITSET, private, of the real time clock */
    assert_true(idle_is_bitset(x86, &s));
    s = with_second(registers, 128); /* FUTEX_WAIT, private */
    assert_false(idle_is_bitset(x86, &s));
    assert_false(idle_is_bitset(x86, NULL));
}

static void names_tell_work_from_locks(void **state)
{
    static const char *const work[] = {
        "pthread_cond_wait",
        "___pthread_cond_timedwait64",
        "pthread_cond_clockwait",
        "sem_wait",
        "__new_sem_wait_slow64.constprop.0",
        "runtime.notesleep",
        "std::sys::sync::condvar::futex::Condvar::wait_optional_timeout"};
    static const char *const locks[] = {"pthread_mutex_lock", "__lll_lock_wait",
                                        "__pthread_mutex_cond_lock", "pthread_rwlock_rdlock"};
    (void)state;
    for (size_t i = 0; i < sizeof(work) / sizeof(*work); i++)
        assert_true(idle_waits_for_work(work[i]));
    for (size_t i = 0; i < sizeof(locks) / sizeof(*locks); i++)
        assert_true(idle_takes_lock(locks[i]) && !idle_waits_for_work(locks[i]));
    assert_false(idle_waits_for_work("pthread_cond_signal"));
    assert_false(idle_waits_for_work("my_pthread_cond_wait"));
    assert_false(idle_waits_for_work(NULL) || idle_takes_lock(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_waits_for_work),
        cmocka_unit_test(who_waits_within_a_request_is_not_idle),
        cmocka_unit_test(a_little_may_happen_elsewhere),
        cmocka_unit_test(one_file_needs_more),
        cmocka_unit_test(once_is_enough_only_for_good),
        cmocka_unit_test(the_first_thread_waits_for_its_workers),
        cmocka_unit_test(calls_are_known_by_machine),
        cmocka_unit_test(registers_tell_more_of_a_call),
        cmocka_unit_test(names_tell_work_from_locks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
