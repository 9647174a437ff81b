/* SPDX-License-Identifier: GPL-2.0-only */
/* Allocation traces: what the preload library's writer writes is what the reader reads, of threads,
 * forked and killed processes, too; damaged files are refused. The writer is a part of the test,
 * and runs in processes of its own. */
#include "scratch.h"
#include "alloc/plan.h"
#include "alloc/preload/writer.c"
#include "alloc/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "kernel_fixture.h"

static int setup(void **state)
{
    (void)state;
    strcpy(scratch_folder, "/tmp/alloc_trace.XXXXXX");
    return mkdtemp(scratch_folder) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    shell("rm -rf %s", scratch_folder);
    return 0;
}

/* ---- writing ------------------------------------------------------------------------------- */

static const void *at(uint64_t address)
{
    return (const void *)(uintptr_t)address;
}

static void begin(const char *name)
{
    setenv("LJPERF_ALLOC_TRACE", path(name), 1);
    setenv("LJPERF_ALLOC_RUN", "1234", 1);
    writer_start(0);
}

static void put_realloc(const void *p, const void *old, uint64_t size)
{
    writer_put_long(&(struct writer_long){.operation = TRACE_REALLOC,
                                          .before = writer_ticks_before(),
                                          .address = p,
                                          .old = old,
                                          .size = size});
}

/* Run `write` in a process of its own, which ends by `ends` (0: normally). */
static void in_process(void (*write_it)(void), int ends)
{
    int status;
    shell("rm -f %s/t %s/t.*", scratch_folder, scratch_folder);
    const pid_t pid = fork();
    if (pid == 0) {
        write_it();
        if (ends)
            raise(ends);
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(ends ? WTERMSIG(status) : WEXITSTATUS(status), ends);
    assert_int_equal(WIFSIGNALED(status), ends != 0);
}

static struct alloc_trace *open_trace_file(const char *name)
{
    struct alloc_trace *t = NULL;
    struct error err = {0};
    if (alloc_trace_open(path(name), &t, &err))
        fail_msg("%s", err.text);
    return t;
}

static struct alloc_call next_call(struct alloc_trace *t)
{
    struct alloc_call call;
    struct error err = {0};
    if (alloc_trace_next(t, &call, &err) != 1)
        fail_msg("no call: %s", err.text);
    return call;
}

static void assert_end(struct alloc_trace *t)
{
    struct alloc_call call;
    assert_int_equal(alloc_trace_next(t, &call, NULL), 0);
}

/* ---- one thread ---------------------------------------------------------------------------- */

static void write_some(void)
{
    begin("t");
    writer_put(TRACE_MALLOC, at(0x555555550010), 100);
    writer_put(TRACE_CALLOC, at(0x7fffff000000), 1 << 20);
    writer_put(TRACE_MALLOC, NULL, UINT64_MAX); /* failed */
    writer_put_long(&(struct writer_long){
        .operation = TRACE_ALIGNED, .address = at(0x555555560000), .size = 0, .alignment = 12});
    put_realloc(at(0x555555570008), at(0x555555550010), 300);
    put_realloc(NULL, at(0x555555570008), 1 << 30); /* failed: the block stays */
    put_realloc(NULL, at(0x555555560000), 0);       /* freed */
    writer_put(TRACE_FREE, at(0x7fffff000000), 0);
    writer_put(TRACE_FREE, at(0x1), 0); /* of nobody */
    put_realloc(at(0x555555580000), NULL, 7);
}

static void calls_are_read_as_they_were_written(void **state)
{
    (void)state;
    in_process(write_some, 0);
    struct alloc_trace *t = open_trace_file("t");
    struct alloc_call c = next_call(t);
    assert_int_equal(c.operation, TRACE_MALLOC);
    assert_int_equal(c.block, 0);
    assert_int_equal(c.size, 100);
    c = next_call(t);
    assert_int_equal(c.operation, TRACE_CALLOC);
    assert_int_equal(c.size, 1 << 20);
    c = next_call(t);
    assert_int_equal(c.operation, TRACE_ALIGNED);
    assert_int_equal(c.alignment, 12);
    c = next_call(t);
    assert_int_equal(c.operation, TRACE_REALLOC);
    assert_int_equal(c.block, 3);
    assert_int_equal(c.old, 0);
    assert_int_equal(c.old_size, 100);
    assert_int_equal(c.size, 300);
    c = next_call(t);
    assert_int_equal(c.operation, TRACE_FREE);
    assert_int_equal(c.block, 2);
    c = next_call(t);
    assert_int_equal(c.operation, TRACE_FREE);
    assert_int_equal(c.block, 1);
    assert_int_equal(c.old_size, 1 << 20);
    c = next_call(t);
    assert_int_equal(c.operation, TRACE_REALLOC);
    assert_int_equal(c.old, ALLOC_NO_BLOCK);
    assert_end(t);
    const struct alloc_counts *n = alloc_trace_counts(t);
    assert_int_equal(n->live, 307);
    assert_int_equal(n->peak, (1 << 20) + 300);
    assert_int_equal(n->failed, 2);
    assert_int_equal(n->unknown, 1);
    assert_int_equal(n->unfreed, 0);
    assert_int_equal(alloc_counts_calls(n), 10);
    assert_int_equal(n->calls[TRACE_REALLOC], 4);
    assert_int_equal(alloc_trace_info(t)->run, 0x1234);
    assert_int_equal(alloc_trace_info(t)->threads, 1);
    alloc_trace_close(t);
}

static void write_twice(void)
{
    begin("t");
    writer_put(TRACE_MALLOC, at(0x1000), 10);
    writer_put(TRACE_MALLOC, at(0x1000), 20);
    writer_put(TRACE_FREE, at(0x1000), 0);
}

static void a_block_whose_free_is_missing_is_freed_and_counted(void **state)
{
    (void)state;
    in_process(write_twice, 0);
    struct alloc_trace *t = open_trace_file("t");
    assert_int_equal(next_call(t).block, 0);
    struct alloc_call c = next_call(t);
    assert_int_equal(c.operation, TRACE_FREE);
    assert_int_equal(c.block, 0);
    assert_int_equal(next_call(t).block, 1);
    assert_int_equal(next_call(t).block, 1);
    assert_end(t);
    assert_int_equal(alloc_trace_counts(t)->unfreed, 1);
    assert_int_equal(alloc_trace_counts(t)->peak, 20);
    assert_int_equal(alloc_trace_counts(t)->calls[TRACE_FREE], 1);
    alloc_trace_close(t);
}

/* Any addresses and sizes, by a small generator that both sides have. */
enum { MANY = 300000, PLACES = 500 };

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

struct step {
    unsigned place;
    uint64_t address, size;
};

static struct step next_step(uint64_t *state)
{
    const uint64_t r = random_next(state), shift = random_next(state) % 60;
    struct step s = {.place = r % PLACES, .size = random_next(state) >> 4 >> shift};
    s.address =
        (random_next(state) >> random_next(state) % 56) / PLACES * PLACES + s.place + PLACES;
    return s;
}

static void write_many(void)
{
    uint64_t state = 88172645463325252, live[PLACES] = {0};
    begin("t");
    for (unsigned i = 0; i < MANY; i++) {
        const struct step s = next_step(&state);
        if (live[s.place])
            writer_put(TRACE_FREE, at(live[s.place]), 0);
        else
            writer_put(TRACE_MALLOC, at(s.address), s.size % 1000000);
        live[s.place] = live[s.place] ? 0 : s.address;
    }
}

static void any_addresses_and_sizes_are_read_back_over_many_chunks(void **state)
{
    (void)state;
    in_process(write_many, 0);
    struct alloc_trace *t = open_trace_file("t");
    uint64_t random = 88172645463325252, live[PLACES] = {0}, bytes = 0, peak = 0;
    for (unsigned i = 0; i < MANY; i++) {
        const struct step s = next_step(&random);
        const struct alloc_call c = next_call(t);
        assert_int_equal(c.operation, live[s.place] ? TRACE_FREE : TRACE_MALLOC);
        assert_int_equal(live[s.place] ? c.old_size + 1 : c.size + 1,
                         live[s.place] ? live[s.place] : s.size % 1000000 + 1);
        live[s.place] = live[s.place] ? 0 : c.size + 1;
        bytes = bytes + c.size - c.old_size;
        peak = bytes > peak ? bytes : peak;
    }
    assert_end(t);
    assert_int_equal(alloc_trace_counts(t)->peak, peak);
    assert_int_equal(alloc_trace_counts(t)->live, bytes);
    assert_int_equal(alloc_trace_counts(t)->unknown, 0);
    alloc_trace_close(t);
}

/* ---- threads, processes -------------------------------------------------------------------- */

enum { HANDED = 20000 };
static sem_t full, empty;

static void *free_handed(void *context)
{
    (void)context;
    for (unsigned i = 0; i < HANDED; i++) {
        sem_wait(&full);
        writer_put(TRACE_FREE, at(0x2000), 0);
        sem_post(&empty);
    }
    return NULL;
}

static void write_handed(void)
{
    pthread_t thread;
    begin("t");
    sem_init(&full, 0, 0);
    sem_init(&empty, 0, 0);
    writer_put(TRACE_MALLOC, at(0x9000), 1);
    pthread_create(&thread, NULL, free_handed, NULL);
    for (unsigned i = 0; i < HANDED; i++) {
        if (i % 2)
            writer_put(TRACE_MALLOC, at(0x2000), i);
        else
            put_realloc(at(0x2000), NULL, i);
        sem_post(&full);
        sem_wait(&empty);
    }
    pthread_join(thread, NULL);
}

static void calls_of_threads_come_in_their_order(void **state)
{
    (void)state;
    in_process(write_handed, 0);
    struct alloc_trace *t = open_trace_file("t");
    next_call(t);
    for (uint32_t i = 0; i < HANDED; i++) {
        struct alloc_call c = next_call(t);
        assert_int_equal(c.writer, 0);
        assert_int_equal(c.size, i);
        c = next_call(t);
        assert_int_equal(c.operation, TRACE_FREE);
        assert_int_equal(c.writer, 1);
        assert_int_equal(c.block, i + 1);
    }
    assert_end(t);
    assert_int_equal(alloc_trace_info(t)->threads, 2);
    alloc_trace_close(t);
}

static void *allocate_one(void *context)
{
    writer_put(TRACE_MALLOC, context, 1);
    return NULL;
}

static void write_short_threads(void)
{
    pthread_t thread;
    begin("t");
    for (uint64_t i = 1; i <= 200; i++) {
        pthread_create(&thread, NULL, allocate_one, (void *)(uintptr_t)(i << 4));
        pthread_join(thread, NULL);
    }
}

static void threads_that_follow_each_other_share_a_writer(void **state)
{
    (void)state;
    in_process(write_short_threads, 0);
    struct alloc_trace *t = open_trace_file("t");
    assert_int_equal(alloc_trace_count(t, NULL), 0);
    assert_int_equal(alloc_trace_info(t)->threads, 200);
    assert_int_equal(alloc_trace_info(t)->writers, 1);
    assert_int_equal(alloc_trace_counts(t)->calls[TRACE_MALLOC], 200);
    assert_int_equal(alloc_trace_counts(t)->calls[TRACE_THREAD], 200);
    alloc_trace_close(t);
}

static void write_forked(void)
{
    begin("t");
    writer_put(TRACE_MALLOC, at(0x1000), 10);
    const pid_t pid = fork();
    writer_put(pid ? TRACE_MALLOC : TRACE_FREE, at(pid ? 0x3000 : 0x1000), 0);
    if (pid == 0)
        _exit(0);
    FILE *f = fopen(path("child"), "w");
    fprintf(f, "%d", (int)pid);
    fclose(f);
    waitpid(pid, NULL, 0);
    writer_put(TRACE_FREE, at(0x1000), 0);
}

static void a_forked_process_writes_a_trace_of_its_own(void **state)
{
    (void)state;
    need_wipe_on_fork();
    in_process(write_forked, 0);
    shell("mv %s/t.$(cat %s/child) %s/t.forked", scratch_folder, scratch_folder, scratch_folder);
    struct alloc_trace *t = open_trace_file("t");
    assert_int_equal(alloc_trace_count(t, NULL), 0);
    assert_int_equal(alloc_trace_counts(t)->calls[TRACE_MALLOC], 2);
    assert_int_equal(alloc_trace_counts(t)->calls[TRACE_FREE], 1);
    assert_int_equal(alloc_trace_info(t)->flags & TRACE_FORKED, 0);
    const uint32_t pid = alloc_trace_info(t)->pid;
    alloc_trace_close(t);
    t = open_trace_file("t.forked");
    assert_int_equal(alloc_trace_count(t, NULL), 0);
    assert_int_equal(alloc_trace_counts(t)->calls[TRACE_FREE], 1);
    assert_int_equal(alloc_trace_counts(t)->unknown, 1);
    assert_true(alloc_trace_info(t)->flags & TRACE_FORKED);
    assert_int_equal(alloc_trace_info(t)->parent, pid);
    alloc_trace_close(t);
}

static void a_killed_process_has_all_its_calls_in_the_trace(void **state)
{
    (void)state;
    in_process(write_many, SIGKILL);
    struct alloc_trace *t = open_trace_file("t");
    assert_int_equal(alloc_trace_count(t, NULL), 0);
    assert_int_equal(alloc_counts_calls(alloc_trace_counts(t)), MANY);
    alloc_trace_close(t);
}

static void write_within(void)
{
    begin("t");
    writer_put(TRACE_MALLOC, at(0x1000), 10);
    writer_thread.busy = true; /* as for a signal handler in the middle of a record */
    writer_put(TRACE_MALLOC, at(0x2000), 10);
    put_realloc(at(0x3000), NULL, 1);
    writer_thread.busy = false;
    writer_put(TRACE_MALLOC, at(0x4000), 10);
}

static void calls_within_a_record_are_counted_as_lost(void **state)
{
    (void)state;
    in_process(write_within, 0);
    struct alloc_trace *t = open_trace_file("t");
    assert_int_equal(alloc_trace_count(t, NULL), 0);
    assert_int_equal(alloc_trace_counts(t)->calls[TRACE_MALLOC], 2);
    assert_int_equal(alloc_trace_info(t)->lost_within, 2);
    alloc_trace_close(t);
}

static void write_more_than_may_be(void)
{
    const struct rlimit most = {200 << 10, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &most);
    write_many();
}

static void calls_without_room_are_counted_as_lost(void **state)
{
    (void)state;
    in_process(write_more_than_may_be, 0);
    struct alloc_trace *t = open_trace_file("t");
    const struct alloc_trace_info *i = alloc_trace_info(t);
    assert_int_equal(alloc_trace_count(t, NULL), 0);
    assert_true(i->lost_full > 0);
    assert_int_equal(i->full_errno, EFBIG);
    assert_true(i->size <= 200 << 10);
    assert_int_equal(alloc_counts_calls(alloc_trace_counts(t)) + i->lost_full, MANY);
    alloc_trace_close(t);
}

/* ---- plans --------------------------------------------------------------------------------- */

static void a_plan_measures_at_the_peaks(void **state)
{
    (void)state;
    struct alloc_plan p;
    in_process(write_many, 0);
    struct alloc_trace *t = open_trace_file("t");
    assert_int_equal(alloc_plan_create(t, UINT64_C(4) << 30, &p, NULL), 0);
    assert_int_equal(p.head.calls, MANY);
    uint64_t most = 0;
    for (uint32_t i = 0; i < p.head.samples; i++) {
        most = p.requested[i] > most ? p.requested[i] : most;
        assert_true(!i || p.samples[i] > p.samples[i - 1]);
    }
    assert_int_equal(most, alloc_trace_counts(t)->peak);
    alloc_plan_free(&p);
    alloc_trace_close(t);
}

static void a_plan_of_too_much_memory_is_refused(void **state)
{
    (void)state;
    struct alloc_plan p;
    struct error err = {0};
    in_process(write_many, 0);
    struct alloc_trace *t = open_trace_file("t");
    assert_int_equal(alloc_plan_create(t, 1 << 20, &p, &err), -1);
    assert_non_null(strstr(err.text, "--max-memory"));
    assert_int_equal(alloc_plan_create(t, 30 << 20, &p, &err), -1);
    assert_non_null(strstr(err.text, "at once"));
    alloc_trace_close(t);
}

/* ---- damage -------------------------------------------------------------------------------- */

/* Change bytes of the trace that write_some() makes. Returns the error of opening or reading it;
 * "": it was read. */
static const char *damaged(uint64_t offset, const void *bytes, size_t size)
{
    static struct error err;
    struct alloc_trace *t = NULL;
    err = (struct error){0};
    in_process(write_some, 0);
    const int fd = open(path("t"), O_RDWR);
    assert_int_equal(pwrite(fd, bytes, size, (off_t)offset), size);
    close(fd);
    if (!alloc_trace_open(path("t"), &t, &err))
        (void)alloc_trace_count(t, &err);
    alloc_trace_close(t);
    return err.text;
}

#define CHUNK(field) (TRACE_BLOCK + offsetof(struct trace_chunk, field))

static void damaged_files_are_refused(void **state)
{
    (void)state;
    const uint32_t zero = 0, odd = 4095, huge = 1 << 30;
    const uint64_t records = TRACE_BLOCK + sizeof(struct trace_chunk);
    assert_string_equal(damaged(offsetof(struct trace_header, unused), &zero, 4), "");
    assert_non_null(strstr(damaged(0, &zero, 4), "this is no trace"));
    assert_non_null(
        strstr(damaged(offsetof(struct trace_header, version), &odd, 4), "version 4095"));
    assert_non_null(strstr(damaged(CHUNK(magic), &odd, 4), "no chunk"));
    assert_non_null(strstr(damaged(CHUNK(size), &odd, 4), "no chunk"));
    assert_non_null(strstr(damaged(CHUNK(size), &zero, 4), "no chunk"));
    assert_non_null(strstr(damaged(CHUNK(size), &huge, 4), "no chunk"));
    assert_non_null(strstr(damaged(CHUNK(size), &(uint32_t){32 << 10}, 4), "ends within a chunk"));
    assert_non_null(strstr(damaged(CHUNK(used), &huge, 4), "more records than bytes"));
    assert_non_null(strstr(damaged(CHUNK(writer), &huge, 4), "too many threads"));
    assert_non_null(strstr(damaged(CHUNK(used), &(uint32_t){20}, 4), "cut short"));
    assert_non_null(strstr(damaged(records, &(uint16_t){0}, 2), "no record"));
    assert_non_null(strstr(damaged(records, &(uint16_t){15}, 2), "no record"));
    assert_non_null(strstr(damaged(records, &(uint16_t){0x9001}, 2), "no record"));
}

static void a_file_that_was_cut_is_refused(void **state)
{
    (void)state;
    struct alloc_trace *t = NULL;
    struct error err = {0};
    in_process(write_some, 0);
    for (unsigned size = 0; size < TRACE_BLOCK + TRACE_CHUNK_MIN; size += 2048) {
        assert_int_equal(truncate(path("t"), 0), 0);
        in_process(write_some, 0);
        assert_int_equal(truncate(path("t"), size), 0);
        if (size == TRACE_BLOCK) { /* a process that ended before its first call */
            assert_int_equal(alloc_trace_open(path("t"), &t, &err), 0);
            alloc_trace_close(t);
            continue;
        }
        assert_int_equal(alloc_trace_open(path("t"), &t, &err), -1);
        assert_int_equal(err.kind, size < TRACE_BLOCK ? ERROR_TRUNCATED : ERROR_FORMAT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_read_as_they_were_written),
        cmocka_unit_test(a_block_whose_free_is_missing_is_freed_and_counted),
        cmocka_unit_test(any_addresses_and_sizes_are_read_back_over_many_chunks),
        cmocka_unit_test(calls_of_threads_come_in_their_order),
        cmocka_unit_test(threads_that_follow_each_other_share_a_writer),
        cmocka_unit_test(a_forked_process_writes_a_trace_of_its_own),
        cmocka_unit_test(a_killed_process_has_all_its_calls_in_the_trace),
        cmocka_unit_test(calls_within_a_record_are_counted_as_lost),
        cmocka_unit_test(calls_without_room_are_counted_as_lost),
        cmocka_unit_test(a_plan_measures_at_the_peaks),
        cmocka_unit_test(a_plan_of_too_much_memory_is_refused),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(a_file_that_was_cut_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
