/* SPDX-License-Identifier: GPL-2.0-only */
/* The columns of the report's rows: their titles, widths and texts. */
#include "output/report_internal.h"

#include <inttypes.h>
#include <string.h>

/* Sorted rows are spread over memory, so data that later rows need is fetched ahead. */
void report_fetch_ahead(const struct report_section *s, size_t at)
{
    const struct report *r = s->report;
    const struct function *functions = r->stacks->functions.at;
    if (at + 12 < s->rows.nr) {
        const struct report_row *row = &r->rows.at[s->rows.at[at + 12]];
        __builtin_prefetch(row);
        __builtin_prefetch(&row->children);
    }
    uint32_t next = at + 8 < s->rows.nr ? r->rows.at[s->rows.at[at + 8]].function : FUNCTION_NONE;
    if (next != FUNCTION_NONE)
        __builtin_prefetch(&functions[next]);
    next = at + 4 < s->rows.nr ? r->rows.at[s->rows.at[at + 4]].function : FUNCTION_NONE;
    if (next != FUNCTION_NONE && functions[next].symbol)
        __builtin_prefetch(functions[next].symbol);
}

static void pad(struct text *t, size_t from, size_t to, char with)
{
    if (from < to)
        text_repeat(t, with, to - from);
}

/* ---- widths -------------------------------------------------------------------------------- */

/* The columns with numbers, which come first. */
struct number_column {
    const char *title;
    unsigned width;
};
enum { NUMBERS_MAX = 4, SHARE_WIDTH = 8, COUNT_WIDTH = 12 };

/* The width that the user gives a column; 0: none. */
static unsigned user_width(const struct report_options *o, unsigned column)
{
    return column < o->nr_widths && !o->separator ? o->widths[column] : 0;
}

static unsigned number_columns(const struct report_options *o,
                               struct number_column ret[NUMBERS_MAX])
{
    const struct number_column all[NUMBERS_MAX] = {
        {o->children ? "Children" : "Overhead", SHARE_WIDTH},
        {o->children ? "Self" : NULL, SHARE_WIDTH},
        {o->show_samples ? "Samples" : NULL, COUNT_WIDTH},
        {o->show_period ? "Period" : NULL, COUNT_WIDTH}};
    unsigned nr = 0;
    for (unsigned i = 0; i < NUMBERS_MAX; i++) {
        if (!all[i].title)
            continue;
        unsigned wanted = user_width(o, nr);
        ret[nr] = all[i];
        ret[nr].width = o->separator ? 0 : wanted ? wanted : ret[nr].width;
        if (wanted && wanted < strlen(all[i].title)) /* as in perf */
            ret[nr].width = (unsigned)strlen(all[i].title);
        nr++;
    }
    return nr;
}

/* The width that the user gives the column of the key of this index. */
static unsigned key_width(const struct report_options *o, unsigned k)
{
    struct number_column numbers[NUMBERS_MAX];
    return user_width(o, number_columns(o, numbers) + k);
}

/* Widen columns to what their cells need; the last one is not padded and has the longest texts, so
 * it is measured only where lines are shorter than it: in a hierarchy. */
void report_measure(struct report_section *s)
{
    const struct report_options *o = s->report->options;
    const unsigned nr = o->nr_keys - !o->hierarchy;
    for (unsigned k = 0; k < o->nr_keys; k++)
        s->widths[k] = (unsigned)strlen(report_key_title(o->keys[k]));
    for (size_t i = 0; i < s->rows.nr; i++) {
        const struct report_row *row = &s->report->rows.at[s->rows.at[i]];
        report_fetch_ahead(s, i);
        for (unsigned k = 0; k < nr; k++) {
            s->cell.size = 0;
            report_put_key(&s->cell, s->report, row, o->keys[k]);
            if (s->cell.size > s->widths[k])
                s->widths[k] = (unsigned)s->cell.size;
        }
    }
    for (unsigned k = 0; k < o->nr_keys; k++)
        if (key_width(o, k))
            s->widths[k] = key_width(o, k);
}

/* Where a key's column stands on a narrow screen: smaller numbers first. */
static unsigned narrow_place(enum report_key key)
{
    return key == KEY_SYM ? 0 : key == KEY_DSO ? 1 : 2;
}

/* Returns the index in the options of the key whose column is number `column`. */
static unsigned key_at(const struct report_section *s, unsigned column)
{
    const struct report_options *o = s->report->options;
    for (unsigned place = 0; s->name_width && place <= 2; place++)
        for (unsigned k = 0; k < o->nr_keys; k++)
            if (narrow_place(o->keys[k]) == place && column-- == 0)
                return k;
    return column;
}

static unsigned width_of(const struct report_section *s, unsigned k)
{
    bool name = s->name_width && s->report->options->keys[k] == KEY_SYM;
    return name ? s->name_width : s->widths[k];
}

/* ---- titles -------------------------------------------------------------------------------- */

void report_put_number_titles(const struct report_section *s, struct text *t, bool dots)
{
    const struct report_options *o = s->report->options;
    struct number_column numbers[NUMBERS_MAX];
    const unsigned nr = number_columns(o, numbers);
    for (unsigned i = 0; i < nr; i++) {
        if (i)
            text_string(t, o->separator ? o->separator : "  ");
        pad(t, dots ? 0 : strlen(numbers[i].title), numbers[i].width, dots ? '.' : ' ');
        text_string(t, dots ? "" : numbers[i].title);
    }
}

static void put_key_title(const struct report_section *s, struct text *t, unsigned k, bool last)
{
    const struct report_options *o = s->report->options;
    const char *title = report_key_title(o->keys[k]);
    size_t size = strlen(title);
    if (o->separator) {
        text_string(t, title + strspn(title, " "));
        return;
    }
    if (key_width(o, k) && size > key_width(o, k))
        size = key_width(o, k);
    text_bytes(t, title, size);
    pad(t, size, last ? 0 : width_of(s, k), ' ');
}

void report_put_titles(const struct report_section *s, struct text *t, bool dots)
{
    const struct report_options *o = s->report->options;
    text_string(t, "# ");
    report_put_number_titles(s, t, dots);
    for (unsigned i = 0; i < o->nr_keys; i++) {
        unsigned k = key_at(s, i);
        text_string(t, o->separator ? o->separator : "  ");
        if (dots)
            pad(t, 0, o->separator ? 0 : width_of(s, k), '.');
        else
            put_key_title(s, t, k, i + 1 == o->nr_keys);
    }
    text_char(t, '\n');
}

/* ---- rows ---------------------------------------------------------------------------------- */

void report_put_numbers(const struct report_section *s, const struct report_sums *sums,
                        struct text *t)
{
    const struct report_options *o = s->report->options;
    struct number_column numbers[NUMBERS_MAX];
    const char *gap = o->separator ? o->separator : "  ";
    number_columns(o, numbers);
    unsigned column = 0, width = numbers[column++].width;
    text_string(t, o->separator ? "" : "  ");
    text_hundredths(t, report_percent(s, sums->weight), width ? width - 1 : 0);
    text_char(t, '%');
    if (o->children) {
        width = numbers[column++].width;
        text_string(t, gap);
        text_hundredths(t, report_percent(s, sums->self), width ? width - 1 : 0);
        text_char(t, '%');
    }
    if (o->show_samples) {
        text_string(t, gap);
        text_dec(t, sums->samples, numbers[column++].width);
    }
    if (o->show_period) {
        text_string(t, gap);
        text_dec(t, sums->self, numbers[column].width);
    }
}

/* Cut the cell to a width, but not within a character. */
static void cut_cell(struct text *cell, unsigned width)
{
    if (!width || cell->size <= width)
        return;
    for (cell->size = width; cell->size && (cell->at[cell->size] & 0xc0) == 0x80;)
        cell->size--;
}

/* Append a key's text. A separator inside it is replaced, because it would end the column. */
static void put_cell(struct report_section *s, const struct report_row *row, unsigned column,
                     struct text *t)
{
    const struct report_options *o = s->report->options;
    unsigned k = key_at(s, column);
    s->cell.size = 0;
    report_put_key(&s->cell, s->report, row, o->keys[k]);
    cut_cell(&s->cell, key_width(o, k));
    for (size_t i = 0; o->separator && i < s->cell.size; i++)
        if (s->cell.at[i] == *o->separator)
            s->cell.at[i] = '.';
    text_bytes(t, s->cell.at, s->cell.size);
    if (column + 1 < o->nr_keys && !o->separator)
        pad(t, s->cell.size, width_of(s, k), ' ');
    else if (k + 1 == o->nr_keys)
        s->widths[k] = s->cell.size > s->widths[k] ? (unsigned)s->cell.size : s->widths[k];
}

void report_put_row(struct report_section *s, uint32_t index, struct text *t)
{
    const struct report_options *o = s->report->options;
    const struct report_row *row = &s->report->rows.at[index];
    const struct report_sums sums = {report_row_weight(s->report, row), row->self, row->samples};
    report_put_numbers(s, &sums, t);
    for (unsigned k = 0; k < o->nr_keys; k++) {
        text_string(t, o->separator ? o->separator : "  ");
        put_cell(s, row, k, t);
    }
}
