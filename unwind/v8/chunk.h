/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The chunks of V8's heap: aligned blocks of 256 KiB that hold objects of one space, or a larger
 * block with one large object. They are found by their heads, which lead to a space and its heap.
 * Sources: src/heap/memory-chunk*.h, page-metadata.h, spaces.h of V8 10.2 to 14.6.
 */
#ifndef UNWIND_V8_CHUNK_H
#define UNWIND_V8_CHUNK_H

#include "unwind/memory.h"
#include "unwind/v8/layout.h"

enum { V8_CHUNK = 1 << 18 }; /* bytes, and the alignment of all chunks */

enum v8_space_kind {
    V8_SPACE_NEW,       /* young objects, one behind the other */
    V8_SPACE_PAGED,     /* objects and free space, as they came */
    V8_SPACE_LARGE,     /* one object a chunk */
    V8_SPACE_NEW_LARGE, /* the same, young */
};

struct v8_chunk {
    uint64_t at, size;   /* bytes */
    uint64_t begin, end; /* where its objects are */
    uint64_t description;
    uint64_t heap, owner; /* of V8's structures; never 0 */
    uint64_t allocated;   /* of a paged space: bytes of objects, by V8's count */
    uint64_t next;        /* the description of the next chunk of its space */
    uint8_t kind;         /* enum v8_space_kind */
    bool is_from;         /* of new space: nothing is in it but what was copied elsewhere */
};

/* Returns whether the layout tells how chunks look. */
bool v8_chunks_known(const struct v8_layout *l);
/* Read a chunk's head. Returns false if there is none at this address, or only V8's own read-only
 * objects are in it. */
bool v8_chunk_read(const struct memory *m, const struct v8_layout *l, uint64_t at,
                   struct v8_chunk *ret);

/* Call `take` for each chunk of the ranges, in their order. Returns false if `take` did. */
bool v8_chunks_each(const struct memory *m, const struct v8_layout *l,
                    const struct memory_range *ranges, size_t nr,
                    bool (*take)(void *context, const struct v8_chunk *c), void *context);

#endif
