/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Lists a V8 heap from outside: chunk by chunk (chunk.h), object behind object, each as long as its
 * map and its first fields say (size.h). What an allocator has left over is skipped: its area is
 * found in the isolate's own memory. A chunk whose objects cannot be followed to its end is not
 * whole, and the census says how many bytes were not read.
 */
#include "unwind/v8/census_internal.h"

#include "base/cursor.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE = 4096,
    HEAD = 64,            /* bytes of a large object that are looked at */
    ISOLATE = 0x20000,    /* the isolate's own areas are at most so far before its Heap */
    SPACE = 0x400,        /* bytes of a Space, which may have an area of its own */
    CHUNKS_MAX = 1 << 22, /* of new space: the bound of a list that is a circle */
    V12_4 = 6, /* column of the table of layouts from which on V8 does not count what is left
                  of its own areas */
};

static bool read_bytes(const struct memory *m, uint64_t at, void *to, size_t size)
{
    enum provenance ignored = PROVENANCE_EXACT;
    return memory_read(m, at, to, size, &ignored);
}

/* Read what is there of a piece of memory; other pages become zero, which is no object. */
static void read_piece(const struct memory *m, uint64_t at, uint8_t *to, size_t size)
{
    if (read_bytes(m, at, to, size))
        return;
    for (size_t done = 0, part; done < size; done += part) {
        part = PAGE - (at + done) % PAGE;
        part = part < size - done ? part : size - done;
        if (!read_bytes(m, at + done, to + done, part))
            memset(to + done, 0, part);
    }
}

/* ---- maps ---------------------------------------------------------------------------------- */

static struct v8_shape read_shape(struct v8_heap *h, uint64_t map)
{
    enum { WORDS = 8 };
    struct v8_shape s = {.map = map};
    uint8_t words;
    if ((map & 3) != 1 || !v8_is(&h->r, map, h->l->type_map) ||
        !v8_read(&h->r, v8_address(map) + WORDS, &words, 1) ||
        !v8_read(&h->r, v8_address(map) + (uint64_t)h->l->map_type, &s.type, sizeof(s.type)))
        return s;
    s.words = words;
    s.is_map = true;
    return s;
}

const struct v8_shape *v8_heap_shape(struct v8_heap *h, uint64_t map)
{
    const uint64_t hash = hash_u64(map);
    uint32_t i = hash_table_find(&h->by_map, hash, n, h->shapes.at[n].map == map);
    if (i == HASH_TABLE_NONE) {
        const struct v8_shape s = read_shape(h, map);
        if (!s.is_map)
            return NULL;
        i = hash_table_intern(&h->by_map, hash, &h->shapes, n, h->shapes.at[n].map == map, s);
        if (i == HASH_TABLE_NONE)
            return NULL;
    }
    return &h->shapes.at[i];
}

const struct v8_shape *v8_heap_shape_of(struct v8_heap *h, uint64_t address)
{
    uint64_t map;
    return v8_word(&h->r, address, &map) ? v8_heap_shape(h, map) : NULL;
}

/* ---- areas of allocators ------------------------------------------------------------------- */

struct v8_chunk *v8_heap_chunk(const struct v8_heap *h, uint64_t address)
{
    size_t low = 0, high = h->chunks.nr;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (h->chunks.at[mid].at + h->chunks.at[mid].size <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low < h->chunks.nr && h->chunks.at[low].at <= address ? &h->chunks.at[low] : NULL;
}

/* An area is three words: where it began, top, limit. Returns whether these are one. */
static bool is_area(const struct v8_heap *h, const uint64_t *words, bool is_main)
{
    const struct v8_chunk *c = words[0] % 8 ? NULL : v8_heap_chunk(h, words[0]);
    return c && words[0] <= words[1] && words[1] <= words[2] && (is_main || words[1] < words[2]) &&
           (words[1] | words[2]) % 8 == 0 && words[0] >= c->begin && words[2] <= c->end &&
           (c->kind == V8_SPACE_NEW || c->kind == V8_SPACE_PAGED);
}

static bool find_areas(struct v8_heap *h, uint64_t start, uint64_t end, bool is_main)
{
    enum { PIECE = 1 << 14, MORE = 16 };
    uint64_t words[(PIECE + MORE) / 8];
    bool ok = true;
    for (uint64_t at = start & ~UINT64_C(7); at < end && ok; at += PIECE) {
        size_t size = end - at < PIECE + MORE ? (size_t)(end - at) & ~(size_t)7 : PIECE + MORE;
        read_piece(h->r.memory, at, (uint8_t *)words, size);
        for (size_t i = 0; i + 3 <= size / 8 && ok; i++) {
            if (words[i] && is_area(h, words + i, is_main))
                ok = vec_push(&h->areas, (struct v8_area){words[i + 1], words[i + 2], is_main});
        }
    }
    return ok;
}

static int compare_areas(const void *a, const void *b)
{
    const struct v8_area *x = a, *y = b;
    if (x->top != y->top)
        return x->top < y->top ? -1 : 1;
    return x->is_main == y->is_main ? 0 : x->is_main ? -1 : 1;
}

bool v8_heap_outside(struct v8_heap *h,
                     bool (*look)(struct v8_heap *h, uint64_t start, uint64_t end, void *context),
                     void *context)
{
    for (size_t i = 0; i < h->m->nr_anonymous; i++) {
        uint64_t at = h->m->anonymous[i].start;
        while (at < h->m->anonymous[i].end) {
            const struct v8_chunk *c = v8_heap_chunk(h, at);
            uint64_t end = h->m->anonymous[i].end;
            if (c) {
                at = c->at + c->size;
                continue;
            }
            for (uint64_t next = at; next < end; next += V8_CHUNK - next % V8_CHUNK) {
                if (v8_heap_chunk(h, next))
                    end = next;
            }
            if (!look(h, at, end, context))
                return false;
            at = end;
        }
    }
    return true;
}

static bool look_for_areas(struct v8_heap *h, uint64_t start, uint64_t end, void *context)
{
    (void)context;
    return find_areas(h, start, end, false);
}

/* The isolate's areas are before its Heap or in its spaces; those of its threads may be anywhere.
 */
static bool find_all_areas(struct v8_heap *h)
{
    struct table owners = {0};
    bool ok = find_areas(h, h->at - ISOLATE, h->at, true);
    vec_foreach (c, &h->chunks) {
        if (!ok || table_get(&owners, c->owner))
            continue;
        ok = table_put(&owners, c->owner, h) && find_areas(h, c->owner, c->owner + SPACE, true);
    }
    table_free(&owners);
    ok = ok && v8_heap_outside(h, look_for_areas, NULL);
    if (h->areas.nr)
        qsort(h->areas.at, h->areas.nr, sizeof(*h->areas.at), compare_areas);
    return ok;
}

/* Returns the area that is filled at an address; NULL: there is none. */
static const struct v8_area *area_at(const struct v8_heap *h, uint64_t top)
{
    size_t low = 0, high = h->areas.nr;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (h->areas.at[mid].top < top)
            low = mid + 1;
        else
            high = mid;
    }
    return low < h->areas.nr && h->areas.at[low].top == top ? &h->areas.at[low] : NULL;
}

/* ---- new space ----------------------------------------------------------------------------- */

/* New space is filled chunk by chunk: those before the current one are full, those behind it are
 * empty. */
static bool find_filled(struct v8_heap *h)
{
    uint64_t words[2]; /* the next chunk, the one before */
    vec_foreach (a, &h->areas) {
        struct v8_chunk *c = a->is_main ? v8_heap_chunk(h, a->top - (a->top == a->limit)) : NULL;
        if (c && c->kind == V8_SPACE_NEW && !c->is_from)
            h->current = c;
    }
    if (!h->current)
        return true;
    uint64_t at = h->current->description;
    for (unsigned i = 0; i < CHUNKS_MAX; i++) {
        if (!read_bytes(h->r.memory, at + (uint64_t)h->l->chunk_next, words, sizeof(words)))
            break;
        at = words[1];
        if (!at || table_get(&h->filled, at) || at == h->current->description)
            break;
        if (!table_put(&h->filled, at, h))
            return false;
    }
    return true;
}

/* ---- objects ------------------------------------------------------------------------------- */

struct lister {
    struct v8_heap *h;
    census_take_object *take;
    void *context;
    struct error *err;
    uint64_t unread, unread_at, nr_unread; /* bytes; the first place; how many places */
    uint64_t unswept;                      /* bytes of dead objects among the others */
    char unread_type[32];
};

static void note_buffer(struct v8_heap *h, uint64_t address)
{
    uint64_t bytes, data;
    if (h->l->buffer_bytes == V8_UNKNOWN || h->l->buffer_data == V8_UNKNOWN ||
        !v8_word(&h->r, address + (uint64_t)h->l->buffer_bytes, &bytes) ||
        !v8_word(&h->r, address + (uint64_t)h->l->buffer_data, &data))
        return;
    if (!data || !bytes || bytes >> 48 || v8_heap_chunk(h, data))
        return;
    h->outside[CENSUS_BUFFERS].nr++;
    h->outside[CENSUS_BUFFERS].bytes += bytes;
}

static void note_string(struct v8_heap *h, uint64_t address, uint16_t type)
{
    enum { REPRESENTATION = 7, EXTERNAL = 2, ONE_BYTE = 8 };
    uint32_t length;
    if ((type & REPRESENTATION) != EXTERNAL ||
        !v8_read(&h->r, address + (uint64_t)h->l->string_length, &length, sizeof(length)))
        return;
    h->outside[CENSUS_STRINGS_OUTSIDE].nr++;
    h->outside[CENSUS_STRINGS_OUTSIDE].bytes += (uint64_t)length * (type & ONE_BYTE ? 1 : 2);
}

/* Note what later descriptions need of an object, and what it owns outside of the heap. */
static bool note_object(struct v8_heap *h, uint64_t address, const struct v8_shape *s)
{
    if (s->type == h->l->type_buffer)
        note_buffer(h, address);
    else if (s->type < h->l->nonstring)
        note_string(h, address, s->type);
    enum { NATIVE_CONTEXT = 7 };
    if (s->type == h->l->type_context + NATIVE_CONTEXT)
        return vec_push(&h->contexts, address);
    if (s->type != h->l->type_sfi)
        return true;
    const uint64_t bytecode = v8_sfi_bytecode(&h->r, address | 1);
    return !bytecode || table_put(&h->functions, v8_address(bytecode), (void *)(address | 1));
}

static int take_object(struct lister *l, uint64_t address, const struct v8_shape *s, uint64_t size)
{
    const struct v8_heap *h = l->h;
    /* Classes and constructors of typed arrays have types of their own. */
    const bool is_function = s->type >= h->l->type_function && s->type <= h->l->type_function_last;
    const struct census_object o = {
        .address = address,
        .size = size,
        .subtype = is_function ? (uint16_t)h->l->type_function : s->type,
        .type = s->type < V8_TYPES_MAX ? h->types->kinds[s->type] : CENSUS_OBJECT};
    if (!note_object(l->h, address, s))
        return error_no_memory(l->err);
    return l->take(l->context, &o, l->err);
}

static void note_unread(struct lister *l, uint64_t at, uint64_t bytes, const struct v8_shape *s)
{
    if (!l->nr_unread++) {
        l->unread_at = at;
        const char *name = s ? v8_heap_subtype(l->h, s->type) : "no map";
        snprintf(l->unread_type, sizeof(l->unread_type), "%s", name);
    }
    l->unread += bytes;
}

/* The objects of a chunk up to `end`. */
struct walk {
    uint64_t at, end;
    uint64_t objects, gaps, areas, main; /* bytes: objects, fillers, free parts of areas; those of
                                            the isolate's own areas */
};

static void skip_area(struct walk *w, const struct v8_area *a)
{
    const uint64_t bytes = (a->limit < w->end ? a->limit : w->end) - w->at;
    w->main += a->is_main ? bytes : 0;
    w->areas += a->is_main ? 0 : bytes;
    w->at += bytes;
}

/* Returns whether a chunk has no more objects by V8's own count: what follows is free, and V8 has
 * not made a filler of it. */
static bool has_all(const struct v8_chunk *c, const struct walk *w)
{
    return c->kind == V8_SPACE_PAGED && w->objects + w->areas + w->main >= c->allocated;
}

static int walk_chunk(struct lister *l, const struct v8_chunk *c, struct walk *w)
{
    struct v8_heap *h = l->h;
    read_piece(h->r.memory, c->begin, h->bytes, (size_t)(c->end - c->begin));
    while (w->at < w->end) {
        const uint8_t *bytes = h->bytes + (w->at - c->begin);
        const size_t left = (size_t)(w->end - w->at);
        const struct v8_area *a = area_at(h, w->at);
        if (a && a->is_main && a->limit > w->at) {
            skip_area(w, a);
            continue;
        }
        const struct v8_shape *s = left < 8 ? NULL : v8_heap_shape(h, load_u64(bytes, false));
        if (!s && a && a->limit > w->at) {
            skip_area(w, a);
            continue;
        }
        const uint64_t size = s ? v8_object_size(&h->r, h->types, s, bytes, left) : 0;
        if (!size || size > left) {
            if (!has_all(c, w))
                note_unread(l, w->at, left, s);
            return 0;
        }
        if (s->type == h->types->filler || s->type == h->types->free_space) {
            w->gaps += size;
        } else {
            w->objects += size;
            if (take_object(l, w->at, s, size))
                return -1;
        }
        w->at += size;
    }
    return 0;
}

/* Returns whether a chunk's objects were moved elsewhere: their first words are where they are now.
 * Such a chunk is in no space any more, and waits until it is given back. */
static bool is_evacuated(struct v8_heap *h, const struct v8_chunk *c)
{
    uint64_t word;
    return !area_at(h, c->begin) && v8_word(&h->r, c->begin, &word) && word && word % 8 == 0 &&
           v8_heap_chunk(h, word);
}

static int list_paged(struct lister *l, const struct v8_chunk *c)
{
    struct walk w = {.at = c->begin, .end = c->end};
    const uint64_t before = l->unread;
    if (is_evacuated(l->h, c))
        return 0;
    if (walk_chunk(l, c, &w))
        return -1;
    const uint64_t not_counted = l->h->l->column >= V12_4 ? w.main : 0;
    l->h->total += c->allocated - (not_counted < c->allocated ? not_counted : c->allocated);
    l->h->gaps += w.areas + w.main - not_counted;
    const uint64_t known = w.objects + w.areas + w.main;
    if (known < c->allocated) /* what is left of objects that were cut counts until it is swept */
        l->h->gaps += c->allocated - known < w.gaps ? c->allocated - known : w.gaps;
    else if (l->unread == before)
        l->unswept += known - c->allocated;
    return 0;
}

static int list_new(struct lister *l, const struct v8_chunk *c)
{
    struct v8_heap *h = l->h;
    struct walk w = {.at = c->begin, .end = c->end};
    if (c == h->current) {
        vec_foreach (a, &h->areas) {
            if (a->is_main && a->top >= c->begin && a->limit <= c->end)
                w.end = a->top;
        }
    } else if (!table_get(&h->filled, c->description)) {
        return 0;
    }
    if (walk_chunk(l, c, &w))
        return -1;
    h->total += w.end - c->begin;
    h->gaps += w.gaps + w.areas;
    return 0;
}

static int list_large(struct lister *l, const struct v8_chunk *c)
{
    struct v8_heap *h = l->h;
    uint8_t head[HEAD];
    const uint64_t most = c->end - c->begin;
    const size_t nr = most < HEAD ? (size_t)most : HEAD;
    read_piece(h->r.memory, c->begin, head, nr);
    const struct v8_shape *s = nr < 8 ? NULL : v8_heap_shape(h, load_u64(head, false));
    const uint64_t size = s ? v8_object_size(&h->r, h->types, s, head, nr) : 0;
    h->total += most;
    if (!size || size > most) {
        note_unread(l, c->begin, most, s);
        return 0;
    }
    return take_object(l, c->begin, s, size);
}

static int list_chunk(struct lister *l, const struct v8_chunk *c)
{
    if (c->is_from)
        return 0;
    if (c->kind == V8_SPACE_LARGE || c->kind == V8_SPACE_NEW_LARGE)
        return list_large(l, c);
    if (c->end - c->begin > V8_CHUNK) {
        note_unread(l, c->begin, c->end - c->begin, NULL);
        return 0;
    }
    return c->kind == V8_SPACE_NEW ? list_new(l, c) : list_paged(l, c);
}

static int say_what_is_lost(const struct lister *l)
{
    enum { SHARE = 1000 }; /* areas of threads that ended leave some bytes */
    if (!l->nr_unread && l->unswept > l->h->total / SHARE)
        return error_set(l->err, ERROR_FORMAT,
                         "V8 has not swept yet: some %" PRIu64
                         " bytes of dead objects are among the others",
                         l->unswept);
    if (l->nr_unread)
        return error_set(l->err, ERROR_FORMAT,
                         "%" PRIu64 " bytes in %" PRIu64
                         " chunks were not read, the first at 0x%" PRIx64
                         " (%s): the size of an object is not known, or V8 was moving it",
                         l->unread, l->nr_unread, l->unread_at, l->unread_type);
    return 0;
}

static int objects(void *heap, census_take_object *take, void *context, struct error *err)
{
    struct v8_heap *h = heap;
    struct lister l = {.h = h, .take = take, .context = context, .err = err};
    h->total = h->gaps = 0;
    h->contexts.nr = 0;
    memset(h->outside, 0, sizeof(h->outside));
    vec_foreach (c, &h->chunks) {
        if (list_chunk(&l, c))
            return -1;
    }
    return say_what_is_lost(&l);
}

/* ---- the heap ------------------------------------------------------------------------------ */

static uint64_t total(void *heap)
{
    return ((const struct v8_heap *)heap)->total;
}

static uint64_t own(void *heap)
{
    return ((const struct v8_heap *)heap)->gaps;
}

static void outside(void *heap, struct census_outside ret[CENSUS_OUTSIDES])
{
    memcpy(ret, ((const struct v8_heap *)heap)->outside, sizeof(((struct v8_heap *)heap)->outside));
}

static bool take_chunk(void *context, const struct v8_chunk *c)
{
    struct v8_heap *h = context;
    return c->heap != h->at || vec_push(&h->chunks, *c);
}

static int compare_chunks(const void *a, const void *b)
{
    const struct v8_chunk *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static void end(void *heap)
{
    struct v8_heap *h = heap;
    vec_free(&h->chunks);
    vec_free(&h->areas);
    vec_free(&h->shapes);
    vec_free(&h->contexts);
    hash_table_free(&h->by_map);
    table_free(&h->functions);
    table_free(&h->filled);
    census_names_free(&h->names);
    v8_names_free(h->sources);
    managed_names_free(h->managed);
    v8_types_free(h->types);
    free(h->bytes);
    free(h);
}

static bool fill_heap(struct v8_heap *h)
{
    h->types = v8_types_create(h->l);
    h->managed = managed_names_create();
    h->sources = h->managed ? v8_names_create(h->managed) : NULL;
    h->bytes = malloc(V8_CHUNK);
    if (!h->types || !h->sources || !h->bytes ||
        !v8_chunks_each(h->r.memory, h->l, h->m->anonymous, h->m->nr_anonymous, take_chunk, h))
        return false;
    if (h->chunks.nr)
        qsort(h->chunks.at, h->chunks.nr, sizeof(*h->chunks.at), compare_chunks);
    return find_all_areas(h) && find_filled(h);
}

static int begin(const struct runtime_memory *m, const struct runtime_vm *vm, void **ret,
                 struct error *err)
{
    const struct v8_layout *l = vm->instance->layout;
    if (!v8_chunks_known(l) || !v8_types_known(l))
        return error_set(err, ERROR_UNSUPPORTED,
                         "the heap of V8 %d.%d is not known, only those of Node.js 18 and of 20 to "
                         "26 (10.2, 11.3 to 14.6)",
                         l->version[0], l->version[1]);
    struct v8_heap *h = calloc(1, sizeof(*h));
    if (!h)
        return error_no_memory(err);
    h->r = (struct v8_reader){.memory = m->memory, .layout = l, .same = {0, UINT64_MAX}};
    h->l = l;
    h->m = m;
    h->at = vm->address;
    if (!fill_heap(h)) {
        end(h);
        return error_no_memory(err);
    }
    *ret = h;
    return 0;
}

/* ---- finding heaps ------------------------------------------------------------------------- */

struct search {
    const struct runtime_instance *at;
    runtime_vm_list *ret;
    size_t first; /* of this runtime in the list */
};

static bool note_heap(void *context, const struct v8_chunk *c)
{
    const struct search *s = context;
    for (size_t i = s->first; i < s->ret->nr; i++) {
        if (s->ret->at[i].address == c->heap)
            return true;
    }
    return vec_push(s->ret, (struct runtime_vm){c->heap, s->at});
}

/* A process has one V8; a file with it may be mapped more than once, as a copy of its builtins. */
static int find(const struct runtime_memory *m, const struct runtime_instance *at, size_t nr,
                runtime_vm_list *ret, struct error *err)
{
    struct search s = {.at = at, .ret = ret, .first = ret->nr};
    if (!nr)
        return 0;
    if (!v8_chunks_known(at->layout)) /* begin() says so */
        return vec_push(ret, (struct runtime_vm){0, at}) ? 0 : error_no_memory(err);
    return v8_chunks_each(m->memory, at->layout, m->anonymous, m->nr_anonymous, note_heap, &s)
               ? 0
               : error_no_memory(err);
}

const struct census_heap v8_census = {.find = find,
                                      .begin = begin,
                                      .end = end,
                                      .total = total,
                                      .own = own,
                                      .own_name = "gaps between objects",
                                      .subtype = v8_heap_subtype,
                                      .outside = outside,
                                      .string_identity = v8_heap_string_identity,
                                      .objects = objects,
                                      .roots = v8_heap_roots,
                                      .late_roots = v8_heap_late_roots,
                                      .references = v8_heap_references,
                                      .upvalue = v8_heap_variable,
                                      .upvalue_name = "variable",
                                      .describe = v8_heap_describe,
                                      .string = v8_heap_string};
