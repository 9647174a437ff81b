/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds the function that was at an address at a given time.
 *
 * A function is a rectangle: addresses by times. The loads are played in time order, and each load
 * ends every function that it overlaps. So rectangles never overlap, and a point lies in at most
 * one. The rectangles go into a segment tree over the addresses: each into O(log n) nodes, and each
 * node is sorted by time. A lookup finds the leaf by binary search and climbs. Nearly all functions
 * are found in the first nodes.
 *
 * Without times, later loads only hide the parts they cover. The pieces that stay visible are
 * rectangles that last for ever; the rest is the same.
 */
#include "jitdump/jitcode.h"

#include "base/file_map.h"
#include "base/other_file.h"
#include "base/sort.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the live functions: a set of segment numbers ----------------------------------------- */

enum { LEVELS = 6 }; /* 64^6 numbers */
static const size_t NONE = SIZE_MAX;

/* One bit per number. Each higher level has one bit per word that is not zero in the level
 * below. */
struct bits {
    uint64_t *level[LEVELS];
    size_t words[LEVELS];
};

static bool bits_create(struct bits *b, size_t size)
{
    for (unsigned l = 0; l < LEVELS; l++) {
        size = b->words[l] = size / 64 + 1;
        b->level[l] = calloc(size, sizeof(uint64_t));
        if (!b->level[l])
            return false;
    }
    return true;
}

static void bits_free(struct bits *b)
{
    for (unsigned l = 0; l < LEVELS; l++)
        free(b->level[l]);
}

static void bits_set(struct bits *b, size_t i)
{
    for (unsigned l = 0; l < LEVELS; l++, i >>= 6)
        b->level[l][i >> 6] |= UINT64_C(1) << (i & 63);
}

static void bits_clear(struct bits *b, size_t i)
{
    for (unsigned l = 0; l < LEVELS; l++, i >>= 6)
        if (b->level[l][i >> 6] &= ~(UINT64_C(1) << (i & 63)))
            return;
}

/* Returns the least number from i on; NONE: there is none. */
static size_t bits_next(const struct bits *b, size_t i)
{
    for (unsigned l = 0; l < LEVELS && i >> 6 < b->words[l]; l++, i = (i >> 6) + 1) {
        uint64_t word = b->level[l][i >> 6] >> (i & 63);
        if (!word)
            continue;
        for (i += (size_t)__builtin_ctzll(word); l--;)
            i = i << 6 | (size_t)__builtin_ctzll(b->level[l][i]);
        return i;
    }
    return NONE;
}

/* Returns the greatest number up to i; NONE: there is none. */
static size_t bits_previous(const struct bits *b, size_t i)
{
    for (unsigned l = 0; l < LEVELS; l++, i = (i >> 6) - 1) {
        uint64_t word = b->level[l][i >> 6] << (63 - (i & 63));
        if (word) {
            for (i -= (size_t)__builtin_clzll(word); l--;)
                i = i << 6 | (size_t)(63 - __builtin_clzll(b->level[l][i]));
            return i;
        }
        if (i >> 6 == 0)
            return NONE;
    }
    return NONE;
}

/* ---- playing the loads ------------------------------------------------------------------- */

struct live {
    uint32_t function, hi;
};

struct player {
    struct jitcode *code;
    struct bits set;   /* first segments of the live pieces */
    struct live *live; /* indexed by first segment */
};

/* Returns the number of the greatest bound that is at most `address`; NONE: there is none. */
static size_t bound_at(const struct jitcode *code, uint64_t address)
{
    const uint64_t *b = code->bounds;
    size_t left = code->nr_segments + 1;
    if (!b || address < b[0])
        return NONE;
    while (left > 1) {
        size_t half = left / 2;
        b += b[half] <= address ? half : 0;
        left -= half;
    }
    return (size_t)(b - code->bounds);
}

static void piece_add(struct player *p, size_t lo, size_t hi, uint32_t function)
{
    p->live[lo] = (struct live){function, (uint32_t)hi};
    bits_set(&p->set, lo);
}

/* End or hide the pieces that are live from `lo` up to `hi`. */
static void overwrite(struct player *p, size_t lo, size_t hi, uint64_t time)
{
    size_t at = bits_previous(&p->set, lo);
    if (at == NONE || p->live[at].hi <= lo)
        at = bits_next(&p->set, lo);
    for (; at != NONE && at < hi; at = bits_next(&p->set, at + 1)) {
        struct live old = p->live[at];
        bits_clear(&p->set, at);
        if (!p->code->timeless) {
            p->code->functions.at[old.function].until = time;
            continue;
        }
        if (at < lo)
            piece_add(p, at, lo, old.function);
        if (old.hi > hi)
            piece_add(p, hi, old.hi, old.function);
    }
}

/* Make a moved function from the function at the old place, which it leaves. Returns false if there
 * was no such function. */
static bool take_over(struct player *p, const struct jit_load *load)
{
    struct jitcode *code = p->code;
    size_t segment = bound_at(code, load->old);
    size_t at = segment == NONE ? NONE : bits_previous(&p->set, segment);
    if (at == NONE || p->live[at].hi <= segment)
        return false;
    struct jit_function *from = &code->functions.at[p->live[at].function];
    struct jit_function *to = &code->functions.at[load->function];
    if (from->start != load->old || from->size < to->size)
        return false;
    struct jit_function moved = *from;
    moved.start = to->start;
    moved.size = to->size;
    moved.from = load->time;
    *to = moved;
    if (!code->timeless) {
        from->until = load->time;
        bits_clear(&p->set, at);
    }
    return true;
}

static void flush(struct player *p, uint64_t time)
{
    for (size_t at = bits_next(&p->set, 0); at != NONE; at = bits_next(&p->set, at + 1)) {
        bits_clear(&p->set, at);
        p->code->functions.at[p->live[at].function].until = time;
    }
}

static void play(struct player *p, const struct jit_load *load)
{
    if (load->event == JIT_FLUSH) {
        if (!p->code->timeless)
            flush(p, load->time);
        return;
    }
    struct jit_function *f = &p->code->functions.at[load->function];
    if (load->event == JIT_MOVE && !take_over(p, load)) {
        p->code->loss.records_bad++;
        return;
    }
    f->from = p->code->timeless ? 0 : load->time;
    f->until = UINT64_MAX;
    size_t lo = bound_at(p->code, f->start);
    size_t hi = bound_at(p->code, f->start + f->size);
    overwrite(p, lo, hi, load->time);
    piece_add(p, lo, hi, load->function);
}

/* ---- building the index ------------------------------------------------------------------ */

static int by_time(const void *a, const void *b)
{
    const struct jit_load *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->function != y->function)
        return x->function < y->function ? -1 : 1;
    return (x->event != JIT_FLUSH) - (y->event != JIT_FLUSH);
}

/* Sort the loads by time: writers stamp and write a record at slightly different moments. */
static void sort_loads(struct jitcode *code)
{
    bool sorted = true;
    for (size_t i = 1; i < code->loads.nr; i++)
        sorted &= code->loads.at[i - 1].time <= code->loads.at[i].time;
    if (!sorted && !code->timeless)
        qsort(code->loads.at, code->loads.nr, sizeof(*code->loads.at), by_time);
    vec_foreach (l, &code->loads) {
        if (l->event == JIT_FLUSH)
            continue;
        code->first = code->first && code->first < l->time ? code->first : l->time;
        code->last = code->last > l->time ? code->last : l->time;
    }
}

static bool make_bounds(struct jitcode *code)
{
    size_t nr = 0, unique = 0;
    struct sort_key *keys = calloc(code->functions.nr * 2, sizeof(*keys));
    code->bounds = calloc(code->functions.nr * 2, sizeof(*code->bounds));
    vec_foreach (f, &code->functions) {
        if (!keys)
            break;
        keys[nr++].key = f->start;
        keys[nr++].key = f->start + f->size;
    }
    bool sorted = keys && code->bounds && sort_keys(keys, nr);
    for (size_t i = 0; sorted && i < nr; i++)
        if (i == 0 || keys[i].key != keys[i - 1].key)
            code->bounds[unique++] = keys[i].key;
    free(keys);
    code->nr_segments = sorted ? unique - 1 : 0;
    return sorted;
}

/* Collect the visible pieces, in ascending time order. */
static bool collect_pieces(const struct player *p)
{
    struct jitcode *code = p->code;
    if (code->timeless) {
        for (size_t at = bits_next(&p->set, 0); at != NONE; at = bits_next(&p->set, at + 1)) {
            struct live l = p->live[at];
            if (!vec_push(&code->pieces,
                          (struct jit_piece){0, UINT64_MAX, l.function, (uint32_t)at, l.hi}))
                return false;
        }
        return true;
    }
    vec_foreach (l, &code->loads) {
        if (l->event == JIT_FLUSH)
            continue;
        const struct jit_function *f = &code->functions.at[l->function];
        if (f->from >= f->until)
            continue;
        struct jit_piece piece = {f->from, f->until, l->function,
                                  (uint32_t)bound_at(code, f->start),
                                  (uint32_t)bound_at(code, f->start + f->size)};
        if (!vec_push(&code->pieces, piece))
            return false;
    }
    return true;
}

/* Visit the nodes that make up [lo, hi). Either count the piece for each node, or write its number
 * at first_piece[node], which then moves on. */
static void place_piece(struct jitcode *code, const struct jit_piece *piece, bool count)
{
    uint32_t number = (uint32_t)(piece - code->pieces.at);
    size_t l = piece->lo + code->nr_segments, r = piece->hi + code->nr_segments;
    for (; l < r; l >>= 1, r >>= 1) {
        size_t nodes[2] = {l & 1 ? l++ : 0, r & 1 ? --r : 0};
        for (unsigned i = 0; i < 2; i++) {
            if (!nodes[i])
                continue;
            if (count)
                code->first_piece[nodes[i] + 1]++;
            else
                code->node_pieces[code->first_piece[nodes[i]]++] = number;
        }
    }
}

static bool make_tree(struct jitcode *code)
{
    size_t nodes = code->nr_segments * 2;
    code->first_piece = calloc(nodes + 2, sizeof(*code->first_piece));
    if (!code->first_piece)
        return false;
    vec_foreach (piece, &code->pieces)
        place_piece(code, piece, true);
    for (size_t i = 1; i <= nodes; i++)
        code->first_piece[i] += code->first_piece[i - 1];
    code->node_pieces = calloc((size_t)code->first_piece[nodes] + 1, sizeof(*code->node_pieces));
    if (!code->node_pieces)
        return false;
    vec_foreach (piece, &code->pieces)
        place_piece(code, piece, false);
    /* Filling moved every start to the end of its node, which is the start of the next node. */
    memmove(code->first_piece + 1, code->first_piece, nodes * sizeof(*code->first_piece));
    code->first_piece[0] = 0;
    return true;
}

int jitcode_index_build(struct jitcode *code, struct error *err)
{
    struct player p = {.code = code};
    if (code->functions.nr == 0)
        return 0;
    sort_loads(code);
    bool done = make_bounds(code) && bits_create(&p.set, code->nr_segments) &&
                (p.live = calloc(code->nr_segments + 1, sizeof(*p.live)));
    if (done)
        vec_foreach (l, &code->loads)
            play(&p, l);
    done = done && collect_pieces(&p) && make_tree(code);
    bits_free(&p.set);
    free(p.live);
    vec_free(&code->loads);
    return done ? 0 : error_no_memory(err);
}

/* ---- looking up -------------------------------------------------------------------------- */

/* Returns the last of a node's pieces that began by `time`; NULL: none. */
static const struct jit_piece *node_piece(const struct jitcode *code, size_t node, uint64_t time)
{
    const uint32_t *at = code->node_pieces + code->first_piece[node];
    const struct jit_piece *pieces = code->pieces.at;
    size_t left = code->first_piece[node + 1] - code->first_piece[node];
    if (left == 0 || pieces[*at].from > time)
        return NULL;
    while (left > 1) {
        size_t half = left / 2;
        at += pieces[at[half]].from <= time ? half : 0;
        left -= half;
    }
    return &pieces[*at];
}

static const struct jit_piece *find_piece(const struct jitcode *code, uint64_t address,
                                          uint64_t time)
{
    size_t segment = bound_at(code, address);
    const struct jit_piece *latest = NULL;
    if (segment == NONE || segment >= code->nr_segments)
        return NULL;
    for (size_t node = segment + code->nr_segments; node; node >>= 1) {
        const struct jit_piece *p = node_piece(code, node, time ? time : UINT64_MAX);
        if (!p)
            continue;
        if (time && time < p->until)
            return p;
        if (!time && (!latest || p->from > latest->from))
            latest = p;
    }
    return latest;
}

const struct jit_function *jitcode_lookup_span(const struct jitcode *code, uint64_t address,
                                               uint64_t time, struct jit_span *ret)
{
    const struct jit_piece *p = find_piece(code, address, time);
    if (!p)
        return NULL;
    *ret = (struct jit_span){code->bounds[p->lo], code->bounds[p->hi]};
    return &code->functions.at[p->function];
}

const struct jit_function *jitcode_lookup(const struct jitcode *code, uint64_t address,
                                          uint64_t time)
{
    const struct jit_piece *p = find_piece(code, address, time);
    return p ? &code->functions.at[p->function] : NULL;
}

/* ---- the rest ---------------------------------------------------------------------------- */

struct jitcode *jitcode_create(void)
{
    return calloc(1, sizeof(struct jitcode));
}

struct jit_function *jitcode_add(struct jitcode *code, uint64_t start, uint64_t size, uint64_t time,
                                 struct error *err)
{
    size_t nr = code->functions.nr;
    if (nr >= FUNCTIONS_MAX) {
        error_set(err, ERROR_UNSUPPORTED, "there are more than %d functions", FUNCTIONS_MAX);
        return NULL;
    }
    if (!vec_push(&code->functions,
                  (struct jit_function){.start = start, .size = size, .of = code}) ||
        !vec_push(&code->loads, (struct jit_load){.time = time, .function = (uint32_t)nr})) {
        error_no_memory(err);
        return NULL;
    }
    return &code->functions.at[nr];
}

int jitcode_flush(struct jitcode *code, uint64_t time, struct error *err)
{
    struct jit_load load = {
        .time = time, .function = (uint32_t)code->functions.nr, .event = JIT_FLUSH};
    return vec_push(&code->loads, load) ? 0 : error_no_memory(err);
}

void jitcode_free(struct jitcode *code)
{
    if (!code)
        return;
    while (code->lines) {
        struct jit_lines *next = code->lines->next;
        jit_lines_free(code->lines);
        code->lines = next;
    }
    vec_free(&code->functions);
    vec_free(&code->loads);
    free(code->names);
    free(code->bounds);
    free(code->first_piece);
    free(code->node_pieces);
    vec_free(&code->pieces);
    jit_lua_free(code->lua);
    if (code->map)
        file_unmap(code->map, code->map_size);
    free(code);
}

uint32_t jitcode_pid(const struct jitcode *code)
{
    return code->pid;
}

void jitcode_own(struct jitcode *code, uint32_t pid)
{
    if (!code->owner)
        code->owner = pid;
}

uint32_t jit_function_owner(const struct jit_function *f)
{
    return f->of ? f->of->owner : 0;
}

const struct jit_loss *jitcode_loss(const struct jitcode *code)
{
    return &code->loss;
}

size_t jitcode_count(const struct jitcode *code)
{
    return code->functions.nr;
}

const struct jit_function *jitcode_at(const struct jitcode *code, size_t index)
{
    return &code->functions.at[index];
}

size_t jitcode_index(const struct jitcode *code, const struct jit_function *f)
{
    return (size_t)(f - code->functions.at);
}

bool jitcode_is_tsc(const struct jitcode *code)
{
    return code->tsc;
}

bool jitcode_is_timeless(const struct jitcode *code)
{
    return code->timeless;
}

uint32_t jitcode_machine(const struct jitcode *code)
{
    return code->machine;
}

bool jitcode_swapped(const struct jitcode *code)
{
    return code->swapped;
}

void jitcode_time_range(const struct jitcode *code, uint64_t *first, uint64_t *last)
{
    *first = code->first;
    *last = code->last;
}

int jit_file_open(const char *path, struct error *err)
{
    int fd = other_file_open(path);
    if (fd < 0 && errno == ENOTSUP)
        return error_set(err, ERROR_FORMAT, "%s: this is not a regular file", path);
    return fd < 0 ? error_system(err, errno, "%s", path) : fd;
}

int jit_file_map(int fd, const char *path, void **bytes, size_t *size, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_system(err, errno, "%s", path);
    *size = (size_t)st.st_size;
    *bytes = *size ? file_map(fd, *size) : NULL;
    return *size && !*bytes ? error_system(err, errno, "%s", path) : 0;
}
