/* SPDX-License-Identifier: GPL-2.0-only */
#include "census/census.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

const char *census_type_name(enum census_type type)
{
    static const char *const names[CENSUS_TYPES] = {
        "string",  "table",        "function", "C function", "upvalue", "code",
        "thread",  "userdata",     "trace",    "cdata",      "object",  "array",
        "context", "object shape", "number",   "other"};
    return names[type];
}

void census_free(struct census *c)
{
    vec_free(&c->objects);
    vec_free(&c->groups);
    vec_free(&c->parents);
    hash_table_free(&c->by_address);
    vec_free(&c->subtypes);
    vec_free(&c->strings);
    text_free(&c->texts);
}

/* ---- objects ------------------------------------------------------------------------------- */

uint32_t census_find(const struct census *c, uint64_t address)
{
    return hash_table_find(&c->by_address, hash_u64(address), i,
                           c->objects.at[i].address == address);
}

static bool count_subtype(struct census *c, const struct census_object *o)
{
    while (c->subtypes.nr <= o->subtype) {
        if (!vec_push(&c->subtypes, (struct census_sum){0}))
            return false;
    }
    c->subtypes.at[o->subtype].nr++;
    c->subtypes.at[o->subtype].bytes += o->size;
    return true;
}

static int take_object(void *context, const struct census_object *o, struct error *err)
{
    struct census *c = context;
    if (census_find(c, o->address) != CENSUS_NONE) /* a list that is a circle */
        return error_set(err, ERROR_FORMAT, "the VM lists the object at 0x%llx twice",
                         (unsigned long long)o->address);
    if (o->size > c->most - c->all.bytes)
        return error_set(err, ERROR_FORMAT,
                         "the VM's objects say that they have more bytes than the process");
    if (!vec_push(&c->objects, *o) ||
        !hash_table_add(&c->by_address, hash_u64(o->address), c->objects.nr - 1))
        return error_no_memory(err);
    if (c->heap->subtype && !count_subtype(c, o))
        return error_no_memory(err);
    c->types[o->type].nr++;
    c->types[o->type].bytes += o->size;
    c->all.nr++;
    c->all.bytes += o->size;
    return 0;
}

int census_take(struct census *c, const struct census_heap *heap, void *of, uint64_t most,
                struct error *err)
{
    c->most = most;
    c->heap = heap;
    c->of = of;
    const int failed = heap->objects(of, take_object, c, err);
    c->total = heap->total(of);
    c->own = heap->own(of);
    if (heap->outside)
        heap->outside(of, c->outside);
    return failed;
}

/* ---- groups -------------------------------------------------------------------------------- */

static bool same_text(const struct census *c, const struct census_group *g, unsigned type,
                      const struct text *t)
{
    return g->type == type && g->length == t->size &&
           (!t->size || !memcmp(c->texts.at + g->text, t->at, t->size));
}

static bool add_to_group(struct census *c, struct hash_table *by_text, uint32_t number,
                         const struct text *t)
{
    const struct census_object *o = &c->objects.at[number];
    const uint64_t hash = hash_combine(hash_bytes(t->size ? t->at : "", t->size), o->type);
    const size_t groups = c->groups.nr;
    uint32_t g =
        hash_table_intern(by_text, hash, &c->groups, i, same_text(c, &c->groups.at[i], o->type, t),
                          (struct census_group){.text = (uint32_t)c->texts.size,
                                                .length = (uint32_t)t->size,
                                                .type = o->type,
                                                .example = number});
    if (g == HASH_TABLE_NONE || c->texts.size > UINT32_MAX - t->size)
        return false;
    struct census_group *group = &c->groups.at[g];
    if (c->groups.nr > groups && t->size)
        text_bytes(&c->texts, t->at, t->size);
    group->nr++;
    group->bytes += o->size;
    if (o->size > c->objects.at[group->example].size)
        group->example = number;
    return !c->texts.failed;
}

static int compare_groups(const void *a, const void *b)
{
    const struct census_group *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->example < y->example ? -1 : x->example > y->example;
}

int census_group(struct census *c, struct error *err)
{
    struct text t = {0};
    struct hash_table by_text = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < c->objects.nr; i++) {
        const struct census_object *o = &c->objects.at[i];
        if (o->type == CENSUS_STRING || o->type == CENSUS_UPVALUE)
            continue;
        t.size = 0;
        c->heap->describe(c->of, o, &t);
        ok = !t.failed && add_to_group(c, &by_text, (uint32_t)i, &t);
    }
    text_free(&t);
    hash_table_free(&by_text);
    if (!ok)
        return error_no_memory(err);
    if (c->groups.nr)
        qsort(c->groups.at, c->groups.nr, sizeof(*c->groups.at), compare_groups);
    return 0;
}

/* ---- strings that repeat -------------------------------------------------------------------- */

/* Bytes that a single string would save. */
static uint64_t saved(const struct census_strings *s)
{
    return s->bytes - s->bytes / s->nr;
}

static int compare_strings(const void *a, const void *b)
{
    const struct census_strings *x = a, *y = b;
    if (saved(x) != saved(y))
        return saved(x) < saved(y) ? 1 : -1;
    return x->example < y->example ? -1 : x->example > y->example;
}

static bool add_string(struct census *c, struct hash_table *known, uint32_t number)
{
    uint64_t identity;
    const struct census_object *o = &c->objects.at[number];
    if (o->type != CENSUS_STRING || !c->heap->string_identity(c->of, o, &identity))
        return true;
    const uint32_t s =
        hash_table_intern(known, identity, &c->strings, i, c->strings.at[i].identity == identity,
                          (struct census_strings){.identity = identity, .example = number});
    if (s == HASH_TABLE_NONE)
        return false;
    c->strings.at[s].nr++;
    c->strings.at[s].bytes += o->size;
    return true;
}

static void keep_repeated(struct census *c)
{
    size_t nr = 0;
    vec_foreach (s, &c->strings) {
        if (s->nr > 1)
            c->strings.at[nr++] = *s;
    }
    c->strings.nr = nr;
    if (nr)
        qsort(c->strings.at, nr, sizeof(*c->strings.at), compare_strings);
}

int census_compare_strings(struct census *c, struct error *err)
{
    struct hash_table known = {0};
    bool ok = true;
    for (size_t i = 0; ok && c->heap->string_identity && i < c->objects.nr; i++)
        ok = add_string(c, &known, (uint32_t)i);
    hash_table_free(&known);
    keep_repeated(c);
    return ok ? 0 : error_no_memory(err);
}

/* ---- ways from the roots ------------------------------------------------------------------- */

struct reach {
    struct census *c;
    uint32_t from;
    VEC(uint32_t) queue; /* objects that were reached, the nearest first */
    bool failed;
};

static void take_reference(void *context, const struct census_reference *r)
{
    struct reach *to = context;
    struct census *c = to->c;
    uint32_t number = r->is_weak ? CENSUS_NONE : census_find(c, r->to);
    if (number == CENSUS_NONE || c->parents.at[number].reached)
        return;
    struct census_parent *p = &c->parents.at[number];
    *p = (struct census_parent){
        .from = to->from, .link = r->link, .key = r->key, .reached = true, .number = r->number};
    if (r->link == CENSUS_ROOT)
        p->name = r->name;
    else if (r->link == CENSUS_FIELD && r->key == CENSUS_KEY_STRING)
        p->string = r->string;
    c->reached.nr++;
    c->reached.bytes += c->objects.at[number].size;
    to->failed |= !vec_push(&to->queue, number);
}

/* Follow the references of the objects in the queue, from the `first` on. */
static void follow(struct reach *r, size_t first)
{
    struct census *c = r->c;
    for (size_t i = first; i < r->queue.nr && !r->failed; i++) {
        r->from = r->queue.at[i];
        c->heap->references(c->of, &c->objects.at[r->from], take_reference, r);
    }
}

int census_reach(struct census *c, struct error *err)
{
    struct reach r = {.c = c, .from = CENSUS_NONE};
    if (!c->heap->roots)
        return 0;
    if (!vec_reserve(&c->parents, c->objects.nr))
        return error_no_memory(err);
    c->parents.nr = c->objects.nr;
    if (c->parents.nr)
        memset(c->parents.at, 0, c->parents.nr * sizeof(*c->parents.at));
    c->heap->roots(c->of, take_reference, &r);
    follow(&r, 0);
    if (c->heap->late_roots) {
        const size_t first = r.queue.nr;
        r.from = CENSUS_NONE;
        c->heap->late_roots(c->of, take_reference, &r);
        follow(&r, first);
    }
    vec_free(&r.queue);
    return r.failed ? error_no_memory(err) : 0;
}

/* ---- paths --------------------------------------------------------------------------------- */

static bool is_name(const char *s, size_t size)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    if (!size || !memchr(first, s[0], sizeof(first) - 1))
        return false;
    for (size_t i = 1; i < size; i++) {
        if (!memchr(first, s[i], sizeof(first) - 1) && (s[i] < '0' || s[i] > '9'))
            return false;
    }
    return true;
}

static void put_field(const struct census *c, const struct census_parent *p, struct text *out)
{
    struct text name = {0};
    if (p->key == CENSUS_KEY_INTEGER) {
        text_printf(out, "[%lld]", (long long)p->number);
    } else if (p->key != CENSUS_KEY_STRING ||
               !c->heap->string(c->of, p->string, CENSUS_STRING_SHOWN, &name)) {
        text_string(out, "[?]");
    } else if (is_name(name.at, name.size)) {
        text_char(out, '.');
        text_bytes(out, name.at, name.size);
    } else {
        text_string(out, "[\"");
        text_escaped_bytes(out, name.at, name.size);
        text_string(out, "\"]");
    }
    text_free(&name);
}

/* A variable of a function: by its name, if the function has kept it, or by its number. */
static void put_upvalue(const struct census *c, const struct census_parent *p, struct text *out)
{
    struct text name = {0};
    const uint64_t closure = c->objects.at[p->from].address;
    const char *called = c->heap->upvalue_name ? c->heap->upvalue_name : "upvalue";
    if (c->heap->upvalue(c->of, closure, (unsigned)p->number, &name)) {
        text_printf(out, "<%s ", called);
        text_escaped_bytes(out, name.at, name.size);
        text_char(out, '>');
    } else {
        text_printf(out, "<%s %lld>", called, (long long)p->number);
    }
    text_free(&name);
}

static void put_step(const struct census *c, const struct census_parent *p, struct text *out)
{
    static const char *const links[] = {[CENSUS_KEY] = "<key>",
                                        [CENSUS_METATABLE] = "<metatable>",
                                        [CENSUS_ENVIRONMENT] = "<environment>",
                                        [CENSUS_CODE] = "<code>",
                                        [CENSUS_VALUE] = "",
                                        [CENSUS_CONSTANT] = "<constant>"};
    if (p->link == CENSUS_ROOT)
        text_string(out, p->name);
    else if (p->link == CENSUS_FIELD)
        put_field(c, p, out);
    else if (p->link == CENSUS_CLOSED)
        put_upvalue(c, p, out);
    else if (p->link == CENSUS_SLOT)
        text_printf(out, "<slot %lld>", (long long)p->number);
    else
        text_string(out, links[p->link]);
}

void census_path(const struct census *c, uint32_t object, struct text *out)
{
    enum { SHOWN = 16 }; /* steps at each end of a long way */
    uint32_t last[SHOWN], first[SHOWN];
    uint64_t nr = 0;
    if (object >= c->parents.nr || !c->parents.at[object].reached)
        return;
    for (uint32_t at = object; at != CENSUS_NONE; at = c->parents.at[at].from, nr++) {
        if (nr < SHOWN)
            last[nr] = at;
        first[nr % SHOWN] = at;
    }
    for (uint64_t i = 0; i < SHOWN && i < nr; i++)
        put_step(c, &c->parents.at[first[(nr - 1 - i) % SHOWN]], out);
    if (nr <= SHOWN)
        return;
    const uint64_t left = nr - SHOWN, end = left < SHOWN ? left : SHOWN;
    if (left > SHOWN)
        text_printf(out, " ... (%llu steps) ... ", (unsigned long long)(left - SHOWN));
    for (uint64_t i = end; i > 0; i--)
        put_step(c, &c->parents.at[last[i - 1]], out);
}
