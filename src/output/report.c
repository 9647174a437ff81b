/* SPDX-License-Identifier: GPL-2.0-only */
/* The report's page. Each event has a head, columns of sorted rows, and the rows' call trees. */
#include "base/sort.h"
#include "base/threads.h"
#include "output/output.h"
#include "output/report_internal.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- which rows, in which order ------------------------------------------------------------ */

uint64_t report_row_weight(const struct report *r, const struct report_row *row)
{
    return r->options->children ? row->children : row->self;
}

/* Sorts by the keys that come before the weight, then heaviest first. With children, of equal rows
 * the outer function comes first. */
static int by_weight(const void *a, const void *b, void *context)
{
    const struct report *r = context;
    const struct report_row *x = &r->rows.at[*(const uint32_t *)a];
    const struct report_row *y = &r->rows.at[*(const uint32_t *)b];
    for (unsigned i = 0; i < r->options->nr_before; i++) {
        int order = report_compare_key(r, x, y, r->options->keys[i]);
        if (order)
            return order;
    }
    if (report_row_weight(r, x) != report_row_weight(r, y))
        return report_row_weight(r, x) < report_row_weight(r, y) ? 1 : -1;
    if (r->options->children && x->height != y->height)
        return (x->height < y->height) == r->options->callers_first ? 1 : -1;
    if (x->self != y->self)
        return x->self < y->self ? 1 : -1;
    return report_compare_rows(r, x, y);
}

/* ---- one event's section ------------------------------------------------------------------- */

static bool row_passes(const struct report *r, const struct report_row *row)
{
    size_t function = row->function == FUNCTION_NONE ? r->nr_functions : row->function;
    return report_row_group(r, row)->passes && r->function_passes[function];
}

double report_percent(const struct report_section *s, uint64_t weight)
{
    return s->total ? 100.0 * (double)weight / (double)s->total : 0;
}

/* Drop rows that are too small to print. */
static void drop_small(struct report_section *s)
{
    const struct report *r = s->report;
    size_t kept = 0;
    vec_foreach (i, &s->rows)
        if (report_percent(s, report_row_weight(r, &r->rows.at[*i])) >= r->options->percent_limit)
            s->rows.at[kept++] = *i;
    s->rows.nr = kept;
}

/* Sort the rows: first by weight alone, which is fast, then rows of equal weight by everything
 * else. */
static bool sort_rows(struct report_section *s)
{
    struct report *r = s->report;
    size_t nr = s->rows.nr;
    struct sort_key *keys = malloc((nr + 1) * sizeof(*keys));
    if (!keys)
        return false;
    for (size_t i = 0; i < nr; i++) {
        uint64_t weight = report_row_weight(r, &r->rows.at[s->rows.at[i]]);
        keys[i] =
            (struct sort_key){.key = r->options->nr_before ? 0 : ~weight, .index = s->rows.at[i]};
    }
    bool good = sort_keys(keys, nr);
    for (size_t i = 0; good && i < nr; i++)
        s->rows.at[i] = keys[i].index;
    for (size_t i = 0, end; good && i < nr; i = end) {
        for (end = i + 1; end < nr && keys[end].key == keys[i].key;)
            end++;
        if (end - i > 1)
            qsort_r(s->rows.at + i, end - i, sizeof(*s->rows.at), by_weight, r);
    }
    free(keys);
    return good;
}

static int choose_rows(struct report_section *s, struct error *err)
{
    struct report *r = s->report;
    uint64_t passed = 0, passed_samples = 0;
    for (uint32_t i = 0; i < r->rows.nr; i++) {
        const struct report_row *row = &r->rows.at[i];
        if (report_row_event(r, row) != s->index)
            continue;
        s->samples += row->samples;
        s->period += row->self;
        if (!row_passes(r, row))
            continue;
        passed += row->self;
        passed_samples += row->samples;
        if (report_row_weight(r, row) && !vec_push(&s->rows, i))
            return error_no_memory(err);
    }
    s->total = r->options->relative ? passed : s->period;
    s->trees_total = s->trees == r ? s->total : r->options->relative ? passed_samples : s->samples;
    if (r->options->hierarchy)
        return 0; /* rows count for what is above them, and are ordered there */
    drop_small(s);
    return sort_rows(s) ? 0 : error_no_memory(err);
}

static unsigned last_key(const struct report_options *o)
{
    return o->nr_keys ? o->nr_keys - 1 : 0;
}

void report_put_count(struct text *t, uint64_t count)
{
    const char *units = " KMG";
    unsigned unit = 0;
    for (; count > 1000 && unit < 3; unit++)
        count /= 1000;
    text_printf(t, "%" PRIu64 "%c", count, units[unit]);
}

struct report_doubt report_doubts(const struct report_section *s)
{
    const struct report *r = s->report;
    struct report_doubt sum = {0};
    for (size_t i = 0; i < r->groups.nr; i++) {
        if (r->groups.at[i].of.event != s->index)
            continue;
        sum.joined += r->doubts[i].joined;
        sum.guessed += r->doubts[i].guessed;
    }
    return sum;
}

/* Say how many stacks are joined or guessed, since their numbers rest on more than was seen. */
static void put_doubts(const struct report_section *s, struct text *t)
{
    struct report_doubt sum = report_doubts(s);
    if (sum.joined)
        text_printf(t,
                    "# Stacks joined, or with frames read at another moment: %" PRIu64
                    " of %" PRIu64 "\n",
                    sum.joined, s->samples);
    if (sum.guessed)
        text_printf(t, "# Stacks with guessed frames: %" PRIu64 " of %" PRIu64 "\n", sum.guessed,
                    s->samples);
}

void report_put_sum(const struct report_section *s, struct text *t)
{
    const struct report_options *o = s->report->options;
    if (!o->weight) {
        text_printf(t, "Event count (approx.): %" PRIu64, s->period);
        return;
    }
    text_string(t, "Weight: ");
    text_symbol(t, o->weight);
    text_string(t, ", ");
    text_amount(t, s->period, o->weight_unit);
    if (o->weight_unit != UNIT_COUNT)
        text_printf(t, " (%" PRIu64 ")", s->period);
}

static void put_head(const struct report_section *s, struct text *t)
{
    const struct report_options *o = s->report->options;
    if (o->bare)
        return;
    text_string(t, "# Samples: ");
    report_put_count(t, s->samples);
    text_string(t, " of event '");
    text_symbol(t, s->event->name);
    text_string(t, "'\n# ");
    report_put_sum(s, t);
    text_char(t, '\n');
    put_doubts(s, t);
    text_string(t, "#\n");
    void (*put_titles)(const struct report_section *, struct text *, bool) =
        o->hierarchy ? report_put_hierarchy_titles : report_put_titles;
    put_titles(s, t, false);
    if (!o->separator) {
        put_titles(s, t, true);
        text_string(t, "#\n");
    }
}

int report_section_init(struct report_section *s, struct report *r, const struct report *trees,
                        uint16_t event, const struct report_event *about, struct error *err)
{
    *s = (struct report_section){.report = r, .trees = trees, .event = about, .index = event};
    if (choose_rows(s, err) < 0) {
        report_section_deinit(s);
        return -1;
    }
    report_measure(s);
    return 0;
}

void report_section_deinit(struct report_section *s)
{
    vec_free(&s->rows);
    text_free(&s->cell);
}

/* ---- rows ---------------------------------------------------------------------------------- */

/* Rows are printed in blocks, which all threads take one by one, since the first rows have the
 * largest trees. */
enum { BLOCK_ROWS = 16 };
struct rows_page {
    const struct report_section *section;
    struct text *blocks; /* text of BLOCK_ROWS rows each */
    size_t nr_blocks;
    _Atomic size_t next;
};

struct rows_worker {
    struct rows_page *page;
    struct error error;
    unsigned last_width; /* of the last column, in this worker's blocks */
    bool failed;
};

int tree_printer_init(struct tree_printer *p, const struct report_section *s, struct error *err)
{
    enum report_graph graph = s->report->options->graph;
    *p = (struct tree_printer){.none = graph == GRAPH_NONE || !s->event->callchain};
    if (p->none)
        return 0;
    if (graph == GRAPH_FLAT || graph == GRAPH_FOLDED)
        p->stacks = stack_lists_create(s->trees);
    else
        p->chains = chains_create(s->trees);
    return p->stacks || p->chains ? 0 : error_no_memory(err);
}

void tree_printer_deinit(struct tree_printer *p)
{
    chains_free(p->chains);
    stack_lists_free(p->stacks);
}

int tree_printer_put(struct tree_printer *p, const struct report_section *s, uint32_t row,
                     struct text *t, struct error *err)
{
    if (p->none)
        return 0;
    return p->chains ? chains_print(p->chains, row, s->trees_total, t, err)
                     : stack_lists_print(p->stacks, row, s->trees_total, t, err);
}

static int put_block(struct report_section *s, struct tree_printer *trees, size_t block,
                     struct text *t, struct error *err)
{
    size_t end = (block + 1) * BLOCK_ROWS < s->rows.nr ? (block + 1) * BLOCK_ROWS : s->rows.nr;
    for (size_t i = block * BLOCK_ROWS; i < end; i++) {
        report_fetch_ahead(s, i);
        report_put_row(s, s->rows.at[i], t);
        text_char(t, '\n');
        if (tree_printer_put(trees, s, s->rows.at[i], t, err) < 0)
            return -1;
    }
    return t->failed || s->cell.failed ? error_no_memory(err) : 0;
}

static void rows_main(void *worker, struct processor *p)
{
    (void)p; /* the rows take some ms */
    struct rows_worker *w = worker;
    struct rows_page *page = w->page;
    struct report_section own = *page->section; /* a copy, except for the cell */
    struct tree_printer trees;
    size_t block;
    own.cell = (struct text){0};
    w->failed = tree_printer_init(&trees, &own, &w->error) < 0;
    while (!w->failed && (block = atomic_fetch_add(&page->next, 1)) < page->nr_blocks)
        w->failed = put_block(&own, &trees, block, &page->blocks[block], &w->error) < 0;
    w->last_width = own.widths[last_key(own.report->options)];
    tree_printer_deinit(&trees);
    text_free(&own.cell);
}

/* Print all blocks, and get the width of the last column. */
static int print_page(struct rows_page *page, unsigned threads, unsigned *width, struct error *err)
{
    struct rows_worker workers[WORKERS_MAX] = {0};
    for (unsigned i = 0; i < threads; i++)
        workers[i].page = page;
    threads_run(rows_main, workers, sizeof(*workers), threads);
    for (unsigned i = 0; i < threads; i++) {
        *width = workers[i].last_width > *width ? workers[i].last_width : *width;
        if (workers[i].failed) {
            *err = workers[i].error;
            return -1;
        }
    }
    return 0;
}

/* The head is above the rows, but is made after them: its line of dots is as wide as they are. */
static int put_page(struct report_section *s, struct text *t, struct error *err)
{
    struct rows_page page = {.section = s, .nr_blocks = (s->rows.nr + BLOCK_ROWS - 1) / BLOCK_ROWS};
    unsigned threads = s->report->options->threads;
    threads = threads > page.nr_blocks ? (unsigned)page.nr_blocks : threads;
    page.blocks = calloc(page.nr_blocks + 1, sizeof(*page.blocks));
    if (!page.blocks)
        return error_no_memory(err);
    threads = threads < WORKERS_MAX ? threads : WORKERS_MAX;
    int failed =
        print_page(&page, threads ? threads : 1, &s->widths[last_key(s->report->options)], err);
    put_head(s, t);
    size_t size = 0;
    for (size_t i = 0; i < page.nr_blocks; i++)
        size += page.blocks[i].size;
    text_room(t, size);
    for (size_t i = 0; i < page.nr_blocks; i++) {
        text_bytes(t, page.blocks[i].at, page.blocks[i].size);
        text_free(&page.blocks[i]);
    }
    free(page.blocks);
    return failed;
}

static int put_section(struct report_section *s, struct text *t, struct error *err)
{
    if (!s->samples)
        return 0;
    if (s->report->options->hierarchy)
        put_head(s, t);
    if ((s->report->options->hierarchy ? report_put_hierarchy(s, t, err) : put_page(s, t, err)) < 0)
        return -1;
    text_string(t, s->report->options->bare ? "" : "\n\n");
    return s->cell.failed ? error_no_memory(err) : 0;
}

/* ---- the whole report ---------------------------------------------------------------------- */

static void put_preamble(const struct report_options *o, uint64_t lost, struct text *t)
{
    if (o->bare)
        return;
    text_string(t, "# To display the perf.data header info, please use --header/--header-only "
                   "options.\n#\n");
    text_printf(t, "#\n# Total Lost Samples: %" PRIu64 "\n#\n", lost);
}

static int put_sections(struct report *r, const struct report *trees,
                        const struct report_event *events, size_t nr_events, struct text *out,
                        struct error *err)
{
    int failed = 0;
    for (size_t i = 0; i < nr_events && !failed; i++) {
        struct report_section s;
        if (report_section_init(&s, r, trees, (uint16_t)i, &events[i], err) < 0)
            return -1;
        failed = put_section(&s, out, err);
        report_section_deinit(&s);
    }
    return failed;
}

int report_print(const struct stacks *stacks, const struct report_options *options,
                 const struct report_event *events, size_t nr_events, uint64_t lost,
                 struct text *out, struct error *err)
{
    struct report_options of_samples = *options;
    struct report *r, *trees = NULL;
    of_samples.by_samples = true;
    if (report_create(stacks, options, &r, err) < 0)
        return -1;
    int failed = 0;
    if (options->graph_value == VALUE_COUNT)
        failed = report_create(stacks, &of_samples, &trees, err);
    put_preamble(options, lost, out);
    if (!failed)
        failed = put_sections(r, trees ? trees : r, events, nr_events, out, err);
    report_free(trees);
    report_free(r);
    return failed ? -1 : out->failed ? error_no_memory(err) : 0;
}
