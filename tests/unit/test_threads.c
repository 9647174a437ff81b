/* SPDX-License-Identifier: GPL-2.0-only */
/* Workers: that all run, where they run, and when they give up a processor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/threads.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void spin(double for_seconds)
{
    for (double end = seconds() + for_seconds; seconds() < end;)
        continue;
}

static cpu_set_t allowed(void)
{
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    return set;
}

struct worker {
    unsigned runs;
    int on;
    cpu_set_t may;
    atomic_uint *meeting; /* number of workers that have come; NULL: nobody waits */
};

static void note(void *worker, struct processor *p)
{
    struct worker *w = worker;
    double end = seconds() + 5;
    w->runs++;
    if (w->meeting) {
        unsigned all = (unsigned)CPU_COUNT(&w->may);
        for (atomic_fetch_add(w->meeting, 1); *w->meeting < all && seconds() < end;)
            sched_yield();
    }
    processor_check(p);
    w->may = allowed();
    w->on = sched_getcpu();
}

static void each_worker_runs_once(void **state)
{
    (void)state;
    cpu_set_t before = allowed();
    struct worker workers[WORKERS_MAX] = {0};
    for (unsigned nr = 1; nr <= WORKERS_MAX; nr += 9) {
        for (unsigned i = 0; i < WORKERS_MAX; i++)
            workers[i].runs = 0;
        threads_run(note, workers, sizeof(*workers), nr);
        for (unsigned i = 0; i < WORKERS_MAX; i++)
            assert_int_equal(workers[i].runs, i < nr);
        cpu_set_t after = allowed();
        assert_true(CPU_EQUAL(&before, &after));
    }
}

static void one_for_each_processor_keeps_his(void **state)
{
    (void)state;
    cpu_set_t before = allowed(), seen;
    unsigned nr = (unsigned)CPU_COUNT(&before);
    if (nr < 2 || nr > WORKERS_MAX)
        skip();
    atomic_uint meeting = 0;
    struct worker workers[WORKERS_MAX] = {0};
    for (unsigned i = 0; i < nr; i++) {
        workers[i].meeting = &meeting;
        workers[i].may = before;
    }
    threads_run(note, workers, sizeof(*workers), nr);
    CPU_ZERO(&seen);
    for (unsigned i = 0; i < nr; i++)
        CPU_SET(workers[i].on, &seen);
    /* Another program may have driven some workers away. */
    assert_true(CPU_COUNT(&seen) > 1 || nr == 1);
    cpu_set_t after = allowed();
    assert_true(CPU_EQUAL(&before, &after));
}

static void more_may_go_anywhere(void **state)
{
    (void)state;
    cpu_set_t before = allowed();
    if (CPU_COUNT(&before) < 2)
        skip();
    struct worker workers[WORKERS_MAX] = {0};
    unsigned nr = (unsigned)CPU_COUNT(&before) + 1;
    threads_run(note, workers, sizeof(*workers), nr < WORKERS_MAX ? nr : WORKERS_MAX);
    assert_true(CPU_EQUAL(&before, &workers[0].may));
    assert_true(CPU_EQUAL(&before, &workers[1].may));
}

/* ---- a processor that others want ---------------------------------------------------------- */

struct disturbed {
    bool left;
};

struct hog {
    int processor;
    atomic_bool *over;
};

static void *hog_main(void *context)
{
    struct hog *h = context;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(h->processor, &only);
    sched_setaffinity(0, sizeof(only), &only);
    while (!*h->over)
        continue;
    return NULL;
}

static void work_disturbed(void *worker, struct processor *p)
{
    struct disturbed *d = worker;
    cpu_set_t mine = allowed();
    atomic_bool over = false;
    struct hog hog = {sched_getcpu(), &over};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, hog_main, &hog), 0);
    for (double end = seconds() + 10; CPU_COUNT(&mine) == 1 && seconds() < end;) {
        processor_check(p);
        spin(0.004);
        processor_check(p);
        mine = allowed();
    }
    d->left = CPU_COUNT(&mine) > 1;
    over = true;
    pthread_join(thread, NULL);
}

static void who_is_driven_away_goes(void **state)
{
    (void)state;
    cpu_set_t before = allowed();
    unsigned nr = (unsigned)CPU_COUNT(&before);
    if (nr < 2 || nr > 8) /* the hogs take all of them */
        skip();
    struct disturbed workers[8] = {0};
    threads_run(work_disturbed, workers, sizeof(*workers), nr);
    for (unsigned i = 0; i < nr; i++)
        assert_true(workers[i].left);
    cpu_set_t after = allowed();
    assert_true(CPU_EQUAL(&before, &after));
}

static void *look(void *context)
{
    *(int *)context = sched_getcpu();
    return NULL;
}

static void a_thread_beside_is_elsewhere(void **state)
{
    (void)state;
    cpu_set_t before = allowed(), only;
    if (CPU_COUNT(&before) < 2)
        skip();
    pthread_t thread;
    int here = sched_getcpu(), there = here;
    CPU_ZERO(&only);
    CPU_SET(here, &only);
    sched_setaffinity(0, sizeof(only),
                      &only); /* where there is no choice, the thread is created all the same */
    assert_int_equal(thread_beside(&thread, look, &there), 0);
    pthread_join(thread, NULL);
    assert_int_equal(there, here);
    sched_setaffinity(0, sizeof(before), &before);
    /* this thread may be moved itself */
    for (unsigned tries = 0; there == here && tries < 50; tries++) {
        here = sched_getcpu();
        assert_int_equal(thread_beside(&thread, look, &there), 0);
        pthread_join(thread, NULL);
    }
    assert_int_not_equal(there, here);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_worker_runs_once),
        cmocka_unit_test(one_for_each_processor_keeps_his),
        cmocka_unit_test(more_may_go_anywhere),
        cmocka_unit_test(who_is_driven_away_goes),
        cmocka_unit_test(a_thread_beside_is_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
