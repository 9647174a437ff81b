/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads perf.data recordings in all their forms (file, pipe, directory; plain or zstd; both byte
 * orders), and writes them. This code knows nothing of processes and stacks.
 *
 * The reader delivers records in time order. Its memory use is bounded by the out-of-order window.
 * A record of a plain file points into the mapped file; nothing is copied. Records of a pipe or a
 * compressed file are kept in shared chunks. There each sample is trimmed to the part of its stack
 * copy that holds stack (dyn_size), so no byte of a record is touched twice.
 *
 * linux/perf_event.h and libperf's perf/event.h define struct perf_event_attr and the records. Any
 * other layout is described where it is decoded.
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

/* One recorded event (one perf_event_attr and its ids). The perfdata owns it; it never moves. */
struct perfdata_event {
    struct perf_event_attr attr; /* in our byte order; fields unknown to the producer are 0 */
    const char *name;            /* as perf script prints it, e.g. "cpu-clock:u" */
    const uint64_t *ids;
    size_t nr_ids;
    unsigned index;  /* number of this event among all events */
    unsigned leader; /* index of the group's leader; its own index when the event is in no group */
    const char *unit;
    double scale;
    bool is_tracepoint;
};

enum { PERFDATA_NO_EVENT = 0xffff };

/* ---- records ----------------------------------------------------------------------------- */

/* Tool records that linux/perf_event.h does not define are named PERFDATA_RECORD_*. They are
 * described in perf/event.h (libperf) and, from 83 on, in the kernel's tools/lib/perf of 6.16 and
 * later. */
enum {
    PERFDATA_RECORD_COMPRESSED2 = 83,
    PERFDATA_RECORD_BPF_METADATA = 84,
};

/* One record, as it stands in the recording. `data` points at its perf_event_header. The bytes are
 * unaligned and in the producer's byte order. They are valid until the batch that holds the record
 * is released. */
struct record {
    const uint8_t *data;
    uint64_t time;   /* ns of the recording's clock; 0: the record has no time */
    uint64_t offset; /* position of the record, in the file or in the decompressed stream */
    uint32_t size;   /* bytes at `data`; less than in the file if trimmed (perfdata_record_size) */
    uint32_t type;
    uint16_t misc;
    uint16_t event;  /* index of the record's event, or PERFDATA_NO_EVENT */
    uint16_t stream; /* 0, or 1 + N for data.N of a directory */
};

/* A series of records, in order. */
struct record_batch {
    struct record *records;
    size_t nr;
    size_t cap; /* private */
};

/* Counts of everything that was lost or skipped while reading. */
struct perfdata_loss {
    uint64_t bytes_unread;     /* bytes after the damage that ended reading */
    uint64_t records_bad;      /* malformed records (length or fields), skipped */
    uint64_t records_unknown;  /* records of unknown types, skipped */
    uint64_t records_late;     /* records delivered after a record with a later time */
    uint64_t samples_no_event; /* samples whose id belongs to no event */
    uint64_t samples_lost;     /* sum of PERF_RECORD_LOST_SAMPLES of events that sample */
    uint64_t records_lost;     /* the same of other events: records of mappings and processes */
    uint64_t events_lost;      /* sum of PERF_RECORD_LOST: both of these, told while recording */
    uint64_t throttled;        /* number of PERF_RECORD_THROTTLE records */
    struct error damage;       /* the reason why reading ended early; kind ERROR_NONE: it did not */
};

/* Returns how many samples or records were lost of which it is not known what they were: perf
 * before Linux 6.0, or a recording without its end. */
static inline uint64_t perfdata_lost_unknown(const struct perfdata_loss *l)
{
    uint64_t known = l->samples_lost + l->records_lost;
    return l->events_lost > known ? l->events_lost - known : 0;
}

struct perfdata_options {
    bool unordered;  /* deliver records in file order (`ljperf dump`) */
    bool raw;        /* also deliver COMPRESSED, FINISHED_ROUND and similar records */
    bool keep_whole; /* do not trim stack copies of streamed samples */
    /* The stack copies of a file may be delivered in two pieces: the part that most walks need is
     * read, the rest stays in the mapping. See perfdata_stack_used(). */
    bool split_stacks;
    /* Copy a pipe with a memory log into a temporary file first: see perfdata_again(). */
    bool spool_logs;
};

struct perfdata;

/* Open `path`: a file, a FIFO, a directory, or "-" for standard input. Files are mapped: if another
 * program truncates a file while it is read, this process dies of SIGBUS, as with any mapped file.
 * A file that a killed recorder left (data size 0) can be opened; it has no features. Errors: the
 * input is not a perf.data (the error says what it looks like), is unreadable, or has an
 * unsupported property, which the error names. */
int perfdata_open(const char *path, const struct perfdata_options *options, struct perfdata **ret,
                  struct error *err);
/* The same for a recording that arrives through a descriptor, which is closed with it. `path` names
 * it in errors. */
int perfdata_open_stream(int fd, const char *path, const struct perfdata_options *options,
                         struct perfdata **ret, struct error *err);
void perfdata_close(struct perfdata *pd);

/* Read up to `max` records into `batch`, which the caller zeroes before its first use and may
 * reuse. batch->nr is 0 at the end of the input. Damaged input is not an error: reading ends there,
 * and perfdata_loss() reports the damage. Only one thread at a time may call this. */
int perfdata_read(struct perfdata *pd, size_t max, struct record_batch *batch, struct error *err);
/* Release the records of a batch. Any thread may do this, in any order. The batch may then be read
 * into again. */
void perfdata_release(struct perfdata *pd, struct record_batch *batch);
/* Give the file's pages back to the system. The caller promises to look at no record again, only at
 * the header and the events. Any thread may call this, while other threads use `pd`. */
void perfdata_forget(struct perfdata *pd);
/* Free the memory of a batch, after its last release. */
void record_batch_free(struct record_batch *batch);

/* With split_stacks: say how many bytes of their stacks nearly all samples need. This is a hint and
 * affects only speed. One thread at a time, as for perfdata_read(). */
void perfdata_stack_used(struct perfdata *pd, size_t bytes);

const struct perfdata_loss *perfdata_loss(const struct perfdata *pd);
const char *perfdata_path(const struct perfdata *pd);
/* Returns the path by which the same recording can be opened once more while this one is open.
 * NULL: the recording is a pipe that was not copied into a file. */
const char *perfdata_again(const struct perfdata *pd);
bool perfdata_is_pipe(const struct perfdata *pd);
bool perfdata_swapped(const struct perfdata *pd); /* the producer's byte order differs from ours */
/* Report how many input bytes there are and how many were consumed, for a progress bar. *total is 0
 * when it is unknown. */
void perfdata_progress(const struct perfdata *pd, uint64_t *done, uint64_t *total);

size_t perfdata_nr_events(const struct perfdata *pd);
/* Returns the event whose counter has this id; NULL: none. Any thread, once reading has begun. */
const struct perfdata_event *perfdata_event_by_id(const struct perfdata *pd, uint64_t id);
const struct perfdata_event *perfdata_event(const struct perfdata *pd, size_t index);

/* ---- decoding one record ----------------------------------------------------------------- */
/* All decoders may be called from any thread. Their results point into the record. They check
 * every length, and report errors with the record's offset. Strings are NUL-terminated inside the
 * record. */

/* Get a record that is in memory in our byte order, as in a ring: its header is at `data`, of which
 * `size` bytes may be read. The decoders of records that are no samples take it with `pd` NULL.
 * Returns -1 if the header's size cannot be. */
int perfdata_record_parse(const void *data, size_t size, struct record *ret, struct error *err);
/* Get the trailer of such a record, whose event has `sample_type` and sample_id_all. Absent fields
 * are 0. */
struct record_ids;
void perfdata_record_ids(const struct record *rec, uint64_t sample_type, struct record_ids *ret);
/* Get the id of such a record, a sample whose sample_type has IDENTIFIER. Returns false if it is
 * none. */
bool perfdata_record_identifier(const struct record *rec, uint64_t *ret);

/* A decoded sample. `present` (the event's sample_type) says which fields are meaningful. */
struct sample {
    uint64_t present;
    const struct perfdata_event *event;
    uint64_t id, ip, time, addr, stream_id, phys_addr, cgroup;
    uint64_t period; /* the event's period if the samples do not record one */
    uint64_t data_src, transaction, data_page_size, code_page_size, weight;
    uint32_t pid, tid, cpu;
    uint16_t misc; /* misc of the record's header: cpumode in bits 0-2 */
    bool swapped;

    const uint8_t *callchain; /* nr_callchain u64 values, unaligned, in the producer's order */
    uint64_t nr_callchain;
    const uint8_t *raw; /* payload of PERF_SAMPLE_RAW, unaligned, in the producer's order */
    uint32_t raw_size;
    const uint8_t *branches; /* nr_branches x (from, to, flags) */
    uint64_t nr_branches;
    const uint8_t *read; /* the READ block; attr.read_format defines its layout */
    size_t read_size;

    uint64_t user_abi;        /* PERF_SAMPLE_REGS_ABI_* */
    const uint8_t *user_regs; /* one u64 per bit of user_mask, in ascending bit order */
    const uint8_t *aux;       /* PERF_SAMPLE_AUX: `aux_size` bytes; NULL: none */
    uint64_t aux_size;
    uint64_t user_mask; /* sample_regs_user of the sample's event */
    uint64_t intr_abi;
    const uint8_t *intr_regs; /* one u64 per bit of intr_mask, in ascending bit order */
    uint64_t intr_mask;
    const uint8_t *stack;    /* the stack copy, from the user SP upward; NULL: none */
    uint64_t stack_size;     /* bytes that were requested; the record has room for all of them */
    uint64_t stack_dyn_size; /* bytes that hold stack, <= stack_size: read no further */
    /* With options.split_stacks the copy may be in two pieces: stack_near bytes at `stack`, and the
     * rest of stack_dyn_size at `stack_far`. Otherwise stack_near equals stack_dyn_size. */
    uint64_t stack_near;
    const uint8_t *stack_far;
};

int perfdata_sample(const struct perfdata *pd, const struct record *rec, struct sample *ret,
                    struct error *err);
/* Decode only pid, tid, cpu, time, ip, id and event, which is all that filters need. This reads
 * only the first few words of the record. */
int perfdata_sample_head(const struct perfdata *pd, const struct record *rec, struct sample *ret,
                         struct error *err);

/* Decode a sample that is in memory in our byte order. `data` points at its header, `size` bytes
 * may be read (at least header.size), and `event` is the sample's event. *ret points into `data`.
 * Returns -1 if the sample ends inside its fields; `err` names no place, as the caller knows the
 * source. */
int perfdata_sample_parse(const struct perfdata_event *event, const void *data, size_t size,
                          struct sample *ret, struct error *err);

/* User registers that an unwinder needs of this machine, as bits of attr.sample_regs_user; 0: this
 * machine is not known. */
uint64_t perfdata_user_registers(void);

/* Get user register `bit` (numbered as in attr.sample_regs_user). Returns false if it was not
 * recorded. */
bool sample_user_reg(const struct sample *s, unsigned bit, uint64_t *ret);
uint64_t sample_callchain_at(const struct sample *s, uint64_t i);
/* Get branch i, the newest first. Returns false if there is no branch i. */
struct sample_branch {
    /* flags: the first six fields of struct perf_branch_entry, from the lowest bit on, whatever the
     * machine's byte order; of one of ours, all of them */
    uint64_t from, to, flags;
};
bool sample_branch_at(const struct sample *s, uint64_t i, struct sample_branch *ret);
/* Get entry i of the READ block: a counter's value and its id (0: not recorded). Returns false if
 * there is no entry i. */
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
    uint32_t prot, flags; /* MMAP: PROT_EXEC (data map, misc bit 13: PROT_READ), MAP_PRIVATE */
    uint32_t maj, min;    /* only of MMAP2 without a build id */
    uint64_t ino, ino_generation;
    struct build_id build_id;
    bool is_data;
    const char *filename;
    /* Of no record: where a live process has a deleted file; NULL: not known. */
    const char *live_path;
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

/* A control group: samples have its id. */
struct record_cgroup {
    uint64_t id;
    const char *path; /* below the root of the groups: "/user.slice" */
};
int perfdata_cgroup(const struct perfdata *pd, const struct record *rec, struct record_cgroup *ret,
                    struct error *err);

/* READ: what a thread has counted of an event when it ended. */
struct record_read {
    uint32_t pid, tid, event; /* event: its index */
    uint64_t value;
};
int perfdata_read_count(const struct perfdata *pd, const struct record *rec,
                        struct record_read *ret, struct error *err);

/* FORK and EXIT. */
struct record_task {
    uint32_t pid, ppid, tid, ptid;
    uint64_t time;
    bool synthesized; /* FORK: do not copy the parent's maps */
};
int perfdata_task(const struct perfdata *pd, const struct record *rec, struct record_task *ret,
                  struct error *err);

/* LOST: records of the ring of event `id` that there was no room for. */
struct record_lost {
    uint64_t id, lost;
};
int perfdata_lost(const struct perfdata *pd, const struct record *rec, struct record_lost *ret,
                  struct error *err);

struct record_namespaces {
    uint32_t pid, tid;
    uint64_t nr;            /* number of entries, in the order net, uts, ipc, pid, user, mnt,
                               cgroup */
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

/* Print the decoded fields of any record to `out`: one line of text without a newline, or a JSON
 * object when `json` is set. Returns the number of bytes written, or -1 when memory or the stream
 * fails. */
int perfdata_print_record(const struct perfdata *pd, const struct record *rec, bool json,
                          FILE *out);
/* Returns "MMAP2", "SAMPLE", ...; NULL for an unknown type. */
const char *perfdata_record_name(uint32_t type);
/* Returns the size of the record in the recording in bytes, even if the record was trimmed. */
uint32_t perfdata_record_size(const struct perfdata *pd, const struct record *rec);

/* ---- features and tracepoints ------------------------------------------------------------ */

/* Returns the build ids of the BUILD_ID feature section (file form). */
const struct record_build_id *perfdata_build_ids(const struct perfdata *pd, size_t *nr);

/* String features; NULL: absent. */
const char *perfdata_hostname(const struct perfdata *pd);
const char *perfdata_osrelease(const struct perfdata *pd);
const char *perfdata_arch(const struct perfdata *pd); /* "x86_64", ... */
const char *perfdata_perf_version(const struct perfdata *pd);
/* Get the times of the first and the last sample, ns, as the recorder noted them at the end.
 * Returns false if it did not. */
bool perfdata_sample_times(const struct perfdata *pd, uint64_t *first, uint64_t *last);
/* Returns the recorder's command line as one string, quoted as perf does; NULL: absent. */
const char *perfdata_cmdline(const struct perfdata *pd);
/* Get the clock of the samples, a CLOCK_* id. Returns false if the recording does not name it (-k
 * does). */
bool perfdata_clockid(const struct perfdata *pd, int *ret);
/* CLOCK_DATA: wall clock and recording clock (ns) at one moment. Returns false if absent. */
bool perfdata_clock_data(const struct perfdata *pd, uint64_t *wall_ns, uint64_t *clock_ns);

/* TIME_CONV (conversion from TSC to ns), for jitdumps whose stamps are TSC values. */
struct perfdata_time_conv {
    uint64_t shift, mult, zero, cycles, mask;
    bool cap_zero, cap_short;
};
const struct perfdata_time_conv *perfdata_time_conv(const struct perfdata *pd);

/* Returns the bytes of feature section `number` (HEADER_*) as they stand in the recording, in the
 * producer's byte order. NULL: absent; an empty section has a size of 0. The tracing data of a pipe
 * is not a feature. */
const void *perfdata_feature(const struct perfdata *pd, unsigned number, size_t *size);
enum { PERFDATA_FEATURES = 256 }; /* one past the last number */

/* Print what `perf script --header-only` prints. Returns -1 if writing to `out` failed. */
int perfdata_print_header(const struct perfdata *pd, FILE *out);

/* Append the text of a tracepoint's or uprobe's payload to `out`, as perf script prints it ("pid=1
 * comm=..."), without a newline. Returns false when the sample's event is no tracepoint or its
 * format was not recorded. Any thread may call this (a lock serialises the calls). */
struct text;
bool perfdata_print_tracepoint(const struct perfdata *pd, const struct sample *s, struct text *out);

/* Get a number that a tracepoint's or uprobe's payload has under that name, or that a wait has
 * (OFFCPU_RUNQUEUE_NAME, offcpu.h). Returns false when the
 * event has none, its format was not recorded, or the payload is shorter than the format says. Any
 * thread may call this, as above. */
bool perfdata_sample_number(const struct perfdata *pd, const struct sample *s, const char *field,
                            int64_t *ret);
/* Append the names of the numbers in an event's payload, separated by commas. */
void perfdata_number_names(const struct perfdata *pd, const struct perfdata_event *e,
                           struct text *out);

/* ---- writing ----------------------------------------------------------------------------- */

struct perfdata_writer;

struct perfdata_writer_options {
    bool pipe;      /* write the pipe form; the file form needs a seekable output */
    int zstd_level; /* 0: no compression */
};

/* Create a recording with the given events (attrs, names, ids). */
int perfdata_writer_create(const char *path, const struct perfdata_writer_options *options,
                           const struct perfdata_event *events, size_t nr_events,
                           struct perfdata_writer **ret, struct error *err);
/* Append one whole record, which begins with its perf_event_header and is in our byte order. */
int perfdata_writer_record(struct perfdata_writer *w, const void *record, size_t size,
                           struct error *err);
/* Append one record that is in several pieces. The first piece holds the whole header. */
struct iovec;
int perfdata_writer_parts(struct perfdata_writer *w, const struct iovec *parts, int nr,
                          struct error *err);
/* Set the bytes of feature section `number` (HEADER_*). A file gets them at the end, a pipe that
 * has begun at once. */
int perfdata_writer_feature(struct perfdata_writer *w, unsigned number, const void *bytes,
                            size_t size, struct error *err);
/* Pass all appended records to the file system, so that they outlive this process. */
int perfdata_writer_flush(struct perfdata_writer *w, struct error *err);
/* Returns the bytes of records so far, as they stand in the file. With compression, the last
 * records that still wait for their block are not counted. */
uint64_t perfdata_writer_bytes(const struct perfdata_writer *w);
/* Save what can be saved after a call that could not write (disk full, file size limit): cut the
 * file back to an earlier flush that leaves room for the features, and finish it there. *lost is
 * the number of record bytes given up. Returns -1 if even this failed; readers then take the file
 * for one of a killed recorder. */
int perfdata_writer_salvage(struct perfdata_writer *w, uint64_t *lost, struct error *err);
/* Write the rest (features, header) and close the file. If a writer is never finished, readers take
 * the file for one of a killed recorder. */
int perfdata_writer_finish(struct perfdata_writer *w, struct error *err);
void perfdata_writer_destroy(struct perfdata_writer *w);

#endif
