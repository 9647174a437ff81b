/* SPDX-License-Identifier: GPL-2.0-only */
/* The walker's entry: finds out whose code a frame's pc is in. */
#include "unwind/luajit/walk_internal.h"
#include "unwind/luajit/runtime.h"

/* Did the VM come with the sample? If there is only one interpreter, the VM belongs to it. */
static bool is_told(const struct luajit_process *p, uint64_t g)
{
    bool told = false;
    for (size_t i = 0; i < p->nr_gs; i++)
        told |= p->gs[i] == g;
    return told && p->nr_blobs <= 1;
}

bool walk_use_vm(struct luajit_walk *w, uint64_t g, const struct luajit_layout *layout,
                 uint64_t blob)
{
    if (w->vm.g == g && g && w->vm.blob == blob)
        return true; /* the current VM, which was checked */
    for (unsigned i = 0; i < w->nr_vms; i++) {
        if (w->vms[i].g == g && w->vms[i].blob == blob) {
            w->vm = w->vms[i];
            return true;
        }
    }
    if (!is_told(w->process, g) && !luajit_check_g(&w->r, g, blob))
        return false;
    w->vm = (struct luajit_vm){.g = g, .blob = blob, .layout = layout};
    if (w->nr_vms < KNOWN_VMS)
        w->vms[w->nr_vms++] = w->vm;
    return true;
}

static bool wants(const void *context, const struct code *code)
{
    const struct luajit_process *p = context;
    if (code->owner == CODE_ELF)
        return luajit_of_module(code->cfi) != NULL;
    return code->owner != CODE_KERNEL && p->nr_blobs + p->nr_vms != 0;
}

static void begin(struct luajit_walk *w, const struct luajit_process *p,
                  const struct walker_step *step)
{
    w->head.begun = true;
    w->process = p;
    w->nr_segments = w->nr_vms = 0;
    w->vm.g = 0; /* no VM was checked yet: the VM of another walk says nothing about this walk's
                    memory */
    w->unrecorded = 0;
    luajit_reader_begin(&w->r, &step->input->memory);
}

/* Step from generated code, by the walk's machine. */
static enum walker_result step_generated(struct luajit_walk *w)
{
    const struct arch *arch = w->step->input->registers.arch;
    if (arch == luajit_x86_64.arch)
        return luajit_x86_64.step_mcode(w);
    return arch == luajit_aarch64.arch ? luajit_aarch64.step_mcode(w) : WALKER_NO;
}

static enum walker_result step_code(struct luajit_walk *w)
{
    const struct code *c = &w->step->code;
    const struct luajit_layout *l = luajit_of_module(c->cfi);
    if (c->owner != CODE_ELF)
        return step_generated(w);
    uint64_t at = step_pc(w) - c->bias, lookup = at - !walk_is_exact(w);
    w->vm = (struct luajit_vm){.blob = l->blob + c->bias, .layout = l};
    luajit_reader_use(&w->r, l);
    w->r.provenance = PROVENANCE_EXACT;
    if (lookup - l->blob < l->blob_size)
        return step_blob(w, at - l->blob);
    return walk_machine(w)->step_ffi_call(w, at);
}

/* Is it native code: LuaJIT's own C code, or other code of the same file? */
static bool is_native(const struct walker_step *s)
{
    const struct code *c = &s->code;
    if (c->owner != CODE_ELF)
        return false;
    const struct luajit_layout *l = luajit_of_module(c->cfi);
    uint64_t pc = s->value[s->input->registers.arch->reg.pc];
    uint64_t lookup = pc - c->bias - !(s->flags & (FRAME_LEAF | FRAME_SIGNAL));
    return !l || (lookup - l->blob >= l->blob_size &&
                  !(l->ffi_call && lookup - l->ffi_call < l->ffi_call_size));
}

static __attribute__((noinline)) enum walker_result
step_vm(const void *context, struct luajit_walk *w, struct walker_step *s)
{
    if (!w->head.begun)
        begin(w, context, s);
    w->step = s;
    size_t frames = s->out->frames.nr;
    unsigned left = *s->frames_left;
    enum provenance provenance = *s->provenance;
    enum walker_result got = step_code(w);
    if (got == WALKER_NO)
        trace_say(s->input, s->out, TRACE_UNDO, "LuaJIT's walker leaves the frame to native rules",
                  0, 0);
    if (got == WALKER_NO) { /* take all output back: native rules handle the frame */
        s->out->frames.nr = frames;
        *s->frames_left = left;
        *s->provenance = provenance;
    }
    return got;
}

static enum walker_result step(const void *context, struct walker_state *state,
                               struct walker_step *s)
{
    return is_native(s) ? WALKER_NO : step_vm(context, (struct luajit_walk *)state, s);
}

/* True if the walk has met no VM with a readable stack. */
static bool is_stateless(const void *context, const struct walker_state *state)
{
    const struct luajit_walk *w = (const struct luajit_walk *)state;
    (void)context;
    return !w->head.begun || (!w->nr_segments && !w->nr_vms);
}

struct walker luajit_walker(const struct luajit_process *process)
{
    /* It reads code of several machines: a layout says of which one the interpreter is. */
    return (struct walker){.wants = wants,
                           .step = step,
                           .is_stateless = is_stateless,
                           .state_size = sizeof(struct luajit_walk),
                           .context = process};
}
