/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of perfdata/ share: the open recording, its streams, events and features. */
#ifndef PERFDATA_PERFDATA_INTERNAL_H
#define PERFDATA_PERFDATA_INTERNAL_H

#include "base/cursor.h"
#include "base/vec.h"
#include "perfdata/perfdata.h"

#include <perf/event.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    RECORD_HEADER = sizeof(struct perf_event_header),
    RECORD_CALLCHAIN_DEFERRED = 22, /* kernels newer than this build's headers */
    RECORD_COMPRESSED2 = PERFDATA_RECORD_COMPRESSED2,
    RECORD_TYPES = 87, /* one past the last type known here */
    SAMPLE_TYPE_KNOWN = (1 << 25) - 1,
    FEATURES = PERFDATA_FEATURES, /* bits of the header's bitmap */
    ATTR_MIN = PERF_ATTR_SIZE_VER0,
    ID_ENTRY = 16, /* (offset, size) behind each attr of the file form */
    EVENT_BLOCK = 256,
    EVENT_BLOCKS = 256,
    EVENTS_MAX = EVENT_BLOCK * EVENT_BLOCKS - 1, /* indexes fit a record's u16 */
};

/* Numbers of the feature sections (the kernel's tools/perf/util/header.h). */
enum {
    HEADER_TRACING_DATA = 1,
    HEADER_BUILD_ID,
    HEADER_HOSTNAME,
    HEADER_OSRELEASE,
    HEADER_VERSION,
    HEADER_ARCH,
    HEADER_NRCPUS,
    HEADER_CPUDESC,
    HEADER_CPUID,
    HEADER_TOTAL_MEM,
    HEADER_CMDLINE,
    HEADER_EVENT_DESC,
    HEADER_CPU_TOPOLOGY,
    HEADER_NUMA_TOPOLOGY,
    HEADER_BRANCH_STACK,
    HEADER_PMU_MAPPINGS,
    HEADER_GROUP_DESC,
    HEADER_AUXTRACE,
    HEADER_STAT,
    HEADER_CACHE,
    HEADER_SAMPLE_TIME,
    HEADER_MEM_TOPOLOGY,
    HEADER_CLOCKID,
    HEADER_DIR_FORMAT,
    HEADER_BPF_PROG_INFO,
    HEADER_BPF_BTF,
    HEADER_COMPRESSED,
    HEADER_CPU_PMU_CAPS,
    HEADER_CLOCK_DATA,
    HEADER_HYBRID_TOPOLOGY,
    HEADER_PMU_CAPS,
    HEADER_CPU_DOMAIN_INFO,
    HEADER_E_MACHINE,
    HEADER_CLN_SIZE,
};

/* An event and where its records keep time and id. Offsets count from the start of a SAMPLE,
 * or back from the end of any other kernel record; 0: not there. */
struct event {
    struct perfdata_event pub;
    uint16_t time_at, id_at;
    uint16_t time_back, id_back;
    uint16_t trailer; /* bytes of sample_id_all */
    char *name, *unit;
    VEC(uint64_t) ids;
};

struct id_slot {
    uint64_t id;
    uint32_t event; /* index + 1; 0: free */
};

struct feature {
    const uint8_t *bytes;
    uint8_t *owned; /* what to free, of a HEADER_FEATURE record's copy */
    uint64_t size, offset;
    bool present;
};

/* Bytes read from a descriptor or a decompressor, not yet consumed: [at, end). */
struct window {
    uint8_t *bytes;
    size_t at, end, cap;
    uint64_t offset; /* of bytes[at] in the stream */
};

/* Reading a mapped file past the stale part of its samples (skim.c). */
struct chunk;
struct skim {
    bool on;
    int fd;
    struct chunk *chunk; /* holds the window */
    uint8_t *bytes;      /* the window: what stands at [offset, offset + size) of the file */
    uint64_t offset;
    size_t size, used;             /* used: of the chunk */
    size_t ahead;                  /* bytes to read of a sample */
    size_t wanted;                 /* of them, of its stack; 0: nobody said */
    size_t run;                    /* bytes to read where records follow each other */
    uint64_t advised_end, advised; /* what the disk was asked for last: its end and size */
    unsigned cached;               /* reads since the page cache last lacked something */
    /* Between reading and the mapping: see judge(). */
    bool mapped;      /* up to `judged` the mapping is used as it is */
    bool measured;    /* `cost` is worth a judgement */
    uint64_t judged;  /* the next judgement's offset */
    uint64_t since;   /* reading (or mapped) since this offset */
    uint64_t cost;    /* reading: so far, mapped: of the last MiB read; in bytes copied */
    uint64_t read_on; /* how far to read once that is found to be cheaper */
};

/* One sequence of records: a file's data section, a pipe, or a data.N. */
struct stream {
    struct perfdata *pd;
    char *path;
    uint16_t number;
    bool ended;
    bool killed; /* the recorder never wrote the data size: a cut end is expected */
    bool cut;    /* the data section is said to be longer than the file is */
    int fd;      /* -1: mapped */
    const uint8_t *map;
    uint64_t map_size;
    bool map_owned;
    _Atomic uint64_t unmapped; /* up to this offset the mapping's pages were given back */
    uint64_t at, end;          /* mapped: file offsets of the next record and of the records' end */
    struct skim skim;
    struct window in; /* not mapped */
    uint64_t skip;    /* not mapped: bytes to drop before the next record */
    struct inflate *inflate;
    size_t queued, queued_bytes; /* of a directory's stream: records in the heap */
};

/* A refcounted block in which records of streams are kept. Aligned to its size, so that a record's
 * chunk is found by masking its address. */
enum { CHUNK_SIZE = 256 << 10, CHUNK_HEAD = 64 };
struct chunk {
    atomic_uint refs; /* records in it, and one while it is being filled */
    uint32_t used;
    struct chunk *next; /* in the free list */
};

typedef VEC(struct record) record_vec;

/* Records waiting for their turn. records[0, ready) are in order and may go; the rest follows. */
struct queue {
    record_vec records, spare;
    size_t at, ready;
    uint64_t max, limit; /* greatest time so far; greatest at the last FINISHED_ROUND */
    uint64_t delivered;  /* greatest time delivered */
    uint64_t bytes;      /* of the copies that wait */
    bool rounds;         /* a FINISHED_ROUND has been seen */
};

struct heap_entry {
    struct record record;
    uint64_t sequence;
};

/* A copy of a VM's stack that waits for its sample (vmstack_pairing.c); one a cpu. */
struct held_copy {
    struct record record;
    uint32_t tid;
    bool held;
};

struct copies {
    VEC(struct held_copy) held; /* by cpu */
    size_t nr;                  /* that are held */
};

struct tracing;

struct perfdata {
    char *path;
    char *spool_path; /* of the file that a pipe was put into; NULL: none */
    int spool_fd;     /* where spool_path is not NULL */
    struct perfdata_options options;
    bool swap, pipe;
    bool layouts_differ; /* the events' sample_types are not all the same */
    bool no_time;        /* no event records time: file order */
    bool backward;       /* an --overwrite ring: sort everything */
    bool filled_once;    /* each stream of a directory has had its turn */
    bool started;        /* other threads may be decoding: events change no more */
    bool has_time_conv;
    struct event *blocks[EVENT_BLOCKS];
    size_t nr_events;
    struct id_slot *id_slots;
    size_t nr_ids, id_mask;
    /* Decoding reads what stands above while reading changes what stands below: not in one cache
     * line. */
    uint8_t apart[64];
    uint64_t last_id;
    uint32_t last_event; /* index + 1 of last_id's event; 0: none yet */

    VEC(struct stream) streams;
    struct queue queue;
    VEC(struct heap_entry) heap;
    uint64_t heap_sequence;
    size_t fill; /* the stream to be read next for the heap */
    struct copies copies;
    record_vec lead; /* what opening has read already */
    size_t lead_at;
    struct chunk *chunk; /* being filled */
    uint8_t *slab;       /* the first chunks; NULL: not yet, or it could not be mapped */
    size_t slab_used;
    atomic_bool kept;        /* there are records in chunks */
    atomic_uint live_chunks; /* in use */
    struct chunk *free_chunks;
    unsigned nr_free_chunks;
    pthread_mutex_t chunk_lock;

    struct perfdata_loss loss;
    struct feature features[FEATURES];
    uint64_t data_offset, data_size, feature_offset; /* as the header says */
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

/* The section's or record's cursor, in the producer's order. */
static inline struct cursor feature_cursor(const struct perfdata *pd, unsigned number,
                                           const char *section)
{
    const struct feature *f = &pd->features[number];
    return cursor_make(f->present ? (const void *)f->bytes : "", f->present ? f->size : 0, pd->swap,
                       pd->path, section, f->offset);
}

struct cursor record_cursor(const struct perfdata *pd, const struct record *rec);
/* "FILE: offset 0xN: TYPE record: text". -1. */
int record_error(const struct perfdata *pd, const struct record *rec, struct error *err,
                 const char *text);

/* attr.c: an attr of `size` bytes (as far as attr.size and `size` go) in our byte order. */
int attr_parse(struct cursor *c, size_t size, struct perf_event_attr *ret);
/* The same of a record's, which ids may follow: its own size is the attr's. */
int attr_parse_own(struct cursor *c, struct perf_event_attr *ret);
/* The name perf gives an event nobody named. Allocated; NULL: no memory. */
char *attr_name(const struct perf_event_attr *attr);

/* events.c */
struct event *event_add(struct perfdata *pd, const struct perf_event_attr *attr, struct error *err);
int event_add_id(struct perfdata *pd, struct event *e, uint64_t id, struct error *err);
int event_set_name(struct event *e, const char *name, size_t size, struct error *err);
int events_complete(struct perfdata *pd, struct error *err); /* after all events are known */
int events_name(struct perfdata *pd, struct error *err);     /* those nobody named */
struct event *event_by_id(struct perfdata *pd, uint64_t id);
/* Set rec->event and rec->time. */
void record_locate(struct perfdata *pd, struct record *rec);
void events_free(struct perfdata *pd);

/* open.c; from memory or a descriptor (`stream`: as if it were a pipe), for tests. */
int perfdata_open_memory(const void *bytes, size_t size, const struct perfdata_options *options,
                         struct perfdata **ret, struct error *err);
int perfdata_open_stream(int fd, const char *path, const struct perfdata_options *options,
                         struct perfdata **ret, struct error *err);

/* stream.c: the next record as it stands in a file, pipe or compressed record: 1, 0 at the end, -1
 * when memory is out. *transient: its bytes are gone at the next call. */
int stream_next(struct stream *s, struct record *ret, bool *transient, struct error *err);
/* At least `want` bytes at the stream's position, and how many; NULL: fewer are left. */
const uint8_t *stream_peek(struct stream *s, uint64_t want, uint64_t *ret);
void stream_take(struct stream *s, uint64_t size);
void stream_damage(struct stream *s, uint64_t offset, enum error_kind kind, const char *text);
void stream_close(struct stream *s);

/* spool.c: a pipe that announces events of VM memory is read to its end into an unnamed file:
 * `head`, what has been peeked at, and the rest. *ret: the file's descriptor, or -1: it announces
 * none. */
int stream_spool(struct stream *s, const uint8_t *head, size_t head_size, int *ret,
                 struct error *err);
uint64_t stream_offset(const struct stream *s);

/* inflate.c: zstd streams inside COMPRESSED and COMPRESSED2 records. */
int inflate_record(struct stream *s, const uint8_t *data, uint64_t size, bool may_wrap,
                   uint64_t offset, struct error *err);
int inflate_next(struct stream *s, struct record *ret, struct error *err);
void inflate_free(struct inflate *z);
size_t inflate_left(const struct inflate *z); /* bytes that are no whole record yet */

/* skim.c. Takes over `fd`. */
void skim_start(struct stream *s, int fd);
void skim_stop(struct stream *s);
/* perfdata_stack_used() for one stream. */
void skim_wanted(struct stream *s, size_t bytes);
/* The record at the stream's position, its bytes in a chunk or in the mapping: 1; 0: none that
 * can be had this way, and nothing taken. */
int skim_next(struct stream *s, struct record *rec);

/* sample.c: where a sample's stack copy begins in the record and its size as recorded, from the
 * first `have` bytes. rec->event is set. false: it has none, or not within `have`. */
bool sample_stack_at(const struct perfdata *pd, const struct record *rec, size_t have,
                     size_t *ret_at, uint64_t *ret_size);

/* chunk.c. A chunk is made with one reference; NULL: no memory. */
struct chunk *chunk_create(struct perfdata *pd);
void chunk_ref(struct perfdata *pd, struct chunk *c);
void chunk_unref(struct perfdata *pd, struct chunk *c, unsigned nr);
/* Whether the record's bytes stand in a chunk, and not in a mapped file or, a round's, nowhere. */
bool record_in_chunk(const struct perfdata *pd, const struct record *rec);
/* Keep a transient record's bytes; samples lose what is behind dyn_size. */
int record_keep(struct perfdata *pd, struct record *rec, struct error *err);
void records_drop(struct perfdata *pd, const struct record *records, size_t nr);
void chunks_free(struct perfdata *pd);

/* queue.c. The flushes are called when everything ready has been taken. */
int queue_push(struct queue *q, const struct record *rec, struct error *err);
int queue_round(struct queue *q, struct error *err);                 /* at a FINISHED_ROUND */
int queue_flush(struct queue *q, uint64_t limit, struct error *err); /* all up to `limit` */
int queue_flush_half(struct queue *q, struct error *err);            /* the older half */

/* read.c: header records at the start, so that the events are known once a recording is open. */
int lead_in_read(struct perfdata *pd, struct error *err);

/* vmstack_pairing.c: a record on its way into the queue; copies of VMs' stacks wait for their
 * samples. */
typedef int (*copies_push)(struct perfdata *pd, const struct record *rec, struct error *err);
int copies_pass(struct perfdata *pd, const struct record *rec, copies_push push, struct error *err);
int copies_end(struct perfdata *pd, copies_push push, struct error *err); /* at the input's end */
void copies_free(struct perfdata *pd);

/* meta.c: take over what a record says about the recording; counts bad ones. */
int meta_apply(struct perfdata *pd, struct record *rec, struct error *err);

/* features.c */
int features_find(struct perfdata *pd, const uint64_t bitmap[FEATURES / 64], const uint8_t *map,
                  uint64_t size);
int feature_add(struct perfdata *pd, unsigned number, const uint8_t *bytes, uint64_t size,
                uint64_t offset, struct error *err);
/* Take over what the sections say, once all are there. */
int features_complete(struct perfdata *pd, struct error *err);
void features_free(struct perfdata *pd);
/* A u32 length and that many bytes with a NUL among them. */
const char *feature_string(struct cursor *c);
int build_id_parse(struct cursor *c, uint16_t misc, struct record_build_id *ret);

/* tracing.c: the tracing data section; copies it. */
int tracing_create(const uint8_t *bytes, uint64_t size, struct tracing **ret, struct error *err);
void tracing_free(struct tracing *t);
/* "system:name" of tracepoint `id`; allocated, NULL when not recorded. */
char *tracing_event_name(const struct tracing *t, uint64_t id);

#endif
