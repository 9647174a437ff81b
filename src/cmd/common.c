/* SPDX-License-Identifier: GPL-2.0-only */
/* Options, messages and the summary that all commands that read a recording share. */
#include "cmd/common.h"
#include "base/private_file.h"
#include "base/heap.h"
#include "output/json.h"
#include "output/output.h"
#include "perfdata/resident.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int command_error(const char *name, const struct error *err, int status)
{
    fprintf(stderr, "ljperf %s: %s\n", name, err->text);
    return status;
}

static void show_progress(void *context, uint64_t done, uint64_t total)
{
    struct common *c = context;
    int percent = total ? (int)(done * 100 / total) : 0;
    if (!total || percent == c->progress_percent)
        return;
    if (!isatty(STDERR_FILENO)) /* any more: the text has begun */
        return;
    c->progress_percent = percent;
    c->progress_shown = true;
    char bar[41];
    memset(bar, ' ', sizeof(bar) - 1);
    memset(bar, '#', (size_t)(percent > 100 ? 100 : percent) * (sizeof(bar) - 1) / 100);
    bar[sizeof(bar) - 1] = 0;
    fprintf(stderr, "\r[%s] %3d%%", bar, percent);
}

static void end_progress(const struct common *c)
{
    if (c->progress_shown && isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

void common_init(struct common *c)
{
    *c = (struct common){.progress_percent = -1};
    heap_prepare();
    c->replay.symbols.inlines = true;
    if (isatty(STDERR_FILENO)) {
        c->replay.progress = show_progress;
        c->replay.progress_context = c;
    }
}

void common_free(struct common *c)
{
    vec_free(&c->replay.comms);
    vec_free(&c->replay.events);
    vec_free(&c->replay.pids);
    vec_free(&c->replay.tids);
    vec_free(&c->replay.cpus);
    vec_free(&c->replay.times);
    vec_free(&c->replay.shares);
    vec_free(&c->jitdumps);
    vec_free(&c->snapshots);
    free(c->weight);
    unpacked_free(c->unpacked);
    record_first_free(&c->first);
}

void common_page(struct common *c)
{
    if (!c->terminal)
        c->terminal = terminal_open(&c->text);
}

int common_end(struct common *c, int status)
{
    status = terminal_close(c->terminal, status);
    common_free(c);
    return record_first_status(&c->first, status);
}

/* ---- values -------------------------------------------------------------------------------- */

static bool parse_u32(const char **text, uint32_t *ret)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    unsigned long value = strtoul(*text, &end, 10);
    if (errno || value > UINT32_MAX)
        return false;
    *text = end;
    *ret = (uint32_t)value;
    return true;
}

/* Convert "SECONDS[.FRACTION]" to ns. */
static bool parse_seconds(const char *text, const char *end, uint64_t *ret)
{
    uint64_t ns = 0;
    uint64_t unit = 1000000000;
    bool fraction = false;
    if (text == end)
        return false;
    for (; text < end; text++) {
        if (*text == '.' && !fraction) {
            fraction = true;
            continue;
        }
        if (*text < '0' || *text > '9')
            return false;
        uint64_t digit = (uint64_t)(*text - '0');
        if (fraction) {
            unit /= 10;
            ns += digit * unit;
        } else if (__builtin_mul_overflow(ns, 10, &ns) ||
                   __builtin_add_overflow(ns, digit * 1000000000, &ns)) {
            return false;
        }
    }
    *ret = ns;
    return true;
}

/* Take numbers separated by commas; with `ranges` also ranges such as 2-5. */
static int take_numbers(const struct option_value *v, bool ranges, number_list *list,
                        struct error *err)
{
    enum { RANGE_MAX = 1 << 16 };
    const char *p = v->text;
    do {
        uint32_t from;
        uint32_t to;
        if (!parse_u32(&p, &from))
            break;
        to = from;
        if (ranges && *p == '-' && (p++, !parse_u32(&p, &to)))
            break;
        if (to < from || to - from > RANGE_MAX)
            break;
        for (uint64_t n = from; n <= to; n++)
            if (!vec_push(list, (uint32_t)n))
                return error_no_memory(err);
        if (*p == 0)
            return 0;
    } while (*p++ == ',');
    return option_error(v, err, "expects a list of numbers (as 3,5%s), not `%.60s'",
                        ranges ? ",7-9" : "", v->text);
}

/* A number up to `end`, which must be there. */
static bool parse_number(const char **text, const char *end, double *ret)
{
    char *after;
    *ret = strtod(*text, &after);
    bool good = **text >= '0' && **text <= '9' && strncmp(after, end, strlen(end)) == 0;
    *text = after + strlen(end);
    return good;
}

/* Take perf's "10%-20%" or "10%/2" (the second tenth). Several are separated by commas. */
static int take_shares(struct replay_options *o, const struct option_value *v, struct error *err)
{
    const double ALL = 100;
    const char *text = v->text;
    do {
        double first, second = 0;
        struct share_range r;
        bool is_slice;
        if (!parse_number(&text, "%", &first))
            break;
        is_slice = *text == '/';
        if ((*text != '-' && !is_slice) ||
            !(text++, parse_number(&text, is_slice ? "" : "%", &second)))
            break;
        r.from = is_slice ? first * (second - 1) / ALL : first / ALL;
        r.until = is_slice ? first * second / ALL : second / ALL;
        if (!(r.from >= 0 && r.from < r.until && r.until <= 1))
            break;
        if (!vec_push(&o->shares, r))
            return error_no_memory(err);
        if (!*text)
            return 0;
    } while (*text++ == ',');
    return option_error(
        v, err, "expects ranges as 10%%-20%% or 10%%/2 (the second tenth), not `%.60s'", v->text);
}

/* Take perf's "start,stop"; either may be missing. Several ranges are separated by blanks. */
static int take_times(void *target, const struct option_value *v, struct error *err)
{
    struct replay_options *o = &((struct common *)target)->replay;
    const char *text = v->text;
    if (strchr(text, '%'))
        return take_shares(o, v, err);
    while (*text) {
        size_t size = strcspn(text, " ");
        const char *end = text + size;
        const char *comma = memchr(text, ',', size);
        struct time_range range = {0, UINT64_MAX};
        if (!comma || (comma != text && !parse_seconds(text, comma, &range.from)) ||
            (comma + 1 != end && !parse_seconds(comma + 1, end, &range.until)))
            return option_error(
                v, err, "expects FROM,TO in seconds (as 12.5,13 or 12.5,), not `%.60s'", text);
        if (range.until != UINT64_MAX)
            range.until++; /* perf's stop is inclusive */
        if (!vec_push(&o->times, range))
            return error_no_memory(err);
        text = end + strspn(end, " ");
    }
    return 0;
}

/* The unit of a number that the kernel's tracepoints have under a name. */
static enum weight_unit usual_unit(const char *name)
{
    static const char *const ns[] = {"runtime", "delay", "duration", "runqueue"};
    static const char *const bytes[] = {"alloc_space", "inuse_space", "peak_space",
                                        "bytes_alloc", "bytes_req",   "bytes",
                                        "nr_bytes",    "len",         RESIDENT_WEIGHT};
    for (size_t i = 0; i < sizeof(ns) / sizeof(*ns); i++)
        if (strcmp(name, ns[i]) == 0)
            return UNIT_NS;
    for (size_t i = 0; i < sizeof(bytes) / sizeof(*bytes); i++)
        if (strcmp(name, bytes[i]) == 0)
            return UNIT_BYTES;
    return UNIT_COUNT;
}

/* NAME[:UNIT] */
static int take_weight(void *target, const struct option_value *v, struct error *err)
{
    static const char *const units[] = {
        [UNIT_COUNT] = "count", [UNIT_NS] = "ns", [UNIT_BYTES] = "bytes"};
    struct common *c = target;
    size_t length = strcspn(v->text, ":");
    if (!length)
        return option_error(v, err, "expects NAME or NAME:UNIT, not `%.60s'", v->text);
    free(c->weight);
    c->weight = strndup(v->text, length);
    if (!c->weight)
        return error_no_memory(err);
    c->replay.weight = c->weight;
    c->replay.weight_unit = usual_unit(c->weight);
    if (!v->text[length])
        return 0;
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
        if (strcmp(v->text + length + 1, units[i]) == 0) {
            c->replay.weight_unit = (enum weight_unit)i;
            return 0;
        }
    }
    return option_error(v, err, "expects the unit count, ns or bytes, not `%.60s'",
                        v->text + length + 1);
}

/* ---- options ------------------------------------------------------------------------------- */

static int take_pids(void *target, const struct option_value *v, struct error *err)
{
    return take_numbers(v, false, &((struct common *)target)->replay.pids, err);
}

static int take_tids(void *target, const struct option_value *v, struct error *err)
{
    return take_numbers(v, false, &((struct common *)target)->replay.tids, err);
}

static int take_cpus(void *target, const struct option_value *v, struct error *err)
{
    return take_numbers(v, true, &((struct common *)target)->replay.cpus, err);
}

static int take_color(void *target, const struct option_value *v, struct error *err)
{
    return terminal_take_color(&((struct common *)target)->text.color, v, err);
}

const struct option_row common_rows[] = {
    {ROW_STRING('i', "input", "FILE", struct common, replay.input,
                "Read this recording: a file, a directory, or - for standard input (perf.data).")},
    {ROW_NAMES(0, "comm", "NAMES", struct common, replay.comms,
               "Use only samples of these commands (separated by commas).")},
    {ROW_NAMES(0, "comms", "NAMES", struct common, replay.comms, "The same as --comm."),
     .hidden = true},
    {ROW_CALL(0, "pid", "LIST", take_pids, "Use only samples of these processes."), .list = true},
    {ROW_CALL(0, "tid", "LIST", take_tids, "Use only samples of these threads."), .list = true},
    {ROW_CALL('C', "cpu", "LIST", take_cpus, "Use only samples of these cpus (as 0,2-5)."),
     .list = true},
    {ROW_CALL(0, "time", "FROM,TO", take_times,
              "Use only samples of this time, in seconds (FROM or TO may be missing), or as "
              "10%-20% of the recording, or 10%/2.")},
    {ROW_NAMES(0, "event", "NAMES", struct common, replay.events,
               "Use only samples of these events. * and ? are patterns.")},
    {ROW_CALL(
        0, "weight", "NAME", take_weight,
        "Weigh samples by this number of a tracepoint (as ret:bytes; units: count, ns, bytes).")},
    {ROW_FLAG(0, "wall", struct common, replay.wall,
              "Add up time on the cpu (cpu-clock) and off it (offcpu-time).")},
    {ROW_FLAG(0, "idle", struct common, replay.idle,
              "Also show idle waits: of threads that wait for something to do.")},
    {ROW_NUMBER(0, "max-stack", "N", struct common, replay.max_stack, 1, UINT32_MAX,
                "Limit stacks to N frames (65536).")},
    {ROW_FLAG(0, "async", struct common, replay.awaits,
              "Show JavaScript functions that await the result, too (async).")},
    {ROW_CLEAR(0, "no-inline", struct common, replay.symbols.inlines,
               "Do not show inlined functions.")},
    {ROW_FLAG(0, "inline", struct common, replay.symbols.inlines, "Show inlined functions."),
     .hidden = true},
    {ROW_FLAG(0, "no-demangle", struct common, replay.symbols.no_demangle,
              "Show names of C++ and Rust as they are in the file.")},
    {ROW_FLAG(0, "no-join", struct common, replay.no_join,
              "Do not continue truncated stacks from earlier stacks.")},
    {ROW_STRING(0, "symfs", "DIR", struct common, replay.dso.symfs,
                "Look below DIR for the files that the recording names.")},
    {ROW_STRING(0, "debug-dir", "DIR", struct common, replay.dso.debug_dir,
                "Look for separate debug files in DIR (/usr/lib/debug).")},
    {ROW_STRING('k', "vmlinux", "FILE", struct common, replay.dso.vmlinux,
                "Take kernel symbols from this kernel image.")},
    {ROW_STRING(0, "kallsyms", "FILE", struct common, replay.dso.kallsyms,
                "Take kernel symbols from this copy of /proc/kallsyms.")},
    {ROW_APPEND(0, "jitdump", "FILE", struct common, jitdumps, "Also read this jitdump.")},
    {ROW_APPEND(0, "snapshot", "FILE", struct common, snapshots,
                "Also read memory of the recorded processes from this file, which ljperf snapshot "
                "wrote or which is a core.")},
    {ROW_FLAG(0, "no-jit", struct common, replay.session.no_jit,
              "Read neither jitdumps nor perf maps.")},
    {ROW_FLAG(0, "no-debuginfod", struct common, replay.dso.no_debuginfod,
              "Do not ask the servers of DEBUGINFOD_URLS for debug files.")},
    {ROW_FLAG('f', "force", struct common, replay.dso.force,
              "Also use files whose owner or build id does not match.")},
    {ROW_NUMBER(0, "threads", "N", struct common, replay.threads, 1, UINT32_MAX,
                "Work with N threads (as many as there are processors).")},
    {ROW_CALL(0, "color", "WHEN", take_color,
              "Color text auto (on a terminal, unless NO_COLOR is set; the default), always or "
              "never."),
     .place = VALUE_MAY_FOLLOW, .words = terminal_colors},
    {ROW_CALL(0, "stdio-color", "WHEN", take_color, "The same as --color, as perf spells it."),
     .place = VALUE_MAY_FOLLOW, .words = terminal_colors, .hidden = true},
    TERMINAL_PAGER_ROWS(struct common, text),
    {ROW_FLAG(0, "quiet", struct common, quiet, "Print no summary on standard error.")},
    {ROW_FLAG('v', "verbose", struct common, verbose, "Print more messages.")},
    {ROW_HELP},
    {0},
};

/* Opening a FIFO waits until another program opens its other end. */
static void say_fifo(const char *input)
{
    struct stat st;
    if (input && stat(input, &st) == 0 && S_ISFIFO(st.st_mode))
        fprintf(stderr, "ljperf: %s is a FIFO: waiting for the program that writes into it\n",
                input);
}

int common_take_input(void *target, char *text, struct error *err)
{
    struct common *c = target;
    if (c->replay.input)
        return error_set(err, ERROR_FORMAT, "one recording at a time: %.100s and %.100s",
                         c->replay.input, text);
    c->replay.input = text;
    return 0;
}

int common_picture_take(struct common_picture *p, char *text, struct error *err)
{
    if (p->argument)
        return error_set(err, ERROR_FORMAT, "one recording at a time: %.100s and %.100s",
                         p->argument, text);
    p->argument = text;
    return 0;
}

int common_picture_complete(struct common *c, struct common_picture *p, const char *name,
                            struct error *err)
{
    if (p->base && (!p->argument || c->replay.input || record_first_is_wanted(&c->first)))
        return error_set(err, ERROR_FORMAT, "--diff compares two recordings: --diff BASE NEW");
    if (!p->base && p->argument && common_take_input(c, p->argument, err) < 0)
        return -1;
    if (!p->output && isatty(STDOUT_FILENO))
        p->output = name;
    return 0;
}

bool common_percent(const char *text, double *ret)
{
    char *end;
    *ret = strtod(text, &end);
    return end != text && (*end == 0 || strcmp(end, "%") == 0) && *ret >= 0 && *ret <= 100;
}

int common_take_percent(double *ret, const struct option_value *v, struct error *err)
{
    return common_percent(v->text, ret)
               ? 0
               : option_error(v, err, "expects a percentage from 0 to 100, not `%.60s'", v->text);
}

int common_record_first(struct common *c, const struct option_set *set, const char *output)
{
    struct record_first *f = &c->first;
    struct error err = {0};
    if (!record_first_is_wanted(f))
        return -1;
    if (c->replay.input)
        error_set(&err, ERROR_FORMAT, "a recording is read (%.100s) or made first, not both",
                  c->replay.input);
    else if (!f->pids && !f->all_cpus && !f->command)
        error_set(&err, ERROR_FORMAT,
                  "nothing to record is named: give -p PID, -a, or -- and a command");
    if (err.kind != ERROR_NONE)
        return command_line_error(set, NULL, &err);
    bool apart = !output && !isatty(STDOUT_FILENO);
    return record_first(f, c->replay.wall, c->quiet, apart, &c->replay.input);
}

int common_take_pid(void *target, const struct option_value *v, struct error *err)
{
    if (!*v->text || strspn(v->text, "0123456789") != strlen(v->text))
        return option_error(v, err, "expects a process id, not `%.60s'", v->text);
    *(const char **)target = v->text;
    return 0;
}

int common_take_process(void *target, char *text, struct error *err)
{
    const char **taken = target;
    if (*taken)
        return error_set(err, ERROR_FORMAT, "one process or core at a time: %.100s and %.100s",
                         *taken, text);
    *taken = text;
    return 0;
}

int common_unpack(struct common *c, struct error *err)
{
    struct replay_options *o = &c->replay;
    if (!o->input || strcmp(o->input, "-") == 0)
        return 0;
    if (unpack(o->input, &c->unpacked, err) < 0)
        return -1;
    if (!c->unpacked)
        return 0;
    c->named = o->input;
    o->input = unpacked_recording(c->unpacked);
    if (!o->dso.symfs)
        o->dso.symfs = o->session.symfs = unpacked_root(c->unpacked);
    return 0;
}

/* A file that an option names and that is not there would be missed only by missing names. */
static int check_named(const struct common *c, struct error *err)
{
    const struct dso_options *o = &c->replay.dso;
    const struct {
        const char *option, *path;
        bool is_folder;
    } named[] = {{"--symfs", o->symfs, true},
                 /* below --symfs, it may be there only */
                 {"--debug-dir", o->symfs ? NULL : o->debug_dir, true},
                 {"-k", o->vmlinux, false},
                 {"--kallsyms", o->kallsyms, false}};
    for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++) {
        struct stat st;
        const char *path = named[i].path;
        if (!path)
            continue;
        if (stat(path, &st) < 0 || (!named[i].is_folder && access(path, R_OK) < 0))
            return error_system(err, errno, "%s %s", named[i].option, path);
        if (named[i].is_folder && !S_ISDIR(st.st_mode))
            return error_system(err, ENOTDIR, "%s %s", named[i].option, path);
    }
    return 0;
}

int common_parse(struct common *c, const struct option_set *set, void *own, int argc, char **argv)
{
    struct replay_options *o = &c->replay;
    struct options_parsed parsed;
    struct error err = {0};
    int status = command_line_parse(set, (void *const[]){own, c, &c->first}, argc, argv, &parsed);
    if (parsed.first < argc)
        c->first.command = argv + parsed.first;
    o->session.symfs = o->dso.symfs;
    o->session.force = o->dso.force;
    o->session.jitdumps = c->jitdumps.at;
    o->session.nr_jitdumps = c->jitdumps.nr;
    o->snapshots = c->snapshots.at;
    o->nr_snapshots = c->snapshots.nr;
    if (c->quiet)
        o->progress = NULL;
    else if (status < 0)
        say_fifo(o->input);
    if (status < 0 && (check_named(c, &err) < 0 || common_unpack(c, &err) < 0)) {
        fprintf(stderr, "%s: %s\n", set->name, err.text);
        status = EXIT_BAD_INPUT;
    }
    return status;
}

/* ---- after the run ------------------------------------------------------------------------- */

static void say_loss(const struct perfdata *pd)
{
    const struct perfdata_loss *loss = perfdata_loss(pd);
    if (loss->damage.kind != ERROR_NONE)
        fprintf(stderr, "ljperf: %s; everything before it is shown\n", loss->damage.text);
    if (loss->bytes_unread)
        fprintf(stderr, "ljperf: %" PRIu64 " bytes after the damage were not read\n",
                loss->bytes_unread);
    if (loss->records_bad)
        fprintf(stderr, "ljperf: %" PRIu64 " damaged records were skipped\n", loss->records_bad);
    if (loss->samples_no_event)
        fprintf(stderr, "ljperf: %" PRIu64 " samples belong to no event of the file\n",
                loss->samples_no_event);
    struct text lost = {0};
    if (loss_put(&lost, loss)) {
        text_string(&lost, " were lost while recording; ");
        loss_put_cure(&lost, pd);
        fprintf(stderr, "ljperf: %.*s\n", (int)lost.size, lost.at);
    }
    text_free(&lost);
}

/* A few vmstacks are lost at the start and end of a recording; many unused ones mean that a ring
 * was full. */
static void say_copies(const struct perfdata *pd, const struct replay_stats *st)
{
    struct text cure = {0};
    if (100 * st->copies_unused <= st->copies)
        return;
    loss_put_cure(&cure, pd);
    fprintf(stderr,
            "ljperf: %" PRIu64 " of %" PRIu64
            " vmstacks belong to no sample, because samples were lost while recording; %.*s\n",
            st->copies_unused, st->copies, (int)cure.size, cure.at ? cure.at : "");
    text_free(&cure);
}

static void say_readings(const struct replay_stats *st)
{
    if (st->readings_over)
        fprintf(stderr,
                "ljperf: %" PRIu64
                " readings of VM memory exceed what is kept; frames that need them are marked or "
                "missing; record for a shorter time or with a lower -F\n",
                st->readings_over);
    if (st->readings_bad)
        fprintf(stderr, "ljperf: %" PRIu64 " damaged readings of VM memory were skipped\n",
                st->readings_bad);
}

/* Tell how to record the Lua and JavaScript functions that are missing. */
static void say_untold(const struct replay_stats *st)
{
    static const char *const advice =
        "record with ljperf record, or run ljperf snapshot -p PID beside perf record and read its "
        "file with --snapshot";
    if (st->lua_untold)
        fprintf(stderr,
                "ljperf: the Lua functions of %" PRIu64 " samples are not in the recording; %s\n",
                st->lua_untold, advice);
    if (st->js_untold)
        fprintf(stderr,
                "ljperf: the JavaScript functions of %" PRIu64
                " samples are not in the recording; %s, or run node --perf-basic-prof\n",
                st->js_untold, advice);
}

static void say_stacks(const struct common *c, const struct replay_stats *st, const char *input)
{
    uint64_t complete = st->ends[STACK_COMPLETE];
    if (!st->user)
        return;
    fprintf(stderr, "ljperf: %" PRIu64 " samples, %" PRIu64 " user stacks: %.2f%% complete",
            st->passed, st->user, 100.0 * (double)complete / (double)st->user);
    static const char *const words[STACK_NR_ENDS] = {
        [STACK_TRUNCATED] = "truncated at the end of the stack copy",
        [STACK_NO_CFI] = "no unwind information",
        [STACK_NO_CODE] = "no code",
        [STACK_BAD_READ] = "bad read",
        [STACK_LOOP] = "loop",
        [STACK_LIMIT] = "deeper than --max-stack",
        [STACK_NO_REGS] = "no registers",
    };
    if (st->joined)
        fprintf(stderr, " (%" PRIu64 " joined)", st->joined);
    for (int end = 0; end < STACK_NR_ENDS; end++)
        if (end != STACK_COMPLETE && st->ends[end])
            fprintf(stderr, ", %" PRIu64 " %s", st->ends[end], words[end]);
    if (st->guessed)
        fprintf(stderr, ", %" PRIu64 " with guessed frames", st->guessed);
    if (complete != st->user)
        fprintf(stderr,
                c->first.folder ? "; with --save FILE, ljperf doctor -i FILE says why"
                                : "; ljperf doctor -i %s says why",
                c->named ? c->named : input);
    fputc('\n', stderr);
}

/* Samples that --weight leaves out; if it leaves out all, which names it could have. */
static void say_weightless(const struct replay *r, const struct replay_stats *st)
{
    const struct perfdata *pd = replay_perfdata(r);
    struct text names = {0};
    if (!st->weightless)
        return;
    if (replay_options(r)->wall) {
        fprintf(stderr, "ljperf: %" PRIu64 " samples of events that count no time are left out\n",
                st->weightless);
        return;
    }
    if (!replay_options(r)->weight) {
        fprintf(stderr,
                "ljperf: %" PRIu64 " faults of pages are left out: the pages are of mapped files, "
                "or were there before\n",
                st->weightless);
        return;
    }
    fprintf(stderr, "ljperf: %" PRIu64 " samples have no `%s' above 0, and are left out\n",
            st->weightless, replay_options(r)->weight);
    for (size_t i = 0; !st->passed && i < perfdata_nr_events(pd); i++) {
        const struct perfdata_event *e = perfdata_event(pd, i);
        struct text event = {0};
        names.size = 0;
        text_clean(&event, e->name);
        perfdata_number_names(pd, e, &names);
        if (names.size)
            fprintf(stderr, "ljperf: --weight for %.*s may be: %.*s\n", (int)event.size, event.at,
                    (int)names.size, names.at);
        text_free(&event);
    }
    text_free(&names);
}

/* Waits that summaries leave out. */
static void say_idle(const struct replay_stats *st)
{
    const double NS = 1e9;
    if (st->idle)
        fprintf(stderr,
                "ljperf: %" PRIu64 " of %" PRIu64
                " waits, %.3f of %.3f s, are idle and folded away; "
                "--idle shows them\n",
                st->idle, st->waits, (double)st->idle_ns / NS, (double)st->waits_ns / NS);
}

/* `machine`: as the recording calls it; NULL: it does not say. */
static void say_machine(const char *machine, uint64_t samples)
{
    struct text name = {0};
    text_clean(&name, machine ? machine : "an unknown machine");
    fprintf(stderr,
            "ljperf: %" PRIu64
            " samples were not unwound, because they are of %.*s; only stacks of " ARCH_TITLES
            " can be unwound\n",
            samples, (int)name.size, name.at ? name.at : "");
    text_free(&name);
}

/* Nothing to show has a reason, which is not to be guessed from an empty page. */
static void say_empty(const struct replay *r, const struct replay_stats *st)
{
    const struct perfdata *pd = replay_perfdata(r);
    bool clock = false;
    if (st->passed || st->bad || st->weightless)
        return;
    if (st->samples) {
        fprintf(stderr, "ljperf: none of %" PRIu64 " samples passes the filters\n", st->samples);
        return;
    }
    for (size_t i = 0; i < perfdata_nr_events(pd); i++) {
        const struct perf_event_attr *a = &perfdata_event(pd, i)->attr;
        clock |= a->type == PERF_TYPE_HARDWARE ||
                 (a->type == PERF_TYPE_SOFTWARE &&
                  (a->config == PERF_COUNT_SW_CPU_CLOCK || a->config == PERF_COUNT_SW_TASK_CLOCK));
    }
    fprintf(stderr, "ljperf: the recording has no samples: %s\n",
            clock ? "what was recorded hardly ran on a processor in that time; record for longer, "
                    "its children, too, or what it waits for (--off-cpu)"
                  : "its events did not happen in that time");
}

/* Files with a Lua, say, whose functions nobody can name. */
static void say_runtimes(const struct replay *r)
{
    struct text line = {0};
    const char *problem;
    for (size_t i = 0; (problem = replay_runtime_problem(r, &i)); i++) {
        line.size = 0;
        text_clean(&line, problem);
        fprintf(stderr, "ljperf: %.*s (its functions have no names)\n", (int)line.size,
                line.size ? line.at : "");
    }
    text_free(&line);
}

void common_summary(const struct common *c, struct replay *r)
{
    const struct replay_stats *st = replay_stats(r);
    const char *warning;
    if (c->silent)
        return;
    end_progress(c);
    for (size_t i = 0; (warning = session_warning(replay_session(r), i)); i++)
        fprintf(stderr, "ljperf: %s\n", warning);
    for (size_t i = 0; (warning = replay_warning(r, i)); i++)
        fprintf(stderr, "ljperf: %s\n", warning);
    say_loss(replay_perfdata(r));
    if (st->bad)
        fprintf(stderr, "ljperf: %" PRIu64 " malformed samples were skipped\n", st->bad);
    if (st->unsupported_abi)
        fprintf(stderr,
                "ljperf: %" PRIu64 " samples of 32-bit or foreign code, or at addresses of too "
                "many bits, were not unwound\n",
                st->unsupported_abi);
    if (st->unsupported_machine)
        say_machine(perfdata_arch(replay_perfdata(r)), st->unsupported_machine);
    say_weightless(r, st);
    say_idle(st);
    if (!c->quiet) {
        say_empty(r, st);
        say_copies(replay_perfdata(r), st);
        say_readings(st);
        say_untold(st);
        say_runtimes(r);
        say_stacks(c, st, perfdata_path(replay_perfdata(r)));
    }
}

struct stacks *common_collect(const struct common *c, struct replay *r,
                              const struct stacks_options *kept, struct error *err)
{
    struct stacks *s = stacks_create(kept);
    if (!s) {
        error_no_memory(err);
        return NULL;
    }
    struct replay_sink sink = stacks_sink(s);
    int failed = replay_run(r, &sink, err) < 0 || stacks_finish(s, err) < 0;
    common_summary(c, r);
    replay_let_go(r);
    if (!failed)
        return s;
    stacks_free(s);
    return NULL;
}

void common_say_one_event(const char *name, uint64_t others)
{
    fprintf(stderr,
            "ljperf: only the event %s is written; %" PRIu64
            " samples of other events are left out; choose an event with --event\n",
            name, others);
}

/* Count the samples of other events. Also returns 0 when out of memory: only a note is lost. */
static uint64_t other_samples(const struct stacks *s, int event)
{
    size_t nr = stacks_nr_nodes(s);
    bool *other = calloc(nr, sizeof(*other));
    uint64_t samples = 0;
    for (size_t i = 1; other && i < nr; i++) {
        const struct stack_node *n = stacks_node(s, i);
        other[i] = n->depth == 1 ? stacks_group(s, n->function)->event != event : other[n->parent];
        samples += other[i] ? n->samples : 0;
    }
    free(other);
    return samples;
}

const char *common_event_name(const struct replay *r, const struct stacks *s)
{
    const struct perfdata *pd = replay_perfdata(r);
    int event = stacks_event(s, -1);
    if (replay_options(r)->wall)
        return replay_weight_name(r, 0);
    return event >= 0 && (size_t)event < perfdata_nr_events(pd)
               ? perfdata_event(pd, (size_t)event)->name
               : NULL;
}

void common_say_first_event(const struct common *c, const struct replay *r, const struct stacks *s)
{
    const char *name = common_event_name(r, s);
    int event = stacks_event(s, -1);
    bool several = false;
    for (size_t i = 0; i < stacks_nr_groups(s); i++)
        several |= stacks_group(s, i)->event != event;
    if (several && !c->quiet && name)
        common_say_one_event(name, other_samples(s, event));
}

int common_print(const struct common_document *d, const void *of, bool json, struct error *err)
{
    bool closed = false;
    if (!json) {
        struct text out = {0};
        d->put_text(of, &out);
        int failed = text_write(&out, STDOUT_FILENO, &closed, err);
        text_free(&out);
        return failed;
    }
    struct json *j = json_create(stdout);
    if (!j)
        return error_no_memory(err);
    d->put_json(of, j);
    if (!json_finish(j))
        return error_no_memory(err);
    putchar('\n');
    return common_end_output(stdout, NULL, err);
}

struct profile *common_profile(const struct common *c, struct replay *r, bool blocks,
                               struct error *err)
{
    struct profile *p = profile_create(blocks);
    if (!p) {
        error_no_memory(err);
        return NULL;
    }
    struct replay_sink sink = profile_sink(p);
    int failed = replay_run(r, &sink, err) < 0 || profile_finish(p, err) < 0;
    common_summary(c, r);
    if (!failed)
        return p;
    profile_free(p);
    return NULL;
}

int end_like(int status, int by)
{
    if (!by && WIFSIGNALED(status))
        by = WTERMSIG(status);
    if (by) {
        fflush(NULL);
        signal(by, SIG_DFL);
        raise(by);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

static bool reader_is_gone(FILE *out)
{
    struct pollfd p = {.fd = fileno(out), .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && p.revents & (POLLERR | POLLHUP);
}

int common_end_output(FILE *out, const char *path, struct error *err)
{
    /* After a failed write of whole blocks nothing is left to flush, so check ferror() too. */
    bool failed = ferror(out);
    int why = fflush(out) != 0 ? errno : 0;
    bool gone = (failed || why) && reader_is_gone(out);
    if (out != stdout && fclose(out) != 0)
        why = errno;
    const char *name = path ? path : "standard output";
    if (why && !gone)
        return error_system(err, why, "%s cannot be written completely", name);
    if (failed && !gone)
        return error_set(err, ERROR_SYSTEM,
                         "%s cannot be written completely; perhaps the disk is full", name);
    return 0;
}

int common_put_header(const struct replay *r, struct text *out, struct error *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    bool good = file && perfdata_print_header(replay_perfdata(r), file) == 0;
    if (file && fclose(file) != 0)
        good = false;
    if (good)
        text_bytes(out, text, size);
    free(text);
    return good && !out->failed ? 0 : error_no_memory(err);
}

int common_write(const char *path, struct text *out, struct error *err)
{
    bool closed = false;
    FILE *file = path ? callers_file_create(path) : NULL;
    if (path && !file)
        return error_system(err, errno, "%s: cannot write", path);
    int failed = text_write(out, file ? fileno(file) : STDOUT_FILENO, &closed, err);
    if (file && fclose(file) != 0 && !failed)
        failed = error_system(err, errno, "%s: cannot write", path);
    return failed;
}
