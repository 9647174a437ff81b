/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf top: what runs now, as perf top shows it. A recorder runs beside it; each time, the newest
 * part of what it has recorded is read like any recording. Stacks that were read before are kept
 * and added (`parts`): else the whole window would be walked each second. */
#include "base/clock.h"
#include "base/private_file.h"
#include "cmd/browse.h"
#include "cmd/common.h"
#include "cmd/record_beside.h"
#include "cmd/words.h"
#include "output/output.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    COST_READINGS = 8,
    IDLE_PARTS = 60,     /* the time between two readings, in times that one needs */
    FEW_BYTES = 8 << 20, /* one thread reads them as fast as several */
    ENTRIES_USUAL = 25,  /* rows of text, if it is not known how many there is room for */
    FILES_MAX = 1000,
    PARTS_USUAL = 16, /* as many as a window is kept in */
};

static const double NS = 1e9;
/* The window moves by slices of this time, ns. */
static const uint64_t SLICE_NS = 250000000;
/* What a sample needs to be walked and named has come by then, ns after it: functions of VMs are
 * read behind the sample, and rings are emptied one after the other. */
static const uint64_t SETTLED_NS = 1000000000;
/* The copy of a VM's stack is a sample of its own, of nearly the same time. */
static const uint64_t MARGIN_NS = 10000000;

/* Stacks of the slices from `first` up to but not including `end`, which are not read again. */
struct part {
    struct stacks *stacks;
    uint64_t first, end;
};

/* Processor time used up to a moment, ns. */
struct cost_reading {
    uint64_t when, used;
};

struct top {
    struct browsing browsing; /* first: it is the browser's context */
    /* Options. */
    struct report_options report;
    const char *pids, *tids, *user, *cgroup, *cpus, *events, *frequency, *count;
    bool all_cpus, all_user, all_kernel, stdio;
    double delay, window, duration; /* s; duration 0: until the user ends it */
    unsigned entries;               /* rows of text; 0: as many as there is room for */
    unsigned threads;               /* 0: by the number of samples */
    /* While it runs. */
    struct record_beside *recorder;
    /* The recording that is read, and the one before it, which may still be in use. They take
     * turns, so that their memory need not be got anew. -1: none. */
    int file, spare_file;
    char path[32];
    bool paused;
    /* Times are ns of CLOCK_MONOTONIC, which is the recording's clock, too. */
    uint64_t since;                          /* samples before this time do not count */
    uint64_t next;                           /* no reading before this moment */
    uint64_t from;                           /* samples from this time on are shown */
    VEC(struct part) parts;                  /* oldest first */
    uint64_t settled;                        /* slices before this one are in the parts */
    struct stacks_options parted;            /* what the parts keep apart */
    uint64_t shown;                          /* the newest sample when they were taken */
    struct cost_reading cost[COST_READINGS]; /* oldest first */
    unsigned nr_costs;
};

/* ---- options ------------------------------------------------------------------------------- */

static int take_sort(void *target, const struct option_value *v, struct error *err)
{
    return browsing_take_sort(&((struct top *)target)->report, v, err);
}

static int take_seconds(double *ret, const struct option_value *v, struct error *err)
{
    const double LEAST = 0.05, MOST = 3600;
    char *end;
    double number = strtod(v->text, &end);
    if (end == v->text || *end || !(number >= LEAST && number <= MOST))
        return option_error(v, err, "expects seconds from 0.05 to 3600, not `%.60s'", v->text);
    *ret = number;
    return 0;
}

static int take_delay(void *target, const struct option_value *v, struct error *err)
{
    return take_seconds(&((struct top *)target)->delay, v, err);
}

static int take_window(void *target, const struct option_value *v, struct error *err)
{
    return take_seconds(&((struct top *)target)->window, v, err);
}

static int take_duration(void *target, const struct option_value *v, struct error *err)
{
    return take_seconds(&((struct top *)target)->duration, v, err);
}

static int take_limit(void *target, const struct option_value *v, struct error *err)
{
    return browsing_take_limit(&((struct top *)target)->report, v, err);
}

static const struct option_row rows[] = {
    {ROW_FLAG('a', "all-cpus", struct top, all_cpus, "Record the whole machine (the default).")},
    {ROW_STRING('p', "pid", "LIST", struct top, pids, "Record these processes.")},
    {ROW_STRING('t', "tid", "LIST", struct top, tids, "Record these threads.")},
    {ROW_STRING('u', "uid", "USER", struct top, user, "Record the processes of this user.")},
    {ROW_STRING('G', "cgroup", "NAME", struct top, cgroup,
                "Record what runs in this control group and in those below it.")},
    {ROW_STRING('C', "cpu", "LIST", struct top, cpus, "Record these cpus (as 0,2-5).")},
    {ROW_STRING('e', "event", "LIST", struct top, events,
                "Record these events (cycles, or "
                "cpu-clock).")},
    {ROW_STRING('F', "freq", "HZ", struct top, frequency,
                "Take this number of samples a second of each cpu (99).")},
    {ROW_STRING('c', "count", "N", struct top, count, "Take a sample after N events.")},
    {ROW_FLAG('K', "hide_kernel_symbols", struct top, all_user, "Record user code only.")},
    {ROW_FLAG('U', "hide_user_symbols", struct top, all_kernel, "Record the kernel only.")},
    {ROW_CALL('d', "delay", "SECONDS", take_delay, "Show newer data after this time (1).")},
    {ROW_CALL(0, "window", "SECONDS", take_window, "Show the samples of this time (10).")},
    {ROW_CALL(0, "duration", "SECONDS", take_duration, "End after this time (when q is pressed).")},
    {ROW_CALL('s', "sort", "KEYS", take_sort,
              "Make one row of samples with equal keys, as ljperf report does (comm,dso,sym)."),
     .list = true, .word_list = report_key_names},
    {ROW_FLAG(0, "children", struct top, report.children,
              "Add to a function's share the functions that it called.")},
    {ROW_FLAG('n', "show-nr-samples", struct top, report.show_samples,
              "Add a column with the number of samples.")},
    {ROW_FLAG(0, "show-total-period", struct top, report.show_period,
              "Add a column with the sum of the periods.")},
    {ROW_CALL(0, "percent-limit", "N", take_limit, "Leave out rows and branches below N percent.")},
    {ROW_NUMBER('E', "entries", "N", struct top, entries, 1, UINT32_MAX,
                "Print N rows of text (as many as the terminal has lines, or 25).")},
    {ROW_FLAG(0, "stdio", struct top, stdio, "Print text, also on a terminal.")},
    {0},
};

static const struct option_row reading_rows[] = {
    {ROW_FLAG(0, "async", struct top, browsing.common.replay.awaits,
              "Show JavaScript functions that await the result, too (async).")},
    {ROW_CLEAR(0, "no-inline", struct top, browsing.common.replay.symbols.inlines,
               "Do not show inlined functions.")},
    {ROW_FLAG(0, "no-demangle", struct top, browsing.common.replay.symbols.no_demangle,
              "Show names of C++ and Rust as they are in the file.")},
    {ROW_STRING('k', "vmlinux", "FILE", struct top, browsing.common.replay.dso.vmlinux,
                "Take kernel symbols from this kernel image.")},
    {ROW_STRING(0, "debug-dir", "DIR", struct top, browsing.common.replay.dso.debug_dir,
                "Look for separate debug files in DIR (/usr/lib/debug).")},
    {ROW_FLAG('f', "force", struct top, browsing.common.replay.dso.force,
              "Also use files whose owner or build id does not match.")},
    {ROW_NUMBER(
        0, "threads", "N", struct top, browsing.common.replay.threads, 1, UINT32_MAX,
        "Work with N threads (1, or as many as there are processors if samples are many).")},
    {ROW_HELP},
    {0},
};

const struct option_set top_command_line = {
    .name = "ljperf top",
    .usage = "[options]\n"
             "-p PID | -G CGROUP [options]",
    .about =
        "Shows which functions run now, of the machine, a process, a user or a control group, "
        "with\n"
        "whole mixed stacks. On a terminal it is a browser (press h for help): p pauses it, and w\n"
        "writes a recording of what it shows. Elsewhere it prints text.\n",
    .sections = {{.rows = rows}, {.title = "To read samples", .rows = reading_rows}},
};

/* ---- the recorder's command line ------------------------------------------------------------- */

static void make_words(const struct top *t, struct words *ret)
{
    bool named = t->pids || t->tids || t->user || t->cgroup || t->cpus;
    words_option(ret, "-p", t->pids);
    words_option(ret, "-t", t->tids);
    words_option(ret, "-u", t->user);
    words_option(ret, "-G", t->cgroup);
    words_option(ret, "-C", t->cpus);
    words_option(ret, "-e", t->events);
    words_option(ret, "-c", t->count);
    words_option(ret, "-F", t->frequency || t->count ? t->frequency : "99");
    words_option(ret, "-k", "CLOCK_MONOTONIC");
    words_flag(ret, "-a", t->all_cpus || !named);
    words_flag(ret, "--all-user", t->all_user);
    words_flag(ret, "--all-kernel", t->all_kernel);
    words_add(ret, NULL);
}

/* ---- what it costs --------------------------------------------------------------------------- */

static void note_cost(struct top *t)
{
    const struct cost_reading now = {clock_ns(CLOCK_MONOTONIC),
                                     clock_ns(CLOCK_PROCESS_CPUTIME_ID) +
                                         record_beside_used(t->recorder)};
    if (t->nr_costs == COST_READINGS)
        memmove(t->cost, t->cost + 1, --t->nr_costs * sizeof(*t->cost));
    t->cost[t->nr_costs++] = now;
}

/* Returns the processor time that it uses of one processor, percent; below 0: not known yet. */
static double cost(const struct top *t)
{
    const struct cost_reading *first = &t->cost[0];
    const struct cost_reading *last = &t->cost[t->nr_costs ? t->nr_costs - 1 : 0];
    if (last->when <= first->when || last->used < first->used)
        return -1;
    return 100 * (double)(last->used - first->used) / (double)(last->when - first->when);
}

/* ---- newer data ------------------------------------------------------------------------------ */

static void close_files(struct top *t)
{
    if (t->file >= 0)
        close(t->file);
    if (t->spare_file >= 0)
        close(t->spare_file);
    t->file = t->spare_file = -1;
}

/* Write the samples from time `from` on, up to the newest that is shown, over what is in the file.
 */
static int write_over(struct top *t, uint64_t from, int fd, struct error *err)
{
    if (lseek(fd, 0, SEEK_SET) < 0 || record_beside_write(t->recorder, from, t->shown, fd, err) < 0)
        return -1;
    const off_t size = lseek(fd, 0, SEEK_CUR);
    return size < 0 || ftruncate(fd, size) < 0
               ? error_system(err, errno, "a file in memory cannot be written")
               : 0;
}

static void forget_parts(struct top *t)
{
    vec_foreach (p, &t->parts)
        stacks_free(p->stacks);
    vec_free(&t->parts);
    t->settled = 0;
}

/* Make the samples from time `from` on, up to the newest that is shown, the recording that is read.
 */
static int take_recording(struct top *t, uint64_t from, struct error *err)
{
    struct replay_options *o = &t->browsing.common.replay;
    struct stat st;
    if (t->spare_file < 0)
        t->spare_file = memfd_create("ljperf-top", MFD_CLOEXEC);
    if (t->spare_file < 0)
        return error_system(err, errno, "a file in memory cannot be created");
    browsing_forget_code(&t->browsing);
    if (write_over(t, from, t->spare_file, err) < 0)
        return -1;
    const int before = t->file;
    t->file = t->spare_file;
    t->spare_file = before;
    snprintf(t->path, sizeof(t->path), "/proc/self/fd/%d", t->file);
    o->input = t->path;
    o->threads = t->threads ? t->threads : fstat(t->file, &st) == 0 && st.st_size < FEW_BYTES;
    return 0;
}

/* Make all that is shown the recording that is read. What is shown was read from the file before,
 * which therefore is not written over. */
static int take_all(struct top *t, struct error *err)
{
    if (take_recording(t, t->from, err) < 0)
        return -1;
    if (t->spare_file >= 0)
        close(t->spare_file);
    t->spare_file = -1;
    return 0;
}

/* ---- what is shown --------------------------------------------------------------------------- */

/* Forget the parts before the window. */
static void drop_parts(struct top *t, uint64_t first)
{
    size_t nr = 0;
    while (nr < t->parts.nr && t->parts.at[nr].end <= first)
        stacks_free(t->parts.at[nr++].stacks);
    vec_drop(&t->parts, nr);
}

/* Keep the stacks of these slices. Returns -1 when memory is out. */
static int keep_part(struct top *t, const struct stacks *from, uint64_t first, uint64_t end,
                     struct error *err)
{
    const uint64_t most = (uint64_t)(t->window * NS) / PARTS_USUAL / SLICE_NS;
    struct part *last = t->parts.nr ? &t->parts.at[t->parts.nr - 1] : NULL;
    if (!last || end - last->first > most) {
        const struct part new = {.stacks = stacks_create(stacks_kept(from)), .first = first};
        if (!new.stacks || !vec_push(&t->parts, new)) {
            stacks_free(new.stacks);
            return error_no_memory(err);
        }
        last = &t->parts.at[t->parts.nr - 1];
    }
    last->end = end;
    t->settled = end;
    return stacks_add_slices(last->stacks, from, first, end, err);
}

/* Returns the stacks of the window, which begins with slice `first`; NULL when memory is out. The
 * newest of them were read just now. */
static struct stacks *join_parts(const struct top *t, const struct stacks *newest, uint64_t first,
                                 const struct stacks_options *needs, struct error *err)
{
    struct stacks *all = stacks_create(needs);
    int failed = all ? 0 : error_no_memory(err);
    vec_foreach (p, &t->parts)
        failed = failed ? failed : stacks_add_slices(all, p->stacks, first, UINT64_MAX, err);
    if (!failed && stacks_add_slices(all, newest, t->settled, UINT64_MAX, err) == 0)
        return all;
    stacks_free(all);
    return NULL;
}

/* Read the samples that are not in the parts, and add them. */
static int collect_newest(struct top *t, const struct stacks_options *needs,
                          struct browser_data *ret, struct error *err)
{
    const uint64_t first = t->from / SLICE_NS;
    const uint64_t end = t->shown > SETTLED_NS ? (t->shown - SETTLED_NS) / SLICE_NS : 0;
    struct stacks_options sliced = *needs;
    if (!stacks_options_equal(&t->parted, needs))
        forget_parts(t);
    t->parted = *needs;
    drop_parts(t, first);
    t->settled = t->settled > first ? t->settled : first;
    sliced.slice_ns = SLICE_NS;
    sliced.all_slices = true;
    if (take_recording(t, t->settled * SLICE_NS - MARGIN_NS, err) < 0 ||
        browsing_collect(&t->browsing, &sliced, ret, err) < 0)
        return -1;
    struct stacks *newest = t->browsing.stacks;
    struct stacks *all = join_parts(t, newest, first, needs, err);
    int failed = !all ? -1 : end > t->settled ? keep_part(t, newest, t->settled, end, err) : 0;
    t->browsing.stacks = all;
    ret->stacks = all;
    stacks_free(newest);
    return failed;
}

/* Collect what is shown, with what `needs` names. For the browser, too. */
static int collect(void *context, const struct stacks_options *needs, struct browser_data *ret,
                   struct error *err)
{
    struct top *t = context;
    t->browsing.kept = (struct stacks_options){0};
    if (!t->paused && !needs->slice_ns)
        return collect_newest(t, needs, ret, err);
    if (!t->paused && take_all(t, err) < 0)
        return -1;
    return browsing_collect(&t->browsing, needs, ret, err);
}

/* For the browser: needs all samples. */
static int annotate(void *context, const char *symbol, struct text *out, struct error *err)
{
    struct top *t = context;
    if (!t->paused && take_all(t, err) < 0)
        return -1;
    return browsing_annotate(&t->browsing, symbol, out, err);
}

/* How long to wait after a reading that took so much processor time, ns: it shall not become a load
 * of its own. */
static uint64_t wait_after(uint64_t used)
{
    const uint64_t MOST = UINT64_C(5000000000);
    return used < MOST / IDLE_PARTS ? used * IDLE_PARTS : MOST;
}

/* Whether newer data would look as what is shown. */
static bool is_same(const struct top *t)
{
    return record_beside_newest(t->recorder) == t->shown && t->shown < t->from;
}

static int refresh(void *context, const struct stacks_options *needs, struct browser_data *ret,
                   struct error *err)
{
    struct top *t = context;
    const uint64_t now = clock_ns(CLOCK_MONOTONIC), span = (uint64_t)(t->window * NS);
    uint64_t from = now > span ? now - span : 0;
    record_beside_renew(t->recorder);
    note_cost(t);
    if (t->paused || now < t->next || (t->file >= 0 && is_same(t)))
        return 0;
    const bool is_first = t->file < 0;
    const uint64_t before = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    from = from > t->since ? from : t->since;
    t->from = (from + SLICE_NS - 1) / SLICE_NS * SLICE_NS;
    t->shown = record_beside_newest(t->recorder);
    if (collect(t, needs, ret, err) < 0)
        return -1;
    if (!is_first) /* which reads symbols */
        t->next = now + wait_after(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before);
    return 1;
}

static void put_state(void *context, struct text *out)
{
    const struct top *t = context;
    double used = cost(t);
    text_string(out, t->paused                              ? "PAUSED, "
                     : record_beside_has_ended(t->recorder) ? "ENDED, "
                                                            : "");
    text_printf(out, "last %g s", t->window);
    if (used >= 0)
        text_printf(out, ", ljperf uses %.1f%% of a cpu", used);
    uint64_t lost = record_beside_lost(t->recorder, t->from);
    if (lost)
        text_printf(out, ", %" PRIu64 " LOST", lost);
    text_string(out, ". ");
}

/* ---- keys ------------------------------------------------------------------------------------ */

static int copy_file(int from, int to)
{
    char bytes[64 << 10];
    ssize_t n;
    for (off_t at = 0; (n = pread(from, bytes, sizeof(bytes), at)) > 0; at += n)
        if (file_write_all(to, bytes, (size_t)n) < 0)
            return -1;
    return n < 0 ? -1 : 0;
}

/* Write what is shown as a recording of its own. */
static void write_recording(struct top *t, struct text *said)
{
    char name[32];
    int i = 0;
    struct error err = {0};
    if (!t->paused && take_all(t, &err) < 0) {
        text_string(said, err.text);
        return;
    }
    do
        snprintf(name, sizeof(name), "ljperf.top.%d.data", i);
    while (access(name, F_OK) == 0 && ++i < FILES_MAX);
    int fd = i < FILES_MAX ? private_file_create(name) : -1;
    bool failed = fd < 0 || copy_file(t->file, fd) < 0;
    failed |= fd >= 0 && close(fd) < 0;
    if (failed)
        text_printf(said, "%s: cannot write: %s", name, strerror(i < FILES_MAX ? errno : EEXIST));
    else
        text_printf(said, "the last %g s were written to %s", t->window, name);
}

/* What is shown while it is paused is in one recording: the recorder goes on. */
static void pause_or_go_on(struct top *t, struct text *said)
{
    struct error err = {0};
    if (!t->paused && take_all(t, &err) < 0) {
        text_string(said, err.text);
        return;
    }
    t->paused = !t->paused;
    text_string(said, t->paused ? "paused; p goes on" : "");
}

static void act(void *context, enum browser_live_key key, struct text *said)
{
    struct top *t = context;
    switch (key) {
    case LIVE_PAUSE:
        pause_or_go_on(t, said);
        break;
    case LIVE_WRITE:
        write_recording(t, said);
        break;
    case LIVE_BEGIN:
        t->since = clock_ns(CLOCK_MONOTONIC);
        forget_parts(t);
        text_string(said, "samples from now on");
        break;
    }
}

static int run_browser(struct top *t, struct browser *model, struct error *err)
{
    enum { MS = 1000 };
    const struct browser_live live = {.interval_ms = (unsigned)(t->delay * MS),
                                      .refresh = refresh,
                                      .put_state = put_state,
                                      .act = act};
    const struct browser_screen screen = {
        .browser = model, .live = &live, .context = t, .collect = collect, .annotate = annotate};
    struct stacks_options needs = browser_needs(model);
    struct browser_data data;
    if (refresh(t, &needs, &data, err) < 0 || browser_set_data(model, &data, err) < 0)
        return -1;
    return browser_run(&screen, err);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* How many rows there is room for below the head and the titles. */
static unsigned room(const struct top *t)
{
    enum { HEAD = 3 };
    struct winsize size;
    if (t->entries)
        return t->entries;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > HEAD ? size.ws_row - HEAD
                                                                              : ENTRIES_USUAL;
}

/* Write what the browser would show. *closed: nobody reads it any more. */
static int print_picture(struct top *t, struct browser *model, bool *closed, struct error *err)
{
    struct text out = {0};
    unsigned rows_left = room(t);
    text_string(&out, isatty(STDOUT_FILENO) ? "\033[H\033[2J" : "");
    put_state(t, &out);
    browser_put_head(model, &out);
    text_char(&out, '\n');
    browser_put_titles(model, &out);
    text_char(&out, '\n');
    for (size_t i = 0; i < browser_nr_lines(model) && rows_left; i++, rows_left--) {
        browser_put_line(model, i, &out);
        text_char(&out, '\n');
    }
    text_string(&out, isatty(STDOUT_FILENO) ? "" : "\n");
    int failed = out.failed ? error_no_memory(err) : text_write(&out, STDOUT_FILENO, closed, err);
    text_free(&out);
    return failed;
}

/* Sleep until it is time. Returns whether a signal came that ends us. */
static bool sleep_until(uint64_t end, const sigset_t *signals)
{
    for (uint64_t now; (now = clock_ns(CLOCK_MONOTONIC)) < end;) {
        const struct timespec left = {(time_t)((end - now) / 1000000000),
                                      (long)((end - now) % 1000000000)};
        if (sigtimedwait(signals, NULL, &left) > 0)
            return true;
    }
    return false;
}

static int run_text(struct top *t, struct browser *model, struct error *err)
{
    sigset_t signals;
    const uint64_t begin = clock_ns(CLOCK_MONOTONIC);
    const uint64_t end = t->duration ? begin + (uint64_t)(t->duration * NS) : UINT64_MAX;
    struct stacks_options needs = browser_needs(model);
    bool closed = false;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    for (uint64_t next = begin; !closed;) {
        struct browser_data data;
        next += (uint64_t)(t->delay * NS);
        bool is_last = next >= end || record_beside_has_ended(t->recorder);
        if (sleep_until(next < end ? next : end, &signals))
            return 0;
        int got = refresh(t, &needs, &data, err);
        if (got < 0 || (got && browser_set_data(model, &data, err) < 0) ||
            (got && print_picture(t, model, &closed, err) < 0))
            return -1;
        if (is_last)
            return 0;
    }
    return 0;
}

/* ---- running --------------------------------------------------------------------------------- */

static bool wants_browser(const struct top *t)
{
    return !t->stdio && !t->duration && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

static int show(struct top *t, struct error *err)
{
    struct browser *model = browser_create(&t->report);
    if (model)
        browser_keep_least(model);
    int failed = !model             ? error_no_memory(err)
                 : wants_browser(t) ? run_browser(t, model, err)
                                    : run_text(t, model, err);
    browser_free(model);
    return failed;
}

/* The recorder has cleaned what it says. */
static void print_messages(const struct text *messages)
{
    if (messages->size)
        fprintf(stderr, "%.*s", (int)messages->size, messages->at);
}

static int run(struct top *t, struct error *err)
{
    struct words words = {0};
    struct text messages = {0};
    struct replay_options *o = &t->browsing.common.replay;
    const uint64_t span = (uint64_t)(t->window * NS);
    make_words(t, &words);
    o->means = replay_means_create();
    int failed = words.failed || !o->means ? error_no_memory(err) : 0;
    if (!failed)
        failed = record_beside_start(words.all.at, span, &messages, &t->recorder, err);
    print_messages(&messages);
    if (!failed)
        failed = show(t, err);
    browsing_end(&t->browsing);
    forget_parts(t);
    close_files(t);
    replay_means_free(o->means);
    record_beside_free(t->recorder);
    text_free(&messages);
    words_free(&words);
    return failed;
}

int cmd_top(int argc, char **argv)
{
    struct top t = {.report = {.keys = {KEY_COMM, KEY_DSO, KEY_SYM},
                               .nr_keys = 3,
                               .quantum = 100000000,
                               .graph = GRAPH_ABSOLUTE,
                               .graph_percent = 0.5},
                    .delay = 1,
                    .window = 10,
                    .file = -1,
                    .spare_file = -1};
    struct error err = {0};
    struct common *c = &t.browsing.common;
    common_init(c);
    c->quiet = c->silent = true;
    int status = common_parse(c, &top_command_line, &t, argc, argv);
    t.report.callers_first = t.report.children;
    t.threads = c->replay.threads;
    if (status < 0)
        status = run(&t, &err) < 0 ? command_error("top", &err, EXIT_BAD_INPUT) : 0;
    return common_end(c, status);
}
