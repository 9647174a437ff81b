/* SPDX-License-Identifier: GPL-2.0-only */
/* The report's rows and trees, from handwritten stacks. */
#include "output/output.h"
#include "output/report.h"
#include "stacks/stacks_internal.h"
#include "stacks_fixture.h"
#include "unwind/managed.h"
#include "unwind/luajit/vm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct report_event cycles = {"cycles", true};

static struct report_options basic(void)
{
    return (struct report_options){
        .keys = {KEY_SYM}, .nr_keys = 1, .bare = true, .graph_percent = 0.5};
}

static void expect(struct stacks *s, const struct report_options *o, const char *want)
{
    struct text out = {0};
    struct error err = {0};
    assert_int_equal(report_print(s, o, &cycles, 1, 3, &out, &err), 0);
    text_char(&out, 0);
    assert_string_equal(out.at, want);
    text_free(&out);
    stacks_free(s);
}

static void self_is_of_the_leaf(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    stacks_add(s, "p;main;f", 3, 30);
    stacks_add(s, "p;main;g;f", 1, 10);
    stacks_add(s, "p;main", 1, 20);
    stacks_add(s, "p;main;k_read", 4, 40);
    struct report_options o = basic();
    expect(s, &o,
           "    40.00%  [.] f\n"
           "    40.00%  [k] k_read\n"
           "    20.00%  [.] main\n");
}

static void children_count_a_sample_once(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    stacks_add(s, "p;main;f;g;f", 1, 50);
    stacks_add(s, "p;main;f;f;f", 1, 25);
    stacks_add(s, "p;main;g", 1, 25);
    struct report_options o = basic();
    o.children = o.callers_first = true;
    expect(s, &o,
           "   100.00%     0.00%  [.] main\n"
           "    75.00%    75.00%  [.] f\n"
           "    75.00%    25.00%  [.] g\n");
}

static void columns_and_head(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    stacks_add(s, "p;main", 12345, 90);
    stacks_add(s, "longer;main", 2, 10);
    s->tree.nodes.at[2].guessed = 345;
    s->tree.nodes.at[4].guessed = 1;
    s->tree.nodes.at[4].joined = 1;
    struct report_options o = basic();
    o.keys[0] = KEY_COMM;
    o.keys[1] = KEY_DSO;
    o.keys[2] = KEY_SYM;
    o.nr_keys = 3;
    o.bare = false;
    o.show_samples = o.show_period = true;
    expect(s, &o,
           "# To display the perf.data header info, please use --header/--header-only options.\n"
           "#\n#\n# Total Lost Samples: 3\n#\n"
           "# Samples: 12K of event 'cycles'\n"
           "# Event count (approx.): 100\n"
           "# Stacks joined, or with frames read at another moment: 1 of 12347\n"
           "# Stacks with guessed frames: 346 of 12347\n#\n"
           "# Overhead       Samples        Period  Command  Shared Object  Symbol\n"
           "# ........  ............  ............  .......  .............  ........\n#\n"
           "    90.00%         12345            90  p        prog           [.] main\n"
           "    10.00%             2            10  longer   prog           [.] main\n"
           "\n\n");
}

static void the_head_rounds_counts_as_perf_does(void **state)
{
    (void)state;
    const struct {
        unsigned samples;
        const char *text;
    } counts[] = {
        {999, "999 "}, {1000, "1000 "}, {1001, "1K"}, {1000999, "1000K"}, {1001000, "1M"},
    };
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        struct stacks *s = stacks_make();
        stacks_add(s, "p;main", counts[i].samples, 90);
        struct report_options o = basic();
        o.bare = false;
        char head[512];
        snprintf(head, sizeof(head),
                 "# To display the perf.data header info, please use "
                 "--header/--header-only options.\n"
                 "#\n#\n# Total Lost Samples: 3\n#\n"
                 "# Samples: %s of event 'cycles'\n"
                 "# Event count (approx.): 90\n#\n"
                 "# Overhead  Symbol\n"
                 "# ........  ........\n#\n"
                 "   100.00%%  [.] main\n\n\n",
                 counts[i].text);
        expect(s, &o, head);
    }
}

static void separator_pads_nothing(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    stacks_add(s, "p;f(int, char)", 1, 1);
    struct report_options o = basic();
    o.children = true;
    o.separator = ",";
    expect(s, &o, "100.00%,100.00%,[.] f(int. char)\n");
}

static void callers_of_a_row(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    stacks_add(s, "p;main;a;f", 6, 60);
    stacks_add(s, "p;main;b;f", 4, 40);
    struct report_options o = basic();
    o.keys[0] = KEY_DSO;
    o.graph = GRAPH_ABSOLUTE;
    expect(s, &o,
           "   100.00%  prog\n"
           "            |\n"
           "            ---f\n"
           "               |          \n"
           "               |--60.00%--a\n"
           "               |          main\n"
           "               |          \n"
           "                --40.00%--b\n"
           "                          main\n"
           "\n");
}

static void callees_of_a_row(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    stacks_add(s, "p;main;a;x", 6, 60);
    stacks_add(s, "p;main;a;y", 3, 30);
    stacks_add(s, "p;main;b", 1, 10);
    struct report_options o = basic();
    o.children = o.callers_first = true;
    o.graph = GRAPH_ABSOLUTE;
    o.symbols.nr = 0;
    const char *only[] = {"main"};
    o.symbols.at = only;
    o.symbols.nr = 1;
    expect(s, &o,
           "   100.00%     0.00%  [.] main\n"
           "            |          \n"
           "            |--90.00%--a\n"
           "            |          |          \n"
           "            |          |--60.00%--x\n"
           "            |          |          \n"
           "            |           --30.00%--y\n"
           "            |          \n"
           "             --10.00%--b\n"
           "\n");
}

/* Samples that end in the row show the whole way to it; the others show what follows it. */
static void a_row_that_is_leaf_and_caller(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    stacks_add(s, "p;main;f", 3, 30);
    stacks_add(s, "p;main;f;g", 6, 60);
    stacks_add(s, "p;main;f;g;f", 1, 10);
    struct report_options o = basic();
    o.children = o.callers_first = true;
    o.graph = GRAPH_ABSOLUTE;
    const char *only[] = {"f"};
    o.symbols.at = only;
    o.symbols.nr = 1;
    expect(s, &o,
           "   100.00%    40.00%  [.] f\n"
           "            |          \n"
           "            |--60.00%--f\n"
           "            |          g\n"
           "            |          \n"
           "             --40.00%--main\n"
           "                       f\n"
           "                       |          \n"
           "                        --10.00%--g\n"
           "                                  f\n"
           "\n");
}

/* Stacks whose names are the same are one, wherever they stand in the tree. */
static struct stacks *make_alike(void)
{
    struct stacks *s = stacks_make();
    stacks_add(s, "p;main;a;b;f", 1, 50);
    stacks_add(s, "p;main;c;f", 4, 20);
    stacks_add(s, "q;main;a;b;f", 2, 10);
    stacks_add(s, "p;main;f;x", 3, 20);
    return s;
}

static void stacks_below_each_other(void **state)
{
    (void)state;
    struct report_options o = basic();
    const char *only[] = {"f"};
    o.symbols.at = only;
    o.symbols.nr = 1;
    o.graph = GRAPH_FLAT;
    expect(make_alike(), &o,
           "    80.00%  [.] f\n"
           "           60.00%\n"
           "                f\n"
           "                b\n"
           "                a\n"
           "                main\n"
           "\n"
           "           20.00%\n"
           "                f\n"
           "                c\n"
           "                main\n"
           "\n");
    o.graph_limit = 1;
    o.callers_first = true;
    o.graph_value = VALUE_PERIOD;
    expect(make_alike(), &o,
           "    80.00%  [.] f\n"
           "           60\n"
           "                main\n"
           "                a\n"
           "                b\n"
           "                f\n"
           "\n");
}

static void stacks_in_a_line(void **state)
{
    (void)state;
    struct report_options o = basic();
    const char *only[] = {"f"};
    o.symbols.at = only;
    o.symbols.nr = 1;
    o.graph = GRAPH_FOLDED;
    o.children = true;
    expect(make_alike(), &o,
           "   100.00%    80.00%  [.] f\n"
           "60.00% f;b;a;main\n"
           "20.00% f;c;main\n"
           "20.00% f;main\n");
    o.callers_first = true;
    expect(make_alike(), &o,
           "   100.00%    80.00%  [.] f\n"
           "60.00% main;a;b;f\n"
           "20.00% main;c;f\n"
           "20.00% f;x\n");
    o.graph_percent = 30;
    o.separator = ",";
    expect(make_alike(), &o, "100.00%,80.00%,[.] f\n60.00% main,a,b,f\n");
}

/* Counts are of samples, and so is the order of what they stand before. */
static void counts_of_branches(void **state)
{
    (void)state;
    struct report_options o = basic();
    const char *only[] = {"f"};
    o.symbols.at = only;
    o.symbols.nr = 1;
    o.graph = GRAPH_FOLDED;
    o.graph_value = VALUE_COUNT;
    expect(make_alike(), &o, "    80.00%  [.] f\n4 f;c;main\n3 f;b;a;main\n");
    o.graph = GRAPH_ABSOLUTE;
    expect(make_alike(), &o,
           "    80.00%  [.] f\n"
           "            |          \n"
           "            |--4--c\n"
           "            |          main\n"
           "            |          \n"
           "             --3--b\n"
           "                       a\n"
           "                       main\n"
           "\n");
    o.graph_value = VALUE_PERIOD;
    o.graph_limit = 1;
    expect(make_alike(), &o,
           "    80.00%  [.] f\n"
           "            |          \n"
           "             --60--b\n"
           "                       a\n"
           "                       main\n"
           "\n");
}

/* Trees may tell places in a function apart; rows do not. */
static void places_of_branches(void **state)
{
    (void)state;
    struct report_options o = basic();
    struct stacks *s = stacks_make();
    stacks_add(s, "p;main;f;k_read", 1, 10);
    stacks_add(s, "p;main;g", 3, 30);
    stacks_add(s, "p;main;h", 2, 20);
    for (size_t i = 0; i < s->functions.nr; i++) {
        struct function *f = &s->functions.at[i];
        const bool is_f = strlen(f->symbol) == 1;
        f->line = !is_f ? 0 : *f->symbol == 'h' ? 9 : 7;
        f->file = is_f ? "/src/a.c" : NULL;
        f->offset = (uint32_t)i + 100;
        f->symbol = is_f ? "f" : f->symbol;
    }
    static const struct {
        enum report_graph_key key;
        const char *want;
    } cases[] = {
        {GRAPH_OF_FUNCTIONS, "    83.33%  [.] f\n83.33% f;main\n"
                             "    16.67%  [k] k_read\n16.67% k_read;f;main\n"},
        {GRAPH_OF_LINES, "    83.33%  [.] f\n50.00% f a.c:7;main ??:0\n33.33% f a.c:9;main ??:0\n"
                         "    16.67%  [k] k_read\n16.67% k_read;f a.c:7;main ??:0\n"},
        {GRAPH_OF_ADDRESSES,
         "    83.33%  [.] f\n50.00% f a.c:7;main ??:0\n33.33% f a.c:9;main ??:0\n"
         "    16.67%  [k] k_read\n16.67% k_read +102;f a.c:7;main ??:0\n"},
    };
    o.graph = GRAPH_FOLDED;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct text out = {0};
        o.graph_key = cases[i].key;
        assert_int_equal(report_print(s, &o, &cycles, 1, 0, &out, NULL), 0);
        text_char(&out, 0);
        assert_string_equal(out.at, cases[i].want);
        text_free(&out);
    }
    stacks_free(s);
}

/* A separator inside a name would make two functions of it. */
static void folded_names(void **state)
{
    (void)state;
    struct report_options o = basic();
    o.graph = GRAPH_FOLDED;
    struct stacks *s = stacks_make();
    stacks_add(s, "p;f", 1, 10);
    s->functions.at[0].symbol = "operator;";
    expect(s, &o, "   100.00%  [.] operator;\n100.00% operator:\n");
}

static struct stacks *make_modules(void)
{
    struct stacks *s = stacks_make();
    stacks_add(s, "p;main;f", 3, 30);
    stacks_add(s, "p;main;k_read", 2, 20);
    stacks_add(s, "q;main;f", 1, 15);
    stacks_add(s, "p;main;g", 1, 4);
    stacks_add(s, "q;main;k_read", 1, 31);
    return s;
}

static struct report_options below_each_other(void)
{
    struct report_options o = basic();
    o.hierarchy = true;
    o.keys[0] = KEY_COMM;
    o.keys[1] = KEY_DSO;
    o.keys[2] = KEY_SYM;
    o.nr_keys = 3;
    return o;
}

static void rows_below_each_other(void **state)
{
    (void)state;
    struct report_options o = below_each_other();
    o.show_samples = true;
    expect(make_modules(), &o,
           "    54.00%             6        p\n"
           "       34.00%             4        prog\n"
           "          30.00%             3        [.] f\n"
           "           4.00%             1        [.] g\n"
           "       20.00%             2        [kernel.kallsyms]\n"
           "          20.00%             2        [k] k_read\n"
           "    46.00%             2        q\n"
           "       31.00%             1        [kernel.kallsyms]\n"
           "          31.00%             1        [k] k_read\n"
           "       15.00%             1        prog\n"
           "          15.00%             1        [.] f\n");
    o.separator = ",";
    o.keys[1] = KEY_SYM;
    o.nr_keys = 2;
    o.percent_limit = 30;
    expect(make_modules(), &o,
           "54.00%,6,p\n   30.00%,3,[.] f\n46.00%,2,q\n   31.00%,1,[k] k_read\n");
}

/* A line counts all that is below it, also what is too small to be printed. */
static void small_rows_below(void **state)
{
    (void)state;
    struct report_options o = below_each_other();
    o.bare = false;
    o.percent_limit = 31.5;
    expect(make_modules(), &o,
           "# To display the perf.data header info, please use --header/--header-only options.\n#\n"
           "#\n# Total Lost Samples: 3\n#\n"
           "# Samples: 8  of event 'cycles'\n# Event count (approx.): 100\n#\n"
           "#       Overhead  Command / Shared Object / Symbol\n"
           "# ..............  ................................\n#\n"
           "    54.00%        p\n"
           "       34.00%        prog\n"
           "                        no entry >= 31.50%\n"
           "    46.00%        q\n"
           "                     no entry >= 31.50%\n\n\n");
}

static void a_hierarchy_has_trees(void **state)
{
    (void)state;
    struct report_options o = below_each_other();
    o.graph = GRAPH_FOLDED;
    o.percent_limit = 31;
    o.keys[1] = KEY_SYM;
    o.nr_keys = 2;
    expect(make_modules(), &o,
           "    54.00%     p\n"
           "                  no entry >= 31.00%\n"
           "    46.00%     q\n"
           "       31.00%     [k] k_read\n"
           "31.00% k_read;main\n");
}

static void columns_of_given_widths(void **state)
{
    (void)state;
    struct report_options o = below_each_other();
    o.hierarchy = o.bare = false;
    o.show_samples = true;
    o.percent_limit = 31;
    o.nr_widths = 5;
    o.widths[0] = 12;
    o.widths[1] = 9;
    o.widths[2] = 3;
    o.widths[3] = 6;
    o.widths[4] = 7;
    expect(make_modules(), &o,
           "# To display the perf.data header info, please use --header/--header-only options.\n#\n"
           "#\n# Total Lost Samples: 3\n#\n"
           "# Samples: 8  of event 'cycles'\n# Event count (approx.): 100\n#\n"
           "#     Overhead    Samples  Com  Shared  Symbol\n"
           "# ............  .........  ...  ......  .......\n#\n"
           "        31.00%          1  q    [kerne  [k] k_r\n\n\n");
    o.bare = true;
    o.separator = ":";
    expect(make_modules(), &o, "31.00%:1:q:[kernel.kallsyms]:[k] k_read\n");
}

/* A name is not cut within a character. */
static void cut_names(void **state)
{
    (void)state;
    struct report_options o = basic();
    struct stacks *s = stacks_make();
    stacks_add(s, "p;f", 1, 10);
    s->functions.at[0].symbol = "a\u20acb";
    o.nr_widths = 2;
    for (unsigned width = 6; width < 8; width++) {
        struct text out = {0};
        o.widths[1] = width;
        assert_int_equal(report_print(s, &o, &cycles, 1, 0, &out, NULL), 0);
        text_char(&out, 0);
        assert_string_equal(out.at, "   100.00%  [.] a\n");
        text_free(&out);
    }
    o.widths[1] = 8;
    expect(s, &o, "   100.00%  [.] a\u20ac\n");
}

static void offsets_and_groups(void **state)
{
    (void)state;
    struct report_options o = basic();
    o.keys[0] = KEY_SYMOFF;
    struct stacks *s = stacks_make();
    stacks_add(s, "p;main;f", 3, 30);
    stacks_add(s, "p;main;g", 1, 10);
    for (size_t i = 0; i < s->functions.nr; i++)
        if (strcmp(s->functions.at[i].symbol, "main") != 0) {
            s->functions.at[i].symbol = "f";
            s->functions.at[i].offset = 0x10 + (uint32_t)i;
        }
    struct text out = {0};
    assert_int_equal(report_print(s, &o, &cycles, 1, 0, &out, NULL), 0);
    text_char(&out, 0);
    assert_string_equal(out.at, "    75.00%  [.] f+0x11\n    25.00%  [.] f+0x12\n");
    text_free(&out);
    o.keys[0] = KEY_CGROUP; /* no record names the group */
    s->groups.at[0].cgroup = 7;
    expect(s, &o, "   100.00%  unknown\n");
}

static void callers_with_children(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    stacks_add(s, "p;main;f;g;f;h", 5, 50);
    stacks_add(s, "p;main;f;h", 5, 50);
    struct report_options o = basic();
    o.children = true;
    o.graph = GRAPH_ABSOLUTE;
    o.keys[0] = KEY_DSO;
    o.keys[1] = KEY_SYM;
    o.nr_keys = 2;
    const char *only[] = {"f"};
    o.symbols.at = only;
    o.symbols.nr = 1;
    expect(s, &o,
           "   100.00%     0.00%  prog           [.] f\n"
           "            |\n"
           "            ---f\n"
           "               |          \n"
           "               |--50.00%--g\n"
           "               |          f\n"
           "               |          main\n"
           "               |          \n"
           "                --50.00%--main\n"
           "\n");
}

static void fractal_says_what_is_left_out(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    stacks_add(s, "p;main;a;x", 50, 50);
    stacks_add(s, "p;main;b;x", 40, 40);
    stacks_add(s, "p;main;c;x", 10, 10);
    stacks_add(s, "p;main;y", 100, 100);
    struct report_options o = basic();
    o.graph = GRAPH_FRACTAL;
    o.graph_percent = 20;
    const char *only[] = {"x"};
    o.symbols.at = only;
    o.symbols.nr = 1;
    o.keys[0] = KEY_DSO;
    o.keys[1] = KEY_SYM;
    o.nr_keys = 2;
    expect(s, &o,
           "    50.00%  prog           [.] x\n"
           "            |\n"
           "            ---x\n"
           "               |          \n"
           "               |--50.00%--a\n"
           "               |          main\n"
           "               |          \n"
           "               |--40.00%--b\n"
           "               |          main\n"
           "                --10.00%--[...]\n"
           "\n");
}

static void limits_and_filters(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    stacks_add(s, "p;main;f", 6, 60);
    stacks_add(s, "p;main;g", 3, 30);
    stacks_add(s, "q;main;f", 1, 10);
    struct report_options o = basic();
    const char *only[] = {"p"};
    o.comms.at = only;
    o.comms.nr = 1;
    o.percent_limit = 50;
    struct report_options relative = o;
    struct text out = {0};
    relative.relative = true;
    assert_int_equal(report_print(s, &relative, &cycles, 1, 0, &out, NULL), 0);
    text_char(&out, 0);
    assert_string_equal(out.at, "    66.67%  [.] f\n");
    text_free(&out);
    expect(s, &o, "    60.00%  [.] f\n");
}

static void unresolved(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    stacks_add(s, "p;main;?10;f", 1, 50);
    stacks_add(s, "p;main;?10", 1, 25);
    stacks_add(s, "p;main;?20", 1, 25);
    struct report_options o = basic();
    struct text out = {0};
    assert_int_equal(report_print(s, &o, &cycles, 1, 0, &out, NULL), 0);
    text_char(&out, 0);
    assert_string_equal(out.at, "    50.00%  [.] f\n"
                                "    25.00%  [.] 0x0000000000000010\n"
                                "    25.00%  [.] 0x0000000000000020\n");
    text_free(&out);
    o.hide_unresolved = true;
    o.children = o.callers_first = true;
    o.graph = GRAPH_ABSOLUTE;
    expect(s, &o,
           "   100.00%     0.00%  [.] main\n"
           "            |\n"
           "            ---f\n"
           "\n"
           "   100.00%   100.00%  [.] f\n"
           "            |\n"
           "            ---main\n"
           "               f\n"
           "\n");
}

/* A sample without any frame still counts, and a stack of many frames is drawn without
 * recursion. */
static void no_frames_and_many(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    stacks_add(s, "p", 1, 1);
    struct text deep = {0};
    text_string(&deep, "p");
    for (int i = 0; i < 50000; i++)
        text_printf(&deep, ";f%d", i % 7);
    text_char(&deep, 0);
    stacks_add(s, deep.at, 1, 1);
    text_free(&deep);
    struct report_options o = basic();
    o.keys[0] = KEY_DSO;
    expect(s, &o,
           "    50.00%  [unknown]\n"
           "    50.00%  prog\n");
}

static void add_at(struct stacks *s, const char *symbol, const char *file, uint32_t line)
{
    struct stack_group g = {.comm = "p"};
    struct function f = {.symbol = symbol, .module = "/bin/prog", .file = file, .line = line};
    uint32_t node = stack_tree_child(&s->tree, 0, stacks_intern_group(s, &g));
    node = stack_tree_child(&s->tree, node, stacks_intern_function(s, &f));
    s->tree.nodes.at[node].samples++;
}

static void lines(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    for (int i = 0; i < 3; i++)
        add_at(s, "f", "/src/f.c", 12);
    add_at(s, "g", "/src/f.c", 12);
    add_at(s, "g", NULL, 0);
    struct report_options o = basic();
    struct text out = {0};
    o.keys[0] = KEY_SRCFILE;
    assert_int_equal(report_print(s, &o, &cycles, 1, 0, &out, NULL), 0);
    text_char(&out, 0);
    assert_string_equal(out.at, "    80.00%  f.c\n    20.00%  ??\n");
    text_free(&out);
    o.keys[0] = KEY_SRCLINE;
    expect(s, &o, "    80.00%  f.c:12\n    20.00%  g\n");
}

/* perf's key pid is the thread. A thread that changed its name gets the name that it had longer. */
static void a_thread_is_one_row(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    stacks_add(s, "exec;main", 1, 10);
    stacks_add(s, "worker;main", 1, 90);
    struct report_options o = basic();
    o.keys[0] = KEY_THREAD;
    expect(s, &o, "   100.00%       11:worker\n");
}

/* A deep stack has a row for each function and a line for each caller: the output must be
 * bounded. */
static void trees_have_an_end(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    struct text deep = {0};
    text_string(&deep, "p");
    for (int i = 0; i < 8000; i++)
        text_printf(&deep, ";f%d", i);
    text_char(&deep, 0);
    stacks_add(s, deep.at, 1, 1);
    struct report_options o = basic();
    o.children = true;
    o.graph = GRAPH_ABSOLUTE;
    for (int callers_first = 0; callers_first < 2; callers_first++) {
        o.callers_first = callers_first;
        deep.size = 0;
        assert_int_equal(report_print(s, &o, &cycles, 1, 0, &deep, NULL), 0);
        text_char(&deep, 0);
        assert_true(deep.size < 8000 * 1000 * 24);
        assert_non_null(strstr(deep.at, "               [deeper]\n"));
    }
    text_free(&deep);
    stacks_free(s);
}

static void inlined_functions_say_so(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    stacks_add(s, "p;main;i_get", 1, 1);
    struct report_options o = basic();
    expect(s, &o, "   100.00%  [.] i_get (inlined)\n");
}

/* ---- managed functions ----------------------------------------------------------------------- */

static uint32_t managed(struct managed_names *g, const char *file, uint32_t line, uint64_t salt)
{
    const struct managed_identity i = {.kind = line ? MANAGED_FUNCTION : MANAGED_MAIN,
                                       .language = FRAME_LUA,
                                       .file = file,
                                       .line = line,
                                       .salt = salt};
    return managed_intern(g, &i);
}

/* A stack of Lua functions below a native one, as the collector leaves it. */
static void add_lua(struct stacks *s, const uint32_t *ids, unsigned nr, uint64_t samples)
{
    struct stack_group g = {.comm = "app"};
    struct function native = {.symbol = "main", .module = "/bin/luajit", .kind = FRAME_NATIVE};
    uint32_t node = stack_tree_child(&s->tree, 0, stacks_intern_group(s, &g));
    node = stack_tree_child(&s->tree, node, stacks_intern_function(s, &native));
    for (unsigned i = 0; i < nr; i++) {
        struct function f = {.kind = FRAME_LUA, .managed = ids[i]};
        node = stack_tree_child(&s->tree, node, stacks_intern_function(s, &f));
    }
    s->tree.nodes.at[node].samples += samples;
    s->tree.nodes.at[node].period += samples;
}

static void expect_folded(const struct stacks *s, const char *want)
{
    char *text = NULL;
    size_t size;
    struct fold_options o = {.event = -1};
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(fold_print(s, &o, out, NULL), 0);
    fclose(out);
    assert_string_equal(text, want);
    free(text);
}

static void managed_functions_are_named_when_all_is_known(void **state)
{
    (void)state;
    struct managed_names *g = managed_names_create();
    struct stacks *s = stacks_make();
    uint32_t chunk = managed(g, "app.lua", 0, 0), handler = managed(g, "lib/(x).lua", 12, 0);
    /* Two functions at one line, without names; and one whose name comes late. */
    uint32_t twin1 = managed(g, "lib/(x).lua", 30, 1), twin2 = managed(g, "lib/(x).lua", 30, 2);
    s->managed = g;
    add_lua(s, (uint32_t[]){chunk, handler, twin1}, 3, 5);
    managed_propose_name(g, handler, NAME_RANK_CALL, "h;1", 3);
    add_lua(s, (uint32_t[]){chunk, handler, twin2}, 3, 3);
    add_lua(s, (uint32_t[]){chunk, handler}, 2, 2);
    assert_int_equal(stacks_finish(s, NULL), 0);
    expect_folded(s, "app;main;main chunk app.lua;h:1 lib/%28x%29.lua:12 2\n"
                     "app;main;main chunk app.lua;h:1 lib/%28x%29.lua:12;lib/%28x%29.lua:30 8\n");
    struct report_options o = basic();
    o.keys[0] = KEY_DSO;
    o.keys[1] = KEY_SYM;
    o.nr_keys = 2;
    o.separator = "|";
    expect(s, &o,
           "80.00%|lib/(x).lua|[.] lib/%28x%29.lua:30\n"
           "20.00%|lib/(x).lua|[.] h;1 lib/%28x%29.lua:12\n");
    managed_names_free(g);
}

/* ---- properties of one sample ---------------------------------------------------------------- */

/* Samples of a program with everything, also the trace from which C is called. */
static struct stacks *make_lua(void)
{
    struct stacks *s = stacks_make();
    stacks_add_managed(s, "main;L:m;L3:f a.lua:1", 50, 40);
    stacks_add_managed(s, "main;L:m;L4:f a.lua:1;memcpy", 51, 20);
    stacks_add_managed(s, "main;L:m;L:g a.lua:9;lj_ccall_func;abs", 51, 16);
    stacks_add_managed(s, "main;L:m;L:g a.lua:9", 50, 10);
    stacks_add_managed(s, "main;L:m;lj_gc_step;propagate", 52, 6);
    stacks_add_managed(s, "main;L:m;L3:f a.lua:1;lj_trace_exit;x", 52, 4);
    stacks_add_managed(s, "main;L:m;lj_trace_hot", 52, 3);
    stacks_add_managed(s, "main", 52, 1);
    return s;
}

static void states_of_samples(void **state)
{
    (void)state;
    struct report_options o = basic();
    o.keys[0] = KEY_STATE;
    expect(make_lua(), &o,
           "    40.00%  lua trace\n"
           "    20.00%  C called by lua\n"
           "    16.00%  lua FFI call\n"
           "    10.00%  lua interpreter\n"
           "     6.00%  lua garbage collection\n"
           "     4.00%  lua trace exit\n"
           "     3.00%  lua trace compiler\n"
           "     1.00%  native\n");
}

/* A VM without symbols: the state that it tells counts for the C code that it runs, and for nothing
 * else. */
static void states_that_vms_tell(void **state)
{
    (void)state;
    struct stacks *s = stacks_make();
    static const struct {
        enum runtime_activity told;
        const char *stack;
        uint64_t period;
    } samples[] = {
        {RUNTIME_IN_GC, "main;L:m;x", 40},
        {RUNTIME_IN_RECORDER, "main;L:m;x", 20},
        {RUNTIME_IN_ASSEMBLER, "main;L:m;x", 5},
        {RUNTIME_IN_EXIT, "main;L:m;x", 15},
        {RUNTIME_IN_C, "main;L:m;x", 10},
        {RUNTIME_IN_GC, "main;L:m", 6},
        {RUNTIME_IN_GC, "main;x", 4},
    };
    for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
        stacks_add_managed(s, samples[i].stack, i, samples[i].period);
        s->groups.at[i].vmstate = samples[i].told;
    }
    struct report_options o = basic();
    o.keys[0] = KEY_STATE;
    expect(s, &o,
           "    40.00%  lua garbage collection\n"
           "    25.00%  lua trace compiler\n"
           "    15.00%  lua trace exit\n"
           "    10.00%  C called by lua\n"
           "     6.00%  lua interpreter\n"
           "     4.00%  native\n");
}

static void numbers_of_states(void **state)
{
    (void)state;
    struct luajit_layout upstream = {.frame_size = 80};
    struct luajit_layout tarantool = {.frame_size = 96};
    assert_int_equal(luajit_vmstate(&upstream, -1), RUNTIME_IN_INTERPRETER);
    assert_int_equal(luajit_vmstate(&upstream, -3), RUNTIME_IN_GC);
    assert_int_equal(luajit_vmstate(&upstream, -7), RUNTIME_IN_ASSEMBLER);
    assert_int_equal(luajit_vmstate(&upstream, -8), RUNTIME_IN_UNKNOWN);
    assert_int_equal(luajit_vmstate(&upstream, INT32_MIN), RUNTIME_IN_UNKNOWN);
    assert_int_equal(luajit_vmstate(&upstream, 0), RUNTIME_IN_UNKNOWN);
    assert_int_equal(luajit_vmstate(&upstream, 17), RUNTIME_IN_UNKNOWN);
    assert_int_equal(luajit_vmstate(&tarantool, -3), RUNTIME_IN_INTERPRETER); /* FFUNC */
    assert_int_equal(luajit_vmstate(&tarantool, -4), RUNTIME_IN_C);
    assert_int_equal(luajit_vmstate(&tarantool, -5), RUNTIME_IN_GC);
    assert_int_equal(luajit_vmstate(&tarantool, -9), RUNTIME_IN_ASSEMBLER);
    assert_int_equal(luajit_vmstate(&tarantool, -10), RUNTIME_IN_UNKNOWN);
    assert_int_equal(luajit_vmstate(&tarantool, 4), RUNTIME_IN_UNKNOWN);
    upstream.frame_size = 88;
    assert_int_equal(luajit_vmstate(&upstream, -1), RUNTIME_IN_UNKNOWN);
}

static void traces_and_what_they_call(void **state)
{
    (void)state;
    struct report_options o = basic();
    o.keys[0] = KEY_TRACE;
    expect(make_lua(), &o,
           "    44.00%       10:3\n"
           "    36.00%       10:[no trace]\n"
           "    20.00%       10:4\n");
}

/* A function is one row, whatever trace it ran in, and its callees are one tree. */
static void traces_do_not_split_functions(void **state)
{
    (void)state;
    struct report_options o = basic();
    const char *only[] = {"f"};
    o.symbols.at = only;
    o.symbols.nr = 1;
    o.children = o.callers_first = true;
    o.graph = GRAPH_ABSOLUTE;
    expect(make_lua(), &o,
           "    64.00%    40.00%  [.] f a.lua:1\n"
           "            |          \n"
           "            |--40.00%--main\n"
           "            |          m\n"
           "            |          f a.lua:1\n"
           "            |          \n"
           "             --24.00%--f a.lua:1\n"
           "                       |          \n"
           "                       |--20.00%--memcpy\n"
           "                       |          \n"
           "                        --4.00%--lj_trace_exit\n"
           "                                  x\n"
           "\n");
}

static void slices_in_order(void **state)
{
    (void)state;
    struct report_options o = basic();
    o.keys[0] = KEY_TIME;
    o.quantum = 100000000;
    struct stacks *s = make_lua();
    struct text out = {0};
    assert_int_equal(report_print(s, &o, &cycles, 1, 0, &out, NULL), 0);
    text_char(&out, 0);
    assert_string_equal(out.at,
                        "    50.00%  5.000000\n    36.00%  5.100000\n    14.00%  5.200000\n");
    text_free(&out);
    o.nr_before = 1;
    o.quantum = 101;
    o.percent_limit = 20;
    o.keys[1] = KEY_STATE;
    o.nr_keys = 2;
    expect(s, &o,
           "    40.00%  0.000005050  lua trace\n"
           "    20.00%  0.000005151  C called by lua\n");
}

static void parents_by_pattern(void **state)
{
    (void)state;
    regex_t pattern;
    assert_int_equal(regcomp(&pattern, "^(f|g) |^m$", REG_EXTENDED | REG_NOSUB), 0);
    struct report_options o = basic();
    o.keys[0] = KEY_PARENT;
    o.parent = &pattern;
    struct stacks *s = make_lua();
    struct text out = {0};
    assert_int_equal(report_print(s, &o, &cycles, 1, 0, &out, NULL), 0);
    text_char(&out, 0);
    assert_string_equal(out.at, "    64.00%  f a.lua:1\n    26.00%  g a.lua:9\n"
                                "     9.00%  m\n     1.00%  [other]\n");
    text_free(&out);
    o.exclude_other = o.relative = true;
    o.percent_limit = 20;
    expect(s, &o, "    64.65%  f a.lua:1\n    26.26%  g a.lua:9\n");
    regfree(&pattern);
}

static void filters_do_not_split_rows(void **state)
{
    (void)state;
    struct report_options o = basic();
    o.keys[0] = KEY_STATE;
    o.symbol_filter = "a.lua";
    expect(make_lua(), &o, "    40.00%  lua trace\n    10.00%  lua interpreter\n");
    o.symbol_filter = NULL;
    o.keys[0] = KEY_SYM;
    o.one_thread = true;
    o.thread = 12;
    expect(make_lua(), &o, "");
}

static void managed_symbols_are_escaped(void **state)
{
    (void)state;
    struct text t = {0};
    text_managed_symbol(&t, "(for generator) [string \"a\n\"]:3");
    text_char(&t, ' ');
    text_word(&t, "a (b)");
    text_char(&t, 0);
    assert_string_equal(t.at, "%28for generator%29 [string \"a%0A\"]:3 a%20%28b%29");
    text_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(self_is_of_the_leaf),
        cmocka_unit_test(children_count_a_sample_once),
        cmocka_unit_test(columns_and_head),
        cmocka_unit_test(the_head_rounds_counts_as_perf_does),
        cmocka_unit_test(separator_pads_nothing),
        cmocka_unit_test(callers_of_a_row),
        cmocka_unit_test(callees_of_a_row),
        cmocka_unit_test(a_row_that_is_leaf_and_caller),
        cmocka_unit_test(stacks_below_each_other),
        cmocka_unit_test(stacks_in_a_line),
        cmocka_unit_test(counts_of_branches),
        cmocka_unit_test(places_of_branches),
        cmocka_unit_test(folded_names),
        cmocka_unit_test(rows_below_each_other),
        cmocka_unit_test(small_rows_below),
        cmocka_unit_test(a_hierarchy_has_trees),
        cmocka_unit_test(columns_of_given_widths),
        cmocka_unit_test(cut_names),
        cmocka_unit_test(offsets_and_groups),
        cmocka_unit_test(callers_with_children),
        cmocka_unit_test(fractal_says_what_is_left_out),
        cmocka_unit_test(limits_and_filters),
        cmocka_unit_test(unresolved),
        cmocka_unit_test(no_frames_and_many),
        cmocka_unit_test(lines),
        cmocka_unit_test(a_thread_is_one_row),
        cmocka_unit_test(trees_have_an_end),
        cmocka_unit_test(inlined_functions_say_so),
        cmocka_unit_test(managed_functions_are_named_when_all_is_known),
        cmocka_unit_test(managed_symbols_are_escaped),
        cmocka_unit_test(states_of_samples),
        cmocka_unit_test(states_that_vms_tell),
        cmocka_unit_test(numbers_of_states),
        cmocka_unit_test(traces_and_what_they_call),
        cmocka_unit_test(traces_do_not_split_functions),
        cmocka_unit_test(slices_in_order),
        cmocka_unit_test(parents_by_pattern),
        cmocka_unit_test(filters_do_not_split_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
