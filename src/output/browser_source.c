/* SPDX-License-Identifier: GPL-2.0-only */
/* Prints a function's lines with their weights. It makes a report by source line of one function,
 * and puts it beside the text of the function's files. */
#include "base/other_file.h"
#include "output/browser_internal.h"
#include "output/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    AROUND = 3,       /* lines without weight shown before and after lines with weight */
    LINE_BYTES = 400, /* at most this many bytes of a line are shown */
};

struct source_writer {
    struct report_section section;
    const char *symfs;
    struct text *out;
};

static const struct report_row *row_at(const struct source_writer *w, size_t i)
{
    return &w->section.report->rows.at[w->section.rows.at[i]];
}

static const struct function *place_at(const struct source_writer *w, size_t i)
{
    return report_row_function(w->section.report, row_at(w, i));
}

/* Sorts by file and line; rows without a place come first. */
static int by_place(const void *a, const void *b, void *context)
{
    const struct report *r = context;
    const struct function *f = report_row_function(r, &r->rows.at[*(const uint32_t *)a]);
    const struct function *g = report_row_function(r, &r->rows.at[*(const uint32_t *)b]);
    int order = strcmp(f->file ? f->file : "", g->file ? g->file : "");
    return order ? order : (f->line > g->line) - (f->line < g->line);
}

/* The recording's path may name anything by now, so only a regular file is read. */
static FILE *open_source(const char *symfs, const char *path)
{
    struct text name = {0};
    text_printf(&name, "%s%s%s", symfs ? symfs : "", symfs && *path != '/' ? "/" : "", path);
    text_char(&name, 0);
    int fd = name.failed ? -1 : other_file_open(name.at);
    text_free(&name);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

static void put_weights(const struct source_writer *w, const struct report_row *row, uint32_t line,
                        struct text *t)
{
    if (row)
        text_printf(t, "%7.2f%%  %7.2f%%", report_percent(&w->section, row->self),
                    report_percent(&w->section, row->children));
    else
        text_string(t, "                  ");
    text_printf(t, " %6" PRIu32 "  ", line);
}

/* Append a line of a file. Tabs become blanks, and characters that are not text are escaped. */
static void put_source_line(struct text *t, char *line, size_t size)
{
    size_t column = 0;
    while (size && (line[size - 1] == '\n' || line[size - 1] == '\r'))
        size--;
    size = size < LINE_BYTES ? size : LINE_BYTES;
    line[size] = 0;
    for (char *at = line; at;) {
        char *tab = strchr(at, '\t');
        if (tab)
            *tab = 0;
        text_clean(t, at);
        column += strlen(at);
        at = tab ? tab + 1 : NULL;
        for (size_t i = column % 8; tab && i < 8; i++, column++)
            text_char(t, ' ');
    }
}

/* Append rows [first, end) of one file without the source text. */
static void put_numbers(const struct source_writer *w, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        put_weights(w, row_at(w, i), place_at(w, i)->line, w->out);
        text_char(w->out, '\n');
    }
}

/* Whether line `number` is near a line with weight: row `i`, which is the next one, or the row
 * before. */
static bool is_near(const struct source_writer *w, size_t first, size_t i, size_t end,
                    uint32_t number)
{
    return (i < end && place_at(w, i)->line <= (uint64_t)number + AROUND) ||
           (i > first && (uint64_t)place_at(w, i - 1)->line + AROUND >= number);
}

/* Append rows [first, end) with the source text and the lines around them. */
static void put_text(const struct source_writer *w, size_t first, size_t end, FILE *file)
{
    char *line = NULL;
    size_t cap = 0, i = first;
    ssize_t size;
    bool gap = false;
    while (i < end && !place_at(w, i)->line)
        i++;
    put_numbers(w, first, i);
    first = i;
    for (uint32_t number = 1; (size = getline(&line, &cap, file)) >= 0; number++) {
        bool weighs = i < end && place_at(w, i)->line == number;
        if (!is_near(w, first, i, end, number)) {
            gap = i > first;
            if (i == end)
                break;
            continue;
        }
        if (gap)
            text_string(w->out, "                        ...\n");
        gap = false;
        put_weights(w, weighs ? row_at(w, i) : NULL, number, w->out);
        put_source_line(w->out, line, (size_t)size);
        text_char(w->out, '\n');
        i += weighs;
    }
    free(line);
    put_numbers(w, i, end); /* the file has become shorter */
}

static void put_file(const struct source_writer *w, size_t first, size_t end)
{
    const char *path = place_at(w, first)->file;
    if (!path) {
        text_string(w->out, "\nno line is known\n");
        put_numbers(w, first, end);
        return;
    }
    text_char(w->out, '\n');
    text_clean(w->out, path);
    FILE *file = open_source(w->symfs, path);
    text_string(w->out, file ? "\n" : " (cannot be read: only numbers)\n");
    if (!file) {
        put_numbers(w, first, end);
        return;
    }
    put_text(w, first, end, file);
    fclose(file);
}

static void put_files(const struct source_writer *w)
{
    size_t nr = w->section.rows.nr;
    text_string(w->out, "    Self  Children    Line\n");
    for (size_t first = 0, end; first < nr; first = end) {
        const char *file = place_at(w, first)->file;
        for (end = first + 1; end < nr && place_at(w, end)->file == file;)
            end++;
        put_file(w, first, end);
    }
}

/* Returns the options for a report by line of one function. */
static struct report_options line_options(const struct browser *b, const char **symbol,
                                          const char **module)
{
    struct report_options o = b->options;
    o.keys[0] = KEY_SRCLINE;
    o.nr_keys = 1;
    o.nr_before = 0;
    o.children = true;
    o.graph = GRAPH_NONE;
    o.percent_limit = 0;
    o.parent = NULL;
    o.exclude_other = o.relative = false;
    o.symbol_filter = NULL;
    o.symbols.at = symbol;
    o.symbols.nr = 1;
    o.dsos.at = module;
    o.dsos.nr = *module ? 1 : 0;
    return o;
}

int browser_put_source(const struct browser *b, const char *symfs, struct text *t,
                       struct error *err)
{
    const struct function *f = browser_function(b);
    const char *symbol = f ? f->symbol : NULL;
    const char *module = f ? f->module : NULL;
    if (!symbol)
        return error_set(err, ERROR_NOT_FOUND, "this line has no function");
    struct report_options o = line_options(b, &symbol, &module);
    struct source_writer w = {.symfs = symfs, .out = t};
    struct report *r;
    if (report_create(b->data.stacks, &o, &r, err) < 0)
        return -1;
    int failed = report_section_init(&w.section, r, r, b->event, &b->data.events[b->event], err);
    if (!failed) {
        if (w.section.rows.nr)
            qsort_r(w.section.rows.at, w.section.rows.nr, sizeof(*w.section.rows.at), by_place, r);
        put_files(&w);
        report_section_deinit(&w.section);
    }
    report_free(r);
    return failed ? -1 : t->failed ? error_no_memory(err) : 0;
}
