/* SPDX-License-Identifier: GPL-2.0-only */
/* The run of a recording: open, begin, pass over the rings until the end, finish. */
#include "record/record.h"
#include "record/capture.h"
#include "record/output.h"
#include "record/target.h"
#include "base/confine.h"
#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <perf/event.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum {
    PASS_MS = 100,       /* ms between passes over the rings, at most */
    OPEN_TRIES = 20,     /* tries, because tasks may end while they are being opened */
    MS = 1000000,        /* ns */
    FLUSH_NS = 100 * MS, /* a killed recorder may lose what it has read in this time */
    EXIT_MS = 2000,      /* ms to wait for a process to end whose events are gone */
    ORDINARY_RING = 512 << 10,
};

uint64_t capture_now(const struct capture *c)
{
    return c->o->use_clockid ? clock_ns(c->o->clockid) : 0;
}

bool capture_is_told_to_end(void)
{
    sigset_t waiting;
    return sigpending(&waiting) == 0 &&
           (sigismember(&waiting, SIGINT) || sigismember(&waiting, SIGTERM));
}

void capture_helper(struct capture *c, pid_t pid)
{
    c->helper = pid;
}

void capture_say(struct capture *c, bool detail, const char *fmt, ...)
{
    char line[1024];
    va_list args;
    if (!c->say)
        return;
    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    c->say(c->say_context, detail, line);
}

/* ---- opening ------------------------------------------------------------------------------- */

static bool frequency_cut(const struct capture *c)
{
    return !c->o->max_frequency && !c->o->period && c->events.frequency < c->o->frequency;
}

/* Servers have workers: whoever names the master of them mostly means them, too. */
static int say_children(struct capture *c, struct error *err)
{
    enum { SHOWN = 64 };
    pid_vec children = {0};
    struct text list = {0};
    if (!c->o->pids.nr)
        return 0;
    int failed = tasks_children(&c->pids, &children, err);
    for (size_t i = 0; i < c->pids.nr + children.nr && i < SHOWN; i++)
        text_printf(&list, "%s%d", i ? "," : "",
                    (int)(i < c->pids.nr ? c->pids.at[i] : children.at[i - c->pids.nr]));
    if (children.nr && !failed)
        capture_say(c, false,
                    "%zu %s of what is recorded already run%s and %s not recorded; to record them, "
                    "too: -p %.*s%s",
                    children.nr, children.nr == 1 ? "child" : "children",
                    children.nr == 1 ? "s" : "", children.nr == 1 ? "is" : "are", (int)list.size,
                    list.at, c->pids.nr + children.nr > SHOWN ? ",..." : "");
    text_free(&list);
    vec_free(&children);
    return failed;
}

static void say_fallbacks(struct capture *c)
{
    const struct events *e = &c->events;
    if (c->o->overridden)
        capture_say(c, false, "%s", c->o->overridden);
    if (e->to_clock)
        capture_say(c, c->o->events.at[0].by_default,
                    "no hardware counter for cycles here: recording cpu-clock");
    if (e->user_only)
        capture_say(c, false,
                    "the kernel may not be watched (kernel.perf_event_paranoid): user code only; "
                    "sysctl kernel.perf_event_paranoid=1 or cap_perfmon would allow it");
    capture_say(c, true, "rings of %" PRIu64 " KiB a cpu, %" PRIu64 " MiB in all",
                e->ring_bytes >> 10, e->rings.nr * e->ring_bytes >> 20);
    if (!c->o->ring_bytes && e->ring_bytes < e->ring_wanted && e->ring_bytes <= ORDINARY_RING &&
        c->o->callgraph == CALLGRAPH_DWARF)
        capture_say(c, false,
                    "rings of %" PRIu64
                    " KiB a cpu are all that may be locked: samples may be lost "
                    "(ulimit -l unlimited, or sysctl kernel.perf_event_mlock_kb=16896)",
                    e->ring_bytes >> 10);
    if (frequency_cut(c) && !c->o->strict_frequency)
        capture_say(c, false,
                    "%" PRIu64 " samples a second are more than the machine allows: %" PRIu64
                    " (sysctl kernel.perf_event_max_sample_rate)",
                    c->o->frequency, e->frequency);
    if (!e->build_ids)
        capture_say(c, true, "this kernel puts no build ids into its map records");
}

static int check_frequency(const struct capture *c, struct error *err)
{
    if (!c->o->strict_frequency || !frequency_cut(c))
        return 0;
    return error_set(err, ERROR_UNSUPPORTED,
                     "--strict-freq: %" PRIu64 " samples a second are more than the machine allows",
                     c->o->frequency);
}

static int be_realtime(const struct capture *c, struct error *err)
{
    const struct sched_param p = {.sched_priority = c->o->realtime};
    if (!c->o->realtime || sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &p) == 0)
        return 0;
    return error_system(err, errno, "-r %d: the priority cannot be set (this needs CAP_SYS_NICE)",
                        c->o->realtime);
}

/* Tasks may end while they are listed; then list them again. */
static int open_events(struct capture *c, struct error *err)
{
    bool tasks = c->o->pids.nr || c->o->tids.nr || c->o->uid;
    int r = -1;
    c->on_exec = !tasks && !c->o->all_cpus && !c->o->cpus;
    c->system_wide = !tasks && !c->on_exec;
    if (c->on_exec && (!vec_push(&c->tids, c->child.pid) || !vec_push(&c->pids, c->child.pid)))
        return error_no_memory(err);
    for (int i = 0; i < OPEN_TRIES; i++) {
        if (tasks && tasks_list(c->o, &c->tids, &c->pids, err) < 0)
            return -1;
        struct event_targets t = {.tids = c->system_wide ? NULL : c->tids.at,
                                  .nr_tids = c->tids.nr,
                                  .others = tasks && tasks_of_others(&c->pids),
                                  .on_exec = c->on_exec};
        *err = (struct error){0};
        r = events_open(c->o, &t, &c->events, err);
        if (r == 0 || !tasks || err->sys_errno != ESRCH)
            break;
    }
    return r;
}

/* Copy the hooks' events: they are written into the recording like our own. */
static int add_hook_events(struct capture *c, perfdata_event_vec *more, struct error *err)
{
    vec_foreach (from, more) {
        struct perfdata_event e = *from;
        uint64_t *ids = malloc((from->nr_ids + 1) * sizeof(*ids));
        e.name = strdup(from->name ? from->name : "");
        e.ids = ids;
        if (ids && from->nr_ids)
            memcpy(ids, from->ids, from->nr_ids * sizeof(*ids));
        e.index = (unsigned)c->all.nr;
        if (!ids || !e.name || !vec_push(&c->all, e)) {
            free(ids);
            free((char *)e.name);
            return error_no_memory(err);
        }
        if (events_add_ids(&c->events, e.ids, e.nr_ids, e.index, err) < 0)
            return -1;
    }
    return 0;
}

static int tell_hooks(struct capture *c, struct error *err)
{
    perfdata_event_vec more = {0};
    c->program = c->on_exec ? program_of(c->o->command[0]) : NULL;
    for (size_t i = 0; i < c->events.nr; i++) {
        c->events.at[i].pub.index = (unsigned)i;
        if (!vec_push(&c->all, c->events.at[i].pub))
            return error_no_memory(err);
    }
    c->plan = (struct capture_plan){.rings = c->events.rings.at,
                                    .nr_rings = c->events.rings.nr,
                                    .sampling = c->events.sampling.at,
                                    .nr_sampling = c->events.sampling.nr,
                                    .events = c->all.at,
                                    .nr_events = c->events.nr,
                                    .use_clockid = c->o->use_clockid,
                                    .clockid = c->o->clockid,
                                    .pids = c->pids.at,
                                    .nr_pids = c->pids.nr,
                                    .tids = c->tids.at,
                                    .nr_tids = c->tids.nr,
                                    .inherited = !c->o->no_inherit,
                                    .whole = !c->o->tids.nr,
                                    .system_wide = c->system_wide,
                                    .command = c->on_exec,
                                    .program = c->program,
                                    .wakes_early = c->events.wakes_early};
    if (!c->hooks || !c->hooks->opened)
        return 0;
    int r = c->hooks->opened(c->hooks->context, &c->plan, &more, err);
    if (!r)
        r = add_hook_events(c, &more, err);
    vec_free(&more);
    c->plan.events = c->all.at; /* `all` may have moved */
    return r;
}

/* Block the signals, so that each is seen between two passes, and none ends us with the file
 * unfinished. */
static int block_signals(struct capture *c, struct error *err)
{
    sigset_t set;
    struct sigaction hangup;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) /* no nohup */
        sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &c->old_mask);
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is then an error of write(), like a full disk */
    /* An exec keeps SIGCHLD ignored: then the end of a child would not be reported. */
    signal(SIGCHLD, SIG_DFL);
    c->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return c->signals < 0 ? error_system(err, errno, "signalfd cannot be created") : 0;
}

/* ---- running ------------------------------------------------------------------------------- */

static void enable(struct capture *c, bool on)
{
    if (c->hooks && c->hooks->enabled)
        c->hooks->enabled(c->hooks->context, on);
    if (!on || !c->on_exec || c->o->delay_ms) /* else their exec enables them */
        events_enable(&c->events, on);
}

static void take_signals(struct capture *c)
{
    struct signalfd_siginfo info;
    while (read(c->signals, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGUSR2) {
            c->switch_now |= c->o->switch_mode == SWITCH_SIGNAL;
        } else if (info.ssi_signo == SIGCHLD) {
            child_reap(&c->child, false);
            c->done |= c->child.ended;
        } else {
            c->out->signal = (int)info.ssi_signo;
            c->done = true;
        }
    }
}

/* Where every record wakes us: wait a little, because records come in groups. */
static void rest(struct capture *c)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC), next = c->passed;
    if (!c->events.wakes_early || !c->hooks)
        return;
    next += (uint64_t)c->hooks->rest_ms * MS;
    if (now >= next)
        return;
    const struct timespec left = {0, (long)(next - now)};
    struct pollfd signals = {.fd = c->signals, .events = POLLIN};
    if (ppoll(&signals, 1, &left, NULL) > 0)
        take_signals(c);
}

/* How long to wait at most, ms: until the next pass, or the end. */
static int wait_ms(const struct capture *c)
{
    uint64_t ms = c->hooks && c->hooks->interval_ms && c->hooks->interval_ms < PASS_MS
                      ? c->hooks->interval_ms
                      : PASS_MS;
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    if (c->end_at && c->end_at < now + ms * MS)
        ms = c->end_at > now ? (c->end_at - now + MS - 1) / MS : 0;
    return (int)ms;
}

/* Wait for a ring to fill, a signal, or the time of the next pass. */
static void wait_rings(struct capture *c)
{
    size_t nr = c->events.rings.nr, left = 0;
    for (size_t i = 0; i < nr; i++) {
        c->polls[i] = (struct pollfd){.fd = ring_poll_fd(&c->events.ring[i]), .events = POLLIN};
        left += c->polls[i].fd >= 0;
    }
    c->polls[nr] = (struct pollfd){.fd = c->signals, .events = POLLIN};
    if (poll(c->polls, nr + 1, wait_ms(c)) <= 0)
        return;
    for (size_t i = 0; i < nr; i++) {
        c->out->woken += (c->polls[i].revents & POLLIN) != 0;
        if (c->polls[i].revents & (POLLHUP | POLLERR | POLLNVAL)) {
            ring_next_fd(&c->events.ring[i]);
            left -= ring_poll_fd(&c->events.ring[i]) < 0;
        }
    }
    c->nobody_left = left == 0;
    c->done |= c->nobody_left;
    if (c->polls[nr].revents)
        take_signals(c);
}

/* Make one pass over all rings. *any: there was something. */
static int pass(struct capture *c, bool *any, struct error *err)
{
    static const struct perf_event_header round = {PERF_RECORD_FINISHED_ROUND, 0, sizeof(round)};
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    *any = false;
    c->passed = now;
    for (size_t i = 0; i < c->events.rings.nr; i++)
        if (ring_read(&c->events.ring[i], capture_take, c, any, err) < 0)
            return -1;
    if (c->hooks && c->hooks->tick && c->hooks->tick(c->hooks->context, c, err) < 0)
        return -1;
    if (*any && capture_put(c, &round, sizeof(round), err) < 0)
        return -1;
    if (now - c->flushed < FLUSH_NS)
        return 0;
    c->flushed = now;
    if (perfdata_writer_flush(c->w, err) == 0)
        return 0;
    c->write_failed = true;
    return -1;
}

/* The recording begins `now`: its end may be known. */
static void end_later(struct capture *c, uint64_t now)
{
    c->end_at = c->o->duration_ns ? now + c->o->duration_ns : 0;
}

static int check_limits(struct capture *c, struct error *err)
{
    const struct record_options *o = c->o;
    uint64_t bytes = perfdata_writer_bytes(c->w), now = clock_ns(CLOCK_MONOTONIC);
    if (o->max_size && c->out->bytes + bytes >= o->max_size && !c->done) {
        capture_say(c, false,
                    "[ ljperf record: size limit reached (%" PRIu64 " KB), stopping session ]",
                    (c->out->bytes + bytes) >> 10);
        c->done = true;
    }
    if (c->enable_at && now >= c->enable_at) {
        enable(c, true);
        c->enable_at = 0;
        end_later(c, now);
    }
    c->done |= c->end_at && now >= c->end_at;
    /* Do not count the start of the file, which might exceed the limit by itself. */
    c->switch_now |= (o->switch_mode == SWITCH_SIZE && bytes - c->start_bytes >= o->switch_size) ||
                     (o->switch_mode == SWITCH_TIME && now - c->file_began >= o->switch_ns);
    if (!c->switch_now || c->done)
        return 0;
    c->switch_now = false;
    return capture_switch_file(c, err);
}

/* Say which processors are recorded no more. */
static void say_offline(struct capture *c)
{
    int cpu;
    const uint64_t now = clock_ns(CLOCK_MONOTONIC);
    while (c->system_wide && (cpu = offline_next(&c->offline, &c->events, now)) >= 0)
        capture_say(c, false,
                    "cpu %d went offline: the kernel records nothing of it from now on, even when "
                    "it comes back; begin a new recording then",
                    cpu);
}

static int run(struct capture *c, struct error *err)
{
    bool any;
    for (;;) {
        if (pass(c, &any, err) < 0 || check_limits(c, err) < 0)
            return -1;
        say_offline(c);
        if (c->disabled && !any)
            return 0;
        if (c->done && !c->disabled) {
            enable(c, false);
            c->disabled = true;
        }
        if (!c->done)
            rest(c);
        if (!c->done)
            wait_rings(c);
    }
}

/* All is open: give up what is not needed any more. */
static void give_up_privileges(struct capture *c)
{
    struct error why;
    if (confine_is_wanted() && confine_recorder(c->o->switch_mode != SWITCH_NEVER,
                                                c->hooks && c->hooks->opens_probes, &why) < 0)
        capture_say(c, true, "%s", why.text);
}

/* Enable the events, and let the command begin. */
static int begin(struct capture *c, struct error *err)
{
    give_up_privileges(c); /* before: it takes ms, in which the command would not be looked at */
    if (!c->o->delay_ms)
        enable(c, true);
    if (c->o->command)
        c->out->exec_errno = child_start(&c->child);
    if (c->o->delay_ms) /* after the program has begun, which may take time on a busy machine */
        c->enable_at = clock_ns(CLOCK_MONOTONIC) + c->o->delay_ms * MS;
    else
        end_later(c, clock_ns(CLOCK_MONOTONIC));
    return c->out->exec_errno ? error_system(err, c->out->exec_errno, "%s", c->o->command[0]) : 0;
}

/* Get a high priority on a busy machine, as far as this is permitted. While the recorder waits,
 * rings overflow, and the memory that samples refer to changes. The recorded command was forked
 * before this. */
static void come_first(void)
{
    enum { NICE = -15 };
    if (getpriority(PRIO_PROCESS, 0) > NICE)
        (void)setpriority(PRIO_PROCESS, 0, NICE);
}

static int record_all(struct capture *c, struct error *err)
{
    if (block_signals(c, err) < 0)
        return -1;
    bool piped = strcmp(c->path, "-") == 0; /* standard output then belongs to the recording */
    if (c->o->command && child_fork(c->o->command, piped, &c->o->descriptors, &c->child, err) < 0)
        return -1;
    come_first();
    if (open_events(c, err) < 0)
        return -1;
    say_fallbacks(c);
    if (say_children(c, err) < 0)
        return -1;
    if (check_frequency(c, err) < 0 || be_realtime(c, err) < 0)
        return -1;
    c->polls = calloc(c->events.rings.nr + 1, sizeof(*c->polls));
    if (!c->polls)
        return error_no_memory(err);
    if (tell_hooks(c, err) < 0)
        return -1;
    int r = capture_begin_file(c, err);
    if (!r)
        r = begin(c, err);
    if (!r && c->o->switch_mode != SWITCH_NEVER)
        vec_foreach (pid, &c->pids)
            if (!vec_push(&c->live, *pid))
                r = error_no_memory(err);
    if (!r)
        r = run(c, err);
    if (!r && c->hooks && c->hooks->finish)
        r = c->hooks->finish(c->hooks->context, c, err);
    c->done = true;
    return capture_end_file(c, r < 0 ? NULL : err) < 0 ? -1 : r;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void finish_file(struct capture *c, int *r, struct error *err)
{
    char *stamped;
    if (c->out->exec_errno) {
        if (c->begun && strcmp(c->path, "-") != 0)
            unlink(c->path);
        c->begun = false;
    } else if (*r == 0 && (c->o->switch_mode != SWITCH_NEVER || c->o->timestamp_name)) {
        *r = output_stamp(c->path, &stamped, err);
        if (*r == 0) {
            free(c->path);
            c->path = stamped;
            *r = capture_keep_few(c, stamped, err);
        }
    }
    if (!c->begun) /* no file of ours exists there */
        return;
    c->out->path = c->path;
    c->path = NULL;
}

static void capture_free(struct capture *c)
{
    for (size_t i = c->events.nr; i < c->all.nr; i++) {
        free((char *)c->all.at[i].name);
        free((uint64_t *)c->all.at[i].ids);
    }
    c->out->ring_bytes = c->events.ring_bytes;
    events_close(&c->events);
    vec_free(&c->all);
    vec_free(&c->tids);
    vec_free(&c->pids);
    vec_free(&c->live);
    vec_foreach (part, &c->parts)
        free(*part);
    vec_free(&c->parts);
    offline_free(&c->offline);
    free(c->polls);
    free(c->program);
    free(c->path);
    if (c->signals >= 0)
        close(c->signals);
    free(c);
}

/* When a command executes a set-user-id program, the kernel takes away all events of an ordinary
 * user. The command goes on unseen, and is still the user's command: wait for it. A signal ends the
 * wait. */
static void await_unseen(struct capture *c)
{
    child_reap_soon(&c->child, EXIT_MS);
    if (c->child.ended || c->out->signal)
        return;
    capture_say(
        c, false,
        "the kernel ended the recording of %s: it runs with other privileges; waiting for it",
        c->o->command[0]);
    while (!c->child.ended && !c->out->signal) {
        struct pollfd p = {.fd = c->signals, .events = POLLIN};
        (void)poll(&p, 1, -1);
        take_signals(c);
    }
}

int record_run(struct record_options *o, const struct capture_hooks *hooks, record_say say,
               void *say_context, struct record_outcome *ret, struct error *err)
{
    struct capture *c = calloc(1, sizeof(*c));
    *ret = (struct record_outcome){0};
    if (!c)
        return error_no_memory(err);
    *c = (struct capture){.o = o,
                          .hooks = hooks,
                          .say = say,
                          .say_context = say_context,
                          .out = ret,
                          .self = getpid(),
                          .last_event = -1,
                          .signals = -1,
                          .path = strdup(o->output ? o->output : "perf.data")};
    if (!c->path) {
        capture_free(c);
        return error_no_memory(err);
    }
    int r = record_all(c, err);
    finish_file(c, &r, err);
    ret->events_lost = c->lost_records;
    ret->has_child = c->child.pid > 0;
    if (c->nobody_left && c->on_exec)
        await_unseen(c);
    /* The file is complete: from here on Ctrl-C may end us, even if the command does not react to
     * it. */
    if (c->signals >= 0) {
        take_signals(c);
        sigprocmask(SIG_SETMASK, &c->old_mask, NULL);
    }
    ret->child_told = child_end(&c->child);
    ret->child_status = c->child.status;
    capture_free(c);
    return r;
}

void record_outcome_free(struct record_outcome *r)
{
    free(r->path);
    r->path = NULL;
}
