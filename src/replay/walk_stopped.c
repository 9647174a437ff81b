/* SPDX-License-Identifier: GPL-2.0-only */
/* Stacks of a process that does not run, walked and named as samples are. */
#include "replay/replay_internal.h"

#include <stdlib.h>

int replay_stopped_create(struct dsos *dsos, const struct replay_options *options,
                          struct replay_worker **ret, struct error *err)
{
    struct replay *r = calloc(1, sizeof(*r));
    struct replay_worker *w = calloc(1, sizeof(*w));
    if (r)
        r->jobs = calloc(1, sizeof(*r->jobs));
    if (!r || !w || !r->jobs) {
        free(r ? r->jobs : NULL);
        free(r);
        free(w);
        return error_no_memory(err);
    }
    w->replay = r;
    w->job = r->jobs; /* of batch 0 */
    r->dsos = dsos;
    r->symbols = symbols_create(dsos, &options->symbols);
    r->options.awaits = options->awaits;
    r->strings = intern_create();
    r->managed = managed_names_create();
    if (r->symbols)
        w->symbols = symbol_cache_create(r->symbols);
    bool walks = r->managed && managed_walks_create(w, r->managed, false);
    w->unwinder = unwinder_create(NULL);
    if (r->strings && w->symbols && walks && w->unwinder) {
        *ret = w;
        return 0;
    }
    replay_stopped_free(w);
    return error_no_memory(err);
}

void replay_stopped_free(struct replay_worker *w)
{
    if (!w)
        return;
    struct replay *r = w->replay;
    symbol_cache_free(w->symbols);
    unwinder_free(w->unwinder);
    managed_walks_free(w);
    for (size_t i = 0; i < WALK_GROUP; i++)
        vec_free(&w->stacks[i].frames);
    vec_free(&r->luajits.at);
    v8_places_free(&r->v8s);
    symbols_free(r->symbols);
    intern_free(r->strings);
    managed_names_free(r->managed);
    free(r->jobs);
    free(r);
    free(w);
}

int replay_stopped_walk(struct replay_worker *w, const struct thread_context *thread,
                        const struct unwind_input *input, const runtime_vm_list *vms,
                        struct variable_places *places, const struct sample *sample,
                        struct replay_sample *ret, struct error *err)
{
    struct unwind_input in = *input;
    struct unwind_stack *stack = &w->stacks[0];
    stack->frames.nr = 0;
    if (places)
        variable_places_clear(places);
    w->processes[0].places = places;
    in.walker = sample_walker(w, 0, thread, NULL, vms);
    if (unwind(w->unwinder, &in, stack, err))
        return -1;
    bool whole = stack->end == STACK_COMPLETE || stack->end == STACK_NO_REGS;
    *ret = (struct replay_sample){
        .sample = sample,
        .comm = thread->comm,
        .thread = thread,
        .frames = stack->frames.at,
        .nr_frames = stack->frames.nr,
        .arch = in.registers.arch,
        .unwound = true,
        .has_user = true,
        .end = stack->end,
        .end_pc = stack->end_pc,
        .end_address = stack->end_address,
        .end_mapping = whole ? NULL : session_mapping(thread, stack->end_pc),
        .batch_number = UINT64_MAX,
    };
    return 0;
}

int replay_stopped_variables(struct replay_worker *w, const struct memory *m, size_t index,
                             struct variables *ret, struct error *err)
{
    const struct unwind_stack *stack = &w->stacks[0];
    if (index >= stack->frames.nr)
        return 0;
    int failed = runtime_walkers_variables(w->walkers[0], m, index, &stack->frames.at[index], ret);
    return failed ? error_no_memory(err) : 0;
}
