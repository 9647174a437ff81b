/* SPDX-License-Identifier: GPL-2.0-only */
/* Loads ncurses and takes the terminal. */
#include "output/curses_library.h"
#include "output/color.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

static int load(struct curses *c, struct error *err)
{
    c->library = dlopen("libncursesw.so." TEXT(NCURSES_VERSION_MAJOR), RTLD_NOW | RTLD_LOCAL);
    if (!c->library)
        return error_set(err, ERROR_UNSUPPORTED, "%s (--stdio prints text)", dlerror());
    const char *missing = NULL;
#define LOAD(name)                                          \
    c->name = (__typeof__(name) *)dlsym(c->library, #name); \
    missing = c->name ? missing : #name;
    CURSES_FUNCTIONS(LOAD)
#undef LOAD
    if (!missing)
        return 0;
    return error_set(err, ERROR_UNSUPPORTED, "ncurses has no %s (--stdio prints text)", missing);
}

static int take_terminal(struct curses *c, struct error *err)
{
    const char *name = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return error_set(err, ERROR_UNSUPPORTED,
                         "standard input and output are not a terminal (--stdio prints text)");
    c->terminal = c->newterm(NULL, stdout, stdin);
    WINDOW **window = (WINDOW **)dlsym(c->library, "stdscr");
    if (!c->terminal || !window || !*window)
        return error_set(err, ERROR_UNSUPPORTED, "terminal '%s' is not known (--stdio prints text)",
                         name ? name : "");
    c->window = *window;
    c->raw();
    c->noecho();
    c->nonl();
    c->keypad(c->window, true);
    c->set_escdelay(50);
    c->curs_set(0);
    c->mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
    c->mouseinterval(0); /* a press is told at once: nobody waits for a double click */
    if (!colors_are_unwanted()) {
        c->start_color();
        c->use_default_colors();
    }
    return 0;
}

int curses_open(struct curses *c, struct error *err)
{
    *c = (struct curses){0};
    if (load(c, err) == 0 && take_terminal(c, err) == 0)
        return 0;
    curses_close(c);
    return -1;
}

void curses_close(struct curses *c)
{
    if (c->terminal) {
        c->endwin();
        c->delscreen(c->terminal);
    }
    /* The library stays loaded, because its signal handlers may be in use. */
    *c = (struct curses){0};
}
