/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Text on a terminal, as perf and git show it: through a pager, and in colors. A command prints as
 * always: its standard output is led through a thread here, which starts the pager with the first
 * byte. So what is said before, and the progress, are seen; and a command that prints nothing
 * starts no pager.
 *
 * Once the pager runs, messages go through it, too, if standard error is a terminal.
 */
#ifndef CMD_TERMINAL_H
#define CMD_TERMINAL_H

#include "base/options.h"

#include <stdbool.h>

enum terminal_color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

/* What the command line says of it. */
struct terminal_options {
    enum terminal_color color;
    bool no_pager;
};

/* The rows of --pager and --no-pager; `field_` is a struct terminal_options in the struct `type_`.
 */
#define TERMINAL_PAGER_ROWS(type_, field_)                                                       \
    {ROW_FLAG(0, "no-pager", type_, field_.no_pager,                                             \
              "Do not show text on a terminal through a pager.")},                               \
    {                                                                                            \
        ROW_CLEAR(0, "pager", type_, field_.no_pager,                                            \
                  "Show text on a terminal through $LJPERF_PAGER, else $PAGER, else less. This " \
                  "is the default.")                                                             \
    }

/* The values of --color, up to NULL, in the order of enum terminal_color. */
extern const char *const terminal_colors[];
/* Take --color[=WHEN] into the enum at `field`: COLOR_ALWAYS without a value, as perf does. */
int terminal_take_color(enum terminal_color *field, const struct option_value *v,
                        struct error *err);

struct terminal;

/* Lead standard output to a pager, if it is a terminal, and add colors, if they are wanted. The
 * pager is $LJPERF_PAGER, else $PAGER, else less; "cat" and "" are none. No pager is started with
 * privileges that the user has not: it runs any command that is typed. Returns NULL if standard
 * output stays as it is. */
struct terminal *terminal_open(const struct terminal_options *o);

/* Show the rest, and wait until the user has left the pager. Standard output is what it was before.
 * Returns the status to exit with: `status`, or another one if not all could be written. NULL is
 * fine. */
int terminal_close(struct terminal *t, int status);

#endif
