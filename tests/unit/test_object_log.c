/* SPDX-License-Identifier: GPL-2.0-only */
/* The object log over this process: what is written and when, and what a walk gets. */
#include "memory_fixture.h"
#include "live/live_memory.h"
#include "live/object_log.h"
#include "perfdata/vmevent.h"
#include "session/recorded_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* The written payloads, as a recording's reader takes them, and a clock that is set by hand. */
struct log {
    struct memory_log *log;
    uint64_t time;
    unsigned contents, marks;
    uint32_t longest;
};

static uint64_t clock_of(void *context)
{
    struct log *l = context;
    return ++l->time;
}

static int take(void *context, const void *payload, size_t size, struct error *err)
{
    struct log *l = context;
    struct vmevent e;
    struct vmevent_entry entry;
    assert_int_equal(vmevent_open(payload, size, &e, err), 0);
    while (vmevent_next(&e, &entry, err) > 0) {
        l->contents += entry.bytes != NULL;
        l->marks += entry.bytes == NULL;
        if (entry.length > l->longest)
            l->longest = entry.length;
    }
    assert_int_equal(vmevent_open(payload, size, &e, err), 0);
    return memory_log_add(l->log, &e, err);
}

static struct object_log *begin(struct log *l)
{
    struct object_log *p;
    struct process_memory *memory;
    const struct log_sink sink = {.write = take, .now = clock_of, .context = l};
    memset(l, 0, sizeof(*l));
    assert_int_equal(memory_log_create(&l->log, NULL), 0);
    assert_int_equal(process_memory_open(getpid(), &memory, NULL), 0);
    assert_int_equal(object_log_create(getpid(), memory, &sink, &p, NULL), 0);
    return p;
}

static bool read_at(struct object_log *p, const void *address, void *to, size_t size, uint64_t time)
{
    enum provenance how = PROVENANCE_EXACT;
    struct memory_layer layer = object_log_layer(p);
    bool ok = layer_read(&layer, (uint64_t)(uintptr_t)address, to, size, time, &how);
    if (ok)
        assert_int_equal(how, PROVENANCE_STALE);
    return ok;
}

static void end(struct object_log *p, struct log *l)
{
    object_log_free(p);
    memory_log_free(l->log);
}

static void memory_is_told_once(void **state)
{
    (void)state;
    struct log l;
    struct object_log *p = begin(&l);
    _Alignas(64) char cell[64] = "first";
    char got[8];
    assert_true(read_at(p, cell, got, 6, 0));
    assert_string_equal(got, "first");
    assert_true(read_at(p, cell + 10, got, 6, 0)); /* the same line */
    for (int i = 0; i < 20; i++)
        assert_int_equal(object_log_pass(p, 100, NULL), 0);
    assert_int_equal(l.contents, 1);
    assert_int_equal(l.marks, 0);
    uint64_t equal_at = l.time;
    assert_int_equal(object_log_pass(p, 100, NULL), 0);
    strcpy(cell, "other");
    /* the sample is newer than the last read */
    assert_true(read_at(p, cell, got, 6, l.time));
    assert_string_equal(got, "other");
    assert_int_equal(object_log_flush(p, NULL), 0);
    assert_int_equal(l.contents, 2);
    assert_int_equal(l.marks, 1); /* of the last read that found equal bytes */
    assert_int_equal(memory_log_seal(l.log, NULL), 0);
    const struct memory_log_view view = {.log = l.log, .pid = (uint32_t)getpid()};
    struct memory_layer layer = memory_log_layer(&view);
    enum provenance how;
    assert_true(layer_read(&layer, (uint64_t)(uintptr_t)cell, got, 6, equal_at, &how));
    assert_string_equal(got, "first");
    assert_int_equal(how, PROVENANCE_EXACT);
    end(p, &l);
}

/* A change that a pass finds in plain memory is written when a walk asks for it, with the times of
 * the pass. It is never written when nobody asks for it before the next change. */
static void what_a_pass_finds_is_told_when_it_is_asked_for(void **state)
{
    (void)state;
    struct log l;
    struct object_log *p = begin(&l);
    _Alignas(64) char cell[64] = "first";
    char got[8];
    assert_true(read_at(p, cell, got, 6, 0));
    strcpy(cell, "waste");
    assert_int_equal(object_log_pass(p, 100, NULL), 0);
    strcpy(cell, "other");
    assert_int_equal(object_log_pass(p, 100, NULL), 0);
    uint64_t equal_at = l.time;
    assert_int_equal(object_log_pass(p, 100, NULL), 0);
    assert_int_equal(object_log_flush(p, NULL), 0);
    assert_int_equal(l.contents, 1);
    assert_true(read_at(p, cell, got, 6, equal_at)); /* a sample between two passes */
    assert_string_equal(got, "other");
    assert_int_equal(object_log_flush(p, NULL), 0);
    assert_int_equal(l.contents, 2);
    assert_int_equal(l.marks, 1);
    assert_int_equal(memory_log_seal(l.log, NULL), 0);
    const struct memory_log_view view = {.log = l.log, .pid = (uint32_t)getpid()};
    struct memory_layer layer = memory_log_layer(&view);
    enum provenance how;
    assert_true(layer_read(&layer, (uint64_t)(uintptr_t)cell, got, 6, equal_at, &how));
    assert_string_equal(got, "other");
    assert_int_equal(how, PROVENANCE_EXACT);
    end(p, &l);
}

/* Bytes read in a pass that began after the sample are good for the sample. */
static void readings_are_not_older_than_the_sample(void **state)
{
    (void)state;
    struct log l;
    struct object_log *p = begin(&l);
    _Alignas(64) char cell[64] = "one";
    char got[8];
    l.time = 1000;
    assert_true(read_at(p, cell, got, 4, 500));
    uint64_t reads = object_log_stats(p).reads;
    strcpy(cell, "two");
    assert_true(read_at(p, cell, got, 4, 900));
    assert_string_equal(got, "one"); /* read after time 900: as near as possible */
    assert_int_equal(object_log_stats(p).reads, reads);
    assert_true(read_at(p, cell, got, 4, 5000));
    assert_string_equal(got, "two");
    end(p, &l);
}

static void large_ranges_come_in_pieces(void **state)
{
    (void)state;
    struct log l;
    struct object_log *p = begin(&l);
    size_t size = 200000;
    char *big = malloc(size), *got = malloc(size);
    assert_non_null(big);
    assert_non_null(got);
    memset(big, 'x', size);
    big[100000] = 'y';
    assert_true(object_log_range(p, (uint64_t)(uintptr_t)big, size, 0));
    assert_int_equal(object_log_flush(p, NULL), 0);
    assert_true(l.contents > 3);
    assert_true(l.longest <= VMEVENT_MAX);
    assert_int_equal(memory_log_seal(l.log, NULL), 0);
    const struct memory_log_view view = {.log = l.log, .pid = (uint32_t)getpid()};
    struct memory_layer layer = memory_log_layer(&view);
    enum provenance how;
    assert_true(layer_read(&layer, (uint64_t)(uintptr_t)big, got, size, 0, &how));
    assert_memory_equal(got, big, size);
    free(big);
    free(got);
    end(p, &l);
}

static const struct luajit_layout string_layout = {.gct = 9,
                                                   .ref_size = 8,
                                                   .str_len = 20,
                                                   .str_size = 24,
                                                   .proto_size = 0x68,
                                                   .proto_sizept = 0x30,
                                                   .func_ffid = 10,
                                                   .func_nupvalues = 11,
                                                   .func_upvalues = 0x28,
                                                   .func_c = 0x28,
                                                   .trace_snap = 0x30,
                                                   .trace_snapmap = 0x38,
                                                   .trace_mcode = 0x58,
                                                   .trace_szmcode = 0x54};

/* Makes a LuaJIT string: header, text, NUL. */
static void set_string(uint8_t *string, uint32_t length, char text)
{
    string[9] = 4;
    memcpy(string + 20, &length, 4);
    memset(string + 24, text, length);
    string[24 + length] = 0;
}

/* A string's header has its length: a read anywhere at its start writes the whole string. */
static void objects_are_told_whole(void **state)
{
    (void)state;
    struct log l;
    struct object_log *p = begin(&l);
    _Alignas(64) uint8_t string[24 + 301] = {0};
    uint32_t length;
    uint8_t got[301];
    set_string(string, 300, 'z');
    assert_int_equal(object_log_layout(p, &string_layout, NULL), 0);
    assert_true(read_at(p, string, got, 24, 0));
    uint64_t reads = object_log_stats(p).reads;
    assert_true(read_at(p, string + 24, got, 301, 0));
    assert_memory_equal(got, string + 24, 301);
    assert_int_equal(object_log_stats(p).reads, reads);
    /* a malformed length is not believed beyond the limit */
    length = UINT32_MAX;
    memcpy(string + 20, &length, 4);
    object_log_rewrite(p);
    assert_true(read_at(p, string, got, 24, l.time + 1));
    assert_true(object_log_stats(p).cached <= 192);
    end(p, &l);
}

/* A string is freed, and another, longer or shorter, is made in its place: each is written with its
 * own end. */
static void another_object_has_its_own_end(void **state)
{
    (void)state;
    struct log l;
    struct object_log *p = begin(&l);
    _Alignas(64) uint8_t string[24 + 400] = {0};
    uint8_t got[400];
    assert_int_equal(object_log_layout(p, &string_layout, NULL), 0);
    for (uint32_t length = 40, i = 0; i < 3; length = i == 1 ? 300 : 60, i++) {
        set_string(string, length, (char)('a' + i));
        assert_true(read_at(p, string, got, 24, l.time + 1));
        assert_int_equal(object_log_stats(p).cached, 24 + length + 1);
        assert_true(read_at(p, string + 24, got, length + 1, 0));
        assert_memory_equal(got, string + 24, length + 1);
    }
    /* bytes behind the shorter string are not part of it */
    memset(string + 24 + 100, 'x', 64);
    assert_true(read_at(p, string + 24 + 100, got, 64, l.time + 1));
    assert_memory_equal(got, string + 24 + 100, 64);
    end(p, &l);
}

static void what_is_unmapped_is_gone(void **state)
{
    (void)state;
    struct log l;
    struct object_log *p = begin(&l);
    char got[8];
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    strcpy(page, "there");
    assert_true(read_at(p, page, got, 6, 0));
    munmap(page, 4096);
    assert_int_equal(object_log_pass(p, 10, NULL), 0);
    assert_false(read_at(p, page, got, 6, l.time));
    assert_int_equal(object_log_stats(p).gone, 1);
    assert_false(read_at(p, (void *)8, got, 6, 0));
    assert_false(read_at(p, (void *)(UINTPTR_MAX - 7), got, 6, 0));
    end(p, &l);
}

/* However much memory is read, the log keeps a bounded amount. */
static void memory_is_bounded(void **state)
{
    (void)state;
    struct log l;
    struct object_log *p = begin(&l);
    size_t size = 96 << 20;
    char got[8];
    char *big = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(big != MAP_FAILED);
    for (size_t at = 0; at + 4096 <= size; at += 640) {
        assert_true(read_at(p, big + at, got, 8, 0));
        if (at % 64000 == 0)
            assert_int_equal(object_log_pass(p, 1, NULL), 0);
    }
    assert_true(object_log_stats(p).objects <= 1 << 16);
    munmap(big, size);
    end(p, &l);
}

static bool view_gives(const struct live_memory *view, const void *address)
{
    enum provenance how = PROVENANCE_EXACT;
    struct memory_layer layer = live_memory_layer(view);
    uint64_t word;
    return layer_read(&layer, (uint64_t)(uintptr_t)address, &word, sizeof(word), 0, &how);
}

/* The copy of a thread's stack reaches beyond the stack's end, where heap is: walks may read the
 * heap. */
static void heap_above_a_stack_is_read(void **state)
{
    (void)state;
    enum { STACK = 4096, HEAP = 2 << 20 };
    struct log l;
    struct object_log *p = begin(&l);
    char *stack =
        mmap(NULL, STACK + HEAP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(stack != MAP_FAILED);
    const uint64_t sp = (uint64_t)(uintptr_t)stack;
    const struct sample s = {.stack_size = STACK, .stack_dyn_size = STACK};
    struct live_memory view = live_memory_of(p, &s, sp, 100, UINT64_MAX);
    assert_true(view_gives(&view, stack + HEAP));
    assert_true(view_gives(&view, stack + STACK));
    assert_false(view_gives(&view, stack + STACK - 8)); /* the sample has it */
    munmap(stack, STACK + HEAP);
    end(p, &l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_told_once),
        cmocka_unit_test(what_a_pass_finds_is_told_when_it_is_asked_for),
        cmocka_unit_test(readings_are_not_older_than_the_sample),
        cmocka_unit_test(large_ranges_come_in_pieces),
        cmocka_unit_test(objects_are_told_whole),
        cmocka_unit_test(another_object_has_its_own_end),
        cmocka_unit_test(what_is_unmapped_is_gone),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(heap_above_a_stack_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
