/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf snapshot: read beside perf the data of LuaJIT, plain Lua and V8 that plain perf record
 * lacks. */
#include "live/snapshot.h"
#include "cmd/cmd.h"
#include "cmd/command_line.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct snapshot_command {
    struct snapshot_options o;
    bool quiet, verbose;
};

/* Convert "10ms" to ns; without a unit, the number counts units of `unit` ns. */
static bool parse_time(const char *text, double unit, uint64_t *ret)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 6e10}};
    const double MAX = 1e18;
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    double value = strtod(text, &end);
    for (size_t i = 0; *end && i < sizeof(units) / sizeof(*units); i++)
        if (strcmp(end, units[i].name) == 0) {
            unit = units[i].ns;
            end += strlen(end);
        }
    if (*end || !(value * unit < MAX))
        return false;
    *ret = (uint64_t)(value * unit);
    return true;
}

static bool parse_pid(const char **text, pid_t *ret)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    unsigned long value = strtoul(*text, &end, 10);
    if (!value || value > INT32_MAX || (*end && *end != ','))
        return false;
    *text = *end ? end + 1 : end;
    *ret = (pid_t)value;
    return true;
}

static int take_pids(void *target, const struct option_value *v, struct error *err)
{
    struct snapshot_command *c = target;
    pid_t pid;
    for (const char *at = v->text; *at;) {
        if (!parse_pid(&at, &pid))
            return option_error(v, err, "expects a list of process ids (as 12,34), not `%.60s'",
                                v->text);
        if (!vec_push(&c->o.pids, pid))
            return error_no_memory(err);
    }
    return 0;
}

static int take_every(void *target, const struct option_value *v, struct error *err)
{
    enum { EVERY_MIN_NS = 100000 };
    struct snapshot_options *o = &((struct snapshot_command *)target)->o;
    if (parse_time(v->text, 1e6, &o->every_ns) && (!o->every_ns || o->every_ns >= EVERY_MIN_NS))
        return 0;
    return option_error(v, err, "expects a time such as 10ms, at least 100us, or 0, not `%.60s'",
                        v->text);
}

static int take_duration(void *target, const struct option_value *v, struct error *err)
{
    struct snapshot_options *o = &((struct snapshot_command *)target)->o;
    o->has_duration = true;
    if (parse_time(v->text, 1e9, &o->duration_ns))
        return 0;
    return option_error(v, err, "expects a time such as 10 or 500ms, not `%.60s'", v->text);
}

static const struct option_row rows[] = {
    {ROW_CALL('p', "pid", "LIST", take_pids, "Read these processes (separated by commas)."),
     .list = true},
    {ROW_STRING('o', "output", "FILE", struct snapshot_command, o.output,
                "Write to FILE (snapshot.data). An older file is renamed to snapshot.data.old.")},
    {ROW_CALL(0, "every", "TIME", take_every,
              "Read the Lua stacks at this interval: 10ms, 500us, 1s; 0 reads no stacks (10ms).")},
    {ROW_CALL(0, "duration", "S", take_duration, "End after S seconds. 0 reads everything once.")},
    {ROW_NUMBER(0, "perf", "PID", struct snapshot_command, o.perf, 1, INT32_MAX,
                "Copy Lua stacks with each sample of a running perf record -a, into its own file. "
                "That perf must have been started with '-e bpf-output/no-inherit=1,call-graph=no,"
                "period=1,name=ljperf/'.")},
    {ROW_FLAG('q', "quiet", struct snapshot_command, quiet, "Print only errors.")},
    {ROW_FLAG('v', "verbose", struct snapshot_command, verbose, "Print more messages.")},
    {ROW_HELP},
    {0},
};

const struct option_set snapshot_command_line = {
    .name = "ljperf snapshot",
    .usage = "-p PID [options] [-- COMMAND]",
    .about =
        "Reads the data that names the Lua and JavaScript functions of running processes, and\n"
        "their Lua stacks at an interval, beside a recording by perf itself:\n"
        "\n"
        "    perf record --call-graph=dwarf,65528 -k mono -p PID -- sleep 10 &\n"
        "    ljperf snapshot -p PID -- sleep 10\n"
        "    ljperf report --snapshot snapshot.data\n"
        "\n"
        "The processes are not stopped. Without COMMAND or --duration, snapshot reads until\n"
        "Ctrl-C or until the processes end.\n",
    .sections = {{.rows = rows}},
    .arguments = ARGUMENTS_COMMAND,
    .argument_name = "COMMAND",
};

/* Returns -1 to go on, or the status to exit with. */
static int parse(int argc, char **argv, struct snapshot_command *c)
{
    struct options_parsed parsed;
    struct error err = {0};
    *c = (struct snapshot_command){
        .o = {.output = "snapshot.data", .every_ns = 10000000, .argc = argc, .argv = argv}};
    int status =
        command_line_parse(&snapshot_command_line, (void *const[]){c}, argc, argv, &parsed);
    if (status >= 0)
        return status;
    if (parsed.first < argc)
        c->o.command = argv + parsed.first;
    if (!c->o.pids.nr)
        error_set(&err, ERROR_FORMAT, "no process is named: give -p PID");
    else if (c->o.command && c->o.has_duration)
        error_set(&err, ERROR_FORMAT, "a command and --duration cannot be given together");
    return err.kind == ERROR_NONE ? -1 : command_line_error(&snapshot_command_line, NULL, &err);
}

static void say(void *context, bool detail, const char *line)
{
    const struct snapshot_command *c = context;
    if (!c->quiet && (!detail || c->verbose))
        fprintf(stderr, "ljperf snapshot: %s\n", line);
}

static void print_outcome(const struct snapshot_command *c, const struct snapshot_outcome *r)
{
    if (r->refused)
        fprintf(stderr,
                "ljperf snapshot: %" PRIu64
                " parts of objects are left out, because they exceed the memory that is kept\n",
                r->refused);
    if (c->quiet)
        return;
    fprintf(stderr, "[ ljperf snapshot: wrote %.3f MB %s", (double)r->bytes / 1024.0 / 1024.0,
            c->o.output);
    if (r->vms)
        fprintf(stderr, ", %" PRIu64 " Lua VMs, stacks read %" PRIu64 " times", r->vms, r->ticks);
    if (r->functions)
        fprintf(stderr, ", %" PRIu64 " JavaScript functions, %" PRIu64 " pieces of code",
                r->functions, r->code);
    if (r->kept)
        fprintf(stderr, ", %" PRIu64 " perf maps and jitdumps", r->kept);
    if (c->o.perf)
        fprintf(stderr, ", %" PRIu64 " of %" PRIu64 " samples with a copy", r->copies,
                r->copies_of);
    fputs(" ]\n", stderr);
    if (!r->processes && !r->kept)
        fprintf(stderr, "ljperf snapshot: no VM was found in the given processes\n");
}

static int run(struct snapshot_command *c)
{
    struct snapshot_outcome r;
    struct error err = {0};
    if (snapshot_run(&c->o, say, c, &r, &err) < 0) {
        fprintf(stderr, "ljperf snapshot: %s\n", err.text);
        return r.exec_errno == ENOENT ? 127 : r.exec_errno ? 126 : EXIT_BAD_INPUT;
    }
    print_outcome(c, &r);
    return r.has_child && !r.child_told ? end_like(r.child_status, 0) : 0;
}

int cmd_snapshot(int argc, char **argv)
{
    struct snapshot_command c;
    int status = parse(argc, argv, &c);
    if (status < 0)
        status = run(&c);
    vec_free(&c.o.pids);
    return status;
}
