/* SPDX-License-Identifier: GPL-2.0-only */
/* Places of variables that move with their frames, and lists of variables within their bounds. */
#include "unwind/variable.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct frame frame_of(uint64_t pc)
{
    return (struct frame){.pc = pc, .kind = FRAME_LUA, .function = (uint32_t)pc};
}

static void note(struct variable_places *p, size_t index, uint64_t pc)
{
    const struct variable_place place = {.word = {pc}};
    const struct frame f = frame_of(pc);
    variable_places_note(p, &place, index, &f);
}

static void set(struct variable_places *p, size_t index, uint64_t pc)
{
    const struct variable_place place = {.word = {pc}};
    const struct frame f = frame_of(pc);
    variable_places_set(p, &place, index, &f);
}

/* The place of a frame, by its first word; 0: none. */
static uint64_t found(struct variable_places *p, size_t index, uint64_t pc)
{
    const struct frame f = frame_of(pc);
    const struct variable_place *at = variable_places_find(p, index, &f);
    return at ? at->word[0] : 0;
}

static void test_frames_that_were_taken_back_have_no_place(void **state)
{
    struct variable_places p = {0};
    (void)state;
    note(&p, 1, 10);
    note(&p, 2, 20);
    note(&p, 3, 30);
    note(&p, 2, 21); /* the walk has gone back to 2 */
    assert_int_equal(found(&p, 1, 10), 10);
    assert_int_equal(found(&p, 2, 21), 21);
    assert_int_equal(found(&p, 2, 20), 0);
    assert_int_equal(found(&p, 3, 30), 0);
    assert_int_equal(found(&p, 1, 11), 0); /* another frame has taken its place */
    variable_places_free(&p);
}

/* A runtime puts two frames in place of the native frame 3, and one in front of 6, where another
 * runtime has frames at 2, 5 and 8. It sets its places before it says what has moved. */
static void test_places_move_with_their_frames(void **state)
{
    struct variable_places p = {0};
    (void)state;
    note(&p, 2, 20);
    note(&p, 5, 50);
    note(&p, 8, 80);
    set(&p, 3, 31);
    set(&p, 4, 32);
    variable_places_moved(&p, 3, 1);
    set(&p, 7, 61);
    variable_places_moved(&p, 7, 1);
    assert_int_equal(found(&p, 2, 20), 20);
    assert_int_equal(found(&p, 3, 31), 31);
    assert_int_equal(found(&p, 4, 32), 32);
    assert_int_equal(found(&p, 6, 50), 50);
    assert_int_equal(found(&p, 7, 61), 61);
    assert_int_equal(found(&p, 10, 80), 80);
    assert_int_equal(found(&p, 5, 50), 0);
    variable_places_free(&p);
}

static void test_a_list_is_bounded(void **state)
{
    struct variables v = {0};
    const struct variables_wanted wanted = {
        .depth = 99, .string_max = 10, .variables_max = 3, .bytes_max = 1 << 10};
    (void)state;
    variables_begin(&v, &wanted);
    assert_int_equal(v.wanted.depth, VARIABLES_DEPTH_MAX);
    for (unsigned i = 0; i < 3; i++)
        assert_non_null(variables_add(&v, VARIABLE_LOCAL, 7 * i));
    assert_int_equal(v.at.at[0].depth, 0); /* a field needs what it is a field of */
    assert_int_equal(v.at.at[1].depth, 1);
    assert_int_equal(v.at.at[2].depth, 2);
    assert_false(v.is_cut);
    assert_null(variables_add(&v, VARIABLE_LOCAL, 0));
    assert_true(v.is_cut);
    assert_false(variables_wants_fields(&v, 0));
    variables_free(&v);
}

static void check_string(const char *string, size_t size, const char *want, bool is_cut)
{
    struct variables v = {0};
    struct variables_wanted wanted = variables_wanted_default();
    wanted.string_max = 5;
    variables_begin(&v, &wanted);
    struct variable *of = variables_add(&v, VARIABLE_LOCAL, 0);
    assert_non_null(of);
    variable_set_string(&v, of, string, size, size);
    assert_int_equal(of->length, size);
    assert_int_equal(of->text.size, strlen(want));
    assert_memory_equal(variable_bytes(&v, of->text), want, strlen(want));
    assert_int_equal(of->is_cut, is_cut);
    variables_free(&v);
}

static void test_strings_are_cut_between_characters(void **state)
{
    (void)state;
    check_string("", 0, "", false);
    check_string("abcde", 5, "abcde", false);
    check_string("abcdef", 6, "abcde", true);
    check_string("abcd\xc3\xbc", 6, "abcd", true);
    check_string("abc\xc3\xbcx", 6, "abc\xc3\xbc", true);
    check_string("a\xf0\x9f\x98\x80z", 6, "a\xf0\x9f\x98\x80", true);
    check_string("abc\xf0\x9f\x98\x80", 7, "abc", true);
    check_string("\x80\x80\x80\x80\x80\x80", 6, "\x80\x80\x80\x80\x80", true);
}

static void check_number(enum value_kind kind, double value, const char *want)
{
    char text[VARIABLE_NUMBER_MAX];
    variable_write_number(text, kind, value);
    assert_string_equal(text, want);
}

static void test_numbers_are_short_and_read_back(void **state)
{
    (void)state;
    check_number(VALUE_NUMBER, 3, "3");
    check_number(VALUE_FLOAT, 3, "3.0");
    check_number(VALUE_FLOAT, 1e300, "1e+300");
    check_number(VALUE_NUMBER, 0.1, "0.1");
    check_number(VALUE_NUMBER, 0.1 + 0.2, "0.30000000000000004");
    check_number(VALUE_NUMBER, -0.0, "-0");
    check_number(VALUE_FLOAT, -1.0 / 0.0, "-inf");
    check_number(VALUE_FLOAT, 0.0 / 0.0, "nan");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_that_were_taken_back_have_no_place),
        cmocka_unit_test(test_places_move_with_their_frames),
        cmocka_unit_test(test_a_list_is_bounded),
        cmocka_unit_test(test_strings_are_cut_between_characters),
        cmocka_unit_test(test_numbers_are_short_and_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
