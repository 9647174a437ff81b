/* SPDX-License-Identifier: GPL-2.0-only */
/* The walkers of all runtimes, as one. See walkers.h. */
#include "unwind/runtimes/walkers.h"

#include <stdlib.h>

size_t runtime_index(const struct runtime *rt)
{
    size_t i = 0;
    while (i + 1 < nr_runtimes && runtimes[i] != rt)
        i++;
    return i;
}

/* ---- tables of a thread -------------------------------------------------------------------- */

struct runtime_tables {
    void *of[RUNTIMES_MAX];
};

struct runtime_tables *runtime_tables_create(struct managed_names *managed, bool has_log)
{
    struct runtime_tables *t = calloc(1, sizeof(*t));
    bool ok = t != NULL;
    for (size_t i = 0; ok && i < nr_runtimes; i++) {
        t->of[i] = runtimes[i]->tables_create(managed, has_log);
        ok = t->of[i] != NULL;
    }
    if (ok)
        return t;
    runtime_tables_free(t);
    return NULL;
}

void runtime_tables_free(struct runtime_tables *t)
{
    for (size_t i = 0; t && i < nr_runtimes; i++)
        runtimes[i]->tables_free(t->of[i]);
    free(t);
}

void *runtime_tables_of(struct runtime_tables *t, const struct runtime *rt)
{
    return t->of[runtime_index(rt)];
}

/* ---- walks --------------------------------------------------------------------------------- */

struct runtime_walkers {
    struct walker outer, inner[RUNTIMES_MAX];
    struct runtime_sample sample;
    size_t state[RUNTIMES_MAX]; /* where each walker's state is in that of `outer` */
    uint32_t met;               /* bits of the runtimes that may own code of this walk */
    bool looked_up;             /* the runtimes know where they are mapped */
    void *walks[RUNTIMES_MAX];
};

/* The state of `outer`: those of all walkers, one after the other. */
struct states {
    struct walker_state head;
    _Alignas(16) uint8_t bytes[];
};

static struct walker_state *state_of(const struct runtime_walkers *w,
                                     const struct walker_state *all, size_t number)
{
    return (struct walker_state *)(((const struct states *)all)->bytes + w->state[number]);
}

static void look_up(struct runtime_walkers *w)
{
    for (size_t i = 0; i < nr_runtimes; i++) {
        if (runtimes[i]->look_up)
            runtimes[i]->look_up(w->walks[i]);
    }
    w->looked_up = true;
}

static bool wants(const void *context, const struct code *code)
{
    struct runtime_walkers *w = (struct runtime_walkers *)context;
    uint32_t by = 0;
    if (code->owner != CODE_ELF && code->owner != CODE_KERNEL && !w->looked_up)
        look_up(w);
    for (size_t i = 0; i < nr_runtimes; i++)
        by |= (uint32_t)w->inner[i].wants(w->inner[i].context, code) << i;
    w->met |= by;
    return by != 0;
}

static enum walker_result step_of(const struct runtime_walkers *w, size_t number,
                                  struct walker_state *all, struct walker_step *s)
{
    const struct walker *inner = &w->inner[number];
    if (inner->arch && inner->arch != s->input->registers.arch)
        return WALKER_NO;
    return inner->step(inner->context, state_of(w, all, number), s);
}

/* Offer a frame's code to all runtimes that were met. */
static __attribute__((noinline)) enum walker_result
step_of_several(const struct runtime_walkers *w, struct walker_state *all, struct walker_step *s)
{
    for (uint32_t left = w->met; left; left &= left - 1) {
        unsigned i = (unsigned)__builtin_ctz(left);
        const struct walker *inner = &w->inner[i];
        if (!inner->wants(inner->context, &s->code))
            continue;
        enum walker_result got = step_of(w, i, all, s);
        if (got != WALKER_NO)
            return got;
    }
    return WALKER_NO;
}

static __attribute__((noinline)) void begin_states(const struct runtime_walkers *w,
                                                   struct walker_state *all)
{
    for (size_t i = 0; i < nr_runtimes; i++)
        state_of(w, all, i)->begun = false;
    all->begun = true;
}

/* Most processes have one runtime: the code is its own then, and is not asked for again. What other
 * steps need is out of line. */
static enum walker_result step(const void *context, struct walker_state *state,
                               struct walker_step *s)
{
    const struct runtime_walkers *w = context;
    bool is_one = w->met && !(w->met & (w->met - 1));
    if (!state->begun)
        begin_states(w, state);
    return is_one ? step_of(w, (unsigned)__builtin_ctz(w->met), state, s)
                  : step_of_several(w, state, s);
}

static bool is_stateless(const void *context, const struct walker_state *state)
{
    const struct runtime_walkers *w = context;
    for (size_t i = 0; i < nr_runtimes && state->begun; i++) {
        const struct walker *inner = &w->inner[i];
        if (!inner->is_stateless || !inner->is_stateless(inner->context, state_of(w, state, i)))
            return false;
    }
    return true;
}

static int finish(const void *context, const struct unwind_input *input, struct unwind_stack *out)
{
    const struct runtime_walkers *w = context;
    for (uint32_t left = w->met; left; left &= left - 1) {
        const struct walker *inner = &w->inner[__builtin_ctz(left)];
        if (inner->finish && inner->finish(inner->context, input, out) < 0)
            return -1;
    }
    return 0;
}

struct runtime_walkers *runtime_walkers_create(void)
{
    struct runtime_walkers *w = calloc(1, sizeof(*w));
    bool ok = w != NULL;
    for (size_t i = 0; ok && i < nr_runtimes; i++) {
        w->walks[i] = calloc(1, runtimes[i]->walk_size);
        ok = w->walks[i] != NULL;
    }
    if (ok)
        return w;
    runtime_walkers_free(w);
    return NULL;
}

void runtime_walkers_free(struct runtime_walkers *w)
{
    for (size_t i = 0; w && i < nr_runtimes; i++) {
        if (w->walks[i] && runtimes[i]->walk_free)
            runtimes[i]->walk_free(w->walks[i]);
        free(w->walks[i]);
    }
    free(w);
}

const struct walker *runtime_walkers_begin(struct runtime_walkers *w, struct runtime_tables *t,
                                           const struct runtime_sample *s)
{
    size_t size = 0;
    w->sample = *s;
    w->met = 0;
    w->looked_up = false;
    for (size_t i = 0; i < nr_runtimes; i++) {
        runtimes[i]->walk_begin(w->walks[i], t->of[i], &w->sample, &w->inner[i]);
        w->state[i] = size;
        size += (w->inner[i].state_size + 15) & ~(size_t)15;
    }
    /* Of any machine: some runtimes read several, and step_of() asks no other. */
    w->outer = (struct walker){.wants = wants,
                               .step = step,
                               .is_stateless = is_stateless,
                               .finish = finish,
                               .state_size = sizeof(struct states) + size,
                               .context = w};
    return &w->outer;
}

uint8_t runtime_walkers_activity(const struct runtime_walkers *w)
{
    uint8_t found = 0;
    for (size_t i = 0; i < nr_runtimes && !found; i++) {
        if (runtimes[i]->activity)
            found = runtimes[i]->activity(w->walks[i]);
    }
    return found;
}

int runtime_walkers_variables(const struct runtime_walkers *w, const struct memory *m, size_t index,
                              const struct frame *f, struct variables *ret)
{
    const struct variable_place *at =
        w->sample.places ? variable_places_find(w->sample.places, index, f) : NULL;
    if (!at || !at->runtime->variables) {
        ret->unknown = "where its variables are is not known";
        return 0;
    }
    int failed = at->runtime->variables(w->walks[runtime_index(at->runtime)], m, at, ret);
    return failed || ret->failed ? -1 : 0;
}
