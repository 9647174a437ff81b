/* SPDX-License-Identifier: GPL-2.0-only */
/* The table of all commands. */
#include "cmd/cmd.h"
#include "cmd/command_line.h"
#include "record/options.h"

#include <stddef.h>

const struct command commands[] = {
    {"record", cmd_record, &record_command_line,
     "Record samples with their stacks, as perf record does"},
    {"top", cmd_top, &top_command_line,
     "Show which functions run now, with whole mixed stacks, as perf top does"},
    {"snapshot", cmd_snapshot, &snapshot_command_line,
     "Read the data of LuaJIT, Lua and V8 that perf record lacks, beside it"},
    {"script", cmd_script, &script_command_line,
     "Print every sample with its stack, as perf script does"},
    {"report", cmd_report, &report_command_line, "Show overhead by function, and call trees"},
    {"fold", cmd_fold, &fold_command_line, "Print folded stacks for flame graph tools"},
    {"flamegraph", cmd_flamegraph, &flamegraph_command_line, "Draw a flame graph as one SVG file"},
    {"html", cmd_html, &html_command_line,
     "Write one page with flame graph, table, callers and callees, and time"},
    {"export", cmd_export, &export_command_line,
     "Write a file for pprof, OpenTelemetry, speedscope, Firefox, Chrome, KCachegrind, or JSON"},
    {"diff", cmd_diff, &diff_command_line,
     "Compare the recordings of two versions, with gates for CI"},
    {"annotate", cmd_annotate, &annotate_command_line,
     "Print a function's source or machine code with the share of each line"},
    {"traces", cmd_traces, &traces_command_line,
     "Tell what LuaJIT and V8 compiled, and why not the rest; what V8 deoptimized"},
    {"leaks", cmd_leaks, &leaks_command_line,
     "Tell which code allocates memory that stays (record --alloc)"},
    {"inject", cmd_inject, &inject_command_line,
     "Write a recording for perf: mixed stacks as callchains"},
    {"archive", cmd_archive, &archive_command_line,
     "Pack the files that reading a recording elsewhere needs"},
    {"dump", cmd_dump, &dump_command_line, "Print the records of a file, decoded"},
    {"bt", cmd_bt, &bt_command_line, "Print the stacks of a live process or a core"},
    {"heap", cmd_heap, &heap_command_line,
     "Count the objects on the heaps of LuaJIT, Lua and V8, and how they are reached"},
    {"alloc-trace", cmd_alloc_trace, &alloc_trace_command_line,
     "Run a command, and record its calls of malloc and free"},
    {"alloc-replay", cmd_alloc_replay, &alloc_replay_command_line,
     "Compare allocators by the calls of such a trace: time and memory"},
    {"explain", cmd_explain, &explain_command_line,
     "Explain one sample's stack, frame by frame: why it is as it is"},
    {"doctor", cmd_doctor, &doctor_command_line,
     "Tell what this machine can record, and how well a file unwinds"},
    {"completion", cmd_completion, &completion_command_line,
     "Print a completion script for bash, zsh or fish"},
    {0},
};

static const struct option_row main_rows[] = {
    {ROW_FLAG('v', "version", struct main_options, version, "Print the version of ljperf.")},
    {ROW_FLAG(0, "no-pager", struct main_options, no_pager,
              "Do not show text on a terminal through a pager.")},
    {ROW_HELP},
    {0},
};

const struct option_set main_command_line = {
    .name = "ljperf",
    .usage = "[--version] [--help] [--no-pager] COMMAND [options]",
    .about =
        "ljperf turns the samples of a perf.data into whole, true stacks. As perf-lj it is also a\n"
        "command of perf: perf lj COMMAND [options].\n",
    .sections = {{.rows = main_rows}},
    .arguments = ARGUMENTS_COMMAND,
};
