/* SPDX-License-Identifier: GPL-2.0-only */
/* See color.h. */
#include "output/color.h"

#include <stdlib.h>
#include <string.h>

/* A longer line is passed on without colors, in pieces. */
enum { LINE_BYTES_MAX = 1 << 20 };

static const char RED[] = "\033[31m", GREEN[] = "\033[32m", YELLOW[] = "\033[33m",
                  DIM[] = "\033[2m", END[] = "\033[m";

bool colors_are_unwanted(void)
{
    const char *no = getenv("NO_COLOR");
    return no && *no;
}

struct line {
    const char *at;
    size_t size;
};

static void put_colored(struct text *t, const char *color, const char *from, const char *to)
{
    if (from == to)
        return;
    text_string(t, color);
    text_bytes(t, from, (size_t)(to - from));
    text_string(t, END);
}

static bool begins_with(struct line l, const char *word)
{
    size_t size = strlen(word);
    return l.size >= size && memcmp(l.at, word, size) == 0;
}

/* ---- rows ---------------------------------------------------------------------------------- */

static bool is_of_number(char c)
{
    return (c >= '0' && c <= '9') || c == '.';
}

/* What stands between the percentages of a row, and before those of a call tree. */
static bool is_of_row(char c)
{
    return is_of_number(c) || c == ' ' || c == '|' || c == '-';
}

/* A minus sign, which is no part of a tree's line: what follows is no share, but a difference. */
static bool is_change(const char *p, const char *begin, const char *end)
{
    return *p == '-' && (p + 1 == end || p[1] != '-') && (p == begin || p[-1] != '-');
}

/* perf's color of a share, whose digits are at `at`; NULL: none. */
static const char *share_color(const char *at, size_t size)
{
    enum { DIGITS_MAX = 12 };
    char number[DIGITS_MAX + 1] = "";
    memcpy(number, at, size < DIGITS_MAX ? size : DIGITS_MAX);
    double percent = strtod(number, NULL);
    return percent >= 5 ? RED : percent >= 0.5 ? GREEN : NULL;
}

static void put_row(struct line l, struct text *t)
{
    const char *p = l.at, *end = l.at + l.size;
    while (p < end && is_of_row(*p) && !is_change(p, l.at, end)) {
        size_t size = 0;
        while (p + size < end && is_of_number(p[size]))
            size++;
        bool share = size && p + size < end && p[size] == '%';
        const char *color = share ? share_color(p, size) : NULL;
        size += share || !size;
        if (color)
            put_colored(t, color, p, p + size);
        else
            text_bytes(t, p, size);
        p += size;
    }
    text_bytes(t, p, (size_t)(end - p));
}

/* ---- verdicts ------------------------------------------------------------------------------ */

/* Put a line of ljperf doctor that begins with a verdict. Returns false for other lines. */
static bool put_verdict(struct line l, struct text *t)
{
    static const struct {
        const char *word; /* with the blanks up to the next column */
        const char *color;
    } verdicts[] = {{"ok       ", GREEN}, {"warn     ", YELLOW}, {"missing  ", RED}};
    for (size_t i = 0; i < sizeof(verdicts) / sizeof(*verdicts); i++) {
        const char *word = verdicts[i].word, *end = l.at + strlen(word);
        if (!begins_with(l, word) || end == l.at + l.size || *end < 'a' || *end > 'z')
            continue;
        put_colored(t, verdicts[i].color, l.at, l.at + strcspn(word, " "));
        text_bytes(t, l.at + strcspn(word, " "), l.size - strcspn(word, " "));
        return true;
    }
    return false;
}

/* ---- frames -------------------------------------------------------------------------------- */

/* Returns where the last of `what` begins before `end`; NULL: it is not there. */
static const char *last(const char *at, const char *end, const char what[2])
{
    for (size_t i = (size_t)(end - at); i >= 2; i--)
        if (at[i - 2] == what[0] && at[i - 1] == what[1])
            return at + i - 2;
    return NULL;
}

static bool has_word(const char *at, const char *end, const char *word)
{
    return memmem(at, (size_t)(end - at), word, strlen(word)) != NULL;
}

/* Modules and notes have no parentheses and brackets inside. */
static void put_frame(struct line l, struct text *t)
{
    const char *end = l.at + l.size - (l.at[l.size - 1] == '\n');
    const char *note = end > l.at && end[-1] == ']' ? last(l.at, end, " [") : NULL;
    const char *behind = note ? note : end;
    const char *module = behind > l.at && behind[-1] == ')' ? last(l.at, behind, " (") : NULL;
    bool doubtful = note && (has_word(note, end, "guess") || has_word(note, end, "image"));
    if (!module)
        module = behind;
    text_bytes(t, l.at, (size_t)(module - l.at));
    put_colored(t, DIM, module, behind);
    put_colored(t, doubtful ? YELLOW : DIM, behind, end);
    text_bytes(t, end, (size_t)(l.at + l.size - end));
}

/* ---- lines --------------------------------------------------------------------------------- */

static void put_line(struct line l, struct text *t)
{
    bool fed = l.at[l.size - 1] == '\n';
    if (begins_with(l, "ljperf"))
        text_bytes(t, l.at, l.size);
    else if (*l.at == '\t')
        put_frame(l, t);
    else if (*l.at == '#') {
        put_colored(t, DIM, l.at, l.at + l.size - fed);
        text_string(t, fed ? "\n" : "");
    } else if (!put_verdict(l, t))
        put_row(l, t);
}

void coloring_put(struct coloring *c, const char *bytes, size_t size, struct text *ret)
{
    while (size) {
        const char *feed = memchr(bytes, '\n', size);
        size_t part = feed ? (size_t)(feed - bytes) + 1 : size;
        text_bytes(&c->line, bytes, part);
        bytes += part;
        size -= part;
        if (c->line.failed)
            ret->failed = true;
        else if (c->line.size > LINE_BYTES_MAX)
            text_bytes(ret, c->line.at, c->line.size);
        else if (feed)
            put_line((struct line){c->line.at, c->line.size}, ret);
        if (feed || c->line.size > LINE_BYTES_MAX)
            c->line.size = 0;
    }
}

void coloring_end(struct coloring *c, struct text *ret)
{
    if (c->line.size)
        put_line((struct line){c->line.at, c->line.size}, ret);
    text_free(&c->line);
}
