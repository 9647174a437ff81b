/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Any bytes as a recording that inject rewrites. The result must read to its end without an error,
 * with as many samples as inject says that it wrote. (fuzz_perfdata fuzzes the reader itself; the
 * seeds of this target are small recordings.)
 */
#include "output/inject.h"
#include "replay/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

/* See fuzz_perfdata. */
const char *__lsan_default_suppressions(void)
{
    return "leak:libtraceevent";
}

static char folder[] = "/tmp/fuzz_inject.XXXXXX";
static char output[sizeof(folder) + 16];

static void remove_folder(void)
{
    char command[sizeof(folder) + 16];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    (void)!system(command);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    if (!mkdtemp(folder))
        abort();
    snprintf(output, sizeof(output), "%s/out", folder);
    atexit(remove_folder);
    return 0;
}

static void check_output(uint64_t samples)
{
    struct perfdata *pd;
    struct record_batch b = {0};
    struct error err = {0};
    uint64_t seen = 0;
    if (perfdata_open(output, &(struct perfdata_options){0}, &pd, &err) < 0) {
        fprintf(stderr, "what was written does not open: %s\n", err.text);
        abort();
    }
    for (int status; (status = perfdata_read(pd, 64, &b, &err)) < 0 || b.nr;) {
        if (status < 0) {
            fprintf(stderr, "what was written does not read: %s\n", err.text);
            abort();
        }
        for (size_t i = 0; i < b.nr; i++) {
            struct sample s;
            seen += b.records[i].type == PERF_RECORD_SAMPLE &&
                    perfdata_sample(pd, &b.records[i], &s, NULL) == 0;
        }
        perfdata_release(pd, &b);
    }
    record_batch_free(&b);
    perfdata_close(pd);
    if (seen != samples) {
        fprintf(stderr, "%lu samples of %lu are there\n", seen, samples);
        abort();
    }
}

static void inject(const char *path)
{
    const struct replay_options options = {.input = path, .threads = 1, .max_stack = 127};
    struct replay *r;
    struct inject *in;
    struct error err = {0};
    if (replay_create(&options, &r, &err) < 0)
        return;
    if (inject_create(output, r, &in, &err) == 0) {
        struct replay_sink sink = inject_sink(in);
        if (replay_run(r, &sink, &err) == 0 && inject_finish(in, &err) == 0)
            check_output(inject_stats(in)->samples);
        inject_free(in);
    }
    replay_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = memfd_create("fuzz", 0);
    if (fd < 0)
        abort();
    if (write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        inject(path);
    }
    close(fd);
    return 0;
}
