/* SPDX-License-Identifier: GPL-2.0-only */
/* Heads of chunks of V8's heap, sound and damaged, and sizes of objects from their first fields. */
#include "memory_fixture.h"
#include "unwind/v8/chunk.h"
#include "unwind/v8/size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { AT = 0x40000, SPACE = AT + 0x800, HEAP_OF_V8 = 0x99000, SIZE = 0x1000 };
enum { OLD_SPACE = 2, LARGE_SPACE = 6, NEW_SPACE = 1, UNKNOWN_SPACE = 77 };

struct fixture {
    uint8_t bytes[SIZE];
    struct v8_layout layout;
    struct memory_layer layer;
    struct memory memory;
};

static bool read_fixture(void *context, const struct memory_query *q, void *to,
                         struct memory_answer *answer)
{
    const struct fixture *f = context;
    (void)answer;
    return memory_fixture_read(f->bytes, AT, SIZE, q->address, to, q->size);
}

static void put(struct fixture *f, uint64_t address, uint64_t word)
{
    memcpy(f->bytes + (address - AT), &word, sizeof(word));
}

/* A chunk of the old space as V8 11.3 writes it. */
static void begin(struct fixture *f)
{
    *f = (struct fixture){.layout = {.column = 4,
                                     .verified = true,
                                     .chunk_flags = 8,
                                     .chunk_meta = V8_UNKNOWN,
                                     .chunk_size = 0,
                                     .chunk_heap = 16,
                                     .chunk_begin = 24,
                                     .chunk_end = 32,
                                     .chunk_allocated = 40,
                                     .chunk_owner = 64,
                                     .chunk_next = 264}};
    f->layer = (struct memory_layer){.read = read_fixture, .context = f};
    f->memory = (struct memory){.layers = &f->layer, .nr_layers = 1};
    put(f, AT, V8_CHUNK);
    put(f, AT + 8, 4);
    put(f, AT + 16, HEAP_OF_V8);
    put(f, AT + 24, AT + 0x1148);
    put(f, AT + 32, AT + V8_CHUNK);
    put(f, AT + 40, 1000);
    put(f, AT + 64, SPACE);
    put(f, AT + 264, 0x123456);
    put(f, SPACE + 8, HEAP_OF_V8);
    put(f, SPACE + 16, OLD_SPACE);
}

static bool reads(struct fixture *f, struct v8_chunk *ret)
{
    return v8_chunk_read(&f->memory, &f->layout, AT, ret);
}

static void a_chunk_is_read(void **state)
{
    struct fixture f;
    struct v8_chunk c;
    (void)state;
    begin(&f);
    assert_true(reads(&f, &c));
    assert_int_equal(c.size, V8_CHUNK);
    assert_int_equal(c.begin, AT + 0x1148);
    assert_int_equal(c.heap, HEAP_OF_V8);
    assert_int_equal(c.allocated, 1000);
    assert_int_equal(c.next, 0x123456);
    assert_int_equal(c.kind, V8_SPACE_PAGED);
    assert_false(c.is_from);
    put(&f, SPACE + 16, NEW_SPACE);
    put(&f, AT + 8, 0xa);
    assert_true(reads(&f, &c));
    assert_int_equal(c.kind, V8_SPACE_NEW);
    assert_true(c.is_from);
}

static void a_large_chunk_may_count_more_than_it_has(void **state)
{
    struct fixture f;
    struct v8_chunk c;
    (void)state;
    begin(&f);
    put(&f, AT + 40, 10 * V8_CHUNK);
    assert_false(reads(&f, &c));
    put(&f, SPACE + 16, LARGE_SPACE);
    assert_true(reads(&f, &c));
    assert_int_equal(c.kind, V8_SPACE_LARGE);
}

static void damaged_heads_are_no_chunks(void **state)
{
    static const struct {
        uint64_t at, word;
    } damages[] = {
        {AT, 0},                      /* size */
        {AT, UINT64_C(1) << 50},      /* the same */
        {AT + 8, UINT64_C(1) << 40},  /* flags */
        {AT + 16, 0},                 /* read-only: of no heap */
        {AT + 24, AT - 8},            /* begins before itself */
        {AT + 24, AT + 0x8000},       /* begins too late */
        {AT + 32, AT + 0x1148},       /* is empty */
        {AT + 32, AT + V8_CHUNK + 8}, /* ends behind itself */
        {AT + 64, 0},                 /* space */
        {AT + 64, SPACE + 8},         /* another one */
        {SPACE + 8, HEAP_OF_V8 + 8},  /* the space is of another heap */
        {SPACE + 16, UNKNOWN_SPACE},  /* number of the space */
        {SPACE + 16, 0},              /* read-only */
    };
    struct fixture f;
    struct v8_chunk c;
    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(*damages); i++) {
        begin(&f);
        put(&f, damages[i].at, damages[i].word);
        assert_false(reads(&f, &c));
    }
}

static bool count(void *context, const struct v8_chunk *c)
{
    (void)c;
    return ++*(unsigned *)context < 2;
}

static void chunks_of_ranges_are_told_once(void **state)
{
    struct fixture f;
    unsigned nr = 0;
    const struct memory_range ranges[] = {{0x1000, 0x3000}, {AT - 0x100, AT + SIZE}};
    (void)state;
    begin(&f);
    assert_true(v8_chunks_each(&f.memory, &f.layout, ranges, 2, count, &nr));
    assert_int_equal(nr, 1);
    assert_false(v8_chunks_each(&f.memory, &f.layout, ranges, 2, count, &nr));
}

/* ---- sizes --------------------------------------------------------------------------------- */

enum { NONSTRING = 128, FEEDBACK = 249, ARRAY = 175, BYTES = 190, SYMBOL = 128, SEQ_ONE_BYTE = 40 };

static uint64_t size_of(struct v8_layout *l, uint16_t type, uint64_t second, size_t nr)
{
    const uint64_t words[] = {0, second, 0};
    uint8_t bytes[sizeof(words)];
    struct v8_reader r = {.layout = l};
    struct v8_types *t = v8_types_create(l);
    const struct v8_shape s = {.type = type, .is_map = true};
    assert_non_null(t);
    memcpy(bytes, words, sizeof(words));
    const uint64_t size = v8_object_size(&r, t, &s, bytes, nr);
    v8_types_free(t);
    return size;
}

static void sizes_follow_from_the_first_fields(void **state)
{
    struct v8_layout l = {.column = 4,
                          .nonstring = NONSTRING,
                          .type_feedback = FEEDBACK,
                          .type_array = ARRAY,
                          .type_bytes = BYTES,
                          .type_symbol = SYMBOL,
                          .type_proxy = 1000,
                          .type_context = 205,
                          .type_dispatch = V8_UNKNOWN,
                          .type_imports = V8_UNKNOWN,
                          .type_trusted_bytes = V8_UNKNOWN,
                          .string_length = 12,
                          .feedback_slots = 56};
    (void)state;
    l.type_weak_array = 240;
    assert_true(v8_types_known(&l));
    assert_int_equal(size_of(&l, ARRAY, UINT64_C(5) << 32, 24), 16 + 5 * 8);
    assert_int_equal(size_of(&l, ARRAY + 3, UINT64_C(5) << 32, 24), 16 + 5 * 8); /* a hash table */
    assert_int_equal(size_of(&l, 205 + 7, UINT64_C(5) << 32, 24), 24 + 5 * 8); /* native context */
    assert_int_equal(size_of(&l, SYMBOL + 1, 2 << 1 | 1, 24), 16 + 2 * 8);     /* BigInt */
    assert_int_equal(size_of(&l, SEQ_ONE_BYTE, UINT64_C(9) << 32, 24), 32);
    assert_int_equal(size_of(&l, FEEDBACK + 2, UINT64_C(64) << 32, 24), 64); /* free space */
    assert_int_equal(size_of(&l, FEEDBACK - 1, 7, 24), 24);
    assert_int_equal(size_of(&l, ARRAY, 5, 24), 0);                          /* no Smi */
    assert_int_equal(size_of(&l, ARRAY, UINT64_C(0x80000000) << 32, 24), 0); /* negative */
    assert_int_equal(size_of(&l, ARRAY, UINT64_C(5) << 32, 12), 0);          /* not there */
    assert_int_equal(size_of(&l, 900, UINT64_C(5) << 32, 24), 0);            /* not known */
    l.type_array = V8_TYPES_MAX;
    assert_false(v8_types_known(&l));
    l.type_array = ARRAY;
    l.column = 8;
    assert_int_equal(size_of(&l, FEEDBACK + 2, UINT64_C(64) << 32, 24), 64 * 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_is_read),
        cmocka_unit_test(a_large_chunk_may_count_more_than_it_has),
        cmocka_unit_test(damaged_heads_are_no_chunks),
        cmocka_unit_test(chunks_of_ranges_are_told_once),
        cmocka_unit_test(sizes_follow_from_the_first_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
