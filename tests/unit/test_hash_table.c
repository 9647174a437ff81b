/* SPDX-License-Identifier: GPL-2.0-only */
/* The hash table of numbers. This test has its own heap_table(), which can be out of memory. */
#include "base/hash.h"
#include "base/hash_table.h"
#include "base/heap.h"
#include "base/table.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static size_t allocations_left = SIZE_MAX;

void *heap_table(size_t nr, size_t size)
{
    return allocations_left && allocations_left-- ? calloc(nr, size) : NULL;
}

struct pair {
    uint64_t key;
    unsigned value;
};

struct pairs {
    VEC(struct pair) at;
    struct hash_table table;
    unsigned compared;
};

static bool same(struct pairs *p, uint32_t i, uint64_t key)
{
    p->compared++;
    return p->at.at[i].key == key;
}

static uint32_t find(struct pairs *p, uint64_t hash, uint64_t key)
{
    return hash_table_find(&p->table, hash, i, same(p, i, key));
}

static uint32_t intern(struct pairs *p, uint64_t hash, uint64_t key)
{
    return hash_table_intern(&p->table, hash, &p->at, i, same(p, i, key), (struct pair){key, 1});
}

static void pairs_free(struct pairs *p)
{
    hash_table_free(&p->table);
    vec_free(&p->at);
}

static void test_empty_table_has_nothing(void **state)
{
    (void)state;
    struct pairs p = {0};
    assert_int_equal(find(&p, 0, 0), HASH_TABLE_NONE);
    assert_int_equal(find(&p, UINT64_MAX, 0), HASH_TABLE_NONE);
    hash_table_remove(&p.table, 0, 0);
    hash_table_clear(&p.table);
    hash_table_free(&p.table);
    assert_null(p.table.slots);
}

static void test_equal_things_have_one_number(void **state)
{
    (void)state;
    struct pairs p = {0};
    assert_int_equal(intern(&p, hash_u64(7), 7), 0);
    assert_int_equal(intern(&p, hash_u64(8), 8), 1);
    assert_int_equal(intern(&p, hash_u64(7), 7), 0);
    assert_int_equal(p.at.nr, 2);
    assert_int_equal(find(&p, hash_u64(8), 8), 1);
    assert_int_equal(find(&p, hash_u64(9), 9), HASH_TABLE_NONE);
    pairs_free(&p);
}

static void test_growth_keeps_all_and_the_load_is_bounded(void **state)
{
    (void)state;
    enum { NR = 100000 };
    struct pairs p = {0};
    for (uint32_t i = 0; i < NR; i++) {
        assert_int_equal(intern(&p, hash_u64(i), i), i);
        assert_true(2 * p.table.nr <= p.table.cap);
        assert_true(p.table.cap <= 4 * p.table.nr + 64);
        assert_int_equal(p.table.cap & (p.table.cap - 1), 0);
    }
    for (uint32_t i = 0; i < NR; i++)
        assert_int_equal(find(&p, hash_u64(i), i), i);
    for (uint32_t i = NR; i < 2 * NR; i++)
        assert_int_equal(find(&p, hash_u64(i), i), HASH_TABLE_NONE);
    pairs_free(&p);
}

/* All have the same place; those with the same upper half of the hash need the comparison. */
static void test_collisions_are_told_apart(void **state)
{
    (void)state;
    struct pairs p = {0};
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(intern(&p, 0, i), i);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(find(&p, 0, i), i);
    assert_int_equal(find(&p, 0, 100), HASH_TABLE_NONE);
    p.compared = 0;
    assert_int_equal(find(&p, UINT64_C(1) << 63, 5), HASH_TABLE_NONE); /* same place, other hash */
    assert_int_equal(p.compared, 0);
    pairs_free(&p);
}

/* The last slots are full: what belongs there goes on in the first ones, and comes back. */
static void test_a_run_goes_around_the_end(void **state)
{
    (void)state;
    struct pairs p = {0};
    const uint64_t last = UINT64_C(63) << 32;
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(intern(&p, last, i), i);
    assert_int_equal(intern(&p, 0, 4), 4);
    assert_int_equal(p.table.cap, 64);
    assert_int_equal((uint32_t)p.table.slots[0], 2);
    hash_table_remove(&p.table, last, 0);
    for (uint32_t i = 1; i < 4; i++)
        assert_int_equal(find(&p, last, i), i);
    assert_int_equal(find(&p, 0, 4), 4);
    assert_int_equal(find(&p, last, 0), HASH_TABLE_NONE);
    pairs_free(&p);
}

/* Against an array: each key is there if and only if it was added later than removed. */
static void test_removal(void **state)
{
    (void)state;
    enum { KEYS = 500, STEPS = 20000 };
    struct pairs p = {0};
    bool there[KEYS] = {0};
    size_t nr = 0;
    for (uint32_t i = 0; i < KEYS; i++)
        assert_true(vec_push(&p.at, (struct pair){i, 0}));
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t key = (uint32_t)(hash_u64(step) % KEYS);
        uint64_t hash = hash_u64(key) & ~(UINT64_C(0xfff0) << 32); /* long runs */
        assert_int_equal(find(&p, hash, key), there[key] ? key : HASH_TABLE_NONE);
        if (there[key])
            hash_table_remove(&p.table, hash, key);
        else
            assert_true(hash_table_add(&p.table, hash, key));
        there[key] = !there[key];
        nr += there[key] ? 1 : -(size_t)1;
        assert_int_equal(p.table.nr, nr);
    }
    for (uint32_t key = 0; key < KEYS; key++) {
        uint64_t hash = hash_u64(key) & ~(UINT64_C(0xfff0) << 32);
        assert_int_equal(find(&p, hash, key), there[key] ? key : HASH_TABLE_NONE);
        hash_table_remove(&p.table, hash, key); /* nothing happens if it is not there */
        hash_table_remove(&p.table, hash, HASH_TABLE_NONE);
    }
    assert_int_equal(p.table.nr, 0);
    for (size_t i = 0; i < p.table.cap; i++)
        assert_int_equal(p.table.slots[i], 0);
    pairs_free(&p);
}

static void test_replacement(void **state)
{
    (void)state;
    struct pairs p = {0};
    for (uint32_t i = 0; i < 40; i++) /* things 20 to 39 are later versions of 0 to 19 */
        assert_true(vec_push(&p.at, (struct pair){i % 20, 0}));
    for (uint32_t i = 0; i < 20; i++)
        assert_true(hash_table_add(&p.table, 0, i));
    hash_table_replace(&p.table, 0, 7, 27);
    hash_table_replace(&p.table, 0, 30, 31);        /* 30 is not there */
    hash_table_replace(&p.table, 1ul << 32, 8, 28); /* nor is 8 with this hash */
    hash_table_replace(&p.table, 0, 9, HASH_TABLE_NONE);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(find(&p, 0, i), i == 7 ? 27 : i);
    assert_int_equal(p.table.nr, 20);
    pairs_free(&p);
}

static void test_a_cleared_table_is_empty_and_serves_again(void **state)
{
    (void)state;
    struct pairs p = {0};
    for (uint32_t i = 0; i < 1000; i++)
        intern(&p, hash_u64(i), i);
    size_t cap = p.table.cap;
    hash_table_clear(&p.table);
    p.at.nr = 0;
    assert_int_equal(p.table.cap, cap);
    assert_int_equal(find(&p, hash_u64(5), 5), HASH_TABLE_NONE);
    assert_int_equal(intern(&p, hash_u64(5), 5), 0);
    pairs_free(&p);
}

static void test_out_of_memory_changes_nothing(void **state)
{
    (void)state;
    struct pairs p = {0};
    allocations_left = 0;
    assert_int_equal(intern(&p, hash_u64(0), 0), HASH_TABLE_NONE);
    assert_false(hash_table_add(&p.table, 0, 0));
    assert_int_equal(p.at.nr, 0);
    allocations_left = 1;
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(intern(&p, hash_u64(i), i), i);
    assert_int_equal(intern(&p, hash_u64(32), 32), HASH_TABLE_NONE);
    assert_int_equal(p.at.nr, 32);
    assert_int_equal(p.table.nr, 32);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(intern(&p, hash_u64(i), i), i);
    allocations_left = SIZE_MAX;
    assert_int_equal(intern(&p, hash_u64(32), 32), 32);
    pairs_free(&p);
}

static void test_a_number_that_has_no_room_is_refused(void **state)
{
    (void)state;
    struct hash_table t = {0};
    assert_false(hash_table_add(&t, 1, HASH_TABLE_NONE));
    assert_false(hash_table_add(&t, 1, SIZE_MAX));
    assert_true(hash_table_add(&t, 1, HASH_TABLE_NONE - 1));
    assert_int_equal(hash_table_find(&t, 1, i, i != 0), HASH_TABLE_NONE - 1);
    hash_table_free(&t);
}

/* struct table: numbers to pointers. */
static void test_table_keeps_the_others_when_one_is_removed(void **state)
{
    (void)state;
    enum { NR = 300 };
    static char values[NR];
    struct table t = {0};
    assert_null(table_get(&t, 0));
    table_remove(&t, 0);
    for (uint64_t key = 0; key < NR; key++)
        assert_true(table_put(&t, key, &values[0]) && table_put(&t, key, &values[key]));
    assert_int_equal(t.nr, NR);
    for (uint64_t key = 0; key < NR; key += 3)
        table_remove(&t, key);
    table_remove(&t, NR - 1); /* the last one has nobody to move */
    for (uint64_t key = 0; key < NR; key++)
        assert_ptr_equal(table_get(&t, key), key % 3 && key != NR - 1 ? &values[key] : NULL);
    size_t nr = 0;
    vec_foreach (e, &t) {
        assert_ptr_equal(e->value, &values[e->key]);
        nr++;
    }
    assert_int_equal(nr, NR - NR / 3 - 1);
    table_free(&t);
    assert_null(table_get(&t, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_table_has_nothing),
        cmocka_unit_test(test_equal_things_have_one_number),
        cmocka_unit_test(test_growth_keeps_all_and_the_load_is_bounded),
        cmocka_unit_test(test_collisions_are_told_apart),
        cmocka_unit_test(test_a_run_goes_around_the_end),
        cmocka_unit_test(test_removal),
        cmocka_unit_test(test_replacement),
        cmocka_unit_test(test_a_cleared_table_is_empty_and_serves_again),
        cmocka_unit_test(test_out_of_memory_changes_nothing),
        cmocka_unit_test(test_table_keeps_the_others_when_one_is_removed),
        cmocka_unit_test(test_a_number_that_has_no_room_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
