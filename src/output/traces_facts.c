/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Puts the facts about JIT compilers together: each VM was read several times, and several VMs run
 * the same functions. Facts of all readings count, since LuaJIT forgets: only 64 penalties are
 * kept.
 */
#include "output/traces_internal.h"

#include "base/hash.h"
#include "unwind/luajit/names.h"
#include "unwind/luajit/names_builtins.h"
#include "unwind/luajit/names_bytecode.h"

#include <stdlib.h>
#include <string.h>

enum {
    PLACES_MAX = 1 << 20,
    ABORTS_MAX = 64, /* different ones of one start */
};

/* A place that was named. */
struct named_place {
    uint32_t vm, position;
    uint64_t proto;
    struct traced_place is; /* all 0: its function is not known */
};

struct fact_reader {
    struct traces *t;
    VEC(struct named_place) places;
    struct hash_table vm_table;
    struct hash_table place_table;
    struct hash_table start_table;
    struct hash_table trace_table;
    /* The reading that is taken in. */
    struct replay_compiler from;
    uint32_t vm;
    bool is_last; /* it is the last one of its VM */
};

/* ---- VMs ------------------------------------------------------------------------------------- */

static uint64_t vm_hash(const struct replay_compiler *c)
{
    return hash_combine(c->pid, c->g);
}

/* Returns HASH_TABLE_NONE for one that no sample ran. */
static uint32_t vm_of(const struct fact_reader *r, const struct replay_compiler *c)
{
    return hash_table_find(&r->vm_table, vm_hash(c), i,
                           r->t->vms.at[i].pid == c->pid && r->t->vms.at[i].g == c->g);
}

static int find_vms(struct fact_reader *r, struct error *err)
{
    struct traces *t = r->t;
    struct replay_compiler c;
    for (size_t i = 0; replay_compiler(t->replay, i, &c); i++) {
        if (!c.state || !c.layout)
            continue; /* no sample ran it */
        uint32_t at = vm_of(r, &c);
        const struct traced_vm vm = {
            .pid = c.pid, .g = c.g, .time = c.time, .state = *c.state, .layout = c.layout};
        if (at == HASH_TABLE_NONE &&
            (!vec_push(&t->vms, vm) || !hash_table_add(&r->vm_table, vm_hash(&c), t->vms.nr - 1)))
            return error_no_memory(err);
        if (at != HASH_TABLE_NONE && c.time >= t->vms.at[at].time)
            t->vms.at[at] = vm;
    }
    return 0;
}

/* ---- places ---------------------------------------------------------------------------------- */

static bool is_place(const struct named_place *p, const struct fact_reader *r, uint64_t proto,
                     uint32_t position)
{
    return p->vm == r->vm && p->proto == proto && p->position == position;
}

/* Name a place. The result is all 0 if the recording does not have its function, or if what it has
 * at the address may be another one by then. */
static int name_place(struct fact_reader *r, uint64_t proto, uint32_t position,
                      struct traced_place *ret, struct error *err)
{
    struct luajit_named named;
    uint64_t hash = hash_combine(hash_combine(r->vm, position), proto);
    *ret = (struct traced_place){0};
    if (!proto || position > INT32_MAX)
        return 0;
    uint32_t at =
        hash_table_find(&r->place_table, hash, i, is_place(&r->places.at[i], r, proto, position));
    if (at != HASH_TABLE_NONE) {
        *ret = r->places.at[at].is;
        return 0;
    }
    if (replay_place(r->t->replay, &r->from, proto, position, &named, err) < 0)
        return -1;
    if (named.provenance != PROVENANCE_GUESS) {
        *ret = (struct traced_place){traces_same(r->t, named.function), named.line};
        if (named.function && !ret->function)
            return error_no_memory(err);
    }
    const struct named_place new = {r->vm, position, proto, *ret};
    if (r->places.nr < PLACES_MAX &&
        (!vec_push(&r->places, new) || !hash_table_add(&r->place_table, hash, r->places.nr - 1)))
        return error_no_memory(err);
    return 0;
}

/* ---- starts ---------------------------------------------------------------------------------- */

static struct traced_start *start_of(struct fact_reader *r, const struct traced_place *at,
                                     uint8_t kind)
{
    struct traces *t = r->t;
    uint64_t hash = hash_combine(hash_combine(at->function, at->line), kind);
    uint32_t i =
        hash_table_intern(&r->start_table, hash, &t->starts, k,
                          t->starts.at[k].at.function == at->function &&
                              t->starts.at[k].at.line == at->line && t->starts.at[k].kind == kind,
                          (struct traced_start){.at = *at, .kind = kind});
    return i == HASH_TABLE_NONE ? NULL : &t->starts.at[i];
}

static bool is_abort(const struct traced_abort *a, const struct traced_abort *b)
{
    return a->reason == b->reason && a->at.function == b->at.function && a->at.line == b->at.line &&
           a->names == b->names && a->detail == b->detail;
}

/* Add a reason. One whose place is known replaces the same one without. */
static bool add_abort(struct traced_start *s, const struct traced_abort *a)
{
    vec_foreach (known, &s->aborts) {
        if (is_abort(known, a) || (known->reason == a->reason && !a->at.function))
            return true;
        if (known->reason == a->reason && !known->at.function) {
            *known = *a;
            return true;
        }
    }
    return s->aborts.nr >= ABORTS_MAX || vec_push(&s->aborts, *a);
}

static const char *detail_name(const struct fact_reader *r, const struct luajit_fact *f)
{
    const struct luajit_builtins *b;
    switch (f->names) {
    case LUAJIT_NAMES_OPCODE:
        return bc_name((uint8_t)f->detail);
    case LUAJIT_NAMES_BUILTIN:
        b = luajit_builtins_get(r->t->vms.at[r->vm].layout->builtins);
        return b && f->detail < BUILTINS_MAX && b->name[f->detail][0] ? b->name[f->detail] : NULL;
    default:
        return NULL;
    }
}

static uint8_t start_kind(const struct luajit_fact *f)
{
    bool side =
        f->kind == LUAJIT_FACT_TRACE ? f->parent != 0 : f->kind == LUAJIT_FACT_ABORT && f->trace;
    if (side)
        return START_OF_SIDE;
    return f->position ? START_OF_LOOP : START_OF_FUNCTION;
}

static int take_start(struct fact_reader *r, const struct luajit_fact *f,
                      const struct traced_place *at, struct error *err)
{
    bool off = f->kind == LUAJIT_FACT_BLOCKED && f->what == BC_NONE;
    struct traced_start *s = start_of(r, at, start_kind(f));
    if (!s)
        return error_no_memory(err);
    s->off |= off;
    s->blocked |= f->kind == LUAJIT_FACT_BLOCKED && !off;
    if (f->kind == LUAJIT_FACT_BLOCKED)
        return 0;
    struct traced_abort a = {.reason = f->what, .names = f->names, .detail = f->detail};
    if (f->kind == LUAJIT_FACT_ABORT &&
        name_place(r, f->other_proto, f->other_position, &a.at, err) < 0)
        return -1;
    a.name = detail_name(r, f);
    s->value = f->count > s->value ? f->count : s->value;
    return add_abort(s, &a) ? 0 : error_no_memory(err);
}

/* ---- traces and exits ------------------------------------------------------------------------ */

static bool is_trace(const struct traced_trace *a, const struct luajit_fact *f, uint32_t vm)
{
    return a->vm == vm && a->fact.trace == f->trace && a->fact.detail == f->detail &&
           a->fact.proto == f->proto && a->fact.position == f->position;
}

/* Find the call that a stitched trace stops at. */
static int find_end(struct fact_reader *r, const struct luajit_fact *f, struct traced_trace *one,
                    struct error *err)
{
    char name[REPLAY_CALLED_MAX];
    if (f->what != LUAJIT_ENDS_IN_STITCH)
        return 0;
    if (name_place(r, f->other_proto, f->other_position, &one->end, err) < 0)
        return -1;
    if (!one->end.function ||
        !replay_called(r->t->replay, &r->from, f->other_proto, f->other_position, name))
        return 0;
    one->called = managed_string(replay_managed_names(r->t->replay), name, strlen(name));
    return one->called ? 0 : error_no_memory(err);
}

static int take_trace(struct fact_reader *r, const struct luajit_fact *f,
                      const struct traced_place *at, struct error *err)
{
    struct traces *t = r->t;
    uint64_t hash = hash_combine(hash_combine(r->vm, f->trace), f->detail);
    uint32_t i = hash_table_intern(&r->trace_table, hash, &t->traces, k,
                                   is_trace(&t->traces.at[k], f, r->vm),
                                   (struct traced_trace){.fact = *f, .vm = r->vm, .start = *at});
    if (i == HASH_TABLE_NONE)
        return error_no_memory(err);
    if (!t->traces.at[i].called && find_end(r, f, &t->traces.at[i], err) < 0)
        return -1;
    t->traces.at[i].fact = *f;
    t->traces.at[i].gone = !r->is_last;
    struct traced_vm *vm = &t->vms.at[r->vm];
    if (r->is_last) {
        vm->sides += f->parent != 0;
        vm->stitched += f->what == LUAJIT_ENDS_IN_STITCH;
        vm->given_up += f->what == LUAJIT_ENDS_IN_INTERPRETER;
    }
    if (!at->function)
        return 0;
    struct traced_start *s = start_of(r, at, start_kind(f));
    if (s)
        s->compiled |= r->is_last && f->what != LUAJIT_ENDS_IN_INTERPRETER;
    return s ? 0 : error_no_memory(err);
}

static int take_exit(struct fact_reader *r, const struct luajit_fact *f,
                     const struct traced_place *at, struct error *err)
{
    const struct traced_exit e = {*at, r->vm, f->trace, f->exit, f->count};
    return !r->is_last || vec_push(&r->t->exits, e) ? 0 : error_no_memory(err);
}

static int take_fact(struct fact_reader *r, const struct luajit_fact *f, struct error *err)
{
    struct traced_place at;
    if (name_place(r, f->proto, f->position, &at, err) < 0)
        return -1;
    if (!at.function && f->kind != LUAJIT_FACT_TRACE) {
        r->t->nameless += r->is_last;
        return 0;
    }
    switch (f->kind) {
    case LUAJIT_FACT_TRACE:
        return take_trace(r, f, &at, err);
    case LUAJIT_FACT_EXIT:
        return take_exit(r, f, &at, err);
    case LUAJIT_FACT_BLOCKED:
    case LUAJIT_FACT_PENALTY:
    case LUAJIT_FACT_ABORT:
        return take_start(r, f, &at, err);
    default:
        return 0;
    }
}

static int take_readings(struct fact_reader *r, struct error *err)
{
    for (size_t i = 0; replay_compiler(r->t->replay, i, &r->from); i++) {
        r->vm = vm_of(r, &r->from);
        if (r->vm == HASH_TABLE_NONE || !r->from.state || !r->from.layout)
            continue;
        r->is_last = r->from.time == r->t->vms.at[r->vm].time;
        for (size_t k = 0; k < r->from.nr; k++) {
            if (take_fact(r, &r->from.facts[k], err) < 0)
                return -1;
        }
    }
    return 0;
}

/* ---- weights --------------------------------------------------------------------------------- */

static int by_code(const void *a, const void *b)
{
    const struct traced_trace *x = a, *y = b;
    if (x->fact.trace != y->fact.trace)
        return x->fact.trace < y->fact.trace ? -1 : 1;
    return x->fact.detail < y->fact.detail ? -1 : x->fact.detail > y->fact.detail;
}

static void weigh(struct traces *t, const struct traced_code *c)
{
    struct traced_trace *found = NULL;
    for (size_t i = FIRST_OF(&t->traces, fact.trace, c->trace);
         i < t->traces.nr && t->traces.at[i].fact.trace == c->trace; i++) {
        struct traced_trace *one = &t->traces.at[i];
        if (t->vms.at[one->vm].pid == c->pid && c->pc - one->fact.detail < one->fact.count &&
            (!found || found->gone))
            found = one;
    }
    if (found)
        found->weight += c->weight;
    else
        t->no_trace += c->weight;
}

static int by_weight(const void *a, const void *b)
{
    const struct traced_trace *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->vm != y->vm ? (x->vm < y->vm ? -1 : 1) : by_code(a, b);
}

static void weigh_all(struct traces *t)
{
    if (t->traces.nr)
        qsort(t->traces.at, t->traces.nr, sizeof(*t->traces.at), by_code);
    vec_foreach (c, &t->sum.codes)
        weigh(t, c);
    if (t->traces.nr)
        qsort(t->traces.at, t->traces.nr, sizeof(*t->traces.at), by_weight);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int compare_places(const struct traced_place *a, const struct traced_place *b)
{
    if (a->function != b->function)
        return a->function < b->function ? -1 : 1;
    return a->line < b->line ? -1 : a->line > b->line;
}

static int by_start(const void *a, const void *b)
{
    const struct traced_start *x = a, *y = b;
    if (x->at.function != y->at.function)
        return x->at.function < y->at.function ? -1 : 1;
    if (x->kind != y->kind && (x->kind == START_OF_FUNCTION || y->kind == START_OF_FUNCTION))
        return x->kind - y->kind;
    return x->at.line != y->at.line ? (x->at.line < y->at.line ? -1 : 1) : x->kind - y->kind;
}

static int by_exit(const void *a, const void *b)
{
    const struct traced_exit *x = a, *y = b;
    int order = compare_places(&x->to, &y->to);
    if (order)
        return order;
    return x->trace != y->trace ? x->trace - y->trace : x->exit - y->exit;
}

static int by_function(const void *a, const void *b)
{
    const struct traced_reason *x = a, *y = b;
    if (x->function != y->function)
        return x->function < y->function ? -1 : 1;
    return x->trace < y->trace ? -1 : x->trace > y->trace;
}

static int find_reasons(struct traces *t)
{
    for (uint32_t i = 0; i < t->traces.nr; i++) {
        const struct traced_trace *one = &t->traces.at[i];
        bool given_up = one->fact.what == LUAJIT_ENDS_IN_INTERPRETER;
        uint32_t function = given_up ? one->start.function : one->end.function;
        if (function && !one->gone && !vec_push(&t->reasons, (struct traced_reason){function, i}))
            return -1;
    }
    if (t->reasons.nr)
        qsort(t->reasons.at, t->reasons.nr, sizeof(*t->reasons.at), by_function);
    return 0;
}

/* Where jit.off() was called for a function, its loops are blocked for this reason only. */
static void mark_off(struct traces *t)
{
    uint32_t off = 0;
    vec_foreach (s, &t->starts) {
        off = s->off && s->kind == START_OF_FUNCTION ? s->at.function : off;
        s->off |= s->blocked && s->at.function == off;
    }
}

/* PENALTY_MIN of lj_jit.h. */
unsigned traces_attempts(const struct traces *t, uint32_t value)
{
    enum { MIN_20 = 36, MIN_21 = 72 };
    bool is_20 = t->vms.nr && t->vms.at[0].layout->bytecode == LUAJIT_BC_20;
    unsigned nr = 0;
    for (uint64_t of = is_20 ? MIN_20 : MIN_21; of <= value; of *= 2)
        nr++;
    return nr;
}

int traces_read_facts(struct traces *t, struct error *err)
{
    struct fact_reader r = {.t = t};
    int failed = find_vms(&r, err) < 0 || take_readings(&r, err) < 0;
    vec_free(&r.places);
    hash_table_free(&r.vm_table);
    hash_table_free(&r.place_table);
    hash_table_free(&r.start_table);
    hash_table_free(&r.trace_table);
    if (failed)
        return -1;
    weigh_all(t);
    if (t->starts.nr)
        qsort(t->starts.at, t->starts.nr, sizeof(*t->starts.at), by_start);
    mark_off(t);
    if (find_reasons(t) < 0)
        return error_no_memory(err);
    if (t->exits.nr)
        qsort(t->exits.at, t->exits.nr, sizeof(*t->exits.at), by_exit);
    return 0;
}
