/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Collects what `ljperf traces` tells of V8: the tiers in which functions ran, from the samples,
 * and what the recorder found of its compilers. Of code that a collection has moved there are
 * several facts: the number of an optimization and the function tell which are the same.
 */
#include "output/traces_internal.h"

#include "base/hash.h"
#include "unwind/v8/names.h"

#include <stdlib.h>
#include <string.h>

enum {
    CODES_MAX = 1 << 20, /* pieces of code that are counted */
    NAMES_MAX = 1 << 20, /* places that are remembered */
    EXITS_MAX = 64,      /* different ones of one function */
};

/* ---- samples --------------------------------------------------------------------------------- */

static bool is_js(const struct traces_sum *s, uint32_t i, uint32_t function)
{
    return i < s->js.nr && s->js.at[i].function == function;
}

static struct traced_js *js_of(struct traces_sum *s, uint32_t function)
{
    uint32_t at =
        hash_table_intern(&s->js_table, hash_u64(function), &s->js, i, is_js(s, i, function),
                          (struct traced_js){.function = function});
    return at == HASH_TABLE_NONE ? NULL : &s->js.at[at];
}

bool traces_js_take(struct traces_sum *sum, const struct frame *f, uint64_t weight)
{
    struct traced_js *of = js_of(sum, f->function);
    if (!of)
        return false;
    of->weight[f->tier < NR_TIERS ? f->tier : TIER_NONE] += weight;
    sum->js_weight += weight;
    return true;
}

static bool add_js(struct traces_sum *to, const struct traced_js *from)
{
    struct traced_js *of = js_of(to, from->function);
    for (int i = 0; of && i < NR_TIERS; i++)
        of->weight[i] += from->weight[i];
    return of != NULL;
}

bool traces_js_add(struct traces_sum *to, const struct traces_sum *from)
{
    bool ok = true;
    vec_foreach (f, &from->js)
        ok = ok && add_js(to, f);
    to->js_weight += from->js_weight;
    return ok;
}

static const char *symbol_of(struct traces *t, uint32_t function)
{
    struct text symbol = {0};
    const char *interned = NULL;
    if (traces_put_function(t, function, &symbol)) {
        text_char(&symbol, 0);
        interned = symbol.failed ? NULL : intern_string(t->symbols, symbol.at);
    }
    text_free(&symbol);
    return interned;
}

static uint64_t slow(const struct traced_js *f)
{
    return f->weight[TIER_NONE] + f->weight[TIER_INTERP] + f->weight[TIER_BASELINE];
}

/* What is not optimized comes first. */
static int by_weight(const void *a, const void *b)
{
    const struct traced_js *x = a, *y = b;
    if (slow(x) != slow(y))
        return slow(x) < slow(y) ? 1 : -1;
    uint64_t fast_x = x->weight[TIER_MAGLEV] + x->weight[TIER_TURBOFAN];
    uint64_t fast_y = y->weight[TIER_MAGLEV] + y->weight[TIER_TURBOFAN];
    if (fast_x != fast_y)
        return fast_x < fast_y ? 1 : -1;
    return strcmp(x->symbol ? x->symbol : "", y->symbol ? y->symbol : "");
}

int traces_js_merge(struct traces *t, struct error *err)
{
    struct traces_sum merged = {0};
    bool ok = true;
    vec_foreach (f, &t->sum.js) {
        struct traced_js as = *f;
        as.function = traces_same(t, f->function);
        ok = ok && (as.function || !f->function) && add_js(&merged, &as);
    }
    vec_foreach (f, &merged.js)
        f->symbol = symbol_of(t, f->function);
    vec_free(&t->sum.js);
    hash_table_free(&t->sum.js_table);
    if (merged.js.nr)
        qsort(merged.js.at, merged.js.nr, sizeof(*merged.js.at), by_weight);
    memcpy(&t->sum.js, &merged.js, sizeof(merged.js));
    hash_table_free(&merged.js_table); /* the order is another one now */
    return ok ? 0 : error_no_memory(err);
}

/* ---- facts ----------------------------------------------------------------------------------- */

/* A piece of optimized code. */
struct seen_code {
    uint32_t pid, function;
    int32_t id;
    uint8_t tier;
    bool marked;
};

/* A function or a place that was named. */
struct named_sfi {
    struct replay_v8_function of; /* its time does not count */
    int32_t offset;
    struct traced_place is;
};

struct js_reader {
    struct traces *t;
    VEC(struct named_sfi) names;
    struct hash_table name_table;
    VEC(struct seen_code) codes;
    struct hash_table code_table;
    struct hash_table facts_table; /* of t->js_facts, by function */
    struct replay_v8_facts from;   /* what is taken in */
};

static bool is_named(const struct named_sfi *n, const struct replay_v8_function *f, int32_t offset)
{
    return n->of.pid == f->pid && n->of.sfi == f->sfi && n->of.identity == f->identity &&
           n->offset == offset;
}

/* Name a place. The result is all 0 if the recording does not have its function. */
static int name_place(struct js_reader *r, uint64_t sfi, uint32_t identity, int32_t offset,
                      struct traced_place *ret, struct error *err)
{
    struct v8_named named;
    const struct replay_v8_function f = {
        .sfi = sfi, .time = r->from.time, .pid = r->from.pid, .identity = identity};
    const uint64_t hash = hash_combine(hash_combine(f.pid, (uint32_t)offset), sfi + identity);
    uint32_t at = hash_table_find(&r->name_table, hash, i, is_named(&r->names.at[i], &f, offset));
    *ret = (struct traced_place){0};
    if (at != HASH_TABLE_NONE) {
        *ret = r->names.at[at].is;
        return 0;
    }
    if (replay_v8_place(r->t->replay, &f, offset, &named, err) < 0)
        return -1;
    *ret = (struct traced_place){traces_same(r->t, named.function), offset < 0 ? 0 : named.line};
    if (named.function && !ret->function)
        return error_no_memory(err);
    if (!ret->function) /* a later reading may know it */
        return 0;
    const struct named_sfi new = {f, offset, *ret};
    if (r->names.nr < NAMES_MAX &&
        (!vec_push(&r->names, new) || !hash_table_add(&r->name_table, hash, r->names.nr - 1)))
        return error_no_memory(err);
    return 0;
}

static struct js_facts *facts_of(struct js_reader *r, uint32_t function)
{
    struct traces *t = r->t;
    uint32_t at =
        hash_table_intern(&r->facts_table, hash_u64(function), &t->js_facts, i,
                          t->js_facts.at[i].function == function,
                          (struct js_facts){.function = function, .reason = V8_REASON_NONE});
    return at == HASH_TABLE_NONE ? NULL : &t->js_facts.at[at];
}

static uint8_t tier_of(const struct v8_fact *f)
{
    return f->code == V8_CODE_MAGLEV ? TIER_MAGLEV : TIER_TURBOFAN;
}

static bool take_code(struct js_reader *r, struct js_facts *of, const struct v8_fact *f)
{
    const struct seen_code new = {r->from.pid, of->function, f->id, tier_of(f), false};
    const uint64_t hash = hash_combine(hash_combine(new.pid, new.function), (uint32_t)f->id);
    if (r->codes.nr >= CODES_MAX)
        return true;
    const size_t known = r->codes.nr;
    uint32_t at = hash_table_intern(&r->code_table, hash, &r->codes, i,
                                    r->codes.at[i].pid == new.pid &&
                                        r->codes.at[i].function == new.function &&
                                        r->codes.at[i].id == new.id,
                                    new);
    if (at == HASH_TABLE_NONE)
        return false;
    struct seen_code *code = &r->codes.at[at];
    of->codes[code->tier] += known != r->codes.nr;
    of->marked[code->tier] += f->flags & V8_FACT_MARKED && !code->marked;
    code->marked |= f->flags & V8_FACT_MARKED;
    of->marks_told |= f->flags & V8_FACT_CAN_TELL;
    return true;
}

static bool is_exit(const struct js_exit *a, const struct js_exit *b)
{
    return a->reason == b->reason && a->kind == b->kind && a->at.function == b->at.function &&
           a->at.line == b->at.line;
}

static int take_exit(struct js_reader *r, struct js_facts *of, const struct v8_fact *f,
                     struct error *err)
{
    bool resumed = f->kind == V8_FACT_RESUMED;
    struct js_exit new = {.reason = f->reason,
                          .kind = resumed                   ? JS_EXIT_UNKNOWN
                                  : f->flags & V8_FACT_LAZY ? JS_EXIT_LAZY
                                                            : JS_EXIT_EAGER,
                          .samples = 1};
    bool placed = resumed ? f->offset >= 0 : f->flags & V8_FACT_PLACED && f->offset >= 0;
    if (placed &&
        name_place(r, resumed ? f->sfi : f->other, resumed ? f->identity : f->other_identity,
                   f->offset, &new.at, err) < 0)
        return -1;
    vec_foreach (e, &of->exits) {
        if (!is_exit(e, &new))
            continue;
        e->samples++;
        return 0;
    }
    return of->exits.nr >= EXITS_MAX || vec_push(&of->exits, new) ? 0 : error_no_memory(err);
}

static void take_function(struct js_facts *of, const struct v8_fact *f)
{
    if (f->time < of->time)
        return;
    of->time = f->time;
    of->bytecode = f->offset > 0 ? (uint32_t)f->offset : of->bytecode;
    of->reason = f->reason;
    of->reason_told = f->flags & V8_FACT_CAN_TELL;
}

static int take_fact(struct js_reader *r, const struct v8_fact *f, struct error *err)
{
    struct traced_place at;
    if (f->kind < V8_FACT_CODE || f->kind > V8_FACT_RESUMED)
        return 0;
    if (name_place(r, f->sfi, f->identity, -1, &at, err) < 0)
        return -1;
    if (!at.function)
        return 0;
    struct js_facts *of = facts_of(r, at.function);
    if (!of)
        return error_no_memory(err);
    if (f->kind == V8_FACT_CODE)
        return take_code(r, of, f) ? 0 : error_no_memory(err);
    if (f->kind == V8_FACT_EXIT || f->kind == V8_FACT_RESUMED)
        return take_exit(r, of, f, err);
    take_function(of, f);
    return 0;
}

static int by_function(const void *a, const void *b)
{
    const struct js_facts *x = a, *y = b;
    return x->function < y->function ? -1 : x->function > y->function;
}

static int by_samples(const void *a, const void *b)
{
    const struct js_exit *x = a, *y = b;
    if (x->samples != y->samples)
        return x->samples < y->samples ? 1 : -1;
    if (x->at.line != y->at.line)
        return x->at.line < y->at.line ? -1 : 1;
    return x->reason != y->reason ? x->reason - y->reason : x->kind - y->kind;
}

static int take_all(struct js_reader *r, struct error *err)
{
    for (size_t i = 0; replay_v8_facts(r->t->replay, i, &r->from); i++) {
        r->t->has_js_facts |= r->from.nr != 0;
        for (size_t k = 0; k < r->from.nr; k++) {
            if (take_fact(r, &r->from.facts[k], err) < 0)
                return -1;
        }
    }
    return 0;
}

int traces_js_read_facts(struct traces *t, struct error *err)
{
    struct js_reader r = {.t = t};
    int failed = take_all(&r, err);
    vec_free(&r.names);
    hash_table_free(&r.name_table);
    vec_free(&r.codes);
    hash_table_free(&r.code_table);
    hash_table_free(&r.facts_table);
    if (failed)
        return -1;
    if (t->js_facts.nr)
        qsort(t->js_facts.at, t->js_facts.nr, sizeof(*t->js_facts.at), by_function);
    vec_foreach (f, &t->js_facts) {
        if (f->exits.nr)
            qsort(f->exits.at, f->exits.nr, sizeof(*f->exits.at), by_samples);
    }
    return 0;
}

void traces_js_free(struct traces *t)
{
    vec_foreach (f, &t->js_facts)
        vec_free(&f->exits);
    vec_free(&t->js_facts);
}
