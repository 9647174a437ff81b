/* SPDX-License-Identifier: GPL-2.0-only */
/* Managed functions: identity, and names that do not depend on who proposes first. */
#include "unwind/managed.h"
#include "unwind/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>

static struct managed_identity lua(const char *file, uint32_t line)
{
    return (struct managed_identity){
        .kind = MANAGED_FUNCTION, .language = FRAME_LUA, .file = file, .line = line};
}

static const char *name_at(const struct managed_names *g, uint32_t id, uint64_t batch)
{
    struct managed_function f;
    assert_true(managed_get(g, id, batch, &f));
    return f.name ? f.name : "(none)";
}

static void equal_identities_are_one_function(void **state)
{
    (void)state;
    struct managed_names *g = managed_names_create();
    char again[] = "a.lua";
    struct managed_identity i = lua("a.lua", 3);
    uint32_t id = managed_intern(g, &i);
    assert_int_not_equal(id, 0);
    i.file = again;
    assert_int_equal(managed_intern(g, &i), id);
    i.line = 4;
    assert_int_not_equal(managed_intern(g, &i), id);
    i.line = 3;
    i.salt = 1; /* other code at the same place */
    assert_int_not_equal(managed_intern(g, &i), id);
    i.salt = 0;
    i.language = FRAME_JS;
    assert_int_not_equal(managed_intern(g, &i), id);
    struct managed_function f;
    assert_false(managed_get(g, 0, UINT64_MAX, &f));
    assert_false(managed_get(g, 1000, UINT64_MAX, &f));
    managed_names_free(g);
}

static void what_could_not_be_read_takes_no_name(void **state)
{
    (void)state;
    struct managed_names *g = managed_names_create();
    const struct managed_identity i = {.kind = MANAGED_UNKNOWN, .language = FRAME_LUA};
    uint32_t id = managed_intern(g, &i);
    managed_propose_name(g, id, NAME_RANK_DEFINED, "outer", 0);
    assert_string_equal(name_at(g, id, UINT64_MAX), "(none)");
    managed_names_free(g);
}

static void many_functions_are_kept_apart(void **state)
{
    (void)state;
    enum { NR = 5000 };
    struct managed_names *g = managed_names_create();
    uint32_t ids[NR];
    for (uint32_t i = 0; i < NR; i++) {
        struct managed_identity f = lua("many.lua", i + 1);
        ids[i] = managed_intern(g, &f);
    }
    for (uint32_t i = 0; i < NR; i++) {
        struct managed_function f;
        assert_true(managed_get(g, ids[i], UINT64_MAX, &f));
        assert_int_equal(f.line, i + 1);
        assert_null(f.name);
    }
    managed_names_free(g);
}

static void the_better_rank_then_the_earlier_turn_names(void **state)
{
    (void)state;
    struct managed_names *g = managed_names_create();
    struct managed_identity i = lua("a.lua", 3);
    uint32_t id = managed_intern(g, &i);
    managed_propose_name(g, id, NAME_RANK_CALL, "late", 9);
    managed_propose_name(g, id, NAME_RANK_CALL, "early", 5);
    managed_propose_name(g, id, NAME_RANK_CALL, "east", 5);
    managed_propose_name(g, id, NAME_RANK_CALL, "zebra", 5);
    managed_propose_name(g, id, NAME_RANK_CALL_WEAK, "f", 1);
    managed_propose_name(g, id, NAME_RANK_DOUBTFUL, "doubtful", 0);
    managed_propose_name(g, id, NAME_RANK_DEFINED, "M.early", 7);
    managed_propose_name(g, id, NAME_RANK_DEFINED, "", 0); /* no name */
    assert_string_equal(name_at(g, id, 0), "doubtful");
    assert_string_equal(name_at(g, id, 1), "f");
    assert_string_equal(name_at(g, id, 4), "f");
    assert_string_equal(name_at(g, id, 5), "early");
    assert_string_equal(name_at(g, id, 6), "early");
    assert_string_equal(name_at(g, id, UINT64_MAX), "M.early");
    struct managed_function f;
    managed_get(g, id, UINT64_MAX, &f);
    assert_false(managed_name_is_guessed(&f)); /* nothing disputes it */
    /* It is better to know that a function has no name at its definition than to have a doubtful
     * name. */
    i.line = 4;
    id = managed_intern(g, &i);
    managed_propose_name(g, id, NAME_RANK_DOUBTFUL, "wrong", 0);
    assert_string_equal(name_at(g, id, 1), "wrong");
    managed_propose_name(g, id, NAME_RANK_NAMELESS, "", 1);
    assert_string_equal(name_at(g, id, 0), "wrong");
    assert_string_equal(name_at(g, id, 1), "(none)");
    managed_propose_name(g, id, NAME_RANK_CALL_WEAK, "callback", 2);
    assert_string_equal(name_at(g, id, 2), "callback");
    managed_names_free(g);
}

/* Whichever is proposed first, from the second batch on it is known that there are two. */
static void a_definition_with_two_names_is_disputed(void **state)
{
    (void)state;
    static const char *const names[] = {"handler", "insert", "handler"};
    static const uint64_t batches[] = {2, 5, 7};
    for (unsigned first = 0; first < 3; first++) {
        struct managed_names *g = managed_names_create();
        struct managed_identity identity = lua("a.lua", 3);
        uint32_t id = managed_intern(g, &identity);
        struct managed_function f;
        for (unsigned n = 0; n < 3; n++) {
            unsigned i = (first + n) % 3;
            managed_propose_name(g, id, NAME_RANK_DEFINED, names[i], batches[i]);
        }
        managed_get(g, id, 4, &f);
        assert_string_equal(f.name, "handler");
        assert_false(managed_name_is_guessed(&f));
        managed_get(g, id, 5, &f);
        assert_string_equal(f.name, "handler");
        assert_true(managed_name_is_guessed(&f));
        managed_names_free(g);
    }
}

/* `place` stands for what is at a place. */
static void a_place_has_the_name_of_the_only_function_there(void **state)
{
    (void)state;
    struct managed_names *g = managed_names_create();
    struct managed_identity i = lua("a.lua", 3);
    uint32_t place = managed_intern(g, &i);
    i.salt = 1;
    uint32_t a = managed_intern(g, &i);
    i.salt = 2;
    uint32_t b = managed_intern(g, &i);
    struct managed_function f;
    managed_propose_name(g, a, NAME_RANK_DEFINED, "a", 0);
    managed_propose_name(g, b, NAME_RANK_DEFINED, "b", 0);
    assert_string_equal(name_at(g, place, UINT64_MAX), "(none)");
    managed_found_at(g, place, a, MANAGED_FOUND_REMAINS, false, 2);
    assert_string_equal(name_at(g, place, 1), "(none)");
    assert_string_equal(name_at(g, place, 2), "a");
    managed_get(g, place, 2, &f);
    assert_true(managed_name_is_guessed(&f));
    managed_found_at(g, place, b, MANAGED_FOUND_REMAINS, false, 4); /* either */
    assert_string_equal(name_at(g, place, 3), "a");
    assert_string_equal(name_at(g, place, 4), "(none)");
    managed_found_at(g, place, a, MANAGED_FOUND_WHOLE, false,
                     6); /* rather the one that was whole */
    assert_string_equal(name_at(g, place, 5), "(none)");
    assert_string_equal(name_at(g, place, 6), "a");
    managed_found_at(g, place, b, MANAGED_FOUND_WHOLE, false, 8);
    assert_string_equal(name_at(g, place, 8), "(none)");
    /* No two can be there: one of them is not what it seems. */
    managed_get(g, a, 3, &f);
    assert_false(managed_name_is_guessed(&f));
    managed_get(g, a, 4, &f);
    assert_true(managed_name_is_guessed(&f));
    managed_names_free(g);
}

/* Threads find functions in any order. */
static void what_is_at_a_place_does_not_depend_on_the_order(void **state)
{
    (void)state;
    static const struct {
        unsigned function;
        enum managed_found how;
        uint64_t batch;
    } found[] = {{0, MANAGED_FOUND_WHOLE, 5},   {1, MANAGED_FOUND_REMAINS, 3},
                 {0, MANAGED_FOUND_REMAINS, 1}, {2, MANAGED_FOUND_WHOLE, 9},
                 {1, MANAGED_FOUND_WHOLE, 7},   {0, MANAGED_FOUND_WHOLE, 4}};
    enum { NR = sizeof(found) / sizeof(*found), ORDERS = 24, BATCHES = 11 };
    const char *first[BATCHES];
    unsigned order = 1;
    for (unsigned n = 0; n < ORDERS; n++) {
        struct managed_names *g = managed_names_create();
        uint32_t id[4];
        for (unsigned i = 0; i < 4; i++) {
            struct managed_identity identity = lua("a.lua", 3);
            identity.salt = i;
            id[i] = managed_intern(g, &identity);
            managed_propose_name(g, id[i], NAME_RANK_DEFINED,
                                 (const char *[]){"0", "1", "2", "-"}[i], 0);
        }
        for (unsigned i = 0; i < 3 * NR; i++) { /* each at least once, in another order each time */
            unsigned at = i < 2 * NR ? (order = order * 1103515245 + 12345) >> 16 : i;
            managed_found_at(g, id[3], id[found[at % NR].function], found[at % NR].how, true,
                             found[at % NR].batch);
        }
        for (uint64_t b = 0; b < BATCHES; b++) {
            struct managed_function f;
            managed_get(g, id[3], b, &f);
            const char *name = !f.name            ? "none"
                               : f.name[0] == '0' ? f.borrowed ? "0?" : "0"
                               : f.name[0] == '-' ? "-"
                                                  : "another";
            first[b] = n ? first[b] : name;
            assert_string_equal(name, first[b]);
        }
        managed_names_free(g);
    }
    assert_string_equal(first[0], "-");  /* its own: nothing was found */
    assert_string_equal(first[2], "0?"); /* not proven */
    assert_string_equal(first[3], "none");
    assert_string_equal(first[4], "0?"); /* proven, beside one that is not */
    assert_string_equal(first[7], "none");
}

struct proposer {
    struct managed_names *g;
    uint32_t id;
    unsigned seed;
};

static void *propose_shuffled(void *arg)
{
    struct proposer *p = arg;
    for (unsigned i = 0; i < 400; i++) {
        char name[16];
        unsigned k = (i * 37 + p->seed * 101) % 400;
        snprintf(name, sizeof(name), "n%03u", k);
        managed_propose_name(p->g, p->id, NAME_RANK_CALL, name, 1000 - k / 2);
    }
    return NULL;
}

static void the_name_does_not_depend_on_threads(void **state)
{
    (void)state;
    struct managed_names *g = managed_names_create();
    struct managed_identity i = lua("a.lua", 3);
    struct proposer p[4];
    pthread_t threads[4];
    for (unsigned t = 0; t < 4; t++) {
        p[t] = (struct proposer){g, managed_intern(g, &i), t};
        pthread_create(&threads[t], NULL, propose_shuffled, &p[t]);
    }
    for (unsigned t = 0; t < 4; t++)
        pthread_join(threads[t], NULL);
    /* n398 and n399 have the lowest turn. */
    assert_string_equal(name_at(g, p[0].id, UINT64_MAX), "n398");
    managed_names_free(g);
}

static void expect_symbol(struct managed_function f, const char *expected)
{
    struct text t = {0};
    managed_symbol(&t, &f);
    text_char(&t, 0);
    assert_string_equal(t.at, expected);
    text_free(&t);
}

static void symbols_hold_what_is_known(void **state)
{
    (void)state;
    expect_symbol((struct managed_function){.name = "M.f", .file = "a.lua", .line = 3},
                  "M.f a.lua:3");
    expect_symbol((struct managed_function){.file = "a.lua", .line = 3}, "a.lua:3");
    expect_symbol((struct managed_function){.name = "f", .file = "a.js", .line = 3, .column = 7},
                  "f a.js:3:7");
    expect_symbol((struct managed_function){.kind = MANAGED_MAIN, .file = "a.lua"},
                  "main chunk a.lua");
    expect_symbol((struct managed_function){.file = "stripped"}, "stripped");
    expect_symbol((struct managed_function){.kind = MANAGED_BUILTIN,
                                            .name = "string.gsub",
                                            .file = "[builtin]"},
                  "string.gsub");
    expect_symbol((struct managed_function){.kind = MANAGED_UNKNOWN}, "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_identities_are_one_function),
        cmocka_unit_test(what_could_not_be_read_takes_no_name),
        cmocka_unit_test(many_functions_are_kept_apart),
        cmocka_unit_test(the_better_rank_then_the_earlier_turn_names),
        cmocka_unit_test(a_definition_with_two_names_is_disputed),
        cmocka_unit_test(a_place_has_the_name_of_the_only_function_there),
        cmocka_unit_test(what_is_at_a_place_does_not_depend_on_the_order),
        cmocka_unit_test(the_name_does_not_depend_on_threads),
        cmocka_unit_test(symbols_hold_what_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
