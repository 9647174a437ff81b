/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Opens any bytes as a recording and decodes everything in it. The first byte chooses the form (a
 * mapped file or a pipe) and the reader's options.
 */
#include "perfdata/perfdata_internal.h"

#include <fcntl.h>
#include <stdlib.h>
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
    perfdata_print_header(pd, out);
    record_batch_free(&b);
    perfdata_close(pd);
}

static int open_as_pipe(const uint8_t *data, size_t size, const struct perfdata_options *options,
                        struct perfdata **ret)
{
    int fd = memfd_create("fuzz", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0)
        abort();
    return perfdata_open_stream(fd, "fuzz", options, ret, NULL);
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
    int r = data[0] & 8 ? open_as_pipe(data + 1, size - 1, &options, &pd)
                        : perfdata_open_memory(data + 1, size - 1, &options, &pd, NULL);
    if (r == 0)
        read_all(pd, null);
    return 0;
}
