/* SPDX-License-Identifier: GPL-2.0-only */
/* Delivers records in time order: one stream round by round, the streams of a directory by a
 * merge. */
#include "perfdata/perfdata_internal.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Limits of what may wait. A recording with one stream has a mark after each round. If it has none
 * (perf inject's output, which is in order), it is read as if a mark came whenever this many
 * records or bytes wait. */
enum {
    WAITING_RECORDS = 512 << 10,
    WAITING_BYTES = 32 << 20,
    TRUSTED_TIMES = 32,            /* limits are multiplied by this if there are marks: rings
                                      can be large */
    DIRECTORY_RECORDS = 256 << 10, /* for all streams together */
    DIRECTORY_BYTES = 32 << 20,
    LEAD_MAX = 100000,
};

static bool is_marker(uint32_t type)
{
    return type == PERF_RECORD_FINISHED_ROUND || type == PERF_RECORD_COMPRESSED ||
           type == RECORD_COMPRESSED2;
}

static int batch_add(struct record_batch *b, const struct record *rec, struct error *err)
{
    if (b->nr == b->cap && !vec_grow_((void **)&b->records, &b->cap, b->nr + 1, sizeof(*rec)))
        return error_no_memory(err);
    b->records[b->nr++] = *rec;
    return 0;
}

static int deliver(struct perfdata *pd, struct record_batch *b, const struct record *rec,
                   struct error *err)
{
    if (rec->time < pd->queue.delivered)
        pd->loss.records_late++;
    else
        pd->queue.delivered = rec->time;
    return batch_add(b, rec, err);
}

/* Returns whether the record is delivered at all. */
static bool is_wanted(struct perfdata *pd, const struct record *rec)
{
    if (!perfdata_record_name(rec->type)) {
        pd->loss.records_unknown++;
        return pd->options.raw;
    }
    if (rec->type == PERF_RECORD_SAMPLE && rec->event == PERFDATA_NO_EVENT) {
        pd->loss.samples_no_event++;
        return pd->options.raw;
    }
    return pd->options.raw || !is_marker(rec->type);
}

static bool is_timeless(const struct perfdata *pd, const struct record *rec)
{
    return pd->options.unordered || pd->no_time || !rec->time || rec->time == UINT64_MAX;
}

/* Get the next record to deliver, with event and time set, and with bytes that stay. Returns 1, 0
 * or -1 like stream_next(). */
static int next_wanted(struct perfdata *pd, struct stream *s, struct record *rec, struct error *err)
{
    bool transient;
    for (;;) {
        int r = stream_next(s, rec, &transient, err);
        if (r <= 0)
            return r;
        record_locate(pd, rec);
        if (meta_apply(pd, rec, err) < 0)
            return -1;
        bool round = rec->type == PERF_RECORD_FINISHED_ROUND;
        if (round && !pd->options.raw)
            return 1;
        if (!is_wanted(pd, rec)) {
            if (!transient)
                records_drop(pd, rec, 1);
            continue;
        }
        if (transient && record_keep(pd, rec, err) < 0)
            return -1;
        return 1;
    }
}

int lead_in_read(struct perfdata *pd, struct error *err)
{
    struct stream *s = &pd->streams.at[0];
    struct record rec;
    do {
        int r = next_wanted(pd, s, &rec, err);
        if (r <= 0)
            return r;
        if (!vec_push(&pd->lead, rec))
            return error_no_memory(err);
    } while (rec.type >= PERF_RECORD_USER_TYPE_START && !is_marker(rec.type) &&
             rec.type != PERF_RECORD_AUXTRACE && pd->lead.nr < LEAD_MAX);
    return 0;
}

static int next_of(struct perfdata *pd, struct stream *s, struct record *rec, struct error *err)
{
    if (s->number || pd->lead_at == pd->lead.nr)
        return next_wanted(pd, s, rec, err);
    *rec = pd->lead.at[pd->lead_at++];
    if (pd->lead_at == pd->lead.nr) {
        vec_free(&pd->lead);
        pd->lead_at = 0;
    }
    record_locate(pd, rec); /* the first may have been read before its event was known */
    return 1;
}

/* ---- one stream: rounds ------------------------------------------------------------------ */

static int queue_bound(struct perfdata *pd, struct error *err)
{
    const struct queue *q = &pd->queue;
    uint64_t times = q->rounds || pd->backward ? TRUSTED_TIMES : 1;
    if (q->records.nr < times * WAITING_RECORDS && q->bytes < times * WAITING_BYTES)
        return 0;
    return queue_flush_half(&pd->queue, err);
}

static int more(int status)
{
    return status < 0 ? -1 : 1;
}

static int round_push(struct perfdata *pd, const struct record *rec, struct error *err)
{
    if (record_in_chunk(pd, rec))
        pd->queue.bytes += rec->size;
    return queue_push(&pd->queue, rec, err);
}

/* Read one record and put it where it belongs. Returns 0 at the end of the input. */
static int round_step(struct perfdata *pd, struct record_batch *b, struct error *err)
{
    struct record rec;
    struct stream *s = &pd->streams.at[0];
    int r = next_of(pd, s, &rec, err);
    if (r < 0)
        return -1;
    if (!r)
        return copies_end(pd, round_push, err) < 0 ? -1 : queue_flush(&pd->queue, UINT64_MAX, err);
    if (rec.type == PERF_RECORD_FINISHED_ROUND) {
        if (pd->options.raw && batch_add(b, &rec, err) < 0)
            return -1;
        return pd->backward || pd->options.unordered ? 1 : more(queue_round(&pd->queue, err));
    }
    if (is_timeless(pd, &rec))
        return more(batch_add(b, &rec, err));
    if (copies_pass(pd, &rec, round_push, err) < 0)
        return -1;
    return more(queue_bound(pd, err));
}

static int rounds_read(struct perfdata *pd, size_t max, struct record_batch *b, struct error *err)
{
    struct queue *q = &pd->queue;
    for (int r = 1; b->nr < max;) {
        if (q->at < q->ready) {
            const struct record *rec = &q->records.at[q->at++];
            q->bytes -= q->bytes < rec->size ? q->bytes : rec->size;
            if (deliver(pd, b, rec, err) < 0)
                return -1;
        } else if (!r) {
            return 0;
        } else {
            r = round_step(pd, b, err);
            if (r < 0)
                return -1;
        }
    }
    return 0;
}

/* ---- a directory's streams ---------------------------------------------------------------- */
/* A data.N has no marks. Each stream is read ahead by its share of the waiting limit, and then the
 * oldest record of all streams is delivered. This sorts any disorder within that share. */

static bool heap_before(const struct heap_entry *a, const struct heap_entry *b)
{
    return a->record.time != b->record.time ? a->record.time < b->record.time
                                            : a->sequence < b->sequence;
}

static int heap_push(struct perfdata *pd, const struct record *rec, struct error *err)
{
    struct heap_entry e = {*rec, pd->heap_sequence++};
    if (!vec_push(&pd->heap, e))
        return error_no_memory(err);
    struct heap_entry *h = pd->heap.at;
    size_t at = pd->heap.nr - 1;
    for (; at && heap_before(&e, &h[(at - 1) / 2]); at = (at - 1) / 2)
        h[at] = h[(at - 1) / 2];
    h[at] = e;
    return 0;
}

static struct record heap_pop(struct perfdata *pd)
{
    struct heap_entry *h = pd->heap.at, top = h[0], last = h[--pd->heap.nr];
    size_t at = 0, nr = pd->heap.nr;
    for (size_t child; (child = 2 * at + 1) < nr; at = child) {
        if (child + 1 < nr && heap_before(&h[child + 1], &h[child]))
            child++;
        if (!heap_before(&h[child], &last))
            break;
        h[at] = h[child];
    }
    h[at] = last;
    return top.record;
}

static bool is_full(const struct perfdata *pd, const struct stream *s)
{
    return s->queued * pd->streams.nr >= DIRECTORY_RECORDS ||
           s->queued_bytes * pd->streams.nr >= DIRECTORY_BYTES;
}

static int heap_fill(struct perfdata *pd, struct record_batch *b, struct error *err)
{
    struct stream *s = &pd->streams.at[pd->fill];
    struct record rec;
    int r = is_full(pd, s) ? 0 : next_of(pd, s, &rec, err);
    if (r < 0)
        return -1;
    if (!r) {
        pd->fill = pd->filled_once ? pd->streams.nr : pd->fill + 1;
        pd->filled_once |= pd->fill == pd->streams.nr;
        return 0;
    }
    if (rec.type == PERF_RECORD_FINISHED_ROUND && !pd->options.raw)
        return 0;
    if (is_timeless(pd, &rec))
        return batch_add(b, &rec, err);
    s->queued++;
    if (record_in_chunk(pd, &rec))
        s->queued_bytes += rec.size;
    return copies_pass(pd, &rec, heap_push, err);
}

static int directory_read(struct perfdata *pd, size_t max, struct record_batch *b,
                          struct error *err)
{
    while (b->nr < max) {
        if (pd->fill < pd->streams.nr) {
            if (heap_fill(pd, b, err) < 0)
                return -1;
            continue;
        }
        if (!pd->heap.nr && copies_end(pd, heap_push, err) < 0)
            return -1;
        if (!pd->heap.nr)
            return 0;
        struct record rec = heap_pop(pd);
        struct stream *s = &pd->streams.at[rec.stream];
        s->queued--;
        s->queued_bytes -= s->queued_bytes < rec.size ? s->queued_bytes : rec.size;
        pd->fill = rec.stream;
        if (deliver(pd, b, &rec, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- the interface ------------------------------------------------------------------------ */

int perfdata_read(struct perfdata *pd, size_t max, struct record_batch *batch, struct error *err)
{
    pd->started = true;
    batch->nr = 0;
    return pd->streams.nr > 1 ? directory_read(pd, max, batch, err)
                              : rounds_read(pd, max, batch, err);
}

void perfdata_stack_used(struct perfdata *pd, size_t bytes)
{
    vec_foreach (s, &pd->streams)
        skim_wanted(s, bytes);
}

/* Give back the pages far behind a record that is done. Giving back all of them at the end of the
 * file took a tenth of a run, when no other thread had work left. The pages stay in the page cache:
 * whoever still needs one maps it again. */
static void unmap_behind(struct perfdata *pd, const struct record *rec)
{
    const uint64_t step = 16 << 20;
    struct stream *s = &pd->streams.at[rec->stream];
    uint64_t from = atomic_load_explicit(&s->unmapped, memory_order_relaxed);
    uint64_t to = rec->offset / step * step;
    to = to > 2 * step ? to - 2 * step : 0;
    if (!s->map_owned || to <= from || to > s->map_size ||
        !atomic_compare_exchange_strong(&s->unmapped, &from, to))
        return;
    madvise((void *)(uintptr_t)(s->map + from), to - from, MADV_DONTNEED);
}

void perfdata_release(struct perfdata *pd, struct record_batch *batch)
{
    if (batch->nr && batch->records[batch->nr - 1].stream < pd->streams.nr)
        unmap_behind(pd, &batch->records[batch->nr - 1]);
    records_drop(pd, batch->records, batch->nr);
    batch->nr = 0;
}

void perfdata_forget(struct perfdata *pd)
{
    vec_foreach (s, &pd->streams)
        if (s->map_owned)
            madvise((void *)(uintptr_t)s->map, s->map_size, MADV_DONTNEED);
}

void record_batch_free(struct record_batch *batch)
{
    free(batch->records);
    memset(batch, 0, sizeof(*batch));
}

void perfdata_progress(const struct perfdata *pd, uint64_t *done, uint64_t *total)
{
    *done = *total = 0;
    for (size_t i = 0; i < pd->streams.nr; i++) {
        const struct stream *s = &pd->streams.at[i];
        *done += stream_offset(s);
        *total += s->fd < 0 ? s->end : 0;
    }
}
