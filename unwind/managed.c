/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions are in pages that never move, and a name, or what is at a place, is replaced as a
 * whole. Therefore readers need no lock; writers do. One name per rank is enough, the earliest:
 * whatever batch is asked about, either this name was known by then, or no name of its rank was.
 */
#include "unwind/managed.h"
#include "base/threads.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/hash_table.h"
#include "base/intern.h"
#include "unwind/frame.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_SIZE = 1024, PAGES_MAX = 4096, NR_RANKS = NAME_RANK_DEFINED + 1 };

#define NEVER UINT64_MAX /* of batches; who asks for all names asks up to it */

struct name {
    struct name *before; /* the name it replaced: readers may still use it */
    const char *text;
    uint64_t batch; /* the first batch that shows the name */
    uint64_t other; /* the first one that shows another name of this rank; NEVER: none */
};

/* A function found at a place. `batch`: the first batch that shows it. */
struct found {
    uint32_t id; /* 0: none */
    uint64_t batch;
};

/* The functions found at a place, in each way or a better one, in the order of their batches. Two
 * are enough to know that there are several. */
struct at_place {
    struct at_place *before; /* what it replaced: readers may still use it */
    struct found two[MANAGED_NR_FOUND][2];
};

struct entry {
    struct managed_identity identity; /* its strings are interned */
    struct name *_Atomic names[NR_RANKS];
    struct at_place *_Atomic at_place; /* NULL: no function was found at this place */
    _Atomic uint32_t place; /* where no other function can be; 0: not known, or others can */
};

struct managed_names {
    struct intern *strings;
    pthread_mutex_t lock;
    struct entry *_Atomic pages[PAGES_MAX];
    _Atomic uint32_t nr;
    struct hash_table ids;
};

struct managed_names *managed_names_create(void)
{
    struct managed_names *g = calloc(1, sizeof(*g));
    if (!g)
        return NULL;
    g->strings = intern_create();
    if (!g->strings) {
        free(g);
        return NULL;
    }
    lock_init_short(&g->lock);
    return g;
}

static struct entry *entry_at(const struct managed_names *g, uint32_t id)
{
    struct entry *page =
        atomic_load_explicit(&g->pages[(id - 1) / PAGE_SIZE], memory_order_acquire);
    return &page[(id - 1) % PAGE_SIZE];
}

static void names_free(struct name *n)
{
    while (n) {
        struct name *before = n->before;
        free(n);
        n = before;
    }
}

static void at_place_free(struct at_place *p)
{
    while (p) {
        struct at_place *before = p->before;
        free(p);
        p = before;
    }
}

void managed_names_free(struct managed_names *g)
{
    if (!g)
        return;
    for (uint32_t id = 1; id <= g->nr; id++) {
        struct entry *e = entry_at(g, id);
        for (unsigned rank = 0; rank < NR_RANKS; rank++)
            names_free(e->names[rank]);
        at_place_free(e->at_place);
    }
    for (size_t i = 0; i < PAGES_MAX; i++)
        free(g->pages[i]);
    pthread_mutex_destroy(&g->lock);
    intern_free(g->strings);
    hash_table_free(&g->ids);
    free(g);
}

/* ---- identities ---------------------------------------------------------------------------- */

static uint64_t identity_hash(const struct managed_identity *i)
{
    uint64_t h = hash_combine((uintptr_t)i->file, (uintptr_t)i->name);
    h = hash_combine(h, (uint64_t)i->line << 32 | i->column);
    return hash_combine(h,
                        i->salt ^ i->index ^ (uint64_t)i->kind << 56 ^ (uint64_t)i->language << 48);
}

/* The strings are interned, so pointers can be compared. */
static bool identity_equal(const struct managed_identity *a, const struct managed_identity *b)
{
    return a->kind == b->kind && a->language == b->language && a->file == b->file &&
           a->line == b->line && a->column == b->column && a->index == b->index &&
           a->salt == b->salt && a->name == b->name;
}

static uint32_t entry_add(struct managed_names *g, const struct managed_identity *identity,
                          uint64_t hash)
{
    uint32_t at = g->nr;
    if (at / PAGE_SIZE >= PAGES_MAX)
        return 0;
    if (at % PAGE_SIZE == 0) {
        struct entry *page = calloc(PAGE_SIZE, sizeof(*page));
        if (!page)
            return 0;
        atomic_store_explicit(&g->pages[at / PAGE_SIZE], page, memory_order_release);
    }
    struct entry *e = entry_at(g, at + 1);
    e->identity = *identity;
    if (!hash_table_add(&g->ids, hash, at + 1))
        return 0;
    atomic_store_explicit(&g->nr, at + 1, memory_order_release);
    return at + 1;
}

static uint32_t intern_locked(struct managed_names *g, const struct managed_identity *identity)
{
    uint64_t hash = identity_hash(identity);
    uint32_t id =
        hash_table_find(&g->ids, hash, i, identity_equal(&entry_at(g, i)->identity, identity));
    return id != HASH_TABLE_NONE ? id : entry_add(g, identity, hash);
}

uint32_t managed_intern(struct managed_names *g, const struct managed_identity *identity)
{
    struct managed_identity i = *identity;
    if (i.file)
        i.file = intern_string(g->strings, i.file);
    if (i.name)
        i.name = intern_string(g->strings, i.name);
    if ((identity->file && !i.file) || (identity->name && !i.name))
        return 0;
    pthread_mutex_lock(&g->lock);
    uint32_t id = intern_locked(g, &i);
    pthread_mutex_unlock(&g->lock);
    return id;
}

/* ---- names --------------------------------------------------------------------------------- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Texts are interned: equal ones are the same pointer. */
static int propose_locked(struct entry *e, enum name_rank rank, const char *text, uint64_t batch)
{
    struct name *have = atomic_load_explicit(&e->names[rank], memory_order_relaxed);
    struct name now = {have, text, batch, NEVER};
    if (have && have->text == text) {
        now.batch = earlier(have->batch, batch);
        now.other = have->other;
    } else if (have &&
               (have->batch < batch || (have->batch == batch && strcmp(have->text, text) < 0))) {
        now.text = have->text;
        now.batch = have->batch;
        now.other = earlier(have->other, batch);
    } else if (have) {
        now.other = have->batch; /* no other name was earlier */
    }
    if (have && now.text == have->text && now.batch == have->batch && now.other == have->other)
        return 0;
    struct name *n = malloc(sizeof(*n));
    if (!n)
        return -1;
    *n = now;
    atomic_store_explicit(&e->names[rank], n, memory_order_release);
    return 0;
}

int managed_propose_name(struct managed_names *g, uint32_t id, enum name_rank rank,
                         const char *name, uint64_t batch)
{
    if (id == 0 || id > atomic_load_explicit(&g->nr, memory_order_acquire) ||
        (int)rank >= NR_RANKS || (!*name && rank != NAME_RANK_NAMELESS && rank != NAME_RANK_TAIL))
        return 0;
    struct entry *e = entry_at(g, id);
    if (e->identity.kind == MANAGED_UNKNOWN) /* stands for many functions, the name is for one */
        return 0;
    const char *text = intern_string(g->strings, name);
    if (!text)
        return -1;
    pthread_mutex_lock(&g->lock);
    int failed = propose_locked(e, rank, text, batch);
    pthread_mutex_unlock(&g->lock);
    return failed;
}

/* Which name is best, of the batches up to `batch`? NULL: none. *rank: its rank. */
static const struct name *best_name(const struct entry *e, uint64_t batch, unsigned *rank)
{
    for (*rank = NR_RANKS; (*rank)-- > 0;) {
        const struct name *n = atomic_load_explicit(&e->names[*rank], memory_order_acquire);
        if (n && n->batch <= batch)
            return n;
    }
    *rank = NAME_RANK_NONE;
    return NULL;
}

/* ---- places -------------------------------------------------------------------------------- */

/* Add a function to the two that were found first. Returns false if nothing changed. */
static bool add_found(struct found two[2], uint32_t id, uint64_t batch)
{
    struct found *to = two[0].id == id || !two[0].id ? &two[0] : &two[1];
    if (to->id && to->batch <= batch)
        return false;
    *to = (struct found){id, batch};
    if (two[1].id && two[1].batch < two[0].batch) {
        struct found first = two[1];
        two[1] = two[0];
        two[0] = first;
    }
    return true;
}

/* How many functions were found up to `batch`? 0, 1, or 2: several. */
static unsigned nr_found(const struct found two[2], uint64_t batch)
{
    return (two[0].id && two[0].batch <= batch) + (two[1].id && two[1].batch <= batch);
}

static int found_locked(struct entry *e, uint32_t id, enum managed_found how, uint64_t batch)
{
    struct at_place *have = atomic_load_explicit(&e->at_place, memory_order_relaxed);
    struct at_place now = have ? *have : (struct at_place){0};
    bool changed = false;
    for (unsigned i = 0; i <= how && i < MANAGED_NR_FOUND; i++)
        changed |= add_found(now.two[i], id, batch);
    if (!changed)
        return 0;
    struct at_place *p = malloc(sizeof(*p));
    if (!p)
        return -1;
    now.before = have;
    *p = now;
    atomic_store_explicit(&e->at_place, p, memory_order_release);
    return 0;
}

int managed_found_at(struct managed_names *g, uint32_t place, uint32_t id, enum managed_found how,
                     bool shared, uint64_t batch)
{
    uint32_t nr = atomic_load_explicit(&g->nr, memory_order_acquire);
    if (place == 0 || place > nr || id == 0 || id > nr || id == place)
        return 0;
    if (!shared)
        atomic_store_explicit(&entry_at(g, id)->place, place, memory_order_release);
    pthread_mutex_lock(&g->lock);
    int failed = found_locked(entry_at(g, place), id, how, batch);
    pthread_mutex_unlock(&g->lock);
    return failed;
}

/* The entry whose name is this one's: itself, or (*borrowed) the only function found at this place.
 * NULL: there are several, and so there is no name. */
static const struct entry *entry_with_name(const struct managed_names *g, const struct entry *e,
                                           uint64_t batch, bool *borrowed)
{
    const struct at_place *p = atomic_load_explicit(&e->at_place, memory_order_acquire);
    unsigned how = MANAGED_NR_FOUND, nr = 0;
    while (p && !nr && how-- > 0)
        nr = nr_found(p->two[how], batch);
    *borrowed = nr == 1;
    if (nr != 1)
        return nr ? NULL : e;
    return entry_at(g, p->two[how][0].id);
}

/* Was something read up to `batch` that contradicts the name? */
static bool is_disputed(const struct managed_names *g, const struct entry *e, uint64_t batch)
{
    uint32_t place = atomic_load_explicit(&e->place, memory_order_acquire);
    const struct name *n = atomic_load_explicit(&e->names[NAME_RANK_DEFINED], memory_order_acquire);
    const struct at_place *p =
        place ? atomic_load_explicit(&entry_at(g, place)->at_place, memory_order_acquire) : NULL;
    return (n && n->batch <= batch && n->other != NEVER && n->other <= batch) ||
           (p && nr_found(p->two[MANAGED_FOUND_REMAINS], batch) > 1);
}

static uint32_t digest_of(const struct managed_identity *i)
{
    bool stripped =
        i->kind == MANAGED_FUNCTION && i->language == FRAME_LUA && i->file && !i->line && i->salt;
    uint32_t digest = (uint32_t)(i->salt ^ i->salt >> 32);
    return stripped ? digest ? digest : 1 : 0;
}

bool managed_get(const struct managed_names *g, uint32_t id, uint64_t batch,
                 struct managed_function *ret)
{
    if (id == 0 || id > atomic_load_explicit(&g->nr, memory_order_acquire))
        return false;
    const struct entry *e = entry_at(g, id);
    const struct managed_identity *i = &e->identity;
    bool borrowed;
    unsigned rank = NAME_RANK_NONE;
    const struct entry *named = entry_with_name(g, e, batch, &borrowed);
    const struct name *best = named ? best_name(named, batch, &rank) : NULL;
    *ret = (struct managed_function){.kind = i->kind,
                                     .language = i->language,
                                     .rank = (uint8_t)rank,
                                     .borrowed = borrowed,
                                     .disputed = named && is_disputed(g, named, batch),
                                     .name = i->name               ? i->name
                                             : best && *best->text ? best->text
                                                                   : NULL,
                                     .file = i->file,
                                     .line = i->line,
                                     .column = i->column,
                                     .index = i->index,
                                     .digest = digest_of(i)};
    return true;
}

bool managed_name_is_guessed(const struct managed_function *f)
{
    return f->name && (f->borrowed || f->disputed || f->rank == NAME_RANK_UNTOLD ||
                       f->rank == NAME_RANK_UNTOLD_WEAK);
}

const char *managed_string(struct managed_names *g, const char *bytes, size_t size)
{
    return intern_bytes(g->strings, bytes, size);
}

void managed_unrecorded(uint8_t language, struct managed_function *ret)
{
    static const char *const names[] = {[FRAME_LUA] = "[lua: not recorded]",
                                        [FRAME_JS] = "[js: not recorded]",
                                        [FRAME_WASM] = "[wasm: not recorded]",
                                        [FRAME_MANAGED] = "[managed: not recorded]"};
    *ret = (struct managed_function){
        .kind = MANAGED_UNKNOWN, .language = language, .name = names[language]};
}

const char *managed_module(const struct managed_function *f)
{
    if (f->file)
        return f->file;
    static const char *const names[] = {[FRAME_LUA] = "[lua]",
                                        [FRAME_JS] = "[js]",
                                        [FRAME_WASM] = "[wasm]",
                                        [FRAME_MANAGED] = "[managed]"};
    return names[f->language];
}

void managed_join_name(char *name, size_t size, bool has_table, char separator, const char *key)
{
    size_t at = has_table ? strlen(name) : 0;
    if (at + 1 + strlen(key) + 1 > size)
        at = 0;
    if (at)
        name[at++] = separator;
    snprintf(name + at, size - at, "%s", key);
}

void managed_symbol(struct text *t, const struct managed_function *f)
{
    const char *name = f->kind == MANAGED_MAIN && !f->name ? "main chunk" : f->name;
    if (!name && !f->file)
        name = "?";
    if (name)
        text_string(t, name);
    if (!f->file || f->kind == MANAGED_BUILTIN)
        return;
    if (name)
        text_char(t, ' ');
    text_string(t, f->file);
    if (f->index)
        text_printf(t, ":wasm-function[%u]", f->index - 1);
    if (f->digest)
        text_printf(t, ":fn_%08x", f->digest);
    if (f->line)
        text_printf(t, ":%u", f->line);
    if (f->line && f->column)
        text_printf(t, ":%u", f->column);
}
