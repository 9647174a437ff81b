/* SPDX-License-Identifier: GPL-2.0-only */
/* What sampled faults stand for. See faults.h. */
#include "session/faults.h"

#include <stdlib.h>

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_faults(const void *a, const void *b)
{
    const struct page_fault *x = a, *y = b;
    int order = compare(x->pid, y->pid);
    order = order ? order : compare(x->page, y->page);
    return order ? order : compare(x->time, y->time);
}

bool faults_take(struct faults *f, const struct sample *s, const struct resident_fault *fault)
{
    const uint64_t key = ((uint64_t)s->tid << 32 | s->cpu) + 1;
    uint64_t before = (uintptr_t)table_get(&f->last, key);
    const struct page_fault new = {fault->page, s->time, s->pid,
                                   (before ? before : s->period) + s->period};
    return table_put(&f->last, key, (void *)(uintptr_t)s->period) && vec_push(&f->all, new);
}

bool faults_exec(struct faults *f, uint32_t pid, uint64_t time)
{
    const struct page_fault new = {.time = time, .pid = pid};
    return vec_push(&f->execs, new);
}

/* Whether a process has executed a program between two times. */
static bool has_executed(const struct faults *f, uint32_t pid, uint64_t from, uint64_t until)
{
    const struct page_fault key = {.time = from, .pid = pid};
    size_t low = 0, high = f->execs.nr;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare_faults(&f->execs.at[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < f->execs.nr && f->execs.at[low].pid == pid && f->execs.at[low].time <= until;
}

void faults_seal(struct faults *f)
{
    if (f->execs.nr)
        qsort(f->execs.at, f->execs.nr, sizeof(*f->execs.at), compare_faults);
    if (f->all.nr)
        qsort(f->all.at, f->all.nr, sizeof(*f->all.at), compare_faults);
    for (size_t i = 1; i < f->all.nr; i++) {
        const struct page_fault *before = &f->all.at[i - 1];
        struct page_fault *one = &f->all.at[i];
        if (one->pid == before->pid && one->page == before->page &&
            !has_executed(f, one->pid, before->time, one->time))
            one->halves = 0;
    }
    table_free(&f->last);
}

void faults_free(struct faults *f)
{
    vec_free(&f->all);
    vec_free(&f->execs);
    table_free(&f->last);
}

bool faults_halves(const struct faults *f, const struct sample *s,
                   const struct resident_fault *fault, uint64_t *ret)
{
    const struct page_fault key = {.page = fault->page, .time = s->time, .pid = s->pid};
    const struct page_fault *found =
        f->all.nr ? bsearch(&key, f->all.at, f->all.nr, sizeof(*f->all.at), compare_faults) : NULL;
    *ret = found ? found->halves : 0;
    return found != NULL;
}
