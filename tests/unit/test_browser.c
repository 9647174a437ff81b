/* SPDX-License-Identifier: GPL-2.0-only */
/* The browser's model: opening and closing lines, filters, views, the cursor. No terminal. */
#include "output/browser.h"
#include "scratch.h"
#include "stacks/stacks_internal.h"
#include "stacks_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct report_event events[] = {{"cycles", true}, {"faults", true}};

static struct report_options callers(void)
{
    return (struct report_options){.keys = {KEY_SYM},
                                   .nr_keys = 1,
                                   .graph = GRAPH_ABSOLUTE,
                                   .graph_percent = 0.5,
                                   .quantum = 100000000};
}

static struct report_options callees(void)
{
    struct report_options o = callers();
    o.children = o.callers_first = true;
    return o;
}

static struct browser *open_browser(const struct stacks *s, struct report_options o)
{
    struct browser *b = browser_create(&o);
    struct browser_data data = {.stacks = s, .events = events, .nr_events = 2};
    assert_non_null(b);
    assert_int_equal(browser_set_data(b, &data, NULL), 0);
    return b;
}

/* Expects these lines; the cursor's line begins with '>'. */
static void expect(struct browser *b, const char *want)
{
    struct text t = {0};
    for (size_t i = 0; i < browser_nr_lines(b); i++) {
        text_char(&t, i == browser_at(b) ? '>' : ' ');
        browser_put_line(b, i, &t);
        text_char(&t, '\n');
    }
    text_char(&t, 0);
    assert_string_equal(t.at, want);
    text_free(&t);
}

static void expect_head(const struct browser *b, const char *want)
{
    struct text t = {0};
    browser_put_head(b, &t);
    text_char(&t, 0);
    assert_string_equal(t.at, want);
    text_free(&t);
}

static void finish(struct browser *b, struct stacks *s)
{
    browser_free(b);
    stacks_free(s);
}

static struct stacks *two_ways(void)
{
    struct stacks *s = stacks_make();
    stacks_add(s, "p;main;a;f", 6, 60);
    stacks_add(s, "p;main;b;g;f", 4, 40);
    return s;
}

static void rows_open_and_close(void **state)
{
    (void)state;
    struct stacks *s = two_ways();
    struct browser *b = open_browser(s, callers());
    expect(b, ">+   100.00%  [.] f\n");
    assert_true(browser_can_expand(b));
    assert_int_equal(browser_expand(b, NULL), 0);
    /* the row shows f, so its tree does not */
    expect(b, ">-   100.00%  [.] f\n"
              "     + 60.00% a\n"
              "     + 40.00% g\n");
    assert_true(browser_is_expanded(b));
    browser_move(b, 2);
    assert_int_equal(browser_expand(b, NULL), 0);
    expect(b, " -   100.00%  [.] f\n"
              "     + 60.00% a\n"
              ">    - 40.00% g\n"
              "          b\n"
              "          main\n");
    assert_false(browser_can_expand(b));
    browser_move(b, 2);
    /* collapsing a line of a run closes the run */
    assert_true(browser_collapse(b));
    expect(b, " -   100.00%  [.] f\n"
              "     + 60.00% a\n"
              ">    + 40.00% g\n");
    assert_true(browser_collapse(b));
    expect(b, ">+   100.00%  [.] f\n");
    assert_false(browser_collapse(b));
    finish(b, s);
}

static void callees_of_a_row(void **state)
{
    (void)state;
    struct stacks *s = two_ways();
    struct browser *b = open_browser(s, callees());
    assert_int_equal(browser_expand(b, NULL), 0);
    expect(b, ">-   100.00%     0.00%  [.] main\n"
              "     + 60.00% a\n"
              "     + 40.00% b\n"
              " +   100.00%   100.00%  [.] f\n"
              " +    60.00%     0.00%  [.] a\n"
              " +    40.00%     0.00%  [.] b\n"
              " +    40.00%     0.00%  [.] g\n");
    browser_move(b, 2);
    assert_int_equal(browser_expand(b, NULL), 0);
    browser_move(b, 1);
    struct text t = {0};
    browser_put_line(b, browser_at(b), &t);
    text_char(&t, 0);
    assert_string_equal(t.at, "         g");
    text_free(&t);
    assert_string_equal(browser_function(b)->symbol, "g");
    finish(b, s);
}

/* On a screen of 80 columns the name comes first; a longer one moves the rest. */
static void name_first_where_narrow(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    stacks_add(s, "p;a_function_whose_name_is_longer_than_its_column;f", 6, 60);
    struct report_options o = callees();
    o.keys[0] = KEY_COMM;
    o.keys[1] = KEY_DSO;
    o.keys[2] = KEY_SYM;
    o.nr_keys = 3;
    struct browser *b = open_browser(s, o);
    struct text wide = {0};
    browser_put_titles(b, &wide);
    text_char(&wide, 0);
    expect(b, ">+   100.00%     0.00%  p        prog           [.] "
              "a_function_whose_name_is_longer_than_its_column\n"
              " +   100.00%   100.00%  p        prog           [.] f\n");
    browser_set_columns(b, 80);
    struct text t = {0};
    browser_put_titles(b, &t);
    text_char(&t, 0);
    assert_string_equal(t.at, "  Children      Self  Symbol                                     "
                              "Shared Object  Command");
    expect(b, ">+   100.00%     0.00%  [.] a_function_whose_name_is_longer_than_its_column  "
              "prog           p\n"
              " +   100.00%   100.00%  [.] f                                      "
              "prog           p\n");
    t.size = 0;
    browser_set_columns(b, 120);
    browser_put_titles(b, &t);
    text_char(&t, 0);
    assert_string_equal(t.at, wide.at);
    text_free(&t);
    text_free(&wide);
    finish(b, s);
}

/* Two rows open at once: marks of one row must not show in the other. */
static void rows_do_not_mix(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    stacks_add(s, "p;main;f", 3, 30);
    stacks_add(s, "p;main;f;g", 6, 60);
    stacks_add(s, "p;main;h;g", 1, 10);
    struct browser *b = open_browser(s, callees());
    bool all;
    browser_move(b, 1);
    assert_int_equal(browser_expand(b, NULL), 0); /* f */
    browser_move(b, 1);
    browser_move(b, -10);
    assert_int_equal(browser_expand_all(b, &all, NULL), 0);
    assert_true(all);
    expect(b, ">-   100.00%     0.00%  [.] main\n"
              "     - 90.00% f\n"
              "          60.00% g\n"
              "     - 10.00% h\n"
              "          g\n"
              " -    90.00%    30.00%  [.] f\n"
              "     - 60.00% f\n"
              "          g\n"
              "     - 30.00% main\n"
              "          f\n"
              " -    70.00%    70.00%  [.] g\n"
              "          main\n"
              "        - 60.00% f\n"
              "             g\n"
              "        - 10.00% h\n"
              "             g\n"
              " -    10.00%     0.00%  [.] h\n"
              "          g\n");
    finish(b, s);
}

static void all_open_and_close(void **state)
{
    (void)state;
    struct stacks *s = two_ways();
    struct browser *b = open_browser(s, callers());
    bool all;
    assert_int_equal(browser_expand_row(b, &all, NULL), 0);
    assert_true(all);
    expect(b, ">-   100.00%  [.] f\n"
              "     - 60.00% a\n"
              "          main\n"
              "     - 40.00% g\n"
              "          b\n"
              "          main\n");
    browser_move(b, 4);
    browser_collapse_row(b);
    expect(b, ">+   100.00%  [.] f\n");
    /* lines that were open inside are closed, too */
    assert_int_equal(browser_expand(b, NULL), 0);
    assert_int_equal(browser_nr_lines(b), 3);
    assert_int_equal(browser_expand_all(b, &all, NULL), 0);
    assert_int_equal(browser_nr_lines(b), 6);
    browser_collapse_all(b);
    assert_int_equal(browser_nr_lines(b), 1);
    finish(b, s);
}

static void filters_come_and_go(void **state)
{
    (void)state;
    struct stacks *s = two_ways();
    stacks_add(s, "p;main;k_read", 10, 100);
    struct browser *b = open_browser(s, callees());
    bool dropped;
    assert_int_equal(browser_add_filter(b, FILTER_SYMBOL, "g", 0, NULL), 0);
    expect(b, ">+    20.00%     0.00%  [.] g\n");
    expect_head(b, "Samples: 20  of event 'cycles', symbol g, Event count (approx.): 200");
    assert_int_equal(browser_toggle_relative(b, NULL), 0);
    assert_true(browser_is_relative(b));
    assert_int_equal(browser_toggle_relative(b, NULL), 0);
    /* a second filter of the same kind replaces the first */
    assert_int_equal(browser_add_filter(b, FILTER_SYMBOL, "rea", 0, NULL), 0);
    expect(b, ">+    50.00%    50.00%  [k] k_read\n");
    assert_int_equal(browser_add_filter(b, FILTER_MODULE, "/bin/prog", 0, NULL), 0);
    expect(b, "");
    assert_null(browser_function(b));
    assert_false(browser_can_expand(b));
    assert_false(browser_collapse(b));
    assert_int_equal(browser_expand_row(b, &dropped, NULL), 0);
    browser_collapse_row(b);
    assert_int_equal(browser_drop_filter(b, &dropped, NULL), 0);
    assert_true(dropped);
    assert_int_equal(browser_nr_lines(b), 1);
    assert_int_equal(browser_add_filter(b, FILTER_SYMBOL, "", 0, NULL), 0);
    assert_int_equal(browser_nr_lines(b), 6);
    assert_int_equal(browser_drop_filter(b, &dropped, NULL), 0);
    assert_false(dropped);
    finish(b, s);
}

static void threads(void **state)
{
    (void)state;
    struct stacks *s = two_ways();
    struct stack_group g = {.comm = "q", .pid = 10, .tid = 77};
    struct function f = {.symbol = "f", .module = "/bin/prog"};
    uint32_t node = stack_tree_child(&s->tree, 0, stacks_intern_group(s, &g));
    node = stack_tree_child(&s->tree, node, stacks_intern_function(s, &f));
    s->tree.nodes.at[node].samples = 1;
    s->tree.nodes.at[node].period = 300;
    struct browser *b = open_browser(s, callers());
    assert_int_equal(browser_thread(b), 77);
    assert_int_equal(browser_add_filter(b, FILTER_THREAD, NULL, 11, NULL), 0);
    expect(b, ">+    25.00%  [.] f\n");
    assert_int_equal(browser_thread(b), 11);
    s->tree.nodes.at[node].guessed = 1;
    s->tree.nodes.at[2].joined = 3;
    assert_int_equal(browser_set_view(b, 0, NULL), 0);
    expect_head(b, "Samples: 11  of event 'cycles', thread 11, 3 joined, 1 guessed, Event count "
                   "(approx.): 400");
    finish(b, s);
}

static void one_function(void **state)
{
    (void)state;
    struct stacks *s = two_ways();
    struct browser *b = open_browser(s, callees());
    bool dropped, all;
    assert_int_equal(browser_add_filter(b, FILTER_CALLERS, "g", 0, NULL), 0);
    assert_int_equal(browser_expand_row(b, &all, NULL), 0);
    expect(b, ">-    40.00%     0.00%  [.] g\n"
              "          b\n"
              "          main\n");
    assert_int_equal(browser_add_filter(b, FILTER_CALLEES, "g", 0, NULL), 0);
    assert_int_equal(browser_expand_row(b, &all, NULL), 0);
    expect_head(b, "Samples: 10  of event 'cycles', callees of g, Event count (approx.): 100");
    assert_int_equal(browser_drop_filter(b, &dropped, NULL), 0);
    assert_int_equal(browser_nr_lines(b), 5);
    finish(b, s);
}

static size_t find_view(const struct browser *b, const char *name)
{
    for (size_t i = 0; i < browser_nr_views(b); i++)
        if (strncmp(browser_view_name(b, i), name, strlen(name)) == 0)
            return i;
    fail_msg("no view %s", name);
    return 0;
}

static void views(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    stacks_add_managed(s, "main;L:m;L3:f a.lua:1", 50, 60);
    stacks_add_managed(s, "main;L:m;memcpy", 51, 40);
    struct browser *b = open_browser(s, callers());
    assert_int_equal(browser_set_view(b, find_view(b, "VM state"), NULL), 0);
    expect(b, ">+    60.00%  lua trace\n"
              " +    40.00%  C called by lua\n");
    assert_null(browser_function(b)); /* the row has no function */
    assert_int_equal(browser_set_view(b, find_view(b, "Trace"), NULL), 0);
    expect(b, ">+    60.00%       10:3           [.] f a.lua:1\n"
              " +    40.00%       10:[no trace]  [.] memcpy\n");
    assert_int_equal(browser_set_view(b, find_view(b, "Module"), NULL), 0);
    expect(b, ">+    60.00%  a.lua\n"
              " +    40.00%  prog\n");
    /* the current stacks have no time slices: the browser asks for stacks that have */
    assert_false(browser_is_stale(b));
    assert_int_equal(browser_set_view(b, find_view(b, "Time"), NULL), 0);
    assert_true(browser_is_stale(b));
    assert_int_equal(browser_needs(b).slice_ns, 100000000);
    s->options.slice_ns = 100000000;
    s->options.all_slices = true;
    struct browser_data data = {.stacks = s, .events = events, .nr_events = 2};
    assert_int_equal(browser_set_data(b, &data, NULL), 0);
    expect(b, ">+    60.00%  5.000000\n"
              " +    40.00%  5.100000\n");
    assert_int_equal(browser_set_view(b, 0, NULL), 0);
    assert_int_equal(browser_nr_lines(b), 2);
    finish(b, s);
}

static void cursor_and_window(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    char stack[32];
    for (int i = 0; i < 50; i++) {
        snprintf(stack, sizeof(stack), "p;main;f%02d", i);
        stacks_add(s, stack, 1, (uint64_t)(1000 - i));
    }
    struct browser *b = open_browser(s, callers());
    browser_fit(b, 10);
    assert_int_equal(browser_top(b), 0);
    browser_move(b, 10);
    browser_fit(b, 10);
    assert_int_equal(browser_top(b), 1);
    browser_move(b, 1000);
    browser_fit(b, 10);
    assert_int_equal(browser_at(b), 49);
    assert_int_equal(browser_top(b), 40);
    browser_fit(b, 100); /* the window grows */
    assert_int_equal(browser_top(b), 0);
    browser_fit(b, 1);
    assert_int_equal(browser_top(b), 49);
    browser_fit(b, 0);
    browser_move(b, -1000);
    browser_fit(b, 1);
    assert_int_equal(browser_top(b), 0);
    assert_int_equal(browser_set_limit(b, 2.02, NULL), 0);
    assert_true(browser_nr_lines(b) < 50 && browser_nr_lines(b) > 10);
    finish(b, s);
}

static void add_event(struct stacks *s, uint16_t event)
{
    struct stack_group g = {.comm = "p", .pid = 10, .tid = 11, .event = event};
    struct function f = {.symbol = "faulty", .module = "/bin/prog"};
    uint32_t node = stack_tree_child(&s->tree, 0, stacks_intern_group(s, &g));
    node = stack_tree_child(&s->tree, node, stacks_intern_function(s, &f));
    s->tree.nodes.at[node].samples++;
    s->tree.nodes.at[node].period++;
}

static void events_in_turn(void **state)
{
    (void)state;
    struct stacks *s = two_ways();
    struct browser *b = open_browser(s, callers());
    assert_int_equal(browser_change_event(b, 1, NULL), 0); /* the other event has no samples */
    expect(b, ">+   100.00%  [.] f\n");
    add_event(s, 1);
    struct browser_data data = {.stacks = s, .events = events, .nr_events = 2};
    assert_int_equal(browser_set_data(b, &data, NULL), 0);
    assert_int_equal(browser_change_event(b, 1, NULL), 0);
    expect(b, ">+   100.00%  [.] faulty\n");
    assert_int_equal(browser_change_event(b, -1, NULL), 0);
    expect(b, ">+   100.00%  [.] f\n");
    finish(b, s);
}

/* No samples, stacks without frames, deep stacks. */
static void odd_stacks(void **state)
{
    (void)state;
    bool all;
    struct stacks *s = stacks_make();
    struct browser *b = open_browser(s, callees());
    expect(b, "");
    expect_head(b, "Samples: 0  of event 'cycles', Event count (approx.): 0");
    assert_int_equal(browser_expand_all(b, &all, NULL), 0);
    assert_int_equal(browser_thread(b), 0);
    finish(b, s);
    s = stacks_make();
    stacks_add(s, "p", 1, 1);
    struct text deep = {0};
    text_string(&deep, "p");
    for (int i = 0; i < 5000; i++)
        text_printf(&deep, ";f%d", i);
    text_char(&deep, 0);
    stacks_add(s, deep.at, 1, 1);
    text_free(&deep);
    struct report_options o = callers();
    o.keys[0] = KEY_DSO;
    b = open_browser(s, o);
    expect(b, ">+    50.00%  [unknown]\n +    50.00%  prog\n");
    assert_int_equal(browser_expand(b, NULL), 0); /* a stack without frames has nothing to open */
    assert_int_equal(browser_nr_lines(b), 2);
    browser_move(b, 1);
    assert_int_equal(browser_expand(b, NULL), 0);
    assert_int_equal(browser_nr_lines(b), 2 + 1000);
    browser_move(b, 10000);
    struct text t = {0};
    browser_put_line(b, browser_at(b), &t);
    text_char(&t, 0);
    assert_string_equal(t.at, "         f4000 [deeper]");
    text_free(&t);
    finish(b, s);
}

static void add_line(struct stacks *s, const char *file, uint32_t line, uint64_t period)
{
    struct stack_group g = {.comm = "p", .pid = 10, .tid = 11};
    struct function f = {.symbol = "f", .module = "/bin/prog", .file = file, .line = line};
    uint32_t node = stack_tree_child(&s->tree, 0, stacks_intern_group(s, &g));
    node = stack_tree_child(&s->tree, node, stacks_intern_function(s, &f));
    s->tree.nodes.at[node].samples++;
    s->tree.nodes.at[node].period += period;
}

static void expect_source(const struct browser *b, const char *symfs, const char *want)
{
    struct text t = {0};
    assert_int_equal(browser_put_source(b, symfs, &t, NULL), 0);
    text_char(&t, 0);
    assert_string_equal(t.at, want);
    text_free(&t);
}

static void source_with_weights(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    add_line(s, "/f.c", 2, 60);
    add_line(s, "/f.c", 12, 30);
    add_line(s, "/gone.c", 7, 10);
    shell("printf 'one\\n\\ttwo\\033\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n10\\n11\\n' > f.c");
    struct browser *b = open_browser(s, callers());
    expect_source(b, scratch_folder,
                  "    Self  Children    Line\n"
                  "\n/f.c\n"
                  "                        1  one\n"
                  "  60.00%    60.00%      2          two%1B\n"
                  "                        3  3\n"
                  "                        4  4\n"
                  "                        5  5\n"
                  "                        ...\n"
                  "                        9  9\n"
                  "                       10  10\n"
                  "                       11  11\n"
                  "  30.00%    30.00%     12  \n"
                  "\n/gone.c (cannot be read: only numbers)\n"
                  "  10.00%    10.00%      7  \n");
    /* a file that is not a text file is not opened */
    shell("rm f.c && mkfifo f.c");
    struct text t = {0};
    assert_int_equal(browser_put_source(b, scratch_folder, &t, NULL), 0);
    text_char(&t, 0);
    assert_non_null(strstr(t.at, "/f.c (cannot be read"));
    text_free(&t);
    finish(b, s);
}

static int setup(void **state)
{
    (void)state;
    strcpy(scratch_folder, "/tmp/ljperf_browser_XXXXXX");
    return mkdtemp(scratch_folder) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    shell("rm -rf '%s'", scratch_folder);
    return 0;
}

/* Newer data shows what was opened, and the cursor goes where its line went. */
static void newer_data(void **state)
{
    (void)state;
    struct stacks *s = two_ways();
    struct browser *b = open_browser(s, callers());
    assert_int_equal(browser_expand(b, NULL), 0);
    browser_move(b, 2);
    assert_int_equal(browser_expand(b, NULL), 0);
    expect(b, " -   100.00%  [.] f\n"
              "     + 60.00% a\n"
              ">    - 40.00% g\n"
              "          b\n"
              "          main\n");
    struct stacks *newer = stacks_make();
    stacks_add(newer, "p;main;h", 100, 1000);
    stacks_add(newer, "p;main;b;g;f", 90, 900);
    stacks_add(newer, "p;main;a;f", 10, 100);
    const struct browser_data data = {newer, events, 2, NULL, NULL};
    browser_remember(b);
    stacks_free(s); /* as a reader that reads again does */
    assert_int_equal(browser_renew_data(b, &data, NULL), 0);
    expect(b, " -    50.00%  [.] f\n"
              ">    - 45.00% g\n"
              "          b\n"
              "          main\n"
              "     + 5.00% a\n"
              " +    50.00%  [.] h\n");
    finish(b, newer);
}

/* A user who has not moved sees the first line. */
static void newer_data_from_the_first_line(void **state)
{
    (void)state;
    struct stacks *s = two_ways();
    struct browser *b = open_browser(s, callers());
    struct stacks *newer = stacks_make();
    stacks_add(newer, "p;main;f", 1, 10);
    stacks_add(newer, "p;main;h", 3, 30);
    const struct browser_data data = {newer, events, 2, NULL, NULL};
    browser_remember(b);
    stacks_free(s);
    assert_int_equal(browser_renew_data(b, &data, NULL), 0);
    expect(b, ">+    75.00%  [.] h\n"
              " +    25.00%  [.] f\n");
    finish(b, newer);
}

/* The line is gone, but its row is there; or both are gone, or all. */
static void newer_data_without_the_line(void **state)
{
    (void)state;
    struct stacks *s = two_ways();
    struct browser *b = open_browser(s, callers());
    assert_int_equal(browser_expand(b, NULL), 0);
    browser_move(b, 2);
    struct stacks *newer = stacks_make();
    stacks_add(newer, "p;main;a;f", 1, 10);
    stacks_add(newer, "p;main;h", 3, 30);
    const struct browser_data data = {newer, events, 2, NULL, NULL};
    browser_remember(b);
    stacks_free(s);
    assert_int_equal(browser_renew_data(b, &data, NULL), 0);
    expect(b, " +    75.00%  [.] h\n"
              ">-    25.00%  [.] f\n"
              "          a\n"
              "          main\n");
    struct stacks *none = stacks_make();
    const struct browser_data empty = {none, events, 2, NULL, NULL};
    browser_remember(b);
    stacks_free(newer);
    assert_int_equal(browser_renew_data(b, &empty, NULL), 0);
    expect(b, "");
    assert_string_equal(browser_why_empty(b), "no samples");
    finish(b, none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_open_and_close),
        cmocka_unit_test(callees_of_a_row),
        cmocka_unit_test(name_first_where_narrow),
        cmocka_unit_test(rows_do_not_mix),
        cmocka_unit_test(all_open_and_close),
        cmocka_unit_test(filters_come_and_go),
        cmocka_unit_test(threads),
        cmocka_unit_test(one_function),
        cmocka_unit_test(views),
        cmocka_unit_test(cursor_and_window),
        cmocka_unit_test(events_in_turn),
        cmocka_unit_test(newer_data),
        cmocka_unit_test(newer_data_from_the_first_line),
        cmocka_unit_test(newer_data_without_the_line),
        cmocka_unit_test(odd_stacks),
        cmocka_unit_test(source_with_weights),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
