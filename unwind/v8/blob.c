/* SPDX-License-Identifier: GPL-2.0-only */
/* Searches builtins without symbols; see blob.h. */
#include "unwind/v8/blob.h"

#include "base/cursor.h"
#include "base/vec.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { BUILTINS_MIN = 1000, BUILTINS_MAX = 8192, CODE_MAX = 1 << 26, ONE_MAX = 1 << 20 };

struct place {
    uint32_t offset, size; /* place in the blob's code */
};

struct search {
    const struct v8_image *image;
    VEC(const char *) names;
    struct place *places;  /* by builtin number */
    struct place *ordered; /* by offset */
    uint32_t stride;
};

/* ---- names --------------------------------------------------------------------------------- */

static const char *name_at(const struct v8_image *image, uint64_t address)
{
    enum { NAME_MAX_SIZE = 96 };
    const char *name =
        address ? (const char *)image->bytes(image->context, address, NAME_MAX_SIZE) : NULL;
    size_t size = name ? strnlen(name, NAME_MAX_SIZE) : 0;
    if (size == 0 || size == NAME_MAX_SIZE)
        return NULL;
    for (size_t i = 0; i < size; i++) {
        if (!isalnum((unsigned char)name[i]) && name[i] != '_' && name[i] != '.')
            return NULL;
    }
    return name;
}

/* Reads the names if `table` is the table whose first entry is the name of builtin number 0. false:
 * memory is out. */
static bool read_names(struct search *s, uint64_t table)
{
    enum { ENTRY = 24 };
    static const char first[] = "DeoptimizationEntry_Eager";
    const char *name = name_at(s->image, s->image->word(s->image->context, table));
    if (!name || strcmp(name, first) != 0)
        return true;
    s->names.nr = 0;
    for (; name && s->names.nr < BUILTINS_MAX;
         name = name_at(s->image, s->image->word(s->image->context, table))) {
        if (!vec_push(&s->names, name))
            return false;
        table += ENTRY;
    }
    return true;
}

static bool find_names_in(struct search *s, const struct v8_segment *g)
{
    for (uint64_t at = (g->address + 7) & ~UINT64_C(7);
         s->names.nr < BUILTINS_MIN && at + 8 <= g->address + g->size; at += 8) {
        if (!read_names(s, at))
            return false;
    }
    return true;
}

/* Searches the likely segments first: the table is relocated data, or constant, or the constants
 * are together with the code. */
static bool find_names(struct search *s)
{
    enum { RELOCATED, CONSTANT, WITH_CODE, NR };
    struct v8_segment g;
    for (int where = RELOCATED; where < NR; where++) {
        for (size_t i = 0; s->image->segment(s->image->context, i, &g); i++) {
            int is = g.writable ? RELOCATED : g.executable ? WITH_CODE : CONSTANT;
            if (is == where && !find_names_in(s, &g))
                return false;
        }
    }
    return true;
}

/* ---- places -------------------------------------------------------------------------------- */

static struct place place_at(const uint8_t *at)
{
    return (struct place){load_u32(at, false), load_u32(at + 4, false)};
}

static bool may_be(struct place p)
{
    enum { ALIGNMENT = 32 };
    return p.size && p.size <= ONE_MAX && p.offset <= CODE_MAX && p.offset % ALIGNMENT == 0;
}

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Do the places, in order, follow each other with gaps of less than GAP_MAX bytes? */
static bool tiles(const struct search *s)
{
    enum { GAP_MAX = 80 };
    const struct place *p = s->ordered;
    for (size_t i = 0; i + 1 < s->names.nr; i++, p++) {
        if (p[1].offset < p->offset + p->size || p[1].offset >= p->offset + p->size + GAP_MAX)
            return false;
    }
    return s->ordered[0].offset == 0;
}

static bool is_table(struct search *s, const uint8_t *at)
{
    for (size_t i = 0; i < s->names.nr; i++, at += s->stride) {
        s->places[i] = s->ordered[i] = place_at(at);
        if (!may_be(s->places[i]))
            return false;
    }
    qsort(s->ordered, s->names.nr, sizeof(*s->ordered), compare_places);
    return tiles(s);
}

static bool find_places(struct search *s)
{
    struct v8_segment g;
    uint64_t size = s->names.nr * s->stride;
    for (size_t i = 0; s->image->segment(s->image->context, i, &g); i++) {
        const uint8_t *bytes = s->image->bytes(s->image->context, g.address, g.size);
        for (uint64_t at = (8 - g.address % 8) % 8; bytes && at + size <= g.size; at += 8) {
            if (is_table(s, bytes + at))
                return true;
        }
    }
    return false;
}

/* ---- code ---------------------------------------------------------------------------------- */

static bool is_code(const struct search *s, const uint8_t *bytes)
{
    enum { INT3 = 0xcc };
    for (size_t i = 0; i + 1 < s->names.nr; i++) {
        const struct place *p = &s->ordered[i];
        for (uint32_t at = p->offset + p->size; at < p[1].offset; at++) {
            if (bytes[at] != INT3)
                return false;
        }
    }
    return true;
}

/* Returns the vaddr of the blob's code; 0: not found, or more than one place may be it. */
static uint64_t find_code(const struct search *s)
{
    enum { ALIGNMENT = 32 };
    const struct place *last = &s->ordered[s->names.nr - 1];
    uint64_t found = 0, size = (uint64_t)last->offset + last->size;
    struct v8_segment g;
    for (size_t i = 0; s->image->segment(s->image->context, i, &g); i++) {
        const uint8_t *bytes =
            g.executable ? s->image->bytes(s->image->context, g.address, g.size) : NULL;
        uint64_t at = (ALIGNMENT - g.address % ALIGNMENT) % ALIGNMENT;
        for (; bytes && at + size <= g.size; at += ALIGNMENT) {
            if (!is_code(s, bytes + at))
                continue;
            if (found)
                return 0;
            found = g.address + at;
        }
    }
    return found;
}

/* ---- all of it ----------------------------------------------------------------------------- */

/* Returns the size in bytes of an entry in the table of places; 0: nobody has examined this
 * version. */
static uint32_t stride_of(const struct v8_layout *l)
{
    if (l->version[0] < 10)
        return 0;
    if (l->version[0] == 10)
        return 28;
    return l->version[0] == 11 ? 32 : 12;
}

static int search(struct search *s, bool (*take)(void *context, const struct v8_found_builtin *b),
                  void *context)
{
    if (!find_names(s))
        return -1;
    if (s->names.nr < BUILTINS_MIN)
        return 0;
    s->places = calloc(s->names.nr, sizeof(*s->places));
    s->ordered = calloc(s->names.nr, sizeof(*s->ordered));
    if (!s->places || !s->ordered)
        return -1;
    uint64_t code = find_places(s) ? find_code(s) : 0;
    for (size_t i = 0; code && i < s->names.nr; i++) {
        const struct v8_found_builtin b = {s->names.at[i], code + s->places[i].offset,
                                           s->places[i].size};
        if (!take(context, &b))
            return -1;
    }
    return code != 0;
}

int v8_blob_find(const struct v8_image *image, const struct v8_layout *l,
                 bool (*take)(void *context, const struct v8_found_builtin *b), void *context)
{
    struct search s = {.image = image, .stride = stride_of(l)};
    int found = s.stride && image->word && image->segment ? search(&s, take, context) : 0;
    vec_free(&s.names);
    free(s.places);
    free(s.ordered);
    return found;
}

/* ---- bytecodes ----------------------------------------------------------------------------- */

/* Returns the number of bytecodes in a version; 0: nobody has examined this version. */
static uint32_t nr_bytecodes(const struct v8_layout *l)
{
    static const struct {
        int32_t major, minor;
        uint32_t nr;
    } known[] = {{9, 4, 197},  {10, 2, 198}, {11, 3, 198}, {11, 8, 199}, {12, 4, 203},
                 {12, 9, 204}, {13, 6, 208}, {14, 1, 212}, {14, 6, 212}};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        if (known[i].major == l->version[0] && known[i].minor == l->version[1])
            return known[i].nr;
    }
    return 0;
}

const uint8_t *v8_blob_bytecodes(const struct v8_image *image, const struct v8_layout *l,
                                 uint32_t *ret)
{
    static const uint8_t first[] = {1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 6,
                                    2, 1, 2, 1, 1, 1, 1, 1, 2, 4, 4};
    const uint8_t *found = NULL;
    struct v8_segment g;
    *ret = nr_bytecodes(l);
    if (!*ret || !image->segment)
        return NULL;
    for (size_t i = 0; image->segment(image->context, i, &g); i++) {
        const uint8_t *at = image->bytes(image->context, g.address, g.size), *end;
        for (end = at ? at + g.size : NULL; at && (size_t)(end - at) >= 3 * (size_t)*ret; at++) {
            at = memmem(at, (size_t)(end - at), first, sizeof(first));
            if (!at || (size_t)(end - at) < 3 * (size_t)*ret)
                break;
            if (found)
                return NULL;
            found = at;
        }
    }
    return found;
}
