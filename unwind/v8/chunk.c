/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/v8/chunk.h"

#include "base/cursor.h"

enum {
    HEAD = 48,          /* bytes of a chunk that are looked at */
    DESCRIPTION = 320,  /* the same of its description */
    BEGIN_MAX = 0x4000, /* objects begin at most so far behind the chunk's begin */
    SPACE_HEAP = 8,     /* Space: its heap, and its number */
    SPACE_NUMBER = 16,
    FROM = 8, /* flags of young chunks, the same in all versions */
};

/* The spaces by their numbers: R read-only, N new, P paged, L large, Y new large. */
static const char *spaces_of(const struct v8_layout *l)
{
    enum { V11_3 = 4, V12_4 = 6, V12_9 = 7 }; /* columns of the table of layouts */
    return l->column < V11_3   ? "RPPPLLYN"
           : l->column < V12_4 ? "RNPPPYLLL"
           : l->column < V12_9 ? "RNPPPPYLLLL"
                               : "RNPPPPPYLLLLL";
}

static bool space_kind(const struct v8_layout *l, uint32_t number, uint8_t *ret)
{
    const char *s = spaces_of(l);
    for (uint32_t i = 0; i < number; i++) {
        if (!*s++)
            return false;
    }
    switch (*s) {
    case 'N':
        *ret = V8_SPACE_NEW;
        return true;
    case 'P':
        *ret = V8_SPACE_PAGED;
        return true;
    case 'L':
        *ret = V8_SPACE_LARGE;
        return true;
    case 'Y':
        *ret = V8_SPACE_NEW_LARGE;
        return true;
    default:
        return false;
    }
}

bool v8_chunks_known(const struct v8_layout *l)
{
    return l->chunk_size != V8_UNKNOWN && l->verified;
}

static bool read_exactly(const struct memory *m, uint64_t at, void *to, size_t size)
{
    enum provenance ignored = PROVENANCE_EXACT;
    return memory_read(m, at, to, size, &ignored);
}

/* Returns whether a chunk's numbers can be those of one. */
static bool is_sound(const struct v8_chunk *c)
{
    const uint64_t most = UINT64_C(1) << 40;
    return c->size >= 4096 && c->size < most && c->begin > c->at && c->begin - c->at <= BEGIN_MAX &&
           c->end > c->begin && c->end - c->at <= c->size &&
           (c->begin | c->end | c->heap | c->owner) % 8 == 0 && c->heap && c->owner;
}

bool v8_chunk_read(const struct memory *m, const struct v8_layout *l, uint64_t at,
                   struct v8_chunk *ret)
{
    uint8_t head[HEAD], description[DESCRIPTION], space[SPACE_NUMBER + 4];
    *ret = (struct v8_chunk){.at = at, .description = at};
    if (!read_exactly(m, at, head, sizeof(head)))
        return false;
    const uint64_t flags = load_u64(head + l->chunk_flags, false);
    if (l->chunk_meta != V8_UNKNOWN)
        ret->description = load_u64(head + l->chunk_meta, false);
    if (flags >> 32 || ret->description % 8 ||
        !read_exactly(m, ret->description, description, sizeof(description)))
        return false;
    ret->is_from = flags & FROM;
    ret->size = load_u64(description + l->chunk_size, false);
    ret->begin = load_u64(description + l->chunk_begin, false);
    ret->end = load_u64(description + l->chunk_end, false);
    ret->heap = load_u64(description + l->chunk_heap, false);
    ret->owner = load_u64(description + l->chunk_owner, false);
    ret->allocated = load_u64(description + l->chunk_allocated, false);
    ret->next = load_u64(description + l->chunk_next, false);
    return is_sound(ret) && read_exactly(m, ret->owner, space, sizeof(space)) &&
           load_u64(space + SPACE_HEAP, false) == ret->heap &&
           space_kind(l, load_u32(space + SPACE_NUMBER, false), &ret->kind) &&
           (ret->kind != V8_SPACE_PAGED || ret->allocated <= ret->size);
}

bool v8_chunks_each(const struct memory *m, const struct v8_layout *l,
                    const struct memory_range *ranges, size_t nr,
                    bool (*take)(void *context, const struct v8_chunk *c), void *context)
{
    struct v8_chunk c;
    uint64_t next = 0; /* what lies before is in a chunk that was taken */
    for (size_t i = 0; i < nr; i++) {
        uint64_t at = (ranges[i].start + V8_CHUNK - 1) & ~(uint64_t)(V8_CHUNK - 1);
        for (; at >= ranges[i].start && at < ranges[i].end; at += V8_CHUNK) {
            if (at < next || !v8_chunk_read(m, l, at, &c))
                continue;
            if (!take(context, &c))
                return false;
            next = at + c.size;
        }
    }
    return true;
}
