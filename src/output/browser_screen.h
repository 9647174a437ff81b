/* SPDX-License-Identifier: GPL-2.0-only */
/* The display, shared by the code that draws it (browser_screen.c) and the code that acts on keys
 * (browser_keys.c). */
#ifndef OUTPUT_BROWSER_SCREEN_H
#define OUTPUT_BROWSER_SCREEN_H

#include "base/vec.h"
#include "output/browser.h"
#include "output/curses_library.h"

#include <wchar.h>

enum {
    KEY_ESCAPE = 27,
    KEY_DELETE = 127,
    FIRST_SPECIAL = 0x110000, /* ncurses' own keys start here, above any character */
};

#define CONTROL(c) ((c)&0x1f)
#define SPECIAL(key) (FIRST_SPECIAL + (key))

/* The terminal, and what it shows of the model. */
struct display {
    const struct browser_screen *in;
    struct browser *model;
    struct curses curses;
    bool utf8, titles, quit;
    struct list *list; /* the list that covers it and has the cursor; NULL: none */
    int width, height;
    int left; /* number of columns scrolled out on the left */
    struct text text;
    char message[256]; /* shown in the last line until the next key */
};

/* Draw everything. */
void screen_draw(struct display *s);
/* Returns the number of lines between the head and the last line. */
int screen_body_height(const struct display *s);
/* Wait for the next key: a character, or SPECIAL(KEY_...). A change of the window's size is a key,
 * too. */
wint_t screen_read_key(struct display *s);
/* The same, but wait at most `ms`. Returns false if there was no key. */
bool screen_wait_key(struct display *s, unsigned ms, wint_t *ret);
bool key_is_enter(wint_t key);
/* Returns how many lines a key moves in a list of `height` visible lines; 0: the key does not
 * move. */
long key_moves(wint_t key, int height);
/* Returns how many lines a key of the mouse's wheel moves, as key_moves(); 0: it was a press of the
 * button in line *y of the screen, or nothing (*y is -1). */
long screen_mouse(struct display *s, int *y);
/* Ask a question in the last line. `answer` gets the typed text with a NUL. Returns false if the
 * user left the question. */
bool screen_ask(struct display *s, const char *question, struct text *answer);

/* Lines to read or to choose from. */
struct list {
    const char *title;
    struct text *text; /* the lines, each with a NUL behind it */
    bool choose;       /* the user chooses a line */
    bool over;         /* the list covers only a part of the screen */
    size_t at;         /* the line that is selected at first */
    size_t top;
    /* Private. */
    char sought[64];   /* what / looks for */
    size_t found;      /* 1 + the line where it was found; 0: none was */
    bool missed;       /* it is in no line */
    int y, height;     /* where the lines are on the screen */
    VEC(size_t) lines; /* where the lines begin */
};
/* Show the list until the user leaves it. Returns the chosen line; -1: none. */
long screen_run_list(struct display *s, struct list *l);

/* Show newer data, if there is any. Returns -1 on an error that ends the browser. */
int screen_refresh(struct display *s, struct error *err);
/* Act on a key. Returns -1 on an error that ends the browser. */
int screen_take_key(struct display *s, wint_t key, struct error *err);

#endif
