/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf alloc-replay: compare allocators by the calls of a trace. */
#include "alloc/replay.h"
#include "cmd/cmd.h"
#include "cmd/command_line.h"
#include "cmd/common.h"
#include "cmd/installed_file.h"
#include "output/alloc_replay.h"
#include "output/json.h"
#include "output/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALLOCATORS_MAX = 64, REPEAT_MAX = 64 };

struct replay_command {
    const char *path;
    name_list allocators;
    unsigned repeat;
    uint64_t max_memory; /* MiB */
    const char *plot;
    bool keep_gaps, json;
};

static const struct option_row rows[] = {
    {ROW_NAMES(0, "allocator", "LIST", struct replay_command, allocators,
               "Replay with these: glibc, jemalloc, tcmalloc, mimalloc, or a library by its path, "
               "or by the name that the dynamic linker looks for. Default: those of the four that "
               "are installed."),
     .words = allocator_names},
    {ROW_NUMBER(0, "repeat", "N", struct replay_command, repeat, 1, REPEAT_MAX,
                "Replay N times with each, as fast as it goes and in order. Default: 3.")},
    {ROW_FLAG(0, "keep-gaps", struct replay_command, keep_gaps,
              "Where memory is measured, make no call before its time in the trace: for allocators "
              "that give memory back after a while. Each of these runs then takes as long as the "
              "program.")},
    {ROW_STRING(0, "plot", "FILE", struct replay_command, plot,
                "Draw the memory of each allocator over the calls, as an SVG.")},
    {ROW_NUMBER(0, "max-memory", "MIB", struct replay_command, max_memory, 1, 1 << 24,
                "Refuse a trace whose blocks at once, or whose calls (48 bytes each), need more. "
                "Default: 4096.")},
    {ROW_FLAG(0, "json", struct replay_command, json, "Print one JSON document.")},
    {ROW_HELP},
    {0},
};

static int take_path(void *target, char *text, struct error *err)
{
    struct replay_command *r = target;
    if (r->path)
        return error_set(err, ERROR_FORMAT, "only one trace can be replayed");
    r->path = text;
    return 0;
}

const struct option_set alloc_replay_command_line = {
    .name = "ljperf alloc-replay",
    .usage = "TRACE [--allocator LIST] [options]",
    .about = "Makes the calls of a trace (ljperf alloc-trace) with several allocators, each in a\n"
             "process of its own, and prints time for each call, the most resident memory, and\n"
             "that at the end. Each allocator takes some 30 to 100 ns for each call, N times, and\n"
             "once more in the order of the trace: some microseconds wherever threads alternate.\n",
    .sections = {{.rows = rows}},
    .arguments = ARGUMENTS_TAKEN,
    .argument = take_path,
    .argument_name = "FILE",
};

struct replaying {
    const struct replay_command *command;
    char replayer[INSTALLED_PATH_MAX];
    struct alloc_trace *trace;
    struct alloc_plan plan;
    VEC(struct alloc_outcome) outcomes;
};

static int run_allocator(struct replaying *r, struct alloc_outcome *o, struct error *err)
{
    const uint64_t peak = alloc_trace_counts(r->trace)->peak;
    const enum alloc_pace pace = r->command->keep_gaps ? ALLOC_PACED : ALLOC_ORDERED;
    for (unsigned i = 0; i < r->command->repeat; i++) {
        if (alloc_replay_run(&r->plan, r->replayer, ALLOC_FREE, peak, o, err) ||
            alloc_replay_run(&r->plan, r->replayer, pace, peak, o, err))
            return -1;
    }
    return 0;
}

/* Replay with one allocator. One that nobody has named may be missing. */
static int add_allocator(struct replaying *r, const char *name, bool is_named, struct error *err)
{
    struct alloc_outcome o = {.allocator = allocator_of(name)};
    int failed = run_allocator(r, &o, err);
    if (!failed && !vec_push(&r->outcomes, o))
        failed = error_no_memory(err);
    if (!failed)
        return 0;
    alloc_outcome_free(&o);
    if (is_named || err->kind != ERROR_NOT_FOUND)
        return -1;
    fprintf(stderr, "ljperf alloc-replay: without %s: %s\n", name, err->text);
    return 0;
}

static int run_allocators(struct replaying *r, struct error *err)
{
    const name_list *named = &r->command->allocators;
    for (unsigned i = 0; !named->nr && allocator_names[i]; i++) {
        if (add_allocator(r, allocator_names[i], false, err))
            return -1;
    }
    vec_foreach (name, named) {
        if (add_allocator(r, *name, true, err))
            return -1;
    }
    return r->outcomes.nr ? 0 : error_set(err, ERROR_NOT_FOUND, "no allocator could be used");
}

static int put_results(const struct replaying *r, struct error *err)
{
    const struct alloc_comparison c = {.path = r->command->path,
                                       .trace = r->trace,
                                       .plan = &r->plan,
                                       .outcomes = r->outcomes.at,
                                       .nr = r->outcomes.nr,
                                       .repeat = r->command->repeat};
    struct text out = {0};
    int failed = 0;
    if (r->command->plot) {
        alloc_put_plot(&c, &out);
        failed = common_write(r->command->plot, &out, err);
        text_free(&out);
    }
    if (failed || !r->command->json) {
        alloc_put_table(&c, &out);
        failed = failed ? failed : common_write(NULL, &out, err);
        text_free(&out);
        return failed;
    }
    struct json *j = json_create(stdout);
    if (!j)
        return error_no_memory(err);
    alloc_put_json(&c, j);
    return json_finish(j) ? common_end_output(stdout, NULL, err) : error_no_memory(err);
}

static int run(const struct replay_command *command, struct error *err)
{
    struct replaying r = {.command = command, .plan = {.fd = -1}};
    int failed = installed_file("ljperf-replay", r.replayer, err);
    if (!failed)
        failed = alloc_trace_open(command->path, &r.trace, err);
    if (!failed)
        failed = alloc_plan_create(r.trace, command->max_memory << 20, &r.plan, err);
    if (!failed && command->keep_gaps && alloc_trace_info(r.trace)->ns_per_tick <= 0)
        failed =
            error_set(err, ERROR_UNSUPPORTED,
                      "--keep-gaps: %.100s does not tell how fast its clock was", command->path);
    if (!failed)
        failed = run_allocators(&r, err);
    if (!failed)
        failed = put_results(&r, err);
    vec_foreach (o, &r.outcomes)
        alloc_outcome_free(o);
    vec_free(&r.outcomes);
    alloc_plan_free(&r.plan);
    alloc_trace_close(r.trace);
    return failed;
}

int cmd_alloc_replay(int argc, char **argv)
{
    struct replay_command r = {.repeat = 3, .max_memory = 4096};
    struct options_parsed parsed;
    struct error err = {0};
    int status =
        command_line_parse(&alloc_replay_command_line, (void *const[]){&r}, argc, argv, &parsed);
    if (status < 0 && !r.path) {
        error_set(&err, ERROR_FORMAT, "no trace is named");
        status = command_line_error(&alloc_replay_command_line, NULL, &err);
    } else if (status < 0 && r.allocators.nr > ALLOCATORS_MAX) {
        error_set(&err, ERROR_FORMAT, "more than %d allocators are named", ALLOCATORS_MAX);
        status = command_line_error(&alloc_replay_command_line, NULL, &err);
    } else if (status < 0) {
        status = run(&r, &err) ? command_error("alloc-replay", &err, EXIT_BAD_INPUT) : 0;
    }
    vec_free(&r.allocators);
    return status;
}
