/* SPDX-License-Identifier: GPL-2.0-only */
/* Stacks that are added to others, from handwritten stacks. */
#include "base/text.h"
#include "stacks_fixture.h"
#include "stacks/stacks_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { EVERY = 100 }; /* a period */

static struct stacks *make(bool keeps_slices)
{
    struct stacks_options options = {.by_tid = true, .by_tier = true, .by_trace = true};
    options.slice_ns = keeps_slices ? 1000 : 0;
    options.all_slices = keeps_slices;
    struct stacks *s = stacks_create(&options);
    assert_non_null(s);
    return s;
}

static void add(struct stacks *to, struct stacks *from, uint64_t first, uint64_t end)
{
    struct error err = {0};
    assert_int_equal(stacks_add_slices(to, from, first, end, &err), 0);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void put_path(const struct stacks *s, const struct stack_node *n, struct text *out)
{
    if (n->depth > 1) {
        put_path(s, stacks_node(s, n->parent), out);
        text_printf(out, ";%s", stacks_function(s, n->function)->symbol);
        return;
    }
    const struct stack_group *g = stacks_group(s, n->function);
    text_printf(out, "%s/%u", g->comm, g->tid);
    if (stacks_kept(s)->slice_ns)
        text_printf(out, "@%u", (unsigned)g->block);
}

/* Returns the stacks that have samples, one a line, sorted. The caller frees it. */
static char *told(const struct stacks *s)
{
    VEC(char *) lines = {0};
    struct text all = {0};
    for (size_t i = 1; i < stacks_nr_nodes(s); i++) {
        const struct stack_node *n = stacks_node(s, i);
        struct text line = {0};
        if (!n->samples)
            continue;
        put_path(s, n, &line);
        text_printf(&line, " %u %u\n%c", (unsigned)n->samples, (unsigned)n->period, 0);
        assert_false(line.failed);
        assert_true(vec_push(&lines, line.at));
    }
    if (lines.nr)
        qsort(lines.at, lines.nr, sizeof(*lines.at), compare);
    vec_foreach (line, &lines) {
        text_string(&all, *line);
        free(*line);
    }
    vec_free(&lines);
    text_char(&all, 0);
    return all.at;
}

static void assert_told(const struct stacks *s, const char *expected)
{
    char *text = told(s);
    assert_string_equal(text, expected);
    free(text);
}

static struct stacks *slices_1_to_3(void)
{
    struct stacks *s = make(true);
    stacks_add_managed(s, "main;a", 1, EVERY);
    stacks_add_managed(s, "main;L:f", 2, EVERY);
    stacks_add_managed(s, "main;a", 2, EVERY);
    stacks_add_managed(s, "main;a;b", 3, EVERY);
    return s;
}

static void slices_become_one(void **state)
{
    (void)state;
    struct stacks *all = make(false), *from = slices_1_to_3();
    add(all, from, 0, UINT64_MAX);
    stacks_free(from); /* nothing in `all` is of it */
    assert_told(all, "p/11;main;a 2 200\np/11;main;a;b 1 100\np/11;main;f 1 100\n");
    stacks_free(all);
}

static void other_slices_are_left_out(void **state)
{
    (void)state;
    struct stacks *some = make(false), *none = make(false), *from = slices_1_to_3();
    add(some, from, 2, 3);
    add(none, from, 4, UINT64_MAX);
    assert_told(some, "p/11;main;a 1 100\np/11;main;f 1 100\n");
    assert_told(none, "");
    assert_int_equal(stacks_nr_nodes(none), 1);
    stacks_free(from);
    stacks_free(some);
    stacks_free(none);
}

static void sums_of_several_are_the_whole(void **state)
{
    (void)state;
    struct stacks *all = make(false), *kept = make(true), *from = slices_1_to_3();
    struct stacks *newer = make(true);
    stacks_add_managed(newer, "main;a", 4, EVERY);
    stacks_add_managed(newer, "other", 4, EVERY);
    add(kept, from, 1, 2);
    add(kept, from, 2, 3);
    assert_told(kept, "p/11@1;main;a 1 100\np/11@2;main;a 1 100\np/11@2;main;f 1 100\n");
    add(all, kept, 2, UINT64_MAX);
    add(all, newer, 0, UINT64_MAX);
    assert_told(all, "p/11;main;a 2 200\np/11;main;f 1 100\np/11;other 1 100\n");
    stacks_free(from);
    stacks_free(kept);
    stacks_free(newer);
    stacks_free(all);
}

static void functions_stay_apart(void **state)
{
    (void)state;
    struct stacks *all = make(false), *from = make(true);
    stacks_add_managed(from, "main;L:f", 1, EVERY);
    stacks_add_managed(from, "main;L17:f", 1, EVERY);
    add(all, from, 0, UINT64_MAX);
    assert_int_equal(stacks_nr_functions(all), 3);
    assert_told(all, "p/11;main;f 1 100\np/11;main;f 1 100\n");
    stacks_free(from);
    stacks_free(all);
}

static void marks_are_summed(void **state)
{
    (void)state;
    struct stacks *all = make(false), *from = make(true);
    stacks_add_managed(from, "a", 1, EVERY);
    stacks_add_managed(from, "a", 2, EVERY);
    vec_foreach (n, &from->tree.nodes) {
        n->guessed = n->samples;
        n->provenance = n->samples ? PROVENANCE_GUESS : PROVENANCE_EXACT;
    }
    add(all, from, 0, UINT64_MAX);
    const struct stack_node *a = stacks_node(all, 2);
    assert_int_equal(a->samples, 2);
    assert_int_equal(a->guessed, 2);
    assert_int_equal(a->provenance, PROVENANCE_GUESS);
    assert_int_equal(stacks_node(all, 1)->provenance, PROVENANCE_EXACT);
    stacks_free(from);
    stacks_free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_become_one),
        cmocka_unit_test(other_slices_are_left_out),
        cmocka_unit_test(sums_of_several_are_the_whole),
        cmocka_unit_test(functions_stay_apart),
        cmocka_unit_test(marks_are_summed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
