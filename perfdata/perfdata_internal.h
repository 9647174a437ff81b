/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the files of perfdata/: the open recording, its streams, events and features. */
#ifndef PERFDATA_PERFDATA_INTERNAL_H
#define PERFDATA_PERFDATA_INTERNAL_H

#include "base/cursor.h"
#include "base/hash_table.h"
#include "base/vec.h"
#include "perfdata/features.h"
#include "perfdata/perfdata.h"

#include <perf/event.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    RECORD_HEADER = sizeof(struct perf_event_header),
    RECORD_CALLCHAIN_DEFERRED = 22, /* only in kernels newer than this build's headers */
    RECORD_COMPRESSED2 = PERFDATA_RECORD_COMPRESSED2,
    RECORD_TYPES = 87, /* one past the last known type */
    SAMPLE_TYPE_KNOWN = (1 << 25) - 1,
    FEATURES = PERFDATA_FEATURES, /* bits of the header's bitmap */
    ATTR_MIN = PERF_ATTR_SIZE_VER0,
    ID_ENTRY = 16, /* the (offset, size) pair after each attr of the file form */
    EVENT_BLOCK = 256,
    EVENT_BLOCKS = 256,
    EVENTS_MAX = EVENT_BLOCK * EVENT_BLOCKS - 1, /* an event's index must fit into a record's u16 */
};

/* What a written recording begins with: "PERFILE2", in this machine's byte order. */
#define PERFDATA_MAGIC UINT64_C(0x32454c4946524550)

typedef VEC(uint8_t) byte_vec;

/* An event, and where its records hold the time and the id. time_at and id_at count from the start
 * of a SAMPLE. time_back and id_back count back from the end of any other kernel record. 0:
 * absent. */
struct event {
    struct perfdata_event pub;
    uint16_t time_at, id_at;
    uint16_t time_back, id_back;
    uint16_t trailer; /* bytes of the sample_id_all trailer */
    char *name, *unit;
    VEC(uint64_t) ids;
};

struct known_id {
    uint64_t id;
    uint32_t event; /* its index */
};

struct feature {
    const uint8_t *bytes;
    uint8_t *owned; /* copy of a HEADER_FEATURE record, to be freed; NULL: none */
    uint64_t size, offset;
    bool present;
};

/* Bytes that were read from a descriptor or a decompressor and not yet consumed: [at, end). */
struct window {
    uint8_t *bytes;
    size_t at, end, cap;
    uint64_t offset; /* offset of bytes[at] in the stream */
};

/* State for reading a mapped file without the stale part of its samples (skim.c). */
struct chunk;
struct skim {
    bool on;
    int fd;
    struct chunk *chunk; /* the chunk that holds the window */
    uint8_t *bytes;      /* the window: bytes [offset, offset + size) of the file */
    uint64_t offset;
    size_t size, used;             /* size of the window; bytes of the chunk in use */
    size_t ahead;                  /* bytes to read of each sample */
    size_t wanted;                 /* stack bytes that walks need of a sample; 0: unknown */
    size_t run;                    /* bytes to read at once while records follow each other */
    uint64_t advised_end, advised; /* end and size of the last range requested from the disk */
    unsigned cached;               /* reads since the page cache last missed */
    bool unasked;                  /* the page cache cannot be asked */
    /* The choice between reading and the mapping: see judge(). */
    bool mapped;      /* use the mapping, without reading, up to `judged` */
    bool measured;    /* `cost` is good enough for a decision */
    uint64_t judged;  /* offset at which to decide again */
    uint64_t since;   /* offset since which we have read (or used the mapping) */
    uint64_t cost;    /* cost in bytes copied; when reading: so far, when mapped: of the last
                         MiB that was read */
    uint64_t read_on; /* how far to read once reading is found to be cheaper */
};

/* One sequence of records: the data section of a file, a pipe, or a data.N. */
struct stream {
    struct perfdata *pd;
    char *path;
    uint16_t number;
    bool ended;
    bool killed; /* the recorder never wrote the data size: expect an incomplete last record */
    bool cut;    /* the header announces a data section that is longer than the file */
    int fd;      /* -1: the stream is mapped */
    const uint8_t *map;
    uint64_t map_size;
    bool map_owned;
    _Atomic uint64_t unmapped; /* up to this offset, the mapping's pages were given back */
    uint64_t at, end;          /* if mapped: file offsets of the next record and of the end of
                                  all records */
    struct skim skim;
    struct window in; /* if not mapped */
    uint64_t skip;    /* if not mapped: bytes to drop before the next record */
    struct inflate *inflate;
    size_t queued, queued_bytes; /* records of a directory's stream that are in the heap */
};

/* A refcounted block that holds records of streams. It is aligned to its size, so the chunk of a
 * record is found by masking the record's address. */
enum { CHUNK_SIZE = 256 << 10, CHUNK_HEAD = 64 };
struct chunk {
    atomic_uint refs; /* number of records in it, plus one while it is being filled */
    uint32_t used;
    struct chunk *next; /* next chunk of the free list */
};

typedef VEC(struct record) record_vec;

/* Records that wait to be delivered. records[0, ready) are in order and may be delivered. The rest
 * must still wait. */
struct queue {
    record_vec records, spare;
    size_t at, ready;
    uint64_t max, limit; /* latest time so far; latest time at the last FINISHED_ROUND */
    uint64_t delivered;  /* latest time delivered */
    uint64_t bytes;      /* total size of the waiting records that were copied */
    bool rounds;         /* a FINISHED_ROUND was read */
};

struct heap_entry {
    struct record record;
    uint64_t sequence;
};

/* A vmstack that waits for its sample (vmstack_times.c). Each CPU has at most one. */
struct held_copy {
    struct record record;
    uint32_t tid;
    bool held;
};

struct copies {
    VEC(struct held_copy) held; /* indexed by CPU */
    size_t nr;                  /* number of vmstacks that wait */
};

struct tracing;

struct perfdata {
    char *path;
    char *spool_path; /* path of the file that the pipe was copied into; NULL: none */
    int spool_fd;     /* valid if spool_path is not NULL */
    struct perfdata_options options;
    bool swap, pipe;
    bool layouts_differ; /* not all events have the same sample_type */
    bool no_time;        /* no event records the time: deliver in file order */
    bool backward;       /* the ring was in --overwrite mode: sort everything */
    bool filled_once;    /* each stream of a directory was read ahead once */
    bool started;        /* other threads may be decoding: the events must not change */
    bool has_time_conv;
    struct event *blocks[EVENT_BLOCKS];
    size_t nr_events;
    VEC(struct known_id) known_ids;
    struct hash_table id_table; /* of indexes in `known_ids` */
    /* Decoding reads the fields above while reading changes the fields below. Keep them in
     * different cache lines. */
    uint8_t apart[64];
    uint64_t last_id;
    uint32_t last_event; /* index + 1 of the event with last_id; 0: none yet */

    VEC(struct stream) streams;
    struct queue queue;
    VEC(struct heap_entry) heap;
    uint64_t heap_sequence;
    size_t fill; /* the stream from which to fill the heap next */
    struct copies copies;
    record_vec lead; /* records that were already read by opening */
    size_t lead_at;
    struct chunk *chunk; /* the chunk being filled */
    uint8_t *slab;       /* memory of the first chunks; NULL: not mapped yet, or mapping failed */
    size_t slab_used;
    atomic_bool kept;        /* some records are in chunks */
    atomic_uint live_chunks; /* number of chunks in use */
    struct chunk *free_chunks;
    unsigned nr_free_chunks;
    pthread_mutex_t chunk_lock;

    struct perfdata_loss loss;
    struct feature features[FEATURES];
    uint64_t data_offset, data_size, feature_offset; /* as given in the header */
    uint64_t header_version;
    char *hostname, *osrelease, *arch, *version, *cmdline;
    VEC(struct record_build_id) build_ids;
    struct perfdata_time_conv time_conv;
    struct tracing *tracing;
};

static inline struct event *event_at(const struct perfdata *pd, size_t index)
{
    return &pd->blocks[index / EVENT_BLOCK][index % EVENT_BLOCK];
}

/* Returns a cursor over the section or the record, in the producer's byte order. */
static inline struct cursor feature_cursor(const struct perfdata *pd, unsigned number,
                                           const char *section)
{
    const struct feature *f = &pd->features[number];
    return cursor_make(f->present ? (const void *)f->bytes : "", f->present ? f->size : 0, pd->swap,
                       pd->path, section, f->offset);
}

struct cursor record_cursor(const struct perfdata *pd, const struct record *rec);
/* Returns the bytes of the trailer that sample_id_all adds. */
uint16_t trailer_size(uint64_t sample_type);
/* Set the error "FILE: offset 0xN: TYPE record: text". Returns -1. */
int record_error(const struct perfdata *pd, const struct record *rec, struct error *err,
                 const char *text);

/* attr.c: read an attr of `size` bytes and convert it to our byte order. Fields beyond attr.size or
 * `size` become 0. Returns -1 if it is too short. */
int attr_parse(struct cursor *c, size_t size, struct perf_event_attr *ret);
/* Read the attr of a record, which ids may follow: the attr's own size field says where it ends. */
int attr_parse_own(struct cursor *c, struct perf_event_attr *ret);
/* Returns the name that perf gives to an event without a name. Allocated; NULL: out of memory. */
char *attr_name(const struct perf_event_attr *attr);

/* events.c */
struct event *event_add(struct perfdata *pd, const struct perf_event_attr *attr, struct error *err);
int event_add_id(struct perfdata *pd, struct event *e, uint64_t id, struct error *err);
int event_set_name(struct event *e, const char *name, size_t size, struct error *err);
int events_complete(struct perfdata *pd, struct error *err); /* call it when all events are known */
int events_name(struct perfdata *pd, struct error *err);     /* name the events that have no name */
struct event *event_by_id(struct perfdata *pd, uint64_t id);
/* Set rec->event and rec->time. */
void record_locate(struct perfdata *pd, struct record *rec);
void events_free(struct perfdata *pd);

/* open.c, for tests: open a recording in memory. */
int perfdata_open_memory(const void *bytes, size_t size, const struct perfdata_options *options,
                         struct perfdata **ret, struct error *err);

/* stream.c: get the next record of a file, pipe or compressed record. Returns 1, 0 at the end, or
 * -1 when out of memory. *transient: the record's bytes are gone at the next call. */
int stream_next(struct stream *s, struct record *ret, bool *transient, struct error *err);
/* Returns at least `want` bytes at the stream's position, and sets *ret to the number of bytes
 * there. NULL: fewer than `want` are left. */
const uint8_t *stream_peek(struct stream *s, uint64_t want, uint64_t *ret);
void stream_take(struct stream *s, uint64_t size);
void stream_damage(struct stream *s, uint64_t offset, enum error_kind kind, const char *text);
void stream_close(struct stream *s);

/* spool.c: if a pipe announces events of VM memory, read it to its end into an unnamed file. The
 * file gets `head`, then the bytes already peeked at, then the rest. *ret: the file's descriptor;
 * -1: the pipe announces no such event. */
int stream_spool(struct stream *s, const uint8_t *head, size_t head_size, int *ret,
                 struct error *err);
uint64_t stream_offset(const struct stream *s);

/* inflate.c: the zstd stream inside COMPRESSED and COMPRESSED2 records. */
int inflate_record(struct stream *s, const uint8_t *data, uint64_t size, bool may_wrap,
                   uint64_t offset, struct error *err);
int inflate_next(struct stream *s, struct record *ret, struct error *err);
void inflate_free(struct inflate *z);
size_t inflate_left(const struct inflate *z); /* bytes that are not yet a whole record */

/* skim.c. skim_start() takes over `fd`; small files are not skimmed. */
void skim_start(struct stream *s, int fd);
void skim_stop(struct stream *s);
/* perfdata_stack_used() for one stream. */
void skim_wanted(struct stream *s, size_t bytes);
/* Get the record at the stream's position, with its bytes in a chunk or in the mapping. Returns 1.
 * Returns 0, and consumes nothing, if there is no record that can be had this way. */
int skim_next(struct stream *s, struct record *rec);

/* sample.c: find in the first `have` bytes of a sample where its stack copy begins, and the
 * recorded size of the copy. rec->event must be set. Returns false if there is no copy, or not
 * within `have` bytes. */
bool sample_stack_at(const struct perfdata *pd, const struct record *rec, size_t have,
                     size_t *ret_at, uint64_t *ret_size);

/* chunk.c. A new chunk has one reference; NULL: out of memory. */
struct chunk *chunk_create(struct perfdata *pd);
void chunk_ref(struct perfdata *pd, struct chunk *c);
void chunk_unref(struct perfdata *pd, struct chunk *c, unsigned nr);
/* Returns whether the record's bytes are in a chunk. Otherwise they are in a mapped file, or, for a
 * FINISHED_ROUND, nowhere. */
bool record_in_chunk(const struct perfdata *pd, const struct record *rec);
/* Copy the bytes of a transient record into a chunk. Samples lose the bytes after dyn_size. */
int record_keep(struct perfdata *pd, struct record *rec, struct error *err);
void records_drop(struct perfdata *pd, const struct record *records, size_t nr);
void chunks_free(struct perfdata *pd);

/* queue.c. Call the flush functions only when every ready record was taken. */
int queue_push(struct queue *q, const struct record *rec, struct error *err);
int queue_round(struct queue *q, struct error *err);                 /* at a FINISHED_ROUND */
int queue_flush(struct queue *q, uint64_t limit, struct error *err); /* all records up to `limit` */
int queue_flush_half(struct queue *q, struct error *err);            /* release the older half */

/* read.c: read the header records at the start, so that the events are known once the recording is
 * open. */
int lead_in_read(struct perfdata *pd, struct error *err);

/* vmstack_times.c: pass a record on to the queue. Vmstacks are held back until their sample
 * comes. */
typedef int (*copies_push)(struct perfdata *pd, const struct record *rec, struct error *err);
int copies_pass(struct perfdata *pd, const struct record *rec, copies_push push, struct error *err);
int copies_end(struct perfdata *pd, copies_push push, struct error *err); /* at the input's end */
void copies_free(struct perfdata *pd);

/* meta.c: apply what a record says about the recording, and count malformed records. */
int meta_apply(struct perfdata *pd, struct record *rec, struct error *err);

/* features.c */
int features_find(struct perfdata *pd, const uint64_t bitmap[FEATURES / 64], const uint8_t *map,
                  uint64_t size);
int feature_add(struct perfdata *pd, unsigned number, const uint8_t *bytes, uint64_t size,
                uint64_t offset, struct error *err);
/* Interpret the sections, once all of them are known. */
int features_complete(struct perfdata *pd, struct error *err);
void features_free(struct perfdata *pd);
/* Read a u32 length and that many bytes. Returns NULL if the bytes contain no NUL. */
const char *feature_string(struct cursor *c);
int build_id_parse(struct cursor *c, uint16_t misc, struct record_build_id *ret);

/* tracing.c: copy and index the tracing data section. */
int tracing_create(const uint8_t *bytes, uint64_t size, struct tracing **ret, struct error *err);
void tracing_free(struct tracing *t);
/* Returns "system:name" of tracepoint `id`, allocated; NULL when it was not recorded. */
char *tracing_event_name(const struct tracing *t, uint64_t id);

#endif
