/* SPDX-License-Identifier: GPL-2.0-only */
/* The recorder's hooks for managed code. See process_watch.h. */
#include "live/process_watch.h"

#include "live/reader_thread.h"
#include "live/code_watch.h"
#include "live/copier.h"
#include "live/watch.h"
#include "live/runtime_files.h"
#include "live/lua_watch.h"
#include "live/plain_lua.h"
#include "dso/dso.h"
#include "perfdata/vmevent.h"
#include "session/vmstack_pairing.h"
#include "base/table.h"
#include "unwind/lua/runtime.h"
#include "unwind/luajit/runtime.h"
#include "unwind/unwind.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    MS = 1000000,                   /* ns */
    READ_RINGS_SEARCHING_MS = 1,    /* ms between readings of the rings while VMs are expected */
    READ_RINGS_MS = 10,             /* ms between readings of the rings later */
    READ_RINGS_IDLE_MS = 100,       /* ms, at most, where every record wakes the recorder */
    REREAD_EVERY_NS = 10 * MS,      /* ns between two readings of known objects */
    REREAD_OBJECTS_MAX = 512,       /* objects of one process that are read again in a pass */
    NEW_PROCESS_NS = 200 * MS,      /* ns for which a process counts as new */
    LOOK_FOR_EXITED_NS = 1000 * MS, /* ns between two searches for ended processes */
    LATE_SAMPLE_NS = 300 * MS,      /* ns after which the Lua of a sample is not walked any more */
    /* The same, for a sample that came with its Lua stack: the objects that the stack names live
     * on, and what was read for later samples serves this one, too. */
    LATE_VMSTACK_NS = 1000 * MS,
};

/* The bits of a struct task in its word; the others are its time. */
enum {
    TASK_HOLDS = HOLDS_MASK,
    TASK_SEEN = HOLDS_MASK + 1,
    TASK_EXECUTED = 2 * TASK_SEEN,
    TASK_BITS = 2 * TASK_EXECUTED - 1
};

/* The kernel uses no ids above 2^63. */
static const uint64_t MEM_ID = UINT64_C(0xa000000000000001);

struct process_watch {
    struct capture_hooks hooks;
    /* The thread that walks and reads. The members below belong to it while it runs. */
    struct reader_thread *reader;
    struct process_watch_options options;
    process_watch_say say;
    void *say_context;
    struct capture *capture; /* the recorder's, once recording has begun */
    struct copier *copier;   /* NULL: refused, or not wanted */
    struct error refusal;    /* why the copier was refused */
    struct watch_tools tools;
    struct table tasks;      /* pid + 1 -> a struct task, in the bits of one word */
    size_t tasks_left;       /* number of tasks after the last search for ended ones */
    struct table targets;    /* pid + 1 -> struct lua_watch, of processes with LuaJIT */
    struct watches *watches; /* of the runtimes but LuaJIT */
    struct code_watch *code; /* perf maps and jitdumps */
    struct vmstack_pairing copies;
    struct vmstack_ref bytes; /* of the vmstack below */
    struct vmstack copy;      /* of the current sample */
    uint64_t last_pass, last_new, last_gone;
    bool logs;            /* the recording's clock can be read: readings have times */
    clockid_t clockid;    /* the recording's clock */
    bool said_full;       /* we said that the copier's table is full */
    bool behind;          /* samples are not walked until the queue is empty */
    uint64_t late;        /* samples that were too old to be walked */
    uint64_t logged;      /* bytes of the log in the current file */
    bool said_limit;      /* we said that the log has reached its limit */
    bool eager;           /* search files when they are mapped */
    bool wakes_early;     /* every record wakes the recorder */
    atomic_uint interval; /* ms: READ_RINGS_SEARCHING_MS, READ_RINGS_MS or READ_RINGS_IDLE_MS */
    atomic_uint beside;   /* 1 + the cpu whose samples the thread follows */
    /* `here`: the `beside` that the recorder follows; `elsewhere`: samples on other cpus since. */
    unsigned here, elsewhere;
    struct process_watch_stats stats; /* of targets that have ended */
    uint8_t record[MEM_RECORD_MAX];   /* used by the recorder only */
};

static void say(const struct process_watch *watch, bool detail, const char *line)
{
    if (watch->say && line)
        watch->say(watch->say_context, detail, line);
}

static uint64_t monotonic(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- the log's events ---------------------------------------------------------------------- */

/* The clock of the samples; 0 when user space cannot read it. */
static uint64_t log_now(void *context)
{
    const struct process_watch *watch = context;
    struct timespec now;
    if (!watch->logs || clock_gettime(watch->clockid, &now) < 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int log_write(void *context, const void *payload, size_t size, struct error *err)
{
    struct process_watch *watch = context;
    watch->logged += size;
    return reader_thread_write(watch->reader, payload, size, err);
}

/* Limits the log: a program that makes code for ever would fill the disk. */
static bool log_full(void *context)
{
    struct process_watch *watch = context;
    if (!watch->options.max_log || watch->logged < watch->options.max_log)
        return false;
    if (!watch->said_limit)
        say(watch, false,
            "the log of VM memory has reached --max-log; functions that are created from now on "
            "may have no names; use a larger --max-log or --switch-output");
    watch->said_limit = true;
    return true;
}

/* Called from the recorder's hooks: a record's time is the time of the round it is written in. */
static int write_log(struct process_watch *watch, struct error *err)
{
    const void *payload;
    size_t size;
    while (reader_thread_take(watch->reader, &payload, &size)) {
        size_t record = mem_writer_record(payload, size, MEM_ID, log_now(watch), watch->record);
        if (!record)
            return error_set(err, ERROR_UNSUPPORTED, "ljperf:mem: %zu bytes do not fit a record",
                             size);
        if (capture_write(watch->capture, watch->record, record, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- targets ------------------------------------------------------------------------------- */

static void add_log(struct process_watch_stats *s, const struct lua_watch *t)
{
    struct lua_watch_stats of = lua_watch_stats(t);
    size_t nr;
    (void)lua_watch_vms(t, &nr);
    s->processes += lua_watch_has_lua(t);
    s->vms += nr;
    s->walks += of.walks;
    s->scans += of.scans;
    s->left_out += of.left_out;
    s->log_bytes += of.log.bytes;
    s->log_contents += of.log.written;
    s->log_marks += of.log.marks;
    s->refused += of.log.refused;
    s->unwritten += of.log.unwritten;
}

static struct lua_watch *target_find(const struct process_watch *watch, pid_t pid)
{
    return table_get(&watch->targets, (uint64_t)(uint32_t)pid + 1);
}

/* What is known of a process by its records and looks. */
struct task {
    unsigned holds; /* bits HOLDS_... of its files; HOLDS_UNKNOWN alone: no entry */
    bool executed;  /* since it began, by a record */
    uint64_t time;  /* of the newest record or look that this is from, ns of the recording */
};

static struct task task_get(const struct process_watch *watch, pid_t pid)
{
    uintptr_t value = (uintptr_t)table_get(&watch->tasks, (uint64_t)(uint32_t)pid + 1);
    if (!value)
        return (struct task){.holds = HOLDS_UNKNOWN};
    return (struct task){.holds = value & TASK_HOLDS,
                         .executed = value & TASK_EXECUTED,
                         .time = value & ~(uintptr_t)TASK_BITS};
}

/* Write what waits of a process, and forget the process. */
static int target_end(struct process_watch *watch, pid_t pid, struct error *err)
{
    struct lua_watch *t = target_find(watch, pid);
    if (watches_end(watch->watches, (uint32_t)pid, err) < 0 ||
        code_watch_end(watch->code, pid, err) < 0)
        return -1;
    if (watch->copier && (t || task_get(watch, pid).holds & holds_bit(&lua_runtime)))
        copier_drop(watch->copier, pid);
    if (!t)
        return 0;
    int failed = lua_watch_flush(t, err);
    add_log(&watch->stats, t);
    table_remove(&watch->targets, (uint64_t)(uint32_t)pid + 1);
    lua_watch_free(t);
    return failed;
}

static int task_put(struct process_watch *watch, pid_t pid, const struct task *t, struct error *err)
{
    uintptr_t value = (uintptr_t)(t->time & ~(uint64_t)TASK_BITS) | TASK_SEEN | t->holds |
                      (t->executed ? TASK_EXECUTED : 0);
    return table_put(&watch->tasks, (uint64_t)(uint32_t)pid + 1, (void *)value)
               ? 0
               : error_no_memory(err);
}

static void task_forget(struct process_watch *watch, pid_t pid)
{
    table_remove(&watch->tasks, (uint64_t)(uint32_t)pid + 1);
}

static struct lua_watch *target_begin(struct process_watch *watch, pid_t pid, struct error *err)
{
    struct lua_watch *t = lua_watch_create(pid, &watch->tools);
    if (t && table_put(&watch->targets, (uint64_t)(uint32_t)pid + 1, t)) {
        watch->last_new = monotonic();
        return t;
    }
    lua_watch_free(t);
    error_no_memory(err);
    return NULL;
}

/* Tell the copier about a process's VMs. If the copier cannot take them, say so, but do not
 * fail. */
static void tell_vms(struct process_watch *watch, const struct lua_watch *t)
{
    struct error err = {0};
    size_t over = 0;
    struct copier_vms of = {0};
    of.vms = lua_watch_vms(t, &of.nr);
    of.blobs = lua_watch_blobs(t, &of.nr_blobs);
    if (!watch->copier || !lua_watch_has_lua(t))
        return;
    int failed = copier_set(watch->copier, lua_watch_pid(t), &of, &over, &err);
    if ((!failed && !over) || watch->said_full)
        return;
    watch->said_full = true;
    if (!failed)
        snprintf(
            err.text, sizeof(err.text),
            "process %d has %zu Lua VMs; %zu of them are found by the sample's registers only, so "
            "some of their samples may have no vmstacks",
            lua_watch_pid(t), of.nr, over);
    say(watch, false, err.text);
}

/* What the copier could not take of plain Lua's is said, but does not fail. Returns -1 when memory
 * is out. */
static int plain_refused(struct process_watch *watch, const struct error *why, struct error *err)
{
    if (why->kind == ERROR_NO_MEMORY)
        return error_no_memory(err);
    if (!watch->said_full)
        say(watch, false, why->text);
    watch->said_full = true;
    return 0;
}

/* Tell the copier about plain Lua, if the process's files hold it. */
static int tell_plain(struct process_watch *watch, pid_t pid, unsigned holds, struct error *err)
{
    struct error why = {0};
    if (!watch->copier || !(holds & holds_bit(&lua_runtime)) ||
        plain_lua_tell(watch->copier, watch->tools.dsos, pid, &why) == 0)
        return 0;
    return plain_refused(watch, &why, err);
}

/* The same for a process that was forked: it has what its parent has. */
static int fork_plain(struct process_watch *watch, pid_t parent, pid_t pid, unsigned holds,
                      struct error *err)
{
    struct error why = {0};
    if (!watch->copier || !(holds & holds_bit(&lua_runtime)) ||
        copier_fork_lua(watch->copier, parent, pid, &why) == 0)
        return 0;
    return plain_refused(watch, &why, err);
}

static int target_scan(struct process_watch *watch, struct lua_watch *t, struct error *err)
{
    int changed = lua_watch_scan(t, monotonic(), err);
    if (changed < 0)
        return -1;
    if (changed)
        tell_vms(watch, t);
    return 0;
}

/* Call when a process has mapped a file with LuaJIT. */
static int target_mapped(struct process_watch *watch, pid_t pid, struct error *err)
{
    struct lua_watch *t = target_find(watch, pid);
    if (!t && !(t = target_begin(watch, pid, err)))
        return -1;
    lua_watch_mapped(t);
    return target_scan(watch, t, err);
}

/* Examine the current mappings of a process. A process that has ended, or that we may not read,
 * holds nothing. */
static int task_look(struct process_watch *watch, pid_t pid, unsigned *ret, struct error *err)
{
    struct error why = {0};
    *ret = 0;
    int failed = lua_scan_look(watch->tools.files, pid, ret, NULL, &why);
    if (failed && why.kind == ERROR_NO_MEMORY)
        return error_no_memory(err);
    for (const char *line; (line = runtime_files_problem(watch->tools.files));)
        say(watch, false, line);
    struct task task = task_get(watch, pid);
    task.holds = *ret;
    task.time = log_now(watch);
    if (task_put(watch, pid, &task, err) < 0 || tell_plain(watch, pid, *ret, err) < 0 ||
        (*ret & HOLDS_GENERATED && code_watch_begin(watch->code, pid, err) < 0))
        return -1;
    return *ret & holds_bit(&luajit_runtime) ? target_mapped(watch, pid, err) : 0;
}

static int target_from_start(struct process_watch *watch, pid_t pid, struct error *err)
{
    unsigned ignored;
    return task_look(watch, pid, &ignored, err);
}

static int scan_all_processes(struct process_watch *watch, struct error *err)
{
    DIR *dir = opendir("/proc");
    int failed = 0;
    for (struct dirent *e; dir && !failed && (e = readdir(dir));) {
        if (isdigit((unsigned char)e->d_name[0]))
            failed = target_from_start(watch, (pid_t)atoi(e->d_name), err);
    }
    if (dir)
        closedir(dir);
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
        say(watch, true, line);
        say(watch, false, copier_limit(watch->copier));
        return;
    }
    copier_free(watch->copier);
    watch->copier = NULL;
    snprintf(line, sizeof(line), "Lua stacks are read after the samples, not with them: %s",
             why.text);
    say(watch, false, line);
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
    e.name = VMEVENT_MEM_NAME;
    e.ids = &MEM_ID;
    e.nr_ids = 1;
    return !watch->logs || vec_push(more, e) ? 0 : error_no_memory(err);
}

static int opened(void *context, const struct capture_plan *plan, perfdata_event_vec *more,
                  struct error *err)
{
    struct process_watch *watch = context;
    const struct perf_event_attr attr = copier_attr(plan->use_clockid, plan->clockid);
    int failed = 0;
    watch->logs = plan->use_clockid;
    watch->clockid = plan->clockid;
    watch->eager = !plan->system_wide;
    watch->wakes_early = plan->wakes_early;
    if (!watch->logs)
        say(watch, false,
            "the names of Lua functions are not recorded, because the samples' clock cannot be "
            "read; use -k mono");
    try_copier(watch, plan, &attr);
    if (push_events(watch, &attr, more, err) < 0)
        return -1;
    for (size_t i = 0; i < plan->nr_pids && !plan->command && !failed; i++)
        failed = target_from_start(watch, plan->pids[i], err);
    if (plan->system_wide && !failed)
        failed = scan_all_processes(watch, err);
    return failed;
}

static int started(void *context, struct capture *c, struct error *err)
{
    struct process_watch *watch = context;
    if (reader_thread_wait(watch->reader, err) < 0)
        return -1;
    watch->capture = c;
    watch->logged = 0;
    watch->last_new = monotonic(); /* the command will be executed now */
    vec_foreach (slot, &watch->targets)
        lua_watch_rewrite(slot->value);
    watches_rewrite(watch->watches);
    code_watch_rewrite(watch->code);
    return reader_thread_start(watch->reader, err);
}

/* ---- samples ------------------------------------------------------------------------------- */

/* The copy that came before this sample in its ring, if it holds a VM. */
static const struct vmstack *copy_of(struct process_watch *watch, const struct sample *s)
{
    uint64_t ip, sp;
    vmstack_ref_release(&watch->bytes);
    vmstack_pairing_give(&watch->copies, s, &watch->bytes);
    bool is_it = watch->bytes.bytes && sample_user_reg(s, 8, &ip) && sample_user_reg(s, 7, &sp) &&
                 vmstack_open(&watch->copy, watch->bytes.bytes, watch->bytes.size, s->tid, ip, sp);
    return is_it && watch->copy.reason == VMEVENT_MATCHED ? &watch->copy : NULL;
}

/* Run the calling thread on one cpu only from now on. */
static void stay_on(unsigned cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)sched_setaffinity(0, sizeof(set), &set); /* if refused, the thread stays where it is */
}

/* Called in the thread. Without a copier, a stack is read when the recorder gets its turn. If the
 * sampled thread has a cpu of its own, it does not run while we run on that cpu. Threads on several
 * cpus cannot all be followed. */
static void follow(struct process_watch *watch, uint32_t cpu)
{
    enum { PATIENCE = 16 };
    unsigned at = atomic_load(&watch->beside);
    if (at == cpu + 1 || cpu >= CPU_SETSIZE) {
        watch->elsewhere = 0;
        return;
    }
    if (at && ++watch->elsewhere < PATIENCE)
        return;
    watch->elsewhere = 0;
    stay_on(cpu);
    atomic_store(&watch->beside, cpu + 1);
}

/* Called in the thread. */
static int look_at_sample(void *context, const struct sample *s, struct error *err)
{
    struct process_watch *watch = context;
    struct vmevent e;
    if (vmevent_of_sample(s, &e))
        return e.head.kind == VMEVENT_STACK && (vmstack_pairing_hold(&watch->copies, s, err) < 0 ||
                                                vmstack_pairing_keep(&watch->copies, err) < 0)
                   ? -1
                   : 0;
    const struct vmstack *copy = copy_of(watch, s);
    if (s->user_abi != PERF_SAMPLE_REGS_ABI_64)
        return 0;
    unsigned holds = task_get(watch, (pid_t)s->pid).holds;
    if (holds & HOLDS_UNKNOWN && task_look(watch, (pid_t)s->pid, &holds, err) < 0)
        return -1;
    uint64_t now = log_now(watch), age = now > s->time ? now - s->time : 0;
    if (!watch->copier && watch->logs && holds & holds_bit(&lua_runtime))
        follow(watch, s->cpu);
    if (watch->logs && watches_sample(watch->watches, s, copy, holds, age, err) < 0)
        return -1;
    struct lua_watch *t = target_find(watch, (pid_t)s->pid);
    if (!t)
        return 0;
    if (copy && !copy->nr_vms) /* it has the stacks of plain Lua alone */
        copy = NULL;
    /* the process has changed since a late sample, and reading it would delay all later samples */
    watch->behind |= age > LATE_SAMPLE_NS;
    bool late = copy ? age > LATE_VMSTACK_NS : watch->behind;
    watch->late += watch->logs && late && lua_watch_has_lua(t);
    if (!watch->logs || late)
        return 0;
    if (!watch->copier && lua_watch_has_lua(t))
        follow(watch, s->cpu);
    int met = lua_watch_walk(t, s, copy, watch->copier != NULL, err);
    if (met > 0)
        tell_vms(watch, t);
    return met < 0 ? -1 : 0;
}

static int sample(void *context, struct capture *c, const struct sample *s, struct error *err)
{
    struct process_watch *watch = context;
    unsigned beside = atomic_load(&watch->beside);
    (void)c;
    if (beside != watch->here)
        stay_on(beside - 1);
    watch->here = beside;
    return reader_thread_sample(watch->reader, s, err);
}

/* ---- other records ------------------------------------------------------------------------- */

/* Rings are read one after the other, so the fork of a process may be read after its exec, or its
 * exec after its mappings. */
static int forked(struct process_watch *watch, pid_t parent, pid_t pid, uint64_t time,
                  struct error *err)
{
    const struct lua_watch *from = target_find(watch, parent);
    const struct task known = task_get(watch, pid);
    struct task task = task_get(watch, parent);
    if (known.executed && known.time > time)
        return 0;
    if (target_end(watch, pid, err) < 0)
        return -1;
    task.executed = false;
    task.time = time;
    if (task.holds & HOLDS_UNKNOWN)
        task_forget(watch, pid);
    else if (task_put(watch, pid, &task, err) < 0 ||
             fork_plain(watch, parent, pid, task.holds, err) < 0 ||
             (task.holds & HOLDS_GENERATED && code_watch_begin(watch->code, pid, err) < 0))
        return -1;
    if (!from)
        return 0;
    struct lua_watch *t = target_begin(watch, pid, err);
    if (!t || lua_watch_inherit(t, from, err) < 0)
        return -1;
    tell_vms(watch, t);
    return 0;
}

static int executed(struct process_watch *watch, pid_t pid, uint64_t time, struct error *err)
{
    struct task task = task_get(watch, pid);
    bool newer = task.time > time; /* what is known is of the new program */
    if (watch->eager)
        watch->last_new = monotonic();
    if (!newer && target_end(watch, pid, err) < 0)
        return -1;
    if (!newer)
        task = (struct task){.time = time};
    task.executed = true;
    return task_put(watch, pid, &task, err);
}

static int ended(struct process_watch *watch, pid_t pid, struct error *err)
{
    int failed = target_end(watch, pid, err);
    task_forget(watch, pid);
    return failed;
}

static uint64_t record_time(const struct record *rec)
{
    struct record_ids ids;
    perfdata_record_ids(rec, CAPTURE_IDS, &ids);
    return ids.time;
}

static struct runtime_file_key file_of_map(const struct record_mmap *m)
{
    return (struct runtime_file_key){
        .major = m->maj, .minor = m->min, .inode = m->ino, .build_id = m->build_id};
}

/* A file was mapped executable. Either it is known what the file holds, or the file is searched
 * when the process is sampled. If only given processes are recorded, it is searched at once. */
static int mapped_file(struct process_watch *watch, const struct record_mmap *m, uint64_t time,
                       struct error *err)
{
    pid_t pid = (pid_t)m->pid;
    const struct runtime_file_key key = file_of_map(m);
    unsigned more = runtime_files_find(watch->tools.files, &key);
    struct task task = task_get(watch, pid);
    struct lua_watch *t = target_find(watch, pid);
    if (t)
        lua_watch_mapped(t);
    watches_mapped_file(watch->watches, m->pid);
    if (more & HOLDS_UNKNOWN && watch->eager)
        return task_look(watch, pid, &more, err);
    task.holds |= more;
    task.executed |= time > task.time;
    task.time = time > task.time ? time : task.time;
    if (task_put(watch, pid, &task, err) < 0 || tell_plain(watch, pid, more, err) < 0)
        return -1;
    return more & holds_bit(&luajit_runtime) ? target_mapped(watch, pid, err) : 0;
}

/* A process has mapped executable memory that is no file's. */
static int note_generated(struct process_watch *watch, pid_t pid, struct error *err)
{
    struct task task = task_get(watch, pid);
    if (task.holds & (HOLDS_UNKNOWN | HOLDS_GENERATED)) /* (a look at an unknown one will see it) */
        return 0;
    task.holds |= HOLDS_GENERATED;
    return task_put(watch, pid, &task, err) < 0 ? -1 : code_watch_begin(watch->code, pid, err);
}

/* Called in the thread. */
static int mapped(struct process_watch *watch, const struct record *rec, struct error *err)
{
    struct record_mmap m;
    if (perfdata_mmap(NULL, rec, &m, err) < 0)
        return -1;
    bool is_code = m.prot & PROT_EXEC, has_file = strncmp(m.filename, "//", 2) != 0;
    if (is_code && lua_scan_is_generated(m.filename) &&
        note_generated(watch, (pid_t)m.pid, err) < 0)
        return -1;
    if (has_file && is_code)
        return code_watch_mapped(watch->code, (pid_t)m.pid, m.filename, err) < 0
                   ? -1
                   : mapped_file(watch, &m, record_time(rec), err);
    struct lua_watch *t = target_find(watch, (pid_t)m.pid);
    if (t) /* (a V8 maps its code anew all the time) */
        lua_watch_mapped(t);
    if (!has_file && is_code)
        watches_mapped(watch->watches, m.pid);
    return 0;
}

/* Called in the thread with records that is_looked_at() let through. */
static int look_at_record(void *context, const struct perf_event_header *h, struct error *err)
{
    struct process_watch *watch = context;
    struct record rec;
    struct record_comm comm;
    struct record_task task;
    if (perfdata_record_parse(h, h->size, &rec, err) < 0)
        return -1;
    if (rec.type == PERF_RECORD_MMAP2)
        return mapped(watch, &rec, err);
    if (rec.type == PERF_RECORD_COMM)
        return perfdata_comm(NULL, &rec, &comm, err) < 0
                   ? -1
                   : executed(watch, (pid_t)comm.pid, record_time(&rec), err);
    if (perfdata_task(NULL, &rec, &task, err) < 0)
        return -1;
    return rec.type == PERF_RECORD_FORK
               ? forked(watch, (pid_t)task.ppid, (pid_t)task.pid, task.time, err)
               : ended(watch, (pid_t)task.pid, err);
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

static int record(void *context, struct capture *c, const struct perf_event_header *h,
                  struct error *err)
{
    struct process_watch *watch = context;
    (void)c;
    return is_looked_at(h) ? reader_thread_record(watch->reader, h, err) : 0;
}

/* ---- passes -------------------------------------------------------------------------------- */

static bool is_gone(pid_t pid)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d", pid);
    return access(path, F_OK) < 0 && errno == ENOENT;
}

/* End the processes with a VM that are gone. The rings are emptied one after the other, so a
 * process's samples, or even the fork that created it, may come from another cpu's ring after its
 * exit. Such a record has begun the process anew, and no further exit follows. */
static int end_those_gone(struct process_watch *watch, struct error *err)
{
    VEC(pid_t) gone = {0};
    bool ok = true;
    vec_foreach (slot, &watch->targets) {
        pid_t pid = lua_watch_pid(slot->value);
        ok = ok && (!is_gone(pid) || vec_push(&gone, pid));
    }
    vec_foreach (slot, &watch->tasks) {
        pid_t pid = (pid_t)(slot->key - 1);
        bool has_vm = (uintptr_t)slot->value & (HOLDS_MASK & ~HOLDS_UNKNOWN);
        ok = ok && (!has_vm || !is_gone(pid) || vec_push(&gone, pid));
    }
    int failed = ok ? 0 : error_no_memory(err);
    for (size_t i = 0; i < gone.nr && !failed; i++)
        failed = ended(watch, gone.at[i], err);
    vec_free(&gone);
    watch->last_gone = monotonic();
    return failed;
}

/* The same for processes without a VM. They are many: done only when their number has doubled. */
static int forget_tasks_gone(struct process_watch *watch, struct error *err)
{
    enum { FEW = 1024 };
    VEC(pid_t) gone = {0};
    bool ok = true;
    if (watch->tasks.nr < FEW || watch->tasks.nr / 2 < watch->tasks_left)
        return 0;
    vec_foreach (slot, &watch->tasks) {
        pid_t pid = (pid_t)(slot->key - 1);
        ok = ok && (!is_gone(pid) || vec_push(&gone, pid));
    }
    vec_foreach (pid, &gone)
        task_forget(watch, *pid);
    vec_free(&gone);
    watch->tasks_left = watch->tasks.nr;
    return ok ? 0 : error_no_memory(err);
}

/* Called in the thread. */
static int look_again(void *context, struct error *err)
{
    struct process_watch *watch = context;
    uint64_t now = monotonic();
    watch->behind = false; /* the queue is empty */
    if (now - watch->last_gone >= LOOK_FOR_EXITED_NS &&
        (end_those_gone(watch, err) < 0 || forget_tasks_gone(watch, err) < 0))
        return -1;
    bool expects_vm = now - watch->last_new < NEW_PROCESS_NS,
         pass = now - watch->last_pass >= REREAD_EVERY_NS;
    bool searching = false;
    vec_foreach (slot, &watch->targets) {
        struct lua_watch *t = slot->value;
        if (target_scan(watch, t, err) < 0 ||
            (pass && lua_watch_pass(t, REREAD_OBJECTS_MAX, err) < 0))
            return -1;
        expects_vm |= lua_watch_expects_vm(t, now);
        searching |= lua_watch_is_searched(t);
    }
    if (pass && watches_pass(watch->watches, REREAD_OBJECTS_MAX / 2, err) < 0)
        return -1;
    if (watch->logs && code_watch_poll(watch->code, err) < 0)
        return -1;
    if (pass)
        /* A pass that has taken long is followed by an equally long pause. */
        watch->last_pass = monotonic();
    unsigned seldom = watch->wakes_early && !searching ? READ_RINGS_IDLE_MS : READ_RINGS_MS;
    atomic_store(&watch->interval, expects_vm ? READ_RINGS_SEARCHING_MS : seldom);
    return 0;
}

static int tick(void *context, struct capture *c, struct error *err)
{
    struct process_watch *watch = context;
    (void)c;
    watch->hooks.interval_ms = atomic_load(&watch->interval);
    watch->hooks.rest_ms =
        watch->hooks.interval_ms < READ_RINGS_MS ? watch->hooks.interval_ms : READ_RINGS_MS;
    return reader_thread_kick(watch->reader, err) < 0 ? -1 : write_log(watch, err);
}

/* Read everything known once more, and write it. */
static int ending(void *context, struct capture *c, struct error *err)
{
    struct process_watch *watch = context;
    (void)c;
    if (reader_thread_wait(watch->reader, err) < 0)
        return -1;
    vec_foreach (slot, &watch->targets) {
        struct lua_watch *t = slot->value;
        if (lua_watch_pass(t, SIZE_MAX, err) < 0 || lua_watch_flush(t, err) < 0)
            return -1;
    }
    if (watches_pass(watch->watches, SIZE_MAX, err) < 0 || watches_flush(watch->watches, err) < 0 ||
        code_watch_finish(watch->code, err) < 0)
        return -1;
    return write_log(watch, err);
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
                 "%llu of %llu vmstacks were lost, because the rings were full; use -m 16M or a "
                 "lower -F",
                 (unsigned long long)v[VMSTACK_LOST],
                 (unsigned long long)(v[VMSTACK_COPIED] + v[VMSTACK_NONE]));
        say(watch, false, line);
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
        say(watch, true, line);
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
        say(watch, true, line);
}

/* Say what the log holds, and what it could not take in. */
static void say_log(struct process_watch *watch)
{
    char line[200];
    struct process_watch_stats s = process_watch_stats(watch);
    snprintf(line, sizeof(line),
             "log: %llu processes with Lua, %llu VMs, %llu scans, %llu walks, %llu contents and "
             "%llu marks in %llu bytes",
             (unsigned long long)s.processes, (unsigned long long)s.vms,
             (unsigned long long)s.scans, (unsigned long long)s.walks,
             (unsigned long long)s.log_contents, (unsigned long long)s.log_marks,
             (unsigned long long)s.log_bytes);
    say(watch, true, line);
    uint64_t dropped = reader_thread_dropped(watch->reader);
    if (dropped + watch->late) {
        snprintf(
            line, sizeof(line),
            "%llu samples came too late to read their process while it ran (%llu of them found "
            "the queue full); some of their functions may have no names",
            (unsigned long long)(dropped + watch->late), (unsigned long long)dropped);
        say(watch, false, line);
    }
    if (s.unwritten) {
        snprintf(line, sizeof(line),
                 "%llu contents of VM memory were not logged, because the log was full (--max-log)",
                 (unsigned long long)s.unwritten);
        say(watch, false, line);
    }
    if (s.left_out) {
        snprintf(line, sizeof(line),
                 "%llu GiB of very large mappings were not searched for Lua VMs (Linux before 6.7 "
                 "cannot skip what was never written)",
                 (unsigned long long)(s.left_out >> 30));
        say(watch, true, line);
    }
    if (!s.refused)
        return;
    snprintf(
        line, sizeof(line),
        "%llu readings of Lua objects were not logged, because more objects came than are kept",
        (unsigned long long)s.refused);
    say(watch, false, line);
}

static int finish(void *context, struct capture *c, struct error *err)
{
    struct process_watch *watch = context;
    const char *problem = NULL;
    if (ending(context, c, err) < 0)
        return -1;
    vec_foreach (slot, &watch->targets) {
        const struct lua_watch *t = slot->value;
        if (lua_watch_has_lua(t) && !problem)
            problem = lua_watch_problem(t);
    }
    runtime_files_save(watch->tools.files);
    say(watch, false, problem);
    say_counters(watch);
    say_lua_counters(watch);
    say_log(watch);
    for (const char *line; watch->logs && (line = code_watch_problem(watch->code));)
        say(watch, false, line);
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
                                          .sample = sample,
                                          .record = record,
                                          .tick = tick,
                                          .finish = finish};
    const struct reader_thread_work work = {
        .sample = look_at_sample, .record = look_at_record, .tick = look_again, .context = watch};
    watch->reader = reader_thread_create(&work);
    atomic_init(&watch->interval, READ_RINGS_SEARCHING_MS);
    atomic_init(&watch->beside, 0);
    if (!watch->options.no_copier) /* `opened` will say why it failed */
        (void)copier_create(watch->options.stack, &watch->copier, &watch->refusal);
    struct watch_tools *t = &watch->tools;
    t->sink =
        (struct log_sink){.write = log_write, .now = log_now, .full = log_full, .context = watch};
    t->files = runtime_files_create();
    t->dsos = dsos_create(&no_options);
    t->unwinder = unwinder_create(NULL);
    t->managed = managed_names_create();
    t->names = t->managed ? luajit_names_create(t->managed) : NULL;
    const struct watch_means means = {.dsos = t->dsos, .unwinder = t->unwinder, .sink = t->sink};
    if (t->dsos && t->unwinder)
        watch->watches = watches_create(&means);
    watch->code = code_watch_create(&t->sink);
    if (watch->code && watch->reader && t->files && t->dsos && t->unwinder && t->names &&
        watch->watches) {
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

const struct capture_hooks *process_watch_hooks(struct process_watch *watch)
{
    return &watch->hooks;
}

void process_watch_free(struct process_watch *watch)
{
    if (!watch)
        return;
    reader_thread_free(watch->reader);
    vec_foreach (slot, &watch->targets)
        lua_watch_free(slot->value);
    table_free(&watch->targets);
    table_free(&watch->tasks);
    vmstack_pairing_free(&watch->copies);
    vmstack_ref_release(&watch->bytes);
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

struct process_watch_stats process_watch_stats(const struct process_watch *watch)
{
    struct process_watch_stats s = watch->stats;
    vec_foreach (slot, &watch->targets)
        add_log(&s, slot->value);
    s.targets = watch->targets.nr;
    s.has_copier = watch->copier != NULL;
    if (watch->copier)
        s.copier = copier_counters(watch->copier);
    return s;
}
