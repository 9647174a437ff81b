/* SPDX-License-Identifier: GPL-2.0-only */
/* Parts of the recorder that need no kernel: options, event names, trimming, rings. */
#include "base/cursor.h"
#include "record/offline.h"
#include "record/options.h"
#include "record/rings.h"
#include "record/synthesize.h"
#include "record/target.h"
#include "perfdata/trim.h"
#include "scratch.h"

#include <fcntl.h>
#include <perf/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "kernel_fixture.h"

/* ---- options ------------------------------------------------------------------------------- */

static int parse(struct record_options *o, struct error *err, char **argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    *err = (struct error){0};
    struct options_parsed parsed;
    return record_options_parse(argc, argv, o, &parsed, err);
}

#define PARSE(...) parse(&o, &err, (char *[]){"record", __VA_ARGS__, NULL})

static void assert_refused(const char *said, char **argv)
{
    struct record_options o;
    struct error err;
    assert_int_equal(parse(&o, &err, argv), -1);
    if (!strstr(err.text, said))
        fail_msg("'%s' does not say '%s'", err.text, said);
    record_options_free(&o);
}

#define REFUSED(said, ...) assert_refused(said, (char *[]){"record", __VA_ARGS__, NULL})

static void test_lists_of_cpus(void **state)
{
    (void)state;
    for (int cpu = 0; cpu < 12; cpu++)
        assert_int_equal(offline_list_has("0-3,5,9-10", cpu),
                         cpu <= 3 || cpu == 5 || cpu == 9 || cpu == 10);
    assert_true(offline_list_has("0", 0));
    assert_false(offline_list_has("", 0));
    assert_false(offline_list_has("nonsense", 0));
}

static void test_defaults(void **state)
{
    (void)state;
    struct record_options o;
    struct error err;
    assert_int_equal(PARSE("ls", "-F", "7"), 0);
    assert_string_equal(o.command[0], "ls"); /* options after the command are the command's */
    assert_string_equal(o.command[1], "-F");
    assert_int_equal(o.frequency, 4000);
    assert_int_equal(o.callgraph, CALLGRAPH_DWARF);
    assert_int_equal(o.stack_size, 65528);
    assert_true(o.use_clockid);
    assert_int_equal(o.clockid, CLOCK_MONOTONIC);
    assert_int_equal(o.events.nr, 1);
    assert_true(o.events.at[0].by_default);
    assert_string_equal(o.events.at[0].name, "cycles");
    assert_false(o.no_inherit);
    record_options_free(&o);
}

static void test_values(void **state)
{
    (void)state;
    struct record_options o;
    struct error err;
    assert_int_equal(PARSE("-e", "cpu-clock:u,task-clock", "-e", "r1a3:k", "-F", "max", "-p",
                           "3,44", "--call-graph", "dwarf,1001", "-k", "CLOCK_BOOTTIME", "-z7",
                           "-m", "16M", "-o", "x", "-D", "20", "-i", "-q", "--no-vm", "--", "sleep",
                           "1"),
                     0);
    assert_int_equal(o.events.nr, 3);
    assert_true(o.events.at[0].attr.exclude_kernel && !o.events.at[0].attr.exclude_user);
    assert_int_equal(o.events.at[1].attr.config, PERF_COUNT_SW_TASK_CLOCK);
    assert_int_equal(o.events.at[2].attr.type, PERF_TYPE_RAW);
    assert_int_equal(o.events.at[2].attr.config, 0x1a3);
    assert_true(o.events.at[2].attr.exclude_user && !o.events.at[2].attr.exclude_kernel);
    assert_true(o.max_frequency);
    assert_int_equal(o.pids.nr, 2);
    assert_int_equal(o.pids.at[1], 44);
    assert_int_equal(o.stack_size, 1008); /* perf rounds up to a multiple of 8, too */
    assert_int_equal(o.clockid, CLOCK_BOOTTIME);
    assert_int_equal(o.zstd_level, 7);
    assert_int_equal(o.ring_bytes, 16 << 20);
    assert_int_equal(o.delay_ms, 20);
    assert_true(o.no_inherit && o.quiet && o.no_vm);
    assert_string_equal(o.command[0], "sleep");
    record_options_free(&o);
    assert_int_equal(PARSE("-a"), 0);
    assert_int_equal(o.zstd_level, 1); /* files are compressed */
    record_options_free(&o);
    assert_int_equal(PARSE("-a", "-o", "-"), 0);
    assert_int_equal(o.zstd_level, 0);
    record_options_free(&o);
    assert_int_equal(PARSE("-a", "-z0"), 0);
    assert_int_equal(o.zstd_level, 0);
    record_options_free(&o);
    assert_int_equal(PARSE("-z", "-a", "--call-graph=fp", "--switch-output=2m", "--max-size", "3G"),
                     0);
    assert_int_equal(o.zstd_level, 1);
    assert_int_equal(o.callgraph, CALLGRAPH_FP);
    assert_int_equal(o.switch_mode, SWITCH_TIME);
    assert_true(o.switch_ns == UINT64_C(120000000000));
    assert_true(o.max_size == UINT64_C(3) << 30);
    record_options_free(&o);
    assert_int_equal(PARSE("--call-graph", "fp", "-g", "ls"), 0);
    assert_int_equal(o.callgraph, CALLGRAPH_FP);
    record_options_free(&o);
    assert_int_equal(PARSE("-d", "0.25", "-a"), 0);
    assert_true(o.duration_ns == 250000000);
    record_options_free(&o);
    assert_int_equal(PARSE("-g", "--call-graph", "none", "ls"), 0);
    assert_int_equal(o.callgraph, CALLGRAPH_NONE);
    record_options_free(&o);
    assert_int_equal(PARSE("-g", "ls"), 0);
    assert_int_equal(o.callgraph, CALLGRAPH_DWARF);
    record_options_free(&o);
    assert_int_equal(PARSE("-a", "--switch-output=2M"), 0);
    assert_int_equal(o.switch_mode, SWITCH_SIZE);
    assert_int_equal(o.switch_size, 2 << 20);
    record_options_free(&o);
    assert_int_equal(PARSE("-a", "--switch-output"), 0);
    assert_int_equal(o.switch_mode, SWITCH_SIGNAL);
    record_options_free(&o);
}

/* What is recorded only if it is asked for, by perf's names. */
static void test_extras(void **state)
{
    (void)state;
    struct record_options o;
    struct error err;
    assert_int_equal(
        PARSE("-s", "-W", "--data", "--namespaces", "--switch-events", "--all-cgroups", "-b", "ls"),
        0);
    assert_true(o.stat && o.weight && o.data && o.namespaces && o.switch_events && o.all_cgroups);
    assert_true(o.branches == PERF_SAMPLE_BRANCH_ANY);
    assert_false(o.no_samples || o.no_vm);
    record_options_free(&o);
    assert_int_equal(PARSE("-j", "u,any_call,ind_call", "-n", "ls"), 0);
    assert_true(o.branches == (PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_ANY_CALL |
                               PERF_SAMPLE_BRANCH_IND_CALL));
    assert_true(o.no_samples && o.no_vm); /* there is nothing to copy */
    record_options_free(&o);
    assert_int_equal(PARSE("-j", "k,save_type", "ls"), 0); /* no kind: any */
    assert_true(o.branches == (PERF_SAMPLE_BRANCH_KERNEL | PERF_SAMPLE_BRANCH_TYPE_SAVE |
                               PERF_SAMPLE_BRANCH_ANY));
    record_options_free(&o);
}

static void test_refusals(void **state)
{
    (void)state;
    assert_refused("nothing to record is named", (char *[]){"record", NULL});
    REFUSED("switch `p' expects a list of numbers", "-p", "12,x");
    REFUSED("switch `p' expects a list of numbers", "-p", "0");
    REFUSED("switch `t' expects a list of numbers", "-t", "99999999999");
    REFUSED("-G and -p, -t or -u exclude each other", "-G", "x", "-p", "1");
    REFUSED("-G takes one control group", "-G", "x,y");
    REFUSED("-G and -p, -t or -u exclude each other", "--cgroup=x", "-t", "1");
    REFUSED("-G and --off-cpu exclude each other", "-G", "x", "--off-cpu");
    REFUSED("option `--per-thread': leave it out; -t TID", "--per-thread", "ls");
    REFUSED("option `--overwrite': --switch-output=10s", "--overwrite", "ls");
    REFUSED("option `-I': leave it out, or record with perf", "-I", "ls");
    REFUSED("switch `d' expects seconds (as 10 or 0.5), not `ls': perf's -d is --data here", "-d",
            "ls");
    REFUSED("expects u,k,hv,any,", "-j", "any,all", "ls");
    REFUSED("option `filter' has to follow the -e", "--filter", "prio > 1", "-e", "cpu-clock",
            "ls");
    REFUSED("for tracepoints and probes, which `cpu-clock' is not", "-e", "cpu-clock", "--filter",
            "prio > 1", "ls");
    REFUSED("exclude each other", "-n", "--off-cpu", "ls");
    REFUSED("expects 0.001 to 1e+09 seconds", "--duration", "0", "ls");
    REFUSED("does not have perf record's option `--aio'", "--aio=3", "ls");
    REFUSED("unknown switch `X'", "-qX", "ls");
    REFUSED("from 1 to 99", "-r", "100", "ls");
    REFUSED("cannot write to a pipe", "--timestamp-filename", "-o", "-", "ls");
    REFUSED("8 to 65528", "--call-graph=dwarf,70000", "ls");
    REFUSED("lbr", "--call-graph=lbr", "ls");
    REFUSED("expects mono, raw, real, boot or tai, not `sundial'", "-k", "sundial", "ls");
    REFUSED("expects a size of 1G at most, in pages or as 512K or 16M, not `2G'", "-m", "2G", "ls");
    REFUSED("expects a size of 1G at most, in pages or as 512K or 16M, not `0'", "-m", "0", "ls");
    REFUSED("expects a level from 0 to 22, not `99'", "-z99", "ls");
    REFUSED("option `switch-output' expects signal", "--switch-output=often", "ls");
    REFUSED("no such event", "-e", "cylces", "ls");
    REFUSED("no such event", "-e", "r", "ls");
    REFUSED("cycles:pppp", "-e", "cycles:pppp", "ls");
    REFUSED("name the events one by one, without braces", "-e", "{cycles,instructions}", "ls");
    REFUSED("not a list of events", "-e", "cycles,,", "ls");
    REFUSED("no PMU", "-e", "nothing/event=1/", "ls");
    REFUSED("switch `F' requires a value", "-F");
    REFUSED("leave nothing", "--all-user", "--all-kernel", "ls");
}

static void test_ring_sizes(void **state)
{
    (void)state;
    uint64_t bytes;
    assert_int_equal(ring_size_parse("3", 4096, &bytes), 0);
    assert_int_equal(bytes, 4 * 4096); /* pages, rounded up to a power of two */
    assert_int_equal(ring_size_parse("1000K", 4096, &bytes), 0);
    assert_int_equal(bytes, 1 << 20);
    assert_int_equal(ring_size_parse("1B", 4096, &bytes), 0);
    assert_int_equal(bytes, 4096);
    assert_int_equal(ring_size_parse("1T", 4096, &bytes), -1);
    assert_int_equal(ring_size_parse("99999999999999999999", 4096, &bytes), -1);
}

/* An event that is opened twice for a thread would give each sample twice. */
static void test_tasks_are_listed_once(void **state)
{
    (void)state;
    struct record_options o;
    struct error err;
    char self[32], twice[64];
    pid_vec tids = {0}, pids = {0};
    const size_t threads = kernel_threads(); /* (an emulator has one more) */
    snprintf(self, sizeof(self), "%d", getpid());
    snprintf(twice, sizeof(twice), "%d,%d", getpid(), getpid());
    assert_int_equal(PARSE("-p", twice, "-t", self), 0);
    assert_int_equal(tasks_list(&o, &tids, &pids, &err), 0);
    assert_int_equal(tids.nr, threads);
    assert_int_equal(pids.nr, 1);
    record_options_free(&o);
    assert_int_equal(PARSE("-t", twice, "-t", "1", "-t", "1"), 0);
    assert_int_equal(tasks_list(&o, &tids, &pids, &err), 0);
    assert_int_equal(tids.nr, 2);
    assert_int_equal(tids.at[0], 1);
    assert_int_equal(tids.at[1], getpid());
    assert_int_equal(pids.nr, 2);
    record_options_free(&o);
    vec_free(&tids);
    vec_free(&pids);
}

static void test_cache_events(void **state)
{
    (void)state;
    event_spec_vec specs = {0};
    struct error err;
    assert_int_equal(event_specs_parse("L1-dcache-load-misses,LLC-stores", &specs, &err), 0);
    assert_int_equal(specs.at[0].attr.type, PERF_TYPE_HW_CACHE);
    assert_int_equal(specs.at[0].attr.config, 0x10000);
    assert_int_equal(specs.at[1].attr.config, 0x102);
    assert_int_equal(event_spec_to_clock(&specs.at[0], &err), 0);
    assert_string_equal(specs.at[0].name, "cpu-clock");
    event_specs_free(&specs);
}

/* ---- synthesized records ------------------------------------------------------------------- */

struct ids_seen {
    const char *name;
    unsigned with, without; /* maps of that file with and without a build id */
};

static int see_map(void *context, const void *record, size_t size, struct error *err)
{
    struct ids_seen *seen = context;
    const struct perf_record_mmap2 *r = record;
    (void)size, (void)err;
    if (r->header.type != PERF_RECORD_MMAP2 || strcmp(r->filename, seen->name) != 0)
        return 0;
    if (r->header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID)
        seen->with++;
    else
        seen->without++;
    return 0;
}

static void map_code(void *at, const char *path)
{
    enum { PAGE = 4096 };
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(mmap(at, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) == at);
    close(fd);
}

/* The first mapping of a file may be one through which the file cannot be read. */
static void test_build_id_that_was_not_read_at_first(void **state)
{
    (void)state;
    enum { ROOM = 1 << 16 };
    struct error err;
    shell("cp /proc/%d/exe first && ln first second", getpid());
    uint8_t *room = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(room != MAP_FAILED);
    map_code(room, path("first"));
    map_code(room + ROOM / 2, path("second"));
    shell("rm first");
    struct ids_seen seen = {.name = path("second")};
    struct synthesis s = {
        .put = see_map, .context = &seen, .build_ids = true, .cache = id_cache_create()};
    assert_int_equal(synthesize_process(&s, getpid(), &err), 0);
    assert_int_equal(seen.with, 1);
    assert_int_equal(seen.without, 0);
    id_cache_free(s.cache);
    munmap(room, ROOM);
}

static int make_scratch(void **state)
{
    (void)state;
    strcpy(scratch_folder, "/tmp/ljperf-test-XXXXXX");
    return mkdtemp(scratch_folder) ? 0 : -1;
}

static int remove_scratch(void **state)
{
    (void)state;
    shell("rm -rf '%s'", scratch_folder);
    return 0;
}

/* ---- trimming ------------------------------------------------------------------------------ */

enum { NR_REGS = 3, CHAIN = 2, COPY = 4096 };

struct test_sample {
    struct perf_event_header header;
    uint64_t id, ip;
    uint32_t pid, tid;
    uint64_t time, nr_chain, chain[CHAIN], abi, regs[NR_REGS], stack_size;
    uint8_t stack[COPY];
    uint64_t dyn_size, weight;
};

static const struct perfdata_event event = {
    .attr = {.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
                            PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER |
                            PERF_SAMPLE_STACK_USER | PERF_SAMPLE_WEIGHT,
             .sample_regs_user = 0x7,
             .sample_stack_user = COPY}};

static void make_sample(struct test_sample *s, uint64_t dyn_size)
{
    *s = (struct test_sample){.header = {PERF_RECORD_SAMPLE, 2, sizeof(*s)},
                              .id = 9,
                              .ip = 0x1234,
                              .pid = 5,
                              .tid = 6,
                              .time = 77,
                              .nr_chain = CHAIN,
                              .chain = {1, 2},
                              .abi = 2,
                              .regs = {10, 11, 12},
                              .stack_size = COPY,
                              .dyn_size = dyn_size,
                              .weight = 4711};
    for (size_t i = 0; i < COPY; i++)
        s->stack[i] = (uint8_t)(i < dyn_size ? i * 7 + 1 : 0xee);
}

/* Trims a sample, puts its parts together, and parses the result. */
static size_t trim(const struct test_sample *from, uint8_t *out, struct sample *ret)
{
    struct error err = {0};
    struct sample s;
    struct trimmed t;
    size_t size = 0;
    assert_int_equal(perfdata_sample_parse(&event, from, sizeof(*from), &s, &err), 0);
    sample_trim(&from->header, &s, &t);
    assert_true(t.nr <= TRIM_PARTS);
    for (int i = 0; i < t.nr; i++) {
        memcpy(out + size, t.parts[i].iov_base, t.parts[i].iov_len);
        size += t.parts[i].iov_len;
    }
    assert_int_equal(((struct perf_event_header *)out)->size, size);
    if (perfdata_sample_parse(&event, out, size, ret, &err) < 0)
        fail_msg("%s", err.text);
    return size;
}

static void test_trim(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 7, 8, 9, 800, COPY - 16, COPY - 9, COPY - 8, COPY};
    struct test_sample *s = malloc(sizeof(*s));
    uint8_t *out = malloc(sizeof(*s));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct sample r;
        uint64_t dyn = sizes[i];
        make_sample(s, dyn);
        size_t size = trim(s, out, &r);
        assert_int_equal(size % 8, 0);
        assert_true(r.stack_dyn_size == dyn);
        assert_true(size <= sizeof(*s) - COPY + dyn + 8);
        /* The result still shows whether the stack ended before the copy did. */
        assert_int_equal(r.stack_dyn_size < r.stack_size, dyn < COPY);
        assert_memory_equal(r.stack, s->stack, dyn);
        for (uint64_t j = dyn; dyn < COPY - 8 && j < r.stack_size; j++)
            assert_int_equal(r.stack[j], 0); /* no foreign bytes */
        assert_int_equal(r.weight, 4711);
        assert_int_equal(r.time, 77);
        assert_int_equal(sample_callchain_at(&r, 1), 2);
        uint64_t reg;
        assert_true(sample_user_reg(&r, 2, &reg) && reg == 12);
    }
    free(out);
    free(s);
}

static void test_parse_checks_lengths(void **state)
{
    (void)state;
    struct test_sample *s = malloc(sizeof(*s));
    struct error err;
    struct sample r;
    make_sample(s, 100);
    for (size_t size = 0; size < sizeof(*s); size += 8) {
        s->header.size = (uint16_t)size;
        assert_int_equal(perfdata_sample_parse(&event, s, sizeof(*s), &r, &err), -1);
    }
    s->header.size = sizeof(*s);
    assert_int_equal(perfdata_sample_parse(&event, s, sizeof(*s) - 1, &r, &err), -1);
    s->dyn_size = COPY + 1;
    assert_int_equal(perfdata_sample_parse(&event, s, sizeof(*s), &r, &err), -1);
    s->dyn_size = 8;
    s->nr_chain = UINT64_MAX / 8;
    assert_int_equal(perfdata_sample_parse(&event, s, sizeof(*s), &r, &err), -1);
    free(s);
}

/* ---- rings --------------------------------------------------------------------------------- */

enum { RING = 1 << 16 };

struct seen {
    uint64_t next; /* number of the next record */
    unsigned records, stop_at;
};

/* Records are numbered and filled with their number. */
static int check_record(void *context, int cpu, const struct perf_event_header *h,
                        struct error *err)
{
    struct seen *seen = context;
    assert_int_equal(cpu, 3);
    for (size_t i = sizeof(*h); i < h->size; i++)
        assert_int_equal(((const uint8_t *)h)[i], (uint8_t)seen->next);
    seen->next++;
    if (++seen->records == seen->stop_at)
        return error_set(err, ERROR_FORMAT, "enough");
    return 0;
}

static void ring_put(struct ring *r, uint64_t number, uint16_t size)
{
    struct perf_event_header h = {PERF_RECORD_SAMPLE, 0, size};
    uint8_t bytes[RING];
    memset(bytes, (uint8_t)number, size);
    memcpy(bytes, &h, sizeof(h));
    for (uint16_t i = 0; i < size; i++)
        r->data[(r->page->data_head + i) & (r->size - 1)] = bytes[i];
    r->page->data_head += size;
}

static void test_ring(void **state)
{
    (void)state;
    struct perf_event_mmap_page page = {0};
    struct ring r = {
        .cpu = 3, .page = &page, .data = malloc(RING), .size = RING, .wrapped = malloc(1 << 16)};
    struct seen seen = {0};
    struct error err;
    bool any = false;
    uint64_t put = 0;
    assert_int_equal(ring_read(&r, check_record, &seen, &any, &err), 0);
    assert_false(any);
    /* Records of 20 KB, three at a time: in most passes one of them wraps. */
    for (int i = 0; i < 50; i++) {
        for (int j = 0; j < 3; j++, put++)
            ring_put(&r, put, (uint16_t)(20000 + 8 * j + 8 * i));
        assert_int_equal(ring_read(&r, check_record, &seen, &any, &err), 0);
        assert_true(any);
        assert_int_equal(seen.next, put);
        assert_true(page.data_tail == page.data_head);
    }
    ring_put(&r, put, 64);
    ring_put(&r, put + 1, 64);
    seen.stop_at = seen.records + 1;
    assert_int_equal(ring_read(&r, check_record, &seen, &any, &err), -1);
    assert_string_equal(err.text, "enough");
    /* Bytes that are no record end the reading, not the program. */
    seen.stop_at = 0;
    page.data_tail = page.data_head;
    memset(r.data, 0, RING);
    page.data_head += 64;
    assert_int_equal(ring_read(&r, check_record, &seen, &any, &err), -1);
    free(r.data);
    free(r.wrapped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_of_cpus),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_extras),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_ring_sizes),
        cmocka_unit_test(test_tasks_are_listed_once),
        cmocka_unit_test(test_cache_events),
        cmocka_unit_test_setup_teardown(test_build_id_that_was_not_read_at_first, make_scratch,
                                        remove_scratch),
        cmocka_unit_test(test_trim),
        cmocka_unit_test(test_parse_checks_lengths),
        cmocka_unit_test(test_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
