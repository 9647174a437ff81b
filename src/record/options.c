/* SPDX-License-Identifier: GPL-2.0-only */
/* The options and their behaviour are perf record's. The differences (the default call graph, the
 * clock) serve this program's purpose. */
#include "record/options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    DEFAULT_FREQUENCY = 4000, /* perf's default */
    DEFAULT_ZSTD = 1,         /* perf's default */
    DEFAULT_MAX_LOG = 1 << 30,
    ZSTD_MAX = 22,
    RING_MAX_SHIFT = 30,
    PIDS_MAX = 1 << 20,
};

const char record_usage[] =
    "Usage: ljperf record [options] [--] COMMAND [arguments]\n"
    "       ljperf record [options] -p PID | -t TID | -u USER | -a [-- COMMAND]\n"
    "\n"
    "Records samples with their stacks into a perf.data, which perf reads as well.\n"
    "\n"
    "What to record:\n"
    "  -e, --event LIST     events, as perf list names them (cycles, else cpu-clock)\n"
    "  -F, --freq HZ        samples a second, or max (4000)\n"
    "  -c, --count N        one sample every N events instead\n"
    "  -g                   call graphs, as --call-graph says (the default)\n"
    "      --call-graph HOW dwarf[,BYTES] of stack (65528), fp, or none\n"
    "      --all-user       user code only\n"
    "      --all-kernel     kernel code only\n"
    "  -k, --clockid CLOCK  clock of the samples (mono)\n"
    "Whom:\n"
    "  -p, --pid LIST       these processes\n"
    "  -t, --tid LIST       these threads\n"
    "  -u, --uid USER       this user's processes\n"
    "  -a, --all-cpus       everything\n"
    "  -C, --cpu LIST       everything on these cpus (0,2-5)\n"
    "  -i, --no-inherit     not the children and new threads\n"
    "      --exclude-perf   not ljperf itself\n"
    "      --strict-freq    fail if -F is more than the machine allows\n"
    "  -D, --delay MS       begin so many ms after the start\n"
    "Where to:\n"
    "  -o, --output FILE    recording to write (perf.data; - for a pipe)\n"
    "  -z, --compression-level LEVEL  compress with zstd; -z alone is level 1\n"
    "  -m, --mmap-pages SIZE  ring of each cpu, in pages or as 16M (by the rate)\n"
    "      --max-size SIZE  stop when the file is that large\n"
    "      --max-log SIZE   no more than that of VMs' objects in a file (1G)\n"
    "      --switch-output WHEN  begin a new file: signal (SIGUSR2), a size (100M) or a time "
    "(30s)\n"
    "      --switch-max-files N  keep so many of the last files only\n"
    "      --timestamp-filename  the file's name ends in the time\n"
    "Other:\n"
    "  -r, --realtime PRIO  record with this SCHED_FIFO priority\n"
    "      --dry-run        check the options, and no more\n"
    "      --no-vm          no copies of Lua stacks and objects, nor behind holes in stacks\n"
    "  -q, --quiet          say nothing but errors\n"
    "  -v, --verbose        say more\n"
    "  -h, --help           this text\n"
    "perf's, always so:\n"
    "  -T, --timestamp           times\n"
    "  -P, --period              periods\n"
    "  -R, --raw-samples         what tracepoints say\n"
    "  -N, --no-buildid-cache    no copies of files are kept\n"
    "      --sample-cpu          processors\n"
    "      --sample-identifier   ids\n"
    "      --timestamp-boundary  times of the first and last sample\n"
    "      --buildid-all         build ids of all files\n"
    "      --buildid-mmap        build ids in map records\n";

/* ---- values -------------------------------------------------------------------------------- */

int size_parse(const char *text, uint64_t *ret, bool *unit)
{
    static const struct {
        char letter;
        unsigned shift;
    } units[] = {{'B', 0}, {'K', 10}, {'M', 20}, {'G', 30}};
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || errno)
        return -1;
    *unit = *end != 0;
    for (size_t i = 0; *end && i < sizeof(units) / sizeof(*units); i++)
        if ((*end & ~0x20) == units[i].letter && !end[1]) {
            *ret = value << units[i].shift;
            return *ret >> units[i].shift == value ? 0 : -1;
        }
    *ret = value;
    return *end ? -1 : 0;
}

int ring_size_parse(const char *text, uint64_t page, uint64_t *ret, struct error *err)
{
    uint64_t value;
    bool unit;
    if (size_parse(text, &value, &unit) < 0 || !value ||
        value > (UINT64_C(1) << RING_MAX_SHIFT) / (unit ? 1 : page))
        return error_set(err, ERROR_FORMAT,
                         "-m: '%s' is no ring size (pages, or bytes as 512K, 16M; 1G at most)",
                         text);
    if (!unit)
        value *= page;
    *ret = page;
    while (*ret < value) /* perf rounds up, too */
        *ret *= 2;
    return 0;
}

static int number_parse(const char *text, const char *what, uint64_t *ret, struct error *err)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno)
        return error_set(err, ERROR_FORMAT, "%s: '%s' is no number", what, text);
    *ret = value;
    return 0;
}

static int pids_parse(const char *text, const char *what, pid_vec *to, struct error *err)
{
    const char *p = text;
    while (*p >= '0' && *p <= '9' && to->nr < PIDS_MAX) {
        char *end;
        unsigned long value = strtoul(p, &end, 10);
        if (!value || value > INT32_MAX)
            break;
        if (!vec_push(to, (pid_t)value))
            return error_no_memory(err);
        if (!*end)
            return 0;
        if (*end != ',')
            break;
        p = end + 1;
    }
    return error_set(err, ERROR_FORMAT, "%s: '%s' is not a list of numbers (as 12,34)", what, text);
}

static int clock_parse(const char *text, struct record_options *o, struct error *err)
{
    static const struct {
        const char *name;
        int id;
    } clocks[] = {{"mono", CLOCK_MONOTONIC},
                  {"monotonic", CLOCK_MONOTONIC},
                  {"raw", CLOCK_MONOTONIC_RAW},
                  {"monotonic_raw", CLOCK_MONOTONIC_RAW},
                  {"real", CLOCK_REALTIME},
                  {"realtime", CLOCK_REALTIME},
                  {"boot", CLOCK_BOOTTIME},
                  {"boottime", CLOCK_BOOTTIME},
                  {"tai", CLOCK_TAI}};
    if (strncasecmp(text, "CLOCK_", 6) == 0)
        text += 6;
    o->use_clockid = true;
    for (size_t i = 0; i < sizeof(clocks) / sizeof(*clocks); i++)
        if (strcasecmp(text, clocks[i].name) == 0) {
            o->clockid = clocks[i].id;
            return 0;
        }
    return error_set(err, ERROR_FORMAT,
                     "-k: '%s' is no clock (mono, mono_raw, real, boot, tai are: as monotonic)",
                     text);
}

static int callgraph_parse(const char *text, struct record_options *o, struct error *err)
{
    uint64_t size = STACK_MAX;
    if (strcmp(text, "fp") == 0 || strcmp(text, "none") == 0 || strcmp(text, "no") == 0) {
        o->callgraph = *text == 'f' ? CALLGRAPH_FP : CALLGRAPH_NONE;
        return 0;
    }
    if (strncmp(text, "dwarf", 5) != 0 || (text[5] && text[5] != ','))
        return error_set(err, ERROR_FORMAT,
                         "--call-graph: '%s' is not known (dwarf[,BYTES], fp or none are)", text);
    if (text[5] && number_parse(text + 6, "--call-graph", &size, err) < 0)
        return -1;
    size = (size + 7) & ~UINT64_C(7);
    if (!size || size > STACK_MAX)
        return error_set(err, ERROR_FORMAT, "--call-graph: a stack copy has 8 to %d bytes, not %s",
                         STACK_MAX, text + 6);
    o->callgraph = CALLGRAPH_DWARF;
    o->stack_size = (uint32_t)size;
    return 0;
}

/* Parse as perf does: signal, a size with a unit, or a time with s, m, h, d. */
static int switch_parse(const char *text, struct record_options *o, struct error *err)
{
    static const struct {
        char letter;
        uint64_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char *end;
    bool unit;
    if (strcmp(text, "signal") == 0) {
        o->switch_mode = SWITCH_SIGNAL;
        return 0;
    }
    /* As in perf, "1m" is a minute and "1M" a megabyte. */
    uint64_t value = strtoull(text, &end, 10);
    for (size_t i = 0; end > text && *end && i < sizeof(units) / sizeof(*units); i++)
        if (*end == units[i].letter && !end[1] && value && value < 1000000) {
            o->switch_mode = SWITCH_TIME;
            o->switch_ns = value * units[i].seconds * 1000000000;
            return 0;
        }
    if (size_parse(text, &o->switch_size, &unit) == 0 && unit && o->switch_size) {
        o->switch_mode = SWITCH_SIZE;
        return 0;
    }
    return error_set(err, ERROR_FORMAT,
                     "--switch-output: '%s' is neither signal, a size (100M) nor a time (30s)",
                     text);
}

static int frequency_parse(const char *text, struct record_options *o, struct error *err)
{
    o->user_frequency = true;
    o->max_frequency = strcmp(text, "max") == 0;
    if (o->max_frequency)
        return 0;
    if (number_parse(text, "-F", &o->frequency, err) < 0)
        return -1;
    return o->frequency ? 0 : error_set(err, ERROR_FORMAT, "-F: 0 samples a second are none");
}

static int zstd_parse(const char *text, struct record_options *o, struct error *err)
{
    uint64_t level = DEFAULT_ZSTD;
    if (text && number_parse(text, "-z", &level, err) < 0)
        return -1;
    if (level > ZSTD_MAX)
        return error_set(err, ERROR_FORMAT, "-z: levels go from 1 to %d (0: do not compress)",
                         ZSTD_MAX);
    o->zstd_level = (int)level;
    return 0;
}

static int most_parse(const char *text, const char *what, uint64_t *ret, struct error *err)
{
    bool unit;
    if (size_parse(text, ret, &unit) < 0 || !*ret)
        return error_set(err, ERROR_FORMAT, "%s: '%s' is no size (as 500M)", what, text);
    return 0;
}

static int count_parse(const char *text, const char *what, uint64_t most, uint64_t *ret,
                       struct error *err)
{
    if (number_parse(text, what, ret, err) < 0)
        return -1;
    return *ret && *ret <= most ? 0
                                : error_set(err, ERROR_FORMAT, "%s: '%s' is not from 1 to %" PRIu64,
                                            what, text, most);
}

static int realtime_parse(const char *text, struct record_options *o, struct error *err)
{
    uint64_t priority = 0;
    if (count_parse(text, "-r", 99, &priority, err) < 0)
        return -1;
    o->realtime = (int)priority;
    return 0;
}

/* ---- the command line ---------------------------------------------------------------------- */

enum {
    OPT_CALL_GRAPH = 0x100,
    OPT_MAX_SIZE,
    OPT_MAX_LOG,
    OPT_SWITCH_OUTPUT,
    OPT_ALL_USER,
    OPT_ALL_KERNEL,
    OPT_EXCLUDE_PERF,
    OPT_NO_VM,
    OPT_INHERIT,
    OPT_SWITCH_FILES,
    OPT_TIMESTAMP_NAME,
    OPT_STRICT_FREQ,
    OPT_DRY_RUN,
    OPT_ALWAYS, /* options that are always on */
};

static const struct option long_options[] = {
    {"event", required_argument, NULL, 'e'},
    {"freq", required_argument, NULL, 'F'},
    {"count", required_argument, NULL, 'c'},
    {"pid", required_argument, NULL, 'p'},
    {"tid", required_argument, NULL, 't'},
    {"uid", required_argument, NULL, 'u'},
    {"all-cpus", no_argument, NULL, 'a'},
    {"cpu", required_argument, NULL, 'C'},
    {"call-graph", required_argument, NULL, OPT_CALL_GRAPH},
    {"clockid", required_argument, NULL, 'k'},
    {"compression-level", optional_argument, NULL, 'z'},
    {"output", required_argument, NULL, 'o'},
    {"mmap-pages", required_argument, NULL, 'm'},
    {"delay", required_argument, NULL, 'D'},
    {"no-inherit", no_argument, NULL, 'i'},
    {"inherit", no_argument, NULL, OPT_INHERIT},
    {"max-size", required_argument, NULL, OPT_MAX_SIZE},
    {"max-log", required_argument, NULL, OPT_MAX_LOG},
    {"switch-output", optional_argument, NULL, OPT_SWITCH_OUTPUT},
    {"all-user", no_argument, NULL, OPT_ALL_USER},
    {"all-kernel", no_argument, NULL, OPT_ALL_KERNEL},
    {"exclude-perf", no_argument, NULL, OPT_EXCLUDE_PERF},
    {"no-vm", no_argument, NULL, OPT_NO_VM},
    {"switch-max-files", required_argument, NULL, OPT_SWITCH_FILES},
    {"timestamp-filename", no_argument, NULL, OPT_TIMESTAMP_NAME},
    {"strict-freq", no_argument, NULL, OPT_STRICT_FREQ},
    {"realtime", required_argument, NULL, 'r'},
    {"dry-run", no_argument, NULL, OPT_DRY_RUN},
    {"timestamp", no_argument, NULL, OPT_ALWAYS},
    {"period", no_argument, NULL, OPT_ALWAYS},
    {"raw-samples", no_argument, NULL, OPT_ALWAYS},
    {"sample-cpu", no_argument, NULL, OPT_ALWAYS},
    {"sample-identifier", no_argument, NULL, OPT_ALWAYS},
    {"timestamp-boundary", no_argument, NULL, OPT_ALWAYS},
    {"buildid-all", no_argument, NULL, OPT_ALWAYS},
    {"buildid-mmap", no_argument, NULL, OPT_ALWAYS},
    {"no-buildid-cache", no_argument, NULL, OPT_ALWAYS},
    {"quiet", no_argument, NULL, 'q'},
    {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int what_option(int option, char *value, struct record_options *o, struct error *err)
{
    switch (option) {
    case 'e':
        return event_specs_parse(value, &o->events, err);
    case 'F':
        return frequency_parse(value, o, err);
    case 'c':
        return number_parse(value, "-c", &o->period, err);
    case OPT_CALL_GRAPH:
        return callgraph_parse(value, o, err);
    case 'k':
        return clock_parse(value, o, err);
    case OPT_ALL_USER:
        o->all_user = true;
        return 0;
    case OPT_ALL_KERNEL:
        o->all_kernel = true;
        return 0;
    case OPT_STRICT_FREQ:
        o->strict_frequency = true;
        return 0;
    case OPT_ALWAYS:
    case 'g': /* --call-graph, before or after it, says how */
    case 'T':
    case 'P':
    case 'R':
    case 'N':
        return 0;
    default:
        return 1;
    }
}

static int whom_option(int option, char *value, struct record_options *o, struct error *err)
{
    switch (option) {
    case 'p':
        return pids_parse(value, "-p", &o->pids, err);
    case 't':
        return pids_parse(value, "-t", &o->tids, err);
    case 'u':
        o->uid = value;
        return 0;
    case 'a':
        o->all_cpus = true;
        return 0;
    case 'C':
        o->cpus = value;
        return 0;
    case 'i':
    case OPT_INHERIT:
        o->no_inherit = option == 'i';
        return 0;
    case OPT_EXCLUDE_PERF:
        o->exclude_self = true;
        return 0;
    case 'D':
        if (strcmp(value, "-1") == 0)
            return error_set(err, ERROR_FORMAT,
                             "-D -1 waits for perf's --control, which is not here; name the ms");
        return number_parse(value, "-D", &o->delay_ms, err);
    default:
        return 1;
    }
}

static int other_option(int option, char *value, struct record_options *o, struct error *err)
{
    switch (option) {
    case 'o':
        o->output = value;
        return 0;
    case 'z':
        return zstd_parse(value, o, err);
    case 'm':
        return ring_size_parse(value, (uint64_t)sysconf(_SC_PAGESIZE), &o->ring_bytes, err);
    case OPT_MAX_SIZE:
        return most_parse(value, "--max-size", &o->max_size, err);
    case OPT_MAX_LOG:
        return most_parse(value, "--max-log", &o->max_log, err);
    case OPT_SWITCH_OUTPUT:
        return switch_parse(value ? value : "signal", o, err);
    case OPT_SWITCH_FILES:
        return count_parse(value, "--switch-max-files", INT32_MAX, &o->switch_files, err);
    case OPT_TIMESTAMP_NAME:
        o->timestamp_name = true;
        return 0;
    case 'r':
        return realtime_parse(value, o, err);
    case OPT_DRY_RUN:
        o->dry_run = true;
        return 0;
    case OPT_NO_VM:
        o->no_vm = true;
        return 0;
    case 'q':
        o->quiet = true;
        return 0;
    case 'v':
        o->verbose = true;
        return 0;
    default:
        o->help = option == 'h';
        return o->help ? 0 : 1;
    }
}

/* As in perf, options that name tasks override those that name cpus, and -p and -t override -u. */
static void override(struct record_options *o, bool tasks)
{
    bool named = o->pids.nr || o->tids.nr;
    if (named && o->uid) {
        o->overridden = "-u is not followed: -p or -t name tasks";
        o->uid = NULL;
    }
    if (tasks && (o->all_cpus || o->cpus)) {
        o->overridden = "-a and -C are not followed: -p, -t or -u name tasks";
        o->all_cpus = false;
        o->cpus = NULL;
    }
}

static int unknown_option(int option, const char *argument, struct error *err)
{
    char name[3] = {'-', (char)option, 0};
    const char *shown = option && strncmp(argument, "--", 2) != 0 ? name : argument;
    if (perf_record_option(shown))
        return error_set(err, ERROR_FORMAT,
                         "%s: perf record has that option, ljperf record does not: leave it out, "
                         "or record with perf, whose files are read as well",
                         shown);
    return error_set(err, ERROR_FORMAT, "%s: there is no such option (--help lists them)", shown);
}

static int check(struct record_options *o, struct error *err)
{
    bool tasks = o->pids.nr || o->tids.nr || o->uid;
    if (o->help)
        return 0;
    if (!tasks && !o->all_cpus && !o->cpus && !o->command)
        return error_set(err, ERROR_FORMAT, "name a command, -p PID or -a (see --help)");
    override(o, tasks);
    if (o->all_user && o->all_kernel)
        return error_set(err, ERROR_FORMAT, "--all-user and --all-kernel leave nothing");
    bool names = o->switch_mode != SWITCH_NEVER || o->timestamp_name;
    if (names && o->output && strcmp(o->output, "-") == 0)
        return error_set(err, ERROR_FORMAT, "%s needs a file to write (-o)",
                         o->timestamp_name ? "--timestamp-filename" : "--switch-output");
    if (!o->events.nr)
        return event_specs_default(&o->events, err);
    return 0;
}

int record_options_parse(int argc, char **argv, struct record_options *ret, struct error *err)
{
    *ret = (struct record_options){.frequency = DEFAULT_FREQUENCY,
                                   .max_log = DEFAULT_MAX_LOG,
                                   .callgraph = CALLGRAPH_DWARF,
                                   .stack_size = STACK_MAX,
                                   .use_clockid = true,
                                   .clockid = CLOCK_MONOTONIC,
                                   .argc = argc,
                                   .argv = argv};
    int option;
    optind = 0; /* glibc: start again; '+': stop at the command, whose options are its own */
    opterr = 0;
    while ((option = getopt_long(argc, argv, "+:e:F:c:gp:t:u:aC:k:z::o:m:D:ir:qvhTPRN",
                                 long_options, NULL)) != -1) {
        if (option == ':')
            return error_set(err, ERROR_FORMAT, "%s needs a value", argv[optind - 1]);
        if (option == '?')
            return unknown_option(optopt, argv[optind - 1], err);
        int r = what_option(option, optarg, ret, err);
        if (r > 0)
            r = whom_option(option, optarg, ret, err);
        if (r > 0)
            r = other_option(option, optarg, ret, err);
        if (r < 0)
            return -1;
    }
    if (optind < argc)
        ret->command = argv + optind;
    return check(ret, err);
}

void record_options_free(struct record_options *o)
{
    event_specs_free(&o->events);
    vec_free(&o->pids);
    vec_free(&o->tids);
}
