/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measures the cost of names. Usage: bench_symbols ELF-FILE [addresses [KALLSYMS-FILE]]
 *
 * The addresses are spread evenly over the file's code. Each figure is the median of five runs:
 * cold with fresh tables, warm with all addresses looked up again. For kallsyms it measures the
 * first name (of /proc/kallsyms, or of a copy, which the kernel need not write out first).
 */
#include "dso/dso.h"
#include "symbols/symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RUNS = 5 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values)
{
    qsort(values, RUNS, sizeof(*values), by_value);
    return values[RUNS / 2];
}

struct figures {
    double cold[RUNS], warm[RUNS];
    unsigned long frames, named;
};

static int run(const char *path, unsigned long nr, bool inlines, int at, struct figures *f)
{
    struct symbols_options so = {.inlines = inlines, .lines = inlines};
    double start = seconds();
    struct dsos *all = dsos_create(NULL);
    struct symbols *s = symbols_create(all, &so);
    struct symbol_cache *c = symbol_cache_create(s);
    struct dso *d = dsos_get(all, DSO_FILE, path, NULL, 0);
    const struct elf_image *e = dso_image(d);
    struct elf_section text;
    if (!e || !elf_image_section(e, ".text", &text)) {
        fprintf(stderr, "%s: %s\n", path, dso_problem(d) ? dso_problem(d) : "no .text");
        return -1;
    }
    f->frames = f->named = 0;
    for (int round = 0; round < 2; round++) {
        for (unsigned long i = 0; i < nr; i++) {
            uint64_t at_offset = text.offset + text.size * i / nr;
            const struct resolved *r = symbols_resolve(c, d, at_offset, at_offset);
            f->frames += round ? 0 : 1 + r->nr_inlined;
            f->named += r->symbol != NULL;
        }
        *(round ? &f->warm[at] : &f->cold[at]) = seconds() - start;
        start = seconds();
    }
    symbol_cache_free(c);
    symbols_free(s);
    dsos_free(all);
    return 0;
}

static int run_kernel(const char *kallsyms, double *ret)
{
    struct dso_options o = {.kallsyms = kallsyms};
    struct symbols_options so = {0};
    double start = seconds();
    struct dsos *all = dsos_create(&o);
    struct symbols *s = symbols_create(all, &so);
    struct symbol_cache *c = symbol_cache_create(s);
    struct dso *d = dsos_get(all, DSO_KERNEL, "[kernel.kallsyms]", NULL, 0);
    uint64_t somewhere = 0xffffffff81001000;
    bool named = symbols_resolve(c, d, somewhere, somewhere)->symbol;
    *ret = seconds() - start;
    symbol_cache_free(c);
    symbols_free(s);
    dsos_free(all);
    return named ? 0 : -1;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs("usage: bench_symbols ELF-FILE [addresses [KALLSYMS-FILE]]\n", stderr);
        return 2;
    }
    unsigned long nr = argc > 2 ? strtoul(argv[2], NULL, 0) : 6000;
    for (int inlines = 0; inlines < 2; inlines++) {
        struct figures f;
        for (int i = 0; i < RUNS; i++)
            if (run(argv[1], nr, inlines, i, &f))
                return 1;
        printf("%-20s %lu addresses, %lu frames: cold %.1f ms, warm %.1f ns each\n",
               inlines ? "with inlines, lines:" : "symbols:", nr, f.frames, median(f.cold) * 1e3,
               median(f.warm) * 1e9 / (double)nr);
    }
    double kernel[RUNS];
    for (int i = 0; i < RUNS && argc > 3; i++)
        if (run_kernel(argv[3], &kernel[i])) {
            fprintf(stderr, "%s: does not name the kernel\n", argv[3]);
            return 1;
        }
    if (argc > 3)
        printf("kallsyms:            first name %.1f ms\n", median(kernel) * 1e3);
    return 0;
}
