/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf: find the command and run it. It is also installed as perf-lj, so that perf finds it. */
#include "cmd/cmd.h"
#include "cmd/command_line.h"
#include "version.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Print the help of ljperf itself, with the list of commands, on stdout or stderr. */
static int print_help(FILE *to)
{
    struct text out = {0};
    options_put_help(&main_command_line, &out);
    text_string(&out, "\nCommands:\n");
    for (const struct command *c = commands; c->name; c++)
        text_printf(&out, "  %-12s %s\n", c->name, c->summary);
    text_string(&out, "\n"
                      "Record with: ljperf record COMMAND\n"
                      "         or: perf record --call-graph=dwarf,65528 -k mono COMMAND\n"
                      "More: ljperf COMMAND --help, man ljperf\n");
    fwrite(out.at, 1, out.size, to);
    text_free(&out);
    return 0;
}

static const struct command *find_command(const char *name)
{
    for (const struct command *c = commands; c->name; c++)
        if (strcmp(name, c->name) == 0)
            return c;
    return NULL;
}

static int print_version(void)
{
    puts("ljperf version " LJPERF_VERSION);
    return 0;
}

static int run_command(int argc, char **argv)
{
    if (strcmp(argv[0], "version") == 0)
        return print_version();
    if (strcmp(argv[0], "help") == 0) {
        const struct command *about = argc > 1 ? find_command(argv[1]) : NULL;
        return about ? about->run(2, (char *[]){argv[1], "--help", NULL}) : print_help(stdout);
    }
    const struct command *command = find_command(argv[0]);
    if (command)
        return command->run(argc, argv);
    fprintf(stderr, "ljperf: '%s' is not a ljperf-command. See 'ljperf --help'.\n", argv[0]);
    return EXIT_BAD_USAGE;
}

int main(int argc, char **argv)
{
    struct main_options options = {0};
    struct options_parsed parsed;
    struct error err = {0};
    /* After the user has quit a pager, writes fail with EPIPE, and the command ends quietly. */
    signal(SIGPIPE, SIG_IGN);
    if (options_parse(&main_command_line, (void *const[]){&options}, argc, argv, &parsed, &err) < 0)
        return command_line_error(&main_command_line, &parsed, &err);
    if (parsed.help)
        return print_help(stdout);
    if (options.version)
        return print_version();
    if (options.no_pager) /* as perf and git tell it to whatever they start */
        setenv("LJPERF_PAGER", "cat", 1);
    if (parsed.first < argc)
        return run_command(argc - parsed.first, argv + parsed.first);
    print_help(stderr);
    return EXIT_BAD_USAGE;
}
