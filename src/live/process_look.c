/* SPDX-License-Identifier: GPL-2.0-only */
/* What the reader does: it looks at processes, walks samples over live memory, and logs what it
 * reads. See process_watch_internal.h. */
#include "live/process_watch_internal.h"

#include "live/bpf_load.h"
#include "live/plain_lua.h"
#include "base/clock.h"
#include "base/confine.h"
#include "base/other_file.h"
#include "base/proc.h"
#include "perfdata/vmevent.h"
#include "session/registers.h"
#include "unwind/lua/runtime.h"
#include "unwind/luajit/runtime.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum {
    REREAD_EVERY_NS = 10 * WATCH_MS,      /* ns between two readings of known objects */
    REREAD_SELDOM_NS = 40 * WATCH_MS,     /* the same where samples are few (wakes_early) */
    REREAD_OBJECTS_MAX = 512,             /* objects of one process that are read again in a pass */
    NEW_PROCESS_NS = 200 * WATCH_MS,      /* ns for which a process counts as new */
    LOOK_FOR_EXITED_NS = 1000 * WATCH_MS, /* ns between two searches for ended processes */
    LATE_SAMPLE_NS = 300 * WATCH_MS, /* ns after which the Lua of a sample is not walked any more */
    /* The same, for a sample that came with its Lua stack: the objects that the stack names live
     * on, and what was read for later samples serves this one, too. */
    LATE_VMSTACK_NS = 1000 * WATCH_MS,
};

/* The bits of a struct task in its word; the others are its time. */
enum {
    TASK_HOLDS = HOLDS_MASK,
    TASK_SEEN = HOLDS_MASK + 1,
    TASK_EXECUTED = 2 * TASK_SEEN,
    TASK_BITS = 2 * TASK_EXECUTED - 1
};

/* ---- the log's events ---------------------------------------------------------------------- */

static uint64_t log_now(void *context)
{
    return watch_now(context);
}

static int log_write(void *context, const void *payload, size_t size, struct error *err)
{
    struct process_watch *watch = context;
    watch->logged += size;
    return reader_write(watch->reader, PIECE_LOG, payload, size, err);
}

/* Limits the log: a program that makes code for ever would fill the disk. */
static bool log_full(void *context)
{
    struct process_watch *watch = context;
    if (!watch->options.max_log || watch->logged < watch->options.max_log)
        return false;
    if (!watch->said_limit)
        watch_say(
            watch, false,
            "the log of VM memory has reached --max-log; functions that are created from now on "
            "may have no names; use a larger --max-log or --switch-output");
    watch->said_limit = true;
    return true;
}

static void log_looks(void *context, pid_t pid)
{
    struct process_watch *watch = context;
    reader_look(watch->reader, pid);
}

struct log_sink process_look_sink(struct process_watch *watch)
{
    return (struct log_sink){
        .write = log_write, .now = log_now, .full = log_full, .looks = log_looks, .context = watch};
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
        watch->last_new = clock_ns(CLOCK_MONOTONIC);
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
    watch_say(watch, false, err.text);
}

/* What the copier could not take of plain Lua's is said, but does not fail. Returns -1 when memory
 * is out. */
static int plain_refused(struct process_watch *watch, const struct error *why, struct error *err)
{
    if (why->kind == ERROR_NO_MEMORY)
        return error_no_memory(err);
    if (!watch->said_full)
        watch_say(watch, false, why->text);
    watch->said_full = true;
    return 0;
}

/* Tell the copier about plain Lua, if the process's files hold it. */
static int tell_plain(struct process_watch *watch, pid_t pid, unsigned holds, struct error *err)
{
    struct error why = {0};
    if (!watch->copier || !(holds & holds_bit(&lua_runtime)) ||
        plain_lua_tell(watch->copier, watch->tools.files, pid, &why) == 0)
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

static bool is_shunned(const struct process_watch *watch, pid_t pid)
{
    return table_get(&watch->shunned, (uint64_t)(uint32_t)pid + 1) != NULL;
}

static int write_allocators(struct process_watch *watch, const struct alloc_functions *functions,
                            struct error *err)
{
    return functions->nr ? reader_write(watch->reader, PIECE_ALLOCATORS, functions,
                                        alloc_functions_size(functions->nr), err)
                         : 0;
}

/* Find the functions of a process that allocate, and hand them over. */
static int tell_allocators(struct process_watch *watch, pid_t pid, struct error *err)
{
    struct alloc_functions functions;
    if (!watch->options.alloc.mean || is_shunned(watch, pid))
        return 0;
    reader_look(watch->reader, pid);
    if (alloc_functions_find(pid, watch->alloc_files, watch->tools.dsos, &functions, err) < 0)
        return -1;
    return write_allocators(watch, &functions, err);
}

/* The same of the allocators that its LuaJITs call. */
static int tell_lua_allocators(struct process_watch *watch, const struct lua_watch *t,
                               struct error *err)
{
    struct alloc_functions functions;
    size_t nr;
    const struct lua_scan_vm *vms = lua_watch_vms(t, &nr);
    if (!watch->options.alloc.mean || !nr)
        return 0;
    if (alloc_functions_of_luajit(lua_watch_pid(t), vms, nr, watch->tools.dsos, &functions, err) <
        0)
        return -1;
    return write_allocators(watch, &functions, err);
}

static int target_scan(struct process_watch *watch, struct lua_watch *t, struct error *err)
{
    int changed = lua_watch_scan(t, clock_ns(CLOCK_MONOTONIC), err);
    if (changed < 0)
        return -1;
    if (changed)
        tell_vms(watch, t);
    return changed ? tell_lua_allocators(watch, t, err) : 0;
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
    reader_look(watch->reader, pid);
    int failed =
        is_shunned(watch, pid) ? 0 : lua_scan_look(watch->tools.files, pid, ret, NULL, &why);
    if (failed && why.kind == ERROR_NO_MEMORY)
        return error_no_memory(err);
    for (const char *line; (line = runtime_files_problem(watch->tools.files));)
        watch_say(watch, false, line);
    struct task task = task_get(watch, pid);
    task.holds = *ret;
    task.time = watch_now(watch);
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
    pid_t pids[PROC_PIDS_MAX], after = 0;
    int failed = 0;
    for (size_t nr = PROC_PIDS_MAX;
         nr == PROC_PIDS_MAX && !failed && !reader_hurried(watch->reader);) {
        nr = proc_processes(after, pids, PROC_PIDS_MAX);
        for (size_t i = 0; i < nr && !failed && !reader_hurried(watch->reader); i++)
            failed = target_from_start(watch, after = pids[i], err);
    }
    return failed;
}

/* Look at the file that will be executed, before its process begins: a program that lives for 0.1 s
 * would have ended before its file was searched. */
static int look_at_program(struct process_watch *watch, const char *path, struct error *err)
{
    struct runtime_file ignored;
    struct stat st;
    if (!path || !other_file_stat(path, &st))
        return 0;
    const struct process_map map = {
        .path = path, .inode = st.st_ino, .major = major(st.st_dev), .minor = minor(st.st_dev)};
    return runtime_files_look(watch->tools.files, getpid(), &map, &ignored, err);
}

/* Look at the processes that are recorded from the start. */
static int look_at_all(struct process_watch *watch, struct error *err)
{
    const struct capture_plan *plan = watch->plan;
    int failed = look_at_program(watch, plan->program, err);
    for (size_t i = 0; i < plan->nr_pids && !plan->command && !failed; i++)
        failed = target_from_start(watch, plan->pids[i], err);
    /* A command that waits has the recorder's C library: most have the same one. */
    for (size_t i = 0; i < plan->nr_pids && !failed; i++)
        failed = tell_allocators(watch, plan->pids[i], err);
    return plan->system_wide && !failed ? scan_all_processes(watch, err) : failed;
}

/* ---- samples ------------------------------------------------------------------------------- */

/* The copy that came before this sample in its ring, if it holds a VM. */
static const struct vmstack *copy_of(struct process_watch *watch, const struct sample *s)
{
    struct registers r;
    vmstack_ref_release(&watch->bytes);
    vmstack_pairing_give(&watch->copies, s, &watch->bytes);
    if (!watch->bytes.bytes || s->user_abi != PERF_SAMPLE_REGS_ABI_64)
        return NULL;
    sample_registers(s, arch_of_host(), &r);
    bool is_it = vmstack_open(&watch->copy, watch->bytes.bytes, watch->bytes.size, s->tid,
                              registers_pc(&r), registers_sp(&r));
    return is_it && watch->copy.reason == VMEVENT_MATCHED ? &watch->copy : NULL;
}

/* Without a copier, a stack is read when the recorder gets its turn. If the
 * sampled thread has a cpu of its own, it does not run while we run on that cpu. Threads on several
 * cpus cannot all be followed. */
static void follow(struct process_watch *watch, uint32_t cpu)
{
    enum { PATIENCE = 16 };
    unsigned at = atomic_load(&watch->hints->beside);
    if (at == cpu + 1 || cpu >= CPU_SETSIZE) {
        watch->elsewhere = 0;
        return;
    }
    if (at && ++watch->elsewhere < PATIENCE)
        return;
    watch->elsewhere = 0;
    watch_stay_on(cpu);
    atomic_store(&watch->hints->beside, cpu + 1);
}

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
    reader_look(watch->reader, (pid_t)s->pid);
    if (s->user_abi != PERF_SAMPLE_REGS_ABI_64)
        return 0;
    unsigned holds = task_get(watch, (pid_t)s->pid).holds;
    if (holds & HOLDS_UNKNOWN && task_look(watch, (pid_t)s->pid, &holds, err) < 0)
        return -1;
    uint64_t now = watch_now(watch), age = now > s->time ? now - s->time : 0;
    if (!watch->copier && watch->logs && holds & holds_bit(&lua_runtime))
        follow(watch, s->cpu);
    if (watch->logs && watches_sample(watch->watches, s, copy, holds, age, err) < 0)
        return -1;
    struct lua_watch *t = target_find(watch, (pid_t)s->pid);
    if (!t || is_shunned(watch, (pid_t)s->pid))
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
    return met < 0 || (met > 0 && tell_lua_allocators(watch, t, err) < 0) ? -1 : 0;
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
        watch->last_new = clock_ns(CLOCK_MONOTONIC);
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
    table_remove(&watch->shunned, (uint64_t)(uint32_t)pid + 1);
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
    if (tell_allocators(watch, pid, err) < 0)
        return -1;
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

static int mapped(struct process_watch *watch, const struct record *rec, struct error *err)
{
    struct record_mmap m;
    if (perfdata_mmap(NULL, rec, &m, err) < 0)
        return -1;
    reader_look(watch->reader, (pid_t)m.pid);
    if (is_shunned(watch, (pid_t)m.pid))
        return 0;
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

/* A thread waits at the end of the recording: read its stack. */
static int look_at_waiting(struct process_watch *watch, const struct off_cpu_thread *t,
                           struct error *err)
{
    struct {
        struct off_cpu_thread of;
        uint8_t stack[1 << 16];
    } piece = {.of = *t};
    reader_look(watch->reader, (pid_t)t->pid);
    size_t size = off_cpu_read_stack(watch->off_cpu, t, piece.stack, sizeof(piece.stack));
    return reader_write(watch->reader, PIECE_WAITING, &piece, sizeof(piece.of) + size, err);
}

/* Called with records that is_looked_at() of process_watch.c let through. */
static int look_at_record(void *context, const struct perf_event_header *h, struct error *err)
{
    struct process_watch *watch = context;
    struct record rec;
    struct record_comm comm;
    struct record_task task;
    if (h->type == RECORD_WAITING)
        return look_at_waiting(watch, &((const struct waiting_record *)h)->of, err);
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

/* ---- passes -------------------------------------------------------------------------------- */

/* End the processes with a VM that are gone. The rings are emptied one after the other, so a
 * process's samples, or even the fork that created it, may come from another cpu's ring after its
 * exit. Such a record has begun the process anew, and no further exit follows. */
static int end_those_gone(struct process_watch *watch, struct error *err)
{
    VEC(pid_t) gone = {0};
    bool ok = true;
    vec_foreach (slot, &watch->targets) {
        pid_t pid = lua_watch_pid(slot->value);
        ok = ok && (!proc_is_gone(pid) || vec_push(&gone, pid));
    }
    vec_foreach (slot, &watch->tasks) {
        pid_t pid = (pid_t)(slot->key - 1);
        bool has_vm = (uintptr_t)slot->value & (HOLDS_MASK & ~HOLDS_UNKNOWN);
        ok = ok && (!has_vm || !proc_is_gone(pid) || vec_push(&gone, pid));
    }
    int failed = ok ? 0 : error_no_memory(err);
    for (size_t i = 0; i < gone.nr && !failed; i++)
        failed = ended(watch, gone.at[i], err);
    vec_free(&gone);
    watch->last_gone = clock_ns(CLOCK_MONOTONIC);
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
        ok = ok && (!proc_is_gone(pid) || vec_push(&gone, pid));
    }
    vec_foreach (pid, &gone)
        task_forget(watch, *pid);
    vec_free(&gone);
    watch->tasks_left = watch->tasks.nr;
    return ok ? 0 : error_no_memory(err);
}

static int look_again(void *context, struct error *err)
{
    struct process_watch *watch = context;
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    watch->behind = false; /* the queue is empty */
    if (now - watch->last_gone >= LOOK_FOR_EXITED_NS &&
        (end_those_gone(watch, err) < 0 || forget_tasks_gone(watch, err) < 0))
        return -1;
    bool expects_vm = now - watch->last_new < NEW_PROCESS_NS,
         pass = now - watch->last_pass >= (watch->wakes_early ? REREAD_SELDOM_NS : REREAD_EVERY_NS);
    bool searching = false;
    vec_foreach (slot, &watch->targets) {
        struct lua_watch *t = slot->value;
        reader_look(watch->reader, lua_watch_pid(t));
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
        watch->last_pass = clock_ns(CLOCK_MONOTONIC);
    unsigned seldom = watch->wakes_early && !searching ? READ_RINGS_IDLE_MS : READ_RINGS_MS;
    atomic_store(&watch->hints->interval, expects_vm ? READ_RINGS_SEARCHING_MS : seldom);
    return 0;
}

/* ---- what the recorder asks for -------------------------------------------------------------- */

/* A file was begun. */
static void begin_file(struct process_watch *watch)
{
    watch->logged = 0;
    watch->last_new = clock_ns(CLOCK_MONOTONIC); /* the command will be executed now */
    vec_foreach (slot, &watch->targets)
        lua_watch_rewrite(slot->value);
    watches_rewrite(watch->watches);
    code_watch_rewrite(watch->code);
}

/* Read everything known once more, and write it. */
static int end_file(struct process_watch *watch, struct error *err)
{
    vec_foreach (slot, &watch->targets) {
        struct lua_watch *t = slot->value;
        if (lua_watch_pass(t, SIZE_MAX, err) < 0 || lua_watch_finish(t, err) < 0 ||
            lua_watch_flush(t, err) < 0)
            return -1;
    }
    return watches_pass(watch->watches, SIZE_MAX, err) < 0 ||
                   watches_flush(watch->watches, err) < 0 || code_watch_finish(watch->code, err) < 0
               ? -1
               : 0;
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
    watch_say(watch, true, line);
    uint64_t dropped = reader_dropped(watch->reader);
    if (dropped + watch->late) {
        snprintf(
            line, sizeof(line),
            "%llu samples came too late to read their process while it ran (%llu of them found "
            "the queue full); some of their functions may have no names",
            (unsigned long long)(dropped + watch->late), (unsigned long long)dropped);
        watch_say(watch, false, line);
    }
    if (s.unwritten) {
        snprintf(line, sizeof(line),
                 "%llu contents of VM memory were not logged, because the log was full (--max-log)",
                 (unsigned long long)s.unwritten);
        watch_say(watch, false, line);
    }
    if (s.left_out) {
        snprintf(line, sizeof(line),
                 "%llu GiB of very large mappings were not searched for Lua VMs (Linux before 6.7 "
                 "cannot skip what was never written)",
                 (unsigned long long)(s.left_out >> 30));
        watch_say(watch, true, line);
    }
    if (!s.refused)
        return;
    snprintf(
        line, sizeof(line),
        "%llu readings of Lua objects were not logged, because more objects came than are kept",
        (unsigned long long)s.refused);
    watch_say(watch, false, line);
}

/* A process may not write into the user's cache: the recorder does. */
static int send_empty_files(struct process_watch *watch, struct error *err)
{
    struct build_id *ids = calloc(RUNTIME_FILES_KEPT, sizeof(*ids));
    if (!ids)
        return error_no_memory(err);
    size_t nr = runtime_files_empty(watch->tools.files, ids, RUNTIME_FILES_KEPT);
    int failed =
        nr ? reader_write(watch->reader, PIECE_EMPTY_FILES, ids, nr * sizeof(*ids), err) : 0;
    free(ids);
    return failed;
}

/* The recording ends. */
static int say_end(struct process_watch *watch, struct error *err)
{
    const char *problem = NULL;
    vec_foreach (slot, &watch->targets) {
        const struct lua_watch *t = slot->value;
        if (lua_watch_has_lua(t) && !problem)
            problem = lua_watch_problem(t);
    }
    watch_say(watch, false, problem);
    say_log(watch);
    for (const char *line; watch->logs && (line = code_watch_problem(watch->code));)
        watch_say(watch, false, line);
    return watch->form == READER_PROCESS ? send_empty_files(watch, err) : 0;
}

static int do_call(void *context, unsigned which, struct error *err)
{
    struct process_watch *watch = context;
    switch (which) {
    case CALL_LOOK:
        return look_at_all(watch, err);
    case CALL_REWRITE:
        begin_file(watch);
        return 0;
    case CALL_END_FILE:
        return end_file(watch, err);
    default:
        return say_end(watch, err);
    }
}

/* ---- a process ------------------------------------------------------------------------------- */

/* Bytes that a reader's process may have in all: of all processes that it looks at. */
static const uint64_t MEMORY_MAX = UINT64_C(2) << 30;

/* The address sanitizer's own memory is beyond any limit. gcc and clang tell of it in their own
 * ways. */
#if defined(__SANITIZE_ADDRESS__)
enum { HAS_SANITIZER = true };
#elif defined(__has_feature)
enum { HAS_SANITIZER = __has_feature(address_sanitizer) };
#else
enum { HAS_SANITIZER = false };
#endif

static void limit_memory(void)
{
    const struct rlimit most = {MEMORY_MAX, MEMORY_MAX};
    if (!HAS_SANITIZER)
        (void)setrlimit(RLIMIT_DATA, &most);
}

/* Called first in a process: leave what it does not need. */
static int begin_process(void *context, struct error *err)
{
    struct process_watch *watch = context;
    int maps[COPIER_MAPS] = {0};
    size_t nr = 0;
    if (watch->copier) {
        copier_maps(watch->copier, maps);
        nr = COPIER_MAPS;
    }
    limit_memory();
    int confined = confine_reader(maps, nr, -1, nr && bpf_maps_need_capability(), err);
    if (confined > 0)
        watch_say(watch, true, err->text);
    return confined < 0 ? -1 : 0;
}

struct reader_work process_look_work(struct process_watch *watch)
{
    return (struct reader_work){.begin = begin_process,
                                .sample = look_at_sample,
                                .record = look_at_record,
                                .call = do_call,
                                .tick = look_again,
                                .context = watch};
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
