/* SPDX-License-Identifier: GPL-2.0-only */
/* Tests of what all code uses: the cursor, numbers as text, interned strings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/bits.h"
#include "base/cursor.h"
#include "base/intern.h"
#include "base/text.h"
#include "base/vec.h"

#include <stdio.h>

static void bits_of_words_are_counted(void **state)
{
    (void)state;
    assert_int_equal(bits_count(0), 0);
    assert_int_equal(bits_count(UINT64_MAX), 64);
    uint64_t x = 88172645463325252;
    for (unsigned i = 0; i < 10000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        uint64_t word = i % 3 ? x : x >> i % 64;
        unsigned bits = 0;
        for (uint64_t left = word; left; left &= left - 1)
            bits++;
        assert_int_equal(bits_count(word), bits);
        assert_int_equal(bits_count(UINT64_C(1) << i % 64), 1);
    }
}

static void cursor_reads_in_both_byte_orders(void **state)
{
    (void)state;
    const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct cursor c = cursor_make(bytes, sizeof(bytes), false, "f", "s", 0);
    assert_int_equal(cursor_u16(&c), 0x0201);
    assert_int_equal(cursor_u32(&c), 0x06050403);
    c = cursor_make(bytes, sizeof(bytes), true, "f", "s", 0);
    assert_int_equal(cursor_u64(&c), 0x0102030405060708);
    assert_int_equal(cursor_left(&c), 0);
}

static void cursor_fails_for_good_at_the_end(void **state)
{
    (void)state;
    const uint8_t bytes[] = {1, 2, 3};
    struct cursor c = cursor_make(bytes, sizeof(bytes), false, "file", "part", 100);
    struct error err;
    assert_int_equal(cursor_u32(&c), 0);
    assert_true(c.failed);
    assert_int_equal(cursor_u8(&c), 0); /* although one byte is left */
    assert_int_equal(cursor_error(&c, &err, "too short"), -1);
    assert_int_equal(err.kind, ERROR_TRUNCATED);
    assert_string_equal(err.text, "file: offset 0x64: part: too short");
}

static void cursor_string_needs_its_nul(void **state)
{
    (void)state;
    struct cursor c = cursor_make("ab\0cd", 5, false, "f", "s", 0);
    assert_string_equal(cursor_string(&c), "ab");
    assert_null(cursor_string(&c));
    assert_true(c.failed);
}

static void cursor_bytes_never_wraps(void **state)
{
    (void)state;
    uint8_t bytes[8] = {0};
    struct cursor c = cursor_make(bytes, sizeof(bytes), false, "f", "s", 0);
    cursor_u8(&c);
    assert_null(cursor_bytes(&c, UINT64_MAX));
    assert_true(c.failed);
}

static void leb128_of_every_length(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[11];
        uint64_t u;
        int64_t s;
    } cases[] = {
        {{0x02}, 2, 2},
        {{0x7e}, 126, -2},
        {{0xff, 0x00}, 127, 127},
        {{0x80, 0x7f}, 16256, -128},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, UINT64_MAX, -1},
        {{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f},
         UINT64_C(1) << 63,
         INT64_MIN},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct cursor c = cursor_make(cases[i].bytes, 11, false, "f", "s", 0);
        assert_true(cursor_uleb128(&c) == cases[i].u);
        c = cursor_make(cases[i].bytes, 11, false, "f", "s", 0);
        assert_true(cursor_sleb128(&c) == cases[i].s);
        assert_false(c.failed);
    }
    const uint8_t endless[] = {0x80, 0x80, 0x80};
    struct cursor c = cursor_make(endless, sizeof(endless), false, "f", "s", 0);
    cursor_uleb128(&c);
    assert_true(c.failed);
}

static void text_numbers_equal_printf(void **state)
{
    (void)state;
    static const uint64_t values[] = {0, 9, 10, 15, 16, 12345, UINT32_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        struct text t = {0};
        char expect[128];
        text_hex(&t, values[i], 16);
        text_char(&t, '|');
        text_dec(&t, values[i], 5);
        text_char(&t, '|');
        text_dec_zeros(&t, values[i], 6);
        text_char(&t, '|');
        text_hex_zeros(&t, values[i], 16);
        text_char(&t, 0);
        snprintf(expect, sizeof(expect), "%16lx|%5lu|%06lu|%016lx", values[i], values[i], values[i],
                 values[i]);
        assert_string_equal(t.at, expect);
        text_free(&t);
    }
}

/* printf rounds the exact binary value, halves to the even digit: 0.125 to 0.12, 1.005 to 1.00. */
static void text_hundredths_equal_printf(void **state)
{
    (void)state;
    static const double some[] = {0,      0.125,      0.375,   1.005,       2.675, 0.995,
                                  99.995, 100,        0.005,   1.0e-12,     1e13,  1.0e18,
                                  -0.5,   -1.0 / 3.0, 1 / 0.0, 0 / 0.0,     9.995, 12.345,
                                  5e-3,   0.015,      1e-3,    99.99499999, 4.5,   33.335};
    enum { NR = 200000, SOME = sizeof(some) / sizeof(*some) };
    uint64_t random = 1;
    for (unsigned i = 0; i < NR; i++) {
        struct text t = {0};
        char wanted[400];
        random = random * 6364136223846793005U + 1442695040888963407U;
        /* multiples of 1/1000 come close to all halves */
        double value = i < SOME ? some[i]
                       : i % 2  ? (double)(random >> 44) / 1000
                                : (double)(random >> 20) / (1U << 31);
        text_hundredths(&t, value, i % 9);
        snprintf(wanted, sizeof(wanted), "%*.2f", (int)(i % 9), value);
        assert_false(t.failed);
        assert_int_equal(t.size, strlen(wanted));
        assert_memory_equal(t.at, wanted, t.size);
        text_free(&t);
    }
}

static void text_printf_grows(void **state)
{
    (void)state;
    struct text t = {0};
    for (int i = 0; i < 5000; i++)
        text_printf(&t, "%d,", i % 10);
    assert_int_equal(t.size, 10000);
    assert_memory_equal(t.at + 9996, "8,9,", 4);
    text_free(&t);
}

static void the_mark_of_a_deleted_file_is_no_part_of_its_path(void **state)
{
    (void)state;
    assert_int_equal(text_undeleted("/tmp/a (deleted)"), 6);
    assert_int_equal(text_undeleted("/tmp/a (deleted) (deleted)"), 16);
    assert_int_equal(text_undeleted("/tmp/a"), 6);
    assert_int_equal(text_undeleted(" (deleted)"), 10); /* there must be a path */
    assert_int_equal(text_undeleted("(deleted)"), 9);
    assert_int_equal(text_undeleted(""), 0);
}

static void interned_strings_are_one(void **state)
{
    (void)state;
    struct intern *in = intern_create();
    const char *first[2000];
    char name[32];
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof(name), "name %d", i);
        first[i] = intern_string(in, name);
        assert_string_equal(first[i], name);
    }
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof(name), "name %d and more", i);
        assert_ptr_equal(intern_bytes(in, name, strlen(name) - 9), first[i]);
    }
    assert_ptr_not_equal(intern_bytes(in, "a\0b", 3), intern_bytes(in, "a\0c", 3));
    intern_free(in);
}

static void vec_grows_and_keeps(void **state)
{
    (void)state;
    VEC(int) v = {0};
    for (int i = 0; i < 1000; i++)
        assert_true(vec_push(&v, i));
    int expect = 0;
    vec_foreach (p, &v)
        assert_int_equal(*p, expect++);
    assert_int_equal(expect, 1000);
    vec_free(&v);
    assert_null(v.at);
}

static void arena_gives_aligned_places_that_stay(void **state)
{
    (void)state;
    enum { NR = 400, LARGE = 200000 };
    struct arena a = {0};
    char *places[NR];
    size_t sum = 0;
    for (size_t i = 0; i < NR; i++) {
        size_t size = i % 50 == 49 ? LARGE : i + 1;
        places[i] = arena_get(&a, size);
        assert_non_null(places[i]);
        assert_int_equal((uintptr_t)places[i] % 16, 0);
        memset(places[i], (int)(i % 251), size);
        sum += size;
    }
    for (size_t i = 0; i < NR; i++) {
        size_t size = i % 50 == 49 ? LARGE : i + 1;
        assert_int_equal((unsigned char)places[i][0], i % 251);
        assert_int_equal((unsigned char)places[i][size - 1], i % 251);
    }
    assert_true(a.size >= sum);
    arena_free(&a);
    assert_int_equal(a.size, 0);
    assert_null(a.blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_words_are_counted),
        cmocka_unit_test(cursor_reads_in_both_byte_orders),
        cmocka_unit_test(cursor_fails_for_good_at_the_end),
        cmocka_unit_test(cursor_string_needs_its_nul),
        cmocka_unit_test(cursor_bytes_never_wraps),
        cmocka_unit_test(leb128_of_every_length),
        cmocka_unit_test(text_numbers_equal_printf),
        cmocka_unit_test(text_hundredths_equal_printf),
        cmocka_unit_test(text_printf_grows),
        cmocka_unit_test(the_mark_of_a_deleted_file_is_no_part_of_its_path),
        cmocka_unit_test(interned_strings_are_one),
        cmocka_unit_test(vec_grows_and_keeps),
        cmocka_unit_test(arena_gives_aligned_places_that_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
