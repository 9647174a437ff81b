/* SPDX-License-Identifier: GPL-2.0-only */
/* LuaJIT's row in the table of runtimes. See unwind/runtime.h. */
#include "unwind/luajit/runtime.h"
#include "unwind/luajit/census.h"
#include "unwind/luajit/discover.h"
#include "unwind/luajit/names.h"
#include "unwind/luajit/names_builtins.h"
#include "unwind/luajit/object.h"
#include "unwind/luajit/variables.h"
#include "unwind/luajit/walk.h"

#include <stdlib.h>
#include <string.h>

/* Find names of the library functions in the read-only bytes. */
static const struct luajit_builtins *find_builtins(const struct runtime_image *image)
{
    struct luajit_builtins *found = luajit_builtins_create();
    struct runtime_segment s;
    for (size_t i = 0; found && image->segment(image->context, i, &s); i++) {
        const uint8_t *bytes =
            s.writable || !s.size ? NULL : image->bytes(image->context, s.address, s.size);
        if (bytes)
            luajit_builtins_add(found, bytes, s.size);
    }
    return found;
}

static int discover(const struct runtime_image *image, void **ret, struct error *err)
{
    const struct luajit_image view = luajit_image_of(image);
    struct luajit_layout *layout = malloc(sizeof(*layout));
    if (!layout)
        return error_no_memory(err);
    int found = luajit_discover(&view, layout, err);
    if (found <= 0) {
        free(layout);
        return found;
    }
    if (image->stays)
        layout->builtins = find_builtins(image);
    *ret = layout;
    return 1;
}

static void layout_free(void *layout)
{
    struct luajit_layout *l = layout;
    luajit_builtins_free((struct luajit_builtins *)l->builtins);
    free(l);
}

static uint64_t code_start(const void *layout)
{
    return ((const struct luajit_layout *)layout)->blob;
}

/* ---- VMs and their objects ----------------------------------------------------------------- */

static int find_vms(const struct runtime_memory *m, const struct runtime_instance *at, size_t nr,
                    runtime_vm_list *ret, struct error *err)
{
    struct luajit_blob blobs[RUNTIME_INSTANCES_MAX];
    luajit_vm_list found = {0};
    nr = nr < RUNTIME_INSTANCES_MAX ? nr : RUNTIME_INSTANCES_MAX;
    for (size_t i = 0; i < nr; i++)
        blobs[i] = luajit_blob_of(&at[i]);
    int failed = luajit_vms_find(m->memory, m->writable, m->nr_writable, blobs, nr, &found, err);
    for (size_t i = 0; i < found.nr && !failed; i++) {
        size_t of = 0;
        while (of + 1 < nr && blobs[of].address != found.at[i].blob)
            of++;
        if (!vec_push(ret, (struct runtime_vm){found.at[i].g, &at[of]}))
            failed = error_no_memory(err);
    }
    vec_free(&found);
    return failed;
}

/* List the prototypes in the GC's list of all objects of a VM. */
static int list_vm(const struct memory *m, uint64_t g, const struct luajit_layout *l,
                   runtime_add_object *add, void *context, struct error *err)
{
    enum { OBJECTS_MAX = 1 << 22, HEAD = 16 };
    enum provenance ignored = PROVENANCE_EXACT;
    uint64_t o = 0;
    uint32_t size;
    uint8_t head[HEAD];
    if (add(context, RUNTIME_LIST_VMS, g, 0, 0, err) < 0)
        return -1;
    if (l->gc_root == LUAJIT_UNKNOWN || l->gct < 0 || l->gct >= HEAD || l->ref_size > 8 ||
        !memory_read(m, g + (uint64_t)l->gc_root, &o, (size_t)l->ref_size, &ignored))
        return 0;
    for (uint32_t i = 0; o && !(o & 7) && i < OBJECTS_MAX; i++) {
        if (!memory_read(m, o, head, sizeof(head), &ignored))
            return 0;
        if (head[l->gct] == LUAJIT_GCT_PROTO &&
            memory_read(m, o + (uint64_t)l->proto_sizept, &size, sizeof(size), &ignored) &&
            add(context, RUNTIME_LIST_BLOCKS, o, size, 0, err) < 0)
            return -1;
        o = 0;
        memcpy(&o, head, (size_t)l->ref_size);
    }
    return 0;
}

static int list_objects(const struct runtime_memory *m, const struct runtime_instance *at,
                        const struct runtime_vm *vms, size_t nr_vms, runtime_add_object *add,
                        void *context, struct error *err)
{
    for (size_t i = 0; i < nr_vms; i++) {
        if (list_vm(m->memory, vms[i].address, at->layout, add, context, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- names --------------------------------------------------------------------------------- */

static void *tables_create(struct managed_names *managed, bool has_log)
{
    (void)has_log;
    return luajit_names_create(managed);
}

static void tables_free(void *tables)
{
    luajit_names_free(tables);
}

/* ---- the walk of a sample ------------------------------------------------------------------ */

enum { LISTED_MAX = 64 }; /* VMs that come with a sample, or of a snapshot's list */

struct sample_walk {
    struct luajit_process process;
    const struct runtime_sample *sample;
    struct luajit_names *names;
    struct luajit_blob blobs[RUNTIME_INSTANCES_MAX];
    luajit_vm_list vms; /* that the walk knows at its begin */
    uint64_t gs[LISTED_MAX];
    bool named;       /* a Lua frame was met */
    uint8_t activity; /* enum runtime_activity of the innermost Lua frame's VM */
};

/* Read the state that the VM of the innermost Lua frame noted. Only memory that came with the
 * sample shows it. */
static void read_vmstate(struct sample_walk *w, const struct memory *m, const struct luajit_vm *vm)
{
    int32_t value;
    w->named = true;
    if (vm->layout && vm->layout->vmstate != LUAJIT_UNKNOWN &&
        memory_read_instant(m, vm->g + (uint64_t)vm->layout->vmstate, &value, sizeof(value)))
        w->activity = (uint8_t)luajit_vmstate(vm->layout, value);
}

static bool name_frame(void *context, const struct memory *m, const struct luajit_vm *vm,
                       const struct luajit_frame *frame, struct frame *ret)
{
    struct sample_walk *w = context;
    const struct luajit_names_source source = {.memory = m,
                                               .vm = vm,
                                               .space = w->sample->pid,
                                               .provenance = ret->provenance,
                                               .batch = w->sample->batch};
    struct luajit_named named;
    if (!w->named)
        read_vmstate(w, m, vm);
    if (luajit_names_frame(w->names, &source, frame, &named, NULL) < 0)
        return false;
    ret->function = named.function;
    ret->line = named.line;
    ret->callname = named.callname;
    if (named.provenance > ret->provenance)
        ret->provenance = (uint8_t)named.provenance;
    return true;
}

/* Look a prototype up in snapshots by an address in its bytecode. */
static uint64_t find_prototype(void *context, uint64_t address)
{
    const struct runtime_sample *s = ((const struct sample_walk *)context)->sample;
    uint64_t found;
    return s->find(s->context, RUNTIME_LIST_BLOCKS, address, &found, 1) ? found : 0;
}

/* If memory is out, the walk finds the VM by itself, or not at all. */
static void add_vm(struct sample_walk *w, uint64_t g, const struct luajit_blob *b)
{
    (void)vec_push(&w->vms, ((struct luajit_vm){.g = g, .blob = b->address, .layout = b->layout}));
    w->process.vms = w->vms.at;
    w->process.nr_vms = w->vms.nr;
}

/* If references have 32 bits, no register of a trace says which VM the trace belongs to: use the
 * VMs that came with the sample, or that a snapshot has found. */
static void use_known_vms(struct sample_walk *w)
{
    const struct runtime_sample *s = w->sample;
    uint64_t found[LISTED_MAX];
    const uint64_t *gs = s->has_vmstack ? w->gs : found;
    size_t nr = s->has_vmstack ? w->process.nr_gs
                : s->find      ? s->find(s->context, RUNTIME_LIST_VMS, 0, found, LISTED_MAX)
                               : 0;
    for (size_t i = 0; i < w->process.nr_blobs; i++) {
        for (size_t k = 0; !w->blobs[i].layout->gc64 && k < nr; k++)
            add_vm(w, gs[k], &w->blobs[i]);
    }
}

static void look_up(void *walk)
{
    struct sample_walk *w = walk;
    const struct runtime_sample *s = w->sample;
    size_t nr;
    const struct runtime_instance *at = s->instances(s->context, &luajit_runtime, &nr);
    for (size_t i = 0; i < nr; i++)
        w->blobs[i] = luajit_blob_of(&at[i]);
    w->process.blobs = w->blobs;
    w->process.nr_blobs = nr;
    if (!w->process.nr_vms)
        use_known_vms(w);
}

static void walk_begin(void *walk, void *tables, const struct runtime_sample *s, struct walker *ret)
{
    struct sample_walk *w = walk;
    w->sample = s;
    w->names = tables;
    w->named = false;
    w->activity = RUNTIME_IN_UNKNOWN;
    w->process = (struct luajit_process){.namer = {.name = name_frame, .context = w},
                                         .prototype = s->find ? find_prototype : NULL,
                                         .places = s->places,
                                         .gs = w->gs,
                                         .other_moments = s->find && !s->has_running_vm};
    w->vms.nr = 0;
    for (size_t i = 0; i < s->nr_vms; i++) {
        if (s->has_vmstack && i < LISTED_MAX) {
            w->gs[w->process.nr_gs++] = s->vms[i].address;
        } else if (s->vms[i].instance && s->vms[i].instance->runtime == &luajit_runtime) {
            const struct luajit_blob blob = luajit_blob_of(s->vms[i].instance);
            add_vm(w, s->vms[i].address, &blob);
        }
    }
    *ret = luajit_walker(&w->process);
}

static void walk_free(void *walk)
{
    vec_free(&((struct sample_walk *)walk)->vms);
}

static uint8_t activity(const void *walk)
{
    return ((const struct sample_walk *)walk)->activity;
}

static int variables(void *walk, const struct memory *m, const struct variable_place *at,
                     struct variables *ret)
{
    (void)walk;
    return luajit_variables(m, at, ret);
}

const struct runtime luajit_runtime = {.name = "LuaJIT",
                                       .discover = discover,
                                       .layout_free = layout_free,
                                       .describe = luajit_describe,
                                       .describe_vm = luajit_describe_vm,
                                       .code_start = code_start,
                                       .tables_create = tables_create,
                                       .tables_free = tables_free,
                                       .find_vms = find_vms,
                                       .list_objects = list_objects,
                                       .walk_begin = walk_begin,
                                       .walk_size = sizeof(struct sample_walk),
                                       .walk_free = walk_free,
                                       .look_up = look_up,
                                       .activity = activity,
                                       .variables = variables,
                                       .census = &luajit_census};
