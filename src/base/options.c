/* SPDX-License-Identifier: GPL-2.0-only */
/* Parses a command line by its table of options. */
#include "base/options.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parser {
    const struct option_set *set;
    void *const *targets;
    int argc, at; /* argv[at] is read next */
    char **argv;
    struct options_parsed *ret;
};

/* An option and the section that it is in. */
struct found {
    const struct option_section *section;
    const struct option_row *row;
};

/* ---- values -------------------------------------------------------------------------------- */

int option_error(const struct option_value *v, struct error *err, const char *fmt, ...)
{
    char text[sizeof(err->text)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (v->letter)
        return error_set(err, ERROR_FORMAT, "switch `%c' %s", v->row->letter, text);
    return error_set(err, ERROR_FORMAT, "option `%s' %s", v->row->name, text);
}

int option_names(char *text, name_list *ret, struct error *err)
{
    for (char *name; (name = strsep(&text, ","));)
        if (*name && !vec_push(ret, name))
            return error_no_memory(err);
    return 0;
}

static int number_error(const struct option_value *v, struct error *err)
{
    const struct option_row *row = v->row;
    if (row->most < UINT32_MAX)
        return option_error(v, err, "expects a number from %" PRIu64 " to %" PRIu64 ", not `%.60s'",
                            row->least, row->most, v->text);
    if (row->least)
        return option_error(v, err, "expects a number of %" PRIu64 " or more, not `%.60s'",
                            row->least, v->text);
    return option_error(v, err, "expects a numerical value, not `%.60s'", v->text);
}

static int take_number(void *field, const struct option_value *v, struct error *err)
{
    char *end;
    errno = 0;
    if (!v->text)
        return option_error(v, err, "requires a value");
    unsigned long long value = strtoull(v->text, &end, 10);
    if (*v->text < '0' || *v->text > '9' || *end || errno || value < v->row->least ||
        value > v->row->most)
        return number_error(v, err);
    uint32_t narrow = (uint32_t)value;
    uint64_t wide = value;
    if (v->row->size == sizeof(narrow))
        memcpy(field, &narrow, sizeof(narrow));
    else
        memcpy(field, &wide, sizeof(wide));
    return 0;
}

static int take_word(void *field, const struct option_value *v, struct error *err)
{
    char known[160] = "";
    size_t size = 0;
    if (!v->text)
        return option_error(v, err, "requires a value");
    for (unsigned i = 0; v->row->words[i]; i++) {
        const char *between = !i ? "" : v->row->words[i + 1] ? ", " : " or ";
        if (strcmp(v->text, v->row->words[i]) == 0) {
            memcpy(field, &i, sizeof(i));
            return 0;
        }
        if (size < sizeof(known))
            size += (size_t)snprintf(known + size, sizeof(known) - size, "%s%s", between,
                                     v->row->words[i]);
    }
    return option_error(v, err, "expects %s, not `%.60s'", known, v->text);
}

/* Store a value, which is there if the option requires one. */
static int take_value(void *target, const struct option_value *v, struct error *err)
{
    const struct option_row *row = v->row;
    void *field = (char *)target + row->field;
    const char *text = v->text;
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)field = row->value != 0;
        return 0;
    case OPTION_CHOICE:
        memcpy(field, &row->value, sizeof(row->value));
        return 0;
    case OPTION_STRING:
        memcpy(field, &text, sizeof(text));
        return 0;
    case OPTION_NUMBER:
        return take_number(field, v, err);
    case OPTION_WORD:
        return take_word(field, v, err);
    case OPTION_NAMES:
        return option_names(v->text, field, err);
    case OPTION_APPEND:
        return vec_push((name_list *)field, text) ? 0 : error_no_memory(err);
    case OPTION_CALL:
        return row->take(target, v, err);
    case OPTION_IGNORED:
    case OPTION_HELP:
    default:
        return 0;
    }
}

int options_take(const struct option_section *s, const struct option_row *row, void *const *targets,
                 char *value, struct error *err)
{
    const struct option_value v = {.row = row, .text = value};
    return take_value(targets[s->target], &v, err);
}

/* ---- options ------------------------------------------------------------------------------- */

/* Take the option. `attached`: the value that is part of the same word; NULL: none. */
static int take_option(struct parser *p, struct found f, bool letter, char *attached,
                       struct error *err)
{
    struct option_value v = {.row = f.row, .text = attached, .letter = letter};
    char *next = p->at < p->argc ? p->argv[p->at] : NULL;
    bool follows =
        next && f.row->argument && !attached &&
        (f.row->place == VALUE_REQUIRED || (f.row->place == VALUE_MAY_FOLLOW && *next != '-'));
    p->ret->rows[0] = f.row;
    if (follows) {
        v.text = next;
        p->at++;
    }
    if (!f.row->argument && v.text)
        return option_error(&v, err, "takes no value");
    if (f.row->argument && f.row->place == VALUE_REQUIRED && !v.text)
        return option_error(&v, err, "requires a value");
    if (f.row->kind == OPTION_HELP)
        p->ret->help = true;
    else if (take_value(p->targets[f.section->target], &v, err) < 0)
        return -1;
    if (p->set->seen)
        p->set->seen(p->targets[f.section->target], f.row);
    p->ret->rows[0] = NULL;
    return 0;
}

static int unknown_option(const struct parser *p, bool letter, const char *name, size_t size,
                          struct error *err)
{
    char shown[64];
    struct error why = {0};
    snprintf(shown, sizeof(shown), "%s%.*s", letter ? "-" : "--", (int)size, name);
    if (p->set->unknown)
        p->set->unknown(shown, &why);
    if (why.kind != ERROR_NONE)
        return error_set(err, ERROR_FORMAT, "%s", why.text);
    return error_set(err, ERROR_FORMAT, "unknown %s `%.*s'", letter ? "switch" : "option",
                     (int)(size < 100 ? size : 100), name);
}

/* Whether two rows are two names of one option. */
static bool is_same_option(struct found a, struct found b)
{
    return a.section->target == b.section->target && a.row->kind == b.row->kind &&
           a.row->field == b.row->field && a.row->value == b.row->value &&
           a.row->take == b.row->take;
}

/* Find an option by its long name or an abbreviation of it. An exact name wins, and of equal names
 * the first. Without a match ret->row is NULL. Returns -1 for an abbreviation of several options.
 */
static int find_long(const struct parser *p, const char *name, size_t size, struct found *ret,
                     struct error *err)
{
    struct found other = {0};
    *ret = other;
    for (const struct option_section *s = p->set->sections; s->rows; s++)
        for (const struct option_row *row = s->rows; !option_row_is_end(row); row++) {
            struct found f = {s, row};
            if (!row->name || strncmp(row->name, name, size) != 0)
                continue;
            if (!row->name[size]) {
                *ret = f;
                return 0;
            }
            if (!ret->row)
                *ret = f;
            else if (!other.row && !is_same_option(*ret, f))
                other = f;
        }
    if (!other.row)
        return 0;
    p->ret->rows[0] = ret->row;
    p->ret->rows[1] = other.row;
    return error_set(err, ERROR_FORMAT, "Ambiguous option: %.*s (could be --%s or --%s)", (int)size,
                     name, ret->row->name, other.row->name);
}

static int parse_long(struct parser *p, char *name, struct error *err)
{
    size_t size = strcspn(name, "=");
    struct found f = {0};
    if (size > INT_MAX)
        size = INT_MAX;
    if (size && find_long(p, name, size, &f, err) < 0)
        return -1;
    if (!f.row)
        return unknown_option(p, false, name, size, err);
    return take_option(p, f, false, name[size] ? name + size + 1 : NULL, err);
}

static struct found find_letter(const struct parser *p, char letter)
{
    for (const struct option_section *s = p->set->sections; s->rows; s++)
        for (const struct option_row *row = s->rows; !option_row_is_end(row); row++)
            if (row->letter == letter)
                return (struct found){s, row};
    return (struct found){0};
}

/* Parse joined letters. The first that takes a value gets what follows it. */
static int parse_letters(struct parser *p, char *letters, struct error *err)
{
    for (; *letters && !p->ret->help; letters++) {
        struct found f = find_letter(p, *letters);
        if (!f.row)
            return unknown_option(p, true, letters, 1, err);
        bool last = f.row->argument || !letters[1];
        if (take_option(p, f, true, f.row->argument && letters[1] ? letters + 1 : NULL, err) < 0)
            return -1;
        if (last)
            break;
    }
    return 0;
}

static int take_argument(const struct parser *p, char *text, struct error *err)
{
    if (p->set->arguments == ARGUMENTS_TAKEN)
        return p->set->argument(p->targets[p->set->argument_target], text, err);
    return error_set(err, ERROR_FORMAT, "unexpected argument `%.100s'", text);
}

static int parse_words(struct parser *p, struct error *err)
{
    bool options = true; /* no -- was seen */
    while (p->at < p->argc && !p->ret->help) {
        char *word = p->argv[p->at];
        bool is_end = options && strcmp(word, "--") == 0;
        bool is_option = options && word[0] == '-' && word[1];
        if (!is_option && p->set->arguments == ARGUMENTS_COMMAND)
            return 0;
        p->at++;
        if (is_end && p->set->command_follows)
            return 0;
        if (is_end)
            options = false;
        else if ((!is_option       ? take_argument(p, word, err)
                  : word[1] == '-' ? parse_long(p, word + 2, err)
                                   : parse_letters(p, word + 1, err)) < 0)
            return -1;
    }
    return 0;
}

int options_parse(const struct option_set *set, void *const *targets, int argc, char **argv,
                  struct options_parsed *ret, struct error *err)
{
    struct parser p = {
        .set = set, .targets = targets, .argc = argc, .at = 1, .argv = argv, .ret = ret};
    *ret = (struct options_parsed){0};
    int failed = parse_words(&p, err);
    ret->first = p.at;
    return failed;
}
