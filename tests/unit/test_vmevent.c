/* SPDX-License-Identifier: GPL-2.0-only */
/* Payloads of ljperf's own events: what is written is read, and malformed payloads are refused. */
#include "perfdata/perfdata.h"
#include "perfdata/vmevent.h"
#include "perfdata_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static size_t write_sample(uint8_t *buffer, size_t cap)
{
    struct vmevent_writer w;
    const struct vmevent_header head = {.kind = VMEVENT_STACK,
                                        .cpu = 3,
                                        .pid = 10,
                                        .tid = 11,
                                        .sequence = 77,
                                        .user_ip = 0x1234,
                                        .user_sp = 0x7ff0,
                                        .before = 100,
                                        .flags = VMEVENT_KERNEL_MODE};
    vmevent_begin(&w, buffer, cap, &head);
    assert_true(vmevent_add(&w, &(struct vmevent_entry){.address = 0x5000,
                                                        .length = 5,
                                                        .kind = VMENTRY_STATE,
                                                        .vm = 1,
                                                        .level = 2,
                                                        .bytes = (const uint8_t *)"hello"}));
    assert_true(vmevent_add(&w, &(struct vmevent_entry){.address = 0x6000,
                                                        .length = 4096,
                                                        .flags = VMENTRY_UNCHANGED | VMENTRY_TIMED,
                                                        .before = 7,
                                                        .after = 9}));
    assert_true(vmevent_add(&w, &(struct vmevent_entry){.address = 0x7000,
                                                        .length = 8,
                                                        .flags = VMENTRY_TIMED | VMENTRY_CUT,
                                                        .before = 8,
                                                        .after = 10,
                                                        .bytes = (const uint8_t *)"01234567"}));
    return vmevent_end(&w, 200);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    uint8_t buffer[256];
    struct vmevent e;
    struct vmevent_entry entry;
    size_t size = write_sample(buffer, sizeof(buffer));
    /* rings pad payloads */
    assert_int_equal(vmevent_open(buffer, size + 4, &e, NULL), 0);
    assert_int_equal(e.head.kind, VMEVENT_STACK);
    assert_int_equal(e.head.tid, 11);
    assert_int_equal(e.head.sequence, 77);
    assert_int_equal(e.head.user_sp, 0x7ff0);
    assert_int_equal(vmevent_next(&e, &entry, NULL), 1);
    assert_int_equal(entry.address, 0x5000);
    assert_int_equal(entry.length, 5);
    assert_memory_equal(entry.bytes, "hello", 5);
    assert_int_equal(entry.vm, 1);
    assert_int_equal(entry.level, 2);
    assert_int_equal(entry.before, 100);
    assert_int_equal(entry.after, 200);
    assert_int_equal(vmevent_next(&e, &entry, NULL), 1);
    assert_null(entry.bytes);
    assert_int_equal(entry.length, 4096);
    assert_int_equal(entry.before, 7);
    assert_int_equal(entry.after, 9);
    assert_int_equal(vmevent_next(&e, &entry, NULL), 1);
    assert_memory_equal(entry.bytes, "01234567", 8);
    assert_int_equal(entry.flags & VMENTRY_CUT, VMENTRY_CUT);
    assert_int_equal(vmevent_next(&e, &entry, NULL), 0);
}

/* An entry that does not fit is not begun. */
static void full_is_said(void **state)
{
    (void)state;
    uint8_t buffer[sizeof(struct vmevent_header) + 16 + 8];
    struct vmevent_writer w;
    struct vmevent e;
    vmevent_begin(&w, buffer, sizeof(buffer), &(struct vmevent_header){.kind = VMEVENT_MEM});
    assert_false(vmevent_add(&w, &(struct vmevent_entry){.length = 9, .bytes = buffer}));
    assert_true(vmevent_add(
        &w, &(struct vmevent_entry){.length = 8, .bytes = (const uint8_t *)"abcdefgh"}));
    assert_false(vmevent_add(&w, &(struct vmevent_entry){.flags = VMENTRY_FAILED}));
    assert_int_equal(vmevent_open(buffer, vmevent_end(&w, 0), &e, NULL), 0);
    assert_int_equal(e.head.nr_entries, 1);
}

/* Walks a payload, however malformed. Every byte that an entry refers to must exist. */
static int walk(const uint8_t *bytes, size_t size, unsigned *nr)
{
    struct vmevent e;
    struct vmevent_entry entry;
    int got;
    *nr = 0;
    if (vmevent_open(bytes, size, &e, NULL) < 0)
        return -1;
    while ((got = vmevent_next(&e, &entry, NULL)) > 0) {
        if (entry.bytes) {
            assert_true(entry.bytes >= bytes);
            assert_true(entry.bytes + entry.length <= bytes + size);
        }
        assert_true(entry.address + entry.length >= entry.address);
        ++*nr;
    }
    return got;
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    uint8_t buffer[256];
    unsigned nr;
    size_t size = write_sample(buffer, sizeof(buffer));
    assert_int_equal(walk(buffer, size, &nr), 0);
    assert_int_equal(nr, 3);
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *part = malloc(cut + 1);
        assert_non_null(part);
        memcpy(part, buffer, cut);
        assert_int_equal(walk(part, cut, &nr), -1);
        free(part);
    }
}

static void lies_are_refused(void **state)
{
    (void)state;
    uint8_t buffer[256], bad[256];
    unsigned nr;
    size_t size = write_sample(buffer, sizeof(buffer));
    static const struct {
        size_t at;
        uint8_t byte;
    } lies[] = {
        {0, 0},                                     /* magic */
        {4, 9},                                     /* version */
        {5, VMEVENT_BIG},                           /* an order that contradicts the magic */
        {6, 4},                                     /* word size */
        {8, 0xff},                                  /* size beyond the payload */
        {8, 10},                                    /* size less than the header */
        {sizeof(struct vmevent_header) + 11, 0x80}, /* a length of 2 GiB */
        {sizeof(struct vmevent_header) + 8, 0xff},  /* a length that covers the next entries */
    };
    for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
        memcpy(bad, buffer, size);
        bad[lies[i].at] = lies[i].byte;
        assert_int_equal(walk(bad, size, &nr), -1);
    }
    memcpy(bad, buffer, size);
    memset(bad + sizeof(struct vmevent_header), 0xff, 8); /* an address that wraps */
    assert_int_equal(walk(bad, size, &nr), -1);
    assert_int_equal(nr, 0);
    memcpy(bad, buffer, size);
    bad[14] = 4; /* more entries than there are */
    assert_int_equal(walk(bad, size, &nr), -1);
    assert_int_equal(nr, 3);
}

static void swap(uint8_t *at, size_t size)
{
    for (size_t i = 0; i < size / 2; i++) {
        uint8_t byte = at[i];
        at[i] = at[size - 1 - i];
        at[size - 1 - i] = byte;
    }
}

static void the_other_byte_order_is_read(void **state)
{
    (void)state;
    uint8_t buffer[256];
    struct vmevent e;
    struct vmevent_entry entry;
    struct vmevent_writer w;
    /* widths of the fields of a header and of an entry, in order */
    static const uint8_t widths[] = {4, 1, 1, 1, 1, 4, 2, 2, 4, 4, 4, 4, 4,
                                     4, 8, 8, 8, 8, 8, 8, 4, 1, 1, 1, 1};
    vmevent_begin(&w, buffer, sizeof(buffer),
                  &(struct vmevent_header){.kind = VMEVENT_MEM, .user_ip = 0x1122, .pid = 5});
    assert_true(vmevent_add(
        &w,
        &(struct vmevent_entry){.address = 0x5000, .length = 3, .bytes = (const uint8_t *)"abc"}));
    size_t size = vmevent_end(&w, 0);
    uint8_t *at = buffer;
    for (size_t i = 0; i < sizeof(widths); at += widths[i++])
        swap(at, widths[i]);
    buffer[5] = VMEVENT_BIG;
    assert_int_equal(vmevent_open(buffer, size, &e, NULL), 0);
    assert_int_equal(e.head.user_ip, 0x1122);
    assert_int_equal(e.head.pid, 5);
    assert_int_equal(vmevent_next(&e, &entry, NULL), 1);
    assert_int_equal(entry.address, 0x5000);
    assert_memory_equal(entry.bytes, "abc", 3);
    assert_int_equal(vmevent_next(&e, &entry, NULL), 0);
}

/* ---- in a recording ------------------------------------------------------------------------ */

enum { SAMPLED, COPIES };

static void add_event(struct fixture *f, unsigned config, uint64_t id)
{
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
                                .config = config,
                                .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID |
                                               PERF_SAMPLE_TIME | PERF_SAMPLE_CPU,
                                .sample_id_all = 1};
    if (config == PERF_COUNT_SW_BPF_OUTPUT)
        a.sample_type |= PERF_SAMPLE_RAW;
    fixture_event(f, &a, &id, 1);
}

static void add_copy(struct fixture *f, uint32_t cpu, uint32_t tid, uint64_t time)
{
    uint8_t payload[sizeof(struct vmevent_header) + 4]; /* the ring's padding */
    struct vmevent_writer w;
    vmevent_begin(&w, payload, sizeof(payload), &(struct vmevent_header){.kind = VMEVENT_STACK});
    vmevent_end(&w, 0);
    fixture_sample(f, &(struct fixture_sample){.event = COPIES,
                                               .id = 2,
                                               .time = time,
                                               .pid = 1,
                                               .tid = tid,
                                               .cpu = cpu,
                                               .raw = payload,
                                               .raw_size = sizeof(payload)});
}

static void add_sample(struct fixture *f, uint32_t cpu, uint32_t tid, uint64_t time)
{
    fixture_sample(f,
                   &(struct fixture_sample){
                       .event = SAMPLED, .id = 1, .time = time, .pid = 1, .tid = tid, .cpu = cpu});
}

/* Reads everything: one letter per record, capitals for copies. */
static void check_order(struct fixture *f, const char *want)
{
    struct perfdata *pd;
    struct record_batch batch = {0};
    struct sample s;
    char *path = fixture_write(f, false), got[32] = "";
    uint64_t last = 0;
    assert_int_equal(perfdata_open(path, &(struct perfdata_options){0}, &pd, NULL), 0);
    assert_int_equal(perfdata_read(pd, 30, &batch, NULL), 0);
    for (size_t i = 0; i < batch.nr; i++) {
        assert_int_equal(perfdata_sample_head(pd, &batch.records[i], &s, NULL), 0);
        got[i] = (char)((batch.records[i].event == COPIES ? 'A' : 'a') + (char)s.tid - 1);
        assert_true(batch.records[i].time >= last);
        last = batch.records[i].time;
    }
    assert_string_equal(got, want);
    assert_int_equal(perfdata_loss(pd)->records_late, 0);
    perfdata_release(pd, &batch);
    record_batch_free(&batch);
    perfdata_close(pd);
    unlink(path);
    free(path);
    fixture_free(f);
}

/* New kernels stamp a copy later than its sample, and samples of other CPUs are in between. */
static void copies_come_before_their_samples(void **state)
{
    (void)state;
    struct fixture *f = fixture_create(false);
    add_event(f, PERF_COUNT_SW_CPU_CLOCK, 1);
    add_event(f, PERF_COUNT_SW_BPF_OUTPUT, 2);
    add_copy(f, 0, 1, 102);
    add_sample(f, 0, 1, 100);
    add_copy(f, 0, 2, 202);
    fixture_round(f); /* the ring was read between the copy and its sample */
    add_copy(f, 1, 3, 103);
    add_sample(f, 1, 3, 101);
    fixture_round(f);
    add_sample(f, 0, 2, 200);
    add_copy(f, 0, 4, 302); /* its sample was lost; the next is another thread's */
    add_sample(f, 0, 5, 400);
    add_copy(f, 0, 6, 500); /* at the end, without a sample */
    check_order(f, "AaCcBbDeF");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(full_is_said),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(the_other_byte_order_is_read),
        cmocka_unit_test(copies_come_before_their_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
