/* SPDX-License-Identifier: GPL-2.0-only */
/* One sample as frames: the kernel part of its callchain, then its user stack. */
#include "perfdata/offcpu_layout.h"
#include "perfdata/resident.h"
#include "base/cursor.h"
#include "replay/replay_internal.h"
#include "session/registers.h"
#include "session/walk_input.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static bool in_numbers(const number_list *list, uint32_t value)
{
    bool found = list->nr == 0;
    for (size_t i = 0; i < list->nr && !found; i++)
        found = list->at[i] == value;
    return found;
}

static bool in_names(const name_list *patterns, const char *name)
{
    bool found = patterns->nr == 0;
    for (size_t i = 0; i < patterns->nr && !found; i++)
        found = fnmatch(patterns->at[i], name, 0) == 0;
    return found;
}

static bool in_times(const struct replay_options *o, uint64_t time)
{
    bool found = o->times.nr == 0;
    for (size_t i = 0; i < o->times.nr && !found; i++)
        found = time >= o->times.at[i].from && time < o->times.at[i].until;
    return found;
}

static bool passes_but_event(const struct replay_options *o, const struct sample *head,
                             const char *comm)
{
    return in_numbers(&o->pids, head->pid) && in_numbers(&o->tids, head->tid) &&
           in_numbers(&o->cpus, head->cpu) && in_names(&o->comms, comm) && in_times(o, head->time);
}

bool replay_passes(const struct replay_options *o, const struct sample *head, const char *comm)
{
    return passes_but_event(o, head, comm) &&
           in_names(&o->events, head->event ? head->event->name : "");
}

bool sample_is_witness(const struct replay_options *o, const struct sample *head, const char *comm)
{
    return passes_but_event(o, head, comm) && in_names(&o->events, OFFCPU_NAME);
}

static bool push_frame(struct job *job, struct frame f)
{
    return vec_push(&job->frames, f);
}

/* PERF_CONTEXT_USER_DEFERRED, which headers of kernels before 6.19 do not have: the user's part
 * comes in a record of its own. The next entry is not an address but a cookie, which that record
 * has as well. */
#define CONTEXT_USER_DEFERRED ((uint64_t)-640)

static enum frame_kind kind_of_context(uint64_t context)
{
    switch (context) {
    case (uint64_t)PERF_CONTEXT_HV:
        return FRAME_HYPERVISOR;
    case (uint64_t)PERF_CONTEXT_KERNEL:
        return FRAME_KERNEL;
    case (uint64_t)PERF_CONTEXT_GUEST:
    case (uint64_t)PERF_CONTEXT_GUEST_KERNEL:
        return FRAME_GUEST_KERNEL;
    case (uint64_t)PERF_CONTEXT_GUEST_USER:
        return FRAME_GUEST_USER;
    default:
        return FRAME_NATIVE;
    }
}

static enum frame_kind kind_of_mode(uint16_t misc)
{
    switch (misc & PERF_RECORD_MISC_CPUMODE_MASK) {
    case PERF_RECORD_MISC_KERNEL:
        return FRAME_KERNEL;
    case PERF_RECORD_MISC_HYPERVISOR:
        return FRAME_HYPERVISOR;
    case PERF_RECORD_MISC_GUEST_KERNEL:
        return FRAME_GUEST_KERNEL;
    case PERF_RECORD_MISC_GUEST_USER:
        return FRAME_GUEST_USER;
    default:
        return FRAME_NATIVE;
    }
}

/* Add a frame whose address came from the kernel, not from our walk. */
static int given_frame(struct replay_worker *w, struct job_sample *s, uint64_t pc,
                       enum frame_kind kind, uint8_t flags, struct error *err)
{
    struct frame f = {.pc = pc, .kind = (uint8_t)kind, .flags = flags};
    if (kind == FRAME_KERNEL) {
        f.code = session_kernel_mapping(w->replay->session, pc, s->sample.time);
    } else if (kind == FRAME_GUEST_KERNEL) {
        f.code = session_guest_mapping(w->replay->session, pc, s->sample.time);
    } else if (kind == FRAME_NATIVE) {
        struct codemap map = session_codemap(&s->thread);
        struct code code;
        if (codemap_lookup(&map, frame_lookup_pc(&f), s->sample.time, &code)) {
            f.code = code.token;
            if (code.owner == CODE_JIT)
                f.kind = FRAME_JIT;
        }
    }
    return push_frame(w->job, f) ? 0 : error_no_memory(err);
}

/* Add the callchain; its user part only if no stack copy gives a better one. */
static int walk_callchain(struct replay_worker *w, struct job_sample *s, bool user,
                          struct error *err)
{
    enum frame_kind kind = kind_of_mode(s->sample.misc);
    uint8_t flags = FRAME_LEAF;
    for (uint64_t i = 0; i < s->sample.nr_callchain; i++) {
        uint64_t pc = sample_callchain_at(&s->sample, i);
        if (pc >= (uint64_t)PERF_CONTEXT_MAX) {
            kind = kind_of_context(pc);
            flags = FRAME_LEAF; /* where the task entered the kernel is not a return address */
            i += pc == CONTEXT_USER_DEFERRED;
            continue;
        }
        if (kind == FRAME_NATIVE && (!user || pc == 0))
            continue;
        if (w->job->frames.nr - s->first_frame >= w->replay->options.max_stack)
            break;
        if (given_frame(w, s, pc, kind, flags, err) < 0)
            return -1;
        flags = 0;
    }
    return 0;
}

/* Are code and stack where the machine's addresses usually are? Where they have more bits (52 on
 * AArch64, for programs that ask for it), these cannot be told from a signature. */
static bool is_in_reach(const struct job *job, const struct sample *s)
{
    struct registers r;
    sample_registers(s, job->arch, &r);
    return !((registers_pc(&r) | registers_sp(&r)) & ~job->arch->reg.address_mask);
}

static bool has_user_stack(const struct job *job, const struct sample *s)
{
    return job->arch && s->user_abi == PERF_SAMPLE_REGS_ABI_64 && s->stack && s->stack_size &&
           (job->arch->reg.address_mask == UINT64_MAX || is_in_reach(job, s));
}

/* Returns the sample's vmstack, for which the worker has space; NULL: the sample has none, or it
 * has one of another moment. */
static const struct vmstack *open_vmstack(struct job_sample *s, const struct registers *registers,
                                          struct vmstack *to)
{
    if (!s->copy.bytes)
        return NULL;
    s->copy_differs = !vmstack_open(to, s->copy.bytes, s->copy.size, s->sample.tid,
                                    registers_pc(registers), registers_sp(registers));
    return s->copy_differs ? NULL : to;
}

struct vmstack *replay_copies(struct replay_worker *w)
{
    if (!w->copies)
        w->copies = calloc(WALK_GROUP, sizeof(*w->copies));
    return w->copies;
}

void sample_input(struct replay_worker *w, struct job_sample *s, size_t at,
                  struct walk_memory *memory, struct unwind_input *ret)
{
    sample_registers(&s->sample, w->job->arch, &ret->registers);
    const struct vmstack *vmstack =
        open_vmstack(s, &ret->registers, s->copy.bytes ? &w->copies[at] : NULL);
    const struct walk_parts parts = {.thread = &s->thread,
                                     .sample = &s->sample,
                                     .vmstack = vmstack,
                                     .log = w->replay->log,
                                     .recent = w->recent,
                                     .snapshots = w->replay->snapshots};
    walk_input(&parts, w->replay->options.max_stack, memory, ret);
    ret->walker = sample_walker(w, at, &s->thread, vmstack, NULL);
    ret->memory.reads = &w->reads[at];
}

/* Decode a group, and walk its user stacks side by side. stacks[] has one stack for each sample
 * with a user stack, in order. */
static int walk_users(struct replay_worker *w, struct job_sample *group, size_t nr,
                      struct error *err)
{
    struct unwind_input inputs[WALK_GROUP];
    struct walk_memory memories[WALK_GROUP];
    size_t nr_inputs = 0;
    for (struct job_sample *s = group; s < group + nr; s++) {
        struct error bad;
        s->bad = perfdata_sample(w->replay->pd, s->record, &s->sample, &bad) < 0;
        s->has_user = !s->bad && has_user_stack(w->job, &s->sample);
        if (!s->has_user)
            continue;
        if (s->copy.bytes && !replay_copies(w))
            return error_no_memory(err);
        sample_input(w, s, nr_inputs, &memories[nr_inputs], &inputs[nr_inputs]);
        unwind_prefetch(&inputs[nr_inputs]);
        w->stacks[nr_inputs++].frames.nr = 0;
    }
    return unwind_batch(w->unwinder, inputs, w->stacks, nr_inputs, err);
}

/* Note how far up the walk came. */
static void learn_stack_use(struct replay_worker *w, const struct job_sample *s,
                            const struct unwind_stack *stack)
{
    enum { LAST_FRAME = 64 };
    uint64_t sp = 0;
    sample_user_reg(&s->sample, w->job->arch->perf_sp, &sp);
    uint64_t used = registers_sp(&stack->registers) - sp + LAST_FRAME;
    if (used > s->sample.stack_dyn_size)
        used = s->sample.stack_dyn_size;
    used /= USE_STEP;
    w->use.walks[used < USE_STEPS ? used : USE_STEPS]++;
    w->use.nr++;
}

void stack_use_add(struct stack_use *to, struct stack_use *from)
{
    for (size_t i = 0; i <= USE_STEPS; i++)
        to->walks[i] += from->walks[i];
    to->nr += from->nr;
    *from = (struct stack_use){0};
}

/* Every byte that is read costs something. A walk that needs more than was read costs a page fault,
 * as much as reading 32 KiB does (measured: 0.13 us a KiB, 4 to 6 us a fault that maps 16
 * pages). */
size_t stack_use_choose(struct stack_use *u)
{
    enum { FAULT = 32 << 10, REMEMBERED = 4096 };
    uint64_t without = u->nr, best = without * FAULT;
    size_t choice = u->nr ? (USE_STEPS + 1) * USE_STEP : 0; /* nothing is worth reading */
    for (size_t i = 0; i < USE_STEPS; i++) {
        without -= u->walks[i];
        uint64_t cost = u->nr * (i + 1) * USE_STEP + without * FAULT;
        if (cost < best) {
            best = cost;
            choice = (i + 1) * USE_STEP;
        }
    }
    if (u->nr < REMEMBERED)
        return choice;
    u->nr = 0;
    for (size_t i = 0; i <= USE_STEPS; i++) {
        u->walks[i] /= 2;
        u->nr += u->walks[i];
    }
    return choice;
}

/* Append the user stack after the kernel's frames, as far as max_stack allows. */
static int append_user(struct replay_worker *w, struct job_sample *s,
                       const struct unwind_stack *stack, struct error *err)
{
    struct job *job = w->job;
    size_t room = w->replay->options.max_stack - s->nr_kernel;
    size_t nr = stack->frames.nr;
    learn_stack_use(w, s, stack);
    s->unwound = true;
    s->end = stack->end;
    s->end_pc = stack->end_pc;
    s->end_address = stack->end_address;
    if (nr > room) {
        s->end = STACK_LIMIT;
        s->end_pc = stack->frames.at[room].pc;
        nr = room;
    }
    if (nr == 0)
        return 0;
    if (!vec_reserve(&job->frames, job->frames.nr + nr))
        return error_no_memory(err);
    memcpy(job->frames.at + job->frames.nr, stack->frames.at, nr * sizeof(struct frame));
    job->frames.nr += nr;
    return 0;
}

_Static_assert(sizeof(struct frame) == 48, "no padding: frames are compared by their bytes");

size_t sample_frames_same(const struct job *job, const struct job_sample *s)
{
    enum { BLOCK = 8 };
    const struct job_sample *before = s - 1;
    if (s == job->samples.at || before->bad || before->weightless || before->witness || s->bad)
        return 0;
    const struct frame *a = job->frames.at + s->first_frame + s->nr_frames;
    const struct frame *b = job->frames.at + before->first_frame + before->nr_frames;
    size_t most = s->nr_frames < before->nr_frames ? s->nr_frames : before->nr_frames;
    size_t nr = 0;
    while (nr + BLOCK <= most &&
           memcmp(a - nr - BLOCK, b - nr - BLOCK, BLOCK * sizeof(struct frame)) == 0)
        nr += BLOCK;
    while (nr < most && memcmp(a - nr - 1, b - nr - 1, sizeof(struct frame)) == 0)
        nr++;
    return nr;
}

/* Put the weight that was asked for in place of the period. */
static void weigh(const struct replay *r, struct job_sample *s)
{
    int64_t weight;
    uint64_t of_allocation, resident;
    if (r->options.wall)
        s->weightless = !s->sample.event || replay_unit(r, s->sample.event->index) != UNIT_NS;
    if ((!r->options.weight || strcmp(r->options.weight, RESIDENT_WEIGHT) == 0) &&
        replay_resident_weight(r, &s->sample, &s->thread, &resident)) {
        s->weightless |= !resident;
        s->sample.period = resident;
        return;
    }
    if (!r->options.weight)
        return;
    if (replay_alloc_weight(r, &s->sample, alloc_weight_named(r->options.weight), &of_allocation)) {
        s->weightless = !of_allocation;
        s->sample.period = of_allocation;
        return;
    }
    s->weightless =
        !perfdata_sample_number(r->pd, &s->sample, r->options.weight, &weight) || weight < 1;
    if (!s->weightless)
        s->sample.period = (uint64_t)weight;
}

/* Put a sample's frames together. `stack` is its user stack, if it has one. */
static int finish_sample(struct replay_worker *w, struct job_sample *s,
                         const struct unwind_stack *stack, struct error *err)
{
    if (s->member.event) {
        s->sample.event = s->member.event;
        s->sample.id = s->member.id;
        s->sample.period = s->member.period;
    }
    weigh(w->replay, s);
    s->first_frame = w->job->frames.nr;
    bool chain = s->sample.present & PERF_SAMPLE_CALLCHAIN;
    if (chain && walk_callchain(w, s, !s->has_user, err) < 0)
        return -1;
    s->nr_kernel = w->job->frames.nr - s->first_frame;
    if (s->has_user && append_user(w, s, stack, err) < 0)
        return -1;
    if (w->job->frames.nr == s->first_frame && (s->sample.present & PERF_SAMPLE_IP) &&
        given_frame(w, s, s->sample.ip, kind_of_mode(s->sample.misc), FRAME_LEAF, err) < 0)
        return -1;
    s->nr_frames = w->job->frames.nr - s->first_frame;
    s->nr_same = sample_frames_same(w->job, s);
    return 0;
}

int sample_walk_group(struct replay_worker *w, struct job_sample *group, size_t nr,
                      struct error *err)
{
    const struct unwind_stack *stack = w->stacks;
    if (walk_users(w, group, nr, err) < 0)
        return -1;
    for (struct job_sample *s = group; s < group + nr; s++) {
        if (!s->bad && finish_sample(w, s, stack, err) < 0)
            return -1;
        s->vmstate = s->has_user ? runtime_walkers_activity(w->walkers[stack - w->stacks]) : 0;
        stack += s->has_user;
    }
    return 0;
}
