/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * perf.data, whole: reading (file, pipe, directory; plain or zstd; both byte orders), and
 * writing. Knows no process and no stack.
 *
 * Reading delivers records in time order, with memory bounded by the out-of-order window. In a
 * plain file a record's bytes are the mapped file's own; nothing is copied. From a pipe or a
 * compressed file they stand in shared chunks, each sample trimmed to the part of its stack copy
 * that holds stack (dyn_size), so that a record's bytes are never touched twice.
 *
 * Layouts: struct perf_event_attr and records are linux/perf_event.h's and libperf's
 * perf/event.h's; what neither has is described where it is decoded.
 */
#ifndef PERFDATA_PERFDATA_H
#define PERFDATA_PERFDATA_H

#include "base/error.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- events ------------------------------------------------------------------------------ */

/* One recorded event (one perf_event_attr and its ids). Owned by the perfdata; never moves. */
struct perfdata_event {
    struct perf_event_attr attr; /* in our byte order; fields the producer lacked are 0 */
    const char *name;            /* as perf script prints it, e.g. "cpu-clock:u" */
    const uint64_t *ids;
    size_t nr_ids;
    unsigned index;  /* its place among the events */
    unsigned leader; /* index of its group's leader; itself when in no group */
    const char *unit;
    double scale;
    bool is_tracepoint;
};

enum { PERFDATA_NO_EVENT = 0xffff };

/* ---- records ----------------------------------------------------------------------------- */

/* Tool records that linux/perf_event.h does not define are named PERFDATA_RECORD_*; see
 * perf/event.h (libperf) and, for 83 on, the kernel's tools/lib/perf of 6.16 and later. */
enum {
    PERFDATA_RECORD_COMPRESSED2 = 83,
    PERFDATA_RECORD_BPF_METADATA = 84,
};

/* One record, as it stands in the recording. `data` points at its perf_event_header: unaligned,
 * in the producer's byte order, `size` bytes long. Valid until the batch that holds it is released.
 */
struct record {
    const uint8_t *data;
    uint64_t time;   /* ns of the recording's clock; 0: the record has none */
    uint64_t offset; /* where it stands: in the file, or in the decompressed stream */
    uint32_t size;   /* bytes; of a trimmed sample, of what is kept (perfdata_record_size) */
    uint32_t type;
    uint16_t misc;
    uint16_t event;  /* index of its event, or PERFDATA_NO_EVENT */
    uint16_t stream; /* 0, or 1 + N for data.N of a directory */
};

/* A run of records, in order. */
struct record_batch {
    struct record *records;
    size_t nr;
    size_t cap; /* private */
};

/* Everything lost or passed over while reading; all counts. */
struct perfdata_loss {
    uint64_t bytes_unread;     /* bytes after the damage that ended reading */
    uint64_t records_bad;      /* records whose length or fields lie, passed over */
    uint64_t records_unknown;  /* types nobody here knows, passed over */
    uint64_t records_late;     /* delivered although older than what had been delivered */
    uint64_t samples_no_event; /* samples whose id belongs to no event */
    uint64_t events_lost;      /* sum of PERF_RECORD_LOST */
    uint64_t samples_lost;     /* sum of PERF_RECORD_LOST_SAMPLES */
    uint64_t throttled;        /* PERF_RECORD_THROTTLE records */
    struct error damage;       /* kind ERROR_NONE, or what ended reading early */
};

struct perfdata_options {
    bool unordered;  /* deliver in file order (`ljperf dump`) */
    bool raw;        /* deliver COMPRESSED, FINISHED_ROUND and the like, too */
    bool keep_whole; /* do not trim stack copies of streamed samples */
    /* A file's stack copies may stand in two pieces: what walks mostly need is read, the rest
     * stays in the mapping. See perfdata_stack_used(). */
    bool split_stacks;
    /* A pipe with a log of VM memory is put into a temporary file first: see perfdata_again(). */
    bool spool_logs;
};

struct perfdata;

/* Open `path` (a file, a FIFO, a directory, "-" for standard input). Files are mapped: one that is
 * truncated by somebody else while it is read ends the process with SIGBUS, as any mapped file
 * does. A file that a killed recorder left (data size 0) is opened; features are then absent.
 * Errors: not a perf.data (says what it looks like), unreadable, unsupported by name. */
int perfdata_open(const char *path, const struct perfdata_options *options, struct perfdata **ret,
                  struct error *err);
void perfdata_close(struct perfdata *pd);

/* Read up to `max` records into `batch` (zeroed before its first use; reused by the caller).
 * batch->nr 0: the end. Input damage is not an error: reading ends there, and perfdata_loss says
 * so. One thread at a time. */
int perfdata_read(struct perfdata *pd, size_t max, struct record_batch *batch, struct error *err);
/* Give a batch's records back; any thread, any order. The batch may then be read into again. */
void perfdata_release(struct perfdata *pd, struct record_batch *batch);
/* Records will not be looked at again, but for the header's and events: gives the file's pages
 * back. Any thread, beside others. */
void perfdata_forget(struct perfdata *pd);
/* Free what a batch holds, after its last release. */
void record_batch_free(struct record_batch *batch);

/* With split_stacks: how many bytes of their stacks nearly all samples need. A hint, for speed
 * only. As perfdata_read(), one thread at a time. */
void perfdata_stack_used(struct perfdata *pd, size_t bytes);

const struct perfdata_loss *perfdata_loss(const struct perfdata *pd);
const char *perfdata_path(const struct perfdata *pd);
/* The path by which the same recording can be opened once more while this one is open; NULL: it is
 * a pipe that was not put into a file. */
const char *perfdata_again(const struct perfdata *pd);
bool perfdata_is_pipe(const struct perfdata *pd);
bool perfdata_swapped(const struct perfdata *pd); /* the producer's byte order is not ours */
/* Bytes of input in all and consumed so far (for a progress bar); total 0 when not known. */
void perfdata_progress(const struct perfdata *pd, uint64_t *done, uint64_t *total);

size_t perfdata_nr_events(const struct perfdata *pd);
/* The event whose counter has this id; NULL: none. Any thread, once reading has begun. */
const struct perfdata_event *perfdata_event_by_id(const struct perfdata *pd, uint64_t id);
const struct perfdata_event *perfdata_event(const struct perfdata *pd, size_t index);

/* ---- decoding one record ----------------------------------------------------------------- */
/* All decoders may be called from any thread, point into the record, check every length, and
 * fail with the record's offset in the error. Strings are NUL-terminated inside the record. */

/* A sample. Which fields are meaningful: `present` (the event's sample_type). */
struct sample {
    uint64_t present;
    const struct perfdata_event *event;
    uint64_t id, ip, time, addr, stream_id, phys_addr, cgroup;
    uint64_t period; /* the event's, where samples have none of their own */
    uint64_t data_src, transaction, data_page_size, code_page_size, weight;
    uint32_t pid, tid, cpu;
    uint16_t misc; /* of the header: cpumode in bits 0-2 */
    bool swapped;

    const uint8_t *callchain; /* nr_callchain u64 values, unaligned, producer's order */
    uint64_t nr_callchain;
    const uint8_t *raw; /* RAW payload, unaligned, producer's order */
    uint32_t raw_size;
    const uint8_t *branches; /* nr_branches x (from, to, flags) */
    uint64_t nr_branches;
    const uint8_t *read; /* the READ block, laid out by attr.read_format */
    size_t read_size;

    uint64_t user_abi;        /* PERF_SAMPLE_REGS_ABI_* */
    const uint8_t *user_regs; /* one u64 per bit of user_mask, ascending */
    uint64_t user_mask;       /* sample_regs_user of the event that the record is of */
    uint64_t intr_abi;
    const uint8_t *intr_regs; /* likewise, by intr_mask */
    uint64_t intr_mask;
    const uint8_t *stack;    /* the stack copy from the user SP up; NULL: none */
    uint64_t stack_size;     /* bytes that were requested and stand in the record */
    uint64_t stack_dyn_size; /* bytes that hold stack, <= stack_size: read no further */
    /* With options.split_stacks the copy may stand in two pieces: stack_near bytes at `stack`, the
     * rest of stack_dyn_size at `stack_far`. Else stack_near is stack_dyn_size. */
    uint64_t stack_near;
    const uint8_t *stack_far;
};

int perfdata_sample(const struct perfdata *pd, const struct record *rec, struct sample *ret,
                    struct error *err);
/* Only pid, tid, cpu, time, ip, id and event (what filters need): touches the first few words. */
int perfdata_sample_head(const struct perfdata *pd, const struct record *rec, struct sample *ret,
                         struct error *err);

/* A sample that stands in memory, in our byte order: `data` is its header, `size` the bytes that
 * may be read (at least header.size of them), `event` what it is a sample of. ret points into it.
 * -1: it ends inside its fields (the caller knows where it came from; `err` names no place). */
int perfdata_sample_parse(const struct perfdata_event *event, const void *data, size_t size,
                          struct sample *ret, struct error *err);

/* Value of user register `bit` (numbering of attr.sample_regs_user); false: not recorded. */
bool sample_user_reg(const struct sample *s, unsigned bit, uint64_t *ret);
uint64_t sample_callchain_at(const struct sample *s, uint64_t i);
/* Entry i of the READ block: a counter's value, and its id (0: not recorded). False: no more. */
struct sample_value {
    uint64_t value, id;
};
bool sample_value(const struct sample *s, size_t i, struct sample_value *ret);

/* The trailer of a record that is not a sample (sample_id_all). Absent fields are 0. */
struct record_ids {
    uint32_t pid, tid, cpu;
    uint64_t time, id, stream_id;
};
void perfdata_ids(const struct perfdata *pd, const struct record *rec, struct record_ids *ret);

enum { BUILD_ID_MAX = 20 };
struct build_id {
    uint8_t size; /* 0: none */
    uint8_t bytes[BUILD_ID_MAX];
};

/* MMAP and MMAP2. */
struct record_mmap {
    uint32_t pid, tid;
    uint64_t addr, len, pgoff;
    uint32_t prot, flags; /* MMAP: PROT_EXEC unless it is a data map (misc bit 13), MAP_PRIVATE */
    uint32_t maj, min;    /* MMAP2 without a build id */
    uint64_t ino, ino_generation;
    struct build_id build_id;
    bool is_data;
    const char *filename;
};
int perfdata_mmap(const struct perfdata *pd, const struct record *rec, struct record_mmap *ret,
                  struct error *err);

struct record_comm {
    uint32_t pid, tid;
    bool exec;
    const char *comm;
};
int perfdata_comm(const struct perfdata *pd, const struct record *rec, struct record_comm *ret,
                  struct error *err);

/* FORK and EXIT. */
struct record_task {
    uint32_t pid, ppid, tid, ptid;
    uint64_t time;
    bool synthesized; /* FORK: do not copy the parent's maps */
};
int perfdata_task(const struct perfdata *pd, const struct record *rec, struct record_task *ret,
                  struct error *err);

struct record_namespaces {
    uint32_t pid, tid;
    uint64_t nr;            /* order: net, uts, ipc, pid, user, mnt, cgroup */
    const uint8_t *entries; /* nr x (u64 dev, u64 ino) */
};
int perfdata_namespaces(const struct perfdata *pd, const struct record *rec,
                        struct record_namespaces *ret, struct error *err);

struct record_ksymbol {
    uint64_t addr;
    uint32_t len;
    uint16_t type, flags; /* flags bit 0: unregister */
    const char *name;
};
int perfdata_ksymbol(const struct perfdata *pd, const struct record *rec,
                     struct record_ksymbol *ret, struct error *err);

/* HEADER_BUILD_ID records of a pipe. */
struct record_build_id {
    int32_t pid;
    uint16_t misc; /* cpumode */
    struct build_id build_id;
    const char *filename;
};
int perfdata_build_id(const struct perfdata *pd, const struct record *rec,
                      struct record_build_id *ret, struct error *err);

/* One line of text with the decoded fields of any record (no newline); the same as a JSON object
 * when `json`. Returns bytes written to `out`, -1 when memory or the stream fails. */
int perfdata_print_record(const struct perfdata *pd, const struct record *rec, bool json,
                          FILE *out);
/* "MMAP2", "SAMPLE", ...; NULL for a type that is not known. */
const char *perfdata_record_name(uint32_t type);
/* How many bytes the record has in the recording, trimmed or not. */
uint32_t perfdata_record_size(const struct perfdata *pd, const struct record *rec);

/* ---- features and tracepoints ------------------------------------------------------------ */

/* Build ids of the BUILD_ID feature section (file form). */
const struct record_build_id *perfdata_build_ids(const struct perfdata *pd, size_t *nr);

/* String features; NULL when absent. */
const char *perfdata_hostname(const struct perfdata *pd);
const char *perfdata_osrelease(const struct perfdata *pd);
const char *perfdata_arch(const struct perfdata *pd); /* "x86_64", ... */
const char *perfdata_perf_version(const struct perfdata *pd);
/* The command line that recorded, one string, perf's quoting; NULL when absent. */
const char *perfdata_cmdline(const struct perfdata *pd);
/* Clock of the samples: true and a CLOCK_* id where the recording says it (-k). */
bool perfdata_clockid(const struct perfdata *pd, int *ret);
/* CLOCK_DATA: wall clock and recording clock (ns) at one moment. */
bool perfdata_clock_data(const struct perfdata *pd, uint64_t *wall_ns, uint64_t *clock_ns);

/* TIME_CONV (TSC to ns), for jitdumps stamped with the TSC. */
struct perfdata_time_conv {
    uint64_t shift, mult, zero, cycles, mask;
    bool cap_zero, cap_short;
};
const struct perfdata_time_conv *perfdata_time_conv(const struct perfdata *pd);

/* A feature section's bytes as they stand in the recording (number: HEADER_*), in the producer's
 * order; NULL: absent. An empty one has a size of 0. A pipe's tracing data is no feature. */
const void *perfdata_feature(const struct perfdata *pd, unsigned number, size_t *size);
enum { PERFDATA_FEATURES = 256 }; /* one past the last number */

/* What `perf script --header-only` prints. -1: `out` took not all of it. */
int perfdata_print_header(const struct perfdata *pd, FILE *out);

/* Text of a tracepoint's or uprobe's payload as perf script prints it ("pid=1 comm=..."),
 * appended to `out` without a newline; false when the sample's event is no tracepoint or its
 * format was not recorded. Any thread (serialised inside). */
struct text;
bool perfdata_print_tracepoint(const struct perfdata *pd, const struct sample *s, struct text *out);

/* ---- writing ----------------------------------------------------------------------------- */

struct perfdata_writer;

struct perfdata_writer_options {
    bool pipe;      /* pipe form; otherwise the output must be seekable */
    int zstd_level; /* 0: plain */
};

/* Create a recording with the given events (attrs, names, ids). */
int perfdata_writer_create(const char *path, const struct perfdata_writer_options *options,
                           const struct perfdata_event *events, size_t nr_events,
                           struct perfdata_writer **ret, struct error *err);
/* Append one whole record (perf_event_header first, our byte order). */
int perfdata_writer_record(struct perfdata_writer *w, const void *record, size_t size,
                           struct error *err);
/* The same of a record that stands in pieces; the first holds the whole header. */
struct iovec;
int perfdata_writer_parts(struct perfdata_writer *w, const struct iovec *parts, int nr,
                          struct error *err);
/* Set a feature section's bytes (number: HEADER_*), written at the end (pipe: at once). */
int perfdata_writer_feature(struct perfdata_writer *w, unsigned number, const void *bytes,
                            size_t size, struct error *err);
/* Hand what has been appended to the file system, so that it outlives this process. */
int perfdata_writer_flush(struct perfdata_writer *w, struct error *err);
/* Bytes of records so far, as they stand in the file (compressed ones: without the last that still
 * wait for their block). */
uint64_t perfdata_writer_bytes(const struct perfdata_writer *w);
/* After a call that could not write (disk full, file size limit): cut a file back to an earlier
 * flush that leaves room for the features, and finish it there. *lost: bytes of records given up.
 * -1: not even that; what stands there reads as a killed recorder's. */
int perfdata_writer_salvage(struct perfdata_writer *w, uint64_t *lost, struct error *err);
/* Write what is left (features, header) and close. A writer that is never finished leaves a file
 * that readers take as a killed recorder's. */
int perfdata_writer_finish(struct perfdata_writer *w, struct error *err);
void perfdata_writer_destroy(struct perfdata_writer *w);

#endif
