/* SPDX-License-Identifier: GPL-2.0-only */
/* Frames known from earlier walks: the times for which they are valid. */
#include "unwind/v8/frame_cache.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const uint64_t of[V8_SEEN_FRAMES] = {11, 22};
static const struct v8_frame_cache_key A = {{1, 2, 3, 4}}, B = {{1, 2, 3, 5}};

static void test_span(void **state)
{
    struct v8_frame_cache *s = v8_frame_cache_create(0);
    const struct frame frames[] = {{.kind = FRAME_JS, .function = 7},
                                   {.kind = FRAME_JS, .function = 8}};
    size_t nr;
    const uint64_t *bytecode;
    (void)state;
    assert_null(v8_frame_cache_recall(s, &A, 100, &nr, &bytecode));
    v8_frame_cache_note(s, &A, 100, 200, frames, of, 2);
    assert_null(v8_frame_cache_recall(s, &A, 99, &nr, &bytecode));
    assert_null(v8_frame_cache_recall(s, &A, 201, &nr, &bytecode));
    assert_null(v8_frame_cache_recall(s, &B, 150, &nr, &bytecode));
    const struct frame *got = v8_frame_cache_recall(s, &A, 200, &nr, &bytecode);
    assert_int_equal(nr, 2);
    assert_int_equal(got[1].function, 8);
    assert_int_equal(bytecode[1], 22);
    v8_frame_cache_note(s, &A, 1, 0, frames, of, 1); /* an empty span: never valid */
    assert_null(v8_frame_cache_recall(s, &A, 1, &nr, &bytecode));
    v8_frame_cache_note(s, &A, 100, 200, frames, of, 1);
    v8_frame_cache_forget(s);
    assert_null(v8_frame_cache_recall(s, &A, 150, &nr, &bytecode));
    v8_frame_cache_free(s);
}

static void test_many_frames(void **state)
{
    struct v8_frame_cache *s = v8_frame_cache_create(0);
    const struct frame frames[100] = {{.kind = FRAME_JS, .function = 7}};
    size_t nr;
    const uint64_t *bytecode;
    (void)state;
    /* either all of them or none */
    v8_frame_cache_note(s, &A, 100, 200, frames, of, 100);
    assert_true(!v8_frame_cache_recall(s, &A, 150, &nr, &bytecode) || nr == 100);
    v8_frame_cache_free(s);
}

static void test_keep(void **state)
{
    struct v8_frame_cache *s = v8_frame_cache_create(50);
    const struct frame frame = {.kind = FRAME_JS, .function = 7};
    size_t nr;
    const uint64_t *bytecode;
    (void)state;
    v8_frame_cache_note(s, &A, 100, 100, &frame, of, 1);
    assert_non_null(v8_frame_cache_recall(s, &A, 150, &nr, &bytecode));
    assert_null(v8_frame_cache_recall(s, &A, 151, &nr, &bytecode));
    v8_frame_cache_free(s);
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
