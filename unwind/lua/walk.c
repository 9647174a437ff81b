/* SPDX-License-Identifier: GPL-2.0-only */
/* The walker of plain Lua and its row in the table of runtimes. See walk.h. */
#include "unwind/lua/census.h"
#include "unwind/lua/walk.h"

#include "unwind/arch_x86_64.h"
#include "unwind/lua/discover.h"
#include "unwind/lua/runtime.h"
#include "unwind/trace.h"

#include <stdlib.h>
#include <string.h>

/* Reads of one walk. A call takes about five. */
enum { READS_MAX = 1 << 20 };

static const struct lua_layout *layout_of(const struct cfi *cfi)
{
    return cfi_runtime(cfi, &lua_runtime);
}

static bool wants(const void *context, const struct code *code)
{
    (void)context;
    return code->owner == CODE_ELF && layout_of(code->cfi);
}

static bool is_in_one(const struct lua_range *r, unsigned nr, uint64_t at)
{
    bool is = false;
    for (unsigned i = 0; i < nr; i++)
        is |= at - r[i].start < r[i].end - r[i].start;
    return is;
}

/* Drop the activations whose frames were taken back. */
static void forget_from(struct lua_walk *w, size_t frame)
{
    while (w->activations.nr && w->activations.at[w->activations.nr - 1].frame >= frame)
        w->activations.nr--;
}

/* Take note of a frame of execute. It stays native until the walk has ended. */
static enum walker_result step(const void *context, struct walker_state *state,
                               struct walker_step *s)
{
    struct lua_walk *w = (struct lua_walk *)context;
    const struct lua_layout *l = layout_of(s->code.cfi);
    uint64_t lookup = s->value[DWARF_RIP] - !(s->flags & (FRAME_LEAF | FRAME_SIGNAL));
    state->begun = true;
    if (!l)
        return WALKER_NO;
    w->collects |=
        !w->activations.nr && is_in_one(l->collectors, l->nr_collectors, lookup - s->code.bias);
    if (!is_in_one(l->parts, l->nr_parts, lookup - s->code.bias))
        return WALKER_NO;
    forget_from(w, s->out->frames.nr);
    /* What the frame becomes depends on memory that no cache of frames compares. */
    if (s->input->memory.reads)
        s->input->memory.reads->lost = true;
    if (w->activations.nr == LUA_ACTIVATIONS_MAX)
        return WALKER_NO;
    struct lua_activation a = {.frame = s->out->frames.nr,
                               .pc = s->value[DWARF_RIP],
                               .layout = l,
                               .bias = s->code.bias,
                               .known = *s->known,
                               .flags = s->flags,
                               .provenance = (uint8_t)*s->provenance,
                               .state = LUA_NO_STATE};
    memcpy(a.value, s->value, DWARF_NR * sizeof(*a.value));
    return vec_push(&w->activations, a) ? WALKER_NO : WALKER_NO_MEMORY;
}

static bool is_stateless(const void *context, const struct walker_state *state)
{
    const struct lua_walk *w = context;
    return !state->begun || !w->activations.nr;
}

/* Keep the activations whose frames are in the result. */
static void drop_stale(struct lua_walk *w, const struct unwind_stack *out)
{
    size_t nr = 0;
    vec_foreach (a, &w->activations) {
        if (a->frame < out->frames.nr && out->frames.at[a->frame].pc == a->pc &&
            out->frames.at[a->frame].kind == FRAME_NATIVE)
            w->activations.at[nr++] = *a;
    }
    w->activations.nr = nr;
}

static int finish(const void *context, const struct unwind_input *input, struct unwind_stack *out)
{
    struct lua_walk *w = (struct lua_walk *)context;
    drop_stale(w, out);
    if (!w->activations.nr)
        return 0;
    w->input = input;
    w->out = out;
    w->states.nr = w->calls.nr = 0;
    w->reader = (struct lua_reader){.m = &input->memory,
                                    .budget = READS_MAX,
                                    .closures = &w->closures,
                                    .space = w->sample->pid};
    if (lua_find_states(w) < 0)
        return -1;
    lua_cut(w);
    return lua_emit(w);
}

/* ---- the row ------------------------------------------------------------------------------- */

static void walk_begin(void *walk, void *tables, const struct runtime_sample *s, struct walker *ret)
{
    struct lua_walk *w = walk;
    w->sample = s;
    w->names = tables;
    w->activations.nr = 0;
    w->collects = false;
    *ret = (struct walker){.arch = &arch_x86_64,
                           .wants = wants,
                           .step = step,
                           .is_stateless = is_stateless,
                           .finish = finish,
                           .state_size = sizeof(struct walker_state),
                           .context = w};
}

static void walk_free(void *walk)
{
    struct lua_walk *w = walk;
    vec_free(&w->activations);
    vec_free(&w->states);
    vec_free(&w->calls);
    vec_free(&w->frames);
    vec_free(&w->places);
}

static void *tables_create(struct managed_names *managed, bool has_log)
{
    (void)has_log;
    return lua_names_create(managed);
}

static void tables_free(void *tables)
{
    lua_names_free(tables);
}

static int discover(const struct runtime_image *image, void **layout, struct error *err)
{
    struct lua_layout *l = calloc(1, sizeof(*l));
    int got = l ? lua_discover(image, l, err) : error_no_memory(err);
    if (got > 0)
        *layout = l;
    else
        free(l);
    return got;
}

/* The collector's frames are native ones, and stay so. */
static uint8_t activity(const void *walk)
{
    const struct lua_walk *w = walk;
    return w->collects && w->activations.nr ? RUNTIME_IN_GC : RUNTIME_IN_UNKNOWN;
}

static uint64_t code_start(const void *layout)
{
    return ((const struct lua_layout *)layout)->parts[0].start;
}

static int variables(void *walk, const struct memory *m, const struct variable_place *at,
                     struct variables *ret)
{
    const struct lua_walk *w = walk;
    struct lua_reader reader = {.m = m, .layout = at->layout, .budget = READS_MAX};
    const struct lua_names_source source = {.reader = &reader,
                                            .global = at->word[LUA_PLACE_GLOBAL],
                                            .batch = w->sample->batch,
                                            .space = w->sample->pid};
    return lua_variables(w->names, &source, at, ret);
}

const struct runtime lua_runtime = {.name = "Lua",
                                    .discover = discover,
                                    .layout_free = free,
                                    .code_start = code_start,
                                    .describe = lua_describe,
                                    .relative = lua_relative,
                                    .tables_create = tables_create,
                                    .tables_free = tables_free,
                                    .walk_begin = walk_begin,
                                    .walk_size = sizeof(struct lua_walk),
                                    .walk_free = walk_free,
                                    .activity = activity,
                                    .variables = variables,
                                    .census = &lua_census};
