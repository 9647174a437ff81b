/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ncurses is loaded when a browser opens. If the program were linked with it, ncurses and its
 * tables would make every start of the program execute two thirds more instructions.
 */
#ifndef OUTPUT_CURSES_LIBRARY_H
#define OUTPUT_CURSES_LIBRARY_H

#include "base/error.h"

#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <curses.h>

#define CURSES_FUNCTIONS(X) \
    X(newterm)              \
    X(endwin)               \
    X(delscreen)            \
    X(raw)                  \
    X(noecho)               \
    X(nonl)                 \
    X(keypad)               \
    X(set_escdelay)         \
    X(start_color)          \
    X(use_default_colors)   \
    X(COLOR_PAIR)           \
    X(init_pair)            \
    X(curs_set)             \
    X(clearok)              \
    X(werase)               \
    X(wmove)                \
    X(waddnwstr)            \
    X(wattrset)             \
    X(wrefresh)             \
    X(wget_wch)             \
    X(wtimeout)             \
    X(mousemask)            \
    X(mouseinterval)        \
    X(getmouse)             \
    X(getmaxx)              \
    X(getmaxy)

/* The functions of ncurses by their own names. */
struct curses {
    void *library;
    SCREEN *terminal;
    WINDOW *window; /* the whole screen */
#define CURSES_MEMBER(name) __typeof__(name) *name;
    CURSES_FUNCTIONS(CURSES_MEMBER)
#undef CURSES_MEMBER
};

/* Load the library and take the terminal of standard input and output. Fails if there is no library
 * or no terminal, or if ncurses does not know the terminal (TERM). A failure changes nothing. */
int curses_open(struct curses *c, struct error *err);
void curses_close(struct curses *c);

#endif
