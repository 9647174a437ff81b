/* SPDX-License-Identifier: GPL-2.0-only */
/* The census of a heap that the test makes up: sums, kinds, ways from the roots, damaged lists. */
#include "census/census.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* Objects are numbers from 1 to NR; object N has N * 10 bytes. */
enum { NR = 6 };
struct toy {
    const uint64_t *listed; /* addresses, up to a 0 */
    const struct census_reference *references[NR + 1];
    unsigned nr_references[NR + 1];
    struct census_reference root;
};

static uint64_t total(void *heap)
{
    (void)heap;
    return 1000;
}

static uint64_t own(void *heap)
{
    (void)heap;
    return 7;
}

static int objects(void *heap, census_take_object *take, void *context, struct error *err)
{
    const struct toy *t = heap;
    for (const uint64_t *at = t->listed; *at; at++) {
        const struct census_object o = {
            .address = *at, .size = 10 * *at, .type = *at % 2 ? CENSUS_TABLE : CENSUS_FUNCTION};
        if (take(context, &o, err))
            return -1;
    }
    return 0;
}

static void roots(void *heap, census_take_reference *take, void *context)
{
    take(context, &((const struct toy *)heap)->root);
}

static void references(void *heap, const struct census_object *o, census_take_reference *take,
                       void *context)
{
    const struct toy *t = heap;
    for (unsigned i = 0; i < t->nr_references[o->address]; i++)
        take(context, &t->references[o->address][i]);
}

static void describe(void *heap, const struct census_object *o, struct text *out)
{
    (void)heap;
    text_string(out, o->type == CENSUS_TABLE ? "{a}" : "f.lua:1");
}

/* The string at address N is N times "x"; those at 98 and 99 are no names. */
static bool string(void *heap, uint64_t address, size_t max, struct text *out)
{
    (void)heap;
    (void)max;
    if (address == 99)
        text_string(out, "two words");
    if (address == 98)
        text_string(out, "\x1b[1m\"");
    for (uint64_t i = 0; i < address && address < 98; i++)
        text_char(out, 'x');
    return address != 0;
}

/* The first upvalue of each closure has a name. */
static bool upvalue(void *heap, uint64_t closure, unsigned number, struct text *out)
{
    (void)heap;
    (void)closure;
    if (number == 1)
        text_string(out, "self");
    return number == 1;
}

static const struct census_heap heap = {.upvalue = upvalue,
                                        .total = total,
                                        .own = own,
                                        .objects = objects,
                                        .roots = roots,
                                        .references = references,
                                        .describe = describe,
                                        .string = string};
static const uint64_t all[] = {1, 2, 3, 4, 5, 6, 0};

static void assert_path(const struct census *c, uint64_t address, const char *wanted)
{
    struct text t = {0};
    census_path(c, census_find(c, address), &t);
    text_char(&t, 0);
    assert_string_equal(t.at, wanted);
    text_free(&t);
}

static void test_sums_and_kinds(void **state)
{
    (void)state;
    struct toy t = {.listed = all};
    struct census c = {0};
    struct error err = {0};
    assert_int_equal(census_take(&c, &heap, &t, 1000, &err), 0);
    assert_int_equal(census_group(&c, &err), 0);
    assert_int_equal(c.all.nr, 6);
    assert_int_equal(c.all.bytes, 210);
    assert_int_equal(c.total, 1000);
    assert_int_equal(c.own, 7);
    assert_int_equal(c.types[CENSUS_TABLE].bytes, 90);
    assert_int_equal(c.groups.nr, 2);
    assert_int_equal(c.groups.at[0].type, CENSUS_FUNCTION); /* 2, 4, 6: more bytes */
    assert_int_equal(c.groups.at[0].bytes, 120);
    assert_int_equal(c.objects.at[c.groups.at[0].example].address, 6);
    assert_int_equal(c.groups.at[1].nr, 3);
    census_free(&c);
}

static void test_ways(void **state)
{
    (void)state;
    const struct census_reference of_1[] = {
        {.to = 2, .link = CENSUS_FIELD, .key = CENSUS_KEY_STRING, .string = 3},
        {.to = 3, .link = CENSUS_FIELD, .key = CENSUS_KEY_STRING, .string = 99},
        {.to = 6, .link = CENSUS_FIELD, .key = CENSUS_KEY_INTEGER, .number = 1, .is_weak = true},
        {.to = 77, .link = CENSUS_KEY}}; /* nothing is there */
    const struct census_reference of_2[] = {{.to = 4, .link = CENSUS_CLOSED, .number = 2},
                                            {.to = 1, .link = CENSUS_ENVIRONMENT}};
    const struct census_reference of_4[] = {{.to = 6, .link = CENSUS_CLOSED, .number = 1}};
    const struct census_reference of_3[] = {
        {.to = 4, .link = CENSUS_FIELD, .key = CENSUS_KEY_INTEGER, .number = -8},
        {.to = 5, .link = CENSUS_METATABLE}};
    struct toy t = {.listed = all,
                    .references = {[1] = of_1, [2] = of_2, [3] = of_3},
                    .nr_references = {[1] = 4, [2] = 2, [3] = 2},
                    .root = {.to = 1, .link = CENSUS_ROOT, .name = "_G"}};
    struct census c = {0};
    struct error err = {0};
    assert_int_equal(census_take(&c, &heap, &t, 1000, &err), 0);
    assert_int_equal(census_reach(&c, &err), 0);
    assert_path(&c, 1, "_G");
    assert_path(&c, 2, "_G.xxx");
    assert_path(&c, 3, "_G[\"two words\"]");
    assert_path(&c, 4, "_G.xxx<upvalue 2>"); /* the first of two ways that are equally short */
    assert_path(&c, 5, "_G[\"two words\"]<metatable>");
    assert_path(&c, 6, ""); /* a weak reference is none */
    assert_int_equal(c.reached.nr, 5);
    assert_int_equal(c.reached.bytes, 150);
    census_free(&c);

    t.references[4] = of_4;
    t.nr_references[4] = 1;
    c = (struct census){0};
    assert_int_equal(census_take(&c, &heap, &t, 1000, &err), 0);
    assert_int_equal(census_reach(&c, &err), 0);
    assert_path(&c, 6, "_G.xxx<upvalue 2><upvalue self>");
    census_free(&c);
}

static void test_names_are_escaped(void **state)
{
    (void)state;
    const struct census_reference of_1[] = {
        {.to = 2, .link = CENSUS_FIELD, .key = CENSUS_KEY_STRING, .string = 98}};
    struct toy t = {.listed = all,
                    .references = {[1] = of_1},
                    .nr_references = {[1] = 1},
                    .root = {.to = 1, .link = CENSUS_ROOT, .name = "_G"}};
    struct census c = {0};
    struct error err = {0};
    assert_int_equal(census_take(&c, &heap, &t, 1000, &err), 0);
    assert_int_equal(census_reach(&c, &err), 0);
    assert_path(&c, 2, "_G[\"\\x1b[1m\\\"\"]");
    census_free(&c);
}

static void test_long_way(void **state)
{
    (void)state;
    /* each object's first field is the next one, round and round: a way has an end */
    struct census_reference next[NR + 1];
    struct toy t = {.listed = all, .root = {.to = 1, .link = CENSUS_ROOT, .name = "_G"}};
    for (unsigned i = 1; i <= NR; i++) {
        next[i] = (struct census_reference){
            .to = i % NR + 1, .link = CENSUS_FIELD, .key = CENSUS_KEY_INTEGER, .number = i};
        t.references[i] = &next[i];
        t.nr_references[i] = 1;
    }
    struct census c = {0};
    struct error err = {0};
    assert_int_equal(census_take(&c, &heap, &t, 1000, &err), 0);
    assert_int_equal(census_reach(&c, &err), 0);
    assert_path(&c, 6, "_G[1][2][3][4][5]");
    census_free(&c);
}

static void test_damaged_lists(void **state)
{
    (void)state;
    static const uint64_t circle[] = {1, 2, 3, 2, 0};
    struct toy t = {.listed = circle};
    struct census c = {0};
    struct error err = {0};
    assert_int_equal(census_take(&c, &heap, &t, 1000, &err), -1);
    assert_non_null(strstr(err.text, "twice"));
    assert_int_equal(c.all.nr, 3); /* what was listed before is counted */
    census_free(&c);

    struct census few = {0};
    t.listed = all;
    assert_int_equal(census_take(&few, &heap, &t, 35, &err), -1);
    assert_non_null(strstr(err.text, "more bytes than the process"));
    assert_int_equal(few.all.bytes, 30);
    census_free(&few);
}

static void test_fields(void **state)
{
    (void)state;
    struct census_fields f = {.is_array = true};
    struct text t = {0};
    census_fields_add(&f, 3);
    census_fields_add(&f, 1);
    census_fields_add(&f, 0);
    census_fields_put(&f, string, NULL, &t);
    text_char(&t, 0);
    assert_string_equal(t.at, "{x, xxx, [...], 1, 2, ...}");
    text_free(&t);
    for (unsigned i = 0; i < 2 * CENSUS_SHAPE_MAX; i++)
        census_fields_add(&f, 1);
    assert_true(f.is_large);
    census_fields_put(&f, string, NULL, &t);
    text_char(&t, 0);
    assert_string_equal(t.at, "{[...]=..., many}");
    text_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_and_kinds),    cmocka_unit_test(test_ways),
        cmocka_unit_test(test_names_are_escaped), cmocka_unit_test(test_long_way),
        cmocka_unit_test(test_damaged_lists),     cmocka_unit_test(test_fields)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
