/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The toy runtime: the smallest row of the table of runtimes, and the worked example of
 * docs/adding.md. Its interpreter is ordinary C, so CFI steps out of its frame; its stack is in
 * that frame, so it comes with each sample; its functions are in the heap.
 */
#include "tests/toy/runtime.h"
#include "tests/toy/toy.h"
#include "unwind/arch_x86_64.h"
#include "unwind/managed.h"
#include "unwind/trace.h"

#include <stdlib.h>
#include <string.h>

/* ---- finding it ---------------------------------------------------------------------------- */

static int discover(const struct runtime_image *image, void **ret, struct error *err)
{
    uint64_t at;
    if (!image->exported(image->context, "toy_about", &at))
        return 0;
    struct toy_about *layout = malloc(sizeof(*layout));
    if (!layout)
        return error_no_memory(err);
    layout->start = image->word(image->context, at);
    layout->end = image->word(image->context, at + 8);
    *ret = layout;
    return 1;
}

static uint64_t code_start(const void *layout)
{
    return ((const struct toy_about *)layout)->start;
}

static void describe(const void *layout, const struct runtime_image *image, struct text *out)
{
    const struct toy_about *l = layout;
    (void)image;
    text_printf(out, "Toy\n  interpreter at 0x%lx, %lu bytes\n", l->start, l->end - l->start);
}

/* ---- names --------------------------------------------------------------------------------- */

static void *tables_create(struct managed_names *managed, bool has_log)
{
    struct managed_names **tables = malloc(sizeof(managed));
    (void)has_log;
    if (tables)
        *tables = managed;
    return tables;
}

struct walk {
    struct managed_names *managed;
    const struct runtime_sample *sample;
};

/* Name a frame by its function in the heap. Returns false when memory is out. A function that was
 * not recorded keeps id 0. */
static bool name_frame(const struct walk *w, const struct memory *m, const struct toy_frame *f,
                       struct frame *ret)
{
    struct toy_function fn;
    enum provenance provenance = (enum provenance)ret->provenance;
    if (!memory_read(m, f->function, &fn, sizeof(fn), &provenance) || fn.magic != TOY_FUNCTION ||
        f->pc >= TOY_CODE || !memchr(fn.name, 0, TOY_NAME) || !memchr(fn.file, 0, TOY_NAME))
        return true;
    const struct managed_identity identity = {
        .language = FRAME_MANAGED, .file = fn.file, .line = fn.line};
    ret->function = managed_intern(w->managed, &identity);
    ret->line = fn.line + 1 + (uint32_t)f->pc;
    ret->provenance = (uint8_t)provenance;
    return ret->function && managed_propose_name(w->managed, ret->function, NAME_RANK_DEFINED,
                                                 fn.name, w->sample->batch) == 0;
}

/* ---- walking ------------------------------------------------------------------------------- */

static bool wants(const void *context, const struct code *code)
{
    (void)context;
    return code->owner == CODE_ELF && cfi_runtime(code->cfi, &toy_runtime);
}

/* Find the state of the run that the C frame belongs to. It is below the frame pointer; in the
 * prologue, where the frame pointer is still the caller's, no state fits. */
static bool find_state(const struct walker_step *s, struct toy_state *ret)
{
    enum { MOST = 4096 };
    uint64_t fp = s->value[DWARF_RBP], word;
    enum provenance provenance = PROVENANCE_EXACT;
    for (uint64_t at = s->value[DWARF_RSP] & ~UINT64_C(7); at < fp && fp - at < MOST; at += 8) {
        if (memory_read_slot(&s->input->memory, at, &word, &provenance) && word == TOY_STATE &&
            memory_read_frame(&s->input->memory, at, ret, sizeof(*ret), &provenance) &&
            ret->self == at && ret->cfa == fp + 16 && ret->top < TOY_FRAMES) {
            trace_say(s->input, s->out, TRACE_WAY,
                      "the toy VM's state is at #: # functions are above the first", at, ret->top);
            return true;
        }
    }
    return false;
}

static enum walker_result step(const void *context, struct walker_state *state,
                               struct walker_step *s)
{
    const struct toy_about *l = cfi_runtime(s->code.cfi, &toy_runtime);
    uint64_t pc = s->value[DWARF_RIP], lookup = pc - !(s->flags & (FRAME_LEAF | FRAME_SIGNAL));
    struct toy_state run;
    state->begun = true;
    if (lookup - s->code.bias - l->start >= l->end - l->start || !find_state(s, &run))
        return WALKER_NO;
    for (uint64_t i = run.top; i != UINT64_MAX && *s->frames_left; i--, --*s->frames_left) {
        struct frame f = {.pc = i == run.top ? pc : run.frames[i].pc,
                          .code = i == run.top ? s->code.token : NULL,
                          .kind = FRAME_MANAGED,
                          .tier = TIER_INTERP,
                          .flags = i == run.top ? s->flags : 0,
                          .provenance = (uint8_t)*s->provenance};
        if (!name_frame(context, &s->input->memory, &run.frames[i], &f) ||
            !vec_push(&s->out->frames, f))
            return WALKER_NO_MEMORY;
    }
    return WALKER_BY_CFI;
}

static bool is_stateless(const void *context, const struct walker_state *state)
{
    (void)context;
    (void)state;
    return true;
}

static void walk_begin(void *walk, void *tables, const struct runtime_sample *s, struct walker *ret)
{
    struct walk *w = walk;
    *w = (struct walk){*(struct managed_names **)tables, s};
    *ret = (struct walker){.arch = &arch_x86_64,
                           .wants = wants,
                           .step = step,
                           .is_stateless = is_stateless,
                           .state_size = sizeof(struct walker_state),
                           .context = w};
}

const struct runtime toy_runtime = {.name = "Toy",
                                    .discover = discover,
                                    .layout_free = free,
                                    .code_start = code_start,
                                    .describe = describe,
                                    .tables_create = tables_create,
                                    .tables_free = free,
                                    .walk_begin = walk_begin,
                                    .walk_size = sizeof(struct walk)};
