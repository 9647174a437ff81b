/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory of a target at a time: the one seam between walkers and where bytes come from.
 * A stack window in front (the sample's own copy, read in place), then layers, first match wins.
 * A walker cannot tell a recording from a process, a core file or an array.
 */
#ifndef UNWIND_MEMORY_H
#define UNWIND_MEMORY_H

#include "unwind/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Times between which readings give the same; empty: from > to. */
struct memory_span {
    uint64_t from, to; /* ns, both included */
};

/* Of no time. */
static inline void memory_span_empty(struct memory_span *span)
{
    *span = (struct memory_span){1, 0};
}

/* To what is in both. */
static inline void memory_span_narrow(struct memory_span *span, const struct memory_span *by)
{
    span->from = by->from > span->from ? by->from : span->from;
    span->to = by->to < span->to ? by->to : span->to;
}

/* How bytes of another time are to those that were read. */
enum memory_likeness {
    MEMORY_SAME,    /* they say the same */
    MEMORY_ANOTHER, /* they say something else, and may have stood there instead */
    MEMORY_APART,   /* of something that cannot have stood there: what came with the sample tells */
};

/* What `size` bytes are that stood at `address` at another time, from a reading at `when->from` to
 * one at `when->to`. What is of no matter to whoever asks need not be equal. */
struct memory_compare {
    enum memory_likeness (*likeness)(const void *context, uint64_t address, const uint8_t *bytes,
                                     size_t size, const struct memory_span *when);
    const void *context;
};

/* How far what was read is proven. */
struct memory_proof {
    enum provenance provenance;
    bool another; /* what says something else stood there shortly before or after: then this is not
                     exact, however often it was read */
    uint64_t far; /* ns: not exact only because the one reading of an object that does not change
                     was so much later (or earlier, and none came after); 0: for another reason */
};

/* Is only a reading of the very moment missing, and was nothing else met there? Then it is proven
 * for whoever knows by the sample itself that the object was there and is the one that was read. */
static inline bool memory_is_near(const struct memory_proof *p)
{
    const uint64_t FAR_MAX = 2000000000; /* ns */
    return p->far && p->far <= FAR_MAX && !p->another;
}

/* Bytes in place. */
struct memory_piece {
    uint64_t start, size;
};

/* A source of bytes. `read` copies exactly `size` bytes that stood at `address` at `time`
 * (ns of the recording's clock), sets the provenance, and returns true; false: not recorded. */
struct memory_layer {
    bool (*read)(void *context, uint64_t address, void *to, size_t size, uint64_t time,
                 enum provenance *provenance);
    void *context;
    /* The same bytes in place, where they stand in one piece: they stay there, as they are, for as
     * long as anybody walks with the layer's source. NULL: they do not, or are not recorded. May be
     * NULL. */
    const uint8_t *(*peek)(void *context, uint64_t address, size_t size, uint64_t time,
                           enum provenance *provenance);
    /* The byte at `address` in place, in a piece that holds `size` bytes from there on and more
     * (`ret`: all of it; may be NULL). It stays for one walk only. NULL: `read` may have them all
     * the same, from several pieces. May be NULL. */
    const uint8_t *(*piece)(void *context, uint64_t address, size_t size, struct memory_piece *ret);
    /* Whether any of these bytes may be recorded. NULL: who knows. */
    bool (*has)(void *context, uint64_t address, uint64_t size);
    bool keeps_span; /* it narrows the span of the memory that it is asked for, by itself */
    bool instant;    /* all of it came with the sample: nothing can have stood there but this */
    /* Read while the program ran, at times of its own. Of objects that says much, of a frame's
     * slots nothing: each call writes others there. */
    bool other_moments;
    /* What is known to have stood there around that time: how far does it prove that what stood
     * there at `time` was the same as what is read for it? false: nothing is known. NULL: what
     * `read` says is all there is to say. */
    bool (*prove)(void *context, uint64_t address, size_t size, uint64_t time,
                  const struct memory_compare *compare, struct memory_proof *ret);
    /* Is something known of what stood there in `when`, in the memory that the program has at
     * `time`, and nothing of it the same? NULL: no. */
    bool (*unlike)(void *context, uint64_t address, size_t size, uint64_t time,
                   const struct memory_span *when, const struct memory_compare *compare);
    /* The nearest moment before `time` (`later`: behind it) at which the byte at `address` is known
     * with something else, there or in what was read along with it. false: none is. NULL: no
     * moment is. */
    bool (*version)(void *context, uint64_t address, uint64_t time, bool later, uint64_t *ret);
};

/* Words of the stack that were read, where somebody wants to know: a bit for each word of 8 bytes
 * in windows of 512, each window once. */
enum { MEMORY_WINDOWS = 8, MEMORY_WINDOW = 512 };
struct memory_window {
    uint64_t start; /* a multiple of MEMORY_WINDOW */
    uint64_t words;
};
struct memory_reads {
    bool on;   /* false: nothing is noted */
    bool lost; /* there were others: too many, or of what was not recorded of the stack */
    uint32_t nr;
    struct memory_window at[MEMORY_WINDOWS];
};

struct memory_range {
    uint64_t start, end; /* end is not in it */
};

/* Of what was read of a place at other times than the one that is asked for, which counts. */
enum memory_side {
    MEMORY_NEAREST,
    /* The same, of objects that were there, as what came with the sample says: that something else
     * had stood in their place shortly before, or did after, is no doubt of them. */
    MEMORY_ASSUMED_ALIVE,
    /* The last reading before that time, or the first one after. Whoever comes to the same by both
     * knows it, though objects were moved in between. */
    MEMORY_BEFORE,
    MEMORY_AFTER,
};

struct memory {
    const uint8_t *stack; /* bytes that stood at stack_start, exact at `time`; may be unaligned */
    uint64_t stack_start;
    uint64_t stack_size; /* bytes; nothing behind it is ever read */
    /* The copy goes on here, at stack_start + stack_size: it may stand in two pieces, of which the
     * first is enough for most walks. */
    const uint8_t *stack_far;
    uint64_t stack_far_size;
    uint64_t time;
    const struct memory_layer *layers;
    size_t nr_layers;
    struct memory_span *span;   /* narrowed by each reading of a layer; NULL: nobody asks */
    struct memory_reads *reads; /* NULL: nobody asks */
    /* Set by a reading that counts as exact because an object that does not change while it lives
     * was read once, shortly after `time` or before: what asks for it must have a second reason to
     * take it for that object. NULL: there are none. */
    bool *soon;
    /* Whoever reads may set it. NULL: nobody minds. */
    enum memory_side *side;
};

/* Bytes of the stack that were recorded. */
static inline uint64_t memory_stack_size(const struct memory *m)
{
    return m->stack_size + m->stack_far_size;
}

/* Note a reading of the stack. */
void memory_note(struct memory_reads *r, uint64_t address, size_t size);

/* Read what was recorded of the stack, without a note of it; false: it is not all there. */
bool memory_read_stack(const struct memory *m, uint64_t address, void *to, size_t size);

/* Slow path of memory_read: the stack's second piece, and the layers. */
bool memory_read_layers(const struct memory *m, uint64_t address, void *to, size_t size,
                        enum provenance *provenance);

/* Read of the stack's first piece, which came with the sample; false: it is not there. */
static inline bool memory_read_near(const struct memory *m, uint64_t address, void *to, size_t size)
{
    uint64_t at = address - m->stack_start;
    if (at >= m->stack_size || m->stack_size - at < size)
        return false;
    memcpy(to, m->stack + at, size);
    if (m->reads && m->reads->on)
        memory_note(m->reads, address, size);
    return true;
}

/* Read `size` bytes; false when not recorded (and `to` is unspecified, never zeros to believe).
 * `provenance` is raised to the weakest source used, never lowered. */
static inline bool memory_read(const struct memory *m, uint64_t address, void *to, size_t size,
                               enum provenance *provenance)
{
    return memory_read_near(m, address, to, size) ||
           memory_read_layers(m, address, to, size, provenance);
}

/* Slow path of memory_read_frame. */
bool memory_read_frame_layers(const struct memory *m, uint64_t address, void *to, size_t size,
                              enum provenance *provenance);

/* Read what stands in a frame on the thread's stack. As memory_read, but not from what was read at
 * other moments. */
static inline bool memory_read_frame(const struct memory *m, uint64_t address, void *to,
                                     size_t size, enum provenance *provenance)
{
    return memory_read_near(m, address, to, size) ||
           memory_read_frame_layers(m, address, to, size, provenance);
}

/* A word of it: a return address, a saved register. */
static inline bool memory_read_slot(const struct memory *m, uint64_t address, uint64_t *to,
                                    enum provenance *provenance)
{
    return memory_read_frame(m, address, to, sizeof(*to), provenance);
}

/* Read what a program writes all the time: a VM's stack, its state. As memory_read, but what was
 * read at other moments is never exact, though it was the same before and after: who comes to the
 * same place again and again, or is given the memory of another, writes the same there. */
bool memory_read_moving(const struct memory *m, uint64_t address, void *to, size_t size,
                        enum provenance *provenance);

/* Read what came with the sample itself; false: that has not all of it. */
bool memory_read_instant(const struct memory *m, uint64_t address, void *to, size_t size);

/* Whether any of these bytes may have come with the sample: whoever looks for some among many. */
bool memory_has_instant(const struct memory *m, uint64_t address, uint64_t size);

/* What memory_read() gives, in place, for as long as anybody walks with the same source of bytes;
 * NULL: it is to be read. */
const uint8_t *memory_peek(const struct memory *m, uint64_t address, size_t size,
                           enum provenance *provenance);

/* What memory_read() gives, `size` bytes of what came with the sample, in place and for this walk
 * only. `ret` (may be NULL): all of the piece that they stand in. NULL: they are to be read. */
static inline const uint8_t *memory_piece(const struct memory *m, uint64_t address, size_t size,
                                          struct memory_piece *ret)
{
    const struct memory_layer *first = m->layers;
    if (!m->nr_layers || !first->piece || !first->instant || (m->reads && m->reads->on) ||
        address - m->stack_start < memory_stack_size(m))
        return NULL;
    const uint8_t *bytes = first->piece(first->context, address, size, ret);
    if (bytes && m->span && !first->keeps_span)
        memory_span_empty(m->span);
    return bytes;
}

/* Did the byte at `address`, none of the native stack, come with the sample? Nothing is read: it is
 * asked by whoever knows what it is. */
bool memory_is_instant(const struct memory *m, uint64_t address);

/* How far what was read at an address is proven. `read`: what the reading said; what is known
 * better replaces it. */
struct memory_proof memory_prove(const struct memory *m, uint64_t address, size_t size,
                                 const struct memory_compare *compare, enum provenance read);

/* Is it known what stood at an address around another time, and that none of that was the same? */
bool memory_was_unlike(const struct memory *m, uint64_t address, size_t size,
                       const struct memory_span *when, const struct memory_compare *compare);

/* The nearest moment before `time` (`later`: behind it) at which something else is known of the
 * byte at `address`; it may be the same byte. false: there is none. */
bool memory_version(const struct memory *m, uint64_t address, uint64_t time, bool later,
                    uint64_t *ret);

static inline bool memory_read_u64(const struct memory *m, uint64_t address, uint64_t *to,
                                   enum provenance *provenance)
{
    return memory_read(m, address, to, sizeof(*to), provenance);
}

#endif
