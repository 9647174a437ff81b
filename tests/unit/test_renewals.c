/* SPDX-License-Identifier: GPL-2.0-only */
/* Which memory was mapped anew between two moments. */
#include "session/renewals.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static void add(struct renewals *r, uint32_t pid, uint64_t time, uint64_t from, bool executable)
{
    const struct renewal n = {.time = time,
                              .from = from,
                              .to = from + 0x1000,
                              .pid = pid,
                              .kind = executable ? RENEWAL_CODE : RENEWAL_DATA};
    assert_true(renewals_add(r, &n));
}

static void test_between(void **state)
{
    (void)state;
    struct renewals r = {0};
    add(&r, 7, 300, 0x1000, false);
    add(&r, 7, 100, 0x1000, false);
    add(&r, 8, 200, 0x1000, false);
    add(&r, 7, 200, 0x5000, false);
    assert_true(renewals_seal(&r));
    assert_true(renewals_between(&r, 7, 0x1ff8, 0x2008, 50, 100));
    /* only pid 8 mapped here, and pid 7 at another address */
    assert_false(renewals_between(&r, 7, 0x1ff8, 0x2008, 100, 299));
    assert_true(renewals_between(&r, 7, 0x1000, 0x1008, 100, 300));
    assert_false(renewals_between(&r, 7, 0x2000, 0x3000, 0, 1000)); /* just behind it */
    assert_false(renewals_between(&r, 7, 0xff8, 0x1000, 0, 1000));
    assert_false(renewals_between(&r, 9, 0x1000, 0x2000, 0, 1000));
    renewals_free(&r);
}

/* mprotect makes places of generated code writable and executable again, which looks the same as a
 * new mapping. */
static void test_code(void **state)
{
    (void)state;
    struct renewals r = {0};
    add(&r, 7, 100, 0x1000, false);
    add(&r, 7, 110, 0x1000, true);
    add(&r, 7, 200, 0x1000, false);
    add(&r, 8, 200, 0x1000, false);
    assert_true(renewals_seal(&r));
    assert_true(renewals_between(&r, 7, 0x1000, 0x1008, 50, 150));
    assert_false(renewals_between(&r, 7, 0x1000, 0x1008, 150, 250));
    assert_true(renewals_between(&r, 8, 0x1000, 0x1008, 150, 250));
    renewals_free(&r);
}

/* Small mappings and mappings over half of memory, of two processes: the result is as if each
 * mapping were looked at. */
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
        assert_true(renewals_add(&r, &n));
    }
    assert_true(renewals_seal(&r));
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

/* A process that maps all the time is not followed: unknown memory counts as mapped. */
static void test_many(void **state)
{
    (void)state;
    struct renewals r = {0};
    for (uint64_t i = 0; i < 10000; i++)
        add(&r, 7, 100 + i, 0x100000 + i * 0x1000, false);
    assert_true(renewals_seal(&r));
    assert_false(renewals_between(&r, 7, 0x1000, 0x2000, 100, 200));
    assert_true(renewals_between(&r, 7, 0x1000, 0x2000, 100, 20000));
    renewals_free(&r);
}

static void add_kind(struct renewals *r, uint64_t time, uint64_t from, uint64_t to,
                     enum renewal_kind kind)
{
    const struct renewal n = {.time = time, .from = from, .to = to, .pid = 7, .kind = kind};
    assert_true(renewals_add(r, &n));
}

static void add_range(struct renewals *r, uint64_t time, uint64_t from, uint64_t to)
{
    add_kind(r, time, from, to, RENEWAL_DATA);
}

static void of_what_grows_the_rest_stays(void **state)
{
    (void)state;
    struct renewals r = {0};
    add_range(&r, 100, 0x8000, 0xa000);
    add_range(&r, 200, 0x6000, 0xa000);   /* grows downward */
    add_range(&r, 300, 0x6000, 0xc000);   /* grows upward */
    add_range(&r, 400, 0x8000, 0xc000);   /* smaller: it was given back before */
    add_range(&r, 500, 0x8000, 0xc000);   /* the same size: likewise */
    add_range(&r, 600, 0x8000, 0x808000); /* too much at once for growth */
    assert_true(renewals_seal(&r));
    assert_true(renewals_between(&r, 7, 0x9000, 0x9008, 50, 150));
    assert_false(renewals_between(&r, 7, 0x8000, 0xa000, 150, 350));
    assert_true(renewals_between(&r, 7, 0x7ff8, 0x8008, 150, 250));
    assert_true(renewals_between(&r, 7, 0xa000, 0xa008, 250, 350));
    assert_true(renewals_between(&r, 7, 0x9000, 0x9008, 350, 450));
    assert_true(renewals_between(&r, 7, 0x9000, 0x9008, 450, 550));
    assert_true(renewals_between(&r, 7, 0x9000, 0x9008, 550, 650));
    renewals_free(&r);
}

/* Code in the middle of a heap or at its end is made writable, which makes it one mapping with the
 * heap; then it is executable again. */
static void code_beside_data_leaves_it(void **state)
{
    (void)state;
    struct renewals r = {0};
    add_range(&r, 100, 0x8000, 0xa000);
    add_range(&r, 200, 0x6000, 0xa000); /* an area for code */
    add_kind(&r, 210, 0x6000, 0x8000, RENEWAL_CODE);
    add_range(&r, 220, 0x6000, 0xa000); /* made writable */
    add_kind(&r, 230, 0x6000, 0x8000, RENEWAL_CODE);
    add_range(&r, 240, 0x4000, 0x6000); /* heap on the other side of the code */
    add_range(&r, 250, 0x4000, 0xa000); /* made writable */
    add_kind(&r, 260, 0x6000, 0x8000, RENEWAL_CODE);
    add_range(&r, 270, 0x4000, 0xa000); /* made writable */
    /* no code in between: the heap was given back and mapped anew */
    add_range(&r, 300, 0x4000, 0xa000);
    add_kind(&r, 310, 0x6000, 0x8000, RENEWAL_CODE);
    /* a part was given back: not the known range */
    add_range(&r, 320, 0x5000, 0xa000);
    assert_true(renewals_seal(&r));
    assert_false(renewals_between(&r, 7, 0x8000, 0xa000, 100, 299));
    assert_true(renewals_between(&r, 7, 0x6000, 0x6008, 210, 220));
    assert_true(renewals_between(&r, 7, 0x4000, 0x4008, 239, 240));
    assert_false(renewals_between(&r, 7, 0x4000, 0x6000, 240, 269));
    assert_true(renewals_between(&r, 7, 0x8000, 0x8008, 270, 300));
    assert_true(renewals_between(&r, 7, 0x9000, 0x9008, 300, 320));
    renewals_free(&r);
}

/* A VM is closed, which no record tells, and the next VM's heap takes the place of its code and of
 * the heap below. The records are those of code that becomes writable, but it does not become code
 * again. */
static void heap_in_place_of_code_is_all_new(void **state)
{
    (void)state;
    struct renewals r = {0};
    add_range(&r, 100, 0x4000, 0xa000);
    add_kind(&r, 110, 0x6000, 0x8000, RENEWAL_CODE);
    add_range(&r, 200, 0x4000, 0xa000);
    add_kind(&r, 210, 0x5000, 0x6000, RENEWAL_CODE);        /* some other code */
    add_kind(&r, 1000000000, 0x6000, 0x8000, RENEWAL_CODE); /* much later */
    assert_true(renewals_seal(&r));
    assert_false(renewals_between(&r, 7, 0x4000, 0xa000, 100, 199));
    assert_true(renewals_between(&r, 7, 0x4000, 0x4008, 199, 200));
    renewals_free(&r);

    add_range(&r, 100, 0x4000, 0xa000);
    add_kind(&r, 110, 0x6000, 0x8000, RENEWAL_CODE);
    add_range(&r, 200, 0x4000, 0xa000);
    add_kind(&r, 210, 0x6000, 0x7000, RENEWAL_CODE); /* a smaller one */
    assert_true(renewals_seal(&r));
    assert_true(renewals_between(&r, 7, 0x4000, 0x4008, 199, 200));
    renewals_free(&r);

    /* The heap below is closed while the code stays code, and another, larger heap takes its
     * place. */
    add_range(&r, 100, 0x4000, 0xa000);
    add_kind(&r, 110, 0x6000, 0x8000, RENEWAL_CODE);
    add_range(&r, 120, 0x6000, 0xa000);
    add_range(&r, 130, 0x3000, 0xa000);
    assert_true(renewals_seal(&r));
    assert_true(renewals_between(&r, 7, 0x4000, 0x4008, 120, 130));
    renewals_free(&r);
}

/* A shut mapping is no data that could grow: it is the heap in an allocator's reserve that
 * grows. */
static void a_reserve_is_no_data(void **state)
{
    (void)state;
    struct renewals r = {0};
    add_kind(&r, 100, 0x10000, 0x20000, RENEWAL_SHUT);
    add_range(&r, 200, 0x10000, 0x12000);
    add_range(&r, 300, 0x10000, 0x13000);
    add_kind(&r, 400, 0x11000, 0x13000, RENEWAL_SHUT); /* what was in this range is gone */
    assert_true(renewals_seal(&r));
    assert_true(renewals_between(&r, 7, 0x10000, 0x10008, 100, 200));
    assert_false(renewals_between(&r, 7, 0x10000, 0x12000, 200, 300));
    assert_true(renewals_between(&r, 7, 0x12000, 0x12008, 200, 300));
    assert_true(renewals_between(&r, 7, 0x12000, 0x12008, 300, 400));
    renewals_free(&r);
}

/* When one record covers two pieces of data and two gaps, more than one mapping was made in
 * between. */
static void two_gaps_are_all_new(void **state)
{
    (void)state;
    struct renewals r = {0};
    add_range(&r, 100, 0x1000, 0x2000);
    add_range(&r, 200, 0x3000, 0x4000);
    add_range(&r, 300, 0x1000, 0x5000);
    assert_true(renewals_seal(&r));
    assert_true(renewals_between(&r, 7, 0x1000, 0x1008, 200, 300));
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
        cmocka_unit_test(code_beside_data_leaves_it),
        cmocka_unit_test(heap_in_place_of_code_is_all_new),
        cmocka_unit_test(a_reserve_is_no_data),
        cmocka_unit_test(two_gaps_are_all_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
