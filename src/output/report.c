/* SPDX-License-Identifier: GPL-2.0-only */
/* The report's page: per event a head, columns of rows in order, and their call trees. */
#include "output/output.h"
#include "output/report_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *other, *title;
} keys[KEY_NR] = {
    [KEY_COMM] = {"comm", NULL, "Command"},
    [KEY_DSO] = {"dso", NULL, "Shared Object"},
    [KEY_SYM] = {"sym", "symbol", "Symbol"},
    [KEY_THREAD] = {"pid", "tid", "    Pid:Command"},
    [KEY_PROCESS] = {"tgid", NULL, "   Tgid:Command"},
    [KEY_CPU] = {"cpu", NULL, "CPU"},
    [KEY_SRCLINE] = {"srcline", NULL, "Source:Line"},
    [KEY_SRCFILE] = {"srcfile", "file", "Source File"},
};

int report_key(const char *name)
{
    for (int i = 0; i < KEY_NR; i++)
        if (strcmp(name, keys[i].name) == 0 || (keys[i].other && strcmp(name, keys[i].other) == 0))
            return i;
    return -1;
}

const char *report_key_names(void)
{
    return "comm,dso,sym,pid,tgid,cpu,srcline,srcfile";
}

struct stacks_options report_needs(const struct report_options *o)
{
    return (struct stacks_options){
        .by_pid = report_has_key(o, KEY_PROCESS),
        .by_tid = report_has_key(o, KEY_THREAD),
        .by_cpu = report_has_key(o, KEY_CPU),
        .by_line = report_has_key(o, KEY_SRCLINE) || report_has_key(o, KEY_SRCFILE),
        .by_address = true,
        .by_start = true,
    };
}

/* ---- one row's keys ------------------------------------------------------------------------ */

static const struct function *row_function(const struct report *r, const struct report_row *row)
{
    return row->function == FUNCTION_NONE ? NULL : &r->stacks->functions.at[row->function];
}

static const struct stack_group *row_group(const struct report *r, const struct report_row *row)
{
    return &r->stacks->groups.at[row->group];
}

static void put_position(struct text *t, const struct function *f, bool line)
{
    if (f && f->file) {
        text_symbol(t, report_base_name(f->file));
        if (line)
            text_printf(t, ":%" PRIu32, f->line);
    } else if (line && f && f->symbol) {
        text_symbol(t, f->symbol);
    } else if (line && f && f->module) {
        text_symbol(t, report_base_name(f->module));
        text_printf(t, "[%" PRIx64 "]", f->address);
    } else {
        text_string(t, "??");
    }
}

static void put_key(struct text *t, const struct report *r, const struct report_row *row,
                    enum report_key key)
{
    const struct function *f = row_function(r, row);
    const struct stack_group *g = row_group(r, row);
    switch (key) {
    case KEY_COMM:
        text_symbol(t, g->comm);
        break;
    case KEY_DSO:
        text_symbol(t, f && f->module ? report_module(f) : "[unknown]");
        break;
    case KEY_SYM:
        report_put_function(t, f, true);
        break;
    case KEY_THREAD:
    case KEY_PROCESS:
        text_printf(t, "%7" PRIu32 ":", key == KEY_THREAD ? g->tid : g->pid);
        text_symbol(t, g->comm);
        break;
    case KEY_CPU:
        text_printf(t, "%03" PRIu32, g->cpu);
        break;
    case KEY_SRCLINE:
    case KEY_SRCFILE:
        put_position(t, f, key == KEY_SRCLINE);
        break;
    case KEY_NR:
        break;
    }
}

/* ---- which rows, in which order ------------------------------------------------------------ */

static bool listed(const name_list *names, const char *name)
{
    if (!names->nr)
        return true;
    vec_foreach (n, names)
        if (name && strcmp(*n, name) == 0)
            return true;
    return false;
}

static bool row_passes(const struct report *r, const struct report_row *row)
{
    const struct report_options *o = r->options;
    const struct function *f = row_function(r, row);
    const char *module = f && f->module ? f->module : "[unknown]";
    return listed(&o->comms, row_group(r, row)->comm) &&
           (listed(&o->dsos, module) || (f && f->module && listed(&o->dsos, report_module(f)))) &&
           listed(&o->symbols, f ? f->symbol : NULL);
}

static uint64_t row_weight(const struct report *r, const struct report_row *row)
{
    return r->options->children ? row->children : row->self;
}

static int compare_keys(const struct report *r, const struct report_row *a,
                        const struct report_row *b)
{
    const struct function *f = row_function(r, a);
    const struct function *g = row_function(r, b);
    const struct stack_group *x = row_group(r, a);
    const struct stack_group *y = row_group(r, b);
    int order = f && g ? report_compare_functions(f, g) : (f != NULL) - (g != NULL);
    order = order ? order : strcmp(x->comm, y->comm);
    order = order ? order : (x->pid > y->pid) - (x->pid < y->pid);
    order = order ? order : (x->tid > y->tid) - (x->tid < y->tid);
    return order ? order : (x->cpu > y->cpu) - (x->cpu < y->cpu);
}

/* Heaviest first; with children, of equals the outer function first. */
static int by_weight(const void *a, const void *b, void *context)
{
    const struct report *r = context;
    const struct report_row *x = &r->rows.at[*(const uint32_t *)a];
    const struct report_row *y = &r->rows.at[*(const uint32_t *)b];
    if (row_weight(r, x) != row_weight(r, y))
        return row_weight(r, x) < row_weight(r, y) ? 1 : -1;
    if (r->options->children && x->height != y->height)
        return (x->height < y->height) == r->options->callers_first ? 1 : -1;
    if (x->self != y->self)
        return x->self < y->self ? 1 : -1;
    return compare_keys(r, x, y);
}

/* ---- one event's section ------------------------------------------------------------------- */

struct section {
    struct report *report;
    struct chains *chains;
    const struct report_event *event;
    VEC(uint32_t) rows; /* to print, in order */
    uint64_t samples, period;
    uint64_t total; /* 100 % */
    unsigned widths[KEY_NR];
    struct text cell;
};

static double percent(const struct section *s, uint64_t weight)
{
    return s->total ? 100.0 * (double)weight / (double)s->total : 0;
}

static int choose_rows(struct section *s, uint16_t event, struct error *err)
{
    struct report *r = s->report;
    uint64_t passed = 0;
    for (uint32_t i = 0; i < r->rows.nr; i++) {
        const struct report_row *row = &r->rows.at[i];
        if (report_row_event(r, row) != event)
            continue;
        s->samples += row->samples;
        s->period += row->self;
        if (!row_passes(r, row))
            continue;
        passed += row->self;
        if (row_weight(r, row) && !vec_push(&s->rows, i))
            return error_no_memory(err);
    }
    s->total = r->options->relative ? passed : s->period;
    if (s->rows.nr)
        qsort_r(s->rows.at, s->rows.nr, sizeof(*s->rows.at), by_weight, r);
    while (s->rows.nr && percent(s, row_weight(r, &r->rows.at[s->rows.at[s->rows.nr - 1]])) <
                             r->options->percent_limit)
        s->rows.nr--;
    return 0;
}

static void measure(struct section *s)
{
    const struct report_options *o = s->report->options;
    for (unsigned k = 0; k < o->nr_keys; k++) {
        size_t width = strlen(keys[o->keys[k]].title);
        vec_foreach (i, &s->rows) {
            s->cell.size = 0;
            put_key(&s->cell, s->report, &s->report->rows.at[*i], o->keys[k]);
            width = s->cell.size > width ? s->cell.size : width;
        }
        s->widths[k] = (unsigned)width;
    }
}

static void pad(struct text *t, size_t from, size_t to, char with)
{
    for (; from < to; from++)
        text_char(t, with);
}

/* "14K": perf rounds counts down to a thousandth. */
static void put_count(struct text *t, uint64_t count)
{
    const char *units = " KMG";
    unsigned unit = 0;
    for (; count > 10000 && unit < 3; unit++)
        count /= 1000;
    text_printf(t, "%" PRIu64 "%c", count, units[unit]);
}

/* A line under the title: names of the columns, or dots. */
static void put_titles(const struct section *s, struct text *t, bool dots)
{
    const struct report_options *o = s->report->options;
    const char *gap = o->separator ? o->separator : "  ";
    const char *names[4] = {o->children ? "Children" : "Overhead", o->children ? "Self" : NULL,
                            o->show_samples ? "Samples" : NULL, o->show_period ? "Period" : NULL};
    text_string(t, "# ");
    for (unsigned i = 0; i < 4; i++) {
        size_t width = i < 2 ? 8 : 12;
        if (!names[i])
            continue;
        if (i)
            text_string(t, gap);
        if (!o->separator)
            pad(t, dots ? 0 : strlen(names[i]), width, dots ? '.' : ' ');
        text_string(t, dots ? "" : names[i]);
    }
    for (unsigned k = 0; k < o->nr_keys; k++) {
        const char *title = keys[o->keys[k]].title;
        text_string(t, gap);
        text_string(t, dots ? "" : o->separator ? title + strspn(title, " ") : title);
        if (!o->separator && (dots || k + 1 < o->nr_keys))
            pad(t, dots ? 0 : strlen(title), s->widths[k], dots ? '.' : ' ');
    }
    text_char(t, '\n');
}

/* Numbers that rest on more than was seen say so. */
static void put_doubts(const struct section *s, uint16_t event, struct text *t)
{
    const struct report *r = s->report;
    struct report_doubt sum = {0};
    for (size_t i = 0; i < r->nr_groups; i++) {
        if (r->stacks->groups.at[i].event != event)
            continue;
        sum.joined += r->doubts[i].joined;
        sum.guessed += r->doubts[i].guessed;
    }
    if (sum.joined)
        text_printf(t,
                    "# Stacks joined, or with frames read at another moment: %" PRIu64
                    " of %" PRIu64 "\n",
                    sum.joined, s->samples);
    if (sum.guessed)
        text_printf(t, "# Stacks with guessed frames: %" PRIu64 " of %" PRIu64 "\n", sum.guessed,
                    s->samples);
}

static void put_head(const struct section *s, uint16_t event, struct text *t)
{
    const struct report_options *o = s->report->options;
    if (o->bare)
        return;
    text_string(t, "# Samples: ");
    put_count(t, s->samples);
    text_string(t, " of event '");
    text_symbol(t, s->event->name);
    text_printf(t, "'\n# Event count (approx.): %" PRIu64 "\n", s->period);
    put_doubts(s, event, t);
    text_string(t, "#\n");
    put_titles(s, t, false);
    if (!o->separator) {
        put_titles(s, t, true);
        text_string(t, "#\n");
    }
}

static void put_overhead(const struct section *s, const struct report_row *row, struct text *t)
{
    const struct report_options *o = s->report->options;
    const char *gap = o->separator ? o->separator : "  ";
    const char *share = o->separator ? "%.2f%%" : "%7.2f%%";
    const char *count = o->separator ? "%" PRIu64 : "%12" PRIu64;
    text_string(t, o->separator ? "" : "  ");
    text_printf(t, share, percent(s, row_weight(s->report, row)));
    if (o->children) {
        text_string(t, gap);
        text_printf(t, share, percent(s, row->self));
    }
    if (o->show_samples) {
        text_string(t, gap);
        text_printf(t, count, row->samples);
    }
    if (o->show_period) {
        text_string(t, gap);
        text_printf(t, count, row->self);
    }
}

/* A key's text; the separator inside it would be taken for the end of the column. */
static void put_cell(struct section *s, const struct report_row *row, unsigned k, struct text *t)
{
    const struct report_options *o = s->report->options;
    s->cell.size = 0;
    put_key(&s->cell, s->report, row, o->keys[k]);
    for (size_t i = 0; o->separator && i < s->cell.size; i++)
        if (s->cell.at[i] == *o->separator)
            s->cell.at[i] = '.';
    text_bytes(t, s->cell.at, s->cell.size);
    if (!o->separator && k + 1 < o->nr_keys)
        pad(t, s->cell.size, s->widths[k], ' ');
}

static int put_row(struct section *s, uint32_t index, struct text *t, struct error *err)
{
    const struct report_options *o = s->report->options;
    const struct report_row *row = &s->report->rows.at[index];
    put_overhead(s, row, t);
    for (unsigned k = 0; k < o->nr_keys; k++) {
        text_string(t, o->separator ? o->separator : "  ");
        put_cell(s, row, k, t);
    }
    text_char(t, '\n');
    if (o->graph == GRAPH_NONE || !s->event->callchain)
        return 0;
    return chains_print(s->chains, index, s->total, t, err);
}

static int put_section(struct section *s, uint16_t event, struct text *t, struct error *err)
{
    if (choose_rows(s, event, err) < 0)
        return -1;
    if (!s->samples)
        return 0;
    measure(s);
    put_head(s, event, t);
    vec_foreach (i, &s->rows) {
        if (put_row(s, *i, t, err) < 0)
            return -1;
    }
    text_string(t, s->report->options->bare ? "" : "\n\n");
    return s->cell.failed ? error_no_memory(err) : 0;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void put_preamble(const struct report_options *o, uint64_t lost, struct text *t)
{
    if (o->bare)
        return;
    text_string(t, "# To display the perf.data header info, please use --header/--header-only "
                   "options.\n#\n");
    text_printf(t, "#\n# Total Lost Samples: %" PRIu64 "\n#\n", lost);
}

int report_print(const struct stacks *stacks, const struct report_options *options,
                 const struct report_event *events, size_t nr_events, uint64_t lost,
                 struct text *out, struct error *err)
{
    struct report *r;
    if (report_create(stacks, options, &r, err) < 0)
        return -1;
    struct chains *chains = chains_create(r);
    int failed = chains ? 0 : error_no_memory(err);
    put_preamble(options, lost, out);
    for (size_t i = 0; i < nr_events && !failed; i++) {
        struct section s = {.report = r, .chains = chains, .event = &events[i]};
        failed = put_section(&s, (uint16_t)i, out, err);
        vec_free(&s.rows);
        text_free(&s.cell);
    }
    chains_free(chains);
    report_free(r);
    return failed ? -1 : out->failed ? error_no_memory(err) : 0;
}
