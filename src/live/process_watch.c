/* SPDX-License-Identifier: GPL-2.0-only */
/* The recorder's hooks for managed code, and the life of the reader. See process_watch.h. */
#include "live/process_watch_internal.h"

#include "base/clock.h"
#include "base/confine.h"
#include "dso/dso.h"
#include "perfdata/vmevent.h"
#include "unwind/unwind.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    /* The reader may stand still for so many ms when a signal waits: before the recording has
     * begun, and at its end. */
    START_PATIENCE_MS = 100,
    END_PATIENCE_MS = 3000,
    START_MS = 2000,    /* after which the recording begins before all processes were looked at */
    WAITING_MAX = 4096, /* threads that wait at the end whose stacks are read */
    WAIT_MS = 10,       /* between two looks at it */
    LOSSES_MAX = 16, /* readers that are lost, until no further one is started; each minute forgives
                      * one */
};

/* The kernel uses no ids above 2^63. */
static const uint64_t MEM_ID = UINT64_C(0xa000000000000001);

void watch_say(const struct process_watch *watch, bool detail, const char *line)
{
    if (watch->say && line)
        watch->say(watch->say_context, detail, line);
}

uint64_t watch_now(const struct process_watch *watch)
{
    return watch->logs ? clock_ns(watch->clockid) : 0;
}

void watch_stay_on(unsigned cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)sched_setaffinity(0, sizeof(set), &set); /* if refused, the thread stays where it is */
}

/* ---- what the reader writes ------------------------------------------------------------------ */

static int write_payload(struct process_watch *watch, const void *payload, size_t size,
                         struct error *err)
{
    size_t record = mem_writer_record(payload, size, MEM_ID, watch_now(watch), watch->record);
    if (!record)
        return error_set(err, ERROR_UNSUPPORTED, "ljperf:mem: %zu bytes do not fit a record", size);
    return capture_write(watch->capture, watch->record, record, err);
}

/* A thread that waited when the recording ended, and its stack. */
static int write_waiting(struct process_watch *watch, const uint8_t *piece, size_t size,
                         struct error *err)
{
    struct off_cpu_thread t;
    const struct perf_event_header *record = NULL;
    if (watch->off_cpu && size >= sizeof(t)) {
        memcpy(&t, piece, sizeof(t));
        record = off_cpu_waiting(watch->off_cpu, &t, piece + sizeof(t), size - sizeof(t),
                                 capture_now(watch->capture));
    }
    if (!record)
        return 0;
    watch->waiting.left_out--;
    return capture_write_sample(watch->capture, record, err);
}

/* Functions of a process that allocate. One that cannot be probed is said, but does not end the
 * recording. */
static void attach(struct process_watch *watch, const void *piece, size_t size)
{
    struct alloc_functions functions = {0};
    struct error why = {0};
    if (size <= sizeof(functions))
        memcpy(&functions, piece, size);
    if (watch->alloc && alloc_attach(watch->alloc, &functions, size, &why) < 0)
        watch_say(watch, false, why.text);
    if (watch->alloc)
        watch_say(watch, false, alloc_limit(watch->alloc, &functions));
}

/* Called from the recorder's hooks: a record's time is the time of the round it is written in. */
static int write_pieces(struct process_watch *watch, struct error *err)
{
    const void *bytes;
    size_t size;
    unsigned kind;
    int failed = 0;
    while (!failed && reader_take(watch->reader, &kind, &bytes, &size)) {
        if (kind == PIECE_WAITING)
            failed = write_waiting(watch, bytes, size, err);
        else if (kind == PIECE_LOG)
            failed = write_payload(watch, bytes, size, err);
        else if (kind == PIECE_ALLOCATORS)
            attach(watch, bytes, size);
        else if (kind == PIECE_EMPTY_FILES)
            failed = runtime_files_add_empty(watch->tools.files, bytes,
                                             size / sizeof(struct build_id), err);
    }
    return failed;
}

/* ---- opened -------------------------------------------------------------------------------- */

static int wire_copier(struct process_watch *watch, const struct capture_plan *plan,
                       const struct perf_event_attr *attr, struct error *err)
{
    if (!watch->copier) {
        *err = watch->refusal;
        return -1;
    }
    for (size_t i = 0; i < plan->nr_rings; i++) {
        const struct capture_ring *r = &plan->rings[i];
        if (copier_open_cpu(watch->copier, r->cpu, r->fd, attr, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < plan->nr_sampling; i++) {
        const struct capture_sampling *s = &plan->sampling[i];
        if (copier_attach(watch->copier, s->fd, s->attr, err) < 0)
            return -1;
    }
    return 0;
}

static void try_copier(struct process_watch *watch, const struct capture_plan *plan,
                       const struct perf_event_attr *attr)
{
    struct error why = {0};
    char line[400];
    if (watch->options.no_copier)
        return;
    if (wire_copier(watch, plan, attr, &why) == 0) {
        snprintf(line, sizeof(line), "the eBPF copier runs: %s", copier_program(watch->copier));
        watch_say(watch, true, line);
        watch_say(watch, false, copier_limit(watch->copier));
        return;
    }
    copier_free(watch->copier);
    watch->copier = NULL;
    snprintf(line, sizeof(line), "Lua stacks are read after the samples, not with them: %s",
             why.text);
    watch_say(watch, false, line);
}

static int push_events(struct process_watch *watch, const struct perf_event_attr *attr,
                       perfdata_event_vec *more, struct error *err)
{
    struct perfdata_event e = {.attr = *attr, .name = VMEVENT_STACK_NAME, .scale = 1};
    if (watch->copier) {
        e.ids = copier_ids(watch->copier, &e.nr_ids);
        if (!vec_push(more, e))
            return error_no_memory(err);
    }
    if (watch->off_cpu && !vec_push(more, off_cpu_event(watch->off_cpu)))
        return error_no_memory(err);
    if (watch->alloc && alloc_events(watch->alloc, more, err) < 0)
        return -1;
    e.name = VMEVENT_MEM_NAME;
    e.ids = &MEM_ID;
    e.nr_ids = 1;
    return !watch->logs || vec_push(more, e) ? 0 : error_no_memory(err);
}

/* The user asked for it: if it cannot be recorded, nothing is. */
static int open_off_cpu(struct process_watch *watch, const struct capture_plan *plan,
                        struct error *err)
{
    struct error why = watch->refusal;
    if (!watch->options.off_cpu.mean)
        return 0;
    if (watch->copier &&
        off_cpu_open(watch->copier, plan, &watch->options.off_cpu, &watch->off_cpu, &why) == 0)
        return 0;
    if (watch->options.no_copier)
        return error_set(err, ERROR_UNSUPPORTED,
                         "--off-cpu needs more descriptors than may be open (ulimit -n)");
    error_set(err, why.kind, "--off-cpu: %s", why.text);
    return -1;
}

static int open_alloc(struct process_watch *watch, const struct capture_plan *plan,
                      struct error *err)
{
    struct error why = watch->refusal;
    if (!watch->options.alloc.mean)
        return 0;
    if (watch->copier &&
        alloc_open(watch->copier, plan, &watch->options.alloc, &watch->alloc, &why) == 0) {
        watch->hooks.opens_probes = alloc_opens_events(watch->alloc);
        return 0;
    }
    if (watch->options.no_copier)
        return error_set(err, ERROR_UNSUPPORTED,
                         "--alloc needs more descriptors than may be open (ulimit -n)");
    bool refused = why.sys_errno == EPERM || why.sys_errno == EACCES;
    error_set(err, why.kind, "--alloc: %s%s", why.text,
              refused ? " (--rss, which memory becomes resident, needs no privilege)" : "");
    return -1;
}

static int opened(void *context, const struct capture_plan *plan, perfdata_event_vec *more,
                  struct error *err)
{
    struct process_watch *watch = context;
    const struct perf_event_attr attr = copier_attr(plan->use_clockid, plan->clockid);
    watch->plan = plan;
    watch->logs = plan->use_clockid;
    watch->clockid = plan->clockid;
    watch->eager = !plan->system_wide;
    watch->wakes_early = plan->wakes_early;
    if (!watch->logs)
        watch_say(
            watch, false,
            "the names of Lua functions are not recorded, because the samples' clock cannot be "
            "read; use -k mono");
    try_copier(watch, plan, &attr);
    if (open_off_cpu(watch, plan, err) < 0 || open_alloc(watch, plan, err) < 0)
        return -1;
    return push_events(watch, &attr, more, err);
}

/* ---- the reader ---------------------------------------------------------------------------- */

/* Start it, and let it look at the processes that exist. */
static int start_reader(struct process_watch *watch, struct error *err)
{
    if (watch->copier)
        copier_renew(watch->copier);
    if (reader_start(watch->reader, watch->form, err) < 0)
        return -1;
    if (watch->form == READER_PROCESS)
        capture_helper(watch->capture, reader_pid(watch->reader));
    return reader_call(watch->reader, CALL_LOOK, err);
}

/* Wait until the reader has done all that it was told. A further signal gives up one that stands
 * still; reader_wait() does so after a longer time. */
static int await_reader(struct process_watch *watch, struct error *err)
{
    int left;
    while ((left = reader_wait(watch->reader, WAIT_MS, err)) > 0) {
        if (capture_is_told_to_end() && reader_stands(watch->reader) > END_PATIENCE_MS)
            reader_kill(watch->reader);
    }
    return left;
}

/* Before a file's first sample: wait until the reader knows the processes that exist, but not for
 * long, and not when a signal waits. */
static int await_start(struct process_watch *watch, struct error *err)
{
    int left;
    for (unsigned ms = 0; ms < START_MS; ms += WAIT_MS) {
        if ((left = reader_wait(watch->reader, WAIT_MS, err)) <= 0)
            return left;
        if (!capture_is_told_to_end())
            continue;
        reader_hurry(watch->reader);
        if (reader_stands(watch->reader) > START_PATIENCE_MS)
            reader_kill(watch->reader);
    }
    return 0;
}

static bool shun(struct process_watch *watch, pid_t pid)
{
    return table_put(&watch->shunned, (uint64_t)(uint32_t)pid + 1, watch);
}

static void forgive(struct process_watch *watch)
{
    const uint64_t minute = UINT64_C(60000) * WATCH_MS, now = clock_ns(CLOCK_MONOTONIC);
    uint64_t minutes = (now - watch->last_loss) / minute;
    watch->losses -= minutes < watch->losses ? (unsigned)minutes : watch->losses;
    watch->last_loss = now;
}

/* If the reader's process is lost, say so, and go on with another one. It knows nothing yet, and
 * passes over the process at which the other was lost. */
static int revive(struct process_watch *watch, bool again, struct error *err)
{
    struct reader_loss loss;
    struct error why = {0};
    char line[512];
    if (!reader_lost(watch->reader, &loss))
        return 0;
    if (loss.at && !shun(watch, loss.at))
        return error_no_memory(err);
    int shown = snprintf(line, sizeof(line), "the process that reads others' memory %s", loss.why);
    if (loss.at)
        shown += snprintf(line + shown, sizeof(line) - (size_t)shown,
                          ", when it looked at process %d, which is passed over from now on",
                          (int)loss.at);
    forgive(watch);
    const char *then = "; what it had not written is lost";
    if (again)
        then = ++watch->losses <= LOSSES_MAX && start_reader(watch, &why) == 0
                   ? "; some functions may have no names"
                   : "; names of Lua and JavaScript functions are read no more";
    snprintf(line + shown, sizeof(line) - (size_t)shown, "%s", then);
    watch_say(watch, false, line);
    return 0;
}

static int started(void *context, struct capture *c, struct error *err)
{
    struct process_watch *watch = context;
    bool first = !watch->capture_begun;
    watch->capture = c;
    watch->capture_begun = true;
    if (first && start_reader(watch, err) < 0)
        return -1;
    if (reader_call(watch->reader, CALL_REWRITE, err) < 0 || await_start(watch, err) < 0 ||
        (watch->alloc && write_pieces(watch, err) < 0))
        return -1;
    return revive(watch, true, err);
}

/* ---- the recorder's passes ------------------------------------------------------------------- */

static int sample(void *context, struct capture *c, const struct sample *s, struct error *err)
{
    struct process_watch *watch = context;
    unsigned beside = atomic_load(&watch->hints->beside);
    (void)c;
    if (beside != watch->here)
        watch_stay_on(beside - 1);
    watch->here = beside;
    return reader_sample(watch->reader, s, err);
}

/* Whether a record says which processes exist, and which files they have mapped. */
static bool is_looked_at(const struct perf_event_header *h)
{
    struct record rec;
    struct record_comm comm;
    struct record_task task;
    struct record_mmap m;
    if (perfdata_record_parse(h, h->size, &rec, NULL) < 0)
        return false;
    switch (rec.type) {
    case PERF_RECORD_COMM:
        return perfdata_comm(NULL, &rec, &comm, NULL) == 0 && comm.exec;
    case PERF_RECORD_FORK:
        return perfdata_task(NULL, &rec, &task, NULL) == 0 && task.pid != task.ppid;
    case PERF_RECORD_EXIT:
        return perfdata_task(NULL, &rec, &task, NULL) == 0 && task.pid == task.tid;
    case PERF_RECORD_MMAP2:
        return perfdata_mmap(NULL, &rec, &m, NULL) == 0 && m.filename[0] == '/';
    default:
        return false;
    }
}

/* What the recorder itself notes of a process ends with that process; a new one is probed as its
 * parent is. */
static void note_task(struct process_watch *watch, const struct perf_event_header *h)
{
    struct record rec;
    struct record_task task;
    struct error why = {0};
    if ((h->type != PERF_RECORD_EXIT && h->type != PERF_RECORD_FORK) ||
        (!watch->shunned.nr && !watch->alloc) ||
        perfdata_record_parse(h, h->size, &rec, NULL) < 0 ||
        perfdata_task(NULL, &rec, &task, NULL) < 0)
        return;
    if (h->type == PERF_RECORD_FORK) {
        if (watch->alloc && task.pid != task.ppid &&
            alloc_fork(watch->alloc, (pid_t)task.ppid, (pid_t)task.pid, &why) < 0)
            watch_say(watch, false, why.text);
    } else if (task.pid == task.tid) {
        table_remove(&watch->shunned, (uint64_t)task.pid + 1);
        if (watch->alloc)
            alloc_exit(watch->alloc, (pid_t)task.pid);
    }
}

static int record(void *context, struct capture *c, const struct perf_event_header *h,
                  struct error *err)
{
    struct process_watch *watch = context;
    (void)c;
    note_task(watch, h);
    return is_looked_at(h) ? reader_record(watch->reader, h, err) : 0;
}

/* A recorded thread waits at the end: its stack is to be read. */
static int take_waiting(void *context, const struct off_cpu_thread *t, struct error *err)
{
    struct process_watch *watch = context;
    struct waiting_record w = {.header = {.type = RECORD_WAITING, .size = sizeof(w)}, .of = *t};
    watch->waiting.threads++;
    watch->waiting.ns += off_cpu_waited(watch->off_cpu, t);
    watch->waiting.left_out++;
    if (t->pid == (uint32_t)getpid() || t->pid == (uint32_t)reader_pid(watch->reader) ||
        watch->waiting.threads > WAITING_MAX)
        return 0;
    return reader_record(watch->reader, &w.header, err);
}

static void enabled(void *context, bool on)
{
    struct process_watch *watch = context;
    struct error why = {0};
    if (watch->alloc)
        alloc_enable(watch->alloc, on);
    if (!watch->off_cpu)
        return;
    if (!on && off_cpu_list(watch->off_cpu, take_waiting, watch, &why) < 0)
        watch_say(watch, false, why.text);
    off_cpu_enable(watch->off_cpu, on);
}

static int rewrite(void *context, const struct perfdata_event *event,
                   const struct perf_event_header *record, struct sample *s, struct trimmed *t)
{
    struct process_watch *watch = context;
    int r = watch->off_cpu ? off_cpu_rewrite(watch->off_cpu, event, record, s, t) : 0;
    return !r && watch->alloc ? alloc_rewrite(watch->alloc, event, record, s, t) : r;
}

static int write_record(void *context, const struct perf_event_header *record, struct error *err)
{
    return capture_write(context, record, record->size, err);
}

static int follow_alloc(struct process_watch *watch, struct capture *c, struct error *err)
{
    if (!watch->alloc)
        return 0;
    watch_say(watch, false, alloc_follow(watch->alloc));
    if (alloc_bursts(watch->alloc, err) < 0)
        return -1;
    return alloc_write_ends(watch->alloc, capture_now(c), write_record, c, err);
}

static int tick(void *context, struct capture *c, struct error *err)
{
    struct process_watch *watch = context;
    if (watch->off_cpu && off_cpu_follow(watch->off_cpu, err) < 0)
        return -1;
    if (follow_alloc(watch, c, err) < 0 || revive(watch, true, err) < 0)
        return -1;
    watch->hooks.interval_ms = atomic_load(&watch->hints->interval);
    watch->hooks.rest_ms = watch->hooks.interval_ms < READ_RINGS_REST_MS ? watch->hooks.interval_ms
                                                                         : READ_RINGS_REST_MS;
    return reader_kick(watch->reader, err) < 0 ? -1 : write_pieces(watch, err);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Let the reader do something, wait, and write what it has written. */
static int do_and_write(struct process_watch *watch, unsigned call, struct error *err)
{
    return reader_call(watch->reader, call, err) < 0 || await_reader(watch, err) < 0
               ? -1
               : write_pieces(watch, err);
}

static int ending(void *context, struct capture *c, struct error *err)
{
    struct process_watch *watch = context;
    (void)c;
    return do_and_write(watch, CALL_END_FILE, err);
}

/* Say what the copier could not do. */
static void say_counters(const struct process_watch *watch)
{
    char line[200];
    struct vmstack_counters c = {0};
    if (watch->copier)
        c = copier_counters(watch->copier);
    const uint64_t *v = c.value;
    if (v[VMSTACK_LOST]) {
        snprintf(line, sizeof(line),
                 "%llu of %llu vmstacks were lost, because the rings were full; larger ones "
                 "(-m) or a lower -F keep them",
                 (unsigned long long)v[VMSTACK_LOST],
                 (unsigned long long)(v[VMSTACK_COPIED] + v[VMSTACK_NONE]));
        watch_say(watch, false, line);
    }
    snprintf(line, sizeof(line),
             "copier: %llu samples, %llu with VMs (%llu ns each), %llu without, %llu in other "
             "processes; %llu stacks cut, %llu in pieces, %llu records full, %llu nested",
             (unsigned long long)v[VMSTACK_SAMPLES], (unsigned long long)v[VMSTACK_COPIED],
             (unsigned long long)(v[VMSTACK_COPIED] ? v[VMSTACK_TIME] / v[VMSTACK_COPIED] : 0),
             (unsigned long long)v[VMSTACK_NONE], (unsigned long long)v[VMSTACK_UNKNOWN],
             (unsigned long long)v[VMSTACK_CUT], (unsigned long long)v[VMSTACK_FAILED],
             (unsigned long long)v[VMSTACK_WHOLE], (unsigned long long)v[VMSTACK_BUSY]);
    if (watch->copier)
        watch_say(watch, true, line);
}

static void say_lua_counters(const struct process_watch *watch)
{
    char line[200];
    if (!watch->copier)
        return;
    struct vmstack_counters c = copier_counters(watch->copier);
    snprintf(line, sizeof(line),
             "copier: plain Lua: %llu states, %llu lists of calls cut (of each, the newest %d are "
             "copied), %llu frames of the interpreter without a state near",
             (unsigned long long)c.value[VMSTACK_LUA_COPIED],
             (unsigned long long)c.value[VMSTACK_LUA_CUT], VMSTACK_LUA_CALLS,
             (unsigned long long)c.value[VMSTACK_LUA_MISSED]);
    if (c.value[VMSTACK_LUA_COPIED])
        watch_say(watch, true, line);
}

static void say_off_cpu(const struct process_watch *watch)
{
    char line[240];
    if (!watch->off_cpu)
        return;
    const struct vmstack_counters c = copier_counters(watch->copier);
    const unsigned long long *v = (const unsigned long long *)c.value;
    snprintf(line, sizeof(line),
             "off-cpu: %llu waits, %.3f s: %llu samples; %llu lost because the rings were full "
             "(-m), %llu left out because the thread went on first, and %llu because a table was "
             "full",
             v[OFF_CPU_WAITS], (double)v[OFF_CPU_NS] / 1e9, v[OFF_CPU_SAMPLES], v[OFF_CPU_LOST],
             v[OFF_CPU_UNSEEN], v[OFF_CPU_OVER]);
    bool few = v[OFF_CPU_UNSEEN] * 100 <= v[OFF_CPU_SAMPLES];
    watch_say(watch, few && !v[OFF_CPU_LOST] && !v[OFF_CPU_OVER], line);
    snprintf(
        line, sizeof(line),
        "off-cpu: %llu waits are missing, of %.3f s at most: the kernel did not show that they "
        "ended",
        v[OFF_CPU_MISSED], (double)v[OFF_CPU_MISSED_NS] / 1e9);
    if (v[OFF_CPU_MISSED])
        watch_say(watch, v[OFF_CPU_MISSED] * 100 <= v[OFF_CPU_WAITS], line);
    snprintf(line, sizeof(line),
             "off-cpu: of %llu of these samples nobody was seen to wake the thread",
             v[OFF_CPU_NO_WAKE]);
    if (v[OFF_CPU_NO_WAKE])
        watch_say(watch, v[OFF_CPU_NO_WAKE] * 20 <= v[OFF_CPU_SAMPLES], line);
    snprintf(line, sizeof(line), "off-cpu: %llu threads waited at the end, %.3f s",
             (unsigned long long)watch->waiting.threads, (double)watch->waiting.ns / 1e9);
    watch_say(watch, true, line);
    if (watch->waiting.threads <= WAITING_MAX)
        return;
    snprintf(line, sizeof(line),
             "off-cpu: of %llu threads that still waited at the end, %llu are not in the recording",
             (unsigned long long)watch->waiting.threads,
             (unsigned long long)watch->waiting.left_out);
    watch_say(watch, false, line);
}

static void say_alloc(const struct process_watch *watch)
{
    bool matters;
    if (!watch->alloc)
        return;
    const char *line = alloc_summary(watch->alloc, &matters);
    watch_say(watch, !matters, line);
}

static int finish(void *context, struct capture *c, struct error *err)
{
    struct process_watch *watch = context;
    if (watch->alloc && alloc_write_rest(watch->alloc, capture_now(c), write_record, c, err) < 0)
        return -1;
    if (ending(context, c, err) < 0 || do_and_write(watch, CALL_FINISH, err) < 0 ||
        revive(watch, false, err) < 0)
        return -1;
    say_counters(watch);
    say_lua_counters(watch);
    say_off_cpu(watch);
    say_alloc(watch);
    reader_end(watch->reader);
    runtime_files_save(watch->tools.files);
    return 0;
}

/* ---- creation ------------------------------------------------------------------------------ */

struct process_watch *process_watch_create(const struct process_watch_options *options,
                                           process_watch_say say_, void *say_context)
{
    static const struct dso_options no_options = {.no_debuginfod = true};
    struct process_watch *watch = calloc(1, sizeof(*watch));
    if (!watch)
        return NULL;
    watch->options = *options;
    watch->say = say_;
    watch->say_context = say_context;
    watch->hooks = (struct capture_hooks){.context = watch,
                                          .interval_ms = READ_RINGS_SEARCHING_MS,
                                          .opened = opened,
                                          .started = started,
                                          .ending = ending,
                                          .enabled = enabled,
                                          .rewrite = rewrite,
                                          .sample = sample,
                                          .record = record,
                                          .tick = tick,
                                          .finish = finish};
    const struct reader_work work = process_look_work(watch);
    watch->form = !options->thread && confine_is_wanted() ? READER_PROCESS : READER_THREAD;
    watch->reader = reader_create(&work);
    watch->hints = watch->reader ? reader_common(watch->reader) : NULL;
    if (watch->hints)
        atomic_init(&watch->hints->interval, READ_RINGS_SEARCHING_MS);
    if (!watch->options.no_copier) /* `opened` will say why it failed */
        (void)copier_create(watch->options.stack,
                            (options->off_cpu.mean ? COPIER_OFF_CPU : 0) |
                                (options->alloc.mean ? COPIER_ALLOC : 0),
                            &watch->copier, &watch->refusal);
    struct watch_tools *t = &watch->tools;
    t->sink = process_look_sink(watch);
    t->files = runtime_files_create();
    t->dsos = dsos_create(&no_options);
    t->unwinder = unwinder_create(NULL);
    t->managed = managed_names_create();
    t->names = t->managed ? luajit_names_create(t->managed) : NULL;
    const struct watch_means means = {
        .dsos = t->dsos, .unwinder = t->unwinder, .sink = t->sink, .copier = &watch->copier};
    if (t->dsos && t->unwinder)
        watch->watches = watches_create(&means);
    watch->code = code_watch_create(&t->sink);
    watch->alloc_files = alloc_files_create();
    if (watch->alloc_files && watch->code && watch->reader && t->files && t->dsos && t->unwinder &&
        t->names && watch->watches) {
        runtime_files_load(t->files);
        return watch;
    }
    process_watch_free(watch);
    return NULL;
}

bool process_watch_reads_late(const struct process_watch *watch)
{
    return !watch->copier;
}

void process_watch_leave_alloc(struct process_watch *watch)
{
    watch->options.alloc.mean = 0;
}

const struct capture_hooks *process_watch_hooks(struct process_watch *watch)
{
    return &watch->hooks;
}

void process_watch_free(struct process_watch *watch)
{
    if (!watch)
        return;
    reader_free(watch->reader);
    table_free(&watch->shunned);
    vec_foreach (slot, &watch->targets)
        lua_watch_free(slot->value);
    table_free(&watch->targets);
    table_free(&watch->tasks);
    vmstack_pairing_free(&watch->copies);
    vmstack_ref_release(&watch->bytes);
    off_cpu_free(watch->off_cpu);
    alloc_free(watch->alloc);
    alloc_files_free(watch->alloc_files);
    copier_free(watch->copier);
    luajit_names_free(watch->tools.names);
    managed_names_free(watch->tools.managed);
    watches_free(watch->watches);
    code_watch_free(watch->code);
    unwinder_free(watch->tools.unwinder);
    dsos_free(watch->tools.dsos);
    runtime_files_free(watch->tools.files);
    free(watch);
}

struct rusage process_watch_used(const struct process_watch *watch)
{
    return reader_used(watch->reader);
}
