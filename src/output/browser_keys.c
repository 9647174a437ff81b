/* SPDX-License-Identifier: GPL-2.0-only */
/* The actions of the browser's keys. One table holds the keys and their help texts. */
#include "output/browser_screen.h"
#include "output/output.h"
#include "output/report_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int key_action(struct display *s, struct error *err);

/* ---- actions ----------------------------------------------------------------- */

static void say(struct display *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct display *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(s->message, sizeof(s->message), format, args);
    va_end(args);
}

static int do_expand(struct display *s, struct error *err)
{
    return browser_expand(s->model, err);
}

static int do_out(struct display *s, struct error *err)
{
    bool dropped;
    if (browser_drop_filter(s->model, &dropped, err) < 0)
        return -1;
    if (!dropped)
        say(s, "nothing to leave; q quits");
    return 0;
}

static int do_collapse(struct display *s, struct error *err)
{
    return browser_collapse(s->model) ? 0 : do_out(s, err);
}

static int do_plus(struct display *s, struct error *err)
{
    if (!browser_is_expanded(s->model))
        return browser_expand(s->model, err);
    browser_collapse(s->model);
    return 0;
}

static int do_minus(struct display *s, struct error *err)
{
    (void)err;
    browser_collapse(s->model);
    return 0;
}

static int do_expand_row(struct display *s, struct error *err)
{
    bool all;
    int failed = browser_expand_row(s->model, &all, err);
    if (!all)
        say(s, "there are too many lines; not all are expanded");
    return failed;
}

static int do_expand_all(struct display *s, struct error *err)
{
    bool all;
    int failed = browser_expand_all(s->model, &all, err);
    if (!all)
        say(s, "there are too many lines; not all are expanded");
    return failed;
}

static int do_collapse_row(struct display *s, struct error *err)
{
    (void)err;
    browser_collapse_row(s->model);
    return 0;
}

static int do_collapse_all(struct display *s, struct error *err)
{
    (void)err;
    browser_collapse_all(s->model);
    return 0;
}

static int do_filter(struct display *s, struct error *err)
{
    struct text answer = {0};
    int failed = 0;
    if (screen_ask(s, "Symbols that contain", &answer))
        failed = browser_add_filter(s->model, FILTER_SYMBOL, answer.at, 0, err);
    text_free(&answer);
    return failed;
}

static int do_thread(struct display *s, struct error *err)
{
    if (!browser_nr_lines(s->model))
        return 0;
    return browser_add_filter(s->model, FILTER_THREAD, NULL, browser_thread(s->model), err);
}

static int do_module(struct display *s, struct error *err)
{
    const struct function *f = browser_function(s->model);
    if (f && f->module)
        return browser_add_filter(s->model, FILTER_MODULE, f->module, 0, err);
    say(s, "this line belongs to no module");
    return 0;
}

static int do_kernel(struct display *s, struct error *err)
{
    return browser_add_filter(s->model, FILTER_MODULE, "[kernel.kallsyms]", 0, err);
}

static int focus(struct display *s, enum browser_filter kind, struct error *err)
{
    const struct function *f = browser_function(s->model);
    if (!f || !f->symbol) {
        say(s, "this line has no function with a name");
        return 0;
    }
    if (browser_add_filter(s->model, kind, f->symbol, 0, err) < 0)
        return -1;
    return browser_is_stale(s->model) ? 0 : browser_expand(s->model, err);
}

static int do_callers(struct display *s, struct error *err)
{
    return focus(s, FILTER_CALLERS, err);
}

static int do_callees(struct display *s, struct error *err)
{
    return focus(s, FILTER_CALLEES, err);
}

/* Turn the lines of a text into those of a list. */
static void split_lines(struct text *t)
{
    for (size_t i = 0; i < t->size; i++)
        if (t->at[i] == '\n')
            t->at[i] = 0;
    if (t->size && t->at[t->size - 1])
        text_char(t, 0);
}

/* Show a text until the user leaves it. */
static void read_text(struct display *s, const char *what, const struct function *f,
                      struct text *text)
{
    struct text title = {0};
    text_string(&title, what);
    report_put_function(&title, f, false);
    text_char(&title, 0);
    split_lines(text);
    struct list l = {.title = title.failed ? "" : title.at, .text = text};
    screen_run_list(s, &l);
    text_free(&title);
}

/* Give the terminal back while a recording is read, so that messages can be printed. Nothing is
 * printed about live data. */
static void lend_terminal(struct display *s)
{
    if (!s->in->live)
        s->curses.endwin();
}

static int do_annotate(struct display *s, struct error *err)
{
    const struct function *f = browser_function(s->model);
    struct text code = {0};
    struct error failure = {0};
    if (!f || !f->symbol || !s->in->annotate) {
        say(s, "this line has no function with a name");
        return 0;
    }
    lend_terminal(s);
    int failed = s->in->annotate(s->in->context, f->symbol, &code, &failure);
    s->curses.clearok(s->curses.window, true);
    if (!failed && !code.failed)
        read_text(s, "", f, &code);
    else
        say(s, "%s", failure.text);
    failed = failed && failure.kind == ERROR_NO_MEMORY ? error_no_memory(err) : 0;
    text_free(&code);
    return failed;
}

/* Read the recording again, because the model needs stacks that keep more apart. */
static int renew_data(struct display *s, struct error *err)
{
    struct stacks_options needs = browser_needs(s->model);
    struct browser_data data;
    lend_terminal(s);
    browser_remember(s->model);
    if (s->in->collect(s->in->context, &needs, &data, err) < 0)
        return -1;
    s->curses.clearok(s->curses.window, true);
    return s->in->live ? browser_renew_data(s->model, &data, err)
                       : browser_set_data(s->model, &data, err);
}

static int do_lines(struct display *s, struct error *err)
{
    browser_need_lines(s->model);
    if (browser_is_stale(s->model) && renew_data(s, err) < 0)
        return -1;
    const struct function *f = browser_function(s->model);
    struct text source = {0};
    if (!f || !f->symbol) {
        say(s, "this line has no function with a name");
        return 0;
    }
    int failed = browser_put_source(s->model, s->in->symfs, &source, err);
    if (!failed)
        read_text(s, "Lines of ", f, &source);
    text_free(&source);
    return failed;
}

static int do_views(struct display *s, struct error *err)
{
    struct text names = {0};
    for (size_t i = 0; i < browser_nr_views(s->model); i++) {
        text_string(&names, browser_view_name(s->model, i));
        text_char(&names, 0);
    }
    struct list l = {.title = "Views",
                     .text = &names,
                     .choose = true,
                     .over = true,
                     .at = browser_view(s->model)};
    long chosen = screen_run_list(s, &l);
    text_free(&names);
    return chosen < 0 ? 0 : browser_set_view(s->model, (size_t)chosen, err);
}

static int do_modules(struct display *s, struct error *err)
{
    (void)err;
    browser_toggle_modules(s->model);
    return 0;
}

static int do_relative(struct display *s, struct error *err)
{
    if (browser_toggle_relative(s->model, err) < 0)
        return -1;
    say(s, "percentages of %s",
        browser_is_relative(s->model) ? "the rows that pass the filters" : "all samples");
    return 0;
}

static int do_limit(struct display *s, struct error *err)
{
    struct text answer = {0};
    int failed = 0;
    if (screen_ask(s, "Least percentage of a row", &answer)) {
        char *end;
        double percent = strtod(answer.at, &end);
        if (end != answer.at && (*end == 0 || strcmp(end, "%") == 0) && percent >= 0 &&
            percent <= 100)
            failed = browser_set_limit(s->model, percent, err);
        else
            say(s, "that is not a percentage");
    }
    text_free(&answer);
    return failed;
}

static int do_titles(struct display *s, struct error *err)
{
    (void)err;
    s->titles = !s->titles;
    return 0;
}

static int do_next_event(struct display *s, struct error *err)
{
    return browser_change_event(s->model, 1, err);
}

static int do_last_event(struct display *s, struct error *err)
{
    return browser_change_event(s->model, -1, err);
}

static int do_left(struct display *s, struct error *err)
{
    (void)err;
    s->left -= s->left < 10 ? s->left : 10;
    return 0;
}

static int do_right(struct display *s, struct error *err)
{
    (void)err;
    s->left += s->left < 10000 ? 10 : 0;
    return 0;
}

/* perf's own files are named perf.hist.N. */
static int do_write(struct display *s, struct error *err)
{
    struct text all = {0};
    char name[32];
    int fd = -1;
    bool closed = false;
    for (int i = 0; i < 1000 && fd < 0; i++) {
        snprintf(name, sizeof(name), "ljperf.hist.%d", i);
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0) {
        say(s, "%s: cannot write: %s", name, strerror(errno));
        return 0;
    }
    browser_put_all(s->model, &all);
    struct error failure = {0};
    if (text_write(&all, fd, &closed, &failure) < 0 || close(fd) < 0)
        say(s, "%s: cannot write: %s", name, failure.text);
    else
        say(s, "written to %s", name);
    text_free(&all);
    (void)err;
    return 0;
}

static int act_live(struct display *s, enum browser_live_key key)
{
    struct text said = {0};
    s->in->live->act(s->in->context, key, &said);
    say(s, "%.*s", (int)said.size, said.size ? said.at : "");
    text_free(&said);
    return 0;
}

static int do_pause(struct display *s, struct error *err)
{
    (void)err;
    return act_live(s, LIVE_PAUSE);
}

static int do_save(struct display *s, struct error *err)
{
    (void)err;
    return act_live(s, LIVE_WRITE);
}

static int do_begin(struct display *s, struct error *err)
{
    (void)err;
    return act_live(s, LIVE_BEGIN);
}

static int do_quit(struct display *s, struct error *err)
{
    (void)err;
    s->quit = true;
    return 0;
}

static int do_suspend(struct display *s, struct error *err)
{
    (void)err;
    s->curses.endwin();
    raise(SIGTSTP);
    return 0;
}

static int do_redraw(struct display *s, struct error *err)
{
    (void)err;
    s->curses.clearok(s->curses.window, true);
    return 0;
}

static int do_menu(struct display *s, struct error *err);
static int do_help(struct display *s, struct error *err);

/* ---- the table of keys ------------------------------------------------------------ */

struct key {
    wint_t keys[4];
    const char *name, *help;
    key_action *act;
};

static const struct key keys[] = {
    {{0}, "Up Down PgUp PgDn Space Home End", "move", NULL},
    {{0}, "Mouse", "wheel: move; button: go to a line, expand or collapse it", NULL},
    {{0}, "/ n N", "in a text: search, next, one before", NULL},
    {{'\r', '\n', SPECIAL(KEY_ENTER), 'm'}, "Enter m", "menu of what can be done here", do_menu},
    {{SPECIAL(KEY_RIGHT)}, "Right", "expand", do_expand},
    {{SPECIAL(KEY_LEFT)}, "Left", "collapse, else leave the last filter", do_collapse},
    {{'+'}, "+", "expand or collapse", do_plus},
    {{'-'}, "-", "collapse", do_minus},
    {{'e'}, "e", "expand all of this row", do_expand_row},
    {{'c'}, "c", "collapse this row", do_collapse_row},
    {{'E'}, "E", "expand all rows", do_expand_all},
    {{'C'}, "C", "collapse all rows", do_collapse_all},
    {{'/'}, "/", "filter by a part of the symbol (empty: all)", do_filter},
    {{'t'}, "t", "zoom into this thread", do_thread},
    {{'d'}, "d", "zoom into this module", do_module},
    {{'k'}, "k", "zoom into the kernel", do_kernel},
    {{'r'}, "r", "callers of this function only", do_callers},
    {{'f'}, "f", "what this function called only", do_callees},
    {{KEY_ESCAPE}, "Esc", "leave the last filter", do_out},
    {{'s'}, "s", "views", do_views},
    {{'a'}, "a", "annotate this function", do_annotate},
    {{'l'}, "l", "lines of this function, with what they called", do_lines},
    {{'V'}, "V", "modules in call trees", do_modules},
    {{'F'}, "F", "percentages of what passes the filters, or of all", do_relative},
    {{'L'}, "L", "least percentage of a row", do_limit},
    {{'H'}, "H", "titles of the columns", do_titles},
    {{'<'}, "<", "show more on the left", do_left},
    {{'>'}, ">", "show more on the right", do_right},
    {{'\t'}, "Tab", "next event", do_next_event},
    {{SPECIAL(KEY_BTAB)}, "Shift-Tab", "last event", do_last_event},
    {{'P'}, "P", "write what is shown to ljperf.hist.N", do_write},
    {{CONTROL('l')}, "Ctrl-L", "draw anew", do_redraw},
    {{CONTROL('z')}, "Ctrl-Z", "stop", do_suspend},
    {{'h', '?', SPECIAL(KEY_F(1))}, "h ? F1", "this text", do_help},
    {{'q', CONTROL('c')}, "q Ctrl-C", "quit", do_quit},
};

/* These are for data that changes while it is shown. */
static const struct key live_keys[] = {
    {{'p'}, "p", "pause, or go on", do_pause},
    {{'w'}, "w", "write a recording of what is shown", do_save},
    {{'z'}, "z", "begin anew: forget what was recorded before", do_begin},
};

enum {
    NR_KEYS = sizeof(keys) / sizeof(*keys),
    NR_LIVE_KEYS = sizeof(live_keys) / sizeof(*live_keys),
};

static void put_help(struct text *help, const struct key *k)
{
    text_printf(help, "  %-10s %s", k->name, k->help);
    text_char(help, 0);
}

static int do_help(struct display *s, struct error *err)
{
    struct text help = {0};
    for (size_t i = 0; s->in->live && i < NR_LIVE_KEYS; i++)
        put_help(&help, &live_keys[i]);
    for (size_t i = 0; i < NR_KEYS; i++)
        put_help(&help, &keys[i]);
    struct list l = {.title = "Keys", .text = &help};
    (void)err;
    screen_run_list(s, &l);
    text_free(&help);
    return 0;
}

/* ---- the menu ------------------------------------------------------------ */

struct menu {
    struct text text;
    VEC(key_action *) acts;
};

static void add_item(struct menu *m, key_action *act, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add_item(struct menu *m, key_action *act, const char *format, ...)
{
    char item[200];
    va_list args;
    va_start(args, format);
    vsnprintf(item, sizeof(item), format, args);
    va_end(args);
    if (!vec_push(&m->acts, act))
        return;
    text_clean(&m->text, item);
    text_char(&m->text, 0);
}

static void fill_menu(struct display *s, struct menu *m)
{
    const struct function *f = browser_function(s->model);
    if (browser_can_expand(s->model))
        add_item(m, do_expand, "Expand");
    if (browser_is_expanded(s->model))
        add_item(m, do_collapse, "Collapse");
    if (f && f->symbol) {
        add_item(m, do_annotate, "Annotate %.100s", f->symbol);
        add_item(m, do_lines, "Lines of %.100s", f->symbol);
        add_item(m, do_callers, "Callers of %.100s", f->symbol);
        add_item(m, do_callees, "What %.100s called", f->symbol);
    }
    if (f && f->module)
        add_item(m, do_module, "Zoom into module %.100s", text_base_name(f->module));
    if (browser_nr_lines(s->model))
        add_item(m, do_thread, "Zoom into thread %" PRIu32, browser_thread(s->model));
    add_item(m, do_out, "Leave the last filter");
    add_item(m, do_views, "Views...");
    if (s->in->live) {
        add_item(m, do_pause, "Pause, or go on");
        add_item(m, do_save, "Write a recording");
        add_item(m, do_begin, "Begin anew");
    }
    add_item(m, do_write, "Write to a file");
    add_item(m, do_help, "Help");
    add_item(m, do_quit, "Quit");
}

static int do_menu(struct display *s, struct error *err)
{
    struct menu m = {0};
    fill_menu(s, &m);
    struct list l = {.title = "Menu", .text = &m.text, .choose = true, .over = true};
    long chosen = screen_run_list(s, &l);
    int failed = chosen < 0 || (size_t)chosen >= m.acts.nr ? 0 : m.acts.at[chosen](s, err);
    vec_free(&m.acts);
    text_free(&m.text);
    return failed;
}

/* ---- handling a key ------------------------------------------------------------------------- */

static const struct key *find_in(const struct key *table, size_t nr, wint_t key)
{
    for (size_t i = 0; key && i < nr; i++)
        for (size_t k = 0; k < sizeof(table[i].keys) / sizeof(*table[i].keys); k++)
            if (table[i].keys[k] == key)
                return &table[i];
    return NULL;
}

static const struct key *find_key(const struct display *s, wint_t key)
{
    const struct key *k = s->in->live ? find_in(live_keys, NR_LIVE_KEYS, key) : NULL;
    return k ? k : find_in(keys, NR_KEYS, key);
}

int screen_refresh(struct display *s, struct error *err)
{
    struct stacks_options needs = browser_needs(s->model);
    struct browser_data data;
    browser_remember(s->model);
    int got = s->in->live->refresh(s->in->context, &needs, &data, err);
    return got > 0 ? browser_renew_data(s->model, &data, err) : got;
}

/* A press goes to a line; on the cursor's line it expands or collapses. */
static int take_mouse(struct display *s, struct error *err)
{
    int y, first = s->height > 1 ? 1 + s->titles : 0;
    long by = screen_mouse(s, &y);
    if (by)
        browser_move(s->model, by);
    if (y < first || y >= first + screen_body_height(s))
        return 0;
    size_t line = browser_top(s->model) + (size_t)(y - first), at = browser_at(s->model);
    if (line >= browser_nr_lines(s->model))
        return 0;
    browser_move(s->model, (long)line - (long)at);
    return line == at ? do_plus(s, err) : 0;
}

int screen_take_key(struct display *s, wint_t key, struct error *err)
{
    long by = key_moves(key, screen_body_height(s));
    const struct key *k = find_key(s, key);
    *s->message = 0;
    if (by)
        browser_move(s->model, by);
    else if (key == SPECIAL(KEY_MOUSE) ? take_mouse(s, err) < 0 : k && k->act(s, err) < 0)
        return -1;
    return browser_is_stale(s->model) ? renew_data(s, err) : 0;
}
