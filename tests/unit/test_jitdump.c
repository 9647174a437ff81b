/* SPDX-License-Identifier: GPL-2.0-only */
/* jitdumps: what is read, which code is where at which time, and damage. */
#include "base/text.h"
#include "base/vec.h"
#include "jitdump/jitdump.h"

#include <byteswap.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- making dumps ------------------------------------------------------------------------ */

struct dump {
    struct text out;
    bool swap;
};

static void u32(struct dump *d, uint32_t v)
{
    v = d->swap ? bswap_32(v) : v;
    text_bytes(&d->out, (const char *)&v, sizeof(v));
}

static void u64(struct dump *d, uint64_t v)
{
    v = d->swap ? bswap_64(v) : v;
    text_bytes(&d->out, (const char *)&v, sizeof(v));
}

static void string(struct dump *d, const char *s)
{
    text_bytes(&d->out, s, strlen(s) + 1);
}

static struct dump dump_begin(bool swap, uint32_t pad, uint64_t flags)
{
    struct dump d = {.swap = swap};
    u32(&d, 0x4A695444);
    u32(&d, 1);
    u32(&d, 48); /* longer than the known header: the rest is skipped */
    u32(&d, 62);
    u32(&d, pad);
    u32(&d, 4321);
    u64(&d, 99);
    u64(&d, flags);
    u64(&d, 0x1122334455667788);
    return d;
}

static void record(struct dump *d, uint32_t id, size_t body, uint64_t time)
{
    u32(d, id);
    u32(d, (uint32_t)(16 + body));
    u64(d, time);
}

static void load(struct dump *d, uint64_t time, uint64_t address, uint64_t size, const char *name)
{
    record(d, 0, 40 + strlen(name) + 1 + size, time);
    u32(d, 4321);
    u32(d, 4321);
    u64(d, address);
    u64(d, address);
    u64(d, size);
    u64(d, address >> 4);
    string(d, name);
    for (uint64_t i = 0; i < size; i++)
        text_char(&d->out, (char)('a' + i % 26));
}

static void move(struct dump *d, uint64_t time, uint64_t from, uint64_t to, uint64_t size)
{
    record(d, 1, 48, time);
    u32(d, 4321);
    u32(d, 4321);
    u64(d, to);
    u64(d, from);
    u64(d, to);
    u64(d, size);
    u64(d, 7);
}

static void unwinding(struct dump *d, const char *frame, size_t frame_size, size_t hdr_size)
{
    record(d, 4, 24 + frame_size + hdr_size + 3, 0);
    u64(d, frame_size + hdr_size);
    u64(d, hdr_size);
    u64(d, 0);
    text_bytes(&d->out, frame, frame_size);
    for (size_t i = 0; i < hdr_size; i++)
        text_char(&d->out, 'H');
    text_bytes(&d->out, "pad", 3);
}

struct row {
    uint64_t address;
    uint32_t line, column;
    const char *file;
};

static void debug_info(struct dump *d, uint64_t address, const struct row *rows, size_t nr)
{
    size_t body = 16;
    for (size_t i = 0; i < nr; i++)
        body += 16 + strlen(rows[i].file) + 1;
    record(d, 2, body, 0);
    u64(d, address);
    u64(d, nr);
    for (size_t i = 0; i < nr; i++) {
        u64(d, rows[i].address);
        u32(d, rows[i].line);
        u32(d, rows[i].column);
        string(d, rows[i].file);
    }
}

static int write_and_load(struct dump *d, const struct jitdump_options *options,
                          struct jitcode **ret, struct error *err)
{
    char path[] = "jitdump-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, d->out.at, d->out.size), d->out.size);
    close(fd);
    int status = jitdump_load(path, options, ret, err);
    unlink(path);
    return status;
}

static struct jitcode *finish_with(struct dump *d, const struct jitdump_options *options)
{
    struct jitcode *code = NULL;
    struct error err;
    assert_int_equal(write_and_load(d, options, &code, &err), 0);
    text_free(&d->out);
    return code;
}

static struct jitcode *finish(struct dump *d)
{
    return finish_with(d, NULL);
}

static const char *name_at(const struct jitcode *code, uint64_t address, uint64_t time)
{
    const struct jit_function *f = jitcode_lookup(code, address, time);
    return f ? f->name : "-";
}

/* ---- reading ----------------------------------------------------------------------------- */

static void reads_functions_in_both_byte_orders(void **state)
{
    (void)state;
    for (int swap = 0; swap < 2; swap++) {
        struct dump d = dump_begin(swap, 0, 0);
        load(&d, 100, 0x1000, 5, "one");
        load(&d, 200, 0x2000, 64, "two words");
        struct jitcode *code = finish(&d);
        assert_int_equal(jitcode_pid(code), 4321);
        assert_int_equal(jitcode_count(code), 2);
        assert_int_equal(jitcode_swapped(code), swap);
        assert_string_equal(name_at(code, 0x1000, 100), "one");
        assert_string_equal(name_at(code, 0x1004, 1000), "one");
        assert_string_equal(name_at(code, 0x1005, 1000), "-");
        assert_string_equal(name_at(code, 0xfff, 1000), "-");
        assert_string_equal(name_at(code, 0x1000, 99), "-");
        const struct jit_function *f = jitcode_lookup(code, 0x2030, 200);
        assert_string_equal(f->name, "two words");
        assert_int_equal(f->start, 0x2000);
        assert_int_equal(f->size, 64);
        assert_int_equal(f->index, 0x200);
        assert_memory_equal(f->code, "abcdefghij", 10);
        assert_false(f->from_map);
        assert_int_equal(jitcode_loss(code)->records_bad, 0);
        assert_int_equal(jitcode_loss(code)->bytes_cut, 0);
        jitcode_free(code);
    }
}

static void an_empty_dump_has_no_functions(void **state)
{
    (void)state;
    struct dump d = dump_begin(false, 0, 0);
    struct jitcode *code = finish(&d);
    assert_int_equal(jitcode_count(code), 0);
    assert_null(jitcode_lookup(code, 0, 0));
    assert_null(jitcode_lookup(code, UINT64_MAX, UINT64_MAX));
    jitcode_free(code);
}

static void skips_unknown_records_and_counts_bad_ones(void **state)
{
    (void)state;
    struct dump d = dump_begin(false, 0, 0);
    record(&d, 77, 3, 1);
    text_bytes(&d.out, "xyz", 3);
    record(&d, 3, 0, 2); /* CLOSE */
    record(&d, 0, 4, 3); /* a LOAD with no room for its fields */
    u32(&d, 0);
    load(&d, 4, UINT64_MAX - 2, 8, "wraps");
    load(&d, 5, 0x1000, 8, "good");
    struct jitcode *code = finish(&d);
    assert_int_equal(jitcode_loss(code)->records_unknown, 1);
    assert_int_equal(jitcode_loss(code)->records_bad, 2);
    assert_int_equal(jitcode_count(code), 1);
    assert_string_equal(name_at(code, 0x1001, 5), "good");
    jitcode_free(code);
}

static void a_cut_tail_loses_only_itself(void **state)
{
    (void)state;
    struct dump d = dump_begin(false, 0, 0);
    load(&d, 1, 0x1000, 8, "whole");
    size_t whole = d.out.size;
    load(&d, 2, 0x2000, 8, "cut");
    size_t all = d.out.size;
    for (size_t size = whole; size < all; size++) {
        struct jitcode *code;
        d.out.size = size;
        assert_int_equal(write_and_load(&d, NULL, &code, NULL), 0);
        assert_int_equal(jitcode_count(code), 1);
        assert_int_equal(jitcode_loss(code)->bytes_cut, size - whole);
        jitcode_free(code);
    }
    text_free(&d.out);
}

static void a_record_smaller_than_its_header_ends_reading(void **state)
{
    (void)state;
    struct dump d = dump_begin(false, 0, 0);
    load(&d, 1, 0x1000, 8, "before");
    for (int i = 0; i < 8; i++)
        u32(&d, 1);
    struct jitcode *code = finish(&d);
    assert_int_equal(jitcode_count(code), 1);
    assert_int_equal(jitcode_loss(code)->records_bad, 1);
    assert_int_equal(jitcode_loss(code)->bytes_cut, 32);
    jitcode_free(code);
}

/* A writer that maps the file was killed. */
static void zeros_behind_the_last_record_are_no_loss(void **state)
{
    (void)state;
    struct dump d = dump_begin(false, 0, 0);
    load(&d, 1, 0x1000, 8, "before");
    for (int i = 0; i < 1000; i++)
        u32(&d, 0);
    struct jitcode *code = finish(&d);
    assert_int_equal(jitcode_count(code), 1);
    assert_int_equal(jitcode_loss(code)->records_bad, 0);
    assert_int_equal(jitcode_loss(code)->bytes_cut, 0);
    jitcode_free(code);
}

static void refuses_what_is_no_jitdump(void **state)
{
    (void)state;
    struct jitcode *code;
    struct error err;
    struct dump d = {0};
    assert_int_equal(write_and_load(&d, NULL, &code, &err), -1);
    text_bytes(&d.out, "#!/bin/sh\nexit 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", 48);
    assert_int_equal(write_and_load(&d, NULL, &code, &err), -1);
    assert_int_equal(err.kind, ERROR_FORMAT);
    text_free(&d.out);
    assert_int_equal(jitdump_load("/dev/zero", NULL, &code, &err), -1);
    assert_int_equal(err.kind, ERROR_FORMAT);
    assert_int_equal(jitdump_load("no/such/file", NULL, &code, &err), -1);
    assert_int_equal(err.kind, ERROR_SYSTEM);
}

/* ---- times ------------------------------------------------------------------------------- */

static void a_later_load_ends_whatever_it_overlaps(void **state)
{
    (void)state;
    struct dump d = dump_begin(false, 0, 0);
    load(&d, 100, 0x1000, 0x100, "a");
    load(&d, 100, 0x1100, 0x100, "b");
    load(&d, 200, 0x10f0, 0x20, "c");
    load(&d, 300, 0x1000, 0x80, "d");
    struct jitcode *code = finish(&d);
    assert_string_equal(name_at(code, 0x1000, 199), "a");
    assert_string_equal(name_at(code, 0x1000, 200), "-");
    assert_string_equal(name_at(code, 0x1000, 300), "d");
    assert_string_equal(name_at(code, 0x10ff, 199), "a");
    assert_string_equal(name_at(code, 0x10ff, 200), "c");
    assert_string_equal(name_at(code, 0x1100, 199), "b");
    assert_string_equal(name_at(code, 0x1100, 400), "c");
    assert_string_equal(name_at(code, 0x1180, 200), "-");
    assert_int_equal(jitcode_at(code, 0)->from, 100);
    assert_int_equal(jitcode_at(code, 0)->until, 200);
    assert_int_equal(jitcode_at(code, 2)->until, UINT64_MAX);
    /* A time of 0 (unknown) finds the last function. */
    assert_string_equal(name_at(code, 0x1180, 0), "b");
    assert_string_equal(name_at(code, 0x1000, 0), "d");
    jitcode_free(code);
}

static void records_out_of_order_are_played_in_order(void **state)
{
    (void)state;
    struct dump d = dump_begin(false, 0, 0);
    load(&d, 300, 0x1000, 0x10, "third");
    load(&d, 100, 0x1000, 0x10, "first");
    load(&d, 200, 0x1000, 0x10, "second");
    struct jitcode *code = finish(&d);
    assert_string_equal(name_at(code, 0x1008, 150), "first");
    assert_string_equal(name_at(code, 0x1008, 250), "second");
    assert_string_equal(name_at(code, 0x1008, 350), "third");
    uint64_t first, last;
    jitcode_time_range(code, &first, &last);
    assert_int_equal(first, 100);
    assert_int_equal(last, 300);
    jitcode_free(code);
}

static void a_move_ends_here_and_begins_there(void **state)
{
    (void)state;
    struct dump d = dump_begin(false, 0, 0);
    const struct row rows[] = {{0x1000, 7, 1, "f.js"}};
    debug_info(&d, 0x1000, rows, 1);
    unwinding(&d, "FRAME", 5, 4);
    load(&d, 100, 0x1000, 0x40, "moved");
    load(&d, 100, 0x5000, 0x40, "overwritten");
    move(&d, 200, 0x1000, 0x5000, 0x40);
    move(&d, 250, 0x9000, 0xa000, 0x40); /* moves no known function */
    struct jitcode *code = finish(&d);
    assert_string_equal(name_at(code, 0x1000, 199), "moved");
    assert_string_equal(name_at(code, 0x1000, 200), "-");
    assert_string_equal(name_at(code, 0x5000, 199), "overwritten");
    assert_string_equal(name_at(code, 0x503f, 200), "moved");
    assert_string_equal(name_at(code, 0xa000, 300), "-");
    assert_int_equal(jitcode_loss(code)->records_bad, 1);
    const struct jit_function *f = jitcode_lookup(code, 0x5000, 200);
    struct jit_position position;
    assert_int_equal(f->start, 0x5000);
    assert_int_equal(f->eh_frame_size, 5);
    assert_memory_equal(f->code, "abcdef", 6);
    assert_true(jit_function_position(f, 0x5004, &position));
    assert_int_equal(position.line, 7);
    jitcode_free(code);
}

static void without_times_the_last_load_wins_where_it_is(void **state)
{
    (void)state;
    struct jitdump_options options = {.ignore_times = true};
    struct dump d = dump_begin(false, 0, 0);
    load(&d, 900, 0x1000, 0x100, "old");
    load(&d, 500, 0x1040, 0x40, "new");
    load(&d, 100, 0x3000, 0x10, "far");
    struct jitcode *code = finish_with(&d, &options);
    assert_true(jitcode_is_timeless(code));
    for (uint64_t time = 0; time <= 1; time++) {
        assert_string_equal(name_at(code, 0x103f, time), "old");
        assert_string_equal(name_at(code, 0x1040, time), "new");
        assert_string_equal(name_at(code, 0x107f, time), "new");
        assert_string_equal(name_at(code, 0x1080, time), "old");
        assert_string_equal(name_at(code, 0x3000, time), "far");
    }
    struct jit_span span;
    assert_non_null(jitcode_lookup_span(code, 0x1090, 1, &span));
    assert_int_equal(span.start, 0x1080);
    assert_int_equal(span.end, 0x1100);
    jitcode_free(code);
}

static uint64_t twice(const void *context, uint64_t stamp)
{
    return stamp * 2 + *(const uint64_t *)context;
}

static void tsc_stamps_are_converted_or_ignored(void **state)
{
    (void)state;
    uint64_t zero = 10;
    struct jitdump_options options = {.to_clock = twice, .context = &zero, .ignore_times = true};
    struct dump d = dump_begin(false, 0, 1);
    load(&d, 100, 0x1000, 0x10, "f");
    struct jitcode *code;
    assert_int_equal(write_and_load(&d, &options, &code, NULL), 0);
    assert_true(jitcode_is_tsc(code));
    assert_false(jitcode_is_timeless(code));
    assert_string_equal(name_at(code, 0x1000, 209), "-");
    assert_string_equal(name_at(code, 0x1000, 210), "f");
    jitcode_free(code);
    code = finish(&d);
    assert_true(jitcode_is_timeless(code));
    assert_string_equal(name_at(code, 0x1000, 1), "f");
    jitcode_free(code);

    d = dump_begin(false, 0, 0); /* without the TSC flag, stamps are never converted */
    load(&d, 100, 0x1000, 0x10, "f");
    options.ignore_times = false;
    code = finish_with(&d, &options);
    assert_string_equal(name_at(code, 0x1000, 100), "f");
    jitcode_free(code);
}

/* ---- unwinding information and lines ------------------------------------------------------- */

static void unwinding_info_belongs_to_the_next_load(void **state)
{
    (void)state;
    struct dump d = dump_begin(false, 0, 0);
    unwinding(&d, "frame-bytes", 11, 6);
    load(&d, 1, 0x1000, 8, "with");
    load(&d, 1, 0x2000, 8, "without");
    unwinding(&d, "", 0, 20); /* V8 writes an empty header alone */
    load(&d, 1, 0x3000, 8, "frame pointer");
    struct jitcode *code = finish(&d);
    const struct jit_function *f = jitcode_at(code, 0);
    assert_int_equal(f->eh_frame_size, 11);
    assert_memory_equal(f->eh_frame, "frame-bytes", 11);
    assert_int_equal(f->eh_frame_hdr_size, 6);
    assert_memory_equal(f->eh_frame_hdr, "HHHHHH", 6);
    for (size_t i = 1; i < 3; i++) {
        assert_null(jitcode_at(code, i)->eh_frame);
        assert_null(jitcode_at(code, i)->eh_frame_hdr);
    }
    jitcode_free(code);
}

static void unwinding_info_that_lies_is_not_used(void **state)
{
    (void)state;
    struct dump d = dump_begin(false, 0, 0);
    record(&d, 4, 32, 0);
    u64(&d, UINT64_MAX);
    u64(&d, 4);
    u64(&d, 0);
    u64(&d, 0);
    record(&d, 4, 32, 0);
    u64(&d, 8);
    u64(&d, 9);
    u64(&d, 0);
    u64(&d, 0);
    load(&d, 1, 0x1000, 8, "f");
    struct jitcode *code = finish(&d);
    assert_int_equal(jitcode_loss(code)->records_bad, 2);
    assert_null(jitcode_at(code, 0)->eh_frame);
    jitcode_free(code);
}

static void expect_position(const struct jit_function *f, uint64_t address, const char *file,
                            uint32_t line, uint32_t column)
{
    struct jit_position p;
    assert_true(jit_function_position(f, address, &p));
    assert_string_equal(p.file, file);
    assert_int_equal(p.line, line);
    assert_int_equal(p.column, column);
}

static void positions_come_from_the_row_before(void **state)
{
    (void)state;
    struct dump d = dump_begin(false, 0, 0);
    const struct row rows[] = {
        {0x1004, 10, 3, "a.js"}, {0x1020, 12, 5, "\xff"}, {0x1010, 11, 4, "b.js"}};
    struct jit_position p;
    debug_info(&d, 0x1000, rows, 3);
    load(&d, 1, 0x1000, 0x40, "f");
    /* for another function than the one that follows */
    debug_info(&d, 0x7777, rows, 3);
    load(&d, 1, 0x2000, 0x40, "g");
    struct jitcode *code = finish(&d);
    const struct jit_function *f = jitcode_at(code, 0);
    assert_false(jit_function_position(f, 0x1003, &p));
    expect_position(f, 0x1004, "a.js", 10, 3);
    expect_position(f, 0x100f, "a.js", 10, 3);
    expect_position(f, 0x1010, "b.js", 11, 4);
    /* "same as before" refers to the previous row in the file, not by address. */
    expect_position(f, 0x103f, "a.js", 12, 5);
    assert_false(jit_function_position(f, 0x1040, &p));
    assert_false(jit_function_position(jitcode_at(code, 1), 0x2000, &p));
    jitcode_free(code);
}

static void v8_counts_rows_from_an_elf_header(void **state)
{
    (void)state;
    struct dump d = dump_begin(false, 0xDEADBEEF, 0);
    const struct row rows[] = {{0x1040, 1, 1, "a.js"}, {0x1050, 2, 1, "a.js"}};
    debug_info(&d, 0x1000, rows, 2);
    load(&d, 1, 0x1000, 0x40, "f");
    struct jitcode *code = finish(&d);
    expect_position(jitcode_at(code, 0), 0x1000, "a.js", 1, 1);
    expect_position(jitcode_at(code, 0), 0x1010, "a.js", 2, 1);
    jitcode_free(code);
}

static void a_row_count_that_lies_reads_what_is_there(void **state)
{
    (void)state;
    struct dump d = dump_begin(false, 0, 0);
    record(&d, 2, 16 + 18 + 9, 0);
    u64(&d, 0x1000);
    u64(&d, UINT64_MAX);
    u64(&d, 0x1000);
    u32(&d, 5);
    u32(&d, 0);
    string(&d, "f");
    text_bytes(&d.out, "123456789", 9);
    load(&d, 1, 0x1000, 0x40, "f");
    struct jitcode *code = finish(&d);
    expect_position(jitcode_at(code, 0), 0x1030, "f", 5, 0);
    jitcode_free(code);
}

/* ---- LuaJIT traces: offsets and encodings by the fact sheet, all values by hand -------------- */

enum { LUA_LAYOUT = 0x4c4a00, LUA_FUNCTION, LUA_TRACE, LUA_STUBS, LUA_FLUSH };
enum { MAIN = 0x10000, INNER = 0x20000, PCALL = 0x30000, FUNCTION_OBJECT = 0x40000 };

/* Layouts with GC64 and with 32-bit references; the latter is a layout without code offsets. */
static const uint32_t wide_layout[] = {8,    0x78, 0x20, 0x28, 0x0a, 0x30, 0x38, 0x2c, 4, 0x40,
                                       0x48, 0x66, 0x68, 0x6a, 0x6c, 12,   4,    6,    10};
static const uint32_t narrow_layout[] = {4,    0x60, 0x10, 0x18, 0x1c, 0x20, 0x28, 0x1e, 2, 0x30,
                                         0x34, 0x4e, 0x50, 0x52, 0x54, 8,    2,    0,    6};

static void lua_layout(struct dump *d, const uint32_t *layout)
{
    record(d, LUA_LAYOUT, 19 * 4, 0);
    for (int i = 0; i < 19; i++)
        u32(d, layout[i]);
}

/* Writes a function of 20 instructions, `size` bytes of them. Instruction i has line i, counted
 * from the function's first line. */
static void lua_function_of(struct dump *d, uint64_t bytecode, uint32_t line, const char *name,
                            const char *chunk, const uint32_t *code, size_t size)
{
    size_t body = 32 + strlen(name) + strlen(chunk) + 19 + size;
    record(d, LUA_FUNCTION, body, 0);
    u64(d, bytecode);
    u32(d, 20);
    u32(d, line);
    u32(d, 19);
    u32(d, 1);
    u32(d, (uint32_t)strlen(name));
    u32(d, (uint32_t)strlen(chunk));
    text_string(&d->out, name);
    text_string(&d->out, chunk);
    for (int i = 1; i < 20; i++)
        text_char(&d->out, (char)i);
    if (size)
        text_bytes(&d->out, (const char *)code, size);
}

static void lua_function(struct dump *d, uint64_t bytecode, uint32_t line, const char *name,
                         const char *chunk)
{
    lua_function_of(d, bytecode, line, name, chunk, NULL, 0);
}

static void lua_builtin(struct dump *d, uint64_t object, const char *name)
{
    record(d, LUA_FUNCTION, 32 + strlen(name), 0);
    u64(d, object);
    for (int i = 0; i < 4; i++)
        u32(d, 0);
    u32(d, (uint32_t)strlen(name));
    u32(d, 0);
    text_string(&d->out, name);
}

static void lua_functions(struct dump *d)
{
    lua_function(d, MAIN, 0, "", "@main.lua");
    lua_function(d, INNER, 100, "M.inner", "=(load)");
    lua_builtin(d, PCALL, "pcall");
}

struct object {
    const uint32_t *layout;
    const uint64_t *constants;
    const uint8_t *snaps;
    const uint32_t *map;
    uint32_t nr_constants, nr_snaps, nr_map;
};

static void put(uint8_t *to, uint64_t v, size_t size)
{
    memcpy(to, &v, size);
}

/* Writes trace 7, a side trace of trace 3 from its exit 5, as its first instruction says. */
static void lua_trace_of(struct dump *d, uint64_t index, const struct object *o,
                         const uint64_t *instructions, uint32_t nr)
{
    uint8_t head[0x78] = {0};
    const uint32_t *l = o->layout;
    uint64_t address = 0x500000, nk = 0x8000 - o->nr_constants;
    uint64_t snap = address + l[1] + 8 * (uint64_t)(o->nr_constants + nr);
    put(head + l[2], address + l[1] - 8 * nk, 8);
    put(head + l[3], nk, 4);
    put(head + l[4], o->nr_snaps, 2);
    put(head + l[5], snap, 8);
    put(head + l[6], snap + (uint64_t)o->nr_snaps * l[15], 8);
    put(head + l[7], o->nr_map, l[8]);
    put(head + l[12], 7, 2);
    put(head + l[14], 2, 2);
    size_t size = l[1] + 8 * (size_t)(o->nr_constants + nr) + o->nr_snaps * l[15] + o->nr_map * 4;
    record(d, LUA_TRACE, 8 + size, 0);
    u64(d, index);
    text_bytes(&d->out, (const char *)head, l[1]);
    text_bytes(&d->out, (const char *)o->constants, 8 * o->nr_constants);
    for (uint32_t i = 0; i < nr; i++)
        u64(d, instructions[i]);
    text_bytes(&d->out, (const char *)o->snaps, o->nr_snaps * l[15]);
    text_bytes(&d->out, (const char *)o->map, 4 * o->nr_map);
}

static void lua_trace(struct dump *d, uint64_t index, const struct object *o)
{
    static const uint64_t instructions[] = {3 | 5 << 16, 0};
    lua_trace_of(d, index, o, instructions, 2);
}

static const char *chain_at(const struct jitcode *code, uint64_t address, bool *guess)
{
    static char text[300];
    struct jit_lua_stack stack;
    size_t used = 0;
    text[0] = 0;
    if (!jit_function_lua(jitcode_at(code, 0), address, &stack))
        return "-";
    for (unsigned i = 0; i < stack.nr; i++) {
        const struct jit_lua_function *f = stack.frames[i].function;
        used +=
            (size_t)snprintf(text + used, sizeof(text) - used, "%s%.*s:%u", i ? " " : "",
                             f ? (int)f->name_size : 1, f ? f->name : "?", stack.frames[i].line);
    }
    assert_int_equal(stack.trace, 7);
    assert_int_equal(stack.root, 2);
    assert_int_equal(stack.parent, 3);
    assert_int_equal(stack.exit, 5);
    *guess = stack.guess;
    return text;
}

#define SLOT(slot, flags, ref) ((uint32_t)(slot) << 24 | (flags) | (ref))
#define FRAME 0x10000
#define PC(pc, depth) (uint32_t)((uint64_t)(pc) << 8 | (depth)), (uint32_t)((uint64_t)(pc) >> 24)

static const uint64_t wide_constants[] = {
    0, FUNCTION_OBJECT | UINT64_C(0xfffb800000000000), /* 7ff6 */
    0, MAIN + 4 * 6,                                   /* 7ff8: link of a call at 5 */
    0, 16 | 6,                                         /* 7ffa: pcall's */
    0, PCALL | UINT64_C(0xfffb800000000000),           /* 7ffc */
    0, 24 | 3,                                         /* 7ffe: variable arguments */
};
/* mapofs, ref and code offset, slots, entries. */
static const uint8_t wide_snaps[] = {
    0,  0, 0, 0, 0, 0, 0x00, 0, 9, 9, 0, 0, /* in main */
    2,  0, 0, 0, 0, 0, 0x10, 0, 9, 9, 3, 0, /* main calls inner */
    7,  0, 0, 0, 0, 0, 0x20, 0, 9, 9, 4, 0, /* main calls pcall calls inner */
    13, 0, 0, 0, 0, 0, 0x30, 0, 9, 9, 4, 0, /* main calls inner with variable arguments */
    19, 0, 0, 0, 0, 0, 0x38, 0, 9, 9, 2, 0, /* a link that is no constant */
};
static const uint32_t wide_map[] = {
    PC(MAIN + 4 * 3, 0),    SLOT(2, 0, 0x8001),     SLOT(4, 0, 0x7ff6),     SLOT(5, FRAME, 0x7ff8),
    PC(INNER + 4 * 2, 4),   SLOT(4, 0, 0x7ffc),     SLOT(5, FRAME, 0x7ff8), SLOT(6, 0, 0x7ff6),
    SLOT(7, FRAME, 0x7ffa), PC(INNER + 4 * 9, 6),   SLOT(4, 0, 0x7ff6),     SLOT(5, FRAME, 0x7ff8),
    SLOT(7, 0, 0x7ff6),     SLOT(8, FRAME, 0x7ffe), PC(INNER + 4 * 4, 7),   SLOT(4, 0, 0x7ff6),
    SLOT(5, FRAME, 0x8001), PC(INNER, 4),
};
static const struct object wide_object = {wide_layout, wide_constants, wide_snaps, wide_map, 10, 5,
                                          23};

static void inlined_lua_functions_come_from_snapshots(void **state)
{
    (void)state;
    bool guess;
    struct dump d = dump_begin(false, 0, 0);
    lua_layout(&d, wide_layout);
    lua_functions(&d);
    lua_trace(&d, 0x100, &wide_object);
    lua_function(&d, MAIN - 8, 50, "later", "@main.lua"); /* at the address of main */
    load(&d, 1, 0x1000, 0x40, "TRACE_7");
    struct jitcode *code = finish(&d);
    assert_int_equal(jitcode_loss(code)->records_bad + jitcode_loss(code)->records_unknown, 0);
    assert_string_equal(chain_at(code, 0x1000, &guess), ":3");
    assert_string_equal(chain_at(code, 0x100f, &guess), ":3");
    assert_string_equal(chain_at(code, 0x1010, &guess), "M.inner:102 :5");
    assert_string_equal(chain_at(code, 0x1020, &guess), "M.inner:109 pcall:0 :5");
    assert_string_equal(chain_at(code, 0x1030, &guess), "M.inner:104 :5");
    assert_false(guess);
    assert_string_equal(chain_at(code, 0x103f, &guess), "M.inner:100 ?:0");
    assert_string_equal(chain_at(code, 0x1040, &guess), "-");
    struct jit_lua_stack stack;
    assert_true(jit_function_lua(jitcode_at(code, 0), 0x1000, &stack));
    assert_memory_equal(stack.frames[0].function->chunk, "@main.lua", 9);
    assert_int_equal(stack.frames[0].function->chunk_size, 9);
    jitcode_free(code);
}

static void a_layout_beyond_the_object_is_not_used(void **state)
{
    (void)state;
    for (int i = 0; i < 19; i++) {
        uint32_t layout[19];
        struct dump d = dump_begin(false, 0, 0);
        memcpy(layout, wide_layout, sizeof(layout));
        layout[i] = UINT32_MAX - 4; /* wraps when a size is added */
        lua_layout(&d, layout);
        struct jitcode *code = finish(&d);
        assert_int_equal(jitcode_loss(code)->records_bad, 1);
        jitcode_free(code);
    }
}

static void a_trace_belongs_to_the_load_of_its_index(void **state)
{
    (void)state;
    bool guess;
    struct dump d = dump_begin(false, 0, 0);
    lua_trace(&d, 0x100, &wide_object); /* before its layout */
    lua_layout(&d, wide_layout);
    lua_trace(&d, 0x777, &wide_object);
    load(&d, 1, 0x1000, 0x40, "TRACE_7");
    struct jitcode *code = finish(&d);
    assert_int_equal(jitcode_loss(code)->records_bad, 1);
    assert_string_equal(chain_at(code, 0x1000, &guess), "-");
    jitcode_free(code);
}

static const uint64_t narrow_constants[] = {FUNCTION_OBJECT, PCALL};
static const uint8_t narrow_snaps[] = {
    0, 0, 0, 0, 9, 9, 0, 0, /* mapofs, ref, slots, entries: in main */
    1, 0, 0, 0, 9, 9, 1, 0, /* main calls inner */
    4, 0, 0, 0, 9, 9, 2, 0, /* main calls pcall calls inner */
    9, 0, 0, 0, 9, 9, 0, 0, /* in main */
};
static const uint32_t narrow_map[] = {
    MAIN + 4 * 3,           SLOT(3, FRAME, 0x7ffe), INNER + 4 * 2, MAIN + 4 * 6,
    SLOT(3, FRAME, 0x7fff), SLOT(4, FRAME, 0x7ffe), INNER + 4 * 9, 8 | 6,
    MAIN + 4 * 6,           MAIN + 4 * 8,
};

/* Puts a jump to the stub of `exit` at offset `at` of the code at 0x1000. The stubs are at
 * 0x9000. */
static void guard(uint8_t *code, uint32_t at, uint32_t exit)
{
    code[at] = 0x0f;
    code[at + 1] = 0x84;
    put(code + at + 2, 0x9000 + 4 * exit - (0x1000 + at + 6), 4);
}

static void without_code_offsets_guards_tell_the_snapshot(void **state)
{
    (void)state;
    static const struct object object = {
        narrow_layout, narrow_constants, narrow_snaps, narrow_map, 2, 4, 10};
    uint8_t bytes[0x40] = {0};
    bool guess;
    struct dump d = dump_begin(false, 0, 0);
    lua_layout(&d, narrow_layout);
    lua_functions(&d);
    record(&d, LUA_STUBS, 16, 0);
    u32(&d, 0);
    u32(&d, 32);
    u64(&d, 0x9000);
    lua_trace(&d, 0x100, &object);
    load(&d, 1, 0x1000, 0x40, "TRACE_7");
    guard(bytes, 0x08, 0);
    guard(bytes, 0x10, 1);
    guard(bytes, 0x18, 1);
    guard(bytes, 0x28, 2);
    memcpy(d.out.at + d.out.size - 0x40, bytes, 0x40);
    struct jitcode *code = finish(&d);
    assert_string_equal(chain_at(code, 0x1000, &guess), ":3");
    assert_false(guess);
    assert_string_equal(chain_at(code, 0x1008, &guess), ":3");
    assert_false(guess);
    assert_string_equal(chain_at(code, 0x100e, &guess), "M.inner:102 :5");
    assert_true(guess); /* between the last guard of snapshot 0 and the first of snapshot 1 */
    assert_string_equal(chain_at(code, 0x1017, &guess), "M.inner:102 :5");
    assert_false(guess);
    assert_string_equal(chain_at(code, 0x1028, &guess), "M.inner:109 pcall:0 :5");
    assert_string_equal(chain_at(code, 0x1030, &guess), ":8");
    assert_true(guess);
    jitcode_free(code);
}

/* if a < b then x() (3) else y() (5) end; (n) is an instruction's number. In 2.1's opcode
 * numbering, in which FUNCF is 0x59. */
static const uint32_t branches[20] = {
    0x59, 1 << 16, 0x58 | 0x8002U << 16, 0x2d | 1 << 8, 0x58 | 0x8001U << 16, 0x36 | 1 << 8, 0x4c,
};
/* Instructions of a trace: the parent; another guard; the comparison's guard, whose snapshot is
 * number 1 and continues at 3. The next snapshot tells which branch was recorded. */
static const uint64_t branch_instructions[] = {3 | 5 << 16, UINT64_C(0x0a80) << 32,
                                               UINT64_C(0x0080) << 32, 0};
static const uint8_t branch_snaps[] = {
    0, 0, 0, 0, 0x00, 0x80, 0x00, 0, 9, 9, 0, 0, /* at 1 */
    2, 0, 0, 0, 0x02, 0x80, 0x10, 0, 9, 9, 0, 0, /* at 3 */
    4, 0, 0, 0, 0x03, 0x80, 0x20, 0, 9, 9, 0, 0, /* at 5, 3 or 6 */
};

enum { UNWRITTEN = 1, UNNUMBERED = 2, CUT = 4 };

static void branch_dump(struct dump *d, uint32_t last, int without)
{
    uint32_t map[] = {PC(MAIN + 4, 0), PC(MAIN + 12, 0), PC(MAIN + 4 * (uint64_t)last, 0)};
    const struct object object = {wide_layout, branch_instructions, branch_snaps, map, 0, 3, 6};
    record(d, LUA_LAYOUT, 20 * 4, 0);
    for (int i = 0; i < 19; i++)
        u32(d, wide_layout[i]);
    u32(d, without & UNNUMBERED ? 0 : 0x59);
    size_t size = without & UNWRITTEN ? 0 : sizeof(branches) - (without & CUT ? 4 : 0);
    lua_function_of(d, MAIN, 0, "", "@main.lua", branches, size);
    lua_trace_of(d, 0x100, &object, branch_instructions, 4);
}

static const char *branch_chain(uint32_t last, int without, uint64_t address)
{
    bool guess;
    struct dump d = dump_begin(false, 0, 0);
    branch_dump(&d, last, without);
    load(&d, 1, 0x1000, 0x40, "TRACE_7");
    struct jitcode *code = finish(&d);
    assert_int_equal(jitcode_loss(code)->records_bad + jitcode_loss(code)->records_unknown, 0);
    const char *chain = chain_at(code, address, &guess);
    assert_false(guess);
    jitcode_free(code);
    return chain;
}

static void a_comparisons_line_is_its_own(void **state)
{
    (void)state;
    assert_string_equal(branch_chain(5, 0, 0x1000), ":1");
    assert_string_equal(branch_chain(5, 0, 0x1010), ":1"); /* not 3: that branch was not recorded */
    assert_string_equal(branch_chain(5, 0, 0x1020), ":5");
    assert_string_equal(branch_chain(6, 0, 0x1010), ":0"); /* both branches lead to 6 */
    /* Older agents did not write the data that decides. */
    assert_string_equal(branch_chain(5, UNWRITTEN, 0x1010), ":3");
    assert_string_equal(branch_chain(5, CUT, 0x1010), ":3");
    assert_string_equal(branch_chain(5, UNNUMBERED, 0x1010), ":3");
}

static void a_flush_ends_everything(void **state)
{
    (void)state;
    struct dump d = dump_begin(false, 0, 0);
    load(&d, 100, 0x1000, 0x10, "a");
    load(&d, 100, 0x2000, 0x10, "b");
    record(&d, LUA_FLUSH, 0, 200);
    load(&d, 200, 0x3000, 0x10, "c");
    struct jitcode *code = finish(&d);
    assert_string_equal(name_at(code, 0x1000, 199), "a");
    assert_string_equal(name_at(code, 0x1000, 200), "-");
    assert_string_equal(name_at(code, 0x2000, 300), "-");
    assert_string_equal(name_at(code, 0x3000, 200), "c");
    jitcode_free(code);

    struct jitdump_options options = {.ignore_times = true};
    d = dump_begin(false, 0, 0);
    load(&d, 100, 0x1000, 0x10, "a");
    record(&d, LUA_FLUSH, 0, 200);
    code = finish_with(&d, &options);
    assert_string_equal(name_at(code, 0x1000, 300), "a");
    jitcode_free(code);
}

/* With any bytes of the records changed, any result will do as long as nothing breaks. */
static void lua_records_that_lie_do_no_harm(void **state)
{
    (void)state;
    srand(2);
    for (int run = 0; run < 4000; run++) {
        bool wide = run % 2;
        static const struct object narrow = {
            narrow_layout, narrow_constants, narrow_snaps, narrow_map, 2, 4, 10};
        struct dump d = dump_begin(false, 0, 0);
        struct jit_lua_stack stack;
        if (run % 3) {
            lua_layout(&d, wide ? wide_layout : narrow_layout);
            lua_functions(&d);
            lua_trace(&d, 0x100, wide ? &wide_object : &narrow);
        } else {
            branch_dump(&d, 5 + run % 2, 0);
        }
        size_t end = d.out.size;
        load(&d, 1, 0x1000, 0x40, "TRACE_7");
        for (int i = 0; i < 1 + run % 4; i++)
            d.out.at[48 + (size_t)rand() % (end - 48)] = (char)(rand() % 3 ? rand() : -1);
        struct jitcode *code = finish(&d);
        for (uint64_t at = 0; jitcode_count(code) && at < 0x40; at++) {
            if (!jit_function_lua(jitcode_at(code, 0), 0x1000 + at, &stack))
                continue;
            assert_in_range(stack.nr, 1, JIT_LUA_FRAMES_MAX);
        }
        jitcode_free(code);
    }
}

/* ---- a live one -------------------------------------------------------------------------- */

/* Everything that node writes is understood, to the last byte. */
static void a_dump_of_nodes_is_read_whole(void **state)
{
    (void)state;
    if (system("node --version >node-version 2>&1") != 0) {
        unlink("node-version");
        skip();
    }
    unlink("node-version");
    char dir[] = "jitdump-node-XXXXXX", command[512], path[96];
    assert_non_null(mkdtemp(dir));
    snprintf(
        command, sizeof(command),
        "cd %s && node --perf-prof --perf-prof-unwinding-info -e 'function hot(n) { let s = 0; "
        "for (let i = 0; i < n; i++) s += i %% 7; return s } for (let i = 0; i < 3000; i++) "
        "hot(1000)' && mv jit-*.dump dump",
        dir);
    assert_int_equal(system(command), 0);
    struct jitcode *code;
    snprintf(path, sizeof(path), "%s/dump", dir);
    assert_int_equal(jitdump_load(path, NULL, &code, NULL), 0);
    const struct jit_loss *loss = jitcode_loss(code);
    assert_int_equal(loss->records_bad + loss->records_unknown + loss->bytes_cut, 0);
    bool hot = false, lines = false, rules = false;
    for (size_t i = 0; i < jitcode_count(code); i++) {
        const struct jit_function *f = jitcode_at(code, i);
        struct jit_position p;
        assert_ptr_equal(jitcode_lookup(code, f->start, f->from), f);
        if (!strstr(f->name, "hot"))
            continue;
        hot = true;
        rules |= f->eh_frame != NULL;
        lines |= jit_function_position(f, f->start + f->size / 2, &p) && p.line == 1;
    }
    assert_true(hot && lines && rules);
    jitcode_free(code);
    snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

/* ---- against a naive model ----------------------------------------------------------------- */

enum { MODEL_SIZE = 96, MODEL_TIMES = 160, MODEL_RUNS = 150 };

struct model {
    int owner[MODEL_SIZE]; /* number of the load; -1: none */
    int start[MODEL_TIMES], size[MODEL_TIMES];
};

static void model_end(struct model *m, int function)
{
    for (int i = 0; i < MODEL_SIZE; i++)
        if (m->owner[i] == function)
            m->owner[i] = -1;
}

static void model_load(struct model *m, int number, int start, int size, bool timeless)
{
    for (int i = start; i < start + size; i++)
        if (m->owner[i] >= 0 && !timeless)
            model_end(m, m->owner[i]);
    for (int i = start; i < start + size; i++)
        m->owner[i] = number;
    m->start[number] = start;
    m->size[number] = size;
}

static void agrees_with_a_model(bool timeless)
{
    for (int run = 0; run < MODEL_RUNS; run++) {
        static struct model at[MODEL_TIMES];
        struct model m = {0};
        struct jitdump_options options = {.ignore_times = timeless};
        struct dump d = dump_begin(false, 0, 0);
        memset(m.owner, -1, sizeof(m.owner));
        for (int t = 0; t < MODEL_TIMES; t++) {
            int size = 1 + rand() % (rand() % 4 ? 6 : 40);
            int start = rand() % (MODEL_SIZE - size);
            char name[16];
            snprintf(name, sizeof(name), "%d", t);
            load(&d, (uint64_t)t + 1, (uint64_t)(start + 1), (uint64_t)size, name);
            model_load(&m, t, start, size, timeless);
            at[t] = m;
        }
        struct jitcode *code = finish_with(&d, &options);
        for (int t = 0; t < MODEL_TIMES; t++) {
            const struct model *then = timeless ? &at[MODEL_TIMES - 1] : &at[t];
            for (int i = 0; i < MODEL_SIZE; i++) {
                char expected[16] = "-";
                if (then->owner[i] >= 0)
                    snprintf(expected, sizeof(expected), "%d", then->owner[i]);
                assert_string_equal(name_at(code, (uint64_t)i + 1, (uint64_t)t + 1), expected);
            }
        }
        jitcode_free(code);
    }
}

static void random_loads_agree_with_a_model(void **state)
{
    (void)state;
    srand(1);
    agrees_with_a_model(false);
    agrees_with_a_model(true);
}

/* Small functions, then functions that cover all of them: a table by address would need n * n
 * entries. */
static void overlapping_loads_do_not_blow_up(void **state)
{
    (void)state;
    struct dump d = dump_begin(false, 0, 0);
    enum { NR = 20000 };
    for (uint64_t i = 0; i < NR; i++) {
        load(&d, 1, 0x100000 + i * 16, 16, "small");
    }
    for (uint64_t i = 0; i < NR; i++) {
        record(&d, 0, 40 + 6, 2 + i); /* a LOAD without its code */
        u32(&d, 1);
        u32(&d, 1);
        u64(&d, 0x100000);
        u64(&d, 0x100000 + i % 7);
        u64(&d, NR * 16 - 7);
        u64(&d, i);
        string(&d, "large");
    }
    struct jitcode *code = finish(&d);
    assert_int_equal(jitcode_count(code), 2 * NR);
    assert_string_equal(name_at(code, 0x100000 + 8, 1), "small");
    const struct jit_function *f = jitcode_lookup(code, 0x100000 + 8000, 2 + 1234);
    assert_int_equal(f->index, 1234);
    assert_null(f->code);
    jitcode_free(code);
}

/* ---- threads ----------------------------------------------------------------------------- */

static void *ask(void *context)
{
    const struct jitcode *code = context;
    struct jit_position p;
    for (size_t i = 0; i < jitcode_count(code); i++) {
        const struct jit_function *f = jitcode_at(code, i);
        if (jitcode_lookup(code, f->start, 2) != f || !jit_function_position(f, f->start, &p) ||
            p.line != i)
            return context;
    }
    return NULL;
}

static void threads_may_ask_at_once(void **state)
{
    (void)state;
    struct dump d = dump_begin(false, 0, 0);
    for (uint32_t i = 0; i < 2000; i++) {
        struct row row = {0x1000 + 16 * i, i, 0, "f"};
        debug_info(&d, row.address, &row, 1);
        load(&d, 1, row.address, 16, "f");
    }
    struct jitcode *code = finish(&d);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, code), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    jitcode_free(code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_functions_in_both_byte_orders),
        cmocka_unit_test(an_empty_dump_has_no_functions),
        cmocka_unit_test(skips_unknown_records_and_counts_bad_ones),
        cmocka_unit_test(a_cut_tail_loses_only_itself),
        cmocka_unit_test(a_record_smaller_than_its_header_ends_reading),
        cmocka_unit_test(zeros_behind_the_last_record_are_no_loss),
        cmocka_unit_test(refuses_what_is_no_jitdump),
        cmocka_unit_test(a_later_load_ends_whatever_it_overlaps),
        cmocka_unit_test(records_out_of_order_are_played_in_order),
        cmocka_unit_test(a_move_ends_here_and_begins_there),
        cmocka_unit_test(without_times_the_last_load_wins_where_it_is),
        cmocka_unit_test(tsc_stamps_are_converted_or_ignored),
        cmocka_unit_test(unwinding_info_belongs_to_the_next_load),
        cmocka_unit_test(unwinding_info_that_lies_is_not_used),
        cmocka_unit_test(positions_come_from_the_row_before),
        cmocka_unit_test(v8_counts_rows_from_an_elf_header),
        cmocka_unit_test(a_row_count_that_lies_reads_what_is_there),
        cmocka_unit_test(inlined_lua_functions_come_from_snapshots),
        cmocka_unit_test(a_layout_beyond_the_object_is_not_used),
        cmocka_unit_test(a_trace_belongs_to_the_load_of_its_index),
        cmocka_unit_test(without_code_offsets_guards_tell_the_snapshot),
        cmocka_unit_test(a_comparisons_line_is_its_own),
        cmocka_unit_test(a_flush_ends_everything),
        cmocka_unit_test(lua_records_that_lie_do_no_harm),
        cmocka_unit_test(a_dump_of_nodes_is_read_whole),
        cmocka_unit_test(random_loads_agree_with_a_model),
        cmocka_unit_test(overlapping_loads_do_not_blow_up),
        cmocka_unit_test(threads_may_ask_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
