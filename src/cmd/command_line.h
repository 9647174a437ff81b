/* SPDX-License-Identifier: GPL-2.0-only */
/* Command lines: each command has one option_set, which base/options.h describes. */
#ifndef CMD_COMMAND_LINE_H
#define CMD_COMMAND_LINE_H

#include "base/options.h"

extern const struct option_set script_command_line, report_command_line, fold_command_line,
    flamegraph_command_line, html_command_line, export_command_line, diff_command_line,
    annotate_command_line, traces_command_line, leaks_command_line, top_command_line,
    inject_command_line, archive_command_line, dump_command_line, bt_command_line,
    heap_command_line, doctor_command_line, snapshot_command_line, completion_command_line,
    explain_command_line, alloc_trace_command_line, alloc_replay_command_line;

/* Parse a command line. Prints --help on stdout and errors on stderr. Returns -1 to go on, or the
 * status to exit with. */
int command_line_parse(const struct option_set *set, void *const *targets, int argc, char **argv,
                       struct options_parsed *ret);

/* Print --help on stdout. Returns the status to exit with. */
int command_line_help(const struct option_set *set);

/* Print an error of the command line on stderr, with the command's usage. Returns EXIT_BAD_USAGE.
 */
int command_line_error(const struct option_set *set, const struct options_parsed *p,
                       const struct error *err);

#endif
