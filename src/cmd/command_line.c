/* SPDX-License-Identifier: GPL-2.0-only */
/* Parses command lines, and prints help and errors. */
#include "cmd/command_line.h"
#include "cmd/cmd.h"
#include "cmd/terminal.h"
#include "output/output.h"

#include <stdio.h>
#include <unistd.h>

int command_line_error(const struct option_set *set, const struct options_parsed *p,
                       const struct error *err)
{
    struct text out = {0};
    options_put_error(set, p, err, &out);
    fwrite(out.at, 1, out.size, stderr);
    text_free(&out);
    return EXIT_BAD_USAGE;
}

int command_line_help(const struct option_set *set)
{
    const struct terminal_options plain = {.color = COLOR_NEVER};
    struct terminal *t = terminal_open(&plain);
    struct text out = {0};
    struct error err;
    bool closed = false;
    options_put_help(set, &out);
    int status = text_write(&out, STDOUT_FILENO, &closed, &err) < 0 ? EXIT_BAD_INPUT : 0;
    text_free(&out);
    return terminal_close(t, status);
}

int command_line_parse(const struct option_set *set, void *const *targets, int argc, char **argv,
                       struct options_parsed *ret)
{
    struct error err = {0};
    if (options_parse(set, targets, argc, argv, ret, &err) < 0)
        return command_line_error(set, ret, &err);
    return ret->help ? command_line_help(set) : -1;
}
