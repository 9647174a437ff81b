/* SPDX-License-Identifier: GPL-2.0-only */
/* Collects what a walk tells, machine frame by machine frame. */
#include "output/explain_internal.h"

#include <string.h>

static struct machine *current(struct told_walk *t)
{
    return t->machines.nr ? &t->machines.at[t->machines.nr - 1] : NULL;
}

/* ---- where registers come from -------------------------------------------------------------- */

/* Find a read of the stack in this step that gave a word. */
static bool find_word(const struct machine *m, uint64_t value, uint64_t *ret)
{
    enum { STACK_REACH = 1 << 20 };
    uint64_t sp = m->before.value[m->before.arch->reg.sp];
    for (size_t i = m->told.nr; i--;) {
        const struct told *r = &m->told.at[i];
        size_t size = r->read.size < TOLD_BYTES ? r->read.size : TOLD_BYTES;
        if (!r->is_read || !r->has_bytes || r->read.address - sp >= STACK_REACH)
            continue;
        for (size_t at = 0; at + 8 <= size; at += 8) {
            if (memcmp(r->bytes + at, &value, 8) == 0) {
                *ret = r->read.address + at;
                return true;
            }
        }
    }
    return false;
}

static struct origin origin_after(const struct machine *m, size_t index, unsigned reg)
{
    uint64_t value = m->after.value[reg];
    const struct reg_rule *rule = &m->row.regs[reg];
    struct origin o = {.machine = index};
    bool by_row = m->has_row && m->cfa;
    bool kept = m->before.known >> reg & 1 && m->before.value[reg] == value;
    if (!(m->after.known >> reg & 1))
        return o;
    if (reg == m->before.arch->reg.sp && by_row && value == m->cfa) {
        o.kind = ORIGIN_CFA;
    } else if (by_row && rule->kind == REG_OFFSET) {
        o.kind = ORIGIN_READ;
        o.address = m->cfa + (uint64_t)rule->offset;
    } else if (kept) {
        return m->origins[reg];
    } else if (reg != m->before.arch->reg.sp && find_word(m, value, &o.address)) {
        o.kind = ORIGIN_READ;
    } else {
        o.kind = ORIGIN_COMPUTED;
    }
    return o;
}

static void set_origins(struct told_walk *t, struct machine *m, const struct machine *from)
{
    for (unsigned reg = 0; reg < m->before.arch->reg.nr; reg++) {
        m->origins[reg] = (struct origin){.kind = ORIGIN_SAMPLE};
        if (from)
            m->origins[reg] = origin_after(from, (size_t)(from - t->machines.at), reg);
        else if (!(m->before.known >> reg & 1))
            m->origins[reg].kind = ORIGIN_UNKNOWN;
    }
}

/* ---- events --------------------------------------------------------------------------------- */

static void begin_machine(struct told_walk *t, const struct trace_event *e)
{
    struct machine *last = current(t);
    if (!vec_push(&t->machines, (struct machine){.first = e->frame,
                                                 .end = e->frame,
                                                 .code = *e->code,
                                                 .before = *e->registers,
                                                 .flags = e->flags,
                                                 .provenance = e->provenance,
                                                 .provenance_after = e->provenance})) {
        t->failed = true;
        return;
    }
    struct machine *m = current(t);
    last = last ? m - 1 : NULL;
    if (last)
        last->end = e->frame;
    set_origins(t, m, last && last->has_after ? last : NULL);
}

static void drop_machines(struct told_walk *t, size_t frame)
{
    while (t->machines.nr > 1 && current(t)->first >= frame) {
        vec_free(&current(t)->told);
        t->machines.nr--;
    }
    t->end = NULL;
}

/* Marks of the frames from `frame` on count no more. */
static void undo_marks(struct machine *m, size_t frame, enum provenance up_to)
{
    vec_foreach (x, &m->told)
        x->undone |= !x->is_read && x->event.kind == TRACE_MARK && x->event.frame >= frame &&
                     x->event.provenance <= up_to;
}

static void keep(struct told_walk *t, struct machine *m, const struct trace_event *e)
{
    struct told x = {.event = *e, .again = t->again, .frame = e->frame};
    if (!vec_push(&m->told, x))
        t->failed = true;
}

static void set_row(struct machine *m, const struct trace_event *e)
{
    m->has_row = true;
    m->row = *e->row;
    m->rule = e->text;
    m->cfa = e->value;
}

static void take_event(void *context, const struct trace_event *e)
{
    struct told_walk *t = context;
    if (e->kind == TRACE_FRAME)
        begin_machine(t, e);
    if (e->kind == TRACE_BACK)
        drop_machines(t, e->frame);
    struct machine *m = current(t);
    if (!m || t->failed || e->kind == TRACE_FRAME)
        return;
    switch (e->kind) {
    case TRACE_RULE:
        set_row(m, e);
        return;
    case TRACE_NEXT:
        m->after = *e->registers;
        m->provenance_after = e->provenance;
        m->has_after = true;
        m->end = e->frame;
        return;
    case TRACE_END:
        t->end = t->end ? t->end : e->text;
        t->end_value = e->value;
        return;
    case TRACE_UNDO:
        undo_marks(m, m->first, PROVENANCE_GUESS);
        break;
    case TRACE_PROVEN:
        undo_marks(m, m->first, PROVENANCE_STALE);
        break;
    case TRACE_AGAIN:
        t->again = e->value;
        if (!e->value)
            return;
        break;
    default:
        break;
    }
    keep(t, m, e);
}

static bool is_repeated(const struct machine *m, const struct replay_read *read)
{
    vec_foreach (x, &m->told)
        if (x->is_read && x->read.address == read->address && x->read.size == read->size &&
            x->read.source == read->source)
            return true;
    return false;
}

static void take_read(void *context, const struct replay_read *read)
{
    struct told_walk *t = context;
    struct machine *m = current(t);
    if (!m || t->failed)
        return;
    struct told x = {.is_read = true, .again = t->again, .read = *read, .frame = m->first};
    if (m->told.nr)
        x.frame = m->told.at[m->told.nr - 1].frame;
    if (read->bytes) {
        memcpy(x.bytes, read->bytes, read->size < TOLD_BYTES ? read->size : TOLD_BYTES);
        x.has_bytes = true;
    }
    x.repeated = is_repeated(m, read);
    x.read.bytes = NULL;
    if (!vec_push(&m->told, x))
        t->failed = true;
}

/* ---- the walk ------------------------------------------------------------------------------- */

/* A row that is an expression has its CFA in the frame. */
static void finish_machines(struct told_walk *t)
{
    struct machine *last = current(t);
    if (last)
        last->end = t->stack.frames.nr;
    vec_foreach (m, &t->machines)
        if (m->has_row && !m->cfa && m->first < t->stack.frames.nr)
            m->cfa = t->stack.frames.at[m->first].cfa;
    for (size_t i = 0; last && i < t->machines.nr; i++)
        set_origins(t, &t->machines.at[i],
                    i && t->machines.at[i - 1].has_after ? &t->machines.at[i - 1] : NULL);
}

int told_walk_make(struct replay_worker *w, const struct replay_sample *s, struct told_walk *ret,
                   struct error *err)
{
    const struct unwind_trace trace = {take_event, ret};
    const struct replay_explainer explainer = {&trace, take_read, ret};
    ret->nr_kernel = s->nr_kernel;
    if (!s->unwound)
        return 0;
    if (replay_explain(w, s, &explainer, &ret->stack, err) < 0)
        return -1;
    finish_machines(ret);
    return ret->failed ? error_no_memory(err) : 0;
}

void told_walk_free(struct told_walk *t)
{
    vec_foreach (m, &t->machines)
        vec_free(&m->told);
    vec_free(&t->machines);
    vec_free(&t->stack.frames);
}

const struct machine *told_machine_of(const struct told_walk *t, size_t frame)
{
    const struct machine *found = NULL;
    vec_foreach (m, &t->machines)
        if (m->first <= frame && frame < m->end)
            found = m;
    return found;
}

struct frame_place told_place(const struct told_walk *t, const struct replay_sample *s,
                              size_t index)
{
    struct frame_place p = {.kind = PLACE_KERNEL};
    if (index < s->nr_kernel)
        return p;
    size_t at = s->nr_kernel;
    p.kind = s->unwound ? PLACE_WALK : PLACE_GIVEN;
    for (; s->unwound && p.walk < s->nr_own && p.walk < t->stack.frames.nr; p.walk++) {
        size_t nr = replay_frames_of(&t->stack.frames.at[p.walk]);
        if (index < at + nr) {
            p.part = index - at;
            return p;
        }
        at += nr;
    }
    if (s->unwound)
        p.kind = PLACE_JOINED;
    p.joined = index - at;
    return p;
}
