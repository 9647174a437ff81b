/* SPDX-License-Identifier: GPL-2.0-only */
/* A trace's parts, read at another moment than the sample: what the digest that came with the
 * sample proves, and what it disproves. */
#include "unwind/luajit/trace.h"

#include "perfdata/vmevent_layout.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
    G = 0x1000,      /* g of a VM; J->trace and J->sizetrace at 0x10 */
    ARRAY = 0x2000,  /* the VM's array of traces */
    TRACE = 0x10000, /* block of trace NUMBER, which has the following parts */
    NUMBER = 2,
    CONSTANTS = 4,
    INSTRUCTIONS = 6,
    SNAPSHOTS = 3,
    MAP = 7,
    HEAD = 0x78,
    SNAP = HEAD + 8 * (CONSTANTS + INSTRUCTIONS),
    SNAPMAP = SNAP + 12 * SNAPSHOTS,
    SIZE = SNAPMAP + 4 * MAP,
    BIAS = 0x8000,
    MCODE = 0x900000,
};

static const struct luajit_layout layout = {
    .gc64 = true,
    .ref_size = 8,
    .gct = 9,
    .trace = 0x10,
    .sizetrace = 0x1c,
    .trace_ir = 0x20,
    .trace_nins = 0xc,
    .trace_nk = 0x28,
    .trace_snap = 0x30,
    .trace_snapmap = 0x38,
    .trace_startpt = 0x40,
    .trace_startpc = 0x48,
    .trace_szmcode = 0x54,
    .trace_mcode = 0x58,
    .trace_mcloop = 0x60,
    .trace_spadjust = 0x6a,
    .trace_traceno = 0x6c,
    .trace_root = 0x70,
    .trace_size = HEAD,
};

struct target {
    uint8_t block[SIZE]; /* the block in the log */
    uint8_t head[HEAD];  /* the head that came with the sample */
    uint64_t digest;
    bool has_digest;
};

static void put(uint8_t *to, size_t at, uint64_t value, size_t size)
{
    memcpy(to + at, &value, size);
}

/* Returns the digest of a block, some of whose bytes are masked. */
static uint64_t digest_of(const uint8_t *block)
{
    uint64_t digest = VMDIGEST_BEGIN;
    for (uint32_t at = HEAD; at < SIZE; at += 4) {
        uint32_t word;
        memcpy(&word, block + at, 4);
        if (at >= SNAP && at < SNAPMAP && (at - SNAP) % 12 == 8)
            word &= VMDIGEST_MASK_12;
        digest = VMDIGEST_ADD(digest, word);
        digest = VMDIGEST_MIX(digest);
    }
    return digest;
}

static void make(struct target *t)
{
    uint8_t *b = t->block;
    memset(b, 0, SIZE);
    b[9] = LUAJIT_GCT_TRACE;
    put(b, 0xa, SNAPSHOTS, 2);
    put(b, 0xc, BIAS + INSTRUCTIONS, 4);
    put(b, 0x20, TRACE + HEAD - 8 * (BIAS - CONSTANTS), 8);
    put(b, 0x28, BIAS - CONSTANTS, 4);
    put(b, 0x2c, MAP, 4);
    put(b, 0x30, TRACE + SNAP, 8);
    put(b, 0x38, TRACE + SNAPMAP, 8);
    put(b, 0x54, 100, 4);
    put(b, 0x58, MCODE, 8);
    put(b, 0x6c, NUMBER, 2);
    for (uint32_t i = HEAD; i < SNAP; i++)
        b[i] = (uint8_t)(i * 7);
    for (uint32_t i = 0; i < SNAPSHOTS; i++)
        put(b, SNAP + 12 * i + 6, 10 * i, 2); /* where the snapshot's code begins */
    for (uint32_t i = 0; i < MAP; i++)
        put(b, SNAPMAP + 4 * i, 0x1000 + i, 4);
    memcpy(t->head, b, HEAD);
    t->digest = digest_of(b);
    t->has_digest = true;
}

static bool from(const void *bytes, uint64_t start, uint64_t length, uint64_t address, void *to,
                 size_t size)
{
    if (address < start || address - start > length || length - (address - start) < size)
        return false;
    memcpy(to, (const uint8_t *)bytes + (address - start), size);
    return true;
}

static bool read_sample(void *context, const struct memory_query *q, void *to,
                        struct memory_answer *answer)
{
    const struct target *t = context;
    const uint64_t words[4] = {0, 0, ARRAY, UINT64_C(8) << 32}, slot = TRACE;
    answer->provenance = PROVENANCE_EXACT;
    return from(words, G, sizeof(words), q->address, to, q->size) ||
           from(&slot, ARRAY + 8 * NUMBER, sizeof(slot), q->address, to, q->size) ||
           from(t->head, TRACE, HEAD, q->address, to, q->size) ||
           (t->has_digest &&
            from(&t->digest, VMENTRY_DIGEST_OF((uint64_t)TRACE), 8, q->address, to, q->size));
}

/* The log has read the trace, but something else at its place shortly before: the log alone proves
 * nothing. */
static bool read_log(void *context, const struct memory_query *q, void *to,
                     struct memory_answer *answer)
{
    const struct target *t = context;
    answer->provenance = PROVENANCE_STALE;
    return from(t->block, TRACE, SIZE, q->address, to, q->size);
}

/* Returns the provenance of the second snapshot's beginning. */
static enum provenance how(struct target *t)
{
    const struct memory_layer layers[] = {
        {.read = read_sample, .context = t, .when = MEMORY_OF_SAMPLE},
        {.read = read_log, .context = t}};
    const struct memory m = {.layers = layers, .nr_layers = 2};
    static struct luajit_reader r;
    struct luajit_trace trace;
    uint32_t begin = 0;
    luajit_reader_begin(&r, &m);
    luajit_reader_use(&r, &layout);
    assert_true(luajit_trace_read(&r, G, NUMBER, &trace));
    assert_true(luajit_snapshot_start(&r, &trace, 1, &begin));
    assert_int_equal(begin, 10);
    return r.provenance;
}

static void a_digest_proves_what_was_read_at_another_time(void **state)
{
    (void)state;
    struct target t;
    make(&t);
    assert_int_equal(how(&t), PROVENANCE_EXACT);
    t.has_digest = false;
    assert_int_equal(how(&t), PROVENANCE_STALE);
}

/* Counting exits does not make it another trace. */
static void counts_are_of_no_matter(void **state)
{
    (void)state;
    struct target t;
    make(&t);
    for (uint32_t i = 0; i < SNAPSHOTS; i++)
        t.block[SNAP + 12 * i + 11]++;
    assert_int_equal(how(&t), PROVENANCE_EXACT);
}

/* A new trace may have an equal head: a difference in any other byte of its parts is detected. */
static void another_trace_with_an_equal_head_is_told(void **state)
{
    (void)state;
    struct target t;
    for (uint32_t at = HEAD; at < SIZE; at++) {
        bool masked =
            at >= SNAP && at < SNAPMAP && ((at - SNAP) % 12 == 9 || (at - SNAP) % 12 == 11);
        bool is_read =
            at >= SNAP && at < SNAPMAP && ((at - SNAP) % 12 == 6 || (at - SNAP) % 12 == 7);
        if (masked || is_read)
            continue;
        make(&t);
        t.block[at] ^= 1;
        assert_int_equal(how(&t), PROVENANCE_STALE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_digest_proves_what_was_read_at_another_time),
        cmocka_unit_test(counts_are_of_no_matter),
        cmocka_unit_test(another_trace_with_an_equal_head_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
