/* SPDX-License-Identifier: GPL-2.0-only */
/* Frames known from earlier walks: for which times they hold. */
#include "unwind/v8/seen.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct v8_seen_key A = {{1, 2, 3, 4}}, B = {{1, 2, 3, 5}};

static void test_span(void **state)
{
    struct v8_seen *s = v8_seen_create(0);
    const struct frame frames[] = {{.kind = FRAME_JS, .function = 7},
                                   {.kind = FRAME_JS, .function = 8}};
    size_t nr;
    (void)state;
    assert_null(v8_seen_recall(s, &A, 100, &nr));
    v8_seen_note(s, &A, 100, 200, frames, 2);
    assert_null(v8_seen_recall(s, &A, 99, &nr));
    assert_null(v8_seen_recall(s, &A, 201, &nr));
    assert_null(v8_seen_recall(s, &B, 150, &nr));
    const struct frame *got = v8_seen_recall(s, &A, 200, &nr);
    assert_int_equal(nr, 2);
    assert_int_equal(got[1].function, 8);
    v8_seen_note(s, &A, 1, 0, frames, 1); /* never the same */
    assert_null(v8_seen_recall(s, &A, 1, &nr));
    v8_seen_note(s, &A, 100, 200, frames, 1);
    v8_seen_forget(s);
    assert_null(v8_seen_recall(s, &A, 150, &nr));
    v8_seen_free(s);
}

static void test_many_frames(void **state)
{
    struct v8_seen *s = v8_seen_create(0);
    const struct frame frames[100] = {{.kind = FRAME_JS, .function = 7}};
    size_t nr;
    (void)state;
    v8_seen_note(s, &A, 100, 200, frames, 100); /* either all of them or none */
    assert_true(!v8_seen_recall(s, &A, 150, &nr) || nr == 100);
    v8_seen_free(s);
}

static void test_keep(void **state)
{
    struct v8_seen *s = v8_seen_create(50);
    const struct frame frame = {.kind = FRAME_JS, .function = 7};
    size_t nr;
    (void)state;
    v8_seen_note(s, &A, 100, 100, &frame, 1);
    assert_non_null(v8_seen_recall(s, &A, 150, &nr));
    assert_null(v8_seen_recall(s, &A, 151, &nr));
    v8_seen_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_span),
        cmocka_unit_test(test_many_frames),
        cmocka_unit_test(test_keep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
