/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Synthesises recordings for tests, in either byte order, as a file or as a pipe stream. It shares
 * no code with the writer or reader of perfdata/. Failed allocations abort.
 *
 *     struct fixture *f = fixture_create(false);
 *     fixture_event(f, &(struct perf_event_attr){...}, (uint64_t[]){7}, 1);
 *     fixture_comm(f, 1, 1, "sh", 100);
 *     fixture_sample(f, &(struct fixture_sample){.ip = 0x1000, .pid = 1, .time = 200});
 *     char *path = fixture_write(f, false);      (unlink and free it)
 */
#ifndef TESTS_PERFDATA_FIXTURE_H
#define TESTS_PERFDATA_FIXTURE_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fixture;
struct fixture *fixture_create(bool swap);
void fixture_free(struct fixture *f);

/* The attributes that most tests use: IP, TID, TIME, with sample_id_all. */
extern const struct perf_event_attr fixture_attr;
void fixture_event(struct fixture *f, const struct perf_event_attr *attr, const uint64_t *ids,
                   size_t nr_ids);
void fixture_feature(struct fixture *f, unsigned number, const void *bytes, size_t size);
/* Adds a feature that consists of one string. */
void fixture_feature_string(struct fixture *f, unsigned number, const char *text);

/* Any record: begin it, add its fields (written in the fixture's byte order), end it. */
void fixture_begin(struct fixture *f, uint32_t type, uint16_t misc);
void fixture_u8(struct fixture *f, uint8_t value);
void fixture_u16(struct fixture *f, uint16_t value);
void fixture_u32(struct fixture *f, uint32_t value);
void fixture_u64(struct fixture *f, uint64_t value);
void fixture_bytes(struct fixture *f, const void *bytes, size_t size);
void fixture_string(struct fixture *f, const char *text); /* padded to 8 bytes with zeros */
/* Adds the sample_id_all trailer of the first event. */
void fixture_trailer(struct fixture *f, uint32_t pid, uint32_t tid, uint64_t time, uint32_t cpu);
void fixture_end(struct fixture *f);

/* Whole records. Those with a `time` end in the trailer. */
void fixture_comm(struct fixture *f, uint32_t pid, uint32_t tid, const char *comm, uint64_t time);
void fixture_exec(struct fixture *f, uint32_t pid, const char *comm, uint64_t time);
void fixture_fork(struct fixture *f, uint32_t ppid, uint32_t pid, uint32_t tid, uint64_t time);
void fixture_exit(struct fixture *f, uint32_t pid, uint32_t tid, uint64_t time);
struct fixture_mmap {
    uint32_t pid, tid, prot, flags;
    uint64_t addr, len, pgoff, time;
    const char *filename;
    const uint8_t *build_id; /* 20 bytes; NULL: none */
    bool data;
    bool false_bit; /* the record says that it has a build id, and has device and inode */
    uint32_t major, minor;
    uint64_t inode, generation;
};
void fixture_mmap2(struct fixture *f, const struct fixture_mmap *m);
void fixture_round(struct fixture *f); /* FINISHED_ROUND */

/* A sample of event number `event`. The event's sample_type decides which fields are written. */
struct fixture_sample {
    unsigned event;
    uint16_t misc; /* 0: PERF_RECORD_MISC_USER */
    uint64_t id, ip, time, addr, period;
    uint32_t pid, tid, cpu;
    const uint64_t *callchain;
    uint64_t nr_callchain;
    const void *raw;
    uint32_t raw_size;
    const uint64_t *user_regs; /* one per bit of sample_regs_user; NULL: abi 0 */
    const void *stack;         /* sample_stack_user bytes; NULL: size 0 */
    uint64_t stack_dyn_size;
    const uint64_t *intr_regs;
    uint64_t other; /* value of all other u64 fields */
};
void fixture_sample(struct fixture *f, const struct fixture_sample *s);

/* Returns the recording's bytes (free them), or the path of a temporary file that holds them
 * (unlink the file and free the path). */
uint8_t *fixture_build(struct fixture *f, bool pipe, size_t *size);
char *fixture_write(struct fixture *f, bool pipe);
/* Writes any bytes to a temporary file. */
char *fixture_write_bytes(const void *bytes, size_t size);
/* File offset of the first record in the file form; offset of the last finished record, counted
 * from there. */
size_t fixture_data_offset(const struct fixture *f);
size_t fixture_last_record(const struct fixture *f);

#endif
