/* SPDX-License-Identifier: GPL-2.0-only */
/* The options and their behaviour are perf record's. The differences (the default call graph, the
 * clock) serve this program's purpose. */
#include "record/options.h"

#include <errno.h>
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
    DEFAULT_OFF_CPU_US = 1000,
    DEFAULT_ALLOC_BYTES = 512 << 10,
    ALLOC_BYTES_MAX = 1 << 30,
    RESIDENT_HZ = 4000, /* samples a second at most; below, each fault is one */
    OFF_CPU_US_MAX = 4000000,
    ZSTD_MAX = 22,
    RING_MAX_SHIFT = 30,
    PIDS_MAX = 1 << 20,
};

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

int ring_size_parse(const char *text, uint64_t page, uint64_t *ret)
{
    uint64_t value;
    bool unit;
    if (size_parse(text, &value, &unit) < 0 || !value ||
        value > (UINT64_C(1) << RING_MAX_SHIFT) / (unit ? 1 : page))
        return -1;
    if (!unit)
        value *= page;
    *ret = page;
    while (*ret < value) /* perf rounds up, too */
        *ret *= 2;
    return 0;
}

static int number_parse(const struct option_value *v, const char *text, uint64_t *ret,
                        struct error *err)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno)
        return option_error(v, err, "expects a numerical value, not `%.60s'", text);
    *ret = value;
    return 0;
}

static int pids_parse(const struct option_value *v, pid_vec *to, struct error *err)
{
    const char *p = v->text;
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
    return option_error(v, err, "expects a list of numbers (as 12,34), not `%.60s'", v->text);
}

static int take_pids(void *target, const struct option_value *v, struct error *err)
{
    return pids_parse(v, &((struct record_options *)target)->pids, err);
}

static int take_tids(void *target, const struct option_value *v, struct error *err)
{
    return pids_parse(v, &((struct record_options *)target)->tids, err);
}

static int take_clock(void *target, const struct option_value *v, struct error *err)
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
    struct record_options *o = target;
    const char *text = v->text;
    if (strncasecmp(text, "CLOCK_", 6) == 0)
        text += 6;
    o->use_clockid = true;
    for (size_t i = 0; i < sizeof(clocks) / sizeof(*clocks); i++)
        if (strcasecmp(text, clocks[i].name) == 0) {
            o->clockid = clocks[i].id;
            return 0;
        }
    return option_error(v, err, "expects mono, raw, real, boot or tai, not `%.60s'", v->text);
}

static const char *clock_names(void)
{
    return "mono,raw,real,boot,tai";
}

static int take_callgraph(void *target, const struct option_value *v, struct error *err)
{
    struct record_options *o = target;
    const char *text = v->text;
    uint64_t size = STACK_MAX;
    if (strcmp(text, "fp") == 0 || strcmp(text, "none") == 0 || strcmp(text, "no") == 0) {
        o->callgraph = *text == 'f' ? CALLGRAPH_FP : CALLGRAPH_NONE;
        return 0;
    }
    if (strncmp(text, "dwarf", 5) != 0 || (text[5] && text[5] != ','))
        return option_error(v, err, "expects dwarf[,BYTES], fp or none, not `%.60s'", text);
    if (text[5] && number_parse(v, text + 6, &size, err) < 0)
        return -1;
    size = (size + 7) & ~UINT64_C(7);
    if (!size || size > STACK_MAX)
        return option_error(v, err, "expects 8 to %d bytes of stack, not `%.60s'", STACK_MAX,
                            text + 6);
    o->callgraph = CALLGRAPH_DWARF;
    o->stack_size = (uint32_t)size;
    return 0;
}

static const char *callgraph_names(void)
{
    return "dwarf,fp,none";
}

/* Take, as perf does, signal, a size with a unit, or a time with s, m, h, d. */
static int take_switch(void *target, const struct option_value *v, struct error *err)
{
    static const struct {
        char letter;
        uint64_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    struct record_options *o = target;
    char *end;
    bool unit;
    if (!v->text || strcmp(v->text, "signal") == 0) {
        o->switch_mode = SWITCH_SIGNAL;
        return 0;
    }
    /* As in perf, "1m" is a minute and "1M" a megabyte. */
    uint64_t value = strtoull(v->text, &end, 10);
    for (size_t i = 0; end > v->text && *end && i < sizeof(units) / sizeof(*units); i++)
        if (*end == units[i].letter && !end[1] && value && value < 1000000) {
            o->switch_mode = SWITCH_TIME;
            o->switch_ns = value * units[i].seconds * 1000000000;
            return 0;
        }
    if (size_parse(v->text, &o->switch_size, &unit) == 0 && unit && o->switch_size) {
        o->switch_mode = SWITCH_SIZE;
        return 0;
    }
    return option_error(v, err, "expects signal, a size (100M) or a time (30s), not `%.60s'",
                        v->text);
}

static int take_frequency(void *target, const struct option_value *v, struct error *err)
{
    struct record_options *o = target;
    o->user_frequency = true;
    o->max_frequency = strcmp(v->text, "max") == 0;
    if (o->max_frequency)
        return 0;
    if (number_parse(v, v->text, &o->frequency, err) < 0)
        return -1;
    return o->frequency ? 0 : option_error(v, err, "expects 1 sample a second or more, not `0'");
}

static int take_zstd(void *target, const struct option_value *v, struct error *err)
{
    uint64_t level = DEFAULT_ZSTD;
    if (v->text && number_parse(v, v->text, &level, err) < 0)
        return -1;
    if (level > ZSTD_MAX)
        return option_error(v, err, "expects a level from 0 to %d, not `%.60s'", ZSTD_MAX, v->text);
    struct record_options *o = target;
    o->zstd_level = (int)level;
    o->zstd_given = true;
    return 0;
}

static int take_ring_size(void *target, const struct option_value *v, struct error *err)
{
    struct record_options *o = target;
    if (ring_size_parse(v->text, (uint64_t)sysconf(_SC_PAGESIZE), &o->ring_bytes) < 0)
        return option_error(v, err,
                            "expects a size of 1G at most, in pages or as 512K or 16M, not `%.60s'",
                            v->text);
    return 0;
}

static int size_take(const struct option_value *v, uint64_t *ret, struct error *err)
{
    bool unit;
    if (size_parse(v->text, ret, &unit) < 0 || !*ret)
        return option_error(v, err, "expects a size (as 500M), not `%.60s'", v->text);
    return 0;
}

static int take_max_size(void *target, const struct option_value *v, struct error *err)
{
    return size_take(v, &((struct record_options *)target)->max_size, err);
}

static int take_max_log(void *target, const struct option_value *v, struct error *err)
{
    return size_take(v, &((struct record_options *)target)->max_log, err);
}

static int take_off_cpu(void *target, const struct option_value *v, struct error *err)
{
    struct record_options *o = target;
    uint64_t us = DEFAULT_OFF_CPU_US;
    if (v->text && number_parse(v, v->text, &us, err) < 0)
        return -1;
    if (!us || us > OFF_CPU_US_MAX)
        return option_error(v, err, "expects 1 to %d microseconds, not `%.60s'", OFF_CPU_US_MAX,
                            v->text);
    o->off_cpu_ns = us * 1000;
    return 0;
}

static int take_wall(void *target, const struct option_value *v, struct error *err)
{
    ((struct record_options *)target)->wall = true;
    return take_off_cpu(target, v, err);
}

static int take_alloc(void *target, const struct option_value *v, struct error *err)
{
    struct record_options *o = target;
    uint64_t bytes = DEFAULT_ALLOC_BYTES;
    bool unit;
    (void)err;
    if (v->text && (size_parse(v->text, &bytes, &unit) < 0 || !bytes || bytes > ALLOC_BYTES_MAX))
        return option_error(v, err, "expects 1 to %d bytes (as 64K), not `%.60s'", ALLOC_BYTES_MAX,
                            v->text);
    o->alloc_bytes = bytes;
    return 0;
}

static int take_resident(void *target, const struct option_value *v, struct error *err)
{
    struct record_options *o = target;
    o->resident_hz = RESIDENT_HZ;
    if (v->text && number_parse(v, v->text, &o->resident_hz, err) < 0)
        return -1;
    return o->resident_hz ? 0 : option_error(v, err, "expects 1 sample a second or more, not `0'");
}

static int take_events(void *target, const struct option_value *v, struct error *err)
{
    struct record_options *o = target;
    o->last_events = o->events.nr;
    return event_specs_parse(v->text, &o->events, err);
}

/* As in perf, a filter is of the tracepoints of the -e before it, and several all have to hold. */
static int take_filter(void *target, const struct option_value *v, struct error *err)
{
    struct record_options *o = target;
    if (o->last_events >= o->events.nr)
        return option_error(v, err, "has to follow the -e of its tracepoint");
    for (size_t i = o->last_events; i < o->events.nr; i++) {
        struct event_spec *spec = &o->events.at[i];
        char *both = NULL;
        if (spec->attr.type != PERF_TYPE_TRACEPOINT)
            return option_error(v, err, "is for tracepoints and probes, which `%.60s' is not",
                                spec->name);
        if ((spec->filter ? asprintf(&both, "(%s) && (%s)", spec->filter, v->text)
                          : asprintf(&both, "%s", v->text)) < 0)
            return error_no_memory(err);
        free(spec->filter);
        spec->filter = both;
    }
    return 0;
}

/* perf's names of what is sampled of branches. */
static const struct {
    const char *name;
    uint64_t bits;
} branch_filters[] = {
    {"u", PERF_SAMPLE_BRANCH_USER},
    {"k", PERF_SAMPLE_BRANCH_KERNEL},
    {"hv", PERF_SAMPLE_BRANCH_HV},
    {"any", PERF_SAMPLE_BRANCH_ANY},
    {"any_call", PERF_SAMPLE_BRANCH_ANY_CALL},
    {"any_ret", PERF_SAMPLE_BRANCH_ANY_RETURN},
    {"ind_call", PERF_SAMPLE_BRANCH_IND_CALL},
    {"abort_tx", PERF_SAMPLE_BRANCH_ABORT_TX},
    {"in_tx", PERF_SAMPLE_BRANCH_IN_TX},
    {"no_tx", PERF_SAMPLE_BRANCH_NO_TX},
    {"cond", PERF_SAMPLE_BRANCH_COND},
    {"ind_jmp", PERF_SAMPLE_BRANCH_IND_JUMP},
    {"call", PERF_SAMPLE_BRANCH_CALL},
    {"save_type", PERF_SAMPLE_BRANCH_TYPE_SAVE},
};

static const char *branch_names(void)
{
    return "u,k,hv,any,any_call,any_ret,ind_call,abort_tx,in_tx,no_tx,cond,ind_jmp,call,save_type";
}

static int take_branch_filter(void *target, const struct option_value *v, struct error *err)
{
    const uint64_t levels = PERF_SAMPLE_BRANCH_PLM_ALL | PERF_SAMPLE_BRANCH_TYPE_SAVE;
    struct record_options *o = target;
    for (const char *word = v->text;; word++) {
        const size_t size = strcspn(word, ",");
        uint64_t bits = 0;
        for (size_t i = 0; i < sizeof(branch_filters) / sizeof(*branch_filters); i++)
            if (strlen(branch_filters[i].name) == size &&
                strncmp(word, branch_filters[i].name, size) == 0)
                bits = branch_filters[i].bits;
        if (!bits)
            return option_error(v, err, "expects %s, not `%.60s'", branch_names(), word);
        o->branches |= bits;
        word += size;
        if (!*word)
            break;
    }
    if (!(o->branches & ~levels)) /* perf's default */
        o->branches |= PERF_SAMPLE_BRANCH_ANY;
    return 0;
}

static int take_branches(void *target, const struct option_value *v, struct error *err)
{
    (void)v;
    (void)err;
    ((struct record_options *)target)->branches |= PERF_SAMPLE_BRANCH_ANY;
    return 0;
}

static int take_delay(void *target, const struct option_value *v, struct error *err)
{
    if (strcmp(v->text, "-1") == 0)
        return option_error(v, err,
                            "expects milliseconds: -1 waits for perf's --control, which ljperf "
                            "record does not have");
    return number_parse(v, v->text, &((struct record_options *)target)->delay_ms, err);
}

/* Seconds, with a fraction. perf's -d has no value, and asks for addresses. */
static int take_duration(void *target, const struct option_value *v, struct error *err)
{
    const double NS = 1e9, LEAST = 0.001, MOST = 1e9;
    char *end;
    double seconds = strtod(v->text, &end);
    if (*v->text < '0' || *v->text > '9' || *end)
        return option_error(v, err, "expects seconds (as 10 or 0.5), not `%.60s'%s", v->text,
                            v->letter ? ": perf's -d is --data here" : "");
    if (!(seconds >= LEAST && seconds <= MOST))
        return option_error(v, err, "expects %g to %g seconds, not `%.60s'", LEAST, MOST, v->text);
    ((struct record_options *)target)->duration_ns = (uint64_t)(seconds * NS);
    return 0;
}

/* ---- the table ----------------------------------------------------------------------------- */

static const struct option_row what_rows[] = {
    {ROW_CALL('e', "event", "LIST", take_events,
              "Record these events, named as in perf list (cycles, or cpu-clock where there are no "
              "hardware counters)."),
     .list = true},
    {ROW_CALL('F', "freq", "HZ", take_frequency,
              "Take this number of samples a second, or max (4000).")},
    {ROW_NUMBER('c', "count", "N", struct record_options, period, 0, UINT64_MAX,
                "Take one sample every N events.")},
    {ROW_IGNORED('g', NULL, "Record call graphs, as --call-graph selects. This is the default.")},
    {ROW_CALL(0, "call-graph", "HOW", take_callgraph,
              "Record stacks by dwarf[,BYTES], fp or none (dwarf,65528)."),
     .word_list = callgraph_names},
    {ROW_CALL(0, "filter", "FILTER", take_filter,
              "Record of the tracepoints of the -e before it only what passes this filter of the "
              "kernel's.")},
    {ROW_FLAG(0, "data", struct record_options, data,
              "Record addresses of data. It is perf's -d.")},
    {ROW_FLAG('W', "weight", struct record_options, weight,
              "Record weights, where the processor tells them.")},
    {ROW_CALL('b', "branch-any", NULL, take_branches,
              "Record the branches before each sample, where the processor keeps them.")},
    {ROW_CALL('j', "branch-filter", "LIST", take_branch_filter,
              "Record these branches: u, k, hv, any, any_call, any_ret, ind_call, abort_tx, in_tx, "
              "no_tx, cond, ind_jmp, call, save_type."),
     .list = true, .word_list = branch_names},
    {ROW_FLAG('s', "stat", struct record_options, stat,
              "Record what each thread has counted when it ends, for report -T.")},
    {ROW_FLAG('n', "no-samples", struct record_options, no_samples, "Do not sample, only count.")},
    {ROW_FLAG(0, "namespaces", struct record_options, namespaces,
              "Record the namespaces of processes.")},
    {ROW_FLAG(0, "switch-events", struct record_options, switch_events,
              "Record when threads are switched.")},
    {ROW_FLAG(0, "all-cgroups", struct record_options, all_cgroups,
              "Record the control groups of samples.")},
    {ROW_FLAG(0, "all-user", struct record_options, all_user, "Sample user code only.")},
    {ROW_FLAG(0, "all-kernel", struct record_options, all_kernel, "Sample kernel code only.")},
    {ROW_CALL(
         0, "off-cpu", "US", take_off_cpu,
         "Also sample what threads wait for: each wait of US microseconds or more, shorter ones "
         "by chance (1000)."),
     .place = VALUE_ATTACHED},
    {ROW_CALL(0, "wall", "US", take_wall,
              "Sample all time: cpu-clock, and --off-cpu. report --wall adds them up."),
     .place = VALUE_ATTACHED},
    {ROW_FLAG(0, "runqueue", struct record_options, runqueue,
              "With --off-cpu or --wall: for how long a thread that could run waited for a cpu.")},
    {ROW_FLAG(0, "waker", struct record_options, waker,
              "With --off-cpu or --wall: also who woke the thread; includes --runqueue.")},
    {ROW_CALL(
         0, "alloc", "BYTES", take_alloc,
         "Also sample what allocates memory, each BYTES on average (512K). Each call of malloc "
         "costs a trap; what that takes is said, and limited to 10 % of the time (--force)."),
     .place = VALUE_ATTACHED},
    {ROW_FLAG(0, "force", struct record_options, alloc_force,
              "With --alloc: go on, whatever it costs.")},
    {ROW_CALL(
         0, "rss", "HZ", take_resident,
         "Also sample which code makes memory resident: each fault of a page, up to HZ a second "
         "(4000). Needs no privilege; --alloc does this where it may not probe."),
     .place = VALUE_ATTACHED},
    {ROW_CALL('k', "clockid", "CLOCK", take_clock,
              "Take the samples' times of this clock: mono, raw, real, boot or tai (mono)."),
     .word_list = clock_names},
    {0},
};

static const struct option_row whom_rows[] = {
    {ROW_CALL('p', "pid", "LIST", take_pids, "Record these processes."), .list = true},
    {ROW_CALL('t', "tid", "LIST", take_tids, "Record these threads."), .list = true},
    {ROW_STRING('u', "uid", "USER", struct record_options, uid, "Record this user's processes.")},
    {ROW_FLAG('a', "all-cpus", struct record_options, all_cpus, "Record everything.")},
    {ROW_STRING('C', "cpu", "LIST", struct record_options, cpus,
                "Record everything on these cpus (as 0,2-5).")},
    {ROW_STRING('G', "cgroup", "NAME", struct record_options, cgroup,
                "Record what runs in this control group and in those below it.")},
    {ROW_FLAG('N', "no-buildid-cache", struct record_options, no_buildid_cache,
              "Do not copy deleted and replaced files to the build-id cache (~/.debug).")},
    {ROW_FLAG('i', "no-inherit", struct record_options, no_inherit,
              "Do not record children and new threads.")},
    {ROW_CLEAR(0, "inherit", struct record_options, no_inherit,
               "Record children and new threads. This is the default."),
     .hidden = true},
    {ROW_FLAG(0, "exclude-perf", struct record_options, exclude_self,
              "Do not record ljperf itself.")},
    {ROW_FLAG(0, "strict-freq", struct record_options, strict_frequency,
              "Fail if -F is more than the machine allows.")},
    {ROW_CALL('D', "delay", "MS", take_delay, "Begin to record after MS milliseconds.")},
    {ROW_CALL('d', "duration", "SECONDS", take_duration,
              "End after this time (fractions are allowed). A command that still runs is ended.")},
    {0},
};

static const struct option_row where_rows[] = {
    {ROW_STRING('o', "output", "FILE", struct record_options, output,
                "Write the recording to FILE, or to a pipe with - (perf.data).")},
    {ROW_CALL(
         'z', "compression-level", "LEVEL", take_zstd,
         "Compress with zstd at this level (1; 0: not at all; a pipe is compressed only with this "
         "option)."),
     .place = VALUE_ATTACHED},
    {ROW_CALL('m', "mmap-pages", "SIZE", take_ring_size,
              "Give the ring of each cpu SIZE pages, or bytes as 16M (by the rate).")},
    {ROW_CALL(0, "max-size", "SIZE", take_max_size, "Stop when the file has this size.")},
    {ROW_CALL(0, "max-log", "SIZE", take_max_log,
              "Write at most this much of VMs' objects to a file (1G).")},
    {ROW_CALL(0, "switch-output", "WHEN", take_switch,
              "Begin a new file at SIGUSR2 (signal, the default), after a size (100M) or a time "
              "(30s)."),
     .place = VALUE_ATTACHED},
    {ROW_NUMBER(0, "switch-max-files", "N", struct record_options, switch_files, 1, INT32_MAX,
                "Keep only the last N files of --switch-output.")},
    {ROW_FLAG(0, "timestamp-filename", struct record_options, timestamp_name,
              "End the file's name with the time.")},
    {0},
};

static const struct option_row other_rows[] = {
    {ROW_NUMBER('r', "realtime", "PRIO", struct record_options, realtime, 1, 99,
                "Record with this SCHED_FIFO priority.")},
    {ROW_FLAG(0, "dry-run", struct record_options, dry_run,
              "Check the options and record nothing.")},
    {ROW_FLAG(0, "no-vm", struct record_options, no_vm,
              "Do not copy Lua stacks, objects of VMs, and stacks behind unwritten pages.")},
    {ROW_FLAG('q', "quiet", struct record_options, quiet, "Print only errors.")},
    {ROW_FLAG('v', "verbose", struct record_options, verbose, "Print more messages.")},
    {ROW_HELP},
    {0},
};

static const struct option_row always_rows[] = {
    {ROW_IGNORED('T', "timestamp", "Record times.")},
    {ROW_IGNORED('P', "period", "Record periods.")},
    {ROW_IGNORED('R', "raw-samples", "Record the data of tracepoints.")},
    {ROW_IGNORED(0, "sample-cpu", "Record the cpu of each sample.")},
    {ROW_IGNORED(0, "sample-identifier", "Record ids.")},
    {ROW_IGNORED(0, "timestamp-boundary", "Record the times of the first and last sample.")},
    {ROW_IGNORED(0, "buildid-all", "Record the build ids of all files.")},
    {ROW_IGNORED(0, "buildid-mmap", "Record build ids in map records.")},
    {0},
};

static void explain_unknown(const char *option, struct error *err)
{
    const char *instead = perf_record_instead(option);
    if (instead)
        error_set(err, ERROR_UNSUPPORTED,
                  "ljperf record does not have perf record's option `%s': %s", option, instead);
}

const struct option_set record_command_line = {
    .name = "ljperf record",
    .usage = "[options] [--] COMMAND [arguments]\n"
             "[options] -p PID | -t TID | -u USER | -a [-- COMMAND]",
    .about = "Records samples with their stacks into a perf.data, which perf also reads.\n",
    .sections = {{.title = "What to record", .rows = what_rows},
                 {.title = "Whom to record", .rows = whom_rows},
                 {.title = "Where to write", .rows = where_rows},
                 {.title = "Other options", .rows = other_rows},
                 {.title = "Options of perf that are always on", .rows = always_rows}},
    .arguments = ARGUMENTS_COMMAND,
    .argument_name = "COMMAND",
    .unknown = explain_unknown,
};

/* As in perf, options that name tasks override those that name cpus, and -p and -t override -u. */
static void override(struct record_options *o, bool tasks)
{
    bool named = o->pids.nr || o->tids.nr;
    if (named && o->uid) {
        o->overridden = "-u is ignored, because -p or -t name tasks";
        o->uid = NULL;
    }
    if (tasks && (o->all_cpus || o->cpus)) {
        o->overridden = "-a and -C are ignored, because -p, -t or -u name tasks";
        o->all_cpus = false;
        o->cpus = NULL;
    }
}

/* Time on the cpu is sampled by its clock, so that all periods are ns. */
static int check_wall(struct record_options *o, struct error *err)
{
    if (!o->events.nr)
        return event_specs_parse("cpu-clock", &o->events, err);
    vec_foreach (spec, &o->events)
        if (spec->attr.type == PERF_TYPE_SOFTWARE &&
            (spec->attr.config == PERF_COUNT_SW_CPU_CLOCK ||
             spec->attr.config == PERF_COUNT_SW_TASK_CLOCK))
            return 0;
    return error_set(err, ERROR_FORMAT,
                     "--wall needs the event cpu-clock: leave out -e, or add it");
}

/* A group's tasks come and go: events watch the cpus. */
static int check_cgroup(struct record_options *o, bool tasks, struct error *err)
{
    if (tasks)
        return error_set(err, ERROR_FORMAT, "-G and -p, -t or -u exclude each other");
    if (strchr(o->cgroup, ','))
        return error_set(err, ERROR_FORMAT,
                         "-G takes one control group, for all events; its groups below it are in "
                         "the recording, too");
    if (o->off_cpu_ns)
        return error_set(err, ERROR_FORMAT,
                         "-G and --off-cpu exclude each other: --off-cpu --all-cgroups records all "
                         "groups, and report -s cgroup tells them apart");
    o->all_cpus = !o->cpus;
    return 0;
}

static int check(struct record_options *o, struct error *err)
{
    bool tasks = o->pids.nr || o->tids.nr || o->uid;
    if (o->cgroup && check_cgroup(o, tasks, err) < 0)
        return -1;
    if (!tasks && !o->all_cpus && !o->cpus && !o->command)
        return error_set(err, ERROR_FORMAT,
                         "nothing to record is named: give a command, -p PID or -a");
    override(o, tasks);
    if (o->all_user && o->all_kernel)
        return error_set(err, ERROR_FORMAT,
                         "--all-user and --all-kernel together leave nothing to record");
    bool names = o->switch_mode != SWITCH_NEVER || o->timestamp_name;
    if (names && o->output && strcmp(o->output, "-") == 0)
        return error_set(err, ERROR_FORMAT, "%s cannot write to a pipe: give -o FILE",
                         o->timestamp_name ? "--timestamp-filename" : "--switch-output");
    if (o->no_samples && o->off_cpu_ns)
        return error_set(err, ERROR_FORMAT, "--no-samples and --off-cpu exclude each other");
    o->no_vm |= o->no_samples; /* nothing is copied where nothing is sampled */
    if (!o->off_cpu_ns && (o->runqueue || o->waker))
        return error_set(err, ERROR_FORMAT, "--%s needs --off-cpu or --wall",
                         o->waker ? "waker" : "runqueue");
    if (o->off_cpu_ns && o->no_vm)
        return error_set(err, ERROR_FORMAT,
                         "--off-cpu needs the eBPF programs that --no-vm leaves out");
    if (o->resident_hz && o->no_samples)
        return error_set(err, ERROR_FORMAT, "--rss and --no-samples exclude each other");
    if (o->alloc_bytes && (o->no_samples || o->no_vm))
        return error_set(err, ERROR_FORMAT, "--alloc excludes --no-samples and --no-vm");
    if (o->alloc_bytes && !o->command && !o->pids.nr)
        return error_set(err, ERROR_FORMAT,
                         "--alloc needs a command or processes (-p): not all of a machine can be "
                         "probed");
    if (o->wall && check_wall(o, err) < 0)
        return -1;
    if (!o->events.nr && event_specs_default(&o->events, err) < 0)
        return -1;
    return o->resident_hz ? record_options_add_resident(o, err) : 0;
}

int record_options_add_resident(struct record_options *o, struct error *err)
{
    o->resident_hz = o->resident_hz ? o->resident_hz : RESIDENT_HZ;
    return event_specs_resident(o->resident_hz, &o->events, err);
}

int record_options_parse(int argc, char **argv, struct record_options *ret,
                         struct options_parsed *parsed, struct error *err)
{
    *ret = (struct record_options){.frequency = DEFAULT_FREQUENCY,
                                   .max_log = DEFAULT_MAX_LOG,
                                   .callgraph = CALLGRAPH_DWARF,
                                   .stack_size = STACK_MAX,
                                   .use_clockid = true,
                                   .clockid = CLOCK_MONOTONIC,
                                   .argc = argc,
                                   .argv = argv};
    if (options_parse(&record_command_line, (void *const[]){ret}, argc, argv, parsed, err) < 0)
        return -1;
    if (parsed->help)
        return 0;
    if (parsed->first < argc)
        ret->command = argv + parsed->first;
    if (!ret->zstd_given && (!ret->output || strcmp(ret->output, "-") != 0))
        ret->zstd_level = DEFAULT_ZSTD; /* who reads a pipe at once gains nothing */
    return check(ret, err);
}

void record_options_free(struct record_options *o)
{
    event_specs_free(&o->events);
    vec_free(&o->pids);
    vec_free(&o->tids);
}
