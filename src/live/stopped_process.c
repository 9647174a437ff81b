/* SPDX-License-Identifier: GPL-2.0-only */
#include "live/stopped_process.h"

#include "base/moved_text.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- opening ------------------------------------------------------------------------------- */

static int map_all(struct stopped_process *s, const struct process_maps *maps, struct error *err)
{
    vec_foreach (m, &maps->maps) {
        char live[64];
        struct record_mmap mm = {.pid = s->pid,
                                 .tid = s->pid,
                                 .addr = m->start,
                                 .len = m->end - m->start,
                                 .pgoff = m->pgoff,
                                 .prot = m->prot,
                                 .flags = m->shared ? MAP_SHARED : MAP_PRIVATE,
                                 .maj = m->major,
                                 .min = m->minor,
                                 .ino = m->inode,
                                 .live_path =
                                     process_map_live_path((pid_t)s->pid, m, live, sizeof(live)),
                                 .filename = *m->path ? m->path : "//anon"};
        if (session_map(s->session, &mm, 0, err))
            return -1;
    }
    return 0;
}

static int open_live(struct stopped_process *s, const struct dso_options *options,
                     const struct session_options *session, struct error *err)
{
    static const struct session_options no_jit = {.no_jit = true};
    struct process_maps maps = {0};
    if (process_memory_open((pid_t)s->pid, &s->process, err) ||
        process_maps_read((pid_t)s->pid, &maps, err))
        return -1;
    s->dsos = dsos_create(options);
    moved_text_restore((pid_t)s->pid, &maps);
    int failed = s->dsos
                     ? session_create(NULL, s->dsos, session ? session : &no_jit, &s->session, err)
                     : error_no_memory(err);
    if (!failed)
        failed = map_all(s, &maps, err);
    process_maps_free(&maps);
    if (failed || session_context(s->session, s->pid, s->pid, &s->thread, err))
        return -1;
    s->layers[0] = process_memory_layer(s->process);
    s->layers[1] = session_memory(&s->thread);
    return 0;
}

static int open_core(struct stopped_process *s, const char *path, const struct dso_options *options,
                     struct error *err)
{
    const struct core_process_options o = {.dso = options};
    if (core_process_open(path, &o, &s->core, err))
        return -1;
    s->pid = core_pid(s->core.core);
    s->dsos = s->core.dsos;
    s->session = s->core.session;
    s->thread = s->core.thread;
    memcpy(s->layers, s->core.layers, sizeof(s->layers));
    for (size_t i = 0; i < core_nr_threads(s->core.core); i++)
        if (!vec_push(&s->threads, *core_thread(s->core.core, i)))
            return error_no_memory(err);
    return 0;
}

int stopped_process_open(const char *target, const struct dso_options *options,
                         const struct session_options *session, struct stopped_process *ret,
                         struct error *err)
{
    char *end;
    unsigned long pid = strtoul(target, &end, 10);
    bool live = isdigit((unsigned char)*target) && *end == 0 && pid > 0 && pid <= INT32_MAX;
    *ret = (struct stopped_process){.pid = live ? (uint32_t)pid : 0};
    if (live ? open_live(ret, options, session, err) : open_core(ret, target, options, err)) {
        stopped_process_close(ret);
        return -1;
    }
    ret->nr_layers = 2;
    ret->code = session_codemap(&ret->thread);
    return 0;
}

void stopped_process_close(struct stopped_process *s)
{
    bool core = s->core.core != NULL;
    stopped_process_continue(s);
    vec_free(&s->threads);
    process_memory_close(s->process);
    if (core) {
        core_process_free(&s->core);
    } else {
        if (s->thread.space)
            thread_context_release(&s->thread);
        session_free(s->session);
        dsos_free(s->dsos);
    }
    *s = (struct stopped_process){0};
}

void stopped_process_command(const struct stopped_process *s, uint32_t tid, char *ret, size_t size)
{
    char path[64];
    *ret = 0;
    if (!s->process) {
        snprintf(ret, size, "%s", core_command(s->core.core));
        return;
    }
    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/task/%" PRIu32 "/comm", s->pid, tid);
    FILE *f = fopen(path, "re");
    if (f && fgets(ret, (int)size, f))
        ret[strcspn(ret, "\n")] = 0;
    if (f)
        fclose(f);
}

const struct core_thread *stopped_process_crashed(const struct stopped_process *s)
{
    vec_foreach (t, &s->threads) {
        if (t->info.number)
            return t;
    }
    return s->threads.nr && s->threads.at[0].signal ? &s->threads.at[0] : NULL;
}

/* ---- VMs ----------------------------------------------------------------------------------- */

int stopped_process_vms(const struct stopped_process *s, struct session_vms *ret, struct error *err)
{
    const struct memory memory = {.layers = s->layers, .nr_layers = s->nr_layers};
    return session_vms_find(&s->thread, &memory, ret, err);
}

/* ---- stopping ------------------------------------------------------------------------------ */

static bool read_stopped(void *context, const struct memory_query *q, void *to,
                         struct memory_answer *answer)
{
    (void)answer; /* exact */
    return process_memory_read(context, q->address, to, q->size);
}

static bool is_stopped(const struct stopped_process *s, uint32_t tid)
{
    vec_foreach (t, &s->threads)
        if (t->tid == tid)
            return true;
    return false;
}

/* Wait until a thread that was told to stop has stopped. Returns false if it ended, or does not
 * stop. *signal: the thread has stopped for this signal, and we decide whether it is delivered; 0:
 * it has stopped because it was told to. */
static bool await_stop(pid_t tid, uint32_t *signal)
{
    enum { STEP_US = 1000, STEPS = 2000 };
    for (unsigned i = 0; i < STEPS; i++) {
        int status;
        pid_t got = waitpid(tid, &status, __WALL | WNOHANG);
        if (got == tid) {
            *signal = status >> 16 == PTRACE_EVENT_STOP ? 0 : (uint32_t)WSTOPSIG(status);
            return WIFSTOPPED(status);
        }
        if (got < 0)
            return false;
        usleep(STEP_US);
    }
    return false;
}

/* Let a thread continue; a signal that it has stopped for is delivered. */
static void detach(const struct core_thread *t)
{
    ptrace(PTRACE_DETACH, (pid_t)t->tid, NULL, (void *)(uintptr_t)t->signal);
}

static int stop_thread(struct stopped_process *s, pid_t tid, struct error *err)
{
    struct user_regs_struct regs;
    struct core_thread t = {.tid = (uint32_t)tid};
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL)) {
        if (errno == ESRCH)
            return 0; /* the thread has ended */
        return error_system(
            err, errno,
            "thread %d cannot be stopped: this needs the process's user (and CAP_SYS_PTRACE where "
            "kernel.yama.ptrace_scope is not 0), and no debugger may be attached",
            (int)tid);
    }
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) || !await_stop(tid, &t.signal) ||
        ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &(struct iovec){&regs, sizeof(regs)})) {
        detach(&t);
        return 0;
    }
    core_registers(arch_of_host(), (const uint8_t *)&regs, &t.registers);
    siginfo_t info;
    if (t.signal && ptrace(PTRACE_GETSIGINFO, tid, NULL, &info) == 0)
        core_signal_read((const uint8_t *)&info, sizeof(info), &t.info);
    if (vec_push(&s->threads, t))
        return 0;
    detach(&t);
    return error_no_memory(err);
}

/* Make one pass over the threads; *new: how many were not stopped before. */
static int stop_pass(struct stopped_process *s, unsigned *new, struct error *err)
{
    char path[64];
    struct dirent *e;
    int failed = 0;
    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/task", s->pid);
    DIR *d = opendir(path);
    *new = 0;
    if (!d)
        return error_system(err, errno, "%s", path);
    while (!failed && (e = readdir(d))) {
        pid_t tid = atoi(e->d_name);
        if (tid <= 0 || is_stopped(s, (uint32_t)tid))
            continue;
        ++*new;
        failed = stop_thread(s, tid, err);
    }
    closedir(d);
    return failed;
}

int stopped_process_stop(struct stopped_process *s, struct error *err)
{
    enum { PASSES_MAX = 16 }; /* threads that were still running may have created others */
    unsigned new = 1;
    if (!s->process)
        return 0;
    s->stopped = true;
    for (unsigned i = 0; new &&i < PASSES_MAX; i++)
        if (stop_pass(s, &new, err)) {
            stopped_process_continue(s);
            return -1;
        }
    s->layers[0] =
        (struct memory_layer){.name = "live", .read = read_stopped, .context = s->process};
    return 0;
}

void stopped_process_continue(struct stopped_process *s)
{
    if (!s->stopped)
        return;
    vec_foreach (t, &s->threads)
        detach(t);
    s->stopped = false;
    s->layers[0] = process_memory_layer(s->process);
}
