/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The grammar of a sound format:
 *     name: NAME \n ID: NUMBER \n format: \n
 *     ( \t field:TYPE NAME; \t offset:N; \t size:N; \t signed:N; \n | \n )...
 *     \n print fmt: "STRING" (, EXPRESSION)...
 */
#include "perfdata/format.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

enum { DEPTH_MAX = 40, FIELD_MAX = 65535, FIELDS_MAX = 256 };

struct span {
    const char *at;
    size_t size;
};

/* The names of the fields. */
struct names {
    struct span list[FIELDS_MAX];
    size_t nr;
};

struct scan {
    const char *at, *end;
    int depth;
    struct names *names;
};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static void skip_blanks(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n'))
        s->at++;
}

static bool take(struct scan *s, const char *literal)
{
    size_t n = strlen(literal);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, literal, n) != 0)
        return false;
    s->at += n;
    return true;
}

static bool take_word(struct scan *s)
{
    const char *start = s->at;
    while (s->at < s->end && is_word(*s->at))
        s->at++;
    return s->at > start;
}

static bool take_number(struct scan *s, uint64_t max)
{
    uint64_t value = 0;
    const char *start = s->at;
    for (; s->at < s->end && isdigit((unsigned char)*s->at) && value <= max; s->at++)
        value = value * 10 + (uint64_t)(*s->at - '0');
    return s->at > start && value <= max;
}

static bool is_literal(struct span w, const char *literal)
{
    return w.size == strlen(literal) && !memcmp(w.at, literal, w.size);
}

/* ---- fields ------------------------------------------------------------------------------- */

/* Read the contents of brackets: nothing, a length, or an expression of words and parentheses. */
static bool brackets(struct scan *s)
{
    int open = 0;
    for (; s->at < s->end && *s->at != ']'; s->at++) {
        if (!is_word(*s->at) && !strchr(" ()+-*/", *s->at))
            return false;
        open += *s->at == '(' ? 1 : *s->at == ')' ? -1 : 0;
        if (open < 0)
            return false;
    }
    return !open && take(s, "]");
}

/* Read a declaration up to its semicolon: a type of words and stars, a name, lengths. */
static bool declaration(struct scan *s)
{
    int words = 0;
    char last = 0;
    struct span name = {0};
    while (s->at < s->end && *s->at != ';') {
        if (*s->at == ' ') {
            s->at++;
        } else if (is_word(*s->at)) {
            if (!words && isdigit((unsigned char)*s->at))
                return false;
            name.at = s->at;
            take_word(s);
            name.size = (size_t)(s->at - name.at);
            words++;
            last = 'w';
        } else if (*s->at == '*' && words) {
            s->at++;
            last = '*';
        } else if (*s->at == '[' && last == 'w') {
            s->at++;
            if (!brackets(s))
                return false;
            last = ']';
        } else {
            return false;
        }
    }
    if (words < 2 || last == '*' || s->names->nr == FIELDS_MAX)
        return false;
    s->names->list[s->names->nr++] = name;
    return take(s, ";");
}

static bool field(struct scan *s)
{
    return take(s, "\tfield:") && declaration(s) && take(s, "\toffset:") &&
           take_number(s, FIELD_MAX) && take(s, ";\tsize:") && take_number(s, FIELD_MAX) &&
           take(s, ";\tsigned:") && take_number(s, 1) && take(s, ";\n");
}

/* ---- expressions -------------------------------------------------------------------------- */

static bool expression(struct scan *s);

static bool quoted(struct scan *s, char quote)
{
    if (s->at == s->end || *s->at != quote)
        return false;
    for (s->at++; s->at < s->end && *s->at != quote; s->at++)
        if (*s->at == '\\' && ++s->at == s->end)
            return false;
    return s->at++ < s->end;
}

/* Read one string, or several adjacent strings, which C joins. */
static bool strings(struct scan *s)
{
    if (!quoted(s, '"'))
        return false;
    for (skip_blanks(s); s->at < s->end && *s->at == '"'; skip_blanks(s))
        if (!quoted(s, '"'))
            return false;
    return true;
}

static bool list(struct scan *s, const char *close)
{
    skip_blanks(s);
    if (take(s, close))
        return true;
    do {
        if (!expression(s))
            return false;
        skip_blanks(s);
    } while (take(s, ","));
    return take(s, close);
}

/* Read words and stars up to a parenthesis if they are a type. */
static bool type_in_parentheses(struct scan *s)
{
    struct scan try = *s;
    int words = 0, stars = 0;
    for (skip_blanks(&try); try.at < try.end && (is_word(*try.at) || *try.at == '*');
         skip_blanks(&try)) {
        if (*try.at == '*') {
            if (!words)
                return false;
            try.at++;
            stars++;
        } else if (stars || isdigit((unsigned char)*try.at)) {
            return false;
        } else {
            take_word(&try);
            words++;
        }
    }
    if (!words || !take(&try, ")"))
        return false;
    skip_blanks(&try);
    bool cast = try.at < try.end && (is_word(*try.at) || strchr("(\"~", *try.at));
    if (!stars && words < 2 && !cast)
        return false; /* a single name is an expression */
    *s = try;
    return true;
}

static bool operand(struct scan *s);

static bool parenthesis(struct scan *s)
{
    if (type_in_parentheses(s))
        return operand(s);
    if (!expression(s))
        return false;
    skip_blanks(s);
    return take(s, ")");
}

/* Read "REC->NAME"; the field must exist. */
static bool record_field(struct scan *s)
{
    skip_blanks(s);
    if (!take(s, "->"))
        return false;
    skip_blanks(s);
    struct span name = {s->at, 0};
    take_word(s);
    name.size = (size_t)(s->at - name.at);
    for (size_t i = 0; i < s->names->nr; i++) {
        const struct span *n = &s->names->list[i];
        if (n->size == name.size && !memcmp(n->at, name.at, name.size))
            return true;
    }
    return false;
}

static bool name_or_call(struct scan *s)
{
    struct span word = {s->at, 0};
    take_word(s);
    word.size = (size_t)(s->at - word.at);
    if (is_literal(word, "REC"))
        return record_field(s);
    skip_blanks(s);
    if (isdigit((unsigned char)*word.at) || !take(s, "("))
        return true;
    if (is_literal(word, "sizeof") && type_in_parentheses(s))
        return true;
    return list(s, ")");
}

static bool primary(struct scan *s)
{
    skip_blanks(s);
    if (s->at == s->end)
        return false;
    if (*s->at == '"')
        return strings(s);
    if (*s->at == '\'')
        return quoted(s, '\'');
    if (take(s, "("))
        return parenthesis(s);
    if (take(s, "{"))
        return list(s, "}");
    return is_word(*s->at) && name_or_call(s);
}

static bool unary(struct scan *s)
{
    skip_blanks(s);
    if (s->at < s->end && strchr("!~-+*&", *s->at) && *s->at) {
        s->at++;
        return operand(s);
    }
    if (!primary(s))
        return false;
    for (;;) {
        skip_blanks(s);
        if (take(s, "->") || (s->at + 1 < s->end && *s->at == '.' && take(s, "."))) {
            skip_blanks(s);
            if (!take_word(s))
                return false;
        } else if (take(s, "[")) {
            if (!expression(s) || (skip_blanks(s), !take(s, "]")))
                return false;
        } else {
            return true;
        }
    }
}

/* Read what follows an operator or a cast, one level deeper. */
static bool operand(struct scan *s)
{
    if (++s->depth > DEPTH_MAX)
        return false;
    bool ok = unary(s);
    s->depth--;
    return ok;
}

static bool binary_operator(struct scan *s)
{
    static const char *const OPERATORS[] = {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "<",
                                            ">",  "+",  "-",  "*",  "/",  "%",  "&",  "|",  "^"};
    skip_blanks(s);
    for (size_t i = 0; i < sizeof(OPERATORS) / sizeof(OPERATORS[0]); i++)
        if (take(s, OPERATORS[i]))
            return true;
    return false;
}

static bool expression(struct scan *s)
{
    if (++s->depth > DEPTH_MAX)
        return false;
    do {
        if (!unary(s))
            return false;
    } while (binary_operator(s));
    skip_blanks(s);
    bool ok = !take(s, "?") || (expression(s) && (skip_blanks(s), take(s, ":")) && expression(s));
    s->depth--;
    return ok;
}

/* ---- the whole text ----------------------------------------------------------------------- */

static bool print_format(struct scan *s)
{
    if (!take(s, "print fmt: ") || !strings(s))
        return false;
    for (skip_blanks(s); take(s, ","); skip_blanks(s))
        if (!expression(s))
            return false;
    return s->at == s->end;
}

bool format_is_sound(const char *text, size_t size)
{
    struct names names = {.nr = 0};
    struct scan s = {text, text + size, 0, &names};
    if (memchr(text, 0, size) || !take(&s, "name: ") || !take_word(&s) || !take(&s, "\nID: ") ||
        !take_number(&s, INT32_MAX) || !take(&s, "\nformat:\n"))
        return false;
    while (s.at < s.end && (*s.at == '\t' || *s.at == '\n'))
        if (!take(&s, "\n") && !field(&s))
            return false;
    return print_format(&s);
}
