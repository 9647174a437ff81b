/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The report to walk about in: its rows and call trees as lines that open and close, with filters
 * and views; and the screen that shows it.
 *
 * browser.c is the model: it knows no terminal. browser_view.c holds its views and filters.
 * browser_source.c writes a function's source with the weight of its lines. browser_screen.c draws
 * with ncurses and takes keys.
 */
#ifndef OUTPUT_BROWSER_H
#define OUTPUT_BROWSER_H

#include "base/error.h"
#include "base/text.h"
#include "output/report.h"
#include "stacks/stacks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What there is to look at; stays the caller's, and alive while the browser has it. */
struct browser_data {
    const struct stacks *stacks;
    const struct report_event *events;
    size_t nr_events;
};

struct browser;

/* `options`: what the command line asked for; its first view. Kept by value; what it refers to
 * stays the caller's. */
struct browser *browser_create(const struct report_options *options);
void browser_free(struct browser *b);

/* Take data (again), collected so that browser_needs() was kept apart. */
int browser_set_data(struct browser *b, const struct browser_data *data, struct error *err);
/* What the view and its filters need the stacks to keep apart, and whether the data at hand did
 * not: then nothing else may be called before browser_set_data(). */
struct stacks_options browser_needs(const struct browser *b);
bool browser_is_stale(const struct browser *b);

/* ---- views and filters: each returns -1 when memory is out; the cursor goes to the first line
 * ---- */

size_t browser_nr_views(const struct browser *b);
const char *browser_view_name(const struct browser *b, size_t view);
size_t browser_view(const struct browser *b);
int browser_set_view(struct browser *b, size_t view, struct error *err);

enum browser_filter {
    FILTER_SYMBOL,  /* rows whose symbol contains the text */
    FILTER_MODULE,  /* rows of this module, as struct function has it */
    FILTER_THREAD,  /* rows of one thread */
    FILTER_CALLERS, /* one function, with the tree of its callers */
    FILTER_CALLEES, /* one function, with the tree of what it called */
};
/* Add a filter; one of the same kind is replaced. `text` is copied; of a thread it is not used. An
 * empty FILTER_SYMBOL only takes the old one away. */
int browser_add_filter(struct browser *b, enum browser_filter kind, const char *text,
                       uint32_t thread, struct error *err);
/* Take the newest filter away; false: there was none. */
int browser_drop_filter(struct browser *b, bool *dropped, struct error *err);

/* Go to the next (step 1) or last (-1) event that was sampled. */
int browser_change_event(struct browser *b, int step, struct error *err);
/* These keep what is expanded. */
int browser_toggle_relative(struct browser *b, struct error *err);
int browser_set_limit(struct browser *b, double percent, struct error *err);
void browser_toggle_modules(struct browser *b);
bool browser_is_relative(const struct browser *b);

/* ---- lines --------------------------------------------------------------------------------- */

size_t browser_nr_lines(const struct browser *b);
size_t browser_at(const struct browser *b);  /* the line with the cursor */
size_t browser_top(const struct browser *b); /* the first line shown */
/* Move the cursor, as far as there are lines. */
void browser_move(struct browser *b, long lines);
/* So many lines are shown: move what is shown so that the cursor is on it. */
void browser_fit(struct browser *b, size_t height);

/* The head: what is shown (one line), and the columns' titles (one line). */
void browser_put_head(const struct browser *b, struct text *t);
void browser_put_titles(const struct browser *b, struct text *t);
void browser_put_line(struct browser *b, size_t line, struct text *t);
/* Its share, for colours. */
double browser_percent(const struct browser *b, size_t line);

/* Of the line with the cursor; NULL, 0: it has none. */
const struct function *browser_function(const struct browser *b);
uint32_t browser_thread(const struct browser *b); /* the thread with most of the row's samples */
bool browser_can_expand(const struct browser *b);
bool browser_is_expanded(const struct browser *b);

/* Open the line, close it, or (where it has nothing to close) its parent, and go there; false from
 * browser_collapse(): there is nothing to close. */
int browser_expand(struct browser *b, struct error *err);
bool browser_collapse(struct browser *b);
/* The row with the cursor, and everything below; all rows. *all is false when there are too many
 * lines to open. */
int browser_expand_row(struct browser *b, bool *all, struct error *err);
int browser_expand_all(struct browser *b, bool *all, struct error *err);
void browser_collapse_row(struct browser *b);
void browser_collapse_all(struct browser *b);

/* Everything as it is shown, for a file. */
void browser_put_all(struct browser *b, struct text *t);

/* ---- source -------------------------------------------------------------------------------- */

/* The lines of the function at the cursor with what each had, itself and with what it called;
 * beside them the source, where its file can be read below `symfs` (NULL: none). Fails where there
 * is no function. */
int browser_put_source(const struct browser *b, const char *symfs, struct text *t,
                       struct error *err);

/* ---- screen -------------------------------------------------------------------------------- */

struct browser_screen {
    struct browser *browser;
    const char *symfs; /* NULL: none */
    void *context;
    /* Collect again, so that this is kept apart; *ret is good until the next call. */
    int (*collect)(void *context, const struct stacks_options *needs, struct browser_data *ret,
                   struct error *err);
    /* Append a function's annotated source or machine code, as `ljperf annotate` prints it.
     * Progress may be shown on the terminal. NULL: there is no such thing. */
    int (*annotate)(void *context, const char *symbol, struct text *out, struct error *err);
};
/* Until the user quits. */
int browser_run(const struct browser_screen *screen, struct error *err);

#endif
