/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory of a target at a given time: the only interface between walkers and the sources of bytes.
 * A read is a question and an answer. The question says what is asked for and what the asker knows
 * about it (struct memory_query); the answer says what came, and how far it is proven (struct
 * memory_answer). Nothing else passes between those who read and those who have the bytes: what one
 * reader knows never decides how the reads of another one are judged.
 *
 * The stack window comes first (the sample's own copy, read in place), then the layers; the first
 * match wins. A walker cannot distinguish a recording from a process, a core file or an array.
 */
#ifndef UNWIND_MEMORY_H
#define UNWIND_MEMORY_H

#include "unwind/frame.h"
#include "unwind/provenance.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A range of times in which reads give the same result. Empty: from > to. */
struct memory_span {
    uint64_t from, to; /* ns, both included */
};

/* Make the span empty. */
static inline void memory_span_empty(struct memory_span *span)
{
    *span = (struct memory_span){1, 0};
}

/* Narrow `span` to the times that are also in `by`. */
static inline void memory_span_narrow(struct memory_span *span, const struct memory_span *by)
{
    span->from = by->from > span->from ? by->from : span->from;
    span->to = by->to < span->to ? by->to : span->to;
}

/* How bytes of another time compare to the bytes that were read. */
enum memory_likeness {
    MEMORY_SAME,    /* they mean the same */
    MEMORY_ANOTHER, /* they mean something else, and may have been in the same place instead */
    MEMORY_APART,   /* they belong to something that cannot have been there, as data of the
                       sample shows */
};

/* Compares `size` bytes that were at `address` at another time with the bytes that were read. The
 * other bytes were there from the read at `when->from` to the one at `when->to`. Bytes that do not
 * matter to the asker need not be equal. */
struct memory_compare {
    enum memory_likeness (*likeness)(const void *context, uint64_t address, const uint8_t *bytes,
                                     size_t size, const struct memory_span *when);
    const void *context;
};

/* How well read bytes are proven. */
struct memory_proof {
    enum provenance provenance;
    struct memory_span same; /* times at which the same question has the same answer; empty: not
                                known */
    bool another; /* something else was there shortly before or after: the bytes are not exact
                     then, no matter how often they were read */
    /* ns: the bytes are not exact only because the single read of an object that does not change
     * was so much later (or earlier, and no read came after). 0: for another reason. */
    uint64_t far;
};

/* Returns whether only a read at the very moment is missing, and nothing else was found there. The
 * bytes are then proven for a caller to whom the sample itself shows that the object was there and
 * is the one that was read. */
static inline bool memory_is_near(const struct memory_proof *p)
{
    return p->far && p->far <= PROOF_ONLY_FAR_NS && !p->another;
}

/* A range of bytes that can be used in place. */
struct memory_piece {
    uint64_t start, size;
};

/* What the bytes are to the asker. This decides what readings of other moments say about them. */
enum memory_kind {
    /* Nothing is known of them but what the asker will find in them. */
    MEMORY_DATA,
    /* A slot of a frame on the thread's stack. Readings of other moments say nothing about it: each
     * call writes other values there. */
    MEMORY_FRAME,
    /* Memory that a program writes all the time: a VM's stack or state. Readings of other moments
     * are never exact, even if they were the same before and after: a program that reaches the same
     * place again and again, or gets the memory of another user, writes the same bytes there. */
    MEMORY_MOVING,
    /* Part of an object that does not change while it lives. The asker has two words of the stack
     * that must agree on the object, so a single reading near the moment counts, before or after
     * it. */
    MEMORY_OBJECT,
};

/* Which reading counts, if all readings of a place are of other moments. */
enum memory_moment {
    MEMORY_NEAREST,
    /* The last reading before that time, or the first after it. A caller that gets the same result
     * from both knows it, even if objects were moved in between. */
    MEMORY_BEFORE,
    MEMORY_AFTER,
};

/* A question. */
struct memory_query {
    uint64_t address;
    size_t size;
    uint64_t time; /* ns of the recording's clock */
    enum memory_kind kind;
    enum memory_moment moment;
    /* Data of the sample shows that the object was alive: other contents in its place shortly
     * before or after do not cast doubt on it. */
    bool alive;
};

/* The answer to a question. */
struct memory_answer {
    enum provenance provenance;
    /* It counts as exact although an unchanging object was read only once, shortly after the time
     * or before it. The asker then needs a second reason to believe that it is that object. */
    bool by_one_reading;
    /* Times at which the memory behind the stack copy gives the same answer. Empty: not known. */
    struct memory_span same;
    /* When the bytes were read, first and last. Empty: the layer's `when` says it for all of its
     * bytes. */
    struct memory_span read;
    const struct memory_layer *layer; /* where the bytes are from; NULL: the stack copy */
};

/* The answer that a layer begins with. */
static inline void memory_answer_begin(struct memory_answer *a, const struct memory_query *q)
{
    a->provenance = PROVENANCE_EXACT;
    a->by_one_reading = false;
    a->same = (struct memory_span){q->time, q->time};
    a->read = (struct memory_span){1, 0};
    a->layer = NULL;
}

/* When a layer's bytes were read. */
enum memory_layer_time {
    MEMORY_OF_ANY_TIME,    /* they do not change, or the process stands still */
    MEMORY_OF_SAMPLE,      /* they came with the sample: nothing else can have been there */
    MEMORY_OF_OTHER_TIMES, /* while the program ran, at times of the reader's own */
};

/* A source of bytes. */
struct memory_layer {
    const char *name; /* what it is, for people: "vmstack", "memory log"; NULL: not told */
    enum memory_layer_time when;
    /* It has readings made before and after a time, and can tell them apart (enum
     * memory_moment). */
    bool has_moments;
    /* Copies exactly the `size` bytes that were at the query's address at its time, sets the
     * answer's provenance, and returns true. Returns false if they were not recorded; the answer is
     * then as it was. On entry it is exact, its `same` is the query's time alone, and its `read` is
     * empty: a layer that knows better sets them. */
    bool (*read)(void *context, const struct memory_query *query, void *to,
                 struct memory_answer *answer);
    void *context;
    /* Returns the same bytes in place, if they are in one piece. They stay there unchanged as long
     * as anybody walks with the layer's source. Returns NULL if they are not in one piece or not
     * recorded. The function pointer may be NULL. */
    const uint8_t *(*peek)(void *context, const struct memory_query *query,
                           struct memory_answer *answer);
    /* Returns the byte at `address` in place, inside a piece that has at least `size` bytes from
     * there on (`ret`: the whole piece; may be NULL). It is valid for one walk only. Returns NULL
     * if there is no such piece; `read` may still find the bytes in several pieces. The function
     * pointer may be NULL. */
    const uint8_t *(*piece)(void *context, uint64_t address, size_t size, struct memory_piece *ret);
    /* Get the addresses of the lua_States that came with the sample. They stay there for this walk.
     * Returns how many there are; UINT32_MAX: that is not known. NULL: it never is. */
    uint32_t (*states)(void *context, const uint64_t **ret);
    /* Returns whether any of these bytes may be recorded. NULL: unknown. */
    bool (*has)(void *context, uint64_t address, uint64_t size);
    /* Says how well the bytes known around `time` prove that the bytes at `time` were those that
     * `read` gives. Returns false if no such bytes are known; ret->same then still says when the
     * answer is the same. NULL: nothing is known beyond the result of `read`. */
    bool (*prove)(void *context, uint64_t address, size_t size, uint64_t time,
                  const struct memory_compare *compare, struct memory_proof *ret);
    /* Returns whether some bytes at `address` are known from `when`, in the memory that the program
     * has at `time`, and none of them is the same. Narrows `same` to the times that have the same
     * answer (`when` moves with them). NULL: the answer is no. */
    bool (*unlike)(void *context, uint64_t address, size_t size, uint64_t time,
                   const struct memory_span *when, const struct memory_compare *compare,
                   struct memory_span *same);
    /* Get the moment nearest before `time` (`later`: after it) at which other bytes are known at
     * `address`, or in the range that was read with it. Returns false if there is none. NULL: there
     * never is one. */
    bool (*version)(void *context, uint64_t address, uint64_t time, bool later, uint64_t *ret);
};

/* The stack words that were read, if somebody wants to know: one bit for each 8-byte word, in
 * windows of 512 bytes. Each window occurs once. */
enum { MEMORY_WINDOWS = 8, MEMORY_WINDOW = 512 };
struct memory_window {
    uint64_t start; /* a multiple of MEMORY_WINDOW */
    uint64_t words;
};
struct memory_reads {
    bool on;   /* false: reads are not noted */
    bool lost; /* some reads are missing: there were too many, or they were outside the recorded
                  stack */
    uint32_t nr;
    struct memory_window at[MEMORY_WINDOWS];
    /* Called for each read of the stack that is noted; NULL: nobody asks. */
    void (*watch)(void *context, uint64_t address, size_t size);
    void *watch_context;
};

struct memory_range {
    uint64_t start, end; /* `end` is not included */
};

struct memory {
    const uint8_t *stack; /* bytes from stack_start on, exact at `time`; may be unaligned */
    uint64_t stack_start;
    uint64_t stack_size; /* bytes; nothing behind them is ever read */
    /* The copy may be in two pieces, of which the first is enough for most walks. The second piece
     * is here; it continues at stack_start + stack_size. */
    const uint8_t *stack_far;
    uint64_t stack_far_size;
    uint64_t time;
    const struct memory_layer *layers;
    size_t nr_layers;
    struct memory_reads *reads; /* the walk's own notes of what it read; NULL: not wanted */
};

/* Returns how many bytes of the stack were recorded. */
static inline uint64_t memory_stack_size(const struct memory *m)
{
    return m->stack_size + m->stack_far_size;
}

/* Note a read of the stack. */
void memory_note(struct memory_reads *r, uint64_t address, size_t size);

/* Read recorded bytes of the stack without noting it. Returns false if they are not all
 * recorded. */
bool memory_read_stack(const struct memory *m, uint64_t address, void *to, size_t size);

/* Read from the first piece of the stack, which came with the sample. Returns false if the bytes
 * are not there. */
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

/* Ask memory. Returns false if the bytes were not all recorded; `to` is then undefined, so do not
 * take it for zeros, and so is `answer`. */
bool memory_ask(const struct memory *m, const struct memory_query *query, void *to,
                struct memory_answer *answer);

/* Returns whether a layer has readings of several moments: only then do answers differ by the
 * moment that is asked for. */
bool memory_has_moments(const struct memory *m);

/* Ask the layers, and the second piece of the stack, for bytes of memory's own time: the slow path
 * of the reads below. `provenance` is raised to that of the answer, and never lowered. */
bool memory_read_layers(const struct memory *m, uint64_t address, void *to, size_t size,
                        enum memory_kind kind, enum provenance *provenance);

/* Read `size` bytes, of whose answer only the provenance matters: ask for MEMORY_DATA. Returns
 * false if they were not recorded. `provenance` is raised to the weakest source used, and never
 * lowered. */
static inline bool memory_read(const struct memory *m, uint64_t address, void *to, size_t size,
                               enum provenance *provenance)
{
    return memory_read_near(m, address, to, size) ||
           memory_read_layers(m, address, to, size, MEMORY_DATA, provenance);
}

/* Read bytes of a frame on the thread's stack: MEMORY_FRAME. */
static inline bool memory_read_frame(const struct memory *m, uint64_t address, void *to,
                                     size_t size, enum provenance *provenance)
{
    return memory_read_near(m, address, to, size) ||
           memory_read_layers(m, address, to, size, MEMORY_FRAME, provenance);
}

/* Read one word of a frame: a return address or a saved register. */
static inline bool memory_read_slot(const struct memory *m, uint64_t address, uint64_t *to,
                                    enum provenance *provenance)
{
    return memory_read_frame(m, address, to, sizeof(*to), provenance);
}

/* Read memory that a program writes all the time: MEMORY_MOVING. */
static inline bool memory_read_moving(const struct memory *m, uint64_t address, void *to,
                                      size_t size, enum provenance *provenance)
{
    return memory_read_near(m, address, to, size) ||
           memory_read_layers(m, address, to, size, MEMORY_MOVING, provenance);
}

/* Read only from data that came with the sample. Returns false if it does not hold all the
 * bytes. */
bool memory_read_instant(const struct memory *m, uint64_t address, void *to, size_t size);

/* Returns whether any of these bytes may have come with the sample. For callers that search a
 * range. */
bool memory_has_instant(const struct memory *m, uint64_t address, uint64_t size);

/* Returns the bytes that memory_read() would give, in place. They are valid as long as anybody
 * walks with the same source of bytes. NULL: use memory_read(). */
const uint8_t *memory_peek(const struct memory *m, uint64_t address, size_t size,
                           enum provenance *provenance);

/* As memory_piece(), also while reads are noted. */
static inline const uint8_t *memory_piece_unnoted(const struct memory *m, uint64_t address,
                                                  size_t size, struct memory_piece *ret)
{
    const struct memory_layer *first = m->layers;
    if (!m->nr_layers || !first->piece || first->when != MEMORY_OF_SAMPLE ||
        address - m->stack_start < memory_stack_size(m))
        return NULL;
    return first->piece(first->context, address, size, ret);
}

/* Returns the `size` bytes that memory_read() would give, in place, if they came with the sample.
 * They are valid for this walk only. `ret` (may be NULL): the whole piece that holds them. NULL:
 * use memory_read(). */
static inline const uint8_t *memory_piece(const struct memory *m, uint64_t address, size_t size,
                                          struct memory_piece *ret)
{
    return m->reads && m->reads->on ? NULL : memory_piece_unnoted(m, address, size, ret);
}

/* Get the addresses of the lua_States that came with the sample, for this walk. Returns how many
 * there are; UINT32_MAX: that is not known. */
static inline uint32_t memory_states(const struct memory *m, const uint64_t **ret)
{
    const struct memory_layer *first = m->layers;
    bool known = m->nr_layers && first->states && first->when == MEMORY_OF_SAMPLE;
    return known ? first->states(first->context, ret) : UINT32_MAX;
}

/* Returns whether a piece that came with the sample has these bytes. This is no read and is not
 * noted: what is concluded from it holds for this sample only. */
static inline bool memory_has_piece(const struct memory *m, uint64_t address, size_t size)
{
    return memory_piece_unnoted(m, address, size, NULL) != NULL;
}

/* Returns whether the byte at `address`, outside the native stack, came with the sample. This does
 * not count as a read, because the caller already knows the byte. */
bool memory_is_instant(const struct memory *m, uint64_t address);

/* Returns how well the bytes read at an address are proven. `read`: the provenance that the read
 * gave; better knowledge replaces it. */
struct memory_proof memory_prove(const struct memory *m, uint64_t address, size_t size,
                                 const struct memory_compare *compare, enum provenance read);

/* Returns whether bytes are known that were at an address around another time, and none of them
 * were the same. `same` is narrowed to the times that have the same answer; NULL: not wanted. */
bool memory_was_unlike(const struct memory *m, uint64_t address, size_t size,
                       const struct memory_span *when, const struct memory_compare *compare,
                       struct memory_span *same);

/* Get the moment nearest before `time` (`later`: after it) at which other bytes are known around
 * `address`; the byte itself may be the same. Returns false if there is none. */
bool memory_version(const struct memory *m, uint64_t address, uint64_t time, bool later,
                    uint64_t *ret);

static inline bool memory_read_u64(const struct memory *m, uint64_t address, uint64_t *to,
                                   enum provenance *provenance)
{
    return memory_read(m, address, to, sizeof(*to), provenance);
}

#endif
