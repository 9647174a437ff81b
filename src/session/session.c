/* SPDX-License-Identifier: GPL-2.0-only */
/* The session: takes records, gives thread contexts. */
#include "session/lists.h"
#include "session/session.h"
#include "base/intern.h"
#include "base/proc.h"
#include "session/session_internal.h"

#include <inttypes.h>
#include <linux/perf_event.h>
#include <perf/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- creating ---------------------------------------------------------------------------- */

/* jitdumps have times of CLOCK_MONOTONIC: only a recording made with this clock can be matched. */
static bool clock_is_monotonic(const struct perfdata *pd)
{
    int clock;
    if (!pd)
        return true; /* of the live: all clocks are asked for */
    if (perfdata_clockid(pd, &clock))
        return clock == CLOCK_MONOTONIC;
    for (size_t i = 0; i < perfdata_nr_events(pd); i++) {
        const struct perf_event_attr *attr = &perfdata_event(pd, i)->attr;
        if (attr->use_clockid)
            return attr->clockid == CLOCK_MONOTONIC;
    }
    return false;
}

static int add_recorded_build_ids(struct session *s, struct error *err)
{
    size_t nr = 0;
    const struct record_build_id *ids = s->pd ? perfdata_build_ids(s->pd, &nr) : NULL;
    for (size_t i = 0; i < nr; i++)
        if (ids[i].build_id.size && build_id_add(s, &ids[i], err) < 0)
            return -1;
    return 0;
}

int session_create(const struct perfdata *pd, struct dsos *dsos,
                   const struct session_options *options, struct session **ret, struct error *err)
{
    struct session *s = calloc(1, sizeof(*s));
    struct proc_place our;
    if (!s)
        return error_no_memory(err);
    s->pd = pd;
    s->dsos = dsos;
    s->options = options ? *options : (struct session_options){0};
    kernel_init(&s->kernel);
    kernel_init(&s->guest_kernel);
    s->clock_is_monotonic = clock_is_monotonic(pd);
    if (proc_place(0, "ns/mnt", &our))
        s->mnt_ns = our.ino;
    s->names = intern_create();
    if (!s->names) {
        session_free(s);
        return error_no_memory(err);
    }
    if (add_recorded_build_ids(s, err) < 0 || jit_files_add_options(s, err) < 0) {
        session_free(s);
        return -1;
    }
    *ret = s;
    return 0;
}

void session_free(struct session *s)
{
    if (!s)
        return;
    machine_free(&s->host);
    machine_free(&s->guests);
    kernel_free(&s->kernel);
    kernel_free(&s->guest_kernel);
    jit_files_free(s);
    vec_foreach (slot, &s->files)
        free(slot->value);
    table_free(&s->files);
    table_free(&s->warned);
    vec_foreach (w, &s->warnings)
        free(*w);
    vec_free(&s->warnings);
    intern_free(s->names);
    free(s);
}

/* ---- applying ---------------------------------------------------------------------------- */

static bool is_guest(const struct record *rec)
{
    uint16_t mode = rec->misc & PERF_RECORD_MISC_CPUMODE_MASK;
    return mode == PERF_RECORD_MISC_GUEST_KERNEL || mode == PERF_RECORD_MISC_GUEST_USER;
}

static bool is_kernel(const struct record *rec)
{
    uint16_t mode = rec->misc & PERF_RECORD_MISC_CPUMODE_MASK;
    return mode == PERF_RECORD_MISC_KERNEL || mode == PERF_RECORD_MISC_GUEST_KERNEL;
}

static struct machine *machine_of(struct session *s, const struct record *rec)
{
    return is_guest(rec) ? &s->guests : &s->host;
}

static int bad(struct session *s)
{
    s->stats.records_bad++;
    return 0;
}

static int apply_mmap(struct session *s, const struct record *rec, struct error *err)
{
    struct record_mmap mm;
    if (perfdata_mmap(s->pd, rec, &mm, err) < 0)
        return bad(s);
    if (is_kernel(rec))
        return kernel_mmap(s, is_guest(rec) ? &s->guest_kernel : &s->kernel, &mm, err);
    return maps_apply(s, machine_of(s, rec), &mm, rec->time, err);
}

int session_map(struct session *s, const struct record_mmap *mm, uint64_t time, struct error *err)
{
    return maps_apply(s, &s->host, mm, time, err);
}

static int apply_comm(struct session *s, const struct record *rec, struct error *err)
{
    struct record_comm comm;
    if (perfdata_comm(s->pd, rec, &comm, err) < 0)
        return bad(s);
    return tasks_comm(s, machine_of(s, rec), &comm, err);
}

static int apply_fork(struct session *s, const struct record *rec, struct error *err)
{
    struct record_task task;
    if (perfdata_task(s->pd, rec, &task, err) < 0)
        return bad(s);
    return tasks_fork(s, machine_of(s, rec), &task, rec->time, err);
}

static int apply_exit(struct session *s, const struct record *rec, struct error *err)
{
    struct record_task task;
    if (perfdata_task(s->pd, rec, &task, err) < 0)
        return bad(s);
    tasks_exit(s, machine_of(s, rec), &task);
    return 0;
}

static int apply_namespaces(struct session *s, const struct record *rec, struct error *err)
{
    struct record_namespaces n;
    if (perfdata_namespaces(s->pd, rec, &n, err) < 0)
        return bad(s);
    return tasks_namespaces(s, machine_of(s, rec), &n, perfdata_swapped(s->pd), err);
}

static int apply_ksymbol(struct session *s, const struct record *rec, struct error *err)
{
    struct record_ksymbol y;
    if (perfdata_ksymbol(s->pd, rec, &y, err) < 0)
        return bad(s);
    return kernel_ksymbol(s, &s->kernel, &y, rec->time, err);
}

static int apply_fact(struct session *s, const struct record *rec, struct error *err)
{
    int r = s->options.lists ? session_lists_apply(s->options.lists, s->pd, rec, err) : 0;
    return r > 0 ? bad(s) : r;
}

static int apply_build_id(struct session *s, const struct record *rec, struct error *err)
{
    struct record_build_id b;
    if (perfdata_build_id(s->pd, rec, &b, err) < 0)
        return bad(s);
    return b.build_id.size ? build_id_add(s, &b, err) : 0;
}

int session_apply(struct session *s, const struct record *rec, struct error *err)
{
    switch (rec->type) {
    case PERF_RECORD_MMAP:
    case PERF_RECORD_MMAP2:
        return apply_mmap(s, rec, err);
    case PERF_RECORD_COMM:
        return apply_comm(s, rec, err);
    case PERF_RECORD_FORK:
        return apply_fork(s, rec, err);
    case PERF_RECORD_EXIT:
        return apply_exit(s, rec, err);
    case PERF_RECORD_NAMESPACES:
        return apply_namespaces(s, rec, err);
    case PERF_RECORD_KSYMBOL:
        return apply_ksymbol(s, rec, err);
    case PERF_RECORD_READ:
    case PERF_RECORD_CGROUP:
        return apply_fact(s, rec, err);
    case PERF_RECORD_HEADER_BUILD_ID:
        return apply_build_id(s, rec, err);
    case PERF_RECORD_TEXT_POKE:
        s->stats.text_pokes++;
        return 0;
    default:
        return 0;
    }
}

/* ---- thread contexts --------------------------------------------------------------------- */

static const char *unknown_comm(struct session *s, struct thread *t)
{
    char text[16];
    if (t->tid == 0) /* the idle task of each CPU is never announced */
        snprintf(text, sizeof(text), "swapper");
    else
        snprintf(text, sizeof(text), ":%" PRId32, (int32_t)t->tid);
    return t->comm = intern_string(s->names, text);
}

int session_context_beside(struct session *s, const struct thread_context *beside, uint32_t pid,
                           uint32_t tid, struct thread_context *ret, struct error *err)
{
    struct thread *t = thread_get(s, &s->host, pid, tid);
    struct process *p = t ? process_get(s, &s->host, pid) : NULL;
    if (!p || (!t->comm && !unknown_comm(s, t)))
        return error_no_memory(err);
    s->placed = true;
    bool borrowed = beside && beside->space == p->space;
    if (!borrowed)
        atomic_fetch_add_explicit(&p->space->refs, 1, memory_order_relaxed);
    *ret = (struct thread_context){pid, tid, t->comm, p->space, s, borrowed};
    return 0;
}

int session_context(struct session *s, uint32_t pid, uint32_t tid, struct thread_context *ret,
                    struct error *err)
{
    return session_context_beside(s, NULL, pid, tid, ret, err);
}

struct thread_context thread_context_hold(const struct thread_context *p)
{
    struct thread_context held = *p;
    held.borrowed = false;
    space_hold(held.space);
    return held;
}

void thread_context_release(struct thread_context *p)
{
    if (!p->borrowed)
        space_release(p->space);
    p->space = NULL;
}

/* ---- the rest ---------------------------------------------------------------------------- */

const struct mapping *session_kernel_mapping(const struct session *s, uint64_t pc, uint64_t time)
{
    return kernel_lookup((struct kernel *)&s->kernel, pc, time);
}

const struct mapping *session_guest_mapping(const struct session *s, uint64_t pc, uint64_t time)
{
    return kernel_lookup((struct kernel *)&s->guest_kernel, pc, time);
}

int session_warn(struct session *s, struct error *err, const char *fmt, ...)
{
    va_list args;
    char *text;
    va_start(args, fmt);
    int size = vasprintf(&text, fmt, args);
    va_end(args);
    if (size < 0)
        return error_no_memory(err);
    if (vec_push(&s->warnings, text))
        return 0;
    free(text);
    return error_no_memory(err);
}

const char *session_warning(const struct session *s, size_t index)
{
    return index < s->warnings.nr ? s->warnings.at[index] : NULL;
}

struct session_stats session_stats(const struct session *s)
{
    return s->stats;
}
