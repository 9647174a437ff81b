/* SPDX-License-Identifier: GPL-2.0-only */
/* The display: what draws it (browser_screen.c) for what its keys do (browser_keys.c). */
#ifndef OUTPUT_BROWSER_SCREEN_H
#define OUTPUT_BROWSER_SCREEN_H

#include "base/vec.h"
#include "output/browser.h"
#include "output/curses_library.h"

#include <wchar.h>

enum {
    KEY_ESCAPE = 27,
    KEY_DELETE = 127,
    FIRST_SPECIAL = 0x110000, /* ncurses' own keys are counted from here: beyond any character */
};

#define CONTROL(c) ((c)&0x1f)
#define SPECIAL(key) (FIRST_SPECIAL + (key))

/* The terminal, and what of the model stands on it. */
struct display {
    const struct browser_screen *in;
    struct browser *model;
    struct curses curses;
    bool utf8, titles, quit;
    bool covered; /* a list has the cursor */
    int width, height;
    int left; /* columns of the lines that are left out */
    struct text text;
    char message[256]; /* in the last line, until the next key */
};

/* Draw everything. */
void screen_draw(struct display *s);
/* Lines between the head and the last line. */
int screen_body_height(const struct display *s);
/* The next key: a character, or SPECIAL(KEY_...). A resized window is a key, too. */
wint_t screen_read_key(struct display *s);
bool key_is_enter(wint_t key);
/* How far a key moves in what has `height` lines; 0: it does not. */
long key_moves(wint_t key, int height);
/* Ask in the last line; `answer` gets what was typed, with a NUL. false: it was left. */
bool screen_ask(struct display *s, const char *question, struct text *answer);

/* Lines to read, or to choose one of. */
struct list {
    const char *title;
    struct text *text; /* lines, each with a NUL behind it */
    bool choose;       /* one of them is chosen */
    bool over;         /* stands in a part of the screen, over the lines */
    size_t at;         /* the line chosen at first */
    size_t top;
    VEC(size_t) lines; /* private: where they begin */
};
/* Show it until it is left. Returns the line chosen; -1: none. */
long screen_run_list(struct display *s, struct list *l);

/* Do what a key does; -1 ends the browser with the error. */
int screen_take_key(struct display *s, wint_t key, struct error *err);

#endif
