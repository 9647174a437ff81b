/* SPDX-License-Identifier: GPL-2.0-only */
/* The colors of text on a terminal. */
#include "output/color.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RED "\033[31m"
#define GREEN "\033[32m"
#define YELLOW "\033[33m"
#define DIM "\033[2m"
#define END "\033[m"

/* The text comes in pieces of `step` bytes. */
static void expect_in_steps(const char *text, const char *want, size_t step)
{
    struct coloring c = {0};
    struct text out = {0};
    for (size_t left = strlen(text); left; text += step, left -= step) {
        step = step < left ? step : left;
        coloring_put(&c, text, step, &out);
    }
    coloring_end(&c, &out);
    text_char(&out, 0);
    assert_false(out.failed);
    assert_string_equal(out.at, want);
    text_free(&out);
}

static void expect(const char *text, const char *want)
{
    expect_in_steps(text, want, strlen(text));
    expect_in_steps(text, want, 1);
    expect_in_steps(text, want, 7);
}

static void shares_of_rows(void **state)
{
    (void)state;
    expect("    40.00%     0.50%  prog  [.] f\n",
           "    " RED "40.00%" END "     " GREEN "0.50%" END "  prog  [.] f\n");
    expect("     5.00%     0.49%  prog  [.] 99.00%\n",
           "     " RED "5.00%" END "     0.49%  prog  [.] 99.00%\n");
    expect("    12  100.00%  complete\n", "    12  " RED "100.00%" END "  complete\n");
    expect("     9.00%    7.00%   -2.00%   1.00  f\n", /* a change */
           "     " RED "9.00%" END "    " RED "7.00%" END "   -2.00%   1.00  f\n");
    expect("no 40.00%\n", "no 40.00%\n");
    expect("40 ..\n1.2.3 %\n", "40 ..\n1.2.3 %\n");
    expect("1234567890123456789012345678901234567890.5%\n",
           RED "1234567890123456789012345678901234567890.5%" END "\n");
}

static void shares_of_trees(void **state)
{
    (void)state;
    expect("            |--7.10%--main\n            |          f\n             --0.70%--[...]\n",
           "            |--" RED "7.10%" END "--main\n            |          f\n"
           "             --" GREEN "0.70%" END "--[...]\n");
}

static void comments(void **state)
{
    (void)state;
    expect("# Overhead 50.00%\n#\n", DIM "# Overhead 50.00%" END "\n" DIM "#" END "\n");
    expect("# no line feed", DIM "# no line feed" END);
}

static void frames(void **state)
{
    (void)state;
    expect("\t    1f3a0 operator() (int)+0x10 (/usr/lib/x)\n",
           "\t    1f3a0 operator() (int)+0x10" DIM " (/usr/lib/x)" END "\n");
    expect("\t    1f3a0 f (x) [guess]\n",
           "\t    1f3a0 f" DIM " (x)" END YELLOW " [guess]" END "\n");
    expect("\t    1f3a0 f a.lua:1 (a.lua) [lua interp line=1]\n",
           "\t    1f3a0 f a.lua:1" DIM " (a.lua)" END DIM " [lua interp line=1]" END "\n");
    expect("\t    1f3a0 f a.lua:1 (a.lua) [lua interp image]\n",
           "\t    1f3a0 f a.lua:1" DIM " (a.lua)" END YELLOW " [lua interp image]" END "\n");
    expect("\t1\n\t\n\t]\n\t)\n", "\t1\n\t\n\t]\n\t)\n");
}

static void verdicts(void **state)
{
    (void)state;
    expect("ok       perf             perf version 6\n",
           GREEN "ok" END "       perf             perf version 6\n");
    expect("warn     event cycles\nmissing  tracefs\n",
           YELLOW "warn" END "     event cycles\n" RED "missing" END "  tracefs\n");
    expect("ok   123 12.5: cycles\nmissing   123 1.5:\nok       \nok\n",
           "ok   123 12.5: cycles\nmissing   123 1.5:\nok       \nok\n");
}

static void messages_have_none(void **state)
{
    (void)state;
    expect("ljperf: 9 samples\n\n", "ljperf: 9 samples\n\n");
}

/* A line of any length, whose beginning is no longer kept. */
static void long_lines_pass(void **state)
{
    (void)state;
    enum { SIZE = 5 << 20 };
    struct coloring c = {0};
    struct text out = {0};
    char *line = malloc(SIZE);
    assert_non_null(line);
    memset(line, 'x', SIZE);
    for (size_t i = 0; i < SIZE; i += 4096)
        coloring_put(&c, line + i, 4096, &out);
    assert_true(c.line.cap < 3 << 20);
    coloring_end(&c, &out);
    assert_int_equal(out.size, SIZE);
    assert_memory_equal(out.at, line, SIZE);
    text_free(&out);
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_of_rows),  cmocka_unit_test(shares_of_trees),
        cmocka_unit_test(comments),        cmocka_unit_test(frames),
        cmocka_unit_test(verdicts),        cmocka_unit_test(messages_have_none),
        cmocka_unit_test(long_lines_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
