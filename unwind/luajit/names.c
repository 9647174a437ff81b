/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The cache of prototypes, and the proposals to the table of managed functions.
 *
 * Which batches of a recording a thread has seen before is a matter of chance, and must not change
 * results. So a batch's results are those that an empty cache at its beginning would give: a
 * prototype that is known from another batch is compared whole with the memory of now, and all
 * names are proposed again.
 */
#include "unwind/luajit/names.h"

#include "base/hash.h"
#include "base/vec.h"
#include "unwind/frame.h"
#include "unwind/luajit/names_builtins.h"
#include "unwind/luajit/names_call.h"
#include "unwind/luajit/names_scan.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    CACHE_BYTES_MAX = 64 << 20, /* bytes of cached prototypes; above, all are forgotten */
    CALLS = 4096,               /* number of cached call sites: a power of two */
    LEARN_MAX = 1 << 16,        /* prototypes learned at once, from one prototype */
    LEARN_PER_BATCH = 1 << 10, /* the same in batches whose numbers are no powers of two; each batch
                                  takes other ones */
    LEARN_BUDGET = 1 << 24,    /* budget for all of them: luajit_definition_name() */
};

/* A prototype that was read. */
struct known {
    struct known *next; /* next in its hash chain, or in the list of the dead */
    /* Its provenance is that of the last comparison. It is the same whether the prototype was read
     * now or was known, so that results do not depend on what a thread has seen before. */
    struct luajit_proto proto;
    const char *file;   /* from its chunk's name, interned. NULL: could not be read */
    uint32_t *children; /* positions of the instructions that make closures */
    uint32_t nr_children;
    uint64_t g;
    uint64_t batch;   /* batch in which it was last compared whole */
    uint64_t learned; /* 1 + the batch in which its children's names were last taken */
    uint64_t serial;  /* never used twice */
    uint64_t time;    /* time of the memory that it was last compared with */
    /* Times at which everything but the heads reads the same, with provenance `steady_provenance`;
     * empty where this is not known. */
    struct memory_span valid;
    uint8_t steady_provenance;
    uint32_t space;
    uint32_t function; /* managed function */
    uint32_t place;    /* managed function that stands for its place; 0: none is needed */
    uint32_t reading;  /* the same, for this place with what was read there; 0: too little was */
    uint64_t chunk;    /* luajit_proto_sampled_chunk() when it was last compared whole */
};

/* The name that a call instruction has for its function. */
struct call {
    uint64_t caller; /* serial of the caller's prototype; 0: the entry is free */
    uint64_t batch;
    uint32_t position;
    uint32_t function; /* function for which the name was last proposed */
    uint8_t rank;      /* rank of that proposal */
    uint16_t untold;   /* times since then at which the called function could not be told */
    const char *name;  /* NULL: no name */
    uint8_t kind;
};

struct luajit_names {
    struct managed_names *managed;
    struct known **chains;
    size_t nr_chains; /* a power of two */
    size_t nr, bytes;
    uint64_t last_serial;
    struct known *dead; /* removed from the cache, but perhaps still in use by the current call */
    uint8_t *scratch;   /* PROTO_MAX bytes, allocated at first need */
    uint64_t batch;     /* the current batch */
    struct call *calls;
    struct {
        const void *names;               /* names of the binary that `function` belongs to */
        uint32_t function[BUILTINS_MAX]; /* managed functions by ffid; 0: not looked up yet */
    } builtins;
    uint32_t unknown; /* the function that stands for unreadable ones */
    uint32_t c;       /* a C function without a native frame that could name it */
    VEC(struct known *) queue;
};

struct luajit_names *luajit_names_create(struct managed_names *managed)
{
    struct luajit_names *n = calloc(1, sizeof(*n));
    if (!n)
        return NULL;
    n->managed = managed;
    n->nr_chains = 1024;
    n->chains = calloc(n->nr_chains, sizeof(struct known *));
    n->calls = calloc(CALLS, sizeof(*n->calls));
    const struct managed_identity none = {.kind = MANAGED_UNKNOWN, .language = FRAME_LUA};
    const struct managed_identity c = {
        .kind = MANAGED_BUILTIN, .language = FRAME_LUA, .file = "[C]", .name = "[C]"};
    n->unknown = managed_intern(managed, &none);
    n->c = managed_intern(managed, &c);
    if (n->chains && n->calls && n->unknown && n->c)
        return n;
    luajit_names_free(n);
    return NULL;
}

static void known_free(struct known *k)
{
    luajit_proto_free(&k->proto);
    free(k->children);
    free(k);
}

static void bury_dead(struct luajit_names *n)
{
    while (n->dead) {
        struct known *k = n->dead;
        n->dead = k->next;
        known_free(k);
    }
}

static void forget_all(struct luajit_names *n)
{
    for (size_t i = 0; n->chains && i < n->nr_chains; i++)
        while (n->chains[i]) {
            struct known *k = n->chains[i];
            n->chains[i] = k->next;
            known_free(k);
        }
    n->nr = n->bytes = 0;
}

/* Free unneeded prototypes. Called between frames, when no prototype is in use. Only between
 * batches may a prototype be forgotten that the batch would not read again with the same
 * contents. */
static void tidy(struct luajit_names *n, uint64_t batch)
{
    bury_dead(n);
    if (n->bytes > CACHE_BYTES_MAX && batch != n->batch)
        forget_all(n);
    n->batch = batch;
}

void luajit_names_free(struct luajit_names *n)
{
    if (!n)
        return;
    bury_dead(n);
    forget_all(n);
    vec_free(&n->queue);
    free(n->scratch);
    free(n->chains);
    free(n->calls);
    free(n);
}

/* ---- prototypes ---------------------------------------------------------------------------- */

static uint64_t known_hash(uint32_t space, uint64_t g, uint64_t address)
{
    return hash_combine(hash_combine(address, g), space);
}

static void chains_grow(struct luajit_names *n)
{
    size_t nr = n->nr_chains * 4;
    struct known **chains = calloc(nr, sizeof(struct known *));
    if (!chains)
        return; /* longer chains work, too */
    for (size_t i = 0; i < n->nr_chains; i++)
        while (n->chains[i]) {
            struct known *k = n->chains[i];
            n->chains[i] = k->next;
            struct known **to = &chains[known_hash(k->space, k->g, k->proto.address) & (nr - 1)];
            k->next = *to;
            *to = k;
        }
    free(n->chains);
    n->chains = chains;
    n->nr_chains = nr;
}

/* The name of a Lua function that is part of LuaJIT: the chunk's name. The library's name is put
 * before it where only one function has that name. */
static void builtin_lua_name(const struct luajit_builtins *b, const char *file, char *out)
{
    static const char head[] = "[builtin:";
    char bare[BUILTIN_NAME_MAX];
    size_t size = strlen(file), skip = sizeof(head) - 1;
    snprintf(bare, sizeof(bare), "%.*s", (int)(size > skip ? size - skip - 1 : 0), file + skip);
    snprintf(out, PROTO_NAME_MAX, "%s", bare);
    const char *whole = NULL;
    for (unsigned i = 0; b && i < b->nr_lua; i++) {
        if (strcmp(b->lua[i].bare, bare) != 0)
            continue;
        if (whole)
            return;
        whole = b->lua[i].whole;
    }
    if (whole)
        snprintf(out, PROTO_NAME_MAX, "%s", whole);
}

/* The chunk's file; NULL: it cannot be read (*failed: memory is out). `doubtful`: it may be another
 * file. `same` is narrowed to the times that have the same answer. */
static const char *file_of(struct luajit_names *n, const struct luajit_names_source *s,
                           const struct luajit_proto *p, struct memory_span *same, bool *doubtful,
                           bool *failed)
{
    char file[PROTO_FILE_MAX];
    enum provenance ignored = PROVENANCE_EXACT; /* the string's head, which is part of p->head,
                                                   already counts */
    if (!luajit_proto_file(p, s->memory, file, &ignored, same, doubtful))
        return NULL;
    const char *kept = managed_string(n->managed, file, strlen(file));
    *failed |= !kept;
    return kept;
}

/* The managed function with this code (`salt`: its hash) at the prototype's place. Returns 0 when
 * memory is out, or there are too many functions. */
static uint32_t intern_proto(struct luajit_names *n, const struct luajit_names_source *s,
                             const struct luajit_proto *p, const char *file, uint64_t salt)
{
    char name[PROTO_NAME_MAX];
    const struct luajit_proto_head *h = &p->head;
    struct managed_identity i = {
        .kind = MANAGED_FUNCTION, .language = FRAME_LUA, .file = file, .salt = salt};
    if (h->firstline > 0)
        i.line = (uint32_t)h->firstline;
    if (h->firstline == 0 && h->numline > 0)
        i.kind = MANAGED_MAIN;
    if (h->firstline == -1) {
        builtin_lua_name(luajit_builtins_get(s->vm->layout->builtins), file, name);
        i.kind = MANAGED_BUILTIN;
        i.name = name;
    }
    return managed_intern(n->managed, &i);
}

/* Set the managed functions of a prototype. They are n->unknown when there is no chunk name.
 * Returns false when memory is out, or there are too many functions. */
static bool identify(struct luajit_names *n, const struct luajit_names_source *s, struct known *k)
{
    const struct luajit_proto *p = &k->proto;
    k->function = n->unknown;
    if (!k->file)
        return true;
    const uint64_t code = luajit_proto_hash(p, s->memory), place = luajit_proto_place(p);
    const bool stripped = p->head.firstline == 0 && p->head.numline == 0;
    const bool whole = p->copy && p->sound;
    k->function = intern_proto(n, s, p, k->file, code);
    if (!stripped)
        k->place = intern_proto(n, s, p, k->file, place);
    if (!stripped && whole)
        k->reading = intern_proto(n, s, p, k->file, hash_combine(place, code));
    return k->function && (stripped || (k->place && (k->reading || !whole)));
}

/* Collect the positions where closures are made. */
static bool find_children(struct known *k, const struct luajit_proto *p)
{
    uint32_t nr = 0;
    for (uint32_t at = 1; p->copy && at < p->head.sizebc; at++)
        nr += luajit_proto_bc(p, at).op == BC_FNEW;
    k->children = nr ? calloc(nr, sizeof(*k->children)) : NULL;
    if (nr && !k->children)
        return false;
    for (uint32_t at = 1; nr && at < p->head.sizebc; at++)
        if (luajit_proto_bc(p, at).op == BC_FNEW)
            k->children[k->nr_children++] = at;
    return true;
}

/* Lower the provenance when the file is not certain. */
static void mark_doubtful(struct luajit_proto *p, bool doubtful)
{
    if (doubtful && p->provenance < PROVENANCE_STALE)
        p->provenance = PROVENANCE_STALE;
}

/* Read a prototype that is not in the cache; NULL: there is none (*failed: memory is out). */
static struct known *known_read(struct luajit_names *n, const struct luajit_names_source *s,
                                uint64_t address, bool *failed)
{
    struct luajit_proto p;
    if (!luajit_proto_read(s->memory, s->vm->layout, address, &p))
        return NULL;
    struct known *k = calloc(1, sizeof(*k));
    if (n->nr >= n->nr_chains)
        chains_grow(n);
    bool doubtful = false;
    struct memory_span ignored = {0, UINT64_MAX};
    const char *file = file_of(n, s, &p, &ignored, &doubtful, failed);
    mark_doubtful(&p, doubtful);
    struct known **chain = &n->chains[known_hash(s->space, s->vm->g, address) & (n->nr_chains - 1)];
    if (k)
        *k = (struct known){.next = *chain,
                            .proto = p,
                            .file = file,
                            .batch = s->batch,
                            .g = s->vm->g,
                            .serial = ++n->last_serial,
                            .time = s->memory->time,
                            .valid = {1, 0},
                            .space = s->space,
                            .chunk = luajit_proto_sampled_chunk(&p, s->memory)};
    if (!k || *failed || !identify(n, s, k) || !find_children(k, &p)) {
        *failed = true;
        luajit_proto_free(&p);
        free(k);
        return NULL;
    }
    *chain = k;
    n->nr++;
    n->bytes += sizeof(*k) + (p.copy ? p.head.sizept : 0);
    return k;
}

static void known_remove(struct luajit_names *n, struct known **link)
{
    struct known *k = *link;
    *link = k->next;
    n->nr--;
    n->bytes -= sizeof(*k) + (k->proto.copy ? k->proto.head.sizept : 0);
    k->next = n->dead;
    n->dead = k;
}

/* Would a new reading give exactly the same? `block`: the answer for the block. `same` is narrowed
 * to the times that have the same result. */
static bool known_equals(struct luajit_names *n, const struct luajit_names_source *s,
                         const struct known *k, struct memory_answer *block,
                         struct memory_span *same, bool *doubtful, bool *failed)
{
    const struct memory_query q = {
        .address = k->proto.address, .size = k->proto.head.sizept, .time = s->memory->time};
    if (!n->scratch)
        n->scratch = malloc(PROTO_MAX);
    *failed |= !n->scratch;
    if (!n->scratch || !k->proto.copy || !memory_ask(s->memory, &q, n->scratch, block))
        return false;
    memory_span_narrow(same, &block->same);
    return luajit_proto_block_equal(&k->proto, n->scratch) &&
           file_of(n, s, &k->proto, same, doubtful, failed) == k->file;
}

/* Does exactly one layer know more than its bytes, and does it also tell for how long? */
static bool tells_spans(const struct memory *m)
{
    unsigned provers = 0, tellers = 0;
    for (size_t i = 0; i < m->nr_layers; i++) {
        provers += m->layers[i].prove || m->layers[i].unlike;
        tellers += m->layers[i].has_moments;
    }
    return provers == 1 && tellers == 1;
}

/* Given equal heads, is everything else known to be equal? Memory that came with the sample is not
 * part of the log: a chunk's name that came with it must be the one that came when the log was
 * compared. */
static bool is_steady(const struct luajit_names_source *s, const struct known *k)
{
    const struct memory *m = s->memory;
    const struct luajit_layout *l = s->vm->layout;
    if (!(k->valid.from <= m->time && m->time <= k->valid.to) || !tells_spans(m) ||
        memory_is_instant(m, k->proto.address + (uint64_t)l->proto_size))
        return false;
    return !memory_is_instant(m, k->proto.head.chunkname + (uint64_t)l->str_size) ||
           (k->chunk && k->chunk == luajit_proto_sampled_chunk(&k->proto, m));
}

/* Compare the whole prototype, and note the span for which the log says the same. */
static bool known_compare(struct luajit_names *n, const struct luajit_names_source *s,
                          struct known *k, enum provenance head, bool *failed)
{
    const struct memory *m = s->memory;
    struct memory_span same = {0, UINT64_MAX};
    struct memory_answer block;
    bool doubtful = false;
    memory_span_empty(&k->valid);
    if (!known_equals(n, s, k, &block, &same, &doubtful, failed))
        return false;
    luajit_proto_prove(&k->proto, m, head, block.provenance, &same);
    mark_doubtful(&k->proto, doubtful);
    if (tells_spans(m) && head == PROVENANCE_EXACT && !k->proto.another)
        k->valid = same;
    k->steady_provenance = k->proto.provenance;
    k->chunk = luajit_proto_sampled_chunk(&k->proto, m);
    return true;
}

/* Is the prototype still at its address? For one time this is checked once. At another time
 * everything is checked: functions that are loaded again have the same headers at the same
 * addresses, and so do the remains of dead ones. */
static bool known_check(struct luajit_names *n, const struct luajit_names_source *s,
                        struct known *k, bool *failed)
{
    struct luajit_proto_head now;
    enum provenance head = PROVENANCE_EXACT;
    if (k->batch == s->batch && k->time == s->memory->time)
        return true;
    if (!luajit_proto_head_read(s->memory, s->vm->layout, k->proto.address, &now, &head) ||
        !luajit_proto_head_equal(&now, &k->proto.head))
        return false;
    if (is_steady(s, k))
        k->proto.provenance = head > k->steady_provenance ? head : k->steady_provenance;
    else if (!known_compare(n, s, k, head, failed))
        return false;
    k->batch = s->batch;
    k->time = s->memory->time;
    return true;
}

/* The prototype at an address at the source's time. Known prototypes are compared with memory.
 * NULL: there is none. `provenance` is raised to the weakest source. */
static struct known *known_get(struct luajit_names *n, const struct luajit_names_source *s,
                               uint64_t address, enum provenance *provenance, bool *failed)
{
    struct known **link = &n->chains[known_hash(s->space, s->vm->g, address) & (n->nr_chains - 1)];
    while (*link && ((*link)->proto.address != address || (*link)->g != s->vm->g ||
                     (*link)->space != s->space))
        link = &(*link)->next;
    struct known *k = *link;
    if (k && !known_check(n, s, k, failed)) {
        known_remove(n, link);
        k = NULL;
    }
    if (!k)
        k = known_read(n, s, address, failed);
    if (k && k->proto.provenance > *provenance)
        *provenance = k->proto.provenance;
    return k;
}

/* ---- names from definitions ------------------------------------------------------------------ */

static bool is_method_function(const struct luajit_proto *p)
{
    char name[PROTO_NAME_MAX];
    uint32_t budget = 1;
    const char *first =
        p->head.numparams && p->head.sizebc > 1 ? luajit_proto_local(p, 0, 1, name, &budget) : NULL;
    return first && strcmp(first, "self") == 0;
}

/* Was the child made with the parent? The parent may be dead, and the child's address may since
 * belong to another prototype. */
static bool is_child(const struct luajit_proto_head *parent, const struct luajit_proto_head *child)
{
    bool inside =
        child->firstline >= parent->firstline &&
        (int64_t)child->firstline + child->numline <= (int64_t)parent->firstline + parent->numline;
    return child->chunkname == parent->chunkname && inside;
}

/* Take the name that a prototype gives to the function it makes at `at`, and append that function
 * to the queue. */
static int learn_child(struct luajit_names *n, const struct luajit_names_source *s,
                       const struct known *k, uint32_t at, uint32_t *budget)
{
    char name[LUAJIT_DEFINED_MAX];
    bool failed = false;
    struct bc bc = luajit_proto_bc(&k->proto, at);
    uint64_t address = luajit_proto_constant(&k->proto, bc.d);
    enum provenance ignored = PROVENANCE_EXACT;
    enum name_rank rank = NAME_RANK_DEFINED;
    struct known *child = address ? known_get(n, s, address, &ignored, &failed) : NULL;
    if (failed)
        return -1;
    if (!child || child == k || !is_child(&k->proto.head, &child->proto.head))
        return 0;
    if (k->proto.another || child->proto.another) /* the readings may be of two loads of the code,
                                                     which may have other names */
        return child->learned == s->batch + 1 || vec_push(&n->queue, child) ? 0 : -1;
    if (!luajit_definition_name(&k->proto, s->memory, at, is_method_function(&child->proto), budget,
                                name)) {
        rank = NAME_RANK_NAMELESS;
        *name = 0;
    }
    if (managed_propose_name(n->managed, child->function, rank, name, s->batch))
        return -1;
    return child->learned == s->batch + 1 || vec_push(&n->queue, child) ? 0 : -1;
}

/* Note that this function is at its place. A sample that proves the place borrows the name of what
 * was read there at another moment; if nothing was, the name of the only function that ever was. */
static int note_place(struct luajit_names *n, const struct luajit_names_source *s,
                      const struct known *k)
{
    const struct luajit_proto *p = &k->proto;
    bool exact = p->provenance == PROVENANCE_EXACT;
    if (!k->reading)
        return 0;
    if (managed_found_at(n->managed, k->reading, k->function, MANAGED_FOUND_WHOLE, true, s->batch))
        return -1;
    return p->another ? 0
                      : managed_found_at(n->managed, k->place, k->function,
                                         exact ? MANAGED_FOUND_WHOLE : MANAGED_FOUND_REMAINS, true,
                                         s->batch);
}

/* Take the names that one prototype gives, at most `limit`. */
static int learn_one(struct luajit_names *n, const struct luajit_names_source *s, struct known *k,
                     size_t limit, uint32_t *budget)
{
    uint32_t nr = k->nr_children;
    uint64_t first =
        nr > LEARN_PER_BATCH && limit < LEARN_MAX ? s->batch * LEARN_PER_BATCH % nr : 0;
    k->learned = s->batch + 1;
    if (note_place(n, s, k))
        return -1;
    for (uint32_t i = 0; i < nr && i < limit; i++)
        if (learn_child(n, s, k, k->children[(first + i) % nr], budget))
            return -1;
    return 0;
}

/* Take the names of all functions that are defined in a prototype, and in these. A program's main
 * chunk may define thousands: not all of them are named again in each batch. */
static int learn(struct luajit_names *n, const struct luajit_names_source *s, struct known *k)
{
    if (k->learned == s->batch + 1)
        return 0;
    uint32_t budget = LEARN_BUDGET;
    size_t limit = s->batch & (s->batch - 1) ? LEARN_PER_BATCH : LEARN_MAX;
    n->queue.nr = 0;
    int failed = learn_one(n, s, k, limit, &budget);
    for (size_t i = 0; i < n->queue.nr && i < limit && !failed; i++)
        if (n->queue.at[i]->learned != s->batch + 1)
            failed = learn_one(n, s, n->queue.at[i], limit - i, &budget);
    return failed;
}

int luajit_names_learn(struct luajit_names *n, const struct luajit_names_source *source,
                       uint64_t proto, struct error *err)
{
    enum provenance ignored = PROVENANCE_EXACT;
    bool failed = false;
    tidy(n, source->batch);
    struct known *k = known_get(n, source, proto, &ignored, &failed);
    if (failed || (k && learn(n, source, k)))
        return error_no_memory(err);
    return 0;
}

/* ---- names from calls ------------------------------------------------------------------------ */

/* The name that the instruction has for its function, from the cache of call sites or read now. */
static struct call *call_get(struct luajit_names *n, const struct luajit_names_source *s,
                             const struct known *caller, uint32_t position, bool *failed)
{
    struct call *c = &n->calls[hash_combine(caller->serial, position) & (CALLS - 1)];
    if (c->caller == caller->serial && c->position == position && c->batch == s->batch)
        return c;
    char name[PROTO_NAME_MAX];
    *c = (struct call){.caller = caller->serial, .batch = s->batch, .position = position};
    c->kind = (uint8_t)luajit_call_name(&caller->proto, s->memory, position, name);
    if (c->kind == LUAJIT_NAME_NONE)
        return c;
    c->name = managed_string(n->managed, name, strlen(name));
    *failed = !c->name;
    return c;
}

static enum name_rank rank_of(const struct call *c, enum provenance provenance,
                              enum luajit_callee callee)
{
    /* A loop's hidden variable, "(for generator)", is no function's name. */
    if (provenance == PROVENANCE_GUESS || *c->name == '(')
        return NAME_RANK_NONE;
    bool strong = c->kind == LUAJIT_NAME_GLOBAL || c->kind == LUAJIT_NAME_METHOD ||
                  c->kind == LUAJIT_NAME_FIELD;
    if (callee == LUAJIT_CALLEE_UNTOLD)
        return strong ? NAME_RANK_UNTOLD : NAME_RANK_UNTOLD_WEAK;
    if (provenance == PROVENANCE_EXACT)
        return strong ? NAME_RANK_CALL : NAME_RANK_CALL_WEAK;
    return strong ? NAME_RANK_DOUBTFUL : NAME_RANK_DOUBTFUL_WEAK;
}

/* Was this name already proposed for the function, with the same or a better rank? A proposal whose
 * called function could not be told is checked again, at growing intervals: a recorder's walk may
 * have used up its reads, and memory that it does not read will not be in the recording. */
static bool is_named_already(struct call *c, uint32_t function, enum name_rank rank)
{
    if (c->function != function || c->rank < rank)
        return false;
    if (!c->untold)
        return true;
    c->untold++;
    return (c->untold & (c->untold - 1u)) != 0;
}

static int name_from_call(struct luajit_names *n, const struct luajit_names_source *s,
                          const struct luajit_frame *f, struct luajit_named *ret)
{
    bool failed = false;
    uint64_t code = f->caller_proto + (uint64_t)s->vm->layout->proto_size;
    if (!f->caller_proto || f->caller_pc <= code || (f->caller_pc - code) % 4)
        return 0;
    enum provenance ignored = PROVENANCE_EXACT;
    struct known *caller = known_get(n, s, f->caller_proto, &ignored, &failed);
    uint64_t position = (f->caller_pc - code) / 4 - 1;
    if (failed || (caller && learn(n, s, caller)))
        return -1;
    if (!caller || position >= caller->proto.head.sizebc)
        return 0;
    struct call *c = call_get(n, s, caller, (uint32_t)position, &failed);
    if (failed)
        return -1;
    ret->callname = c->name;
    ret->callkind = c->kind;
    if (!c->name || f->kind != LUAJIT_FRAME_LUA || !ret->whole)
        return 0;
    enum provenance weakest =
        s->provenance > ret->whole_provenance ? s->provenance : ret->whole_provenance;
    if (caller->proto.another && weakest == PROVENANCE_EXACT)
        weakest = PROVENANCE_STALE;
    enum name_rank rank = rank_of(c, weakest, LUAJIT_CALLEE_SAME);
    if (!rank || is_named_already(c, ret->whole, rank))
        return 0;
    enum luajit_callee callee =
        luajit_callee_check(&caller->proto, s->memory, f, c->position, s->provenance);
    /* This counters a proposal by another sample, with less of it recorded, that could not tell the
     * called function. */
    if (callee == LUAJIT_CALLEE_ANOTHER)
        return managed_propose_name(n->managed, ret->whole, NAME_RANK_TAIL, "", s->batch);
    rank = rank_of(c, weakest, callee);
    if (callee == LUAJIT_CALLEE_SAME || c->function != ret->whole)
        c->untold = callee == LUAJIT_CALLEE_UNTOLD;
    c->function = ret->whole;
    c->rank = (uint8_t)rank;
    return managed_propose_name(n->managed, ret->whole, rank, c->name, s->batch);
}

/* ---- frames -------------------------------------------------------------------------------- */

static int name_lua(struct luajit_names *n, const struct luajit_names_source *s,
                    const struct luajit_frame *f, struct luajit_named *ret)
{
    bool failed = false;
    enum provenance whole = PROVENANCE_EXACT;
    struct known *k = f->proto ? known_get(n, s, f->proto, &whole, &failed) : NULL;
    if (failed)
        return -1;
    if (!k || k->function == n->unknown) {
        ret->function = n->unknown;
        ret->provenance = PROVENANCE_GUESS;
        return 0;
    }
    bool by_place = whole != PROVENANCE_EXACT && k->place &&
                    luajit_proto_sampled_chunk(&k->proto, s->memory) != 0;
    ret->function = !by_place ? k->function : k->reading ? k->reading : k->place;
    ret->whole = k->function;
    ret->whole_provenance = whole;
    if (!by_place)
        ret->provenance = whole;
    if (f->position >= 0)
        ret->line =
            luajit_proto_line(&k->proto, s->memory, (uint32_t)f->position, &ret->provenance);
    if (!by_place) /* the line is part of the reading */
        ret->whole_provenance = ret->provenance;
    return learn(n, s, k);
}

static int name_builtin(struct luajit_names *n, const struct luajit_names_source *s,
                        const struct luajit_frame *f, struct luajit_named *ret)
{
    const struct luajit_builtins *b = luajit_builtins_get(s->vm->layout->builtins);
    char number[32];
    if (n->builtins.names != b) {
        memset(&n->builtins, 0, sizeof(n->builtins));
        n->builtins.names = b;
    }
    uint32_t *function = &n->builtins.function[f->ffid];
    if (!*function) {
        snprintf(number, sizeof(number), "builtin#%u", f->ffid);
        const struct managed_identity i = {.kind = MANAGED_BUILTIN,
                                           .language = FRAME_LUA,
                                           .file = "[builtin]",
                                           .name =
                                               b && *b->name[f->ffid] ? b->name[f->ffid] : number};
        *function = managed_intern(n->managed, &i);
    }
    ret->function = *function;
    return ret->function ? 0 : -1;
}

int luajit_names_frame(struct luajit_names *n, const struct luajit_names_source *source,
                       const struct luajit_frame *frame, struct luajit_named *ret,
                       struct error *err)
{
    *ret = (struct luajit_named){0};
    int failed = 0;
    tidy(n, source->batch);
    if (frame->kind == LUAJIT_FRAME_LUA)
        failed = name_lua(n, source, frame, ret);
    else if (frame->kind == LUAJIT_FRAME_BUILTIN)
        failed = name_builtin(n, source, frame, ret);
    else if (frame->kind == LUAJIT_FRAME_C)
        ret->function = n->c;
    else
        *ret = (struct luajit_named){.function = n->unknown, .provenance = PROVENANCE_GUESS};
    if (!failed)
        failed = name_from_call(n, source, frame, ret);
    return failed ? error_no_memory(err) : 0;
}
