/* SPDX-License-Identifier: GPL-2.0-only */
/* The compilers of a process over time: what was noted, and what is new. See compiler.h. */
#include "unwind/v8/compiler.h"

#include "base/hash.h"
#include "base/hash_table.h"
#include "base/vec.h"

#include <stdlib.h>

enum {
    CODES_MAX = 4096, /* the one that was noted first makes room for another one */
    FUNCTIONS_MAX = 8192,
    NEWS_MAX = 1 << 16, /* facts that wait to be written; more are dropped */
    REREAD_FUNCTION_NS = 1000000000,
};

/* Optimized code. */
struct noted_code {
    struct v8_code code;
    struct v8_fact fact;
    bool over; /* it was deoptimized, or is not there any more: it is not read again */
};

struct noted_function {
    uint64_t bytecode;
    struct v8_fact fact;
    bool read;     /* `fact` holds what was read */
    uint64_t next; /* ns: when it is read again */
};

struct v8_compiler {
    const struct v8_layout *layout;
    VEC(struct noted_code) codes;
    struct hash_table code_table; /* by address */
    VEC(struct noted_function) functions;
    struct hash_table function_table;
    VEC(struct v8_fact) news;
    size_t oldest;                   /* code that makes room next */
    size_t next_code, next_function; /* to be read next */
};

struct v8_compiler *v8_compiler_create(const struct v8_layout *layout)
{
    struct v8_compiler *c = calloc(1, sizeof(*c));
    if (c)
        c->layout = layout;
    return c;
}

void v8_compiler_free(struct v8_compiler *c)
{
    if (!c)
        return;
    vec_free(&c->codes);
    hash_table_free(&c->code_table);
    vec_free(&c->functions);
    hash_table_free(&c->function_table);
    vec_free(&c->news);
    free(c);
}

static void tell(struct v8_compiler *c, const struct v8_fact *f)
{
    if (c->news.nr < NEWS_MAX)
        (void)vec_push(&c->news, *f); /* memory is out: the fact is missing */
}

const struct v8_fact *v8_compiler_news(const struct v8_compiler *c, size_t *nr)
{
    *nr = c->news.nr;
    return c->news.at;
}

void v8_compiler_told(struct v8_compiler *c)
{
    c->news.nr = 0;
}

void v8_compiler_tell_again(struct v8_compiler *c)
{
    c->news.nr = 0;
    vec_foreach (of, &c->codes) {
        if (!of->over)
            tell(c, &of->fact);
    }
    vec_foreach (f, &c->functions) {
        if (f->read)
            tell(c, &f->fact);
    }
}

/* ---- code ------------------------------------------------------------------------------------ */

int v8_code_marked(struct v8_reader *r, const struct v8_code *c)
{
    const struct v8_layout *l = r->layout;
    uint64_t holder = c->code;
    uint32_t word;
    if (!l->verified || l->code_marked == V8_UNKNOWN ||
        (l->code_container != V8_UNKNOWN && !v8_slot(r, c->code, l->code_container, &holder)) ||
        !v8_is_pointer(holder) ||
        !v8_read(r, v8_address(holder) + (uint64_t)l->code_marked, &word, sizeof(word)))
        return -1;
    return word >> l->code_marked_bit & 1;
}

/* Returns the number of an optimization; -1: not known. */
static int32_t code_id(struct v8_reader *r, const struct v8_code *c)
{
    uint64_t word;
    return r->layout->deopt_id != V8_UNKNOWN &&
                   v8_deopt_element(r, c, r->layout->deopt_id, &word) && v8_is_smi(word)
               ? v8_smi(word)
               : -1;
}

static bool is_same(const struct v8_code *a, const struct v8_code *b)
{
    return a->code == b->code && a->start == b->start && a->size == b->size &&
           a->positions == b->positions && a->kind == b->kind;
}

/* Takes the code's flag in, and tells what is new. */
static void take_mark(struct v8_compiler *c, struct noted_code *of, int marked, uint64_t time)
{
    of->fact.flags |= marked >= 0 ? V8_FACT_CAN_TELL : 0;
    if (marked <= 0)
        return;
    of->fact.flags |= V8_FACT_MARKED;
    of->fact.time = time;
    of->over = true;
    tell(c, &of->fact);
}

/* Returns room for code that is not known yet; NULL: memory is out. */
static struct noted_code *code_add(struct v8_compiler *c, const struct noted_code *new)
{
    size_t at = c->codes.nr;
    if (at < CODES_MAX) {
        if (!vec_push(&c->codes, *new))
            return NULL;
    } else {
        at = c->oldest++ % CODES_MAX;
        hash_table_remove(&c->code_table, hash_u64(c->codes.at[at].code.code), (uint32_t)at);
        c->codes.at[at] = *new;
    }
    /* without its entry it may be noted twice: the number of the optimization tells */
    (void)hash_table_add(&c->code_table, hash_u64(new->code.code), at);
    return &c->codes.at[at];
}

/* Returns v8_sfi_identity(); the reader is left as it was. */
static uint32_t identity_of(const struct v8_reader *r, uint64_t sfi)
{
    struct v8_reader own = *r;
    struct v8_sfi function;
    return v8_sfi_read_name(&own, sfi, &function) ? v8_sfi_identity(&own, &function) : 0;
}

static struct noted_code *code_of(struct v8_compiler *c, struct v8_reader *r,
                                  const struct v8_code *code, uint64_t time)
{
    uint32_t at = hash_table_find(&c->code_table, hash_u64(code->code), i,
                                  is_same(&c->codes.at[i].code, code));
    if (at != HASH_TABLE_NONE)
        return &c->codes.at[at];
    struct noted_code new = {.code = *code};
    new.fact = (struct v8_fact){.sfi = v8_code_sfi(r, code),
                                .time = time,
                                .id = code_id(r, code),
                                .kind = V8_FACT_CODE,
                                .code = (uint8_t)code->kind,
                                .reason = V8_REASON_NONE};
    if (!new.fact.sfi || new.fact.id < 0)
        return NULL;
    new.fact.identity = identity_of(r, new.fact.sfi);
    struct noted_code *of = code_add(c, &new);
    if (!of)
        return NULL;
    const int marked = v8_code_marked(r, code);
    take_mark(c, of, marked, time);
    if (marked <= 0)
        tell(c, &of->fact);
    return of;
}

static uint64_t note_exit(struct v8_compiler *c, struct v8_reader *r, const struct noted_code *of,
                          uint64_t pc, bool lazy, uint64_t time)
{
    struct v8_exit e;
    /* Code that was left is marked soon after. Other code that has come to its place is not. (Nor
     * is code that was left for code of a loop, which remains valid.) */
    if (v8_code_marked(r, &of->code) != 1 || !v8_exit_find(r, &of->code, pc, &e))
        return 0;
    struct v8_fact f = of->fact;
    f.kind = V8_FACT_EXIT;
    f.time = time;
    f.other = e.sfi;
    f.other_identity = e.sfi ? identity_of(r, e.sfi) : 0;
    f.offset = e.offset;
    f.reason = e.reason;
    f.flags = (uint8_t)((lazy ? V8_FACT_LAZY : 0) | (e.sfi && e.offset >= 0 ? V8_FACT_PLACED : 0));
    tell(c, &f);
    return e.sfi;
}

uint64_t v8_compiler_note_code(struct v8_compiler *c, struct v8_reader *r,
                               const struct v8_code *code, uint64_t exit, bool lazy, uint64_t time)
{
    struct v8_reader own = *r;
    const struct noted_code *of = code_of(c, &own, code, time);
    return of && exit ? note_exit(c, &own, of, exit, lazy, time) : 0;
}

void v8_compiler_note_resumed(struct v8_compiler *c, struct v8_reader *r, const struct v8_sfi *sfi,
                              int32_t offset, uint64_t time)
{
    const struct v8_fact f = {.sfi = sfi->sfi,
                              .time = time,
                              .offset = offset,
                              .kind = V8_FACT_RESUMED,
                              .reason = V8_REASON_NONE,
                              .identity = identity_of(r, sfi->sfi)};
    tell(c, &f);
}

static void code_read(struct v8_compiler *c, struct v8_reader *r, struct noted_code *of,
                      uint64_t time)
{
    struct v8_code now;
    if (of->over)
        return;
    if (!v8_code_read(r, of->code.code, &now) || !is_same(&now, &of->code))
        of->over = true; /* a collection has freed it, or moved what it refers to */
    else
        take_mark(c, of, v8_code_marked(r, &now), time);
}

/* ---- functions ------------------------------------------------------------------------------- */

void v8_compiler_note_function(struct v8_compiler *c, struct v8_reader *r, const struct v8_sfi *sfi)
{
    struct noted_function new = {
        .bytecode = sfi->bytecode,
        .fact = {.sfi = sfi->sfi, .kind = V8_FACT_FUNCTION, .reason = V8_REASON_NONE}};
    uint32_t at = hash_table_find(&c->function_table, hash_u64(sfi->sfi), i,
                                  c->functions.at[i].fact.sfi == sfi->sfi);
    new.fact.identity = identity_of(r, sfi->sfi);
    if (at != HASH_TABLE_NONE && c->functions.at[at].fact.identity == new.fact.identity) {
        c->functions.at[at].bytecode = sfi->bytecode ? sfi->bytecode : c->functions.at[at].bytecode;
        return;
    }
    if (at != HASH_TABLE_NONE) { /* another function has come to the address */
        c->functions.at[at] = new;
        return;
    }
    if (c->functions.nr >= FUNCTIONS_MAX || !vec_push(&c->functions, new))
        return;
    if (!hash_table_add(&c->function_table, hash_u64(sfi->sfi), c->functions.nr - 1))
        c->functions.nr--;
}

/* Reads why V8 does not optimize a function. Returns false if it cannot be read. */
static bool read_reason(struct v8_reader *r, struct v8_fact *f)
{
    enum { REASON_MASK = 15 };
    const struct v8_layout *l = r->layout;
    uint32_t flags;
    if (!v8_is(r, f->sfi, l->type_sfi) ||
        !v8_read(r, v8_address(f->sfi) + (uint64_t)l->sfi_flags, &flags, sizeof(flags)))
        return false;
    f->reason = V8_REASON_NONE;
    f->flags = 0;
    if (!l->verified || l->sfi_disabled == V8_UNKNOWN)
        return true;
    const uint32_t number = flags >> l->sfi_disabled & REASON_MASK;
    if (number)
        f->reason = v8_disabled_reason(l, number);
    f->flags = !number || f->reason != V8_REASON_NONE ? V8_FACT_CAN_TELL : 0;
    return true;
}

static void function_read(struct v8_compiler *c, struct v8_reader *r, struct noted_function *of,
                          uint64_t time)
{
    struct v8_fact now = of->fact;
    uint64_t length;
    if (identity_of(r, now.sfi) != now.identity || !read_reason(r, &now))
        return;
    if (v8_is(r, of->bytecode, r->layout->type_bytecode) &&
        v8_slot(r, of->bytecode, r->layout->array_length, &length) && v8_is_smi(length) &&
        v8_smi(length) > 0)
        now.offset = v8_smi(length);
    if (of->read && now.reason == of->fact.reason && now.flags == of->fact.flags &&
        now.offset == of->fact.offset)
        return;
    now.time = time;
    of->fact = now;
    of->read = true;
    tell(c, &now);
}

/* ---- looking --------------------------------------------------------------------------------- */

size_t v8_compiler_rounds(const struct v8_compiler *c)
{
    const size_t most = c->codes.nr > c->functions.nr ? c->codes.nr : c->functions.nr;
    return (most + V8_COMPILER_LOOKS - 1) / V8_COMPILER_LOOKS;
}

void v8_compiler_read(struct v8_compiler *c, const struct memory *m, uint64_t time, bool all)
{
    struct v8_reader r = {.memory = m, .layout = c->layout};
    for (size_t i = 0; i < V8_COMPILER_LOOKS && i < c->codes.nr; i++) {
        c->next_code = c->next_code < c->codes.nr ? c->next_code : 0;
        code_read(c, &r, &c->codes.at[c->next_code++], time);
    }
    for (size_t i = 0; i < V8_COMPILER_LOOKS && i < c->functions.nr; i++) {
        c->next_function = c->next_function < c->functions.nr ? c->next_function : 0;
        struct noted_function *f = &c->functions.at[c->next_function++];
        if (!all && time < f->next)
            continue;
        f->next = time + REREAD_FUNCTION_NS;
        function_read(c, &r, f, time);
    }
}
