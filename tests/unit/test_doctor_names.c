/* SPDX-License-Identifier: GPL-2.0-only */
/* Names that V8 writes, compared with functions read from memory. */
#include "output/doctor_names.h"

#include "jitdump/jitdump.h"
#include "unwind/frame.h"
#include "unwind/managed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct managed_function js(const char *name, const char *file, uint32_t line,
                                  uint32_t column)
{
    return (struct managed_function){.kind = MANAGED_FUNCTION,
                                     .language = FRAME_JS,
                                     .name = name,
                                     .file = file,
                                     .line = line,
                                     .column = column};
}

static bool is_of(const char *name, struct managed_function g)
{
    return v8_name_is_of(name, &g);
}

static void kinds_and_tiers_are_no_part_of_a_name(void **state)
{
    (void)state;
    assert_string_equal(v8_name_function("JS:~meth /a.js:2:45"), "meth /a.js:2:45");
    assert_string_equal(v8_name_function("JS:o*meth /a.js:2:45"), "meth /a.js:2:45");
    assert_string_equal(v8_name_function("JS:+'inner /a.js:2:45"), "inner /a.js:2:45");
    assert_string_equal(v8_name_function("JS:*only /a.js:2:45"), "only /a.js:2:45");
    assert_string_equal(v8_name_function("LazyCompile:*meth /a.js:2"), "meth /a.js:2");
    assert_string_equal(v8_name_function("Eval:~ /a.js:1"), " /a.js:1");
    assert_null(v8_name_function("Builtin:ArrayMap"));
    assert_null(v8_name_function("BytecodeHandler:Add"));
    assert_null(v8_name_function("RegExp:a(b+)c"));
    assert_null(v8_name_function("TRACE_7::app.lua:3"));
}

static void what_may_be_cut_is_not_compared(void **state)
{
    (void)state;
    char name[520] = "JS:~";
    memset(name + 4, 'x', 508);
    assert_null(v8_name_function(name));
    name[400] = 0;
    assert_non_null(v8_name_function(name));
}

static void the_place_has_to_be_the_same(void **state)
{
    (void)state;
    assert_true(is_of("JS:*f /x/a.js:2:45", js("f", "/x/a.js", 2, 45)));
    assert_true(is_of("LazyCompile:*f /x/a.js:2", js("f", "/x/a.js", 2, 45)));
    assert_true(is_of("JS:*f file:///x/a.mjs:2:45", js("f", "file:///x/a.mjs", 2, 45)));
    assert_false(is_of("JS:*f /x/a.js:2:44", js("f", "/x/a.js", 2, 45)));
    assert_false(is_of("JS:*f /x/a.js:3:45", js("f", "/x/a.js", 2, 45)));
    assert_false(is_of("JS:*f /x/b.js:2:45", js("f", "/x/a.js", 2, 45)));
    assert_false(is_of("JS:*f /x/a.js:12:45", js("f", "/x/a.js", 2, 45)));
}

static void of_the_name_the_last_part_has_to_be(void **state)
{
    (void)state;
    assert_true(is_of("JS:*meth /a.js:2:4", js("Class.meth", "/a.js", 2, 4)));
    assert_true(is_of("JS:*Class /a.js:2:4", js("new Class", "/a.js", 2, 4)));
    assert_true(is_of("JS:*exports.f /a.js:2:4", js("f", "/a.js", 2, 4)));
    assert_true(is_of("JS:* /a.js:2:4", js("[computed]", "/a.js", 2, 4)));
    assert_true(is_of("JS:* /a.js:2:4", js(NULL, "/a.js", 2, 4)));
    assert_true(is_of("JS:*with space /a.js:2:4", js("with space", "/a.js", 2, 4)));
    assert_false(is_of("JS:*other /a.js:2:4", js("meth", "/a.js", 2, 4)));
    assert_false(is_of("JS:*eth /a.js:2:4", js("meth", "/a.js", 2, 4)));
    assert_false(is_of("JS:*meth /a.js:2:4", js(NULL, "/a.js", 2, 4)));
}

static void evaluated_code_has_no_file(void **state)
{
    (void)state;
    assert_true(is_of("JS:*f :1:17", js("f", "/a.js:<eval>", 1, 17)));
    assert_true(is_of("JS:* :1:17", js(NULL, "<anonymous>", 1, 17)));
    assert_false(is_of("JS:*f /a.js:1:17", js("f", "/a.js:<eval>", 1, 17)));
    assert_false(is_of("JS:*f :1:17", js("f", "/a.js", 1, 17)));
}

static void wasm_goes_by_numbers(void **state)
{
    (void)state;
    struct managed_function g = {.kind = MANAGED_FUNCTION, .language = FRAME_WASM, .index = 4};
    assert_true(v8_name_is_of("JS:wasmfn-3-liftoff", &g));
    assert_true(v8_name_is_of("Function:wasmfn-3-turbofan", &g));
    assert_true(v8_name_is_of("JS:wasm-function[3]-3-liftoff", &g));
    assert_true(v8_name_is_of("Function:wasmfn-3", &g));
    assert_false(v8_name_is_of("JS:wasm-function[3]", &g));
    assert_false(v8_name_is_of("JS:wasmfn-4-liftoff", &g));
    assert_false(v8_name_is_of("JS:wasmfn-13-liftoff", &g));
    assert_false(v8_name_is_of("JS:*f /a.js:2:4", &g));
}

/* Frames named by memory, jitdump and perf map, with different names or without one. */
static void differences_are_counted_by_pairs(void **state)
{
    (void)state;
    struct managed_names *managed = managed_names_create();
    const struct managed_identity id = {
        .kind = MANAGED_FUNCTION, .language = FRAME_JS, .file = "/a.js", .line = 2, .column = 4};
    uint32_t f = managed_intern(managed, &id);
    assert_int_equal(managed_propose_name(managed, f, NAME_RANK_DEFINED, "C.f", 0), 0);
    const struct jit_function same = {.name = "JS:*f /a.js:2:4"};
    const struct jit_function map = {.name = "JS:~f /a.js:2:4", .from_map = true};
    const struct jit_function other = {.name = "JS:~g /a.js:7:4", .from_map = true};
    struct told_names told[] = {{f, &same, &map, true, 5},   {f, &same, &other, true, 3},
                                {f, NULL, &other, false, 2}, {f, NULL, NULL, true, 7},
                                {0, &same, NULL, false, 1},  {0, &same, &other, false, 1}};
    const size_t nr = sizeof(told) / sizeof(*told);
    struct name_tally from = {.names = {told, nr, nr}}, sum = {.names = {0}};
    struct text out = {0};
    assert_true(name_tally_add(&sum, &from) && name_tally_add(&sum, &from));
    assert_true(name_tally_print(&sum, managed, &out));
    text_char(&out, 0);
    assert_non_null(strstr(out.at, "named by memory and jitdump    16 agree, 0 differ\n"));
    assert_non_null(strstr(
        out.at, "named by memory and perf map   10 agree, 10 differ, 6 of these are not marked\n"));
    assert_non_null(strstr(out.at, "named by jitdump and perf map  10 agree, 8 differ\n"));
    assert_non_null(strstr(out.at, "named by one source only: memory 14, jitdump 2, perf map 0\n"));
    assert_non_null(strstr(out.at, "         6  memory: C.f /a.js:2:4 | jitdump: JS:*f /a.js:2:4 "
                                   "| perf map: JS:~g /a.js:7:4\n"));
    text_free(&out);
    name_tally_free(&sum);
    managed_names_free(managed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_and_tiers_are_no_part_of_a_name),
        cmocka_unit_test(what_may_be_cut_is_not_compared),
        cmocka_unit_test(the_place_has_to_be_the_same),
        cmocka_unit_test(of_the_name_the_last_part_has_to_be),
        cmocka_unit_test(evaluated_code_has_no_file),
        cmocka_unit_test(wasm_goes_by_numbers),
        cmocka_unit_test(differences_are_counted_by_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
