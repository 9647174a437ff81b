/* SPDX-License-Identifier: GPL-2.0-only */
/* Live walks of JavaScript stacks. See v8_watch.h. */
#include "live/v8_watch.h"

#include "live/copier.h"
#include "live/live_memory.h"
#include "live/live_process.h"
#include "live/lua_scan.h"
#include "live/v8_compiler_watch.h"
#include "session/registers.h"
#include "session/session.h"
#include "base/table.h"
#include "unwind/v8/names.h"
#include "unwind/v8/walk.h"
#include "unwind/v8/runtime.h"
#include "session/walk_input.h"

#include <stdlib.h>

enum {
    MS = 1000000,
    /* Ns between two readings of the mappings; doubled after each reading in vain. */
    RETRY_FIRST = 20 * MS,
    RETRY_LAST = 2000 * MS,
    RETRY_MAPPED = 2 * MS, /* the same, after code has been mapped */
    MAPPED_MAX = 32,       /* readings because of new code, at most, in a process without V8 */
    MAX_FRAMES = 4096,
    /* Ns after which names and sources are read again, because they may have moved. */
    REREAD_NAMES_NS = 250 * MS,
    KEEP_FRAME_NS = 250 * MS, /* ns for which a frame that was read is not read again */
    /* Number of objects, stable before and now found changed, that shows a collection. */
    GC_CHANGED_OBJECTS = 6,
    NOTICE_GC_EVERY_NS = 30 * MS, /* a collection is noticed at most once in this time */
    /* Ns after which the functions that a function makes are read again. */
    REREAD_MAKERS_NS = 2000 * MS,
    /* They are also read again after a collection, if the function makes at most this many. */
    MAKER_FUNCTIONS_MAX = 64,
    READS_MAX = 20000, /* of the process for one sample: enough for a whole source, once */
};

/* Age in ns after which a sample is not walked any more. Its stack comes with the sample, and the
 * objects that the stack refers to live long. */
#define LATE_NS (UINT64_C(10) * 1000 * MS)

/* The isolate of a thread. */
struct isolate {
    uint32_t tid;
    uint64_t root; /* what the thread's root register has in V8's code */
};
enum { ISOLATES_MAX = 256 }; /* beyond it the copier is told again */

struct v8_watch {
    struct live_process process;
    const struct v8_layout *layout;
    uint64_t looked, next_look, pause; /* ns */
    unsigned mapped;                   /* readings of the mappings because of new code, in vain */
    bool has_new_code;
    struct table makers; /* BytecodeArrays whose constants were read already */
    /* Counts collections. Constants of functions that make functions are read again in each
     * generation. */
    uint8_t generation;
    /* Frames that were read a moment ago, some MiB; exists with the log. */
    struct v8_frame_cache *seen;
    struct v8_compiler_watch *compilers; /* exists with the log */
    uint64_t known;                      /* objects in the log at the last pass */
    uint64_t changed;                    /* objects found changed, as of the last check */
    uint64_t changed_at;                 /* ns: time of the last check */
    uint64_t frames_forgotten_at; /* ns: when frames were last forgotten because of a collection */
    VEC(struct isolate) isolates; /* of which the copier was told */
};

struct v8_watches {
    struct dsos *dsos;
    struct unwinder *unwinder;
    struct log_sink sink;
    struct copier *const *copier; /* as in struct watch_means */
    struct managed_names *managed;
    struct v8_names *names;
    uint64_t frames_forgotten_at, makers_forgotten_at; /* ns */
    struct table targets;                              /* pid + 1 -> struct v8_watch */
};

/* ---- creation ------------------------------------------------------------------------------ */

static void forget_code(struct v8_watch *t)
{
    live_process_forget(&t->process);
    t->layout = NULL;
}

static void target_free(struct v8_watch *t)
{
    live_process_free(&t->process);
    table_free(&t->makers);
    vec_free(&t->isolates);
    v8_frame_cache_free(t->seen);
    v8_compiler_watch_free(t->compilers);
    free(t);
}

static void free_all(void *of)
{
    struct v8_watches *all = of;
    if (!all)
        return;
    vec_foreach (slot, &all->targets)
        target_free(slot->value);
    table_free(&all->targets);
    v8_names_free(all->names);
    managed_names_free(all->managed);
    free(all);
}

static void *create(const struct watch_means *means)
{
    struct v8_watches *all = calloc(1, sizeof(*all));
    if (!all)
        return NULL;
    all->dsos = means->dsos;
    all->unwinder = means->unwinder;
    all->sink = means->sink;
    all->copier = means->copier;
    all->managed = managed_names_create();
    all->names = all->managed ? v8_names_create(all->managed) : NULL;
    if (all->names) {
        v8_names_only_read(all->names);
        return all;
    }
    free_all(all);
    return NULL;
}

static struct v8_watch *target_get(struct v8_watches *all, uint32_t pid)
{
    struct v8_watch *t = table_get(&all->targets, (uint64_t)pid + 1);
    if (t)
        return t;
    t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->process.pid = (pid_t)pid;
    t->pause = RETRY_FIRST;
    if (table_put(&all->targets, (uint64_t)pid + 1, t))
        return t;
    free(t);
    return NULL;
}

/* ---- mappings ------------------------------------------------------------------------------ */

static int look_at_maps(struct v8_watches *all, struct v8_watch *t, struct error *err)
{
    struct runtime_instance v8;
    forget_code(t);
    if (live_process_learn(&t->process, all->dsos, err) < 0)
        return -1;
    if (!t->process.session)
        return 0;
    /* Find the layout before the V8 has begun: looking it up in V8's file takes 10 ms, and the
     * first samples of V8's code need not wait for it. */
    if (session_runtime_of_files(&t->process.thread, &v8_runtime, &v8))
        t->layout = v8.layout;
    else
        forget_code(t);
    return 0;
}

/* Whether the time has come to read the mappings, or new code was mapped. A V8 maps its code some
 * 0.1 s after its program has begun, and runs it at once. */
static bool look_is_due(struct v8_watch *t, uint64_t now)
{
    bool mapped = t->has_new_code && now >= t->looked + RETRY_MAPPED && t->mapped < MAPPED_MAX;
    t->mapped += mapped && now < t->next_look;
    return mapped || now >= t->next_look;
}

/* A V8 was found: create what its walks need. */
static int open_objects(struct v8_watches *all, struct v8_watch *t, struct error *err)
{
    if (live_process_open(&t->process, &all->sink) < 0)
        return 0;
    t->seen = v8_frame_cache_create(KEEP_FRAME_NS);
    t->compilers = v8_compiler_watch_create(t->layout);
    return t->seen && t->compilers ? 0 : error_no_memory(err);
}

/* Read the mappings if it is time to. */
static int look(struct v8_watches *all, struct v8_watch *t, struct error *err)
{
    uint64_t now = all->sink.now(all->sink.context);
    if (!look_is_due(t, now))
        return 0;
    t->has_new_code = false;
    t->looked = now;
    t->next_look = now + t->pause;
    t->pause = t->pause < RETRY_LAST / 2 ? 2 * t->pause : RETRY_LAST;
    if (look_at_maps(all, t, err) < 0)
        return -1;
    if (t->layout)
        t->mapped = 0;
    return t->layout && !t->process.objects ? open_objects(all, t, err) : 0;
}

/* ---- walks --------------------------------------------------------------------------------- */

struct naming {
    struct v8_watches *all;
    struct v8_watch *target;
    uint64_t time; /* ns: of the sample */
};

/* Read the constants of a function, because a later walk may have to find a closure by the function
 * that makes it. Most functions make no closures, and their constants do not change: these are read
 * once. (A compiler's outermost function makes a thousand, and is on every stack: its constants are
 * not read again at each collection.) */
static bool read_constants(struct v8_watch *t, struct v8_reader *r, uint64_t bytecode)
{
    const uintptr_t known = (uintptr_t)table_get(&t->makers, bytecode);
    const uintptr_t once = 1, generation = 2 + (uintptr_t)t->generation;
    if (known == once || known == generation)
        return true;
    unsigned nr = v8_constants_read(r, bytecode);
    return table_put(&t->makers, bytecode,
                     (void *)(nr && nr <= MAKER_FUNCTIONS_MAX ? generation : once));
}

static bool name_frame(void *context, struct v8_reader *r, const struct v8_sfi *sfi, int32_t offset,
                       struct frame *ret)
{
    const struct naming *n = context;
    struct v8_named named;
    if (sfi->bytecode && !read_constants(n->target, r, sfi->bytecode))
        return false;
    v8_compiler_note_function(v8_compiler_watch_of(n->target->compilers), r, sfi);
    if (v8_names_function(n->all->names, r, (uint32_t)n->target->process.pid, 0, sfi, offset,
                          &named) < 0)
        return false;
    ret->function = named.function;
    return true;
}

static bool name_wasm(void *context, struct v8_reader *r, const struct v8_wasm *wasm,
                      struct frame *ret)
{
    const struct naming *n = context;
    struct v8_named named;
    if (v8_names_wasm(n->all->names, r, (uint32_t)n->target->process.pid, 0, wasm, &named) < 0)
        return false;
    ret->function = named.function;
    ret->line = named.line;
    return true;
}

/* Note optimized code, and read the name of the function in which it was left. */
static void note_optimized(void *context, struct v8_reader *r, const struct v8_code *code,
                           uint64_t exit, bool lazy)
{
    const struct naming *n = context;
    struct v8_reader own = *r;
    struct v8_named ignored;
    struct v8_sfi sfi;
    uint64_t place = v8_compiler_note_code(v8_compiler_watch_of(n->target->compilers), r, code,
                                           exit, lazy, n->time);
    if (place && v8_sfi_read_name(&own, place, &sfi))
        (void)v8_names_function(n->all->names, &own, (uint32_t)n->target->process.pid, 0, &sfi, -1,
                                &ignored);
}

static void note_resumed(void *context, struct v8_reader *r, const struct v8_sfi *sfi,
                         int32_t offset)
{
    const struct naming *n = context;
    v8_compiler_note_resumed(v8_compiler_watch_of(n->target->compilers), r, sfi, offset, n->time);
}

static struct isolate *isolate_of(struct v8_watch *t, uint32_t tid)
{
    vec_foreach (i, &t->isolates)
        if (i->tid == tid)
            return i;
    if (t->isolates.nr == ISOLATES_MAX)
        t->isolates.nr = 0;
    return NULL;
}

/* Tell the copier where a thread's isolate is, as soon as a sample shows it. */
static void note_root(struct v8_watches *all, struct v8_watch *t, uint32_t tid, uint64_t root)
{
    if (!root || !*all->copier)
        return;
    struct isolate *known = isolate_of(t, tid);
    if (known && known->root == root)
        return;
    copier_set_v8(*all->copier, t->process.pid, (pid_t)tid, t->layout, root);
    if (known)
        known->root = root;
    else
        (void)vec_push(&t->isolates, ((struct isolate){tid, root})); /* else it is told again */
}

static int walk(struct v8_watches *all, struct v8_watch *t, const struct sample *s,
                const struct vmstack *copy, enum stack_end *end, struct error *err)
{
    struct naming naming = {all, t, s->time};
    uint64_t root = 0;
    const struct v8_process process = {.layout = t->layout,
                                       .namer = {.name = name_frame,
                                                 .wasm = name_wasm,
                                                 .optimized = note_optimized,
                                                 .resumed = note_resumed,
                                                 .context = &naming},
                                       .root = &root,
                                       .awaits = true,
                                       .reads_all_ways = true,
                                       .seen = t->seen,
                                       .space = (uint32_t)t->process.pid};
    const struct walker walker = v8_walker(&process);
    struct unwind_input in = {0};
    struct walk_memory memory;
    sample_registers(s, arch_of_host(), &in.registers);
    uint64_t sp = registers_sp(&in.registers);
    struct live_memory heap = live_memory_of(t->process.objects, s, sp, READS_MAX, LATE_NS);
    const struct memory_layer live = live_memory_layer(&heap);
    const struct walk_parts parts = {
        .thread = &t->process.thread, .sample = s, .vmstack = copy, .live = &live};
    walk_input(&parts, MAX_FRAMES, &memory, &in);
    in.walker = &walker;
    struct unwind_stack stack = {0};
    int failed = unwind(all->unwinder, &in, &stack, err);
    *end = stack.end;
    vec_free(&stack.frames);
    note_root(all, t, s->tid, root);
    return failed;
}

static int take_sample(void *of, const struct sample *s, const struct vmstack *copy,
                       struct error *err)
{
    struct v8_watches *all = of;
    struct v8_watch *t = target_get(all, s->pid);
    enum stack_end end;
    if (!t)
        return error_no_memory(err);
    if (t->process.failed || !s->stack || s->user_abi != PERF_SAMPLE_REGS_ABI_64)
        return 0;
    if (!t->layout && look(all, t, err) < 0)
        return -1;
    if (!t->layout || !t->process.objects)
        return 0;
    if (walk(all, t, s, copy, &end, err) < 0)
        return -1;
    if (end != STACK_NO_CODE && end != STACK_NO_CFI) {
        t->pause = RETRY_FIRST;
        return 0;
    }
    /* New code ranges may have come since. */
    uint64_t looked = t->looked;
    if (look(all, t, err) < 0)
        return -1;
    return looked != t->looked && t->layout ? walk(all, t, s, copy, &end, err) : 0;
}

static void note_mapped(void *of, uint32_t pid)
{
    struct v8_watches *all = of;
    struct v8_watch *t = table_get(&all->targets, (uint64_t)pid + 1);
    if (t)
        t->has_new_code = true;
}

/* ---- the log ------------------------------------------------------------------------------- */

static int end(void *of, uint32_t pid, struct error *err)
{
    struct v8_watches *all = of;
    struct v8_watch *t = table_get(&all->targets, (uint64_t)pid + 1);
    if (!t)
        return 0;
    if (t->compilers)
        v8_compiler_watch_flush(t->compilers, t->process.objects);
    int failed = live_process_flush(&t->process, err);
    table_remove(&all->targets, (uint64_t)pid + 1);
    target_free(t);
    return failed;
}

static void forget_makers(struct v8_watch *t)
{
    table_free(&t->makers);
    t->makers = (struct table){0};
}

/* Every way to a function will be read anew. */
static void forget_frames(struct v8_watch *t)
{
    forget_makers(t);
    if (t->seen)
        v8_frame_cache_forget(t->seen);
}

/* A collection that moves old objects changes many objects at once that had not changed for long.
 * What was read before the collection no longer matches later samples. So forget the frames that a
 * walk would skip: they are read again as soon as possible. */
static void notice_collection(struct v8_watch *t, uint64_t now)
{
    uint64_t changed = object_log_stats(t->process.objects).changed_after_stable;
    bool many = changed - t->changed >= GC_CHANGED_OBJECTS;
    if (now - (many ? t->frames_forgotten_at : t->changed_at) < NOTICE_GC_EVERY_NS)
        return;
    if (many) {
        t->generation++;
        v8_frame_cache_forget(t->seen);
        t->frames_forgotten_at = now;
    }
    t->changed = changed;
    t->changed_at = now;
}

/* *emptied is set when the log has begun anew: everything must be written again. */
static int target_pass(struct v8_watch *t, uint64_t now, size_t budget, bool *emptied,
                       struct error *err)
{
    if (!t->process.objects)
        return 0;
    if (budget == SIZE_MAX) /* the recording ends */
        v8_compiler_watch_finish(t->compilers, t->process.objects);
    else
        v8_compiler_watch_look(t->compilers, t->process.objects);
    if (object_log_pass(t->process.objects, budget, err) < 0)
        return -1;
    notice_collection(t, now);
    uint64_t known = object_log_stats(t->process.objects).objects;
    if (known < t->known) {
        forget_frames(t);
        *emptied = true;
    }
    t->known = known;
    return 0;
}

static int pass(void *of, size_t budget, struct error *err)
{
    struct v8_watches *all = of;
    uint64_t now = all->sink.now(all->sink.context);
    bool makers = now - all->makers_forgotten_at >= REREAD_MAKERS_NS, emptied = false;
    if (now - all->frames_forgotten_at >= REREAD_NAMES_NS) {
        v8_names_again(all->names);
        all->frames_forgotten_at = now;
    }
    vec_foreach (slot, &all->targets) {
        struct v8_watch *t = slot->value;
        if (target_pass(t, now, budget, &emptied, err) < 0)
            return -1;
        if (makers)
            forget_makers(t);
    }
    if (makers)
        all->makers_forgotten_at = now;
    if (emptied)
        v8_names_forget(all->names);
    return 0;
}

static int flush(void *of, struct error *err)
{
    struct v8_watches *all = of;
    vec_foreach (slot, &all->targets) {
        struct v8_watch *t = slot->value;
        if (live_process_flush(&t->process, err) < 0)
            return -1;
    }
    return 0;
}

static void rewrite(void *of)
{
    struct v8_watches *all = of;
    v8_names_forget(all->names);
    vec_foreach (slot, &all->targets) {
        struct v8_watch *t = slot->value;
        forget_frames(t);
        if (t->compilers)
            v8_compiler_watch_rewrite(t->compilers);
        live_process_rewrite(&t->process);
    }
}

const struct watch_kind v8_watch_kind = {.late = LATE_NS,
                                         .create = create,
                                         .free = free_all,
                                         .sample = take_sample,
                                         .mapped = note_mapped,
                                         .end = end,
                                         .pass = pass,
                                         .flush = flush,
                                         .rewrite = rewrite};
