/* SPDX-License-Identifier: GPL-2.0-only */
/* perf unwinds a recording without the stale part of its stack copies in the same way as the whole
 * recording. */
#include "perfdata/trim.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static const char program[] =
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; "
    "}\n"
    "__attribute__((noinline)) long deep(int d, long x) { char room[300]; memset(room, d, 300);\n"
    "  if (d) return deep(d - 1, x + 1) + room[x % 300];\n"
    "  int v[500]; for (int i = 0; i < 500; i++) v[i] = (x * i * 7919) % 1000;\n"
    "  qsort(v, 500, sizeof(*v), compare); return v[0]; }\n"
    "int main(void) { long s = 0; for (int i = 0; i < 16000; i++) s += deep(i % 100, i);\n"
    "  return s == 1; }\n";

static int setup(void **state)
{
    (void)state;
    strcpy(scratch_folder, "/tmp/record-trim-XXXXXX");
    return mkdtemp(scratch_folder) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    shell("rm -rf %s", scratch_folder);
    return 0;
}

static void write_one(const struct perfdata *pd, const struct record *rec,
                      struct perfdata_writer *w)
{
    struct error err = {0};
    struct sample s;
    struct trimmed t;
    if (rec->type != PERF_RECORD_SAMPLE) {
        assert_int_equal(perfdata_writer_record(w, rec->data, rec->size, &err), 0);
        return;
    }
    if (perfdata_sample_parse(perfdata_event(pd, rec->event), rec->data, rec->size, &s, &err) < 0)
        fail_msg("%s", err.text);
    sample_trim((const struct perf_event_header *)rec->data, &s, &t);
    assert_int_equal(perfdata_writer_parts(w, t.parts, t.nr, &err), 0);
}

static void rewrite(const char *from, const char *to)
{
    const struct perfdata_options options = {.unordered = true, .raw = true, .keep_whole = true};
    struct error err = {0};
    struct record_batch b = {0};
    struct perfdata *pd;
    struct perfdata_writer *w;
    if (perfdata_open(from, &options, &pd, &err) < 0 ||
        perfdata_writer_create(to, &(struct perfdata_writer_options){0}, perfdata_event(pd, 0), 1,
                               &w, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(perfdata_nr_events(pd), 1);
    while (perfdata_read(pd, 64, &b, &err) == 0 && b.nr) {
        for (size_t i = 0; i < b.nr; i++)
            write_one(pd, &b.records[i], w);
        perfdata_release(pd, &b);
    }
    if (perfdata_writer_finish(w, &err) < 0)
        fail_msg("%s", err.text);
    perfdata_writer_destroy(w);
    record_batch_free(&b);
    perfdata_close(pd);
}

static void test_perf_unwinds_the_same(void **state)
{
    (void)state;
    struct stat whole, trimmed;
    FILE *f = fopen(path("p.c"), "w");
    assert_non_null(f);
    fputs(program, f);
    fclose(f);
    if (system("perf record -q -e cpu-clock -o /dev/null true >/dev/null 2>&1") != 0)
        skip(); /* perf is missing or may not record */
    shell("gcc -g -O1 -o p p.c");
    shell(
        "perf record -q -e cpu-clock -F 2999 --call-graph=dwarf,65528 -k mono -m 16M -o whole.data "
        "./p");
    rewrite(path("whole.data"), path("trimmed.data"));
    for (int i = 0; i < 2; i++)
        shell("perf script --no-inline -F comm,tid,time,event,ip,sym,symoff,dso -i %s.data >%s.txt "
              "2>%s.err",
              i ? "trimmed" : "whole", i ? "trimmed" : "whole", i ? "trimmed" : "whole");
    shell("test $(grep -c 'deep+' whole.txt) -gt 1000");
    shell("cmp whole.txt trimmed.txt");
    assert_int_equal(stat(path("whole.data"), &whole), 0);
    assert_int_equal(stat(path("trimmed.data"), &trimmed), 0);
    assert_true(trimmed.st_size < whole.st_size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_perf_unwinds_the_same)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
