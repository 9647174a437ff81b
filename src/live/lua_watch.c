/* SPDX-License-Identifier: GPL-2.0-only */
/* A recorded process while it runs. See lua_watch.h. */
#include "live/lua_watch.h"

#include "live/compiler_watch.h"
#include "live/live_memory.h"
#include "live/live_process.h"
#include "session/registers.h"
#include "session/session.h"
#include "unwind/luajit/walk.h"
#include "session/walk_input.h"

#include "base/clock.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MS = 1000000,                   /* ns */
    SEARCH_PAUSE_MIN_NS = MS,       /* pause between the first scans */
    SEARCH_PAUSE_MAX_NS = 500 * MS, /* pause between later scans */
    PROBE_EVERY_NS = MS,            /* between walks that look for an unknown VM */
    SEARCH_OFTEN_FOR_MS = 2000, /* ms that a LuaJIT may be without a VM before scans become rare */
    MAX_FRAMES = 4096,          /* frames of a live walk */
    WALK_READS_UNTIL_NS = 1000 * MS, /* age of a sample at which its walk stops reading */
    FIRST_WALK_READS = 1 << 14,      /* reads of memory that the first walks may make */
    STACK_SLOTS_ABOVE = 256,         /* slots read above the top: a Lua frame is not larger */
    STACK_BYTES_MAX = 1 << 20,       /* bytes of a Lua stack: LuaJIT's limit is half of it */
};

struct lua_watch {
    struct live_process process;
    const struct watch_tools *tools;
    lua_scan_blob_list blobs;
    lua_scan_vm_list vms;
    struct compiler_watch *compilers;
    struct lua_scan_job *job;         /* the search that is under way; NULL: none */
    lua_scan_vm_list found;           /* VMs that the search has found */
    size_t nr_before;                 /* size of `vms` when the search began */
    uint64_t next_scan, began, pause; /* ns; began: when the first LuaJIT was seen */
    uint64_t took;                    /* ns that the search has taken */
    uint64_t step;                    /* bytes that the search reads at once */
    bool mapped;                      /* something was mapped since the last look */
    bool more;                        /* the search has found VMs that were not known */
    bool wanted;                      /* a walk met code of a LuaJIT, but no known VM */
    uint64_t reads;                   /* reads of memory that walks may still make */
    uint64_t probed;                  /* time of the last sample without a copy that was walked */
    struct lua_watch_stats stats;
};

struct lua_watch *lua_watch_create(pid_t pid, const struct watch_tools *tools)
{
    struct lua_watch *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->compilers = compiler_watch_create();
    if (!t->compilers) {
        free(t);
        return NULL;
    }
    t->process.pid = pid;
    t->tools = tools;
    t->mapped = true;
    t->reads = FIRST_WALK_READS;
    return t;
}

void lua_watch_free(struct lua_watch *t)
{
    if (!t)
        return;
    live_process_free(&t->process);
    lua_scan_end(t->job);
    compiler_watch_free(t->compilers);
    vec_free(&t->found);
    vec_free(&t->blobs);
    vec_free(&t->vms);
    free(t);
}

pid_t lua_watch_pid(const struct lua_watch *t)
{
    return t->process.pid;
}

void lua_watch_mapped(struct lua_watch *t)
{
    t->mapped = true;
}

const struct lua_scan_vm *lua_watch_vms(const struct lua_watch *t, size_t *nr)
{
    *nr = t->vms.nr;
    return t->vms.at;
}

const struct luajit_blob *lua_watch_blobs(const struct lua_watch *t, size_t *nr)
{
    *nr = t->blobs.nr;
    return t->blobs.at;
}

int lua_watch_inherit(struct lua_watch *t, const struct lua_watch *parent, struct error *err)
{
    vec_foreach (vm, &parent->vms) {
        if (!vec_push(&t->vms, *vm))
            return error_no_memory(err);
    }
    vec_foreach (blob, &parent->blobs) {
        if (!vec_push(&t->blobs, *blob))
            return error_no_memory(err);
    }
    return 0;
}

bool lua_watch_has_lua(const struct lua_watch *t)
{
    return t->blobs.nr != 0;
}

const char *lua_watch_problem(const struct lua_watch *t)
{
    return t->process.failed ? t->process.problem.text : NULL;
}

struct lua_watch_stats lua_watch_stats(const struct lua_watch *t)
{
    struct lua_watch_stats s = t->stats;
    if (t->process.objects)
        s.log = object_log_stats(t->process.objects);
    return s;
}

/* ---- looking for VMs ----------------------------------------------------------------------- */

static int note_layouts(struct lua_watch *t, struct error *err)
{
    vec_foreach (blob, &t->blobs) {
        if (object_log_layout(t->process.objects, blob->layout, err) < 0)
            return -1;
    }
    return 0;
}

static bool is_same(const lua_scan_vm_list *a, const lua_scan_vm_list *b)
{
    bool same = a->nr == b->nr;
    for (size_t i = 0; i < a->nr && same; i++)
        same = a->at[i].vm.g == b->at[i].vm.g && a->at[i].vm.blob == b->at[i].vm.blob;
    return same;
}

/* Find the process's LuaJITs again after new mappings. A process that is gone or may not be read
 * has none. Returns 1 when their number changed, 0 when not, -1 when memory is out. */
static int look_at_files(struct lua_watch *t, uint64_t now, struct error *err)
{
    size_t before = t->blobs.nr;
    if (!t->mapped)
        return 0;
    t->mapped = false;
    live_process_forget(&t->process);
    t->blobs.nr = 0;
    if (lua_scan_blobs(t->tools->files, t->process.pid, &t->blobs, &t->process.problem) < 0) {
        t->process.failed = true;
        return 0;
    }
    if (t->blobs.nr && !t->began) {
        t->began = now;
        t->pause = SEARCH_PAUSE_MIN_NS;
    }
    if (!t->blobs.nr || live_process_open(&t->process, &t->tools->sink) < 0)
        return t->blobs.nr != before;
    return note_layouts(t, err) < 0 ? -1 : t->blobs.nr != before;
}

bool lua_watch_expects_vm(const struct lua_watch *t, uint64_t now)
{
    return t->began && !t->vms.nr && !t->process.failed && (t->wanted || t->job) &&
           now - t->began < (uint64_t)SEARCH_OFTEN_FOR_MS * MS;
}

bool lua_watch_is_searched(const struct lua_watch *t)
{
    return t->job != NULL;
}

static bool has_vm(const lua_scan_vm_list *list, uint64_t g)
{
    vec_foreach (vm, list) {
        if (vm->vm.g == g)
            return true;
    }
    return false;
}

static bool is_known_vm(const struct lua_watch *t, uint64_t g)
{
    return has_vm(&t->vms, g);
}

/* Keep the VMs that walks met while the search was under way. The search may have missed a VM that
 * was created meanwhile, but the VM exists all the same. */
static int keep_met(struct lua_watch *t, struct error *err)
{
    for (size_t i = t->nr_before; i < t->vms.nr; i++) {
        if (!has_vm(&t->found, t->vms.at[i].vm.g) && !vec_push(&t->found, t->vms.at[i]))
            return error_no_memory(err);
    }
    return 0;
}

/* Add the VMs that the search has found so far to the known VMs at once. When the search has ended,
 * drop the known VMs that it has not found. */
static int take_found(struct lua_watch *t, bool ended, struct error *err)
{
    int changed = 0;
    if (ended && keep_met(t, err) < 0)
        return -1;
    if (ended && !is_same(&t->found, &t->vms)) {
        vec_free(&t->vms);
        t->vms = t->found;
        memset(&t->found, 0, sizeof(t->found));
        return 1;
    }
    vec_foreach (vm, &t->found) {
        if (ended || is_known_vm(t, vm->vm.g))
            continue;
        if (!vec_push(&t->vms, *vm))
            return error_no_memory(err);
        changed = 1;
    }
    return changed;
}

/* Whether a VM is expected, or further VMs are: a sample ran an unknown VM, or a host has just
 * created some VMs and is likely to create more. */
static bool is_search_urgent(const struct lua_watch *t, uint64_t now)
{
    return lua_watch_expects_vm(t, now) || ((t->more || t->wanted) && t->began &&
                                            now - t->began < (uint64_t)SEARCH_OFTEN_FOR_MS * MS);
}

/* Do one step of a search. Searches take at most a twentieth of the time, but a third while a VM is
 * expected: each ms without the VM means samples without Lua. */
static int scan_step(struct lua_watch *t, uint64_t now, struct error *err)
{
    enum { STEP = 4 << 20, STEP_LEAST = 64 << 10, STEP_NS = 10 * MS };
    if (!t->job) {
        t->stats.scans++;
        t->wanted = false;
        t->more = false;
        t->found.nr = 0;
        t->nr_before = t->vms.nr;
        t->took = 0;
        t->step = STEP;
        if (lua_scan_begin(t->tools->files, t->process.pid, &t->job, &t->process.problem) < 0) {
            t->process.failed = true;
            return t->process.problem.kind == ERROR_NO_MEMORY ? error_no_memory(err) : 0;
        }
    }
    uint64_t began = clock_ns(CLOCK_MONOTONIC);
    int more = lua_scan_step(t->job, t->step, &t->found, err);
    int changed = more < 0 ? -1 : take_found(t, more == 0, err);
    if (clock_ns(CLOCK_MONOTONIC) - began > STEP_NS &&
        t->step > STEP_LEAST) /* each read waits: so do samples */
        t->step /= 2;
    t->took += clock_ns(CLOCK_MONOTONIC) - now;
    t->more |= changed > 0;
    if (more > 0 && changed >= 0) {
        t->next_scan = now;
        return changed;
    }
    t->stats.left_out = lua_scan_left_out(t->job);
    lua_scan_end(t->job);
    t->job = NULL;
    bool searched = is_search_urgent(t, now);
    t->pause = searched                             ? SEARCH_PAUSE_MIN_NS
               : 2 * t->pause < SEARCH_PAUSE_MAX_NS ? 2 * t->pause
                                                    : SEARCH_PAUSE_MAX_NS;
    uint64_t share = (searched ? 2 : 20) * t->took;
    t->next_scan = now + (t->pause > share ? t->pause : share);
    return changed;
}

int lua_watch_scan(struct lua_watch *t, uint64_t now, struct error *err)
{
    int changed = look_at_files(t, now, err);
    if (changed < 0 || !t->blobs.nr || t->process.failed)
        return changed;
    bool due = t->job || t->wanted;
    int found = due && now >= t->next_scan ? scan_step(t, now, err) : 0;
    return found < 0 ? -1 : found | changed;
}

/* ---- walking ------------------------------------------------------------------------------- */

/* Find a VM that no scan has found yet by DISPATCH. Returns 1 when a VM was found, 0 when not,
 * -1 when memory is out. */
static int meet_vm(struct lua_watch *t, const struct registers *r, const struct memory *m,
                   struct error *err)
{
    uint64_t g;
    vec_foreach (blob, &t->blobs) {
        if (!luajit_vm_of_registers(r, blob->layout, &g))
            return 0;
        const struct luajit_vm vm = {
            .g = g,
            .blob = blob->address,
            .layout = blob->layout,
        };
        enum provenance ignored = PROVENANCE_EXACT;
        if (is_known_vm(t, vm.g) || !luajit_vm_check(m, &vm, &ignored))
            continue;
        if (!vec_push(&t->vms, (struct lua_scan_vm){vm, lua_scan_main_state(m, &vm)}))
            return error_no_memory(err);
        return 1;
    }
    return 0;
}

static uint64_t load_ref(const uint8_t *at, const struct luajit_layout *l)
{
    return l->ref_size == 8 ? load_u64(at, false) : load_u32(at, false);
}

/* Without a copy: read a VM's running state and its stack as they are now, each in one read, so
 * that they fit together as well as possible. */
static void read_vm(struct lua_watch *t, const struct lua_scan_vm *v, uint64_t time)
{
    enum { STATE_MAX = 256 };
    const struct luajit_layout *l = v->vm.layout;
    struct memory_layer layer = object_log_layer(t->process.objects);
    const struct memory m = {.layers = &layer, .nr_layers = 1, .time = time};
    enum provenance ignored = PROVENANCE_EXACT;
    uint8_t ref[8], state[STATE_MAX];
    uint64_t L = v->main_L;
    if (l->cur_L > 0) {
        if (!memory_read(&m, v->vm.g + (uint64_t)l->cur_L, ref, (size_t)l->ref_size, &ignored))
            return;
        L = load_ref(ref, l);
    }
    (void)object_log_range(t->process.objects, L, (size_t)l->L_used, time);
    if (!luajit_state_check(&m, &v->vm, L, &ignored) || (size_t)l->L_used > sizeof(state) ||
        !memory_read(&m, L, state, (size_t)l->L_used, &ignored))
        return;
    uint64_t stack = load_ref(state + l->L_stack, l), top = load_u64(state + l->L_top, false);
    uint64_t end = load_ref(state + l->L_maxstack, l);
    top = (top > stack && top < end ? top : stack) + 8 * STACK_SLOTS_ABOVE;
    end = top < end ? top : end;
    if (end > stack && end - stack <= STACK_BYTES_MAX)
        (void)object_log_range(t->process.objects, stack, end - stack, time);
}

/* Note a VM that a walk has found by DISPATCH, as restored by the native frames. If memory is out,
 * the next scan finds the VM. */
static void note_vm(struct lua_watch *t, const struct luajit_vm *vm, const struct memory *m)
{
    if (!is_known_vm(t, vm->g))
        (void)vec_push(&t->vms, (struct lua_scan_vm){*vm, lua_scan_main_state(m, vm)});
}

static bool name_frame(void *context, const struct memory *m, const struct luajit_vm *vm,
                       const struct luajit_frame *frame, struct frame *ret)
{
    struct lua_watch *t = context;
    const struct luajit_names_source source = {
        .memory = m, .vm = vm, .space = (uint32_t)t->process.pid, .batch = 0};
    note_vm(t, vm, m);
    compiler_watch_note(t->compilers, vm, frame->proto);
    struct luajit_named named;
    (void)ret;
    return luajit_names_frame(t->tools->names, &source, frame, &named, NULL) == 0;
}

static int walk(struct lua_watch *t, struct unwind_input *in, bool *met_lua, struct error *err)
{
    struct luajit_vm vms[VMSTACK_ENTRIES_MAX];
    size_t nr = 0;
    for (; nr < t->vms.nr && nr < VMSTACK_ENTRIES_MAX; nr++)
        vms[nr] = t->vms.at[nr].vm;
    const struct luajit_process process = {.vms = vms,
                                           .nr_vms = nr,
                                           .blobs = t->blobs.at,
                                           .nr_blobs = t->blobs.nr,
                                           .namer = {.name = name_frame, .context = t}};
    const struct walker walker = luajit_walker(&process);
    struct unwind_stack stack = {0};
    t->stats.walks++;
    in->walker = &walker;
    int failed = unwind(t->tools->unwinder, in, &stack, err);
    *met_lua = false;
    vec_foreach (f, &stack.frames)
        *met_lua |= f->kind == FRAME_LUA;
    vec_free(&stack.frames);
    return failed;
}

static bool is_in_blob(const struct lua_watch *t, uint64_t pc)
{
    vec_foreach (blob, &t->blobs) {
        if (pc - blob->address < blob->layout->blob_size)
            return true;
    }
    return false;
}

/* Log the objects whose heads are in the copy. Walks read only these heads from the copy, and the
 * objects themselves are needed later. */
static void note_objects(struct lua_watch *t, const struct vmstack *copy, uint64_t time)
{
    for (uint32_t i = 0; i < copy->nr; i++) {
        const struct vmstack_entry *e = &copy->entries[i];
        bool is_head =
            e->kind == VMENTRY_HEAD ||
            (e->kind == VMENTRY_TRACE && e->length > sizeof(uint64_t)); /* else the slot */
        if (is_head)
            object_log_object(t->process.objects, e->address, time);
    }
}

/* A walk that meets a new VM needs thousands of reads, later walks a few hundred: a walk may use up
 * at once the reads that earlier walks did not need. */
static uint64_t reads_for_walk(struct lua_watch *t)
{
    enum { READS = 300, READS_SAVED = 1 << 14 };
    uint64_t all = t->reads + READS;
    return all < READS_SAVED ? all : READS_SAVED;
}

int lua_watch_walk(struct lua_watch *t, const struct sample *s, const struct vmstack *copy,
                   bool copies, struct error *err)
{
    struct walk_memory memory;
    struct unwind_input in = {0};
    if (!t->blobs.nr || t->process.failed || !t->process.objects || !s->stack ||
        s->user_abi != PERF_SAMPLE_REGS_ABI_64)
        return 0;
    if (live_process_learn(&t->process, t->tools->dsos, err) < 0)
        return -1;
    if (!t->process.session)
        return 0;
    sample_registers(s, arch_of_host(), &in.registers);
    if (copy)
        note_objects(t, copy, s->time);
    struct live_memory heap = live_memory_of(t->process.objects, s, registers_sp(&in.registers),
                                             reads_for_walk(t), WALK_READS_UNTIL_NS);
    const struct memory_layer live = live_memory_layer(&heap);
    const struct walk_parts parts = {
        .thread = &t->process.thread, .sample = s, .vmstack = copy, .live = &live};
    walk_input(&parts, MAX_FRAMES, &memory, &in);
    bool met_lua;
    size_t known = t->vms.nr;
    /* A VM below a copied one may be new, too. */
    bool in_blob = is_in_blob(t, registers_pc(&in.registers));
    int met = copy && !in_blob ? 0 : meet_vm(t, &in.registers, &in.memory, err);
    if (copies && !copy) { /* the running VM was not copied: a walk can only tell which VM it is */
        t->wanted |= in_blob;
        if (met || s->time - t->probed < PROBE_EVERY_NS)
            return met;
        t->probed = s->time;
        return walk(t, &in, &met_lua, err) < 0 ? -1 : t->vms.nr != known;
    }
    for (size_t i = 0; !copy && i < t->vms.nr && i < VMSTACK_ENTRIES_MAX; i++)
        read_vm(t, &t->vms.at[i], s->time);
    if (met < 0 || walk(t, &in, &met_lua, err) < 0)
        return -1;
    t->wanted |= met_lua && !copy;
    t->reads = live_memory_left(&heap);
    if (compiler_watch_look(t->compilers, t->process.objects, err) < 0)
        return -1;
    return met || t->vms.nr != known;
}

/* ---- the log ------------------------------------------------------------------------------- */

/* Samples that come too late are not walked, but their VMs may have compiled something. */
static int look_at_compilers(struct lua_watch *t, struct error *err)
{
    vec_foreach (vm, &t->vms)
        compiler_watch_list(t->compilers, &vm->vm);
    return compiler_watch_look(t->compilers, t->process.objects, err);
}

int lua_watch_pass(struct lua_watch *t, size_t budget, struct error *err)
{
    if (t->process.objects && look_at_compilers(t, err) < 0)
        return -1;
    return live_process_pass(&t->process, budget, err);
}

int lua_watch_flush(struct lua_watch *t, struct error *err)
{
    return live_process_flush(&t->process, err);
}

int lua_watch_finish(struct lua_watch *t, struct error *err)
{
    return t->process.objects ? compiler_watch_finish(t->compilers, t->process.objects, err) : 0;
}

void lua_watch_rewrite(struct lua_watch *t)
{
    compiler_watch_rewrite(t->compilers);
    live_process_rewrite(&t->process);
}
