/* SPDX-License-Identifier: GPL-2.0-only */
/* Fields of script's text that few machines record. The layout is perf script's. */
#include "output/output.h"
#include "perfdata_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Replay the fixture's recording with these fields. Returns the text; NULL: `err` says why not. */
static char *print(struct fixture *f, const char *fields, struct error *err)
{
    char *path = fixture_write(f, false), *text = NULL;
    char name[] = "/tmp/script-test-XXXXXX", *copy = strdup(fields), *rest = copy;
    int fd = mkstemp(name);
    struct script_options o = {.fd = fd};
    const struct replay_options options = {.input = path, .threads = 1};
    struct replay *r;
    struct script *s;
    assert_true(fd >= 0);
    unlink(name);
    for (char *one; (one = strsep(&rest, ","));)
        o.fields |= script_field(one);
    assert_int_equal(replay_create(&options, &r, NULL), 0);
    if (script_create(&o, r, &s, err) == 0) {
        const struct replay_sink sink = script_sink(s);
        assert_int_equal(replay_run(r, &sink, NULL), 0);
        off_t size = lseek(fd, 0, SEEK_END);
        text = calloc(1, (size_t)size + 1);
        assert_non_null(text);
        assert_int_equal(pread(fd, text, (size_t)size, 0), size);
        script_free(s);
    }
    replay_free(r);
    close(fd);
    unlink(path);
    free(path);
    free(copy);
    fixture_free(f);
    return text;
}

static void expect(struct fixture *f, const char *fields, const char *want)
{
    struct error err = {0};
    char *text = print(f, fields, &err);
    assert_non_null(text);
    assert_string_equal(text, want);
    free(text);
}

static void expect_error(struct fixture *f, const char *fields, const char *want)
{
    struct error err = {0};
    assert_null(print(f, fields, &err));
    assert_non_null(strstr(err.text, want));
}

static struct fixture *make(uint64_t more, bool swap)
{
    struct fixture *f = fixture_create(swap);
    struct perf_event_attr attr = fixture_attr;
    attr.sample_type |= more;
    attr.branch_sample_type = more & PERF_SAMPLE_BRANCH_STACK ? PERF_SAMPLE_BRANCH_ANY : 0;
    fixture_event(f, &attr, (uint64_t[]){7}, 1);
    fixture_comm(f, 1, 1, "sh", 100);
    fixture_mmap2(f, &(struct fixture_mmap){.pid = 1,
                                            .tid = 1,
                                            .prot = 5,
                                            .flags = 2,
                                            .addr = 0x400000,
                                            .len = 0x10000,
                                            .time = 110,
                                            .filename = "/no such/file"});
    return f;
}

static void begin_sample(struct fixture *f)
{
    fixture_begin(f, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
    fixture_u64(f, 0x402000);
    fixture_u32(f, 1);
    fixture_u32(f, 1);
    fixture_u64(f, 2000);
}

static void branch(struct fixture *f, uint64_t from, uint64_t to, uint64_t flags)
{
    fixture_u64(f, from);
    fixture_u64(f, to);
    fixture_u64(f, flags);
}

static struct fixture *make_branches(bool swap, const uint64_t flags[3])
{
    struct fixture *f = make(PERF_SAMPLE_BRANCH_STACK, swap);
    begin_sample(f);
    fixture_u64(f, 3);
    branch(f, 0x401000, 0x402000, flags[0]);
    branch(f, 0x401100, 0x999, flags[1]);
    branch(f, 1, 2, flags[2]);
    fixture_end(f);
    return f;
}

static void branches(void **state)
{
    (void)state;
    const uint64_t flags[] = {2 | 5 << 4, 1 | 4 | 8 | 0xffff << 4 | 3 << 20, 0};
    expect(make_branches(false, flags), "comm,brstack",
           "              sh  0x401000/0x402000/P/-/-/5/  0x401100/0x999/M/X/A/65535/IND "
           " 0x1/0x2/-/-/-/0/ \n");
    expect(make_branches(false, flags), "dso,brstack",
           " 0x401000(/no%20such/file)/0x402000(/no%20such/file)/P/-/-/5/ "
           " 0x401100(/no%20such/file)/0x999([unknown])/M/X/A/65535/IND "
           " 0x1([unknown])/0x2([unknown])/-/-/-/0/ \n");
}

/* A big-endian machine has the flags in the highest bits. */
static void branches_of_the_other_byte_order(void **state)
{
    (void)state;
    const uint64_t flags[] = {UINT64_C(1) << 62 | UINT64_C(5) << 44,
                              UINT64_C(0xb) << 60 | UINT64_C(0xffff) << 44 | UINT64_C(3) << 40, 0};
    expect(make_branches(true, flags), "brstack",
           " 0x401000/0x402000/P/-/-/5/  0x401100/0x999/M/X/A/65535/IND  0x1/0x2/-/-/-/0/ \n");
}

static struct fixture *make_groups(uint64_t id)
{
    struct fixture *f = make(PERF_SAMPLE_CGROUP, false);
    fixture_begin(f, PERF_RECORD_CGROUP, 0);
    fixture_u64(f, 77);
    fixture_string(f, "/user slice\033[1m");
    fixture_trailer(f, 0, 0, 120, 0);
    fixture_end(f);
    begin_sample(f);
    fixture_u64(f, id);
    fixture_end(f);
    return f;
}

static void control_groups(void **state)
{
    (void)state;
    expect(make_groups(77), "comm,cgroup", "              sh  /user%20slice%1B[1m\n");
    expect(make_groups(78), "comm,cgroup", "              sh  unknown\n");
}

static void what_was_not_recorded(void **state)
{
    (void)state;
    expect_error(make(0, false), "comm,brstack", "record -b");
    expect_error(make(0, false), "comm,cgroup", "--all-cgroups");
    struct fixture *f = make(0, false);
    begin_sample(f);
    fixture_end(f);
    expect(f, "comm,insn,insnlen", "              sh  ilen: 0\n"); /* the file is not there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches),
        cmocka_unit_test(branches_of_the_other_byte_order),
        cmocka_unit_test(control_groups),
        cmocka_unit_test(what_was_not_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
