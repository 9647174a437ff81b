/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Colors for text on a terminal. Commands print the same text everywhere; the colors are added on
 * its way to the terminal, by what each line is:
 *
 * - Comments, which begin with #, are dim.
 * - Percentages at the beginning of a line, of rows and of call trees, have perf's colors: red from
 *   5 %, green from 0.5 % on.
 * - Verdicts of ljperf doctor are green, yellow or red.
 * - Of a frame (docs/output.md) the module and the note are dim; the note is yellow if it says that
 *   the frame is not proven.
 * - The program's messages have no colors.
 */
#ifndef OUTPUT_COLOR_H
#define OUTPUT_COLOR_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

/* Whether the user wants no colors anywhere (https://no-color.org): any value of NO_COLOR but an
 * empty one counts. */
bool colors_are_unwanted(void);

/* The text goes through in pieces of any size. All zeros: its beginning. */
struct coloring {
    struct text line; /* begun, and not ended yet */
};

/* Append the whole lines of a piece of text to `ret`, with colors. Without the escape sequences of
 * the colors, `ret` is what was put in. */
void coloring_put(struct coloring *c, const char *bytes, size_t size, struct text *ret);
/* Append the rest of a text that does not end with a line feed, and free what is kept. */
void coloring_end(struct coloring *c, struct text *ret);

#endif
