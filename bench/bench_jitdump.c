/* SPDX-License-Identifier: GPL-2.0-only */
/* Loads a jitdump (or a perf map, if the file is named *.map) several times and prints medians:
 * milliseconds per load, MB/s, nanoseconds per lookup. Usage: bench_jitdump FILE [RUNS] */
#include "jitdump/jitdump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { RUNS_MAX = 1000, LOOKUPS = 2000000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int load(const char *path, struct jitcode **ret, struct error *err)
{
    size_t size = strlen(path);
    bool map = size > 4 && strcmp(path + size - 4, ".map") == 0;
    return map ? perfmap_load(path, ret, err) : jitdump_load(path, NULL, ret, err);
}

/* Looks up functions in an order that defeats caches, each in its middle and at the time of its
 * load. */
static double lookup_time(const struct jitcode *code, size_t *found)
{
    size_t nr = jitcode_count(code);
    uint64_t next = 1;
    double start = now();
    *found = 0;
    for (int i = 0; nr && i < LOOKUPS; i++) {
        next = next * 6364136223846793005 + 1442695040888963407;
        const struct jit_function *f = jitcode_at(code, (next >> 33) % nr);
        *found += jitcode_lookup(code, f->start + f->size / 2, f->from) != NULL;
    }
    return (now() - start) / LOOKUPS;
}

int main(int argc, char **argv)
{
    static double times[RUNS_MAX];
    struct error err;
    struct jitcode *code = NULL;
    struct stat st;
    int runs = argc > 2 ? atoi(argv[2]) : 15;
    if (argc < 2 || runs < 1 || runs > RUNS_MAX || stat(argv[1], &st) < 0) {
        fprintf(stderr, "usage: bench_jitdump FILE [RUNS]\n");
        return 2;
    }
    for (int i = 0; i < runs; i++) {
        jitcode_free(code);
        double start = now();
        if (load(argv[1], &code, &err) < 0) {
            fprintf(stderr, "bench_jitdump: %s\n", err.text);
            return 1;
        }
        times[i] = now() - start;
    }
    qsort(times, (size_t)runs, sizeof(*times), by_value);
    size_t found;
    double lookup = lookup_time(code, &found);
    const struct jit_loss *loss = jitcode_loss(code);
    double median = times[runs / 2];
    printf("load %.2f ms (%.0f MB/s), lookup %.1f ns, %zu functions, found %zu of %d, "
           "bad %lu, unknown %lu, cut %lu\n",
           median * 1e3, (double)st.st_size / 1e6 / median, lookup * 1e9, jitcode_count(code),
           found, LOOKUPS, (unsigned long)loss->records_bad, (unsigned long)loss->records_unknown,
           (unsigned long)loss->bytes_cut);
    jitcode_free(code);
    return 0;
}
