/* SPDX-License-Identifier: GPL-2.0-only */
/* Images of this process's memory: kept bytes can be read back as of their time, and bytes that did
 * not change are written once. */
#include "memory_fixture.h"
#include "live/page_log.h"
#include "session/recorded_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct scene {
    struct page_log *pages;
    struct memory_log *log;
    uint64_t now; /* a clock that advances by one at each call */
    size_t bytes; /* bytes of memory in payloads */
};

static uint64_t look(void *context)
{
    struct scene *s = context;
    return ++s->now;
}

static int take(void *context, const void *payload, size_t size, struct error *err)
{
    struct scene *s = context;
    struct vmevent e, again;
    struct vmevent_entry entry;
    assert_int_equal(vmevent_open(payload, size, &e, err), 0);
    again = e;
    while (vmevent_next(&again, &entry, NULL) > 0)
        s->bytes += entry.bytes && entry.kind != VMENTRY_INDEX ? entry.length : 0;
    return memory_log_add(s->log, &e, err);
}

static struct scene begin(unsigned grain, struct scene *s)
{
    const struct log_sink sink = {.write = take, .now = look, .context = s};
    struct process_memory *memory;
    *s = (struct scene){0};
    assert_int_equal(memory_log_create(&s->log, NULL), 0);
    memory_log_set_order(s->log, MEMORY_LOG_BESIDE);
    assert_int_equal(process_memory_open(getpid(), &memory, NULL), 0);
    assert_int_equal(page_log_create(getpid(), memory, grain, &sink, &s->pages, NULL), 0);
    return *s;
}

static void end(struct scene *s)
{
    assert_int_equal(page_log_flush(s->pages, NULL), 0);
    assert_int_equal(memory_log_seal(s->log, NULL), 0);
}

static void leave(struct scene *s)
{
    page_log_free(s->pages);
    memory_log_free(s->log);
}

/* Makes a round that keeps `size` bytes. Returns a time after it. */
static uint64_t keep(struct scene *s, const void *from, size_t size)
{
    page_log_begin(s->pages);
    assert_true(page_log_keep(s->pages, (uintptr_t)from, size));
    assert_int_equal(page_log_end(s->pages, NULL), 0);
    return ++s->now;
}

static bool read_back(const struct scene *s, const void *from, size_t size, uint64_t time, char *to,
                      enum provenance *provenance)
{
    const struct memory_log_view view = {.log = s->log, .pid = (uint32_t)getpid()};
    const struct memory_layer layer = memory_log_layer(&view);
    return layer_read(&layer, (uintptr_t)from, to, size, time, provenance);
}

static void what_stays_is_told_once_and_proven_between(void **state)
{
    _Alignas(64) static char text[8192] = "as it was";
    struct scene s;
    char got[16];
    enum provenance p;
    (void)state;
    begin(8, &s);
    uint64_t between = keep(&s, text + 4090, 16); /* across the end of a page */
    keep(&s, text + 4090, 16);
    size_t told = s.bytes;
    end(&s);
    assert_in_range(told, 16, 32); /* rounded to the grain, written once */
    assert_true(read_back(&s, text + 4090, 16, between, got, &p));
    assert_int_equal(p, PROVENANCE_EXACT);
    assert_true(read_back(&s, text + 4090, 16, s.now + 1, got, &p));
    assert_int_equal(p, PROVENANCE_STALE); /* nobody read it again */
    assert_false(read_back(&s, text + 4080, 8, between, got, &p));
    leave(&s);
}

static void what_changes_has_both_contents(void **state)
{
    _Alignas(64) static char text[64] = "before";
    struct scene s;
    char got[16];
    enum provenance p;
    (void)state;
    begin(64, &s);
    uint64_t early = s.now, between = keep(&s, text, 8);
    memcpy(text, "behind", 6);
    uint64_t late = keep(&s, text, 8);
    end(&s);
    assert_true(read_back(&s, text, 6, early, got, &p));
    assert_memory_equal(got, "before", 6);
    assert_int_equal(p, PROVENANCE_STALE);
    assert_true(read_back(&s, text, 6, between, got, &p)); /* from the next read */
    assert_memory_equal(got, "behind", 6);
    assert_int_equal(p, PROVENANCE_STALE);
    assert_true(read_back(&s, text, 6, late, got, &p));
    assert_memory_equal(got, "behind", 6);
    leave(&s);
}

static void stacks_are_never_proven(void **state)
{
    static char text[64] = "a stack";
    struct scene s;
    char got[16];
    enum provenance p;
    (void)state;
    begin(8, &s);
    page_log_begin(s.pages);
    assert_true(page_log_range(s.pages, (uintptr_t)text, 8, VMENTRY_STACK));
    uint64_t between = ++s.now;
    page_log_begin(s.pages);
    assert_true(page_log_range(s.pages, (uintptr_t)text, 8, VMENTRY_STACK));
    end(&s);
    assert_int_equal(s.bytes, 8);
    assert_true(read_back(&s, text, 8, between, got, &p));
    assert_int_equal(p, PROVENANCE_STALE);
    leave(&s);
}

static void of_thousands_of_readings_the_next_is_found(void **state)
{
    enum { ROUNDS = 3000, EACH = 500 };
    static uint64_t stack[4];
    static uint64_t times[ROUNDS];
    struct scene s;
    uint64_t got;
    enum provenance p;
    (void)state;
    begin(8, &s);
    for (unsigned i = 0; i < ROUNDS; i++) {
        stack[0] = stack[3] = i;
        times[i] = ++s.now;
        page_log_begin(s.pages);
        assert_true(page_log_range(s.pages, (uintptr_t)stack, i % 7 ? 32 : 8, VMENTRY_STACK));
    }
    end(&s);
    for (unsigned i = 0; i < ROUNDS; i += EACH) {
        assert_true(read_back(&s, stack, 8, times[i], (char *)&got, &p));
        assert_int_equal(got, i);
        assert_int_equal(p, PROVENANCE_STALE);
        assert_true(read_back(&s, stack + 3, 8, times[i], (char *)&got, &p));
        assert_int_equal(got, i % 7 ? i : i + 1); /* the shorter reads do not have these bytes */
    }
    leave(&s);
}

/* Compares all bytes but the first. */
static bool same_behind(const void *context, const uint8_t *a, const uint8_t *b, size_t size)
{
    (void)context;
    return !memcmp(a + 1, b + 1, size - 1);
}

static void an_object_is_the_same_where_its_owner_says(void **state)
{
    static char text[64] = "0bject";
    struct scene s;
    char got[16];
    enum provenance p;
    (void)state;
    begin(8, &s);
    page_log_begin(s.pages);
    assert_true(page_log_object(s.pages, (uintptr_t)text, 8, same_behind, NULL));
    uint64_t between = ++s.now;
    text[0] = '1'; /* a mark of the GC */
    page_log_begin(s.pages);
    assert_true(page_log_object(s.pages, (uintptr_t)text, 8, same_behind, NULL));
    end(&s);
    assert_int_equal(s.bytes, 8);
    assert_true(read_back(&s, text, 8, between, got, &p));
    assert_int_equal(p, PROVENANCE_EXACT);
    leave(&s);
}

static void what_is_not_there_is_not_kept(void **state)
{
    static char text[4096];
    struct scene s;
    (void)state;
    begin(8, &s);
    page_log_begin(s.pages);
    assert_false(page_log_keep(s.pages, 8, 8));
    assert_false(page_log_keep(s.pages, UINT64_MAX - 4, 8));
    assert_false(page_log_range(s.pages, 8, 8, VMENTRY_STACK));
    assert_false(page_log_range(s.pages, (uintptr_t)text, UINT64_C(1) << 40, VMENTRY_STACK));
    assert_true(page_log_skip(s.pages, (uintptr_t)text, (uintptr_t)text + sizeof(text)));
    uint64_t page = ((uintptr_t)text + 4095) & ~UINT64_C(4095);
    /* a page of a file, which can be read from the file */
    assert_true(page_log_keep(s.pages, page, 8));
    end(&s);
    assert_int_equal(s.bytes, 0);
    leave(&s);
}

static void words_are_found_again(void **state)
{
    struct scene s;
    uint64_t got[4];
    const uint32_t pid = (uint32_t)getpid();
    (void)state;
    begin(8, &s);
    page_log_index(s.pages, 0x1001, 0x2001); /* tagged pointers of V8 */
    page_log_index(s.pages, 0x1001, 0x3001);
    page_log_index(s.pages, 0x1001, 0x2001);
    page_log_index(s.pages, 0x8000, 0x100); /* a prototype's block */
    end(&s);
    assert_int_equal(memory_log_functions(s.log, pid, 0x1001, got, 4), 2);
    assert_int_equal(got[0], 0x2001);
    assert_int_equal(got[1], 0x3001);
    assert_int_equal(memory_log_functions(s.log, pid, 0x1009, got, 4), 0);
    assert_int_equal(memory_log_functions(s.log, pid + 1, 0x1001, got, 4), 0);
    assert_int_equal(memory_log_prototype(s.log, pid, 0x8000), 0x8000);
    assert_int_equal(memory_log_prototype(s.log, pid, 0x80ff), 0x8000);
    assert_int_equal(memory_log_prototype(s.log, pid, 0x8100), 0);
    assert_int_equal(memory_log_prototype(s.log, pid, 0x7fff), 0);
    leave(&s);
}

static void another_clock_proves_nothing(void **state)
{
    _Alignas(64) static char text[64] = "old";
    struct scene s;
    char got[16];
    enum provenance p;
    (void)state;
    begin(8, &s);
    memory_log_set_order(s.log, MEMORY_LOG_OTHER_CLOCK);
    uint64_t between = keep(&s, text, 8);
    keep(&s, text, 8);
    memcpy(text, "new", 3);
    keep(&s, text, 8);
    end(&s);
    assert_true(read_back(&s, text, 3, between, got, &p));
    assert_memory_equal(got, "new", 3); /* the newest bytes */
    assert_int_equal(p, PROVENANCE_STALE);
    leave(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_stays_is_told_once_and_proven_between),
        cmocka_unit_test(what_changes_has_both_contents),
        cmocka_unit_test(stacks_are_never_proven),
        cmocka_unit_test(of_thousands_of_readings_the_next_is_found),
        cmocka_unit_test(an_object_is_the_same_where_its_owner_says),
        cmocka_unit_test(what_is_not_there_is_not_kept),
        cmocka_unit_test(words_are_found_again),
        cmocka_unit_test(another_clock_proves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
