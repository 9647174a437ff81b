/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rows below each other, as perf's --hierarchy shows them: rows with the same first key stand below
 * one line with this key and their sum, those with the same second key, too, below a second one,
 * and so on. The last key's lines are the report's rows.
 */
#include "base/hash.h"
#include "output/report_internal.h"

#include <stdlib.h>
#include <string.h>

enum { INDENT = 3, GAP = 2 }; /* columns */

/* A line. Line 0 is the root, which is not printed. */
struct line {
    uint32_t parent, level; /* the level of a line is the number of its key + 1 */
    const char *text;       /* of its key; interned */
    uint32_t row;           /* the row, or for lines above rows the first one below */
    uint32_t first, nr;     /* what is below it, in `order` */
    uint64_t weight, samples;
};

struct hierarchy {
    struct report_section *section;
    VEC(struct line) lines;
    struct hash_table table; /* of the lines above rows */
    uint32_t *order;         /* the lines by their parents, and then as they are printed */
};

/* ---- the lines ------------------------------------------------------------------------------ */

static const char *key_text(struct hierarchy *h, uint32_t row, unsigned level)
{
    struct report_section *s = h->section;
    const struct report *r = s->report;
    s->cell.size = 0;
    report_put_key(&s->cell, r, &r->rows.at[row], r->options->keys[level]);
    const char *at = s->cell.at ? s->cell.at : "";
    size_t blanks = 0; /* that put numbers in a column */
    while (blanks < s->cell.size && at[blanks] == ' ')
        blanks++;
    return s->cell.failed ? NULL : intern_bytes(r->strings, at + blanks, s->cell.size - blanks);
}

static bool is_line(const struct hierarchy *h, uint32_t i, uint32_t parent, const char *text)
{
    return h->lines.at[i].parent == parent && h->lines.at[i].text == text;
}

/* Returns the line below `parent` that the row belongs to. Rows of equal names, as those of two
 * static functions, stay lines of their own. 0: out of memory. */
static uint32_t line_get(struct hierarchy *h, uint32_t parent, uint32_t row, unsigned level)
{
    const bool is_row = level + 1 == h->section->report->options->nr_keys;
    const char *text = key_text(h, row, level);
    const struct line new = {.parent = parent, .level = level + 1, .text = text, .row = row};
    if (!text)
        return 0;
    if (is_row)
        return vec_push(&h->lines, new) ? (uint32_t)h->lines.nr - 1 : 0;
    uint64_t hash = hash_combine((uintptr_t)text, parent);
    uint32_t i = hash_table_intern(&h->table, hash, &h->lines, k, is_line(h, k, parent, text), new);
    return i == HASH_TABLE_NONE ? 0 : i;
}

static int add_row(struct hierarchy *h, uint32_t index)
{
    const struct report *r = h->section->report;
    const struct report_row *row = &r->rows.at[index];
    uint32_t line = 0;
    for (unsigned level = 0; level < r->options->nr_keys; level++) {
        line = line_get(h, line, index, level);
        if (!line)
            return -1;
        h->lines.at[line].weight += row->self;
        h->lines.at[line].samples += row->samples;
    }
    return 0;
}

/* Keys before the word overhead precede the weight, as in other reports. */
static int by_parent_and_weight(const void *x, const void *y, void *hierarchy)
{
    const struct hierarchy *h = hierarchy;
    const struct report *r = h->section->report;
    const struct line *a = &h->lines.at[*(const uint32_t *)x];
    const struct line *b = &h->lines.at[*(const uint32_t *)y];
    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    const struct report_row *i = &r->rows.at[a->row], *k = &r->rows.at[b->row];
    int order = 0;
    if (a->level && a->level <= r->options->nr_before)
        order = report_compare_key(r, i, k, r->options->keys[a->level - 1]);
    if (!order)
        order = (a->weight < b->weight) - (a->weight > b->weight);
    if (!order)
        order = strcmp(a->text, b->text);
    return order ? order : report_compare_rows(r, i, k);
}

static int order_lines(struct hierarchy *h)
{
    size_t nr = h->lines.nr;
    h->order = calloc(nr, sizeof(*h->order));
    if (!h->order)
        return -1;
    for (uint32_t i = 0; i < nr; i++)
        h->order[i] = i;
    if (nr > 1) /* the root stays the first */
        qsort_r(h->order + 1, nr - 1, sizeof(*h->order), by_parent_and_weight, h);
    for (uint32_t i = 1; i < nr; i++) {
        struct line *parent = &h->lines.at[h->lines.at[h->order[i]].parent];
        if (!parent->nr++)
            parent->first = i;
    }
    return 0;
}

static int find_lines(struct hierarchy *h)
{
    const struct line root = {.text = ""};
    if (!vec_push(&h->lines, root))
        return -1;
    vec_foreach (row, &h->section->rows)
        if (add_row(h, *row) < 0)
            return -1;
    return order_lines(h);
}

/* ---- printing ------------------------------------------------------------------------------- */

static size_t numbers_width(const struct report_options *o)
{
    return 8 + (o->show_samples ? GAP + 12 : 0) + (o->show_period ? GAP + 12 : 0);
}

void report_put_hierarchy_titles(const struct report_section *s, struct text *t, bool dots)
{
    const struct report_options *o = s->report->options;
    size_t keys = 0, widest = 0;
    text_string(t, "# ");
    if (!o->separator)
        text_repeat(t, dots ? '.' : ' ', (size_t)(o->nr_keys - 1) * INDENT);
    if (dots)
        text_repeat(t, '.', numbers_width(o));
    else
        report_put_number_titles(s, t, false);
    text_string(t, o->separator ? o->separator : "  ");
    for (unsigned k = 0; k < o->nr_keys; k++) {
        const char *title = report_key_title(o->keys[k]);
        title += strspn(title, " ");
        size_t width = (size_t)k * INDENT + s->widths[k];
        widest = width > widest ? width : widest;
        keys += strlen(title) + (k ? 3 : 0);
        if (!dots && k)
            text_string(t, " / ");
        if (!dots)
            text_string(t, title);
    }
    if (dots)
        text_repeat(t, '.', keys > widest ? keys : widest);
    text_char(t, '\n');
}

static void put_line(const struct hierarchy *h, const struct line *l, struct text *t)
{
    const struct report_options *o = h->section->report->options;
    const struct report_sums sums = {l->weight, l->weight, l->samples};
    text_repeat(t, ' ', (size_t)(l->level - 1) * INDENT);
    report_put_numbers(h->section, &sums, t);
    if (!o->separator)
        text_repeat(t, ' ', (size_t)(o->nr_keys - 1) * INDENT);
    text_string(t, o->separator ? o->separator : "  ");
    text_string(t, l->text);
    text_char(t, '\n');
}

static bool is_small(const struct hierarchy *h, const struct line *l)
{
    const struct report_section *s = h->section;
    return report_percent(s, l->weight) < s->report->options->percent_limit;
}

/* perf says so where all that is below a line is too small. */
static void put_none(const struct hierarchy *h, const struct line *l, struct text *t)
{
    const struct report_options *o = h->section->report->options;
    if (!o->separator)
        text_repeat(t, ' ', (o->nr_keys + l->level - 1) * INDENT + numbers_width(o) + 4);
    text_printf(t, "no entry >= %.2f%%\n", o->percent_limit);
}

/* Print what is below a line. There are as many levels as keys. */
static int put_below(const struct hierarchy *h, const struct line *of, struct tree_printer *trees,
                     struct text *t, struct error *err)
{
    const struct report_section *s = h->section;
    bool any = false;
    for (uint32_t i = of->first; i < of->first + of->nr; i++) {
        const struct line *l = &h->lines.at[h->order[i]];
        if (is_small(h, l))
            continue;
        any = true;
        put_line(h, l, t);
        bool is_row = l->level == s->report->options->nr_keys;
        if ((is_row ? tree_printer_put(trees, s, l->row, t, err) : put_below(h, l, trees, t, err)) <
            0)
            return -1;
    }
    if (!any && of->level)
        put_none(h, of, t);
    return t->failed ? error_no_memory(err) : 0;
}

int report_put_hierarchy(struct report_section *s, struct text *t, struct error *err)
{
    struct hierarchy h = {.section = s};
    struct tree_printer trees;
    if (tree_printer_init(&trees, s, err) < 0)
        return -1;
    int failed =
        find_lines(&h) < 0 ? error_no_memory(err) : put_below(&h, &h.lines.at[0], &trees, t, err);
    tree_printer_deinit(&trees);
    vec_free(&h.lines);
    hash_table_free(&h.table);
    free(h.order);
    return failed;
}
