/* SPDX-License-Identifier: GPL-2.0-only */
/* Comparison of recordings: which functions are the same, what is counted, tests and gates. */
#include "output/diff.h"
#include "stacks/stacks_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Student's t: values of printed tables --------------------------------------------------- */

static void student_is_that_of_tables(void **state)
{
    (void)state;
    static const struct {
        double t, freedom, above;
    } table[] = {{12.706, 1, 0.025},    {2.776, 4, 0.025},  {2.228, 10, 0.025}, {3.055, 12, 0.005},
                 {3.852, 14, 0.000879}, {1.645, 1e6, 0.05}, {0, 5, 0.5}};
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        double above = student_above(table[i].t, table[i].freedom);
        assert_true(fabs(above - table[i].above) < 0.001 * table[i].above + 3e-5);
        assert_true(fabs(student_above(-table[i].t, table[i].freedom) - (1 - above)) < 1e-12);
        assert_true(table[i].t < 1 ||
                    fabs(student_quantile(above, table[i].freedom) - table[i].t) < 1e-6);
    }
    assert_true(student_above(1e6, 12) > 0 && student_above(1e6, 12) < 1e-30);
}

/* ---- gates ----------------------------------------------------------------------------------- */

static void gates_are_read(void **state)
{
    (void)state;
    struct diff_gate g;
    struct error err;
    assert_int_equal(diff_gate_parse("self>+2%", &g, &err), 0);
    assert_true(!g.pattern && g.metric == DIFF_SELF && !g.relative && !g.or_equal);
    assert_true(fabs(g.limit - 0.02) < 1e-12);
    assert_int_equal(diff_gate_parse("ns::f(int)*: total >= 50% rel", &g, &err), 0);
    assert_string_equal(g.pattern, "ns::f(int)*");
    assert_true(g.metric == DIFF_TOTAL && g.relative && g.or_equal && fabs(g.limit - 0.5) < 1e-12);
    diff_gate_free(&g);
    assert_int_equal(diff_gate_parse("operator>:self>1%", &g, &err), 0);
    assert_string_equal(g.pattern, "operator>");
    diff_gate_free(&g);
    assert_int_equal(diff_gate_parse("cpu>=+5%", &g, &err), 0);
    assert_true(g.metric == DIFF_METRICS + WHOLE_WEIGHT && g.or_equal);
    assert_int_equal(diff_gate_parse("wall>5%", &g, &err), 0);
    assert_true(g.metric == DIFF_METRICS + WHOLE_WALL);
    static const char *const bad[] = {"",          "self",      "self>",     "self>2",
                                      "self<2%",   "own>+2%",   "self>+-2%", "self>2%x",
                                      "f self>2%", "self>nan%", "f:cpu>5%",  "samples"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(diff_gate_parse(bad[i], &g, &err), -1);
}

/* ---- comparisons of handwritten stacks ------------------------------------------------------- */

struct fixture {
    struct diff_options options;
    struct diff diff;
};

static void set_up(struct fixture *f)
{
    *f = (struct fixture){
        .options = {.alpha = 0.05, .least_weight = 0.005, .noise = 0.08, .samples = true}};
    struct diff_gate gate;
    struct error err;
    assert_int_equal(diff_gate_parse("self>+1%", &gate, &err), 0);
    assert_true(vec_push(&f->options.gates, gate));
    assert_int_equal(diff_init(&f->diff, &f->options, &err), 0);
}

static void tear_down(struct fixture *f)
{
    diff_free(&f->diff);
    vec_free(&f->options.gates);
}

static enum frame_kind kind_of(const char *module)
{
    static const struct {
        const char *end;
        enum frame_kind kind;
    } kinds[] = {{".lua", FRAME_LUA},  {".js", FRAME_JS},     {".map", FRAME_JIT},
                 {".dump", FRAME_JIT}, {".ko", FRAME_KERNEL}, {".kallsyms]", FRAME_KERNEL}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        size_t size = strlen(module), nr = strlen(kinds[i].end);
        if (size > nr && strcmp(module + size - nr, kinds[i].end) == 0)
            return kinds[i].kind;
    }
    return FRAME_NATIVE;
}

/* Adds stacks, "SAMPLES outermost;...;leaf" a line. A function is SYMBOL@MODULE; the end of the
 * module's name decides the kind of frame; an empty SYMBOL is a function without a name. The
 * samples are spread over ten blocks. */
static void add(struct fixture *f, enum diff_side side, const char *text)
{
    struct stacks_options options = {0};
    struct stacks *s = stacks_create(&options);
    struct diff_recording r = {.path = "a file", .event = "cycles", .side = side, .complete = 1};
    char *copy = strdup(text);
    char *lines = copy;
    struct error err = {0};
    for (char *line; (line = strsep(&lines, "\n"));) {
        uint64_t samples = strtoul(line, &line, 10);
        for (uint32_t block = 0; block < 10; block++) {
            struct stack_group g = {.comm = "p", .block = block};
            uint32_t node = stack_tree_child(&s->tree, 0, stacks_intern_group(s, &g));
            char *stack = strdup(line + 1);
            char *rest = stack;
            for (char *name; (name = strsep(&rest, ";"));) {
                char *module = strchr(name, '@');
                *module++ = 0;
                struct function fn = {.symbol = *name ? name : NULL,
                                      .module = module,
                                      .kind = (uint8_t)kind_of(module)};
                node = stack_tree_child(&s->tree, node, stacks_intern_function(s, &fn));
            }
            s->tree.nodes.at[node].samples += samples / 10;
            free(stack);
        }
    }
    assert_int_equal(diff_add(&f->diff, &r, s, &err), 0);
    stacks_free(s);
    free(copy);
}

static void finish(struct fixture *f)
{
    struct error err = {0};
    assert_int_equal(diff_finish(&f->diff, &err), 0);
}

static const struct diff_row *find(const struct fixture *f, const char *name, uint32_t line)
{
    const struct diff_row *found = NULL;
    vec_foreach (row, &f->diff.rows)
        if (strcmp(row->name, name) == 0 && (!line || row->line == line)) {
            assert_null(found);
            found = row;
        }
    assert_non_null(found);
    return found;
}

static void expect(const struct diff_row *row, double base, double new)
{
    assert_true(fabs(row->test[DIFF_SELF].mean[DIFF_BASE] - base) < 1e-9);
    assert_true(fabs(row->test[DIFF_SELF].mean[DIFF_NEW] - new) < 1e-9);
}

static void a_sample_counts_once_for_a_function(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    add(&f, DIFF_BASE, "600 main@p;f@p;g@p;f@p\n400 main@p;g@p");
    add(&f, DIFF_NEW, "500 main@p;f@p\n500 main@p;g@p");
    finish(&f);
    const struct diff_row *row = find(&f, "f", 0);
    expect(row, 0.6, 0.5);
    assert_true(fabs(row->test[DIFF_TOTAL].mean[DIFF_BASE] - 0.6) < 1e-9);
    assert_true(fabs(find(&f, "g", 0)->test[DIFF_TOTAL].mean[DIFF_BASE] - 1) < 1e-9);
    assert_true(fabs(find(&f, "main", 0)->test[DIFF_TOTAL].mean[DIFF_NEW] - 1) < 1e-9);
    tear_down(&f);
}

/* Samples of another event are not counted. */
static void one_event_is_compared(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    for (int side = 0; side < DIFF_SIDES; side++) {
        struct stacks_options options = {0};
        struct stacks *s = stacks_create(&options);
        struct diff_recording r = {.path = "a", .event = "e", .side = (uint8_t)side, .complete = 1};
        struct error err;
        for (uint16_t event = 0; event < 2; event++) {
            struct stack_group g = {.comm = "p", .event = event};
            struct function fn = {.symbol = event ? "other" : "f", .module = "p"};
            uint32_t node = stack_tree_child(&s->tree, 0, stacks_intern_group(s, &g));
            node = stack_tree_child(&s->tree, node, stacks_intern_function(s, &fn));
            s->tree.nodes.at[node].samples = event ? 500 : 10;
        }
        assert_int_equal(diff_add(&f.diff, &r, s, &err), 0);
        assert_int_equal(f.diff.recordings.at[side].samples, 10);
        stacks_free(s);
    }
    finish(&f);
    expect(find(&f, "f", 0), 1, 1);
    tear_down(&f);
}

static void copies_of_a_function_are_the_function(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    add(&f, DIFF_BASE, "600 f.constprop.0@/old/p\n400 g(int) [clone .isra.0]@/usr/lib/libx.so.1.2");
    add(&f, DIFF_NEW, "500 f@/new/p\n300 g(int)@/usr/lib/libx.so.1.3\n200 f.part.0.cold@/new/p");
    finish(&f);
    assert_int_equal(f.diff.rows.nr, 2);
    expect(find(&f, "f", 0), 0.6, 0.7);
    expect(find(&f, "g(int)", 0), 0.4, 0.3);
    tear_down(&f);
}

static void one_name_in_two_sources_is_two_functions(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    add(&f, DIFF_BASE, "600 f@/a/p\n400 f@/b/p");
    /* nobody knows which of these is b's */
    add(&f, DIFF_NEW, "500 f@/a/p\n300 f@/c/p\n200 f@/d/p");
    finish(&f);
    assert_int_equal(f.diff.rows.nr, 4);
    tear_down(&f);
}

static void moved_lines_are_the_same_functions(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    /* three lines were inserted before `b`; line 23 of the new text is not line 23 of the old */
    add(&f, DIFF_BASE,
        "100 a x.lua:2@x.lua\n100 b x.lua:10@x.lua\n300 x.lua:20@x.lua\n500 x.lua:23@x.lua");
    add(&f, DIFF_NEW,
        "100 a x.lua:2@x.lua\n100 b x.lua:13@x.lua\n310 x.lua:23@x.lua\n"
        "480 x.lua:26@x.lua\n10 x.lua:30@x.lua");
    finish(&f);
    expect(find(&f, "b", 13), 0.1, 0.1);
    expect(find(&f, "[anonymous]", 23), 0.3, 0.31);
    expect(find(&f, "[anonymous]", 26), 0.5, 0.48);
    expect(find(&f, "[anonymous]", 30), 0, 0.01);
    assert_int_equal(f.diff.rows.nr, 5);
    tear_down(&f);
}

/* `a` did not move, so the functions after it did not either: the lines inserted before `b` come
 * behind them. */
static void what_did_not_move_is_the_same(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    add(&f, DIFF_BASE,
        "100 a x.lua:2@x.lua\n100 b x.lua:10@x.lua\n300 x.lua:5@x.lua\n500 x.lua:8@x.lua");
    add(&f, DIFF_NEW,
        "100 a x.lua:2@x.lua\n100 b x.lua:13@x.lua\n310 x.lua:5@x.lua\n"
        "480 x.lua:8@x.lua\n10 x.lua:11@x.lua");
    finish(&f);
    expect(find(&f, "[anonymous]", 5), 0.3, 0.31);
    expect(find(&f, "[anonymous]", 8), 0.5, 0.48);
    expect(find(&f, "[anonymous]", 11), 0, 0.01);
    assert_int_equal(f.diff.rows.nr, 5);
    tear_down(&f);
}

static void as_many_of_a_name_are_matched_in_order(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    add(&f, DIFF_BASE, "300 h /w1/x.lua:20@/w1/x.lua\n700 h /w1/x.lua:40@/w1/x.lua");
    add(&f, DIFF_NEW, "400 h /w2/x.lua:21@/w2/x.lua\n600 h /w2/x.lua:44@/w2/x.lua");
    finish(&f);
    expect(find(&f, "h", 21), 0.3, 0.4);
    expect(find(&f, "h", 44), 0.7, 0.6);
    tear_down(&f);
}

/* A process has another number in each recording. */
static void generated_code_is_the_same_in_another_process(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    add(&f, DIFF_BASE, "100 a@/tmp/perf-12.map\n200 b@jit-12.dump\n300 @/tmp/perf-12.map\n400 g@p");
    add(&f, DIFF_NEW, "150 a@/tmp/perf-7.map\n250 b@jit-7.dump\n350 @/tmp/perf-7.map\n250 g@p");
    finish(&f);
    assert_int_equal(f.diff.rows.nr, 4);
    expect(find(&f, "a", 0), 0.1, 0.15);
    expect(find(&f, "b", 0), 0.2, 0.25);
    expect(find(&f, "[perf map]", 0), 0.3, 0.35);
    assert_string_equal(find(&f, "a", 0)->source, "perf map");
    assert_string_equal(find(&f, "b", 0)->source, "jitdump");
    tear_down(&f);
    set_up(&f);
    f.options.level = DIFF_MODULE;
    add(&f, DIFF_BASE, "600 a@/tmp/perf-12.map\n400 b@/tmp/perf-13.map");
    add(&f, DIFF_NEW, "500 a@/tmp/perf-7.map\n500 b@jit-7.dump");
    finish(&f);
    assert_int_equal(f.diff.rows.nr, 2);
    expect(find(&f, "perf map", 0), 1, 0.5);
    expect(find(&f, "jitdump", 0), 0, 0.5);
    tear_down(&f);
}

/* Names match however V8 compiled a function, and whatever named it: a perf map, a jitdump or
 * memory. */
static void names_of_v8_have_a_file_and_a_place(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    add(&f, DIFF_BASE,
        "100 JS:~foo /my dir/x.js:1:13@/tmp/perf-12.map\n100 get a b /my dir/x.js:2:1@/my "
        "dir/x.js\n"
        "200 JS:* /my dir/x.js:3:7@/tmp/perf-12.map\n300 JS:* node:fs:9:7@/tmp/perf-12.map\n"
        "300 JS:^bare@/tmp/perf-12.map");
    add(&f, DIFF_NEW,
        "150 JS:*foo /my dir/x.js:4:13@jit-7.dump\n150 JS:^get a b /my dir/x.js:5:1@jit-7.dump\n"
        "100 JS:~ /my dir/x.js:6:7@jit-7.dump\n300 JS:+ node:fs:9:7@/tmp/perf-7.map\n"
        "300 JS:+bare@/tmp/perf-7.map");
    finish(&f);
    assert_int_equal(f.diff.rows.nr, 5);
    expect(find(&f, "foo", 4), 0.1, 0.15);
    assert_string_equal(find(&f, "foo", 4)->source, "/my dir/x.js");
    expect(find(&f, "get a b", 5), 0.1, 0.15);
    expect(find(&f, "[anonymous]", 6), 0.2, 0.1);
    expect(find(&f, "[anonymous]", 9), 0.3, 0.3);
    expect(find(&f, "bare", 0), 0.3, 0.3);
    tear_down(&f);
}

static void growth_beyond_noise_is_a_regression(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    for (int i = 0; i < 3; i++) {
        static const char *const base[] = {"1000 f@p\n9000 g@p", "1040 f@p\n8960 g@p",
                                           "980 f@p\n9020 g@p"};
        static const char *const new[] = {"2000 f@p\n8000 g@p", "1900 f@p\n8100 g@p",
                                          "2050 f@p\n7950 g@p"};
        add(&f, DIFF_BASE, base[i]);
        add(&f, DIFF_NEW, new[i]);
    }
    finish(&f);
    assert_int_equal(f.diff.nr_regressions, 1);
    assert_int_equal(find(&f, "f", 0)->test[DIFF_SELF].verdict, DIFF_REGRESSION);
    assert_int_equal(find(&f, "g", 0)->test[DIFF_SELF].verdict, DIFF_SHRUNK);
    tear_down(&f);
}

/* The means are the same, but the runs of one side vary by as much. */
static void growth_within_noise_is_none(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    for (int i = 0; i < 3; i++) {
        static const char *const base[] = {"100 f@p\n9900 g@p", "2500 f@p\n7500 g@p",
                                           "420 f@p\n9580 g@p"};
        static const char *const new[] = {"4000 f@p\n6000 g@p", "400 f@p\n9600 g@p",
                                          "1550 f@p\n8450 g@p"};
        add(&f, DIFF_BASE, base[i]);
        add(&f, DIFF_NEW, new[i]);
    }
    finish(&f);
    assert_int_equal(f.diff.nr_regressions, 0);
    assert_int_equal(find(&f, "f", 0)->test[DIFF_SELF].verdict, DIFF_SAME);
    tear_down(&f);
}

/* Adds a run of 10,000 samples on a machine that is slowed by `slowed` in all functions but a, b
 * and c. `more`: additional time of c. */
static void add_run(struct fixture *f, enum diff_side side, double slowed, double more)
{
    static const double base[] = {12, 10, 8, 24, 20, 14, 12};
    double time[7], sum = 0;
    char text[256];
    size_t at = 0;
    for (int i = 0; i < 7; i++)
        sum += time[i] = base[i] * (i < 3 ? 1 : 1 + slowed) + (i == 2 ? more : 0);
    for (int i = 0; i < 7; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%d %c@p", i ? "\n" : "",
                               10 * (int)(1000 * time[i] / sum), 'a' + i);
    add(f, side, text);
}

/* Runs of the new side were slowed as much as those of the base, but not by the program. */
static void what_moves_all_rows_is_no_regression(void **state)
{
    static const double base[] = {0.5, 0.45, 0.4, 0}, new[] = {0, 0.05, 0.5, 0.1};
    struct fixture f;
    (void)state;
    set_up(&f);
    f.options.noise = 0.01; /* nothing else makes this pass */
    for (int i = 0; i < 4; i++) {
        add_run(&f, DIFF_BASE, base[i], 0);
        add_run(&f, DIFF_NEW, new[i], 0);
    }
    finish(&f);
    assert_int_equal(f.diff.nr_regressions, 0);
    const struct diff_test *a = &find(&f, "a", 0)->test[DIFF_SELF];
    assert_true(a->change > 0.01 && fabs(a->corrected) < 0.002);
    tear_down(&f);
}

static void what_grew_beside_that_is_found(void **state)
{
    static const double base[] = {0, 0.05, 0.4}, new[] = {0.5, 0.1, 0.45};
    struct fixture f;
    (void)state;
    set_up(&f);
    for (int i = 0; i < 3; i++) {
        add_run(&f, DIFF_BASE, base[i], 0);
        add_run(&f, DIFF_NEW, new[i], 4);
    }
    finish(&f);
    const struct diff_test *c = &find(&f, "c", 0)->test[DIFF_SELF];
    assert_int_equal(c->verdict, DIFF_REGRESSION);
    assert_int_equal(f.diff.nr_regressions, 1);
    assert_true(c->change < 0.027 && c->corrected > 0.028);
    tear_down(&f);
}

static double margin_of(const char *module, enum diff_level level)
{
    struct fixture f;
    char text[128];
    set_up(&f);
    f.options.level = level;
    for (int side = 0; side < DIFF_SIDES; side++) {
        snprintf(text, sizeof(text), "1000 f@%s\n9000 g@p", module);
        add(&f, (enum diff_side)side, text);
    }
    finish(&f);
    const char *name = level == DIFF_FUNCTION ? "f" : level == DIFF_STATE ? "kernel" : module;
    double margin = find(&f, name, 0)->test[DIFF_SELF].margin;
    tear_down(&f);
    return margin;
}

/* Variation of kernel code from run to run is the machine's doing, whichever module has the
 * code. */
static void modules_of_the_kernel_are_the_kernel(void **state)
{
    (void)state;
    double kernel = margin_of("[kernel.kallsyms]", DIFF_FUNCTION);
    double module = margin_of("/lib/modules/6.1/kernel/fs/x.ko", DIFF_FUNCTION);
    assert_true(kernel > 2 * margin_of("/usr/lib/libx.so", DIFF_FUNCTION));
    assert_true(fabs(module - kernel) < 1e-12);
    for (enum diff_level level = DIFF_FILE; level <= DIFF_STATE; level++)
        assert_true(fabs(margin_of("/lib/modules/6.1/kernel/fs/x.ko", level) - kernel) < 1e-12);
}

static void what_was_not_recorded_is_no_regression(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    for (int i = 0; i < 3; i++) {
        add(&f, DIFF_BASE, "100 [lua: not recorded]@[lua]\n9900 g@p");
        add(&f, DIFF_NEW, "1000 [lua: not recorded]@[lua]\n9000 g@p");
    }
    finish(&f);
    assert_int_equal(f.diff.nr_regressions, 0);
    assert_int_equal(f.diff.left_out.nr, 0);
    tear_down(&f);
}

/* Recorders that started too late or lost samples: the recorded part does not represent the
 * whole. */
static void what_lacks_much_more_is_left_out(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    for (int i = 0; i < 3; i++) {
        add(&f, DIFF_BASE, "4000 f@p\n6000 g@p");
        add(&f, DIFF_NEW,
            i == 1 ? "5000 [lua: not recorded]@[lua];g@p\n5000 g@p" : "4000 f@p\n6000 g@p");
    }
    finish(&f);
    assert_int_equal(f.diff.left_out.nr, 1);
    assert_true(fabs(f.diff.left_out.at[0].unknown - 0.5) < 1e-9);
    assert_int_equal(f.diff.left_out.at[0].side, DIFF_NEW);
    assert_int_equal(f.diff.nr[DIFF_NEW], 2);
    assert_int_equal(f.diff.recordings.nr, 5);
    expect(find(&f, "f", 0), 0.4, 0.4);
    tear_down(&f);
}

/* A tenth of the file's samples is compared, so a tenth of the file's losses counts. */
static void losses_are_those_of_what_is_compared(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    struct stacks_options options = {0};
    struct stacks *s = stacks_create(&options);
    struct diff_recording r = {
        .path = "a", .event = "cycles", .read = 10000, .lost = 500, .complete = 1};
    struct stack_group g = {.comm = "p"};
    struct function fn = {.symbol = "f", .module = "p"};
    struct error err;
    uint32_t node = stack_tree_child(&s->tree, 0, stacks_intern_group(s, &g));
    node = stack_tree_child(&s->tree, node, stacks_intern_function(s, &fn));
    s->tree.nodes.at[node].samples = 1000;
    assert_int_equal(diff_add(&f.diff, &r, s, &err), 0);
    stacks_free(s);
    assert_int_equal(f.diff.recordings.at[0].lost, 50);
    assert_true(fabs(f.diff.recordings.at[0].unknown - 50. / 1050) < 1e-9);
    tear_down(&f);
}

/* Adds a recording in which `of_f` samples are of `f`, `guessed` of these not exact; the others are
 * g's. */
static const struct diff_recording *add_guesses(struct fixture *f, enum diff_side side,
                                                uint64_t samples, uint64_t of_f, uint64_t guessed)
{
    struct stacks_options options = {0};
    struct stacks *s = stacks_create(&options);
    struct diff_recording r = {
        .path = "a", .event = "cycles", .side = (uint8_t)side, .complete = 1};
    struct stack_group g = {.comm = "p"};
    struct error err;
    uint32_t group = stack_tree_child(&s->tree, 0, stacks_intern_group(s, &g));
    for (int i = 0; i < 2; i++) {
        struct function fn = {.symbol = i ? "g" : "f", .module = "p"};
        uint32_t node = stack_tree_child(&s->tree, group, stacks_intern_function(s, &fn));
        s->tree.nodes.at[node].samples = i ? samples - of_f : of_f;
        s->tree.nodes.at[node].guessed = i ? 0 : guessed;
        s->tree.nodes.at[node].provenance = !i && guessed ? PROVENANCE_GUESS : PROVENANCE_EXACT;
    }
    assert_int_equal(diff_add(&f->diff, &r, s, &err), 0);
    stacks_free(s);
    return &f->diff.recordings.at[f->diff.recordings.nr - 1];
}

/* A recorder that came too late to see which traces there were: its frames are guesses. */
static void what_is_guessed_much_more_is_left_out(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    assert_true(add_guesses(&f, DIFF_BASE, 1000, 500, 50)->unknown == 0.05);
    assert_true(add_guesses(&f, DIFF_NEW, 1000, 500, 100)->unknown == 0.1);
    assert_true(add_guesses(&f, DIFF_NEW, 1000, 500, 400)->unknown == 0.4);
    finish(&f);
    assert_int_equal(f.diff.left_out.nr, 1);
    assert_true(f.diff.left_out.at[0].unknown == 0.4);
    tear_down(&f);
}

/* Joined stacks, continued from other stacks: their innermost frames are exact. */
static void what_is_joined_is_compared(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    for (int i = 0; i < 4; i++) {
        struct stacks_options options = {0};
        struct stacks *s = stacks_create(&options);
        struct diff_recording r = {
            .path = "a", .event = "cycles", .side = (uint8_t)(i % 2), .complete = 1};
        struct stack_group g = {.comm = "p"};
        struct function main = {.symbol = "main", .module = "p"}, leaf = {.symbol = "f"};
        struct error err;
        uint32_t node = stack_tree_child(&s->tree, 0, stacks_intern_group(s, &g));
        node = stack_tree_child(&s->tree, node, stacks_intern_function(s, &main));
        s->tree.nodes.at[node].provenance = PROVENANCE_STALE;
        node = stack_tree_child(&s->tree, node, stacks_intern_function(s, &leaf));
        s->tree.nodes.at[node].samples = 1000;
        s->tree.nodes.at[node].joined = i % 2 ? 800 : 0;
        assert_int_equal(diff_add(&f.diff, &r, s, &err), 0);
        assert_true(f.diff.recordings.at[i].unknown == 0);
        stacks_free(s);
    }
    finish(&f);
    assert_int_equal(f.diff.left_out.nr, 0);
    /* main's total is uncertain */
    assert_true(find(&f, "main", 0)->test[DIFF_TOTAL].error > 0.4);
    assert_true(find(&f, "f", 0)->test[DIFF_SELF].error < 0.1);
    tear_down(&f);
}

/* f grew by 2 %, but on one side 3 % are guesses, which may be of any function. */
static void growth_of_guesses_is_none(void **state)
{
    (void)state;
    for (int guesses = 0; guesses < 2; guesses++) {
        struct fixture f;
        set_up(&f);
        for (int i = 0; i < 6; i++)
            add_guesses(&f, (enum diff_side)(i % 2), 100000, i % 2 ? 5000 : 3000,
                        guesses && i % 2 ? 3000 : 0);
        finish(&f);
        assert_int_equal(f.diff.left_out.nr, 0);
        assert_int_equal(f.diff.nr_regressions, !guesses);
        tear_down(&f);
    }
}

/* When all recordings lack the same share, this is how the program is recorded. */
static void what_all_lack_is_compared(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f);
    for (int i = 0; i < 2; i++) {
        add(&f, DIFF_BASE, "5000 [lua: not recorded]@[lua]\n5000 g@p");
        add(&f, DIFF_NEW, "5500 [lua: not recorded]@[lua]\n4500 g@p");
    }
    finish(&f);
    assert_int_equal(f.diff.left_out.nr, 0);
    tear_down(&f);
}

static void a_side_without_recordings_has_no_verdict(void **state)
{
    (void)state;
    struct fixture f;
    struct error err = {0};
    set_up(&f);
    add(&f, DIFF_BASE, "10000 g@p");
    add(&f, DIFF_NEW, "10000 g@p");
    f.diff.recordings.at[1].unknown = 0.3;
    assert_int_equal(diff_finish(&f.diff, &err), -1);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(student_is_that_of_tables),
        cmocka_unit_test(gates_are_read),
        cmocka_unit_test(a_sample_counts_once_for_a_function),
        cmocka_unit_test(one_event_is_compared),
        cmocka_unit_test(copies_of_a_function_are_the_function),
        cmocka_unit_test(one_name_in_two_sources_is_two_functions),
        cmocka_unit_test(moved_lines_are_the_same_functions),
        cmocka_unit_test(what_did_not_move_is_the_same),
        cmocka_unit_test(as_many_of_a_name_are_matched_in_order),
        cmocka_unit_test(generated_code_is_the_same_in_another_process),
        cmocka_unit_test(names_of_v8_have_a_file_and_a_place),
        cmocka_unit_test(growth_beyond_noise_is_a_regression),
        cmocka_unit_test(growth_within_noise_is_none),
        cmocka_unit_test(what_moves_all_rows_is_no_regression),
        cmocka_unit_test(what_grew_beside_that_is_found),
        cmocka_unit_test(modules_of_the_kernel_are_the_kernel),
        cmocka_unit_test(what_was_not_recorded_is_no_regression),
        cmocka_unit_test(what_lacks_much_more_is_left_out),
        cmocka_unit_test(losses_are_those_of_what_is_compared),
        cmocka_unit_test(what_is_guessed_much_more_is_left_out),
        cmocka_unit_test(what_is_joined_is_compared),
        cmocka_unit_test(growth_of_guesses_is_none),
        cmocka_unit_test(what_all_lack_is_compared),
        cmocka_unit_test(a_side_without_recordings_has_no_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
