/* SPDX-License-Identifier: GPL-2.0-only */
/* What was mapped anew between two moments. */
#include "session/renewals.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static void add(struct renewals *r, uint32_t pid, uint64_t time, uint64_t from, bool executable)
{
    const struct renewal n = {.time = time, .from = from, .to = from + 0x1000, .pid = pid};
    assert_true(renewals_add(r, &n, executable));
}

static void test_between(void **state)
{
    (void)state;
    struct renewals r = {0};
    add(&r, 7, 300, 0x1000, false);
    add(&r, 7, 100, 0x1000, false);
    add(&r, 8, 200, 0x1000, false);
    add(&r, 7, 200, 0x5000, false);
    assert_true(renewals_settle(&r));
    assert_true(renewals_between(&r, 7, 0x1ff8, 0x2008, 50, 100));
    assert_false(renewals_between(&r, 7, 0x1ff8, 0x2008, 100, 299)); /* 8's, and another place */
    assert_true(renewals_between(&r, 7, 0x1000, 0x1008, 100, 300));
    assert_false(renewals_between(&r, 7, 0x2000, 0x3000, 0, 1000)); /* right behind it */
    assert_false(renewals_between(&r, 7, 0xff8, 0x1000, 0, 1000));
    assert_false(renewals_between(&r, 9, 0x1000, 0x2000, 0, 1000));
    renewals_free(&r);
}

/* Places of generated code become writable and executable again by mprotect, which looks the same.
 */
static void test_code(void **state)
{
    (void)state;
    struct renewals r = {0};
    add(&r, 7, 100, 0x1000, false);
    add(&r, 7, 110, 0x1000, true);
    add(&r, 7, 200, 0x1000, false);
    add(&r, 8, 200, 0x1000, false);
    assert_true(renewals_settle(&r));
    assert_true(renewals_between(&r, 7, 0x1000, 0x1008, 50, 150));
    assert_false(renewals_between(&r, 7, 0x1000, 0x1008, 150, 250));
    assert_true(renewals_between(&r, 8, 0x1000, 0x1008, 150, 250));
    renewals_free(&r);
}

/* Small ones and such as reach over half of memory, of two processes: as if each were looked at. */
static void test_by_place(void **state)
{
    (void)state;
    enum { NR = 600 };
    struct renewals r = {0};
    uint64_t random = 1;
    for (uint64_t i = 0; i < NR; i++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        uint64_t from = (random >> 40) << 12, size = UINT64_C(0x1000) << (random >> 33 & 15);
        const struct renewal n = {
            .time = 100 + i / 3, .from = from, .to = from + size, .pid = 7 + (uint32_t)(i & 1)};
        assert_true(renewals_add(&r, &n, false));
    }
    assert_true(renewals_settle(&r));
    for (uint64_t i = 0; i < 20000; i++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        uint64_t from = (random >> 40) << 12, to = from + (UINT64_C(16) << (random >> 33 & 15));
        uint64_t after = 90 + (random >> 20) % 220, until = after + (random >> 10) % 100;
        uint32_t pid = 7 + (uint32_t)(i & 1);
        bool any = false;
        vec_foreach (n, &r.all)
            any |= n->pid == pid && n->time > after && n->time <= until && n->new_from < to &&
                   from < n->new_to;
        assert_int_equal(renewals_between(&r, pid, from, to, after, until), any);
    }
    renewals_free(&r);
}

/* Who maps all the time is not followed: what is not known counts as mapped. */
static void test_many(void **state)
{
    (void)state;
    struct renewals r = {0};
    for (uint64_t i = 0; i < 10000; i++)
        add(&r, 7, 100 + i, 0x100000 + i * 0x1000, false);
    assert_true(renewals_settle(&r));
    assert_false(renewals_between(&r, 7, 0x1000, 0x2000, 100, 200));
    assert_true(renewals_between(&r, 7, 0x1000, 0x2000, 100, 20000));
    renewals_free(&r);
}

static void add_range(struct renewals *r, uint64_t time, uint64_t from, uint64_t to)
{
    const struct renewal n = {.time = time, .from = from, .to = to, .pid = 7};
    assert_true(renewals_add(r, &n, false));
}

static void of_what_grows_the_rest_stays(void **state)
{
    (void)state;
    struct renewals r = {0};
    add_range(&r, 100, 0x8000, 0xa000);
    add_range(&r, 200, 0x6000, 0xa000);   /* downward */
    add_range(&r, 300, 0x6000, 0xc000);   /* upward */
    add_range(&r, 400, 0x8000, 0xc000);   /* smaller: it was given back before */
    add_range(&r, 500, 0x8000, 0xc000);   /* the same: likewise */
    add_range(&r, 600, 0x8000, 0x808000); /* too much at once for growth */
    assert_true(renewals_settle(&r));
    assert_true(renewals_between(&r, 7, 0x9000, 0x9008, 50, 150));
    assert_false(renewals_between(&r, 7, 0x8000, 0xa000, 150, 350));
    assert_true(renewals_between(&r, 7, 0x7ff8, 0x8008, 150, 250));
    assert_true(renewals_between(&r, 7, 0xa000, 0xa008, 250, 350));
    assert_true(renewals_between(&r, 7, 0x9000, 0x9008, 350, 450));
    assert_true(renewals_between(&r, 7, 0x9000, 0x9008, 450, 550));
    assert_true(renewals_between(&r, 7, 0x9000, 0x9008, 550, 650));
    renewals_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_between),
        cmocka_unit_test(test_by_place),
        cmocka_unit_test(test_code),
        cmocka_unit_test(test_many),
        cmocka_unit_test(of_what_grows_the_rest_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
