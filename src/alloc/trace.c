/* SPDX-License-Identifier: GPL-2.0-only */
#include "alloc/trace.h"
#include "base/cursor.h"
#include "base/file_map.h"
#include "base/hash.h"
#include "base/hash_table.h"
#include "base/other_file.h"
#include "base/vec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NO_CHUNK UINT32_MAX

struct chunk {
    uint64_t offset;
    uint32_t next; /* of the same writer; NO_CHUNK: none */
};

/* A record as it is in the file. */
struct record {
    enum trace_operation operation;
    uint64_t before, ticks; /* of TRACE_REALLOC: of the call and of its result; else equal */
    uint64_t address, old, size;
    unsigned alignment;
};

/* The records of one writer. */
struct stream {
    uint32_t first, chunk; /* NO_CHUNK: it has ended */
    uint32_t last;
    struct cursor records;
    uint64_t ticks, address; /* from which the next ones count */
    struct record record;
    bool is_behind; /* TRACE_REALLOC: the old block is given up, the new one comes */
    bool has_old;
    uint32_t old_block;
    uint64_t old_size;
};

struct live_block {
    uint64_t address, size;
    uint32_t number;
};

struct alloc_trace {
    char *path;
    uint8_t *map;
    struct alloc_trace_info info;
    VEC(struct chunk) chunks;
    VEC(struct stream) streams; /* by writer */
    VEC(uint32_t) order;        /* streams that have a record: a heap by their times */
    VEC(struct live_block) blocks;
    VEC(uint32_t) holes; /* of `blocks` */
    struct hash_table by_address;
    struct alloc_counts counts;
    bool has_begun;
};

/* ---- structure ----------------------------------------------------------------------------- */

static uint64_t u64_at(const uint8_t *p)
{
    return load_u64(p, __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__);
}

static uint32_t u32_at(const uint8_t *p)
{
    return load_u32(p, __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__);
}

static int malformed(const struct alloc_trace *t, uint64_t offset, const char *what,
                     struct error *err)
{
    return error_set(err, ERROR_FORMAT, "%.120s: offset 0x%" PRIx64 ": %s", t->path, offset, what);
}

#define FIELD(type, name) offsetof(struct type, name)

static int read_header(struct alloc_trace *t, struct error *err)
{
    const uint8_t *h = t->map;
    struct alloc_trace_info *i = &t->info;
    if (memcmp(h, TRACE_MAGIC, sizeof(((struct trace_header *)0)->magic)) != 0)
        return error_set(err, ERROR_FORMAT,
                         "%.120s: this is no trace of allocations (ljperf alloc-trace)", t->path);
    const uint32_t version = u32_at(h + FIELD(trace_header, version));
    if (version != TRACE_VERSION)
        return error_set(err, ERROR_UNSUPPORTED, "%.120s: a trace of version %" PRIu32 ", not %d",
                         t->path, version, TRACE_VERSION);
    i->flags = u32_at(h + FIELD(trace_header, flags));
    i->pid = u32_at(h + FIELD(trace_header, pid));
    i->parent = u32_at(h + FIELD(trace_header, parent));
    i->run = u64_at(h + FIELD(trace_header, run));
    i->ticks = u64_at(h + FIELD(trace_header, ticks));
    i->lost_full = u64_at(h + FIELD(trace_header, lost_full));
    i->lost_within = u64_at(h + FIELD(trace_header, lost_within));
    i->full_errno = u32_at(h + FIELD(trace_header, full_errno));
    i->threads = u32_at(h + FIELD(trace_header, threads));
    i->children_failed = u32_at(h + FIELD(trace_header, children_failed));
    memcpy(i->program, h + FIELD(trace_header, program), sizeof(i->program));
    i->program[sizeof(i->program) - 1] = 0;
    const uint64_t ticks = u64_at(h + FIELD(trace_header, last_ticks)) - i->ticks;
    const uint64_t ns =
        u64_at(h + FIELD(trace_header, last_ns)) - u64_at(h + FIELD(trace_header, ns));
    i->ns_per_tick = ticks && ns < UINT64_MAX / 2 ? (double)ns / (double)ticks : 0;
    return 0;
}

static int add_chunk(struct alloc_trace *t, uint64_t offset, uint32_t writer, struct error *err)
{
    const uint32_t number = (uint32_t)t->chunks.nr;
    while (t->streams.nr <= writer) {
        if (!vec_push(&t->streams, (struct stream){.first = NO_CHUNK, .last = NO_CHUNK}))
            return error_no_memory(err);
    }
    struct stream *s = &t->streams.at[writer];
    if (!vec_push(&t->chunks, (struct chunk){offset, NO_CHUNK}))
        return error_no_memory(err);
    if (s->last == NO_CHUNK)
        s->first = number;
    else
        t->chunks.at[s->last].next = number;
    s->last = number;
    return 0;
}

/* List the chunks by writer. */
static int read_chunks(struct alloc_trace *t, struct error *err)
{
    uint64_t offset = TRACE_BLOCK;
    while (offset < t->info.size) {
        const uint8_t *c = t->map + offset;
        const uint64_t left = t->info.size - offset;
        if (left < sizeof(struct trace_chunk))
            return malformed(t, offset, "the file ends within a chunk", err);
        if (!u32_at(c + FIELD(trace_chunk, magic)))
            break; /* reserved when the process ended */
        const uint32_t size = u32_at(c + FIELD(trace_chunk, size));
        const uint32_t writer = u32_at(c + FIELD(trace_chunk, writer));
        if (u32_at(c + FIELD(trace_chunk, magic)) != TRACE_CHUNK_MAGIC || !size ||
            size % TRACE_BLOCK || size > TRACE_CHUNK_MAX)
            return malformed(t, offset, "this is no chunk of a trace", err);
        if (size > left)
            return malformed(t, offset, "the file ends within a chunk", err);
        if (u32_at(c + FIELD(trace_chunk, used)) > size - sizeof(struct trace_chunk))
            return malformed(t, offset, "a chunk has more records than bytes", err);
        if (writer >= ALLOC_WRITERS_MAX)
            return malformed(t, offset, "too many threads at once", err);
        if (add_chunk(t, offset, writer, err))
            return -1;
        offset += size;
    }
    t->info.writers = (uint32_t)t->streams.nr;
    return 0;
}

static int map_file(struct alloc_trace *t, struct error *err)
{
    struct stat s;
    const int fd = other_file_open(t->path);
    if (fd < 0 || fstat(fd, &s) < 0) {
        error_system(err, errno, "%.120s", t->path);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    t->info.size = (uint64_t)s.st_size;
    if (t->info.size >= TRACE_BLOCK)
        t->map = file_map(fd, t->info.size);
    const int why = errno;
    close(fd);
    if (t->info.size < TRACE_BLOCK)
        return error_set(err, ERROR_TRUNCATED,
                         "%.120s: too short for a trace of allocations (ljperf alloc-trace)",
                         t->path);
    return t->map ? 0 : error_system(err, why, "%.120s", t->path);
}

int alloc_trace_open(const char *path, struct alloc_trace **ret, struct error *err)
{
    struct alloc_trace *t = calloc(1, sizeof(*t));
    if (!t || !(t->path = strdup(path))) {
        free(t);
        return error_no_memory(err);
    }
    if (map_file(t, err) || read_header(t, err) || read_chunks(t, err)) {
        alloc_trace_close(t);
        return -1;
    }
    alloc_trace_rewind(t);
    *ret = t;
    return 0;
}

void alloc_trace_close(struct alloc_trace *t)
{
    if (!t)
        return;
    if (t->map)
        file_unmap(t->map, t->info.size);
    vec_free(&t->chunks);
    vec_free(&t->streams);
    vec_free(&t->order);
    vec_free(&t->blocks);
    vec_free(&t->holes);
    hash_table_free(&t->by_address);
    free(t->path);
    free(t);
}

/* ---- records ------------------------------------------------------------------------------- */

static uint64_t read_number(struct cursor *c, unsigned bytes)
{
    uint64_t v = 0;
    const uint8_t *p = cursor_bytes(c, bytes);
    for (unsigned i = 0; p && i < bytes; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static uint64_t read_address(struct stream *s, unsigned bytes)
{
    const uint64_t v = read_number(&s->records, bytes);
    if (!bytes)
        return 0;
    s->address += v >> 1 ^ -(v & 1);
    return s->address << 3 | s->address >> 61;
}

static uint64_t read_ticks(struct stream *s, unsigned bytes)
{
    const uint64_t v = read_number(&s->records, bytes);
    s->ticks = v > UINT64_MAX - s->ticks ? UINT64_MAX : s->ticks + v;
    return s->ticks;
}

static void begin_chunk(struct alloc_trace *t, struct stream *s, uint32_t chunk)
{
    s->chunk = chunk;
    if (chunk == NO_CHUNK)
        return;
    const uint64_t offset = t->chunks.at[chunk].offset;
    const uint8_t *c = t->map + offset;
    /* (The file may be written meanwhile: `used` was checked, and is bounded once more.) */
    uint32_t used = u32_at(c + FIELD(trace_chunk, used)),
             size = u32_at(c + FIELD(trace_chunk, size));
    if (size > t->info.size - offset)
        size = (uint32_t)(t->info.size - offset);
    if (used > size - sizeof(struct trace_chunk))
        used = 0;
    s->records = cursor_make(c + sizeof(struct trace_chunk), used, false, t->path, "records",
                             offset + sizeof(struct trace_chunk));
    const uint64_t begin = u64_at(c + FIELD(trace_chunk, ticks));
    s->ticks = begin > s->ticks ? begin : s->ticks;
    s->address = 0;
}

static bool has_second(enum trace_operation operation)
{
    return operation == TRACE_REALLOC || operation == TRACE_ALIGNED;
}

/* Read the stream's next record. Returns 1; 0: there is none; -1: malformed. */
static int read_record(struct alloc_trace *t, struct stream *s, struct error *err)
{
    struct record *r = &s->record;
    while (s->chunk != NO_CHUNK && !cursor_left(&s->records))
        begin_chunk(t, s, t->chunks.at[s->chunk].next);
    if (s->chunk == NO_CHUNK)
        return 0;
    const uint64_t offset = cursor_offset(&s->records);
    const unsigned control = (unsigned)read_number(&s->records, 2);
    const unsigned bytes[] = {control >> 4 & 15, control >> 8 & 15, control >> 12};
    *r = (struct record){.operation = (enum trace_operation)(control & 15)};
    const unsigned second = has_second(r->operation) ? (unsigned)read_number(&s->records, 2) : 0;
    const unsigned duration = second & 15, old = second >> 4 & 15;
    r->alignment = second >> 8;
    if (r->operation == TRACE_NONE || r->operation >= TRACE_OPERATIONS || bytes[0] > 8 ||
        bytes[1] > 8 || bytes[2] > 8 || duration > 8 || old > 8 || r->alignment > 63)
        return malformed(t, offset, "this is no record of an allocation", err);
    r->before = read_ticks(s, bytes[0]);
    r->address = read_address(s, bytes[1]);
    r->size = read_number(&s->records, bytes[2]);
    r->ticks = read_ticks(s, duration);
    r->old = read_address(s, old);
    return s->records.failed ? malformed(t, offset, "a record is cut short", err) : 1;
}

/* ---- streams in the order of time ---------------------------------------------------------- */

static uint64_t time_of(const struct alloc_trace *t, size_t place)
{
    const struct stream *s = &t->streams.at[t->order.at[place]];
    return s->is_behind ? s->record.ticks : s->record.before;
}

/* Restore the order of the heap from a place on downwards. */
static void sift_down(struct alloc_trace *t, size_t place)
{
    for (;;) {
        size_t least = place;
        for (size_t child = 2 * place + 1; child <= 2 * place + 2; child++) {
            if (child < t->order.nr && (time_of(t, child) < time_of(t, least) ||
                                        (time_of(t, child) == time_of(t, least) &&
                                         t->order.at[child] < t->order.at[least])))
                least = child;
        }
        if (least == place)
            return;
        const uint32_t moved = t->order.at[place];
        t->order.at[place] = t->order.at[least];
        t->order.at[least] = moved;
        place = least;
    }
}

/* Begin all streams. */
static int begin_streams(struct alloc_trace *t, struct error *err)
{
    for (uint32_t i = 0; i < t->streams.nr; i++) {
        struct stream *s = &t->streams.at[i];
        begin_chunk(t, s, s->first);
        const int got = read_record(t, s, err);
        if (got < 0)
            return -1;
        if (got && !vec_push(&t->order, i))
            return error_no_memory(err);
    }
    for (size_t i = t->order.nr / 2; i-- > 0;)
        sift_down(t, i);
    return 0;
}

/* The first stream's record, or its half, is done. */
static int advance(struct alloc_trace *t, struct error *err)
{
    struct stream *s = &t->streams.at[t->order.at[0]];
    if (s->record.operation == TRACE_REALLOC && !s->is_behind) {
        s->is_behind = true;
    } else {
        s->is_behind = false;
        const int got = read_record(t, s, err);
        if (got < 0)
            return -1;
        if (!got)
            t->order.at[0] = t->order.at[--t->order.nr];
    }
    sift_down(t, 0);
    return 0;
}

/* ---- blocks -------------------------------------------------------------------------------- */

static uint32_t find_block(const struct alloc_trace *t, uint64_t at)
{
    return hash_table_find(&t->by_address, hash_u64(at), number,
                           t->blocks.at[number].address == at);
}

/* Give up the block at an address. Returns false if there is none. */
static bool remove_block(struct alloc_trace *t, uint64_t at, struct live_block *ret)
{
    const uint32_t place = find_block(t, at);
    if (place == HASH_TABLE_NONE)
        return false;
    *ret = t->blocks.at[place];
    hash_table_remove(&t->by_address, hash_u64(at), place);
    (void)vec_push(&t->holes, place); /* add_block() has made room */
    return true;
}

static int add_block(struct alloc_trace *t, const struct record *r, uint32_t *ret,
                     struct error *err)
{
    struct alloc_counts *c = &t->counts;
    if (c->blocks >= ALLOC_NO_BLOCK - 1)
        return error_set(err, ERROR_UNSUPPORTED, "%.120s: more blocks than can be numbered",
                         t->path);
    const struct live_block block = {r->address, r->size, (uint32_t)c->blocks};
    uint32_t place = (uint32_t)t->blocks.nr;
    if (t->holes.nr)
        t->blocks.at[place = t->holes.at[--t->holes.nr]] = block;
    else if (!vec_reserve(&t->holes, t->blocks.nr + 1) || !vec_push(&t->blocks, block))
        return error_no_memory(err);
    if (!hash_table_add(&t->by_address, hash_u64(r->address), place))
        return error_no_memory(err);
    *ret = block.number;
    c->blocks++;
    return 0;
}

/* Count the bytes of a call that is returned. */
static int count_call(struct alloc_trace *t, const struct alloc_call *call, struct error *err)
{
    struct alloc_counts *c = &t->counts;
    if (call->size > UINT64_MAX / 2 - c->requested)
        return error_set(err, ERROR_FORMAT, "%.120s: more bytes than there can be", t->path);
    c->changes++;
    c->requested += call->size;
    c->live = c->live - call->old_size + call->size;
    c->peak = c->live > c->peak ? c->live : c->peak;
    return 0;
}

/* A block's address is given out again: its free was not recorded. Returns whether that is so; the
 * record stays to be read again. */
static bool is_unfreed(struct alloc_trace *t, const struct record *r, struct alloc_call *ret)
{
    struct live_block block;
    if (!remove_block(t, r->address, &block))
        return false;
    t->counts.unfreed++;
    *ret = (struct alloc_call){.operation = TRACE_FREE,
                               .writer = ret->writer,
                               .block = block.number,
                               .old = ALLOC_NO_BLOCK,
                               .old_size = block.size,
                               .ticks = r->ticks};
    return true;
}

/* realloc() is called: give up the old block, unless that fails. */
static void leave_old(struct alloc_trace *t, struct stream *s)
{
    struct live_block block;
    const struct record *r = &s->record;
    s->has_old = false;
    if (!r->old || (!r->address && r->size))
        return;
    s->has_old = remove_block(t, r->old, &block);
    t->counts.unknown += !s->has_old;
    if (s->has_old) {
        s->old_block = block.number;
        s->old_size = block.size;
    }
}

/* realloc() returns. Returns whether that changed something. */
static bool take_new(struct stream *s, struct alloc_call *call)
{
    if (s->has_old) {
        call->old = s->old_block;
        call->old_size = s->old_size;
    }
    if (s->record.address)
        return true;
    /* With size 0 it is a free() that returns NULL. */
    call->operation = TRACE_FREE;
    call->block = call->old;
    call->old = ALLOC_NO_BLOCK;
    call->size = 0;
    return s->has_old;
}

enum outcome { CALL_DONE, CALL_RETURNED, CALL_AGAIN };

/* Take the record of a stream. Returns -1, or an enum outcome: whether there is a call to be
 * returned, and whether the record has to be taken once more. */
static int take_record(struct alloc_trace *t, struct stream *s, struct alloc_call *ret,
                       struct error *err)
{
    const struct record *r = &s->record;
    struct live_block block;
    *ret = (struct alloc_call){.operation = r->operation,
                               .writer = t->order.at[0],
                               .block = ALLOC_NO_BLOCK,
                               .old = ALLOC_NO_BLOCK,
                               .size = r->size,
                               .alignment = r->alignment,
                               .ticks = r->ticks};
    if (r->operation == TRACE_REALLOC && !s->is_behind) {
        leave_old(t, s);
        return CALL_DONE;
    }
    if (r->address && r->operation != TRACE_FREE && r->operation != TRACE_THREAD &&
        is_unfreed(t, r, ret))
        return CALL_AGAIN;
    t->counts.calls[r->operation]++;
    if (r->operation == TRACE_THREAD)
        return CALL_DONE;
    if (r->operation == TRACE_FREE) {
        ret->size = 0;
        if (!remove_block(t, r->address, &block)) {
            t->counts.unknown++;
            return CALL_DONE;
        }
        ret->block = block.number;
        ret->old_size = block.size;
        return CALL_RETURNED;
    }
    if (r->operation == TRACE_REALLOC) {
        if (!r->address && (r->size || !r->old))
            t->counts.failed++;
        if (!take_new(s, ret))
            return CALL_DONE;
        if (!r->address)
            return CALL_RETURNED;
    } else if (!r->address) {
        t->counts.failed++;
        return CALL_DONE;
    }
    return add_block(t, r, &ret->block, err) ? -1 : CALL_RETURNED;
}

int alloc_trace_next(struct alloc_trace *t, struct alloc_call *ret, struct error *err)
{
    if (!t->has_begun && begin_streams(t, err))
        return -1;
    t->has_begun = true;
    while (t->order.nr) {
        struct stream *s = &t->streams.at[t->order.at[0]];
        const int outcome = take_record(t, s, ret, err);
        t->counts.last_ticks = time_of(t, 0);
        if (outcome < 0 || (outcome != CALL_AGAIN && advance(t, err)))
            return -1;
        if (outcome != CALL_DONE)
            return count_call(t, ret, err) ? -1 : 1;
    }
    return 0;
}

void alloc_trace_rewind(struct alloc_trace *t)
{
    t->order.nr = t->blocks.nr = t->holes.nr = 0;
    hash_table_clear(&t->by_address);
    t->counts = (struct alloc_counts){0};
    t->has_begun = false;
    vec_foreach (s, &t->streams)
        *s = (struct stream){.first = s->first, .last = s->last, .chunk = NO_CHUNK};
}

int alloc_trace_count(struct alloc_trace *t, struct error *err)
{
    struct alloc_call call;
    int got;
    alloc_trace_rewind(t);
    while ((got = alloc_trace_next(t, &call, err)) > 0)
        ;
    return got;
}

const struct alloc_trace_info *alloc_trace_info(const struct alloc_trace *t)
{
    return &t->info;
}

const struct alloc_counts *alloc_trace_counts(const struct alloc_trace *t)
{
    return &t->counts;
}

uint64_t alloc_counts_calls(const struct alloc_counts *c)
{
    uint64_t all = 0;
    for (unsigned i = TRACE_MALLOC; i < TRACE_OPERATIONS; i++)
        all += i == TRACE_THREAD ? 0 : c->calls[i];
    return all;
}
