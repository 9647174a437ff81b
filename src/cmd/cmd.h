/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The commands, one file each. A command gets its own name as argv[0] and returns the exit status:
 * 0 done, 1 bad input or nothing to show, 2 bad usage.
 */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include <stdbool.h>

struct option_set;

enum { EXIT_BAD_INPUT = 1, EXIT_BAD_USAGE = 2 };

/* End as perf does when its command has ended (`status`: from waitpid()). If a signal ended the
 * command, or if the signal `by` (not 0) ended us, raise that signal. Otherwise returns the
 * command's exit status. */
int end_like(int status, int by);

/* Record for a command that reads the recording itself: as cmd_record(), but the closing lines name
 * the file only if it is `kept`. quiet: print only errors. */
int record_for_command(int argc, char **argv, bool kept, bool quiet);

int cmd_script(int argc, char **argv);
int cmd_fold(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_flamegraph(int argc, char **argv);
int cmd_html(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_annotate(int argc, char **argv);
int cmd_traces(int argc, char **argv);
int cmd_leaks(int argc, char **argv);
int cmd_inject(int argc, char **argv);
int cmd_archive(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_snapshot(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_bt(int argc, char **argv);
int cmd_heap(int argc, char **argv);
int cmd_alloc_trace(int argc, char **argv);
int cmd_alloc_replay(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_completion(int argc, char **argv);

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const struct option_set *command_line;
    const char *summary;
};

/* All commands, up to one without a name. */
extern const struct command commands[];
/* Options of ljperf itself, which precede the command; stored in a struct main_options. */
struct main_options {
    bool version, no_pager;
};
extern const struct option_set main_command_line;

#endif
