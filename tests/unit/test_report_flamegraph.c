/* SPDX-License-Identifier: GPL-2.0-only */
/* The flame graph's positions and names, from handwritten stacks. */
#include "output/flamegraph.h"
#include "stacks/stacks_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct stacks *make(void)
{
    struct stacks_options options = {0};
    struct stacks *s = stacks_create(&options);
    assert_non_null(s);
    return s;
}

static void add(struct stacks *s, uint16_t event, const char *stack, uint64_t samples)
{
    char *copy = strdup(stack);
    char *rest = copy;
    struct stack_group g = {.comm = strsep(&rest, ";"), .event = event};
    uint32_t node = stack_tree_child(&s->tree, 0, stacks_intern_group(s, &g));
    for (char *name; (name = strsep(&rest, ";"));) {
        struct function f = {.symbol = name, .module = "/bin/prog"};
        node = stack_tree_child(&s->tree, node, stacks_intern_function(s, &f));
    }
    s->tree.nodes.at[node].samples += samples;
    free(copy);
}

static char *draw(struct stacks *s, const struct flamegraph_options *o)
{
    struct text out = {0};
    struct error err;
    assert_int_equal(flamegraph_print(s, NULL, o, &out, &err), 0);
    text_char(&out, 0);
    assert_false(out.failed);
    stacks_free(s);
    return out.at;
}

static struct flamegraph_options basic(void)
{
    return (struct flamegraph_options){
        .width = 1020, .least_width = 1, .samples = true, .event = -1};
}

static unsigned count(const char *text, const char *what)
{
    /* (memmem: the sanitizer's strstr measures the whole rest at each call.) */
    const char *end = text + strlen(text);
    unsigned n = 0;
    for (; (text = memmem(text, (size_t)(end - text), what, strlen(what))); text++)
        n++;
    return n;
}

/* 1000 pixels between the margins for 10 samples: each sample is 100 wide. */
static void frames_stand_where_they_belong(void **state)
{
    (void)state;
    struct stacks *s = make();
    add(s, 0, "p;main;b;c", 4);
    add(s, 0, "p;main;a", 3);
    add(s, 0, "p;main", 2);
    add(s, 0, "o;x", 1);
    struct flamegraph_options o = basic();
    char *svg = draw(s, &o);
    static const char *const places[] = {
        "data-f=\"0 10\"><title>all\n10 samples, 100.00%</title><rect x=\"10.00\" y=\"124\" "
        "width=\"1000.00\"",
        "data-f=\"0 1\"><title>o\n1 samples, 10.00%</title><rect x=\"10.00\" y=\"108\" "
        "width=\"100.00\"",
        "data-f=\"1 9\"><title>p\n9 samples, 90.00%</title><rect x=\"110.00\" y=\"108\" "
        "width=\"900.00\"",
        "data-f=\"1 9\"><title>main\nprog, 9 samples, 90.00%</title><rect x=\"110.00\" y=\"92\"",
        "data-f=\"1 3\"><title>a\nprog, 3 samples, 30.00%</title><rect x=\"110.00\" y=\"76\" "
        "width=\"300.00\"",
        "data-f=\"4 4\"><title>b\nprog, 4 samples, 40.00%</title><rect x=\"410.00\" y=\"76\" "
        "width=\"400.00\"",
        "data-f=\"4 4\"><title>c\nprog, 4 samples, 40.00%</title><rect x=\"410.00\" y=\"60\"",
    };
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
        assert_non_null(strstr(svg, places[i]));
    assert_int_equal(count(svg, " data-f="), 8);
    free(svg);
}

/* 1.6667 pixels per sample: if position and width were both rounded to 1.67, a frame would overlap
 * the next. */
static void frames_do_not_overlap(void **state)
{
    (void)state;
    struct stacks *s = make();
    add(s, 0, "a", 1);
    add(s, 0, "b", 1);
    add(s, 0, "c", 598);
    struct flamegraph_options o = basic();
    char *svg = draw(s, &o);
    assert_non_null(strstr(svg, "<rect x=\"10.00\" y=\"60\" width=\"1.67\""));
    assert_non_null(strstr(svg, "<rect x=\"11.67\" y=\"60\" width=\"1.66\""));
    assert_non_null(strstr(svg, "<rect x=\"13.33\" y=\"60\" width=\"996.67\""));
    free(svg);
}

static void narrow_frames_are_left_out(void **state)
{
    (void)state;
    struct stacks *s = make();
    add(s, 0, "p;main", 9999);
    add(s, 0, "p;main;rare", 1);
    struct flamegraph_options o = basic();
    char *svg = draw(s, &o);
    assert_null(strstr(svg, "rare"));
    assert_int_equal(count(svg, " data-f="), 3);
    free(svg);
}

static void only_one_event_is_drawn(void **state)
{
    (void)state;
    struct stacks *s = make();
    add(s, 2, "p;two", 5);
    add(s, 1, "p;one", 5);
    struct flamegraph_options o = basic();
    char *svg = draw(s, &o);
    assert_non_null(strstr(svg, ">one\n"));
    assert_null(strstr(svg, ">two\n"));
    assert_non_null(strstr(svg, ">all\n5 samples"));
    free(svg);
}

static void inverted_grows_down(void **state)
{
    (void)state;
    struct stacks *s = make();
    add(s, 0, "p;main", 1);
    struct flamegraph_options o = basic();
    o.inverted = true;
    char *svg = draw(s, &o);
    assert_non_null(strstr(svg, ">all\n1 samples, 100.00%</title><rect x=\"10.00\" y=\"60\""));
    assert_non_null(
        strstr(svg, ">main\nprog, 1 samples, 100.00%</title><rect x=\"10.00\" y=\"92\""));
    free(svg);
}

static void xml_is_safe(void **state)
{
    (void)state;
    struct text t = {0};
    text_xml(&t, "a<b>&\"c\" \x01\x7f \xff\xc3 \xc3\xa9 \xc0\x80 \xed\xa0\x80 \xef\xbf\xbf]]>");
    text_char(&t, 0);
    assert_string_equal(t.at, "a&lt;b&gt;&amp;&quot;c&quot; %01%7F %FF%C3 \xc3\xa9 %C0%80 "
                              "%ED%A0%80 %EF%BF%BF]]&gt;");
    text_free(&t);
}

/* Width is counted in columns, not in bytes. */
static void labels_are_cut_between_characters(void **state)
{
    (void)state;
    struct stacks *s = make();
    add(s, 0, "p;\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 5);
    add(s, 0, "p;x", 95);
    struct flamegraph_options o = basic();
    char *svg = draw(s, &o); /* 50 pixels: 6 columns, two of them for the dots */
    assert_non_null(strstr(svg, ">\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9..</text>"));
    free(svg);
    s = make();
    add(s, 0, "p;a\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 5);
    add(s, 0, "p;x", 95);
    svg = draw(s, &o);
    assert_non_null(strstr(svg, ">a\xc3\xa9\xc3\xa9\xc3\xa9..</text>"));
    free(svg);
}

static void nothing_to_draw_is_said(void **state)
{
    (void)state;
    struct stacks *s = make();
    struct flamegraph_options o = basic();
    struct text out = {0};
    struct error err = {0};
    assert_int_equal(flamegraph_print(s, NULL, &o, &out, &err), -1);
    assert_string_equal(err.text, "there are no samples to draw");
    text_free(&out);
    stacks_free(s);
}

static void deep_stacks_are_drawn(void **state)
{
    (void)state;
    struct stacks *s = make();
    struct text deep = {0};
    text_string(&deep, "p");
    for (int i = 0; i < 40000; i++)
        text_printf(&deep, ";f%d", i % 7);
    text_char(&deep, 0);
    add(s, 0, deep.at, 1);
    text_free(&deep);
    struct flamegraph_options o = basic();
    char *svg = draw(s, &o);
    assert_int_equal(count(svg, " data-f="), 40002);
    free(svg);
}

static void wide_characters_take_two_columns(void **state)
{
    (void)state;
    struct stacks *s = make();
    add(s, 0, "p;\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97", 5);
    add(s, 0, "p;x", 95);
    struct flamegraph_options o = basic();
    char *svg = draw(s, &o);
    assert_non_null(strstr(svg, ">\xe6\xbc\xa2\xe5\xad\x97..</text>"));
    free(svg);
}

/* c took the time, and b called it in three of four samples. */
static void reverse_begins_at_the_innermost(void **state)
{
    (void)state;
    struct stacks *s = make();
    add(s, 0, "p;main;b;c", 3);
    add(s, 0, "p;main;c", 1);
    struct flamegraph_options o = basic();
    o.reverse = true;
    char *svg = draw(s, &o);
    assert_non_null(strstr(svg, "data-f=\"0 4\"><title>c\nprog, 4 samples, 100.00%</title><rect "
                                "x=\"10.00\" y=\"108\""));
    assert_non_null(strstr(svg, "data-f=\"0 3\"><title>b\n"));
    assert_non_null(strstr(svg, "data-f=\"0 3\"><title>main\n"));
    assert_non_null(strstr(svg, "data-f=\"3 1\"><title>main\n"));
    free(svg);
}

/* A function is one frame, however it ran; its colour is that of the larger part. */
static void tiers_are_one_frame(void **state)
{
    (void)state;
    struct stacks *s = make();
    struct stack_group g = {.comm = "p"};
    uint32_t group = stack_tree_child(&s->tree, 0, stacks_intern_group(s, &g));
    for (int i = 0; i < 2; i++) {
        struct function f = {.symbol = "f x.lua:1",
                             .module = "x.lua",
                             .kind = FRAME_LUA,
                             .tier = i ? TIER_TRACE : TIER_INTERP};
        uint32_t node = stack_tree_child(&s->tree, group, stacks_intern_function(s, &f));
        s->tree.nodes.at[node].samples = i ? 3 : 1;
    }
    struct flamegraph_options o = basic();
    char *svg = draw(s, &o);
    assert_int_equal(count(svg, " data-f="), 3);
    assert_non_null(strstr(svg, "x.lua, 4 samples, 100.00%, 25% interpreted, 75% in traces<"));
    assert_non_null(strstr(svg, ">Lua trace<"));
    assert_null(strstr(svg, ">Lua interpreter<"));
    free(svg);
}

static void a_comparison_says_what_was(void **state)
{
    (void)state;
    struct stacks *base = make();
    struct stacks *s = make();
    add(base, 0, "p;main;f", 1000);
    add(base, 0, "p;main;g.cold", 8000);
    add(base, 0, "p;main;h", 1010);
    add(s, 0, "p;main;f", 4000);
    add(s, 0, "p;main;g", 5000);
    add(s, 0, "p;main;h", 1000);
    struct flamegraph_options o = basic();
    struct text out = {0};
    struct error err;
    assert_int_equal(flamegraph_print(s, base, &o, &out, &err), 0);
    text_char(&out, 0);
    assert_non_null(strstr(out.at, "<g class=\"p4\" data-f=\"0 4000\"><title>f\nprog, 4000 "
                                   "samples, 40.00%, was 9.99%<"));
    assert_non_null(strstr(out.at, "<g class=\"m2\" data-f=\"4000 5000\"><title>g\nprog, 5000 "
                                   "samples, 50.00%, was 79.92%<"));
    assert_non_null(strstr(out.at, "<g class=\"p0\" data-f=\"9000 1000\"><title>h\n"));
    text_free(&out);
    stacks_free(s);
    stacks_free(base);
}

/* Copies of a function are one box; the order in which threads met them does not show. */
static void a_comparison_does_not_depend_on_order(void **state)
{
    (void)state;
    static const char *const stacks[] = {"p;main;f.part.0;x", "p;main;f;x", "p;main;f.cold;x"};
    char *drawn[2];
    for (int i = 0; i < 2; i++) {
        struct stacks *base = make();
        struct stacks *s = make();
        add(base, 0, "p;main;a", 10);
        for (int j = 0; j < 3; j++)
            add(s, 0, stacks[i ? 2 - j : j], 10);
        struct flamegraph_options o = basic();
        struct text out = {0};
        struct error err;
        assert_int_equal(flamegraph_print(s, base, &o, &out, &err), 0);
        text_char(&out, 0);
        drawn[i] = out.at;
        stacks_free(s);
        stacks_free(base);
    }
    assert_string_equal(drawn[0], drawn[1]);
    assert_non_null(strstr(drawn[0], "data-f=\"0 30\"><title>f\n"));
    assert_null(strstr(drawn[0], "f.cold"));
    free(drawn[0]);
    free(drawn[1]);
}

/* 5000 names of 3000 bytes make 15 MB: when no width is asked for, only the widest are drawn. */
static void a_file_does_not_grow_without_end(void **state)
{
    (void)state;
    struct flamegraph_options o = basic();
    for (int asked = 0; asked < 2; asked++) {
        struct stacks *s = make();
        for (int i = 0; i < 5000; i++) {
            struct text stack = {0};
            text_printf(&stack, "p;%0*d%c", 3000, i, 0);
            add(s, 0, stack.at, (uint64_t)(10000 - i));
            text_free(&stack);
        }
        o.least_width = asked ? 0.01 : -1;
        char *svg = draw(s, &o);
        assert_true(asked ? strlen(svg) > 15000000 : strlen(svg) < 5000000);
        assert_true((strstr(svg, " px left out") != NULL) == !asked);
        assert_non_null(strstr(svg, "data-f=\"0 10000\"><title>000"));
        free(svg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_stand_where_they_belong),
        cmocka_unit_test(frames_do_not_overlap),
        cmocka_unit_test(narrow_frames_are_left_out),
        cmocka_unit_test(only_one_event_is_drawn),
        cmocka_unit_test(inverted_grows_down),
        cmocka_unit_test(xml_is_safe),
        cmocka_unit_test(labels_are_cut_between_characters),
        cmocka_unit_test(wide_characters_take_two_columns),
        cmocka_unit_test(reverse_begins_at_the_innermost),
        cmocka_unit_test(tiers_are_one_frame),
        cmocka_unit_test(a_comparison_says_what_was),
        cmocka_unit_test(a_comparison_does_not_depend_on_order),
        cmocka_unit_test(a_file_does_not_grow_without_end),
        cmocka_unit_test(nothing_to_draw_is_said),
        cmocka_unit_test(deep_stacks_are_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
