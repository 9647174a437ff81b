/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf snapshot: read beside perf the data of LuaJIT and V8 that plain perf record lacks. */
#include "live/snapshot.h"
#include "cmd/cmd.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: ljperf snapshot -p PID [options] [-- COMMAND]\n"
    "\n"
    "Reads what names the Lua and JavaScript functions of running processes, and their Lua stacks\n"
    "at an interval, beside a recording by perf itself:\n"
    "\n"
    "    perf record --call-graph=dwarf,65528 -k mono -p PID -- sleep 10 &\n"
    "    ljperf snapshot -p PID -- sleep 10\n"
    "    ljperf report --snapshot snapshot.data\n"
    "\n"
    "The processes are not stopped. Without COMMAND or --duration: until Ctrl-C, or their end.\n"
    "\n"
    "  -p, --pid LIST       processes (comma separated)\n"
    "  -o, --output FILE    where to (snapshot.data; an older one becomes snapshot.data.old)\n"
    "      --every TIME     between readings of Lua stacks: 10ms, 500us, 1s; 0: none (10ms)\n"
    "      --duration S     seconds; 0: everything once\n"
    "      --perf PID       a running perf record -a: copies of Lua stacks with each of its\n"
    "                       samples, in its own file. It must have been started with\n"
    "                       '-e bpf-output/no-inherit=1,call-graph=no,period=1,name=ljperf/'\n"
    "  -q, --quiet          only errors\n"
    "  -v, --verbose        say more\n"
    "  -h, --help           this text\n";

enum { OPT_EVERY = 0x1000, OPT_DURATION, OPT_PERF };

static const struct option options[] = {
    {"pid", required_argument, NULL, 'p'},
    {"output", required_argument, NULL, 'o'},
    {"every", required_argument, NULL, OPT_EVERY},
    {"duration", required_argument, NULL, OPT_DURATION},
    {"perf", required_argument, NULL, OPT_PERF},
    {"quiet", no_argument, NULL, 'q'},
    {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

struct snapshot_command {
    struct snapshot_options o;
    bool quiet, verbose, help;
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

static int parse_pids(const char *text, pid_vec *list, struct error *err)
{
    pid_t pid;
    for (const char *at = text; *at;) {
        if (!parse_pid(&at, &pid))
            return error_set(err, ERROR_FORMAT, "-p: '%s' is not a list of process ids", text);
        if (!vec_push(list, pid))
            return error_no_memory(err);
    }
    return 0;
}

static int take_option(struct snapshot_command *c, int option, const char *value, struct error *err)
{
    enum { EVERY_MIN = 100000 };
    struct snapshot_options *o = &c->o;
    switch (option) {
    case 'p':
        return parse_pids(value, &o->pids, err);
    case 'o':
        o->output = value;
        return 0;
    case OPT_EVERY:
        if (parse_time(value, 1e6, &o->every_ns) && (!o->every_ns || o->every_ns >= EVERY_MIN))
            return 0;
        return error_set(err, ERROR_FORMAT, "--every: '%s' is not a time (as 10ms; 100us at least)",
                         value);
    case OPT_DURATION:
        o->has_duration = true;
        if (parse_time(value, 1e9, &o->duration_ns))
            return 0;
        return error_set(err, ERROR_FORMAT, "--duration: '%s' is not a time (as 10 or 500ms)",
                         value);
    case OPT_PERF:
        if (parse_pid(&value, &o->perf) && !*value)
            return 0;
        return error_set(err, ERROR_FORMAT, "--perf: '%s' is not a process id", value);
    case 'q':
        c->quiet = true;
        return 0;
    case 'v':
        c->verbose = true;
        return 0;
    default:
        c->help = true;
        return 0;
    }
}

static int parse(int argc, char **argv, struct snapshot_command *c, struct error *err)
{
    int option;
    *c = (struct snapshot_command){
        .o = {.output = "snapshot.data", .every_ns = 10000000, .argc = argc, .argv = argv}};
    optind = 1;
    while ((option = getopt_long(argc, argv, "+p:o:qvh", options, NULL)) != -1) {
        if (option == '?')
            return error_set(err, ERROR_FORMAT, "see: ljperf snapshot --help");
        if (take_option(c, option, optarg, err) < 0)
            return -1;
    }
    if (optind < argc)
        c->o.command = argv + optind;
    if (!c->help && !c->o.pids.nr)
        return error_set(err, ERROR_FORMAT, "whom? -p PID (see: ljperf snapshot --help)");
    if (c->o.command && c->o.has_duration)
        return error_set(err, ERROR_FORMAT, "--duration and a command both say when to end");
    return 0;
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
                "ljperf snapshot: %" PRIu64 " parts of objects are left out: more memory than is "
                "kept\n",
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
    if (c->o.perf)
        fprintf(stderr, ", %" PRIu64 " of %" PRIu64 " samples with a copy", r->copies,
                r->copies_of);
    fputs(" ]\n", stderr);
    if (!r->processes)
        fprintf(stderr, "ljperf snapshot: no VM was found in what was asked for\n");
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
    struct error err = {0};
    int status;
    if (parse(argc, argv, &c, &err) < 0) {
        fprintf(stderr, "ljperf snapshot: %s\n", err.text);
        status = EXIT_BAD_USAGE;
    } else if (c.help) {
        fputs(usage, stdout);
        status = 0;
    } else {
        status = run(&c);
    }
    vec_free(&c.o.pids);
    return status;
}
