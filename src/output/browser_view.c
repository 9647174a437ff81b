/* SPDX-License-Identifier: GPL-2.0-only */
/* The browser's views (which rows there are and how their trees grow) and its filters. */
#include "output/browser_internal.h"
#include "output/output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct view {
    const char *name;
    enum report_key keys[3];
    uint8_t nr_keys, nr_before;
    bool children, callers_first;
};

/* These views follow the first view, which is that of the command line. */
static const struct view views[] = {
    {"Callees: functions with what they called", {KEY_COMM, KEY_DSO, KEY_SYM}, 3, 0, true, true},
    {"Callers: functions by their own time", {KEY_COMM, KEY_DSO, KEY_SYM}, 3, 0, false, false},
    {"File and line", {KEY_SRCLINE}, 1, 0, false, false},
    {"VM state", {KEY_STATE}, 1, 0, false, false},
    {"Trace", {KEY_TRACE, KEY_SYM}, 2, 0, false, false},
    {"Thread", {KEY_THREAD}, 1, 0, false, true},
    {"Module", {KEY_DSO}, 1, 0, false, false},
    {"Time", {KEY_TIME}, 1, 1, false, true},
};

enum { NR_VIEWS = sizeof(views) / sizeof(*views) };

size_t browser_nr_views(const struct browser *b)
{
    (void)b;
    return 1 + NR_VIEWS;
}

const char *browser_view_name(const struct browser *b, size_t view)
{
    (void)b;
    return view ? views[view - 1].name : "As the command line has it";
}

size_t browser_view(const struct browser *b)
{
    return b->view;
}

static void apply_view(struct report_options *o, const struct view *v, bool chains)
{
    memcpy(o->keys, v->keys, sizeof(v->keys));
    o->nr_keys = v->nr_keys;
    o->nr_before = v->nr_before;
    o->children = chains && v->children;
    o->callers_first = v->callers_first;
    o->parent = NULL;
    o->exclude_other = false;
    if (chains && o->graph == GRAPH_NONE)
        o->graph = GRAPH_ABSOLUTE;
}

static void apply_filter(struct browser *b, const struct browser_filter_entry *f, bool chains)
{
    struct report_options *o = &b->options;
    switch (f->kind) {
    case FILTER_SYMBOL:
        o->symbol_filter = f->text;
        break;
    case FILTER_MODULE:
        b->names[0] = f->text;
        o->dsos.at = &b->names[0];
        o->dsos.nr = 1;
        break;
    case FILTER_THREAD:
        o->one_thread = true;
        o->thread = f->thread;
        break;
    case FILTER_CALLERS:
    case FILTER_CALLEES:
        b->names[1] = f->text;
        o->symbols.at = &b->names[1];
        o->symbols.nr = 1;
        o->children = chains;
        o->callers_first = f->kind == FILTER_CALLEES;
        break;
    }
}

static bool has_chains(const struct browser *b)
{
    for (size_t i = 0; i < b->data.nr_events; i++)
        if (b->data.events[i].callchain)
            return true;
    return false;
}

void browser_compose(struct browser *b)
{
    bool relative = b->options.relative;
    double limit = b->options.percent_limit;
    bool chains = has_chains(b);
    b->options = b->base;
    b->options.relative = relative;
    b->options.percent_limit = limit;
    b->options.separator = NULL;
    if (b->view)
        apply_view(&b->options, &views[b->view - 1], chains);
    for (size_t i = 0; i < b->nr_filters; i++)
        apply_filter(b, &b->filters[i], chains);
}

struct stacks_options browser_needs(const struct browser *b)
{
    struct stacks_options needs = report_needs(&b->options);
    needs.by_tid = true; /* of each line the thread is known */
    needs.by_line |= b->needs_lines;
    /* keep apart what other views need, as it costs little; slices of time cost more */
    if (!b->keeps_least)
        needs.by_state = needs.by_tier = needs.by_trace = needs.by_line = true;
    return needs;
}

void browser_keep_least(struct browser *b)
{
    b->keeps_least = true;
}

void browser_need_lines(struct browser *b)
{
    b->needs_lines = true;
}

bool browser_is_stale(const struct browser *b)
{
    struct stacks_options needs = browser_needs(b);
    const struct stacks_options *kept = stacks_kept(b->data.stacks);
    return (needs.by_cpu && !kept->by_cpu) || (needs.by_line && !kept->by_line) ||
           (needs.by_trace && !kept->by_trace) || (needs.by_tier && !kept->by_tier) ||
           (needs.by_state && !kept->by_state) || (needs.by_tid && !kept->by_tid) ||
           (needs.slice_ns && (needs.slice_ns != kept->slice_ns || !kept->all_slices));
}

/* Make the lines for new options, unless the data must be collected again first. */
static int renew(struct browser *b, struct error *err)
{
    browser_compose(b);
    return browser_is_stale(b) ? 0 : browser_rebuild(b, err);
}

int browser_set_view(struct browser *b, size_t view, struct error *err)
{
    b->view = view <= NR_VIEWS ? view : 0;
    return renew(b, err);
}

/* ---- filters -------------------------------------------------------------------------------- */

/* Whether both filters are of one kind. Both kinds that focus on a function count as one. */
static bool same_kind(enum browser_filter a, enum browser_filter b)
{
    bool focus = a == FILTER_CALLERS || a == FILTER_CALLEES;
    return a == b || (focus && (b == FILTER_CALLERS || b == FILTER_CALLEES));
}

static void remove_filter(struct browser *b, size_t index)
{
    free(b->filters[index].text);
    b->nr_filters--;
    memmove(&b->filters[index], &b->filters[index + 1],
            (b->nr_filters - index) * sizeof(*b->filters));
}

int browser_add_filter(struct browser *b, enum browser_filter kind, const char *text,
                       uint32_t thread, struct error *err)
{
    struct browser_filter_entry new = {.kind = kind, .thread = thread};
    if (kind != FILTER_THREAD && !(new.text = strdup(text)))
        return error_no_memory(err);
    for (size_t i = b->nr_filters; i-- > 0;)
        if (same_kind(b->filters[i].kind, kind))
            remove_filter(b, i);
    if (kind == FILTER_SYMBOL && !*text)
        free(new.text);
    else
        b->filters[b->nr_filters++] = new;
    return renew(b, err);
}

int browser_drop_filter(struct browser *b, bool *dropped, struct error *err)
{
    *dropped = b->nr_filters > 0;
    if (!*dropped)
        return 0;
    remove_filter(b, b->nr_filters - 1);
    return renew(b, err);
}

/* ---- the head ------------------------------------------------------------------------------- */

static void put_filter(struct text *t, const struct browser_filter_entry *f)
{
    static const char *const words[] = {[FILTER_SYMBOL] = "symbol",
                                        [FILTER_MODULE] = "module",
                                        [FILTER_THREAD] = "thread",
                                        [FILTER_CALLERS] = "callers of",
                                        [FILTER_CALLEES] = "callees of"};
    text_printf(t, ", %s ", words[f->kind]);
    if (f->kind == FILTER_THREAD)
        text_printf(t, "%" PRIu32, f->thread);
    else if (f->kind == FILTER_MODULE)
        text_symbol(t, text_base_name(f->text));
    else
        text_symbol(t, f->text);
}

void browser_put_head(const struct browser *b, struct text *t)
{
    const struct report_section *s = &b->section;
    text_string(t, "Samples: ");
    report_put_count(t, s->samples);
    text_string(t, " of event '");
    text_symbol(t, s->event && s->event->name ? s->event->name : "");
    text_char(t, '\'');
    for (size_t i = 0; i < b->nr_filters; i++)
        put_filter(t, &b->filters[i]);
    if (b->options.relative)
        text_string(t, ", relative");
    struct report_doubt doubt = report_doubts(s);
    if (doubt.joined)
        text_printf(t, ", %" PRIu64 " joined", doubt.joined);
    if (doubt.guessed)
        text_printf(t, ", %" PRIu64 " guessed", doubt.guessed);
    text_string(t, ", ");
    report_put_sum(s, t);
}

const char *browser_why_empty(const struct browser *b)
{
    return b->section.samples || b->nr_filters ? "nothing passes the filters" : "no samples";
}

void browser_put_titles(const struct browser *b, struct text *t)
{
    struct text titles = {0};
    report_put_titles(&b->section, &titles, false);
    if (titles.size > 3) /* without "# " and the line feed; rows have a sign and a blank there */
        text_printf(t, "  %.*s", (int)titles.size - 3, titles.at + 2);
    text_free(&titles);
}
