/* SPDX-License-Identifier: GPL-2.0-only */
/* Draws the browser's model, its lists and its questions, and reads keys. */
#include "output/browser_screen.h"
#include "base/clock.h"
#include "output/output.h"

#include <errno.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

enum {
    COLUMNS_MAX = 1000,
    PAIR_HOT = 1,
    PAIR_WARM,
    PAIR_HEAD,
};

/* ---- one line of text ----------------------------------------------------------------------- */

/* Returns the next character of `at`, as the terminal can show it. *size is its size in bytes. */
static wchar_t next_char(const struct display *s, const char *at, unsigned *size)
{
    const unsigned char *u = (const unsigned char *)at;
    *size = text_utf8_size(u);
    if (*size <= 1 || !s->utf8) {
        bool plain = *size == 1 && *u < 0x80;
        *size = *size ? *size : 1;
        return plain ? *u : L'?';
    }
    static const unsigned char masks[] = {0, 0, 0x1f, 0x0f, 0x07};
    wchar_t c = u[0] & masks[*size];
    for (unsigned i = 1; i < *size; i++)
        c = c << 6 | (u[i] & 0x3f);
    return wcwidth(c) < 0 ? L'?' : c;
}

/* Draw text (NUL-terminated) in line `y`. It begins with the text's column `left` and is padded to
 * the screen's width. */
static void put_columns(struct display *s, int y, int left, const char *at, attr_t attributes)
{
    const struct curses *c = &s->curses;
    wchar_t out[COLUMNS_MAX * 2];
    int nr = 0, column = -left;
    int width = s->width < COLUMNS_MAX ? s->width : COLUMNS_MAX;
    int tab = 0; /* remaining blanks of a tab */
    for (unsigned size; *at && nr < COLUMNS_MAX * 2 - 2; at += tab ? 0 : size) {
        wchar_t w = next_char(s, at, &size);
        if (*at == '\t') {
            tab = tab ? tab - 1 : 7 - (column + left) % 8;
            w = L' ';
        }
        int wide = wcwidth(w);
        if (column + wide > width)
            break;
        if (column < 0) {
            /* half of a wide character becomes a blank */
            for (column += wide; column > 0 && nr < column;)
                out[nr++] = L' ';
            continue;
        }
        if (wide || nr)
            out[nr++] = w;
        column += wide;
    }
    for (column = column < 0 ? 0 : column; column < width && nr < COLUMNS_MAX * 2; column++)
        out[nr++] = L' ';
    c->wattrset(c->window, (int)attributes);
    c->wmove(c->window, y, 0);
    c->waddnwstr(c->window, out, nr);
    c->wattrset(c->window, A_NORMAL);
}

static void put_string(struct display *s, int y, const char *string, attr_t attributes)
{
    put_columns(s, y, 0, string, attributes);
}

/* Draw s->text and empty it. */
static void put_text(struct display *s, int y, int left, attr_t attributes)
{
    text_char(&s->text, 0);
    put_columns(s, y, left, s->text.failed ? "" : s->text.at, attributes);
    s->text.size = 0;
}

/* ---- the main screen ------------------------------------------------------------------------ */

int screen_body_height(const struct display *s)
{
    int used = 2 + s->titles;
    return s->height > used ? s->height - used : 1;
}

/* Colours of shares as in perf: one from 5 % on, one from 0.5 % on. */
static attr_t colour_of(const struct display *s, double percent)
{
    return percent >= 5     ? (attr_t)s->curses.COLOR_PAIR(PAIR_HOT)
           : percent >= 0.5 ? (attr_t)s->curses.COLOR_PAIR(PAIR_WARM)
                            : 0;
}

static void draw_body(struct display *s)
{
    int height = screen_body_height(s), first = s->height > 1 ? 1 + s->titles : 0;
    size_t nr = browser_nr_lines(s->model), top;
    browser_fit(s->model, (size_t)height);
    top = browser_top(s->model);
    for (int y = 0; y < height && first + y < s->height; y++) {
        size_t line = top + (size_t)y;
        if (line < nr) {
            bool here = !s->list && line == browser_at(s->model);
            attr_t attributes = here ? A_REVERSE : colour_of(s, browser_percent(s->model, line));
            browser_put_line(s->model, line, &s->text);
            put_text(s, first + y, s->left, attributes);
        } else {
            put_string(s, first + y, nr || y ? "" : browser_why_empty(s->model), 0);
        }
    }
}

static void measure(struct display *s)
{
    s->width = s->curses.getmaxx(s->curses.window);
    s->height = s->curses.getmaxy(s->curses.window);
}

void screen_draw(struct display *s)
{
    measure(s);
    browser_set_columns(s->model, s->width > 0 ? (unsigned)s->width : 1);
    s->curses.werase(s->curses.window);
    draw_body(s);
    if (s->height > 1) {
        if (s->in->live)
            s->in->live->put_state(s->in->context, &s->text);
        browser_put_head(s->model, &s->text);
        put_text(s, 0, 0, (attr_t)s->curses.COLOR_PAIR(PAIR_HEAD) | A_BOLD);
        if (s->titles && s->height > 2) {
            browser_put_titles(s->model, &s->text);
            put_text(s, 1, s->left, A_BOLD);
        }
    }
    if (s->height > 2 + s->titles)
        put_string(s, s->height - 1,
                   *s->message ? s->message : "h: help, Enter: menu, s: views, /: filter, q: quit",
                   A_BOLD);
    s->curses.wrefresh(s->curses.window);
}

/* ---- keys ----------------------------------------------------------------------------------- */

wint_t screen_read_key(struct display *s)
{
    wint_t key = 0;
    for (int tries = 0;; tries++) {
        errno = 0;
        int kind = s->curses.wget_wch(s->curses.window, &key);
        if (kind == KEY_CODE_YES)
            return SPECIAL(key);
        if (kind != ERR)
            return key;
        /* try again after an interrupted call; otherwise the terminal is gone */
        if (errno != EINTR && tries > 10)
            return CONTROL('c');
    }
}

bool screen_wait_key(struct display *s, unsigned ms, wint_t *ret)
{
    const uint64_t MS = 1000000;
    const uint64_t end = clock_ns(CLOCK_MONOTONIC) + ms * MS;
    wint_t key = 0;
    errno = 0;
    s->curses.wtimeout(s->curses.window, (int)ms);
    int kind = s->curses.wget_wch(s->curses.window, &key);
    bool is_gone = kind == ERR && errno != EINTR && clock_ns(CLOCK_MONOTONIC) + MS < end;
    s->curses.wtimeout(s->curses.window, -1);
    if (is_gone) { /* the terminal may be: this tells */
        *ret = screen_read_key(s);
        return true;
    }
    *ret = kind == KEY_CODE_YES ? SPECIAL(key) : key;
    return kind != ERR;
}

/* ---- lists: menus, help, source ------------------------------------------------------------ */

static int list_height(const struct display *s, const struct list *l)
{
    int most = s->height > 1 ? s->height - 1 : 1;
    return l->over && (size_t)most > l->lines.nr ? (int)l->lines.nr : most;
}

static void list_fit(struct list *l, int height)
{
    size_t h = (size_t)height;
    if (l->choose) {
        l->top = l->top > l->at ? l->at : l->top;
        l->top = l->at >= l->top + h ? l->at - h + 1 : l->top;
    }
    if (l->top + h > l->lines.nr)
        l->top = l->lines.nr > h ? l->lines.nr - h : 0;
}

static void draw_list(struct display *s, struct list *l)
{
    screen_draw(s);
    int height = list_height(s, l);
    int y = l->over ? (s->height - height - 1) / 2 : 0;
    list_fit(l, height);
    if (s->height > 1) {
        text_printf(&s->text, "%s%s%s", l->over ? "--- " : "", l->title,
                    l->choose ? " (Enter: take it, Esc: leave)" : " (q, Esc: leave, /: search)");
        if (*l->sought)
            text_printf(&s->text, ", %s: %s", l->missed ? "NOT FOUND" : "n, N: next", l->sought);
        put_text(s, y++, 0, (attr_t)s->curses.COLOR_PAIR(PAIR_HEAD) | A_BOLD);
    }
    l->y = y;
    l->height = height;
    for (int i = 0; i < height && y + i < s->height; i++) {
        size_t line = l->top + (size_t)i;
        bool here = l->choose ? line == l->at : line + 1 == l->found;
        put_columns(s, y + i, 0, line < l->lines.nr ? l->text->at + l->lines.at[line] : "",
                    here ? A_REVERSE : 0);
    }
    s->curses.wrefresh(s->curses.window);
}

static void list_move(struct list *l, long by)
{
    size_t *at = l->choose ? &l->at : &l->top;
    size_t last = l->lines.nr ? l->lines.nr - 1 : 0;
    if (by < 0)
        *at -= (size_t)-by < *at ? (size_t)-by : *at;
    else
        *at += (size_t)by < last - *at ? (size_t)by : last - *at;
}

long key_moves(wint_t key, int height)
{
    long page = height > 1 ? height - 1 : 1;
    switch (key) {
    case SPECIAL(KEY_UP):
        return -1;
    case SPECIAL(KEY_DOWN):
        return 1;
    case SPECIAL(KEY_PPAGE):
        return -page;
    case SPECIAL(KEY_NPAGE):
    case ' ':
        return page;
    case SPECIAL(KEY_HOME):
        return -LONG_MAX;
    case SPECIAL(KEY_END):
        return LONG_MAX;
    default:
        return 0;
    }
}

bool key_is_enter(wint_t key)
{
    return key == '\r' || key == '\n' || key == SPECIAL(KEY_ENTER);
}

/* ---- reading a line of input --------------------------------------------------- */

/* Returns the size in bytes of the last character of `t`. */
static size_t last_size(const struct text *t)
{
    size_t size = t->size ? 1 : 0;
    while (size < t->size && ((unsigned char)t->at[t->size - size] & 0xc0) == 0x80)
        size++;
    return size;
}

static void put_typed(struct text *t, wint_t key)
{
    if (key < 0x80) {
        text_char(t, (char)key);
    } else if (key < 0x800) {
        text_char(t, (char)(0xc0 | key >> 6));
        text_char(t, (char)(0x80 | (key & 0x3f)));
    } else if (key < 0x10000) {
        text_char(t, (char)(0xe0 | key >> 12));
        text_char(t, (char)(0x80 | (key >> 6 & 0x3f)));
        text_char(t, (char)(0x80 | (key & 0x3f)));
    } else {
        text_char(t, (char)(0xf0 | key >> 18));
        text_char(t, (char)(0x80 | (key >> 12 & 0x3f)));
        text_char(t, (char)(0x80 | (key >> 6 & 0x3f)));
        text_char(t, (char)(0x80 | (key & 0x3f)));
    }
}

bool screen_ask(struct display *s, const char *question, struct text *answer)
{
    for (;;) {
        if (s->list)
            draw_list(s, s->list);
        else
            screen_draw(s);
        text_printf(&s->text, "%s: %.*s_", question, (int)answer->size,
                    answer->size ? answer->at : "");
        put_text(s, s->height - 1, 0, A_BOLD);
        s->curses.wrefresh(s->curses.window);
        wint_t key = screen_read_key(s);
        if (key == KEY_ESCAPE || key == CONTROL('c'))
            return false;
        if (key_is_enter(key))
            break;
        if (key == KEY_DELETE || key == '\b' || key == SPECIAL(KEY_BACKSPACE))
            answer->size -= last_size(answer);
        else if (key == CONTROL('u'))
            answer->size = 0;
        else if (key >= ' ' && key < FIRST_SPECIAL && answer->size < 200)
            put_typed(answer, key);
    }
    text_char(answer, 0);
    return !answer->failed;
}

/* ---- acting on a list ----------------------------------------------------------------------- */

long screen_mouse(struct display *s, int *y)
{
    enum { WHEEL_LINES = 3 };
    MEVENT e;
    *y = -1;
    if (s->curses.getmouse(&e) != OK)
        return 0;
    if (e.bstate & BUTTON4_PRESSED)
        return -WHEEL_LINES;
    if (e.bstate & BUTTON5_PRESSED)
        return WHEEL_LINES;
    if (e.bstate & BUTTON1_PRESSED)
        *y = e.y;
    return 0;
}

/* Go to the next line (step 1) or the one before (step -1) that contains what is sought, whatever
 * the case of its letters. Behind the last line comes the first. */
static void list_seek(struct list *l, int step)
{
    size_t nr = l->lines.nr;
    size_t at = l->found ? l->found - 1 : l->choose ? l->at : l->top;
    l->missed = *l->sought != 0;
    for (size_t i = 0; i < nr && *l->sought; i++) {
        if (i || l->found) /* the first line may have it, too */
            at = (at + (step < 0 ? nr - 1 : 1)) % nr;
        if (!strcasestr(l->text->at + l->lines.at[at], l->sought))
            continue;
        l->missed = false;
        l->found = at + 1;
        *(l->choose ? &l->at : &l->top) = at;
        return;
    }
}

static void list_ask(struct display *s, struct list *l)
{
    struct text answer = {0};
    if (screen_ask(s, "Search", &answer)) {
        snprintf(l->sought, sizeof(l->sought), "%s", answer.at);
        l->found = 0;
        list_seek(l, 1);
    }
    text_free(&answer);
}

/* Returns the chosen line; -1: the list is left; -2: neither. */
static long list_click(struct display *s, struct list *l)
{
    int y;
    long by = screen_mouse(s, &y);
    if (by)
        list_move(l, by);
    if (!l->choose || y < l->y || y >= l->y + l->height)
        return -2;
    size_t line = l->top + (size_t)(y - l->y);
    if (line >= l->lines.nr)
        return -2;
    bool again = line == l->at;
    l->at = line;
    return again ? (long)line : -2;
}

/* Act on a key. Returns as list_click() does. */
static long list_key(struct display *s, struct list *l, wint_t key)
{
    long by = key_moves(key, list_height(s, l));
    if (by)
        list_move(l, by);
    else if (key == SPECIAL(KEY_MOUSE))
        return list_click(s, l);
    else if (key == '/')
        list_ask(s, l);
    else if (key == 'n' || key == 'N')
        list_seek(l, key == 'n' ? 1 : -1);
    else if (key_is_enter(key) && l->choose)
        return l->lines.nr ? (long)l->at : -1;
    else if (key == 'q' || key == KEY_ESCAPE || key == SPECIAL(KEY_LEFT) || key == CONTROL('c') ||
             key_is_enter(key))
        return -1;
    return -2;
}

long screen_run_list(struct display *s, struct list *l)
{
    for (size_t i = 0; i < l->text->size; i += strlen(l->text->at + i) + 1)
        if (!vec_push(&l->lines, i))
            break;
    struct list *below = s->list;
    long chosen = -2;
    s->list = l;
    while (chosen == -2) {
        draw_list(s, l);
        chosen = list_key(s, l, screen_read_key(s));
    }
    s->list = below;
    vec_free(&l->lines);
    return chosen;
}

/* ---- running -------------------------------------------------------------------------------- */

/* Take the next key, or show newer data when it is time: `*next`, ns. */
static int step_live(struct display *s, uint64_t *next, struct error *err)
{
    const uint64_t MS = 1000000;
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    wint_t key;
    if (now < *next) {
        if (screen_wait_key(s, (unsigned)((*next - now + MS - 1) / MS), &key))
            return screen_take_key(s, key, err);
        return 0;
    }
    int failed = screen_refresh(s, err);
    *next = clock_ns(CLOCK_MONOTONIC) + s->in->live->interval_ms * MS;
    return failed;
}

int browser_run(const struct browser_screen *in, struct error *err)
{
    uint64_t next = 0;
    struct display s = {.in = in, .model = in->browser, .titles = true};
    setlocale(LC_CTYPE, "");
    s.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    if (curses_open(&s.curses, err) < 0)
        return -1;
    s.curses.init_pair(PAIR_HOT, COLOR_RED, -1);
    s.curses.init_pair(PAIR_WARM, COLOR_GREEN, -1);
    s.curses.init_pair(PAIR_HEAD, COLOR_CYAN, -1);
    int failed = 0;
    while (!s.quit && !failed) {
        screen_draw(&s);
        failed =
            in->live ? step_live(&s, &next, err) : screen_take_key(&s, screen_read_key(&s), err);
    }
    curses_close(&s.curses);
    text_free(&s.text);
    return failed;
}
