/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Applies a recording's records, then its last anonymous mapping 415,000 times (LuaJIT makes that
 * many in some seconds), then looks up code. Prints the time of each, decoding included.
 * Usage: bench_session RECORDING
 */
#include "session/session.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 415000, LOOKUPS = 5000000, RUNS = 5 };

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

struct bench {
    struct perfdata *pd;
    struct session *s;
    uint8_t mapping[4096]; /* copy of the record to repeat */
    struct record repeated;
    uint32_t pid;
    uint64_t nr_records;
    double apply;
};

static void keep_mapping(struct bench *b, const struct record *rec)
{
    struct record_mmap mm;
    if (rec->type != PERF_RECORD_MMAP2 || rec->size > sizeof(b->mapping) ||
        perfdata_mmap(b->pd, rec, &mm, NULL) < 0 || strcmp(mm.filename, "//anon") != 0)
        return;
    memcpy(b->mapping, rec->data, rec->size);
    b->repeated = *rec;
    b->repeated.data = b->mapping;
    b->pid = mm.pid;
}

static int apply_all(struct bench *b, struct error *err)
{
    struct record_batch batch = {0};
    while (perfdata_read(b->pd, 1024, &batch, err) == 0 && batch.nr) {
        for (size_t i = 0; i < batch.nr; i++) {
            const struct record *rec = &batch.records[i];
            if (rec->type == PERF_RECORD_SAMPLE)
                continue;
            keep_mapping(b, rec);
            double start = now();
            if (session_apply(b->s, rec, err) < 0)
                return -1;
            b->apply += now() - start;
            b->nr_records++;
        }
        perfdata_release(b->pd, &batch);
    }
    record_batch_free(&batch);
    return 0;
}

static double repeat(struct bench *b, struct error *err)
{
    double times[RUNS];
    for (int run = 0; run < RUNS; run++) {
        double start = now();
        for (int i = 0; i < REPEATS; i++)
            if (session_apply(b->s, &b->repeated, err) < 0)
                return -1;
        times[run] = now() - start;
    }
    qsort(times, RUNS, sizeof(*times), by_value);
    return times[RUNS / 2];
}

/* Looks up addresses all over the process's code, in an order that is hard to predict. */
static double look_up(struct bench *b, uint64_t *known)
{
    struct thread_context p;
    if (session_context(b->s, b->pid, b->pid, &p, NULL) < 0)
        return 0;
    static uint64_t pcs[4096];
    size_t nr = 0;
    struct codemap map = session_codemap(&p);
    struct code code;
    for (uint64_t at = 0; nr < 4096; at = code.end) {
        const struct mapping *m = session_mapping_next(&p, at);
        if (!m)
            break;
        code.end = m->end;
        if (m->prot & 4)
            for (int i = 0; i < 64 && nr < 4096; i++)
                pcs[nr++] = m->start + (m->end - m->start) / 64 * (uint64_t)i;
    }
    uint64_t next = 1;
    *known = 0;
    for (size_t i = 0; i < nr; i++) /* the first lookup opens the files */
        *known += codemap_lookup(&map, pcs[i], 1, &code);
    double start = now();
    for (int i = 0; nr && i < LOOKUPS; i++) {
        next = next * 6364136223846793005 + 1442695040888963407;
        *known += codemap_lookup(&map, pcs[(next >> 40) % nr], 1, &code);
    }
    double took = (now() - start) / LOOKUPS;
    thread_context_release(&p);
    return took;
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct error err;
    struct dsos *dsos = dsos_create(NULL);
    if (argc != 2 || !dsos) {
        fprintf(stderr, "usage: bench_session RECORDING\n");
        return 2;
    }
    if (perfdata_open(argv[1], NULL, &b.pd, &err) < 0 ||
        session_create(b.pd, dsos, NULL, &b.s, &err) < 0 || apply_all(&b, &err) < 0) {
        fprintf(stderr, "bench_session: %s\n", err.text);
        return 1;
    }
    printf("%lu records: %.2f ms\n", (unsigned long)b.nr_records, b.apply * 1e3);
    if (b.repeated.data)
        printf("%d equal mappings: %.1f ms\n", REPEATS, repeat(&b, &err) * 1e3);
    uint64_t known = 0;
    double lookup = look_up(&b, &known);
    printf("a lookup: %.1f ns (%lu known)\n", lookup * 1e9, (unsigned long)known);
    session_free(b.s);
    perfdata_close(b.pd);
    dsos_free(dsos);
    return 0;
}
