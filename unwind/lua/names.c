/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The cache of prototypes, and the proposals to the table of managed functions.
 *
 * Which batches of a recording a thread has seen before is a matter of chance, and must not change
 * results. So a batch's results are those that an empty cache at its beginning would give: a
 * prototype that is known from another batch is compared whole with the memory of now, all names
 * are proposed again, and the libraries are read again.
 */
#include "unwind/lua/names.h"

#include "base/hash.h"
#include "base/vec.h"
#include "unwind/frame.h"
#include "unwind/lua/names_library.h"
#include "unwind/lua/names_scan.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    CACHE_BYTES_MAX = 64 << 20, /* bytes of cached prototypes; above, all are forgotten */
    CALLS = 4096,               /* number of cached call sites: a power of two */
    MEMOS = 2048,               /* number of calls whose names are kept: a power of two */
    LEARN_MAX = 1 << 16,        /* prototypes learned at once, from one prototype */
    LEARN_AGAIN_NS = 1000000,   /* from a try to learn to the next; then twice that, and so on */
    LEARN_PER_BATCH = 1 << 10, /* the same in batches whose numbers are no powers of two; each batch
                                  takes other ones */
    LEARN_BUDGET = 1 << 24,    /* budget for all of them: lua_definition_name() */
    HEAD_READS = 2,            /* reads for the head of a prototype */
    PLACE_READS = 64,          /* reads for a prototype's place and lines */
    READS = 1 << 16,           /* reads for one prototype, or for one VM's libraries */
    LIBRARIES_MAX = 256,       /* VMs whose libraries are kept */
    LIVE_LIBRARIES_MAX = 8,    /* ... and are read of a process that runs */
    DEEP_READS = 1 << 14,      /* reads for what is reached from a VM's libraries */
};

#define LIBRARY_AGE_NS UINT64_C(1000000000)  /* a library may have been loaded since */
#define COMPARE_WHOLE_NS UINT64_C(100000000) /* a live prototype is compared whole this often */

/* A function that a prototype makes. */
struct child {
    uint32_t at; /* place of the instruction */
    /* The name that it gives, as it was last found; interned. NULL: none. */
    const char *name;
    struct memory_span valid; /* times at which a search finds the same */
    uint64_t serial;          /* of the function's prototype; 0: nobody has searched */
    uint32_t cost;            /* of the search, out of its budget */
};

/* A prototype that was read. */
struct known {
    struct known *next; /* next in its hash chain, or in the list of the dead */
    struct lua_code code;
    const char *file; /* from its chunk's name, interned. NULL: could not be read */
    struct child *children;
    uint32_t nr_children;
    uint64_t batch;   /* batch in which it was last compared */
    uint64_t learned; /* 1 + the batch in which its children's names were last taken */
    uint64_t again;   /* time at which they are taken again in that batch: some could not be read */
    uint64_t wait;    /* until then; it doubles. 0: all could be read */
    uint64_t stored;  /* 1 + the batch in which its name in the VM was last taken */
    uint64_t serial;  /* never used twice */
    uint64_t time;    /* time of the memory that it was last compared with */
    uint64_t whole;   /* the same, of its last comparison as a whole */
    struct lua_proof proof;
    uint32_t space;
    uint32_t function; /* managed function */
    uint32_t place;    /* managed function that stands for its place; 0: it is not known */
    uint8_t provenance;
};

/* The name that a call instruction has for its function. */
struct call_site {
    uint64_t caller; /* serial of the caller's prototype; 0: the entry is free */
    uint64_t batch;
    uint32_t index;
    uint32_t function; /* function for which the name was last proposed */
    uint8_t rank;      /* rank of that proposal */
    uint8_t kind;
    const char *name;         /* NULL: no name */
    struct memory_span valid; /* times at which the name is the same */
};

/* What decides how a call is named, beside memory. */
struct memo_key {
    uint64_t callee, caller; /* prototype, or address of a C function; 0: not known */
    const struct lua_layout *layout;
    uint64_t global, batch, removed;
    uint32_t index, caller_index, space;
    uint16_t flags;
    uint8_t provenance; /* of the walk */
};

/* A call that was named in this batch. The names are the same as long as the prototypes are. */
struct memo {
    struct memo_key key;
    struct known *callee, *caller; /* NULL: the names do not depend on one */
    struct lua_named named;
};

/* The libraries of a VM. */
struct vm_library {
    uint64_t global, batch, time;
    const struct lua_layout *layout;
    struct memory_span valid; /* times at which a reading gives the same */
    uint32_t space;
    struct lua_library library;
};

struct lua_names {
    struct managed_names *managed;
    struct known **chains;
    size_t nr_chains; /* a power of two */
    size_t nr, bytes;
    uint64_t last_serial;
    struct known *dead; /* removed from the cache, but perhaps still in use by the current call */
    uint64_t batch;     /* the current batch */
    uint64_t removed;   /* raised when a prototype or a library is removed */
    struct call_site *calls;
    struct memo *memos;
    VEC(struct vm_library) libraries;
    size_t last_library;
    uint32_t unknown; /* the function that stands for unreadable ones */
    uint32_t c;       /* a C function that no library has */
    VEC(struct known *) queue;
    bool unread; /* a prototype that another one makes could not be read */
};

const char *lua_name_kind_text(enum lua_name_kind kind)
{
    static const char *const texts[] = {"",       "local", "upvalue",    "constant",     "global",
                                        "method", "field", "metamethod", "for iterator", "hook"};
    return texts[kind];
}

struct lua_names *lua_names_create(struct managed_names *managed)
{
    struct lua_names *n = calloc(1, sizeof(*n));
    if (!n)
        return NULL;
    n->managed = managed;
    n->nr_chains = 1024;
    n->chains = calloc(n->nr_chains, sizeof(struct known *));
    n->calls = calloc(CALLS, sizeof(*n->calls));
    n->memos = calloc(MEMOS, sizeof(*n->memos));
    n->removed = 1; /* no free memo is of now */
    const struct managed_identity none = {.kind = MANAGED_UNKNOWN, .language = FRAME_LUA};
    const struct managed_identity c = {
        .kind = MANAGED_BUILTIN, .language = FRAME_LUA, .file = "[C]", .name = "[C]"};
    n->unknown = managed_intern(managed, &none);
    n->c = managed_intern(managed, &c);
    if (n->chains && n->calls && n->memos && n->unknown && n->c)
        return n;
    lua_names_free(n);
    return NULL;
}

static void known_free(struct known *k)
{
    lua_code_free(&k->code);
    lua_proof_free(&k->proof);
    free(k->children);
    free(k);
}

static void bury_dead(struct lua_names *n)
{
    while (n->dead) {
        struct known *k = n->dead;
        n->dead = k->next;
        known_free(k);
    }
}

static void forget_all(struct lua_names *n)
{
    for (size_t i = 0; n->chains && i < n->nr_chains; i++)
        while (n->chains[i]) {
            struct known *k = n->chains[i];
            n->chains[i] = k->next;
            known_free(k);
        }
    n->nr = n->bytes = 0;
    n->removed++;
}

static void forget_libraries(struct lua_names *n)
{
    vec_foreach (l, &n->libraries)
        lua_library_free(&l->library);
    n->libraries.nr = n->last_library = 0;
    n->removed++;
}

/* Free unneeded prototypes. Called between calls, when no prototype is in use. Only between batches
 * may a prototype be forgotten that the batch would not read again with the same contents. */
static void tidy(struct lua_names *n, uint64_t batch)
{
    bury_dead(n);
    if (n->bytes > CACHE_BYTES_MAX && batch != n->batch)
        forget_all(n);
    if (n->libraries.nr > LIBRARIES_MAX && batch != n->batch)
        forget_libraries(n);
    n->batch = batch;
}

void lua_names_free(struct lua_names *n)
{
    if (!n)
        return;
    bury_dead(n);
    forget_all(n);
    forget_libraries(n);
    vec_free(&n->libraries);
    vec_free(&n->queue);
    free(n->chains);
    free(n->calls);
    free(n->memos);
    free(n);
}

/* ---- prototypes ---------------------------------------------------------------------------- */

static uint64_t known_hash(uint32_t space, uint64_t address)
{
    return hash_combine(address, space);
}

static void chains_grow(struct lua_names *n)
{
    size_t nr = n->nr_chains * 4;
    struct known **chains = calloc(nr, sizeof(struct known *));
    if (!chains)
        return; /* longer chains work, too */
    for (size_t i = 0; i < n->nr_chains; i++)
        while (n->chains[i]) {
            struct known *k = n->chains[i];
            n->chains[i] = k->next;
            struct known **to = &chains[known_hash(k->space, k->code.proto.address) & (nr - 1)];
            k->next = *to;
            *to = k;
        }
    free(n->chains);
    n->chains = chains;
    n->nr_chains = nr;
}

/* The chunk's file; NULL: it cannot be read (*failed: memory is out). */
static const char *file_of(struct lua_names *n, struct lua_asker *a, const struct lua_code *c,
                           bool *failed)
{
    char file[LUA_FILE_SIZE];
    if (!lua_code_file(a, c, file))
        return NULL;
    const char *kept = managed_string(n->managed, file, strlen(file));
    *failed |= !kept;
    return kept;
}

/* The managed function with this code (`salt`: its hash) at the prototype's place. Returns 0 when
 * memory is out, or there are too many functions. */
static uint32_t intern_code(struct lua_names *n, const struct lua_code *c, const char *file,
                            uint64_t salt)
{
    const struct managed_identity i = {.kind =
                                           c->proto.line_defined ? MANAGED_FUNCTION : MANAGED_MAIN,
                                       .language = FRAME_LUA,
                                       .file = file,
                                       .line = c->proto.line_defined,
                                       .salt = salt};
    return managed_intern(n->managed, &i);
}

/* Set the managed functions of a prototype. They are n->unknown when there is no chunk name.
 * Returns false when memory is out, or there are too many functions. */
static bool identify(struct lua_names *n, struct lua_asker *a, struct known *k)
{
    k->function = n->unknown;
    if (!k->file)
        return true;
    const bool has_place = k->code.proto.source;
    k->function = intern_code(n, &k->code, k->file, lua_code_hash(a, &k->code));
    if (has_place)
        k->place = intern_code(n, &k->code, k->file, lua_code_place(&k->code));
    return k->function && (k->place || !has_place);
}

/* Collect the places where closures are made. */
static bool find_children(struct known *k)
{
    uint32_t nr = 0;
    for (uint32_t at = 0; k->code.proto.nr_protos && at < k->code.nr[LUA_PART_CODE]; at++)
        nr += lua_code_insn(&k->code, at).op == LUA_OP_CLOSURE;
    k->children = nr ? calloc(nr, sizeof(*k->children)) : NULL;
    if (nr && !k->children)
        return false;
    for (uint32_t at = 0; k->nr_children < nr; at++)
        if (lua_code_insn(&k->code, at).op == LUA_OP_CLOSURE)
            k->children[k->nr_children++].at = at;
    return true;
}

/* A function without code may be the remains of a dead one. */
static uint8_t provenance_of(const struct known *k, uint8_t weakest)
{
    return k->code.nr[LUA_PART_CODE] || weakest > PROVENANCE_STALE ? weakest : PROVENANCE_STALE;
}

/* Read a prototype that is not in the cache; NULL: there is none (*failed: memory is out). */
static struct known *known_read(struct lua_names *n, const struct lua_names_source *s,
                                uint64_t address, bool *failed)
{
    struct lua_asker a;
    const struct memory *m = s->reader->m;
    struct known *k = calloc(1, sizeof(*k));
    *failed |= !k;
    if (!k)
        return NULL;
    lua_asker_begin(&a, m, s->reader->layout, READS);
    a.proof = &k->proof;
    int read = lua_code_read(&a, address, &k->code);
    *failed |= read < 0;
    if (read > 0) {
        k->file = file_of(n, &a, &k->code, failed);
        a.proof = NULL;
        k->provenance = provenance_of(k, (uint8_t)a.reader.provenance);
    }
    if (read <= 0 || *failed || !identify(n, &a, k) || !find_children(k)) {
        *failed |= read > 0;
        known_free(k);
        return NULL;
    }
    if (n->nr >= n->nr_chains)
        chains_grow(n);
    struct known **chain = &n->chains[known_hash(s->space, address) & (n->nr_chains - 1)];
    k->next = *chain;
    k->batch = s->batch;
    k->serial = ++n->last_serial;
    k->time = k->whole = m->time;
    k->space = s->space;
    *chain = k;
    n->nr++;
    n->bytes += sizeof(*k) + lua_code_size(&k->code);
    return k;
}

static void known_remove(struct lua_names *n, struct known **link)
{
    struct known *k = *link;
    *link = k->next;
    n->removed++;
    n->nr--;
    n->bytes -= sizeof(*k) + lua_code_size(&k->code);
    k->next = n->dead;
    n->dead = k;
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

static bool is_in(const struct memory_span *span, const struct memory *m)
{
    return span->from <= m->time && m->time <= span->to && tells_spans(m);
}

/* Returns whether the prototype is the same as far as the memory log tells, and what came with the
 * sample. */
static bool is_steady(struct known *k, const struct memory *m)
{
    uint8_t weakest = PROVENANCE_EXACT;
    if (!tells_spans(m) || !lua_proof_holds(&k->proof, m, &weakest))
        return false;
    k->provenance = provenance_of(k, weakest);
    return true;
}

/* Was all of it read a moment ago? Of memory that has no other moments (a process that runs) the
 * head is then enough. */
static bool is_recent(const struct lua_names_source *s, const struct known *k)
{
    const struct memory *m = s->reader->m;
    return k->batch == s->batch && m->time >= k->whole && m->time - k->whole < COMPARE_WHOLE_NS &&
           !memory_has_moments(m);
}

/* Compare all of a prototype with memory. */
static bool known_compare(struct lua_names *n, const struct lua_names_source *s, struct known *k,
                          bool *failed)
{
    struct lua_asker a;
    struct lua_proof proof = {0};
    lua_asker_begin(&a, s->reader->m, s->reader->layout, READS);
    a.proof = &proof;
    int same = lua_code_check(&a, &k->code);
    *failed |= same < 0;
    if (same <= 0 || file_of(n, &a, &k->code, failed) != k->file) {
        lua_proof_free(&proof);
        return false;
    }
    lua_proof_free(&k->proof);
    k->proof = proof;
    k->provenance = provenance_of(k, (uint8_t)a.reader.provenance);
    k->whole = s->reader->m->time;
    return true;
}

/* Compare the head alone. */
static bool head_compare(const struct lua_names_source *s, const struct known *k)
{
    struct lua_reader head = {.m = s->reader->m, .layout = s->reader->layout, .budget = HEAD_READS};
    return lua_code_check_head(&head, &k->code);
}

/* Is the prototype still at its address? For one time this is checked once. At another time all of
 * it is compared: a function that is loaded again may have the same head at the same address. */
static bool known_check(struct lua_names *n, const struct lua_names_source *s, struct known *k,
                        bool *failed)
{
    if (k->batch == s->batch && k->time == s->reader->m->time)
        return true;
    if (k->code.layout != s->reader->layout)
        return false;
    bool same = is_steady(k, s->reader->m) ||
                (is_recent(s, k) ? head_compare(s, k) : known_compare(n, s, k, failed));
    if (!same)
        return false;
    k->batch = s->batch;
    k->time = s->reader->m->time;
    return true;
}

/* Where the pointer to the prototype at an address is, or would be. */
static struct known **known_link(const struct lua_names *n, const struct lua_names_source *s,
                                 uint64_t address)
{
    struct known **link = &n->chains[known_hash(s->space, address) & (n->nr_chains - 1)];
    while (*link && ((*link)->code.proto.address != address || (*link)->space != s->space))
        link = &(*link)->next;
    return link;
}

/* The prototype at an address at the source's time. Known prototypes are compared with memory.
 * NULL: there is none. `provenance` is raised to the weakest source. */
static struct known *known_get(struct lua_names *n, const struct lua_names_source *s,
                               uint64_t address, uint8_t *provenance, bool *failed)
{
    struct known **link = known_link(n, s, address);
    struct known *k = *link;
    if (k && !known_check(n, s, k, failed)) {
        known_remove(n, link);
        k = NULL;
    }
    if (!k && address)
        k = known_read(n, s, address, failed);
    if (k && k->provenance > *provenance)
        *provenance = k->provenance;
    return k;
}

/* ---- names from definitions ------------------------------------------------------------------ */

/* Was the child made with the parent? The parent may be dead, and the child's address may since
 * belong to another prototype. */
static bool is_child(const struct lua_proto *parent, const struct lua_proto *child)
{
    bool inside = !parent->line_defined || (child->line_defined >= parent->line_defined &&
                                            child->last_line_defined <= parent->last_line_defined);
    return inside && (child->source == parent->source || !child->source);
}

/* Find the name that a prototype gives to a function it makes. */
static int search_child(struct lua_names *n, const struct lua_names_source *s,
                        const struct known *k, const struct known *made, struct child *c,
                        uint32_t *budget)
{
    char name[LUA_DEFINED_SIZE];
    struct lua_asker a;
    const uint32_t before = *budget;
    lua_asker_begin(&a, s->reader->m, s->reader->layout, READS);
    bool is_named = lua_definition_name(&a, &k->code, c->at, &made->code, budget, name);
    c->name = is_named ? managed_string(n->managed, name, strlen(name)) : NULL;
    c->valid = a.same;
    c->serial = made->serial;
    c->cost = before - *budget;
    return is_named && !c->name ? -1 : 0;
}

/* Have the names been taken that a prototype gives? A recorder may have read the prototype before
 * those that it makes: they are tried again later. */
static bool is_learned(const struct known *k, const struct lua_names_source *s)
{
    return k->learned == s->batch + 1 && (!k->wait || s->reader->m->time < k->again);
}

/* Take the name that a prototype gives to a function it makes, and append that function to the
 * queue. */
static int learn_child(struct lua_names *n, const struct lua_names_source *s, const struct known *k,
                       struct child *c, uint32_t *budget)
{
    bool failed = false;
    uint64_t address = lua_code_child(&k->code, lua_code_insn(&k->code, c->at).bx);
    uint8_t ignored = PROVENANCE_EXACT;
    struct known *made = address ? known_get(n, s, address, &ignored, &failed) : NULL;
    if (failed)
        return -1;
    n->unread |= address && !made;
    if (!made || made == k || !is_child(&k->code.proto, &made->code.proto))
        return 0;
    if (c->serial == made->serial && is_in(&c->valid, s->reader->m) && c->cost < *budget)
        *budget -= c->cost;
    else if (search_child(n, s, k, made, c, budget))
        return -1;
    enum name_rank rank = c->name ? NAME_RANK_DEFINED : NAME_RANK_NAMELESS;
    if (managed_propose_name(n->managed, made->function, rank, c->name ? c->name : "", s->batch))
        return -1;
    return is_learned(made, s) || vec_push(&n->queue, made) ? 0 : -1;
}

/* Note that this function is at its place. A head that came with the sample does not prove that the
 * parts, which were read later, are still its own. Names are strings elsewhere: even if the whole
 * prototype is proven, they may be those of the next VM at these addresses. */
static int note_place(struct lua_names *n, const struct lua_names_source *s, const struct known *k)
{
    const struct lua_proto *p = &k->code.proto;
    if (!k->code.nr[LUA_PART_CODE])
        return 0;
    bool remains = k->provenance != PROVENANCE_EXACT || memory_is_instant(s->reader->m, p->address);
    return managed_found_at(n->managed, k->place, k->function,
                            remains ? MANAGED_FOUND_REMAINS : MANAGED_FOUND_WHOLE,
                            p->last_line_defined == p->line_defined, s->batch);
}

/* Take the names that one prototype gives, at most `limit`. */
static int learn_one(struct lua_names *n, const struct lua_names_source *s, struct known *k,
                     size_t limit, uint32_t *budget)
{
    uint32_t nr = k->nr_children;
    uint64_t first =
        nr > LEARN_PER_BATCH && limit < LEARN_MAX ? s->batch * LEARN_PER_BATCH % nr : 0;
    uint64_t wait = k->learned == s->batch + 1 ? 2 * k->wait : LEARN_AGAIN_NS;
    k->learned = s->batch + 1;
    k->wait = 0;
    n->unread = false;
    if (note_place(n, s, k))
        return -1;
    for (uint32_t i = 0; i < nr && i < limit; i++)
        if (learn_child(n, s, k, &k->children[(first + i) % nr], budget))
            return -1;
    if (n->unread) {
        k->wait = wait;
        k->again = s->reader->m->time + wait;
    }
    return 0;
}

/* Take the names of all functions that are defined in a prototype, and in these. A program's main
 * chunk may define thousands: not all of them are named again in each batch. */
static int learn(struct lua_names *n, const struct lua_names_source *s, struct known *k)
{
    if (is_learned(k, s))
        return 0;
    uint32_t budget = LEARN_BUDGET;
    size_t limit = s->batch & (s->batch - 1) ? LEARN_PER_BATCH : LEARN_MAX;
    n->queue.nr = 0;
    int failed = learn_one(n, s, k, limit, &budget);
    for (size_t i = 0; i < n->queue.nr && i < limit && !failed; i++)
        if (!is_learned(n->queue.at[i], s))
            failed = learn_one(n, s, n->queue.at[i], limit - i, &budget);
    return failed;
}

int lua_names_learn(struct lua_names *n, const struct lua_names_source *source, uint64_t proto,
                    struct error *err)
{
    uint8_t ignored = PROVENANCE_EXACT;
    bool failed = false;
    tidy(n, source->batch);
    struct known *k = known_get(n, source, proto, &ignored, &failed);
    if (failed || (k && learn(n, source, k)))
        return error_no_memory(err);
    return 0;
}

/* ---- names of C functions -------------------------------------------------------------------- */

/* Does the process stand still? What is read then is of the moment of its stack. */
static bool stands_still(const struct memory *m)
{
    for (size_t i = 0; i < m->nr_layers; i++)
        if (m->layers[i].when == MEMORY_OF_OTHER_TIMES)
            return false;
    return true;
}

/* Leave what came with the sample out: other samples cannot tell whether they would have it, too.
 */
static void drop_sample(struct memory *m)
{
    m->stack_size = m->stack_far_size = 0;
    while (m->nr_layers && m->layers->when == MEMORY_OF_SAMPLE) {
        m->layers++;
        m->nr_layers--;
    }
}

/* Read the libraries, unless a reading now is known to give the same. */
static int library_read(struct lua_names *n, const struct lua_names_source *s, struct vm_library *l)
{
    struct memory only = *s->reader->m, *m = &only;
    bool is_new = l->global != s->global || l->space != s->space || l->layout != s->reader->layout;
    l->batch = s->batch;
    l->time = m->time;
    if (!is_new && is_in(&l->valid, m))
        return 0;
    if (tells_spans(m))
        drop_sample(m);
    const uint32_t deep = stands_still(m) ? DEEP_READS : 0;
    struct lua_asker a;
    lua_asker_begin(&a, m, s->reader->layout, READS);
    a.as_asked = true;
    lua_library_free(&l->library);
    n->removed++;
    l->global = s->global;
    l->space = s->space;
    l->layout = s->reader->layout;
    int failed = lua_library_read(&a.reader, s->global, n->managed, deep, &l->library);
    l->valid = a.same;
    return failed;
}

/* The libraries of the source's VM; NULL: none (*failed: memory is out). A process that runs may
 * have a thousand VMs, of which each costs hundreds of reads: only some are read. */
static struct vm_library *library_get(struct lua_names *n, const struct lua_names_source *s,
                                      bool *failed)
{
    const struct memory *m = s->reader->m;
    size_t at = n->last_library;
    if (at >= n->libraries.nr || n->libraries.at[at].global != s->global ||
        n->libraries.at[at].space != s->space)
        for (at = 0; at < n->libraries.nr; at++)
            if (n->libraries.at[at].global == s->global && n->libraries.at[at].space == s->space)
                break;
    bool is_new = at == n->libraries.nr;
    if (is_new && at >= LIVE_LIBRARIES_MAX && !stands_still(m) && !memory_has_moments(m))
        return NULL;
    *failed |= is_new && !vec_push(&n->libraries, (struct vm_library){0});
    if (*failed)
        return NULL;
    n->last_library = at;
    struct vm_library *l = &n->libraries.at[at];
    *failed |= (is_new || l->batch != s->batch) && library_read(n, s, l);
    return *failed ? NULL : l;
}

/* Find a C function in the libraries of the process's other VMs: they have the same code. */
static struct lua_library_function *
find_elsewhere(struct lua_names *n, const struct lua_names_source *s, uint64_t native)
{
    struct lua_library_function *f = NULL;
    for (size_t i = 0; i < n->libraries.nr && !f; i++)
        if (n->libraries.at[i].space == s->space && n->libraries.at[i].batch == s->batch)
            f = lua_library_find(&n->libraries.at[i].library, native);
    return f;
}

/* Find a C function; NULL: no library has it. A library may have been loaded since the libraries
 * were read. */
static struct lua_library_function *
library_find(struct lua_names *n, const struct lua_names_source *s, uint64_t native, bool *failed)
{
    struct vm_library *l = library_get(n, s, failed);
    struct lua_library_function *f = l ? lua_library_find(&l->library, native) : NULL;
    const uint64_t time = s->reader->m->time;
    if (l && !f && time > l->time && time - l->time >= LIBRARY_AGE_NS) {
        *failed |= library_read(n, s, l) != 0;
        f = lua_library_find(&l->library, native);
    }
    return f || *failed ? f : find_elsewhere(n, s, native);
}

const char *lua_names_native(struct lua_names *n, const struct lua_names_source *source,
                             uint64_t native)
{
    bool failed = false;
    struct lua_library_function *f = native ? library_find(n, source, native, &failed) : NULL;
    return f ? f->name : NULL;
}

static int name_c(struct lua_names *n, const struct lua_names_source *s, uint64_t native,
                  struct lua_named *ret)
{
    bool failed = false;
    struct lua_library_function *f = native ? library_find(n, s, native, &failed) : NULL;
    ret->function = n->c;
    if (!f)
        return failed ? -1 : 0;
    if (!f->function) {
        const struct managed_identity i = {
            .kind = MANAGED_BUILTIN, .language = FRAME_LUA, .file = "[C]", .name = f->name};
        f->function = managed_intern(n->managed, &i);
    }
    ret->function = f->function;
    ret->is_named = true;
    return f->function ? 0 : -1;
}

/* ---- names from where functions are ---------------------------------------------------------- */

/* Take the name under which the VM has a function, as its traceback does. Of a process that runs,
 * the stack must have the closure that was found there. `closure`: 0: not known. */
static int name_stored(struct lua_names *n, const struct lua_names_source *s, struct known *k,
                       uint64_t closure)
{
    char name[LUA_DEFINED_SIZE];
    bool failed = false;
    if (k->stored == s->batch + 1 || !k->code.proto.line_defined)
        return 0;
    k->stored = s->batch + 1;
    struct vm_library *l = library_get(n, s, &failed);
    const struct lua_stored_function *f =
        l ? lua_library_stored(&l->library, k->code.proto.address) : NULL;
    if (!f || (f->closure != closure && !stands_still(s->reader->m)))
        return failed ? -1 : 0;
    struct lua_asker a;
    lua_asker_begin(&a, s->reader->m, s->reader->layout, READS);
    snprintf(name, sizeof(name), "%s", f->name);
    if (f->separator && lua_is_method(&a, &k->code))
        name[f->separator] = ':';
    return managed_propose_name(n->managed, k->function, NAME_RANK_STORED, name, s->batch);
}

/* ---- names from calls ------------------------------------------------------------------------ */

/* The name that the instruction has for its function, from the cache of call sites or read now. */
static struct call_site *call_get(struct lua_names *n, const struct lua_names_source *s,
                                  const struct known *caller, uint32_t index, bool *failed)
{
    struct call_site *c = &n->calls[hash_combine(caller->serial, index) & (CALLS - 1)];
    bool is_kept = c->caller == caller->serial && c->index == index;
    if (is_kept && c->batch == s->batch)
        return c;
    if (is_kept && is_in(&c->valid, s->reader->m)) { /* it is to be proposed again */
        c->batch = s->batch;
        c->function = c->rank = 0;
        return c;
    }
    char name[LUA_NAME_SIZE];
    struct lua_asker a;
    lua_asker_begin(&a, s->reader->m, s->reader->layout, READS);
    *c = (struct call_site){.caller = caller->serial, .batch = s->batch, .index = index};
    c->kind = (uint8_t)lua_call_name(&a, &caller->code, index, name);
    c->valid = a.same;
    if (c->kind == LUA_NAME_NONE)
        return c;
    c->name = managed_string(n->managed, name, strlen(name));
    *failed |= !c->name;
    return c;
}

/* A loop's hidden variable, "(for generator)", "for iterator" and "integer index" are no names of
 * functions. */
static bool is_functions_name(const struct call_site *c)
{
    return c->kind != LUA_NAME_NONE && c->kind != LUA_NAME_ITERATOR && !strchr(c->name, ' ');
}

static enum name_rank rank_of(const struct call_site *c, uint8_t provenance)
{
    if (provenance == PROVENANCE_GUESS || !is_functions_name(c))
        return NAME_RANK_NONE;
    bool strong =
        c->kind == LUA_NAME_GLOBAL || c->kind == LUA_NAME_METHOD || c->kind == LUA_NAME_FIELD;
    if (provenance == PROVENANCE_EXACT)
        return strong ? NAME_RANK_CALL : NAME_RANK_CALL_WEAK;
    return strong ? NAME_RANK_DOUBTFUL : NAME_RANK_DOUBTFUL_WEAK;
}

/* Names that do not depend on the caller's instruction: the caller has been interrupted. Where Lua
 * gives such a function another name (5.2: that of the interrupted instruction; 5.3.4 to 5.4.2 call
 * the interrupted function "__gc"), what has happened counts. */
static bool name_interrupting(struct lua_names *n, const struct lua_call *caller,
                              struct lua_named *ret, bool *failed)
{
    const char *name = caller->is_hooked ? "?" : "__gc";
    if (!caller->is_hooked && !caller->is_finalizer)
        return false;
    ret->callkind = caller->is_hooked ? LUA_NAME_HOOK : LUA_NAME_METAMETHOD;
    ret->callname = managed_string(n->managed, name, strlen(name));
    *failed |= !ret->callname;
    return true;
}

/* Does the caller's instruction tell something of the function? A function that was tail-called was
 * not called there. (5.1 counts tail calls of Lua functions only.) */
static bool is_called_by(const struct lua_names_source *s, const struct lua_call *call,
                         const struct lua_call *caller)
{
    bool is_tail = call->is_tail && (call->is_lua || s->reader->layout->version > 51);
    return caller && !is_tail;
}

static int propose_from_call(struct lua_names *n, const struct lua_names_source *s,
                             struct call_site *c, const struct lua_named *named)
{
    uint8_t weakest =
        s->provenance > named->whole_provenance ? s->provenance : named->whole_provenance;
    enum name_rank rank = rank_of(c, weakest);
    if (!named->whole || !rank || (c->function == named->whole && c->rank >= rank))
        return 0;
    c->function = named->whole;
    c->rank = (uint8_t)rank;
    return managed_propose_name(n->managed, named->whole, rank, c->name, s->batch);
}

static int name_from_call(struct lua_names *n, const struct lua_names_source *s,
                          const struct lua_call *call, const struct lua_call *caller,
                          struct lua_named *ret)
{
    bool failed = false;
    /* A function that has run nothing may have just taken the place of the one that was called: the
     * call is marked as a tail call only then. */
    bool is_made = !call->is_lua || call->index != UINT32_MAX;
    if (!is_made || !is_called_by(s, call, caller))
        return 0;
    if (name_interrupting(n, caller, ret, &failed))
        return failed ? -1 : 0;
    if (!caller->is_lua || caller->function.kind != LUA_FUNCTION_LUA)
        return 0;
    uint8_t ignored = PROVENANCE_EXACT;
    struct known *k = known_get(n, s, caller->function.proto, &ignored, &failed);
    if (failed || (k && learn(n, s, k)))
        return -1;
    if (!k || caller->index >= k->code.nr[LUA_PART_CODE])
        return 0;
    struct call_site *c = call_get(n, s, k, caller->index, &failed);
    if (failed)
        return -1;
    ret->callname = c->name;
    ret->callkind = c->kind;
    return c->name && call->is_lua ? propose_from_call(n, s, c, ret) : 0;
}

/* ---- calls --------------------------------------------------------------------------------- */

/* Keep only what came with the sample. Returns false if nothing did. */
static bool keep_sample(struct memory *m)
{
    size_t nr = 0;
    m->stack_size = m->stack_far_size = 0;
    while (nr < m->nr_layers && m->layers[nr].when == MEMORY_OF_SAMPLE)
        nr++;
    m->nr_layers = nr;
    return nr != 0;
}

static bool has_line(const struct lua_call *call)
{
    return call->index != UINT32_MAX || call->savedpc;
}

/* Name a function whose prototype was not read well enough by what came with the sample: its head,
 * its chunk's name and its lines prove its place. `ret` stays as it is if they did not come.
 * Returns -1 when memory is out. */
static int name_place(struct lua_names *n, const struct lua_names_source *s,
                      const struct lua_call *call, struct lua_named *ret)
{
    struct memory only = *s->reader->m;
    struct lua_asker a;
    struct lua_code c;
    bool failed = false;
    if (!keep_sample(&only))
        return 0;
    lua_asker_begin(&a, &only, s->reader->layout, PLACE_READS);
    int read = lua_code_read(&a, call->function.proto, &c);
    if (read <= 0)
        return read;
    const char *file = c.proto.source ? file_of(n, &a, &c, &failed) : NULL;
    if (file && a.reader.provenance == PROVENANCE_EXACT) {
        uint32_t line = has_line(call) ? lua_code_line(&c, call->index) : 0;
        ret->function = intern_code(n, &c, file, lua_code_place(&c));
        failed |= !ret->function;
        ret->definition_line = c.proto.line_defined;
        if (line || !ret->line) /* else the line is of the other reading */
            ret->provenance = PROVENANCE_EXACT;
        ret->line = line ? line : ret->line;
    }
    lua_code_free(&c);
    return failed ? -1 : 0;
}

/* Name a function by its prototype, which was read. */
static int name_known(struct lua_names *n, const struct lua_names_source *s,
                      const struct lua_call *call, struct known *k, struct lua_named *ret)
{
    ret->function = ret->whole = k->function;
    ret->whole_provenance = ret->provenance;
    ret->definition_line = k->code.proto.line_defined;
    if (has_line(call))
        ret->line = lua_code_line(&k->code, call->index);
    bool is_sure = s->provenance < PROVENANCE_GUESS && ret->provenance < PROVENANCE_GUESS;
    if (is_sure && name_stored(n, s, k, call->function.closure))
        return -1;
    return learn(n, s, k);
}

static int name_lua(struct lua_names *n, const struct lua_names_source *s,
                    const struct lua_call *call, struct lua_named *ret)
{
    bool failed = false;
    bool is_known = call->function.kind == LUA_FUNCTION_LUA;
    struct known *k =
        is_known ? known_get(n, s, call->function.proto, &ret->provenance, &failed) : NULL;
    if (failed)
        return -1;
    if (!k || k->function == n->unknown) {
        ret->function = n->unknown;
        ret->provenance = PROVENANCE_GUESS;
    } else if (name_known(n, s, call, k, ret)) {
        return -1;
    }
    return is_known && ret->provenance != PROVENANCE_EXACT ? name_place(n, s, call, ret) : 0;
}

/* ---- calls that were named before ------------------------------------------------------------ */

static struct memo_key memo_key(const struct lua_names *n, const struct lua_names_source *s,
                                const struct lua_call *call, const struct lua_call *caller)
{
    const bool is_known = call->function.kind == LUA_FUNCTION_LUA;
    struct memo_key key = {.callee = call->is_lua ? call->function.proto : call->function.native,
                           .layout = s->reader->layout,
                           .global = s->global,
                           .batch = s->batch,
                           .removed = n->removed,
                           .index = call->index,
                           .space = s->space,
                           .provenance = s->provenance};
    unsigned flags = call->is_lua | (unsigned)is_known << 1 | (unsigned)call->is_tail << 2 |
                     (unsigned)(call->savedpc != 0) << 3;
    if (caller) {
        const bool is_lua = caller->function.kind == LUA_FUNCTION_LUA;
        key.caller = caller->function.proto;
        key.caller_index = caller->index;
        flags |= 1u << 4 | (unsigned)caller->is_lua << 5 | (unsigned)caller->is_hooked << 6 |
                 (unsigned)caller->is_finalizer << 7 | (unsigned)is_lua << 8;
    }
    key.flags = (uint16_t)flags;
    return key;
}

static bool is_same_key(const struct memo_key *a, const struct memo_key *b)
{
    return a->callee == b->callee && a->caller == b->caller && a->index == b->index &&
           a->caller_index == b->caller_index && a->flags == b->flags && a->batch == b->batch &&
           a->removed == b->removed && a->global == b->global && a->layout == b->layout &&
           a->space == b->space && a->provenance == b->provenance;
}

static struct memo *memo_at(const struct lua_names *n, const struct memo_key *k)
{
    uint64_t h = (k->callee ^ k->caller << 1) + ((uint64_t)k->index << 32 | k->caller_index);
    return &n->memos[hash_u64(h) & (MEMOS - 1)];
}

/* Returns whether the memo says how the call is named now. */
static bool memo_holds(struct lua_names *n, const struct lua_names_source *s, const struct memo *m,
                       const struct memo_key *key, bool *failed)
{
    return is_same_key(&m->key, key) &&
           (!m->callee || (known_check(n, s, m->callee, failed) && is_learned(m->callee, s) &&
                           m->callee->provenance == m->named.provenance)) &&
           (!m->caller || (known_check(n, s, m->caller, failed) && is_learned(m->caller, s)));
}

/* Keep how a call was named. What was not found may be found at another time of the batch. */
static void memo_keep(struct lua_names *n, const struct lua_names_source *s, struct memo *m,
                      const struct memo_key *key, const struct lua_call *call,
                      const struct lua_call *caller, const struct lua_named *named)
{
    bool is_asked = caller && caller->is_lua && caller->function.kind == LUA_FUNCTION_LUA;
    struct known *callee = call->is_lua ? *known_link(n, s, key->callee) : NULL;
    struct known *of = is_asked ? *known_link(n, s, key->caller) : NULL;
    bool is_found = call->is_lua ? callee && callee->function == named->function : named->is_named;
    if (!is_found || (is_asked && !of))
        return;
    *m = (struct memo){*key, callee, of, *named};
    m->key.removed = n->removed;
}

int lua_names_call(struct lua_names *n, const struct lua_names_source *source,
                   const struct lua_call *call, const struct lua_call *caller,
                   struct lua_named *ret, struct error *err)
{
    bool failed = false;
    tidy(n, source->batch);
    const struct memo_key key = memo_key(n, source, call, caller);
    struct memo *memo = memo_at(n, &key);
    if (memo_holds(n, source, memo, &key, &failed)) {
        *ret = memo->named;
        return failed ? error_no_memory(err) : 0;
    }
    *ret = (struct lua_named){0};
    failed |= (call->is_lua ? name_lua(n, source, call, ret)
                            : name_c(n, source, call->function.native, ret)) != 0;
    failed = failed || name_from_call(n, source, call, caller, ret) != 0;
    if (failed)
        return error_no_memory(err);
    memo_keep(n, source, memo, &key, call, caller, ret);
    return 0;
}

int lua_names_function(struct lua_names *n, const struct lua_names_source *source, uint64_t proto,
                       struct text *to)
{
    uint8_t ignored = PROVENANCE_EXACT;
    bool failed = false;
    struct managed_function f;
    tidy(n, source->batch);
    struct known *k = known_get(n, source, proto, &ignored, &failed);
    if (failed)
        return -1;
    if (k && k->function != n->unknown && name_stored(n, source, k, 0))
        return -1;
    if (k && k->function != n->unknown && managed_get(n->managed, k->function, UINT64_MAX, &f))
        managed_symbol(to, &f);
    return to->failed ? -1 : 0;
}
