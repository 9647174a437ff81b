/* SPDX-License-Identifier: GPL-2.0-only */
/* The flame graph's places and names, from stacks written down by hand. */
#include "output/flamegraph.h"
#include "stacks/internal.h"

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
    assert_int_equal(flamegraph_print(s, o, &out, &err), 0);
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
    unsigned n = 0;
    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

/* 1000 pixels between the margins for 10 samples: each is 100 wide. */
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
        "data-f=\"0 10\"><title>all\n10 samples, 100.00%</title><rect x=\"10.00\" y=\"104\" "
        "width=\"1000.00\"",
        "data-f=\"0 1\"><title>o\n1 samples, 10.00%</title><rect x=\"10.00\" y=\"88\" "
        "width=\"100.00\"",
        "data-f=\"1 9\"><title>p\n9 samples, 90.00%</title><rect x=\"110.00\" y=\"88\" "
        "width=\"900.00\"",
        "data-f=\"1 9\"><title>main\nprog, 9 samples, 90.00%</title><rect x=\"110.00\" y=\"72\"",
        "data-f=\"1 3\"><title>a\nprog, 3 samples, 30.00%</title><rect x=\"110.00\" y=\"56\" "
        "width=\"300.00\"",
        "data-f=\"4 4\"><title>b\nprog, 4 samples, 40.00%</title><rect x=\"410.00\" y=\"56\" "
        "width=\"400.00\"",
        "data-f=\"4 4\"><title>c\nprog, 4 samples, 40.00%</title><rect x=\"410.00\" y=\"40\"",
    };
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
        assert_non_null(strstr(svg, places[i]));
    assert_int_equal(count(svg, "<g data-f="), 8);
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
    assert_int_equal(count(svg, "<g data-f="), 3);
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
    assert_non_null(strstr(svg, ">all\n1 samples, 100.00%</title><rect x=\"10.00\" y=\"40\""));
    assert_non_null(
        strstr(svg, ">main\nprog, 1 samples, 100.00%</title><rect x=\"10.00\" y=\"72\""));
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

/* Cut inside a two-byte character: the cut moves before it. */
static void labels_are_cut_between_characters(void **state)
{
    (void)state;
    struct stacks *s = make();
    add(s, 0, "p;\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 5);
    add(s, 0, "p;x", 95);
    struct flamegraph_options o = basic();
    char *svg = draw(s, &o); /* 50 pixels: 6 bytes, two of them for the dots */
    assert_non_null(strstr(svg, ">\xc3\xa9\xc3\xa9..</text>"));
    free(svg);
    s = make();
    add(s, 0, "p;a\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 5);
    add(s, 0, "p;x", 95);
    svg = draw(s, &o);
    assert_non_null(strstr(svg, ">a\xc3\xa9..</text>"));
    free(svg);
}

static void nothing_to_draw_is_said(void **state)
{
    (void)state;
    struct stacks *s = make();
    struct flamegraph_options o = basic();
    struct text out = {0};
    struct error err = {0};
    assert_int_equal(flamegraph_print(s, &o, &out, &err), -1);
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
    assert_int_equal(count(svg, "<g data-f="), 40002);
    free(svg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_stand_where_they_belong),
        cmocka_unit_test(narrow_frames_are_left_out),
        cmocka_unit_test(only_one_event_is_drawn),
        cmocka_unit_test(inverted_grows_down),
        cmocka_unit_test(xml_is_safe),
        cmocka_unit_test(labels_are_cut_between_characters),
        cmocka_unit_test(nothing_to_draw_is_said),
        cmocka_unit_test(deep_stacks_are_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
