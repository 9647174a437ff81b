/* SPDX-License-Identifier: GPL-2.0-only */
/* perf-PID.map files. */
#include "jitdump/jitdump.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct jitcode *map_of(const char *text, size_t size)
{
    char path[] = "perfmap-test-XXXXXX";
    struct jitcode *code = NULL;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), size);
    close(fd);
    assert_int_equal(perfmap_load(path, &code, NULL), 0);
    unlink(path);
    return code;
}

static const char *name_at(const struct jitcode *code, uint64_t address)
{
    const struct jit_function *f = jitcode_lookup(code, address, 12345);
    return f ? f->name : "-";
}

static void reads_lines_with_and_without_0x(void **state)
{
    (void)state;
    static const char text[] = "7f0000002000 40 LazyCompile:*f /a b.js:1\n"
                               "0x1000 0x10 plain\n"
                               "0X3000 1F Upper\r\n"
                               "\n"
                               "4000\t8\ttabs are blanks, too\n";
    struct jitcode *code = map_of(text, sizeof(text) - 1);
    assert_int_equal(jitcode_count(code), 4);
    assert_int_equal(jitcode_loss(code)->records_bad, 0);
    assert_string_equal(name_at(code, 0x7f000000203f), "LazyCompile:*f /a b.js:1");
    assert_string_equal(name_at(code, 0x7f0000002040), "-");
    assert_string_equal(name_at(code, 0x1000), "plain");
    assert_string_equal(name_at(code, 0xfff), "-");
    assert_string_equal(name_at(code, 0x301e), "Upper");
    assert_string_equal(name_at(code, 0x301f), "-");
    assert_string_equal(name_at(code, 0x4000), "tabs are blanks, too");
    const struct jit_function *f = jitcode_lookup(code, 0x1001, 0);
    assert_true(f->from_map);
    assert_int_equal(f->start, 0x1000);
    assert_int_equal(f->size, 0x10);
    assert_null(f->code);
    assert_null(f->eh_frame);
    assert_int_equal(jitcode_pid(code), 0);
    jitcode_free(code);
}

static void later_lines_win_where_they_are(void **state)
{
    (void)state;
    static const char text[] = "1000 100 old\n"
                               "1080 10 middle\n"
                               "1000 20 front\n"
                               "5000 10 gone\n"
                               "4ff0 100 over it\n";
    struct jitcode *code = map_of(text, sizeof(text) - 1);
    assert_string_equal(name_at(code, 0x101f), "front");
    assert_string_equal(name_at(code, 0x1020), "old");
    assert_string_equal(name_at(code, 0x107f), "old");
    assert_string_equal(name_at(code, 0x1080), "middle");
    assert_string_equal(name_at(code, 0x1090), "old");
    assert_string_equal(name_at(code, 0x5008), "over it");
    jitcode_free(code);
}

static void counts_junk(void **state)
{
    (void)state;
    static const char text[] = "not a line\n"
                               "1000\n"
                               "1000 10\n"
                               "1000 10 \n"
                               "1000 g name\n"
                               "0x 10 name\n"
                               "11112222333344445 10 too long\n"
                               "ffffffffffffffff 10 wraps\n"
                               "1000 10 zero\0inside\n"
                               "2000 0 empty\n"
                               "3000 10 good\n4000 10 b\n5000 10 c\n6000 10 d\n7000 10 e\n"
                               "8000 10 f\n9000 10 g\na000 10 h\nb000 10 i\n";
    struct jitcode *code = map_of(text, sizeof(text) - 1);
    assert_int_equal(jitcode_loss(code)->records_bad, 9);
    assert_int_equal(jitcode_count(code), 9);
    assert_string_equal(name_at(code, 0x3000), "good");
    jitcode_free(code);
}

/* Another file under a map's name, such as one that only root can read. */
static void refuses_text_that_is_no_map(void **state)
{
    (void)state;
    static const char text[] = "root:$6$salt$abcdef:19000:0:99999:7:::\n"
                               "daemon:*:19000:0:99999:7:::\n"
                               "1000 10 a line that could be one\n";
    char path[] = "/tmp/test_perfmap.XXXXXX";
    struct jitcode *code;
    struct error err;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, sizeof(text) - 1) == sizeof(text) - 1);
    close(fd);
    assert_int_equal(perfmap_load(path, &code, &err), -1);
    assert_non_null(strstr(err.text, "this is no perf map"));
    unlink(path);
}

static void does_not_believe_a_line_that_was_not_finished(void **state)
{
    (void)state;
    static const char text[] = "1000 10 whole\n2000 10 half a na";
    struct jitcode *code = map_of(text, sizeof(text) - 1);
    assert_int_equal(jitcode_count(code), 1);
    assert_int_equal(jitcode_loss(code)->bytes_cut, 17);
    jitcode_free(code);
}

static void an_empty_map_is_a_map(void **state)
{
    (void)state;
    struct jitcode *code = map_of("", 0);
    assert_int_equal(jitcode_count(code), 0);
    assert_string_equal(name_at(code, 0x1000), "-");
    jitcode_free(code);
}

static void refuses_what_is_no_file(void **state)
{
    (void)state;
    struct jitcode *code;
    struct error err;
    assert_int_equal(perfmap_load("no/such/file", &code, &err), -1);
    assert_int_equal(perfmap_load("/tmp", &code, &err), -1);
    assert_int_equal(perfmap_load("/dev/null", &code, &err), -1);
}

/* 400,000 lines that name each place ten times: the last name of a place is found. */
static void large_maps_keep_the_last_of_each(void **state)
{
    (void)state;
    enum { PLACES = 40000, TIMES = 10 };
    size_t cap = (size_t)PLACES * TIMES * 40, size = 0;
    char *text = malloc(cap);
    for (int t = 0; t < TIMES; t++)
        for (int i = 0; i < PLACES; i++)
            size += (size_t)snprintf(text + size, cap - size, "%x 20 f%d.%d\n",
                                     0x10000 + (i * 7919 % PLACES) * 32, i, t);
    struct jitcode *code = map_of(text, size);
    free(text);
    assert_int_equal(jitcode_count(code), PLACES * TIMES);
    for (int i = 0; i < PLACES; i += 97) {
        char expected[32];
        snprintf(expected, sizeof(expected), "f%d.%d", i, TIMES - 1);
        assert_string_equal(name_at(code, 0x10000 + (uint64_t)(i * 7919 % PLACES) * 32 + 31),
                            expected);
    }
    jitcode_free(code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_lines_with_and_without_0x),
        cmocka_unit_test(later_lines_win_where_they_are),
        cmocka_unit_test(counts_junk),
        cmocka_unit_test(refuses_text_that_is_no_map),
        cmocka_unit_test(does_not_believe_a_line_that_was_not_finished),
        cmocka_unit_test(an_empty_map_is_a_map),
        cmocka_unit_test(refuses_what_is_no_file),
        cmocka_unit_test(large_maps_keep_the_last_of_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
