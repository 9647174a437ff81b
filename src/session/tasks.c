/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes and threads: created, named, replaced by exec, ended. A process or thread that has
 * ended is kept for a while, because records of other CPUs may still refer to it; it is forgotten
 * when many more have ended since.
 */
#include "base/cursor.h"
#include "base/intern.h"
#include "base/proc.h"
#include "session/session_internal.h"

#include <stdlib.h>

/* ---- address spaces ---------------------------------------------------------------------- */

static void space_forget(struct address_space *space)
{
    for (unsigned i = 0; i < FOUND_MAX; i++)
        atomic_init(&space->found[i], NULL);
    for (unsigned i = 0; i < IMPORTS_MAX; i++) {
        atomic_init(&space->imports[i].check, 0);
        atomic_init(&space->imports[i].function, 0);
    }
    space_runtimes_forget(space);
}

static struct address_space *space_create(struct session *s, struct regions regions,
                                          struct jit_set *jit)
{
    struct address_space *space = malloc(sizeof(*space));
    if (!space)
        return NULL;
    atomic_init(&space->refs, 1);
    space->regions = regions_share(regions);
    space->jit = jit;
    if (jit)
        atomic_fetch_add_explicit(&jit->refs, 1, memory_order_relaxed);
    space->session = s;
    atomic_init(&space->runtimes, NULL);
    space_forget(space);
    return space;
}

void space_hold(struct address_space *space)
{
    if (space)
        atomic_fetch_add_explicit(&space->refs, 1, memory_order_relaxed);
}

void space_release(struct address_space *space)
{
    if (!space || atomic_fetch_sub_explicit(&space->refs, 1, memory_order_acq_rel) != 1)
        return;
    regions_release(&space->regions);
    space_runtimes_forget(space);
    jit_set_release(space->jit);
    free(space);
}

struct address_space *process_space(struct session *s, struct process *p)
{
    if (atomic_load_explicit(&p->space->refs, memory_order_acquire) == 1) {
        space_forget(p->space);
        return p->space;
    }
    struct address_space *copy = space_create(s, p->space->regions, p->space->jit);
    if (!copy)
        return NULL;
    space_release(p->space);
    p->space = copy;
    return copy;
}

static bool process_clear(struct session *s, struct process *p)
{
    struct address_space *space = space_create(s, (struct regions){NULL}, NULL);
    if (!space)
        return false;
    space_release(p->space);
    p->space = space;
    p->perf_map_sought = false;
    return true;
}

/* ---- tables ------------------------------------------------------------------------------ */

static void process_free(struct process *p)
{
    space_release(p->space);
    free(p);
}

void machine_free(struct machine *m)
{
    vec_foreach (slot, &m->processes)
        process_free(slot->value);
    vec_foreach (slot, &m->threads)
        free(slot->value);
    table_free(&m->processes);
    table_free(&m->threads);
}

struct process *process_get(struct session *s, struct machine *m, uint32_t pid)
{
    struct process *p = table_get(&m->processes, pid);
    if (p)
        return p;
    p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    p->pid = pid;
    if (!process_clear(s, p) || !table_put(&m->processes, pid, p)) {
        process_free(p);
        return NULL;
    }
    s->stats.processes++;
    if (jit_on_process(s, p, NULL) < 0)
        return NULL;
    return p;
}

/* Put an id among the dead. Returns the id whose place it takes (0: none), which may be
 * forgotten. */
static uint64_t dead_push(struct dead_ring *ring, uint64_t id)
{
    uint64_t *at = &ring->id[ring->at++ % DEAD_MAX];
    uint64_t oldest = *at;
    *at = id;
    return oldest;
}

static void process_leave(struct machine *m, uint32_t pid)
{
    struct process *p = table_get(&m->processes, pid);
    if (!p || p->threads == 0 || --p->threads)
        return;
    p->exited = true;
    uint64_t oldest = dead_push(&m->dead_processes, pid);
    struct process *old = oldest == pid ? NULL : table_get(&m->processes, oldest);
    if (!old || !old->exited)
        return;
    table_remove(&m->processes, oldest);
    process_free(old);
}

static void process_join(struct process *p)
{
    p->threads++;
    p->exited = false;
}

struct thread *thread_get(struct session *s, struct machine *m, uint32_t pid, uint32_t tid)
{
    struct thread *t = table_get(&m->threads, tid);
    if (t && t->pid == pid)
        return t;
    /* A tid that appears in another process is another thread: the end of the first one was not
     * recorded. Its process may end with it, and then the oldest dead process is forgotten. That
     * may be `pid`, so this step comes first. */
    if (t && !t->exited) {
        process_leave(m, t->pid);
        t->exited = true;
    }
    struct process *p = process_get(s, m, pid);
    if (!p)
        return NULL;
    if (!t) {
        t = calloc(1, sizeof(*t));
        if (!t || !table_put(&m->threads, tid, t)) {
            free(t);
            return NULL;
        }
        s->stats.threads++;
    }
    *t = (struct thread){.tid = tid, .pid = pid};
    process_join(p);
    return t;
}

/* ---- records ----------------------------------------------------------------------------- */

static void thread_revive(struct machine *m, struct thread *t)
{
    struct process *p = table_get(&m->processes, t->pid);
    if (!t->exited || !p)
        return;
    t->exited = false;
    process_join(p);
}

/* Give a new process its address space: the parent's, shared until one of them changes it, or
 * (synthesized) an empty one that later records will fill. */
static int process_born(struct session *s, struct machine *m, struct process *p,
                        const struct record_task *t, uint64_t time, struct error *err)
{
    struct process *parent = table_get(&m->processes, t->ppid);
    if (!process_clear(s, p))
        return error_no_memory(err);
    p->root_known = false;
    p->root = p->inner_pid = 0;
    if (!parent || parent == p)
        return 0;
    p->pid_ns = parent->pid_ns;
    p->mnt_ns = parent->mnt_ns;
    if (t->synthesized)
        return 0;
    struct jit_set *jit;
    if (jit_set_fork(parent->space->jit, time, &jit, err) < 0)
        return -1;
    struct address_space *space = space_create(s, parent->space->regions, jit);
    jit_set_release(jit);
    if (!space)
        return error_no_memory(err);
    space_release(p->space);
    p->space = space;
    return 0;
}

int tasks_fork(struct session *s, struct machine *m, const struct record_task *t, uint64_t time,
               struct error *err)
{
    const struct thread *parent = table_get(&m->threads, t->ptid);
    const char *comm = parent && parent->named ? parent->comm : NULL;
    struct thread *child = thread_get(s, m, t->pid, t->tid);
    struct process *p = child ? process_get(s, m, t->pid) : NULL;
    if (!p)
        return error_no_memory(err);
    thread_revive(m, child);
    if (child != parent) {
        child->comm = comm;
        child->named = comm;
    }
    if (t->pid == t->ppid)
        return 0;
    /* process_born() dropped everything, also the jitdumps given for the process. */
    return process_born(s, m, p, t, time, err) < 0 ? -1 : jit_on_process(s, p, err);
}

void tasks_exit(struct session *s, struct machine *m, const struct record_task *t)
{
    struct thread *thread = table_get(&m->threads, t->tid);
    (void)s;
    if (!thread || thread->pid != t->pid || thread->exited)
        return;
    thread->exited = true;
    process_leave(m, t->pid);
    uint64_t oldest = dead_push(&m->dead_threads, t->tid);
    struct thread *old = oldest == t->tid ? NULL : table_get(&m->threads, oldest);
    if (!old || !old->exited)
        return;
    table_remove(&m->threads, oldest);
    free(old);
}

int tasks_comm(struct session *s, struct machine *m, const struct record_comm *c, struct error *err)
{
    struct thread *t = thread_get(s, m, c->pid, c->tid);
    if (!t)
        return error_no_memory(err);
    thread_revive(m, t);
    t->comm = intern_string(s->names, c->comm);
    if (!t->comm)
        return error_no_memory(err);
    t->named = true;
    if (!c->exec)
        return 0;
    struct process *p = process_get(s, m, c->pid);
    return p && process_clear(s, p) && jit_on_process(s, p, err) == 0 ? 0 : error_no_memory(err);
}

/* ---- namespaces -------------------------------------------------------------------------- */

enum { NAMESPACE_PID = 3, NAMESPACE_MNT = 5 }; /* in the order of linux/perf_event.h */

int tasks_namespaces(struct session *s, struct machine *m, const struct record_namespaces *n,
                     bool swapped, struct error *err)
{
    struct process *p = process_get(s, m, n->pid);
    if (!p)
        return error_no_memory(err);
    if (n->nr > NAMESPACE_PID)
        p->pid_ns = load_u64(n->entries + (size_t)NAMESPACE_PID * 16 + 8, swapped);
    if (n->nr > NAMESPACE_MNT)
        p->mnt_ns = load_u64(n->entries + (size_t)NAMESPACE_MNT * 16 + 8, swapped);
    p->root_known = false;
    return 0;
}

/* Paths of a process in another mount namespace are resolved through /proc/PID/root while the
 * process lives. If its namespace was recorded, the process that has the pid now must be in the
 * same namespace. */
uint32_t process_root(struct session *s, struct process *p)
{
    if (p->root_known)
        return p->root;
    p->root_known = true;
    p->root = 0;
    struct proc_place its;
    bool alive =
        (p->mnt_ns == 0 || p->mnt_ns != s->mnt_ns) && proc_place((pid_t)p->pid, "ns/mnt", &its);
    if (alive && its.ino != s->mnt_ns && (p->mnt_ns == 0 || p->mnt_ns == its.ino))
        p->root = p->pid;
    return p->root;
}
