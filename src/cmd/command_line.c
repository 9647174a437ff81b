/* SPDX-License-Identifier: GPL-2.0-only */
/* Parses command lines, and prints help and errors. */
#include "cmd/command_line.h"
#include "cmd/cmd.h"

#include <stdio.h>

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
    struct text out = {0};
    options_put_help(set, &out);
    fwrite(out.at, 1, out.size, stdout);
    int status = out.failed || fflush(stdout) != 0 ? EXIT_BAD_INPUT : 0;
    text_free(&out);
    return status;
}

int command_line_parse(const struct option_set *set, void *const *targets, int argc, char **argv,
                       struct options_parsed *ret)
{
    struct error err = {0};
    if (options_parse(set, targets, argc, argv, ret, &err) < 0)
        return command_line_error(set, ret, &err);
    return ret->help ? command_line_help(set) : -1;
}
