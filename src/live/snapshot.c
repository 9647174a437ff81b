/* SPDX-License-Identifier: GPL-2.0-only */
/* The run of a snapshot: its processes, its file, its clock. */
#include "live/snapshot.h"
#include "live/runtime_files.h"

#include "base/clock.h"
#include "base/text.h"
#include "live/code_watch.h"
#include "live/copier.h"
#include "record/header.h"
#include "record/output.h"
#include "live/page_log.h"
#include "live/snapshot_lua.h"
#include "live/snapshot_perf.h"
#include "live/snapshot_plain.h"
#include "live/snapshot_v8.h"
#include "live/stopped_process.h"
#include "record/synthesize.h"
#include "record/target.h"
#include "unwind/lua/runtime.h"
#include "unwind/luajit/runtime.h"
#include "unwind/v8/runtime.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { GRAIN_LUA = 8, GRAIN_V8 = 64, SHARE = 20 };
static const uint64_t SECOND = 1000000000, MILLISECOND = 1000000;
static const uint64_t MEM_ID = UINT64_C(0xa000000000000001); /* not used by the kernel */

/* One process. */
struct subject {
    pid_t pid;
    int pidfd; /* readable once the process has ended */
    struct stopped_process process;
    const struct v8_layout *v8; /* NULL: none */
    struct page_log *pages;
    struct snapshot_lua *lua;     /* NULL: it has no LuaJIT */
    struct snapshot_plain *plain; /* NULL: it has no plain Lua */
    struct snapshot_v8_stats v8_stats;
    uint64_t first_objects, next_objects; /* CLOCK_MONOTONIC ns */
    bool gone;
};

struct snapshot {
    const struct snapshot_options *o;
    snapshot_say say;
    void *say_context;
    struct snapshot_outcome *out;
    struct perfdata_writer *w;
    struct id_cache *ids;
    struct runtime_files *files;
    struct code_watch *code; /* perf maps and jitdumps */
    struct snapshot_perf *perf;
    VEC(struct subject *) subjects;
    struct child child;
    int signals; /* signalfd; -1: none */
    sigset_t old_mask;
    uint64_t end;  /* CLOCK_MONOTONIC ns */
    uint64_t tick; /* the same, of the next reading of stacks */
    uint8_t record[MEM_RECORD_MAX];
};

static uint64_t sink_now(void *context)
{
    (void)context;
    return clock_ns(CLOCK_MONOTONIC);
}

static int sink_write(void *context, const void *payload, size_t size, struct error *err)
{
    struct snapshot *s = context;
    size_t record = mem_writer_record(payload, size, MEM_ID, clock_ns(CLOCK_MONOTONIC), s->record);
    return perfdata_writer_record(s->w, s->record, record, err);
}

static int put_record(void *context, const void *record, size_t size, struct error *err)
{
    struct snapshot *s = context;
    return perfdata_writer_record(s->w, record, size, err);
}

static void say(const struct snapshot *s, bool detail, const char *line)
{
    s->say(s->say_context, detail, line);
}

/* ---- processes ----------------------------------------------------------------------------- */

static void subject_free(struct subject *t)
{
    if (!t)
        return;
    snapshot_lua_free(t->lua);
    snapshot_plain_free(t->plain);
    page_log_free(t->pages);
    stopped_process_close(&t->process);
    if (t->pidfd >= 0)
        close(t->pidfd);
    free(t);
}

/* Read-only pages of files are read from the files: do not keep them. */
static int skip_files(struct subject *t, struct error *err)
{
    const struct mapping *m = session_mapping_next(&t->process.thread, 0);
    for (; m; m = session_mapping_next(&t->process.thread, m->end)) {
        bool is_file = m->dso->kind == DSO_FILE && !(m->prot & PROT_WRITE);
        if (is_file && !page_log_skip(t->pages, m->start, m->end))
            return error_no_memory(err);
        if (m->end == UINT64_MAX)
            break;
    }
    return 0;
}

/* Find out what runs in the process: LuaJIT, plain Lua, V8. None of them is an error. */
static int look_inside(struct snapshot *s, struct subject *t, struct error *err)
{
    const struct log_sink sink = {.write = sink_write, .now = sink_now, .context = s};
    lua_scan_blob_list blobs = {0};
    struct process_memory *memory;
    if (lua_scan_blobs(s->files, t->pid, &blobs, err) < 0)
        return -1;
    bool lua = blobs.nr != 0;
    vec_free(&blobs);
    struct runtime_instance v8, plain;
    bool has_plain = session_runtime_of_files(&t->process.thread, &lua_runtime, &plain);
    t->v8 = session_runtime_of_files(&t->process.thread, &v8_runtime, &v8) ? v8.layout : NULL;
    for (const char *line; (line = runtime_files_problem(s->files));)
        say(s, false, line);
    if (!lua && !has_plain && !t->v8 && !code_watch_would_keep(t->pid))
        return error_set(err, ERROR_NOT_FOUND,
                         "process %d has no known Lua or V8; ljperf doctor --vm %d says why",
                         (int)t->pid, (int)t->pid);
    if (process_memory_open(t->pid, &memory, err) < 0 ||
        page_log_create(t->pid, memory, lua || has_plain ? GRAIN_LUA : GRAIN_V8, &sink, &t->pages,
                        err) < 0 ||
        skip_files(t, err) < 0)
        return -1;
    if (lua && !(t->lua = snapshot_lua_create(t->pid, s->files, t->pages)))
        return error_no_memory(err);
    if (has_plain && !(t->plain = snapshot_plain_create(t->pid, plain.layout, t->pages)))
        return error_no_memory(err);
    return 0;
}

static bool has_lua(struct snapshot *s, pid_t pid)
{
    struct error ignored;
    unsigned holds = 0;
    return lua_scan_look(s->files, pid, &holds, NULL, &ignored) >= 0 &&
           holds & (holds_bit(&luajit_runtime) | holds_bit(&lua_runtime));
}

/* Returns whether a runtime has generated code in the process. */
static bool has_code(const struct thread_context *thread)
{
    size_t nr = 0;
    for (size_t i = 0; i < nr_runtimes && !nr; i++)
        (void)session_runtime(thread, runtimes[i], &nr);
    return nr != 0;
}

/* Read the mappings of a process. If the process has just begun, wait until it has code of its own.
 * Lua may never have code (plain Lua, -joff), so it is given less time. */
static int await_code(struct snapshot *s, pid_t pid, struct stopped_process *ret, struct error *err)
{
    static const struct dso_options options = {.no_debuginfod = true};
    enum { TRIES = 20, TRIES_LUA = 2, STEP_US = 50000 };
    char target[16];
    snprintf(target, sizeof(target), "%d", (int)pid);
    for (int i = 0;; i++) {
        if (stopped_process_open(target, &options, NULL, ret, err) < 0)
            return -1;
        if (has_code(&ret->thread) || i == TRIES || (i >= TRIES_LUA && has_lua(s, pid)))
            return 0;
        stopped_process_close(ret);
        usleep(STEP_US);
    }
}

static int subject_add(struct snapshot *s, pid_t pid, struct error *err)
{
    struct subject *t = calloc(1, sizeof(*t));
    if (!t)
        return error_no_memory(err);
    if (kill(pid, 0) < 0 && errno == ESRCH) {
        free(t);
        return error_set(err, ERROR_NOT_FOUND, "process %d: there is no such process", (int)pid);
    }
    t->pid = pid;
    t->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (await_code(s, pid, &t->process, err) < 0 || look_inside(s, t, err) < 0 ||
        !vec_push(&s->subjects, t)) {
        subject_free(t);
        return -1;
    }
    return 0;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* Returns when to read all objects again after a reading from `began` to `now`. That is soon if the
 * reading did not see all, or while the process is new to us (it may be loading its program), later
 * four times a second. Reading never takes more than its share of the time. */
static uint64_t objects_again(struct subject *t, uint64_t began, uint64_t now, bool whole)
{
    if (!t->first_objects)
        t->first_objects = began;
    uint64_t wait = whole ? now - t->first_objects : 0, share = SHARE * (now - began);
    wait = wait < SECOND / 4 ? wait : SECOND / 4;
    wait = wait > 10 * MILLISECOND ? wait : 10 * MILLISECOND;
    return now + (wait > share ? wait : share);
}

/* Read all objects. */
static int take_objects(struct snapshot *s, struct subject *t, struct error *err)
{
    struct error why;
    uint64_t began = clock_ns(CLOCK_MONOTONIC);
    bool whole = true;
    page_log_begin(t->pages);
    if (t->lua) {
        t->gone = snapshot_lua_scan(t->lua, &why) < 0;
        whole = snapshot_lua_objects(t->lua);
        snapshot_perf_vms(s->perf, t->pid, snapshot_lua_list(t->lua));
    }
    if (t->plain) {
        t->gone |= snapshot_plain_objects(t->plain, &why) < 0;
        snapshot_perf_plain(s->perf, t->pid, s->files);
    }
    if (t->v8 && snapshot_v8(t->pid, t->v8, t->pages, &t->v8_stats, &why) < 0)
        t->gone = true;
    s->out->rounds++;
    t->next_objects = objects_again(t, began, clock_ns(CLOCK_MONOTONIC), whole);
    return page_log_end(t->pages, err);
}

static int take_stacks(struct snapshot *s, struct subject *t, struct error *err)
{
    if (!t->lua && !t->plain)
        return 0;
    page_log_begin(t->pages);
    if (t->lua)
        snapshot_lua_stacks(t->lua);
    if (t->plain)
        snapshot_plain_stacks(t->plain);
    s->out->ticks++;
    return page_log_end(t->pages, err);
}

static bool has_ended(const struct subject *t)
{
    struct pollfd p = {.fd = t->pidfd, .events = POLLIN};
    return t->gone || (t->pidfd >= 0 && poll(&p, 1, 0) > 0);
}

static int take_tick(struct snapshot *s, bool *any, struct error *err)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    *any = false;
    vec_foreach (at, &s->subjects) {
        struct subject *t = *at;
        if (!t->gone && has_ended(t)) {
            t->gone = true;
            if (code_watch_end(s->code, t->pid, err) < 0)
                return -1;
        }
        if (t->gone)
            continue;
        *any = true;
        if (now >= t->next_objects && take_objects(s, t, err) < 0)
            return -1;
        if (s->o->every_ns && take_stacks(s, t, err) < 0)
            return -1;
    }
    return code_watch_poll(s->code, err);
}

/* Read everything that still exists once more, and write what has stayed unchanged. */
static int take_last(struct snapshot *s, bool once, struct error *err)
{
    vec_foreach (at, &s->subjects) {
        struct subject *t = *at;
        if (!once && !has_ended(t) && take_objects(s, t, err) < 0)
            return -1;
        if (page_log_flush(t->pages, err) < 0)
            return -1;
    }
    return code_watch_finish(s->code, err);
}

/* ---- the file ------------------------------------------------------------------------------ */

static int put_mappings(struct snapshot *s, struct error *err)
{
    const struct synthesis synthesis = {
        .put = put_record, .context = s, .data_maps = true, .build_ids = true, .cache = s->ids};
    vec_foreach (t, &s->subjects)
        if (synthesize_process(&synthesis, (*t)->pid, err) < 0)
            return -1;
    return 0;
}

static int file_begin(struct snapshot *s, struct error *err)
{
    const struct perfdata_writer_options plain = {0};
    const struct record_options about = {
        .use_clockid = true, .clockid = CLOCK_MONOTONIC, .argc = s->o->argc, .argv = s->o->argv};
    const struct perfdata_event event = {.attr = copier_attr(true, CLOCK_MONOTONIC),
                                         .name = VMEVENT_MEM_NAME,
                                         .ids = &MEM_ID,
                                         .nr_ids = 1,
                                         .scale = 1};
    s->ids = id_cache_create();
    if (!s->ids)
        return error_no_memory(err);
    if (output_keep_old(s->o->output, err) < 0 ||
        perfdata_writer_create(s->o->output, &plain, &event, 1, &s->w, err) < 0)
        return -1;
    s->out->begun = true;
    return header_write_start(s->w, &about, err) < 0 || put_mappings(s, err) < 0 ? -1 : 0;
}

/* ---- waiting ------------------------------------------------------------------------------- */

static int begin_signals(struct snapshot *s, struct error *err)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGHUP);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, &s->old_mask);
    s->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->signals < 0 ? error_system(err, errno, "signalfd cannot be created") : 0;
}

/* Whether a signal that ends us has arrived. */
static bool is_told_to_end(struct snapshot *s)
{
    struct signalfd_siginfo info;
    bool told = false;
    while (read(s->signals, &info, sizeof(info)) == sizeof(info))
        told |= info.ssi_signo != SIGCHLD;
    return told;
}

static bool is_over(struct snapshot *s)
{
    if (s->child.pid) {
        child_reap(&s->child, false);
        if (s->child.ended)
            return true;
    }
    return is_told_to_end(s) || clock_ns(CLOCK_MONOTONIC) >= s->end || snapshot_perf_ended(s->perf);
}

/* Wait until the next tick, or until something ends us. */
static void wait_tick(struct snapshot *s)
{
    uint64_t every = s->o->every_ns ? s->o->every_ns : SECOND / 10, now = clock_ns(CLOCK_MONOTONIC);
    s->tick = s->tick + every > now ? s->tick + every : now;
    uint64_t until = s->tick < s->end ? s->tick : s->end;
    uint64_t left = until > now ? until - now : 0;
    const struct timespec timeout = {(time_t)(left / SECOND), (long)(left % SECOND)};
    struct pollfd p = {.fd = s->signals, .events = POLLIN};
    (void)ppoll(&p, 1, &timeout, NULL);
}

static int start_command(struct snapshot *s, struct error *err)
{
    if (!s->o->command)
        return 0;
    if (child_fork(s->o->command, false, NULL, &s->child, err) < 0)
        return -1;
    s->out->has_child = true;
    s->out->exec_errno = child_start(&s->child);
    if (s->out->exec_errno)
        return error_system(err, s->out->exec_errno, "%s", s->o->command[0]);
    return 0;
}

static int run(struct snapshot *s, struct error *err)
{
    bool any = true, once = s->o->has_duration && !s->o->duration_ns;
    s->tick = clock_ns(CLOCK_MONOTONIC);
    s->end = s->o->has_duration ? s->tick + s->o->duration_ns : UINT64_MAX;
    vec_foreach (t, &s->subjects)
        if (code_watch_begin(s->code, (*t)->pid, err) < 0)
            return -1;
    if (take_tick(s, &any, err) < 0 || start_command(s, err) < 0)
        return -1;
    while (any && !is_over(s)) {
        wait_tick(s);
        if (take_tick(s, &any, err) < 0)
            return -1;
    }
    return take_last(s, once, err);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static int begin(struct snapshot *s, struct error *err)
{
    const struct log_sink sink = {.write = sink_write, .now = sink_now, .context = s};
    s->files = runtime_files_create();
    s->code = code_watch_create(&sink);
    if (!s->files || !s->code)
        return error_no_memory(err);
    vec_foreach (pid, &s->o->pids)
        if (subject_add(s, *pid, err) < 0)
            return -1;
    if (begin_signals(s, err) < 0)
        return -1;
    if (s->o->perf && snapshot_perf_begin(s->o->perf, &s->perf, err) < 0)
        return -1;
    if (s->perf && snapshot_perf_limit(s->perf))
        say(s, false, snapshot_perf_limit(s->perf));
    return file_begin(s, err);
}

static void add_up(struct snapshot *s)
{
    vec_foreach (at, &s->subjects) {
        const struct subject *t = *at;
        struct page_log_stats stats = page_log_stats(t->pages);
        size_t vms =
            (t->lua ? snapshot_lua_vms(t->lua) : 0) + (t->plain ? snapshot_plain_vms(t->plain) : 0);
        s->out->vms += vms;
        s->out->functions += t->v8_stats.functions;
        s->out->code += t->v8_stats.code;
        s->out->refused += stats.refused;
        s->out->processes += vms || t->v8_stats.functions;
    }
    if (s->w)
        s->out->bytes = perfdata_writer_bytes(s->w);
    s->out->kept = s->code ? code_watch_kept(s->code) : 0;
    s->out->child_status = s->child.status;
    snapshot_perf_counts(s->perf, &s->out->copies, &s->out->copies_of);
}

static void end(struct snapshot *s)
{
    snapshot_perf_end(s->perf);
    if (s->child.pid && !s->child.ended)
        s->out->child_told = child_end(&s->child);
    vec_foreach (t, &s->subjects)
        subject_free(*t);
    vec_free(&s->subjects);
    if (s->signals >= 0) {
        (void)is_told_to_end(s);
        close(s->signals);
        sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
    }
    perfdata_writer_destroy(s->w);
    code_watch_free(s->code);
    runtime_files_free(s->files);
    id_cache_free(s->ids);
    free(s);
}

int snapshot_run(const struct snapshot_options *o, snapshot_say say_, void *say_context,
                 struct snapshot_outcome *ret, struct error *err)
{
    struct snapshot *s = calloc(1, sizeof(*s));
    *ret = (struct snapshot_outcome){0};
    if (!s)
        return error_no_memory(err);
    s->o = o;
    s->say = say_;
    s->say_context = say_context;
    s->out = ret;
    s->signals = -1;
    int failed = begin(s, err);
    if (!failed)
        failed = run(s, err);
    for (const char *line; s->code && (line = code_watch_problem(s->code));)
        say(s, false, line);
    add_up(s);
    if (!failed)
        failed = perfdata_writer_finish(s->w, err);
    end(s);
    return failed;
}
