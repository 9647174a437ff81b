/* SPDX-License-Identifier: GPL-2.0-only */
/* Live walks of stacks with any runtime, or with generated code. See runtime_watch.h. */
#include "live/runtime_watch.h"

#include "live/live_memory.h"
#include "live/live_process.h"
#include "session/registers.h"
#include "session/walk_input.h"
#include "base/table.h"
#include "unwind/managed.h"

#include <stdlib.h>

enum {
    MS = 1000000,
    LEARN_AGAIN_NS = 20 * MS,   /* ns between two readings of a process's mappings */
    REREAD_NAMES_NS = 250 * MS, /* ns after which names are read again: objects may have moved */
    WALK_PAUSE_NS = MS / 2, /* ns until the next sample is walked if the last shows nothing new */
    WALK_PAUSE_MAX_NS = 16 * MS, /* this doubles up to here */
    MAX_FRAMES = 4096,
    READS_MAX = 20000, /* of the process for one sample */
};

struct watch {
    struct live_process process;
    uint64_t learned;  /* ns: when the mappings were read */
    bool has_new_code; /* code was mapped since */
    /* Of generated code: the log's objects after the last walk, and when the next sample is walked.
     */
    uint64_t objects, next_walk, pause;
};

struct runtime_watch {
    struct watch_means means;
    struct managed_names *managed;
    void *tables;         /* the runtime's */
    void *walk;           /* memory for one walk */
    uint64_t forgotten;   /* ns: when the tables were made */
    struct table watches; /* pid + 1 -> struct watch */
};

static void watch_free(struct watch *t)
{
    live_process_free(&t->process);
    free(t);
}

static void watch_all_free(void *of)
{
    struct runtime_watch *all = of;
    vec_foreach (slot, &all->watches)
        watch_free(slot->value);
    table_free(&all->watches);
    const struct runtime *rt = all->means.runtime;
    if (rt)
        rt->tables_free(all->tables);
    managed_names_free(all->managed);
    if (rt && rt->walk_free && all->walk)
        rt->walk_free(all->walk);
    free(all->walk);
    free(all);
}

static void *create(const struct watch_means *means)
{
    struct runtime_watch *all = calloc(1, sizeof(*all));
    if (!all)
        return NULL;
    all->means = *means;
    if (!means->runtime)
        return all;
    all->managed = managed_names_create();
    all->walk = calloc(1, means->runtime->walk_size);
    if (all->managed)
        all->tables = means->runtime->tables_create(all->managed, false);
    if (all->tables && all->walk)
        return all;
    watch_all_free(all);
    return NULL;
}

static struct watch *watch_get(struct runtime_watch *all, uint32_t pid)
{
    struct watch *t = table_get(&all->watches, (uint64_t)pid + 1);
    if (t)
        return t;
    t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->process.pid = (pid_t)pid;
    t->has_new_code = true;
    if (table_put(&all->watches, (uint64_t)pid + 1, t))
        return t;
    free(t);
    return NULL;
}

/* Names are kept, and read anew only when the tables are: what is read again is logged again. */
static int renew_tables(struct runtime_watch *all, uint64_t now, struct error *err)
{
    const struct runtime *rt = all->means.runtime;
    if (!rt || now - all->forgotten < REREAD_NAMES_NS)
        return 0;
    rt->tables_free(all->tables);
    all->tables = rt->tables_create(all->managed, false);
    all->forgotten = now;
    return all->tables ? 0 : error_no_memory(err);
}

static const struct runtime_instance *instances(void *context, const struct runtime *rt, size_t *nr)
{
    const struct watch *t = context;
    return session_runtime(&t->process.thread, rt, nr);
}

/* Returns the walker of the runtime, ready for a sample; NULL: there is no runtime. */
static const struct walker *walker_for(struct runtime_watch *all, struct watch *t,
                                       const struct sample *s, const struct vmstack *copy,
                                       struct walker *ret)
{
    const struct runtime *rt = all->means.runtime;
    const struct runtime_sample about = {.pid = s->pid,
                                         .instances = instances,
                                         .context = t,
                                         .has_vmstack = copy != NULL,
                                         .has_running_vm = copy != NULL};
    if (!rt)
        return NULL;
    rt->walk_begin(all->walk, all->tables, &about, ret);
    if (rt->look_up)
        rt->look_up(all->walk);
    return ret;
}

static int walk(struct runtime_watch *all, struct watch *t, const struct sample *s,
                const struct vmstack *copy, struct error *err)
{
    struct walker walker;
    struct unwind_input in = {0};
    struct walk_memory memory;
    const struct walker *by = walker_for(all, t, s, copy, &walker);
    sample_registers(s, arch_of_host(), &in.registers);
    uint64_t sp = registers_sp(&in.registers);
    struct live_memory heap =
        live_memory_of(t->process.objects, s, sp, READS_MAX, runtime_watch_kind.late);
    const struct memory_layer live = live_memory_layer(&heap);
    const struct walk_parts parts = {
        .thread = &t->process.thread, .sample = s, .vmstack = copy, .live = &live};
    walk_input(&parts, MAX_FRAMES, &memory, &in);
    in.walker = by;
    struct unwind_stack stack = {0};
    int failed = unwind(all->means.unwinder, &in, &stack, err);
    vec_free(&stack.frames);
    return failed;
}

/* Generated code lies where it is for long: where walks read nothing new, ever fewer samples are
 * walked. Each walk costs a program's own time. */
static void note_walked(struct watch *t, uint64_t now)
{
    uint64_t objects = object_log_stats(t->process.objects).objects;
    if (objects != t->objects)
        t->pause = 0;
    else if (t->pause < WALK_PAUSE_MAX_NS)
        t->pause = t->pause ? 2 * t->pause : WALK_PAUSE_NS;
    t->objects = objects;
    t->next_walk = now + t->pause;
}

static int take_sample(void *of, const struct sample *s, const struct vmstack *copy,
                       struct error *err)
{
    struct runtime_watch *all = of;
    uint64_t now = all->means.sink.now(all->means.sink.context);
    struct watch *t = watch_get(all, s->pid);
    if (!t)
        return error_no_memory(err);
    if (t->process.failed || !s->stack || s->user_abi != PERF_SAMPLE_REGS_ABI_64 ||
        now < t->next_walk)
        return 0;
    if (t->has_new_code && now - t->learned >= LEARN_AGAIN_NS) {
        live_process_forget(&t->process);
        t->learned = now;
        t->has_new_code = false;
    }
    if (live_process_learn(&t->process, all->means.dsos, err) < 0)
        return -1;
    if (!t->process.session || live_process_open(&t->process, &all->means.sink) < 0)
        return 0;
    if (renew_tables(all, now, err) < 0 || walk(all, t, s, copy, err) < 0)
        return -1;
    if (!all->means.runtime)
        note_walked(t, now);
    return 0;
}

static void note_mapped(void *of, uint32_t pid)
{
    struct watch *t = table_get(&((struct runtime_watch *)of)->watches, (uint64_t)pid + 1);
    if (t)
        t->has_new_code = true;
}

static int end(void *of, uint32_t pid, struct error *err)
{
    struct runtime_watch *all = of;
    struct watch *t = table_get(&all->watches, (uint64_t)pid + 1);
    if (!t)
        return 0;
    int failed = live_process_flush(&t->process, err);
    table_remove(&all->watches, (uint64_t)pid + 1);
    watch_free(t);
    return failed;
}

static int pass(void *of, size_t budget, struct error *err)
{
    struct runtime_watch *all = of;
    vec_foreach (slot, &all->watches) {
        struct watch *t = slot->value;
        if (live_process_pass(&t->process, budget, err) < 0)
            return -1;
    }
    return 0;
}

static int flush(void *of, struct error *err)
{
    struct runtime_watch *all = of;
    vec_foreach (slot, &all->watches) {
        struct watch *t = slot->value;
        if (live_process_flush(&t->process, err) < 0)
            return -1;
    }
    return 0;
}

static void rewrite(void *of)
{
    struct runtime_watch *all = of;
    all->forgotten = 0;
    vec_foreach (slot, &all->watches) {
        struct watch *t = slot->value;
        live_process_rewrite(&t->process);
    }
}

const struct watch_kind runtime_watch_kind = {.late = UINT64_C(1000) * MS,
                                              .create = create,
                                              .free = watch_all_free,
                                              .sample = take_sample,
                                              .mapped = note_mapped,
                                              .mapped_file = note_mapped,
                                              .end = end,
                                              .pass = pass,
                                              .flush = flush,
                                              .rewrite = rewrite};
