/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A library's program counts if it can be read to its end, holds names that only this library has,
 * and is in the longest chain: the numbers of one library begin where those of another end.
 */
#include "unwind/luajit/names_builtins.h"

#include "base/cursor.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- one program --------------------------------------------------------------------------- */

enum {
    TAG_CF = 0x00,
    TAG_ASM = 0x40,
    TAG_ASM_SHARED = 0x80,
    TAG_STRING = 0xc0,
    TAG_LUA = 0xf9,
    TAG_SET,
    TAG_NUMBER,
    TAG_COPY,
    TAG_LASTCL,
    TAG_FFID,
    TAG_END,
    LENGTH_MASK = 0x3f,
    NUMBERS_MAX = 128, /* numbers of one library; the largest has 30 */
    LUA_MAX = 16,
    FIRST_NUMBER = 2, /* 0 is for Lua functions, 1 for C functions */
    PROGRAM_MAX = 1 << 14,
};

struct piece {
    const char *at; /* NULL: a number without a name */
    unsigned size;
};

struct program {
    unsigned first, nr;
    struct piece functions[NUMBERS_MAX];
    struct piece lua[LUA_MAX];
    unsigned nr_lua;
};

static bool is_identifier(const uint8_t *s, unsigned size)
{
    for (unsigned i = 0; i < size; i++)
        if (!(s[i] >= 'a' && s[i] <= 'z') && !(s[i] >= '0' && s[i] <= '9' && i > 0) && s[i] != '_')
            return false;
    return size < BUILTIN_NAME_MAX / 2;
}

/* Skip a prototype of string.dump(f, true): flags, parameters, frame size, upvalues; numbers of
 * constants and instructions; then the instructions and constants themselves (lj_bcdump.h). */
static void skip_prototype(struct cursor *c)
{
    enum { CHILD, TABLE, I64, U64, COMPLEX, STRING };
    cursor_skip(c, 3);
    uint64_t upvalues = cursor_u8(c), objects = cursor_uleb128(c), numbers = cursor_uleb128(c);
    uint64_t code = cursor_uleb128(c);
    cursor_skip(c, 4 * (code < PROGRAM_MAX ? code : PROGRAM_MAX) + 2 * upvalues);
    for (uint64_t i = 0; i < objects && !c->failed; i++) {
        uint64_t type = cursor_uleb128(c);
        if (type >= STRING)
            cursor_skip(c, type - STRING);
        else if (type == I64 || type == U64 || type == COMPLEX)
            for (unsigned n = type == COMPLEX ? 4 : 2; n; n--)
                (void)cursor_uleb128(c);
        else if (type == TABLE)
            c->failed = true; /* no library has one */
    }
    for (uint64_t i = 0; i < numbers && !c->failed; i++) {
        /* The lowest bit says that a double's upper half follows. */
        const uint8_t *at = c->at;
        (void)cursor_uleb128(c);
        if (!c->failed && *at & 1)
            (void)cursor_uleb128(c);
    }
}

static bool take_name(struct cursor *c, unsigned size, struct piece *ret)
{
    const uint8_t *name = cursor_bytes(c, size);
    if (!name || !is_identifier(name, size))
        return false;
    *ret = (struct piece){size ? (const char *)name : NULL, size};
    return true;
}

static bool take_function(struct program *p, struct cursor *c, uint8_t tag)
{
    return p->nr < NUMBERS_MAX && take_name(c, tag & LENGTH_MASK, &p->functions[p->nr++]);
}

static bool take_lua(struct program *p, struct cursor *c)
{
    if (p->nr_lua >= LUA_MAX || !take_name(c, cursor_u8(c), &p->lua[p->nr_lua++]))
        return false;
    skip_prototype(c);
    return true;
}

/* Read one tag; false: this is no program. */
static bool take_tag(struct program *p, struct cursor *c, uint8_t tag)
{
    if (tag < TAG_STRING)
        return take_function(p, c, tag);
    switch (tag) {
    case TAG_LUA:
        return take_lua(p, c);
    case TAG_NUMBER:
        cursor_skip(c, 8);
        return true;
    case TAG_COPY:
        cursor_skip(c, 1);
        return true;
    case TAG_SET:
    case TAG_LASTCL:
        return true;
    case TAG_FFID:
        if (p->nr >= NUMBERS_MAX)
            return false;
        p->functions[p->nr++] = (struct piece){0};
        return true;
    default:
        cursor_skip(c, tag & LENGTH_MASK);
        return true;
    }
}

static bool read_program(const uint8_t *bytes, size_t size, struct program *ret)
{
    struct cursor c = cursor_make(bytes, size < PROGRAM_MAX ? size : PROGRAM_MAX, false, "", "", 0);
    ret->first = cursor_u8(&c);
    ret->nr = ret->nr_lua = 0;
    cursor_skip(&c, 2);
    if (ret->first < FIRST_NUMBER)
        return false;
    for (;;) {
        uint8_t tag = cursor_u8(&c);
        if (c.failed)
            return false;
        if (tag == TAG_END)
            return ret->nr > 0 && ret->first + ret->nr <= BUILTINS_MAX;
        if (!take_tag(ret, &c, tag) || c.failed)
            return false;
    }
}

/* ---- which library it is ------------------------------------------------------------------- */

struct library {
    const char *prefix;
    const char *has[3]; /* functions that must all be there */
    unsigned nr;        /* exact number of functions with names; 0: any */
};

static const struct library libraries[] = {
    {"", {"assert", "getmetatable", "xpcall"}, 0},
    {"coroutine.", {"running", "yield", "resume"}, 0},
    {"math.", {"floor", "ldexp", "randomseed"}, 0},
    {"bit.", {"tobit", "bswap", "rol"}, 0},
    {"string.", {"byte", "gsub", "format"}, 0},
    {"table.", {"maxn", "concat", "sort"}, 0},
    {"file:", {"seek", "setvbuf", "__tostring"}, 0},
    {"io.", {"popen", "tmpfile", "lines"}, 0},
    {"os.", {"execute", "setlocale", "difftime"}, 0},
    {"debug.", {"getregistry", "traceback", "sethook"}, 0},
    {"jit.", {"on", "flush", "attach"}, 0},
    {"jit.util.", {"funcinfo", "traceinfo", "tracemc"}, 0},
    {"jit.profile.", {"start", "stop", "dumpstack"}, 3},
    {"jit.opt.", {"start", NULL, NULL}, 1},
    {"ffi.meta.", {"__call", "__concat", "__newindex"}, 0},
    {"ffi.clib.", {"__index", "__newindex", "__gc"}, 3},
    {"ffi.callback.", {"free", "set", NULL}, 2},
    {"ffi.", {"cdef", "typeof", "sizeof"}, 0},
    {"buffer:", {"putf", "reserve", "commit"}, 0},
    {"string.buffer.", {"new", "encode", "decode"}, 3},
};

static bool is_named(const struct piece *p, const char *name)
{
    return p->at && strlen(name) == p->size && memcmp(p->at, name, p->size) == 0;
}

static bool has_function(const struct program *p, const char *name)
{
    for (unsigned i = 0; i < p->nr; i++)
        if (is_named(&p->functions[i], name))
            return true;
    return false;
}

static const struct library *library_of(const struct program *p)
{
    unsigned named = 0;
    for (unsigned i = 0; i < p->nr; i++)
        named += p->functions[i].at != NULL;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++) {
        const struct library *l = &libraries[i];
        bool all = !l->nr || l->nr == named;
        for (unsigned k = 0; k < 3 && all && l->has[k]; k++)
            all = has_function(p, l->has[k]);
        if (all)
            return l;
    }
    return NULL;
}

/* ---- names of numbers that have none -------------------------------------------------------- */

/* Functions that are not put into the library's table. The functions before and behind them
 * identify them. From the sources of 2.0.5 to August 2026 and OpenResty's. */
static const struct {
    const char *prefix, *before, *behind; /* behind NULL: the end */
    unsigned nr;
    const char *names[4];
} unlisted[] = {
    {"", "pairs", "ipairs", 1, {"ipairs_aux"}},
    {"coroutine.", "resume", "wrap", 1, {"wrap_aux"}},
    {"coroutine.", "wrap", NULL, 1, {"thread.exdata"}}, /* OpenResty; also the next entry */
    {"coroutine.", "wrap", NULL, 2, {"thread.exdata", "thread.exdata2"}},
    {"string.", "match", "gmatch", 1, {"gmatch_aux"}},
    {"table.", "sort", NULL, 2, {"new", "clear"}},
    {"table.", "concat", "sort", 4, {"clone", "isarray", "nkeys", "isempty"}},
};

static void name_unlisted(struct program *p, const char *prefix)
{
    for (size_t u = 0; u < sizeof(unlisted) / sizeof(*unlisted); u++) {
        unsigned n = unlisted[u].nr;
        if (strcmp(unlisted[u].prefix, prefix) != 0)
            continue;
        for (unsigned i = 1; i + n <= p->nr; i++) {
            unsigned run = 0;
            while (i + run < p->nr && !p->functions[i + run].at)
                run++;
            bool end = i + run == p->nr;
            if (run != n || !is_named(&p->functions[i - 1], unlisted[u].before) ||
                end != !unlisted[u].behind ||
                (!end && !is_named(&p->functions[i + run], unlisted[u].behind)))
                continue;
            for (unsigned k = 0; k < n; k++)
                p->functions[i + k] =
                    (struct piece){unlisted[u].names[k], (unsigned)strlen(unlisted[u].names[k])};
            break;
        }
    }
}

/* ---- all of them --------------------------------------------------------------------------- */

enum { CANDIDATES_MAX = 256 };

/* A place that reads like a library's program. Many such places begin inside a real program, or at
 * a stray byte before it: their numbers are then arbitrary, and no chain continues there. */
struct candidate {
    size_t offset;
    const struct library *library;
    struct candidate *next;
    unsigned first, end; /* first number, and the number behind the last */
    unsigned links;      /* length of the longest chain that begins here */
    bool forked;         /* there are two chains of that length: nothing tells which is right */
    bool used;
};

static void put_names(struct luajit_builtins *ret, struct program *p, const struct library *l)
{
    name_unlisted(p, l->prefix);
    for (unsigned i = 0; i < p->nr; i++) {
        char *name = ret->name[p->first + i];
        const struct piece *f = &p->functions[i];
        if (!f->at || *name)
            continue;
        /* Names of functions in another library's table are complete. */
        const char *prefix = memchr(f->at, '.', f->size) ? "" : l->prefix;
        snprintf(name, BUILTIN_NAME_MAX, "%s%.*s", prefix, (int)f->size, f->at);
        ret->nr++;
    }
    for (unsigned i = 0; i < p->nr_lua; i++) {
        if (ret->nr_lua >= sizeof(ret->lua) / sizeof(ret->lua[0]))
            return;
        const struct piece *f = &p->lua[i];
        snprintf(ret->lua[ret->nr_lua].bare, BUILTIN_NAME_MAX, "%.*s", (int)f->size, f->at);
        snprintf(ret->lua[ret->nr_lua].whole, BUILTIN_NAME_MAX, "%s%.*s", l->prefix, (int)f->size,
                 f->at);
        ret->nr_lua++;
    }
}

/* Can a program begin here? It has three bytes of numbers and a tag. Behind a function's tag stands
 * its name. Nearly all places fail this check. */
static bool may_begin(const uint8_t *at)
{
    uint8_t tag = at[3];
    if (at[0] < FIRST_NUMBER || tag == TAG_END)
        return false;
    return tag >= TAG_STRING || (tag & LENGTH_MASK) == 0 || is_identifier(at + 4, 1);
}

static unsigned find_candidates(const uint8_t *bytes, size_t size, struct candidate *all)
{
    struct program p;
    unsigned nr = 0;
    for (size_t at = 0; at + 4 < size && nr < CANDIDATES_MAX; at++) {
        const struct library *l = NULL;
        if (may_begin(bytes + at) && read_program(bytes + at, size - at, &p))
            l = library_of(&p);
        if (l)
            all[nr++] = (struct candidate){
                .offset = at, .first = p.first, .end = p.first + p.nr, .library = l};
    }
    return nr;
}

/* Find the longest chain from `c` on. The chains that begin at greater numbers must be known. */
static void link_candidate(struct candidate *c, struct candidate *all, unsigned nr)
{
    c->links = 1;
    c->next = NULL;
    c->forked = false;
    for (unsigned i = 0; i < nr; i++) {
        struct candidate *o = &all[i];
        if (o->used || o->first != c->end || o->library == c->library)
            continue;
        if (o->links + 1 > c->links) {
            c->links = o->links + 1;
            c->next = o;
            c->forked = o->forked;
        } else if (c->next && o->links + 1 == c->links && o->library != c->next->library) {
            c->forked = true;
        }
    }
}

static struct candidate *longest_chain(struct candidate *all, unsigned nr)
{
    struct candidate *best = NULL;
    for (unsigned first = BUILTINS_MAX; first-- > FIRST_NUMBER;)
        for (unsigned i = 0; i < nr; i++)
            if (all[i].first == first && !all[i].used) {
                link_candidate(&all[i], all, nr);
                if (!best || all[i].links > best->links)
                    best = &all[i];
            }
    return best;
}

/* Mark the candidates that share numbers or the library with a member of the chain: they are ruled
 * out. */
static void use_chain(const struct candidate *chain, struct candidate *all, unsigned nr)
{
    for (unsigned i = 0; i < nr; i++)
        for (const struct candidate *c = chain; c; c = c->next)
            all[i].used |=
                all[i].library == c->library || (all[i].first < c->end && c->first < all[i].end);
}

void luajit_builtins_scan(struct luajit_builtins *ret, const uint8_t *bytes, size_t size)
{
    enum { LINKS_MIN = 3 };
    struct candidate all[CANDIDATES_MAX];
    struct program p;
    unsigned nr = find_candidates(bytes, size, all);
    for (;;) {
        const struct candidate *chain = longest_chain(all, nr);
        if (!chain || chain->links < LINKS_MIN || chain->forked)
            return;
        for (const struct candidate *c = chain; c; c = c->next)
            if (read_program(bytes + c->offset, size - c->offset, &p))
                put_names(ret, &p, c->library);
        use_chain(chain, all, nr);
    }
}

/* ---- at the first question ------------------------------------------------------------------ */

struct luajit_builtins *luajit_builtins_create(void)
{
    struct luajit_builtins *b = calloc(1, sizeof(*b));
    if (b)
        pthread_mutex_init(&b->lock, NULL);
    return b;
}

void luajit_builtins_free(struct luajit_builtins *b)
{
    if (b)
        pthread_mutex_destroy(&b->lock);
    free(b);
}

void luajit_builtins_add(struct luajit_builtins *b, const uint8_t *bytes, size_t size)
{
    if (b->nr_places == BUILTIN_PLACES)
        return;
    b->places[b->nr_places].bytes = bytes;
    b->places[b->nr_places++].size = size;
}

const struct luajit_builtins *luajit_builtins_get(const struct luajit_builtins *names)
{
    struct luajit_builtins *b = (struct luajit_builtins *)names; /* the object is changed once,
                                                                    under the lock */
    if (!b || !b->nr_places || atomic_load_explicit(&b->searched, memory_order_acquire))
        return b;
    pthread_mutex_lock(&b->lock);
    if (!atomic_load_explicit(&b->searched, memory_order_relaxed)) {
        for (unsigned i = 0; i < b->nr_places; i++)
            luajit_builtins_scan(b, b->places[i].bytes, b->places[i].size);
        atomic_store_explicit(&b->searched, true, memory_order_release);
    }
    pthread_mutex_unlock(&b->lock);
    return b;
}
