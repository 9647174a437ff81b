/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The browser's model. Entries (rows, and functions in their trees) are made when they are first
 * opened, and then stay. Lines are the visible entries; all lines are made again when the visible
 * entries change.
 */
#include "output/browser_internal.h"
#include "base/hash.h"
#include "output/output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEVELS_MAX = 100, /* levels of branching, as in the report's text */
    RUN_MAX = 1000,
    ENTRIES_MAX = 200000, /* limit for entries that one key opens */
};

struct browser *browser_create(const struct report_options *options)
{
    struct browser *b = calloc(1, sizeof(*b));
    if (!b)
        return NULL;
    b->base = b->options = *options;
    return b;
}

static void forget_lines(struct browser *b)
{
    b->entries.nr = b->lines.nr = 0;
    b->at = b->top = 0;
    free(b->row_entry);
    b->row_entry = NULL;
}

static void forget_report(struct browser *b)
{
    forget_lines(b);
    if (b->has_section)
        report_section_deinit(&b->section);
    b->has_section = false;
    chains_free(b->chains);
    report_free(b->report);
    b->chains = NULL;
    b->report = NULL;
}

void browser_free(struct browser *b)
{
    if (!b)
        return;
    forget_report(b);
    vec_free(&b->entries);
    vec_free(&b->lines);
    vec_free(&b->remembered.expanded);
    for (size_t i = 0; i < b->nr_filters; i++)
        free(b->filters[i].text);
    free(b);
}

/* ---- which lines there are ------------------------------------------------------------------ */

static bool has_trees(const struct browser *b)
{
    return b->options.graph != GRAPH_NONE && b->section.event->callchain;
}

/* Returns the row's entry; a new entry is added. NULL: memory is out. */
static struct browser_entry *row_entry(struct browser *b, uint32_t row)
{
    if (!b->row_entry[row]) {
        struct browser_entry e = {.row = row, .up = (uint32_t)b->entries.nr, .more = has_trees(b)};
        if (!vec_push(&b->entries, e))
            return NULL;
        b->row_entry[row] = (uint32_t)b->entries.nr;
    }
    return &b->entries.at[b->row_entry[row] - 1];
}

/* Append an entry's line and the lines below it. LEVELS_MAX limits the recursion. */
static bool push_lines(struct browser *b, uint32_t entry)
{
    const struct browser_entry *e = &b->entries.at[entry];
    if (!vec_push(&b->lines, entry))
        return false;
    for (uint32_t i = 0; e->expanded && i < e->nr; i++)
        if (!push_lines(b, e->first + i))
            return false;
    return true;
}

/* Make all lines again. The cursor stays on the same entry. */
static int make_lines(struct browser *b, struct error *err)
{
    uint32_t held = b->at < b->lines.nr ? b->lines.at[b->at] : UINT32_MAX;
    b->lines.nr = 0;
    vec_foreach (row, &b->section.rows) {
        if (!row_entry(b, *row) || !push_lines(b, b->row_entry[*row] - 1))
            return error_no_memory(err);
    }
    for (size_t i = 0; i < b->lines.nr; i++)
        if (b->lines.at[i] == held)
            b->at = i;
    if (b->at >= b->lines.nr)
        b->at = b->lines.nr ? b->lines.nr - 1 : 0;
    return 0;
}

/* On a narrow screen the name has what shares, samples and periods leave, and some more room is
 * left for the module. */
static void set_name_width(struct browser *b)
{
    enum { NARROW = 100, LEAST = 16, SIGN = 1, SHARE = 10, COUNT = 14, GAP = 2, MODULE = 14 };
    const struct report_options *o = &b->options;
    unsigned used = SIGN + (o->children ? 2 : 1) * SHARE + GAP + GAP + MODULE;
    used += (o->show_samples ? COUNT : 0) + (o->show_period ? COUNT : 0);
    b->section.name_width = !b->columns || b->columns >= NARROW ? 0
                            : b->columns < used + LEAST         ? LEAST
                                                                : b->columns - used;
}

void browser_set_columns(struct browser *b, unsigned columns)
{
    b->columns = columns;
    set_name_width(b);
}

int browser_choose_rows(struct browser *b, struct error *err)
{
    if (b->has_section)
        report_section_deinit(&b->section);
    b->has_section = report_section_init(&b->section, b->report, b->report, b->event,
                                         &b->data.events[b->event], err) == 0;
    set_name_width(b);
    return b->has_section ? make_lines(b, err) : -1;
}

int browser_rebuild(struct browser *b, struct error *err)
{
    struct report *r;
    forget_report(b);
    if (report_create(b->data.stacks, &b->options, &r, err) < 0)
        return -1;
    b->report = r;
    b->chains = chains_create(r);
    b->row_entry = calloc(r->rows.nr + 1, sizeof(*b->row_entry));
    if (!b->chains || !b->row_entry)
        return error_no_memory(err);
    return browser_choose_rows(b, err);
}

static bool event_was_sampled(const struct browser *b, uint16_t event)
{
    for (size_t i = 0; i < stacks_nr_groups(b->data.stacks); i++)
        if (stacks_group(b->data.stacks, i)->event == event)
            return true;
    return false;
}

int browser_set_data(struct browser *b, const struct browser_data *data, struct error *err)
{
    b->data = *data;
    b->base.machine = data->machine;
    b->base.lists = data->lists;
    if (b->event >= data->nr_events || !event_was_sampled(b, b->event)) {
        int first = stacks_event(data->stacks, -1);
        b->event = first < 0 || (size_t)first >= data->nr_events ? 0 : (uint16_t)first;
    }
    browser_compose(b);
    return browser_rebuild(b, err);
}

int browser_change_event(struct browser *b, int step, struct error *err)
{
    size_t nr = b->data.nr_events;
    uint16_t event = b->event;
    if (!nr)
        return 0;
    do
        event = (uint16_t)((event + nr + (step < 0 ? nr - 1 : 1)) % nr);
    while (event != b->event && !event_was_sampled(b, event));
    if (event == b->event)
        return 0;
    b->event = event;
    return browser_rebuild(b, err);
}

int browser_toggle_relative(struct browser *b, struct error *err)
{
    b->options.relative = !b->options.relative;
    return browser_choose_rows(b, err);
}

bool browser_is_relative(const struct browser *b)
{
    return b->options.relative;
}

int browser_set_limit(struct browser *b, double percent, struct error *err)
{
    b->options.percent_limit = percent;
    return browser_choose_rows(b, err);
}

void browser_toggle_modules(struct browser *b)
{
    b->modules = !b->modules;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static bool push_entry(struct browser *b, uint32_t up, const struct chain_branch *branch,
                       unsigned level, bool continued)
{
    struct browser_entry e = {.branch = *branch,
                              .row = b->entries.at[up].row,
                              .up = up,
                              .level = (uint16_t)level,
                              .continued = continued};
    if (!continued) {
        bool goes_on = chains_goes_on(b->chains, e.row, branch);
        e.more = goes_on && level < LEVELS_MAX;
        e.deeper = goes_on && !e.more;
    }
    return vec_push(&b->entries, e);
}

static uint64_t row_weight(const struct browser *b, uint32_t row)
{
    return report_row_weight(b->report, &b->report->rows.at[row]);
}

/* Whether the row's own line already shows the branch's function. */
static bool repeats_row(const struct browser *b, uint32_t row, const struct chain_branch *branch)
{
    const struct report_row *r = &b->report->rows.at[row];
    return report_has_key(&b->options, KEY_SYM) && r->function != FUNCTION_NONE &&
           b->report->chain_class[r->function] == branch->chain_class;
}

/* Append the run after entry `up`: the functions that follow it while there is only one. Then
 * append the branches at the end of the run. `next` holds the branches that directly follow
 * `up`. */
static bool push_run(struct browser *b, uint32_t up, uint64_t weight, unsigned level,
                     chain_branches *next, uint64_t total)
{
    const struct browser_entry of = b->entries.at[up];
    bool row = of.level == 0;
    unsigned run = 0;
    while (next->nr == 1 && next->at[0].weight == weight && run < RUN_MAX) {
        struct chain_branch only = next->at[0];
        bool shown = !row || run || !repeats_row(b, of.row, &only);
        if (shown && !push_entry(b, up, &only, level, true))
            return false;
        run++;
        next->nr = 0;
        if (chains_follow(b->chains, of.row, &only, total, next) < 0)
            return false;
    }
    if (run == RUN_MAX && next->nr) {
        b->entries.at[b->entries.nr - 1].deeper = true;
        return true;
    }
    bool moved = !row || b->entries.nr > b->entries.at[up].first;
    for (size_t i = 0; i < next->nr; i++)
        if (!push_entry(b, up, &next->at[i], moved ? level + 1 : level, false))
            return false;
    return true;
}

/* Make the entries below an entry. */
static int load(struct browser *b, uint32_t entry, struct error *err)
{
    struct browser_entry *e = &b->entries.at[entry];
    if (e->loaded || !e->more)
        return 0;
    chain_branches next = {0};
    uint64_t weight = e->level ? e->branch.weight : row_weight(b, e->row);
    unsigned level = e->level ? e->level : 1;
    e->first = (uint32_t)b->entries.nr;
    uint64_t total = b->section.total;
    struct chain_branch branch = e->branch;
    int failed = e->level ? chains_follow(b->chains, e->row, &branch, total, &next)
                          : chains_begin(b->chains, e->row, total, &next);
    failed = failed < 0 || !push_run(b, entry, weight, level, &next, total);
    vec_free(&next);
    e = &b->entries.at[entry];
    e->nr = failed ? 0 : (uint32_t)b->entries.nr - e->first;
    e->loaded = !failed;
    e->more = e->nr > 0;
    return failed ? error_no_memory(err) : 0;
}

/* Returns the entry of a line; UINT32_MAX: there is no such line. */
static uint32_t entry_at(const struct browser *b, size_t line)
{
    return line < b->lines.nr ? b->lines.at[line] : UINT32_MAX;
}

bool browser_can_expand(const struct browser *b)
{
    uint32_t entry = entry_at(b, b->at);
    return entry != UINT32_MAX && b->entries.at[entry].more && !b->entries.at[entry].expanded;
}

bool browser_is_expanded(const struct browser *b)
{
    uint32_t entry = entry_at(b, b->at);
    return entry != UINT32_MAX && b->entries.at[entry].expanded;
}

int browser_expand(struct browser *b, struct error *err)
{
    uint32_t entry = entry_at(b, b->at);
    if (!browser_can_expand(b))
        return 0;
    if (load(b, entry, err) < 0)
        return -1;
    b->entries.at[entry].expanded = b->entries.at[entry].more;
    return make_lines(b, err);
}

bool browser_collapse(struct browser *b)
{
    uint32_t entry = entry_at(b, b->at);
    if (entry == UINT32_MAX)
        return false;
    if (!b->entries.at[entry].expanded) {
        if (!b->entries.at[entry].level)
            return false;
        entry = b->entries.at[entry].up;
    }
    b->entries.at[entry].expanded = false;
    while (b->at && b->lines.at[b->at] != entry)
        b->at--;
    make_lines(b, NULL); /* cannot fail: there are fewer lines than before */
    return true;
}

/* Expand everything below, without recursion. *all becomes false if there is too much. */
static int expand_below(struct browser *b, uint32_t entry, bool *all, struct error *err)
{
    VEC(uint32_t) open = {0};
    int failed = vec_push(&open, entry) ? 0 : error_no_memory(err);
    while (open.nr && !failed && *all) {
        uint32_t e = open.at[--open.nr];
        *all = b->entries.nr < ENTRIES_MAX || b->entries.at[e].loaded;
        if (!*all || !b->entries.at[e].more)
            continue;
        failed = load(b, e, err);
        struct browser_entry opened = b->entries.at[e];
        b->entries.at[e].expanded = opened.more;
        for (uint32_t i = 0; i < opened.nr && !failed; i++)
            if (b->entries.at[opened.first + i].more && !vec_push(&open, opened.first + i))
                failed = error_no_memory(err);
    }
    vec_free(&open);
    return failed;
}

static uint32_t row_of(const struct browser *b)
{
    uint32_t entry = entry_at(b, b->at);
    return entry == UINT32_MAX ? entry : b->row_entry[b->entries.at[entry].row] - 1;
}

int browser_expand_row(struct browser *b, bool *all, struct error *err)
{
    uint32_t entry = row_of(b);
    *all = true;
    if (entry == UINT32_MAX)
        return 0;
    return expand_below(b, entry, all, err) < 0 ? -1 : make_lines(b, err);
}

int browser_expand_all(struct browser *b, bool *all, struct error *err)
{
    *all = true;
    vec_foreach (row, &b->section.rows) {
        if (*all && expand_below(b, b->row_entry[*row] - 1, all, err) < 0)
            return -1;
    }
    return make_lines(b, err);
}

static void collapse_below(struct browser *b, uint32_t row)
{
    vec_foreach (e, &b->entries)
        if (row == ROW_NONE || e->row == row)
            e->expanded = false;
    uint32_t held = row_of(b);
    for (size_t i = 0; i < b->lines.nr; i++)
        if (b->lines.at[i] == held)
            b->at = i;
    make_lines(b, NULL); /* cannot fail: there are fewer lines than before */
}

void browser_collapse_row(struct browser *b)
{
    uint32_t entry = row_of(b);
    if (entry != UINT32_MAX)
        collapse_below(b, b->entries.at[entry].row);
}

void browser_collapse_all(struct browser *b)
{
    collapse_below(b, ROW_NONE);
}

/* ---- newer data ------------------------------------------------------------------------------ */

typedef VEC(uint64_t) identities;

static uint64_t string_hash(const char *s)
{
    return s ? hash_bytes(s, strlen(s)) : 0;
}

static uint64_t row_identity(const struct browser *b, uint32_t row)
{
    struct text keys = {0};
    for (unsigned i = 0; i < b->options.nr_keys; i++) {
        report_put_key(&keys, b->report, &b->report->rows.at[row], b->options.keys[i]);
        text_char(&keys, 0);
    }
    uint64_t hash = keys.failed ? 0 : hash_bytes(keys.at, keys.size);
    text_free(&keys);
    return hash;
}

/* Append the identity of the next entry; entries stand behind those that they are below. */
static bool push_identity(const struct browser *b, identities *all)
{
    const struct browser_entry *e = &b->entries.at[all->nr];
    if (!e->level)
        return vec_push(all, row_identity(b, e->row));
    const struct function *f = chains_function(b->chains, &e->branch);
    uint64_t hash = hash_combine(all->at[e->up], e->continued ? 2 : 1);
    hash = hash_combine(hash, string_hash(f->symbol));
    hash = hash_combine(hash, string_hash(f->module));
    hash = hash_combine(hash, f->symbol ? f->line : f->address);
    return vec_push(all, hash);
}

static int compare_identities(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Without memory, less is remembered. */
void browser_remember(struct browser *b)
{
    struct browser_remembered *ret = &b->remembered;
    identities all = {0};
    uint32_t entry = entry_at(b, b->at), row = row_of(b);
    vec_free(&ret->expanded);
    *ret = (struct browser_remembered){.line = b->at};
    ret->below_top = b->at - (b->top < b->at ? b->top : b->at);
    while (all.nr < b->entries.nr && push_identity(b, &all))
        if (b->entries.at[all.nr - 1].expanded && !vec_push(&ret->expanded, all.at[all.nr - 1]))
            break;
    if (ret->expanded.nr)
        qsort(ret->expanded.at, ret->expanded.nr, sizeof(*ret->expanded.at), compare_identities);
    if (b->at && entry < all.nr && row < all.nr) {
        ret->at = all.at[entry];
        ret->row = all.at[row];
    }
    vec_free(&all);
}

/* Expand what was expanded before, and put the cursor where it was. */
static int restore(struct browser *b, struct error *err)
{
    const struct browser_remembered *before = &b->remembered;
    identities all = {0};
    uint32_t at = UINT32_MAX, row = UINT32_MAX;
    int failed = 0;
    for (uint32_t i = 0; i < b->entries.nr && !failed; i++) {
        if (!push_identity(b, &all)) {
            failed = error_no_memory(err);
            break;
        }
        at = before->at && all.at[i] == before->at ? i : at;
        row = before->at && all.at[i] == before->row ? i : row;
        if (!before->expanded.nr || !b->entries.at[i].more || b->entries.nr >= ENTRIES_MAX ||
            !bsearch(&all.at[i], before->expanded.at, before->expanded.nr,
                     sizeof(*before->expanded.at), compare_identities))
            continue;
        failed = load(b, i, err);
        b->entries.at[i].expanded = !failed && b->entries.at[i].more;
    }
    vec_free(&all);
    if (failed || make_lines(b, err) < 0)
        return -1;
    size_t last = b->lines.nr ? b->lines.nr - 1 : 0;
    b->at = before->line < last ? before->line : last;
    at = at == UINT32_MAX ? row : at;
    for (size_t i = 0; i < b->lines.nr && at != UINT32_MAX; i++)
        if (b->lines.at[i] == at)
            b->at = i;
    b->top = b->at - (before->below_top < b->at ? before->below_top : b->at);
    return 0;
}

int browser_renew_data(struct browser *b, const struct browser_data *data, struct error *err)
{
    return browser_set_data(b, data, err) < 0 ? -1 : restore(b, err);
}

/* ---- the cursor ------------------------------------------------------------------------------ */

size_t browser_nr_lines(const struct browser *b)
{
    return b->lines.nr;
}

size_t browser_at(const struct browser *b)
{
    return b->at;
}

size_t browser_top(const struct browser *b)
{
    return b->top;
}

void browser_move(struct browser *b, long lines)
{
    size_t last = b->lines.nr ? b->lines.nr - 1 : 0;
    if (lines < 0)
        b->at -= (size_t)-lines < b->at ? (size_t)-lines : b->at;
    else
        b->at += (size_t)lines < last - b->at ? (size_t)lines : last - b->at;
}

void browser_fit(struct browser *b, size_t height)
{
    if (b->top > b->at)
        b->top = b->at;
    if (height && b->at - b->top >= height)
        b->top = b->at - height + 1;
    /* show no empty lines below the last line while lines above are hidden */
    if (b->top + height > b->lines.nr)
        b->top = b->lines.nr > height ? b->lines.nr - height : 0;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static char fold_of(const struct browser_entry *e)
{
    return e->expanded ? '-' : e->more ? '+' : ' ';
}

static uint64_t whole_of(const struct browser *b, const struct browser_entry *e)
{
    if (b->options.graph != GRAPH_FRACTAL)
        return b->section.total;
    const struct browser_entry *up = &b->entries.at[e->up];
    return up->level ? up->branch.weight : row_weight(b, up->row);
}

static double share_of(const struct browser *b, const struct browser_entry *e)
{
    uint64_t whole = whole_of(b, e);
    return whole ? 100.0 * (double)e->branch.weight / (double)whole : 0;
}

static void put_branch(const struct browser *b, const struct browser_entry *e, struct text *t)
{
    const struct function *f = chains_function(b->chains, &e->branch);
    text_repeat(t, ' ', 1 + (size_t)3 * e->level);
    if (e->continued)
        text_string(t, "     ");
    else
        text_printf(t, "%c %.2f%% ", fold_of(e), share_of(b, e));
    report_put_function(t, f, false);
    if (b->modules) {
        text_string(t, "  ");
        text_symbol(t, f->module ? f->module : "[unknown]");
    }
    if (e->deeper)
        text_string(t, " [deeper]");
}

void browser_put_line(struct browser *b, size_t line, struct text *t)
{
    const struct browser_entry *e = &b->entries.at[b->lines.at[line]];
    if (e->level) {
        put_branch(b, e, t);
        return;
    }
    text_char(t, fold_of(e));
    report_put_row(&b->section, e->row, t);
    while (t->size && t->at[t->size - 1] == ' ')
        t->size--;
}

double browser_percent(const struct browser *b, size_t line)
{
    const struct browser_entry *e = &b->entries.at[b->lines.at[line]];
    return e->level ? share_of(b, e) : report_percent(&b->section, row_weight(b, e->row));
}

void browser_put_all(struct browser *b, struct text *t)
{
    text_string(t, "# ");
    browser_put_head(b, t);
    text_string(t, "\n# ");
    browser_put_titles(b, t);
    text_char(t, '\n');
    for (size_t i = 0; i < b->lines.nr; i++) {
        browser_put_line(b, i, t);
        text_char(t, '\n');
    }
}

/* ---- what the cursor is on ------------------------------------------------------------------- */

static bool rows_have_functions(const struct report_options *o)
{
    return report_has_key(o, KEY_SYM) || report_has_key(o, KEY_DSO) ||
           report_has_key(o, KEY_PACKAGE) || report_has_key(o, KEY_SRCLINE) ||
           report_has_key(o, KEY_SRCFILE);
}

const struct function *browser_function(const struct browser *b)
{
    uint32_t entry = entry_at(b, b->at);
    if (entry == UINT32_MAX)
        return NULL;
    const struct browser_entry *e = &b->entries.at[entry];
    if (e->level)
        return chains_function(b->chains, &e->branch);
    return rows_have_functions(&b->options)
               ? report_row_function(b->report, &b->report->rows.at[e->row])
               : NULL;
}

/* The weight of a thread. There are few, so a linear search is enough. */
struct thread_weight {
    uint32_t thread;
    uint64_t weight;
};

uint32_t browser_thread(const struct browser *b)
{
    const struct report *r = b->report;
    VEC(struct thread_weight) threads = {0};
    uint32_t entry = entry_at(b, b->at);
    uint32_t row = entry == UINT32_MAX ? 0 : b->entries.at[entry].row;
    struct thread_weight best = {0};
    for (uint32_t i = r->row_first[row]; entry != UINT32_MAX && i < r->row_first[row + 1]; i++) {
        uint32_t node = r->row_nodes[i];
        uint64_t weight = r->options->children ? r->nodes[node].inner : r->nodes[node].self;
        uint32_t thread = r->groups.at[r->nodes[node].group].of.tid;
        size_t k = 0;
        while (k < threads.nr && threads.at[k].thread != thread)
            k++;
        if (k == threads.nr && !vec_push(&threads, (struct thread_weight){.thread = thread}))
            break;
        threads.at[k].weight += weight;
        if (threads.at[k].weight > best.weight)
            best = threads.at[k];
    }
    vec_free(&threads);
    return best.thread;
}
