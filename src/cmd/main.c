/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf: find the command and run it. It is also installed as perf-lj, so that perf finds it. */
#include "cmd/cmd.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#ifndef LJPERF_VERSION
#define LJPERF_VERSION "0.1"
#endif

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    {"record", cmd_record, "a recording, as perf record makes them, with trimmed stacks"},
    {"snapshot", cmd_snapshot, "what perf record lacks of LuaJIT and V8, read beside it"},
    {"script", cmd_script, "every sample with its stack, as perf script prints it"},
    {"report", cmd_report, "where the time went: overhead by function, call trees"},
    {"fold", cmd_fold, "folded stacks, for flame graph tools"},
    {"flamegraph", cmd_flamegraph, "a picture of it all, as one SVG file"},
    {"export", cmd_export, "a file for pprof, speedscope, Firefox, Chrome, KCachegrind, or JSON"},
    {"diff", cmd_diff, "what a new version takes more time for; for CI: gates and verdicts"},
    {"annotate", cmd_annotate, "a function's source or machine code, with weights"},
    {"inject", cmd_inject, "a recording for perf and others: mixed stacks as callchains"},
    {"archive", cmd_archive, "what a recording needs elsewhere: programs, debug files, jitdumps"},
    {"dump", cmd_dump, "the records of a file, decoded"},
    {"bt", cmd_bt, "the stacks of a live process or a core, now"},
    {"doctor", cmd_doctor, "what this machine can record; how well a file unwinds"},
};

enum { NR_COMMANDS = sizeof(commands) / sizeof(*commands) };

static void print_help(FILE *out)
{
    fputs("ljperf " LJPERF_VERSION " - whole, true stacks out of perf.data\n"
          "\n"
          "Usage: ljperf COMMAND [options]        (or: perf lj COMMAND [options])\n"
          "\n",
          out);
    for (int i = 0; i < NR_COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("\n"
          "Record with: ljperf record COMMAND\n"
          "         or: perf record --call-graph=dwarf,65528 -k mono COMMAND\n"
          "More: ljperf COMMAND --help, man ljperf\n",
          out);
}

static const struct command *find_command(const char *name)
{
    for (int i = 0; i < NR_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    /* After the user has quit a pager, writes fail with EPIPE, and the command ends quietly. */
    signal(SIGPIPE, SIG_IGN);
    if (!name) {
        print_help(stderr);
        return EXIT_BAD_USAGE;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        puts("ljperf version " LJPERF_VERSION);
        return 0;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(name, "help") == 0) {
        const struct command *about = argc > 2 ? find_command(argv[2]) : NULL;
        if (about)
            return about->run(2, (char *[]){argv[2], "--help", NULL});
        print_help(stdout);
        return 0;
    }
    const struct command *command = find_command(name);
    if (!command) {
        fprintf(stderr, "ljperf: no command is called '%s'; see: ljperf --help\n", name);
        return EXIT_BAD_USAGE;
    }
    return command->run(argc - 1, argv + 1);
}
