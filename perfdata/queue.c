/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Puts records in time order. The rings of different CPUs are written one after the other, so a
 * round consists of a few ascending runs. We find these runs and merge them. Records older than
 * everything that the previous round had seen may be delivered (perf's FINISHED_ROUND rule).
 */
#include "perfdata/perfdata_internal.h"

#include <stdlib.h>

/* Returns the end of the run that starts at `from`. A strictly descending run is reversed. */
static size_t run_end(struct record *r, size_t from, size_t nr)
{
    size_t i = from + 1;
    if (i < nr && r[i].time < r[i - 1].time) {
        while (i < nr && r[i].time < r[i - 1].time)
            i++;
        for (size_t a = from, b = i - 1; a < b; a++, b--) {
            struct record swap = r[a];
            r[a] = r[b];
            r[b] = swap;
        }
    }
    while (i < nr && r[i].time >= r[i - 1].time)
        i++;
    return i;
}

/* Returns the first record of the sorted r[low, high) that is later than `time`. */
static size_t later_than(const struct record *r, size_t low, size_t high, uint64_t time)
{
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (r[mid].time <= time)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Merge the sorted ranges [from, mid) and [mid, end). `spare` has room for the first. */
static void merge(struct record *r, size_t from, size_t mid, size_t end, struct record *spare)
{
    from = later_than(r, from, mid, r[mid].time);
    size_t nr = mid - from, a = 0, b = mid, to = from;
    memcpy(spare, r + from, nr * sizeof(*r));
    while (a < nr && b < end)
        r[to++] = r[b].time < spare[a].time ? r[b++] : spare[a++];
    memcpy(r + to, spare + a, (nr - a) * sizeof(*r));
}

/* Runs wait on a stack. Each is less than half as long as the one below it. So no record moves more
 * than about log2(runs) times, and 64 places are enough. */
enum { RUNS = 72 };

static bool records_sort(record_vec *v, record_vec *spare)
{
    struct record *r = v->at;
    size_t starts[RUNS], nr = 0;
    if (run_end(r, 0, v->nr) == v->nr)
        return true;
    if (!vec_reserve(spare, v->nr))
        return false;
    for (size_t at = 0; at < v->nr;) {
        size_t end = run_end(r, at, v->nr);
        starts[nr++] = at;
        for (; nr > 1 && 2 * (end - starts[nr - 1]) >= starts[nr - 1] - starts[nr - 2]; nr--)
            merge(r, starts[nr - 2], starts[nr - 1], end, spare->at);
        at = end;
    }
    for (; nr > 1; nr--)
        merge(r, starts[nr - 2], starts[nr - 1], v->nr, spare->at);
    return true;
}

/* Forget the records already taken, and sort the rest. */
static int queue_order(struct queue *q, struct error *err)
{
    size_t left = q->records.nr - q->ready;
    vec_drop(&q->records, q->ready);
    q->at = q->ready = 0;
    return left && !records_sort(&q->records, &q->spare) ? error_no_memory(err) : 0;
}

int queue_push(struct queue *q, const struct record *rec, struct error *err)
{
    if (!vec_push(&q->records, *rec))
        return error_no_memory(err);
    if (rec->time > q->max)
        q->max = rec->time;
    return 0;
}

int queue_flush(struct queue *q, uint64_t limit, struct error *err)
{
    if (queue_order(q, err) < 0)
        return -1;
    q->ready = later_than(q->records.at, 0, q->records.nr, limit);
    return 0;
}

int queue_flush_half(struct queue *q, struct error *err)
{
    if (queue_order(q, err) < 0)
        return -1;
    q->ready = (q->records.nr + 1) / 2;
    return 0;
}

int queue_round(struct queue *q, struct error *err)
{
    uint64_t limit = q->limit;
    q->rounds = true;
    q->limit = q->max;
    return queue_flush(q, limit, err);
}
