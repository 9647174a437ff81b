/* SPDX-License-Identifier: GPL-2.0-only */
/* The shared tables of all dsos, and each thread's cache of resolved addresses. */
#include "symbols/symbols.h"
#include "base/arena.h"
#include "base/threads.h"
#include "base/hash.h"
#include "base/hash_table.h"
#include "base/intern.h"
#include "base/vec.h"
#include "symbols/debug_info.h"
#include "symbols/symtab.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The tables of one dso; immutable except for data that has its own lock. */
struct dso_tables {
    struct symtab *symtab;
    struct dwarf *dwarf; /* NULL: none, or not wanted */
};

struct symbols {
    struct symbols_options options;
    struct intern *strings;
    struct shown *shown;
    struct kallsyms_files *kallsyms;
    pthread_mutex_t lock;            /* protects `tables` and the creation of one */
    VEC(struct dso_tables *) tables; /* by dso id */
};

struct symbols *symbols_create(struct dsos *dsos, const struct symbols_options *options)
{
    (void)dsos;
    struct symbols *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    lock_init_short(&s->lock);
    s->options = *options;
    s->strings = intern_create();
    s->kallsyms = kallsyms_files_create();
    s->shown = s->strings ? shown_create(s->strings, !options->no_demangle) : NULL;
    if (s->shown && s->kallsyms)
        return s;
    symbols_free(s);
    return NULL;
}

static void tables_free(struct dso_tables *t)
{
    if (!t)
        return;
    symtab_free(t->symtab);
    dwarf_free(t->dwarf);
    free(t);
}

void symbols_free(struct symbols *s)
{
    if (!s)
        return;
    vec_foreach (t, &s->tables)
        tables_free(*t);
    vec_free(&s->tables);
    kallsyms_files_free(s->kallsyms);
    shown_free(s->shown);
    intern_free(s->strings);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static struct dso_tables *tables_create(struct symbols *s, struct dso *dso)
{
    struct dso_tables *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->symtab = symtab_create(dso, s->kallsyms, s->options.no_demangle);
    if (!t->symtab) {
        tables_free(t);
        return NULL;
    }
    bool user = dso->kind == DSO_FILE || dso->kind == DSO_VDSO;
    if (user && (s->options.inlines || s->options.lines))
        t->dwarf = dwarf_create(dso, s->strings, s->shown, s->options.lines);
    return t;
}

static struct dso_tables *tables_get(struct symbols *s, struct dso *dso)
{
    struct dso_tables *t = NULL;
    pthread_mutex_lock(&s->lock);
    while (s->tables.nr <= dso->id && vec_push(&s->tables, NULL))
        ;
    if (s->tables.nr > dso->id) {
        if (!s->tables.at[dso->id])
            s->tables.at[dso->id] = tables_create(s, dso);
        t = s->tables.at[dso->id];
    }
    pthread_mutex_unlock(&s->lock);
    return t;
}

/* ---- a thread's cache -------------------------------------------------------------------- */

struct known_address {
    uint64_t address;
    uint32_t dso, before; /* before: address - lookup */
    const struct resolved *resolved;
};

struct symbol_cache {
    struct symbols *symbols;
    VEC(struct known_address) known;
    struct hash_table table; /* of indexes in `known` */
    struct arena arena;
    VEC(struct dso_tables *) tables; /* by dso id; owned by this thread: no lock */
};

struct symbol_cache *symbol_cache_create(struct symbols *s)
{
    struct symbol_cache *c = calloc(1, sizeof(*c));
    if (c)
        c->symbols = s;
    return c;
}

void symbol_cache_free(struct symbol_cache *c)
{
    if (!c)
        return;
    arena_free(&c->arena);
    vec_free(&c->tables);
    vec_free(&c->known);
    hash_table_free(&c->table);
    free(c);
}

static bool is_same(const struct known_address *a, const struct known_address *b)
{
    return a->address == b->address && a->dso == b->dso && a->before == b->before;
}

static struct dso_tables *cached_tables(struct symbol_cache *c, struct dso *dso)
{
    while (c->tables.nr <= dso->id)
        if (!vec_push(&c->tables, NULL))
            return NULL;
    if (!c->tables.at[dso->id])
        c->tables.at[dso->id] = tables_get(c->symbols, dso);
    return c->tables.at[dso->id];
}

/* Add inlined functions and positions. Returns false when out of memory. */
static bool add_source(struct symbol_cache *c, struct dso_tables *t, struct dso *dso,
                       uint64_t lookup, struct resolved *r)
{
    struct source_frame frames[DWARF_MAX_FRAMES];
    uint64_t vaddr;
    if (!dso_offset_to_vaddr(dso, lookup, &vaddr))
        return true;
    unsigned nr = dwarf_find(t->dwarf, vaddr, c->symbols->options.inlines, frames);
    if (nr == 0)
        return true;
    r->outer = frames[nr - 1];
    if (nr == 1)
        return true;
    struct source_frame *inlined = arena_get(&c->arena, (nr - 1) * sizeof(*inlined));
    if (!inlined)
        return false;
    memcpy(inlined, frames, (nr - 1) * sizeof(*inlined));
    r->inlined = inlined;
    r->nr_inlined = nr - 1;
    return true;
}

static const struct resolved *resolve(struct symbol_cache *c, struct dso *dso, uint64_t address,
                                      uint64_t lookup)
{
    struct dso_tables *t = cached_tables(c, dso);
    struct resolved *r = t ? arena_get(&c->arena, sizeof(*r)) : NULL;
    if (!r)
        return NULL;
    *r = (struct resolved){0};
    struct symbol *s = symtab_find(t->symtab, lookup);
    if (s) {
        r->symbol = symtab_name(t->symtab, s, c->symbols->strings, c->symbols->shown);
        r->offset = address - s->start;
        r->symbol_size = s->end - s->start;
        if (!r->symbol)
            return NULL;
    }
    if (t->dwarf && !add_source(c, t, dso, lookup, r))
        return NULL;
    return r;
}

const struct resolved *symbols_resolve(struct symbol_cache *c, struct dso *dso, uint64_t address,
                                       uint64_t lookup)
{
    struct known_address key = {address, dso->id, (uint32_t)(address - lookup), NULL};
    uint64_t hash = hash_u64(address ^ (uint64_t)key.dso << 40 ^ (uint64_t)key.before << 60);
    uint32_t n = hash_table_find(&c->table, hash, i, is_same(&c->known.at[i], &key));
    if (n != HASH_TABLE_NONE)
        return c->known.at[n].resolved;
    key.resolved = resolve(c, dso, address, lookup);
    if (!key.resolved || !vec_push(&c->known, key))
        return NULL;
    if (!hash_table_add(&c->table, hash, c->known.nr - 1))
        return NULL;
    return key.resolved;
}
