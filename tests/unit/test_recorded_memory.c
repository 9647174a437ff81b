/* SPDX-License-Identifier: GPL-2.0-only */
/* The memory in a recording: copies that came with samples, and the log's versions over time. */
#include "memory_fixture.h"
#include "perfdata_fixture.h"
#include "replay/replay.h"
#include "session/recorded_memory.h"
#include "session/walk_input.h"

#include <asm/perf_regs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- copies -------------------------------------------------------------------------------- */

static size_t write_copy(uint8_t *buffer, size_t cap, uint32_t tid, uint64_t ip, uint64_t sp)
{
    struct vmevent_writer w;
    vmevent_begin(
        &w, buffer, cap,
        &(struct vmevent_header){.kind = VMEVENT_STACK, .tid = tid, .user_ip = ip, .user_sp = sp});
    assert_true(vmevent_add(&w, &(struct vmevent_entry){.address = 0x1008,
                                                        .length = 8,
                                                        .bytes = (const uint8_t *)"89abcdef"}));
    assert_true(vmevent_add(&w, &(struct vmevent_entry){.address = 0x1000,
                                                        .length = 8,
                                                        .bytes = (const uint8_t *)"01234567"}));
    assert_true(vmevent_add(
        &w, &(struct vmevent_entry){.address = 0x2000, .length = 8, .flags = VMENTRY_FAILED}));
    return vmevent_end(&w, 0);
}

static bool read_layer(struct memory_layer layer, uint64_t address, size_t size, uint64_t time,
                       char *to, enum provenance *provenance)
{
    memset(to, 0, 16);
    return layer_read(&layer, address, to, size, time, provenance);
}

static void a_copy_is_read_across_its_entries(void **state)
{
    (void)state;
    uint8_t payload[256];
    char got[16];
    enum provenance p;
    struct vmstack copy;
    size_t size = write_copy(payload, sizeof(payload), 5, 0x10, 0x20);
    assert_true(vmstack_open(&copy, payload, size, 5, 0x10, 0x20));
    struct memory_layer layer = vmstack_layer(&copy);
    assert_true(read_layer(layer, 0x1006, 4, 0, got, &p));
    assert_string_equal(got, "6789");
    assert_int_equal(p, PROVENANCE_EXACT);
    assert_false(read_layer(layer, 0x100e, 4, 0, got, &p)); /* beyond the end */
    assert_false(read_layer(layer, 0xfff, 4, 0, got, &p));
    assert_false(read_layer(layer, 0x2000, 4, 0, got, &p)); /* the recorder could not read it */
    assert_true(layer.has(layer.context, 0x1006, 1));
    assert_true(layer.has(layer.context, 0xff0, 0x11));
    assert_false(layer.has(layer.context, 0xff0, 0x10));
    assert_false(layer.has(layer.context, 0x1010, 0x1000));
}

static void a_copy_of_another_moment_is_not_used(void **state)
{
    (void)state;
    uint8_t payload[256];
    struct vmstack copy;
    size_t size = write_copy(payload, sizeof(payload), 5, 0x10, 0x20);
    assert_false(vmstack_open(&copy, payload, size, 6, 0x10, 0x20));
    assert_false(vmstack_open(&copy, payload, size, 5, 0x11, 0x20));
    assert_false(vmstack_open(&copy, payload, size, 5, 0x10, 0x28));
    assert_false(vmstack_open(&copy, payload, size - 1, 5, 0x10, 0x20));
}

/* ---- the log ------------------------------------------------------------------------------- */

static void add_kind(struct memory_log *log, uint32_t pid, uint64_t address, const char *text,
                     uint64_t before, uint64_t after, uint8_t kind)
{
    uint8_t buffer[512];
    struct vmevent_writer w;
    struct vmevent e;
    bool mark = text[0] == '=';
    vmevent_begin(&w, buffer, sizeof(buffer),
                  &(struct vmevent_header){.kind = VMEVENT_MEM, .pid = pid});
    assert_true(vmevent_add(
        &w, &(struct vmevent_entry){.address = address,
                                    .length = (uint32_t)strlen(text),
                                    .kind = kind,
                                    .flags = VMENTRY_TIMED | (mark ? VMENTRY_UNCHANGED : 0),
                                    .before = before,
                                    .after = after,
                                    .bytes = (const uint8_t *)text}));
    assert_int_equal(vmevent_open(buffer, vmevent_end(&w, 0), &e, NULL), 0);
    assert_int_equal(memory_log_add(log, &e, NULL), 0);
}

static void add(struct memory_log *log, uint32_t pid, uint64_t address, const char *text,
                uint64_t before, uint64_t after)
{
    add_kind(log, pid, address, text, before, after, VMENTRY_BYTES);
}

static struct memory_log *begin(void)
{
    struct memory_log *log;
    assert_int_equal(memory_log_create(&log, NULL), 0);
    return log;
}

static void check(const struct memory_log *log, uint32_t pid, uint64_t address, uint64_t time,
                  const char *want, enum provenance how)
{
    struct memory_log_recent *recent = calloc(MEMORY_LOG_RECENT, sizeof(*recent));
    const struct memory_log_view view = {.log = log, .pid = pid, .recent = recent};
    char got[16];
    enum provenance p;
    size_t size = strlen(want);
    for (int i = 0; i < 2; i++) { /* found anew, then found again */
        assert_true(read_layer(memory_log_layer(&view), address, size, time, got, &p));
        assert_string_equal(got, want);
        assert_int_equal(p, how);
    }
    free(recent);
}

static void check_none(const struct memory_log *log, uint32_t pid, uint64_t address, uint64_t time)
{
    const struct memory_log_view view = {.log = log, .pid = pid};
    char got[16];
    enum provenance p;
    assert_false(read_layer(memory_log_layer(&view), address, 1, time, got, &p));
}

/* A read gives the same whether or not earlier reads noted where they found their bytes, and
 * whether or not the bytes are copied. */
static void check_recent(const struct memory_log_view *recent, uint64_t address, uint64_t time,
                         bool there)
{
    const struct memory_log_view view = {.log = recent->log, .pid = recent->pid};
    const struct memory_layer layers[] = {memory_log_layer(&view), memory_log_layer(recent)};
    char got[2][16];
    enum provenance how[2];
    for (size_t size = 1; size <= 2; size++) {
        bool found[2];
        for (int i = 0; i < 2; i++)
            found[i] = read_layer(layers[i], address, size, time, got[i], &how[i]);
        assert_true(found[0] == found[1] && (size > 1 || found[0] == there));
        if (found[0])
            assert_memory_equal(got[0], got[1], size);
        if (found[0])
            assert_int_equal(how[0], how[1]);
        for (int i = 0; i < 2; i++) {
            const struct memory_query q = {.address = address, .size = size, .time = time};
            struct memory_answer peeked;
            memory_answer_begin(&peeked, &q);
            const uint8_t *bytes = layers[i].peek(layers[i].context, &q, &peeked);
            assert_true(!bytes || found[0]);
            assert_true(bytes || size > 1 || !there);
            if (bytes)
                assert_memory_equal(bytes, got[0], size);
            if (bytes)
                assert_int_equal(peeked.provenance, how[0]);
        }
    }
}

/* Compares the first of `size` bytes with the wanted byte. The others do not matter. */
static enum memory_likeness first_likeness(const void *context, uint64_t address,
                                           const uint8_t *bytes, size_t size,
                                           const struct memory_span *when)
{
    (void)address;
    (void)size;
    (void)when;
    return *bytes == *(const uint8_t *)context ? MEMORY_SAME : MEMORY_ANOTHER;
}

static void check_proof(const struct memory_log *log, uint64_t address, uint64_t time, char first,
                        bool another)
{
    const struct memory_log_view view = {.log = log, .pid = 1};
    const struct memory_layer layer = memory_log_layer(&view);
    const struct memory_compare compare = {first_likeness, &first};
    struct memory_proof p;
    assert_true(layer.prove(layer.context, address, 2, time, &compare, &p));
    assert_int_equal(p.provenance, another ? PROVENANCE_STALE : PROVENANCE_EXACT);
    assert_int_equal(p.another, another);
}

static void equal_readings_prove_nothing_where_another_stood_shortly_before_or_after(void **state)
{
    (void)state;
    const uint64_t second = 1000000000;
    struct memory_log *log = begin();
    struct memory_proof p;
    char first = 'f';
    add(log, 1, 0x1000, "first", 100, 110);
    add(log, 1, 0x1000, "=====", 200, 210);
    /* the first byte is the same, the second is not */
    add(log, 1, 0x1000, "f2rst", 300, 310);
    add(log, 1, 0x1000, "=====", 400, 410);
    add(log, 1, 0x1000, "other", 3 * second, 3 * second + 10);
    add(log, 1, 0x1000, "=====", 9 * second, 9 * second + 10);
    assert_int_equal(memory_log_seal(log, NULL), 0);
    check_proof(log, 0x1000, 150, 'f', false);
    check_proof(log, 0x1000, 250, 'f', false);             /* the changed bytes do not matter */
    check_proof(log, 0x1001, 150, 'i', true);              /* something else was here soon after */
    check_proof(log, 0x1001, 350, '2', true);              /* and shortly before */
    check_proof(log, 0x1000, second, 'o', true);           /* it changed in between */
    check_proof(log, 0x1000, 3 * second + 20, 'o', false); /* the other bytes are long gone */
    const struct memory_log_view view = {.log = log, .pid = 1}, none = {.log = log, .pid = 2};
    const struct memory_compare compare = {first_likeness, &first};
    struct memory_layer layer = memory_log_layer(&view);
    /* not all bytes are known */
    assert_false(layer.prove(layer.context, 0x1004, 2, 150, &compare, &p));
    layer = memory_log_layer(&none);
    assert_false(layer.prove(layer.context, 0x1000, 2, 150, &compare, &p));
    memory_log_free(log);
}

/* Expects pieces of "<long object>" only, whatever else the log has. */
static enum memory_likeness own_likeness(const void *context, uint64_t address,
                                         const uint8_t *bytes, size_t size,
                                         const struct memory_span *when)
{
    static const char all[] = "<long object>";
    (void)context, (void)when;
    assert_in_range(address, 0x1000, 0x1000 + sizeof(all) - size);
    assert_memory_equal(bytes, all + (address - 0x1000), size);
    return MEMORY_SAME;
}

/* Objects of several lengths follow each other at an address. The log has their contents one behind
 * the other: a read beyond the end of a short one would read another's. */
static void a_short_object_is_not_read_beyond_its_end(void **state)
{
    (void)state;
    const struct memory_compare compare = {own_likeness, NULL};
    struct memory_log *log = begin();
    const struct memory_log_view view = {.log = log, .pid = 1};
    const struct memory_layer layer = memory_log_layer(&view);
    struct memory_proof p;
    add_kind(log, 1, 0x1000, "ab", 80, 90, VMENTRY_OBJECT);
    add_kind(log, 1, 0x1000, "<long object>", 100, 110, VMENTRY_OBJECT);
    add_kind(log, 1, 0x1000, "<long object>", 200, 210, VMENTRY_OBJECT);
    add_kind(log, 1, 0x1000, "cdef", 300, 310, VMENTRY_OBJECT);
    add(log, 1, 0x9000, "something else", 300, 310);
    assert_int_equal(memory_log_seal(log, NULL), 0);
    assert_true(layer.prove(layer.context, 0x1006, 4, 150, &compare, &p));
    assert_true(p.another); /* the object may have been another one */
    assert_true(layer.prove(layer.context, 0x1006, 4, 105, &compare, &p));
    memory_log_free(log);
}

/* As first_likeness, but bytes that begin with 'A' are of others, and so are bytes that were read
 * while 0x5000 held nothing but bytes that begin with 'n'. */
struct told_apart {
    const struct memory *m;
    char first;
};

static enum memory_likeness apart_likeness(const void *context, uint64_t address,
                                           const uint8_t *bytes, size_t size,
                                           const struct memory_span *when)
{
    const struct told_apart *t = context;
    const char old = 'o';
    const struct memory_compare name = {first_likeness, &old};
    if (*bytes == 'A' || memory_was_unlike(t->m, 0x5000, 2, when, &name, NULL))
        return MEMORY_APART;
    return first_likeness(&t->first, address, bytes, size, when);
}

static enum provenance prove_apart(const struct memory_log *log, uint64_t address, uint64_t time,
                                   char first, bool another)
{
    const struct memory_log_view view = {.log = log, .pid = 1};
    const struct memory_layer layer = memory_log_layer(&view);
    const struct memory m = {.layers = &layer, .nr_layers = 1, .time = time};
    const struct told_apart told = {&m, first};
    const struct memory_compare compare = {apart_likeness, &told};
    struct memory_proof p = memory_prove(&m, address, 2, &compare, PROVENANCE_GUESS);
    assert_int_equal(p.another, another);
    return p.provenance;
}

static void what_cannot_have_stood_there_is_no_other(void **state)
{
    (void)state;
    const uint64_t ms = 1000000;
    struct memory_log *log = begin();
    add(log, 1, 0x5000, "old", 10 * ms, 10 * ms + 1); /* a name */
    add(log, 1, 0x5000, "old", 29 * ms, 29 * ms + 1);
    add(log, 1, 0x5000, "new", 40 * ms, 40 * ms + 1);
    add(log, 1, 0x5000, "new", 59 * ms, 59 * ms + 1);
    add(log, 1, 0x1000, "first", 12 * ms, 12 * ms + 1); /* an object with this name */
    add(log, 1, 0x1000, "first", 28 * ms, 28 * ms + 1);
    add(log, 1, 0x1000, "other", 41 * ms, 41 * ms + 1); /* an object with the other name */
    add(log, 1, 0x1000, "other", 58 * ms, 58 * ms + 1);
    add(log, 1, 0x2000, "first", 12 * ms, 12 * ms + 1); /* changes while the name is the same */
    add(log, 1, 0x2000, "first", 24 * ms, 24 * ms + 1);
    add(log, 1, 0x2000, "other", 27 * ms, 27 * ms + 1);
    add(log, 1, 0x2000, "other", 58 * ms, 58 * ms + 1);
    add(log, 1, 0x3000, "first", 12 * ms, 12 * ms + 1); /* nothing is known of the name since */
    add(log, 1, 0x3000, "first", 28 * ms, 28 * ms + 1);
    add(log, 1, 0x3000, "other", 70 * ms, 70 * ms + 1);
    add(log, 1, 0x4000, "Apart", 12 * ms, 12 * ms + 1);
    add_kind(log, 1, 0x4000, "first", 300 * ms, 300 * ms + 1, VMENTRY_OBJECT);
    assert_int_equal(memory_log_seal(log, NULL), 0);
    assert_int_equal(prove_apart(log, 0x1000, 20 * ms, 'f', false), PROVENANCE_EXACT);
    assert_int_equal(prove_apart(log, 0x2000, 20 * ms, 'f', true), PROVENANCE_STALE);
    assert_int_equal(prove_apart(log, 0x3000, 20 * ms, 'f', true), PROVENANCE_STALE);
    /* The bytes read are not those that the sample had, though they were equal before and after. */
    assert_int_equal(prove_apart(log, 0x1000, 50 * ms, 'o', true), PROVENANCE_STALE);
    /* Bytes that were there before do not prove bytes that were read too late. */
    assert_int_equal(prove_apart(log, 0x4000, 50 * ms, 'f', false), PROVENANCE_STALE);
    assert_int_equal(prove_apart(log, 0x4000, 150 * ms, 'f', false), PROVENANCE_EXACT);
    memory_log_free(log);
}

static void it_is_told_how_far_the_only_reading_of_an_object_was(void **state)
{
    (void)state;
    const uint64_t second = 1000000000;
    const char first = 'f';
    struct memory_log *log = begin();
    const struct memory_log_view view = {.log = log, .pid = 1};
    const struct memory_layer layer = memory_log_layer(&view);
    const struct memory_compare compare = {first_likeness, &first};
    struct memory_proof p;
    add_kind(log, 1, 0x1000, "first", second, second + 10, VMENTRY_OBJECT);
    add(log, 1, 0x2000, "first", second, second + 10); /* not an object */
    assert_int_equal(memory_log_seal(log, NULL), 0);
    assert_true(layer.prove(layer.context, 0x1000, 5, second / 4, &compare, &p));
    assert_int_equal(p.provenance, PROVENANCE_STALE);
    assert_int_equal(p.far, second - second / 4);
    assert_true(layer.prove(layer.context, 0x1000, 5, second - 100, &compare, &p));
    assert_int_equal(p.provenance, PROVENANCE_EXACT); /* soon enough */
    assert_int_equal(p.far, 0);
    assert_true(layer.prove(layer.context, 0x1000, 5, 2 * second, &compare, &p));
    assert_int_equal(p.provenance, PROVENANCE_STALE); /* not read again since */
    assert_int_equal(p.far, second - 10);
    assert_true(memory_is_near(&p));
    assert_true(layer.prove(layer.context, 0x1000, 5, 4 * second, &compare, &p));
    assert_false(memory_is_near(&p));
    assert_true(layer.prove(layer.context, 0x2000, 5, second / 4, &compare, &p));
    assert_int_equal(p.far, 0);
    memory_log_free(log);
}

static void what_came_with_the_sample_is_told_from_what_did_not(void **state)
{
    (void)state;
    uint8_t payload[256], got[8];
    struct vmstack copy;
    struct memory_log *log = begin();
    const struct memory_log_view view = {.log = log, .pid = 1};
    size_t size = write_copy(payload, sizeof(payload), 5, 0x10, 0x20);
    add(log, 1, 0x3000, "first", 100, 110);
    assert_int_equal(memory_log_seal(log, NULL), 0);
    assert_true(vmstack_open(&copy, payload, size, 5, 0x10, 0x20));
    const struct memory_layer layers[] = {vmstack_layer(&copy), memory_log_layer(&view)};
    const struct memory m = {.stack = (const uint8_t *)"stack",
                             .stack_start = 0x7000,
                             .stack_size = 5,
                             .layers = layers,
                             .nr_layers = 2,
                             .time = 105};
    enum provenance p = PROVENANCE_EXACT;
    assert_true(memory_read_instant(&m, 0x1004, got, 8));
    assert_memory_equal(got, "456789ab", 8);
    assert_true(memory_read_instant(&m, 0x7001, got, 4));
    assert_memory_equal(got, "tack", 4);
    assert_true(memory_read(&m, 0x3000, got, 5, &p)); /* from the log */
    assert_false(memory_read_instant(&m, 0x3000, got, 5));
    assert_false(memory_read_instant(&m, 0x7001, got, 5));
    assert_false(memory_read_instant(&m, UINT64_MAX - 2, got, 5));
    memory_log_free(log);
}

static void what_came_in_one_piece_is_had_in_place(void **state)
{
    (void)state;
    uint8_t payload[256];
    struct vmstack copy;
    struct memory_piece piece;
    struct memory_reads reads = {.on = true};
    size_t size = write_copy(payload, sizeof(payload), 5, 0x10, 0x20);
    assert_true(vmstack_open(&copy, payload, size, 5, 0x10, 0x20));
    const struct memory_layer layers[] = {vmstack_layer(&copy)};
    struct memory m = {.stack = (const uint8_t *)"stack",
                       .stack_start = 0x1001,
                       .stack_size = 0,
                       .layers = layers,
                       .nr_layers = 1,
                       .time = 7};
    const struct memory_query q = {.address = 0x1002, .size = 4, .time = 7};
    struct memory_answer answer;
    uint8_t got[4];
    const uint8_t *at = memory_piece(&m, 0x1002, 4, &piece);
    assert_non_null(at);
    assert_memory_equal(at, "2345", 4);
    assert_int_equal(piece.start, 0x1000);
    assert_memory_equal(at - (0x1002 - piece.start), "01", 2);
    /* what came with one sample is valid for no other */
    assert_true(memory_ask(&m, &q, got, &answer));
    assert_true(answer.same.from == 7 && answer.same.to == 7);
    assert_ptr_equal(answer.layer, &layers[0]);
    assert_null(memory_piece(&m, 0x1006, 4, NULL)); /* in two pieces */
    assert_null(memory_piece(&m, 0x100e, 4, NULL)); /* beyond the end */
    assert_null(memory_piece(&m, 0x2000, 4, NULL));
    m.stack_size = 5; /* the native stack is asked first */
    assert_null(memory_piece(&m, 0x1002, 4, NULL));
    m.stack_size = 0;
    m.reads = &reads; /* reads are noted */
    assert_null(memory_piece(&m, 0x1002, 4, NULL));
}

static void what_was_read_equal_before_and_after_is_exact(void **state)
{
    (void)state;
    struct memory_log *log = begin();
    add(log, 1, 0x1000, "first", 100, 110);
    add(log, 1, 0x1000, "=====", 200, 210); /* unchanged */
    add(log, 1, 0x1000, "other", 300, 310);
    add(log, 1, 0x1000, "other", 400, 410); /* the same bytes, written whole */
    assert_int_equal(memory_log_seal(log, NULL), 0);
    check(log, 1, 0x1000, 50, "first", PROVENANCE_STALE);  /* read only after that time */
    check(log, 1, 0x1000, 105, "first", PROVENANCE_STALE); /* while it was being read */
    check(log, 1, 0x1000, 110, "first", PROVENANCE_EXACT);
    check(log, 1, 0x1000, 200, "first", PROVENANCE_EXACT);
    check(log, 1, 0x1000, 250, "other", PROVENANCE_STALE); /* it changed at about this time */
    check(log, 1, 0x1000, 350, "other", PROVENANCE_EXACT);
    check(log, 1, 0x1000, 500, "other", PROVENANCE_GUESS); /* never read again */
    check(log, 1, 0x1002, 150, "rst", PROVENANCE_EXACT);
    check_none(log, 1, 0x1005, 150);
    check_none(log, 1, 0xfff, 150);
    check_none(log, 2, 0x1000, 150);
    assert_int_equal(memory_log_stats(log).versions, 2);
    memory_log_free(log);
}

/* The times for which a read is valid: as long as its bytes are known to be equal, or as long as no
 * other read counts. */
static void span_of_readings(void **state)
{
    (void)state;
    struct memory_log *log = begin();
    add(log, 1, 0x1000, "first", 100, 110);
    add(log, 1, 0x1000, "=====", 400, 410);
    add(log, 1, 0x2000, "second", 200, 210);
    add(log, 1, 0x2000, "======", 300, 310);
    assert_int_equal(memory_log_seal(log, NULL), 0);
    const struct memory_log_view view = {.log = log, .pid = 1};
    const struct memory_layer layers[] = {memory_log_layer(&view)};
    const struct memory m = {.layers = layers, .nr_layers = 1};
    const struct memory_query first = {.address = 0x1000, .size = 5, .time = 250};
    struct memory_query second = {.address = 0x2000, .size = 6, .time = 250};
    struct memory_answer a;
    char got[8];
    assert_true(memory_ask(&m, &first, got, &a));
    assert_true(a.same.from == 110 && a.same.to == 400);
    assert_true(a.read.from == 100 && a.read.to == 410);
    assert_true(memory_ask(&m, &second, got, &a));
    assert_true(a.same.from == 210 && a.same.to == 300);
    second.time = 350;
    assert_true(memory_ask(&m, &second, got, &a));              /* read only before that time */
    assert_true(a.same.from == 310 && a.same.to == UINT64_MAX); /* and this is so from then on */
    assert_true(a.read.from == 200 && a.read.to == 310);
    memory_log_free(log);
}

/* ---- spans --------------------------------------------------------------------------------- */

enum question { PROVE, UNLIKE, READ, READ_OBJECTS, READ_SETTLED, QUESTIONS };
enum { MS = 1000000 };

/* A log's answers for one time. */
struct answers {
    struct memory_proof proof;
    bool yes;
    uint64_t seen; /* what memory_was_unlike() showed, and whether it was read by then */
    enum provenance provenance;
    char read[8];
    bool by_one_reading;
};

struct seeing {
    uint64_t time, seen;
};

static enum memory_likeness see(const void *context, uint64_t address, const uint8_t *bytes,
                                size_t size, const struct memory_span *when)
{
    struct seeing *s = *(struct seeing *const *)context;
    (void)address, (void)size;
    s->seen = s->seen * 31 + (uint64_t)*bytes * 2 + (when->from <= s->time);
    return MEMORY_ANOTHER;
}

static struct answers ask_bytes(const struct memory_log *log, enum question what, uint64_t address,
                                size_t size, uint64_t time, struct memory_span *span)
{
    const struct memory_query q = {.address = address,
                                   .size = size,
                                   .time = time,
                                   .kind = what == READ ? MEMORY_DATA : MEMORY_OBJECT,
                                   .alive = what == READ_SETTLED};
    struct answers a = {0};
    struct memory_answer answer;
    const struct memory_log_view view = {.log = log, .pid = 1};
    const struct memory_layer layer = memory_log_layer(&view);
    const struct memory m = {.layers = &layer, .nr_layers = 1};
    a.yes = memory_ask(&m, &q, a.read, &answer);
    if (!a.yes) {
        memset(a.read, 0, sizeof(a.read));
        *span = (struct memory_span){0, UINT64_MAX};
        return a;
    }
    a.provenance = answer.provenance;
    a.by_one_reading = answer.by_one_reading;
    *span = answer.same;
    return a;
}

static struct answers ask(const struct memory_log *log, enum question what, uint64_t address,
                          size_t size, uint64_t time, struct memory_span *span)
{
    const uint64_t around = 500 * MS;
    struct memory_span whole, *to = span ? span : &whole;
    const struct memory_span when = {time - around, time + around};
    const struct memory_log_view view = {.log = log, .pid = 1};
    const struct memory_layer layer = memory_log_layer(&view);
    const struct memory m = {.layers = &layer, .nr_layers = 1, .time = time};
    struct seeing seeing = {.time = time}, *context = &seeing;
    const struct memory_compare all = {see, &context}, first = {first_likeness, "a"};
    struct answers a = {0};
    if (what >= READ)
        return ask_bytes(log, what, address, size, time, to);
    *to = (struct memory_span){0, UINT64_MAX};
    a.proof.same = *to;
    if (what == PROVE)
        a.yes = layer.prove(layer.context, address, size, time, &first, &a.proof);
    else
        a.yes = memory_was_unlike(&m, address, size, &when, &all, to);
    if (what == PROVE)
        *to = a.proof.same;
    a.seen = seeing.seen;
    return a;
}

static bool is_equal(const struct answers *a, const struct answers *b)
{
    return a->yes == b->yes && a->seen == b->seen && a->proof.provenance == b->proof.provenance &&
           a->proof.another == b->proof.another && a->proof.far == b->proof.far &&
           (!a->yes || a->provenance == b->provenance) && a->by_one_reading == b->by_one_reading &&
           !memcmp(a->read, b->read, sizeof(a->read));
}

/* A log of a few random reads of few bytes. */
static struct memory_log *random_log(unsigned *seed)
{
    static const char *const texts[] = {"aaaaaa", "bbbbbb", "aaabbb", "aaaaaaaa", "aabb", "bb"};
    struct memory_log *log = begin();
    unsigned nr = 1 + (unsigned)rand_r(seed) % 6;
    for (unsigned i = 0; i < nr; i++) {
        const char *text = texts[(unsigned)rand_r(seed) % 6];
        uint64_t address = 0x1000 + (uint64_t)(rand_r(seed) % 2) * 2;
        uint64_t time = MS * (1000 + (uint64_t)(rand_r(seed) % 4000));
        uint8_t kind = rand_r(seed) % 2 ? VMENTRY_OBJECT : VMENTRY_BYTES;
        add_kind(log, 1, address, text, time, time + 3, kind);
        if (rand_r(seed) % 4)
            add_kind(log, 1, address, text, time + 2000 * MS, time + 2000 * MS + 3, kind);
    }
    assert_int_equal(memory_log_seal(log, NULL), 0);
    return log;
}

/* A log of reads of eight bytes that change now and then, and never change back. */
static struct memory_log *truthful_log(unsigned *seed)
{
    struct memory_log *log = begin();
    uint64_t changed[4];
    unsigned nr = 1 + (unsigned)rand_r(seed) % (rand_r(seed) % 64 ? 12 : 400);
    uint64_t scale = rand_r(seed) % 2 ? 4000 : 100;
    for (unsigned i = 0; i < 4; i++)
        changed[i] = MS * (1000 + (uint64_t)rand_r(seed) % scale) - 1;
    for (unsigned i = 0; i < nr; i++) {
        uint64_t time = MS * (1000 + (uint64_t)rand_r(seed) % scale);
        unsigned from = (unsigned)rand_r(seed) % 3, size = 1 + (unsigned)rand_r(seed) % (8 - from);
        char text[9] = "aaaaaaaa";
        for (unsigned c = 0; c < 4; c++)
            for (unsigned k = 0; k < 8; k++)
                text[k] = (char)(text[k] + (changed[c] < time));
        text[size] = 0;
        add_kind(log, 1, 0x1000 + from, text, time, time + 3,
                 rand_r(seed) % 2 ? VMENTRY_OBJECT : VMENTRY_BYTES);
    }
    assert_int_equal(memory_log_seal(log, NULL), 0);
    return log;
}

/* Everything proven and shown is the same at each time of the span that was returned with it. */
static void a_span_holds_for_all_answers(void **state)
{
    unsigned seed = 1, spans[QUESTIONS] = {0};
    (void)state;
    for (unsigned i = 0; i < 6000; i++) {
        const bool reads = i % 2;
        struct memory_log *log = reads ? truthful_log(&seed) : random_log(&seed);
        for (unsigned k = 0; k < 8; k++) {
            uint64_t address = 0x1000 + (uint64_t)(rand_r(&seed) % 4);
            uint64_t time = MS * (1000 + (uint64_t)(rand_r(&seed) % (k % 2 ? 6000 : 60)));
            size_t size = 1 + (size_t)rand_r(&seed) % 5;
            const enum question what =
                (enum question)(reads ? READ + rand_r(&seed) % 3 : PROVE + rand_r(&seed) % 2);
            struct memory_span span;
            const struct answers then = ask(log, what, address, size, time, &span);
            if (span.from > span.to)
                continue;
            assert_true(span.from <= time && time <= span.to);
            spans[what]++;
            for (unsigned n = 0; n < 8; n++) {
                uint64_t from = span.from > 600 * MS ? span.from : 600 * MS;
                uint64_t to = span.to < UINT64_C(9000) * MS ? span.to : UINT64_C(9000) * MS;
                uint64_t at = from + (uint64_t)rand_r(&seed) % (to - from + 1);
                at = n == 0 ? from : n == 1 ? to : at;
                const struct answers now = ask(log, what, address, size, at, NULL);
                assert_true(is_equal(&now, &then));
            }
        }
        memory_log_free(log);
    }
    assert_true(spans[PROVE] > 100 && spans[UNLIKE] > 500);
    assert_true(spans[READ] > 500 && spans[READ_OBJECTS] > 500 && spans[READ_SETTLED] > 500);
}

/* Bytes that were equal at two far moments were different in between, as readings of another range
 * show: of two readings around a moment the closer ones count, whatever was read before. */
static void what_changed_and_changed_back_is_what_the_closer_readings_say(void **state)
{
    (void)state;
    static const struct {
        uint64_t time;
        const char *want;
    } cases[] = {{300, "aaaa"}, {500, "bbbb"}, {700, "aaaa"}};
    struct memory_log_recent *recent = calloc(MEMORY_LOG_RECENT, sizeof(*recent));
    struct memory_log *log = begin();
    add(log, 1, 0x1000, "aaaaaaaa", 100, 101);
    add(log, 1, 0x1000, "========", 900, 901);
    add(log, 1, 0x1000, "bbbb", 400, 401);
    add(log, 1, 0x1000, "====", 600, 601);
    assert_int_equal(memory_log_seal(log, NULL), 0);
    const struct memory_log_view view = {.log = log, .pid = 1, .recent = recent};
    for (unsigned i = 0; i < 9; i++) { /* each case after each other one */
        const unsigned n = (i * 2 + i / 3) % 3;
        char got[16];
        enum provenance p;
        assert_true(read_layer(memory_log_layer(&view), 0x1000, 4, cases[n].time, got, &p));
        assert_string_equal(got, cases[n].want);
    }
    memory_log_free(log);
    free(recent);
}

/* Equal bytes prove each other, whatever ranges they were written in. */
static void other_lengths(void **state)
{
    (void)state;
    struct memory_log *log = begin();
    add(log, 1, 0x1000, "abcdefgh", 100, 110);
    add(log, 1, 0x1004, "efgh", 200, 210);
    add(log, 1, 0x1000, "abcX", 220, 230);
    add(log, 1, 0x1008, "ij", 240, 250);
    assert_int_equal(memory_log_seal(log, NULL), 0);
    check(log, 1, 0x1004, 150, "efgh", PROVENANCE_EXACT);
    check(log, 1, 0x1000, 150, "abcX", PROVENANCE_STALE);
    check(log, 1, 0x1006, 220, "ghij", PROVENANCE_GUESS); /* two pieces: the weaker counts */
    memory_log_free(log);
}

/* Plain memory that changed: the next read counts, unless it is much further away than the last
 * read before. */
static void of_late_readings_the_nearer_counts(void **state)
{
    (void)state;
    struct memory_log *log = begin();
    add(log, 1, 0x1000, "abcdefgh", 100 * MS, 100 * MS + 10);
    add(log, 1, 0x1000, "abcdEFGH", 150 * MS, 150 * MS + 10);
    assert_int_equal(memory_log_seal(log, NULL), 0);
    check(log, 1, 0x1004, 101 * MS, "efgh", PROVENANCE_GUESS);
    check(log, 1, 0x1004, 124 * MS, "efgh", PROVENANCE_GUESS);
    check(log, 1, 0x1004, 126 * MS, "EFGH", PROVENANCE_STALE);
    check(log, 1, 0x1004, 145 * MS, "EFGH", PROVENANCE_STALE);
    check(log, 1, 0x1000, 101 * MS, "abcd", PROVENANCE_EXACT); /* the same in both reads */
    memory_log_free(log);
}

static void marks_without_a_range_say_nothing(void **state)
{
    (void)state;
    struct memory_log *log = begin();
    add(log, 1, 0x1000, "=====", 100, 110);
    add(log, 1, 0x2000, "xyz", 200, 100); /* time runs backward */
    assert_int_equal(memory_log_seal(log, NULL), 0);
    check_none(log, 1, 0x1000, 105);
    check_none(log, 1, 0x2000, 105);
    assert_int_equal(memory_log_stats(log).orphans, 1);
    assert_int_equal(memory_log_stats(log).bad, 1);
    memory_log_free(log);
}

static void processes_begin_and_end(void **state)
{
    (void)state;
    struct memory_log *log = begin();
    add(log, 1, 0x1000, "parent", 100, 110);
    add(log, 1, 0x1000, "======", 290, 300);
    assert_int_equal(memory_log_fork(log, 1, 2, 200, NULL), 0);
    add(log, 2, 0x3000, "own", 210, 220);
    assert_int_equal(memory_log_exec(log, 1, 400, NULL), 0);
    add(log, 1, 0x2000, "new", 410, 420);
    assert_int_equal(memory_log_seal(log, NULL), 0);
    check(log, 2, 0x1000, 250, "parent", PROVENANCE_STALE); /* inherited from the parent */
    check(log, 2, 0x3000, 250, "own", PROVENANCE_GUESS);
    check_none(log, 1, 0x3000, 250);
    check(log, 1, 0x1000, 250, "parent", PROVENANCE_EXACT);
    check_none(log, 1, 0x1000, 405); /* another program runs since the exec */
    check(log, 1, 0x2000, 405, "new", PROVENANCE_STALE);
    check_none(log, 1, 0x2000, 250);
    memory_log_free(log);
}

static void check_version(const struct memory_log *log, uint32_t pid, uint64_t time, bool later,
                          uint64_t want)
{
    const struct memory_log_view view = {.log = log, .pid = pid};
    const struct memory_layer layer = memory_log_layer(&view);
    const struct memory m = {.layers = &layer, .nr_layers = 1};
    uint64_t got = 0;
    assert_int_equal(memory_version(&m, 0x1002, time, later, &got), want != 0);
    assert_int_equal(got, want);
}

static void moments_at_which_something_else_stood_there_are_told(void **state)
{
    (void)state;
    struct memory_log *log = begin();
    add(log, 1, 0x1000, "aaaa", 100, 110);
    add(log, 1, 0x1000, "====", 150, 160);
    add(log, 1, 0x1002, "bbbb", 200, 210);
    assert_int_equal(memory_log_fork(log, 1, 2, 250, NULL), 0);
    add(log, 1, 0x1000, "cccc", 300, 310);
    add(log, 1, 0x1004, "beside", 400, 410);
    add(log, 2, 0x1000, "dddd", 350, 360);
    assert_int_equal(memory_log_seal(log, NULL), 0);
    check_version(log, 1, 280, false, 200);
    check_version(log, 1, 200, false, 150);
    check_version(log, 1, 150, false, 0);
    check_version(log, 1, 120, true, 200);
    check_version(log, 1, 280, true, 300);
    check_version(log, 1, 300, true, 0);
    check_version(log, 2, 260, true, 350);
    check_version(log, 2, 260, false, 200); /* of its parent, up to the fork */
    memory_log_free(log);
}

/* An object, which does not change while it lives, needs one read, soon. */
static void objects(void **state)
{
    (void)state;
    const uint64_t second = 1000000000;
    struct memory_log *log = begin();
    add_kind(log, 1, 0x1000, "proto", 10 * second, 10 * second + 1, VMENTRY_OBJECT);
    add_kind(log, 1, 0x1000, "PROTO", 11 * second, 11 * second + 1, VMENTRY_OBJECT);
    assert_int_equal(memory_log_seal(log, NULL), 0);
    check(log, 1, 0x1000, 10 * second - second / 10, "proto", PROVENANCE_EXACT);
    check(log, 1, 0x1000, 9 * second, "proto", PROVENANCE_STALE);
    check(log, 1, 0x1000, 11 * second - second / 2, "PROTO", PROVENANCE_STALE);
    check(log, 1, 0x1000, 12 * second, "PROTO", PROVENANCE_STALE);
    memory_log_free(log);
}

enum side { NEAREST, ALIVE, BEFORE, AFTER };

static void check_side(const struct memory_log *log, uint64_t address, uint64_t ms, enum side side,
                       const char *want, enum provenance how)
{
    const struct memory_log_view view = {.log = log, .pid = 1};
    const struct memory_layer layer = memory_log_layer(&view);
    const struct memory m = {.layers = &layer, .nr_layers = 1};
    const struct memory_query q = {.address = address,
                                   .size = want ? strlen(want) : 3,
                                   .time = ms * 1000000,
                                   .kind = MEMORY_OBJECT,
                                   .moment = side == BEFORE  ? MEMORY_BEFORE
                                             : side == AFTER ? MEMORY_AFTER
                                                             : MEMORY_NEAREST,
                                   .alive = side == ALIVE};
    struct memory_answer a;
    char got[16] = {0};
    assert_int_equal(memory_ask(&m, &q, got, &a), want != NULL);
    if (!want)
        return;
    assert_string_equal(got, want);
    assert_int_equal(a.provenance, how);
}

/* Memory that was written in between: an object that the sample itself names needs a near read; and
 * the reads before and after can be asked for separately. */
static void a_side_of_the_moment(void **state)
{
    (void)state;
    const uint64_t ms = 1000000;
    struct memory_log *log = begin();
    add(log, 1, 0x1000, "old", 10 * ms, 11 * ms);
    add(log, 1, 0x1000, "new", 100 * ms, 101 * ms);
    add(log, 1, 0x1000, "===", 200 * ms, 201 * ms);
    add(log, 1, 0x2000, "one", 100 * ms, 101 * ms);
    assert_int_equal(memory_log_seal(log, NULL), 0);
    check_side(log, 0x1000, 95, NEAREST, "new", PROVENANCE_STALE);
    check_side(log, 0x1000, 95, ALIVE, "new", PROVENANCE_EXACT);
    check_side(log, 0x1000, 20, ALIVE, "old", PROVENANCE_EXACT);
    check_side(log, 0x1000, 50, ALIVE, "old", PROVENANCE_STALE); /* 39 ms before */
    check_side(log, 0x1000, 70, ALIVE, "new", PROVENANCE_STALE); /* 30 ms after */
    check_side(log, 0x1000, 70, BEFORE, "old", PROVENANCE_EXACT);
    check_side(log, 0x1000, 70, AFTER, "new", PROVENANCE_EXACT);
    check_side(log, 0x1000, 150, BEFORE, "new", PROVENANCE_EXACT);  /* equal all around */
    check_side(log, 0x1000, 1202, BEFORE, "new", PROVENANCE_STALE); /* long before */
    check_side(log, 0x1000, 1202, AFTER, NULL, PROVENANCE_EXACT);
    check_side(log, 0x2000, 95, BEFORE, NULL, PROVENANCE_EXACT);
    check_side(log, 0x2000, 95, AFTER, "one", PROVENANCE_EXACT);
    memory_log_set_order(log, MEMORY_LOG_BESIDE);
    check_side(log, 0x1000, 70, BEFORE, "old", PROVENANCE_STALE);
    memory_log_free(log);
}

/* Compared with a plain model: random reads of a changing memory, and queries for every time. */
static void many_versions(void **state)
{
    (void)state;
    enum { TIMES = 200, CELLS = 16 };
    char model[TIMES][CELLS], now[CELLS + 1] = "aaaaaaaaaaaaaaaa";
    bool seen[TIMES][CELLS] = {0};
    struct memory_log *log = begin();
    unsigned random = 1;
    for (int t = 0; t < TIMES; t++) {
        random = random * 1103515245 + 12345;
        unsigned at = random >> 8 & 15, n = 1 + (random >> 16 & 7), cell = random >> 20 & 15;
        if (random >> 28 < 4)
            now[cell] = (char)('a' + t % 26);
        memcpy(model[t], now, CELLS);
        if (at + n > CELLS)
            n = CELLS - at;
        char text[CELLS + 1] = {0};
        memcpy(text, now + at, n);
        add(log, 1, 0x1000 + at, text, (uint64_t)t * 10, (uint64_t)t * 10 + 1);
        memset(&seen[t][at], 1, n);
    }
    assert_int_equal(memory_log_seal(log, NULL), 0);
    struct memory_log_recent *recent = calloc(MEMORY_LOG_RECENT, sizeof(*recent));
    const struct memory_log_view view = {.log = log, .pid = 1, .recent = recent};
    for (int t = 0; t < TIMES; t++) {
        for (int c = 0; c < CELLS; c++) {
            char got[16];
            enum provenance p;
            bool ever = false;
            for (int i = 0; i < TIMES; i++)
                ever |= seen[i][c];
            assert_int_equal(read_layer(memory_log_layer(&view), 0x1000 + (uint64_t)c, 1,
                                        (uint64_t)t * 10 + 5, got, &p),
                             ever);
            check_recent(&view, 0x1000 + (uint64_t)c, (uint64_t)t * 10 + 5, ever);
            /* An exact result may be wrong only where the cell changed and changed back unseen. */
            int last = t, next = t + 1;
            while (last >= 0 && !seen[last][c])
                last--;
            while (next < TIMES && !seen[next][c])
                next++;
            if (last >= 0 && next < TIMES && model[last][c] != model[next][c])
                assert_int_not_equal(p, PROVENANCE_EXACT);
            if (ever && next < TIMES && p != PROVENANCE_EXACT)
                assert_int_equal(got[0], model[next][c]);
        }
    }
    free(recent);
    memory_log_free(log);
}

/* ---- in a recording ------------------------------------------------------------------------ */

enum { SAMPLED, OWN };

/* Of perf's numbers for this machine, which a recording without a name of a machine is taken to be
 * of. */
#if defined(__aarch64__)
#define SP_AND_PC (UINT64_C(1) << PERF_REG_ARM64_SP | UINT64_C(1) << PERF_REG_ARM64_PC)
#else
#define SP_AND_PC (UINT64_C(1) << PERF_REG_X86_SP | UINT64_C(1) << PERF_REG_X86_IP)
#endif

static void add_events(struct fixture *f)
{
    const uint64_t ids[2] = {1, 2};
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
                                .config = PERF_COUNT_SW_CPU_CLOCK,
                                .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP |
                                               PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
                                               PERF_SAMPLE_CPU | PERF_SAMPLE_REGS_USER |
                                               PERF_SAMPLE_STACK_USER,
                                .sample_regs_user = SP_AND_PC,
                                .sample_stack_user = 64,
                                .sample_id_all = 1};
    fixture_event(f, &a, &ids[0], 1);
    a = (struct perf_event_attr){.type = PERF_TYPE_SOFTWARE,
                                 .config = PERF_COUNT_SW_BPF_OUTPUT,
                                 .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID |
                                                PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |
                                                PERF_SAMPLE_RAW,
                                 .sample_id_all = 1};
    fixture_event(f, &a, &ids[1], 1);
}

static void add_copy(struct fixture *f, uint32_t tid, uint64_t sp, uint64_t time)
{
    uint8_t payload[256];
    size_t size = write_copy(payload, sizeof(payload), tid, 0x10, sp);
    payload[size] = payload[size + 1] = payload[size + 2] = payload[size + 3] = 0;
    fixture_sample(f, &(struct fixture_sample){.event = OWN,
                                               .id = 2,
                                               .time = time,
                                               .pid = tid,
                                               .tid = tid,
                                               .raw = payload,
                                               .raw_size = (uint32_t)size + 4});
}

static void add_sample(struct fixture *f, uint32_t tid, uint64_t sp, uint64_t time)
{
    static const uint8_t stack[64];
    const uint64_t registers[2] = {sp, 0x10};
    fixture_sample(f, &(struct fixture_sample){.event = SAMPLED,
                                               .id = 1,
                                               .ip = 0x10,
                                               .time = time,
                                               .pid = tid,
                                               .tid = tid,
                                               .user_regs = registers,
                                               .stack = stack,
                                               .stack_dyn_size = sizeof(stack)});
}

static int worker_create(void *context, struct replay_worker *w, void **ret, struct error *err)
{
    (void)w;
    (void)err;
    *ret = context;
    return 0;
}

static int count_sample(void *worker, const struct replay_sample *s, struct error *err)
{
    (void)err;
    assert_int_equal(s->sample->event->attr.config, PERF_COUNT_SW_CPU_CLOCK);
    ++*(_Atomic unsigned *)worker;
    return 0;
}

/* 600 pairs, so that batches end between a copy and its sample; then copies without a sample. */
static void pairs_are_found(void **state)
{
    (void)state;
    _Atomic unsigned seen = 0;
    struct replay *r;
    struct fixture *f = fixture_create(false);
    add_events(f);
    add_sample(f, 7, 0x100, 10); /* shifts the pairs so that they straddle batches */
    for (uint64_t i = 0; i < 600; i++) {
        add_copy(f, 7, 0x100, 1000 + 10 * i);
        add_sample(f, 7, 0x100, 1000 + 10 * i);
    }
    add_copy(f, 7, 0x100, 20000);
    add_sample(f, 7, 0x108, 20001); /* another stack pointer */
    add_copy(f, 7, 0x100, 20010);
    add_sample(f, 8, 0x100, 20011); /* another thread */
    add_copy(f, 7, 0x100, 20020);   /* no sample at all */
    char *path = fixture_write(f, false);
    const struct replay_options options = {.input = path, .threads = 2};
    const struct replay_sink sink = {
        .context = &seen, .worker_create = worker_create, .sample = count_sample};
    assert_int_equal(replay_create(&options, &r, NULL), 0);
    assert_int_equal(replay_run(r, &sink, NULL), 0);
    const struct replay_stats *st = replay_stats(r);
    assert_int_equal(seen, 603);
    assert_int_equal(st->samples, 603);
    assert_int_equal(st->copies, 603);
    assert_int_equal(st->copies_unused, 3);
    replay_free(r);
    unlink(path);
    free(path);
    fixture_free(f);
}

/* What came with the sample is asked first; a process that runs, and changes, last. */
static void the_parts_of_a_walk_are_asked_in_order(void **state)
{
    (void)state;
    static const char *const order[] = {"vmstack", "core", "memory log", "file", "live"};
    uint8_t payload[256];
    struct vmstack vmstack;
    struct walk_memory layers;
    struct memory_log *log = begin();
    size_t size = write_copy(payload, sizeof(payload), 5, 0x10, 0x20);
    assert_true(vmstack_open(&vmstack, payload, size, 5, 0x10, 0x20));
    assert_int_equal(memory_log_seal(log, NULL), 0);
    const struct thread_context thread = {.pid = 5, .tid = 5};
    const struct sample sample = {.time = 7};
    const struct memory_layer stopped = {.name = "core"}, live = {.name = "live"};
    const struct walk_parts all = {.thread = &thread,
                                   .sample = &sample,
                                   .vmstack = &vmstack,
                                   .stopped = &stopped,
                                   .log = log,
                                   .live = &live};
    struct memory m = walk_memory(&all, &layers);
    assert_int_equal(m.time, 7);
    assert_int_equal(m.nr_layers, sizeof(order) / sizeof(*order));
    for (size_t i = 0; i < m.nr_layers; i++)
        assert_string_equal(m.layers[i].name, order[i]);
    const struct walk_parts none = {.thread = &thread};
    m = walk_memory(&none, &layers);
    assert_int_equal(m.nr_layers, 1);
    assert_string_equal(m.layers[0].name, "file");
    memory_log_free(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parts_of_a_walk_are_asked_in_order),
        cmocka_unit_test(a_copy_is_read_across_its_entries),
        cmocka_unit_test(a_copy_of_another_moment_is_not_used),
        cmocka_unit_test(span_of_readings),
        cmocka_unit_test(a_span_holds_for_all_answers),
        cmocka_unit_test(what_was_read_equal_before_and_after_is_exact),
        cmocka_unit_test(equal_readings_prove_nothing_where_another_stood_shortly_before_or_after),
        cmocka_unit_test(a_short_object_is_not_read_beyond_its_end),
        cmocka_unit_test(what_cannot_have_stood_there_is_no_other),
        cmocka_unit_test(it_is_told_how_far_the_only_reading_of_an_object_was),
        cmocka_unit_test(what_came_with_the_sample_is_told_from_what_did_not),
        cmocka_unit_test(what_came_in_one_piece_is_had_in_place),
        cmocka_unit_test(what_changed_and_changed_back_is_what_the_closer_readings_say),
        cmocka_unit_test(other_lengths),
        cmocka_unit_test(of_late_readings_the_nearer_counts),
        cmocka_unit_test(marks_without_a_range_say_nothing),
        cmocka_unit_test(processes_begin_and_end),
        cmocka_unit_test(moments_at_which_something_else_stood_there_are_told),
        cmocka_unit_test(objects),
        cmocka_unit_test(a_side_of_the_moment),
        cmocka_unit_test(many_versions),
        cmocka_unit_test(pairs_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
