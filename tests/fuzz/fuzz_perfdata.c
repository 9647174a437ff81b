/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Opens any bytes as a recording and decodes everything in it. The first byte chooses the form (a
 * mapped file, a pipe, or a large file, which is skimmed) and the reader's options. What is skimmed
 * must be what a reader of the whole file sees.
 */
#include "base/hash.h"
#include "perfdata/perfdata_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perfdata_mutator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

/* libtraceevent leaks pieces of formats that it fails to parse, which is not under test here. */
const char *__lsan_default_suppressions(void)
{
    return "leak:libtraceevent";
}

static void decode(const struct perfdata *pd, const struct record *rec, FILE *out)
{
    struct sample s;
    struct record_ids ids;
    struct record_namespaces ns;
    struct record_ksymbol sym;
    perfdata_print_record(pd, rec, rec->size & 1, out);
    perfdata_ids(pd, rec, &ids);
    (void)perfdata_namespaces(pd, rec, &ns, NULL);
    (void)perfdata_ksymbol(pd, rec, &sym, NULL);
    if (perfdata_sample(pd, rec, &s, NULL) < 0 || !s.stack)
        return;
    fwrite(s.stack, 1, s.stack_dyn_size, out);
}

static void read_all(struct perfdata *pd, FILE *out)
{
    struct record_batch b = {0};
    while (perfdata_read(pd, 64, &b, NULL) == 0 && b.nr) {
        for (size_t i = 0; i < b.nr; i++)
            decode(pd, &b.records[i], out);
        perfdata_release(pd, &b);
    }
    record_batch_free(&b);
}

static int open_as_pipe(const uint8_t *data, size_t size, const struct perfdata_options *options,
                        struct perfdata **ret)
{
    int fd = memfd_create("fuzz", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0)
        abort();
    return perfdata_open_stream(fd, "fuzz", options, ret, NULL);
}

static uint64_t sum_sample(uint64_t sum, const struct sample *s)
{
    const uint64_t fields[] = {s->ip,        s->pid,           s->tid,          s->time,
                               s->period,    s->cpu,           s->nr_callchain, s->raw_size,
                               s->user_mask, s->stack_dyn_size};
    sum = hash_combine(sum, hash_bytes((const char *)fields, sizeof(fields)));
    if (s->stack)
        sum = hash_combine(sum, hash_bytes((const char *)s->stack, s->stack_dyn_size));
    return sum;
}

/* Sum up what is decoded; closes `pd`. (Not the messages: they name the file.) */
static uint64_t sum_of(struct perfdata *pd)
{
    struct record_batch b = {0};
    uint64_t sum = 0;
    while (perfdata_read(pd, 64, &b, NULL) == 0 && b.nr) {
        for (size_t i = 0; i < b.nr; i++) {
            struct sample s;
            struct record_ids ids = {0};
            const struct record *rec = &b.records[i];
            perfdata_ids(pd, rec, &ids);
            /* (a sample that was skimmed is without its stale bytes) */
            sum = hash_combine(sum, rec->type == PERF_RECORD_SAMPLE ? 0 : rec->size);
            sum = hash_combine(sum, rec->type ^ rec->offset << 16);
            sum = hash_combine(sum, ids.time ^ (uint64_t)ids.tid << 32);
            sum = perfdata_sample(pd, rec, &s, NULL) == 0 ? sum_sample(sum, &s) : sum + 1;
        }
        perfdata_release(pd, &b);
    }
    record_batch_free(&b);
    perfdata_close(pd);
    return sum;
}

/* The same bytes with zeros behind them, so that they are a large file, skimmed and not. */
static void skim(const uint8_t *data, size_t size, const struct perfdata_options *options)
{
    enum { LARGE = 9 << 20 };
    static uint8_t *whole;
    static size_t before;
    static int fd;
    static char path[64];
    struct perfdata *large, *memory;
    if (!whole) {
        whole = calloc(1, LARGE);
        fd = memfd_create("fuzz", 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (!whole || fd < 0)
            abort();
    }
    if (size > LARGE)
        return;
    memcpy(whole, data, size);
    memset(whole + size, 0, before > size ? before - size : 0);
    before = size;
    if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size ||
        ftruncate(fd, LARGE) < 0)
        abort();
    int failed = perfdata_open(path, options, &large, NULL);
    if (perfdata_open_memory(whole, LARGE, options, &memory, NULL) != failed)
        abort();
    if (failed)
        return;
    if (sum_of(large) != sum_of(memory))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *null;
    if (!null)
        null = fopen("/dev/null", "w");
    if (size < 1 || !null)
        return 0;
    struct perfdata_options options = {
        .unordered = data[0] & 1, .raw = data[0] & 2, .keep_whole = data[0] & 4};
    struct perfdata *pd;
    if (data[0] & 16) {
        skim(data + 1, size - 1, &options);
        return 0;
    }
    int r = data[0] & 8 ? open_as_pipe(data + 1, size - 1, &options, &pd)
                        : perfdata_open_memory(data + 1, size - 1, &options, &pd, NULL);
    if (r < 0)
        return 0;
    read_all(pd, null);
    perfdata_print_header(pd, null);
    perfdata_close(pd);
    return 0;
}
