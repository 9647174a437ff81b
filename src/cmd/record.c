/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf record: perf record with trimmed stacks, and with the data that generated code needs. */
#include "cmd/cmd.h"
#include "cmd/command_line.h"
#include "base/text.h"
#include "output/output.h"
#include "perfdata/perfdata.h"
#include "record/options.h"
#include "record/record.h"
#include "record/resident.h"
#include "record/target.h"
#include "live/process_watch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { EXIT_NOT_FOUND = 127, EXIT_NOT_EXECUTABLE = 126 };

/* Print a line. Strangers may have chosen names in it. */
static void print_line(const char *line)
{
    struct text clean = {0};
    text_clean(&clean, line);
    fprintf(stderr, *line == '[' ? "%.*s\n" : "ljperf record: %.*s\n", (int)clean.size,
            clean.at ? clean.at : "");
    text_free(&clean);
}

static void say(void *context, bool detail, const char *line)
{
    const struct record_options *o = context;
    if (!o->quiet && (!detail || o->verbose))
        print_line(line);
}

static double seconds(const struct timeval *t)
{
    return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

/* Print perf's closing lines, and losses with their cure. */
static void print_outcome(const struct record_options *o, const struct record_outcome *r,
                          const struct rusage *reader)
{
    if (o->quiet || !r->path)
        return;
    if (!o->unnamed)
        fprintf(stderr, "[ ljperf record: Woken up %" PRIu64 " times to write data ]\n", r->woken);
    fprintf(stderr, "[ ljperf record: Captured and wrote %.3f MB%s%s (%" PRIu64 " samples) ]\n",
            (double)r->bytes / 1024.0 / 1024.0, o->unnamed ? "" : " ", o->unnamed ? "" : r->path,
            r->samples);
    struct rusage used;
    if (o->verbose && getrusage(RUSAGE_SELF, &used) == 0)
        fprintf(stderr,
                "ljperf record: used %.3f s of processor time itself, %.3f s of it in the kernel\n",
                seconds(&used.ru_utime) + seconds(&used.ru_stime) + seconds(&reader->ru_utime) +
                    seconds(&reader->ru_stime),
                seconds(&used.ru_stime) + seconds(&reader->ru_stime));
    if (r->given_up)
        fprintf(stderr,
                "ljperf record: the last %" PRIu64
                " KB were cut off, so that %s is complete up to there\n",
                (r->given_up + 1023) >> 10, o->unnamed ? "the recording" : r->path);
}

static void print_losses(const struct record_options *o, const struct record_outcome *r)
{
    const struct perfdata_loss loss = {.samples_lost = r->samples_lost,
                                       .records_lost = r->records_lost,
                                       .events_lost = r->events_lost};
    struct text lost = {0};
    if (loss_put(&lost, &loss))
        fprintf(stderr,
                "ljperf record: %.*s were lost beside %" PRIu64 " samples: the rings (%" PRIu64
                " KiB a cpu) were full; larger ones (-m %" PRIu64
                "M) or fewer samples (-F 999) keep them\n",
                (int)lost.size, lost.at, r->samples, r->ring_bytes >> 10,
                r->ring_bytes >> 19 ? r->ring_bytes >> 19 : 1);
    text_free(&lost);
    if (r->throttled && !o->quiet)
        fprintf(stderr,
                "ljperf record: throttled %" PRIu64 " times by the kernel (sysctl "
                "kernel.perf_cpu_time_max_percent and perf_event_max_sample_rate)\n",
                r->throttled);
    if (r->bad)
        fprintf(stderr, "ljperf record: %" PRIu64 " samples do not have the requested layout\n",
                r->bad);
}

static int exit_like(const struct record_outcome *r)
{
    if (!r->signal && r->child_told) /* a requested limit was reached: not the command's failure */
        return 0;
    return end_like(r->has_child ? r->child_status : 0, r->signal);
}

/* Whether the copier's maps and events would leave too few descriptors to the recorder. */
static bool has_few_descriptors(struct record_options *o)
{
    enum { FEW = 64, OF_A_CPU = 4 };
    struct rlimit now;
    const long cpus = sysconf(_SC_NPROCESSORS_CONF);
    if (getrlimit(RLIMIT_NOFILE, &now) < 0 ||
        now.rlim_cur >= FEW + OF_A_CPU * (rlim_t)(cpus > 0 ? cpus : 1))
        return false;
    char line[160];
    snprintf(line, sizeof(line),
             "Lua stacks are read after the samples, not with them: only %llu descriptors may be "
             "open (ulimit -n)",
             (unsigned long long)now.rlim_cur);
    say(o, false, line);
    return true;
}

/* What may not probe programs records which memory becomes resident, in place of allocations. */
static int replace_alloc(struct record_options *o, struct process_watch *watch, struct error *err)
{
    if (!o->alloc_bytes || !geteuid() || !watch || !process_watch_reads_late(watch))
        return 0;
    process_watch_leave_alloc(watch);
    say(o, false,
        "--alloc: functions that allocate cannot be probed without privileges; faults of pages are "
        "recorded in their place, as memory that becomes resident (--rss). Root's --alloc tells "
        "what is asked for, what is freed, and leaks");
    return o->resident_hz ? 0 : record_options_add_resident(o, err);
}

/* Record; unless disabled, also the data beside samples that managed code needs. `reader`: what the
 * processes used that read these. */
static int run(struct record_options *o, struct record_outcome *r, struct rusage *reader,
               struct error *err)
{
    const struct process_watch_options options = {
        .no_copier = !o->no_vm && has_few_descriptors(o),
        .max_log = o->max_log,
        .stack = o->callgraph == CALLGRAPH_DWARF ? o->stack_size : 0,
        .off_cpu = {o->off_cpu_ns, o->runqueue, o->waker},
        .alloc = {.mean = o->alloc_bytes, .force = o->alloc_force}};
    struct process_watch *watch = o->no_vm ? NULL : process_watch_create(&options, say, o);
    if (!watch && !o->no_vm)
        return error_no_memory(err);
    if (replace_alloc(o, watch, err) < 0) {
        process_watch_free(watch);
        return -1;
    }
    if (o->resident_hz)
        resident_say_limits(say, o);
    o->wake_each = watch && process_watch_reads_late(watch);
    o->wake_early = watch != NULL;
    int failed = record_run(o, watch ? process_watch_hooks(watch) : NULL, say, o, r, err);
    if (watch)
        *reader = process_watch_used(watch);
    process_watch_free(watch);
    return failed;
}

/* Record as the options say; returns the status to exit with. */
static int record(struct record_options *o)
{
    struct record_outcome r = {0};
    struct rusage reader = {0};
    struct error err = {0};
    int status;
    o->descriptors = descriptors_allow();
    int failed = run(o, &r, &reader, &err);
    if (failed)
        print_line(err.text);
    print_outcome(o, &r, &reader);
    print_losses(o, &r);
    if (!failed)
        status = exit_like(&r);
    else if (r.exec_errno)
        status = r.exec_errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
    else
        status = EXIT_BAD_INPUT;
    record_outcome_free(&r);
    return status;
}

/* How long this will take, for those who asked for something else than a recording. */
static void announce(const struct record_options *o)
{
    const double NS = 1e9;
    if (o->command || o->quiet)
        return;
    if (o->duration_ns)
        fprintf(stderr, "[ ljperf record: recording for %g s, or until Ctrl-C ]\n",
                (double)o->duration_ns / NS);
    else
        fputs("[ ljperf record: recording until Ctrl-C ]\n", stderr);
}

/* A command that reads the recording itself. */
struct record_caller {
    bool keeps; /* the user keeps the recording */
    bool quiet;
};

static int run_command_line(int argc, char **argv, const struct record_caller *caller)
{
    struct record_options o;
    struct options_parsed parsed;
    struct error err = {0};
    int status = 0;
    if (record_options_parse(argc, argv, &o, &parsed, &err) < 0) {
        status = command_line_error(&record_command_line, &parsed, &err);
    } else if (parsed.help) {
        status = command_line_help(&record_command_line);
    } else if (!o.dry_run) {
        o.unnamed = caller && !caller->keeps;
        o.quiet |= caller && caller->quiet;
        if (caller)
            announce(&o);
        status = record(&o);
    }
    record_options_free(&o);
    return status;
}

int record_for_command(int argc, char **argv, bool kept, bool quiet)
{
    return run_command_line(argc, argv, &(struct record_caller){kept, quiet});
}

int cmd_record(int argc, char **argv)
{
    return run_command_line(argc, argv, NULL);
}
