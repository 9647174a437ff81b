/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * See recent.h. Records are kept in blocks, in the order in which they came: a reader sorts them by
 * time between the marks of the recorder's rounds, which therefore stay where they are. A block
 * whose samples are too old loses them. What is left of it is moved behind what is kept for good.
 */
#include "perfdata/recent.h"
#include "perfdata/perfdata_internal.h"
#include "perfdata/vmevent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BLOCK_BYTES = 1 << 20,
    PIPE_HEADER = 16,
    OUT_BYTES = 64 << 10,
};

static const uint64_t BLOCK_NS = 500000000;

/* A record in a block. Its size is in its header: larger records are kept for good. */
struct recent_entry {
    uint64_t time;
    uint32_t at;
    bool passes; /* it goes with the samples */
};

struct recent_block {
    byte_vec bytes;
    VEC(struct recent_entry) entries;
    uint64_t first, newest; /* times */
};

struct recent_loss {
    uint64_t time, lost;
};

struct recent {
    const struct perfdata *pd;
    uint64_t span_ns;
    size_t max_bytes;
    byte_vec kept;
    VEC(struct recent_block) blocks;
    VEC(struct recent_loss) losses;
    struct recent_state state;
};

struct recent *recent_create(const struct perfdata *pd, uint64_t span_ns, size_t max_bytes)
{
    struct recent *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->pd = pd;
    r->span_ns = span_ns;
    r->max_bytes = max_bytes;
    return r;
}

static void block_free(struct recent_block *b)
{
    vec_free(&b->bytes);
    vec_free(&b->entries);
}

void recent_free(struct recent *r)
{
    if (!r)
        return;
    vec_foreach (b, &r->blocks)
        block_free(b);
    vec_free(&r->blocks);
    vec_free(&r->kept);
    vec_free(&r->losses);
    free(r);
}

static size_t entry_size(const struct recent_block *b, const struct recent_entry *e)
{
    struct perf_event_header h;
    memcpy(&h, b->bytes.at + e->at, sizeof(h));
    return h.size;
}

/* ---- taking records -------------------------------------------------------------------------- */

/* Whether nobody needs the record when the samples around it are gone. */
static bool record_passes(const struct recent *r, const struct record *rec)
{
    const char *name;
    switch (rec->type) {
    case PERF_RECORD_SAMPLE:
        name =
            rec->event < perfdata_nr_events(r->pd) ? perfdata_event(r->pd, rec->event)->name : NULL;
        return !name || strcmp(name, VMEVENT_MEM_NAME) != 0;
    case PERF_RECORD_LOST:
    case PERF_RECORD_LOST_SAMPLES:
    case PERF_RECORD_THROTTLE:
    case PERF_RECORD_UNTHROTTLE:
    case PERF_RECORD_READ:
    case PERF_RECORD_SWITCH:
    case PERF_RECORD_SWITCH_CPU_WIDE:
        return true;
    default:
        return false;
    }
}

/* Move what a block has besides samples behind what is kept for good, with the last mark. */
static bool drain(struct recent *r, struct recent_block *b)
{
    static const struct perf_event_header mark = {PERF_RECORD_FINISHED_ROUND, 0, sizeof(mark)};
    size_t before = r->kept.nr;
    vec_foreach (e, &b->entries) {
        struct perf_event_header h;
        memcpy(&h, b->bytes.at + e->at, sizeof(h));
        if (e->passes || h.type == PERF_RECORD_FINISHED_ROUND)
            continue;
        if (!vec_append(&r->kept, b->bytes.at + e->at, h.size))
            return false;
    }
    if (r->kept.nr > before && !vec_append(&r->kept, &mark, sizeof(mark)))
        return false;
    if (r->state.oldest <= b->newest)
        r->state.oldest = b->newest + 1;
    r->state.bytes -= b->bytes.nr;
    r->state.kept = r->kept.nr;
    return true;
}

static void forget_losses(struct recent *r)
{
    size_t nr = 0;
    while (nr < r->losses.nr && r->losses.at[nr].time < r->state.oldest)
        nr++;
    vec_drop(&r->losses, nr);
}

/* Drain the blocks that are too old, but not the one that is being filled. */
static bool drain_old(struct recent *r)
{
    size_t nr = 0;
    while (nr + 1 < r->blocks.nr && (r->blocks.at[nr].newest + r->span_ns < r->state.newest ||
                                     r->state.bytes > r->max_bytes)) {
        if (!drain(r, &r->blocks.at[nr]))
            return false;
        block_free(&r->blocks.at[nr++]);
    }
    vec_drop(&r->blocks, nr);
    if (nr)
        forget_losses(r);
    return true;
}

/* Returns the block that takes the next record, or NULL when memory is out. */
static struct recent_block *block_now(struct recent *r, const struct record *rec)
{
    struct recent_block *b = r->blocks.nr ? &r->blocks.at[r->blocks.nr - 1] : NULL;
    bool is_full = b && (b->bytes.nr >= BLOCK_BYTES ||
                         (b->first && rec->time > b->first && rec->time - b->first >= BLOCK_NS));
    if (b && !is_full)
        return b;
    if (!vec_push(&r->blocks, (struct recent_block){0}) || !drain_old(r))
        return NULL;
    return &r->blocks.at[r->blocks.nr - 1];
}

static bool take_loss(struct recent *r, const struct record *rec)
{
    struct record_lost lost;
    return rec->type != PERF_RECORD_LOST || perfdata_lost(r->pd, rec, &lost, NULL) < 0 ||
           vec_push(&r->losses, (struct recent_loss){rec->time, lost.lost});
}

int recent_take(struct recent *r, const struct record *rec, struct error *err)
{
    bool is_mark = rec->type == PERF_RECORD_FINISHED_ROUND;
    if (!take_loss(r, rec))
        return error_no_memory(err);
    if (rec->type >= PERF_RECORD_USER_TYPE_START && !is_mark) {
        bool added = vec_append(&r->kept, rec->data, rec->size);
        r->state.kept = r->kept.nr;
        return added ? 0 : error_no_memory(err);
    }
    struct recent_block *b = block_now(r, rec);
    const struct recent_entry e = {rec->time, b ? (uint32_t)b->bytes.nr : 0, record_passes(r, rec)};
    if (!b || !vec_append(&b->bytes, rec->data, rec->size) || !vec_push(&b->entries, e))
        return error_no_memory(err);
    r->state.bytes += rec->size;
    if (!e.passes || !rec->time)
        return 0;
    b->first = b->first ? b->first : rec->time;
    b->newest = rec->time > b->newest ? rec->time : b->newest;
    r->state.newest = rec->time > r->state.newest ? rec->time : r->state.newest;
    return 0;
}

struct recent_state recent_state(const struct recent *r)
{
    return r->state;
}

uint64_t recent_lost(const struct recent *r, uint64_t from)
{
    uint64_t lost = 0;
    vec_foreach (l, &r->losses)
        lost += l->time >= from ? l->lost : 0;
    return lost;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Write a block's records but those of another time. Neighbours are written together. */
static int write_block(const struct recent_block *b, uint64_t from, uint64_t until, FILE *to)
{
    size_t begin = 0, end = 0;
    vec_foreach (e, &b->entries) {
        size_t size = entry_size(b, e);
        if (!e->passes || !e->time || (e->time >= from && e->time <= until)) {
            end = e->at + size;
            continue;
        }
        if (end > begin && !fwrite(b->bytes.at + begin, end - begin, 1, to))
            return -1;
        begin = end = e->at + size;
    }
    return end > begin && !fwrite(b->bytes.at + begin, end - begin, 1, to) ? -1 : 0;
}

/* Write everything. */
static int write_all(const struct recent *r, uint64_t from, uint64_t until, FILE *to)
{
    static const uint64_t head[PIPE_HEADER / 8] = {PERFDATA_MAGIC, PIPE_HEADER};
    int failed = fwrite(head, sizeof(head), 1, to) != 1 ||
                 fwrite(r->kept.at, 1, r->kept.nr, to) != r->kept.nr;
    for (size_t i = 0; i < r->blocks.nr && !failed; i++)
        failed = write_block(&r->blocks.at[i], from, until, to);
    return failed ? -1 : 0;
}

int recent_write(const struct recent *r, uint64_t from, uint64_t until, int fd, struct error *err)
{
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *to = own < 0 ? NULL : fdopen(own, "w");
    if (!to) {
        const int why = errno;
        if (own >= 0)
            close(own);
        return error_system(err, why, "the recording cannot be written");
    }
    /* What is left of old blocks are many small pieces. */
    (void)setvbuf(to, NULL, _IOFBF, OUT_BYTES);
    int failed = write_all(r, from, until, to);
    if (fclose(to) != 0 && !failed)
        failed = -1;
    return failed ? error_system(err, errno, "the recording cannot be written") : 0;
}
