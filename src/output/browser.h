/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An interactive report. Its rows and call trees are lines that open and close. It has filters and
 * views, and a screen that shows it.
 *
 * browser.c is the model and knows nothing of terminals. browser_view.c holds the model's views and
 * filters. browser_source.c writes a function's source with the weight of its lines.
 * browser_screen.c draws with ncurses and reads keys.
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

/* The data to show. The caller owns it and keeps it alive while the browser uses it. */
struct browser_data {
    const struct stacks *stacks;
    const struct report_event *events;
    size_t nr_events;
    const char *machine;               /* as report_options have them */
    const struct session_lists *lists; /* may be NULL, as `machine` */
};

struct browser;

/* `options` are those of the command line, and the first view. The browser copies the struct; the
 * caller owns what it points to. */
struct browser *browser_create(const struct report_options *options);
void browser_free(struct browser *b);

/* Set the data, or replace it. The data must keep apart everything that browser_needs() names. */
int browser_set_data(struct browser *b, const struct browser_data *data, struct error *err);
/* Replace the data by newer data of the same kind. What was expanded stays expanded, and the cursor
 * stays on its line, unless it is on the first: as browser_remember() was called while the old data
 * was there. */
void browser_remember(struct browser *b);
int browser_renew_data(struct browser *b, const struct browser_data *data, struct error *err);
/* browser_needs() returns what the stacks must keep apart for the view and its filters.
 * browser_is_stale() returns whether the current data does not keep all of it apart. If so, the
 * next call must be browser_set_data(). */
struct stacks_options browser_needs(const struct browser *b);
/* Keep apart only what the view shows, because the data is collected again and again. */
void browser_keep_least(struct browser *b);
/* From now on the data must keep lines apart: browser_put_source() needs them. */
void browser_need_lines(struct browser *b);
bool browser_is_stale(const struct browser *b);

/* ---- views and filters: return -1 if memory is out; move the cursor to the first line -------- */

size_t browser_nr_views(const struct browser *b);
const char *browser_view_name(const struct browser *b, size_t view);
size_t browser_view(const struct browser *b);
int browser_set_view(struct browser *b, size_t view, struct error *err);

enum browser_filter {
    FILTER_SYMBOL,  /* rows whose symbol contains the text */
    FILTER_MODULE,  /* rows of this module, named as in struct function */
    FILTER_THREAD,  /* rows of one thread */
    FILTER_CALLERS, /* one function, with the tree of its callers */
    FILTER_CALLEES, /* one function, with the tree of its callees */
};
/* Add a filter. It replaces a filter of the same kind. `text` is copied; FILTER_THREAD does not use
 * it. An empty FILTER_SYMBOL only removes the old one. */
int browser_add_filter(struct browser *b, enum browser_filter kind, const char *text,
                       uint32_t thread, struct error *err);
/* Remove the newest filter. *dropped is false if there was none. */
int browser_drop_filter(struct browser *b, bool *dropped, struct error *err);

/* Go to the next (step 1) or previous (step -1) event that was sampled. */
int browser_change_event(struct browser *b, int step, struct error *err);
/* These functions keep expanded lines expanded. */
int browser_toggle_relative(struct browser *b, struct error *err);
int browser_set_limit(struct browser *b, double percent, struct error *err);
void browser_toggle_modules(struct browser *b);
bool browser_is_relative(const struct browser *b);

/* ---- lines --------------------------------------------------------------------------------- */

size_t browser_nr_lines(const struct browser *b);
size_t browser_at(const struct browser *b);  /* the line with the cursor */
size_t browser_top(const struct browser *b); /* the first line shown */
/* Move the cursor by `lines`, but not beyond the first or last line. */
void browser_move(struct browser *b, long lines);
/* Scroll so that the cursor is visible when `height` lines are shown. */
void browser_fit(struct browser *b, size_t height);

/* Tell how many columns the screen has: below 100, rows begin with the function's name. */
void browser_set_columns(struct browser *b, unsigned columns);
/* Append the head (one line that says what is shown) and the columns' titles (one line). */
void browser_put_head(const struct browser *b, struct text *t);
void browser_put_titles(const struct browser *b, struct text *t);
/* Returns why there are no lines. */
const char *browser_why_empty(const struct browser *b);
void browser_put_line(struct browser *b, size_t line, struct text *t);
/* Returns the line's percentage, for its colour. */
double browser_percent(const struct browser *b, size_t line);

/* These describe the line with the cursor. They return NULL or 0 if it has no such thing. */
const struct function *browser_function(const struct browser *b);
uint32_t browser_thread(const struct browser *b); /* thread with most of the row's samples */
bool browser_can_expand(const struct browser *b);
bool browser_is_expanded(const struct browser *b);

/* Expand the line with the cursor, or collapse it. If browser_collapse() has nothing to collapse in
 * the line, it collapses the parent and moves the cursor there. It returns false if there was
 * nothing to collapse at all. */
int browser_expand(struct browser *b, struct error *err);
bool browser_collapse(struct browser *b);
/* Expand or collapse everything below the cursor's row, or below all rows. *all becomes false if
 * there are too many lines to expand. */
int browser_expand_row(struct browser *b, bool *all, struct error *err);
int browser_expand_all(struct browser *b, bool *all, struct error *err);
void browser_collapse_row(struct browser *b);
void browser_collapse_all(struct browser *b);

/* Append all lines as they are shown, to write them to a file. */
void browser_put_all(struct browser *b, struct text *t);

/* ---- source -------------------------------------------------------------------------------- */

/* Append the lines of the function at the cursor with the self and total weight of each. The source
 * text stands beside them if its file can be read below `symfs` (NULL: none). Fails if there is no
 * function at the cursor. */
int browser_put_source(const struct browser *b, const char *symfs, struct text *t,
                       struct error *err);

/* ---- screen -------------------------------------------------------------------------------- */

/* Data that changes while it is shown. */
enum browser_live_key {
    LIVE_PAUSE, /* or go on */
    LIVE_WRITE, /* write a recording */
    LIVE_BEGIN, /* forget what was recorded before */
};
struct browser_live {
    unsigned interval_ms; /* between two calls of `refresh` */
    /* Get newer data, which keeps apart what `needs` names. *ret is valid until the next call of
     * this or of `collect`. Returns 1; 0: there is none; -1: an error. */
    int (*refresh)(void *context, const struct stacks_options *needs, struct browser_data *ret,
                   struct error *err);
    /* Append what is said of the recording before the head. */
    void (*put_state)(void *context, struct text *out);
    /* Act on a key, and append what is to be said. */
    void (*act)(void *context, enum browser_live_key key, struct text *said);
};

struct browser_screen {
    struct browser *browser;
    const struct browser_live *live; /* NULL: the data does not change by itself */
    const char *symfs;               /* NULL: none */
    void *context;
    /* Collect the data again and keep apart what `needs` names. *ret is valid until the next
     * call. */
    int (*collect)(void *context, const struct stacks_options *needs, struct browser_data *ret,
                   struct error *err);
    /* Append a function's annotated source or machine code, as `ljperf annotate` prints it. It may
     * show its progress on the terminal. NULL: not available. */
    int (*annotate)(void *context, const char *symbol, struct text *out, struct error *err);
};
/* Run the browser until the user quits. */
int browser_run(const struct browser_screen *screen, struct error *err);

#endif
