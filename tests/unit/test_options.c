/* SPDX-License-Identifier: GPL-2.0-only */
/* Command lines parsed by a table of options; help and errors. */
#include "base/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum colour { RED, GREEN, BLUE };
static const char *const colours[] = {"red", "green", "blue", NULL};

struct own {
    bool quiet, verbose, not_inline;
    const char *output, *words, *last_argument;
    unsigned width;
    uint64_t size;
    enum colour colour, choice;
    name_list names, files;
    unsigned nr_arguments, nr_seen;
};

struct shared {
    const char *input;
    bool inlines;
    const char *names;
};

static int take_words(void *target, const struct option_value *v, struct error *err)
{
    struct own *o = target;
    if (v->text && strcmp(v->text, "bad") == 0)
        return option_error(v, err, "expects a good word, not `%s'", v->text);
    o->words = v->text ? v->text : "none";
    return 0;
}

static const struct option_row own_rows[] = {
    {ROW_FLAG('q', "quiet", struct own, quiet, "Print only errors.")},
    {ROW_FLAG('V', "verbose", struct own, verbose, "Print more messages.")},
    {ROW_STRING('o', "output", "FILE", struct own, output, "Write to FILE.")},
    {ROW_NUMBER('w', "width", "N", struct own, width, 10, 100, "Draw N columns.")},
    {ROW_NUMBER(0, "size", "N", struct own, size, 0, UINT64_MAX, "Use N bytes.")},
    {ROW_WORD(0, "colour", "NAME", struct own, colour, colours, "Paint in this colour.")},
    {ROW_CHOICE(0, "blue", struct own, choice, BLUE, "Choose blue.")},
    {ROW_CHOICE(0, "green", struct own, choice, GREEN, "Choose green.")},
    {ROW_NAMES('n', "names", "NAMES", struct own, names, "Use these names.")},
    {ROW_APPEND(0, "file", "FILE", struct own, files, "Use this file.")},
    {ROW_CALL('z', "zip", "LEVEL", take_words, "Compress."), .place = VALUE_ATTACHED},
    {ROW_CALL('g', "graph", "WORDS", take_words, "Draw graphs."), .place = VALUE_MAY_FOLLOW},
    {ROW_IGNORED('j', "jit", "Accepted as in perf.")},
    {ROW_HELP},
    {0},
};

static const struct option_row shared_rows[] = {
    {ROW_STRING('i', "input", "FILE", struct shared, input, "Read FILE.")},
    {ROW_CLEAR(0, "no-inline", struct shared, inlines, "Show no inlined functions.")},
    {ROW_FLAG(0, "inline", struct shared, inlines, "Show inlined functions."), .hidden = true},
    {ROW_STRING(0, "names", "NAMES", struct shared, names, "Other names.")},
    {ROW_STRING(0, "comm", "NAMES", struct shared, names, "Use only these commands.")},
    {ROW_STRING(0, "comms", "NAMES", struct shared, names, "The same as --comm."), .hidden = true},
    {0},
};

static int take_argument(void *target, char *text, struct error *err)
{
    struct own *o = target;
    if (strcmp(text, "bad") == 0)
        return error_set(err, ERROR_FORMAT, "bad argument");
    o->last_argument = text;
    o->nr_arguments++;
    return 0;
}

static void see(void *target, const struct option_row *row)
{
    if (row == &own_rows[0])
        ((struct own *)target)->nr_seen++;
}

static void explain(const char *option, struct error *err)
{
    if (strcmp(option, "--aio") == 0 || strcmp(option, "-b") == 0)
        error_set(err, ERROR_UNSUPPORTED, "%s is perf's", option);
}

static const struct option_set set = {
    .name = "prog make",
    .usage = "[options] FILE\n[options] -",
    .about = "Makes things.\n",
    .closing = "That is all.\n",
    .sections = {{.rows = own_rows}, {.title = "Shared options", .rows = shared_rows, .target = 1}},
    .arguments = ARGUMENTS_TAKEN,
    .argument = take_argument,
    .seen = see,
    .unknown = explain,
};

struct parsed {
    struct own own;
    struct shared shared;
    struct options_parsed result;
    struct error err;
    char words[16][64]; /* values point into copies, which the parser may change */
    int status;
};

static void parse_with(const struct option_set *s, struct parsed *p, const char *const *words)
{
    char *argv[17] = {NULL};
    int argc = 0;
    *p = (struct parsed){.shared.inlines = true};
    for (; words[argc]; argc++) {
        snprintf(p->words[argc], sizeof(p->words[argc]), "%s", words[argc]);
        argv[argc] = p->words[argc];
    }
    p->status =
        options_parse(s, (void *const[]){&p->own, &p->shared}, argc, argv, &p->result, &p->err);
}

static void parsed_free(struct parsed *p)
{
    vec_free(&p->own.names);
    vec_free(&p->own.files);
}

#define WORDS(...) ((const char *const[]){"make", __VA_ARGS__, NULL})

static void assert_parsed(struct parsed *p, const char *const *words)
{
    parse_with(&set, p, words);
    if (p->status)
        fail_msg("%s ...: %s", words[1], p->err.text);
}

static void assert_refused(const char *said, const char *const *words)
{
    struct parsed p;
    parse_with(&set, &p, words);
    assert_int_equal(p.status, -1);
    assert_string_equal(p.err.text, said);
    parsed_free(&p);
}

static void values_may_stand_in_all_places(void **state)
{
    const char *const *const forms[] = {WORDS("--output", "f"), WORDS("--output=f"),
                                        WORDS("-o", "f"),       WORDS("-of"),
                                        WORDS("-qof"),          WORDS("--out", "f")};
    (void)state;
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        struct parsed p;
        assert_parsed(&p, forms[i]);
        assert_string_equal(p.own.output, "f");
        assert_int_equal(p.own.nr_arguments, 0);
    }
}

static void a_value_may_look_like_an_option(void **state)
{
    struct parsed p;
    (void)state;
    assert_parsed(&p, WORDS("-o", "-q", "--input", "--"));
    assert_string_equal(p.own.output, "-q");
    assert_string_equal(p.shared.input, "--");
    assert_false(p.own.quiet);
    assert_parsed(&p, WORDS("--output="));
    assert_string_equal(p.own.output, "");
}

static void rows_store_what_they_say(void **state)
{
    struct parsed p;
    (void)state;
    assert_parsed(&p, WORDS("-qV", "-w100", "--size=18446744073709551615", "--colour", "green",
                            "--blue", "-n", "a,,b", "-n", "c", "--file", "x,y", "--no-inline"));
    assert_true(p.own.quiet && p.own.verbose && !p.shared.inlines);
    assert_int_equal(p.own.width, 100);
    assert_true(p.own.size == UINT64_MAX);
    assert_int_equal(p.own.colour, GREEN);
    assert_int_equal(p.own.choice, BLUE);
    assert_int_equal(p.own.names.nr, 3);
    assert_string_equal(p.own.names.at[2], "c");
    assert_int_equal(p.own.files.nr, 1);
    assert_string_equal(p.own.files.at[0], "x,y");
    parsed_free(&p);
    assert_parsed(&p, WORDS("--no-inline", "--inline", "--blue", "--green", "-j"));
    assert_true(p.shared.inlines);
    assert_int_equal(p.own.choice, GREEN);
}

static void optional_values_are_attached(void **state)
{
    struct parsed p;
    (void)state;
    assert_parsed(&p, WORDS("-z", "3"));
    assert_string_equal(p.own.words, "none");
    assert_string_equal(p.own.last_argument, "3");
    assert_parsed(&p, WORDS("-z3"));
    assert_string_equal(p.own.words, "3");
    assert_parsed(&p, WORDS("--zip=4"));
    assert_string_equal(p.own.words, "4");
}

static void some_optional_values_may_follow(void **state)
{
    struct parsed p;
    (void)state;
    assert_parsed(&p, WORDS("-g", "caller"));
    assert_string_equal(p.own.words, "caller");
    assert_parsed(&p, WORDS("--graph", "-q"));
    assert_string_equal(p.own.words, "none");
    assert_true(p.own.quiet);
    assert_parsed(&p, WORDS("-g"));
    assert_string_equal(p.own.words, "none");
}

static void options_and_arguments_may_be_mixed(void **state)
{
    struct parsed p;
    (void)state;
    assert_parsed(&p, WORDS("one", "-q", "-", "--", "-V", "--nonsense"));
    assert_int_equal(p.own.nr_arguments, 4);
    assert_string_equal(p.own.last_argument, "--nonsense");
    assert_true(p.own.quiet && !p.own.verbose);
}

static void a_command_ends_the_options(void **state)
{
    struct option_set command = set;
    struct parsed p;
    (void)state;
    command.arguments = ARGUMENTS_COMMAND;
    parse_with(&command, &p, WORDS("-q", "-o", "f", "ls", "-V"));
    assert_int_equal(p.status, 0);
    assert_int_equal(p.result.first, 4);
    assert_true(p.own.quiet && !p.own.verbose);
    parse_with(&command, &p, WORDS("-q", "--", "-V"));
    assert_int_equal(p.status, 0);
    assert_int_equal(p.result.first, 3);
    parse_with(&command, &p, WORDS("-q"));
    assert_int_equal(p.result.first, 2);
}

static void a_command_may_follow_arguments(void **state)
{
    struct option_set command = set;
    struct parsed p;
    (void)state;
    command.command_follows = true;
    parse_with(&command, &p, WORDS("-q", "file", "--", "ls", "-V"));
    assert_int_equal(p.status, 0);
    assert_int_equal(p.result.first, 4);
    assert_int_equal(p.own.nr_arguments, 1);
    assert_string_equal(p.own.last_argument, "file");
    assert_true(p.own.quiet && !p.own.verbose);
    parse_with(&command, &p, WORDS("file", "-q"));
    assert_int_equal(p.result.first, 3);
}

static void abbreviations_are_unique(void **state)
{
    struct parsed p;
    (void)state;
    assert_parsed(&p, WORDS("--verb"));
    assert_true(p.own.verbose);
    assert_parsed(&p, WORDS("--names=a")); /* of equal names, the first */
    assert_int_equal(p.own.names.nr, 1);
    parsed_free(&p);
    assert_parsed(&p, WORDS("--com", "x")); /* two names of one option */
    assert_string_equal(p.shared.names, "x");
    assert_refused("Ambiguous option: in (could be --input or --inline)", WORDS("--in"));
    parse_with(&set, &p, WORDS("--in=x"));
    assert_ptr_equal(p.result.rows[0], &shared_rows[0]);
    assert_ptr_equal(p.result.rows[1], &shared_rows[2]);
}

static void errors_are_in_the_words_of_perf(void **state)
{
    (void)state;
    assert_refused("unknown option `nonsense'", WORDS("--nonsense=3"));
    assert_refused("unknown switch `X'", WORDS("-qX"));
    assert_refused("unknown option `'", WORDS("--=3"));
    assert_refused("option `output' requires a value", WORDS("--output"));
    assert_refused("option `output' requires a value", WORDS("--outp"));
    assert_refused("switch `o' requires a value", WORDS("-o"));
    assert_refused("option `quiet' takes no value", WORDS("--quiet=1"));
    assert_refused("option `help' takes no value", WORDS("--help=1"));
    assert_refused("option `size' expects a numerical value, not `x'", WORDS("--size", "x"));
    assert_refused("option `size' expects a numerical value, not `-1'", WORDS("--size", "-1"));
    assert_refused("option `size' expects a numerical value, not `18446744073709551616'",
                   WORDS("--size", "18446744073709551616"));
    assert_refused("option `size' expects a numerical value, not `3x'", WORDS("--size", "3x"));
    assert_refused("option `size' expects a numerical value, not `'", WORDS("--size", ""));
    assert_refused("switch `w' expects a number from 10 to 100, not `9'", WORDS("-w", "9"));
    assert_refused("option `width' expects a number from 10 to 100, not `101'",
                   WORDS("--width=101"));
    assert_refused("option `colour' expects red, green or blue, not `gree'",
                   WORDS("--colour", "gree"));
    assert_refused("switch `g' expects a good word, not `bad'", WORDS("-g", "bad"));
    assert_refused("bad argument", WORDS("bad"));
    assert_refused("--aio is perf's", WORDS("--aio=3"));
    assert_refused("-b is perf's", WORDS("-qb"));
}

static void unexpected_arguments_are_errors(void **state)
{
    struct option_set none = set;
    struct parsed p;
    (void)state;
    none.arguments = ARGUMENTS_NONE;
    parse_with(&none, &p, WORDS("-q", "one"));
    assert_int_equal(p.status, -1);
    assert_string_equal(p.err.text, "unexpected argument `one'");
    parse_with(&none, &p, WORDS("--", "one"));
    assert_int_equal(p.status, -1);
}

static void help_ends_parsing(void **state)
{
    struct parsed p;
    (void)state;
    assert_parsed(&p, WORDS("-qhX", "--nonsense"));
    assert_true(p.result.help && p.own.quiet);
    assert_parsed(&p, WORDS("--he", "--nonsense"));
    assert_true(p.result.help);
}

static void options_of_the_command_line_are_seen(void **state)
{
    struct parsed p;
    struct error err = {0};
    char text[] = "blue";
    (void)state;
    assert_parsed(&p, WORDS("-q", "--quiet", "-V"));
    assert_int_equal(p.own.nr_seen, 2);
    assert_int_equal(
        options_take(&set.sections[0], &own_rows[5], (void *const[]){&p.own}, text, &err), 0);
    assert_int_equal(p.own.colour, BLUE);
    assert_int_equal(
        options_take(&set.sections[0], &own_rows[0], (void *const[]){&p.own}, NULL, &err), 0);
    assert_int_equal(p.own.nr_seen, 2); /* options_take() is for values from elsewhere */
}

static void help_has_all_rows_but_hidden_ones(void **state)
{
    struct text out = {0};
    (void)state;
    options_put_help(&set, &out);
    text_char(&out, 0);
    assert_false(out.failed);
    assert_non_null(strstr(out.at,
                           " Usage: prog make [options] FILE\n    or: prog make [options] -\n"
                           "\nMakes things.\n\n"
                           "  -q, --quiet          Print only errors.\n"));
    assert_non_null(strstr(out.at, "\n  -w, --width N        Draw N columns.\n"
                                   "      --size N         Use N bytes.\n"));
    assert_non_null(strstr(out.at, "\n  -z, --zip[=LEVEL]    Compress.\n"
                                   "  -g, --graph [WORDS]  Draw graphs.\n"));
    assert_non_null(strstr(out.at, "\n\nShared options:\n  -i, --input FILE     Read FILE.\n"));
    assert_null(strstr(out.at, "--inline"));
    assert_non_null(strstr(out.at, "\n\nThat is all.\n"));
    text_free(&out);
}

static void long_help_is_broken_into_lines(void **state)
{
    static const struct option_row rows[] = {
        {ROW_IGNORED(0, "a-name-of-no-small-length", "Short.")},
        {ROW_IGNORED('x', NULL,
                     "One sentence that is longer than what a line of a terminal has room for.")},
        {0},
    };
    const struct option_set wide = {
        .name = "w", .usage = "", .about = "", .sections = {{.rows = rows}}};
    struct text out = {0};
    (void)state;
    options_put_help(&wide, &out);
    text_char(&out, 0);
    assert_non_null(strstr(out.at,
                           "\n      --a-name-of-no-small-length\n"
                           "                       Short.\n"
                           "   -x                  One sentence that is longer than what a line "
                           "of a\n                       terminal has room for.\n"));
    text_free(&out);
}

static void errors_show_the_usage_and_the_rows(void **state)
{
    struct parsed p;
    struct text out = {0};
    (void)state;
    parse_with(&set, &p, WORDS("--in"));
    options_put_error(&set, &p.result, &p.err, &out);
    text_char(&out, 0);
    assert_string_equal(out.at, " Error: Ambiguous option: in (could be --input or --inline)\n"
                                "\n"
                                " Usage: prog make [options] FILE\n"
                                "    or: prog make [options] -\n"
                                "\n"
                                "  -i, --input FILE     Read FILE.\n"
                                "      --inline         Show inlined functions.\n"
                                "\n"
                                " See 'prog make --help'.\n");
    text_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_may_stand_in_all_places),
        cmocka_unit_test(a_value_may_look_like_an_option),
        cmocka_unit_test(rows_store_what_they_say),
        cmocka_unit_test(optional_values_are_attached),
        cmocka_unit_test(some_optional_values_may_follow),
        cmocka_unit_test(options_and_arguments_may_be_mixed),
        cmocka_unit_test(a_command_ends_the_options),
        cmocka_unit_test(a_command_may_follow_arguments),
        cmocka_unit_test(abbreviations_are_unique),
        cmocka_unit_test(errors_are_in_the_words_of_perf),
        cmocka_unit_test(unexpected_arguments_are_errors),
        cmocka_unit_test(help_ends_parsing),
        cmocka_unit_test(options_of_the_command_line_are_seen),
        cmocka_unit_test(help_has_all_rows_but_hidden_ones),
        cmocka_unit_test(long_help_is_broken_into_lines),
        cmocka_unit_test(errors_show_the_usage_and_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
