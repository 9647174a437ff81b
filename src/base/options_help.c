/* SPDX-License-Identifier: GPL-2.0-only */
/* Prints --help, and messages for bad command lines, from a table of options. */
#include "base/options.h"

#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 23, HELP_WIDTH = 79 }; /* columns of the terminal */

/* Append text that is broken into lines of HELP_WIDTH columns; each line begins at HELP_COLUMN. */
static void put_wrapped(struct text *out, const char *s)
{
    size_t room = HELP_WIDTH - HELP_COLUMN;
    while (strlen(s) > room) {
        size_t size = room;
        while (size && s[size] != ' ')
            size--;
        if (!size)
            size = strcspn(s, " ");
        text_bytes(out, s, size);
        s += size + (s[size] == ' ');
        if (*s)
            text_printf(out, "\n%*s", HELP_COLUMN, "");
    }
    text_string(out, s);
}

static void put_row(const struct option_row *row, struct text *out)
{
    size_t begin = out->size;
    char letter[] = {'-', row->letter, row->name ? ',' : 0, 0};
    text_printf(out, "  %3s %s%s", row->letter ? letter : "", row->name ? "--" : "",
                row->name ? row->name : "");
    if (!row->name) /* the blank behind the letter */
        out->size -= !out->failed;
    if (row->argument && row->place == VALUE_ATTACHED)
        text_printf(out, row->name ? "[=%s]" : "[%s]", row->argument);
    else if (row->argument)
        text_printf(out, row->place == VALUE_MAY_FOLLOW ? " [%s]" : " %s", row->argument);
    size_t size = out->size - begin;
    if (size + 2 > HELP_COLUMN)
        text_printf(out, "\n%*s", HELP_COLUMN, "");
    else
        text_printf(out, "%*s", (int)(HELP_COLUMN - size), "");
    put_wrapped(out, row->help);
    text_char(out, '\n');
}

/* Append each form of the command's use in a line of its own. */
static void put_usage(const struct option_set *set, struct text *out)
{
    const char *form = set->usage;
    for (const char *head = " Usage: ";; head = "    or: ") {
        size_t size = strcspn(form, "\n");
        text_printf(out, "%s%s %.*s\n", head, set->name, (int)size, form);
        if (!form[size])
            break;
        form += size + 1;
    }
}

/* Whether an earlier section has an option of this name: then that one counts. */
static bool is_overridden(const struct option_set *set, const struct option_section *section,
                          const struct option_row *row)
{
    for (const struct option_section *s = set->sections; row->name && s != section; s++)
        for (const struct option_row *r = s->rows; !option_row_is_end(r); r++)
            if (r->name && strcmp(r->name, row->name) == 0)
                return true;
    return false;
}

void options_put_help(const struct option_set *set, struct text *out)
{
    put_usage(set, out);
    text_printf(out, "\n%s", set->about);
    for (const struct option_section *s = set->sections; s->rows; s++) {
        text_char(out, '\n');
        if (s->title)
            text_printf(out, "%s:\n", s->title);
        for (const struct option_row *row = s->rows; !option_row_is_end(row); row++)
            if (!row->hidden && !is_overridden(set, s, row))
                put_row(row, out);
    }
    if (set->closing)
        text_printf(out, "\n%s", set->closing);
}

void options_put_error(const struct option_set *set, const struct options_parsed *p,
                       const struct error *err, struct text *out)
{
    text_printf(out, " Error: %s\n", err->text);
    if (err->kind == ERROR_NO_MEMORY)
        return;
    text_char(out, '\n');
    put_usage(set, out);
    if (p && p->rows[0])
        text_char(out, '\n');
    for (size_t i = 0; p && i < sizeof(p->rows) / sizeof(*p->rows); i++)
        if (p->rows[i] && p->rows[i]->help)
            put_row(p->rows[i], out);
    text_printf(out, "\n See '%s --help'.\n", set->name);
}
