/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/v8/heap.h"

#include "base/cursor.h"
#include "base/vec.h"

#include <stdlib.h>

enum {
    PIECE = 64 << 10,
    PAGE = 4096,
    MAPS_MAX = 64, /* maps of each kind: one for each isolate, or one for all */
    OVERLAP = 32,  /* bytes beyond the end of a piece, for an object's head */
};

/* A set of tagged words. */
struct words {
    uint64_t at[MAPS_MAX];
    unsigned nr;
};

struct heap_scan {
    const struct memory *m;
    const struct v8_layout *l;
    const struct v8_heap_visitor *visitor;
    struct words metas, functions, codes;
    uint8_t *piece;
};

static bool is_in(const struct words *w, uint64_t word)
{
    for (unsigned i = 0; i < w->nr; i++)
        if (w->at[i] == word)
            return true;
    return false;
}

static void add(struct words *w, uint64_t word)
{
    if (w->nr < MAPS_MAX && !is_in(w, word))
        w->at[w->nr++] = word;
}

/* Called for each word that may be the first of an object at `address`. `bytes`: `left` bytes from
 * that word on. false ends the scan. */
typedef bool (*look)(struct heap_scan *s, uint64_t address, const uint8_t *bytes, size_t left);

static int32_t type_in(const struct heap_scan *s, const uint8_t *bytes, size_t left)
{
    size_t at = (size_t)s->l->map_type;
    return at + 2 <= left ? load_u16(bytes + at, false) : -1;
}

/* Finds maps of maps: a map of maps is its own map. */
static bool look_for_metas(struct heap_scan *s, uint64_t address, const uint8_t *bytes, size_t left)
{
    if (load_u64(bytes, false) == (address | 1) && type_in(s, bytes, left) == s->l->type_map)
        add(&s->metas, address | 1);
    return true;
}

static bool look_for_maps(struct heap_scan *s, uint64_t address, const uint8_t *bytes, size_t left)
{
    if (!is_in(&s->metas, load_u64(bytes, false)))
        return true;
    int32_t type = type_in(s, bytes, left);
    if (type == s->l->type_sfi)
        add(&s->functions, address | 1);
    else if (type >= 0 &&
             type == (s->l->code_first == V8_UNKNOWN ? s->l->type_stream : s->l->type_code))
        add(&s->codes, address | 1);
    return true;
}

static bool look_for_objects(struct heap_scan *s, uint64_t address, const uint8_t *bytes,
                             size_t left)
{
    uint64_t map = load_u64(bytes, false);
    (void)left;
    if ((map & 3) != 1)
        return true;
    if (is_in(&s->functions, map))
        return s->visitor->function(s->visitor->context, address | 1);
    if (!is_in(&s->codes, map))
        return true;
    int32_t first = s->l->code_first == V8_UNKNOWN ? s->l->stream_first : s->l->code_first;
    return s->visitor->code(s->visitor->context, address + (uint64_t)first, address);
}

static bool scan_range(struct heap_scan *s, const struct memory_range *range, look at)
{
    enum provenance ignored;
    uint64_t address = (range->start + 7) & ~UINT64_C(7), size;
    for (; address < range->end && range->end - address >= 8; address += size) {
        uint64_t left = range->end - address;
        size = left < PIECE ? left & ~UINT64_C(7) : PIECE;
        size_t more = left < PIECE + OVERLAP ? (size_t)size : (size_t)size + OVERLAP;
        if (!memory_read(s->m, address, s->piece, more, &ignored)) { /* a hole: read page by page */
            size = PAGE - address % PAGE < size ? PAGE - address % PAGE : size;
            more = (size_t)size;
            if (!memory_read(s->m, address, s->piece, more, &ignored))
                continue;
        }
        for (size_t i = 0; i + 8 <= size; i += 8)
            if (!at(s, address + i, s->piece + i, more - i))
                return false;
    }
    return true;
}

static bool scan_all(struct heap_scan *s, const struct memory_range *ranges, size_t nr, look at)
{
    for (size_t i = 0; i < nr; i++)
        if (!scan_range(s, &ranges[i], at))
            return false;
    return true;
}

int v8_heap_scan(const struct memory *m, const struct v8_layout *layout,
                 const struct memory_range *ranges, size_t nr,
                 const struct v8_heap_visitor *visitor, struct error *err)
{
    struct heap_scan s = {.m = m, .l = layout, .visitor = visitor};
    s.piece = malloc(PIECE + OVERLAP);
    if (!s.piece)
        return error_no_memory(err);
    if (layout->map_type > 0 && scan_all(&s, ranges, nr, look_for_metas) && s.metas.nr &&
        scan_all(&s, ranges, nr, look_for_maps) && s.functions.nr)
        (void)scan_all(&s, ranges, nr, look_for_objects);
    free(s.piece);
    return 0;
}
